"""Several files as one table: rows by name where they have names, else by place."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.alignment import all_labels
from ..data.one_table import free_name
from ..data.wording import first_few, quoted, the_one
from .file_table import FileTable
from .formats import STREAM, FileError, ending_of
from .text_files import Quotes

logger = logging.getLogger("sshiba")


def side_by_side(parts: Sequence[FileTable], paths: Sequence[str]) -> FileTable:
    """Several tables as one."""
    check_columns(parts)
    named = names_of_all([_row_names(part) for part in parts], [len(part.values) for part in parts], paths) is not None
    texts = all(part.dialect is not None for part in parts)
    if texts and parts[0].dialect is not None:
        parts = [part.with_mark(parts[0].dialect.decimal) for part in parts]
    sides = [_side(part, texts) for part in parts]
    doubtful = set() if named else _columns_that_differ(sides)
    given = pd.concat([side.drop(columns=doubtful & set(side)) for side in sides], axis=1)
    values = pd.concat([part.values for part in parts], axis=1)
    given = given.loc[:, ~given.columns.duplicated()].reindex(values.index)
    formats = {name: form for part in parts for name, form in part.formats.items()}
    whole = frozenset(name for part in parts for name in part.whole)
    files = columns_by_file(paths, [part.values for part in parts])
    if not texts:
        return FileTable(given, values, None, None, {}, whole, files=files)
    name_column = parts[0].name_column
    given = given.fillna("")
    if name_column is not None:
        given.insert(0, name_column, values.index)
    dialects = [part.dialect for part in parts if part.dialect is not None]
    encoding = the_one(each.encoding for each in dialects) or "utf-8"
    day_first = the_one(each.day_first for each in dialects)
    quotes = Quotes.joined([each.quotes for each in dialects])
    dialect = replace(dialects[0], encoding=encoding, day_first=day_first, quotes=quotes)
    return FileTable(given.reset_index(drop=True), values, name_column, dialect, formats, whole, files=files)


def columns_by_file(paths: Sequence[str], columns: Sequence[Iterable[Any]]) -> dict[str, list]:
    """The columns of several files, each of which is called by its name without the ending."""
    found: dict[str, list] = {}
    for path, own in zip(paths, columns):
        name = "input" if path == STREAM else Path(path).name
        stem = name[: -len(ending_of(path))] if name.lower().endswith(ending_of(path)) else name
        found[free_name(stem or name, found)] = list(own)
    return found


def check_columns(parts: Sequence[FileTable]) -> None:
    """No column may be in two files; where one is, it may well name the rows."""
    columns = [column for part in parts for column in part.values]
    twice = sorted({str(column) for column in columns if columns.count(column) > 1})
    if not twice:
        return
    words = f"columns {first_few(twice)} are" if len(twice) > 1 else f"column {twice[0]!r} is"
    words += " in more than one file"
    if all(set(part.values) == set(columns) for part in parts):
        raise FileError(f"{words}: these look like parts of one table, join them into one file first.")
    names = [column for column in parts[0].values if all(_may_name_rows(part, column) for part in parts)]
    advice = "rename them, or leave them out with --drop"
    if names:
        advice = f"if {names[0]!r} names the rows, say --index {names[0]}; else {advice}"
    raise FileError(f"{words}: {advice}.")


def _may_name_rows(part: FileTable, column: Any) -> bool:
    return column in part.values and part.values[column].notna().all() and part.values[column].is_unique


def _row_names(part: FileTable) -> pd.Index | None:
    """None where rows have none."""
    index = part.values.index
    return None if part.name_column is None and isinstance(index, pd.RangeIndex) else index


def names_of_all(names: Sequence[pd.Index | None], n_rows: Sequence[int], paths: Sequence[str]) -> pd.Index | None:
    """The names of the rows of all files, those of the first file first; None where they are matched by place.

    The rows have names in all files or in none; without names there are as many in each.
    """
    known = [own for own in names if own is not None]
    if not known:
        if len(set(n_rows)) > 1:
            words = "name the rows (--index), so that they can be matched."
            raise FileError(f"the files have different numbers of rows: {words}")
        logger.warning("rows of the files are matched by their place; --index matches them by name.")
        return None
    if len(known) < len(names):
        raise FileError("some files name their rows and some do not: name them in all (--index).")
    _check_names(known, paths)
    _check_names_in_common(known, paths)
    return all_labels(known)


def _check_names(names: Sequence[pd.Index], paths: Sequence[str]) -> None:
    """The rows of each file must have names that differ."""
    for path, index in zip(paths, names):
        if not index.is_unique:
            again = first_few(index[index.duplicated()].unique())
            words = "to match several files, names must differ, such as those of another column (--index)"
            raise FileError(f"{path!r}: several rows are named {again}; {words}.")


def tell_repeated(names: pd.Index) -> None:
    """Names that several rows of one file have."""
    if not names.is_unique:
        again = names[names.duplicated()].unique()
        repeats = "names of rows repeat" if names.name is None else f"{quoted(names.name)} repeats"
        verb = "stands" if len(again) == 1 else "stand"
        words = "%s: %s %s for several rows; each row counts as a sample of its own."
        logger.warning(words, repeats, first_few(again, 1), verb)


def _check_names_in_common(names: Sequence[pd.Index], paths: Sequence[str]) -> None:
    """Rows that a file lacks are missing there; the names may be meant to match and do not.

    A file none of whose rows is in another is refused, as such a view is.
    """
    matched = {path: any(own.isin(b).any() for b in names if b is not own) for path, own in zip(paths, names)}
    for (first, a), (second, b) in itertools.combinations(zip(paths, names), 2):
        shared, others = a.isin(b), b[~b.isin(a)]
        forms = {_folded(name): name for name in others}
        alike = [(name, forms[_folded(name)]) for name in a[~shared] if _folded(name) in forms]
        if not alike and 2 * shared.sum() > min(len(a), len(b)):
            continue
        share = f"{shared.sum():,} of {len(a):,} row names are" if shared.any() else "no row name is"
        one, other = alike[0] if alike else (a[~shared][0], others[0])
        words = f"{share} in both {first!r} and {second!r}: {quoted(one)} against {quoted(other)}. Write them alike"
        if not shared.any() and not (matched[first] and matched[second]):
            raise FileError(f"{words}, or name the rows by another column (--index).")
        logger.warning("%s if they are the same rows.", words)


def _folded(name: Any) -> str:
    """The same for names that may well be meant to be the same: 1, 1.0, 001; P1, p1."""
    text = str(name).strip().casefold()
    return str(float(text)) if re.fullmatch(r"\d{1,15}(\.0*)?", text) else text


def _side(part: FileTable, texts: bool) -> pd.DataFrame:
    """The columns of one file, its rows named."""
    side = part.given if texts else part.values
    return side[[name for name in side if not texts or name != part.name_column]].set_axis(part.values.index)


def _columns_that_differ(sides: Sequence[pd.DataFrame]) -> set[Any]:
    """Columns that several files have with different cells, such as names of rows that were left out of the model."""
    columns = [column for side in sides for column in side]
    twice = {column for column in columns if columns.count(column) > 1}
    having = {column: [list(side[column]) for side in sides if column in side] for column in twice}
    return {column for column, cells in having.items() if any(some != cells[0] for some in cells)}
