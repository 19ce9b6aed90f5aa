"""The local half of a sweep as pure functions: q(z) and q(x) of a block of rows given the globals, and their Stats.

These kernels take their namespace from their arrays: what they do for NumPy they do for any array library.
Equation and table numbers are the paper's. Shapes: n rows of a block, D features, K factors, G column groups;
`r` is 1 where all rows of a block share one pattern of holes, else n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi
from typing import NamedTuple

import numpy as np

from .arrays import array_namespace, eye, inverse_root, zeros
from .likelihoods import Likelihood, XUpdate
from .spec import ModelSpec
from .state import Array, ColumnGroups, LatentX, Posterior, Stats, ViewStats
from .w_moments import weighted_ww

# ------------------------------------------------------------------------------------------------ rows and messages


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

    likelihood: Likelihood
    ww: Array  # (G, K²): w_m Σ_{d in group} tau_d <w_d w_dᵀ>
    loading: Array  # (D, K): w_m tau_d <w_d>
    offset: Array  # (G, K): w_m Σ_{d in group} tau_d <b_d> <w_d>
    w_mean: Array
    b_mean: Array
    tau: Array


def make_messages(posterior: Posterior, spec: ModelSpec, groups: Sequence[ColumnGroups]) -> tuple[Message, ...]:
    """From the globals to the rows, one message for each view; `groups` are the column groups of these rows."""
    out = []
    for view, view_spec, columns in zip(posterior.views, spec.views, groups):
        tau = view_spec.weight * view.tau.mean + np.zeros_like(view.b_mean)
        loading = tau[:, None] * view.w_mean
        ww = np.reshape(weighted_ww(view, tau, loading, columns), (len(columns), -1))
        offset = columns.totals(view.b_mean[:, None] * loading)
        out.append(Message(view_spec.likelihood, ww, loading, offset, view.w_mean, view.b_mean, view.tau.mean))
    return tuple(out)


# ------------------------------------------------------------------------------------------------------------- q(z)


@dataclass(frozen=True)
class ZGivenX:
    """q(z) of a block up to what the latent x add: its covariance, and the evidence of the static views."""

    cov: Array  # (r, K, K)
    logdet: Array  # (r,): log|Σ_n|
    offset: Array  # (r, K): Σ w_m tau_d <b_d> <w_d>, what b takes away from the evidence
    evidence: Array = None  # (n, K): Σ w_m tau_d x <w_d> over static views, less the offset


def z_covariance(observed: Sequence[Array], messages: Sequence[Message]) -> ZGivenX:
    """Σ_n⁻¹ = I + Σ_m w_m Σ_{d observed} tau_d <w_d w_dᵀ> (table 2, observed cells only)."""
    first = messages[0].loading
    xp = array_namespace(first)
    n_components = first.shape[1]
    precision, offset = eye(n_components, first)[None], zeros((1, n_components), first)
    for seen, message in zip(observed, messages):
        precision = precision + xp.reshape(seen @ message.ww, (-1, n_components, n_components))
        offset = offset + seen @ message.offset
    root, logdet = inverse_root(precision)
    return ZGivenX(root @ xp.matrix_transpose(root), logdet, offset)


def prepare_z(block: Block, messages: Sequence[Message]) -> ZGivenX:
    """The covariances of z and what the static views say about it."""
    known = z_covariance([rows.observed for rows in block.views], messages)
    evidence = zeros((block.n, 1), known.offset) - known.offset
    for rows, message in zip(block.views, messages):
        if rows.is_static and rows.present:
            evidence = evidence + as_float(rows.target, evidence) @ message.loading
    return ZGivenX(known.cov, known.logdet, known.offset, evidence)


def update_z(block: Block, x: LocalX, known: ZGivenX, messages: Sequence[Message]) -> Array:
    """<z_n> = Σ_n Σ_m w_m Σ_{d observed} tau_d (<x_nd> − <b_d>) <w_d>, (n, K)."""
    evidence = known.evidence
    for latent, message in zip(x, messages):
        if latent is not None:
            evidence = evidence + latent.mean @ message.loading
    return evidence @ known.cov[0] if block.shared else (evidence[:, None, :] @ known.cov)[:, 0, :]


# ------------------------------------------------------------------------------------------------------------- q(x)


def update_x(block: Block, x: LocalX, z: Array, messages: Sequence[Message]) -> LocalX:
    """q(x) of the latent views (table 3, table 4)."""
    new: list[LatentX | None] = []
    for rows, old, message in zip(block.views, x, messages):
        if old is None:
            new.append(None)
        else:
            new.append(update_view_x(rows, old.xi, z @ message.w_mean.T + message.b_mean, message))
    return tuple(new)


def update_view_x(rows: RowView, xi: Array | None, y: Array, message: Message) -> LatentX:
    """q(x) of one view at y = <z><w> + <b>."""
    if not rows.present:
        nothing = zeros(y.shape, y)
        return LatentX(nothing, nothing[0], nothing[0, 0], xi)
    found = message.likelihood.infer_x(rows.target, y, message.tau, xi)
    return leave_out_holes(rows, found) if rows.holes is None else fill_holes(rows, found, y, message.tau)


def leave_out_holes(rows: RowView, x: XUpdate) -> LatentX:
    """Zero where not observed: a hole has no q(x)."""
    xp = array_namespace(x.mean)
    seen = (rows.observed > 0)[:, rows.groups.index]
    seen_bound = seen if x.bound.shape[1] == x.mean.shape[1] else rows.observed > 0
    second, bound = xp.where(seen, x.second, 0.0), xp.where(seen_bound, x.bound, 0.0)
    return LatentX(xp.where(seen, x.mean, 0.0), xp.sum(second, axis=0), xp.sum(bound), x.xi)


def fill_holes(rows: RowView, x: XUpdate, y: Array, tau: Array) -> LatentX:
    """N(y, 1/tau) at a hole under missing="mean-field".

    Its unseen t̃ integrates out, so it is the same in all types (table 5; the paper prints its covariance as the
    precision, and leaves b out of its mean).
    """
    xp = array_namespace(y)
    holes = rows.holes
    assert holes is not None
    entropy = 0.5 * (log(2 * pi) + 1 - xp.log(tau)) + xp.zeros_like(y)
    own = xp.where(holes[:, : x.bound.shape[1]], 0.0, x.bound)
    bound = xp.sum(xp.where(holes, entropy, 0.0)) + xp.sum(own)
    second = xp.sum(xp.where(holes, y**2 + 1 / tau, x.second), axis=0)
    return LatentX(xp.where(holes, y, x.mean), second, bound, x.xi)


def start_x(block: Block, messages: Sequence[Message]) -> LocalX:
    """q(x) as if the factors already told the targets: from there W learns fast; from y = 0 it may never grow."""
    new: list[LatentX | None] = []
    for rows, message in zip(block.views, messages):
        if rows.is_static:
            new.append(None)
            continue
        xp = array_namespace(message.loading)
        y = message.likelihood.start_y(rows.target, zeros((block.n, message.w_mean.shape[0]), message.loading))
        y = y if rows.holes is None else xp.where(rows.holes, 0.0, y)
        new.append(update_view_x(rows, None, y, message))
    return tuple(new)


# ------------------------------------------------------------------------------------------------------- statistics


def local_step(block: Block, x: LocalX, messages: Sequence[Message], hold_x: bool = False) -> tuple[LocalX, Stats]:
    """q(z), then q(x) unless it is held, of a block of rows given the globals."""
    known = prepare_z(block, messages)
    z = update_z(block, x, known, messages)
    x = x if hold_x else update_x(block, x, z, messages)
    return x, collect(block, x, z, known)


def collect(block: Block, x: LocalX, z: Array, known: ZGivenX) -> Stats:
    """The sufficient statistics of a block."""
    xp = array_namespace(z)
    if block.shared:
        zz_rows = (block.n * known.cov[0] + z.T @ z)[None]
        z_rows = xp.sum(z, axis=0, keepdims=True)
    else:
        zz_rows, z_rows = known.cov + z[:, :, None] * z[:, None, :], z
    sums = [
        XSums(rows.x_sum, static_xz(rows, z), rows.xx, zeros((), z))
        if latent is None
        else XSums(xp.sum(latent.mean, axis=0), latent.mean.T @ z, latent.second, latent.bound)
        for rows, latent in zip(block.views, x)
    ]
    return assemble(block, z_rows, zz_rows, known.logdet, sums)


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
