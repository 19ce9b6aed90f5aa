"""From what the user holds (arrays, lists, frames, series) to frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from array_api_compat import is_torch_array

from ..core.streamed import ReadCount
from ..core.threads import read_ahead
from .advice import DataError, Problem, Remedy
from .cells import shared_numpy_dtype
from .coding import ORDERED_CATEGORY, Coding
from .markers import USUAL, Markers, Meanings, without_markers
from .sources import RowSource
from .sparse_tables import SparseTable, is_sparse_view, read_sparse
from .tensors import frames, numpy_dtype
from .wording import counted, first_few

SAMPLE, LEAST_SAMPLE = 2000, 50  # rows of each end, and of the middle, by which a type is told
SAMPLE_BYTES = 2**22  # of each
_NARROW = {"boolean": "bool", "integer": "int64", "floating": "float64", "mixed-integer-float": "float64"}


@dataclass(frozen=True, eq=False)
class Table:
    """One view as the user gave it, read as a frame without a copy where that can be.

    What is not in memory has a frame with its columns, and no rows.
    """

    frame: pd.DataFrame
    container: str  # "array", "vector", "frame" or "series"
    array_dtype: np.dtype | None = None  # of the user's array, which text and masked arrays lose in a frame
    label: Any = None  # the name of a series
    tensor: Any = None  # numbers on a device
    sparse: SparseTable | None = None  # a sparse matrix
    source: RowSource | None = None  # rows that are read when they are needed
    reads: ReadCount | None = None  # told of them
    markers: dict[Any, Markers] = field(default_factory=dict)  # the texts of each column that were taken for missing
    meanings: Meanings = USUAL  # which texts mean that

    @property
    def n_rows(self) -> int:
        if self.source is not None:
            return self.source.n_rows
        return len(self.index if self.tensor is None else self.tensor)

    @property
    def index(self) -> pd.Index:
        """The names of the rows."""
        if self.sparse is not None:
            return self.sparse.index
        if self.source is None:
            return self.frame.index
        return pd.RangeIndex(self.source.n_rows) if self.source.index is None else self.source.index

    def chunks(self, max_bytes: float) -> Iterator[pd.DataFrame]:
        """The frame, or some rows at a time of what is not in memory; the next are read meanwhile."""
        if self.source is None:
            return iter([self.frame]) if self.tensor is None else frames(self.tensor)
        step = max(1, int(max_bytes) // max(self.row_bytes, 1))
        return read_ahead(lambda start: self.read(start, start + step), range(0, self.n_rows, step))

    def read(self, start: int, stop: int) -> pd.DataFrame:
        """Rows that follow one another."""
        stop = min(stop, self.n_rows)
        if self.reads is not None:
            self.reads.add((stop - start) * self.row_bytes)
        if self.source is None:
            return self.frame.iloc[start:stop]
        return without_markers(self.source.read(start, stop), self.meanings)[0]

    def read_block(self, start: int, stop: int) -> np.ndarray | None:
        """The same as one array of floats that nobody else has; None where it is not stored so."""
        stop = min(stop, self.n_rows)
        found = None if self.source is None else self.source.read_block(start, stop)
        if found is not None and self.reads is not None:
            self.reads.add((stop - start) * self.row_bytes)
        return found

    @property
    def row_bytes(self) -> int:
        """About what a row takes in memory."""
        return 8 * self.frame.shape[1] if self.source is None else self.source.row_bytes

    @cached_property
    def sample(self) -> pd.DataFrame:
        """All rows in memory; of others some from the beginning, the middle and the end."""
        if self.source is None:
            return self.frame
        n, some = self.n_rows, max(LEAST_SAMPLE, min(SAMPLE, SAMPLE_BYTES // max(self.row_bytes, 1)))
        starts = sorted({0, max(0, n // 2 - some // 2), max(0, n - some)})
        edges = [*starts[1:], n]
        return pd.concat([self.read(a, min(a + some, b)) for a, b in zip(starts, edges)])

    @property
    def has_index(self) -> bool:
        return self.container in ("frame", "series")

    @property
    def holds_objects_for_array(self) -> bool:
        """Did the user's array (of text, or masked) have to become objects to be a frame?"""
        is_array_of_values = self.array_dtype is not None and self.array_dtype.kind != "O"
        return is_array_of_values and self.frame.dtypes.iloc[0].kind == "O"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtype in which decoded values of each column come back."""
        shared = self.array_dtype or shared_numpy_dtype(self.frame)
        if shared is not None and shared.kind != "O":
            return (str(shared),) * self.frame.shape[1]
        return tuple(_dtype_name(dtype, self.sample, j) for j, dtype in enumerate(self.frame.dtypes))


def _dtype_name(dtype: Any, frame: pd.DataFrame, place: int) -> str:
    """A column's dtype; for a column of objects the plain dtype of what it holds."""
    if isinstance(dtype, pd.CategoricalDtype):
        return ORDERED_CATEGORY if dtype.ordered else "category"
    if pd.api.types.is_object_dtype(dtype):
        return _NARROW.get(pd.api.types.infer_dtype(frame.iloc[:, place], skipna=True), "object")
    return str(dtype)


