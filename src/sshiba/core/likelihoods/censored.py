"""Real views with cells of which only an interval is known: at a limit of detection, cut off, or tied ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import log, pi

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from ..arrays import array_namespace
from ..state import Array
from .gaussian import Gaussian
from .interval import FAR, cut_normal
from .likelihood import XUpdate


@dataclass(frozen=True)
class Censored(Gaussian):
    """lo ≤ x ≤ hi: the target of a cell is (lo, hi), either of which may be infinite; x itself where they are equal.

    `limited` says which features can have cells that are not known; None: all.
    """

    limited: tuple[bool, ...] | None = None

    latent = True

    @property
    def inferred(self) -> np.ndarray | None:
        return None if self.limited is None else np.array(self.limited)

    def unknown(self, target: Array) -> Array:
        return target[..., 0] < target[..., 1]

    def infer_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """A point at a known cell, which adds nothing to the bound; else N(y, 1/tau) cut to the interval, E log p(t|x)
        = 0 and H[q] = log mass + ½ (log 2π − log tau + tau E(x − y)²), as of a level.
        """
        xp = array_namespace(y)
        cut, lo, hi = self._cells(target, y)
        root = xp.sqrt(tau)
        first, var, log_mass = _cut_where(cut, root * (lo - y), root * (hi - y))
        mean = xp.where(cut, y + first / root, lo)
        entropy = log_mass + 0.5 * (log(2 * pi) - xp.log(tau) + var + first**2)
        return XUpdate(mean, mean**2 + var / tau, xp.where(cut, entropy, 0.0))

    def start_y(self, target: Array, zeros: Array) -> Array:
        """x itself, or its mean where nothing but its interval is known."""
        cut, lo, hi = self._cells(target, zeros)
        return array_namespace(zeros).where(cut, _cut_where(cut, lo, hi)[0], lo)

    def _cells(self, target: Array, y: Array) -> tuple[Array, Array, Array]:
        """Which cells are not known, and the ends of all."""
        xp = array_namespace(y)
        lo, hi = (xp.astype(target[..., end], y.dtype, copy=False) for end in (0, 1))
        return lo < hi, lo, hi

    def losses(self, target: np.ndarray, values: np.ndarray, std: np.ndarray) -> np.ndarray:
        """The squared distance from the interval."""
        below, above = target[..., 0] - values, values - target[..., 1]
        return np.maximum(np.maximum(below, above), 0.0) ** 2

    def empty_target(self, n: int, width: int) -> np.ndarray:
        return np.zeros((n, width, 2))


EDGES = np.linspace(-30.0, 30.0, 6001)


def quantile_beyond(mean: np.ndarray, std: np.ndarray, edge: np.ndarray, p: float | np.ndarray) -> np.ndarray:
    """A quantile of a normal that is cut at an edge, where this is the mean and the deviation of what is left.

    Of a standard normal below a, the distance of the mean from a, in deviations, rises with a: that tells a, and so the
    normal before it was cut.
    """
    sign = np.where(mean < edge, 1.0, -1.0)
    distances, own_means, own_stds = _cut_moments()
    a = np.interp(np.abs(mean - edge) / std, distances, EDGES)
    scale = std / np.interp(a, EDGES, own_stds)
    middle = mean - sign * scale * np.interp(a, EDGES, own_means)
    share = np.where(sign > 0, p, 1 - np.asarray(p))
    return middle + sign * scale * ndtri_exp(np.log(share) + log_ndtr(a))


@cache
def _cut_moments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a standard normal below each of EDGES: the distance of its mean from there in deviations, mean, deviation."""
    mean, var, _ = cut_normal(np.full_like(EDGES, -FAR), EDGES)
    return (EDGES - mean) / np.sqrt(var), mean, np.sqrt(var)


def _cut_where(cut: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """`cut_normal` of some cells; elsewhere 0."""
    xp = array_namespace(a)
    if type(a) is np.ndarray:
        found = np.zeros((3, *a.shape))
        found[:, cut] = cut_normal(*(np.clip(end[cut], -FAR, FAR) for end in (a, b)))
        return found[0], found[1], found[2]
    a = xp.where(cut, xp.where(a > -FAR, a, -FAR), -1.0)
    b = xp.where(cut, xp.where(b < FAR, b, FAR), 1.0)
    mean, var, log_mass = (xp.where(cut, part, 0.0) for part in cut_normal(a, b))
    return mean, var, log_mass
