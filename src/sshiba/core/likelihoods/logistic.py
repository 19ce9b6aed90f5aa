"""Binary views: p(t = 1 | x) = σ(x), by the bound of Jaakkola and Jordan (the paper's Appendix B)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from scipy.special import expit

from ..arrays import array_namespace, like, log_sigmoid
from ..state import Array
from .likelihood import PredictiveX, XUpdate
from .yes_no import YesNo


@dataclass(frozen=True)
class Logistic(YesNo):
    """Yes with the probability σ(x), σ(x) = 1/(1 + e^−x)."""

    def infer_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """s = 1/(tau + 2λ(ξ)), μ = s(t − ½ + tau·y), ξ² = μ² + s (table 3; its mean omits tau on b)."""
        xp = array_namespace(y)
        t = xp.astype(target, y.dtype, copy=False)
        var = 1 / (tau + 2 * lambda_xi(xp.ones_like(y) if xi is None else xi))
        mean = var * (t - 0.5 + tau * y)
        second = mean**2 + var
        xi = xp.sqrt(second)
        # E[log h(x, ξ)] of eq. 26 at the new ξ, where E[x²] = ξ², and the entropy of N(μ, s).
        bound = log_sigmoid(xi) + (t - 0.5) * mean - xi / 2 + 0.5 * (log(2 * pi) + 1 + xp.log(var))
        return XUpdate(mean, second, bound, xi)

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """p(t = 1) and its standard deviation as a 0/1 variable."""
        p = logistic_normal(x.mean, x.var)
        return p, array_namespace(p).sqrt(p * (1 - p))

    def draw(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(x.shape) < expit(x)).astype(np.float64)


def lambda_xi(xi: Array) -> Array:
    """λ(ξ) = tanh(ξ/2)/(4ξ), 1/8 at zero."""
    xp = array_namespace(xi)
    safe = xp.where(xi < 1e-4, 1.0, xi)
    return xp.where(xi < 1e-4, 0.125 - xi**2 / 96, xp.tanh(safe / 2) / (4 * safe))


def logistic_normal(mean: Array, var: Array, n_nodes: int = 81, reach: float = 8.0) -> Any:
    """E[σ(x)], x ~ N(mean, var), by the trapezoid rule, which converges exponentially for both factors."""
    xp = array_namespace(mean)
    std = xp.sqrt(var)
    total = xp.zeros_like(mean)
    weight_sum = 0.0
    for node in np.linspace(-reach, reach, n_nodes):
        weight = float(np.exp(-(node**2) / 2))
        total = total + weight * xp.exp(log_sigmoid(mean + float(node) * std))
        weight_sum += weight
    return total / like(weight_sum, mean)
