"""Arrow: tables and columns of pyarrow as pandas ones, and back."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd

from .frame_library import FrameLibrary, FrameOrSeries, is_unchanged, means_of_whole_numbers

COLUMN = "column"  # the name of a column that is alone, for Arrow's have none


class Arrow(FrameLibrary):
    """pyarrow Table, RecordBatch, ChunkedArray and Array; rows have names where pandas left them in a table."""

    has_row_names = False

    def holds(self, value: Any) -> bool:
        pyarrow = sys.modules.get("pyarrow")
        return pyarrow is not None and isinstance(
            value, pyarrow.Table | pyarrow.RecordBatch | pyarrow.ChunkedArray | pyarrow.Array
        )

    def to_pandas(self, value: Any, name: str) -> FrameOrSeries:
        table = _as_table(value)
        for place, field in enumerate(table.schema):
            if _pyarrow().types.is_decimal(field.type):
                table = table.set_column(place, field.name, table.column(place).cast("float64"))
        with_holes = {column.type for column in table.columns if column.null_count}
        nullable = {kind: dtype for kind, dtype in _nullable().items() if kind in with_holes}
        frame = table.to_pandas(types_mapper=nullable.get, date_as_object=False)
        return frame if _is_table(value) else frame[COLUMN].rename(None)

    def answer(self, table: FrameOrSeries) -> Any:
        if isinstance(table, pd.Series):
            return self.answer(table.to_frame(COLUMN)).column(COLUMN)
        named = not isinstance(table.index, pd.RangeIndex)
        made = _pyarrow().Table.from_pandas(_with_texts(table).rename(columns=str), preserve_index=named)
        return made if named else made.replace_schema_metadata(None)

    def filled(self, table: FrameOrSeries, given: Any, read: Any) -> Any:
        if isinstance(table, pd.Series):
            frames = (table.to_frame(COLUMN), _as_table(given), read.to_frame(COLUMN))
            return self.filled(*frames).column(COLUMN)
        made, original = self.answer(table), _as_table(given)
        for place, name in enumerate(made.column_names):
            if name in read:
                column = _restore(made.column(place), table[name], original.column(name), read[name])
                made = made.set_column(place, name, column)
        return made if made.schema.metadata else made.replace_schema_metadata(original.schema.metadata)


def _with_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers beside texts as texts, too: such as what fills a column of a word that the model does not know."""
    table = table.copy(deep=False)
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        is_text = {isinstance(cell, str) for cell in column.dropna()} if column.dtype.kind == "O" else set()
        if is_text == {True, False}:
            table.isetitem(place, column.map(str, na_action="ignore").to_numpy())
    return table


def _is_table(value: Any) -> bool:
    return hasattr(value, "schema")


def _as_table(value: Any) -> Any:
    pyarrow = _pyarrow()
    if isinstance(value, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([value])
    return value if _is_table(value) else pyarrow.table({COLUMN: value})


def _nullable() -> dict[Any, Any]:
    """The pandas types of whole numbers and truth values with holes."""
    pyarrow = _pyarrow()
    whole = {
        getattr(pyarrow, f"{sign}int{bits}")(): pd.api.types.pandas_dtype(f"{sign.upper()}Int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    return {**whole, pyarrow.bool_(): pd.BooleanDtype()}


def _restore(made: Any, column: pd.Series, given: Any, read: pd.Series) -> Any:
    """The user's own column where nothing changed; else in its type, where that holds the new cells."""
    if is_unchanged(column, read):
        return given
    if means_of_whole_numbers(column, _pyarrow().types.is_integer(given.type)):
        return made
    try:
        return made.cast(given.type)
    except _pyarrow().ArrowException:
        return made


def _pyarrow() -> Any:
    import pyarrow

    return pyarrow
