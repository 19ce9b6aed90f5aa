"""Sparse matrices as views of real numbers: what is not stored is 0, and seen; no matrix is ever made dense.

Everything goes over the stored cells, some at a time, so that no second copy of them is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from ..core.scratch import empty_like_kept
from ..core.sparse_rows import CentredSparse, rows_of
from .advice import DataError, DataTypeError, Problem, Remedy
from .coding import EXACT_INTEGER, Coding
from .learned import NumberSummary
from .sparse_files import is_sparse_in_file, read_from_file
from .wording import counted, quoted

CHUNK = 2**20  # stored cells at a time
DENSE_BYTES = 2**28  # a matrix that is no larger may be made dense where only that will do


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A sparse matrix of rows by features, and the names of both."""

    matrix: Any  # CSR or CSC, without cells that are stored twice
    columns: pd.Index
    index: pd.Index
    has_names: bool  # are rows matched by name? Else by place

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: np.ndarray) -> SparseTable:
        """Some rows; places, or a mask."""
        return replace(self, matrix=self.matrix.tocsr()[rows], index=self.index[rows])

    def with_columns(self, places: np.ndarray) -> SparseTable:
        if np.array_equal(places, np.arange(self.shape[1])):
            return self
        return replace(self, matrix=self.matrix.tocsr()[:, places], columns=self.columns[places])

    def frame(self, rows: np.ndarray, columns: np.ndarray) -> pd.DataFrame:
        """A few of the cells, dense."""
        cells = self.matrix.tocsr()[rows][:, columns].toarray()
        return pd.DataFrame(cells, self.index[rows], self.columns[columns])


def is_sparse_view(value: Any) -> bool:
    """Did the user give a sparse matrix, or is it one with names?"""
    in_memory = isinstance(value, SparseTable) or sparse.issparse(value) or is_sparse_frame(value)
    return in_memory or is_sparse_in_file(value)


def is_sparse_frame(value: Any) -> bool:
    """Is it a frame of pandas whose columns are all sparse, of numbers, with 0 for what is not stored?"""
    return isinstance(value, pd.DataFrame) and value.shape[1] > 0 and all(map(_is_zero_filled, value.dtypes.unique()))


def _is_zero_filled(dtype: Any) -> bool:
    return isinstance(dtype, pd.SparseDtype) and dtype.kind in "fiub" and dtype.fill_value == 0


def read_sparse(value: Any, name: str) -> SparseTable:
    """What the user gave as a table with rows to multiply; CSR and CSC share their memory with it."""
    if isinstance(value, SparseTable):
        return value
    if isinstance(value, pd.DataFrame):
        accessor: Any = value.sparse
        return named_table(accessor.to_coo(), value.index, value.columns, name)
    if len(value.shape) != 2:
        raise ValueError(f"view {name!r} is a sparse array of {len(value.shape)} dimension. Give rows by features.")
    n_rows, n_columns = value.shape
    return _table(value, pd.RangeIndex(n_rows), pd.RangeIndex(n_columns), name, has_names=False)


def named_table(value: Any, index: pd.Index, columns: pd.Index, name: str) -> SparseTable:
    return _table(value, index, columns, name, has_names=True)


def _table(value: Any, index: pd.Index, columns: pd.Index, name: str, has_names: bool) -> SparseTable:
    matrix = read_from_file(value, name) if is_sparse_in_file(value) else value
    return SparseTable(_plain(matrix, name), columns, index, has_names)


def _plain(value: Any, name: str) -> Any:
    """A CSR or CSC array of real numbers, each cell stored once."""
    if value.dtype.kind not in "fiub":
        what = "complex numbers" if value.dtype.kind == "c" else f"values of type {value.dtype}"
        raise DataTypeError(Problem(f"view {name!r} is a sparse matrix of {what}", (Remedy.LEAVE_OUT,)))
    array = sparse.csc_array(value) if value.format == "csc" else sparse.csr_array(value)
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    return array


