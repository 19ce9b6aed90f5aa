"""The local half of a sweep as pure functions: q(z) and q(x) of a block of rows given the globals, and their Stats.

These kernels take their namespace from their arrays: what they do for NumPy they do for any array library.
Equation and table numbers are the paper's. Shapes: n rows of a block, D features, K factors, G column groups;
`r` is 1 where all rows of a block share one pattern of holes, else n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log, pi
from typing import NamedTuple

import numpy as np

from .arrays import array_namespace, eye, inverse_root, zeros
from .likelihoods import Likelihood, XUpdate
from .spec import ModelSpec
from .state import Array, ColumnGroups, LatentX, Posterior, Stats, ViewStats
from .threads import in_threads
from .w_moments import weighted_ww

PART_BYTES = 2**23  # working memory of rows with a covariance each: small enough for the caches

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
    complete: bool = False  # is all of it?
    seen: np.ndarray | None = None  # of whole rows that are seen or missing: places of the seen ones, on the host
    x_sum: Array | None = None  # of a real view without mean-field holes: constants, taken once
    xx: Array | None = None

    @property
    def is_static(self) -> bool:
        return self.x_sum is not None

    def rows(self, some: slice) -> RowView:
        """Some of the rows, of a block whose rows do not share a pattern of holes."""
        holes, seen = None if self.holes is None else self.holes[some], self.seen
        if seen is not None:
            first, last = np.searchsorted(seen, [some.start, some.stop])
            seen = seen[first:last] - some.start
        return replace(self, target=self.target[some], observed=self.observed[some], holes=holes, seen=seen)


@dataclass(frozen=True)
class Block:
    """Rows that are processed together. `shared`: one pattern of holes, hence one covariance of z, for all."""

    n: int
    shared: bool
    views: tuple[RowView, ...]
    observed: Array  # (r, ΣG): the masks of all views side by side; each view has its part of it

    @classmethod
    def of(cls, n: int, shared: bool, views: Sequence[RowView]) -> Block:
        """The masks of the views are put side by side, and not kept twice."""
        xp = array_namespace(views[0].observed)
        observed = views[0].observed if len(views) == 1 else xp.concat([view.observed for view in views], axis=1)
        kept, start = [], 0
        for view in views:
            stop = start + view.observed.shape[1]
            kept.append(replace(view, observed=observed[:, start:stop]))
            start = stop
        return cls(n, shared, tuple(kept), observed)

    def parts(self, n_components: int) -> list[slice]:
        """All rows at once where they share a covariance of z; else so many that their covariances stay in a cache."""
        step = self.n if self.shared else max(1, PART_BYTES // (32 * n_components**2))
        return [slice(start, min(start + step, self.n)) for start in range(0, self.n, step)]

    def rows(self, some: slice) -> Block:
        if self.shared or some == slice(0, self.n):
            return self
        views = tuple(view.rows(some) for view in self.views)
        return Block(some.stop - some.start, False, views, self.observed[some])


LocalX = tuple[LatentX | None, ...]  # q(x) of a block, None for static views


def rows_of_x(x: LocalX, some: slice) -> LocalX:
    """q(x) of some of the rows; their sums are not known."""
    return tuple(q and LatentX(q.mean[some], None, None, None if q.xi is None else q.xi[some]) for q in x)


def join_x(parts: Sequence[LocalX]) -> LocalX:
    """q(x) of rows that were processed in parts."""
    return parts[0] if len(parts) == 1 else tuple(_join(column) for column in zip(*parts))


def _join(parts: Sequence[LatentX | None]) -> LatentX | None:
    found = [part for part in parts if part is not None]
    if not found:
        return None
    xp = array_namespace(found[0].mean)
    xi = None if found[0].xi is None else xp.concat([part.xi for part in found])
    second, bound = (sum(getattr(part, name) for part in found) for name in ("second", "bound"))
    return LatentX(xp.concat([part.mean for part in found]), second, bound, xi)


@dataclass(frozen=True)
class Message:
    """What rows need to know of one view's globals."""

    likelihood: Likelihood
    loading: Array  # (D, K): w_m tau_d <w_d>
    w_mean: Array  # (D, K)
    b_mean: Array  # (D,)
    tau: Array  # (D,) or (1,)


@dataclass(frozen=True)
class Messages:
    """All that rows need to know of the globals; small, and made once per sweep. `ww` and `offset` are of all views."""

    views: tuple[Message, ...]
    ww: Array  # (ΣG, K²): w_m Σ_{d in group} tau_d <w_d w_dᵀ>
    offset: Array  # (ΣG, K): w_m Σ_{d in group} tau_d <b_d> <w_d>

    @property
    def n_components(self) -> int:
        return int(self.offset.shape[1])


