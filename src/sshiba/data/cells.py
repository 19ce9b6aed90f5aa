"""The cells of a frame as numbers: what a column holds, where bad cells are, standardising.

Everything goes over blocks of rows in float64, so that no second copy of the data is ever made.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from numbers import Real as RealNumber
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from .advice import DataError, DataTypeError, Problem, Remedy
from .coding import EXACT_INTEGER
from .mixed_cells import mixed, no_numbers
from .wording import counted, first_few, quoted

FINITE = (np.finfo(np.float32).min, np.finfo(np.float32).max)  # numbers of single precision
CACHED_CELLS = 2**15  # that stay in a cache from one operation to the next
BLOCK_CELLS = 2**18
TEXT_IN_TRAINING = (Remedy.OWN_ENTRY, Remedy.LEAVE_OUT, Remedy.MISSING)  # among numbers
TEXT_IN_NEW_ROWS = (Remedy.MISSING, Remedy.LEAVE_OUT)

_TEXT = (str, np.str_)
_NUMBER = (RealNumber, Decimal, np.bool_)
_DATE = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64, pd.Period)


# What a column holds ------------------------------------------------------------------------------------


def column_kind(column: pd.Series) -> str:
    """number (also when all is missing), text, category, date or complex; else the name of the type."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if pdt.is_object_dtype(dtype):
        kinds = {_element_kind(kind) for kind in set(map(type, column[column.notna()]))}
        return "text" if "text" in kinds else min(kinds - {"number"}, default="number")
    if pdt.is_complex_dtype(dtype):
        return "complex"
    if pdt.is_numeric_dtype(dtype) or pdt.is_bool_dtype(dtype):
        return "number"
    if pdt.is_string_dtype(dtype):
        return "text"
    is_date = pdt.is_datetime64_any_dtype(dtype) or pdt.is_timedelta64_dtype(dtype)
    return "date" if is_date or isinstance(dtype, pd.PeriodDtype) else str(dtype)


def _element_kind(kind: type) -> str:
    for name, types in (("text", _TEXT), ("number", _NUMBER), ("date", _DATE), ("complex", (complex,))):
        if issubclass(kind, types):
            return name
    return kind.__name__


def column_kinds(frame: pd.DataFrame) -> set[str]:
    """The kinds of all columns."""
    return {column_kind(part.iloc[:, 0]) for _, part in column_parts(frame)}


def shared_numpy_dtype(frame: pd.DataFrame) -> np.dtype | None:
    """The NumPy dtype of all columns, if there is one."""
    found = set(frame.dtypes)
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, np.dtype) else None


def numeric_block(frame: pd.DataFrame) -> np.ndarray | None:
    """The frame as one array of numbers without a copy, where it is one."""
    dtype = shared_numpy_dtype(frame)
    return frame.to_numpy() if dtype is not None and dtype.kind in "fiub" else None


def column_parts(frame: pd.DataFrame) -> Iterator[tuple[np.ndarray, pd.DataFrame]]:
    """Places and frames of columns: those of one kind of NumPy number together, others one by one."""
    if frame.shape[1] == 1 or numeric_block(frame) is not None:
        yield np.arange(frame.shape[1]), frame
        return
    codes, dtypes = pd.factorize(np.array(frame.dtypes, dtype=object))
    for code, dtype in enumerate(dtypes):
        places = np.flatnonzero(codes == code)
        together = isinstance(dtype, np.dtype) and dtype.kind in "fiub"
        for part in [places] if together else places[:, None]:
            yield part, frame.iloc[:, part]


def holds_only_zero_one(frame: pd.DataFrame) -> bool:
    """Are all observed values 0 / 1 / True / False?"""
    return all(part_holds_only_zero_one(part) for _, part in column_parts(frame))


def part_holds_only_zero_one(part: pd.DataFrame) -> bool:
    """The same of one of `column_parts`."""
    block = numeric_block(part)
    if block is not None:
        return not any(not_zero_one(cells).any() for _, cells in float_blocks(block))
    column = part.iloc[:, 0]
    return column_kind(column) == "number" and set(column.dropna().unique()) <= {0, 1}


def not_zero_one(cells: np.ndarray) -> np.ndarray:
    return ~((cells == 0) | (cells == 1) | np.isnan(cells))


# From a frame to numbers --------------------------------------------------------------------------------


def read_numbers(frame: pd.DataFrame, name: str, text_remedies: tuple[Remedy, ...]) -> np.ndarray:
    """The frame as (N, D) numbers, NaN where missing; without a copy when it is one block.

    Raises
    ------
    DataTypeError
        Columns hold something else, all are named; for text, `text_remedies` say what to do.
    """
    block = numeric_block(frame)
    if block is not None:
        if block.dtype.kind in "iu" and block.dtype.itemsize == 8:
            _refuse_large(frame, name, (block > EXACT_INTEGER) | (block < -EXACT_INTEGER))
        return block
    if frame.shape[1] == 1:
        return _column_numbers(frame, name, text_remedies)[:, None]
    values = np.empty(frame.shape)
    problems: list[Problem] = []
    for places, part in column_parts(frame):
        try:
            values[:, places] = read_numbers(part, name, text_remedies)
        except DataTypeError as error:
            problems += error.problems
    if problems:
        raise DataTypeError(*problems)
    return values


