"""Sparse matrices that lie in a file: AnnData's, of .h5ad or Zarr.

They are copied once, some rows at a time, to a scratch file that is a CSR array in memory maps: all that is done with
one in memory is done with it, and what the system keeps of it in memory it gives up when it needs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from ..core.scratch import RowsLostError, Scratch
from ..core.sparse_rows import rows_of
from .sources import SourceError

CHUNK = 2**20  # stored cells that are copied at a time
SMALL = 2**24  # bytes of stored cells and their places that simply come into memory


def is_sparse_in_file(value: Any) -> bool:
    """Is it a sparse matrix of AnnData that is read when it is asked for rows or columns?"""
    return hasattr(value, "to_memory") and getattr(value, "format", None) in ("csr", "csc") and hasattr(value, "group")


def read_from_file(dataset: Any, name: str) -> Any:
    """A CSR array in a scratch file; a small matrix as it is, in memory."""
    try:
        n_stored = int(dataset.group["data"].shape[0])
        if n_stored * (dataset.dtype.itemsize + 4) <= SMALL:
            return dataset.to_memory()
        return (_copied if dataset.format == "csr" else _turned)(dataset, n_stored)
    except RowsLostError:
        raise
    except (OSError, KeyError) as error:
        raise SourceError(f"view {name!r} can no longer be read: {error}.") from error


def _copied(dataset: Any, n_stored: int) -> sparse.csr_array:
    """Rows as they lie; cells that are stored twice are added up."""
    room, counts, at = _room(dataset, n_stored), np.zeros(dataset.shape[0], np.int64), 0
    for start, part in _parts(dataset.shape[0], n_stored, lambda some: dataset[some]):
        rows = sparse.csr_array(part)
        rows.sum_duplicates()
        for array, own in zip(room, (rows.data, rows.indices)):
            array[at : at + rows.nnz] = own
        counts[start : start + rows.shape[0]] = np.diff(rows.indptr)
        at += rows.nnz
    return _joined(room, counts, dataset.shape)


def _turned(dataset: Any, n_stored: int) -> sparse.csr_array:
    """Of a matrix that lies by columns: cells of each row are counted, then each goes to the next place of its row."""

    def parts() -> Iterator[tuple[int, Any]]:
        for start, part in _parts(dataset.shape[1], n_stored, lambda some: dataset[:, some]):
            columns = sparse.csc_array(part)
            columns.sum_duplicates()
            yield start, columns

    n_rows = dataset.shape[0]
    counts = sum((np.bincount(part.indices, minlength=n_rows) for _, part in parts()), np.zeros(n_rows, np.int64))
    room, free = _room(dataset, n_stored), np.cumsum(counts) - counts
    for start, part in parts():
        rows = part.tocsr()
        own = np.diff(rows.indptr)
        to = np.repeat(free - rows.indptr[:-1], own) + np.arange(rows.nnz)
        room[0][to], room[1][to] = rows.data, rows.indices + start
        free = free + own
    return _joined(room, counts, dataset.shape)


def _parts(n: int, n_stored: int, read: Callable[[slice], Any]) -> Iterator[tuple[int, Any]]:
    """Some rows, or columns, at a time, with the place of the first."""
    step = max(1, CHUNK * n // max(n_stored, 1))
    return ((start, read(slice(start, min(start + step, n)))) for start in range(0, n, step))


def _room(dataset: Any, n_stored: int) -> tuple[np.ndarray, np.ndarray]:
    """For the stored cells and their columns; places of one type with the rows' ends, else SciPy would copy them."""
    scratch, fits = Scratch(), max(n_stored, *dataset.shape) < 2**31
    return scratch.empty((n_stored,), dataset.dtype), scratch.empty((n_stored,), np.int32 if fits else np.int64)


def _joined(room: tuple[np.ndarray, np.ndarray], counts: np.ndarray, shape: tuple[int, int]) -> sparse.csr_array:
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(room[1].dtype)
    return rows_of(room[0][: ends[-1]], room[1][: ends[-1]], ends, shape[1])
