"""Which columns of a table X are which view: chosen at the fit, found again in new tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.one_table import free_name, split_training
from ..data.types import Real, says_type
from ..data.wording import did_you_mean, first_few

WHOLE = "X"  # the view that an array is


@dataclass(frozen=True)
class ColumnViews:
    """The views of a table, each by the places of its columns; columns without any value are in none."""

    places: dict[str, list[int]]
    types: dict[str, Any]
    series: frozenset[str]  # views of one column that are a Series

    @classmethod
    def of(cls, X: Any, option: Mapping[str, Any] | None, numbers: Real) -> ColumnViews:
        """Arrays are numbers, one view unless `option` says more; frames are split by type, as SSHIBA does.

        `numbers` is the type of views of numbers that the user does not name.

        `option` is view name -> columns, or (columns, type), or a type alone: of an array that of "X", the columns that
        no other view has; of a frame as for SSHIBA. Columns as `ColumnTransformer` takes them: names, places, slices,
        masks, or a function of X.
        """
        if option is not None and not isinstance(option, Mapping):
            raise TypeError(f"views must be a dict of name to columns, not {type(option).__name__}.")
        alone = {name: given for name, given in (option or {}).items() if says_type(given)}
        named = {name: given for name, given in (option or {}).items() if name not in alone}
        if isinstance(X, pd.DataFrame):
            return cls._of_frame(X, named, alone, numbers)
        return cls._of_array(X, named, alone, numbers)

    @classmethod
    def _of_array(cls, X: Any, named: Mapping[str, Any], alone: Mapping[str, Any], numbers: Real) -> ColumnViews:
        frame = pd.DataFrame(np.zeros((1, X.shape[1])))  # of an array the places are the names
        kept = with_values(X)
        wanted = {name: _columns_and_type(given, frame, X, kept) for name, given in named.items()}
        places = {name: columns for name, (columns, _) in wanted.items()}
        types = {name: numbers if view is None else view for name, (_, view) in wanted.items()}
        used = {place for own in places.values() for place in own}
        rest = [place for place in kept if place not in used]
        if rest:
            whole = free_name(WHOLE, places)
            places[whole], types[whole] = rest, alone.get(whole, numbers)
        strange = [name for name in alone if name not in places]
        if strange:
            raise ValueError(
                f"views: {first_few(strange)} has a type and no columns: say {{name: (columns, type)}}. In an array a "
                f"type alone can only be that of {WHOLE!r}, the columns that no other view has."
            )
        return cls(places, types, frozenset())

    @classmethod
    def _of_frame(
        cls, frame: pd.DataFrame, named: Mapping[str, Any], alone: Mapping[str, Any], numbers: Real
    ) -> ColumnViews:
        kept = with_values(frame)
        wanted = {name: _columns_and_type(given, frame, frame, kept) for name, given in named.items()}
        said = {name: columns if view is None else (columns, view) for name, (columns, view) in wanted.items()}
        split = split_training(frame.iloc[:, kept], {**said, **alone})
        names = {name: _column_names(part) for name, part in split.views.items()}
        places = {name: list(map(int, frame.columns.get_indexer(pd.Index(own)))) for name, own in names.items()}
        series = frozenset(name for name, part in split.views.items() if isinstance(part, pd.Series))
        return cls(places, split.types | dict.fromkeys(split.reasons, numbers), series)

    def split(self, X: Any) -> dict[str, Any]:
        """The views of a table of the same columns."""
        return {name: self._part(X, name, places) for name, places in self.places.items()}

    def put(self, parts: Mapping[str, Any], table: Any) -> Any:
        """A copy of a table with the columns of views taken from these parts."""
        out = table.copy()
        for name, places in self.places.items():
            part = parts[name]
            if not isinstance(out, pd.DataFrame):
                out[:, places] = part
                continue
            for j, place in enumerate(places):
                column = part if isinstance(part, pd.Series) else part.iloc[:, j]
                out.isetitem(place, column.array)
        return out

    def _part(self, X: Any, name: str, places: list[int]) -> Any:
        if not isinstance(X, pd.DataFrame):
            return X if len(places) == X.shape[1] else X[:, places]
        return X.iloc[:, places[0]] if name in self.series else X.iloc[:, places]


def with_values(X: Any) -> list[int]:
    """The places of the columns that hold any value; those of a sparse matrix all do."""
    if isinstance(X, pd.DataFrame):
        found = np.asarray(X.notna().any(), dtype=bool)
    elif isinstance(X, np.ndarray):
        found = np.asarray(~np.isnan(X).all(axis=0))
    else:
        found = np.ones(X.shape[1], dtype=bool)
    if not found.any():
        raise ValueError("X has no column with any value.")
    return [int(place) for place in np.flatnonzero(found)]


def _columns_and_type(given: Any, frame: pd.DataFrame, X: Any, kept: Sequence[int]) -> tuple[list[Any], Any]:
    """What the user says of a view: the names of its columns that have any value, and its type or None."""
    columns, view = given if isinstance(given, tuple) and len(given) == 2 and says_type(given[1]) else (given, None)
    columns = columns(X) if callable(columns) else columns
    places = [place for place in column_places(columns, frame.columns) if place in set(kept)]
    return [frame.columns[place] for place in places], view


def column_places(key: Any, columns: pd.Index) -> list[int]:
    """Columns by name, place, slice of either, or mask, as places."""
    every = np.arange(len(columns))
    if isinstance(key, slice):
        by_name = isinstance(key.start, str) or isinstance(key.stop, str)
        return [int(place) for place in every[columns.slice_indexer(key.start, key.stop) if by_name else key]]
    wanted: list[Any] = [key] if isinstance(key, str | int | np.integer) else list(key)
    if wanted and all(isinstance(one, bool | np.bool_) for one in wanted):
        if len(wanted) != len(columns):
            raise ValueError(f"a mask of columns must have {len(columns)} entries, not {len(wanted)}.")
        return [int(place) for place in every[np.asarray(wanted)]]
    if all(isinstance(one, int | np.integer) for one in wanted):
        if any(not -len(columns) <= one < len(columns) for one in wanted):
            raise ValueError(f"X has {len(columns)} columns, and {first_few(wanted)} are not all among them.")
        return [int(every[one]) for one in wanted]
    unknown = [one for one in wanted if one not in columns]
    if unknown:
        raise ValueError(
            f"X has no column {first_few(unknown)}; it has {first_few(columns, 10)}.{did_you_mean(unknown, columns)}"
        )
    return [int(place) for place in columns.get_indexer(pd.Index(wanted))]


def _column_names(part: Any) -> list[Any]:
    return [part.name] if isinstance(part, pd.Series) else list(part.columns)
