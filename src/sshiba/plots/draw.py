"""The pictures. Colours that colour-blind people tell apart; names cut and thinned so that none overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..evaluate import Check, Stability
from ..evaluate.stability import STABLE
from ..fitted.fitted import FittedModel, fitted_of
from . import numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe and Ito's colours, the yellow darker: theirs cannot be seen on white.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A900", "#000000")
GREY = "#9a9a9a"
SEQUENTIAL, DIVERGING, POINTS = "Blues", "RdBu_r", "viridis"
LONGEST_NAME = 26  # characters of a name that are shown
MANY = 60  # names, or numbers in cells, that can be read side by side
MOST_POINTS = 20_000  # of a scatter
APART = 0.3  # factors: between the dots of two kinds of stability
MOST_LABELS = 2 * len(PALETTE)  # that colours and two shapes tell apart


def overview(model: FittedModel, views: Any, ax: Axes | None = None) -> Axes:
    """Which rows have which views: a band for each view, dark where a row is complete, white where it has nothing."""
    shares = numbers.overview_data(model, views)
    ax = _axes(ax, 7.5, 1.1 + 0.45 * shares.shape[1])
    shares = numbers.by_pattern(shares)
    _heat(ax, shares.to_numpy().T, SEQUENTIAL, 0, 1, "observed")
    schema = fitted_of(model).schema
    labels = [
        f"{_short(name)}: {type(view).__name__.lower()}, {schema.codings[name].width:,}; {gone:.0%} missing"
        for (name, view), gone in zip(schema.types.items(), 1 - shares.to_numpy().mean(axis=0))
    ]
    ax.set_yticks(range(len(labels)), labels)
    ax.set(xlabel=f"{len(shares):,} rows, the complete ones first", title="The data")
    return ax


def elbo(model: FittedModel, ax: Axes | None = None) -> Axes:
    """How far the bound of every restart is below the best one, sweep by sweep: the best line goes down furthest."""
    table = numbers.elbo_data(model)
    ax = _axes(ax, 6, 4)
    top = table["elbo"].max()
    finest = max(1e-6 * abs(top), 1e-3)
    several = table["restart"].nunique() > 1
    for restart, path in table.groupby("restart"):
        best = bool(path["best"].iloc[0])
        label = f"best: restart {restart}" if best and several else None if several else f"ends at {top:,.1f}"
        width, colour = (2, PALETTE[0]) if best else (1, GREY)
        ax.plot(path["sweep"], top - path["elbo"] + finest, color=colour, lw=width, zorder=2 + best, label=label)
    if several:
        ax.plot([], [], color=GREY, label=f"the {table['restart'].nunique() - 1} other restarts")
    ax.set(yscale="log", xlabel="sweep", ylabel="nats below the best bound", title="Convergence")
    ax.legend(frameon=False)
    return _open(ax)


def variance_explained(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The share of variance that each factor explains in each view; below, that of all factors together."""
    table = 100 * numbers.variance_explained_data(model)
    if table.empty:
        return _no_factors(ax, "Variance explained")
    title = "1 factor" if len(table) == 1 else f"{len(table)} factors"
    ax = _factor_heat(table, ax, "% of variance explained", title, least=1.0)
    totals = 100 * fitted_of(model).r2[-1]
    ticks = [f"{_short(name, 14)}\nall: {total:.0f} %" for name, total in zip(table, totals)]
    ax.set_xticks(range(table.shape[1]), ticks)
    return ax


