"""Tables from files: what their cells mean."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from ..data.dates import date_columns, date_orders, features_of_dates
from ..data.markers import Markers, is_text, tell_markers, without_markers
from ..data.spellings import normalise_labels
from ..data.wording import first_few, the_one
from .file_table import FileTable
from .formats import NO_NAME, STREAM, TEXTS, FileError, ending_of, needing
from .joining import side_by_side
from .number_marks import AmbiguousMarksError, NumberColumn, NumberFormat, read_numbers
from .reading_options import LearnedReading, Reading
from .text_files import Dialect, TextFile, file_size
from .view_files import read_views

logger = logging.getLogger("sshiba")

LONG = 200 * 2**20  # bytes of a text file that is read in parts
PART_ROWS = 20_000


# ------------------------------------------------------------------------------------------------------ reading


def read(path: str, how: Reading, learned: LearnedReading | None = None) -> Any:
    """A FileTable, or views (.npz, .h5mu, .h5ad)."""
    return read_together([path], how, learned)


def read_together(paths: Sequence[str], how: Reading, learned: LearnedReading | None = None) -> Any:
    """One table from several files, side by side: rows by name where they have names, else by place."""
    raw = [_read_raw(path, how, learned) for path in paths]
    if len(raw) == 1 and not isinstance(raw[0], _Raw):
        return raw[0]
    if not all(isinstance(part, _Raw) for part in raw):
        raise FileError("several files must all be tables: .csv, .tsv, .parquet, .feather or .xlsx.")
    dropped = _columns_to_drop(how.drop, [name for part in raw for name in part.frame], paths)
    parts = [_as_table(part, how, learned, dropped) for part in raw]
    return parts[0] if len(parts) == 1 else side_by_side(parts, paths)


@dataclass(frozen=True, eq=False)
class _Raw:
    """A table before its cells mean anything."""

    path: str
    frame: pd.DataFrame
    dialect: Dialect | None
    sheet: str | None = None


def _read_raw(path: str, how: Reading, learned: LearnedReading | None) -> Any:
    ending = ending_of(path)
    try:
        if path != STREAM and not Path(path).exists():
            raise FileNotFoundError
        if ending in TEXTS:
            file = _open_text(path, how, learned)
            return _Raw(path, next(file.texts()), file.dialect)
        if ending == ".parquet":
            return _Raw(path, needing("parquet", lambda: pd.read_parquet(path)), None)
        if ending == ".feather":
            return _Raw(path, needing("parquet", lambda: pd.read_feather(path)), None)
        if ending == ".xlsx":
            return needing("excel", lambda: _read_workbook(path, how, learned))
        return read_views(path, ending)
    except FileNotFoundError:
        raise FileError(f"there is no file {path!r}.") from None
    except PermissionError:
        raise FileError(f"{path!r} may not be read.") from None
    except IsADirectoryError:
        raise FileError(f"{path!r} is a folder; give a file.") from None
    except FileError:
        raise
    except (ValueError, OSError, EOFError, KeyError, BadZipFile) as error:
        raise FileError(f"{path!r} cannot be read: it is no {ending} file, or is damaged.") from error


def _read_workbook(path: str, how: Reading, learned: LearnedReading | None) -> _Raw:
    """One sheet: that which is named, now or for the model, or the first."""
    with pd.ExcelFile(path) as book:
        sheets = [str(name) for name in book.sheet_names]
        if how.sheet is not None and how.sheet not in sheets:
            raise FileError(f"--sheet: {path!r} has no sheet {how.sheet!r}; it has {first_few(sheets, 10)}.")
        earlier = learned.how.sheet if learned is not None else None
        sheet = how.sheet or (earlier if earlier in sheets else None)
        if sheet is None and len(sheets) > 1:
            words = "%r has %d sheets, and the first, %r, is read; --sheet names another: %s."
            logger.warning(words, path, len(sheets), sheets[0], first_few(sheets[1:], 10))
        sheet = sheet or sheets[0]
        return _Raw(path, book.parse(sheet, keep_default_na=False, na_values=[""]), None, sheet)


def _open_text(path: str, how: Reading, learned: LearnedReading | None) -> TextFile:
    usual = learned.dialect if learned is not None else None
    no_header = how.no_header or (learned is not None and learned.how.no_header)
    return TextFile.open(path, how.separator, how.encoding, usual, not no_header)


def _columns_to_drop(asked: Sequence[str], columns: Sequence[Any], paths: Sequence[str]) -> set[Any]:
    """The columns that are named, one by one or with commas between them."""
    by_text = {str(name): name for name in columns}
    names = [part for text in asked for part in ([text] if text in by_text else text.split(","))]
    unknown = [name for name in names if name not in by_text]
    if unknown:
        where = repr(paths[0]) if len(paths) == 1 else "none of the files"
        has = "has no column" if len(paths) == 1 else "has a column"
        raise FileError(f"--drop: {where} {has} {first_few(unknown)}; the columns are {first_few(columns, 10)}.")
    return {by_text[name] for name in names}


def _as_table(raw: _Raw, how: Reading, learned: LearnedReading | None, dropped: set[Any]) -> FileTable:
    """Rows named, cells understood."""
    if learned is not None:
        earlier = {part for text in learned.how.drop for part in (text, *text.split(","))}
        dropped = dropped | {name for name in raw.frame if str(name) in earlier}
        how = _joined(how, learned.how)
    name_column = _name_column(raw, how, learned)
    frame = raw.frame
    if name_column is not None:
        names = frame[name_column] if raw.dialect is None else frame[name_column].str.strip()
        if (names.astype(str).str.strip() == "").any() or names.isna().any():
            raise FileError(f"{raw.path!r}: some rows have no name in {name_column or 'the first column'!r}.")
        frame = frame.drop(columns=name_column)
        frame.index = pd.Index(names, name=name_column if name_column not in ("", NO_NAME) else None)
    if len(frame) == 0 or frame.shape[1] == 0:
        raise FileError(f"{raw.path!r} has no {'rows' if len(frame) == 0 else 'columns'}.")
    frame = frame.drop(columns=[name for name in frame if name in dropped or _is_no_measurement(raw, name)])
    levels = learned.levels if learned is not None else {}
    formats: dict[Any, NumberFormat] = {}
    if raw.dialect is None:
        values, dialect = _meant(frame, how), None
        values = values.copy(deep=False)
        for name, known in levels.items():
            if known is not None and name in values:
                values[name] = _known_labels(values[name], known)
        whole = frozenset(name for name in values if _is_whole(values[name]))
    else:
        values, formats, decimal = _understood(frame, raw, how, learned)
        dialect = replace(raw.dialect, decimal=decimal)
        whole = frozenset(name for name, one in formats.items() if one.whole)
    if how.normalise_labels:
        values = normalise_labels(values, {name: known for name, known in levels.items() if known is not None})
    if how.dates == "leave-out":
        values = values.drop(columns=date_columns(values))
    elif how.dates == "features":
        usual_order = learned.day_first if learned is not None else None
        orders = date_orders(values, date_columns(values), how.day_first, usual_order)
        values = features_of_dates(values, orders)
        if dialect is not None:
            dialect = replace(dialect, day_first=the_one(orders.values()))
    return FileTable(raw.frame, values, name_column, dialect, formats, whole, raw.sheet)


def _joined(how: Reading, learned: Reading) -> Reading:
    """What is said now, and what was said for the model where nothing is said now."""
    return replace(
        how,
        missing=(*how.missing, *learned.missing),
        not_missing=(*how.not_missing, *learned.not_missing),
        normalise_labels=how.normalise_labels or learned.normalise_labels,
        dates=how.dates or learned.dates,
    )


def _name_column(raw: _Raw, how: Reading, learned: LearnedReading | None) -> Any:
    """Where the names of the rows are: as said now, as for the model, or a first column without a name."""
    by_text = {str(name): name for name in raw.frame}
    if how.index is not None:
        if how.index == raw.frame.index.name:
            return None  # they are
        if how.index not in by_text:
            has = f"it has {first_few(raw.frame, 10)}"
            raise FileError(f"--index: {raw.path!r} has no column {how.index!r}; {has}.")
        return by_text[how.index]
    if learned is not None and learned.how.index in by_text:
        return by_text[str(learned.how.index)]
    return raw.frame.columns[0] if _first_names_rows(raw) else None


def _first_names_rows(raw: _Raw) -> bool:
    """Is the first column one without a name, as R and pandas write the names of rows?"""
    return raw.frame.shape[1] > 1 and raw.frame.columns[0] in ("", NO_NAME)


def _is_no_measurement(raw: _Raw, name: Any) -> bool:
    """A column without a name that is empty, or holds names of rows where others were asked for."""
    unnamed = str(name) == "" and raw.dialect is not None and bool((raw.frame[name] == "").all())
    return unnamed or (_first_names_rows(raw) and name == raw.frame.columns[0])


def _is_whole(column: pd.Series) -> bool:
    """Whole numbers by their dtype, or by their values: holes make floats of them."""
    if pd.api.types.is_integer_dtype(column.dtype):
        return True
    seen = column.dropna()
    return pd.api.types.is_float_dtype(column.dtype) and len(seen) > 0 and bool((seen == seen.round()).all())


def _meant(frame: pd.DataFrame, how: Reading) -> pd.DataFrame:
    """A table that has numbers of its own: markers that are named are missing."""
    frame, taken = without_markers(frame, how.markers)
    _tell_markers(taken, how)
    for place, dtype in enumerate(frame.dtypes):
        if how.not_missing and is_text(dtype):
            frame.isetitem(place, _labels(frame.iloc[:, place], how).array)
    numbers = _numbers_among(how.missing)
    return frame.mask(frame.isin(numbers)) if numbers else frame


def _numbers_among(markers: Sequence[str]) -> list[float]:
    return list(pd.to_numeric(pd.Series(list(markers), dtype=object), errors="coerce").dropna())


def _understood(
    texts: pd.DataFrame, raw: _Raw, how: Reading, learned: LearnedReading | None
) -> tuple[pd.DataFrame, dict[Any, NumberFormat], str]:
    """What the cells of a text file mean: numbers where all of a column are numbers, else text."""
    assert raw.dialect is not None
    index, texts = texts.index, texts.reset_index(drop=True)  # names of rows may repeat
    levels = learned.levels if learned is not None else {}
    usual = learned.dialect.decimal if learned is not None and learned.dialect is not None else None
    seen = {name: texts[name].where(~texts[name].str.strip().isin(how.markers)) for name in texts}
    numbers = {}
    for name, column in seen.items():
        known = column.dropna()
        if len(known) and levels.get(name) is None and (name in levels or not _are_codes(known)):
            found = NumberColumn.of(known)
            if found is not None:
                numbers[name] = found
    try:
        ranges = learned.ranges if learned is not None else {}
        read, decimal = read_numbers(numbers, how.decimal_mark, raw.dialect.separator, usual, ranges)
    except AmbiguousMarksError as error:
        listed = "; ".join(f"column {name!r}: {text!r}" for name, text in list(error.examples.items())[:5])
        mark = "," if "," in next(iter(error.examples.values())) else "."
        words = f"{raw.path!r}: is {mark!r} a thousands mark or a decimal mark ({listed})?"
        raise FileError(f"{words} Say --thousands {mark!r} or --decimal {mark!r}.") from None
    columns = {}
    markers_as_numbers = _numbers_among(how.missing)
    for name, column in seen.items():
        if name in read:
            cells = read[name][0].reindex(column.index) if column.isna().any() else read[name][0]
            columns[name] = cells.mask(cells.isin(markers_as_numbers)) if markers_as_numbers else cells
        else:
            own = levels.get(name)
            columns[name] = _labels(column, how) if own is None else _known_labels(column, own)
    taken = {name: Counter(texts[name][column.isna() & (texts[name] != "")]) for name, column in seen.items()}
    _tell_markers({name: Markers(own, name not in read) for name, own in taken.items() if own}, how)
    values = pd.DataFrame({place: column.array for place, column in enumerate(columns.values())}, index=index)
    values.columns = texts.columns
    return values, {name: form for name, (_, form) in read.items()}, decimal


def _tell_markers(taken: Mapping[Any, Markers], how: Reading) -> None:
    """Files write NA and null for missing; only None may well be a label, unless the user named it."""
    tell_markers(taken, {"None"} - set(how.missing))


def _labels(column: pd.Series, how: Reading) -> pd.Series:
    """Text; declared categories where markers are labels."""
    labels = column.astype(object).where(column.notna(), None)
    return labels.astype("category") if labels.isin(list(how.not_missing)).any() else labels


def _known_labels(column: pd.Series, levels: tuple) -> pd.Series:
    """The labels that a model knows, whether a file holds them as text or as numbers; others as they are."""
    by_text = {str(level): level for level in levels}
    by_number = {float(level): level for level in levels if isinstance(level, int | float)}

    def known(cell: Any) -> Any:
        if cell in levels:
            return cell
        return by_text.get(str(cell), by_number.get(float(pd.to_numeric(str(cell), errors="coerce")), cell))

    return pd.Series([None if pd.isna(cell) else known(cell) for cell in column], index=column.index, dtype=object)


def _are_codes(known: pd.Series) -> bool:
    """Numbers with leading zeros, such as 007, are names."""
    return bool(known.str.match(r"^\s*0\d").any())


# --------------------------------------------------------------------------------------------- larger than memory


@dataclass(frozen=True)
class LongTable:
    """A text file too large to hold: its rows come in parts."""

    path: str
    how: Reading

    @classmethod
    def of(cls, paths: Sequence[str], how: Reading) -> LongTable | None:
        """One text file of at least LONG bytes, or None."""
        if len(paths) != 1 or paths[0] == STREAM or ending_of(paths[0]) not in TEXTS or not Path(paths[0]).is_file():
            return None
        return cls(paths[0], how) if file_size(paths[0]) >= LONG else None

    def parts(self, learned: LearnedReading | None = None) -> Iterator[FileTable]:
        """Some rows at a time; rows without names are numbered through. Marks found in one part hold for the next."""
        file = _open_text(self.path, self.how, learned)
        dropped = _columns_to_drop(self.how.drop, file.names, [self.path])
        for texts in file.texts(PART_ROWS):
            part = _as_table(_Raw(self.path, texts, file.dialect), self.how, learned, dropped)
            learned = learned or LearnedReading(Reading(), part.dialect, {})
            yield part

    def count(self) -> int:
        return _open_text(self.path, self.how, None).count_rows()

    def dialect(self) -> Dialect:
        """How the file is written, as its first rows tell."""
        found = next(self.parts()).dialect
        assert found is not None
        return found

    def sample(self, n: int, n_rows: int, seed: int = 0) -> pd.DataFrame:
        """About n rows, some of every part."""
        rng = np.random.default_rng(seed)
        share = n / max(n, n_rows)
        return pd.concat([part.values[rng.random(len(part.values)) < share] for part in self.parts()])
