"""A fit in the user's units: the estimator's attributes, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ..core.explained import feature_relevance
from ..core.predictive import noise_variance
from ..fitting.restarts import Restart
from .fitted import Fitted


def attributes(fit: Fitted) -> dict[str, Any]:
    """The fitted attributes of the estimator, name -> value."""
    codings = fit.schema.codings
    per_view: dict[str, dict[str, np.ndarray]] = {
        name: {}
        for name in ("weights_", "weights_std_", "bias_", "noise_std_", "factor_relevance_", "feature_relevance_")
    }
    for (name, coding), view, spec in zip(codings.items(), fit.posterior.views, fit.spec.views):
        scale = coding.scale[:, None]
        per_view["weights_"][name] = view.w_mean * scale
        per_view["weights_std_"][name] = np.sqrt(np.maximum(view.w_second - view.w_mean**2, 0.0)) * scale
        per_view["bias_"][name] = coding.centre + coding.scale * view.b_mean
        per_view["noise_std_"][name] = coding.scale * np.sqrt(noise_variance(view))
        per_view["factor_relevance_"][name] = 1 / view.alpha.mean
        per_view["feature_relevance_"][name] = feature_relevance(view, spec)
    return {
        **per_view,
        "n_components_": fit.n_components,
        "views_": dict(fit.schema.types),
        "feature_names_in_": {name: list(coding.features) for name, coding in codings.items()},
        "classes_": {name: class_array(c.levels) for name, c in codings.items() if c.levels is not None},
        "index_": fit.index,
        "factors_": fit.factors,
        "factors_std_": fit.factors_std,
        "r2_": r2_table(fit),
        "elbo_": fit.elbo,
        "elbo_path_": fit.elbo_path,
        "n_iter_": fit.n_iter,
        "converged_": fit.converged,
        "inits_": inits_table(fit.restarts),
        "elbo_paths_": [restart.path for restart in fit.restarts],
        "sharpness_": dict(zip(fit.schema.types, fit.sharpness)),
        "provenance_": fit.provenance,
    }


def inits_table(restarts: Sequence[Restart]) -> pd.DataFrame:
    """A row for each restart."""
    table = pd.DataFrame([asdict(restart) for restart in restarts]).drop(columns="path")
    return table.assign(best=np.arange(len(table)) == int(table["elbo"].argmax()))


def r2_table(fit: Fitted) -> pd.DataFrame:
    """Factors, and all of them, x views."""
    return pd.DataFrame(fit.r2, index=[*range(fit.n_components), "all"], columns=list(fit.schema.types))


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
