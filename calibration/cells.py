"""What is counted of cells whose value the model was not shown, so that counts of several sets add up.

A rank is the share of the predictive distribution below the true value: uniform, if the distribution is right. Of a
label, level or count, which has a probability of its own, a part of that at random is below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from interval_coverage import LEVELS, Views, inside

from sshiba import SSHIBA
from sshiba.core.likelihoods.poisson_predictive import below

N_BINS = 40  # of ranks
GRID = np.arange(1, N_BINS) / N_BINS
N_CONFIDENCE = 10  # bins of probabilities


def count_cells(
    model: SSHIBA, truth: Views, shown: Views, asked: dict[str, np.ndarray], rng: np.random.Generator
) -> dict[str, Any]:
    """View -> counts of the cells that are asked for.

    "bins": of their ranks, "held" and "said": how many intervals of each level hold them, and the probability that
    these are said to have; of labels "confident" and, of all classes, "probable": n, sum of the probabilities and of
    what happened, in bins of the probability.
    """
    found = {}
    for name, cells in asked.items():
        kind = type(model.views_[name]).__name__
        if not cells.any():
            continue
        if kind == "Real":
            found[name] = number_counts(model, truth[name], shown, name, cells)
        else:
            found[name] = label_counts(model, truth[name], shown, name, cells, kind, rng)
    return found


def number_counts(model: SSHIBA, x: np.ndarray, shown: Views, name: str, cells: np.ndarray) -> dict[str, Any]:
    """Intervals are central, so that their ends are quantiles. Cells at a limit are asked for, too."""
    _, quantiles = model.impute(shown, quantiles=tuple(map(float, GRID)), beyond_limits=True)
    place = np.sum([np.asarray(filled[name])[cells] < x[cells] for filled in quantiles.values()], axis=0)
    bins = np.bincount(place, minlength=N_BINS)
    n, outer = int(bins.sum()), {level: round((1 - level) / 2 * N_BINS) for level in LEVELS}
    held = [int(bins[cut : N_BINS - cut].sum()) for cut in outer.values()]
    return {"n": n, "bins": bins.tolist(), "held": held, "said": [level * n for level in LEVELS]}


def label_counts(
    model: SSHIBA, x: np.ndarray, shown: Views, name: str, cells: np.ndarray, kind: str, rng: np.random.Generator
) -> dict[str, Any]:
    """Labels, levels and counts."""
    parts = [inside(model, {name: x}, shown, {name: cells}, level)[name][1:] for level in LEVELS]
    low, high, p = shares_below(model, x, shown, name, cells, kind)
    ranks = low + rng.random(len(low)) * (high - low)
    counts: dict[str, Any] = {
        "n": len(ranks),
        "bins": np.histogram(ranks, N_BINS, (0, 1))[0].tolist(),
        "held": [int(held.sum()) for held, _ in parts],
        "said": [float(said.sum()) for _, said in parts],
    }
    if p is not None:
        code = x[cells].astype(int)
        counts["confident"] = reliability(p.max(axis=1), p.argmax(axis=1) == code)
        counts["probable"] = reliability(p.ravel(), (np.arange(p.shape[1]) == code[:, None]).ravel())
    return counts


def shares_below(
    model: SSHIBA, x: np.ndarray, shown: Views, name: str, cells: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The probability below each cell, that and its own, and of labels the probabilities of all, (n, C)."""
    if kind == "Count":
        mean, std = (part[cells] for part in model.predict(shown, name, return_std=True, use_target=True))
        return below(x[cells] - 1, mean, std), below(x[cells], mean, std), None
    proba = model.predict_proba(shown, name, use_target=True)
    if kind == "Ordinal":
        ends = []
        for j, levels in enumerate(model.levels_[name].values()):
            values, rows = np.asarray(list(levels), dtype=float), np.flatnonzero(cells[:, j])
            own = np.hstack([np.zeros((len(rows), 1)), np.cumsum(proba[j][rows], axis=1)])
            place = np.searchsorted(values, x[rows, j])
            ends.append((own[np.arange(len(rows)), place], own[np.arange(len(rows)), place + 1]))
        return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends]), None
    if kind == "Binary":
        p = np.stack([1 - proba[cells], proba[cells]], axis=1)
    else:
        known = np.asarray(model.classes_[name], dtype=int)
        p = np.zeros((int(cells.sum()), max(int(x.max()), known.max()) + 1))  # either may lack the last class
        p[:, known] = proba[cells[:, 0]]
    code, rows = x[cells].astype(int), np.arange(len(p))
    own = np.hstack([np.zeros((len(p), 1)), np.cumsum(p, axis=1)])
    return own[rows, code], own[rows, code + 1], p


def reliability(p: np.ndarray, happened: np.ndarray) -> list[list[float]]:
    place = np.minimum((p * N_CONFIDENCE).astype(int), N_CONFIDENCE - 1)
    sums = [np.bincount(place, weights, N_CONFIDENCE) for weights in (np.ones(len(p)), p, happened)]
    return np.stack(sums, axis=1).tolist()
