"""The local half of a sweep as pure functions: q(z) and q(x) of a block of rows given the globals, and their Stats.

These kernels take their namespace from their arrays: what they do for NumPy they do for any array library.
Equation and table numbers are the paper's; shapes are as in `blocks.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from array_api_compat import is_numpy_array

from .arrays import add_outer, add_product, array_namespace, cross_product, eye, inverse_positive, sum_of_rows, zeros
from .blocks import Block, LocalX, RowView, as_float, join_x, latent_x, rows_of_x
from .latent_step import LatentStep, add_sums, added_zz, step_x, sum_slopes, update_x
from .latent_view import LatentView, features_one_by_one, latent_view, predictors_of_shared
from .messages import Messages
from .state import Array, GroupStats, Slopes, Stats, ViewStats, add_slopes
from .threads import in_threads

# ------------------------------------------------------------------------------------------------------------- q(z)


LARGEST_SHARE = 0.95  # of its last move that <z> may move next where a row jumps
ROUNDS_A_JUMP, MOST_JUMPS = 3, 30  # of rows that settle
SMALLEST_MOVE = 1e-30  # squared


@dataclass(frozen=True)
class ZGivenX:
    """q(z) of a block up to what the latent x add: its covariance, and the evidence of the static views."""

    cov: Array  # (r, K, K)
    logdet: Array  # (r,): log|Σ_n|
    offset: Array  # (r, K): Σ w_m tau_d <b_d> <w_d>, what b takes away from the evidence
    one_by_one: tuple[tuple[int, ...] | None, ...]  # of each view, where rows share Σ: see `features_one_by_one`
    evidence: Array = None  # (n or r, K): Σ w_m tau_d x <w_d> of static views, less the offset; times a shared Σ


def z_covariance(observed: Array, messages: Messages) -> ZGivenX:
    """Σ_n⁻¹ = I + Σ_m w_m Σ_{d observed} tau_d <w_d w_dᵀ> (table 2, observed cells only); `observed` is (r, ΣG + S).

    Of rows in a group of samples diag(a_s) takes the place of I.
    """
    xp, k, seen = array_namespace(messages.ww), messages.n_factors, as_float(observed, messages.ww)
    precision = add_product(xp.reshape(eye(k, messages.ww), (1, k * k)), seen, messages.ww)
    cov, logdet = inverse_positive(xp.reshape(precision, (seen.shape[0], k, k)))
    shared = seen.shape[0] == 1
    one_by_one = (features_one_by_one(m, cov) if shared and m.likelihood.latent else None for m in messages.views)
    return ZGivenX(cov, logdet, seen @ messages.offset, tuple(one_by_one))


def prepare_z(block: Block, messages: Messages, known: ZGivenX | None = None) -> ZGivenX:
    """The covariances of z, where they are not `known`, and what the static views say about it."""
    known = z_covariance(block.observed, messages) if known is None else known
    static = [(v, m.loading) for v, m in zip(block.views, messages.views) if v.is_static and v.present]
    evidence, cov = -known.offset, known.cov[0, ...]
    # A shared covariance is multiplied into what is smaller, the loadings or the evidence of all rows.
    cov_first = block.shared and sum(loading.shape[0] for _, loading in static) < block.n
    if cov_first:
        evidence, static = evidence @ cov, [(view, loading @ cov) for view, loading in static]
    for view, loading in static:
        evidence = add_product(evidence, as_float(view.target, evidence), loading)
    return replace(known, evidence=evidence @ cov if block.shared and not cov_first else evidence)


def update_z(block: Block, x: LocalX, known: ZGivenX, messages: Messages, last: bool = False) -> Array:
    """<z_n> = Σ_n Σ_m w_m Σ_{d observed} tau_d (<x_nd> − <b_d>) <w_d>, (n, K).

    `last`: it may take the place of the evidence.
    """
    z = known.evidence
    for latent, message in zip(x, messages.views):
        if latent is not None:
            loading = message.loading @ known.cov[0, ...] if block.shared else message.loading
            z = add_product(z, latent.mean, loading, last and z.shape[0] == block.n)
    if z.shape[0] < block.n:  # no view says anything of these rows
        z = z + zeros((block.n, 1), z)
    return z if block.shared else (z[:, None, :] @ known.cov)[:, 0, :]


# ------------------------------------------------------------------------------------------------------- statistics


def local_step(
    block: Block, x: LocalX, messages: Messages, hold_x: bool = False, known: ZGivenX | None = None
) -> tuple[LocalX, Stats]:
    """q(z) and q(x) of a block of rows given the globals; `known` is `z_covariance` of rows that share it.

    While x is held, and where holes are variables of their own, the posterior is q(z) q(x); else q(z | x) Π q(x), whose
    bound is never lower for the same q(x).
    """
    follow = block.z_follows_x and not hold_x
    z, new, sums = infer_z(block, x, messages, follow, known)
    if not (hold_x or follow):
        new = update_x(block, x, z, messages)
    return new, collect(block, new, z, sums)


Spread = list[tuple[int, LatentView, LatentStep]]  # of x that z follows, with the place of its view


def follow_x(block: Block, x: LocalX, known: ZGivenX, messages: Messages, each: bool = False) -> tuple[LocalX, Spread]:
    """q(x) of the latent views, and the spread of x that z follows; `each` as for `step_x`."""
    places = [i for i, q in enumerate(x) if q is not None]
    views = [
        latent_view(block.views[i], messages.views[i], latent_x(x, i), known.cov, known.one_by_one[i]) for i in places
    ]
    if block.shared:
        y = predictors_of_shared(views, known.evidence)
    else:
        z = update_z(block, x, known, messages)
        y = [view.predictor(z) for view in views]
    steps = step_x(views, y, each)
    new = list(x)
    for i, step in zip(places, steps):
        new[i] = step.x
    spread = [(i, view, step) for i, view, step in zip(places, views, steps) if view.rows.present]
    return tuple(new), spread


@dataclass(frozen=True)
class Settled:
    """q(z) and q(x) of a block that no longer change, or had not converged when the rounds ended."""

    z: Array  # (n, K)
    cov_given_x: Array  # (r, K, K)
    x: LocalX
    spread: Spread
    converged: bool

    def cov(self) -> Array:
        """The covariance of z, x integrated out: (n, K, K), or (1, K, K) where all rows share it."""
        return sum((added_zz(view, step) for _, view, step in self.spread), start=self.cov_given_x)


def settle(block: Block, x: LocalX, messages: Messages, max_rounds: int, z_tol: float, each: bool = True) -> Settled:
    """q(z) and q(x) in turns with the globals fixed, until <z> moves by less than `z_tol`; real rows need no turn.

    `each`: the covariances of z are wanted, too.
    """
    known = prepare_z(block, messages)
    z = update_z(block, x, known, messages)
    converged = all(q is None for q in x)
    spread: Spread = []
    jumps = Jumps()
    for number in range(0 if converged else max_rounds):
        old, old_x = z, x
        if block.z_follows_x:
            x, spread = follow_x(block, x, known, messages, each)
        else:
            x = update_x(block, x, z, messages)
        z = update_z(block, x, known, messages)
        converged = largest_move(z, old, x, old_x) < z_tol
        if converged:
            break
        if number + 1 < max_rounds:  # the last round ends with what it found
            ahead = jumps.ahead(x, old_x, z - old)
            if ahead is not None:
                x, z = ahead, update_z(block, ahead, known, messages)
    return Settled(z, known.cov, x, spread, converged)


class Jumps:
    """Aitken's extrapolation: every third round <x> of a row goes to where it would end if <z> went on to move by the
    same share of its last move.

    It saves rounds, and where they end does not depend on it. A row jumps only as long as its moves shrink, and the
    rows of a block so many times: then plain rounds are left, which always come to an end.
    """

    def __init__(self) -> None:
        self.last: Array | None = None  # the move of the round before
        self.smallest: Array | None = None  # of each row, the square of its move at its last jump
        self.n_rounds, self.n_jumps = 0, 0  # rounds since the last jump

    def ahead(self, x: LocalX, old_x: LocalX, move: Array) -> LocalX | None:
        """<x> after a jump; None where there is none this time."""
        self.n_rounds += 1
        last, self.last = self.last, move
        if last is None or self.n_rounds < ROUNDS_A_JUMP or self.n_jumps == MOST_JUMPS:
            return None
        self.n_rounds, self.n_jumps = 0, self.n_jumps + 1
        xp = array_namespace(move)
        size = xp.sum(move**2, axis=1)
        smallest = xp.full_like(size, inf) if self.smallest is None else self.smallest
        share = xp.sum(move * last, axis=1) / xp.clip(xp.sum(last**2, axis=1), min=SMALLEST_MOVE)
        fit = (share > 0) & (share < LARGEST_SHARE) & (size < smallest)
        self.smallest = xp.where(fit, size, smallest)
        jump = xp.where(fit, share / xp.where(fit, 1 - share, 1.0), 0.0)[:, None]
        return tuple(
            new if new is None or old is None else replace(new, mean=new.mean + jump * (new.mean - old.mean))
            for new, old in zip(x, old_x)
        )


def largest_move(z: Array, old_z: Array, x: LocalX, old_x: LocalX) -> float:
    """How far <z> moved; without factors, how far <x> did."""
    xp, moves = array_namespace(z), [z - old_z]
    if z.shape[1] == 0:
        moves = [new.mean - old.mean for new, old in zip(x, old_x) if new is not None and old is not None]
    return max(float(xp.max(xp.abs(move))) for move in moves)


@dataclass(frozen=True)
class ZSums:
    """What z adds to the statistics: Σ<zzᵀ> and Σ log|Σ_n| of all rows, and Σ1, Σ<z>, Σ<zzᵀ> of each view's groups."""

    zz: Array  # (K, K)
    logdet: Array  # ()
    views: tuple[tuple[Array, Array, Array], ...]  # (G,), (G, K), (G, K, K)
    groups: GroupStats
    xz: tuple[Array, ...] = ()  # (D, K): Σ Cov(x, z) of each view, 0 where z does not follow x
    slopes: tuple[Slopes | None, ...] = ()  # of each view

    def __add__(self, other: ZSums) -> ZSums:
        views = tuple(tuple(a + b for a, b in zip(mine, theirs)) for mine, theirs in zip(self.views, other.views))
        xz = tuple(a + b for a, b in zip(self.xz, other.xz))
        slopes = tuple(map(add_slopes, self.slopes, other.slopes))
        return ZSums(self.zz + other.zz, self.logdet + other.logdet, views, self.groups + other.groups, xz, slopes)


