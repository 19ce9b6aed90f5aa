"""One sweep as pure functions: rows -> Stats (local), Stats -> posterior (global).

Equation and table numbers are the paper's. Shapes: n rows of a block, D features, K factors, G column groups;
`r` is 1 where all rows of a block share one pattern of holes, else n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, pi
from typing import NamedTuple

from .likelihoods import View
from .model import Model, ViewModel
from .moments import dot_group, feature_gamma, group_dot, group_sum, in_cache, w_second, w_trace, weighted_ww
from .special import array_namespace, eye, inverse_root, zeros
from .state import (
    Array,
    ColumnGroups,
    Fixed,
    Gamma,
    LatentX,
    Posterior,
    RowCovariance,
    Stats,
    ViewPosterior,
    ViewStats,
)

# -------------------------------------------------------------------------------------------------- local step


@dataclass(frozen=True)
class RowView:
    """One view of a block of rows.

    `observed` (r, G) says 1 where the rows of the block have the features of a column group. `holes` (n, D) marks
    the cells that are variables of their own under missing="mean-field"; such a view counts as observed.
    """

    target: Array
    observed: Array
    groups: ColumnGroups
    holes: Array | None = None
    present: bool = True  # is anything of this view observed in the block?
    x_sum: Array | None = None  # of a real view without mean-field holes: constants, taken once
    xx: Array | None = None

    @property
    def is_static(self) -> bool:
        return self.x_sum is not None


@dataclass(frozen=True)
class Block:
    """Rows that are processed together. `shared`: one pattern of holes, hence one covariance of z, for all."""

    n: int
    shared: bool
    views: tuple[RowView, ...]


LocalX = tuple[LatentX | None, ...]  # q(x) of a block, None for static views


@dataclass(frozen=True)
class Message:
    """All that rows need to know of one view's globals; small, and made once per sweep."""

    view: View
    ww: Array  # (G, K²): w_m Σ_{d in group} tau_d <w_d w_dᵀ>
    loading: Array  # (D, K): w_m tau_d <w_d>
    offset: Array  # (G, K): w_m Σ_{d in group} tau_d <b_d> <w_d>
    w_mean: Array
    b_mean: Array
    tau: Array


def messages(posterior: Posterior, model: Model, groups: Sequence[ColumnGroups]) -> tuple[Message, ...]:
    out = []
    for view, spec, columns in zip(posterior.views, model.views, groups):
        xp = array_namespace(view.w_mean)
        tau = spec.weight * view.tau.mean + xp.zeros_like(view.b_mean)
        loading = tau[:, None] * view.w_mean
        ww = xp.reshape(weighted_ww(view, tau, loading, columns), (len(columns), -1))
        offset = group_dot(view.b_mean, loading, columns)
        out.append(Message(spec.view, ww, loading, offset, view.w_mean, view.b_mean, view.tau.mean))
    return tuple(out)


@dataclass(frozen=True)
class ZPrior:
    """What is known of the z of a block before the latent x speak."""

    cov: Array  # (r, K, K)
    logdet: Array  # (r,): log|Σ_n|
    offset: Array  # (r, K): Σ w_m tau_d <b_d> <w_d>, what b takes away from the evidence
    evidence: Array = None  # (n, K): Σ w_m tau_d x <w_d> over static views, less the offset


def z_covariance(observed: Sequence[Array], told: Sequence[Message]) -> ZPrior:
    """Σ_n⁻¹ = I + Σ_m w_m Σ_{d observed} tau_d <w_d w_dᵀ> (table 2, observed cells only)."""
    first = told[0].loading
    xp = array_namespace(first)
    n_components = first.shape[1]
    precision, offset = eye(n_components, first)[None], zeros((1, n_components), first)
    for seen, message in zip(observed, told):
        precision = precision + xp.reshape(seen @ message.ww, (-1, n_components, n_components))
        offset = offset + seen @ message.offset
    root, logdet = inverse_root(precision)
    return ZPrior(root @ xp.matrix_transpose(root), logdet, offset)


def prepare_z(block: Block, told: Sequence[Message]) -> ZPrior:
    """The covariances of z and what the static views say about it."""
    prior = z_covariance([rows.observed for rows in block.views], told)
    evidence = zeros((block.n, 1), prior.offset) - prior.offset
    for rows, message in zip(block.views, told):
        if rows.is_static and rows.present:
            evidence = evidence + as_float(rows.target, evidence) @ message.loading
    return replace(prior, evidence=evidence)