def _column_numbers(frame: pd.DataFrame, name: str, text_remedies: tuple[Remedy, ...]) -> np.ndarray:
    """The numbers of a frame of one column."""
    column = frame.iloc[:, 0]
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    kind = column_kind(column)
    if kind != "number":
        why_not = _not_numbers(column, kind, text_remedies)
        raise DataTypeError(why_not.of(f"view {name!r}, column {quoted(frame.columns[0])}"))
    observed = column.notna().to_numpy()
    cells = column[observed]
    if pdt.is_object_dtype(column.dtype) or pdt.is_integer_dtype(column.dtype):
        large = np.zeros((len(column), 1), bool)
        large[observed, 0] = [isinstance(v, int | np.integer) and abs(int(v)) > EXACT_INTEGER for v in cells]
        _refuse_large(frame, name, large)
    values = np.full(len(column), np.nan)
    values[observed] = cells.to_numpy(dtype=np.float64)
    return values


def _not_numbers(column: pd.Series, kind: str, text_remedies: tuple[Remedy, ...]) -> Problem:
    if kind == "text":
        texts = [cell for cell in column.dropna() if isinstance(cell, _TEXT)]
        if looks_numeric(texts):
            return Problem(f"holds numbers stored as text ({first_few(texts)})", (Remedy.NUMBERS,))
        words = no_numbers(column.dropna())
        if 0 < len(words) < column.notna().sum():
            others = [remedy for remedy in text_remedies if remedy != Remedy.MISSING]
            return mixed(words, int(column.notna().sum()), others)
        return Problem(f"holds text ({first_few(dict.fromkeys(texts))})", text_remedies)
    if kind == "date":
        return Problem("holds dates or times", (Remedy.LEAVE_OUT, Remedy.DATES))
    if kind == "complex":
        return Problem("holds complex numbers", (Remedy.TWO_COLUMNS,))
    return Problem(f"holds values of type {kind}, not numbers", (Remedy.LEAVE_OUT,))


def looks_numeric(texts: Any) -> bool:
    """Do all these texts spell numbers?"""
    return not pd.to_numeric(pd.Series(list(texts), dtype=object), errors="coerce").isna().any()


def _refuse_large(frame: pd.DataFrame, name: str, large: np.ndarray) -> None:
    if large.any():
        row, column = np.argwhere(large)[0]
        what = f"{counted(int(large.sum()), 'integer')} beyond 2**53, which floats cannot hold exactly, first"
        where = f"{quoted(frame.iloc[row, column])} in {cell_name(frame, row, column)}"
        raise DataError(Problem(f"view {name!r}: {what} {where}", (Remedy.LEAVE_OUT, Remedy.FLOATS)))


# Blocks of rows -----------------------------------------------------------------------------------------


def float_blocks(values: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Fresh float64 copies of some rows at a time."""
    step = max(1, BLOCK_CELLS // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        yield rows, values[rows].astype(np.float64)


def refuse_cells(
    frame: pd.DataFrame,
    name: str,
    values: np.ndarray,
    is_bad: Callable[[np.ndarray], np.ndarray],
    problem: str,
    *remedies: Remedy,
) -> None:
    """One DataError for all cells of which `is_bad` is true: how many, and where the first is."""
    n_bad, first = 0, None
    for rows, cells in float_blocks(values):
        bad = is_bad(cells)
        if bad.any() and first is None:
            row, column = np.argwhere(bad)[0]
            first = (rows.start + row, column)
        n_bad += int(bad.sum())
    if first is not None:
        bad_cells = f"{counted(n_bad, problem + ' value')}, first {quoted(values[first])}"
        raise DataError(Problem(f"view {name!r}: {bad_cells} in {cell_name(frame, *first)}", remedies))


def cell_name(frame: pd.DataFrame, row: int, column: int) -> str:
    return f"row {quoted(frame.index[row])}, column {quoted(frame.columns[column])}"


def observed_mask(values: np.ndarray) -> np.ndarray:
    """(N, D) bool."""
    return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)


def standardise(
    values: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    dtype: Any,
    complete: bool = False,
    own: bool = False,
) -> np.ndarray:
    """(values - centre) / scale in float64, then cast: the working copy; 0 at holes, unless there are none.

    `own`: nobody else has the values, and they may be written over.
    """
    target = values if own and values.dtype == np.dtype(dtype) else np.empty(values.shape, dtype)
    step = max(1, CACHED_CELLS // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        out = target[rows] if target.dtype == np.float64 else None
        cells = np.subtract(values[rows], centre, out=out, dtype=np.float64, casting="unsafe")
        cells /= scale
        if not complete:
            cells[np.isnan(cells)] = 0
        if out is None:
            target[rows] = np.clip(cells, *FINITE) if target.dtype == np.float32 else cells
    return target