def read_table(value: Any, name: str, allow_no_rows: bool = False, meanings: Meanings = USUAL) -> Table:
    """What the user gave for one view, as a frame of distinct rows and columns; `meanings` are those of its texts.

    Raises
    ------
    TypeError, ValueError
        It is no table, has no rows or columns, or its labels are not unique.
    """
    if is_sparse_view(value):
        table = _read_sparse(value, name)
    elif isinstance(value, pd.DataFrame):
        table = Table(value, "frame")
    elif isinstance(value, RowSource):
        dtype = shared_numpy_dtype(value.outline) if value.container in ("array", "vector") else None
        label = value.outline.columns[0] if value.container == "series" else None
        table = Table(value.outline, value.container, dtype, label, source=value)
    elif isinstance(value, pd.Series):
        table = Table(value.to_frame(name if value.name is None else value.name), "series", label=value.name)
    else:
        table = _read_array(value, name)
    _check_labels(table.frame, name)
    table = replace(table, frame=native(table.frame))
    frame, markers = without_markers(table.frame, meanings)
    table = replace(table, frame=frame, markers=markers, meanings=meanings)
    if any(isinstance(dtype, pd.SparseDtype) for dtype in table.frame.dtypes):
        raise TypeError(
            f"view {name!r} has sparse columns. Give dense ones, frame.sparse.to_dense(), or "
            "all of them sparse with 0 for what is not stored."
        )
    n_rows, n_columns = table.n_rows, table.frame.shape[1]
    if n_columns == 0 or (n_rows == 0 and not allow_no_rows):
        raise ValueError(
            f"view {name!r} is empty ({counted(n_rows, 'row')}, {counted(n_columns, 'column')}). "
            "Leave the view out, or give it data."
        )
    return table


