"""Rows in Gram space: real views that are fully observed cost nothing in N.

For rows that share one pattern of holes z = X B − c is linear in X = [X_s, X_t], the static (real) and the latent
features side by side: B = T W Σ_z, T = diag(w_m tau_d), c = Σ w_m tau_d <b_d><w_d> Σ_z. So every statistic comes from
XᵀX: X_sᵀX_s is taken once, and a sweep reads the rows only for X_s (B W_tᵀ) and X_tᵀX_s, N·D_s·D_t, if any view is
latent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core.arrays import array_namespace, zeros
from ..core.blocks import Block, LocalX, as_float, latent_x
from ..core.devices import HOST, Device
from ..core.latent_step import pulled_by, step_x, update_view_x
from ..core.latent_view import latent_view
from ..core.local_step import XSums, ZGivenX, assemble, sum_patterns, z_covariance
from ..core.messages import Messages
from ..core.sparse_rows import is_sparse
from ..core.state import Array, Stats

SPARSE_COST = 8.0  # of a stored cell in a product, in multiplications of a dense one


@dataclass(frozen=True)
class Gram:
    """Σ x xᵀ and Σ x of the static features of some rows, side by side."""

    second: Array  # (S, S)
    first: Array  # (S,)

    def __add__(self, other: Gram) -> Gram:
        return Gram(self.second + other.second, self.first + other.first)


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


def choose_gram(engine: str, block: Block, n: int, n_factors: int, device: Device = HOST) -> bool:
    """Is a sweep over n rows like those of a block cheaper in Gram space?

    By multiplications, and never at the price of memory.
    """
    static, latent = static_columns(block)
    if not block.shared or not static or engine == "memory":
        return False
    targets = [block.views[i].target for i in static]
    has_sparse = any(is_sparse(target) for target in targets)
    if has_sparse and len(static) > 1:
        return False  # a sparse matrix and others side by side are no matrix of one kind
    if engine == "gram":
        return True
    S = sum(len(block.views[i].groups.index) for i in static)
    T = sum(len(block.views[i].groups.index) for i in latent)
    cells = n * S if not has_sparse else SPARSE_COST * sum(target.matrix.nnz for target in targets) * n / block.n
    direct = 2 * cells * n_factors + n * (4 * T * n_factors + 2 * n_factors**2)
    # Narrow products run at the speed of memory, not of multiplication: T counts for 16 at least.
    gram = (S + T) * ((S + T) * n_factors + 2 * n_factors**2)
    gram += 2 * cells * max(T, 16) + 3 * n * T**2 if T else 0
    size = sum(target.nbytes for target in targets) * n / block.n if has_sparse else 8 * n * S
    fits = max(device.block_bytes, size) >= 8 * S * S
    return fits and gram < direct


def take_gram(block: Block) -> Gram:
    """The products of a block, in double precision whatever its rows are stored in."""
    X = static_features(block)
    first = array_namespace(X).concat([block.views[i].x_sum for i in static_columns(block)[0]])
    return Gram(X.gram() if is_sparse(X) else X.T @ X, first)


def static_features(block: Block) -> Array:
    """The static views side by side; a sparse one must be alone."""
    static, _ = static_columns(block)
    parts = [as_float(block.views[i].target) for i in static]
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


def latent_means(x: LocalX) -> Array:
    means = [latent.mean for latent in x if latent is not None]
    return array_namespace(means[0]).concat(means, axis=1) if len(means) > 1 else means[0]


def gram_step(
    gram: Gram,
    whole: Block,
    blocks: Sequence[Block],
    x: Sequence[LocalX],
    cross: Cross | None,
    messages: Messages,
    hold_x: bool,
    keep: Callable[[LocalX], LocalX] = lambda x: x,
) -> tuple[tuple[LocalX, ...], Cross | None, Stats]:
    """`local_step` of all blocks of one pattern at once; `whole` are all of them as one, without data.

    `keep` says how q(x) of a block is kept.
    """
    static, latent = static_columns(whole)
    xp = array_namespace(gram.second)
    known = z_covariance(whole.observed, messages)
    cov, c = known.cov[0, ...], (known.offset @ known.cov[0, ...])[0, :]
    B_s = xp.concat([messages.views[i].loading for i in static]) @ cov
    xz_s = gram.second @ B_s - gram.first[:, None] * c  # (S, K): Σ x zᵀ of the static features, to be completed
    z_sum = gram.first @ B_s - whole.n * c
    sums: list[XSums | None] = [None] * len(messages.views)
    new: tuple[LocalX, ...] = tuple(x)
    zz: Array = 0.0
    if cross is not None:
        B_t = xp.concat([messages.views[i].loading for i in latent]) @ cov
        follow = whole.z_follows_x and not hold_x
        found = _latent_pass(latent, blocks, x, messages, (B_s, B_t), c, None if hold_x else known, follow, keep)
        heard = found.cross if follow else cross  # the x that z is told of
        # Σ x zᵀ of the latent features as z hears them, with their covariances
        xz_t = heard.ts @ B_s + heard.tt @ B_t + found.pulled - heard.first[:, None] * c
        xz_s, z_sum, zz = xz_s + heard.ts.T @ B_t, z_sum + heard.first @ B_t, B_t.T @ xz_t
        if not follow:
            xz_t = found.cross.ts @ B_s + found.with_old @ B_t - found.cross.first[:, None] * c
        start = 0
        for k, i in enumerate(latent):
            part = slice(start, start + messages.views[i].w_mean.shape[0])
            sums[i] = XSums(found.cross.first[part], xz_t[part, :], found.second[part], found.bound[k])
            start = part.stop
        new, cross = found.x, found.cross
    # ZᵀZ = Bᵀ(XᵀZ) − c(Σz)ᵀ
    zz = zz + B_s.T @ xz_s - c[:, None] * z_sum[None, :]
    zz = (zz + zz.T) / 2
    start = 0
    for i in static:
        stop = start + whole.views[i].groups.index.shape[0]
        sums[i] = XSums(whole.views[i].x_sum, xz_s[start:stop, :], whole.views[i].xx, zeros((), xz_s))
        start = stop
    z_sums = sum_patterns(whole, z_sum[None, :], (whole.n * cov + zz)[None, ...], known.logdet)
    stats = assemble(whole, z_sums, [s for s in sums if s is not None])
    return new, cross, stats


@dataclass(frozen=True)
class LatentPass:
    """A new q(x) of the latent features of some blocks, and its sums."""

    x: tuple[LocalX, ...]
    cross: Cross  # with the new means
    with_old: Array  # (T, T): Σ <x> of the new means times that of the old ones
    second: Array  # (T,): Σ E[x²]
    pulled: Array  # (T, K): Σ Cov(x, z) where z follows x
    bound: Array  # of each view


def _latent_pass(
    latent: Sequence[int],
    blocks: Sequence[Block],
    x: Sequence[LocalX],
    messages: Messages,
    B: tuple[Array, Array],
    c: Array,
    known: ZGivenX | None,
    follow: bool,
    keep: Callable[[LocalX], LocalX],
) -> LatentPass:
    """q(x) of the latent views from y = X (B W_tᵀ) − c W_tᵀ + b; without `known`, the covariance of z, it is held."""
    B_s, B_t = B
    xp = array_namespace(B_s)
    W_t = xp.concat([messages.views[i].w_mean for i in latent])
    b_t = xp.concat([messages.views[i].b_mean for i in latent]) - W_t @ c
    to_y_s, to_y_t = B_s @ W_t.T, B_t @ W_t.T
    edges = np.cumsum([0, *(messages.views[i].w_mean.shape[0] for i in latent)])
    new, total = [], None
    for block, old in zip(blocks, x):
        X, T_old = static_features(block), latent_means(old)
        pulled, latents = zeros(B_t.shape, T_old), list(old)
        if known is not None:
            y = X @ to_y_s + T_old @ to_y_t + b_t
            predictors = [y[:, a:b] for a, b in pairwise(edges)]
            if follow:
                views = [
                    latent_view(block.views[i], messages.views[i], latent_x(old, i), known.cov, known.one_by_one[i])
                    for i in latent
                ]
                steps = step_x(views, predictors, each=False)
                for i, view, step, a, b in zip(latent, views, steps, edges, edges[1:]):
                    latents[i] = step.x
                    if view.rows.present:
                        pulled[a:b, :] = pulled_by(view, step)[0, ...]
            else:
                for i, y_i in zip(latent, predictors):
                    latents[i] = update_view_x(block.views[i], latent_x(old, i).xi, y_i, messages.views[i])
        T = latent_means(tuple(latents))
        found = [q for q in latents if q is not None]
        cross = (T.T @ X, T.T @ T, xp.sum(T, axis=0))
        sums = (T.T @ T_old, xp.concat([q.second for q in found]), pulled, xp.stack([q.bound for q in found]))
        total = (*cross, *sums) if total is None else tuple(a + b for a, b in zip(total, (*cross, *sums)))
        new.append(keep(tuple(latents)))
    assert total is not None
    return LatentPass(tuple(new), Cross(*total[:3]), *total[3:])
