"""Files that are written some rows at a time, and appear when all of them are there."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from .atomic import replacing
from .formats import IN_PARTS, STREAM, FileError, ending_of, needing, separator_of_ending
from .text_files import Dialect

Add = Callable[[pd.DataFrame], None]
GROUP_BYTES = 2**24  # of a row group of a Parquet file
spreadsheet_safe: ContextVar[bool] = ContextVar("spreadsheet_safe", default=False)  # are formulas made harmless?
FORMULA = re.compile(r"[=+\-@\t\r](?![\d.,]+(e[+-]?\d+)?\s*%?$)", re.IGNORECASE)  # and no number


@contextmanager
def growing(path: str | None, like: Dialect | None = None) -> Iterator[Add]:
    """A function that adds rows to a table in a file; None: they are not wanted."""
    if path is None:
        yield lambda frame: None
    elif path == STREAM:
        yield _adder(sys.stdout.buffer, dialect_for(path, like))
        sys.stdout.buffer.flush()
    else:
        ending = ending_of(path, IN_PARTS)
        with replacing(path) as temporary:
            if ending == ".parquet":
                with needing("parquet", lambda: ParquetRows(str(temporary))) as rows:
                    yield rows.add
            elif ending == ".npy":
                with open(temporary, "wb") as file, ArrayRows(file) as array:
                    yield lambda frame: array.add(_numbers(frame, path))
            else:
                form = dialect_for(path, like)
                opened: Any = gzip.open if ending.endswith(".gz") else open
                with opened(temporary, "wb") as text:
                    yield _adder(text, form)


def _numbers(frame: pd.DataFrame, path: str) -> np.ndarray:
    """A table as an array, without names."""
    for name, dtype in frame.dtypes.items():
        if not is_numeric_dtype(dtype):
            raise FileError(
                f"{path!r}: labels ({str(name)!r}) cannot be written as .npy: name a .csv or .parquet file."
            )
    array = frame.to_numpy()
    return frame.to_numpy(float, na_value=np.nan) if array.dtype.hasobject else array


# ------------------------------------------------------------------------------------------------- NumPy's .npy


class ArrayRows:
    """An array of .npy, row by row; how many there are is written at the end, in room that its head has for it."""

    def __init__(self, file: Any) -> None:
        self.file, self.n_rows = file, 0
        self.shape: tuple[int, ...] = (0,)
        self.dtype: Any = None

    def add(self, rows: np.ndarray) -> None:
        if self.dtype is None:
            if rows.dtype.hasobject:
                raise FileError("labels of several kinds cannot be written as .npy.")
            self.shape, self.dtype = rows.shape[1:], rows.dtype
            self._write_head()
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).tobytes())
        self.n_rows += len(rows)

    def _write_head(self) -> None:
        described = np.lib.format.dtype_to_descr(self.dtype)
        head = {"descr": described, "fortran_order": False, "shape": (self.n_rows, *self.shape)}
        np.lib.format.write_array_header_1_0(self.file, head)

    def __enter__(self) -> ArrayRows:
        return self

    def __exit__(self, error: Any, *_: Any) -> None:
        if error is None and self.dtype is not None:
            self.file.seek(0)
            self._write_head()


# ----------------------------------------------------------------------------------------------------- Parquet


class ParquetRows:
    """A Parquet file, part by part; the first part tells the types of the columns.

    Parts wait until they are a row group of some size: of each column of each group the writer keeps a kilobyte until
    the end, and readers want few groups, too.
    """

    def __init__(self, where: Any, group_bytes: int = GROUP_BYTES) -> None:
        """`where` is a path, or a file that is open; with `group_bytes` 0 each part is a group of its own."""
        import pyarrow.parquet

        self.arrow, self.where, self.group_bytes = pyarrow, where, group_bytes
        self.writer: Any = None
        self.schema: Any = None
        self.waiting: list[Any] = []

    def add(self, frame: pd.DataFrame) -> None:
        arrow, frame = self.arrow, frame.rename(columns=str)
        named = not isinstance(frame.index, pd.RangeIndex)
        try:
            if self.writer is None:
                self.schema = self._roomy(arrow.Schema.from_pandas(frame, preserve_index=named))
                self.writer = arrow.parquet.ParquetWriter(self.where, self.schema)
            self.waiting.append(arrow.Table.from_pandas(frame, self.schema, preserve_index=named))
            if sum(part.nbytes for part in self.waiting) >= self.group_bytes:
                self._write()
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, KeyError) as error:
            raise FileError(f"{error} (a column whose cells change their kind: name a .csv file instead.)") from error

    def _write(self) -> None:
        """What waits, as one row group."""
        if self.waiting:
            group = self.arrow.concat_tables(self.waiting).unify_dictionaries()
            self.writer.write_table(group, row_group_size=max(len(group), 1))
            self.waiting = []

    def _roomy(self, schema: Any) -> Any:
        """Types that hold later parts as well: text where nothing was seen yet, and any number of labels."""
        arrow = self.arrow
        for place, column in enumerate(schema):
            kind = column.type
            if arrow.types.is_null(kind):
                kind = arrow.string()
            elif arrow.types.is_dictionary(kind):
                values = arrow.string() if arrow.types.is_null(kind.value_type) else kind.value_type
                kind = arrow.dictionary(arrow.int32(), values, kind.ordered)
            schema = schema.set(place, column.with_type(kind))
        return schema

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(self, error: Any, *_: Any) -> None:
        if self.writer is not None:
            try:
                if error is None:
                    self._write()
            finally:
                self.writer.close()


# -------------------------------------------------------------------------------------------------------- text


def dialect_for(path: str, like: Dialect | None) -> Dialect:
    """How a text file is written: as the data were, with the separator that its ending asks for if it is another."""
    ending = ending_of(path).removesuffix(".gz")
    usual = separator_of_ending(ending)
    if like is None:
        return Dialect(usual)
    as_it_came = path == STREAM or ending in (like.ending, ".txt") or (usual == "," and like.separator not in "\t ")
    return like if as_it_came else replace(like, separator=usual)


def _adder(file: Any, form: Dialect) -> Add:
    started = False
    encoding = form.encoding

    def add(frame: pd.DataFrame) -> None:
        nonlocal started, encoding
        frame = frame.rename(columns=str)
        frame = without_formulas(frame) if spreadsheet_safe.get() else frame
        if form.short_header and frame.columns[0] == "":
            frame = frame.set_index("")
        text = (_in_quotes if form.quotes.cells else _plainly)(frame, form, form.header and not started)
        if form.says_separator and not started:
            text = f"sep={form.separator}{form.line_end}{text}"
        try:
            file.write(text.encode(encoding))
        except UnicodeEncodeError as error:
            raise FileError(f"{error.object[error.start]!r} cannot be written in {form.encoding}.") from None
        encoding = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}.get(encoding, encoding)  # one mark at the beginning
        started = True

    return add


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts that a spreadsheet would run, = + - @ and what follows, begin with an apostrophe; numbers stay."""
    frame = frame.rename(columns=_as_text)
    for j, dtype in enumerate(frame.dtypes):
        if not is_numeric_dtype(dtype):
            cells = [_as_text(cell) if isinstance(cell, str) else cell for cell in frame.iloc[:, j]]
            frame.isetitem(j, np.array([*cells, None], dtype=object)[:-1])
    if isinstance(frame.index, pd.RangeIndex):
        return frame
    return frame.rename(index=_as_text).rename_axis(index=None if frame.index.name is None else _as_text)


