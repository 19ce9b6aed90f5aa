"""Which rows of the views belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from .advice import DataError, Problem, Remedy
from .containers import Table, check_unique_rows
from .telling import tell
from .wording import counted, first_few

PlacesByView = dict[str, np.ndarray | None]  # of each view


def align(tables: Mapping[str, Table], training: bool) -> tuple[pd.Index, PlacesByView]:
    """The rows of all views together, and where each of them lies in each view.

    Frames align by label: the first frame's order, then new labels as they appear. Arrays align by position, so that
    frames beside them must have the same labels in the same order.

    Returns
    -------
    index : the labels of all rows
    rows : for each view their positions in it, -1 where it has none; None when they are its rows as they are
    """
    _check_array_lengths(tables)
    indexed = {name: table.index for name, table in tables.items() if table.has_index}
    arrays = {name: table.n_rows for name, table in tables.items() if not table.has_index}
    if not indexed:
        return pd.RangeIndex(next(iter(arrays.values()))), dict.fromkeys(arrays)
    _check_levels(indexed)
    if arrays:
        return rows_to_follow(indexed, arrays), dict.fromkeys(tables)
    first = next(iter(indexed.values()))
    if all(first.equals(index) for index in indexed.values()):  # nothing to match: labels may repeat
        return first, dict.fromkeys(tables)
    for name, index in indexed.items():
        check_unique_rows(index, name)
    if training:
        _check_rows_in_common(indexed)
    union = all_labels(indexed.values())
    if training:
        _warn_few_in_common(indexed, union)
    rows: PlacesByView = {name: None if union.equals(i) else i.get_indexer(union) for name, i in indexed.items()}
    return union, {name: rows.get(name) for name in tables}


def all_labels(indexes: Iterable[pd.Index]) -> pd.Index:
    """The labels of all rows, each once: the first index as it is, then new ones as they appear."""
    union, *others = indexes
    for index in others:
        new = union.get_indexer(index) < 0
        union = union.append(index[new]) if new.any() else union
    return union


def _warn_few_in_common(indexed: Mapping[str, pd.Index], union: pd.Index) -> None:
    """Rows that a view lacks are missing there; where the labels may be meant to match and do not, say so."""
    odd = {
        name: len(index)
        for name, index in indexed.items()
        if any(_seem_to_be_the_same(index, other) for other in indexed.values())
    }
    if odd:
        sizes = ", ".join(f"{name!r} has {n:,}" for name, n in odd.items())
        shared = int(np.all([union.isin(index) for index in indexed.values()], axis=0).sum())
        tell(
            f"of {len(union):,} rows {shared:,} are in all views ({sizes}): a row that a view lacks is missing there. "
            "If all views have the same rows, give them the same index, or give arrays, which are matched by position."
        )


def _seem_to_be_the_same(index: pd.Index, other: pd.Index) -> bool:
    """Do the labels differ where the rows may be the same: as many rows, or half of the labels or fewer in common?"""
    shared, fewer = int(index.isin(other).sum()), min(len(index), len(other))
    return 2 * shared <= fewer or (len(index) == len(other) and shared < fewer)


def _check_levels(indexed: Mapping[str, pd.Index]) -> None:
    levels = {name: index.nlevels for name, index in indexed.items()}
    if len(set(levels.values())) > 1:
        listed = ", ".join(f"{name!r} has {n}" for name, n in levels.items())
        raise ValueError(
            f"row labels of different numbers of levels, {listed}, cannot be matched: give all views the same index."
        )


def _check_array_lengths(tables: Mapping[str, Table]) -> None:
    check_same_length({name: table.n_rows for name, table in tables.items() if not table.has_index})


def check_same_length(lengths: Mapping[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        what = f"views with different numbers of rows, {listed}, while arrays are matched row by row"
        raise DataError(Problem(what, (Remedy.SAME_ROWS,)))


def rows_to_follow(indexed: Mapping[str, pd.Index], nameless: Mapping[str, int]) -> pd.Index:
    """The rows of views that name them, for views that do not: those must all be the same, in the same order.

    Parameters
    ----------
    indexed : view -> the labels of its rows
    nameless : view without labels -> how many rows it has, as many in all
    """
    (first, order), (without, n_rows) = next(iter(indexed.items())), next(iter(nameless.items()))
    give = f"Give {without!r} an index too: pd.DataFrame(X, index=...)."
    if len(order) != n_rows:
        raise ValueError(
            f"view {without!r} has {counted(n_rows, 'row')} without labels, view {first!r} has {len(order)}, and they "
            f"are matched row by row. {give}"
        )
    for name, index in indexed.items():
        if not index.equals(order):
            same = len(index) == len(order) and index.isin(order).all() and order.isin(index).all()
            how = "the same row labels in different orders" if same else "different row labels"
            raise ValueError(
                f"views {first!r} and {name!r} have {how}, so view {without!r}, which has none, cannot be matched "
                f"row by row. {give}"
            )
    return order


def _check_rows_in_common(indexed: Mapping[str, pd.Index]) -> None:
    for name, index in indexed.items():
        others = [other for n, other in indexed.items() if n != name]
        if others and not any((other.get_indexer(index) >= 0).any() for other in others):
            raise ValueError(
                f"view {name!r} has no rows in common with the other views. Rows are matched by index label: "
                f"here {first_few(index)}, elsewhere {first_few(others[0])}."
            )
