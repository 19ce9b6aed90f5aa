"""The predictive distribution of counts: Poisson with a log-normal rate, told by its mean and standard deviation."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc, gammaln

from ..arrays import array_namespace
from ..state import Array

N_NODES = 40  # of Gauss and Hermite's rule
N_MODE = 12  # Newton steps to the mode of the integrand
LARGEST = 700.0  # of the log of a mean; e^709 is the largest double
SMALLEST = 1e-300
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(N_NODES)


def moments(log_rate: Array, var: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of t ~ Poisson(exp(η)), η ~ N(log_rate, var)."""
    xp = array_namespace(log_rate)
    mean = xp.exp(xp.clip(log_rate + var / 2, -LARGEST, LARGEST / 2))
    return mean, xp.sqrt(mean + mean**2 * xp.expm1(xp.clip(var, None, LARGEST / 2)))


def log_rate_of(mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of η, from those that `moments` gives: std² = mean + mean² (e^var − 1)."""
    mean = np.maximum(mean, SMALLEST)
    var = np.log1p(np.maximum((std / mean) ** 2 - 1 / mean, 0.0))
    return np.log(mean) - var / 2, var


def log_probability(t: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """log p(t), by Gauss and Hermite's rule around the mode of p(t | η) p(η), which is log-concave."""
    m, var = log_rate_of(mean, std)
    var = np.maximum(var, 1e-12)
    t = np.asarray(t, dtype=np.float64)
    mode = m + var * t / (1 + var * np.maximum(t, np.exp(np.minimum(m, LARGEST / 2))))  # one step from η = log t, or m
    for _ in range(N_MODE):
        rate = np.exp(np.minimum(mode, LARGEST / 2))
        step = (t - rate - (mode - m) / var) / (rate + 1 / var)
        mode = mode + np.clip(step, -3.0, 3.0)
    width = 1 / np.sqrt(np.exp(np.minimum(mode, LARGEST / 2)) + 1 / var)
    terms = []
    for node, weight in zip(NODES, WEIGHTS):
        eta = mode + width * node
        log_joint = t * eta - np.exp(np.minimum(eta, LARGEST)) - (eta - m) ** 2 / (2 * var)
        terms.append(np.log(weight) + node**2 / 2 + log_joint)
    return np.logaddexp.reduce(terms) + np.log(width) - 0.5 * np.log(2 * np.pi * var) - gammaln(t + 1)


def below(t: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """P(count ≤ t): the mean of that of Poisson's distributions over their rates."""
    m, var = log_rate_of(mean, std)
    t = np.asarray(t, dtype=np.float64)
    chances = [
        weight * np.where(t < 0, 0.0, gammaincc(np.maximum(t, 0) + 1, np.exp(m + np.sqrt(var) * node)))
        for node, weight in zip(NODES, WEIGHTS / WEIGHTS.sum())
    ]
    return np.sum(chances, axis=0)
