"""polars: frames and series as pandas ones, and back. Nothing here needs pyarrow."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

from .frame_library import FrameLibrary, FrameOrSeries, is_unchanged, means_of_whole_numbers


class Polars(FrameLibrary):
    """polars DataFrame and Series; rows have no names."""

    has_row_names = False

    def holds(self, value: Any) -> bool:
        polars = sys.modules.get("polars")
        return polars is not None and isinstance(value, polars.DataFrame | polars.Series)

    def to_pandas(self, value: Any, name: str) -> FrameOrSeries:
        if hasattr(value, "columns"):
            columns = {column.name: _to_array(column) for column in value.get_columns()}
            return pd.DataFrame(columns, index=pd.RangeIndex(len(value)))
        return pd.Series(_to_array(value), name=value.name or None)

    def answer(self, table: FrameOrSeries) -> Any:
        import polars

        if isinstance(table, pd.Series):
            return _to_series(table, "" if table.name is None else str(table.name))
        return polars.DataFrame([_to_series(table.iloc[:, j], str(name)) for j, name in enumerate(table.columns)])

    def filled(self, table: FrameOrSeries, given: Any, read: Any) -> Any:
        if isinstance(table, pd.Series):
            return _restore(table, given, read)
        return given.with_columns([_restore(table[name], given[name], read[name]) for name in given.columns])


def _to_array(column: Any) -> Any:
    """The cells in the pandas type that holds them all; null and NaN are missing."""
    dtype, holes = column.dtype, column.is_null().to_numpy()
    if dtype.is_integer() and not str(dtype).endswith("128"):  # which NumPy has not
        whole = column.fill_null(0).to_numpy()
        return pd.arrays.IntegerArray(whole.copy(), holes) if holes.any() else whole
    if dtype.is_decimal() or dtype.is_float():
        wide = column if dtype.is_float() else column.cast(_polars().Float64)
        return wide.to_numpy()
    if dtype == _polars().Boolean:
        flags = column.fill_null(False).to_numpy()
        return pd.arrays.BooleanArray(flags.copy(), holes) if holes.any() else flags
    if dtype == _polars().Enum:
        return pd.Categorical(column.cast(_polars().String).to_list(), dtype.categories.to_list(), ordered=True)
    if dtype == _polars().Categorical:
        return pd.Categorical(column.cast(_polars().String).to_list())
    if dtype in (_polars().Date, _polars().Datetime, _polars().Duration):
        return pd.array(column.to_numpy())
    return _objects(column.to_list())


def _objects(cells: list) -> np.ndarray:
    """Cells as they are, also where they are lists."""
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return values


def _to_series(column: pd.Series, name: str) -> Any:
    """A column in the polars type nearest to its own; missing cells are null."""
    polars, dtype = _polars(), column.dtype
    holes = column.isna()
    if isinstance(dtype, pd.CategoricalDtype):
        cells = [None if hole else cell for cell, hole in zip(column, holes)]
        if not all(isinstance(level, str) for level in dtype.categories):
            return polars.Series(name, cells, strict=False)
        kind = polars.Enum(dtype.categories.tolist()) if dtype.ordered else polars.Categorical
        return polars.Series(name, cells, dtype=kind)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        plain: Any = getattr(dtype, "numpy_dtype", dtype)
        made = polars.Series(name, column.to_numpy(dtype=plain, na_value=plain.type(0)))
        return made.set(polars.Series(holes.to_numpy()), None) if holes.any() else made
    return polars.Series(name, [None if hole else cell for cell, hole in zip(column, holes)], strict=False)


def _restore(column: pd.Series, given: Any, read: pd.Series) -> Any:
    """The user's own column where nothing changed; else in its type, where that holds the new cells."""
    if is_unchanged(column, read):
        return given
    made = _to_series(column, given.name)
    if means_of_whole_numbers(column, given.dtype.is_integer()):
        return made
    try:
        return made.cast(given.dtype)
    except _polars().exceptions.PolarsError:  # an Enum that lacks a level
        return made


def _polars() -> Any:
    import polars

    return polars
