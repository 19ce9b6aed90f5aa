"""Scores of predictions against what was held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata

SMALLEST = 1e-12  # a probability is taken to be at least this


@dataclass(frozen=True)
class Auc:
    """The weighted AUC of several labels, each label's own, and how many had one outcome only."""

    value: float
    per_label: np.ndarray  # (L,), NaN where left out
    n_left_out: int


def auc_mc(truth: Any, scores: Any) -> Auc:
    """Area under the ROC curve of several labels, Σ_c N_c AUC_c / Σ_c N_c with N_c the positives of label c.

    Parameters
    ----------
    truth : (n, L) of 0 / 1, NaN = unknown; or (n,) class numbers 0 to L - 1, each class then against the rest
    scores : (n, L), larger = more likely

    Returns
    -------
    Auc
        Labels with a single outcome have no AUC: they are left out of the mean, and counted.
    """
    scores = np.asarray(scores, dtype=float)
    truth = np.asarray(truth)
    if truth.ndim == 1:
        if np.isnan(truth.astype(float)).any():
            raise ValueError("truth has NaN: leave out the rows whose class is not known.")
        truth = truth[:, None] == np.arange(scores.shape[1])
    truth = truth.astype(float)
    if truth.shape != scores.shape:
        raise ValueError(f"truth is {truth.shape} and scores are {scores.shape}: they must have one shape.")
    if np.isnan(scores[~np.isnan(truth)]).any():
        raise ValueError("scores have NaN where the truth is known.")
    areas = np.array([_auc(t, s) for t, s in zip(truth.T, scores.T)])
    sizes = np.nansum(truth, axis=0)
    known = ~np.isnan(areas)
    value = float(np.average(areas[known], weights=sizes[known])) if known.any() else float("nan")
    return Auc(value, areas, int((~known).sum()))


def _auc(truth: np.ndarray, scores: np.ndarray) -> float:
    """Mann and Whitney's: the share of (positive, negative) pairs in the right order, ties counted half."""
    seen = ~np.isnan(truth)
    positive = truth[seen] == 1
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    ranks = rankdata(scores[seen])[positive]
    return float((ranks.sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def binary_log_likelihood(truth: np.ndarray, probability: np.ndarray) -> float:
    """Mean log p of the known cells of a binary view."""
    seen = ~np.isnan(truth)
    p = np.clip(np.asarray(probability, dtype=float)[seen], SMALLEST, 1 - SMALLEST)
    return float(np.mean(np.where(truth[seen] == 1, np.log(p), np.log1p(-p))))


def class_codes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels as numbers of a model's classes; -1 for one that it never saw."""
    place = {label: c for c, label in enumerate(classes.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()])


def class_log_likelihood(codes: np.ndarray, probability: np.ndarray) -> float:
    """Mean log p of class numbers; -1 is a class without a probability."""
    chosen = np.where(codes >= 0, probability[np.arange(len(codes)), codes], 0.0)
    return float(np.mean(np.log(np.maximum(chosen, SMALLEST))))


def normal_log_likelihood(truth: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    """Mean log density of the known cells of a real view."""
    seen = ~np.isnan(truth)
    error = (truth - mean)[seen] / std[seen]
    return float(np.mean(-0.5 * error**2 - np.log(std[seen]) - 0.5 * np.log(2 * np.pi)))


def reliability(truth: np.ndarray, probability: np.ndarray, n_bins: int = 10, least: int = 1) -> pd.DataFrame:
    """How often what was given a probability came true, in equal bins of it: predicted, observed, n.

    A bin of fewer than `least` is joined with the next one, the last with the one before.
    """
    given = np.ravel(probability)
    table = pd.DataFrame({"predicted": given, "observed": np.ravel(truth).astype(float), "n": 1})
    bins = np.minimum((given * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    joined, full = np.zeros(n_bins, dtype=int), 0
    held = 0
    for place, n in enumerate(counts):
        joined[place] = full
        held += n
        if held >= least:
            full, held = full + 1, 0
    if full == 0:
        return table.iloc[:0]
    own = np.minimum(joined[bins], full - 1)
    return table.groupby(own).agg({"predicted": "mean", "observed": "mean", "n": "sum"}).reset_index(drop=True)


def rmse(truth: np.ndarray, guess: np.ndarray) -> float:
    """Root mean squared error over the known cells."""
    return float(np.sqrt(np.nanmean((np.asarray(truth, dtype=float) - guess) ** 2)))


def coverage(truth: np.ndarray, mean: np.ndarray, std: np.ndarray, level: float = 0.9) -> float:
    """The share of known cells within the central normal interval of this level."""
    seen = ~np.isnan(truth)
    return float(np.mean(np.abs(truth - mean)[seen] <= norm.ppf(0.5 + level / 2) * std[seen]))
