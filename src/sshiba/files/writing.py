"""Tables into files, by the ending of their names, as the tables that they come from were written."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from .atomic import check_place, replacing
from .formats import NO_NAME, STREAM, TEXTS, FileError, ending_of, needing, separator_of_ending
from .text_files import Dialect


def check_target(path: str, force: bool, endings: Sequence[str] | None = None) -> None:
    """Refuse to overwrite before any work is done."""
    if path == STREAM:
        return
    if endings is not None:
        ending_of(path, endings)
    if Path(path).exists() and not force:
        raise FileError(f"{path!r} exists: choose another name, or --force to overwrite it.")
    check_place(path)


def write(frame: pd.DataFrame | pd.Series, path: str, like: Dialect | None = None, sheet: str | None = None) -> None:
    """By the ending, beside the target and then renamed. Row names are written where they are names.

    Parameters
    ----------
    frame : DataFrame or Series
    path : str
    like : how the data were written from which it comes
    sheet : the name of a workbook's sheet
    """
    table = frame.to_frame() if isinstance(frame, pd.Series) else frame
    table = table.rename(columns=str)
    ending = ending_of(path)
    if ending in TEXTS:
        with growing(path, like) as add:
            add(table)
        return
    named = not isinstance(table.index, pd.RangeIndex)
    with replacing(path) as temporary:
        if ending == ".parquet":
            needing("parquet", lambda: table.to_parquet(temporary, index=named))
        elif ending == ".feather":
            names = table.index.name or NO_NAME  # the format has no names of rows
            needing("parquet", lambda: (table.reset_index(names=names) if named else table).to_feather(temporary))
        elif ending == ".xlsx":
            needing("excel", lambda: table.to_excel(temporary, index=named, sheet_name=sheet or "Sheet1"))
        else:
            raise FileError(f"{path!r}: tables are written as .csv, .tsv, .parquet, .feather or .xlsx.")


def dialect_for(path: str, like: Dialect | None) -> Dialect:
    """How a text file is written: as the data were, with the separator that its ending asks for if it is another."""
    ending = ending_of(path).removesuffix(".gz")
    usual = separator_of_ending(ending)
    if like is None:
        return Dialect(usual)
    as_it_came = path == STREAM or ending in (like.ending, ".txt") or (usual == "," and like.separator not in "\t ")
    return like if as_it_came else replace(like, separator=usual)


@contextmanager
def growing(path: str | None, like: Dialect | None = None) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A function that adds rows to a text file, which appears when all went well; None: they are not wanted."""
    if path is None:
        yield lambda frame: None
        return
    form = dialect_for(path, like)
    if path == STREAM:
        yield _adder(sys.stdout.buffer, form)
        sys.stdout.buffer.flush()
        return
    with replacing(path) as temporary:
        if path.lower().endswith(".gz"):
            with gzip.open(temporary, "wb") as file:
                yield _adder(file, form)
        else:
            with open(temporary, "wb") as file:
                yield _adder(file, form)


def _adder(file: Any, form: Dialect) -> Callable[[pd.DataFrame], None]:
    started = False
    encoding = form.encoding

    def add(frame: pd.DataFrame) -> None:
        nonlocal started, encoding
        frame = frame.rename(columns=str)
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
