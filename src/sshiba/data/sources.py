"""Rows that stay where they are until they are needed: in a file, in chunks, or in what a function yields."""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from ..core.machine import chunk_bytes
from ..core.scratch import RowsLostError


class SourceError(RowsLostError):
    """Rows that can no longer be read as they were."""


class RowSource(ABC):
    """The rows of one view. `outline` has their columns, their dtypes, and no row.

    `container` is that of the answers: "array", "vector", "frame" or "series". `index` are the names of the rows, None
    where they have none. `any_order`: rows are as soon read here and there, by several threads, as one after the other.
    `limit`: bytes that may be used in all, of which those read at a time are a small share.
    """

    outline: pd.DataFrame
    container: str = "array"
    index: pd.Index | None = None
    n_rows: int
    any_order: bool = False
    limit: float = inf
    parts: tuple[Any, ...] | None = None  # frames on the workers of a cluster, as Dask knows them
    edges: tuple[int, ...] = ()  # the places of the first row of each, and the number of rows

    @abstractmethod
    def read(self, start: int, stop: int) -> pd.DataFrame:
        """Rows that follow one another. Raises SourceError where they are not what they were."""

    def read_block(self, start: int, stop: int) -> np.ndarray | None:
        """The same as one array of floats that nobody else has; None where rows are not stored so."""
        return None

    @property
    def row_bytes(self) -> int:
        """About what a row takes in memory."""
        return sum(max(getattr(dtype, "itemsize", 8), 8) for dtype in self.outline.dtypes)  # text has none

    @property
    def nbytes(self) -> int:
        return self.n_rows * self.row_bytes

    def keep_to(self, limit: float) -> None:
        """Use so many bytes in all from now on."""
        self.limit = limit

    def let_go(self) -> None:  # noqa: B027 (most keep nothing)
        """Keep no rows in memory until they are needed again."""

    def part(self, like: pd.DataFrame | pd.Series) -> RowSource:
        """The columns that a part of the table has; a column alone as a series where that is one."""
        if isinstance(like, pd.Series):
            return SomeColumns(self, [like.name], "series")
        return SomeColumns(self, list(like.columns), "frame")


def some_columns(frame: pd.DataFrame, names: Sequence[Any]) -> pd.DataFrame:
    return frame[list(names)]


class SomeColumns(RowSource):
    """Some columns of a table."""

    def __init__(self, whole: RowSource, names: Sequence[Any], container: str) -> None:
        self.whole, self.names, self.container = whole, list(names), container
        self.outline, self.index, self.n_rows = whole.outline[self.names], whole.index, whole.n_rows
        self.limit = whole.limit
        if whole.parts is not None:
            import dask

            self.parts, self.edges = tuple(dask.delayed(some_columns)(p, self.names) for p in whole.parts), whole.edges

    def keep_to(self, limit: float) -> None:
        super().keep_to(limit)
        self.whole.keep_to(limit)

    def let_go(self) -> None:
        self.whole.let_go()

    def read(self, start: int, stop: int) -> pd.DataFrame:
        """Whole rows are read for it, so only some of them at a time."""
        step = stop - start
        if self.limit < inf:
            step = int(chunk_bytes(self.limit)) // max(self.whole.row_bytes, 1)
        starts = range(start, max(stop, start + 1), max(step, 1))
        parts = [some_columns(self.whole.read(at, min(at + max(step, 1), stop)), self.names) for at in starts]
        return pd.concat(parts) if len(parts) > 1 else parts[0]


class NamedRows(RowSource):
    """An array whose rows and columns have names: a frame."""

    container = "frame"

    def __init__(self, array: RowSource, index: pd.Index, columns: pd.Index) -> None:
        self.array, self.names, self.index, self.n_rows = array, index, index, array.n_rows
        self.any_order = array.any_order
        self.outline = array.outline.set_axis(columns, axis=1).set_axis(index[:0])

    def read(self, start: int, stop: int) -> pd.DataFrame:
        found = self.array.read(start, stop).copy(deep=False)  # what was read may be kept there, under its own names
        found.index, found.columns = self.names[start:stop], self.outline.columns
        return found

    def read_block(self, start: int, stop: int) -> np.ndarray | None:
        return self.array.read_block(start, stop)


# ----------------------------------------------------------------------------------------------------- arrays


