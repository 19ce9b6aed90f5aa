"""How well a model predicts cells that it was not shown."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .estimator import SSHIBA
from .metrics import auc_mc, binary_log_likelihood, class_log_likelihood, coverage, normal_log_likelihood
from .options import seed_sequence
from .tuning import class_codes, only, without
from .views import read_training, training_views

LEVEL = 0.9  # of the intervals whose coverage is told
COLUMNS = ["type", "hidden", "rmse", "r2", "coverage", "accuracy", "auc", "log_likelihood"]


def holdout(model: SSHIBA, views: Any, fraction: float = 0.1, random_state: int | None = 0) -> pd.DataFrame:
    """Hide some observed cells and labels of every view, fit the others, and score the predictions of the hidden ones.

    Parameters
    ----------
    model : SSHIBA
        Its options; it is not fitted itself.
    views : dict, or one DataFrame, MuData or AnnData
        As for `fit`.
    fraction : float
        Share of the observed cells of each view that is hidden.
    random_state : int, optional
        Which cells.

    Returns
    -------
    DataFrame
        A row per view. Real views: `rmse` in standard deviations of a feature, `r2`, `coverage` of 90 % intervals.
        Others: `accuracy`, weighted `auc`. All: `log_likelihood` per cell (real: in the user's units).
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must be between 0 and 1, not {fraction!r}.")
    views, types, _ = training_views(views, model.views)
    schema, data, index = read_training(views, types, model.dtype)
    rng = np.random.default_rng(seed_sequence(random_state))
    hidden, shown = {}, dict(views)
    for name, rows in data.items():
        width = 1 if rows.target.ndim == 1 else rows.target.shape[1]
        seen = np.broadcast_to(np.True_ if rows.observed is None else rows.observed, (len(index), width))
        hidden[name] = seen & (rng.random(seen.shape) < fraction)
        shown[name] = without(views[name], index, hidden[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(model).set_params(views=schema.types).fit(shown)
    table = {}
    for name, mask in hidden.items():
        scores = _score(fitted, shown, name, views[name], index, mask) if mask.any() else {}
        table[name] = {"type": type(schema.types[name]).__name__, "hidden": int(mask.sum()), **scores}
    return pd.DataFrame.from_dict(table, orient="index").reindex(columns=COLUMNS)


def _score(fitted: SSHIBA, shown: Any, name: str, view: Any, index: pd.Index, hidden: np.ndarray) -> dict[str, float]:
    """The measures that the view's type has."""
    aligned = view.reindex(index) if isinstance(view, pd.DataFrame | pd.Series) else view
    truth = only(aligned, hidden)
    if not fitted.views_[name].latent:
        return _score_real(fitted, shown, name, truth.astype(float))
    proba = np.asarray(fitted.predict_proba(shown, name))
    if name not in fitted.classes_:
        known = truth.astype(float)
        right = (proba > 0.5) == (known == 1)
        scores = {"accuracy": float(right[~np.isnan(known)].mean()), "auc": auc_mc(known, proba).value}
        return scores | {"log_likelihood": binary_log_likelihood(known, proba)}
    rows = hidden[:, 0]
    codes = class_codes(fitted, name, truth[rows, 0])
    return {
        "accuracy": float(np.mean(proba[rows].argmax(axis=1) == codes)),
        "auc": auc_mc(codes, proba[rows]).value,
        "log_likelihood": class_log_likelihood(codes, proba[rows]),
    }


def _score_real(fitted: SSHIBA, shown: Any, name: str, truth: np.ndarray) -> dict[str, float]:
    mean, std = fitted.predict(shown, name, return_std=True)
    mean, std = np.reshape(np.asarray(mean, float), truth.shape), np.reshape(np.asarray(std, float), truth.shape)
    coding = fitted._schema.codings[name]
    error = (truth - mean) / coding.scale
    spread = (truth - coding.centre) / coding.scale
    return {
        "rmse": float(np.sqrt(np.nanmean(error**2))),
        "r2": float(1 - np.nanmean(error**2) / np.nanmean(spread**2)),
        "coverage": coverage(truth, mean, std, LEVEL),
        "log_likelihood": normal_log_likelihood(truth, mean, std),
    }
