"""Hidden cells: how they were predicted, and whether the predictions are calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..evaluate import Check, reliability
from ..evaluate.confidence import binomial_interval
from .canvas import GREY, MOST_POINTS, PALETTE, heat, make_axes, make_panels, say_instead, short, without_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.linspace(0.05, 0.95, 19)  # of the intervals whose coverage is told
FEWEST = 10  # cells of a bin


def imputation_data(checks: dict[str, Check], view: str) -> pd.DataFrame:
    """The hidden cells of a view: row, feature, truth, predicted; of numbers also std. Levels are counted 0, 1 ...

    `checks` comes from `sshiba.evaluate.check`.
    """
    one = _one_check(checks, view)
    rows, columns = np.nonzero(one.hidden)
    table = pd.DataFrame(
        {
            "row": rows,
            "feature": pd.array(one.names, dtype=object)[columns],
            "truth": one.truth[rows, columns],
            "predicted": one.found[rows, columns],
        }
    )
    return table if one.std is None else table.assign(std=one.std[rows, columns])


def imputation(checks: dict[str, Check], view: str, ax: Axes | None = None) -> Axes:
    """Hidden cells as they were predicted against what they were (of labels: their probabilities by outcome; of levels
    how often each was taken for each).
    """
    cells = imputation_data(checks, view)
    if cells.empty:
        raise ValueError(f"no cell of view {view!r} was hidden: raise fraction.")
    ax = make_axes(ax, 5, 4.6)
    scores = checks[view].scores()
    if checks[view].levels:
        return _levels_taken(cells[cells["truth"] >= 0], scores, view, ax)
    if "std" not in cells:
        edges = np.linspace(0, 1, 21)
        for outcome, shade, words in ((0, GREY, "was not so"), (1, PALETTE[0], "was so")):
            shares = cells["predicted"][cells["truth"] == outcome]
            dense = len(shares) > 0
            ax.hist(shares, edges.tolist(), color=shade, alpha=0.7, density=dense, label=f"{words} ({len(shares):,})")
        ax.set(xlabel="predicted probability", ylabel="density")
        ax.legend(frameon=False)
        area = "" if np.isnan(scores["auc"]) else f"AUC {scores['auc']:.2f} on "
        ax.set_title(f"{short(view)}: {area}{checks[view].n_hidden:,} hidden cells")
        return without_box(ax)
    # Features of different units share one picture in standard deviations.
    x, y = (checks[view].standardised(part)[checks[view].hidden] for part in ("truth", "found"))
    if len(x) > MOST_POINTS:
        x, y = np.random.default_rng(0).choice(np.stack([x, y]), MOST_POINTS, replace=False, axis=1)
    ax.axline((0, 0), slope=1, color="black", lw=0.8)
    ax.scatter(x, y, s=float(np.clip(4000 / len(x), 3, 25)), color=PALETTE[0], alpha=0.4, lw=0)
    # A few far cells would press all others into a spot: they lie outside.
    for limit, values in ((ax.set_xlim, x), (ax.set_ylim, y)):
        low, high = np.quantile(values, [0.002, 0.998])
        margin = 0.1 * (high - low) or 1.0
        limit(low - margin, high + margin)
    ax.set(xlabel="hidden value (std of its feature)", ylabel="predicted")
    ax.set_title(f"{short(view)}: R² {scores.get('r2', np.nan):.2f} on {len(cells):,} hidden cells")
    return without_box(ax)


def _levels_taken(cells: pd.DataFrame, scores: dict[str, float], view: str, ax: Axes) -> Axes:
    """The share of the cells of each level that was predicted to be of each."""
    n_levels = int(cells[["truth", "predicted"]].to_numpy().max()) + 1
    counts = np.zeros((n_levels, n_levels))
    np.add.at(counts, (cells["predicted"].astype(int), cells["truth"].astype(int)), 1)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    heat(ax, shares, "cividis", 0, 1, "share of the cells of a level", aspect="equal")
    ax.invert_yaxis()
    ax.set(xticks=range(n_levels), yticks=range(n_levels), xlabel="hidden level, counted from 0", ylabel="predicted")
    error = "" if np.isnan(scores["smae"]) else f"\nerror {scores['smae']:.2f} of the median's"
    ax.set_title(f"{short(view)}: {len(cells):,} hidden cells{error}")
    return ax


def calibration_data(checks: dict[str, Check], view: str) -> pd.DataFrame:
    """What was predicted against what was observed: predicted, observed, n, low, high.

    Numbers: the share of hidden cells inside central intervals of each level. Others: how often what was given a
    probability was true, in ten bins; each class, and each level of an ordinal feature, has one. Bins of fewer than 10
    cells are joined with the next. `low` and `high` are 95 % binomial intervals of `observed`, as if cells were
    independent.
    """
    cells = imputation_data(checks, view)
    if "std" in cells:
        away = np.abs(checks[view].ranks() - 0.5)
        observed = [float(np.mean(away <= level / 2)) for level in LEVELS] if len(cells) else []
        table = pd.DataFrame({"predicted": LEVELS[: len(observed)], "observed": observed, "n": len(cells)})
        table = table if len(cells) >= FEWEST else table.iloc[:0]
    else:
        table = reliability(*checks[view].events(), least=FEWEST)
    low, high = binomial_interval(np.round(table["observed"] * table["n"]), table["n"])
    return table.assign(low=low, high=high)


def calibration(checks: dict[str, Check], ax: Axes | None = None) -> Axes:
    """What was predicted against what was observed, a square for each view: on the diagonal, a model is calibrated.

    Lines are real views (coverage of intervals), points others (how often what was given a probability was true). The
    shaded bands and bars are 95 % binomial intervals.
    """
    tables = {name: calibration_data(checks, name) for name in checks}
    tables = {name: table for name, table in tables.items() if len(table)}
    if not tables:
        return say_instead(ax, "Calibration on hidden cells", f"fewer than {FEWEST} cells were hidden")
    ax, panels = make_panels(ax, len(tables), 4, (2.3, 2.6), (0.18, 0.66))
    ax.set_title("Calibration on hidden cells", y=1.0, pad=36)
    for number, (panel, (name, table)) in enumerate(zip(panels, tables.items())):
        panel.plot([0, 1], [0, 1], color="black", lw=0.8)
        if checks[name].std is not None:
            panel.fill_between(table["predicted"], table["low"], table["high"], color=PALETTE[0], alpha=0.25, lw=0)
            panel.plot(table["predicted"], table["observed"], color=PALETTE[0])
            across = "level of intervals"
        else:
            reach = np.stack([table["observed"] - table["low"], table["high"] - table["observed"]])
            panel.errorbar(
                table["predicted"], table["observed"], np.maximum(reach, 0), fmt="o", ms=4, lw=1, color=PALETTE[0]
            )
            across = "probability"
        ticks = [0, 0.5, 1]
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=ticks, yticks=ticks, xlabel=across)
        panel.set_ylabel("observed" if number % 4 == 0 else "")
        panel.set_title(f"{short(name, 18)}\n{checks[name].n_hidden:,} cells", fontsize=9)
        without_box(panel)
    return ax


def _one_check(checks: dict[str, Check], view: str) -> Check:
    if view not in checks:
        raise ValueError(f"unknown view {view!r}; there are {list(checks)}.")
    return checks[view]