def infer_z(
    block: Block, x: LocalX, messages: Messages, follow: bool, shared: ZGivenX | None = None
) -> tuple[Array, LocalX, ZSums]:
    """<z> of all rows, (n, K), q(x), which is new where z is to follow it, and the sums of z.

    On threads of the host, a part of the rows each, where rows have covariances of their own.
    """

    def one(some: slice) -> tuple[Array, LocalX, ZSums]:
        part, part_x = block.rows(some), x if block.shared else rows_of_x(x, some)
        known = prepare_z(part, messages, shared)
        spread: Spread = []
        if follow:
            part_x, spread = follow_x(part, part_x, known, messages)
        z = update_z(part, part_x, known, messages, last=True)
        return z, part_x if follow else (), sum_z(part, z, known, spread)

    def several(parts: Sequence[slice]) -> tuple[Array, LocalX, ZSums]:
        return join_rows(map(one, parts))

    parts = block.parts(messages.n_factors)
    if len(parts) == 1:
        z, new, sums = one(parts[0])
    else:
        # A thread adds up what it computes. How many parts it takes does not depend on the threads, nor do the sums.
        step = -(-len(parts) // min(max(4, len(parts) // 8), 64))
        run = in_threads if is_numpy_array(block.observed) else map
        z, new, sums = join_rows(run(several, [parts[i : i + step] for i in range(0, len(parts), step)]))
    return z, new if follow else x, sums


def join_rows(found: Iterable[tuple[Array, LocalX, ZSums]]) -> tuple[Array, LocalX, ZSums]:
    """<z> and q(x) of several parts one below the other, and their sums added in this order."""
    means, latent, total = [], [], None
    for z, x, sums in found:
        means.append(z)
        latent.append(x)
        total = sums if total is None else total + sums
    assert total is not None
    return means[0] if len(means) == 1 else array_namespace(means[0]).concat(means), join_x(latent), total


def sum_z(block: Block, z: Array, known: ZGivenX, spread: Spread) -> ZSums:
    """The sums of z; `spread` is that of `follow_x`. A covariance of each row is used up: <zzᵀ> takes its place."""
    if block.shared:
        z_rows, zz_rows = sum_of_rows(z), (block.n * known.cov[0, ...] + z.T @ z)[None, ...]
    else:
        z_rows, zz_rows = z, add_outer(known.cov, z)
    xz: list[Array] = [0.0] * len(block.views)
    slopes: list[Slopes | None] = [None] * len(block.views)
    for i, view, step in spread:
        xz[i] = add_sums(zz_rows, view, step)
        slopes[i] = sum_slopes(view, step, z)
    return replace(sum_patterns(block, z_rows, zz_rows, known.logdet), xz=tuple(xz), slopes=tuple(slopes))


def sum_patterns(block: Block, z_rows: Array, zz_rows: Array, logdet: Array) -> ZSums:
    """From Σ<z> (r, K) and Σ<zzᵀ> (r, K, K) of each pattern of holes to the sums of each view's column groups, and of
    the groups of samples.
    """
    xp = array_namespace(z_rows)
    n_factors, rows_each = z_rows.shape[1], block.n if block.shared else 1
    seen = as_float(block.observed, z_rows).T
    n, z_sum = xp.sum(seen, axis=1) * rows_each, seen @ z_rows
    flat = xp.reshape(zz_rows, (zz_rows.shape[0], n_factors**2))
    zz = xp.reshape(seen @ flat, (seen.shape[0], n_factors, n_factors))
    zz_of_all = xp.reshape(sum_of_rows(flat), (n_factors, n_factors))
    views, start = [], 0
    for rows in block.views:
        own = slice(start, start + len(rows.groups))
        views.append((n[own], z_sum[own, ...], zz[own, ...]))
        start = own.stop
    groups = GroupStats(n[start:], zz[start:, ...])
    return ZSums(zz_of_all, xp.sum(logdet) * rows_each, tuple(views), groups)


def collect(block: Block, x: LocalX, z: Array, sums: ZSums) -> Stats:
    """The sufficient statistics of a block."""
    xp = array_namespace(z)
    x_sums = [
        XSums(rows.x_sum, static_xz(rows, z), rows.xx, zeros((), z))
        if latent is None
        else XSums(xp.sum(latent.mean, axis=0), latent.mean.T @ z + xz, latent.second, latent.bound, slopes)
        for rows, latent, xz, slopes in zip(block.views, x, sums.xz, sums.slopes)
    ]
    return assemble(block, sums, x_sums)


def static_xz(rows: RowView, z: Array) -> Array:
    """Σ x zᵀ of a static view, (D, K)."""
    if not rows.present:
        return zeros((rows.target.shape[1], z.shape[1]), z)
    return cross_product(as_float(rows.target, z), z)


class XSums(NamedTuple):
    """What the x of one view add to its statistics."""

    x_sum: Array
    xz: Array
    xx: Array
    bound: Array
    slopes: Slopes | None = None


def assemble(block: Block, z_sums: ZSums, x_sums: Sequence[XSums]) -> Stats:
    """Statistics from the sums of z and of x."""
    views = [
        ViewStats(n, z_sum, zz, x.x_sum, x.xz, x.xx, x.bound, rows.groups, x.slopes)
        for rows, (n, z_sum, zz), x in zip(block.views, z_sums.views, x_sums)
    ]
    return Stats(block.n, z_sums.zz, z_sums.logdet, tuple(views), z_sums.groups)
