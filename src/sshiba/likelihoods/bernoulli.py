"""Binary views: p(t = 1 | x) = σ(x), by the bound of Jaakkola and Jordan (the paper's Appendix B)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from ..cells import (
    count_observed,
    holds_only_zero_one,
    not_zero_one,
    observed_cells,
    read_numbers,
    refuse_cells,
    standardise,
    warn_constant,
)
from ..coding import Coding, ViewData, plain_names, shrink_mask, unit_coding
from ..special import array_namespace, like, log_sigmoid
from ..state import Array, LatentX
from .base import CONFIDENT, PredictiveX, View, is_positive


@dataclass(frozen=True)
class Binary(View):
    """Several yes/no columns (0 / 1 / True / False / missing).

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`; the weight may be above 1.
    noise : float or "learned"
        Precision of the latent x around the factors: a fixed number, or learned as in the paper.
        A learned one is hardly told apart from the scale of x. A label tells x with a precision of at most 1/4 (its
        2λ), yet z hears x with this one: well below 1/4 no label counts for more than it says.
    """

    noise: float | str = 0.1

    latent = True
    mofa_likelihood = "bernoulli"

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        return "only 0 / 1 / True / False" if holds_only_zero_one(frame) else None

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.noise != "learned" and not is_positive(self.noise):
            raise ValueError(f"view {name!r}: noise must be a positive number or 'learned', not {self.noise!r}.")

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding | None, dtype: Any) -> tuple[ViewData, Coding]:
        remedy = "Code it as 0 / 1 / True / False / missing, or give it a Categorical view of its own."
        values = read_numbers(frame, name, text_remedy=remedy)
        remedy = "A binary view holds 0 / 1 / True / False / missing: recode it, or make it Real or Categorical."
        refuse_cells(frame, name, values, not_zero_one, "non-binary", remedy)
        observed = observed_cells(values)
        target = standardise(values, np.zeros(values.shape[1]), np.ones(values.shape[1]), dtype)
        if coding is None:
            n_observed = count_observed(frame, name, observed)
            n_ones = target.sum(axis=0, dtype=np.float64)
            warn_constant(frame, name, (n_ones == 0) | (n_ones == n_observed))
            coding = unit_coding(plain_names(frame.columns), n_observed)
        return ViewData(target, shrink_mask(observed)), coding

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        return values.astype(np.int64)

    @property
    def noise_model(self) -> float | str:
        return "view" if self.noise == "learned" else self.noise

    def update_x(self, target: Array, y: Array, tau: Array, old: LatentX | None) -> LatentX:
        """s = 1/(tau + 2λ(ξ)), μ = s(t − ½ + tau·y), ξ² = μ² + s (table 3; its mean omits tau on b)."""
        xp = array_namespace(y)
        t = xp.astype(target, y.dtype, copy=False)
        xi = xp.ones_like(y) if old is None else old.xi
        var = 1 / (tau + 2 * lambda_xi(xi))
        mean = var * (t - 0.5 + tau * y)
        second = mean**2 + var
        xi = xp.sqrt(second)
        # E[log h(x, ξ)] of eq. 26 at the new ξ, where E[x²] = ξ², and the entropy of N(μ, s).
        bound = log_sigmoid(xi) + (t - 0.5) * mean - xi / 2 + 0.5 * (log(2 * pi) + 1 + xp.log(var))
        return LatentX(mean, second, bound, xi)

    def start_y(self, target: Array, zeros: Array) -> Array:
        return CONFIDENT * (2 * array_namespace(zeros).astype(target, zeros.dtype) - 1)

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """p(t = 1) and its standard deviation as a 0/1 variable."""
        p = logistic_normal(x.mean, x.var)
        return p, array_namespace(p).sqrt(p * (1 - p))

    def decide(self, values: np.ndarray) -> np.ndarray:
        return (values > 0.5).astype(np.float64)

    def emit(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
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