def native(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with numbers in the byte order of this machine, the only one that pandas can count in."""
    foreign = {
        place: dtype.newbyteorder("=")
        for place, dtype in enumerate(frame.dtypes)
        if isinstance(dtype, np.dtype) and not dtype.isnative
    }
    if not foreign:
        return frame
    return frame.set_axis(range(frame.shape[1]), axis=1).astype(foreign).set_axis(frame.columns, axis=1)


def _read_sparse(value: Any, name: str) -> Table:
    table = read_sparse(value, name)
    dtype = table.matrix.dtype
    frame = pd.DataFrame(np.empty((0, len(table.columns)), dtype), columns=table.columns)
    return Table(frame, "frame" if table.has_names else "array", dtype, sparse=table)


def _read_array(value: Any, name: str) -> Table:
    """A frame around an array or a list; its rows and columns are numbered."""
    if value is None:
        raise TypeError(f"view {name!r} is None. Leave a view out of the dict when it is missing altogether.")
    if is_torch_array(value):  # what the border leaves a tensor is on a device, rows by features
        dtype = numpy_dtype(value)
        return Table(pd.DataFrame(np.empty((0, value.shape[1]), dtype)), "array", dtype, tensor=value)
    if isinstance(value, pd.api.extensions.ExtensionArray | pd.Index):
        return Table(pd.Series(value).reset_index(drop=True).to_frame(0), "vector")
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = _list_to_array(value, name)
    if not hasattr(value, "__array__"):
        raise TypeError(
            f"view {name!r} is of type {type(value).__name__}. Give a NumPy array, a list, a DataFrame or a Series."
        )
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.ndim not in (1, 2) or array.dtype.names:
        shape = "a structured array" if array.dtype.names else f"an array of {array.ndim} dimensions"
        raise ValueError(f"view {name!r} is {shape}. Give rows by features: a 1-D or 2-D array, or a DataFrame.")
    dtype, container = array.dtype, "vector" if array.ndim == 1 else "array"
    array = fill_masked(array if array.ndim == 2 else array[:, None])
    if array.dtype.kind in "OUS":
        return Table(pd.DataFrame(array.astype(object), dtype=object), container, dtype)
    return Table(pd.DataFrame(array, copy=False), container, dtype)


def _list_to_array(values: Sequence, name: str) -> np.ndarray:
    """A list of values or of rows, None being missing; never by way of text, as np.asarray would go."""
    is_rows = [isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes) for row in values]
    if not any(is_rows):
        return pd.Series(list(values), dtype=None if len(values) else float).to_numpy()
    if not all(is_rows) or len({len(row) for row in values}) > 1:
        raise ValueError(f"view {name!r} is a list of rows of different lengths. Fill short rows with None.")
    if any(isinstance(cell, Sequence | np.ndarray) and not isinstance(cell, str | bytes) for cell in values[0]):
        raise ValueError(f"view {name!r} is a list nested too deep. Give rows by features.")
    return pd.DataFrame([list(row) for row in values]).to_numpy()


def fill_masked(array: Any) -> np.ndarray:
    """Masked cells as missing ones."""
    if not isinstance(array, np.ma.MaskedArray) or not np.ma.is_masked(array):
        return np.asarray(array)
    filled = array.data.astype(array.dtype if array.dtype.kind == "f" else object)
    filled[array.mask] = np.nan if array.dtype.kind == "f" else None
    return filled


def _check_labels(frame: pd.DataFrame, name: str) -> None:
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].unique()
        raise ValueError(f"view {name!r}: duplicate column names {first_few(twice)}. Rename or drop them.")
    refuse_odd_names(frame, f"view {name!r}: ")


def refuse_odd_names(frame: pd.DataFrame, whose: str = "") -> None:
    odd = [column for column in frame.columns if not _is_plain(column)]
    if odd:
        raise TypeError(
            f"{whose}column names must be text or numbers, not {first_few(odd)}. Rename them, e.g. "
            "frame.columns = frame.columns.astype(str)."
        )


def check_unique_rows(index: pd.Index, name: str) -> None:
    """Rows that are matched by label must have one each."""
    if not index.is_unique:
        twice = index[index.duplicated()].unique()
        what = f"view {name!r}: duplicate index labels {first_few(twice)}, while rows are matched by label"
        raise DataError(Problem(what, (Remedy.UNIQUE_ROWS,)))


def _is_plain(label: Any) -> bool:
    if isinstance(label, tuple):
        return all(_is_plain(part) for part in label)
    is_bool = isinstance(label, bool | np.bool_)  # pandas takes a list of them for a mask, and True for 1
    return isinstance(label, str | int | float | np.integer | np.floating) and not is_bool


def match_columns(table: Table, coding: Coding, name: str, beside: bool = False) -> pd.DataFrame:
    """The columns seen in training, in their order: by name between frames, else by position.

    `beside`: also those that are read with them and are no features.
    """
    columns = coding.read_columns if beside else coding.features
    frame, n_trained = table.frame, len(columns)
    if table.container == "frame" and coding.container == "frame":
        places = frame.columns.get_indexer(pd.Index(list(columns)))
        if (places < 0).any():
            lacking = [feature for feature, place in zip(columns, places) if place < 0]
            raise ValueError(
                f"view {name!r}: {counted(len(lacking), 'column')} of the training data missing: "
                f"{first_few(lacking)}. Add them, with NaN where nothing was measured."
            )
        in_order = len(places) == frame.shape[1] and (places == np.arange(n_trained)).all()
        return frame if in_order else frame.iloc[:, places]
    if coding.beside:
        raise ValueError(
            f"view {name!r} has limits in columns of its own ({first_few(coding.beside)}), which are found by name. "
            f"Give a DataFrame with the columns {first_few(coding.read_columns, 10)}."
        )
    if frame.shape[1] != n_trained:
        one_row = table.container == "vector" and len(frame) == n_trained
        raise ValueError(
            f"view {name!r} has {counted(frame.shape[1], 'column')}, in training it had {n_trained}. "
            + ("Is it one row? Give x.reshape(1, -1)." if one_row else "Give the same columns in the same order.")
        )
    return frame
