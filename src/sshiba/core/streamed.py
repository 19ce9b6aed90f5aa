"""A view whose rows are not in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .coded import CodedView, RowPlaces, shrink_mask
from .holes import Holes

APART = 100  # rows between two that are still read at once


@dataclass(frozen=True, eq=False)
class StreamedView:
    """One view whose rows are read and coded when they are needed: in a file, or wherever they are.

    `read_rows(start, stop)` reads rows that follow one another.
    """

    read_rows: Callable[[int, int], CodedView]
    n_rows: int
    empty: CodedView  # the form of the rows, and none of them
    found: Holes
    n_observed: np.ndarray  # (D,): rows that have each feature
    observed_rows: np.ndarray  # (N,) bool

    in_memory = False
    on_host = True

    @property
    def ndim(self) -> int:
        return self.empty.ndim

    @property
    def dtype(self) -> str:
        return self.empty.dtype

    @property
    def row_bytes(self) -> int:
        """What a row takes once it is read, with its mask."""
        target = self.empty.target
        return int(np.prod(target.shape[1:])) * (target.dtype.itemsize + (not self.found.complete))

    @property
    def nbytes(self) -> int:
        return self.n_rows * self.row_bytes

    def read(self, rows: RowPlaces) -> CodedView:
        """Some of the rows, in this order; all that lies between the first and the last of them is read."""
        if isinstance(rows, slice):
            return self.read_rows(rows.start, min(rows.stop, self.n_rows))
        if len(rows) == 0:
            return self.empty
        first = int(rows.min())
        return self.read_rows(first, int(rows.max()) + 1).take(rows - first)

    def holes(self, n_features: int) -> Holes:
        return self.found

    def take(self, rows: np.ndarray | None) -> CodedView | StreamedView:
        """Single rows, which may lie far apart."""
        if rows is None:
            return self
        order = np.argsort(rows, kind="stable")
        runs = np.split(rows[order], np.flatnonzero(np.diff(rows[order]) > APART) + 1)
        return join_views([self.read(run) for run in runs]).take(np.argsort(order, kind="stable"))

    def at(self, places: np.ndarray | None) -> StreamedView:
        """Rows at these places, -1 being a row that the view does not have; None: all as they are."""
        if places is None:
            return self

        def read_rows(start: int, stop: int) -> CodedView:
            wanted = places[start:stop]
            some = wanted[wanted >= 0]
            if len(some) == 0:
                return self.empty.take(wanted)
            first = int(some.min())
            return self.read_rows(first, int(some.max()) + 1).take(np.where(wanted < 0, -1, wanted - first))

        seen = (places >= 0) & self.observed_rows[places]
        holes = self.found.take(places) if (places < 0).any() or not self.found.complete else self.found
        return replace(self, read_rows=read_rows, n_rows=len(places), found=holes, observed_rows=seen)

    def hidden(self) -> CodedView:
        return self.empty.take(np.full(self.n_rows, -1))

    def to_host(self) -> StreamedView:
        return self

    def gathered(self) -> CodedView:
        """All rows in memory."""
        return self.read(slice(0, self.n_rows))

    def count_observed(self, n_features: int) -> np.ndarray:
        return self.n_observed


AnyView = CodedView | StreamedView


def join_views(parts: Sequence[CodedView]) -> CodedView:
    """Rows one below the other."""
    if len(parts) == 1:
        return parts[0]
    target = np.concatenate([part.target for part in parts])
    if all(part.observed is None for part in parts):
        return CodedView(target, None)
    width = max(1 if part.observed is None else part.observed.shape[1] for part in parts)
    masks = [np.broadcast_to(True if p.observed is None else p.observed, (p.n_rows, width)) for p in parts]
    return CodedView(target, shrink_mask(np.concatenate(masks)))
