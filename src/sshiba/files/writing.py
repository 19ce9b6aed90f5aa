"""Tables into files, by the ending of their names, as the tables that they come from were written."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from .atomic import check_place, replacing
from .formats import NO_NAME, STREAM, TEXTS, FileError, ending_of, needing
from .growing import growing
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
    if ending in (*TEXTS, ".npy"):
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
            book = io.BytesIO()  # a zip that cannot be written to its end says so again when it is let go
            needing("excel", lambda: table.to_excel(book, index=named, sheet_name=sheet or "Sheet1"))
            temporary.write_bytes(book.getvalue())
        else:
            raise FileError(f"{path!r}: tables are written as .csv, .tsv, .parquet, .feather or .xlsx.")
