"""The numbers behind the pictures, as DataFrames. The report draws the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..data.border import as_views
from ..data.row_parts import holds_sources, row_parts
from ..evaluate import Check, Stability, reliability
from ..fitted.answers import Answers
from ..fitted.describe import activity_table, covariate_effects, r2_table
from ..fitted.fitted import Fitted, FittedModel, fitted_of
from ..fitted.influences import relevance

NO_GROUPS = "the model has no groups of samples: fit it with sample_groups=."
LEVELS = np.linspace(0.05, 0.95, 19)  # of the intervals whose coverage is told
WEIGHTS = ["feature", "factor", "weight", "std"]  # columns
STABILITY = ["kind", "factor", "mean", "low", "high", "stable"]  # columns


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


def elbo_data(model: FittedModel) -> pd.DataFrame:
    """The bound after each sweep of each restart: restart, sweep, elbo, best."""
    fit = fitted_of(model)
    parts = [
        pd.DataFrame({"restart": i, "sweep": np.arange(1, len(one.path) + 1), "elbo": one.path})
        for i, one in enumerate(fit.restarts)
    ]
    parts = [part.assign(best=i == fit.best_restart) for i, part in enumerate(parts)]
    return pd.concat(parts, ignore_index=True)


def variance_explained_data(model: FittedModel) -> pd.DataFrame:
    """The share of each view's variance that each factor explains alone, factors x views."""
    fit = fitted_of(model)
    return r2_table(fit).loc[fit.factor_names].rename_axis("factor")


def activity_data(model: FittedModel) -> pd.DataFrame:
    """The variance of each factor in each group of samples, 1 on average over all training rows, factors x groups."""
    fit = fitted_of(model)
    table = activity_table(fit)
    if table is None:
        raise ValueError(NO_GROUPS)
    return table.T.rename_axis("factor")


def variance_by_group_data(model: FittedModel) -> pd.DataFrame:
    """The share of variance that each factor explains alone within each group of samples, factors x (view, group)."""
    fit = fitted_of(model)
    if fit.r2_by_group is None:
        raise ValueError(NO_GROUPS)
    pairs = pd.MultiIndex.from_product([list(fit.schema.types), list(fit.schema.group_names)])
    shares = np.moveaxis(fit.r2_by_group[:, : fit.n_components], 0, 2).reshape(fit.n_components, len(pairs))
    return pd.DataFrame(shares, index=fit.factor_names, columns=pairs).rename_axis("factor")


def factor_relevance_data(model: FittedModel) -> pd.DataFrame:
    """1/E[alpha] of each factor as a share of the view's largest, factors x views."""
    fit = fitted_of(model)
    relevances = {name: 1 / view.alpha.mean for name, view in zip(fit.schema.types, fit.posterior.views)}
    table = {name: values / values.max(initial=0.0) for name, values in relevances.items()}
    return pd.DataFrame(table, index=fit.factor_names).rename_axis("factor")


def weights_data(model: FittedModel, view: str, factor: int | None = None) -> pd.DataFrame:
    """The weights of a view: feature, factor, weight, std; those of one factor, counted from 1, the largest first.

    In the model's units, standard deviations of each feature unless `scale=False`, so that they can be compared;
    `weights_` has them in the data's units.
    """
    fit = fitted_of(model)
    names, q = _names(fit, view), fit.posterior.views[fit.schema.place(view)]
    means, stds = q.w_mean, np.sqrt(np.maximum(q.w_second - q.w_mean**2, 0.0))
    places = range(fit.n_components) if factor is None else [_factor_place(fit, factor)]
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


def covariate_effects_data(model: FittedModel, covariate: Any = None) -> pd.DataFrame:
    """What covariates, or one of them, do: view, feature, covariate, effect, std, low, high; the largest first.

    In deviations of each feature, so that they can be compared: of a number for a deviation of it, of a label against
    the first label. `covariate_effects_` has them in the units of the data.
    """
    fit = fitted_of(model)
    table = covariate_effects(fit, standard=True)
    if table is None or fit.schema.covariates is None:
        raise ValueError("the model has no covariates.")
    table = table.reset_index()
    if covariate is not None:
        terms = list(fit.schema.covariates.terms)
        if covariate not in terms:
            raise ValueError(f"there is no effect of {covariate!r}; there are those of {terms}.")
        table = table[table["covariate"] == covariate]
    return table.iloc[np.argsort(-table["effect"].abs().to_numpy(), kind="stable")].reset_index(drop=True)


