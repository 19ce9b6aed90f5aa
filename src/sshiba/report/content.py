"""What the report says, as plain values for its page: the numbers of `sshiba.plots`, and a sentence for each part."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pandas as pd

from .. import plots
from ..data.sampling import Sample
from ..data.wording import counted, percent
from ..evaluate import Check, scores_table
from ..fitted.describe import covariate_effects, inits_table, r2_table, views_table
from ..fitted.fitted import Fitted
from ..plots.data_pictures import by_pattern
from . import sentences
from .about_rows import cards, colour, known_columns

MOST_POINTS = 4_000  # of the scatter
MOST_WEIGHTS = 600_000  # of all views, each with its deviation: six megabytes of page
MOST_BARS = 40
MOST_BANDS = 400  # rows of the overview that a screen can tell apart


def content(
    fit: Fitted, sample: Sample, checks: dict[str, Check] | None, fraction: float, metadata: Any = None
) -> dict[str, Any]:
    """Everything on the page; `sample` holds the data, or None."""
    table = views_table(fit)
    possible = rows_in_fit(fit, sample)
    rows = np.sort(possible[np.random.default_rng(0).permutation(len(possible))[:MOST_POINTS]])
    correlation, known = plots.factor_correlation_data(fit), known_columns(fit, sample, metadata)
    parts: dict[str, Any] = {
        "views": {"words": sentences.views(fit, table), "rows": _views(fit, table)},
        "convergence": {"words": sentences.convergence(fit), "paths": _paths(fit), **_restarts(fit)},
        "variance": {
            "words": sentences.variance(fit),
            "views": [str(name) for name in fit.schema.names],
            "shares": rounded(plots.variance_explained_data(fit)),
            "all": rounded(r2_table(fit).loc[["all"]])[0],
        },
        "factors": {
            "words": sentences.factors(correlation, len(rows), len(fit.factors)),
            "names": fit.factor_names,
            "rows": [str(label) for label in fit.index[rows]],
            "values": packed(fit.factors[rows].T),
            "colours": [colour(column, rows) for column in known],
        },
        "cards": cards(fit, known),
        "weights": _weights(fit),
        "relevance": [_relevance(fit, name) for name, view in fit.schema.types.items() if view.select_features],
        "provenance": {"words": sentences.provenance(fit), "settings": _settings(fit)},
    }
    if fit.schema.groups is not None:
        parts["groups"] = _groups(fit)
    if fit.schema.covariates is not None:
        parts["effects"] = _effects(fit)
    if sample.views is not None:
        parts["overview"] = _overview(fit, sample)
    if checks:
        parts["check"] = _check(checks, fraction, sample)
    elif sample.views is not None:
        parts["check"] = {"words": sentences.NO_CHECK}
    return parts


def rows_in_fit(fit: Fitted, sample: Sample) -> np.ndarray:
    """Where the rows of a sample are among those of the fit."""
    if sample.places is None or sample.index is None:
        return np.arange(len(fit.factors))
    return fit.index.get_indexer(sample.index) if fit.index.is_unique else sample.places


def packed(values: np.ndarray) -> str:
    """Numbers in single precision, row by row, as text."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def rounded(table: pd.DataFrame) -> list[list[float]]:
    return [[round(float(x), 8) for x in row] for row in table.to_numpy()]


def _views(fit: Fitted, table: pd.DataFrame) -> list[list[str]]:
    """A line for each view, as it is read."""
    inferred = fit.schema.inferred
    lines = []
    for row in table.to_dict(orient="records"):
        name = row["view"]
        kind = row["type"] + (f" (inferred: {inferred[name]})" if inferred.get(name) else "")
        coding = fit.schema.codings.get(name)
        scales = "" if coding is None else fit.schema.scales_in_words(name)
        kind += f"; {scales}" if scales else ""
        size = counted(row["size"], "feature") if coding is None else coding.size_in_words
        lines.append([str(name), kind, size, percent(row["missing"], 1), percent(row["explained"], 1)])
    return lines


def _groups(fit: Fitted) -> dict[str, Any]:
    """The activity of factors in groups of samples, and what they explain there; not that of a fit that was ended."""
    shares = plots.variance_by_group_data(fit) if fit.r2_by_group is not None else pd.DataFrame()
    pairs: list[Any] = shares.columns.to_list()
    return {
        "words": sentences.groups(fit),
        "names": [str(name) for name in fit.schema.group_names],
        "activity": rounded(plots.activity_data(fit)),
        "columns": [", ".join(str(name) for name in pair) for pair in pairs],
        "shares": rounded(shares),
    }


def _paths(fit: Fitted) -> list[list[list[float]]]:
    """The bounds of each restart below the best, thinned where there are thousands of sweeps."""
    out = []
    for path in (restart.path for restart in fit.restarts):
        places = np.unique(np.linspace(0, len(path) - 1, 400).astype(int))
        out.append([[int(i) + 1, round(float(path[i]), 3)] for i in places])
    return out


