"""The predictive distribution of counts: Poisson with a log-normal rate, told by its mean and standard deviation."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc, gammaln, ndtr

from ..arrays import array_namespace
from ..state import Array

N_NODES = 40  # of Gauss and Hermite's rule
N_MODE = 12  # Newton steps to the mode of the integrand
LARGEST = 700.0  # of the log of a mean; e^709 is the largest double
SMALLEST = 1e-300
REACH, TAIL = 6.5, 16.0  # where the trapezoid rule ends: in deviations, and in logs of an exponential tail
STEPS = np.linspace(-REACH, REACH, 61)
ROUNDING = 1e-12  # of counts that a double no longer tells from their neighbours
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(N_NODES)


def moments(log_rate: Array, var: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of t ~ Poisson(exp(η)), η ~ N(log_rate, var)."""
    xp = array_namespace(log_rate)
    mean = xp.exp(xp.clip(log_rate + var / 2, -LARGEST, LARGEST / 4))  # its square times e^var stays finite
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
    """P(count ≤ t) = P(e^η < G), G ~ Gamma(t + 1), as is known of Poisson's process; 0 where t < 0.

    By the trapezoid rule over the narrower of η and log G, in which the distribution function of the other is smooth.
    """
    t, mean, std = np.broadcast_arrays(np.asarray(t, dtype=np.float64), mean, std)
    m, var = log_rate_of(mean, std)
    found = np.zeros(t.shape)
    over_rates = var * (t + 1) < 1
    for some, rule in (((t >= 0) & over_rates, _below_by_rates), ((t >= 0) & ~over_rates, _below_by_gammas)):
        if some.any():
            found[some] = rule(t[some], m[some], np.sqrt(var[some]))
    return found


def _below_by_rates(t: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
    """E P(G > e^η) over η ~ N(m, s²)."""
    weights = np.exp(-(STEPS**2) / 2)
    return sum(w * gammaincc(t + 1, np.exp(m + s * u)) for u, w in zip(STEPS, weights / weights.sum()))


def _below_by_gammas(t: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
    """E Φ((v − m)/s) over v = log G, of density exp((t + 1) v − e^v): its left tail is that of e^((t + 1) v), its right
    one shorter than a normal's.
    """
    width = 1 / np.sqrt(t + 1)
    total, mass = np.zeros_like(t), np.zeros_like(t)
    first, last = -REACH * width - TAIL / (t + 1), REACH * width / (1 + width)  # from the mode, log(t + 1)
    for share in np.linspace(0.0, 1.0, len(STEPS)):
        off = first + share * (last - first)
        weight = np.exp((t + 1) * (off - np.expm1(off)))
        total, mass = total + weight * ndtr((np.log1p(t) + off - m) / s), mass + weight
    return total / mass


def quantile(mean: np.ndarray, std: np.ndarray, p: float) -> np.ndarray:
    """The smallest count up to which there is a probability of p, by bisection.

    Cantelli's inequality says where it lies: P(count − mean ≥ c std) ≤ 1/(1 + c²), and the same below.
    """
    mean, std = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), std)
    low = np.maximum(np.floor(mean - std * np.sqrt((1 - p) / p)), 0.0) - 1  # P(count ≤ low) < p
    high = np.ceil(mean + std * np.sqrt(p / (1 - p)))
    while (open_cells := high - low > np.maximum(1.0, ROUNDING * high)).any():
        middle = np.floor((low[open_cells] + high[open_cells]) / 2)
        enough = below(middle, mean[open_cells], std[open_cells]) >= p
        high[open_cells] = np.where(enough, middle, high[open_cells])
        low[open_cells] = np.where(enough, low[open_cells], middle)
    return high
