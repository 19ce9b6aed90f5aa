"""Which rows of the views belong together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd

from .advice import DataError, Problem, Remedy
from .containers import Table, check_unique_rows
from .wording import counted, first_few

RowPlaces = dict[str, np.ndarray | None]  # of each view


def align(tables: Mapping[str, Table], training: bool) -> tuple[pd.Index, RowPlaces]:
    """The rows of all views together, and where each of them lies in each view.

    Frames align by label: the first frame's order, then new labels as they appear. Arrays align by position.

    Returns
    -------
    index : the labels of all rows
    rows : for each view their positions in it, -1 where it has none; None when they are its rows as they are
    """
    _check_array_lengths(tables)
    indexed = {name: table.frame.index for name, table in tables.items() if table.has_index}
    arrays = {name: len(table.frame) for name, table in tables.items() if not table.has_index}
    if not indexed:
        return pd.RangeIndex(next(iter(arrays.values()))), dict.fromkeys(arrays)
    union = next(iter(indexed.values()))
    if all(union.equals(index) for index in indexed.values()):  # nothing to match: labels may repeat
        if arrays:
            _check_same_length(indexed, arrays)
        return union, dict.fromkeys(tables)
    for name, index in indexed.items():
        check_unique_rows(index, name)
    if arrays:
        _check_same_rows(indexed, arrays)
    elif training:
        _check_rows_in_common(indexed)
    for index in indexed.values():
        new = union.get_indexer(index) < 0
        union = union.append(index[new]) if new.any() else union
    if training:
        _warn_few_in_common(indexed, union)
    rows: RowPlaces = {name: None if union.equals(i) else i.get_indexer(union) for name, i in indexed.items()}
    return union, {name: rows.get(name) for name in tables}


def _warn_few_in_common(indexed: Mapping[str, pd.Index], union: pd.Index) -> None:
    """Rows that a view lacks are missing there; where that is much, the labels may be meant to match and do not."""
    few = {
        name: len(index)
        for name, index in indexed.items()
        if any(2 * int(index.isin(other).sum()) <= min(len(index), len(other)) for other in indexed.values())
    }
    if few:
        sizes = ", ".join(f"{name!r} has {n:,}" for name, n in few.items())
        shared = int(np.all([union.isin(index) for index in indexed.values()], axis=0).sum())
        warnings.warn(
            f"of {len(union):,} rows {shared:,} are in all views ({sizes}): a row that a view lacks is missing there. "
            "If all views have the same rows, check their row names.",
            UserWarning,
            stacklevel=4,
        )


def _check_array_lengths(tables: Mapping[str, Table]) -> None:
    lengths = {name: len(table.frame) for name, table in tables.items() if not table.has_index}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        what = f"views with different numbers of rows, {listed}, while arrays are matched row by row"
        raise DataError(Problem(what, (Remedy.SAME_ROWS,)))


def _check_same_rows(indexed: Mapping[str, pd.Index], arrays: Mapping[str, int]) -> None:
    """Arrays beside frames: they follow the first frame, so there is only one set of rows."""
    _check_same_length(indexed, arrays)
    first, order = next(iter(indexed.items()))
    array = next(iter(arrays))
    for name, index in indexed.items():
        if len(index) != len(order) or (order.get_indexer(index) < 0).any():
            raise ValueError(
                f"views {first!r} and {name!r} have different row labels, so view {array!r}, an array, "
                f"cannot be matched. {_index_too(array)}"
            )


def _check_same_length(indexed: Mapping[str, pd.Index], arrays: Mapping[str, int]) -> None:
    first, order = next(iter(indexed.items()))
    array, n_rows = next(iter(arrays.items()))
    if len(order) != n_rows:
        raise ValueError(
            f"view {array!r} is an array of {counted(n_rows, 'row')}, view {first!r} has {len(order)}. "
            f"Arrays follow the rows of the first frame. {_index_too(array)}"
        )


def _index_too(array: str) -> str:
    return f"Give {array!r} an index too: pd.DataFrame(X, index=...)."


def _check_rows_in_common(indexed: Mapping[str, pd.Index]) -> None:
    for name, index in indexed.items():
        others = [other for n, other in indexed.items() if n != name]
        if others and not any((other.get_indexer(index) >= 0).any() for other in others):
            raise ValueError(
                f"view {name!r} has no rows in common with the other views. Rows are matched by index label: "
                f"here {first_few(index)}, elsewhere {first_few(others[0])}."
            )