def stored_chunks(matrix: Any) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Some stored cells of a CSR or CSC array at a time: their places, their columns, and their values in float64."""
    for start in range(0, matrix.nnz, CHUNK):
        places = slice(start, min(start + CHUNK, matrix.nnz))
        if matrix.format == "csr":
            columns = matrix.indices[places]
        else:
            columns = np.searchsorted(matrix.indptr, np.arange(places.start, places.stop), side="right") - 1
        yield places, columns, matrix.data[places].astype(np.float64)


# ------------------------------------------------------------------------------------------- values and coding


def refuse_stored(
    table: SparseTable,
    name: str,
    is_bad: Callable[[np.ndarray, np.ndarray], np.ndarray],
    problem: str,
    *remedies: Remedy,
) -> None:
    """One DataError for all stored cells of which `is_bad(cells, columns)` is true: how many, and where one is."""
    n_bad, first = 0, None
    for places, columns, cells in stored_chunks(table.matrix):
        bad = is_bad(cells, columns)
        if bad.any():
            n_bad += int(bad.sum())
            first = first or (places.start + int(np.argmax(bad)), int(columns[np.argmax(bad)]))
    if first is None:
        return
    place, column = first
    matrix = table.matrix
    row = np.searchsorted(matrix.indptr, place, side="right") - 1 if matrix.format == "csr" else matrix.indices[place]
    where = f"row {quoted(table.index[row])}, column {quoted(table.columns[column])}"
    what = f"{counted(n_bad, problem + ' value')}, first {quoted(matrix.data[place])} in {where}"
    raise DataError(Problem(f"view {name!r}: {what}", remedies))


def has_missing(matrix: Any) -> bool:
    """Is any stored cell NaN?"""
    return matrix.dtype.kind == "f" and bool(np.isnan(np.max(matrix.data, initial=-np.inf)))  # without a mask of all


def refuse_odd(table: SparseTable, name: str, largest: float) -> None:
    """Refuse stored cells that are missing, infinite, beyond the largest number, or whole and too large for floats."""
    whole = table.matrix.dtype.kind in "iu"
    most = min(largest, EXACT_INTEGER) if whole else largest
    if all((np.abs(cells) <= most).all() for _, _, cells in stored_chunks(table.matrix)):  # not so of NaN
        return
    refuse_stored(table, name, lambda cells, _: np.isnan(cells), "stored missing", Remedy.DENSE)
    refuse_stored(table, name, lambda cells, _: np.isinf(cells), "infinite", Remedy.DENSE)
    far = "too large (beyond 2**53, which floats cannot hold exactly)" if whole else f"far-off (beyond {largest:g})"
    refuse_stored(table, name, lambda cells, _: np.abs(cells) > most, far, Remedy.UNITS, Remedy.LEAVE_OUT)


def summarise(table: SparseTable, features: tuple) -> NumberSummary:
    """Mean and standard deviation of all cells of each column, in two passes over those that are stored.

    As for dense columns the second pass is in units of the column's largest value: exact for a mean of 1e9 and a std
    of 1, and free of under- and overflow.
    """
    n, width = table.shape
    total, n_stored = np.zeros(width), np.zeros(width)
    least, largest, whole = np.full(width, np.inf), np.full(width, -np.inf), np.ones(width, dtype=bool)
    for _, columns, cells in stored_chunks(table.matrix):
        total += np.bincount(columns, cells, width)
        n_stored += np.bincount(columns, minlength=width)
        np.minimum.at(least, columns, cells)
        np.maximum.at(largest, columns, cells)
        whole[columns[np.floor(cells) != cells]] = False
    implies = n_stored < n
    least, largest = np.where(implies & (least > 0), 0, least), np.where(implies & (largest < 0), 0, largest)
    mean = total / max(n, 1)
    size = np.maximum(np.abs(least), np.abs(largest))
    unit = np.where(size > 0, size, 1.0)
    implied = -mean / unit  # the deviation of a cell that is not stored
    shift, square = (n - n_stored) * implied, (n - n_stored) * implied**2
    for _, columns, cells in stored_chunks(table.matrix):
        deviation = (cells - mean[columns]) / unit[columns]
        shift += np.bincount(columns, deviation, width)
        square += np.bincount(columns, deviation**2, width)
    shift, square = shift / max(n, 1), square / max(n, 1)
    std = unit * np.sqrt(np.maximum(square - shift**2, 0))
    return NumberSummary(features, np.full(width, n), mean, unit * shift, std, least, largest, whole)


def standardise_stored(table: SparseTable, coding: Coding, dtype: Any) -> tuple[CentredSparse, float]:
    """(values − centre) / scale: the stored cells over their scales, and what is to be taken from all; and the largest
    deviation of a stored cell.

    A column that is stored throughout is centred there and then, as exactly as a dense one. Of any other the mean is at
    most √N deviations, so that nothing is lost where it is taken away later.
    """
    n, width = table.shape
    rows = table.matrix.tocsr()
    is_copy = rows is not table.matrix  # which may be written to
    full = sum(np.bincount(columns, minlength=width) for _, columns, _ in stored_chunks(rows)) == np.full(width, n)
    shift, at_once = coding.centre / coding.scale, np.where(full, coding.centre, 0.0)
    shift[full] = 0.0
    may_overwrite = is_copy and rows.dtype == np.dtype(dtype)
    data = rows.data if may_overwrite else empty_like_kept(rows.data, (rows.nnz,), dtype)
    farthest = 0.0
    for places, columns, cells in stored_chunks(rows):
        cells -= at_once[columns]
        cells /= coding.scale[columns]
        data[places] = cells
        farthest = max(farthest, float(np.abs(cells - shift[columns]).max()))
    return CentredSparse(rows_of(data, rows.indices, rows.indptr, width), shift), farthest


def is_small(table: SparseTable) -> bool:
    return table.shape[0] * table.shape[1] * table.matrix.dtype.itemsize <= DENSE_BYTES


def as_dense(table: SparseTable) -> Any:
    """The same as a frame, or an array where its rows have no names."""
    dense = table.matrix.toarray()
    return pd.DataFrame(dense, table.index, table.columns, copy=False) if table.has_names else dense


def dense_if_small(value: Any, name: str, kind: str) -> Any:
    """The same as a dense array or frame, for views of a type that cannot be sparse."""
    table = read_sparse(value, name)
    if not is_small(table):
        size = "{:,} x {:,}".format(*table.shape)
        what = (
            f"view {name!r} is a sparse matrix, which as {kind} would have to be dense, and {size} cells are too many"
        )
        raise DataTypeError(Problem(what, (Remedy.SPARSE_REAL, Remedy.LEAVE_OUT)))
    return as_dense(table)


def with_dense_columns(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The same with its sparse columns dense, so that one of them can be missing."""
    dense = {column: dtype.subtype for column, dtype in frame.dtypes.items() if isinstance(dtype, pd.SparseDtype)}
    if dense and frame.size * np.dtype(np.float64).itemsize > DENSE_BYTES:
        raise ValueError(
            f"a column of the sparse view {name!r} cannot be predicted from the others, since {frame.size:,} cells are "
            f"too many to be dense: predict the view, {name!r}, or give fewer rows."
        )
    return frame.astype(dense)


def no_deviations(value: Any) -> Any:
    """Of a sparse matrix, in which nothing is missing: standard deviations that are all 0, as what was given."""
    nothing = sparse.csr_array(value.shape, dtype=np.float64)
    if isinstance(value, SparseTable):
        return replace(value, matrix=nothing)
    if isinstance(value, pd.DataFrame):
        accessor: Any = pd.DataFrame.sparse
        return accessor.from_spmatrix(nothing, value.index, value.columns)
    return type(value)(nothing)
