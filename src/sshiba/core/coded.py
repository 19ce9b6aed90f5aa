"""A view as the mathematics sees it: numbers in the model's units, and a mask of what was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import array_namespace, to_numpy, zeros
from .holes import Holes
from .sparse_rows import CentredSparse

RowPlaces = slice | np.ndarray  # which rows of a view


@dataclass(frozen=True, eq=False)
class CodedView:
    """One view of aligned rows, in the model's units.

    `target` is (N, D) standardised (real), 0 / 1 (binary), numbers of levels (ordinal) or counts, or (N,) class codes;
    of a view of numbers some of which are known by an interval (N, D, 2), its ends; 0 at holes.
    `observed` is None (complete), (N, 1) bool (whole rows missing) or (N, D) bool (single cells missing).
    """

    target: Any  # a tensor where the user gave one that is on a device; CentredSparse of a sparse matrix
    observed: np.ndarray | None

    @property
    def n_rows(self) -> int:
        return len(self.target)

    @property
    def ndim(self) -> int:
        return self.target.ndim

    @property
    def dtype(self) -> str:
        return str(self.target.dtype).removeprefix("torch.")

    @property
    def nbytes(self) -> int:
        return self.target.nbytes + (0 if self.observed is None else self.observed.nbytes)

    @property
    def any_order(self) -> bool:
        """May several threads ask for rows here and there?"""
        return True

    @property
    def in_memory(self) -> bool:
        return True

    @property
    def is_complete(self) -> bool:
        return self.observed is None

    def read(self, rows: RowPlaces) -> CodedView:
        """Some of the rows, without a copy where they follow one another."""
        return CodedView(self.target[rows], None if self.observed is None else self.observed[rows])

    def holes(self, n_features: int) -> Holes:
        return Holes.of(self.observed, n_features)

    def take(self, rows: np.ndarray | None) -> CodedView:
        """These rows, -1 being a row that this view does not have; None: all as they are."""
        if rows is None:
            return self
        absent = rows < 0
        if self.is_sparse:
            return CodedView(self.target.take(rows), self._mask_of(rows))
        if len(self.target) == 0:
            target = zeros((len(rows), *self.target.shape[1:]), self.target)
            return CodedView(target, shrink_mask(np.zeros((len(rows), 1), bool)))
        target = self.target[rows]
        target[np.flatnonzero(absent)] = 0
        return CodedView(target, self._mask_of(rows))

    def _mask_of(self, rows: np.ndarray) -> np.ndarray | None:
        n = len(self.target)
        observed = np.ones((n, 1), bool) if self.observed is None else self.observed
        found = np.zeros((len(rows), observed.shape[1]), bool)
        found[rows >= 0] = observed[rows[rows >= 0]]
        return shrink_mask(found)

    def hidden(self) -> CodedView:
        """The same rows with nothing observed."""
        if self.is_sparse:
            return self.take(np.full(len(self.target), -1))
        return CodedView(zeros(self.target.shape, self.target), np.zeros((len(self.target), 1), dtype=bool))

    @property
    def seen_cells(self) -> np.ndarray:
        """Which cells are observed, (N, D) bool; of classes (N, 1)."""
        shape = (len(self.target), 1 if self.target.ndim == 1 else self.target.shape[1])
        return np.broadcast_to(np.True_ if self.observed is None else self.observed, shape).copy()

    def with_only(self, kept: np.ndarray) -> CodedView:
        """The same with no other cells observed than these, (N, D) bool, on the host; of classes (N, 1)."""
        mask = kept[:, 0] if self.target.ndim == 1 else kept if self.target.ndim == 2 else kept[..., None]
        return CodedView(np.where(mask, self.target, 0).astype(self.target.dtype, copy=False), shrink_mask(kept))

    def without_column(self, column: int) -> CodedView:
        """The same with one column not observed, as one of several."""
        observed, target = self.seen_cells, array_namespace(self.target).asarray(self.target, copy=True)
        observed[:, column], target[:, column, ...] = False, 0
        return CodedView(target, observed)

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.target, CentredSparse)

    @property
    def on_host(self) -> bool:
        return isinstance(self.target, np.ndarray) or self.is_sparse

    def to_host(self) -> CodedView:
        return self if self.on_host else CodedView(to_numpy(self.target), self.observed)

    @property
    def observed_rows(self) -> np.ndarray:
        """Which rows have anything of this view, (N,) bool."""
        return np.ones(len(self.target), dtype=bool) if self.observed is None else np.asarray(self.observed.any(axis=1))


def shrink_mask(observed: np.ndarray) -> np.ndarray | None:
    """The smallest form of an (N, D) mask that says the same: None, (N, 1) or (N, D)."""
    if observed.all():
        return None
    whole_rows = (observed == observed[:, :1]).all()
    return np.ascontiguousarray(observed[:, :1]) if whole_rows else observed
