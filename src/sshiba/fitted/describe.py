"""A fit in the user's units: the estimator's attributes, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ..core.explained import activity_nats, effect_variances
from ..core.predictive import noise_variance
from ..core.state import ViewPosterior
from ..data.coding import labelled_frame
from ..data.wording import counted, percent
from ..fitting.restarts import Restart, best_place
from .candidates import Candidate
from .fitted import Fitted
from .influences import relevance
from .search import Search

STRONG = np.log(20)  # nats: of factors that do nothing in a view at most one in twenty is called active there
WIDTH = 1.959964  # standard deviations on either side of a mean that hold 95 % of a normal distribution


def attributes(fit: Fitted) -> dict[str, Any]:
    """The fitted attributes of the estimator, name -> value; those of labelled data are labelled."""
    codings = fit.schema.codings
    of_views = {name: view_attributes(fit, name) for name in codings}
    any_labelled = any(coding.is_labelled for coding in codings.values())
    factors, factors_std = fit.factors, fit.factors_std
    return {
        **{name: {view: own[name] for view, own in of_views.items()} for name in next(iter(of_views.values()))},
        "covariate_effects_": covariate_effects(fit),
        "n_components_": fit.n_components,
        "views_": dict(fit.schema.types),
        "feature_names_in_": {name: list(coding.features) for name, coding in codings.items()},
        "classes_": {name: class_array(c.levels) for name, c in codings.items() if c.levels is not None},
        "levels_": {
            name: {feature: own.array for feature, own in zip(coding.features, coding.ordered)}
            for name, coding in codings.items()
            if coding.ordered
        },
        "margins_": {
            name: {feature: str(margin) for feature, margin in zip(coding.features, coding.margins)}
            for name, coding in codings.items()
            if coding.margins
        },
        "index_": fit.index,
        "factors_": labelled_frame(factors, fit.factor_names, fit.index) if any_labelled else factors,
        "factors_std_": labelled_frame(factors_std, fit.factor_names, fit.index) if any_labelled else factors_std,
        "r2_": r2_table(fit),
        "active_": active_table(fit),
        "activity_": activity_table(fit),
        "bias_by_group_": bias_by_group(fit),
        "r2_by_group_": r2_by_group_table(fit),
        "elbo_": fit.elbo,
        "log_evidence_": fit.log_evidence,
        "elbo_path_": fit.elbo_path,
        "n_iter_": fit.n_iter,
        "converged_": fit.converged,
        "inits_": inits_table(fit.restarts),
        "elbo_paths_": [restart.path for restart in fit.restarts],
        "search_": None if fit.search is None else search_table(fit.search),
        "sharpness_": dict(zip(fit.schema.types, fit.sharpness)),
        "provenance_": fit.provenance,
    }


def view_attributes(fit: Fitted, name: str) -> dict[str, Any]:
    """The fitted attributes of one view: arrays, or frames and series by name where the view was labelled."""
    place, coding = fit.schema.place(name), fit.schema.codings[name]
    view = fit.posterior.views[place]
    mean, std = fit.weights(name)
    by_feature_and_factor = {"weights_": mean * coding.scale[:, None], "weights_std_": std * coding.scale[:, None]}
    by_feature = {
        "bias_": coding.centre + coding.scale * view.b_mean,
        "noise_std_": coding.scale * np.sqrt(noise_variance(view)),
        "feature_relevance_": relevance(fit, name),
    }
    by_factor = {"factor_relevance_": 1 / view.alpha.mean}
    if not coding.is_labelled:
        return {**by_feature_and_factor, **by_feature, **by_factor}
    features = coding.latent_index
    return {
        **{key: labelled_frame(values, fit.factor_names, features) for key, values in by_feature_and_factor.items()},
        **{key: pd.Series(values, features) for key, values in by_feature.items()},
        **{key: pd.Series(values, fit.factor_names) for key, values in by_factor.items()},
    }


def inits_table(restarts: Sequence[Restart]) -> pd.DataFrame:
    """A row for each restart; a log evidence that is not derived is NaN."""
    table = pd.DataFrame([asdict(restart) for restart in restarts]).drop(columns="path")
    return table.astype({"log_evidence": float}).assign(best=np.arange(len(table)) == best_place(restarts))


def settings_row(candidate: Candidate) -> dict[str, Any]:
    return {
        "keep": candidate.keep,
        "alpha": candidate.priors.alpha,
        "noise_floor": candidate.priors.noise_floor,
        "label_weight": candidate.label_weight,
        "labels_together": candidate.labels_together,
    }


def search_table(search: Search) -> pd.DataFrame:
    """A row for each candidate: its settings, its score on each view (nats a cell, larger is better), and the mean."""
    rows = [
        {**settings_row(c), "n_components": n} | {f"score {name}": value for name, value in score.items()}
        for c, n, score in zip(search.candidates, search.n_components, search.scores)
    ]
    return pd.DataFrame(rows).assign(mean=search.means, chosen=np.arange(len(rows)) == search.chosen)


def r2_table(fit: Fitted) -> pd.DataFrame:
    """Factors, and all of them, x views."""
    return pd.DataFrame(fit.r2, index=fit.r2_names, columns=fit.schema.names)


def active_table(fit: Fitted) -> pd.DataFrame:
    """Factors x views: in which views there is strong evidence, 20 to 1, that a factor's weights are not all 0."""
    active = activity_nats(fit.posterior, fit.spec) > STRONG
    return pd.DataFrame(active, index=fit.factor_names, columns=fit.schema.names)