def _as_text(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def _plainly(frame: pd.DataFrame, form: Dialect, header: bool) -> str:
    """Quotes only around cells that need them."""
    options: dict[str, Any] = {"sep": form.separator, "lineterminator": form.line_end, "decimal": _decimal(form)}
    label: Any = False if _has_short_header(frame, form) else None
    named = not isinstance(frame.index, pd.RangeIndex)
    return str(frame.to_csv(None, index=named, index_label=label, header=header, **options))


def _in_quotes(frame: pd.DataFrame, form: Dialect, header: bool) -> str:
    """Quotes as the data had them."""
    columns = [(str(name), column) for name, column in frame.items()]
    if not isinstance(frame.index, pd.RangeIndex):
        columns.insert(0, (str(frame.index.name or ""), frame.index.to_series()))
    names = [name for name, _ in columns][int(_has_short_header(frame, form)) :]
    lines: list[Sequence[str]] = [form.quotes.around_names(names, form.separator)] if header else []
    written = [
        form.quotes.around_cells(_texts(column, form), form.separator, name, is_numeric_dtype(column.dtype))
        for name, column in columns
    ]
    lines += zip(*written)
    return "".join(form.separator.join(line) + form.line_end for line in lines)


def _has_short_header(frame: pd.DataFrame, form: Dialect) -> bool:
    """As R writes it, unless the names of the rows have a name."""
    return form.short_header and not isinstance(frame.index, pd.RangeIndex) and not frame.index.name


def _decimal(form: Dialect) -> str:
    return "." if form.separator == "," else form.decimal  # a comma between cells and in numbers would need quotes


def _texts(column: pd.Series, form: Dialect) -> list[str]:
    texts = ["" if missing else str(cell) for cell, missing in zip(column, column.isna())]
    return [text.replace(".", _decimal(form)) for text in texts] if is_float_dtype(column.dtype) else texts
