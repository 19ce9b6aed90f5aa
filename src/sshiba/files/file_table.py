"""A table from a file: its cells as they were written, and the same as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from ..data.markers import Markers, is_text, without_markers
from .number_marks import NumberFormat, swapped
from .text_files import Dialect


@dataclass(frozen=True, eq=False)
class FileTable:
    """A table as it is written, cell by cell, and the same as values."""

    given: pd.DataFrame  # all columns in their order; of text files all text
    values: pd.DataFrame  # what the model is to see, rows named
    name_column: Any = None  # of `given`: where the names of the rows are
    dialect: Dialect | None = None  # None: not a text file
    formats: Mapping[Any, NumberFormat] = field(default_factory=dict)
    whole: frozenset = frozenset()  # columns of whole numbers
    sheet: str | None = None  # of a workbook
    taken: Mapping[Any, Markers] = field(default_factory=dict)  # the texts of each column that were taken for missing
    files: Mapping[str, list] = field(default_factory=dict)  # of several files: what each is called -> its columns

    @property
    def own(self) -> pd.DataFrame:
        """The values of the columns that it is written with: not of those that were made of dates."""
        return self.values[[name for name in self.values if name in self.given]]

    def deviations(self, found: pd.DataFrame) -> pd.DataFrame:
        """`found` for all columns that it is written with but the names of the rows; empty where the model has none."""
        return found.reindex(columns=[name for name in self.given if name != self.name_column])

    def gaps_left(self, found: pd.DataFrame) -> dict[Any, int]:
        """How many cells stay empty where `found` fills the others, of each column in which any does."""
        named = [name for name in self.given if name not in (self.name_column, "")]
        aside = without_markers(self.given[[name for name in named if name not in self.values]])[0].isna()
        left = {name: aside[name] if name in aside else self.values[name].isna() & found[name].isna() for name in named}
        return {name: int(cells.sum()) for name, cells in left.items() if cells.any()}

    def filled(self, found: pd.DataFrame) -> tuple[pd.DataFrame, list[Any]]:
        """What was given with its holes filled from `found`, and the columns of whole numbers that were rounded for it.

        What was seen stays to the last character; a value that the column has elsewhere is written as it is there.
        """
        out, rounded = self.given.copy(), []
        for place, name in enumerate(self.given.columns):
            if name not in self.values or name not in found:
                continue
            holes = self.changed(name, found)
            if not holes.any():
                continue
            new = found[name]
            if name in self.whole and (whole := new.astype(float).round()).ne(new.astype(float))[holes].any():
                new = whole
                rounded.append(name)
            cells = self._cells(place, name, new, holes)
            out.isetitem(place, cells)
        return out, rounded

    def with_mark(self, decimal: str) -> FileTable:
        """The same, its numbers written with this decimal mark."""
        given, formats = self.given.copy(deep=False), dict(self.formats)
        for name, how in self.formats.items():
            if how.decimal != decimal:
                given[name], formats[name] = swapped(given[name]), how.swapped
        return replace(self, given=given, formats=formats)

    def changed(self, name: Any, found: pd.DataFrame) -> np.ndarray:
        """The cells of a column that are to be written anew: holes that were filled, and other numbers, (n,) bool."""
        old, new = self.values[name], found[name]
        if all(isinstance(dtype, np.dtype) and dtype.kind == "f" for dtype in (old.dtype, new.dtype)):  # far sooner
            was, now = old.to_numpy(), new.to_numpy()
            return (was != now) & ~np.isnan(now)
        other = old.isna()
        if is_text(old.dtype):  # beside cells such as <0.5 numbers come back as such
            texts = np.fromiter((isinstance(cell, str) for cell in new), bool, len(new))
            measured = pd.to_numeric(old, errors="coerce")
            old, new = (old if texts.all() else old.astype(object).where(texts, measured)), new.astype(object)
        if any(all(is_kind(dtype) for dtype in (old.dtype, new.dtype)) for is_kind in (is_numeric_dtype, is_text)):
            other |= (new != old).fillna(False)
        return (other & new.notna()).to_numpy(dtype=bool)

    def _cells(self, place: int, name: Any, new: pd.Series, holes: np.ndarray) -> Any:
        """A column of `given`, filled; `name` is that of its place."""
        if self.dialect is None:
            dtype = self.given.dtypes.iloc[place]
            if is_text(dtype):  # texts, though they may be numbers
                return new.astype(object).where(holes, self.given.iloc[:, place].array).array
            return new.astype(dtype).array if name in self.whole else new.array
        cells = self.given.iloc[:, place].to_numpy(dtype=object, copy=True)
        known = dict(zip(self.values[name][~holes], cells[~holes]))
        how = self.formats.get(name, NumberFormat())
        cells[holes] = [known.get(value, _written(value, how)) for value in new[holes]]
        return cells


def _written(value: Any, how: NumberFormat) -> str:
    return how.write(float(value)) if isinstance(value, int | float | np.number) else str(value)
