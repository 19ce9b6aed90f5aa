"""Text files: how one is written, found from its first lines, and its cells as texts."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ..data.markers import MISSING
from ..data.wording import counted, first_few
from .formats import STREAM, TEXTS, FileError, ending_of

logger = logging.getLogger("sshiba")

HEAD, LINES = 2**16, 3  # bytes, and lines at least, that tell how a file is written
MOST_HEAD = 2**26  # bytes, where lines are so long
BLOCK = 2**24
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
FALLBACK = "cp1252"  # of text that is not UTF-8: Western Windows, which has all of latin-1's letters
SIGNATURES = {  # of files that are no text, whatever their ending says
    b"PK\x03\x04": "no text but a zip archive, as workbooks are: if it is one, name it .xlsx",
    b"\xd0\xcf\x11\xe0": "no text but an old workbook: save it as .xlsx",
    b"\x89PNG": "no text but a picture (PNG)",
    b"\xff\xd8\xff": "no text but a picture (JPEG)",
    b"%PDF": "no table but a PDF",
    b"\x1f\x8b": "packed by gzip: name it .csv.gz",
    b"PAR1": "no text but Parquet: name it .parquet",
    b"\x89HDF": "no text but HDF5: name it .h5",
}
SAYS_SEPARATOR = re.compile(r'^"?sep=(.)"?\r?\n', re.IGNORECASE)
TRAILING = "\0after the last separator"
Cell = tuple[str, bool]  # its text, and whether it is in quotes


@dataclass(frozen=True)
class Quotes:
    """Which cells are in quotes, besides those that need them."""

    header: bool = False  # the names of the columns?
    cells: bool = False  # those of columns that are not `plain`?
    plain: frozenset[str] = frozenset()  # columns without quotes, as R writes numbers
    bare: frozenset[str] = frozenset({"NA"})  # texts without quotes in any column, as R writes what is missing

    @classmethod
    def of(cls, head: str, separator: str, names: Sequence[str], header: bool) -> Quotes:
        """As the first lines have them; `names` are those of the columns, with that of the names of the rows."""
        rows = list(_cells_of_lines(head, separator))
        needed = _needing(separator)
        named = header and _are_quoted(rows[0], needed)
        columns = dict(zip(names, zip(*(row for row in rows[int(header) :] if len(row) == len(names)))))
        quoted = [cells for cells in columns.values() if _are_quoted(cells, needed)]
        plain = frozenset(name for name, cells in columns.items() if _has_bare(cells))
        texts = {cell for cells in quoted for cell in cells}
        bare = {text for text, in_quotes in texts if not in_quotes} | ({"NA"} - {text for text, _ in texts})
        return cls(named or (not header and bool(quoted)), named or bool(quoted), plain, frozenset(bare))

    @classmethod
    def joined(cls, parts: Sequence[Quotes]) -> Quotes:
        """Those of several files side by side."""
        plain, bare = (frozenset().union(*(getattr(part, name) for part in parts)) for name in ("plain", "bare"))
        return cls(parts[0].header, any(part.cells for part in parts), plain, bare)

    def around_names(self, names: Iterable[str], separator: str) -> list[str]:
        """The names of the columns as they are written."""
        needed = _needing(separator)
        return [_in_quotes(name) if self.header or needed(name) else name for name in names]

    def around_cells(self, texts: Iterable[str], separator: str, name: str, are_numbers: bool) -> list[str]:
        """The cells of a column as they are written; numbers are in quotes where all that the file had are."""
        needed = _needing(separator)
        here = self.cells and (not self.plain if are_numbers else name not in self.plain)
        return [_in_quotes(text) if needed(text) or (here and text not in self.bare) else text for text in texts]


@dataclass(frozen=True)
class Dialect:
    """How a text file is written; what comes back is written alike."""

    separator: str = ","
    ending: str = ".csv"  # of its name
    encoding: str = "utf-8"
    line_end: str = "\n"
    decimal: str = "."
    short_header: bool = False  # as R writes it: no name above the names of the rows
    header: bool = True  # does it begin with the names of its columns?
    says_separator: bool = False  # does it begin with a line such as sep=; as Excel knows it?
    day_first: bool | None = None  # of its dates: do days come before months? None: it has none, or they do not tell
    quotes: Quotes = Quotes()


@dataclass(frozen=True)
class TextFile:
    """A text file, or all of standard input, and how it is written."""

    path: str
    content: bytes | None  # of standard input
    dialect: Dialect
    names: tuple[str, ...]  # of the columns; "" where the first has none

    @classmethod
    def open(
        cls,
        path: str,
        separator: str | None,
        encoding: str | None,
        usual: Dialect | None = None,
        header: bool = True,
    ) -> TextFile:
        """Look at the first lines; `usual` helps where they leave something open."""
        content = sys.stdin.buffer.read() if path == STREAM else None
        _refuse_other_formats(path, _head(path, content))
        encoding = _encoding(path, content, encoding, usual)
        head = _head(path, content).decode(encoding, errors="ignore").lstrip("\ufeff")
        if not head.strip():
            raise FileError(f"{path!r} is empty.")
        line_end = "\r\n" if "\r\n" in head else "\n" if "\n" in head or "\r" not in head else "\r"
        said = SAYS_SEPARATOR.match(head)
        if said is not None:
            head, separator = head[said.end() :], separator or said[1]
        separator = _separator(head, path, separator, usual)
        rows = _rows(head, separator)
        ending = ending_of(path, TEXTS).removesuffix(".gz")
        found = Dialect(separator, ending, encoding, line_end, header=header, says_separator=said is not None)
        if not header:
            width = max(len(row) for row in rows)
            names = [f"column {number}" for number in range(1, width + 1)]
            return cls(path, content, replace(found, quotes=Quotes.of(head, separator, names, header)), tuple(names))
        _check_first_line(rows, path)
        names, widths = rows[0], {len(row) for row in rows[1:]}
        longer = widths == {len(names) + 1}
        trailing = longer and all(row[-1] == "" for row in rows[1:])
        short_header = longer and not trailing
        names = ["", *names] if short_header else [*names, TRAILING] if trailing else names
        quotes = Quotes.of(head, separator, names, header)
        return cls(path, content, replace(found, short_header=short_header, quotes=quotes), tuple(names))

    def texts(self, chunk_rows: int | None = None) -> Iterator[pd.DataFrame]:
        """All cells as text, so many rows at a time where that is asked for."""
        source: Any = self.path if self.content is None else io.BytesIO(self.content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)  # cells would be lost
                read: Any = pd.read_csv(
                    source,
                    sep=self.dialect.separator,
                    encoding=self.dialect.encoding,
                    dtype=str,
                    keep_default_na=False,
                    names=list(self.names),
                    header=0 if self.dialect.header else None,
                    skiprows=int(self.dialect.says_separator),
                    index_col=False,
                    chunksize=chunk_rows,
                )
                for part in [read] if chunk_rows is None else read:
                    yield self._whole(part.fillna(""))
        except pd.errors.EmptyDataError:
            raise FileError(f"{self.path!r} is empty.") from None
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            how = str(error).split("C error: ")[-1].strip()
            self._refuse("some are longer than the first" if "index_col" in how else how)

    def _whole(self, part: pd.DataFrame) -> pd.DataFrame:
        if TRAILING not in part:
            return part
        if (part[TRAILING] != "").any():
            self._refuse("some have one cell more than the first")
        return part.drop(columns=TRAILING)

    def _refuse(self, how: str) -> None:
        words = f"{self.path!r} has lines of different lengths ({how})"
        raise FileError(f"{words}: mend them, quote their text, or name the separator with --sep.") from None


def _refuse_other_formats(path: str, head: bytes) -> None:
    for signature, what in SIGNATURES.items():
        if head.startswith(signature):
            raise FileError(f"{path!r} is {what}.")


def _opened(path: str) -> IO[bytes]:
    return gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _head(path: str, content: bytes | None) -> bytes:
    """The first lines, none of them cut off; where there is no end of a line some of it."""
    with io.BytesIO(content) if content is not None else _opened(path) as file:
        head = file.read(HEAD + 1)
        while HEAD < len(head) <= MOST_HEAD and head.count(b"\n") < LINES:
            more = file.read(len(head))
            if not more:
                return head
            head += more
    return head if len(head) <= HEAD else head[: head.rfind(b"\n") + 1] or head[: HEAD + 1]


def _encoding(path: str, content: bytes | None, asked: str | None, usual: Dialect | None) -> str:
    """The one that is asked for, that of a byte-order mark, UTF-8, or what else can be read."""
    start = _head(path, content)[:4]
    marked = next((name for mark, name in MARKS.items() if start.startswith(mark)), None)
    if asked is not None:
        try:
            codecs.lookup(asked)
        except LookupError:
            raise FileError(f"there is no encoding {asked!r}: --encoding takes utf-8, latin-1, cp1252 ...") from None
        if not _is_written_in(asked, path, content):
            raise FileError(f"{path!r} is not written in {asked}: name its encoding, such as --encoding latin-1.")
        return "utf-8-sig" if marked == "utf-8-sig" and codecs.lookup(asked).name == "utf-8" else asked
    if marked is not None:
        return marked
    if _is_written_in("utf-8", path, content):
        return "utf-8"
    if usual is not None and _is_written_in(usual.encoding, path, content):
        return usual.encoding
    found = FALLBACK if _is_written_in(FALLBACK, path, content) else "latin-1"
    logger.warning("%r is not UTF-8, read as %s; --encoding names another.", path, found)
    return found


def _is_written_in(encoding: str, path: str, content: bytes | None) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with io.BytesIO(content) if content is not None else _opened(path) as file:
            for block in iter(lambda: file.read(BLOCK), b""):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _separator(head: str, path: str, asked: str | None, usual: Dialect | None) -> str:
    """The one that is asked for; a .tsv file has tabs; else one by which the first lines have as many cells each."""
    if asked is not None:
        separator = {"tab": "\t", "\\t": "\t", "space": " "}.get(asked, asked)
        if len(separator) != 1:
            raise FileError(f"--sep {asked!r}: a separator is one character, or 'tab' or 'space'.")
        return separator
    if path.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    line = head.splitlines()[0]
    often = sorted(",;\t| ", key=lambda mark: -line.count(mark))
    if usual is not None and usual.separator in line:
        often.insert(0, usual.separator)
    for mark in often:
        rows = _rows(head, mark)
        widths = {len(row) for row in rows[1:]}
        if len(widths) == 1 and widths <= {len(rows[0]), len(rows[0]) + 1} and widths != {1}:
            return mark
    below = [mark for mark in ",;\t" if len({len(row) for row in _rows(head, mark)[1:]} - {1}) == 1]
    return below[0] if below else max(",;\t", key=line.count)


def _rows(head: str, separator: str) -> list[list[str]]:
    """The first lines as cells; blank lines are none."""
    usual = csv.field_size_limit(max(len(head), 1))  # by another separator a line is one cell, however long
    try:
        return [row for row in csv.reader(io.StringIO(head, newline=""), delimiter=separator) if row][:100]
    finally:
        csv.field_size_limit(usual)


def _cells_of_lines(head: str, separator: str) -> Iterable[list[Cell]]:
    """The cells of each line."""
    mark = re.escape(separator)
    row: list[Cell] = []
    for found in re.finditer(rf'(?:"((?:[^"]|"")*)"|([^{mark}"\r\n][^{mark}\r\n]*)|)({mark}|\r\n?|\n|\Z)', head):
        in_quotes, plain, after = found.groups()
        row.append((plain or "", False) if in_quotes is None else (in_quotes.replace('""', '"'), True))
        if after != separator:
            if row != [("", False)]:
                yield row
            row = []


def _needing(separator: str) -> Callable[[str], bool]:
    search = re.compile(rf'[{re.escape(separator)}"\r\n]').search
    return lambda text: search(text) is not None


def _in_quotes(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _has_bare(cells: Iterable[Cell]) -> bool:
    return any(not in_quotes and text not in MISSING for text, in_quotes in cells)


def _are_quoted(cells: Sequence[Cell], needed: Callable[[str], bool]) -> bool:
    """Are all in quotes but those that are missing, and some of them without need?"""
    return not _has_bare(cells) and any(in_quotes and not needed(text) for text, in_quotes in cells)


def _check_first_line(rows: list[list[str]], path: str) -> None:
    """The first line is to name the columns: no title, no comment, and no row."""
    names = rows[0]
    refuse_title(names, [len(row) for row in rows[1:]], path)
    told = "say --no-header if its first line is a row"
    like_row = _look_like_row(names)
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        words = f"{path!r} has several columns of the name {first_few(twice)}: rename them"
        raise FileError(f"{words}, or {told}." if like_row else f"{words}.")
    if like_row:
        logger.warning("%r has columns of the names %s: %s.", path, first_few(names), told)


def refuse_title(names: Sequence[str], below: Sequence[int], path: str) -> None:
    """A first line that has far fewer cells than most of those below, which have so many, is no line of names."""
    usual = Counter(below).most_common(1)[0][0] if below else len(names)
    if not names and usual > 1:
        raise FileError(f"{path!r}: its first line is empty, those below have {counted(usual, 'cell')}: remove it.")
    if len(names) < usual - 1:
        cells = f"{counted(len(names), 'cell')}, those below have {usual}"
        raise FileError(f"{path!r}: its first line, {' '.join(names)!r}, has {cells}: remove it if it is a title.")


def _look_like_row(names: list[str]) -> bool:
    """Are most of these names numbers, and not at equal distances as years are, or as columns are numbered?"""
    cells = [name.strip() for name in names if name.strip()]
    numbers = pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").dropna()
    if 2 * len(numbers) <= len(cells):
        return False
    steps = numbers.diff().dropna()
    return len(numbers) == 1 or steps.nunique() > 1 or bool((steps <= 0).any())


def file_size(path: str) -> int:
    """About how many bytes of text a file holds."""
    return Path(path).stat().st_size * (5 if path.lower().endswith(".gz") else 1)
