"""Tables A and B: labels of new rows, all methods on identical splits; the whole training set and 20 % of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from .. import datasets
from ..evaluate import auc_mc
from .experiment_cells import SEED, Cell, Result
from .methods import BASELINES, METHODS, OURS, Task

N_PARTS = 5  # of 20 % of the training rows each
QUICK_PIXELS, QUICK_FACTORS = 1500, 50


@dataclass(frozen=True)
class Problem:
    """Real inputs, labels, and which rows are for training."""

    inputs: np.ndarray
    labels: np.ndarray  # (n, L) of 0 / 1 or (n,) class numbers
    is_train: np.ndarray
    n_labels: int
    n_components: int
    indicators: np.ndarray  # (n, L) of 0 / 1: what subsamples are stratified by, whatever the coding of the labels

    def task(self, part: str) -> Task:
        """Train on all training rows, or on one fifth of them ("20 %, 0" to "20 %, 4")."""
        rows = np.flatnonzero(self.is_train)
        if part != "complete":
            rows = rows[self.fifths(rows)[int(part[-1])]]
        test = self.inputs[~self.is_train]
        return Task(
            {"inputs": self.inputs[rows]}, {"inputs": test}, self.labels[rows], self.n_labels, self.n_components
        )

    def fifths(self, rows: np.ndarray) -> list[np.ndarray]:
        """Stratified by iterative stratification (Sechidis et al.), as in the paper."""
        from iterstrat.ml_stratifiers import MultilabelStratifiedKFold

        indicators = self.indicators[rows]
        split = MultilabelStratifiedKFold(N_PARTS, shuffle=True, random_state=SEED).split(indicators, indicators)
        return [part for _, part in split]


def yeast(quick: bool) -> Problem:
    return mulan(datasets.load_yeast(), 100)


def mulan(data: datasets.Dataset, n_components: int) -> Problem:
    assert data.is_train is not None
    labels = data.views["labels"].to_numpy()
    inputs = data.views["features"].to_numpy(float)
    return Problem(inputs, labels, data.is_train, labels.shape[1], n_components, labels)


def aviris(pixels: str, coding: str, quick: bool) -> Problem:
    """`pixels` "labelled" or "all"; `coding` "multilabel" (background: no label) or "categorical" (one more class)."""
    data = datasets.load_aviris()
    crop = data.views["crop"].cat.codes.to_numpy().astype(int)  # 0 = background
    inputs = data.views["bands"].to_numpy(float)
    if pixels == "labelled":
        inputs, crop = inputs[crop > 0], crop[crop > 0]
    if quick:
        kept = fewer(crop, QUICK_PIXELS)
        inputs, crop = inputs[kept], crop[kept]
    train, _ = train_test_split(np.arange(len(crop)), train_size=0.7, stratify=crop, random_state=SEED)
    is_train = np.zeros(len(crop), dtype=bool)
    is_train[train] = True
    indicators = (crop[:, None] == np.unique(crop)).astype(int)
    labels = indicators[:, -16:] if coding == "multilabel" else crop - crop.min()
    n_labels = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    return Problem(inputs, labels, is_train, n_labels, QUICK_FACTORS if quick else 200, indicators)


def fewer(classes: np.ndarray, n: int) -> np.ndarray:
    """About n rows, each class in its share but with ten rows at least, where it has them."""
    shuffled = np.random.default_rng(SEED).permutation(len(classes))
    kept = []
    for value in np.unique(classes):
        rows = shuffled[classes[shuffled] == value]
        kept.append(rows[: max(10, round(n * len(rows) / len(classes)))])
    return np.sort(np.concatenate(kept))


# ------------------------------------------------------------------------------------------------------- cells

AVIRIS_CODINGS = ("multilabel", "categorical")
AVIRIS_PIXELS = ("labelled", "all")


def parts(quick: bool) -> list[str]:
    return ["complete"] + [f"20 %, {i}" for i in range(2 if quick else N_PARTS)]


def yeast_cells(quick: bool) -> Iterator[Cell]:
    for part in parts(quick):
        for method in METHODS:
            options = {"method": method, "part": part, "quick": quick}
            yield Cell("yeast", options, 10 if method in OURS else 3, is_baseline=method in BASELINES)


def codings(method: str) -> tuple[str, ...]:
    """Both for ours, and for the best of the others, so that a coding can be told from a method; else classes."""
    return AVIRIS_CODINGS if method in (*OURS, "MLP") else ("categorical",)


def aviris_cells(quick: bool) -> Iterator[Cell]:
    for pixels in AVIRIS_PIXELS:
        for part in parts(quick):
            for method in METHODS:
                for coding in codings(method):
                    options = {"pixels": pixels, "coding": coding, "method": method, "part": part, "quick": quick}
                    cost = (100 if method in OURS else 50) * (1 if part == "complete" else 0.2)
                    yield Cell("aviris", options, cost, is_baseline=method in BASELINES)


def compute(cell: Cell, before: Result | None = None) -> Result:
    options = cell.options
    quick = options["quick"]
    if cell.experiment == "yeast":
        problem = yeast(quick)
    else:
        problem = aviris(options["pixels"], options["coding"], quick)
    answer = METHODS[options["method"]](problem.task(options["part"]), quick)
    truth = problem.labels[~problem.is_train]
    return scored(answer, truth, background=cell.experiment == "aviris" and options["pixels"] == "all")


def scored(answer: Any, truth: np.ndarray, background: bool = False) -> Result:
    """The AUC; where background is a class of its own (number 0), it is not one of the 16 that are scored."""
    scores = answer.scores
    if truth.ndim == 1:
        truth = (truth[:, None] == np.arange(scores.shape[1])).astype(int)
        if background:
            truth, scores = truth[:, 1:], scores[:, 1:]
    auc = auc_mc(truth, scores)
    numbers = {"auc": auc.value, "size": answer.size, "left_out": auc.n_left_out, "chosen": answer.chosen}
    arrays = {}
    if answer.model is not None:
        numbers |= {"elbo": answer.model.elbo_, "converged": answer.model.converged_, "sweeps": answer.model.n_iter_}
        arrays = {
            "r2": answer.model.r2_.to_numpy(),
            "scores": scores.astype(np.float32),
            "truth": truth.astype(np.int8),
        }
        arrays |= {f"elbo_{i}": path for i, path in enumerate(answer.paths)}
    return Result(numbers, arrays)
