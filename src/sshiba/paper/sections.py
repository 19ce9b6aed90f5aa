"""What each experiment shows: its tables, pictures and goals, from the cells that are done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from .. import datasets
from . import faces as faces_module
from . import figures, missing, multiview, paper
from .labels import AVIRIS_CODINGS, AVIRIS_PIXELS, QUICK_PIXELS, codings
from .methods import METHODS, OURS
from .result_tables import EMPTY, Found, Goal, Score, Table, goal, grid, pick, score

COLUMNS = ("complete", "20 %")


@dataclass(frozen=True)
class Section:
    """One experiment on the page."""

    title: str
    text: str
    tables: list[Table] = field(default_factory=list)
    pictures: list[figures.Figure] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)


CUT_NOTE = " † The fit stopped at its limit of sweeps."


def is_quick(found: Found) -> bool:
    return any(cell.options["quick"] for cell, _ in found.values())


def cut_note(*tables: Table) -> str:
    return CUT_NOTE if any(not record.get("converged", True) for table in tables for record in table.records) else ""


def is_ours(row: str) -> bool:
    return row.startswith(("SSHIBA", "nothing"))


def in_column(column: str) -> Callable[[str], bool]:
    return lambda part: part.startswith(column)


def reported(table: dict, row: str, column: str) -> paper.Reported | None:
    return table.get((row.partition(",")[0] if row in OURS else row, column))


def yeast(found: Found, folder: Path) -> Section:
    def place(row: str, column: str) -> Score | None:
        return score(pick(found, method=row, part=in_column(column)))

    table = grid(
        "yeast",
        "Table A. Yeast: AUC of 14 labels on 917 test rows (factors, components or hidden units)",
        METHODS,
        COLUMNS,
        place,
        lambda row, column: reported(paper.YEAST, row, column),
    )
    goals = []
    for column in COLUMNS:
        scores = {row: place(row, column) for row in METHODS}
        goals += goal(f"yeast, {column}", *split(scores), paper.YEAST["SSHIBA", column].auc)
    fifths = "two" if is_quick(found) else "five"
    text = (
        f"103 real features, 14 labels, the official split (1,500 / 917). 20 %: mean ± deviation over {fifths} fifths."
        f"{cut_note(table)}"
    )
    pictures = [
        figures.scores(folder, table, is_ours),
        *label_pictures(found, folder, "yeast", "Tuned", method=OURS[2]),
    ]
    return Section("Yeast", text, [table], pictures, goals)


def split(scores: dict[str, Score | None]) -> tuple[dict[str, Score | None], dict[str, Score | None]]:
    """Ours, and the others."""
    ours = {row: value for row, value in scores.items() if row.startswith("SSHIBA")}
    return ours, {row: value for row, value in scores.items() if row not in ours}


def label_pictures(found: Found, folder: Path, name: str, whose: str, **wanted: Any) -> list[figures.Figure]:
    """Bounds, variance explained and calibration of one fit on the complete training set."""
    results = [result for result in pick(found, part="complete", **wanted) if result.arrays]
    if not results:
        return []
    arrays = results[0].arrays
    paths = [arrays[key] for key in sorted(arrays) if key.startswith("elbo_")]
    return [
        figures.bounds(folder, f"{name}-bounds", whose, paths),
        figures.variance_explained(folder, f"{name}-variance", whose, arrays["r2"], ["inputs", "labels"]),
        figures.calibration(folder, f"{name}-calibration", whose, arrays["truth"], arrays["scores"]),
    ]


def aviris(found: Found, folder: Path) -> Section:
    tables, goals = [], []
    rows = {}
    for method in METHODS:
        for coding in codings(method):
            rows[f"{method}, {coding}" if len(codings(method)) > 1 else method] = (method, coding)
    some = f"{QUICK_PIXELS:,} of the " if is_quick(found) else ""
    titles = {
        "labelled": f"Table B1. AVIRIS, {some}10,249 labelled pixels only: AUC of 16 crops on the test 30 %",
        "all": f"Table B2. AVIRIS, {some or 'all '}21,025 pixels, the background without label or as one more class "
        "(not scored)",
    }

    def its(row: str, column: str) -> paper.Reported | None:
        method, coding = rows[row]
        return paper.AVIRIS.get((f"SSHIBA, {coding}" if method in OURS else method, column))

    for pixels in AVIRIS_PIXELS:

        def place(row: str, column: str, pixels: str = pixels) -> Score | None:
            method, coding = rows[row]
            return score(pick(found, pixels=pixels, method=method, coding=coding, part=in_column(column)))

        tables.append(grid(f"aviris-{pixels}", titles[pixels], rows, COLUMNS, place, its))
        for column in COLUMNS:
            ours, others = split({row: place(row, column) for row in rows})
            for coding in AVIRIS_CODINGS:
                mine = {row: value for row, value in ours.items() if rows[row][1] == coding}
                what = f"AVIRIS, {pixels} pixels, {coding}, {column}"
                goals += goal(what, mine, others, paper.AVIRIS[f"SSHIBA, {coding}", column].auc)
    text = (
        "200 bands (the paper: 220), 70 / 30 split by class. The paper does not say how it treated the 10,776 pixels "
        f"without a crop; both ways are shown, and its figures stand beside both.{cut_note(*tables)}"
    )
    pictures = [figures.scores(folder, table, is_ours) for table in tables if table.records]
    shown = {"pixels": "labelled", "coding": "categorical", "method": OURS[1]}
    pictures += label_pictures(found, folder, "aviris", "Defaults, labelled pixels, classes", **shown)
    return Section("AVIRIS Indian Pines", text, tables, pictures, goals)


def missing_data(found: Found, folder: Path) -> Section:
    rows = {row: kind for row, kind in missing.LINES.items() if pick(found, row=kind[0], settings=kind[1])}

    def place(row: str, column: str) -> Score | None:
        return score(pick(found, row=rows[row][0], settings=rows[row][1], data=column))

    def its(row: str, column: str) -> paper.Reported | None:
        return paper.MISSING.get((rows[row][0].replace(", exact", "").replace(", mean-field", ""), column))

    title = "Table C. Half of the training inputs removed at random: AUC of the test labels (factors)"
    table = grid("missing", title, rows, missing.DATA, place, its)
    goals = []
    for data in missing.DATA:
        at = {row: place(row, data) for row in rows}
        for kind in ("nothing missing, predictive", "nothing missing, semi-supervised"):
            ours = {row: value for row, value in at.items() if rows[row][0] == kind}
            goals += goal(f"{data}, {kind}", ours, {}, paper.MISSING[kind, data].auc)
        ours = {row: value for row, value in at.items() if row.startswith("SSHIBA")}
        others = {row: value for row, value in at.items() if not row.startswith(("SSHIBA", "nothing"))}
        goals += goal(f"{data}, half missing", ours, others, paper.MISSING["SSHIBA's own", data].auc)
    text = (
        "The test rows join the fit without labels, except where it says predictive. AVIRIS: labelled pixels, classes. "
        "An imputer's row is the same semi-supervised fit after that imputation of the training inputs. For the "
        "removed cells the two do not know the same: ours has the inputs of the test rows and the training labels, "
        "too. Where nothing is missing, other methods are in tables A and B1."
        f"{cut_note(table)}"
    )
    pictures = [figures.scores(folder, table, is_ours)]
    return Section("Missing data", text, [table, cell_table(found, rows)], pictures, goals)


def cell_table(found: Found, rows: dict[str, tuple[str, str]]) -> Table:
    """Beyond the paper: how well the removed cells themselves are known."""
    lines, records = [], []
    for row, (kind, settings) in rows.items():
        line, filled = {"": row}, False
        for data in missing.DATA:
            results = pick(found, row=kind, settings=settings, data=data)
            numbers = results[0].numbers if results else {}
            covered = numbers.get("coverage")
            nothing = "" if numbers else EMPTY
            line[f"{data}: RMSE"] = f"{numbers['rmse']:.3f}" if "rmse" in numbers else nothing
            line[f"{data}: coverage"] = "" if covered is None else f"{covered:.3f}"
            line[f"{data}: label accuracy"] = f"{numbers['label_accuracy']:.3f}" if numbers else EMPTY
            filled |= bool(numbers)
            if numbers:
                kept = ("rmse", "coverage", "label_accuracy")
                records.append({"row": row, "data": data, **{key: numbers.get(key) for key in kept}})
        if filled:
            lines.append(line)
    title = "The removed cells: RMSE in standard deviations, coverage of 90 % intervals; accuracy of the test labels"
    return Table("missing-cells", title, pd.DataFrame(lines), records)


def faces(found: Found, folder: Path) -> Section:
    tables, pictures, goals = [], [], []
    for target in faces_module.TARGETS:
        tables += face_table(found, target)
        wanted, said = 0.4 if target == "identity" else 0.5, paper.FACES[target]
        near: dict[str, dict[str, Score | None]] = {}  # ranking -> share and settings -> the score
        for settings, short in faces_module.SETTINGS.items():
            curves = face_curves(found, target, settings)
            whole = pick(found, target=target, settings=settings, share=1.0)
            if not whole:
                continue
            name = f"{target}-{short}"
            pictures += face_pictures(folder, name, settings, whole[0].arrays, said)
            for ranking, curve in curves.items():
                closest = min(curve, key=lambda point: abs(point.share - wanted))
                if closest.share < 1:
                    near.setdefault(ranking, {})[f"{100 * closest.share:.0f} %; {settings}"] = closest.score
            near.setdefault("all", {})[settings] = Score(whole[0].numbers["auc"])
            if all(len(curve) > 1 for curve in curves.values()):
                shape = datasets.FACE_SHAPE
                pictures.append(figures.auc_by_share(folder, f"auc-by-share-{name}", settings, curves, shape, said))
        for ranking in faces_module.MASKS:
            others = {f"{kind}, {at}": value for kind in ("all", "random") for at, value in near.get(kind, {}).items()}
            goals += goal(f"faces, {target}: a part of the pixels, by {ranking}", near.get(ranking, {}), others, None)
    some = f" ({faces_module.QUICK_FACES:,} of each here)" if is_quick(found) else ""
    text = (
        f"Identity: 1,277 pictures of seven people. Attributes: 13,143 faces, 73 attributes{some}. All from the model "
        "of all pixels, fitted on the training 70 %. Relevance, 1 / E[gamma], is the paper's: which pixels the factors "
        "describe, whatever the labels. Influence says which pixels move the prediction of the labels. Random pixels "
        "are the control: neighbours say much the same."
        f"{cut_note(*tables)}"
    )
    return Section("Faces: feature selection", text, tables, pictures, goals)


def face_curves(found: Found, target: str, settings: str) -> dict[str, list[figures.Point]]:
    """For each ranking the models on more and more pixels; all pixels are the last of each."""
    curves = {}
    for ranking in faces_module.RANKINGS:
        cells = [
            pair
            for pair in found.values()
            if (pair[0].options["target"], pair[0].options["settings"]) == (target, settings)
            and pair[0].options["ranking"] in ("", ranking)
        ]
        curves[ranking] = sorted((figures.Point.of(*pair) for pair in cells), key=lambda point: point.share)
    return curves


def face_table(found: Found, target: str) -> list[Table]:
    """Rankings by shares of the pixels; nothing where nothing is done."""
    lines, records = [], []
    for settings in faces_module.SETTINGS:
        for ranking, curve in face_curves(found, target, settings).items():
            words = ranking if ranking == "random" else f"by {ranking}"
            line = {"": f"{words}; {settings}"}
            for point in curve:
                line[f"{100 * point.share:.0f} %"] = str(point.score)
                record = {"row": line[""], "share": point.share, "auc": point.auc, "size": point.size}
                records.append(record | {"converged": point.converged})
            lines += [line] if curve else []
    if not lines:
        return []
    frame = pd.DataFrame(lines)
    shares = sorted(frame.columns[1:], key=lambda share: float(share.rstrip("%")))
    title = f"{target.capitalize()}: AUC of models fitted anew on a share of the pixels"
    return [Table(f"faces-{target}", title, frame[["", *shares]].fillna(EMPTY), records)]


def face_pictures(folder: Path, name: str, settings: str, arrays: dict[str, Any], said: str) -> list[figures.Figure]:
    shape, latent = datasets.FACE_SHAPE, arrays["latent_faces"]
    return [
        figures.latent_faces(folder, f"latent-faces-{name}", settings, latent, arrays["alpha"], shape, said),
        *(
            figures.mask(folder, f"{mask}-{name}", settings, mask, arrays[mask], shape, said)
            for mask in faces_module.MASKS
        ),
    ]


def several_views(found: Found, folder: Path) -> Section:
    rows = [method for method in METHODS if method != "BIBFA"]

    def place(row: str, column: str) -> Score | None:
        """Without views a method that does not know the identity has only the pixels."""
        views = multiview.TWO if column == multiview.UNKNOWN and row not in OURS else column
        return score(pick(found, method=row, views=views))

    def its(row: str, column: str) -> paper.Reported | None:
        return reported(paper.MULTIVIEW, row, column.partition(",")[0])

    title = "Table D. Seven people: AUC of 73 attributes on the test 30 %, without and with identity as a third view"
    table = grid("multiview", title, rows, multiview.VIEWS, place, its)
    goals = []
    for column in multiview.VIEWS:
        scores = {row: place(row, column) for row in rows}
        goals += goal(column, *split(scores), paper.MULTIVIEW["SSHIBA", column.partition(",")[0]].auc)
    left_out = max((result.numbers["left_out"] for result in pick(found)), default=0)
    text = (
        "The paper does not say whether the identity of the test rows was known; both are shown. Other methods take "
        "identity as inputs; where it is unknown they have the pixels alone, as with two views. "
        f"{left_out} attributes have one outcome only in the test rows and are left out.{cut_note(table)}"
    )
    return Section("Several views", text, [table], [figures.scores(folder, table, is_ours)], goals)


SECTIONS: dict[str, Callable[[Found, Path], Section]] = {
    "yeast": yeast,
    "aviris": aviris,
    "missing": missing_data,
    "faces": faces,
    "multiview": several_views,
}