def activity_table(fit: Fitted) -> pd.DataFrame | None:
    """Groups of samples x factors: the variance of each factor in each group, 1 on average over all training rows."""
    if fit.schema.groups is None:
        return None
    names = pd.Index(list(fit.schema.group_names), name=fit.schema.groups.name)
    return labelled_frame(1 / fit.posterior.activity.mean, fit.factor_names, names)


def group_intercepts(fit: Fitted, view: ViewPosterior) -> np.ndarray:
    """The intercepts of each group of samples in a view, other covariates at their mean: (S, D), the model's units."""
    known, groups = fit.schema.covariates, fit.schema.groups
    if known is None or groups is None:
        return np.tile(view.b_mean, (len(fit.schema.group_names), 1))
    return view.b_mean + known.at_label(groups) @ view.w_mean[:, fit.n_components :].T


def bias_by_group(fit: Fitted) -> dict[str, pd.DataFrame] | None:
    """The same of all views in the user's units: groups x features."""
    if fit.schema.groups is None:
        return None
    names, out = pd.Index(list(fit.schema.group_names), name=fit.schema.groups.name), {}
    for view, (name, coding) in zip(fit.posterior.views, fit.schema.codings.items()):
        values = coding.centre + coding.scale * group_intercepts(fit, view)
        out[name] = labelled_frame(values, coding.latent_index, names)
    return out


def r2_by_group_table(fit: Fitted) -> pd.DataFrame | None:
    """(group, factor or all) x views: share of the variance within each group, about its own intercepts."""
    if fit.schema.groups is None or fit.r2_by_group is None:
        return None
    rows = [list(fit.schema.group_names), [*fit.factor_names, "all"]]
    index = pd.MultiIndex.from_product(rows, names=[fit.schema.groups.name, None])
    shares = fit.r2_by_group.reshape(len(index), -1)
    return pd.DataFrame(shares, index=index, columns=fit.schema.names)


def covariate_effects(fit: Fitted, standard: bool = False) -> pd.DataFrame | None:
    """What a unit of each covariate does to each feature: effect, deviation and 95 % interval; None without any.

    In the units of the data, of latent views in those of x; of a label against the first label of its column.
    `standard`: in deviations of the feature, and for a deviation of a number, so that they can be compared.
    """
    known = fit.schema.covariates
    if known is None:
        return None
    tables, variances = [], effect_variances(fit.posterior, fit.spec, known.products)
    for view, variance, (name, coding) in zip(fit.posterior.views, variances, fit.schema.codings.items()):
        unit = known.units + 0 * coding.scale[:, None] if standard else coding.scale[:, None] / known.coding.scale
        effect, std = view.w_mean[:, fit.n_components :] * unit, np.sqrt(variance) * unit
        rows = {"effect": effect, "std": std, "low": effect - WIDTH * std, "high": effect + WIDTH * std}
        index = pd.MultiIndex.from_product(
            [[name], list(coding.latent_names), list(known.terms)], names=["view", "feature", "covariate"]
        )
        tables.append(pd.DataFrame({column: values.ravel() for column, values in rows.items()}, index=index))
    return pd.concat(tables)


def views_table(fit: Fitted) -> pd.DataFrame:
    """A row for each view: its type, size (features or classes), share of missing cells and of variance explained."""
    rows = []
    for place, (name, view) in enumerate(fit.schema.types.items()):
        coding = fit.schema.codings[name]
        rows.append(
            {
                "view": name,
                "type": type(view).__name__,
                "size": coding.width,
                "missing": 1 - float(coding.observed_per_feature.mean()) / len(fit.factors),
                "explained": float(fit.r2[-1, place]),
            }
        )
    for place, (name, twin) in enumerate(fit.schema.twins.items(), start=len(rows)):
        missing, explained = 1 - twin.n_seen / len(fit.factors), float(fit.r2[-1, place])
        own = {"view": fit.schema.twin_names[name], "type": "kernel features", "size": twin.width}
        rows.append({**own, "missing": missing, "explained": explained})
    return pd.DataFrame(rows)


def views_html(fit: Fitted) -> str:
    """`views_table` for a notebook, under a line with the numbers of rows and factors; names are escaped."""
    shares = dict.fromkeys(("missing", "explained"), lambda share: percent(share, 1))
    size = f"{counted(len(fit.factors), 'row')}, {counted(fit.n_components, 'factor')}"
    return f"<p>{size}</p>" + views_table(fit).to_html(index=False, border=0, formatters=shares)


def class_array(levels: tuple) -> np.ndarray:
    """Labels of one kind as an array of that kind, of several kinds as objects."""
    return np.array(levels, dtype=None if len({type(level) for level in levels}) == 1 else object)
