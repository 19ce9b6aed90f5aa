"""Tables from files: what their cells mean."""

from __future__ import annotations

import logging
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from ..data.dates import date_columns, date_orders, features_of_dates
from ..data.markers import Markers, added, is_text, tell_markers, without_markers
from ..data.mixed_cells import BEYOND_LIMIT
from ..data.source_formats import parquet_source
from ..data.spellings import normalise_labels
from ..data.wording import counted, did_you_mean, first_few, quoted, the_one
from .file_table import FileTable
from .formats import ARRAYS, NO_NAME, STREAM, TEXTS, FileError, ending_of, needing
from .joining import side_by_side, tell_repeated
from .number_marks import AmbiguousMarksError, NumberColumn, NumberFormat, read_numbers
from .reading_options import LearnedReading, Reading, said_of
from .text_files import Dialect, TextFile, refuse_title
from .view_files import read_views

logger = logging.getLogger("sshiba")

HEAD_ROWS = 100  # of a sheet, that tell whether the first is a title
MOST = 10  # columns of which it is said how many cells are missing by --missing


# ------------------------------------------------------------------------------------------------------ reading


def read(path: str, how: Reading, learned: LearnedReading | None = None) -> Any:
    """A FileTable, or views (.npz, .h5mu, .h5ad)."""
    return read_together([path], how, learned)