def make_messages(posterior: Posterior, spec: ModelSpec, groups: Sequence[ColumnGroups]) -> Messages:
    """From the globals to the rows; `groups` are the column groups of each view of these rows."""
    views, ww, offset = [], [], []
    for view, view_spec, columns in zip(posterior.views, spec.views, groups):
        tau = view_spec.weight * view.tau.mean + np.zeros_like(view.b_mean)
        loading = tau[:, None] * view.w_mean
        ww.append(np.reshape(weighted_ww(view, tau, loading, columns), (len(columns), -1)))
        offset.append(columns.totals(view.b_mean[:, None] * loading))
        views.append(Message(view_spec.likelihood, loading, view.w_mean, view.b_mean, view.tau.mean))
    return Messages(tuple(views), np.concatenate(ww), np.concatenate(offset))


# ------------------------------------------------------------------------------------------------------------- q(z)


@dataclass(frozen=True)
class ZGivenX:
    """q(z) of a block up to what the latent x add: its covariance, and the evidence of the static views."""

    cov: Array  # (r, K, K)
    logdet: Array  # (r,): log|Σ_n|
    offset: Array  # (r, K): Σ w_m tau_d <b_d> <w_d>, what b takes away from the evidence
    evidence: Array = None  # (n, K): Σ w_m tau_d x <w_d> over static views, less the offset


def z_covariance(observed: Array, messages: Messages) -> ZGivenX:
    """Σ_n⁻¹ = I + Σ_m w_m Σ_{d observed} tau_d <w_d w_dᵀ> (table 2, observed cells only); `observed` is (r, ΣG)."""
    xp, n_components = array_namespace(messages.ww), messages.n_components
    precision = xp.reshape(observed @ messages.ww, (-1, n_components, n_components)) + eye(n_components, messages.ww)
    root, logdet = inverse_root(precision)
    return ZGivenX(root @ xp.matrix_transpose(root), logdet, observed @ messages.offset)


def prepare_z(block: Block, messages: Messages) -> ZGivenX:
    """The covariances of z and what the static views say about it."""
    known = z_covariance(block.observed, messages)
    evidence = zeros((block.n, 1), known.offset) - known.offset
    for rows, message in zip(block.views, messages.views):
        if rows.is_static and rows.present:
            evidence = evidence + as_float(rows.target, evidence) @ message.loading
    return replace(known, evidence=evidence)


def update_z(block: Block, x: LocalX, known: ZGivenX, messages: Messages) -> Array:
    """<z_n> = Σ_n Σ_m w_m Σ_{d observed} tau_d (<x_nd> − <b_d>) <w_d>, (n, K)."""
    evidence = known.evidence
    for latent, message in zip(x, messages.views):
        if latent is not None:
            evidence = evidence + latent.mean @ message.loading
    return evidence @ known.cov[0] if block.shared else (evidence[:, None, :] @ known.cov)[:, 0, :]


# ------------------------------------------------------------------------------------------------------------- q(x)


def update_x(block: Block, x: LocalX, z: Array, messages: Messages) -> LocalX:
    """q(x) of the latent views (table 3, table 4)."""
    new: list[LatentX | None] = []
    for rows, old, message in zip(block.views, x, messages.views):
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
    if message.likelihood.whole_rows and rows.seen is not None:
        return infer_seen_rows(rows, rows.seen, y, message)
    found = message.likelihood.infer_x(rows.target, y, message.tau, xi)
    return leave_out_holes(rows, found) if rows.holes is None else fill_holes(rows, found, y, message.tau)


def infer_seen_rows(rows: RowView, seen: np.ndarray, y: Array, message: Message) -> LatentX:
    """q(x) of a view whose rows are seen or missing as a whole: only of those that are seen."""
    xp = array_namespace(y)
    found = message.likelihood.infer_x(rows.target[seen], y[seen], message.tau, None)
    mean = zeros(y.shape, y)
    mean[seen] = found.mean
    return LatentX(mean, xp.sum(found.second, axis=0), xp.sum(found.bound))


def leave_out_holes(rows: RowView, x: XUpdate) -> LatentX:
    """Zero where not observed: a hole has no q(x)."""
    xp = array_namespace(x.mean)
    mean, second, bound = x.mean, x.second, x.bound
    if not rows.complete:
        seen = (rows.observed > 0)[:, rows.groups.index]
        seen_bound = seen if bound.shape[1] == mean.shape[1] else rows.observed > 0
        mean, second, bound = (xp.where(m, v, 0.0) for m, v in ((seen, mean), (seen, second), (seen_bound, bound)))
    return LatentX(mean, xp.sum(second, axis=0), xp.sum(bound), x.xi)


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


def start_x(block: Block, messages: Messages) -> LocalX:
    """q(x) as if the factors already told the targets: from there W learns fast; from y = 0 it may never grow."""
    new: list[LatentX | None] = []
    for rows, message in zip(block.views, messages.views):
        if rows.is_static:
            new.append(None)
            continue
        xp = array_namespace(message.loading)
        y = message.likelihood.start_y(rows.target, zeros((block.n, message.w_mean.shape[0]), message.loading))
        y = y if rows.holes is None else xp.where(rows.holes, 0.0, y)
        new.append(update_view_x(rows, None, y, message))
    return tuple(new)


