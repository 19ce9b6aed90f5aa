"""Rows on their factors: scatters, pairs, swarms by label, a feature beside a factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..fitted.answers import Answers
from ..fitted.fitted import Fitted, FittedModel, fitted_of
from .association_pictures import association_table, in_words, names_of
from .canvas import (
    DIVERGING,
    MOST_POINTS,
    PALETTE,
    UNKNOWN,
    heat,
    make_axes,
    make_panels,
    point_size,
    say_instead,
    short,
    whole_ticks,
    without_box,
)
from .coloring import coloring, is_scale, label_colors, label_order
from .lookup import factor_place, feature_numbers, feature_place, row_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PAIRED = 5  # factors of a pair plot, unless some are named
SWARM_BINS = 40  # heights at which points of a swarm lie side by side
SWARM_WIDTH = 0.42  # half of the room of a label
LEAST_VIOLIN = 8  # rows from which on the shape of a distribution is drawn
CURVE = 201  # points of a fitted line
JITTER = 0.08  # by which points of labels are moved up and down


def swarm(values: np.ndarray, labels: np.ndarray, n_bins: int = SWARM_BINS) -> np.ndarray:
    """How far each point is moved aside so that none lies on another, (n,) between -1 and 1.

    Points of one label and about one height lie side by side, the middle first; the fullest height fills the width.
    """
    edges = np.linspace(values.min(initial=0.0), values.max(initial=0.0), n_bins + 1)[1:-1]
    place = pd.DataFrame({"label": labels, "bin": np.digitize(values, edges), "value": values})
    groups = place.groupby(["label", "bin"], sort=False)["value"]
    number, size = groups.cumcount().to_numpy(), groups.transform("size").to_numpy()
    side = np.where(number % 2 == 0, number // 2, -(number // 2) - 1)  # 0, -1, 1, -2, 2 ...
    centred = side + np.where(size % 2 == 0, 0.5, 0.0)
    return centred / max(float(np.abs(centred).max(initial=0.0)), 4.0)  # few points stay near the middle


def factors_data(model: FittedModel, x: int = 1, y: int = 2, color: Any = None, views: Any = None) -> pd.DataFrame:
    """Two factors, counted from 1, of each training row with their standard deviations, and what colours the points.

    Of a model with one factor y is how far a point is moved aside so that it can be seen.
    """
    fit = fitted_of(model)
    alone = fit.n_components == 1
    values, stds = fit.factors, fit.factors_std
    across, up = factor_place(fit, x), factor_place(fit, 1 if alone else y)
    nothing = np.zeros(len(values))
    table = pd.DataFrame(
        {
            "x": values[:, across],
            "y": swarm(values[:, across], nothing) if alone else values[:, up],
            "x_std": stds[:, across],
            "y_std": nothing if alone else stds[:, up],
        },
        index=fit.index,
    )
    return table if color is None else table.assign(color=row_values(fit, color, views).array)


def factors(
    model: FittedModel, x: int = 1, y: int = 2, color: Any = None, views: Any = None, ax: Axes | None = None
) -> Axes:
    """The training rows on two factors, coloured by anything with a value for each row: numbers, labels, dates.

    `x` and `y` count factors from 1. `color` is an array, a Series, which goes by its index, or the name of a factor, a
    column or a view of one column; names of columns need the data, `views`. One factor alone is a swarm.
    """
    fit = fitted_of(model)
    if fit.n_components == 0:
        return say_instead(ax, "Factors")
    table = factors_data(fit, x, y, color, views)
    values = None if color is None else row_values(fit, color, views)
    ax = make_axes(ax, 6, 4.8)
    kept = _some_rows(len(table))
    how = coloring(None if values is None else values.iloc[kept], len(kept))
    how.draw(ax, table["x"].iloc[kept], table["y"].iloc[kept])
    how.explain(ax)
    names = fit.factor_names
    ax.set(xlabel=names[x - 1], title="Factors")
    if len(names) > 1:
        ax.set_ylabel(names[y - 1])
    else:
        ax.set(yticks=[], ylim=(-2, 2), ylabel="rows")
    return without_box(ax)


def _some_rows(n: int) -> np.ndarray:
    """Which rows are drawn, where there are too many."""
    return np.arange(n) if n <= MOST_POINTS else np.sort(np.random.default_rng(0).permutation(n)[:MOST_POINTS])


def factor_pairs_data(
    model: FittedModel, factors: Sequence[int] | None = None, color: Any = None, views: Any = None
) -> pd.DataFrame:
    """Some factors, counted from 1, of each training row, and what colours the points; the first 5 if not said."""
    fit = fitted_of(model)
    chosen = range(1, min(MOST_PAIRED, fit.n_components) + 1) if factors is None else factors
    places = [factor_place(fit, number) for number in chosen]
    names = [fit.factor_names[place] for place in places]
    table = pd.DataFrame(fit.factors[:, places], fit.index, names)
    return table if color is None else table.assign(color=row_values(fit, color, views).array)


def factor_pairs(
    model: FittedModel,
    factors: Sequence[int] | None = None,
    color: Any = None,
    views: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Every pair of some factors, with the distribution of each on the diagonal; coloured as in `factors`."""
    fit = fitted_of(model)
    if fit.n_components == 0:
        return say_instead(ax, "Factors")
    table = factor_pairs_data(fit, factors)
    values, kept = None if color is None else row_values(fit, color, views), _some_rows(len(table))
    how = coloring(None if values is None else values.iloc[kept], len(kept))
    n, data = table.shape[1], table.to_numpy()[kept]
    ax, panels = make_panels(ax, n * n, n, (1.7, 1.7), (0.08, 0.08))
    size = point_size(len(kept), 14)
    for place, panel in enumerate(panels):
        down, across = divmod(place, n)
        if down == across:
            _distributions(panel, data[:, down], None if values is None else values.iloc[kept])
        else:
            how.draw(panel, data[:, across], data[:, down], size)
        panel.tick_params(labelbottom=down == n - 1, labelleft=across == 0 and down != across, labelsize=7)
        panel.set_xlabel(table.columns[across] if down == n - 1 else "")
        panel.set_ylabel(table.columns[down] if across == 0 else "")
        if down == across:
            panel.set_yticks([])
        without_box(panel)
    how.explain(panels[n - 1], beside=ax)
    return ax


