"""All rows in memory, processed in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from ..model import Model
from ..state import ColumnGroups, Posterior, Stats
from ..updates import Block, LocalX, RowView, local_step, messages, start_x

if TYPE_CHECKING:
    from ..coding import ViewData

MIN_SHARED = 8  # rows of one pattern of holes that are worth a block of their own
BLOCK_BYTES = 2**26  # working memory of one block

Local = tuple[LocalX, ...]


class MemoryEngine:
    """Rows sorted so that those with the same holes lie together, cut into blocks.

    Parameters
    ----------
    data : sequence of ViewData
        Aligned views, in the order of `model.views`.
    missing : "exact" or "mean-field"
    n_components : int
        The most factors there will be; sets the size of the blocks.
    block_rows : int, optional
        Rows per block, instead of what BLOCK_BYTES allows.
    """

    def __init__(
        self,
        data: Sequence[ViewData],
        model: Model,
        missing: str = "exact",
        n_components: int = 50,
        block_rows: int | None = None,
    ) -> None:
        self.model = model
        self.n_rows = len(data[0].target)
        self.groups, observed = zip(*(column_groups(v.observed, s.n_features) for v, s in zip(data, model.views)))
        seen = list(observed)
        if missing == "mean-field":
            self.groups = tuple(ColumnGroups(np.zeros(s.n_features, dtype=int)) for s in model.views)
            seen = [np.ones((1, 1), dtype=bool)] * len(data)
        pattern = row_patterns(seen, self.n_rows)
        counts = np.bincount(pattern)
        # Rows of common patterns first, pattern by pattern; then all others, each with a covariance of its own.
        key = np.where(counts[pattern] >= MIN_SHARED, pattern, len(counts))
        self.order = np.argsort(key, kind="stable")
        is_sorted = bool(np.all(self.order == np.arange(self.n_rows)))
        width = sum(s.n_features for s in model.views)
        self.blocks: list[Block] = []
        self.slices: list[slice] = []
        for k in np.unique(key):
            rows = np.flatnonzero(key[self.order] == k)
            shared = bool(k < len(counts))
            bytes_per_row = 8 * (4 * width + 4 * n_components + (0 if shared else 4 * n_components**2))
            step = block_rows or max(1, BLOCK_BYTES // bytes_per_row)
            for start in range(rows[0], rows[-1] + 1, step):
                part = slice(start, min(start + step, rows[-1] + 1))
                where = part if is_sorted else self.order[part]
                views = tuple(
                    self._row_view(i, view, observed[i], seen[i], where, shared, missing) for i, view in enumerate(data)
                )
                self.blocks.append(Block(part.stop - part.start, shared, views))
                self.slices.append(part)

    def _row_view(
        self,
        i: int,
        view: ViewData,
        mask: np.ndarray,
        seen: np.ndarray,
        where: slice | np.ndarray,
        shared: bool,
        missing: str,
    ) -> RowView:
        spec, groups = self.model.views[i], self.groups[i]
        target = view.target[where]
        present = (seen if len(seen) == 1 else seen[where][:1] if shared else seen[where]).astype(np.float64)
        if not shared and len(present) == 1:
            present = np.broadcast_to(present, (len(target), present.shape[1]))
        rows = RowView(target, present, groups)
        if missing == "mean-field" and view.observed is not None and not view.observed[where].all():
            holes = np.broadcast_to(~view.observed[where], (len(target), spec.n_features))
            return replace(rows, holes=holes)
        if spec.view.latent:
            return rows
        x = target.astype(np.float64, copy=False)
        return replace(rows, x_sum=x.sum(axis=0), xx=(x * x).sum(axis=0))

    def start(self, posterior: Posterior) -> Local:
        """q(x) at z = 0."""
        told = messages(posterior, self.model, self.groups)
        return tuple(start_x(block, told) for block in self.blocks)

    def local_step(self, posterior: Posterior, local: Local) -> tuple[Local, Stats]:
        """One local step over all rows."""
        told = messages(posterior, self.model, self.groups)
        new, stats = zip(*(local_step(block, x, told) for block, x in zip(self.blocks, local)))
        return new, reduce(add, stats)


def column_groups(observed: np.ndarray | None, n_features: int) -> tuple[ColumnGroups, np.ndarray]:
    """Features with equal columns of the mask, and the mask by group, (N or 1, G)."""
    if observed is None:
        return ColumnGroups(np.zeros(n_features, dtype=int)), np.ones((1, 1), dtype=bool)
    if observed.shape[1] == 1:
        return ColumnGroups(np.zeros(n_features, dtype=int)), observed
    numbers: dict[bytes, int] = {}
    columns = np.packbits(observed, axis=0).T
    index = np.array([numbers.setdefault(column.tobytes(), len(numbers)) for column in columns])
    first = np.unique(index, return_index=True)[1]
    return ColumnGroups(index), observed[:, first]


def row_patterns(observed: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """A number for each row, equal for rows with the same holes in all views, (N,)."""
    masks = [mask for mask in observed if len(mask) == n_rows and n_rows > 1 and not mask.all()]
    if not masks:
        return np.zeros(n_rows, dtype=int)
    packed = np.ascontiguousarray(np.packbits(np.concatenate(masks, axis=1), axis=1))
    as_bytes = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
    return np.unique(as_bytes, return_inverse=True)[1].reshape(-1)
