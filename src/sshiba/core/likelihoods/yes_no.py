"""What binary likelihoods share: the target of a cell is 0 or 1, and what is predicted is the probability of a 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..arrays import array_namespace
from ..state import Array
from .likelihood import CONFIDENT, SMALLEST, Likelihood, Score


@dataclass(frozen=True)
class YesNo(Likelihood):
    """One yes/no for each feature; the link between x and p(t = 1) says the rest: `infer_x`, `predict` and `draw`."""

    latent = True

    def start_y(self, target: Array, zeros: Array) -> Array:
        return CONFIDENT * (2 * array_namespace(zeros).astype(target, zeros.dtype) - 1)

    def losses(self, target: np.ndarray, values: np.ndarray, std: np.ndarray) -> np.ndarray:
        return -np.log(np.maximum(np.where(target > 0.5, values, 1 - values), SMALLEST))

    def decide(self, values: np.ndarray) -> np.ndarray:
        return (values > 0.5).astype(np.float64)

    def quantile(self, values: np.ndarray, std: np.ndarray, p: float, score: Score = ndtri) -> np.ndarray:
        """0 where no is at least so probable, else 1."""
        return (1 - values < p).astype(np.float64)

    def interval(
        self, values: np.ndarray, std: np.ndarray, level: float, score: Score = ndtri
    ) -> tuple[np.ndarray, np.ndarray]:
        """One of 0 and 1 alone where it is probable enough, else from 0 to 1."""
        sure, yes = np.maximum(values, 1 - values) >= level, values > 0.5
        return (sure & yes).astype(np.float64), (~sure | yes).astype(np.float64)
