"""Text files: how one is written, found from its first lines, and its cells as texts."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ..data.wording import first_few
from .formats import STREAM, FileError

logger = logging.getLogger("sshiba")

HEAD = 2**16  # bytes that tell how a file is written
BLOCK = 2**24
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
FALLBACK = "cp1252"  # of text that is not UTF-8: Western Windows, which has all of latin-1's letters
TRAILING = "\0after the last separator"


@dataclass(frozen=True)
class Dialect:
    """How a text file is written; what comes back is written alike."""

    separator: str = ","
    encoding: str = "utf-8"
    line_end: str = "\n"
    decimal: str = "."
    short_header: bool = False  # as R writes it: no name above the names of the rows
    day_first: bool | None = None  # of its dates: do days come before months? None: it has none, or they do not tell


@dataclass(frozen=True)
class TextFile:
    """A text file, or all of standard input, and how it is written."""

    path: str
    content: bytes | None  # of standard input
    dialect: Dialect
    names: tuple[str, ...]  # of the columns; "" where the first has none

    @classmethod
    def open(cls, path: str, separator: str | None, encoding: str | None, usual: Dialect | None = None) -> TextFile:
        """Look at the first lines; `usual` helps where they leave something open."""
        content = sys.stdin.buffer.read() if path == STREAM else None
        encoding = _encoding(path, content, encoding, usual)
        head = _head(path, content).decode(encoding, errors="ignore").lstrip("\ufeff")
        if not head.strip():
            raise FileError(f"{path!r} is empty.")
        line_end = "\r\n" if "\r\n" in head else "\n" if "\n" in head or "\r" not in head else "\r"
        separator = _separator(head, path, separator, usual)
        rows = _rows(head, separator)
        names, widths = rows[0], {len(row) for row in rows[1:]}
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise FileError(f"{path!r} has several columns of the name {first_few(twice)}: rename them.")
        longer = widths == {len(names) + 1}
        trailing = longer and all(row[-1] == "" for row in rows[1:])
        short_header = longer and not trailing
        names = ["", *names] if short_header else [*names, TRAILING] if trailing else names
        return cls(path, content, Dialect(separator, encoding, line_end, short_header=short_header), tuple(names))

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
                    header=0,
                    index_col=False,
                    chunksize=chunk_rows,
                )
                for part in [read] if chunk_rows is None else read:
                    yield self._whole(part.fillna(""))
        except pd.errors.EmptyDataError:
            raise FileError(f"{self.path!r} is empty.") from None
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            self._refuse(str(error).split("C error: ")[-1].strip())

    def _whole(self, part: pd.DataFrame) -> pd.DataFrame:
        if TRAILING not in part:
            return part
        if (part[TRAILING] != "").any():
            self._refuse("some have one cell more than the first")
        return part.drop(columns=TRAILING)

    def _refuse(self, how: str) -> None:
        words = f"{self.path!r} has lines of different lengths ({how})"
        raise FileError(f"{words}: mend them, quote their text, or name the separator with --sep.") from None

    def count_rows(self) -> int:
        """Lines, the names of the columns left out."""
        with _opened(self.path) as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b"")) - 1


def _opened(path: str) -> IO[bytes]:
    return gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _head(path: str, content: bytes | None) -> bytes:
    """The first lines, none of them cut off."""
    if content is not None:
        head = content[: HEAD + 1]
    else:
        with _opened(path) as file:
            head = file.read(HEAD + 1)
    return head if len(head) <= HEAD else head[: head.rfind(b"\n") + 1] or head


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
    return max(",;\t", key=line.count)


def _rows(head: str, separator: str) -> list[list[str]]:
    """The first lines as cells; blank lines are none."""
    return [row for row in csv.reader(io.StringIO(head, newline=""), delimiter=separator) if row][:100]


def file_size(path: str) -> int:
    """About how many bytes of text a file holds."""
    return Path(path).stat().st_size * (5 if path.lower().endswith(".gz") else 1)