def update_z(block: Block, x: LocalX, prior: ZPrior, told: Sequence[Message]) -> Array:
    """<z_n> = Σ_n Σ_m w_m Σ_{d observed} tau_d (<x_nd> − <b_d>) <w_d>, (n, K)."""
    evidence = prior.evidence
    for latent, message in zip(x, told):
        if latent is not None:
            evidence = evidence + latent.mean @ message.loading
    return evidence @ prior.cov[0] if block.shared else (evidence[:, None, :] @ prior.cov)[:, 0, :]


def update_x(block: Block, x: LocalX, z: Array, told: Sequence[Message]) -> LocalX:
    """q(x) of the latent views (table 3, table 4)."""
    new: list[LatentX | None] = []
    for rows, old, message in zip(block.views, x, told):
        if rows.is_static:
            new.append(None)
        else:
            new.append(update_view_x(rows, old, z @ message.w_mean.T + message.b_mean, message))
    return tuple(new)


def update_view_x(rows: RowView, old: LatentX | None, y: Array, message: Message) -> LatentX:
    """q(x) of one view at y = <z><w> + <b>."""
    if not rows.present:
        nothing = zeros(y.shape, y)
        return LatentX(nothing, nothing, nothing[:, :1])
    return masked_x(rows, message.view.update_x(rows.target, y, message.tau, old), y, message.tau)


def start_x(block: Block, told: Sequence[Message]) -> LocalX:
    """q(x) as if the factors already told the targets: from there W learns fast; from y = 0 it may never grow."""
    new: list[LatentX | None] = []
    for rows, message in zip(block.views, told):
        if rows.is_static:
            new.append(None)
            continue
        xp = array_namespace(message.loading)
        y = message.view.start_y(rows.target, zeros((block.n, message.w_mean.shape[0]), message.loading))
        y = y if rows.holes is None else xp.where(rows.holes, 0.0, y)
        new.append(update_view_x(rows, None, y, message))
    return tuple(new)


def masked_x(rows: RowView, x: LatentX, y: Array, tau: Array) -> LatentX:
    """Zero where not observed; N(y, 1/tau) at a mean-field hole.

    A hole's unseen t̃ integrates out, so a mean-field hole is the same in all types (table 5; the paper prints its
    covariance as the precision, and leaves b out of its mean).
    """
    xp = array_namespace(y)
    if rows.holes is None:
        seen = (rows.observed > 0)[:, rows.groups.index]
        seen_bound = seen if x.bound.shape[1] == y.shape[1] else rows.observed > 0
        mean, second = xp.where(seen, x.mean, 0.0), xp.where(seen, x.second, 0.0)
        return replace(x, mean=mean, second=second, bound=xp.where(seen_bound, x.bound, 0.0))
    entropy = 0.5 * (log(2 * pi) + 1 - xp.log(tau)) + xp.zeros_like(y)
    bound = xp.sum(xp.where(rows.holes, entropy, 0.0), axis=1, keepdims=True)
    own = xp.where(rows.holes[:, : x.bound.shape[1]], 0.0, x.bound)
    return replace(
        x,
        mean=xp.where(rows.holes, y, x.mean),
        second=xp.where(rows.holes, y**2 + 1 / tau, x.second),
        bound=bound + xp.sum(own, axis=1, keepdims=True),
    )


def local_step(block: Block, x: LocalX, told: Sequence[Message], hold_x: bool = False) -> tuple[LocalX, Stats]:
    """q(z), then q(x) unless it is held, of a block of rows given the globals."""
    prior = prepare_z(block, told)
    z = update_z(block, x, prior, told)
    x = x if hold_x else update_x(block, x, z, told)
    return x, collect(block, x, z, prior)


def collect(block: Block, x: LocalX, z: Array, prior: ZPrior) -> Stats:
    """The sufficient statistics of a block."""
    xp = array_namespace(z)
    if block.shared:
        zz_rows = (block.n * prior.cov[0] + z.T @ z)[None]
        z_rows = xp.sum(z, axis=0, keepdims=True)
    else:
        zz_rows, z_rows = prior.cov + z[:, :, None] * z[:, None, :], z
    sums = [
        XSums(rows.x_sum, static_xz(rows, z), rows.xx, zeros((), z))
        if latent is None
        else XSums(xp.sum(latent.mean, axis=0), latent.mean.T @ z, xp.sum(latent.second, axis=0), xp.sum(latent.bound))
        for rows, latent in zip(block.views, x)
    ]
    return assemble(block, z_rows, zz_rows, prior.logdet, sums)


def static_xz(rows: RowView, z: Array) -> Array:
    """Σ x zᵀ of a static view, (D, K): as (zᵀX)ᵀ, which is up to twice as fast as Xᵀz."""
    out = zeros((rows.target.shape[1], z.shape[1]), z)
    if rows.present:
        out[...] = (z.T @ as_float(rows.target, z)).T
    return out


