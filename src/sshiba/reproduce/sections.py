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
from .labels import AVIRIS_CODINGS, AVIRIS_PIXELS
from .methods import METHODS, OURS
from .tables import EMPTY, Found, Goal, Score, Table, goal, grid, pick, score

COLUMNS = ("complete", "20 %")


@dataclass(frozen=True)
class Section:
    """One experiment on the page."""

    title: str
    text: str
    tables: list[Table] = field(default_factory=list)
    pictures: list[figures.Figure] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)


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
    text = "103 real features, 14 labels, the official split (1,500 / 917). 20 %: mean ± deviation over five fifths."
    return Section("Yeast", text, [table], label_pictures(found, folder, "yeast", method=OURS[2]), goals)


def split(scores: dict[str, Score | None]) -> tuple[dict[str, Score | None], dict[str, Score | None]]:
    """Ours, and the others."""
    ours = {row: value for row, value in scores.items() if row.startswith("SSHIBA")}
    return ours, {row: value for row, value in scores.items() if row not in ours}


def label_pictures(found: Found, folder: Path, name: str, **wanted: Any) -> list[figures.Figure]:
    """Bounds, variance explained and calibration of one fit on the complete training set."""
    results = [result for result in pick(found, part="complete", **wanted) if result.arrays]
    if not results:
        return []
    arrays = results[0].arrays
    paths = [arrays[key] for key in sorted(arrays) if key.startswith("elbo_")]
    return [
        figures.bounds(folder, f"{name}-bounds", paths),
        figures.variance_explained(folder, f"{name}-variance", arrays["r2"], ["inputs", "labels"]),
        figures.calibration(folder, f"{name}-calibration", arrays["truth"], arrays["scores"]),
    ]


def aviris(found: Found, folder: Path) -> Section:
    tables, goals = [], []
    rows = {f"{method}, {coding}": (method, coding) for method in OURS for coding in AVIRIS_CODINGS}
    rows |= {method: (method, "categorical") for method in METHODS if method not in OURS}
    titles = {
        "labelled": "Table B1. AVIRIS, labelled pixels only (10,249): AUC of 16 crops on the test 30 %",
        "all": "Table B2. AVIRIS, all 21,025 pixels, the background without label or as one more class (not scored)",
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
            scores = {row: place(row, column) for row in rows}
            best = max(paper.AVIRIS[f"SSHIBA, {coding}", column].auc for coding in AVIRIS_CODINGS)
            goals += goal(f"AVIRIS, {pixels} pixels, {column}", *split(scores), best)
    text = (
        "200 bands (the paper: 220), 70 / 30 split by class. The paper does not say how it treated the 10,776 pixels "
        "without a crop; both ways are shown, and its figures stand beside both."
    )
    pictures = label_pictures(found, folder, "aviris", pixels="labelled", coding="categorical", method=OURS[1])
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
        "An imputer's row is the same semi-supervised fit after that imputation of the training inputs."
    )
    return Section("Missing data", text, [table, cell_table(found, rows)], [], goals)


def cell_table(found: Found, rows: dict[str, tuple[str, str]]) -> Table:
    """Beyond the paper: how well the removed cells themselves are known."""
    lines, records = [], []
    for row, (kind, settings) in rows.items():
        line, filled = {"": row}, False
        for data in missing.DATA:
            results = pick(found, row=kind, settings=settings, data=data)
            numbers = results[0].numbers if results else {}
            covered = numbers.get("coverage")
            line[f"{data}: RMSE"] = f"{numbers['rmse']:.3f}" if "rmse" in numbers else EMPTY
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
    pictures, lines, goals = [], [], []
    for target in faces_module.TARGETS:
        whole = pick(found, target=target, share=1.0)
        if not whole:
            continue
        arrays, shape, said = whole[0].arrays, datasets.FACE_SHAPE, paper.FACES[target]
        latent = arrays["latent_faces"]
        pictures.append(figures.latent_faces(folder, f"latent-faces-{target}", latent, arrays["alpha"], shape, said))
        for ranking in faces_module.RANKINGS:
            pictures.append(figures.mask(folder, f"{ranking}-{target}", ranking, arrays[ranking], shape, said))
        curves = {}
        for ranking in faces_module.RANKINGS:
            cells = [pair for pair in found.values() if pair[0].options["target"] == target]
            cells = [pair for pair in cells if pair[0].options["ranking"] in ("", ranking)]
            curve = sorted((figures.Point.of(*pair) for pair in cells), key=lambda point: point.share)
            curves[ranking] = curve
            for point in curve[:-1] if ranking != faces_module.RANKINGS[-1] else curve:
                line = {
                    "labels": target,
                    "pixels ranked by": ranking if point.share < 1 else "",
                    "AUC": f"{point.auc:.3f}",
                }
                lines.append(line | {"share of pixels": f"{point.share:.0%}", "factors": point.size})
            if len(curve) < 2:  # nothing to compare with all pixels yet
                continue
            wanted = 0.4 if target == "identity" else 0.5
            near = min(curve, key=lambda point: abs(point.share - wanted))
            ours: dict[str, Score | None] = {f"{near.share:.0%} by {ranking}": Score(near.auc)}
            goals += goal(f"faces, {target}: few pixels against all", ours, {"all": Score(curve[-1].auc)}, None)
        if all(len(curve) > 1 for curve in curves.values()):
            pictures.append(figures.auc_by_share(folder, f"auc-by-share-{target}", curves, shape, said))
    table = Table("faces", "AUC of models fitted anew on the best pixels", pd.DataFrame(lines))
    text = (
        "Identity: 1,277 pictures of seven people. Attributes: 13,143 faces, 73 attributes. All from the model of all "
        "pixels, fitted on the training 70 %. Relevance, 1 / E[gamma], is the paper's: which pixels the factors "
        "describe, and most of those are background. Influence says which pixels move the prediction of the labels."
    )
    return Section("Faces: feature selection", text, [table] if lines else [], pictures, goals)


def several_views(found: Found, folder: Path) -> Section:
    rows = [method for method in METHODS if method != "BIBFA"]

    def place(row: str, column: str) -> Score | None:
        return score(pick(found, method=row, views=column))

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
        f"identity as inputs. {left_out} attributes have one outcome only in the test rows and are left out."
    )
    return Section("Several views", text, [table], [], goals)


SECTIONS: dict[str, Callable[[Found, Path], Section]] = {
    "yeast": yeast,
    "aviris": aviris,
    "missing": missing_data,
    "faces": faces,
    "multiview": several_views,
}