class ArraySource(RowSource):
    """Anything with a shape and a dtype whose rows can be cut out: an array of HDF5, of Zarr or of NumPy."""

    any_order = True

    def __init__(self, array: Any, name: str) -> None:
        if len(array.shape) not in (1, 2):
            raise ValueError(
                f"view {name!r} is an array of {len(array.shape)} dimensions. Give rows by features: one of 1 or 2."
            )
        self.array, self.name, self.n_rows = array, name, int(array.shape[0])
        self.container = "vector" if len(array.shape) == 1 else "array"
        width = 1 if len(array.shape) == 1 else int(array.shape[1])
        dtype = np.dtype(array.dtype)
        self.outline = pd.DataFrame(np.empty((0, width), object if dtype.kind in "SU" else dtype))
        path = getattr(getattr(array, "file", None), "filename", None)  # of HDF5
        self.file = None if path is None else WatchedFile(path, name)

    def read(self, start: int, stop: int) -> pd.DataFrame:
        return numbered(self._values(start, stop), start)

    def read_block(self, start: int, stop: int) -> np.ndarray | None:
        is_copy = self.array.dtype.kind == "f" and len(self.array.shape) == 2 and not isinstance(self.array, np.ndarray)
        return self._values(start, stop) if is_copy else None

    def _values(self, start: int, stop: int) -> np.ndarray:
        if self.file is not None:
            self.file.check()
        values = np.asarray(self._cut(start, stop))
        if len(values) != stop - start:
            raise SourceError(f"view {self.name!r} has fewer rows than when its reading began.")
        return values

    def _cut(self, start: int, stop: int) -> Any:
        try:
            return self.array[start:stop]
        except OSError as error:
            raise SourceError(f"view {self.name!r} can no longer be read: {error}.") from error


class FileArraySource(ArraySource):
    """A memory-mapped array, read from its file: a map of a file that shrinks would end the process."""

    def __init__(self, array: np.memmap, name: str) -> None:
        super().__init__(array, name)
        self.file = WatchedFile(str(array.filename), name)
        mapped = np.frombuffer(array._mmap, np.uint8).__array_interface__["data"][0]  # type: ignore[attr-defined]
        first = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
        self.offset = first + array.__array_interface__["data"][0] - mapped

    @classmethod
    def can_read(cls, array: Any) -> bool:
        """Is it a map of a file whose rows lie one after the other?"""
        if not isinstance(array, np.memmap) or array.filename is None or array.dtype.hasobject:
            return False
        return array.ndim in (1, 2) and array.flags.c_contiguous

    def read_block(self, start: int, stop: int) -> np.ndarray | None:
        return self._values(start, stop) if self.array.dtype.kind == "f" and self.array.ndim == 2 else None

    def _cut(self, start: int, stop: int) -> np.ndarray:
        assert self.file is not None
        row = self.array.dtype.itemsize * int(np.prod(self.array.shape[1:]))
        out = np.empty((stop - start, *self.array.shape[1:]), self.array.dtype)
        self.file.read_into(out, self.offset + start * row)
        return out


