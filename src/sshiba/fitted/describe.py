"""A fit in the user's units: the estimator's attributes, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ..core.explained import feature_relevance
from ..core.predictive import noise_variance
from ..data.coding import labelled_frame
from ..fitting.restarts import Restart, best_place
from .fitted import Fitted
from .search import Candidate, Search


def attributes(fit: Fitted) -> dict[str, Any]:
    """The fitted attributes of the estimator, name -> value; those of labelled data are labelled."""
    codings = fit.schema.codings
    of_views = {name: view_attributes(fit, name) for name in codings}
    any_labelled = any(coding.is_labelled for coding in codings.values())
    factors, factors_std = fit.factors, fit.factors_std
    return {
        **{name: {view: own[name] for view, own in of_views.items()} for name in next(iter(of_views.values()))},
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
    view, spec = fit.posterior.views[place], fit.spec.views[place]
    scale = coding.scale[:, None]
    by_feature_and_factor = {
        "weights_": view.w_mean * scale,
        "weights_std_": np.sqrt(np.maximum(view.w_second - view.w_mean**2, 0.0)) * scale,
    }
    by_feature = {
        "bias_": coding.centre + coding.scale * view.b_mean,
        "noise_std_": coding.scale * np.sqrt(noise_variance(view)),
        "feature_relevance_": feature_relevance(view, spec),
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
    return pd.DataFrame(fit.r2, index=[*fit.factor_names, "all"], columns=list(fit.schema.types))


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
    return pd.DataFrame(rows)


def class_array(levels: tuple) -> np.ndarray:
    """Labels of one kind as an array of that kind, of several kinds as objects."""
    return np.array(levels, dtype=None if len({type(level) for level in levels}) == 1 else object)
