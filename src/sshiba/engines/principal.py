"""The principal components of all views side by side, where a fit starts; rows are only ever multiplied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from ..core.arrays import array_namespace, like, to_numpy
from ..core.blocks import Block, LocalX, as_float, latent_x
from ..core.sparse_rows import is_sparse
from ..core.start import leading_directions
from ..core.state import Array, LatentX
from ..core.threads import in_threads
from .gram import Cross, Gram, static_columns

SINGULAR = 1e-10  # share of a covariate, or of the squares of a feature, that is rounding


class RowProducts(NamedTuple):
    """Some blocks of rows with q(x), and their products where they are kept."""

    blocks: Sequence[Block]
    x: Sequence[LocalX]
    gram: Gram | None
    cross: Cross | None
    summary: Block  # all blocks as one, without data


def principal_directions(
    squares: np.ndarray, times: Callable[[np.ndarray], np.ndarray], k: int, n_known: int = 0
) -> np.ndarray:
    """v √λ of the k largest eigenvalues of the features' correlations, (ΣD, k); holes are at the mean, which is 0.

    From Σ x² of each feature, (ΣD,), and a function that gives XᵀX Q. Where the last features are covariates C, the
    correlations are those of what a regression on them leaves, and the regression makes the last columns,
    (ΣD, k + n_known). With B = (CᵀC)⁻¹CᵀX that is XᵀX − XᵀC B, and the products with C come with all others.
    """
    n, scale = len(squares) - n_known, root_inverse(squares)[:, None]
    if n_known == 0:
        return leading_directions(lambda Q: scale * times(scale * Q), n, k)
    with_c = scale * times(scale * np.eye(len(squares))[:, n:])  # correlations with the covariates
    effects = with_c[:n] @ np.linalg.pinv(with_c[n:], rcond=SINGULAR, hermitian=True)
    left = 1 - np.sum(effects * with_c[:n], axis=1)  # share of the squares
    left = np.where(left > SINGULAR, left, 0.0)
    unit = root_inverse(left)[:, None]

    def multiply(Q: np.ndarray) -> np.ndarray:
        both = scale * times(np.concatenate([scale[:n] * unit * Q, np.zeros((n_known, Q.shape[1]))]))
        return unit * (both[:n] - effects @ both[n:])

    found = np.zeros((len(squares), k + n_known))
    found[:n, :k] = np.sqrt(left)[:, None] * leading_directions(multiply, n, k)
    found[:n, k:] = effects
    return found


def root_inverse(squares: np.ndarray) -> np.ndarray:
    """1/√s, 0 where s is 0."""
    return np.where(squares > 0, 1 / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)


def squares_of(part: RowProducts) -> np.ndarray:
    """Σ x² of each feature, (ΣD,)."""
    squares = [
        to_numpy(view.xx) if view.is_static else sum(squared(latent_x(x, i)) for x in part.x)
        for i, view in enumerate(part.summary.views)
    ]
    return np.concatenate(squares)


def squared(q: LatentX) -> np.ndarray:
    return to_numpy(array_namespace(q.mean).sum(q.mean * q.mean, axis=0))


def products(part: RowProducts, Q: np.ndarray) -> np.ndarray:
    """XᵀX Q, (ΣD, p): from the Gram matrix where there is one, else block by block."""
    if part.gram is None:
        return reduce(np.add, _times_blocks(part, Q))
    place = places(part.summary)
    static, latent = ([place[i] for i in views] for views in static_columns(part.summary))
    own = np.concatenate(static)
    out = np.zeros_like(Q)
    out[own] = to_numpy(part.gram.second @ like(Q[own], part.gram.second))
    if part.cross is not None:
        other, cross = np.concatenate(latent), part.cross
        Q_own, Q_other = like(Q[own], cross.ts), like(Q[other], cross.ts)
        out[own] += to_numpy(cross.ts.T @ Q_other)
        out[other] = to_numpy(cross.ts @ Q_own + cross.tt @ Q_other)
    return out


def _times_blocks(part: RowProducts, Q: np.ndarray) -> Iterator[np.ndarray]:
    """The same of each block; of sparse ones on all threads, since their products use one each."""
    run = in_threads if any(is_sparse(view.target) for view in part.summary.views) else map
    return run(lambda block, x: times_block(features(block, x), Q), part.blocks, part.x)


def times_block(views: Sequence[Array], Q: np.ndarray) -> np.ndarray:
    edges = np.cumsum([0, *(X.shape[1] for X in views)])
    along = sum(X @ like(Q[a:b], X) for X, a, b in zip(views, edges, edges[1:]))
    return np.concatenate([to_numpy((along.T @ X).T) for X in views])


def features(block: Block, x: LocalX) -> list[Array]:
    """<x> of each view of a block, (n, D)."""
    return [as_float(rows.target) if q is None else q.mean for rows, q in zip(block.views, x)]


def places(block: Block) -> list[np.ndarray]:
    """Where the features of each view stand among those of all views."""
    widths = [len(rows.groups.index) for rows in block.views]
    return np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])