def _distributions(ax: Axes, values: np.ndarray, color: pd.Series | None) -> None:
    """Histograms, one for each label where colours are labels."""
    edges = np.histogram_bin_edges(values, 24)
    if color is None or is_scale(color):
        ax.hist(values, edges.tolist(), color=PALETTE[0], alpha=0.7)
        return
    for label, style in label_colors(color).items():
        own = values[(color == label).fillna(False).to_numpy(bool)]
        ax.hist(own, edges.tolist(), color=style["color"], alpha=0.5)


def beeswarm_data(model: FittedModel, by: Any = None, factor: int = 1, views: Any = None) -> pd.DataFrame:
    """A factor of each training row: value, std, label, the place of the label, and how far the point is moved aside.

    Labels are counted 0, 1, 2 ...; rows without one have the last place.
    """
    fit = fitted_of(model)
    place = factor_place(fit, factor)
    labels = pd.Series("", fit.index) if by is None else row_values(fit, by, views, "by")
    if is_scale(labels):
        raise ValueError("by must be labels, and these are numbers of many values: draw factors(..., color=) instead.")
    table = pd.DataFrame({"value": fit.factors[:, place], "std": fit.factors_std[:, place]}, fit.index)
    order = {label: number for number, label in enumerate(label_order(labels))}
    places = np.array([order[label] if pd.notna(label) else len(order) for label in labels], dtype=int)
    offset = SWARM_WIDTH * swarm(table["value"].to_numpy(), places)
    return table.assign(label=labels.array, place=places, offset=offset)


