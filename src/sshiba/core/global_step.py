"""The global half of a sweep as pure functions: W, b, gamma, alpha, tau of every view, and the activity of factors in
groups of samples, from the statistics of all rows.

Everything here is NumPy on the host and costs nothing in N. Table numbers are the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .arrays import inverse_root
from .spec import ModelSpec, ViewSpec
from .state import ColumnGroups, Features, Fixed, Gamma, Posterior, Stats, ViewPosterior, ViewStats, WeightCovariance
from .w_moments import dot_group, feature_gamma, in_cache, w_trace, weights_trace

Residuals = tuple[np.ndarray, ...]  # E Σ_n (x_nd − z_n·w_d − b_d)² of each view, (D,)


def global_step(stats: Stats, posterior: Posterior, spec: ModelSpec) -> tuple[Posterior, Residuals]:
    """W, b, gamma, alpha, tau of every view, and the activity of factors in groups of samples, given the statistics of
    all rows; also the residuals, for the bound.
    """
    found = [update_view(*parts) for parts in zip(stats.views, posterior.views, spec.views)]
    posterior = update_activity(stats, replace(posterior, views=tuple(view for view, _ in found)), spec)
    return posterior, tuple(residual for _, residual in found)


def update_view(stats: ViewStats, view: ViewPosterior, spec: ViewSpec) -> tuple[ViewPosterior, np.ndarray]:
    """All updates of one view in their order. Alpha comes after gamma: the rotation assumes it at its optimum.

    Covariates have nothing to be learned.
    """
    if spec.known:
        return view, expected_residual(stats, view)
    view, trace = update_w(stats, view, spec)
    view = update_b(stats, view, spec)
    view = update_gamma(view, spec)
    view = update_alpha(view, spec)
    residual = expected_residual(stats, view, trace)
    return update_tau(stats, view, spec, residual), residual


# ---------------------------------------------------------------------------------------------------------------- W


def update_w(stats: ViewStats, view: ViewPosterior, spec: ViewSpec) -> tuple[ViewPosterior, np.ndarray]:
    """Σ_d⁻¹ = gamma_d diag(alpha) + tau_d <ZᵀZ>, <w_d> = tau_d Σ_d Σ(x − b)<z> (table 2).

    Also tr(<w_d w_dᵀ><ZᵀZ>), (D,), which the residual needs and which costs little here.
    """
    gamma, alpha, tau = feature_gamma(view, spec), view.alpha_mean, view.tau.mean + np.zeros_like(view.b_mean)
    same_precision = isinstance(view.gamma, Fixed) and view.tau.mean.shape[0] == 1
    new = _NewWeights(stats, view, gamma, alpha, tau)
    stats.groups.visit(new.same_precision if same_precision else new.eigenbasis, new.alone)
    w_cov = WeightCovariance(new.basis, new.spread, new.logdet, stats.groups)
    return view.with_weights(new.w_mean, w_cov), new.trace


class _NewWeights:
    """q(W) of a view while it is made, one method for each case. All know `pull` = tau_d Σ(x − b)<z>."""

    def __init__(
        self, stats: ViewStats, view: ViewPosterior, gamma: np.ndarray, alpha: np.ndarray, tau: np.ndarray
    ) -> None:
        self.stats, self.b_mean, self.gamma, self.alpha, self.tau = stats, view.b_mean, gamma, alpha, tau
        self.basis, self.spread = np.zeros_like(stats.zz), np.ones_like(stats.xz)
        self.w_mean, self.logdet, self.trace = np.empty_like(stats.xz), np.empty_like(tau), np.empty_like(tau)

    def eigenbasis(self, g: int, features: Features) -> None:
        """Features that share one <ZᵀZ> and differ in gamma or tau share one eigenbasis.

        With A = diag(alpha)^-½ and A<ZᵀZ>A = U diag(l) Uᵀ, B = A U and s_dk = 1/(gamma_d + tau_d l_k) give
        Σ_d = B diag(s_d) Bᵀ, in D·K² rather than D·K³; and since Bᵀ<ZᵀZ>B = diag(l), <w_d> = B m_d gives
        tr(<w_d w_dᵀ><ZᵀZ>) = Σ_k l_k (m_dk² + s_dk).
        """
        basis, eigenvalues = scaled_eigenbasis(self.stats.zz[g], self.alpha)
        self.basis[g] = basis
        log_det = -np.sum(np.log(self.alpha))
        for d in in_cache(features, *self.stats.xz.shape):
            precision = self.gamma[d][:, None] + self.tau[d][:, None] * eigenvalues
            self.spread[d] = 1 / precision
            self.logdet[d] = log_det - np.sum(np.log(precision), axis=1)
            half = self._pull(d, g) @ basis
            half *= self.spread[d]
            self.trace[d] = (half**2 + self.spread[d]) @ eigenvalues
            self.w_mean[d] = half @ basis.T

    def same_precision(self, g: int, features: Features) -> None:
        """Features of one gamma and one tau have one covariance: B is its root, s = 1."""
        zz = self.stats.zz[g]
        basis, self.logdet[features] = inverse_root(np.diag(self.alpha) + self.tau[0] * zz)
        self.basis[g] = basis
        for d in in_cache(features, *self.stats.xz.shape):
            self.w_mean[d] = (self._pull(d, g) @ basis) @ basis.T
        groups = ColumnGroups.single(len(self.w_mean[features]))
        self.trace[features] = weights_trace(self.w_mean[features], zz[None], groups) + np.sum(basis * (zz @ basis))

    def alone(self, g: Features, d: Features) -> None:
        """Features with rows of their own: one small system each, all at once."""
        zz = self.stats.zz[g]
        basis, self.logdet[d] = inverse_root(
            self.gamma[d][:, None, None] * np.diag(self.alpha) + self.tau[d][:, None, None] * zz
        )
        self.basis[g] = basis
        half = (self._pull(d, g)[:, None, :] @ basis)[:, 0, :]
        w = (basis @ half[:, :, None])[:, :, 0]
        self.w_mean[d] = w
        # tr(Σ_d <ZᵀZ>) from its diagonal: Σ_d (gamma_d diag(alpha) + tau_d <ZᵀZ>) = I has the trace K.
        of_prior = self.gamma[d] * (np.sum(basis**2, axis=-1) @ self.alpha)
        own = (basis.shape[-1] - of_prior) / self.tau[d]
        self.trace[d] = np.vecdot((w[:, None, :] @ zz)[:, 0, :], w) + own

    def _pull(self, d: Features, g: int | Features) -> np.ndarray:
        return self.tau[d][:, None] * (self.stats.xz[d] - self.b_mean[d][:, None] * self.stats.z_sum[g])


def scaled_eigenbasis(zz: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """B = A U and l ≥ 0 with A zz A = U diag(l) Uᵀ, A = diag(alpha)^-½.

    Factors are sorted by ascending alpha first: unsorted, eigh loses digits as eps·tau·l_max.
    """
    order = np.argsort(alpha)
    back = np.argsort(order)
    a = 1 / np.sqrt(alpha[order])
    eigenvalues, vectors = np.linalg.eigh(a[:, None] * zz[order][:, order] * a[None, :])
    return (a[:, None] * vectors)[back], np.where(eigenvalues > 0, eigenvalues, 0.0)


# -------------------------------------------------------------------------------------------- b, gamma, alpha, tau


def update_b(stats: ViewStats, view: ViewPosterior, spec: ViewSpec) -> ViewPosterior:
    """Var b_d = 1/P_d, <b_d> = tau_d Σ(x − <z>·<w_d>)/P_d, P_d = β + n_d tau_d (table 2, where β = 1).

    A level in common takes β s from all entries of diag(P): from P_d in Var b_d, and of the linear system for <b> the
    solution is P⁻¹e + β s (1ᵀP⁻¹e)/(1 − β s 1ᵀP⁻¹1) P⁻¹1 (Sherman and Morrison).
    """
    tau, common = view.tau.mean, spec.b_precision * spec.b_in_common
    precision = spec.b_precision + stats.n[stats.groups.index] * tau
    b_mean = tau * (stats.x_sum - dot_group(view.w_mean, stats.z_sum, stats.groups)) / precision
    if common > 0:
        b_mean = b_mean + common * np.sum(b_mean) / (1 - common * np.sum(1 / precision)) / precision
    return replace(view, b_mean=b_mean, b_var=1 / (precision - common))


def update_gamma(view: ViewPosterior, spec: ViewSpec) -> ViewPosterior:
    """Shape a0 + K·size/2, rate b0 + ½ Σ_d Σ_k alpha_k <w_dk²> over the features d of a group (table 2, tied)."""
    if isinstance(view.gamma, Fixed):
        return view
    energy = view.w_second @ view.alpha_mean
    groups = ColumnGroups(spec.relevance)
    prior, n_components = spec.gamma_prior, view.w_mean.shape[1]
    shape = prior.shape + n_components * groups.totals(np.ones_like(energy)) / 2
    return replace(view, gamma=Gamma(shape, prior.rate + groups.totals(energy) / 2))


def update_alpha(view: ViewPosterior, spec: ViewSpec) -> ViewPosterior:
    """Shape a0 + D/2, rate b0 + ½ Σ_d gamma_d <w_dk²> (table 2); that of covariates is fixed."""
    energy = feature_gamma(view, spec) @ view.w_second[:, : len(view.alpha.rate)]
    prior = spec.alpha_prior
    return replace(view, alpha=Gamma(np.full_like(energy, prior.shape + spec.n_features / 2), prior.rate + energy / 2))


def update_tau(stats: ViewStats, view: ViewPosterior, spec: ViewSpec, residual: np.ndarray) -> ViewPosterior:
    """Shape a0 + n/2, rate b0 + ½ E Σ(x − zw − b)², per feature or summed over the view (table 2)."""
    if spec.tau_prior is None:
        return view
    n = stats.n[stats.groups.index]
    if view.tau.mean.shape[0] == 1:
        n, residual = np.sum(n, keepdims=True), np.sum(residual, keepdims=True)
    return replace(view, tau=Gamma(spec.tau_prior.shape + n / 2, spec.tau_prior.rate + residual / 2))


def expected_residual(stats: ViewStats, view: ViewPosterior, trace: np.ndarray | None = None) -> np.ndarray:
    """E Σ_n (x_nd − z_n·w_d − b_d)² over observed rows, (D,); `trace` is `w_trace`, if it is known."""
    index, w, b = stats.groups.index, view.w_mean, view.b_mean
    cross = np.vecdot(w, stats.xz) + b * stats.x_sum
    trace = w_trace(view, stats.zz, stats.groups) if trace is None else trace
    fitted = trace + 2 * b * dot_group(w, stats.z_sum, stats.groups)
    return stats.xx - 2 * cross + fitted + stats.n[index] * (b**2 + view.b_var)


# ------------------------------------------------------------------------------------------------------- activity


def update_activity(stats: Stats, posterior: Posterior, spec: ModelSpec) -> Posterior:
    """z_nk ~ N(0, 1/a_sk) for the n_s rows n of group s: shape a0 + n_s/2, rate b0 + ½ Σ_n <z_nk²>, as of alpha."""
    prior, groups = spec.activity_prior, stats.groups
    rate = prior.rate + groups.squares(posterior.n_components) / 2
    return replace(posterior, activity=Gamma(np.zeros_like(rate) + prior.shape + groups.n[:, None] / 2, rate))


# ------------------------------------------------------------------------------------------------- one at a time

Update = Callable[[Stats, Posterior, ModelSpec], Posterior]


def of_views(update: Callable[[ViewStats, ViewPosterior, ViewSpec], ViewPosterior]) -> Update:
    """The update of one view, done to all but the covariates."""

    def all_views(stats: Stats, posterior: Posterior, spec: ModelSpec) -> Posterior:
        parts = zip(stats.views, posterior.views, spec.views)
        views = tuple(view if own.known else update(vs, view, own) for vs, view, own in parts)
        return replace(posterior, views=views)

    return all_views


# `global_step` in slow motion, to find a wrong one.
GLOBAL_UPDATES: dict[str, Update] = {
    "update_w": of_views(lambda stats, view, spec: update_w(stats, view, spec)[0]),
    "update_b": of_views(update_b),
    "update_gamma": of_views(lambda stats, view, spec: update_gamma(view, spec)),
    "update_alpha": of_views(lambda stats, view, spec: update_alpha(view, spec)),
    "update_tau": of_views(lambda stats, view, spec: update_tau(stats, view, spec, expected_residual(stats, view))),
    "update_activity": update_activity,
}
