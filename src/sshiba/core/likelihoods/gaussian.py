"""Real views: x is the data."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np
from scipy.special import ndtr, ndtri

from ..arrays import array_namespace
from ..state import Array
from .likelihood import Likelihood, PredictiveX, Score, XUpdate


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """t = x."""

    latent = False
    labels = False
    numbers = True

    def infer_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        xp = array_namespace(y)
        x = xp.astype(target, y.dtype)
        return XUpdate(x, x**2, xp.zeros_like(x[:, :1]))

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        return x.mean, array_namespace(x.mean).sqrt(x.var)

    def losses(self, target: np.ndarray, values: np.ndarray, std: np.ndarray) -> np.ndarray:
        return (target - values) ** 2

    def log_density(self, t: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        return -0.5 * ((t - mean) / std) ** 2 - np.log(std) - 0.5 * log(2 * pi)

    def rank(self, t: np.ndarray, mean: np.ndarray, std: np.ndarray, u: np.ndarray) -> np.ndarray:
        return ndtr((t - mean) / std)

    def deviance(self, t: np.ndarray, guess: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return ((t - guess) / scale) ** 2

    def decide(self, values: np.ndarray) -> np.ndarray:
        return values

    def quantile(self, values: np.ndarray, std: np.ndarray, p: float, score: Score = ndtri) -> np.ndarray:
        return values + std * score(p)

    def draw(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return x
