"""What factors explain: in views, in groups of samples, in single features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..fitted.describe import activity_table, r2_table
from ..fitted.fitted import FittedModel, fitted_of
from .canvas import PALETTE, factor_heat, make_axes, name_bars, say_instead, short, without_box
from .lookup import factor_place, latent_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_GROUPS = "the model has no groups of samples: fit it with sample_groups=."
NO_SHARES = "the fit was ended before it was known what factors explain in each group of samples: let it end by itself."


def variance_explained_data(model: FittedModel) -> pd.DataFrame:
    """The share of each view's variance that each factor explains alone, factors x views."""
    fit = fitted_of(model)
    return r2_table(fit).loc[fit.factor_names].rename_axis("factor")


def variance_explained(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The share of variance that each factor explains in each view; below, that of all factors together."""
    table = 100 * variance_explained_data(model)
    if table.empty:
        return say_instead(ax, "Variance explained")
    title = "1 factor" if len(table) == 1 else f"{len(table)} factors"
    ax = factor_heat(table, ax, "% of variance explained", title, least=1.0)
    totals = 100 * fitted_of(model).r2[-1]
    ticks = [f"{short(name, 14)}\nall: {total:.0f} %" for name, total in zip(table, totals)]
    ax.set_xticks(range(table.shape[1]), ticks)
    return ax


def activity_data(model: FittedModel) -> pd.DataFrame:
    """The variance of each factor in each group of samples, 1 on average over all training rows, factors x groups."""
    table = activity_table(fitted_of(model))
    if table is None:
        raise ValueError(NO_GROUPS)
    return table.T.rename_axis("factor")


def activity(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The variance of each factor in each group of samples, 1 on average over all training rows."""
    table = activity_data(model)
    if table.empty:
        return say_instead(ax, "Activity in groups of samples")
    ax = factor_heat(table, ax, "variance of the factor", "Activity in groups of samples")
    ax.set_xticks(range(table.shape[1]), [short(name, 14) for name in table])
    return ax


def variance_by_group_data(model: FittedModel) -> pd.DataFrame:
    """The share of variance that each factor explains alone within each group of samples, factors x (view, group)."""
    fit = fitted_of(model)
    if fit.r2_by_group is None:
        raise ValueError(NO_GROUPS if fit.schema.groups is None else NO_SHARES)
    pairs = pd.MultiIndex.from_product([list(fit.schema.types), list(fit.schema.group_names)])
    shares = np.moveaxis(fit.r2_by_group[:, : fit.n_components], 0, 2).reshape(fit.n_components, len(pairs))
    return pd.DataFrame(shares, index=fit.factor_names, columns=pairs).rename_axis("factor")


def variance_by_group(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The share of variance that each factor explains in each view within each group of samples."""
    table = 100 * variance_by_group_data(model)
    if table.empty:
        return say_instead(ax, "Variance explained in groups of samples")
    ax = factor_heat(table, ax, "% of variance explained", "Variance explained in groups of samples", least=1.0)
    pairs: list[Any] = table.columns.to_list()
    ax.set_xticks(range(len(pairs)), ["\n".join(short(name, 14) for name in pair) for pair in pairs])
    return ax


def factor_relevance_data(model: FittedModel) -> pd.DataFrame:
    """1/E[alpha] of each factor as a share of the view's largest, factors x views."""
    fit = fitted_of(model)
    relevances = {name: 1 / view.alpha.mean for name, view in zip(fit.schema.types, fit.posterior.views)}
    table = {name: values / values.max(initial=0.0) for name, values in relevances.items()}
    return pd.DataFrame(table, index=fit.factor_names).rename_axis("factor")


def factor_relevance(model: FittedModel, ax: Axes | None = None) -> Axes:
    """The prior variance that each factor's weights were given in each view, as a share of the view's largest."""
    table = factor_relevance_data(model)
    if table.empty:
        return say_instead(ax, "Factor relevance")
    ax = factor_heat(table, ax, "1/E[alpha], share of the largest", "Factor relevance")
    ax.set_xticks(range(table.shape[1]), [short(name, 14) for name in table])
    return ax


def feature_r2_data(model: FittedModel, view: str, factor: int | None = None) -> pd.DataFrame:
    """R² of each feature by all factors, or by one of them: feature, r2; the best explained first.

    As the model has it: x_d = w_d z + b_d + noise of variance 1/tau_d, so that R² = w_d S w_dᵀ / (w_d S w_dᵀ + 1/tau_d)
    with S = <z zᵀ> of the training rows about their mean; of one factor alone, w_dk² S_kk over the same. Of labels it
    is that of the latent x. Covariates count on neither side.
    """
    fit = fitted_of(model)
    names = latent_names(fit, view)
    q, k = fit.posterior.views[fit.schema.place(view)], fit.n_components
    spread = np.atleast_2d(np.cov(fit.factors.T, bias=True)) if k else np.zeros((0, 0))
    spread = spread.reshape(k, k) + np.diag(fit.coupling.z_variance)
    w = q.w_mean[:, :k]
    signal = np.einsum("dj,jk,dk->d", w, spread, w)
    noise = 1 / np.broadcast_to(q.tau.mean, signal.shape)
    place = None if factor is None else factor_place(fit, factor)
    own = signal if place is None else w[:, place] ** 2 * spread[place, place]
    table = pd.DataFrame({"feature": names, "r2": own / (signal + noise)})
    return table.iloc[np.argsort(-table["r2"].to_numpy(), kind="stable")].reset_index(drop=True)


def feature_r2(model: FittedModel, view: str, factor: int | None = None, n: int = 30, ax: Axes | None = None) -> Axes:
    """The features of a view that are explained best, by all factors or by one of them."""
    table = feature_r2_data(model, view, factor)
    shown = table.head(n).iloc[::-1]
    ax = make_axes(ax, 6, 0.9 + 0.23 * len(shown))
    ax.barh(range(len(shown)), shown["r2"], color=PALETTE[0])
    name_bars(ax, shown["feature"])
    of = f"the first {len(shown)} of {len(table):,}" if len(shown) < len(table) else "all features"
    by = "all factors" if factor is None else fitted_of(model).factor_names[factor - 1]
    ax.set(xlim=(0, 1), xlabel=f"R² by {by}", title=f"{short(view)}: {of}")
    return without_box(ax)
