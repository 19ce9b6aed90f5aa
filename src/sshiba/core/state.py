"""The named, immutable values of the model: the posterior of the globals, and the statistics that rows report.

Globals and statistics are NumPy arrays on the host, wherever the rows are; only `LatentX` lives with the rows.
Symbols: N rows, D features of a view, K factors, G column groups (features observed on the same rows), S groups of
samples.

Covariates are factors whose z is known. They come last among the K: weights, covariances and statistics have them like
all others, alpha and the activity do not, for the precision of their weights is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln

from .threads import in_threads

Array = Any  # any array that follows the array API standard
Features = slice | np.ndarray  # some features of a view

EFFECT_PRECISION = 0.01  # of the prior of what a covariate does to a feature: N(0, 100) where both have unit variance
BATCH = 128  # features with a covariance each that are worked on at a time


@dataclass(frozen=True)
class Gamma:
    """A Gamma distribution, always (shape, rate)."""

    shape: np.ndarray
    rate: np.ndarray

    @cached_property
    def mean(self) -> np.ndarray:
        return self.shape / self.rate

    @cached_property
    def log_mean(self) -> np.ndarray:
        """E[log x]."""
        return digamma(self.shape) - np.log(self.rate)

    @cached_property
    def log_scale(self) -> np.ndarray:
        """What the log density holds beside x: a log b − log Γ(a)."""
        return self.shape * np.log(self.rate) - gammaln(self.shape)


@dataclass(frozen=True)
class Fixed:
    """A known positive number in the place of a Gamma variable."""

    value: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.value

    @property
    def log_mean(self) -> np.ndarray:
        return np.log(self.value)


@dataclass(frozen=True)
class ColumnGroups:
    """Which features of a view are observed on the same rows, and so share one <ZᵀZ>.

    `index[d]` is the group of feature d. Complete data, or whole rows missing, is one group; holes at
    random are one group per feature.
    """

    index: np.ndarray

    @staticmethod
    @lru_cache(maxsize=64)
    def single(n_features: int) -> ColumnGroups:
        """All features in one group."""
        return ColumnGroups(np.zeros(n_features, dtype=int))

    def __len__(self) -> int:
        return self._n_groups

    @cached_property
    def _n_groups(self) -> int:
        return int(self.index.max()) + 1

    def visit(self, shared: Callable[[int, Features], object], alone: Callable[[Features, Features], object]) -> None:
        """Call `shared(g, features)` for each group of several features, then `alone(groups, features)`.

        Features that stand alone come in batches, on threads where there are several, so that nothing loops over them.
        This is the one place that knows how groups are laid out; sums within groups are `totals`.
        """
        for g, features in self._shared:
            shared(g, features)
        for _ in in_threads(alone, *self._alone):
            pass

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sum the rows (features) of `values` within each group, (G, ...)."""
        if len(self) == 1:
            return np.sum(values, axis=0, keepdims=True)
        return values if self._each_its_own else self._membership @ values

    @cached_property
    def _each_its_own(self) -> bool:
        return np.array_equal(self.index, np.arange(len(self.index)))

    @cached_property
    def _shared(self) -> list[tuple[int, Features]]:
        if len(self) == 1 < len(self.index):
            return [(0, slice(None))]
        sizes = np.bincount(self.index)
        return [(int(g), np.flatnonzero(self.index == g)) for g in np.flatnonzero(sizes > 1)]

    @cached_property
    def _alone(self) -> tuple[Sequence[Features], Sequence[Features]]:
        """Batches of groups of one feature, and of their features."""
        alone = np.flatnonzero(np.bincount(self.index)[self.index] == 1)
        batches = [slice(a, min(a + BATCH, len(alone))) for a in range(0, len(alone), BATCH)]
        if self._each_its_own:
            return batches, batches
        return [self.index[alone[batch]] for batch in batches], [alone[batch] for batch in batches]

    @cached_property
    def _membership(self) -> sparse.csr_array:
        n = len(self.index)
        return sparse.csr_array((np.ones(n), (self.index, np.arange(n))), shape=(len(self), n))


@dataclass(frozen=True)
class WeightCovariance:
    """Covariances of the rows of W, factored: Σ_d = B_g diag(s_d) B_gᵀ, with g the column group of d."""

    basis: np.ndarray  # (G, K, K)
    spread: np.ndarray  # (D, K)
    logdet: np.ndarray  # (D,): log|Σ_d|, taken when W was updated
    groups: ColumnGroups

    def diagonal(self) -> np.ndarray:
        """The variances of the weights, (D, K)."""
        out = np.empty((self.spread.shape[0], self.basis.shape[1]))

        def shared(g: int, d: Features) -> None:
            out[d] = self.spread[d] @ (self.basis[g] ** 2).T

        def alone(g: Features, d: Features) -> None:
            out[d] = (self.basis[g] ** 2 @ self.spread[d][:, :, None])[:, :, 0]

        self.groups.visit(shared, alone)
        return out


