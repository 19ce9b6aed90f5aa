"""Intervals of shares, areas under the ROC curve and rank correlations, without any resampling; all on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import beta, norm

LEVEL = 0.95  # of all of them, unless another is asked for
HALVINGS = 50  # of the bisection that ends an interval


def binomial_interval(n_yes: Any, n: Any, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Of a share, n_yes of n: Clopper and Pearson's, which holds the truth at least as often as it says."""
    n_yes, n = np.asarray(n_yes, dtype=float), np.asarray(n, dtype=float)
    tail = (1 - level) / 2
    with np.errstate(invalid="ignore"):  # the beta distribution has no quantiles where a share is 0 or 1
        low = np.where(n_yes > 0, beta.ppf(tail, n_yes, n - n_yes + 1), 0.0)
        high = np.where(n_yes < n, beta.ppf(1 - tail, n_yes + 1, n - n_yes), 1.0)
    return low, high


def auc_interval(area: Any, n_yes: Any, n_no: Any, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Of an area under the ROC curve: all θ with (area − θ)² ≤ c² V(θ), Newcombe's fifth method (2006).

    V is Hanley and McNeil's variance for scores of exponential distributions, both group sizes replaced by their mean:
    V(θ) = θ(1 − θ)/(n_yes n_no) [1 + ((n_yes + n_no)/2 − 1) ((1 − θ)/(2 − θ) + θ/(1 + θ))].
    It needs no estimate of the variance at `area`, which is 0 where the groups are apart.
    """
    area, n_yes, n_no = np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in (area, n_yes, n_no)))
    c, pairs, mean_size = norm.ppf(0.5 + level / 2), n_yes * n_no, (n_yes + n_no) / 2

    def reach(theta: np.ndarray) -> np.ndarray:
        spread = 1 + (mean_size - 1) * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return c * np.sqrt(theta * (1 - theta) / pairs * spread)

    ends = []
    for end in (0.0, 1.0):  # `area` is too far from `outside` and not from `inside`
        outside, inside = np.full(area.shape, end), area.copy()
        for _ in range(HALVINGS):
            middle = (outside + inside) / 2
            far = np.abs(area - middle) > reach(middle)
            outside, inside = np.where(far, middle, outside), np.where(far, inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def rank_correlation_interval(r: Any, n: Any, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Of Spearman's correlation of n pairs: tanh(atanh r ± c √((1 + r²/2)/(n − 3))), Bonett and Wright (2000)."""
    r, n = np.asarray(r, dtype=float), np.asarray(n, dtype=float)
    reach = norm.ppf(0.5 + level / 2) * np.sqrt((1 + r**2 / 2) / np.maximum(n - 3, 1e-9))
    middle = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    return np.tanh(middle - reach), np.tanh(middle + reach)
