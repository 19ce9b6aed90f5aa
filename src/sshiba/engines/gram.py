"""Rows in Gram space: real views that are fully observed cost nothing in N.

For rows that share one pattern of holes z = X B − c is linear in X = [X_s, X_t], the static (real) and the latent
features side by side: B = T W Σ_z, T = diag(w_m tau_d), c = Σ w_m tau_d <b_d><w_d> Σ_z. So every statistic comes from
XᵀX: X_sᵀX_s is taken once, and a sweep reads the rows only for X_s (B W_tᵀ) and X_tᵀX_s, N·D_s·D_t, if any view is
latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from ..core.arrays import array_namespace, zeros
from ..core.local_step import (
    Block,
    LocalX,
    Messages,
    XSums,
    as_float,
    assemble,
    sum_patterns,
    update_view_x,
    z_covariance,
)
from ..core.state import Array, LatentX, Stats


@dataclass(frozen=True)
class Gram:
    """Σ x xᵀ and Σ x of the static features of some rows, side by side."""

    second: Array  # (S, S)
    first: Array  # (S,)


@dataclass(frozen=True)
class Cross:
    """The same with the latent features at their present means."""

    ts: Array  # (T, S)
    tt: Array  # (T, T)
    first: Array  # (T,)


def static_columns(block: Block) -> tuple[list[int], list[int]]:
    """The places of the static and of the latent views."""
    static = [i for i, rows in enumerate(block.views) if rows.is_static]
    return static, [i for i in range(len(block.views)) if i not in static]


def take_gram(blocks: Sequence[Block]) -> Gram:
    """One pass over the rows, in double precision whatever they are stored in."""
    second: Array = 0.0
    first: Array = 0.0
    for block in blocks:
        X = static_features(block)
        second, first = second + X.T @ X, first + array_namespace(X).sum(X, axis=0)
    return Gram(second, first)


def static_features(block: Block) -> Array:
    static, _ = static_columns(block)
    parts = [as_float(block.views[i].target, block.views[i].observed) for i in static]
    return array_namespace(parts[0]).concat(parts, axis=1) if len(parts) != 1 else parts[0]


def take_cross(blocks: Sequence[Block], x: Sequence[LocalX]) -> Cross:
    """The products of a start; later ones come out of `gram_step`."""
    ts: Array = 0.0
    tt: Array = 0.0
    first: Array = 0.0
    for block, latent in zip(blocks, x):
        X, T = static_features(block), latent_means(latent)
        ts, tt, first = ts + T.T @ X, tt + T.T @ T, first + array_namespace(T).sum(T, axis=0)
    return Cross(ts, tt, first)


def latent_x(x: LocalX, i: int) -> LatentX:
    found = x[i]
    assert found is not None
    return found


def latent_means(x: LocalX) -> Array:
    means = [latent.mean for latent in x if latent is not None]
    return array_namespace(means[0]).concat(means, axis=1) if len(means) > 1 else means[0]


def gram_step(
    gram: Gram,
    blocks: Sequence[Block],
    x: Sequence[LocalX],
    cross: Cross | None,
    messages: Messages,
    hold_x: bool,
) -> tuple[tuple[LocalX, ...], Cross | None, Stats]:
    """`local_step` of all blocks of one pattern at once."""
    whole = replace(blocks[0], n=sum(block.n for block in blocks))
    static, latent = static_columns(whole)
    xp = array_namespace(gram.second)
    known = z_covariance(whole.observed, messages)
    cov, c = known.cov[0], (known.offset @ known.cov[0])[0]
    B_s = xp.concat([messages.views[i].loading for i in static]) @ cov
    xz = gram.second @ B_s  # (S, K): Σ x zᵀ of the static features, to be completed
    pulled = gram.first @ B_s
    B_t: Array = None
    if cross is not None:
        B_t = xp.concat([messages.views[i].loading for i in latent]) @ cov
        xz = xz + cross.ts.T @ B_t
        pulled = pulled + cross.first @ B_t
    xz = xz - gram.first[:, None] * c
    z_sum = pulled - whole.n * c
    # ZᵀZ = Bᵀ(XᵀZ) − c(Σz)ᵀ
    zz = B_s.T @ xz - c[:, None] * z_sum[None, :]
    sums: list[XSums | None] = [None] * len(messages.views)
    new: tuple[LocalX, ...] = tuple(x)
    if cross is not None:
        xz_old = cross.ts @ B_s + cross.tt @ B_t - cross.first[:, None] * c
        zz = zz + B_t.T @ xz_old
        new, cross, latent_sums = _latent_pass(blocks, x, messages, B_s, B_t, c, hold_x)
        for i, found in zip(latent, latent_sums):
            sums[i] = found
    zz = (zz + zz.T) / 2
    start = 0
    for i in static:
        stop = start + whole.views[i].groups.index.shape[0]
        rows = [block.views[i] for block in blocks]
        x_sum, xx = reduce(add, [r.x_sum for r in rows]), reduce(add, [r.xx for r in rows])
        sums[i] = XSums(x_sum, xz[start:stop], xx, zeros((), xz))
        start = stop
    z_sums = sum_patterns(whole, z_sum[None], (whole.n * cov + zz)[None], known.logdet)
    stats = assemble(whole, z_sums, [s for s in sums if s is not None])
    return new, cross, stats


def _latent_pass(
    blocks: Sequence[Block],
    x: Sequence[LocalX],
    messages: Messages,
    B_s: Array,
    B_t: Array,
    c: Array,
    hold_x: bool,
) -> tuple[tuple[LocalX, ...], Cross, list[XSums]]:
    """q(x) of the latent views from y = X (B W_tᵀ) − c W_tᵀ + b, and the products of the new means."""
    xp = array_namespace(B_s)
    _, latent = static_columns(blocks[0])
    W_t = xp.concat([messages.views[i].w_mean for i in latent])
    b_t = xp.concat([messages.views[i].b_mean for i in latent]) - W_t @ c
    to_y_s, to_y_t = B_s @ W_t.T, B_t @ W_t.T
    ts: Array = 0.0
    t_old: Array = 0.0
    tt: Array = 0.0
    first: Array = 0.0
    second: Array = 0.0
    bound: Array = 0.0
    new = []
    for block, old in zip(blocks, x):
        X, T_old = static_features(block), latent_means(old)
        latents = list(old)
        if not hold_x:
            y, start = X @ to_y_s + T_old @ to_y_t + b_t, 0
            for i in latent:
                stop = start + messages.views[i].w_mean.shape[0]
                latents[i] = update_view_x(block.views[i], latent_x(old, i).xi, y[:, start:stop], messages.views[i])
                start = stop
        T = latent_means(tuple(latents))
        found = [q for q in latents if q is not None]
        ts, t_old, tt = ts + T.T @ X, t_old + T.T @ T_old, tt + T.T @ T
        first = first + xp.sum(T, axis=0)
        second = second + xp.concat([q.second for q in found])
        bound = bound + xp.stack([q.bound for q in found])
        new.append(tuple(latents))
    xz = ts @ B_s + t_old @ B_t - first[:, None] * c
    sums, start = [], 0
    for k, i in enumerate(latent):
        part = slice(start, start + messages.views[i].w_mean.shape[0])
        sums.append(XSums(first[part], xz[part], second[part], bound[k]))
        start = part.stop
    return tuple(new), Cross(ts, tt, first), sums