class WatchedFile:
    """A file that must stay as it is while it is read."""

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        self.stamp = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise SourceError(f"view {self.name!r}: {self.path!r} can no longer be read: {error.strerror}.") from error
        return found.st_size, found.st_mtime_ns

    def check(self) -> None:
        size, time = self._stamp()
        if (size, time) != self.stamp:
            how = "shrank" if size < self.stamp[0] else "grew" if size > self.stamp[0] else "was written to"
            raise SourceError(
                f"view {self.name!r}: {self.path!r} {how} while it was being read. Read a file that stays as it is."
            )

    def read_into(self, out: np.ndarray, offset: int) -> None:
        """Fill an array from the bytes at `offset`."""
        self.check()
        left = memoryview(out.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
        with open(self.path, "rb", buffering=0) as file:
            file.seek(offset)
            while len(left):
                n = file.readinto(left)
                if not n:
                    raise SourceError(f"view {self.name!r}: {self.path!r} ends too early.")
                left = left[n:]


# ----------------------------------------------------------------------------------------------------- chunks

Chunks = Iterator[tuple[int, pd.DataFrame]]  # each with the place of its first row
Rows = TypeVar("Rows", pd.DataFrame, np.ndarray)


class Cursor(Generic[Rows]):
    """Goes through chunks of rows and keeps the one at hand, so that each is read once where all rows are asked for.

    Parameters
    ----------
    chunks : function of a row
        The chunks from the one on that has this row, or from an earlier one.
    can_skip : bool
        Does it begin there, and not with the first chunk of all?
    """

    def __init__(self, name: str, chunks: Callable[[int], Iterator[tuple[int, Rows]]], can_skip: bool = True) -> None:
        self.chunks: Callable[[int], Iterator[tuple[int, Rows]]] = chunks
        self.name, self.can_skip = name, can_skip
        self.let_go()

    def let_go(self) -> None:
        """Keep no chunk."""
        self._coming: Iterator[tuple[int, Rows]] = iter(())
        self._current: tuple[int, Rows] | None = None

    def parts(self, start: int, stop: int) -> list[Rows]:
        """Rows that follow one another, of each chunk some."""
        if self._is_elsewhere(start):
            self._current = None  # one chunk at a time
            self._coming = self.chunks(start)
            self._current = next(self._coming, None)
        parts: list[Rows] = []
        at = start
        while at < stop:
            if self._current is None:
                raise SourceError(f"view {self.name!r} has fewer rows than when its reading began.")
            first, chunk = self._current
            if at < first + len(chunk):
                some = slice(at - first, stop - first)
                parts.append(chunk.iloc[some] if isinstance(chunk, pd.DataFrame) else chunk[some])
                at += len(parts[-1])
            if at < stop:
                self._current = next(self._coming, None)
        return parts

    def _is_elsewhere(self, row: int) -> bool:
        """Is the row not in the chunk at hand, nor in one that comes soon?"""
        if self._current is None or row < self._current[0]:
            return True
        first, chunk = self._current
        return self.can_skip and row > first + 2 * len(chunk)


class ChunkSource(RowSource):
    """Rows that come in chunks, one after the other: of Parquet, of a Dask collection, or what a function yields.

    `chunks` and `can_skip` are as for `Cursor`.
    """

    def __init__(
        self,
        name: str,
        chunks: Callable[[int], Chunks],
        n_rows: int,
        outline: pd.DataFrame,
        container: str,
        index: pd.Index | None = None,
        can_skip: bool = True,
    ) -> None:
        self.name, self.chunks = name, chunks
        self.n_rows, self.outline, self.container, self.index = n_rows, outline, container, index
        self._lock = Lock()
        self._frames = Cursor(name, chunks, can_skip)

    def let_go(self) -> None:
        with self._lock:
            self._frames.let_go()

    def read(self, start: int, stop: int) -> pd.DataFrame:
        with self._lock:
            parts = self._frames.parts(start, stop)
        if any(list(part.columns) != list(self.outline.columns) for part in parts):
            raise SourceError(f"view {self.name!r} has chunks with different columns.")
        return pd.concat(parts) if len(parts) > 1 else parts[0] if parts else self.outline


def function_source(function: Callable[[], Iterable[Any]], name: str) -> ChunkSource:
    """What a function yields: chunks of rows, the same ones each time that it is called."""
    containers: set[str] = set()

    def chunks(row: int = 0) -> Chunks:
        found, start = function(), 0
        if not isinstance(found, Iterable):
            raise TypeError(f"view {name!r}: the function must yield chunks of rows, not {type(found).__name__}.")
        for chunk in found:
            if isinstance(chunk, pd.DataFrame):
                frame, container = chunk, "frame"
            else:
                values = np.asarray(chunk)
                if values.ndim not in (1, 2):
                    raise ValueError(f"view {name!r}: chunks must be rows by features, of 1 or 2 dimensions.")
                frame, container = numbered(values, start), "vector" if values.ndim == 1 else "array"
            containers.add(container)
            yield start, frame
            start += len(frame)

    outline, names, n_rows = None, [], 0
    for _, frame in chunks():
        outline = frame.iloc[:0] if outline is None else outline
        names.append(frame.index)
        n_rows += len(frame)
    if outline is None:
        raise ValueError(f"view {name!r}: the function yields no rows.")
    if len(containers) > 1:
        raise TypeError(f"view {name!r}: the function yields frames and arrays. Yield one kind.")
    index = names[0].append(names[1:]) if containers == {"frame"} else None
    return ChunkSource(name, chunks, n_rows, outline, containers.pop(), index, can_skip=False)


def numbered(values: np.ndarray, start: int) -> pd.DataFrame:
    """An array as a frame, its rows numbered from `start` on."""
    rows = pd.RangeIndex(start, start + len(values))
    return pd.DataFrame(values if values.ndim == 2 else values[:, None], rows, copy=False)
