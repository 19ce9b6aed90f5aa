"""What a library of tables must do to cross the border: be read as pandas, and be made of pandas again."""

from __future__ import annotations

from typing import Any

import pandas as pd

FrameOrSeries = pd.DataFrame | pd.Series


class FrameLibrary:
    """One library of tables; as it stands pandas itself, and arrays, to which nothing is done."""

    has_row_names = True  # are rows of its tables matched by name?

    def holds(self, value: Any) -> bool:
        """Is the value one of its tables? A library that is not imported has none."""
        return isinstance(value, pd.DataFrame | pd.Series)

    def to_pandas(self, value: Any, name: str) -> Any:
        """A table of the user's as a DataFrame or Series, for the view of this name."""
        return value

    def answer(self, table: FrameOrSeries) -> Any:
        """What the model says of rows that came in this library: factors, predictions."""
        return table

    def filled(self, table: FrameOrSeries, given: Any, read: Any) -> Any:
        """What the user gave (and `to_pandas` read), with its holes filled as in `table`."""
        return self.answer(table)

    def deviations(self, table: FrameOrSeries, given: Any) -> Any:
        """The standard deviations of what was filled in."""
        return self.answer(table)


def is_unchanged(column: pd.Series, before: pd.Series) -> bool:
    """Are these the same rows with the same cells?"""
    return column.index.equals(before.index) and column.equals(before)


def means_of_whole_numbers(column: pd.Series, was_whole: bool) -> bool:
    """Did means fill the holes of whole numbers? Then they are none any more."""
    return was_whole and pd.api.types.is_float_dtype(column.dtype)