def _restarts(fit: Fitted) -> dict[str, Any]:
    """Which one is the best, and a line for each; the log evidence where it is known."""
    table = inits_table(fit.restarts)
    shown = {
        "start": [str(number) for number in range(1, len(table) + 1)],
        "bound": [f"{bound:,.1f}" for bound in table["elbo"]],
        "log evidence": [f"{value:,.1f}" for value in table["log_evidence"]],
        "factors": [str(number) for number in table["n_components"]],
        "sweeps": [str(number) for number in table["n_iter"]],
        "converged": ["yes" if converged else "no" for converged in table["converged"]],
        "seconds": [f"{seconds:.1f}" for seconds in table["seconds"]],
    }
    if table["log_evidence"].isna().any():
        del shown["log evidence"]
    return {"best": fit.best_restart, "columns": list(shown), "restarts": [list(row) for row in zip(*shown.values())]}


def _weights(fit: Fitted) -> dict[str, Any]:
    """The weights of every view; of very wide ones the features with the largest."""
    learned = slice(fit.n_components)
    total = sum(view.w_mean[:, learned].size for view in fit.posterior.views)
    out = []
    for name, coding in fit.schema.codings.items():
        mean, std = fit.weights(name)
        n = len(mean) if total <= MOST_WEIGHTS else max(1, int(len(mean) * MOST_WEIGHTS / total))
        kept = np.sort(np.argsort(-np.abs(mean).max(axis=1, initial=0.0), kind="stable")[:n])
        out.append(
            {
                "view": str(name),
                "features": [str(coding.latent_names[d]) for d in kept],
                "left_out": len(mean) - len(kept),
                "mean": packed(mean[kept]),
                "std": packed(std[kept]),
            }
        )
    return {"views": out}


def _effects(fit: Fitted) -> dict[str, Any]:
    """The largest effects of covariates, in the units of the data, the clearest first."""
    table = plots.covariate_effects_data(fit)
    effects = covariate_effects(fit)
    assert effects is not None
    first = table.head(MOST_BARS)
    own = effects.loc[pd.MultiIndex.from_frame(first[["view", "feature", "covariate"]])]
    figures = [f"{value:.3g}" for value in first["effect"]]
    rows = zip(first["covariate"], first["view"], first["feature"], figures, own["effect"], own["low"], own["high"])
    return {
        "words": sentences.effects(fit, table),
        "columns": ["covariate", "view", "feature", "in deviations", "effect", "low", "high"],
        "rows": [[*map(str, row[:4]), *(f"{value:.4g}" for value in row[4:])] for row in rows],
    }


def _relevance(fit: Fitted, name: str) -> dict[str, Any]:
    table = plots.feature_relevance_data(fit, name)
    first = table.head(MOST_BARS)
    return {
        "view": str(name),
        "words": sentences.relevance(str(name), table, fit.schema.codings[name].size_in_words),
        "features": [str(feature) for feature in first["feature"]],
        "values": [float(f"{value:.4g}") for value in first["relevance"]],
    }


def _settings(fit: Fitted) -> list[list[str]]:
    shown = {name: value for name, value in fit.settings.items() if name != "verbose"}
    return [[name, str(value)] for name, value in shown.items()] + [
        [f"view {name}", repr(view)] for name, view in fit.schema.types.items()
    ]


def _overview(fit: Fitted, sample: Sample) -> dict[str, Any]:
    shares = plots.overview_data(fit, sample.views)
    ordered = by_pattern(shares)
    places = np.unique(np.linspace(0, max(len(ordered) - 1, 0), MOST_BANDS).astype(int))
    return {
        "words": sentences.looked_at(sample.in_words) + sentences.overview(shares),
        "views": [str(name) for name in shares],
        "shares": rounded(ordered.iloc[places].T),
    }


def _check(checks: dict[str, Check], fraction: float, sample: Sample) -> dict[str, Any]:
    scores = scores_table(checks)
    shown = [name for name, one in checks.items() if one.hidden.any()]
    words = sentences.looked_at(sample.in_words) + sentences.held_out(scores, fraction)
    scores = scores.dropna(axis="columns", how="all")  # scores that no view has
    columns = ["view", *scores.columns]
    return {
        "words": words,
        "columns": [column.replace("_", " ") for column in columns],
        "rows": [
            [str(name), *("" if pd.isna(x) else f"{x:.3f}" if isinstance(x, float) else str(x) for x in row)]
            for name, row in zip(scores.index, scores.to_numpy(dtype=object))
        ],
        "calibration": [_calibration(checks, name) for name in shown],
    }


def _calibration(checks: dict[str, Check], name: str) -> dict[str, Any]:
    """Points with their intervals; numbers have a line, since their levels are chosen."""
    table = plots.calibration_data(checks, name)
    points = rounded(table[["predicted", "observed", "low", "high"]])
    return {"view": str(name), "points": points, "line": checks[name].std is not None, "n": checks[name].n_hidden}
