"""Rows of a sparse matrix, centred and never filled: X = S − s cᵀ, of which only the cells that S stores are kept.

S has its columns in the model's units, c is what centring takes from each of them, and s is 1 for a row that the view
has and 0 for one that it lacks, so that such a row is 0 throughout. Products with X are products with S, less those of
two vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import numpy as numpy_namespace
from scipy import sparse

from .arrays import compiled_twin
from .scratch import empty_like_kept

CHUNK = 2**20  # stored cells that are copied at a time

compiled = partial(compiled_twin, "sparse_compiled")  # SciPy's are as fast, but threads have to wait for one another


@dataclass(frozen=True, eq=False)
class CentredSparse:
    """(n, D) real numbers as the local step needs them: rows of it, products from either side, and sums."""

    matrix: sparse.csr_array  # S, (n, D); no cell is stored twice
    shift: np.ndarray  # c, (D,)
    seen: np.ndarray | None = None  # s, (n,) of 0 and 1; None: all rows are there

    __array_ufunc__ = None  # leaves `array @ self` to `__rmatmul__`
    ndim = 2
    device = "cpu"

    @classmethod
    def nothing(cls, n: int, width: int) -> CentredSparse:
        """Rows of which nothing was seen."""
        return cls(sparse.csr_array((n, width)), np.zeros(width), np.zeros(n))

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """What is made of its products are NumPy's arrays."""
        return numpy_namespace

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype:
        """That of its products, whatever the cells are stored in."""
        return np.dtype(np.float64)

    @property
    def nbytes(self) -> int:
        return self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes

    def __len__(self) -> int:
        return self.shape[0]

    # ---------------------------------------------------------------------------------------------------- rows

    def __getitem__(self, rows: Any) -> CentredSparse:
        """Some rows: a slice shares its memory with the whole, places make a copy."""
        if isinstance(rows, tuple):  # as arrays of other libraries want it: [rows, ...]
            rows = rows[0]
        if not isinstance(rows, slice):
            return self.take(np.arange(len(self))[rows])
        start, stop, step = rows.indices(len(self))
        if step != 1:
            return self.take(np.arange(start, stop, step))
        stop = max(start, stop)
        own = slice(self.matrix.indptr[start], self.matrix.indptr[stop])
        indptr = self.matrix.indptr[start : stop + 1] - self.matrix.indptr[start]
        matrix = rows_of(self.matrix.data[own], self.matrix.indices[own], indptr, self.shape[1])
        return CentredSparse(matrix, self.shift, None if self.seen is None else self.seen[start:stop])

    def take(self, rows: np.ndarray) -> CentredSparse:
        """These rows, -1 being one that is not there: nothing is stored for it, and nothing is taken from it."""
        there, whole = rows >= 0, self.matrix
        stored = np.where(there, np.diff(whole.indptr)[rows] if len(self) else 0, 0)
        indptr = np.concatenate([[0], np.cumsum(stored)]).astype(whole.indptr.dtype)
        data, indices = (empty_like_kept(a, (indptr[-1],), a.dtype) for a in (whole.data, whole.indices))
        step = max(1, CHUNK * len(rows) // max(int(indptr[-1]), 1))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            chosen, own = whole[some[some >= 0]], slice(indptr[start], indptr[min(start + step, len(rows))])
            data[own], indices[own] = chosen.data, chosen.indices
        matrix = rows_of(data, indices, indptr, self.shape[1])
        seen = there.astype(np.float64)
        if self.seen is not None:
            seen[there] = self.seen[rows[there]]
        return CentredSparse(matrix, self.shift, None if seen.all() else seen)

    # ------------------------------------------------------------------------------------------------ products

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        """X W, (n, K)."""
        away = self.shift @ W
        product = stored_product(self.matrix, W)
        product -= away if self.seen is None else self.seen[:, None] * away
        return product

    def __rmatmul__(self, A: np.ndarray) -> np.ndarray:
        """A X of A (K, n)."""
        weight = A.sum(axis=1) if self.seen is None else A @ self.seen
        product = stored_product_across(self.matrix, A.T)
        product -= self.shift[:, None] * weight
        return product.T

    # ---------------------------------------------------------------------------------------------------- sums

    @property
    def n_seen(self) -> float:
        return float(len(self) if self.seen is None else self.seen.sum())

    def column_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ x and Σ x² of each column, (D,): of what is stored, and of all that is not, which is −c."""
        columns, width = self.matrix.indices, self.shape[1]
        cells = self.matrix.data - self.shift[columns]
        n_implied = self.n_seen - np.bincount(columns, minlength=width)
        first = np.bincount(columns, cells, width) - n_implied * self.shift
        second = np.bincount(columns, cells**2, width) + n_implied * self.shift**2
        return first, second

    def gram(self) -> np.ndarray:
        """XᵀX, (D, D): a dense matrix."""
        S = self.matrix.astype(np.float64, copy=False)
        first = np.bincount(S.indices, S.data, self.shape[1])
        crossed = np.outer(first, self.shift)
        return (S.T @ S).toarray() - crossed - crossed.T + self.n_seen * np.outer(self.shift, self.shift)


def rows_of(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, width: int) -> sparse.csr_array:
    """A matrix of these very arrays: SciPy would copy those that are a small part of larger ones."""
    matrix = sparse.csr_array((len(indptr) - 1, width), dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def is_sparse(target: Any) -> bool:
    return isinstance(target, CentredSparse)


def stored_product(matrix: sparse.csr_array, W: np.ndarray) -> np.ndarray:
    """S W, (n, K)."""
    fast = compiled()
    if fast is None:
        return matrix @ W
    out = np.zeros((matrix.shape[0], W.shape[1]))
    fast.add_product(matrix.indptr, matrix.indices, matrix.data, np.ascontiguousarray(W), out)
    return out


def stored_product_across(matrix: sparse.csr_array, Z: np.ndarray) -> np.ndarray:
    """SᵀZ, (D, K)."""
    fast = compiled()
    if fast is None:
        return matrix.T @ Z
    out = np.zeros((matrix.shape[1], Z.shape[1]))
    fast.add_product_across(matrix.indptr, matrix.indices, matrix.data, np.ascontiguousarray(Z), out)
    return out