def read_together(paths: Sequence[str], how: Reading, learned: LearnedReading | None = None) -> Any:
    """One table from several files, side by side: rows by name where they have names, else by place."""
    raw = [_read_raw(path, how, learned) for path in paths]
    if len(raw) == 1 and not isinstance(raw[0], RawTable):
        return raw[0]
    if not all(isinstance(part, RawTable) for part in raw):
        raise FileError("several files must all be tables: .csv, .tsv, .parquet, .feather or .xlsx.")
    dropped = columns_to_drop(how.drop, [name for part in raw for name in part.frame], paths)
    parts = [make_table(part, how, learned, dropped) for part in raw]
    tell_taken(added(part.taken for part in parts), [name for part in raw for name in part.frame], how)
    if len(parts) > 1:
        return side_by_side(parts, paths)
    tell_repeated(parts[0].values.index)
    return parts[0]


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table before its cells mean anything."""

    path: str
    frame: pd.DataFrame
    dialect: Dialect | None
    sheet: str | None = None


def _read_raw(path: str, how: Reading, learned: LearnedReading | None) -> Any:
    ending = ending_of(path)
    with readable(path, ending):
        if ending in TEXTS:
            file = open_text(path, how, learned)
            return RawTable(path, next(file.texts()), file.dialect)
        if ending == ".parquet":
            return RawTable(path, needing("parquet", lambda: _read_parquet(path)), None)
        if ending == ".feather":
            return RawTable(path, needing("parquet", lambda: _read_feather(path)), None)
        if ending == ".xlsx":
            return needing("excel", lambda: _read_workbook(path, how, learned))
        return read_views(path, ending)


@contextmanager
def readable(path: str, ending: str) -> Iterator[None]:
    """What is wrong with a file, in one sentence."""
    try:
        if path != STREAM and not Path(path).exists():
            raise FileNotFoundError
        yield
    except FileNotFoundError:
        named = "=" in path and Path(path.partition("=")[2]).exists()
        advice = f"; NAME=FILE is for arrays ({', '.join(ARRAYS)}), views of tables are named with --view"
        raise FileError(f"there is no file {path!r}{advice if named else ''}.") from None
    except PermissionError:
        raise FileError(f"{path!r} may not be read.") from None
    except IsADirectoryError:
        raise FileError(f"{path!r} is a folder; give a file.") from None
    except FileError:
        raise
    except MemoryError as error:  # also of a forged size
        raise FileError(f"{path!r} cannot be read: it is damaged, or needs more memory than there is.") from error
    except (ValueError, OSError, EOFError, KeyError, BadZipFile, zlib.error, TokenError) as error:
        raise FileError(f"{path!r} cannot be read: it is no {ending} file, or is damaged.") from error


def _read_feather(path: str) -> pd.DataFrame:
    """Arrow takes the sizes in such a file as they are; where they are wrong, it would end later, in any way."""
    from pyarrow import feather

    feather.read_table(path).validate(full=True)
    return pd.read_feather(path)


def _read_parquet(path: str) -> pd.DataFrame:
    """A file, or all files of a folder, one below the other."""
    if not Path(path).is_dir():
        return pd.read_parquet(path)
    source = parquet_source(Path(path), Path(path).stem)
    return source.read(0, source.n_rows)


def _read_workbook(path: str, how: Reading, learned: LearnedReading | None) -> RawTable:
    """One sheet: that which is named, now or for the model, or the first."""
    with pd.ExcelFile(path) as book:
        sheets = [str(name) for name in book.sheet_names]
        if how.sheet is not None and how.sheet not in sheets:
            has = f"it has {first_few(sheets, 10)}.{did_you_mean([how.sheet], sheets)}"
            raise FileError(f"--sheet: {path!r} has no sheet {how.sheet!r}; {has}")
        earlier = learned.how.sheet if learned is not None else None
        sheet = how.sheet or (earlier if earlier in sheets else None)
        if sheet is None and len(sheets) > 1:
            words = "%r has %d sheets, and the first, %r, is read; --sheet names another: %s."
            logger.warning(words, path, len(sheets), sheets[0], first_few(sheets[1:], 10))
        sheet = sheet or sheets[0]
        cells = book.parse(sheet, keep_default_na=False, na_values=[""], dtype=object)  # a text stays one, such as 007
        _check_first_row(cells, path)
        return RawTable(path, cells.infer_objects(), None, sheet)


def _check_first_row(cells: pd.DataFrame, path: str) -> None:
    """The first row of a sheet is to name the columns; pandas calls those without a name Unnamed."""
    names = [str(name) for name in cells if not str(name).startswith(NO_NAME.removesuffix("0"))]
    widths = cells.head(HEAD_ROWS).notna().sum(axis=1)
    refuse_title(names, widths[widths > 0].tolist(), path)


def open_text(path: str, how: Reading, learned: LearnedReading | None) -> TextFile:
    usual = learned.dialect if learned is not None else None
    no_header = how.no_header or (learned is not None and learned.how.no_header)
    return TextFile.open(path, how.separator, how.encoding, usual, not no_header)


def columns_to_drop(asked: Sequence[str], columns: Sequence[Any], paths: Sequence[str]) -> set[Any]:
    """The columns that are named, one by one or with commas between them."""
    by_text = {str(name): name for name in columns}
    names = [name for text in asked for name in ([text] if text in by_text else _split(text, by_text))]
    unknown = [name for name in names if name not in by_text]
    if unknown:
        where = repr(paths[0]) if len(paths) == 1 else "none of the files"
        has = "has no column" if len(paths) == 1 else "has a column"
        known = f"the columns are {first_few(columns, 10)}.{did_you_mean(unknown, columns)}"
        raise FileError(f"--drop: {where} {has} {first_few(unknown)}; {known}")
    return {by_text[name] for name in names}


def _split(text: str, known: Collection[str]) -> list[str]:
    """Names with commas between them, without the blanks around them unless a column has these."""
    return [part if part in known else part.strip() for part in text.split(",")]


def make_table(raw: RawTable, how: Reading, learned: LearnedReading | None, dropped: set[Any]) -> FileTable:
    """Rows named, cells understood."""
    if learned is not None:
        names = {str(name) for name in raw.frame}
        earlier = {part for text in learned.how.drop for part in (text, *_split(text, names))}
        dropped = dropped | {name for name in raw.frame if str(name) in earlier}
        how, learned = joined(how, learned.how), learned.spelled_as_in(raw.frame)
    name_column = _name_column(raw, how, learned)
    frame = raw.frame
    if name_column is not None:
        names = frame[name_column] if raw.dialect is None else frame[name_column].str.strip()
        _refuse_unnamed(raw, names)
        frame = frame.drop(columns=name_column)
        frame.index = pd.Index(names, name=name_column if name_column not in ("", NO_NAME) else None)
    if len(frame) == 0 or frame.shape[1] == 0:
        raise FileError(f"{raw.path!r} has no {'rows' if len(frame) == 0 else 'columns'}.")
    frame = frame.drop(columns=[name for name in frame if name in dropped or _is_no_measurement(raw, name)])
    levels = learned.levels if learned is not None else {}
    formats: dict[Any, NumberFormat] = {}
    if raw.dialect is None:
        (values, taken), dialect = _meant(frame, raw, how, learned), None
        values = values.copy(deep=False)
        for name, known in levels.items():
            if known and name in values:
                values[name] = _known_labels(values[name], known)
        whole = frozenset(_whole_columns(values))
    else:
        values, formats, decimal, taken = _understood(frame, raw, how, learned)
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
    return FileTable(raw.frame, values, name_column, dialect, formats, whole, raw.sheet, taken)


def _refuse_unnamed(raw: RawTable, names: pd.Series) -> None:
    """Rows without a name: how many, and where the first are, counted from the first row below the header."""
    unnamed = np.flatnonzero((names.astype(str).str.strip() == "") | names.isna())
    if len(unnamed):
        index = raw.frame.index  # of a part of a file it goes on from the part before
        places = unnamed + 1 + (index.start if isinstance(index, pd.RangeIndex) else 0)
        whose = f"{counted(len(unnamed), 'row has', 'rows have')} no name in {names.name or 'the first column'!r}"
        below = f"{'row' if len(places) == 1 else 'rows'} {first_few(places)} below the header"
        raise FileError(f"{raw.path!r}: {whose}: {below}. Name or remove {'it' if len(places) == 1 else 'them'}.")


def joined(how: Reading, learned: Reading) -> Reading:
    """What is said now, and what was said for the model where nothing is said now."""
    return replace(
        how,
        missing=(*how.missing, *learned.missing),
        not_missing=(*how.not_missing, *learned.not_missing),
        normalise_labels=how.normalise_labels or learned.normalise_labels,
        dates=how.dates or learned.dates,
    )


def _name_column(raw: RawTable, how: Reading, learned: LearnedReading | None) -> Any:
    """Where the names of the rows are: as said now, as for the model, or a first column without a name."""
    by_text = {str(name): name for name in raw.frame}
    if how.index is not None:
        if how.index == raw.frame.index.name:
            return None  # they are
        if how.index not in by_text:
            has = f"it has {first_few(raw.frame, 10)}.{did_you_mean([how.index], raw.frame)}"
            raise FileError(f"--index: {raw.path!r} has no column {how.index!r}; {has}")
        return by_text[how.index]
    if learned is not None and learned.how.index in by_text:
        return by_text[str(learned.how.index)]
    return raw.frame.columns[0] if _first_names_rows(raw) else None


def _first_names_rows(raw: RawTable) -> bool:
    """Is the first column one without a name, as R and pandas write the names of rows?"""
    return raw.frame.shape[1] > 1 and raw.frame.columns[0] in ("", NO_NAME)


def _is_no_measurement(raw: RawTable, name: Any) -> bool:
    """A column without a name that is empty, or holds names of rows where others were asked for."""
    unnamed = str(name) == "" and raw.dialect is not None and bool((raw.frame[name] == "").all())
    return unnamed or (_first_names_rows(raw) and name == raw.frame.columns[0])


def _whole_columns(values: pd.DataFrame) -> Iterator[Any]:
    """Columns of whole numbers; those of floats, which may be many, are looked at together."""
    is_float = np.array([isinstance(dtype, np.dtype) and dtype.kind == "f" for dtype in values.dtypes], dtype=bool)
    cells = values.iloc[:, np.flatnonzero(is_float)].to_numpy()
    seen = ~np.isnan(cells) if cells.size else np.zeros(cells.shape, dtype=bool)
    yield from values.columns[is_float][((cells == cells.round()) | ~seen).all(axis=0) & seen.any(axis=0)]
    yield from (name for name in values.columns[~is_float] if _is_whole(values[name]))


def _is_whole(column: pd.Series) -> bool:
    """Whole numbers by their dtype, or by their values: holes make floats of them."""
    if pd.api.types.is_integer_dtype(column.dtype):
        return True
    seen = column.dropna()
    return pd.api.types.is_float_dtype(column.dtype) and len(seen) > 0 and bool((seen == seen.round()).all())


def _meant(
    frame: pd.DataFrame, raw: RawTable, how: Reading, learned: LearnedReading | None
) -> tuple[pd.DataFrame, dict[Any, Markers]]:
    """A table that has numbers of its own: markers that are named are missing; and which were found."""
    meanings = how.meanings(frame, {} if learned is None else learned.levels)
    frame, taken = without_markers(frame, meanings)
    for place, (name, dtype) in enumerate(zip(frame, frame.dtypes)):
        if how.not_missing and is_text(dtype):
            frame.isetitem(place, _labels(frame.iloc[:, place], meanings.labels.of(name)).array)
    if raw.sheet is not None:
        frame = _texts_as_numbers(frame, raw.path, how, learned)
    frame, found = frame.copy(deep=False), [taken]
    for place, name in enumerate(frame):
        cells, own = _without_numbers(frame.iloc[:, place], meanings.named(name))
        if own.texts:
            frame.isetitem(place, cells.array)
            found.append({name: own})
    return frame, added(found)


def _texts_as_numbers(frame: pd.DataFrame, path: str, how: Reading, learned: LearnedReading | None) -> pd.DataFrame:
    """A sheet in which numbers are in place of the texts of columns whose texts are all numbers."""
    texts = {}
    for name, column in frame.reset_index(drop=True).items():
        if is_text(column.dtype):
            texts[name] = column[np.fromiter((isinstance(cell, str) for cell in column), bool, len(column))]
    usual = None if learned is None else learned.how.decimal_mark
    read, _ = _read_numbers(texts, path, ",", usual, how, learned)
    found = frame.copy(deep=False) if read else frame
    for name, (numbers, how_written) in read.items():
        cells = frame[name].astype(object).reset_index(drop=True)
        if how_written.unit and len(numbers) < cells.notna().sum():
            continue  # of the other numbers nobody knows the unit: 31 % beside 0.31
        cells[numbers.index] = numbers
        found[name] = cells.where(cells.notna(), np.nan).infer_objects().array
    return found


def _without_numbers(cells: pd.Series, named: frozenset[str]) -> tuple[pd.Series, Markers]:
    """Cells without the numbers that mean missing, and what these were."""
    numbers = _numbers_among(named)
    if not numbers:
        return cells, Markers(Counter(), False)
    are_named = cells.isin(list(numbers))
    texts = Counter(numbers[float(number)] for number in cells[are_named])
    return cells.mask(are_named), Markers(texts, False, texts)


@lru_cache
def _numbers_among(named: frozenset[str]) -> dict[float, str]:
    """Those of texts that are numbers."""
    numbers = pd.to_numeric(pd.Series({text: text for text in named}, dtype=object), errors="coerce").dropna()
    return {float(number): str(text) for text, number in numbers.items()}


def _understood(
    texts: pd.DataFrame, raw: RawTable, how: Reading, learned: LearnedReading | None
) -> tuple[pd.DataFrame, dict[Any, NumberFormat], str, dict[Any, Markers]]:
    """What the cells of a text file mean: numbers where all of a column are numbers, else text; and their markers."""
    assert raw.dialect is not None
    index, texts = texts.index, texts.reset_index(drop=True)  # names of rows may repeat
    levels = learned.levels if learned is not None else {}
    usual = learned.dialect.decimal if learned is not None and learned.dialect is not None else None
    meanings = how.meanings(texts, levels)
    seen = {name: texts[name].where(~texts[name].str.strip().isin(meanings.markers(name))) for name in texts}
    read, decimal = _read_numbers(seen, raw.path, raw.dialect.separator, usual, how, learned)
    columns, found = {}, []
    for name, column in seen.items():
        if name in read:
            cells = read[name][0].reindex(column.index) if column.isna().any() else read[name][0]
            columns[name], markers = _without_numbers(cells, meanings.named(name))
            found += [{name: markers}] if markers.texts else []
        else:
            own = levels.get(name)
            columns[name] = _known_labels(column, own) if own else _labels(column, meanings.labels.of(name))
    marked = {name: Counter(texts[name][column.isna() & (texts[name] != "")]) for name, column in seen.items()}
    for name, texts_of in marked.items():
        named = Counter({text: n for text, n in texts_of.items() if text.strip() in meanings.named(name)})
        found += [{name: Markers(texts_of, name not in read, named)}] if texts_of else []
    values = pd.DataFrame({place: column.array for place, column in enumerate(columns.values())}, index=index)
    values.columns = texts.columns
    return values, {name: form for name, (_, form) in read.items()}, decimal, added(found)


def _read_numbers(
    seen: Mapping[Any, pd.Series],
    path: str,
    separator: str,
    usual: str | None,
    how: Reading,
    learned: LearnedReading | None,
) -> tuple[dict[Any, tuple[pd.Series, NumberFormat]], str]:
    """The columns of texts that are numbers, how these are written, and the decimal mark."""
    levels = learned.levels if learned is not None else {}
    numbers = {}
    for name, column in seen.items():
        known = column.dropna()
        if len(known) and levels.get(name) is None and (name in levels or not _are_codes(known)):
            found = NumberColumn.of(known)
            if found is not None:
                numbers[name] = found
    try:
        return read_numbers(numbers, how.decimal_mark, separator, usual, learned.ranges if learned is not None else {})
    except AmbiguousMarksError as error:
        listed = "; ".join(f"column {name!r}: {text!r}" for name, text in list(error.examples.items())[:5])
        mark = "," if "," in next(iter(error.examples.values())) else "."
        words = f"{path!r}: is {mark!r} a thousands mark or a decimal mark ({listed})?"
        raise FileError(f"{words} Say --thousands {mark!r} or --decimal {mark!r}.") from None


def tell_taken(taken: Mapping[Any, Markers], columns: Sequence[Any], how: Reading) -> None:
    """What was taken for missing: by markers that are named, how many cells; of the others, which may well be labels,
    only None, since files write NA and null for it. A marker that is named now and in no cell may be misspelt.
    """
    tell_markers(taken, {"None"})
    named = {name: taken[name].named for name in dict.fromkeys(columns) if name in taken and taken[name].named}
    cells = [f"{counted(own.total(), 'cell')} of {quoted(name)}" for name, own in named.items()]
    if cells:
        more = f" and {counted(len(cells) - MOST, 'more column')}" if len(cells) > MOST else ""
        logger.warning("missing by --missing: %s%s", ", ".join(cells[:MOST]), more)
    said = said_of(how.missing, columns)
    asked: list[tuple[Any, str]] = [(None, text) for text in sorted(said.everywhere)]
    asked += [(column, text) for column, texts in said.of_columns.items() for text in sorted(texts)]
    used = {name: {_plain(text) for text in own} for name, own in named.items()}
    idle = [(own, text) for own, text in asked if not any(_plain(text) in used[n] for n in used if own in (None, n))]
    if idle:
        cells = [f"no cell{'' if own is None else f' of {quoted(own)}'} is {quoted(text)}" for own, text in idle]
        meant = did_you_mean([text.partition("=")[0] for own, text in idle if own is None and "=" in text], columns)
        logger.warning("--missing: %s.%s", ", ".join(cells), meant)


def _plain(text: str) -> float | str:
    """The same for texts that say the same number, and for cells beyond a limit with either decimal mark."""
    text = text.strip()
    alike = text.replace(",", ".") if re.match(BEYOND_LIMIT, text) else text
    return next(iter(_numbers_among(frozenset({text}))), alike)


def _labels(column: pd.Series, named: Collection[str]) -> pd.Series:
    """Text; declared categories where texts that are named as labels, though they often mean missing, are among it."""
    labels = column.astype(object).where(column.notna(), None)
    return labels.astype("category") if labels.isin(list(named)).any() else labels


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