def beeswarm(
    model: FittedModel,
    by: Any = None,
    factor: int = 1,
    color: Any = None,
    views: Any = None,
    violin: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A factor by label: a point for each row, rows of one label side by side; with the shape of each distribution.

    `by` and `color` are labels or values of the rows, or names, as in `factors`. Of two labels the title has the AUC.
    """
    fit = fitted_of(model)
    if fit.n_components == 0:
        return say_instead(ax, "Factors")
    table = beeswarm_data(fit, by, factor, views)
    labels = pd.Series("", fit.index) if by is None else row_values(fit, by, views, "by")
    order, looks, unknown = label_order(labels), label_colors(labels), int(labels.isna().sum())
    ax = make_axes(ax, float(np.clip(2.4 + 1.1 * (len(order) + (unknown > 0)), 3.6, 14)), 4.4)
    values, at = table["value"].to_numpy(), table["place"].to_numpy()
    for place, label in enumerate(order):
        own = values[at == place]
        if violin and len(own) >= LEAST_VIOLIN and np.ptp(own) > 0:
            _violin(ax, own, place, looks.get(label, {"color": PALETTE[0]})["color"] if color is None else UNKNOWN)
    kept = _some_rows(len(table))
    shown = labels if color is None else row_values(fit, color, views)
    how = coloring(shown.iloc[kept] if by is not None or color is not None else None, len(kept))
    how.draw(ax, (at + table["offset"].to_numpy())[kept], values[kept])
    if color is not None:
        how.explain(ax)
    ticks = [f"{short(label, 16)}\n{int((at == place).sum()):,}" for place, label in enumerate(order)]
    ticks += [f"unknown\n{unknown:,}"] if unknown else []
    ax.set_xticks(range(len(ticks)), ticks if by is not None else [""] * len(ticks))
    ax.set(xlim=(-0.6, len(ticks) - 0.4), ylabel=fit.factor_names[factor - 1])
    ax.set_title(_swarm_title(fit, factor, labels) if by is not None else fit.factor_names[factor - 1])
    return without_box(ax)


def _violin(ax: Axes, values: np.ndarray, place: int, colour: str) -> None:
    bodies: Any = ax.violinplot(values, [place], widths=2 * SWARM_WIDTH, showextrema=False)["bodies"]
    for body in bodies:
        body.set(facecolor=colour, alpha=0.18, edgecolor="none")


def _swarm_title(fit: Fitted, factor: int, labels: pd.Series) -> str:
    """What the factor has to do with the labels, where there are two of them or they have an order."""
    name = short("" if labels.name is None else labels.name)
    title = f"{fit.factor_names[factor - 1]} by {name}" if name else fit.factor_names[factor - 1]
    found = association_table(fit, [labels])
    own = found[found["factor"] == fit.factor_names[factor - 1]]
    if len(own) != 1:
        return title
    told = names_of(own).iloc[0]
    return f"{title}\n{'' if told == own['covariate'].iloc[0] else f'{told}: '}{in_words(own.iloc[0])}"


def feature_fit_data(
    model: FittedModel, views: Any, view: str, feature: Any, factor: int = 1, color: Any = None
) -> pd.DataFrame:
    """A feature beside a factor, of each training row: factor, value, fitted; NaN where the feature is missing.

    `fitted` is what the model expects at this value of the factor, the others at their mean. Of yes / no and of classes
    values are 0 and 1, and it is a probability; of levels both are numbers of levels, 0, 1, 2 ...
    """
    fit = fitted_of(model)
    place, d = factor_place(fit, factor), feature_place(fit, view, feature)
    values, own = feature_numbers(fit, views, view, feature), fit.factors[:, place]
    grid = np.linspace(own.min(), own.max(), CURVE)
    z = np.tile(fit.factors.mean(axis=0), (CURVE, 1))
    z[:, place] = grid
    fitted = np.interp(own, grid, Answers(fit).expected_feature(view, d, z))
    table = pd.DataFrame({"factor": own, "value": values.to_numpy(), "fitted": fitted}, fit.index)
    return table if color is None else table.assign(color=row_values(fit, color, views).array)


def feature_fit(
    model: FittedModel,
    views: Any,
    view: str,
    feature: Any,
    factor: int = 1,
    color: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """A feature against a factor, with the line that the model expects, the other factors at their mean.

    Of labels the line is a probability; their points are moved up and down a little so that they can be seen.
    """
    fit = fitted_of(model)
    if fit.n_components == 0:
        return say_instead(ax, short(feature))
    table = feature_fit_data(fit, views, view, feature, factor)
    seen = np.flatnonzero(table["value"].notna().to_numpy())
    if not len(seen):
        return say_instead(ax, short(feature), "all of its cells are missing")
    kept = seen[_some_rows(len(seen))]
    ax = make_axes(ax, 6, 4.6)
    colors = None if color is None else row_values(fit, color, views).iloc[kept]
    how, up = coloring(colors, len(kept)), table["value"].to_numpy()[kept]
    coding = fit.schema.codings[view]
    if fit.schema.types[view].has_probabilities:
        up = up + JITTER * swarm(table["factor"].to_numpy()[kept], up)
    how.draw(ax, table["factor"].iloc[kept], up)
    how.explain(ax)
    line = table.sort_values("factor")
    ax.plot(line["factor"], line["fitted"], color="black", lw=1.5, label="_fit")
    ax.set(xlabel=fit.factor_names[factor - 1], ylabel=short(feature))
    if coding.ordered:
        levels = coding.ordered[feature_place(fit, view, feature)].values
        ax.set_yticks(range(len(levels)), [short(level, 14) for level in levels])
    elif fit.schema.types[view].has_probabilities:
        ax.set(ylim=(-0.15, 1.15), ylabel=f"{short(feature)}, probability")
    found = association_table(fit, [table["value"].rename(str(feature))])
    words = in_words(found[found["factor"] == fit.factor_names[factor - 1]].iloc[0]) if len(found) else ""
    ax.set_title(f"{short(feature)} ({short(view)})\n{words}")
    return without_box(ax)


def factor_correlation_data(model: FittedModel) -> pd.DataFrame:
    """Correlations between the factors of the training rows; they should be small off the diagonal."""
    fit = fitted_of(model)
    names, factors = fit.factor_names, fit.factors - fit.factors.mean(axis=0)
    size = np.sqrt((factors**2).sum(axis=0))
    size[size == 0] = 1.0
    return pd.DataFrame((factors / size).T @ (factors / size), names, names).rename_axis("factor")


def factor_correlation(model: FittedModel, ax: Axes | None = None) -> Axes:
    """Correlations between factors; a pair far from 0 may be one factor split in two."""
    table = factor_correlation_data(model)
    if table.empty:
        return say_instead(ax, "Correlation of factors")
    ax = make_axes(ax, 5, 4.4)
    last = len(table) + 0.5
    heat(ax, table.to_numpy(), DIVERGING, -1, 1, "correlation", aspect="equal", extent=(0.5, last, last, 0.5))
    ax.set(xlabel="factor", ylabel="factor", title="Correlation of factors")
    return whole_ticks(ax, ax.xaxis, ax.yaxis)
