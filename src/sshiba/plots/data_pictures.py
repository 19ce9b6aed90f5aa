"""The data: which rows and columns have what, and what a factor looks like in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.border import as_views
from ..data.row_parts import holds_sources, row_parts
from ..data.wording import percent
from ..fitted.answers import Answers
from ..fitted.fitted import FittedModel, fitted_of
from .canvas import (
    DIVERGING,
    GREY,
    MANY,
    PALETTE,
    SEQUENTIAL,
    UNKNOWN,
    heat,
    make_axes,
    name_bars,
    say_instead,
    short,
    without_box,
)
from .lookup import factor_place, feature_numbers, feature_place
from .weight_pictures import weights_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAR = 2.5  # standard deviations at which the colours of the heat map end


def overview_data(model: FittedModel, views: Any) -> pd.DataFrame:
    """The share of each view's cells that each row has, rows x views."""
    fit, views = fitted_of(model), as_views(views)
    if holds_sources(views):
        return pd.concat([overview_data(fit, part) for part in row_parts(views)])
    data, index = Answers(fit).read(views)
    shares = {}
    for name in fit.schema.types:
        coded = data.get(name)
        if coded is None:
            shares[name] = np.zeros(len(index))
        elif coded.observed is None:
            shares[name] = np.ones(len(index))
        else:
            shares[name] = coded.observed.mean(axis=1)
    return pd.DataFrame(shares, index=index)


def by_pattern(shares: pd.DataFrame) -> pd.DataFrame:
    """The rows of `overview_data` in the order in which they are drawn: by the views they lack, then by their cells."""
    values = shares.to_numpy()
    keys = np.concatenate([values > 0, values], axis=1)
    return shares.iloc[np.lexsort(-keys.T[::-1])]  # its last key counts first


def overview(model: FittedModel, views: Any, ax: Axes | None = None) -> Axes:
    """Which rows have which views: a band for each view, dark where a row is complete, white where it has nothing."""
    shares = overview_data(model, views)
    ax = make_axes(ax, 7.5, 1.1 + 0.45 * shares.shape[1])
    shares = by_pattern(shares)
    heat(ax, shares.to_numpy().T, SEQUENTIAL, 0, 1, "observed")
    schema = fitted_of(model).schema
    labels = [
        f"{short(name)}: {type(view).__name__.lower()}, {schema.codings[name].width:,}; {percent(gone)} missing"
        for (name, view), gone in zip(schema.types.items(), 1 - shares.to_numpy().mean(axis=0))
    ]
    ax.set_yticks(range(len(labels)), labels)
    ax.set(xlabel=f"{len(shares):,} rows, the complete ones first", title="The data")
    return ax


def missingness_data(model: FittedModel) -> pd.DataFrame:
    """The share of missing cells of each column in the training rows: view, feature, missing; most missing first.

    A categorical view is one column.
    """
    fit = fitted_of(model)
    parts = []
    for name, coding in fit.schema.codings.items():
        seen = coding.observed_per_feature[: len(coding.features)]
        missing = 1 - seen / max(len(fit.factors), 1)
        parts.append(pd.DataFrame({"view": name, "feature": list(coding.features), "missing": missing}))
    table = pd.concat(parts, ignore_index=True)
    return table.iloc[np.argsort(-table["missing"].to_numpy(), kind="stable")].reset_index(drop=True)


def missingness(model: FittedModel, n: int = 30, ax: Axes | None = None) -> Axes:
    """The columns with the most missing cells, coloured by view."""
    table = missingness_data(model)
    holed = table[table["missing"] > 0]
    if holed.empty:
        return say_instead(ax, "Missing cells", "nothing is missing")
    shown = holed.head(n).iloc[::-1]
    ax = make_axes(ax, 6.5, 1.1 + 0.23 * len(shown))
    views = list(fitted_of(model).schema.types)
    several = shown["view"].nunique() > 1
    for name in (view for view in views if (shown["view"] == view).any()):
        own = np.flatnonzero((shown["view"] == name).to_numpy())
        colour = PALETTE[views.index(name) % len(PALETTE)]
        ax.barh(own, 100 * shown["missing"].iloc[own], color=colour, label=short(name))
    name_bars(ax, shown["feature"])
    of = (
        f"the first {len(shown)} of {len(holed):,} columns with holes"
        if len(shown) < len(holed)
        else "columns with holes"
    )
    ax.set(xlim=(0, 100), xlabel="% of cells missing", title=f"Missing cells: {of}")
    if several:
        ax.legend(frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left")
    return without_box(ax)


def data_heatmap_data(
    model: FittedModel, views: Any, view: str, factor: int = 1, n: int = 20, features: list | None = None
) -> pd.DataFrame:
    """A view's values, rows by rising factor x features by falling weight: the n largest either way, or `features`.

    As the user gave them; yes / no and classes as 0 and 1, levels as their numbers 0, 1, 2 ...
    """
    fit = fitted_of(model)
    place = factor_place(fit, factor)
    table = weights_data(fit, view, factor).head(n)
    if features is not None:
        for feature in features:
            feature_place(fit, view, feature)
        table = weights_data(fit, view, factor)
        table = table[table["feature"].isin(features)]
    table = table.sort_values("weight", ascending=False, kind="stable")
    names = table["feature"].tolist()
    numbers = [feature_numbers(fit, views, view, name).to_numpy() for name in names]
    values = pd.DataFrame(np.reshape(numbers, (len(names), len(fit.index))).T, fit.index, names)
    return values.iloc[np.argsort(fit.factors[:, place], kind="stable")]


def data_heatmap(
    model: FittedModel,
    views: Any,
    view: str,
    factor: int = 1,
    n: int = 20,
    features: list | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The data behind a factor: its n largest features, the rows from its lowest to its highest; grey where missing.

    Each feature in standard deviations from its mean. Above, the factor itself.
    """
    from matplotlib import colormaps

    fit = fitted_of(model)
    if fit.n_components == 0:
        return say_instead(ax, short(view))
    table = data_heatmap_data(fit, views, view, factor, n, features)
    seen = table.dropna(how="all")  # rows that lack the view would be a block of grey
    ax = make_axes(ax, 7.5, 1.6 + 0.24 * table.shape[1])
    spread = seen.std(ddof=0).replace(0, 1.0)
    colours = colormaps[DIVERGING].with_extremes(bad=UNKNOWN)
    values = ((seen - seen.mean()) / spread).to_numpy().T
    heat(ax, np.ma.masked_invalid(values), colours, -FAR, FAR, "standard deviations")
    names = [short(name) for name in table]
    ax.set_yticks(range(len(names)) if len(names) <= MANY else [], names if len(names) <= MANY else [])
    absent = len(table) - len(seen)
    more = f"; {absent:,} without {short(view)}" if absent else ""
    ax.set(xticks=[], xlabel=f"{len(seen):,} rows by {fit.factor_names[factor - 1]}, from low to high{more}")
    above = ax.inset_axes((0, 1.02, 1, 0.14), sharex=ax)
    z = np.sort(fit.factors[:, factor_place(fit, factor)], kind="stable")[table.notna().any(axis=1).to_numpy()]
    above.fill_between(range(len(z)), z, color=GREY, lw=0, step="mid")
    above.axhline(0, color="black", lw=0.6)
    above.set(yticks=[])
    above.tick_params(bottom=False, labelbottom=False)
    above.set_title(f"{short(view)}, {fit.factor_names[factor - 1]}")
    without_box(above)
    return ax
