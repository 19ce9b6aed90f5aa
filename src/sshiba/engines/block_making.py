"""Blocks made of coded views: what a block keeps of its rows, and the sums that are taken of them once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from ..core.arrays import array_namespace
from ..core.blocks import Block, RowView, as_float
from ..core.coded import CodedView
from ..core.holes import Holes
from ..core.sparse_rows import is_sparse
from ..core.spec import ViewSpec
from ..core.start import WIDE
from ..core.state import Array
from ..core.streamed import AnyView

SPARSE_SHARE = 4  # blocks of sparse rows are smaller by this, so that all threads have some


def working_width(view: AnyView, spec: ViewSpec) -> float:
    """Numbers that a row needs four of besides its data: of latent x and what is made of it, of a copy in double
    precision; of sparse rows as much as is stored of them, or as their products with a start take.
    """
    if view.is_sparse and not spec.likelihood.latent:
        stored = view.nbytes / max(view.n_rows, 1)
        return max(stored, 8 * min(spec.n_features, WIDE)) * SPARSE_SHARE / 32
    return (4 if spec.likelihood.latent else view.dtype == "float32") * spec.n_features


def outline_of(block: Block) -> Block:
    """All that is known of a block without its rows; which columns each of them has is not kept either."""

    def masks(observed: Array) -> Array:
        return observed if block.shared else np.broadcast_to(np.False_, observed.shape)

    views = [
        replace(view, target=view.target[:0].copy(), observed=masks(view.observed), holes=None, seen_rows=None)
        for view in block.views
    ]
    return replace(block, views=tuple(views), observed=masks(block.observed))


def summarised(blocks: Sequence[Block]) -> Block:
    """All blocks of a part as one, without its data: rows in Gram space need no more of real views."""
    views = []
    for rows in zip(*(block.views for block in blocks)):
        sums = {name: [getattr(view, name) for view in rows] for name in ("x_sum", "xx")}
        total = {name: reduce(add, parts) for name, parts in sums.items() if rows[0].is_static}
        views.append(replace(rows[0], target=rows[0].target[:0], holes=None, seen_rows=None, **total))
    return replace(blocks[0], n=sum(block.n for block in blocks), views=tuple(views))


def cut(part: slice, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, part.stop)) for start in range(part.start, part.stop, step))


def row_view(view: CodedView, holes: Holes, spec: ViewSpec, shared: bool, exact: bool) -> RowView:
    """One view of some rows, which are all that is given of it; unless `exact`, its holes are variables."""
    n, n_features = view.n_rows, spec.n_features
    seen = holes.seen(view.observed if exact else None, n)
    observed = seen[:1] if shared else seen
    complete = bool(observed.all())
    whole_rows = not shared and not complete and observed.shape[1] == 1
    variables = None
    if not exact:
        missing = np.False_ if view.observed is None else ~view.observed
        variables = np.broadcast_to(missing, (n, n_features))
    return RowView(
        spec.likelihood.row_target(view.target, view.observed),
        np.ascontiguousarray(observed),
        holes.groups,
        variables,
        present=bool(observed.any()),
        complete=complete,
        seen_rows=np.flatnonzero(observed[:, 0]) if whole_rows and variables is None else None,
        is_static=not spec.likelihood.latent and variables is None,
    )


def with_sums(block: Block, block_bytes: int) -> Block:
    """With Σx and Σx² of its static views."""
    views = [replace(view, **column_sums(view, block_bytes)) if view.is_static else view for view in block.views]
    return replace(block, views=tuple(views))


def column_sums(view: RowView, block_bytes: int) -> dict[str, Array]:
    if is_sparse(view.target):
        return dict(zip(("x_sum", "xx"), view.target.column_sums()))
    x_sum: Array = 0.0
    xx: Array = 0.0
    for place in cut(slice(0, len(view.target)), max(1, block_bytes // (32 * view.target.shape[1]))):
        x = as_float(view.target[place])
        xp = array_namespace(x)
        x_sum, xx = x_sum + xp.sum(x, axis=0), xx + xp.sum(x * x, axis=0)
    return {"x_sum": x_sum, "xx": xx}