def as_float(target: Array, other: Array) -> Array:
    """Stored in single precision or not, in the precision of the sums."""
    return array_namespace(other).astype(target, other.dtype, copy=False)


class XSums(NamedTuple):
    """What the x of one view add to its statistics."""

    x_sum: Array
    xz: Array
    xx: Array
    bound: Array


def assemble(block: Block, z_rows: Array, zz_rows: Array, logdet: Array, sums: Sequence[XSums]) -> Stats:
    """Statistics from Σ<z> (r, K) and Σ<zzᵀ> (r, K, K) of each pattern of holes and what the x say."""
    xp = array_namespace(z_rows)
    n_components, rows_each = z_rows.shape[1], block.n if block.shared else 1
    flat = xp.reshape(zz_rows, (-1, n_components**2))
    views = []
    for rows, x in zip(block.views, sums):
        seen = rows.observed.T
        zz = xp.reshape(seen @ flat, (-1, n_components, n_components))
        n = xp.sum(seen, axis=1) * rows_each
        views.append(ViewStats(n, seen @ z_rows, zz, x.x_sum, x.xz, x.xx, x.bound, rows.groups))
    return Stats(block.n, xp.sum(zz_rows, axis=0), xp.sum(logdet) * rows_each, tuple(views))


# ------------------------------------------------------------------------------------------------- global step


def update_w(stats: ViewStats, view: ViewPosterior, model: ViewModel) -> ViewPosterior:
    """Σ_d⁻¹ = gamma_d diag(alpha) + tau_d <ZᵀZ>, <w_d> = tau_d Σ_d Σ(x − b)<z> (table 2).

    Features that share one <ZᵀZ> share one eigenbasis: with A = diag(alpha)^-½ and A<ZᵀZ>A = U diag(l) Uᵀ,
    B = A U and s_dk = 1/(gamma_d + tau_d l_k) give Σ_d = B diag(s_d) Bᵀ, in D·K² rather than D·K³; and since
    Bᵀ<ZᵀZ>B = diag(l), <w_d> = B m_d gives tr(<w_d w_dᵀ><ZᵀZ>) = Σ_k l_k (m_dk² + s_dk), which tau will need.
    """
    xp = array_namespace(stats.xz)
    alpha, gamma = view.alpha.mean, feature_gamma(view, model)
    tau = view.tau.mean + xp.zeros_like(view.b_mean)
    same_precision = isinstance(view.gamma, Fixed) and view.tau.mean.shape[0] == 1
    basis, spread = xp.zeros_like(stats.zz), xp.ones_like(stats.xz)
    logdet, trace, w_mean = xp.empty_like(tau), xp.empty_like(tau), xp.empty_like(stats.xz)
    traced = not same_precision and all(not alone for *_, alone in stats.groups.parts)
    for g, features, alone in stats.groups.parts:
        if alone:
            d = features
            precision = gamma[d][:, None, None] * _diagonal(alpha) + tau[d][:, None, None] * stats.zz[g]
            basis[g], logdet[d] = inverse_root(precision)
            pull = tau[d][:, None] * (stats.xz[d] - view.b_mean[d][:, None] * stats.z_sum[g])
            half = (pull[:, None, :] @ basis[g])[:, 0, :]
            w_mean[d] = (basis[g] @ half[:, :, None])[:, :, 0]
            continue
        if same_precision:
            basis[g], log_det = inverse_root(_diagonal(alpha) + tau[0] * stats.zz[g])
        else:
            basis[g], eigenvalues = _scaled_eigenbasis(stats.zz[g], alpha)
            log_det = -xp.sum(xp.log(alpha))
        for d in in_cache(features, *stats.xz.shape):
            half = (stats.xz[d] - view.b_mean[d][:, None] * stats.z_sum[g]) @ basis[g]
            half *= tau[d][:, None]
            logdet[d] = log_det
            if not same_precision:
                precision = gamma[d][:, None] + tau[d][:, None] * eigenvalues
                logdet[d] -= xp.sum(xp.log(precision), axis=1)
                spread[d] = 1 / precision
                half *= spread[d]
                trace[d] = (half**2 + spread[d]) @ eigenvalues
            w_mean[d] = half @ basis[g].T
    w_cov = RowCovariance(basis, spread, logdet, stats.groups)
    if traced:
        w_cov.keep("trace", (w_mean, stats.zz), trace)
    return replace(view, w_mean=w_mean, w_cov=w_cov)


