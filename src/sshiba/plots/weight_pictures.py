"""Which features a factor is about: weights, relevance, images; and what covariates do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..fitted.describe import covariate_effects as effects_table
from ..fitted.fitted import FittedModel, fitted_of
from ..fitted.influences import relevance
from .canvas import (
    DIVERGING,
    GREY,
    PALETTE,
    heat,
    make_axes,
    make_panels,
    name_bars,
    say_instead,
    short,
    without_box,
)
from .lookup import factor_place, latent_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WEIGHTS = ["feature", "factor", "weight", "std"]  # columns
APART = 0.055  # of the height: between two names of ranked weights
CLEAR = 0.03  # of the width: between these names and the points that they name


def weights_data(model: FittedModel, view: str, factor: int | None = None) -> pd.DataFrame:
    """The weights of a view: feature, factor, weight, std; those of one factor, counted from 1, the largest first.

    In the model's units, standard deviations of each feature unless `scale=False`, so that they can be compared;
    `weights_` has them in the data's units.
    """
    fit = fitted_of(model)
    names, (means, stds) = latent_names(fit, view), fit.weights(view)
    places = range(fit.n_components) if factor is None else [factor_place(fit, factor)]
    parts = [
        pd.DataFrame(
            {"feature": names, "factor": fit.factor_names[k], "weight": means[:, k], "std": stds[:, k]}, columns=WEIGHTS
        )
        for k in places
    ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=WEIGHTS)
    if factor is None:
        return table
    return table.iloc[np.argsort(-table["weight"].abs().to_numpy(), kind="stable")].reset_index(drop=True)


def weights(model: FittedModel, view: str, factor: int = 1, n: int = 15, ax: Axes | None = None) -> Axes:
    """The largest weights of a factor, counted from 1, in a view, with two standard deviations either way."""
    if fitted_of(model).n_components == 0 and weights_data(model, view).empty:
        return say_instead(ax, short(view))
    table = weights_data(model, view, factor).head(n).iloc[::-1]
    ax = make_axes(ax, 6, 0.9 + 0.27 * len(table))
    colours = np.where(table["weight"] > 0, PALETTE[0], PALETTE[3])
    ax.barh(range(len(table)), table["weight"], xerr=2 * table["std"], color=colours, error_kw={"lw": 1, "alpha": 0.6})
    ax.axvline(0, color="black", lw=0.8)
    name_bars(ax, table["feature"])
    ax.set(xlabel="weight ± 2 std", title=f"{short(view)}, {table['factor'].iloc[0]}")
    return without_box(ax)


def ranked_weights_data(model: FittedModel, view: str, factor: int = 1) -> pd.DataFrame:
    """All weights of a factor in a view from the lowest to the highest: feature, factor, weight, std, rank from 1."""
    table = weights_data(model, view, factor).sort_values("weight", kind="stable", ignore_index=True)
    return table.assign(rank=range(1, len(table) + 1))


def ranked_weights(model: FittedModel, view: str, factor: int = 1, n: int = 10, ax: Axes | None = None) -> Axes:
    """All weights of a factor in a view by rank, the n that are furthest from 0 with their names."""
    fit = fitted_of(model)
    if fit.n_components == 0:
        return say_instead(ax, short(view))
    table = ranked_weights_data(fit, view, factor)
    top = table.loc[table["weight"].abs().sort_values(kind="stable", ascending=False).index[:n]].sort_values("weight")
    ax = make_axes(ax, 6, 4.6)
    ax.axhline(0, color="black", lw=0.6)
    ax.plot(table["rank"], table["weight"], ".", color=GREY, ms=4, label="_all")
    low, high = table["weight"].min(), table["weight"].max()
    margin = 0.08 * (high - low) or 1.0
    ax.set_ylim(low - margin, high + margin)
    step = APART * (high - low + 2 * margin)
    for sign, colour, aside in ((-1, PALETTE[3], "left"), (1, PALETTE[0], "right")):
        own = top[np.sign(top["weight"]) == sign]
        ax.plot(own["rank"], own["weight"], "o", color=colour, ms=5)
        # Low weights stand at the left end: their names go to the right of all of them, those of high ones to the left.
        aside_of = own["rank"] - sign * CLEAR * len(table)
        across = max(0.22 * len(table), aside_of.max()) if sign < 0 else min(0.78 * len(table), aside_of.min())
        places = _apart(own["weight"].to_numpy(), step, low - margin / 2, high + margin / 2)
        for (_, row), place in zip(own.iterrows(), places):
            ax.annotate(
                short(row["feature"]),
                (row["rank"], row["weight"]),
                (across, place),
                ha=aside,
                va="center",
                fontsize=8,
                bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5},
                arrowprops={"arrowstyle": "-", "lw": 0.5, "color": colour, "alpha": 0.6},
            )
    ax.set(xlabel=f"rank among {len(table):,} features", ylabel="weight")
    ax.set_title(f"{short(view)}, {fit.factor_names[factor - 1]}")
    return without_box(ax)


def _apart(values: np.ndarray, step: float, low: float, high: float) -> np.ndarray:
    """Rising places near rising values, at least `step` apart, and within the ends where there is room."""
    places = np.array(values, dtype=float)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + step)
    if len(places) and places[-1] > high:
        places[-1] = max(high, low)
        for i in range(len(places) - 2, -1, -1):
            places[i] = min(places[i], places[i + 1] - step)
    return places


def factor_images_data(
    model: FittedModel, view: str, shape: tuple[int, ...], factors: Sequence[int] | None = None
) -> np.ndarray:
    """The weights of factors in a view as images, (factors, height, width); of all factors if none is named."""
    fit = fitted_of(model)
    names = latent_names(fit, view)
    _check_shape(shape, view, len(names))
    places = [factor_place(fit, k) for k in (range(1, fit.n_components + 1) if factors is None else factors)]
    return fit.posterior.views[fit.schema.place(view)].w_mean[:, places].T.reshape(len(places), *shape)


def factor_images(
    model: FittedModel,
    view: str,
    shape: tuple[int, int],
    factors: Sequence[int] | None = None,
    n: int = 12,
    ax: Axes | None = None,
) -> Axes:
    """The weights of each factor as an image, red above 0 and blue below; the first n factors if none are named."""
    fit = fitted_of(model)
    if factors is None:
        factors = list(range(1, min(n, fit.n_components) + 1))
    images = factor_images_data(fit, view, shape, factors)
    if not len(images):
        return say_instead(ax, short(view))
    tall = float(np.clip(1.5 * shape[0] / shape[1], 0.8, 3))
    ax, panels = make_panels(ax, len(images), 6, (1.5, tall + 0.25), (0.08, 0.3))
    ax.set_title(f"Weights in {short(view)}", y=1.0, pad=22)
    for panel, image, factor in zip(panels, images, factors):
        far = float(np.abs(image).max()) or 1.0
        panel.imshow(image, DIVERGING, vmin=-far, vmax=far, interpolation="nearest")
        panel.set(xticks=[], yticks=[])
        panel.set_title(fit.factor_names[factor - 1], fontsize=9)
    return ax


def _check_shape(shape: tuple[int, ...], view: str, n_features: int) -> None:
    if np.prod(shape) != n_features:
        raise ValueError(f"shape {shape} has {np.prod(shape)} cells, and view {view!r} {n_features} features.")


def feature_relevance_data(model: FittedModel, view: str) -> pd.DataFrame:
    """How relevant each feature of a view is, the most relevant first: feature, relevance, place."""
    fit = fitted_of(model)
    names = latent_names(fit, view)
    table = pd.DataFrame({"feature": names, "relevance": relevance(fit, view), "place": range(len(names))})
    return table.sort_values("relevance", ascending=False, kind="stable", ignore_index=True)


def feature_relevance(
    model: FittedModel, view: str, n: int = 30, shape: tuple[int, ...] | None = None, ax: Axes | None = None
) -> Axes:
    """The most relevant features of a view as bars; with `shape`, the relevance of all of them as an image."""
    table = feature_relevance_data(model, view)
    if shape is not None:
        _check_shape(shape, view, len(table))
        ax = make_axes(ax, 4.5, 4.5)
        image = table.sort_values("place")["relevance"].to_numpy().reshape(shape)
        heat(ax, image, "cividis", None, None, "relevance", aspect="equal")
        ax.set(xticks=[], yticks=[], title=f"Relevance of {short(view)}")
        return ax
    shown = table.head(n).iloc[::-1]
    ax = make_axes(ax, 6, 0.9 + 0.23 * len(shown))
    ax.barh(range(len(shown)), shown["relevance"], color=PALETTE[0])
    name_bars(ax, shown["feature"])
    of = f"the first {len(shown)} of {len(table):,}" if len(shown) < len(table) else "all features"
    ax.set(xlabel="relevance", title=f"{short(view)}: {of}")
    return without_box(ax)


def covariate_effects_data(model: FittedModel, covariate: Any = None) -> pd.DataFrame:
    """What covariates, or one of them, do: view, feature, covariate, effect, std, low, high; the largest first.

    In deviations of each feature, so that they can be compared: of a number for a deviation of it, of a label against
    the first label. `covariate_effects_` has them in the units of the data.
    """
    fit = fitted_of(model)
    table = effects_table(fit, standard=True)
    if table is None or fit.schema.covariates is None:
        raise ValueError("the model has no covariates.")
    table = table.reset_index()
    if covariate is not None:
        terms = list(fit.schema.covariates.terms)
        if covariate not in terms:
            raise ValueError(f"there is no effect of {covariate!r}; there are those of {terms}.")
        table = table[table["covariate"] == covariate]
    return table.iloc[np.argsort(-table["effect"].abs().to_numpy(), kind="stable")].reset_index(drop=True)


def covariate_effects(model: FittedModel, covariate: Any = None, n: int = 20, ax: Axes | None = None) -> Axes:
    """The largest effects of covariates, or of one term such as "batch=B", with their 95 % intervals."""
    table = covariate_effects_data(model, covariate).head(n).iloc[::-1]
    ax = make_axes(ax, 6, 0.9 + 0.27 * len(table))
    reach = np.stack([table["effect"] - table["low"], table["high"] - table["effect"]])
    ax.errorbar(table["effect"], range(len(table)), xerr=reach, fmt="o", color=PALETTE[0], ms=4, lw=1)
    ax.axvline(0, color="black", lw=0.8)
    names = table["feature"].astype(str)
    name_bars(ax, names if covariate is not None else names + ", " + table["covariate"].astype(str))
    title = "Covariates" if covariate is None else short(covariate)
    ax.set(xlabel="effect in deviations, 95 % interval", title=title)
    return without_box(ax)