@dataclass(frozen=True)
class ViewPosterior:
    """q(W) q(b) q(alpha) q(gamma) q(tau) of one view."""

    w_mean: np.ndarray  # (D, K)
    w_second: np.ndarray  # (D, K): <w_dk²>, which several updates need
    w_cov: WeightCovariance
    b_mean: np.ndarray  # (D,)
    b_var: np.ndarray  # (D,)
    alpha: Gamma  # of each factor that is learned; (K,) without covariates
    gamma: Gamma | Fixed  # one per relevance group
    tau: Gamma | Fixed  # (D,) or (1,)

    @property
    def n_known(self) -> int:
        """How many of the factors, the last ones, are covariates."""
        return int(self.w_mean.shape[1]) - len(self.alpha.rate)

    @cached_property
    def alpha_mean(self) -> np.ndarray:
        """<alpha_k> of all factors, those of covariates fixed, (K,)."""
        return np.concatenate([self.alpha.mean, np.full(self.n_known, EFFECT_PRECISION)])

    @cached_property
    def alpha_log_mean(self) -> np.ndarray:
        """<log alpha_k>, the same."""
        return np.concatenate([self.alpha.log_mean, np.full(self.n_known, math.log(EFFECT_PRECISION))])

    def with_weights(self, w_mean: np.ndarray, w_cov: WeightCovariance) -> ViewPosterior:
        """The same with another q(W)."""
        return replace(self, w_mean=w_mean, w_cov=w_cov, w_second=w_cov.diagonal() + w_mean**2)


@dataclass(frozen=True)
class Posterior:
    """All global variables; `activity` holds the precisions of the factors in each of S groups of samples."""

    views: tuple[ViewPosterior, ...]
    activity: Gamma = None  # type: ignore[assignment]  # (S, K); none of them where there are no groups

    def __post_init__(self) -> None:
        if self.activity is None:
            nothing = np.empty((0, self.n_components))
            object.__setattr__(self, "activity", Gamma(nothing, nothing))

    @property
    def n_components(self) -> int:
        """Factors that are learned: without covariates all of them."""
        return len(self.views[0].alpha.rate)

    @property
    def n_known(self) -> int:
        """Covariates, which come last among the factors."""
        return self.views[0].n_known

    @property
    def n_factors(self) -> int:
        """All factors: what z of a row takes."""
        return self.n_components + self.n_known

    def select_factors(self, order: np.ndarray, signs: np.ndarray | float = 1.0) -> Posterior:
        """Some of the learned factors, or none, in some order, each times a sign; covariates stay, and stay last."""
        signs = np.append(np.broadcast_to(signs, (len(order),)), np.ones(self.n_known))
        places = np.append(order, self.n_components + np.arange(self.n_known)).astype(int)
        views = []
        for view in self.views:
            cov = replace(view.w_cov, basis=view.w_cov.basis[:, places, :] * signs[:, None])
            alpha = Gamma(view.alpha.shape[order], view.alpha.rate[order])
            # `take` keeps rows together in memory, as a file does: products are then the same to the last bit
            mean, second = (np.take(array, places, axis=1) for array in (view.w_mean, view.w_second))
            weights = {"w_mean": mean * signs, "w_second": second}
            views.append(replace(view, **weights, w_cov=cov, alpha=alpha))
        return Posterior(tuple(views), Gamma(self.activity.shape[:, order], self.activity.rate[:, order]))

    def in_units(self, unit: np.ndarray) -> Posterior:
        """The same with factors counted in these units, (K,): z/unit, and weights times as large."""
        views, units = [], np.append(unit, np.ones(self.n_known))
        for view in self.views:
            logdet = view.w_cov.logdet + 2 * np.sum(np.log(unit))
            cov = replace(view.w_cov, basis=view.w_cov.basis * units[:, None], logdet=logdet)
            alpha = Gamma(view.alpha.shape, view.alpha.rate * unit**2)
            views.append(replace(view, alpha=alpha).with_weights(view.w_mean * units, cov))
        return Posterior(tuple(views), Gamma(self.activity.shape, self.activity.rate / unit**2))

    def add_factors(self, other: Posterior, scale: float) -> Posterior:
        """These factors and those of `other`, which has no covariates, with `scale` times their weights."""
        k, more = self.n_components, other.n_components

        def between(a: np.ndarray, b: np.ndarray, factor: float = 1.0) -> np.ndarray:
            """Columns of the learned factors, then of the new ones, then of the covariates."""
            return np.concatenate([a[..., :k], factor * b, a[..., k:]], axis=-1)

        views = []
        for mine, theirs in zip(self.views, other.views):
            cov, new = mine.w_cov, theirs.w_cov
            g, width = len(cov.groups), cov.basis.shape[2]
            own = np.concatenate([cov.basis, np.zeros((*cov.basis.shape[:2], more))], axis=2)
            born = np.concatenate([np.zeros((g, more, width)), new.basis], axis=2)
            basis = np.concatenate([own[:, :k], born, own[:, k:]], axis=1)
            spread = np.concatenate([cov.spread, scale**2 * new.spread], axis=1)
            logdet = cov.logdet + new.logdet + 2 * more * math.log(scale)
            alpha = Gamma(
                between(mine.alpha.shape, theirs.alpha.shape), between(mine.alpha.rate, theirs.alpha.rate, scale**2)
            )
            cov = WeightCovariance(basis, spread, logdet, cov.groups)
            view = replace(mine, alpha=alpha).with_weights(between(mine.w_mean, theirs.w_mean, scale), cov)
            views.append(view)
        a, b = self.activity, other.activity
        return Posterior(tuple(views), Gamma(between(a.shape, b.shape), between(a.rate, b.rate)))