def feature_relevance_data(model: FittedModel, view: str) -> pd.DataFrame:
    """How relevant each feature of a view is, the most relevant first: feature, relevance, place."""
    fit = fitted_of(model)
    names = _names(fit, view)
    table = pd.DataFrame({"feature": names, "relevance": relevance(fit, view), "place": range(len(names))})
    return table.sort_values("relevance", ascending=False, kind="stable", ignore_index=True)


def factors_data(model: FittedModel, x: int = 1, y: int = 2, colour: Any = None) -> pd.DataFrame:
    """Two factors, counted from 1, of each training row with their standard deviations, and what colours the points."""
    fit = fitted_of(model)
    n_rows, alone = len(fit.factors), fit.n_components == 1
    values, stds = fit.factors, fit.factors_std
    across, up = _factor_place(fit, x), _factor_place(fit, 1 if alone else y)
    table = pd.DataFrame(
        {
            "x": values[:, across],
            "y": np.arange(n_rows) if alone else values[:, up],
            "x_std": stds[:, across],
            "y_std": np.zeros(n_rows) if alone else stds[:, up],
        },
        index=fit.index,
    )
    if colour is not None:
        table["colour"] = _per_row(fit, colour)
    return table


def _per_row(fit: Fitted, colour: Any) -> Any:
    """One value for each training row, from whatever holds them."""
    n_rows = len(fit.factors)
    if isinstance(colour, str | bytes) or not hasattr(colour, "__len__"):
        raise TypeError(f"colour must have a value for each of the {n_rows} rows, not be {colour!r}.")
    if isinstance(colour, pd.Series):
        if not colour.index.is_unique:
            raise ValueError("colour has several rows of one name.")
        if not fit.index.isin(colour.index).any():
            raise ValueError("no row of the model is in colour's index; give colour.to_numpy() to go by order.")
        return colour.reindex(fit.index).array
    if np.ndim(colour) != 1 or len(colour) != n_rows:
        shape = " x ".join(str(n) for n in np.shape(colour))
        raise ValueError(f"colour has {shape} values, and the model {n_rows} rows.")
    return pd.Series(colour).array


def factor_correlation_data(model: FittedModel) -> pd.DataFrame:
    """Correlations between the factors of the training rows; they should be small off the diagonal."""
    fit = fitted_of(model)
    names, factors = fit.factor_names, fit.factors - fit.factors.mean(axis=0)
    size = np.sqrt((factors**2).sum(axis=0))
    size[size == 0] = 1.0
    return pd.DataFrame((factors / size).T @ (factors / size), names, names).rename_axis("factor")


def stability_data(found: Stability | Sequence[Stability]) -> pd.DataFrame:
    """How well each factor was found again: kind, factor, mean, low, high, stable; of one `Stability` or several.

    They come from `sshiba.evaluate.stability`.
    """
    several = found if isinstance(found, Sequence) else [found]
    if not several or not all(isinstance(one, Stability) for one in several):
        raise TypeError(f"give what sshiba.evaluate.stability returns, one or several, not {found!r}.")
    if len({tuple(one.table.index) for one in several}) > 1:
        raise ValueError("these are of models with different numbers of factors; draw each on its own.")
    return pd.concat([one.table.reset_index().assign(kind=one.kind) for one in several], ignore_index=True)[STABILITY]


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


def calibration_data(checks: dict[str, Check], view: str) -> pd.DataFrame:
    """What was promised against what happened: promised, happened, n.

    Numbers: the share of hidden cells inside central intervals of each level. Others: how often what was given a
    probability was true, in ten bins; each class, and each level of an ordinal feature, has one.
    """
    cells = imputation_data(checks, view)
    if "std" in cells:
        away = np.abs(checks[view].ranks() - 0.5)
        happened = [float(np.mean(away <= level / 2)) for level in LEVELS]
        return pd.DataFrame({"promised": LEVELS, "happened": happened, "n": len(cells)})
    return reliability(*checks[view].events())


def _one_check(checks: dict[str, Check], view: str) -> Check:
    if view not in checks:
        raise ValueError(f"unknown view {view!r}; there are {list(checks)}.")
    return checks[view]


def _names(fit: Fitted, view: str) -> list:
    """The names of a view's features or classes."""
    if view not in fit.schema.types:
        raise ValueError(f"unknown view {view!r}; the model has the views {list(fit.schema.types)}.")
    return list(fit.schema.codings[view].latent_names)


def _factor_place(fit: Fitted, number: int) -> int:
    """The place of a factor in arrays, from its number as users count, 1 .. K."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not whole or not 1 <= number <= fit.n_components:
        raise ValueError(f"there is no factor {number!r}; the model has {fit.n_components}, counted from 1.")
    return int(number) - 1
