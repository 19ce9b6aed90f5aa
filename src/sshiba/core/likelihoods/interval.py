"""Ordinal views: t is the level whose interval x lies in, x normal around its predictor; q(x) in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import log, pi, sqrt

import numpy as np
from array_api_compat import device
from scipy.special import ndtri

from ..arrays import array_namespace, compiled_twin, erfcx, like
from ..state import Array
from .likelihood import SMALLEST, Likelihood, PredictiveX, Score, XUpdate

FAR = 1e10  # where the first interval begins and the last one ends
ENOUGH = 8.3  # deviations beyond which a normal has no mass that a double can tell from 0
NARROW = 0.5  # by how much the log density may change from the middle of an interval that counts as narrow
NODES = tuple(zip(*(values.tolist() for values in np.polynomial.legendre.leggauss(6))))  # of narrow intervals

compiled = partial(compiled_twin, "likelihoods.interval_compiled")


@dataclass(frozen=True)
class Interval(Likelihood):
    """Ordered levels for each feature: lo < x ≤ hi.

    `cuts` has the thresholds between the levels of each feature, in rising order. A target is the number of a level
    among those of all features, one feature's after the other's, so that a cell needs no feature to be understood.
    """

    cuts: tuple[tuple[float, ...], ...]
    mode: bool = False  # is the likeliest level the best one, or the median?

    latent = True
    labels = False

    @cached_property
    def lower(self) -> np.ndarray:
        """Where the interval of each level begins, (S,)."""
        return np.array([edge for own in self.cuts for edge in (-FAR, *own)])

    @cached_property
    def upper(self) -> np.ndarray:
        """Where it ends, (S,)."""
        return np.array([edge for own in self.cuts for edge in (*own, FAR)])

    @cached_property
    def n_levels(self) -> np.ndarray:
        """Of each feature, (D,)."""
        return np.array([len(own) + 1 for own in self.cuts])

    @cached_property
    def starts(self) -> np.ndarray:
        """The number of each feature's first level, (D,)."""
        return np.cumsum(self.n_levels) - self.n_levels

    @cached_property
    def feature(self) -> np.ndarray:
        """Of which feature each level is, (S,)."""
        return np.repeat(np.arange(len(self.cuts)), self.n_levels)

    def levels_of(self, d: int) -> slice:
        """The levels of one feature among all."""
        return slice(self.starts[d], self.starts[d] + self.n_levels[d])

    def infer_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """q(x) is N(y, 1/tau) cut to the interval of t: E[x] = y + E[u]/√tau with u a standard normal cut to
        √tau (lo − y), √tau (hi − y).

        In its density exp(−½ tau (x − y)²), up to a factor, tau y goes with x and tau with −½ (x − y)², so derivatives
        of means are covariances: d<x>/dy = Var(u), d<x>/d log tau = −Cov(u, u²)/(2√tau), d E(x − y)²/d log tau =
        −Var(u²)/(2 tau).
        """
        xp = array_namespace(y)
        root = xp.sqrt(tau)
        lo, hi = self._edges(target, y)
        first, var, log_mass, skew, spread = cut_moments(root * (lo - y), root * (hi - y))
        mean = y + first / root
        # E[log p(t|x)] = 0 in the interval; H[q] = log mass + ½ (log 2π − log tau + tau E(x − y)²).
        bound = log_mass + 0.5 * (log(2 * pi) - xp.log(tau) + var + first**2)
        slopes = {"slope": var, "pull": -0.5 * skew / root, "drift": -0.5 * spread / tau}
        return XUpdate(mean, mean**2 + var / tau, bound, **slopes)

    def start_y(self, target: Array, zeros: Array) -> Array:
        """The normal score: what x is on average, where nothing but its level is known."""
        return cut_normal(*self._edges(target, zeros))[0]

    def _edges(self, target: Array, y: Array) -> tuple[Array, Array]:
        """The ends of the intervals of targets, of their shape."""
        xp = array_namespace(y)
        flat = xp.reshape(target, (-1,))
        lo, hi = (xp.reshape(xp.take(like(edges, y), flat), target.shape) for edges in (self.lower, self.upper))
        return lo, hi

    def n_values(self, n_features: int) -> int:
        return len(self.lower)

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """The probability of each level of each feature, (n, S), and the standard deviation of each feature's level,
        (n, D), levels counted 0, 1, 2 ...
        """
        xp = array_namespace(x.mean)
        std = xp.sqrt(x.var)
        feature = xp.asarray(self.feature, device=device(x.mean))
        mean, spread = (xp.take(values, feature, axis=1) for values in (x.mean, std + xp.zeros_like(x.mean)))
        edges = ((like(edges, mean) - mean) / spread for edges in (self.lower, self.upper))
        p = xp.exp(cut_normal(*edges)[2])
        number = np.arange(len(self.feature)) - self.starts[self.feature]
        of_feature = self.feature[:, None] == np.arange(len(self.cuts))
        mean_level, mean_square = (p @ like(number[:, None] ** k * of_feature, p) for k in (1, 2))
        var = mean_square - mean_level**2
        return p, xp.sqrt(xp.where(var > 0, var, 0.0))

    def losses(self, target: np.ndarray, values: np.ndarray, std: np.ndarray) -> np.ndarray:
        return -np.log(np.maximum(np.take_along_axis(values, target, axis=1), SMALLEST))

    def decide(self, values: np.ndarray) -> np.ndarray:
        """The median level, which is where the mean of x lies, or the likeliest one; as a target."""
        best = np.empty((len(values), len(self.cuts)), dtype=np.int32)
        for d, first in enumerate(self.starts):
            p = values[:, self.levels_of(d)]
            if self.mode:
                best[:, d] = first + np.argmax(p, axis=1)
            else:
                best[:, d] = first + np.sum(np.cumsum(p[:, :-1], axis=1) < 0.5, axis=1)
        return best

    def quantile(self, values: np.ndarray, std: np.ndarray, p: float, score: Score = ndtri) -> np.ndarray:
        found = np.empty((len(values), len(self.cuts)), dtype=np.int32)
        for d, first in enumerate(self.starts):
            upto = np.cumsum(values[:, self.levels_of(d)][:, :-1], axis=1)
            found[:, d] = first + np.sum(upto < p, axis=1)
        return found

    def interval(
        self, values: np.ndarray, std: np.ndarray, level: float, score: Score = ndtri
    ) -> tuple[np.ndarray, np.ndarray]:
        """The shortest run of levels with at least this probability, and the likeliest of those."""
        low, high = (np.empty((len(values), len(self.cuts)), dtype=np.int32) for _ in range(2))
        for d, first in enumerate(self.starts):
            upto = np.pad(np.cumsum(values[:, self.levels_of(d)], axis=1), ((0, 0), (1, 0)))
            found = np.zeros(len(values), dtype=bool)
            for n in range(1, self.n_levels[d] + 1):
                runs = upto[:, n:] - upto[:, :-n]
                best = np.argmax(runs, axis=1)
                new = ~found & ((np.max(runs, axis=1) >= level) | (n == self.n_levels[d]))
                low[new, d], high[new, d] = first + best[new], first + best[new] + n - 1
                found |= new
        return low, high

    def draw(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        levels = [first + np.searchsorted(own, x[:, d]) for d, (first, own) in enumerate(zip(self.starts, self.cuts))]
        return np.stack(levels, axis=1).astype(np.int32)

    def empty_target(self, n: int, width: int) -> np.ndarray:
        return np.zeros((n, width), dtype=np.int32)


def cut_normal(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Mean, variance and log P(a < u < b) of a standard normal u cut to (a, b).

    Reflected so that the middle of the interval is at or below 0. Narrow intervals are integrated, others have closed
    forms, neither with a difference of nearly equal numbers.
    """
    if type(a) is np.ndarray and compiled() is not None:
        return cut_moments(a, b)[:3]
    xp = array_namespace(a)
    flip = a + b > 0
    a, b = xp.where(flip, -b, a), xp.where(flip, -a, b)
    middle, half = (a + b) / 2, (b - a) / 2
    narrow = half * (half - middle) < NARROW
    # Both of all cells, with numbers that do no harm in the place of those of the other kind.
    wide_parts = _wide(xp.where(narrow, -2.0, a), xp.where(narrow, 0.0, b))
    narrow_parts = _narrow(xp.where(narrow, middle, 0.0), xp.where(narrow, half, 1.0))
    mean, var, log_mass = (xp.where(narrow, n, w) for n, w in zip(narrow_parts, wide_parts))
    return xp.where(flip, -mean, mean), var, log_mass


def cut_moments(a: Array, b: Array) -> tuple[Array, Array, Array, Array, Array]:
    """The same, with Cov(u, u²) and Var(u²).

    E[u³] = 2 E[u] + (a² φ(a) − b² φ(b))/mass and E[u⁴] = 3 E[u²] + (a³ φ(a) − b³ φ(b))/mass, by parts.
    """
    if type(a) is np.ndarray:
        fast = compiled()
        if fast is not None:
            return fast.cut_moments(a, b, np.array(NODES).T, NARROW, ENOUGH)
    xp = array_namespace(a)
    mean, var, log_mass = cut_normal(a, b)
    square = var + mean**2
    edge_a, edge_b = (xp.exp(-0.5 * edge**2 - 0.5 * log(2 * pi) - log_mass) for edge in (a, b))
    third = 2 * mean + a**2 * edge_a - b**2 * edge_b
    fourth = 3 * square + a**3 * edge_a - b**3 * edge_b
    spread = fourth - square**2
    return mean, var, log_mass, third - mean * square, xp.where(spread > 0, spread, 0.0)


def _wide(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """With R(t) = (1 − Φ(t))/φ(t), Mills' ratio, and q = φ(a)/φ(b): mass = φ(b) M, M = R(−b) − q R(−a), E[u] =
    (q − 1)/M, E[u²] = 1 + (a q − b)/M.
    """
    xp = array_namespace(a)
    b = xp.where(b < ENOUGH, b, ENOUGH)  # and a is below −b
    log_q = (b - a) * (b + a) / 2
    q = xp.exp(log_q)
    mass = mills(-b) - q * mills(-a)
    mean = xp.expm1(log_q) / mass
    var = 1 + (xp.where(q > 0, a, 0.0) * q - b) / mass - mean**2
    return mean, xp.where(var > 0, var, 0.0), xp.log(mass) - b**2 / 2 - 0.5 * log(2 * pi)


def mills(t: Array) -> Array:
    return sqrt(pi / 2) * erfcx(t / sqrt(2))


def _narrow(middle: Array, half: Array) -> tuple[Array, Array, Array]:
    """u = middle + half·s with s in (−1, 1), by Gauss and Legendre's rule: the density of s is exp(−middle·half·s −
    ½ half² s²), up to a factor, and hardly varies.
    """
    xp = array_namespace(middle)
    slope, curve = middle * half, half**2 / 2
    total, first, second = (xp.zeros_like(middle) for _ in range(3))
    for s, weight in NODES:
        density = weight * xp.exp(-s * slope - s**2 * curve)
        total, first, second = total + density, first + s * density, second + s**2 * density
    first = first / total
    var = half**2 * (second / total - first**2)
    return middle + half * first, var, xp.log(half * total) - middle**2 / 2 - 0.5 * log(2 * pi)