def _scaled_eigenbasis(zz: Array, alpha: Array) -> tuple[Array, Array]:
    """B = A U and l ≥ 0 with A zz A = U diag(l) Uᵀ, A = diag(alpha)^-½.

    Factors are sorted by ascending alpha first: unsorted, eigh loses digits as eps·tau·l_max.
    """
    xp = array_namespace(zz)
    order = xp.argsort(alpha)
    back = xp.argsort(order)
    a = 1 / xp.sqrt(alpha[order])
    eigenvalues, vectors = xp.linalg.eigh(a[:, None] * zz[order][:, order] * a[None, :])
    return (a[:, None] * vectors)[back], xp.where(eigenvalues > 0, eigenvalues, 0.0)


def _diagonal(values: Array) -> Array:
    return eye(values.shape[0], values) * values[None, :]


def update_b(stats: ViewStats, view: ViewPosterior, model: ViewModel) -> ViewPosterior:
    """Var b_d = 1/(beta + n_d tau_d), <b_d> = Var b_d · tau_d Σ(x − <z>·<w_d>) (table 2, where beta = 1)."""
    tau = view.tau.mean
    b_var = 1 / (model.b_precision + stats.n[stats.groups.index] * tau)
    fitted = dot_group(view.w_mean, stats.z_sum, stats.groups)
    return replace(view, b_mean=b_var * tau * (stats.x_sum - fitted), b_var=b_var)


def update_gamma(stats: ViewStats, view: ViewPosterior, model: ViewModel) -> ViewPosterior:
    """Shape a0 + K·size/2, rate b0 + ½ Σ_d Σ_k alpha_k <w_dk²> over the features d of a group (table 2, tied)."""
    if isinstance(view.gamma, Fixed):
        return view
    xp = array_namespace(view.w_mean)
    energy = w_second(view) @ view.alpha.mean
    groups = ColumnGroups(model.relevance)
    size = group_sum(xp.ones_like(energy), groups)
    prior, n_components = model.gamma_prior, view.w_mean.shape[1]
    return replace(view, gamma=Gamma(prior.shape + n_components * size / 2, prior.rate + group_sum(energy, groups) / 2))


def update_alpha(stats: ViewStats, view: ViewPosterior, model: ViewModel) -> ViewPosterior:
    """Shape a0 + D/2, rate b0 + ½ Σ_d gamma_d <w_dk²> (table 2)."""
    xp = array_namespace(view.w_mean)
    energy = feature_gamma(view, model) @ w_second(view)
    prior = model.alpha_prior
    return replace(
        view, alpha=Gamma(prior.shape + model.n_features / 2 + xp.zeros_like(energy), prior.rate + energy / 2)
    )


def update_tau(stats: ViewStats, view: ViewPosterior, model: ViewModel) -> ViewPosterior:
    """Shape a0 + n/2, rate b0 + ½ E Σ(x − zw − b)², per feature or summed over the view (table 2)."""
    if model.tau_prior is None:
        return view
    xp = array_namespace(view.w_mean)
    n, residual = stats.n[stats.groups.index], residual_second(stats, view)
    if view.tau.mean.shape[0] == 1:
        n, residual = xp.sum(n, keepdims=True), xp.sum(residual, keepdims=True)
    prior = model.tau_prior
    return replace(view, tau=Gamma(prior.shape + n / 2, prior.rate + residual / 2))


def residual_second(stats: ViewStats, view: ViewPosterior) -> Array:
    """E Σ_n (x_nd − z_n·w_d − b_d)² over observed rows, (D,)."""
    xp = array_namespace(view.w_mean)
    index, w, b = stats.groups.index, view.w_mean, view.b_mean
    cross = xp.vecdot(w, stats.xz) + b * stats.x_sum
    fitted = w_trace(view, stats.zz, stats.groups) + 2 * b * dot_group(w, stats.z_sum, stats.groups)
    return stats.xx - 2 * cross + fitted + stats.n[index] * (b**2 + view.b_var)


Update = Callable[[ViewStats, ViewPosterior, ViewModel], ViewPosterior]
GLOBAL_UPDATES: tuple[Update, ...] = (update_w, update_b, update_gamma, update_alpha, update_tau)


def global_step(stats: Stats, posterior: Posterior, model: Model) -> Posterior:
    """W, b, gamma, alpha, tau of every view, given the statistics of all rows."""
    for update in GLOBAL_UPDATES:
        posterior = apply_update(update, stats, posterior, model)
    return posterior


def apply_update(update: Update, stats: Stats, posterior: Posterior, model: Model) -> Posterior:
    return Posterior(tuple(update(*parts) for parts in zip(stats.views, posterior.views, model.views)))