# ------------------------------------------------------------------------------------------------------- statistics


def local_step(block: Block, x: LocalX, messages: Messages, hold_x: bool = False) -> tuple[LocalX, Stats]:
    """q(z), then q(x) unless it is held, of a block of rows given the globals."""
    z, sums = infer_z(block, x, messages)
    x = x if hold_x else update_x(block, x, z, messages)
    return x, collect(block, x, z, sums)


@dataclass(frozen=True)
class ZSums:
    """What z adds to the statistics: Σ<zzᵀ> and Σ log|Σ_n| of all rows, and Σ1, Σ<z>, Σ<zzᵀ> of each view's groups."""

    zz: Array  # (K, K)
    logdet: Array  # ()
    views: tuple[tuple[Array, Array, Array], ...]  # (G,), (G, K), (G, K, K)

    def __add__(self, other: ZSums) -> ZSums:
        views = tuple(tuple(a + b for a, b in zip(mine, theirs)) for mine, theirs in zip(self.views, other.views))
        return ZSums(self.zz + other.zz, self.logdet + other.logdet, views)


def infer_z(block: Block, x: LocalX, messages: Messages) -> tuple[Array, ZSums]:
    """<z> of all rows, (n, K), and its sums; on threads, a part of the rows each, where rows have own covariances."""

    def one(some: slice) -> tuple[Array, ZSums]:
        part, part_x = block.rows(some), x if block.shared else rows_of_x(x, some)
        known = prepare_z(part, messages)
        z = update_z(part, part_x, known, messages)
        return z, sum_z(part, z, known)

    def several(parts: Sequence[slice]) -> tuple[Array, ZSums]:
        return join_z(map(one, parts))

    parts = block.parts(messages.n_components)
    if len(parts) == 1:
        return one(parts[0])
    # A thread adds up what it computes. How many parts it takes does not depend on the threads, so neither do the sums.
    step = -(-len(parts) // min(max(4, len(parts) // 8), 64))
    return join_z(in_threads(several, [parts[i : i + step] for i in range(0, len(parts), step)]))


def join_z(found: Iterable[tuple[Array, ZSums]]) -> tuple[Array, ZSums]:
    """<z> of several parts one below the other, and their sums added in this order."""
    means, total = [], None
    for z, sums in found:
        means.append(z)
        total = sums if total is None else total + sums
    assert total is not None
    return means[0] if len(means) == 1 else array_namespace(means[0]).concat(means), total


def sum_z(block: Block, z: Array, known: ZGivenX) -> ZSums:
    xp = array_namespace(z)
    if block.shared:
        zz_rows = (block.n * known.cov[0] + z.T @ z)[None]
        return sum_patterns(block, xp.sum(z, axis=0, keepdims=True), zz_rows, known.logdet)
    return sum_patterns(block, z, known.cov + z[:, :, None] * z[:, None, :], known.logdet)


def sum_patterns(block: Block, z_rows: Array, zz_rows: Array, logdet: Array) -> ZSums:
    """From Σ<z> (r, K) and Σ<zzᵀ> (r, K, K) of each pattern of holes to the sums of each view's column groups."""
    xp = array_namespace(z_rows)
    n_components, rows_each = z_rows.shape[1], block.n if block.shared else 1
    seen, flat = block.observed.T, xp.reshape(zz_rows, (-1, n_components**2))
    n, z_sum = xp.sum(seen, axis=1) * rows_each, seen @ z_rows
    zz = xp.reshape(seen @ flat, (-1, n_components, n_components))
    views, start = [], 0
    for rows in block.views:
        own = slice(start, start + len(rows.groups))
        views.append((n[own], z_sum[own], zz[own]))
        start = own.stop
    return ZSums(xp.sum(zz_rows, axis=0), xp.sum(logdet) * rows_each, tuple(views))


def collect(block: Block, x: LocalX, z: Array, sums: ZSums) -> Stats:
    """The sufficient statistics of a block."""
    xp = array_namespace(z)
    x_sums = [
        XSums(rows.x_sum, static_xz(rows, z), rows.xx, zeros((), z))
        if latent is None
        else XSums(xp.sum(latent.mean, axis=0), latent.mean.T @ z, latent.second, latent.bound)
        for rows, latent in zip(block.views, x)
    ]
    return assemble(block, sums, x_sums)


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


def assemble(block: Block, z_sums: ZSums, x_sums: Sequence[XSums]) -> Stats:
    """Statistics from the sums of z and of x."""
    views = [
        ViewStats(n, z_sum, zz, x.x_sum, x.xz, x.xx, x.bound, rows.groups)
        for rows, (n, z_sum, zz), x in zip(block.views, z_sums.views, x_sums)
    ]
    return Stats(block.n, z_sums.zz, z_sums.logdet, tuple(views))
