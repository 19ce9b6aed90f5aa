"""Table C: half of the training inputs removed; what imputation before the fit does, and what SSHIBA does without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from .. import SSHIBA, datasets
from ..evaluate import auc_mc, coverage, rmse
from .experiment_cells import SEED, Cell, Result
from .labels import Problem, aviris, mulan
from .methods import DEFAULTS, PAPER, TUNED, model_options, tuned, view_types

SHARE = 0.5
DATA = ("yeast", "aviris", "scene")
ROWS = (
    "nothing missing, predictive",
    "nothing missing, semi-supervised",
    "SSHIBA's own, exact",
    "SSHIBA's own, mean-field",
    "mean",
    "median",
    "most frequent",
    "IterativeImputer",
    "KNNImputer",
)
SETTINGS = (PAPER, DEFAULTS, TUNED)
# The paper's holes are mean-field; options are chosen for our exact treatment and for the imputers beside it.
LINES = {
    f"{row}; {settings}": (row, settings)
    for row in ROWS
    for settings in SETTINGS
    if not (settings == PAPER and row.endswith("exact"))
    and not (settings == TUNED and row.endswith(("predictive", "semi-supervised", "mean-field")))
}


def cells(quick: bool) -> Iterator[Cell]:
    for data in DATA:
        for row, settings in LINES.values():
            if quick and settings == TUNED:
                continue
            cost = (300 if data == "aviris" else 20) * (3 if row.startswith("SSHIBA") else 1)
            options = {"data": data, "row": row, "settings": settings, "quick": quick}
            yield Cell("missing", options, cost * (5 if settings == TUNED else 1))


def problem(data: str, quick: bool) -> Problem:
    """AVIRIS: labelled pixels, classes, at most 60 factors: each row with its own holes is a system of its own."""
    if data == "aviris":
        found = aviris("labelled", "categorical", quick)
        return replace(found, n_components=min(found.n_components, 60))
    loaded = datasets.load_yeast() if data == "yeast" else datasets.load_scene()
    return mulan(loaded, 40 if quick else 100)


def remove(inputs: np.ndarray, is_train: np.ndarray) -> np.ndarray:
    """A copy with half of the training cells missing."""
    hidden = np.random.default_rng(SEED).random(inputs.shape) < SHARE
    return np.where(hidden & is_train[:, None], np.nan, inputs)


def imputer(row: str, quick: bool) -> Any:
    """Ready-made ones; the columns are standardised before."""
    return {
        "mean": SimpleImputer(strategy="mean"),
        "median": SimpleImputer(strategy="median"),
        "most frequent": SimpleImputer(strategy="most_frequent"),
        "IterativeImputer": IterativeImputer(n_nearest_features=30 if quick else None, random_state=SEED),
        "KNNImputer": KNNImputer(n_neighbors=10),
    }[row]


def compute(cell: Cell, before: Result | None = None) -> Result:
    row, quick = cell.options["row"], cell.options["quick"]
    p = problem(cell.options["data"], quick)
    centre, scale = p.inputs[p.is_train].mean(axis=0), p.inputs[p.is_train].std(axis=0)
    truth = (p.inputs - centre) / np.where(scale > 0, scale, 1.0)
    model = configured(p, row, cell.options["settings"], quick)
    inputs = truth if row.startswith("nothing") else remove(truth, p.is_train)
    numbers: dict[str, Any] = {}
    if not row.startswith(("nothing", "SSHIBA")):
        train = inputs[p.is_train]
        filled = imputer(row, quick).fit_transform(train)
        numbers["rmse"] = rmse(truth[p.is_train][np.isnan(train)], filled[np.isnan(train)])
        inputs = truth.copy()
        inputs[p.is_train] = filled
    if cell.options["settings"] == TUNED:
        training = {"inputs": inputs[p.is_train], "labels": p.labels[p.is_train]}
        model, numbers["chosen"] = tuned(model, training, quick)
    test = {"inputs": truth[~p.is_train]}
    if row.endswith("predictive"):
        model.fit({"inputs": inputs[p.is_train], "labels": p.labels[p.is_train]})
    else:
        model.fit({"inputs": inputs, "labels": unlabelled(p)})
    if row.startswith("SSHIBA"):
        numbers |= holes(model, inputs, truth, p)
    scores = model.predict_proba(test, "labels")
    kinds = model.classes_.get("labels")
    labels = p.labels[~p.is_train]
    if kinds is not None:
        scores = np.asarray(scores)[:, np.argsort(np.asarray(kinds, dtype=int))]
        numbers["label_accuracy"] = float(np.mean(np.argmax(scores, axis=1) == labels))
    else:
        numbers["label_accuracy"] = float(np.mean((scores > 0.5) == labels))
    auc = auc_mc(labels, scores)
    numbers |= {"auc": auc.value, "left_out": auc.n_left_out, "size": model.n_components_}
    numbers |= {"sweeps": model.n_iter_, "converged": model.converged_}
    return Result(numbers)


def configured(p: Problem, row: str, settings: str, quick: bool) -> SSHIBA:
    inputs, labels = view_types(settings, p.labels.ndim == 1)
    options = model_options(settings) | ({"missing": "mean-field"} if row.endswith("mean-field") else {})
    types = {"inputs": inputs, "labels": labels}
    return SSHIBA(p.n_components, types, 1 if quick else 2, random_state=SEED, **options)


def unlabelled(p: Problem) -> np.ndarray:
    """The labels, missing on the test rows."""
    labels = p.labels.astype(float)
    labels[~p.is_train] = np.nan
    return labels


def holes(model: SSHIBA, inputs: np.ndarray, truth: np.ndarray, p: Problem) -> dict[str, float]:
    """How well the removed cells are known: RMSE in standard deviations, and coverage of 90 % intervals."""
    train = inputs[p.is_train]
    given = {"inputs": train, "labels": p.labels[p.is_train]}
    mean, std = model.predict(given, "inputs", return_std=True, use_target=True)
    gone = np.isnan(train)
    wanted = truth[p.is_train][gone]
    return {"rmse": rmse(wanted, mean[gone]), "coverage": coverage(wanted, mean[gone], std[gone])}
