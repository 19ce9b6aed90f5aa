"""The pictures of the experiments; each is written as PNG and SVG."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..evaluate import reliability
from .experiment_cells import Cell, Result, write_whole
from .result_tables import Score, Table

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#999999"  # told apart by the colour-blind, too
EARLY = 10  # sweeps at the beginning, in which the bound may be below the picture
MOST_FACTORS = 40  # in a picture


@dataclass(frozen=True)
class Figure:
    """A picture that was written (without its ending), and what it shows."""

    path: Path
    caption: str
    paper: str = ""  # what the paper says of its own


def _save(figure: Any, folder: Path, name: str, caption: str, paper: str = "") -> Figure:
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for ending in ("png", "svg"):
        drawn = io.BytesIO()
        figure.savefig(drawn, format=ending, dpi=130, bbox_inches="tight")
        write_whole(folder / f"{name}.{ending}", drawn.getvalue())
    plt.close(figure)
    return Figure(folder / name, caption, paper)


def _plt() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def latent_faces(
    folder: Path,
    name: str,
    settings: str,
    columns: np.ndarray,
    alpha: np.ndarray,
    shape: tuple[int, int],
    paper: str,
) -> Figure:
    plt = _plt()
    n = columns.shape[1]
    wide = min(8, n)
    figure, axes = plt.subplots(-(-n // wide), wide, figsize=(1.15 * wide, 2.0 * -(-n // wide)), squeeze=False)
    for k, ax in enumerate(axes.flat):
        ax.set_axis_off()
        if k < n:
            limit = np.abs(columns[:, k]).max()
            ax.imshow(columns[:, k].reshape(shape), cmap="gray", vmin=-limit, vmax=limit)
            ax.set_title(f"α {float(f'{alpha[k]:.2g}'):g}", fontsize=8)
    figure.tight_layout(pad=0.3)
    caption = (
        f"Latent faces ({settings}): the {n} most relevant columns of W of the pixels, each with its alpha (smaller: "
        "more relevant). Their signs mean nothing, and grey is 0 in each, the largest value black or white."
    )
    return _save(figure, folder, name, caption, paper)


def mask(
    folder: Path, name: str, settings: str, ranking: str, values: np.ndarray, shape: tuple[int, int], paper: str
) -> Figure:
    plt = _plt()
    figure, ax = plt.subplots(figsize=(2.8, 3.6))
    image = ax.imshow(values.reshape(shape), cmap="viridis", vmax=np.percentile(values, 99.5))
    ax.set_axis_off()
    label = "relevance, 1 / E[γ]" if ranking == "relevance" else "influence on the labels"
    figure.colorbar(image, ax=ax, shrink=0.8, label=label)
    rows = np.repeat(np.arange(shape[0]), shape[1])[np.argsort(-values)[: values.size // 10]]
    upper, middle, lower = np.bincount(np.minimum(3 * rows // shape[0], 2), minlength=3) / len(rows)
    caption = (
        f"{ranking.capitalize()} of each pixel ({settings}). Of the best tenth {100 * upper:.0f} % lie in the upper "
        f"third, {100 * middle:.0f} % in the middle, {100 * lower:.0f} % in the lower third."
    )
    return _save(figure, folder, name, caption, paper if ranking == "relevance" else "")


@dataclass(frozen=True)
class Point:
    """A model fitted on a share of the pixels."""

    share: float
    auc: float
    size: int
    kept: np.ndarray | None  # None: all
    converged: bool = True

    @classmethod
    def of(cls, cell: Cell, result: Result) -> Point:
        numbers = result.numbers
        kept, converged = result.arrays.get("kept"), numbers["converged"]
        return cls(cell.options["share"], numbers["auc"], numbers["size"], kept, converged)

    @property
    def score(self) -> Score:
        return Score(self.auc, converged=self.converged)


def auc_by_share(
    folder: Path, name: str, settings: str, curves: Mapping[str, Sequence[Point]], shape: tuple[int, int], paper: str
) -> Figure:
    """A curve for each ranking, and under it the pixels kept at each point."""
    plt = _plt()
    figure = plt.figure(figsize=(9, 3.2 + 1.5 * len(curves)))
    top = 2.7 / figure.get_figheight()
    ax = figure.add_axes((0.12, 1 - top - 0.02, 0.86, top))
    shares = sorted({point.share for curve in curves.values() for point in curve})
    places = {share: place for place, share in enumerate(shares)}
    whole = max(curve[-1].auc for curve in curves.values())
    words = []
    for row, (ranking, curve) in enumerate(curves.items()):
        colour, name_ = (ORANGE, BLUE, GREY)[row % 3], ranking if ranking == "random" else f"by {ranking}"
        ax.plot([places[p.share] for p in curve], [p.auc for p in curve], "o-", color=colour, label=name_)
        enough = next(p.share for p in curve if p.auc >= curve[-1].auc - 0.01)
        words.append(f"{100 * enough:.0f} % {name_}")
        for point in curve:
            shown = np.zeros(shape[0] * shape[1])
            shown[slice(None) if point.kept is None else point.kept] = 1
            left = 0.12 + 0.86 * (places[point.share] + 0.5) / len(shares) - 0.035
            height = 1.25 / figure.get_figheight()
            small = figure.add_axes((left, 0.02 + (len(curves) - 1 - row) * 1.12 * height, 0.07, height))
            small.imshow(shown.reshape(shape), cmap="gray", vmin=0, vmax=1)
            small.set_xticks([])
            small.set_yticks([])
            if point is curve[0]:
                small.set_ylabel(ranking, color=colour)
    ax.axhline(whole, color=GREY, lw=0.8, ls="--")
    ax.set_xticks(list(places.values()), [f"{100 * share:.0f} %" for share in places])
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.set_ylabel("AUC on test faces")
    ax.legend(frameon=False)
    caption = (
        f"AUC against the share of pixels kept ({settings}), the model fitted anew on each share; below, the pixels "
        f"kept. To come within 0.01 of all pixels ({whole:.3f}) it takes {', '.join(words)}."
    )
    return _save(figure, folder, name, caption, paper)


def scores(folder: Path, table: Table, ours: Callable[[str], bool]) -> Figure:
    """A table of AUCs as dots: a panel for each column, ours in blue, the paper's hollow."""
    plt = _plt()
    records = table.records
    rows = list(dict.fromkeys(r["row"] for r in records))
    columns = list(dict.fromkeys(r["column"] for r in records))
    size = (2.4 + 2.4 * len(columns), 0.8 + 0.2 * len(rows))
    figure, axes = plt.subplots(1, len(columns), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for ax, column in zip(axes.flat, columns):
        for r in records:
            if r["column"] == column:
                y, colour = len(rows) - rows.index(r["row"]), BLUE if ours(r["row"]) else ORANGE
                ax.errorbar(r["auc"], y, xerr=r["std"], fmt="o", ms=5, color=colour)
                if r["paper"] is not None:
                    ax.plot(r["paper"], y, "o", ms=5, mfc="none", mec=GREY)
        ax.set_title(column, fontsize=9)
        ax.set_yticks(range(1, len(rows) + 1), rows[::-1], fontsize=8)
        ax.grid(axis="x", lw=0.4)
        ax.tick_params(axis="x", labelsize=8)
    figure.supxlabel("AUC", fontsize=9)
    caption = "The table as dots: ours blue, others orange, the paper's own figures hollow."
    return _save(figure, folder, f"{table.name}-scores", caption)


def bounds(folder: Path, name: str, whose: str, paths: Sequence[np.ndarray]) -> Figure:
    plt = _plt()
    figure, ax = plt.subplots(figsize=(5, 3.2))
    for i, path in enumerate(paths):
        ax.plot(np.arange(1, len(path) + 1), path, label=f"start {i + 1}", color=(BLUE, ORANGE, GREY)[i % 3])
    ends = [path[-1] for path in paths]
    middle = np.concatenate([path[min(EARLY, len(path) // 2) :] for path in paths])
    ax.set_ylim(middle.min(), max(ends) + 0.05 * (max(ends) - middle.min() + 1))
    ax.set_xlabel("sweep")
    ax.set_ylabel("bound (nats)")
    ax.legend(frameon=False)
    together = f" They end within {max(ends) - min(ends):.0f} nats of each other." if len(ends) > 1 else ""
    caption = f"{whose}: the bound of each start, from its lowest value after the {EARLY}th sweep upwards.{together}"
    return _save(figure, folder, name, caption)


def variance_explained(folder: Path, name: str, whose: str, r2: np.ndarray, views: Sequence[str]) -> Figure:
    """Factors by views; the last row of `r2`, all factors together, stands in the labels."""
    from matplotlib.colors import PowerNorm

    plt = _plt()
    n_factors, factors = len(r2) - 1, r2[:-1][:MOST_FACTORS]
    figure, ax = plt.subplots(figsize=(1.6 + 0.9 * len(views), 1 + 0.16 * len(factors)))
    roots = PowerNorm(0.5, vmin=0)  # small shares can be told from none
    from_1 = (-0.5, len(views) - 0.5, len(factors) + 0.5, 0.5)  # factors are counted from 1
    image = ax.imshow(100 * factors, aspect="auto", cmap="Blues", norm=roots, extent=from_1)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xticks(range(len(views)), [f"{view}\n{100 * total:.0f} % in all" for view, total in zip(views, r2[-1])])
    ax.set_ylabel("factor")
    figure.colorbar(image, ax=ax, label="variance explained, %")
    shared = int((r2[:-1] > 0.005).all(axis=1).sum())
    which = f"each of the first {MOST_FACTORS} of {n_factors} factors" if n_factors > MOST_FACTORS else "each factor"
    caption = (
        f"{whose}: variance that {which} explains in each view; {shared} factors explain over 0.5 % of every view."
    )
    return _save(figure, folder, name, caption)


def calibration(folder: Path, name: str, whose: str, truth: np.ndarray, scores: np.ndarray) -> Figure:
    """Predicted against observed shares, the points as large as the logarithm of the cells in each."""
    plt = _plt()
    table = reliability(truth, scores)
    figure, ax = plt.subplots(figsize=(3.6, 3.4))
    ax.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls="--")
    ax.plot(table["predicted"], table["observed"], color=BLUE)
    ax.scatter(table["predicted"], table["observed"], 8 * np.log1p(table["n"]), color=BLUE)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share that was true")
    off = float(np.average((table["predicted"] - table["observed"]).abs(), weights=table["n"]))
    caption = (
        f"{whose}: calibration on the test rows, the points larger where there are more cells. The mean "
        f"calibration error is {off:.3f}."
    )
    return _save(figure, folder, name, caption)
