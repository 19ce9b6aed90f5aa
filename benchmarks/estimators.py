"""SSHIBAClassifier and SSHIBARegressor, with their defaults, beside the pipelines that they replace.

    SSHIBA_DATA=... python benchmarks/estimators.py [--quick] [--splits=0:20] [set ...]

The pipelines are StandardScaler and LogisticRegressionCV or RidgeCV; of the mixed table `heart` gaps are filled and
labels made dummies first, and of several labels (yeast, scene) each has a pipeline of its own. A third of the rows is
kept aside in each split, the same for both. Scores: the share of right classes, R² of numbers, and of several labels
the share of right ones; beside them the share of rows with all labels right, the area under the curve and the
log-likelihood. Seconds are of the processor, fit and prediction, once everything is compiled. The time is good within
10 times the pipeline's or 0.3 s, whichever is more, the score within 0.01 (digits 0.02) of the pipeline's.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import sklearn.datasets
from common import Row, report
from sklearn.base import is_regressor
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sshiba import datasets
from sshiba.datasets import DatasetError
from sshiba.sklearn import SSHIBAClassifier, SSHIBARegressor

BUNDLED = ("breast_cancer", "wine", "digits", "diabetes", "iris")
STORED = {"heart": "disease", "yeast": "labels", "scene": "labels"}
N_SPLITS = 20
NEAR = {"digits": 0.02}  # how far below the pipeline's a score may be; else 0.01
LEAST_SECONDS, MOST_TIMES = 0.3, 10


def load(name: str) -> tuple[Any, Any]:
    """X and y; X of numbers alone is an array."""
    if name in BUNDLED:
        return getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    views = dict(getattr(datasets, f"load_{name}")().views)
    y = views.pop(STORED[name])
    X = pd.concat(views.values(), axis=1)
    if name == "heart":
        labels = X.select_dtypes("category").columns
        return X.astype(dict.fromkeys(labels, object)).fillna(np.nan), y.to_numpy().ravel()
    return X.to_numpy(float), y.to_numpy(int)


def pipeline(X: Any, y: np.ndarray, regression: bool) -> Any:
    """What one would write without us."""
    if regression:
        return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    line = make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=1000))
    if isinstance(X, pd.DataFrame):
        numbers = make_pipeline(SimpleImputer(), StandardScaler())
        labels = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
        columns = make_column_transformer(
            (numbers, make_column_selector(dtype_include="number")),
            (labels, make_column_selector(dtype_exclude="number")),
        )
        line = make_pipeline(columns, LogisticRegressionCV(max_iter=1000))
    return MultiOutputClassifier(line) if y.ndim == 2 else line


def judge(model: Any, X: Any, y: np.ndarray) -> dict[str, float]:
    """The score, and of labels the area under the curve and the log-likelihood."""
    if is_regressor(model):
        return {"score": r2_score(y, model.predict(X))}
    proba = model.predict_proba(X)
    if y.ndim == 2:
        proba = np.column_stack([one[:, 1] for one in proba]) if isinstance(proba, list) else proba
        right = np.mean((proba > 0.5) == y)
        chance = np.where(y == 1, proba, 1 - proba)
        some = [j for j in range(y.shape[1]) if 0 < y[:, j].mean() < 1]
        auc = np.mean([roc_auc_score(y[:, j], proba[:, j]) for j in some])
    else:
        codes = np.searchsorted(model.classes_, y)
        right = np.mean(proba.argmax(axis=1) == codes)
        chance = proba[np.arange(len(y)), codes]
        auc = roc_auc_score(codes, proba[:, 1] if proba.shape[1] == 2 else proba, multi_class="ovr")
    whole = {"all_right": float(np.mean(((proba > 0.5) == y).all(axis=1)))} if y.ndim == 2 else {}
    return {"score": right, **whole, "auc": auc, "log_likelihood": float(np.log(np.maximum(chance, 1e-12)).mean())}


def compare(X: Any, y: np.ndarray, split: int, regression: bool) -> list[dict[str, float]]:
    """The pipeline and ours on one split."""
    stratify = y if y.ndim == 1 and not regression else None
    rows = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=1000 + split, stratify=stratify)
    (X_train, X_test), (y_train, y_test) = (
        [values.iloc[own] if isinstance(values, pd.DataFrame) else values[own] for own in rows] for values in (X, y)
    )
    mine = SSHIBARegressor(random_state=0) if regression else SSHIBAClassifier(random_state=0)
    found = []
    for model in (pipeline(X, y, regression), mine):
        began = time.process_time()
        model.fit(X_train, y_train).predict(X_test)
        seconds = time.process_time() - began
        found.append({**judge(model, X_test, y_test), "seconds": seconds})
    return found


def summarise(name: str, found: list[list[dict[str, float]]]) -> Row:
    theirs, ours = (pd.DataFrame([pair[place] for pair in found]) for place in (0, 1))
    change = ours - theirs
    error = change.std() / np.sqrt(len(change))
    near, limit = NEAR.get(name, 0.01), max(LEAST_SECONDS, MOST_TIMES * theirs["seconds"].mean())
    said = [f"{what} {theirs[what].mean():.4f}, ours {change[what].mean():+.4f} ± {error[what]:.4f}" for what in change]
    marks = ["✗✓"[int(change["score"].mean() >= -near)], "✗✓"[int(ours["seconds"].mean() <= limit)]]
    extra = {
        "pipeline": theirs.mean().to_dict(),
        "ours": ours.mean().to_dict(),
        "error": error.to_dict(),
        "splits": len(found),
    }
    note = "; ".join(said[:-1]) + f"; {len(found)} splits; score {marks[0]} time {marks[1]}"
    return Row("estimators", name, "pipeline", theirs["seconds"].mean(), ours["seconds"].mean(), None, note, extra)


def main(quick: bool = False, names: list[str] | None = None, splits: range | None = None) -> list[Row]:
    rows = []
    for name in names or [*BUNDLED, *STORED]:
        try:
            X, y = load(name)
        except DatasetError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        compare(X, y, -1, name == "diabetes")  # compiles what is compiled
        own = splits or range(2 if quick else N_SPLITS)
        rows.append(summarise(name, [compare(X, y, split, name == "diabetes") for split in own]))
        print(name, f"{rows[-1].peer_seconds:.3f} s, ours {rows[-1].seconds:.3f} s", rows[-1].note, flush=True)
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted = [word for word in sys.argv[1:] if not word.startswith("--")]
    said = next((word.split("=")[1] for word in sys.argv if word.startswith("--splits=")), None)
    report(main("--quick" in sys.argv, wanted, said and range(*map(int, said.split(":")))), "estimators")