@dataclass(frozen=True)
class LatentX:
    """q(x) of one view on some rows, between two sweeps.

    Cell by cell only what the next update needs: the means and, where the likelihood has one, its `xi`. Of the
    rest the sums over rows are enough: Σ E[x²] (D,) and Σ E[log p(t|x)] + H[q(x)] ().
    """

    mean: Array  # (n, D)
    second: Array  # (D,)
    bound: Array  # ()
    xi: Array | None = None  # (n, D)


@dataclass(frozen=True)
class Slopes:
    """How <x> of a view follows the globals that rows are told of, to first order and with z held: additive."""

    pairs: Array  # (D, (K + 1)(K + 2)/2): Σ d<x>/dy of each pair of (<z>, 1), in the order of `pairs_of`
    drift: Array  # (D,): Σ d E(x − y)²/d log tau
    pulls: Array | None = None  # (D, 2): Σ d<x>/d log tau (f, 1), f = <w>·<z>; with them `pairs`, (D, 3), are of (f, 1)


def add_slopes(a: Slopes | None, b: Slopes | None) -> Slopes | None:
    """Rows that do not know them count as if their x stood still, which makes steps of the globals smaller."""
    if a is None or b is None:
        return b if a is None else a
    pulls = None if a.pulls is None or b.pulls is None else a.pulls + b.pulls
    return Slopes(a.pairs + b.pairs, a.drift + b.drift, pulls)


@dataclass(frozen=True)
class ViewStats:
    """What the rows say about one view: additive."""

    n: Array  # (G,) rows observed
    z_sum: Array  # (G, K)
    zz: Array  # (G, K, K): Σ<z zᵀ> over the rows where the group is observed
    x_sum: Array  # (D,)
    xz: Array  # (D, K): Σ<x zᵀ>
    xx: Array  # (D,): Σ<x²>
    bound: Array  # (): Σ E[log p(t|x)] + H[q(x)]
    groups: ColumnGroups
    slopes: Slopes | None = None  # of views whose globals leap

    def __add__(self, other: ViewStats) -> ViewStats:
        names = [f.name for f in fields(self) if f.name not in ("groups", "slopes")]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **sums, slopes=add_slopes(self.slopes, other.slopes))


@dataclass(frozen=True)
class GroupStats:
    """What the rows say about the activity of factors in each of S groups of samples: additive."""

    n: Array  # (S,) rows of the group
    zz: Array  # (S, K, K): Σ<z zᵀ> over them

    def squares(self, n_components: int) -> np.ndarray:
        """Σ<z_k²> of the learned factors in each group, (S, K)."""
        return np.diagonal(self.zz, axis1=1, axis2=2)[:, :n_components]

    def __add__(self, other: GroupStats) -> GroupStats:
        return GroupStats(self.n + other.n, self.zz + other.zz)


@dataclass(frozen=True)
class Stats:
    """Everything that leaves the rows: additive over blocks, workers and machines."""

    n: int
    zz: Array  # (K, K) over all rows
    z_logdet: Array  # (): Σ log|Σ_n|
    views: tuple[ViewStats, ...]
    groups: GroupStats
    n_restored: int = 0  # rows whose q(x) was lost, and found again from the globals before this step

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            self.n + other.n,
            self.zz + other.zz,
            self.z_logdet + other.z_logdet,
            tuple(a + b for a, b in zip(self.views, other.views)),
            self.groups + other.groups,
            self.n_restored + other.n_restored,
        )
