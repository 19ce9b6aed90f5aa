"""The named, immutable values of the model: the posterior of the globals, and the statistics that rows report.

Globals and statistics are NumPy arrays on the host, wherever the rows are; only `LatentX` lives with the rows.
Symbols: N rows, D features of a view, K factors, G column groups (features observed on the same rows), S groups of
samples.
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
    alpha: Gamma  # (K,)
    gamma: Gamma | Fixed  # one per relevance group
    tau: Gamma | Fixed  # (D,) or (1,)

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
        return int(self.views[0].w_mean.shape[1])

    def select_factors(self, order: np.ndarray, signs: np.ndarray | float = 1.0) -> Posterior:
        """Some of the factors, or none, in some order, each times a sign."""
        signs = np.broadcast_to(np.asarray(signs, dtype=float), (len(order),))
        views = []
        for view in self.views:
            cov = replace(view.w_cov, basis=view.w_cov.basis[:, order, :] * signs[:, None])
            alpha = Gamma(view.alpha.shape[order], view.alpha.rate[order])
            weights = {"w_mean": view.w_mean[:, order] * signs, "w_second": view.w_second[:, order]}
            views.append(replace(view, **weights, w_cov=cov, alpha=alpha))
        return Posterior(tuple(views), Gamma(self.activity.shape[:, order], self.activity.rate[:, order]))

    def in_units(self, unit: np.ndarray) -> Posterior:
        """The same with factors counted in these units, (K,): z/unit, and weights times as large."""
        views = []
        for view in self.views:
            logdet = view.w_cov.logdet + 2 * np.sum(np.log(unit))
            cov = replace(view.w_cov, basis=view.w_cov.basis * unit[:, None], logdet=logdet)
            alpha = Gamma(view.alpha.shape, view.alpha.rate * unit**2)
            views.append(replace(view, alpha=alpha).with_weights(view.w_mean * unit, cov))
        return Posterior(tuple(views), Gamma(self.activity.shape, self.activity.rate / unit**2))

    def add_factors(self, other: Posterior, scale: float) -> Posterior:
        """These factors and those of `other`, the latter with `scale` times their weights."""

        def both(a: np.ndarray, b: np.ndarray, factor: float = 1.0) -> np.ndarray:
            return np.concatenate([a, factor * b], axis=-1)

        views = []
        k, more = self.n_components, other.n_components
        for mine, theirs in zip(self.views, other.views):
            cov, new = mine.w_cov, theirs.w_cov
            g = len(cov.groups)
            upper = np.concatenate([cov.basis, np.zeros((g, k, more))], axis=2)
            lower = np.concatenate([np.zeros((g, more, cov.basis.shape[2])), new.basis], axis=2)
            logdet = cov.logdet + new.logdet + 2 * more * math.log(scale)
            spread = both(cov.spread, new.spread, scale**2)
            cov = WeightCovariance(np.concatenate([upper, lower], axis=1), spread, logdet, cov.groups)
            alpha = Gamma(
                both(mine.alpha.shape, theirs.alpha.shape), both(mine.alpha.rate, theirs.alpha.rate, scale**2)
            )
            view = replace(mine, alpha=alpha).with_weights(both(mine.w_mean, theirs.w_mean, scale), cov)
            views.append(view)
        a, b = self.activity, other.activity
        return Posterior(tuple(views), Gamma(both(a.shape, b.shape), both(a.rate, b.rate)))


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
class ViewStats:
    """What the rows say about one view: additive."""

    n: Array  # (G,) rows observed
    z_sum: Array  # (G, K)
    zz: Array  # (G, K, K): Σ<z zᵀ> over the rows where the group is observed
    x_sum: Array  # (D,)
    xz: Array  # (D, K): Σ<x><z>ᵀ
    xx: Array  # (D,): Σ<x²>
    bound: Array  # (): Σ E[log p(t|x)] + H[q(x)]
    groups: ColumnGroups

    def __add__(self, other: ViewStats) -> ViewStats:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "groups"}
        return replace(self, **sums)


@dataclass(frozen=True)
class GroupStats:
    """What the rows say about the activity of factors in each of S groups of samples: additive."""

    n: Array  # (S,) rows of the group
    zz: Array  # (S, K, K): Σ<z zᵀ> over them

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
