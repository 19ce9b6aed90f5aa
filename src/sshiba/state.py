"""The named, immutable values of the model: what is believed (Posterior), what rows report (Stats).

Symbols: N rows, D features of a view, K factors, G column groups (features observed on the same rows).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from .special import array_namespace, digamma, gammaln, like, zeros

Array = Any  # any array that follows the array API standard


@dataclass(frozen=True)
class Gamma:
    """A Gamma distribution, always (shape, rate)."""

    shape: Array
    rate: Array

    @cached_property
    def mean(self) -> Array:
        return self.shape / self.rate

    @cached_property
    def log_mean(self) -> Array:
        """E[log x]."""
        xp = array_namespace(self.rate)
        return digamma(self.shape) - xp.log(self.rate)

    @cached_property
    def log_scale(self) -> Array:
        """What the log density holds beside x: a log b − log Γ(a)."""
        xp = array_namespace(self.rate)
        return self.shape * xp.log(self.rate) - gammaln(self.shape)


@dataclass(frozen=True)
class Fixed:
    """A known positive number in the place of a Gamma variable."""

    value: Array

    @property
    def mean(self) -> Array:
        return self.value

    @property
    def log_mean(self) -> Array:
        return array_namespace(self.value).log(self.value)


@dataclass(frozen=True)
class ColumnGroups:
    """Which features of a view are observed on the same rows, and so share one <ZᵀZ>.

    `index[d]` is the group of feature d. Complete data, or whole rows missing, is one group; holes at
    random are one group per feature.
    """

    index: np.ndarray

    def __len__(self) -> int:
        return int(self.index.max()) + 1

    @cached_property
    def parts(self) -> list[tuple[Any, Any, bool]]:
        """(groups, features, alone) triples that cover the view.

        A shared group comes as (g, its features, False); all features that stand alone come in one
        batch, (their groups, the features, True), so that nothing loops over them.
        """
        if len(self) == 1 < len(self.index):
            return [(0, _all, False)]
        sizes = np.bincount(self.index)
        alone = np.flatnonzero(sizes[self.index] == 1)
        if len(alone) == len(self.index) and np.array_equal(self.index, np.arange(len(alone))):
            return [(_all, _all, True)]
        shared = [(int(g), np.flatnonzero(self.index == g), False) for g in np.flatnonzero(sizes > 1)]
        return shared + ([(self.index[alone], alone, True)] if len(alone) else [])


_all = slice(None)


@dataclass(frozen=True)
class RowCovariance:
    """Covariances of the rows of W, factored: Σ_d = B_g diag(s_d) B_gᵀ, with g the column group of d."""

    basis: Array  # (G, K, K)
    spread: Array  # (D, K)
    logdet: Array  # (D,): log|Σ_d|, taken when W was updated
    groups: ColumnGroups

    def __getstate__(self) -> dict[str, Any]:
        """What is remembered does not travel."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def kept(self, name: str, key: tuple[Array, ...], compute: Callable[[], Array]) -> Array:
        """What `compute` gives, remembered for the last `key`: several updates and the bound ask for the same."""
        last = self.__dict__.get(f"_{name}")
        if last is None or any(a is not b for a, b in zip(last[0], key, strict=True)):
            return self.keep(name, key, compute())
        return last[1]

    def keep(self, name: str, key: tuple[Array, ...], value: Array) -> Array:
        self.__dict__[f"_{name}"] = (key, value)
        return value

    @cached_property
    def diagonal(self) -> Array:
        """The variances of the weights, (D, K)."""
        out = array_namespace(self.basis).empty((self.spread.shape[0], self.basis.shape[1]), dtype=self.spread.dtype)
        for g, d, alone in self.groups.parts:
            square = self.basis[g] ** 2
            out[d] = (square @ self.spread[d][:, :, None])[:, :, 0] if alone else self.spread[d] @ square.T
        return out


@dataclass(frozen=True)
class ViewPosterior:
    """q(W) q(b) q(alpha) q(gamma) q(tau) of one view."""

    w_mean: Array  # (D, K)
    w_cov: RowCovariance
    b_mean: Array  # (D,)
    b_var: Array  # (D,)
    alpha: Gamma  # (K,)
    gamma: Gamma | Fixed  # one per relevance group
    tau: Gamma | Fixed  # (D,) or (1,)


@dataclass(frozen=True)
class Posterior:
    """All global variables."""

    views: tuple[ViewPosterior, ...]

    @property
    def n_components(self) -> int:
        return int(self.views[0].w_mean.shape[1])

    def arranged(self, order: np.ndarray, signs: Array = 1.0) -> Posterior:
        """Some of the factors, in some order, each times a sign."""
        views = []
        for view in self.views:
            signs = signs + 0 * view.alpha.rate[order]
            cov = replace(view.w_cov, basis=view.w_cov.basis[:, order, :] * signs[:, None])
            alpha = Gamma(view.alpha.shape[order], view.alpha.rate[order])
            views.append(replace(view, w_mean=view.w_mean[:, order] * signs, w_cov=cov, alpha=alpha))
        return Posterior(tuple(views))

    def joined(self, other: Posterior, scale: float) -> Posterior:
        """These factors and those of `other`, the latter with `scale` times their weights."""
        views = []
        for mine, its in zip(self.views, other.views):
            xp, cov = array_namespace(mine.w_mean), mine.w_cov

            def both(a: Array, b: Array, factor: float = 1.0, xp: Any = xp) -> Array:
                return xp.concat([a, factor * like(b, a)], axis=-1)

            g, k, more = len(cov.groups), self.n_components, other.n_components
            upper = xp.concat([cov.basis, zeros((g, k, more), cov.basis)], axis=2)
            lower = xp.concat([zeros((g, more, k), cov.basis), like(its.w_cov.basis, cov.basis)], axis=2)
            logdet = cov.logdet + like(its.w_cov.logdet, cov.logdet) + 2 * more * math.log(scale)
            spread = both(cov.spread, its.w_cov.spread, scale**2)
            cov = RowCovariance(xp.concat([upper, lower], axis=1), spread, logdet, cov.groups)
            alpha = Gamma(both(mine.alpha.shape, its.alpha.shape), both(mine.alpha.rate, its.alpha.rate, scale**2))
            views.append(replace(mine, w_mean=both(mine.w_mean, its.w_mean, scale), w_cov=cov, alpha=alpha))
        return Posterior(tuple(views))


@dataclass(frozen=True)
class LatentX:
    """q(x) of one view on some rows.

    `second` is E[x²]; `bound` holds E[log p(t|x)] + H[q(x)], per cell (n, D) or per row (n, 1);
    `xi` is whatever the likelihood wants back at its next update.
    """

    mean: Array
    second: Array
    bound: Array
    xi: Array | None = None


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
        sums = {f: getattr(self, f) + getattr(other, f) for f in _SUMS}
        return replace(self, **sums)


_SUMS = ("n", "z_sum", "zz", "x_sum", "xz", "xx", "bound")


@dataclass(frozen=True)
class Stats:
    """Everything that leaves the rows: additive over blocks, workers and machines."""

    n: int
    zz: Array  # (K, K) over all rows
    z_logdet: Array  # (): Σ log|Σ_n|
    views: tuple[ViewStats, ...]

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            self.n + other.n,
            self.zz + other.zz,
            self.z_logdet + other.z_logdet,
            tuple(a + b for a, b in zip(self.views, other.views)),
        )
