"""The scale on which a column of numbers is nearly normal: transforms of columns, there and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.special import expit, logit, ndtri

from ..core.likelihoods.censored import quantile_beyond

KINDS = ("log", "logit", "box-cox", "normal")
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
SHARES, SHARE_WEIGHTS = np.polynomial.legendre.leggauss(40)
SHARES, SHARE_WEIGHTS = (SHARES + 1) / 2, SHARE_WEIGHTS / 2
DOMAINS = {
    "log": "numbers above 0",
    "logit": "shares between 0 and 1",
    "box-cox": "numbers above 0",
    "none": "numbers",
    "normal": "numbers",
}


@dataclass(frozen=True)
class Margin:
    """One column's u = g(x), which the model takes for normal.

    log x; log x/(1 − x); (x^power − 1)/power, Box and Cox's, with a power of 0 or more, so that x has a mean; or the
    normal scores of the ranks, linear between the knots, and constant beyond them.
    """

    kind: str = "none"
    power: float = 1.0  # of "box-cox"
    knots: tuple[tuple[float, float], ...] = ()  # of "normal": (x, u), rising; an x that is a tie has two
    mean: float = 0.0  # of x in training
    std: float = 1.0
    top: float = np.inf  # u beyond which no x is predicted: the largest of training, and a deviation more

    def __str__(self) -> str:
        return f"box-cox {self.power:g}" if self.kind == "box-cox" else self.kind

    @property
    def has_density(self) -> bool:
        return self.kind != "normal"

    def allowed(self, x: np.ndarray) -> np.ndarray:
        """Which values it can transform; missing ones count."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "logit":
                return np.isnan(x) | ((x > 0) & (x < 1))
            if self.kind == "box-cox" and self.power:  # powers that would overflow are none
                return np.isnan(x) | ((x > 0) & (self.power * np.log(x) < 700.0))
            if self.kind in ("log", "box-cox"):
                return np.isnan(x) | (x > 0)
        return np.ones(x.shape, dtype=bool)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """g(x) of values that are allowed, of any others NaN."""
        if self.kind == "none":
            return x
        x = np.where(self.allowed(x), x, np.nan)
        if self.kind == "log" or (self.kind == "box-cox" and self.power == 0):
            return np.log(x)
        if self.kind == "logit":
            return logit(x)
        if self.kind == "box-cox":
            return np.expm1(self.power * np.log(x)) / self.power
        return np.where(np.isnan(x), np.nan, np.interp(x, *self._middles))

    def ends(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where u lies: at g(x), or, of values that are tied, between the scores of their first and last rank."""
        u = self.forward(x)
        if self.kind != "normal":
            return u, u
        at, low, high = self._ties
        if len(at) == 0:
            return u, u
        place = np.minimum(np.searchsorted(at, x), len(at) - 1)
        return np.where(at[place] == x, low[place], u), np.where(at[place] == x, high[place], u)

    def backward(self, u: np.ndarray) -> np.ndarray:
        """x of any u; of Box and Cox's 0 where no x has it."""
        if self.kind == "none":
            return u
        if self.kind == "log" or (self.kind == "box-cox" and self.power == 0):
            return np.exp(np.minimum(u, 700.0))
        if self.kind == "logit":
            return expit(u)
        if self.kind == "box-cox":
            return np.maximum(1 + self.power * u, 0.0) ** (1 / self.power)
        x, knots = self._columns
        return np.interp(u, knots, x)

    def log_slope(self, u: np.ndarray) -> np.ndarray:
        """log dg/dx where g(x) = u."""
        if self.kind == "none":
            return np.zeros_like(u)
        if self.kind == "log" or (self.kind == "box-cox" and self.power == 0):
            return -u
        if self.kind == "logit":
            with np.errstate(invalid="ignore"):
                return np.logaddexp(0, u) + np.logaddexp(0, -u)
        if self.kind == "box-cox":
            with np.errstate(divide="ignore"):
                return (self.power - 1) / self.power * np.log(np.maximum(1 + self.power * u, 0.0))
        raise ValueError("normal scores of ranks have no density, and so no score: choose another margin.")

    def moments(self, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of x where u is normal: in closed form, or by Gauss and Hermite's rule."""
        if self.kind == "none":
            return mean, std
        if self.kind == "log":
            first = self.backward(mean + std**2 / 2)
            spread = first * np.sqrt(np.expm1(np.minimum(std**2, 700.0)))
        else:
            parts = (self.backward(mean + std * node) for node in NODES)
            first, spread = self._average(parts, WEIGHTS, self.backward(mean))
        return np.minimum(first, self.largest), spread

    @property
    def largest(self) -> float:
        """That is predicted: beyond what was seen a small error of u is a large one of x."""
        return float(self.backward(np.array(self.top))) if np.isfinite(self.top) else np.inf

    def median(self, mean: np.ndarray) -> np.ndarray:
        """The median of x where u is normal."""
        return np.minimum(self.backward(mean), self.largest)

    def moments_beyond(self, mean: np.ndarray, std: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of a normal u that is cut at an edge, where this is the mean and the deviation of what is left: its
        quantiles are averaged.
        """
        parts = (quantile_beyond(mean, std, edge, share) for share in SHARES)
        return self._average(map(self.backward, parts), SHARE_WEIGHTS, self.backward(mean))

    def median_beyond(self, mean: np.ndarray, std: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """The median of x of such a cut normal u."""
        return self.backward(quantile_beyond(mean, std, edge, 0.5))

    @staticmethod
    def _average(values: Iterable[np.ndarray], weights: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation; `near` is near the mean."""
        first, second = np.zeros_like(near), np.zeros_like(near)
        for weight, x in zip(weights, values):
            first, second = first + weight * (x - near), second + weight * (x - near) ** 2
        return near + first, np.sqrt(np.maximum(second - first**2, 0.0))

    @property
    def ties(self) -> bool:
        """Has it values that are known by an interval?"""
        return any(a[0] == b[0] for a, b in pairwise(self.knots))

    @property
    def n_values(self) -> int:
        """Of "normal": how many different x its knots have."""
        return len({x for x, _ in self.knots})

    @cached_property
    def _columns(self) -> tuple[np.ndarray, np.ndarray]:
        x, u = np.array(self.knots).T
        return x, u

    @cached_property
    def _middles(self) -> tuple[np.ndarray, np.ndarray]:
        """A knot for each x, ties at the middle of theirs."""
        x, u = self._columns
        found, first = np.unique(x, return_index=True)
        last = np.append(first[1:], len(x)) - 1
        return found, (u[first] + u[last]) / 2

    @cached_property
    def _ties(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values that are ties, and where their intervals begin and end: of the lowest and highest at infinity."""
        x, u = self._columns
        place = np.flatnonzero(x[1:] == x[:-1])
        low, high = u[place].copy(), u[place + 1].copy()
        low[place == 0], high[place == len(x) - 2] = -np.inf, np.inf
        return x[place], low, high


TIED = 0.01  # of the cells: values that share more ranks are known by an interval
MOST_KNOTS = 500


def rank_margin(values: np.ndarray, counts: np.ndarray, mean: float, std: float) -> Margin:
    """Normal scores of the ranks of values, rising, of which there are so many; of many values some are the knots."""
    total = counts.sum()
    upto = np.cumsum(counts)
    tied = counts > max(1, TIED * total)
    middle = ndtri((upto - counts / 2) / total)
    kept = tied.copy()
    kept[[0, -1]] = True
    kept[np.unique(np.searchsorted(upto, np.linspace(0, total, MOST_KNOTS))).clip(max=len(values) - 1)] = True
    knots: list[tuple[float, float]] = []
    far = -middle[0] if total > 1 else 0.0  # where the intervals of the lowest and highest ties end, to come back from
    for x, u, n, own, last in zip(values[kept], middle[kept], counts[kept], tied[kept], upto[kept]):
        if own:
            low, high = (ndtri(np.clip(share, 0.0, 1.0)) for share in ((last - n) / total, last / total))
            limit = max(far, abs(u)) + 1.0
            knots += [(float(x), float(max(low, -limit))), (float(x), float(min(high, limit)))]
        else:
            knots.append((float(x), float(u)))
    return Margin("normal", knots=tuple(knots), mean=mean, std=std)


def transform(values: np.ndarray, margins: Sequence[Margin]) -> tuple[np.ndarray, np.ndarray]:
    """Where u of each cell lies, (n, D) each; the same array twice where no value is a tie."""
    low = np.empty(values.shape)
    high = np.empty(values.shape) if any(not margin.has_density for margin in margins) else low
    for d, margin in enumerate(margins):
        low[:, d], high[:, d] = margin.ends(values[:, d].astype(np.float64))
    return low, high