def activity(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The variance of each factor in each group of samples, 1 on average over all training rows."""
    table = numbers.activity_data(model)
    if table.empty:
        return _no_factors(ax, "Activity in groups of samples")
    ax = _factor_heat(table, ax, "variance of the factor", "Activity in groups of samples")
    ax.set_xticks(range(table.shape[1]), [_short(name, 14) for name in table])
    return ax


def variance_by_group(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The share of variance that each factor explains in each view within each group of samples."""
    table = 100 * numbers.variance_by_group_data(model)
    if table.empty:
        return _no_factors(ax, "Variance explained in groups of samples")
    ax = _factor_heat(table, ax, "% of variance explained", "Variance explained in groups of samples", least=1.0)
    pairs: list[Any] = table.columns.to_list()
    ax.set_xticks(range(len(pairs)), ["\n".join(_short(name, 14) for name in pair) for pair in pairs])
    return ax


def factor_relevance(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The prior variance that each factor's weights were given in each view, as a share of the view's largest."""
    table = numbers.factor_relevance_data(model)
    if table.empty:
        return _no_factors(ax, "Factor relevance")
    ax = _factor_heat(table, ax, "1/E[alpha], share of the largest", "Factor relevance")
    ax.set_xticks(range(table.shape[1]), [_short(name, 14) for name in table])
    return ax


def weights(model: FittedModel, view: str, factor: int = 1, n: int = 15, ax: Axes | None = None) -> Axes:
    """The largest weights of a factor, counted from 1, in a view, with two standard deviations either way."""
    if fitted_of(model).n_components == 0 and numbers.weights_data(model, view).empty:
        return _no_factors(ax, _short(view))
    table = numbers.weights_data(model, view, factor).head(n).iloc[::-1]
    ax = _axes(ax, 6, 0.9 + 0.27 * len(table))
    colours = np.where(table["weight"] > 0, PALETTE[0], PALETTE[3])
    ax.barh(range(len(table)), table["weight"], xerr=2 * table["std"], color=colours, error_kw={"lw": 1, "alpha": 0.6})
    ax.axvline(0, color="black", lw=0.8)
    _name_bars(ax, table["feature"])
    ax.set(xlabel="weight ± 2 std", title=f"{_short(view)}, {table['factor'].iloc[0]}")
    return _open(ax)


def covariate_effects(model: FittedModel, covariate: Any = None, n: int = 20, ax: Axes | None = None) -> Axes:
    """The largest effects of covariates, or of one term such as "batch=B", with their 95 % intervals."""
    table = numbers.covariate_effects_data(model, covariate).head(n).iloc[::-1]
    ax = _axes(ax, 6, 0.9 + 0.27 * len(table))
    reach = np.stack([table["effect"] - table["low"], table["high"] - table["effect"]])
    ax.errorbar(table["effect"], range(len(table)), xerr=reach, fmt="o", color=PALETTE[0], ms=4, lw=1)
    ax.axvline(0, color="black", lw=0.8)
    names = table["feature"].astype(str)
    _name_bars(ax, names if covariate is not None else names + ", " + table["covariate"].astype(str))
    title = "Covariates" if covariate is None else _short(covariate)
    ax.set(xlabel="effect in deviations, 95 % interval", title=title)
    return _open(ax)


def feature_relevance(
    model: FittedModel, view: str, n: int = 30, shape: tuple[int, ...] | None = None, ax: Axes | None = None
) -> Axes:
    """The most relevant features of a view as bars; with `shape`, the relevance of all of them as an image."""
    table = numbers.feature_relevance_data(model, view)
    if shape is not None:
        if np.prod(shape) != len(table):
            raise ValueError(f"shape {shape} has {np.prod(shape)} cells, and view {view!r} {len(table)} features.")
        ax = _axes(ax, 4.5, 4.5)
        image = table.sort_values("place")["relevance"].to_numpy().reshape(shape)
        _heat(ax, image, "cividis", None, None, "relevance", aspect="equal")
        ax.set(xticks=[], yticks=[], title=f"Relevance of {_short(view)}")
        return ax
    shown = table.head(n).iloc[::-1]
    ax = _axes(ax, 6, 0.9 + 0.23 * len(shown))
    ax.barh(range(len(shown)), shown["relevance"], color=PALETTE[0])
    _name_bars(ax, shown["feature"])
    of = f"the first {len(shown)} of {len(table):,}" if len(shown) < len(table) else "all features"
    ax.set(xlabel="relevance", title=f"{_short(view)}: {of}")
    return _open(ax)


def factors(model: FittedModel, x: int = 1, y: int = 2, colour: Any = None, ax: Axes | None = None) -> Axes:
    """The training rows on two factors, coloured by anything with a value for each row: numbers, labels, dates.

    `x` and `y` count factors from 1. A Series goes by its index. Of a model with one factor, rows stand in their order.
    """
    if fitted_of(model).n_components == 0:
        return _no_factors(ax, "Factors")
    table = numbers.factors_data(model, x, y, colour)
    ax = _axes(ax, 6, 4.8)
    name = str(getattr(colour, "name", None) or "")
    if len(table) > MOST_POINTS:
        table = table.sample(MOST_POINTS, random_state=0)
    size = float(np.clip(4000 / len(table), 4, 36))
    if colour is None:
        ax.scatter(table["x"], table["y"], s=size, color=PALETTE[0], alpha=0.7, lw=0)
    elif _is_scale(table["colour"]):
        _scaled_scatter(ax, table, size, name)
    else:
        _labelled_scatter(ax, table, size, name)
    names = fitted_of(model).factor_names
    ax.set(xlabel=names[x - 1], ylabel=names[y - 1] if len(names) > 1 else "row", title="Factors")
    return _open(ax)


def _is_scale(values: pd.Series) -> bool:
    """Numbers of many values, and times."""
    is_time = pd.api.types.is_datetime64_any_dtype(values)
    return is_time or (pd.api.types.is_numeric_dtype(values) and values.nunique() > MOST_LABELS)


def _scaled_scatter(ax: Axes, table: pd.DataFrame, size: float, name: str) -> None:
    from matplotlib import dates

    seen, values = table["colour"].notna(), table["colour"]
    is_time = pd.api.types.is_datetime64_any_dtype(values)
    shades = np.asarray(dates.date2num(values[seen]) if is_time else values[seen], dtype=float)
    ax.scatter(table["x"][~seen], table["y"][~seen], s=size, color="#d0d0d0", lw=0)
    drawn = ax.scatter(table["x"][seen], table["y"][seen], s=size, c=shades, cmap=POINTS, lw=0)
    bar = ax.figure.colorbar(drawn, ax=ax, label=_short(name))
    if is_time:
        bar.ax.yaxis.set_major_formatter(dates.ConciseDateFormatter(dates.AutoDateLocator()))


def _labelled_scatter(ax: Axes, table: pd.DataFrame, size: float, name: str) -> None:
    """A colour and shape for each label, the rarest together in grey where there are too many; colours that rise with
    ordered categories.
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    counts = table["colour"].value_counts()
    counts = counts[counts > 0]
    is_ordered = isinstance(table["colour"].dtype, pd.CategoricalDtype) and table["colour"].cat.ordered
    if is_ordered:
        named = [level for level in table["colour"].cat.categories if level in counts.index]
        rising = colormaps["plasma"](np.linspace(0.15, 0.85, len(named)))
    else:
        named = list(counts.index) if len(counts) <= MOST_LABELS else list(counts.index[: MOST_LABELS - 1])
        named = sorted(named, key=lambda label: (isinstance(label, str), label))
    rest = ~table["colour"].isin(named)
    if rest.any():
        words = "unknown" if len(named) == len(counts) else f"{len(counts) - len(named)} others"
        ax.scatter(table["x"][rest], table["y"][rest], s=size, color="#c8c8c8", lw=0, label=words)
    for number, label in enumerate(named):
        own = table[table["colour"] == label]
        colour, marker = PALETTE[number % len(PALETTE)], "ov"[number // len(PALETTE) % 2]
        if is_ordered:
            colour, marker = to_hex(rising[number]), "o"
        ax.scatter(own["x"], own["y"], s=size, c=colour, marker=marker, alpha=0.8, lw=0, label=_short(label))
    ax.legend(title=_short(name) or None, frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left", markerscale=1.5)


def factor_correlation(model: FittedModel, ax: Axes | None = None) -> Axes:
    """Correlations between factors; a pair far from 0 tells one story in two pieces."""
    table = numbers.factor_correlation_data(model)
    if table.empty:
        return _no_factors(ax, "Correlation of factors")
    ax = _axes(ax, 5, 4.4)
    last = len(table) + 0.5
    _heat(ax, table.to_numpy(), DIVERGING, -1, 1, "correlation", aspect="equal", extent=(0.5, last, last, 0.5))
    ax.set(xlabel="factor", ylabel="factor", title="Correlation of factors")
    return _whole_ticks(ax, ax.xaxis, ax.yaxis)


def stability(found: Stability | Sequence[Stability], ax: Axes | None = None) -> Axes:
    """How well each factor was found again by other fits: the mean and 90 % of them; several kinds side by side.

    Above the dashed line a factor counts as stable.
    """
    table = numbers.stability_data(found)
    if table.empty:
        return _no_factors(ax, "Stability of factors")
    several = found if isinstance(found, Sequence) else [found]
    n_factors = len(table) // len(several)
    ax = _axes(ax, float(np.clip(2.2 + 0.32 * n_factors, 4.5, 12)), 3.6)
    ax.axhline(STABLE, color="black", lw=0.8, ls="--")
    for number, one in enumerate(several):
        own = table.iloc[number * n_factors : (number + 1) * n_factors]
        places = np.arange(1, n_factors + 1) + APART * (number - (len(several) - 1) / 2)
        colour = PALETTE[number % len(PALETTE)]
        ax.vlines(places, own["low"], own["high"], color=colour, lw=1.5, alpha=0.5)
        ax.plot(places, own["mean"], "o", ms=5, color=colour, label=one.refits)
    ax.set(xlim=(0.4, n_factors + 0.6), ylim=(0, 1.03), xlabel="factor", ylabel="congruence of weights")
    ax.set_title("Stability of factors")
    ax.legend(frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left")
    return _open(_whole_ticks(ax, ax.xaxis))


def imputation(checks: dict[str, Check], view: str, ax: Axes | None = None) -> Axes:
    """Hidden cells as they were predicted against what they were (of labels: their probabilities by outcome; of levels
    how often each was taken for each).
    """
    cells = numbers.imputation_data(checks, view)
    if cells.empty:
        raise ValueError(f"no cell of view {view!r} was hidden: raise fraction.")
    ax = _axes(ax, 5, 4.6)
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
        ax.set_title(f"{_short(view)}: {area}{checks[view].n_hidden:,} hidden cells")
        return _open(ax)
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
    ax.set_title(f"{_short(view)}: R² {scores.get('r2', np.nan):.2f} on {len(cells):,} hidden cells")
    return _open(ax)


def _levels_taken(cells: pd.DataFrame, scores: dict[str, float], view: str, ax: Axes) -> Axes:
    """The share of the cells of each level that was predicted to be of each."""
    n_levels = int(cells[["truth", "predicted"]].to_numpy().max()) + 1
    counts = np.zeros((n_levels, n_levels))
    np.add.at(counts, (cells["predicted"].astype(int), cells["truth"].astype(int)), 1)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    _heat(ax, shares, "cividis", 0, 1, "share of the cells of a level", aspect="equal")
    ax.invert_yaxis()
    ax.set(xticks=range(n_levels), yticks=range(n_levels), xlabel="hidden level, counted from 0", ylabel="predicted")
    error = "" if np.isnan(scores["smae"]) else f"error {scores['smae']:.2f} of the median's on "
    ax.set_title(f"{_short(view)}: {error}{len(cells):,} hidden cells")
    return ax


def calibration(checks: dict[str, Check], ax: Axes | None = None) -> Axes:
    """What was promised against what happened: on the diagonal, uncertainties are honest.

    Solid lines are real views (coverage of intervals), dashed ones labels (frequency of what was given a probability).
    """
    ax = _axes(ax, 5, 4.8)
    ax.plot([0, 1], [0, 1], color="black", lw=0.8)
    shown = [name for name, one in checks.items() if one.hidden.any()]
    for number, name in enumerate(shown):
        table = numbers.calibration_data(checks, name)
        style, marker = ("-", "") if checks[name].std is not None else ("--", "o")
        colour = PALETTE[number % len(PALETTE)]
        ax.plot(table["promised"], table["happened"], style, marker=marker, ms=4, color=colour, label=_short(name))
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="promised", ylabel="happened", title="Calibration on hidden cells")
    ax.legend(frameon=False, fontsize="small")
    return _open(ax)


# ------------------------------------------------------------------------------------------------------ helpers


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The given Axes, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'sshiba[plot]'.") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def _no_factors(ax: Axes | None, title: str) -> Axes:
    """In the place of a picture of factors, where the model has none."""
    ax = _axes(ax, 5, 3)
    ax.text(0.5, 0.5, "no factors", transform=ax.transAxes, ha="center", va="center", color=GREY)
    ax.set(xticks=[], yticks=[], title=title)
    return _open(ax)


def _open(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _name_bars(ax: Axes, names: pd.Series) -> None:
    ax.set_yticks(range(len(names)), [_short(name) for name in names])
    ax.set_ylim(-0.7, len(names) - 0.3)


def _short(name: Any, longest: int = LONGEST_NAME) -> str:
    """Cut, on one line, and with dollars that are not mathematics."""
    text = " ".join(str(name).split())
    return (text if len(text) <= longest else text[: longest - 1] + "…").replace("$", r"\$")


def _heat(
    ax: Axes, values: np.ndarray, cmap: str, low: float | None, high: float | None, label: str, **options: Any
) -> None:
    image = ax.imshow(values, cmap, vmin=low, vmax=high, interpolation="nearest", **{"aspect": "auto", **options})
    ax.figure.colorbar(image, ax=ax, label=label)


def _factor_heat(table: pd.DataFrame, ax: Axes | None, label: str, title: str, least: float = 0.0) -> Axes:
    """Factors from 1 x views, with the numbers in the cells where there is room; the scale ends at `least` or above."""
    ax = _axes(ax, 2.4 + 1.1 * table.shape[1], float(np.clip(1.4 + 0.28 * len(table), 2.6, 9)))
    values = table.to_numpy()
    high = max(float(values.max()), least, 1e-12)
    n_factors, n_views = values.shape
    _heat(ax, values, SEQUENTIAL, 0, high, label, extent=(-0.5, n_views - 0.5, n_factors + 0.5, 0.5))
    if values.size <= MANY * 2 and len(table) <= MANY // 2:
        for (k, m), value in np.ndenumerate(values):
            text, colour = f"{value:.1f}" if least else f"{value:.2f}", "white" if value > 0.6 * high else "black"
            ax.text(m, k + 1, text, ha="center", va="center", fontsize=8, color=colour)
    ax.set(ylabel="factor", title=title)
    return _whole_ticks(ax, ax.yaxis)


def _whole_ticks(ax: Axes, *axes: Axis) -> Axes:
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    return ax
