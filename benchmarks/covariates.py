"""A batch put in by hand: with it as a covariate no factor tells it, and predictions are those of data without it.

A random half of the rows is shifted, each feature by its own amount (N(0, 1) deviations of it). Three fits: without the
shift, with it, and with it and the batch as a covariate. Of each: how well the best factor tells the batch (AUC, 0.5 is
chance), the RMSE of hidden cells in deviations of the data without the shift, and the AUC of labels of hidden rows.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from common import Row, report
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from sshiba import SSHIBA
from sshiba.datasets import load_cll
from sshiba.evaluate import auc_mc

HIDDEN, UNLABELLED = 0.1, 0.3  # of the cells, of the labels
MOST_FEATURES = 500  # of a view


def told(factors: np.ndarray, batch: np.ndarray) -> float:
    """The AUC of the factor that tells the batch best, whatever its sign."""
    found = [roc_auc_score(batch, column) for column in np.asarray(factors).T]
    return float(max((max(auc, 1 - auc) for auc in found), default=0.5))


def case(numbers: Mapping[str, pd.DataFrame], label: pd.Series, seed: int, shift: float) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    index = label.index
    batch = pd.Series(rng.permutation(len(index)) % 2, index)
    holes = {name: rng.random(frame.shape) < HIDDEN for name, frame in numbers.items()}
    unlabelled = rng.random(len(index)) < UNLABELLED
    moved = {}
    for name, frame in numbers.items():
        by = shift * rng.standard_normal(frame.shape[1]) * frame.std().to_numpy()
        moved[name] = frame + np.outer(batch.reindex(frame.index), by)
    named = batch.map({0: "first", 1: "second"})
    found = {}
    for what, whole, covariates in (
        ("no batch", numbers, None),
        ("batch", moved, None),
        ("covariate", moved, ["batch"]),
    ):
        views: dict[str, Any] = {name: frame.mask(holes[name]) for name, frame in whole.items()}
        views["label"] = label.mask(unlabelled)
        if covariates:
            views["batch"] = named
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SSHIBA(covariates=covariates, random_state=0).fit(views)
            filled = model.impute(views)
            unseen = {name: value[unlabelled] for name, value in views.items() if name != "label"}
            chances = np.asarray(model.predict_proba(unseen, "label"))
        squares = []
        for name, frame in whole.items():
            asked = holes[name] & frame.notna().to_numpy()
            error = (filled[name].loc[frame.index] - frame) / numbers[name].std()
            squares.append(np.square(error.to_numpy()[asked]))
        codes = pd.Categorical(label[unlabelled], categories=model.classes_["label"]).codes
        kept = codes >= 0
        found[what] = {
            "factors": model.n_components_,
            "told": told(model.factors_, batch.to_numpy()),
            "rmse": float(np.sqrt(np.concatenate(squares).mean())),
            "auc": float(auc_mc(codes[kept], chances[kept]).value),
        }
    return found


def digits() -> tuple[dict[str, pd.DataFrame], pd.Series]:
    data = load_digits()
    pixels = pd.DataFrame(data.data)
    return {"pixels": pixels.loc[:, pixels.std() > 0.5]}, pd.Series([f"digit {label}" for label in data.target])


def cll() -> tuple[dict[str, pd.DataFrame], pd.Series]:
    """The views of numbers, of wide ones the features that vary most, and one of the mutations as the label."""
    views = load_cll().views
    numbers = {}
    for name in ("Drugs", "Methylation", "mRNA"):
        kept = views[name].std().sort_values(ascending=False).index[:MOST_FEATURES]
        numbers[name] = views[name].loc[:, views[name].columns.isin(kept)]
    return numbers, views["Mutations"]["IGHV"].map({0.0: "unmutated", 1.0: "mutated"})


def main(quick: bool = False) -> list[Row]:
    cases = {"digits": digits, **({"CLL": cll} if "SSHIBA_DATA" in os.environ else {})}
    rows = []
    for name, load in cases.items():
        numbers, label = load()
        for seed in range(1 if quick else 3):
            found = case(numbers, label, seed, shift=1.0)
            for what, figures in found.items():
                print(name, seed, f"{what:>10}", {key: round(value, 4) for key, value in figures.items()}, flush=True)
            clean, ours = found["no batch"], found["covariate"]
            note = f"factor tells the batch {found['batch']['told']:.3f} -> {ours['told']:.3f}"
            rows.append(Row("covariates", f"{name}, rmse", "no batch", clean["rmse"], ours["rmse"], 0.99, note, found))
            rows.append(
                Row("covariates", f"{name}, label auc", "no batch", ours["auc"], clean["auc"], 0.99, note, found)
            )
    return rows


if __name__ == "__main__":
    report(main("--quick" in sys.argv), "covariates")
