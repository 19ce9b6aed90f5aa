"""Count views: t is Poisson with the rate exp(x + offset), x normal around its predictor; q(x) is normal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import log, pi
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from scipy.special import ndtri, xlogy

from ..arrays import array_namespace, compiled_twin, gammaln, like
from ..sparse_rows import is_sparse
from ..state import Array
from .likelihood import SMALLEST, Likelihood, PredictiveX, Score, XUpdate
from .poisson_predictive import below, log_probability, moments, quantile

MOST_STEPS = 40  # of Newton's method; six are enough, but where other cells tell nearly all of a cell
CLOSE = 1e-6  # a step of Newton's method that is the last: each doubles the digits
SMALL_COUNT = 0.1  # is added to counts and rates at the start
HALF = 0.5  # of a count, added to what is seen in a row and to what is expected: the size 1 before any cell is seen

compiled = partial(compiled_twin, "likelihoods.poisson_compiled")


@dataclass(frozen=True, eq=False)
class Counts:
    """The cells of some rows with the two parts of their offset; in the place of an array."""

    cells: Any  # (n, D) of whole numbers: an array, or CentredSparse with nothing to take away
    log_size: Array  # (n, 1): of rows
    log_mean: Array  # (1, D): of columns

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes + self.log_size.nbytes

    def __len__(self) -> int:
        return int(self.cells.shape[0])

    def __getitem__(self, places: Any) -> Counts:
        """Some rows, or (rows, columns), with dots behind them or not."""
        rows, columns = (places if isinstance(places, tuple) else (places, ...))[:2]
        if columns is ...:
            return Counts(self.cells[rows, ...], self.log_size[rows, ...], self.log_mean)
        return Counts(self.cells[rows, columns], self.log_size[rows, ...], self.log_mean[:, columns])

    def copy(self) -> Counts:
        """Of arrays that are shared with nobody."""
        cells = self.cells if is_sparse(self.cells) else self.cells.copy()
        return Counts(cells, self.log_size.copy(), self.log_mean)

    def opened(self) -> Counts:
        """With an array of cells."""
        return Counts(self.cells.matrix.toarray(), self.log_size, self.log_mean) if is_sparse(self.cells) else self


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Whole numbers of 0 or more: t ~ Poisson(exp(x + o)), o = log_mean of the column + log size of the row.

    `log_mean` has a number for each column. The size of a row, where `sizes`, is what was counted in its seen cells
    over what the columns' means predict for them: half a count more of each, so that a row of which nothing is seen
    has the size 1.
    """

    log_mean: tuple[float, ...]
    sizes: bool = True

    latent = True
    labels = False
    costly = True
    found_with_z = True
    keeps_few = True

    def row_target(self, target: Any, observed: np.ndarray | None) -> Counts:
        n = len(target)
        log_mean = np.array(self.log_mean)
        log_size = np.zeros((n, 1))
        if self.sizes:
            cells = target.matrix if is_sparse(target) else target
            total = np.asarray(cells.sum(axis=1, dtype=np.float64)).reshape(n, 1)
            seen = np.ones((1, 1), dtype=bool) if observed is None else observed
            mean = np.exp(log_mean)
            expected = seen @ mean[:, None] if seen.shape[1] == len(mean) else seen * mean.sum()
            log_size = np.log((total + HALF) / (expected + HALF))
        return Counts(target, log_size, log_mean[None, :])

    def row_offset(self, target: Counts) -> Array:
        return target.log_size

    def opened(self, target: Counts) -> Counts:
        return target.opened()

    def infer_x(self, target: Counts, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """The best normal q(x) where one precision says how far <x> is from y and how far x is from <x>."""
        return self.follow_y(target, y, tau, array_namespace(y).ones_like(y[:1, :]))

    def follow_y(self, target: Counts, y: Array, tau: Array, free: Array, near: Array | None = None) -> XUpdate:
        """The best normal q(x) = N(m, v): with u = log E e^(x+o) = m + o + v/2 the derivatives of t (m + o) − e^u +
        ½ log v − ½ tau ((m − y)² + free v) vanish where m = y + (t − e^u)/tau and v = 1/(tau free + e^u).

        So u is the root of the rising f(u) = u − o − y − (t − e^u)/tau − ½ v. Whatever u is found, m = u − o − v/2
        makes E e^(x+o) exactly e^u, and the bound exact.

        From df = 0 du/dy = c = 1/(1 + e^u/tau + ½ e^u v²), and dm/dy = 1 − c e^u/tau. With l = log tau du/dl is
        −c (m − y + ½ tau free v²), d(m − y)/dl = −(m − y) − (e^u/tau) du/dl and dv/dl = −v² (tau free + e^u du/dl).
        """
        target = target.opened()
        fast = compiled()
        if fast is not None and is_numpy_array(y):
            mean, second, bound, slope, drift = fast.update(
                target.cells, target.log_size, target.log_mean, y, tau, free, near
            )
            return XUpdate(mean, second, bound, slope=slope, drift=drift)
        xp = array_namespace(y)
        t, offset = xp.astype(target.cells, y.dtype, copy=False), target.log_size + target.log_mean
        tau = tau + xp.zeros_like(y)
        u = solve_u(t, y + offset, tau, free)
        rate = xp.exp(u)
        spread = tau * free
        var = 1 / (spread + rate)
        mean = u - offset - var / 2
        bound = t * (mean + offset) - rate - gammaln(t + 1) + 0.5 * (log(2 * pi) + 1 + xp.log(var))
        off, curved = mean - y, tau / (tau + rate + 0.5 * tau * rate * var**2)
        slower = rate * curved * (off + 0.5 * spread * var**2)  # −d rate / d log tau
        drift = -2 * off * (off - slower / tau) - free * var**2 * (spread - slower)
        return XUpdate(mean, mean**2 + var, bound, slope=1 - rate / tau * curved, drift=drift)

    def start_y(self, target: Counts, zeros: Array) -> Array:
        """What was counted beside what the offset expects: with more than a little added to both, factors die."""
        xp, target = array_namespace(zeros), target.opened()
        rate = xp.exp(target.log_size + target.log_mean)
        return xp.log((xp.astype(target.cells, zeros.dtype) + SMALL_COUNT) / (rate + SMALL_COUNT))

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """The mean count, and its standard deviation."""
        return moments(x.mean + like(np.array(self.log_mean), x.mean), x.var)

    def losses(self, target: Any, values: np.ndarray, std: np.ndarray) -> np.ndarray:
        return -log_probability(target, values, std)

    def log_density(self, t: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        return log_probability(t, mean, std)

    def rank(self, t: np.ndarray, mean: np.ndarray, std: np.ndarray, u: np.ndarray) -> np.ndarray:
        return (1 - u) * below(t - 1, mean, std) + u * below(t, mean, std)

    def deviance(self, t: np.ndarray, guess: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return 2 * (xlogy(t, t / np.maximum(guess, SMALLEST)) - t + guess)

    def decide(self, values: np.ndarray) -> np.ndarray:
        return values

    def quantile(self, values: np.ndarray, std: np.ndarray, p: float, score: Score = ndtri) -> np.ndarray:
        return quantile(values, std, p)

    def draw(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Of rows of size 1."""
        rate = np.exp(np.clip(x + np.array(self.log_mean), None, LARGEST_LOG))
        return rng.poisson(rate).astype(np.float64)


LARGEST_LOG = 41.0  # of a rate that is drawn from: NumPy takes no larger ones


def solve_u(t: Array, e: Array, tau: Array, free: Array) -> Array:
    """The root of f(u) = u − e − (t − e^u)/tau − ½/(tau free + e^u), where e = o + y.

    Newton's method from above, where f is convex but for small tau: with v at most 1/(tau free), log w + w = s, w =
    e^u/tau, s = e + (t + ½/free)/tau − log tau, is solved by w near log(1 + e^s).
    """
    xp = array_namespace(e)
    log_tau = xp.log(tau)
    most = t + 0.5 / free
    s = e + most / tau - log_tau
    near = xp.log1p(xp.exp(xp.clip(s, -30.0, 30.0)))
    u = log_tau + xp.where(s < -30, s, xp.log(xp.where(s > 30, s, near)))
    # f(u) = 0 and u ≥ e give e^u ≤ t + ½/free
    highest = xp.maximum(e, xp.log(most))
    for _ in range(MOST_STEPS):
        u = xp.minimum(u, highest)
        rate = xp.exp(u)
        total = tau * free + rate
        f = u - e - (t - rate) / tau - 0.5 / total
        step = f / (1 + rate / tau + 0.5 * rate / total**2)
        u = u - step
        if not bool(xp.any(xp.abs(step) > CLOSE)):
            break
    return u
