"""What the report says, as plain values for its page: the numbers of `sshiba.plots`, and a sentence for each part."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..plots import data
from ..result import views_table
from . import words

if TYPE_CHECKING:
    from ..estimator import SSHIBA
    from ..evaluate import Check

MOST_POINTS = 4_000  # of the scatter
MOST_WEIGHTS = 600_000  # of all views, each with its deviation: six megabytes of page
MOST_COLOURS = 15  # columns of each view that can colour the points
MOST_BARS = 40
MOST_BANDS = 400  # rows of the overview that a screen can tell apart


def content(model: SSHIBA, views: Any, checks: dict[str, Check] | None, fraction: float) -> dict[str, Any]:
    """Everything on the page."""
    table = views_table(model)
    rows = np.sort(np.random.default_rng(0).permutation(len(model.factors_))[:MOST_POINTS])
    correlation = data.factor_correlation_data(model)
    parts: dict[str, Any] = {
        "views": {"words": words.views(model, table), "rows": _views(model, table)},
        "convergence": {"words": words.convergence(model), "paths": _paths(model), "restarts": _restarts(model)},
        "variance": {
            "words": words.variance(model),
            "views": [str(name) for name in model.r2_],
            "shares": rounded(data.variance_explained_data(model)),
            "all": rounded(model.r2_.loc[["all"]])[0],
        },
        "factors": {
            "words": words.factors(correlation, len(rows), len(model.factors_)),
            "n": model.n_components_,
            "rows": [str(label) for label in model.index_[rows]],
            "values": packed(model.factors_[rows].T),
            "colours": _colours(model, views, rows),
        },
        "weights": _weights(model),
        "relevance": [_relevance(model, name) for name in model.views_],
        "provenance": {"words": words.provenance(model), "settings": _settings(model)},
    }
    if views is not None:
        parts["overview"] = _overview(model, views)
    if checks:
        parts["check"] = _check(checks, fraction)
    return parts


def packed(values: np.ndarray) -> str:
    """Numbers in single precision, row by row, as text."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def rounded(table: pd.DataFrame) -> list[list[float]]:
    return [[round(float(x), 8) for x in row] for row in table.to_numpy()]


def _views(model: SSHIBA, table: pd.DataFrame) -> list[list[str]]:
    """A line for each view, as it is read."""
    inferred = model._schema.inferred
    lines = []
    for row in table.to_dict(orient="records"):
        name = row["view"]
        kind = row["type"] + (f" (inferred: {inferred[name]})" if inferred.get(name) else "")
        size = words.counted(row["size"], *(("class", "classes") if name in model.classes_ else ("feature",)))
        lines.append([str(name), kind, size, f"{row['missing']:.1%}", f"{row['explained']:.1%}"])
    return lines


def _paths(model: SSHIBA) -> list[list[list[float]]]:
    """The bounds of each restart below the best, thinned where there are thousands of sweeps."""
    out = []
    for path in model.elbo_paths_:
        places = np.unique(np.linspace(0, len(path) - 1, 400).astype(int))
        out.append([[int(i) + 1, round(float(path[i]), 3)] for i in places])
    return out


def _restarts(model: SSHIBA) -> list[list[str]]:
    return [
        [
            str(number),
            f"{row['elbo']:,.1f}",
            str(row["n_components"]),
            str(row["n_iter"]),
            "yes" if row["converged"] else "no",
            f"{row['seconds']:.1f}",
        ]
        for number, row in enumerate(model.inits_.to_dict(orient="records"))
    ]


def _weights(model: SSHIBA) -> dict[str, Any]:
    """The weights of every view; of very wide ones the features with the largest."""
    total = sum(part.size for part in model.weights_.values())
    out = []
    for name, coding in model._schema.codings.items():
        mean, std = (part[name] / coding.scale[:, None] for part in (model.weights_, model.weights_std_))
        n = len(mean) if total <= MOST_WEIGHTS else max(1, int(len(mean) * MOST_WEIGHTS / total))
        kept = np.sort(np.argsort(-np.abs(mean).max(axis=1), kind="stable")[:n])
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


def _relevance(model: SSHIBA, name: str) -> dict[str, Any]:
    table = data.feature_relevance_data(model, name)
    first = table.head(MOST_BARS)
    return {
        "view": str(name),
        "words": words.relevance(str(name), table, model.views_[name].select_features),
        "features": [str(feature) for feature in first["feature"]],
        "values": [float(f"{value:.4g}") for value in first["relevance"]],
    }


def _settings(model: SSHIBA) -> list[list[str]]:
    shown = {k: v for k, v in model.get_params(deep=False).items() if k not in ("views", "callback", "verbose")}
    return [[name, str(value)] for name, value in shown.items()] + [
        [f"view {name}", repr(view)] for name, view in model.views_.items()
    ]


def _overview(model: SSHIBA, views: Any) -> dict[str, Any]:
    shares = data.overview_data(model, views)
    ordered = data.by_pattern(shares)
    places = np.unique(np.linspace(0, max(len(ordered) - 1, 0), MOST_BANDS).astype(int))
    return {
        "words": words.overview(shares),
        "views": [str(name) for name in shares],
        "shares": rounded(ordered.iloc[places].T),
    }


def _colours(model: SSHIBA, views: Any, rows: np.ndarray) -> list[dict[str, Any]]:
    """Columns of the data that can colour the points: labels first, of each view the most relevant ones."""
    if views is None:
        return []
    given, index = model._answers.given(views), model._answers.read(views)[1]
    out = []
    for name in sorted(given, key=lambda n: n not in model.classes_):
        frame = pd.DataFrame(given[name]) if not isinstance(given[name], pd.Series) else given[name].to_frame()
        if len(frame) == len(index) and not isinstance(given[name], pd.DataFrame | pd.Series):
            frame.index = index
        frame = frame.reindex(model.index_[rows])
        if frame.notna().to_numpy().any():
            relevance = model.feature_relevance_[name]
            order = np.argsort(-relevance, kind="stable") if name not in model.classes_ else np.array([0])
            for d in order[:MOST_COLOURS]:
                out.append(_colour(str(name), frame.iloc[:, int(d)], model, name, int(d)))
    return out


def _colour(view: str, column: pd.Series, model: SSHIBA, name: str, d: int) -> dict[str, Any]:
    feature = str(model._schema.codings[name].features[d])
    title = view if name in model.classes_ else f"{view}: {feature}"
    if name in model.classes_ or not pd.api.types.is_numeric_dtype(column):
        return {"name": title, "labels": [None if pd.isna(x) else str(x) for x in column]}
    return {"name": title, "values": [None if pd.isna(x) else float(f"{float(x):.5g}") for x in column]}


def _check(checks: dict[str, Check], fraction: float) -> dict[str, Any]:
    from ..evaluate import scores_table

    scores = scores_table(checks)
    shown = [name for name, one in checks.items() if one.hidden.any()]
    columns = ["view", *scores.columns]
    return {
        "words": words.held_out(scores, fraction),
        "columns": [column.replace("_", " ") for column in columns],
        "rows": [
            [str(name), *("" if pd.isna(x) else f"{x:.3f}" if isinstance(x, float) else str(x) for x in row)]
            for name, row in zip(scores.index, scores.to_numpy(dtype=object))
        ],
        "calibration": [
            {"view": str(name), "points": rounded(data.calibration_data(checks, name)[["promised", "happened"]])}
            for name in shown
        ],
    }
