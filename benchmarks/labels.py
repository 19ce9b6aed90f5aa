"""How well two versions of the library predict labels: fresh random splits, the same for both, paired.

    python benchmarks/labels.py OLD/src NEW/src [splits] [set ...]

`splits` is how many, or the first and the one after the last: 20, 20:60.

A third of the rows is kept aside in each split. AUC (accuracy for classes) and mean log-likelihood of the labels, as
mean over splits; then NEW − OLD with the standard error of its mean. The calibration error is that of all splits
together, its standard error by the jackknife over splits: a split alone has a few rows in most bins, so that even
perfect probabilities have an error there, which depends on how they are spread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

SETS = {"heart": 10, "breast cancer": 30, "wine": 13, "digits": 40, "yeast": 70, "scene": 100, "CLL mutations": 25}

WORKER = """
import json, logging, sys, time, warnings
import numpy as np, sklearn.datasets
from sklearn.metrics import roc_auc_score
from sshiba import SSHIBA, datasets
warnings.simplefilter("ignore"); logging.disable(logging.WARNING)
name, n_components, splits = sys.argv[1], int(sys.argv[2]), range(int(sys.argv[3]), int(sys.argv[4]))

def load():
    if name in ("yeast", "scene", "CLL mutations", "heart"):
        key, target = {"CLL mutations": ("cll", "Mutations"), "heart": ("heart", "disease")}.get(name, (name, "labels"))
        views = dict(getattr(datasets, "load_" + key)().views)
        return views, views.pop(target)
    data = getattr(sklearn.datasets, "load_" + name.replace(" ", "_"))(as_frame=True)
    x = data.data.loc[:, data.data.std() > 0]
    return {"x": x}, data.target.to_frame("y") if name == "breast cancer" else data.target.astype(str)

def in_bins(confidence, right):
    bins = np.minimum((confidence * 10).astype(int), 9)
    return [np.bincount(bins, weights, 10).tolist() for weights in (np.ones(len(bins)), confidence, right)]

def judge(model, p, truth):
    if "y" in model.classes_:
        codes = np.searchsorted(np.asarray(model.classes_["y"]), truth.to_numpy())
        right = p.argmax(axis=1) == codes
        chance = np.maximum(p[np.arange(len(p)), codes], 1e-12)
        return right.mean(), np.log(chance).mean(), in_bins(p.max(axis=1), right)
    truth = truth.to_numpy(float)
    seen = ~np.isnan(truth)
    columns = [j for j in range(truth.shape[1]) if 0 < truth[seen[:, j], j].mean() < 1]
    auc = np.mean([roc_auc_score(truth[seen[:, j], j], p[seen[:, j], j]) for j in columns])
    t, q = truth[seen], np.clip(p[seen], 1e-12, 1 - 1e-12)
    return auc, np.mean(t * np.log(q) + (1 - t) * np.log(1 - q)), in_bins(q, t)

views, labels = load()
for split in splits:
    order = np.random.default_rng(7000 + split).permutation(len(labels))
    test, train = order[: len(order) // 3], order[len(order) // 3 :]
    began = time.perf_counter()
    model = SSHIBA(n_components, random_state=split)
    model.fit({**{key: view.iloc[train] for key, view in views.items()}, "y": labels.iloc[train]})
    seconds = time.perf_counter() - began
    p = np.asarray(model.predict_proba({key: view.iloc[test] for key, view in views.items()}, "y"), dtype=float)
    print(json.dumps([*judge(model, p, labels.iloc[test]), seconds, model.n_iter_, model.n_components_]), flush=True)
"""


def run(source: str, name: str, splits: str) -> tuple[np.ndarray, np.ndarray]:
    """Of each split: score, log-likelihood, seconds, sweeps, factors; and (3, 10), in bins of the stated probability
    how many labels there are, the sum of their probabilities, and how many came true.
    """
    environment = {**os.environ, "PYTHONPATH": source}
    first, last = splits.split(":") if ":" in splits else ("0", splits)
    command = [sys.executable, "-c", WORKER, name, str(SETS[name]), first, last]
    lines = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    return np.array([[*row[:2], *row[3:]] for row in found]), np.array([row[2] for row in found])


def calibration_error(bins: np.ndarray) -> float:
    """Of all splits together, (S, 3, 10)."""
    n, said, happened = bins.sum(axis=0)
    return float(np.abs(said - happened).sum() / n.sum())


def leaving_out(bins: np.ndarray) -> np.ndarray:
    """The same without each of the splits, (S,)."""
    return np.array([calibration_error(np.delete(bins, i, axis=0)) for i in range(len(bins))])


def main(old: str, new: str, splits: str = "20", *names: str) -> None:
    columns = ("score", "log-likelihood", "calibration error")
    table = Table("set", *columns, *(f"change of {name}" for name in columns), "seconds", "sweeps", "factors")
    for name in names or SETS:
        (before, bins_before), (after, bins_after) = (run(source, name, splits) for source in (old, new))
        gaps = calibration_error(bins_before), calibration_error(bins_after)
        pairs = [*zip(before[:, :2].mean(axis=0), after[:, :2].mean(axis=0)), gaps]
        step = (after - before)[:, :2]
        of_gap = np.sqrt(len(step) - 1) * np.std(leaving_out(bins_after) - leaving_out(bins_before))
        error = [*step.std(axis=0, ddof=1) / np.sqrt(len(step)), of_gap]
        changes = [f"{b - a:+.4f} ± {e:.4f}" for (a, b), e in zip(pairs, error)]
        means = [f"{a:.4f} → {b:.4f}" for a, b in pairs]
        rest = [f"{a:.1f} → {b:.1f}" for a, b in zip(before[:, 2:].mean(axis=0), after[:, 2:].mean(axis=0))]
        table.add_row(name, *means, *changes, *rest)
        print(name, *means, *changes, *rest, sep=" | ", flush=True)
    Console(width=200).print(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
