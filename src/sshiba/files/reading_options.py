"""How files are read: what the user says, and what a model remembers of its own data."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ..data.markers import Meanings, Texts
from ..data.wording import spelled_here
from .formats import FileError
from .number_marks import SWAP, Range
from .text_files import Dialect

END_BEYOND = re.compile(r"[<>≤≥]=?\s*\d[\d.,]*\s*$")
DATES = ("features", "leave-out")


@dataclass(frozen=True)
class Reading:
    """How tables are read; each is an option of the command."""

    index: str | None = None  # column with the names of the rows; a first column without a name is taken by itself
    drop: Sequence[str] = ()  # columns to leave out of the model
    missing: Sequence[str] = ()  # texts that mean missing, besides MISSING, or COLUMN=TEXT
    not_missing: Sequence[str] = ()  # texts that are labels, or COLUMN=TEXT, though they often mean missing
    normalise_labels: bool = False  # make spellings that differ only in case and blanks one
    dates: str | None = None  # "features" or "leave-out"; None: they are refused
    day_first: bool | None = None  # is 03/04/2020 the third of April? None: found in the dates
    no_header: bool = False  # does the first line hold cells, not names of columns?
    sheet: str | None = None  # of a workbook; None: the first
    encoding: str | None = None  # None: found
    separator: str | None = None  # None: found in the first lines
    decimal: str | None = None  # None: found in the numbers
    thousands: str | None = None

    def __post_init__(self) -> None:
        if self.dates is not None and self.dates not in DATES:
            raise FileError(f"--dates is one of {', '.join(DATES)}, not {self.dates!r}.")
        if self.decimal is not None and self.decimal not in (".", ","):
            raise FileError(f"--decimal is a point or a comma, not {self.decimal!r}.")
        if self.decimal is not None and self.decimal == self.thousands:
            raise FileError(f"--decimal and --thousands are both {self.decimal!r}.")

    @property
    def decimal_mark(self) -> str | None:
        """As named, or the other one of the thousands mark that was named."""
        return self.decimal or {",": ".", ".": ","}.get(self.thousands or "")

    def meanings(self, columns: Collection[Any], known: Mapping[Any, Collection[Any] | None]) -> Meanings:
        """What texts mean in a table of these columns; `known` are labels that a model knows."""
        missing, labels = (said_of(_spelled(texts), columns) for texts in (self.missing, self.not_missing))
        learned = {column: set(own) - missing.of(column) for column, own in known.items() if own is not None}
        return Meanings(missing=missing, labels=labels | Texts.among((), learned))


def _spelled(texts: Iterable[str]) -> list[str]:
    """Texts, and cells beyond a limit, such as <0.5 or crp=<0.5, with the other decimal mark, too."""
    return [each for text in texts for each in dict.fromkeys((text, END_BEYOND.sub(_swapped, text)))]


def _swapped(found: re.Match[str]) -> str:
    return found[0].translate(SWAP)


def said_of(texts: Iterable[str], columns: Iterable[Any]) -> Texts:
    """TEXT, which is said of all columns, or COLUMN=TEXT; where there is no such column, all of it is the text."""
    by_text = {str(name): name for name in columns}
    every: set[str] = set()
    of_columns: dict[Any, frozenset[str]] = {}
    for text in texts:
        ends = [place for place, mark in enumerate(text) if mark == "=" and text[:place] in by_text]
        if ends:
            column = by_text[text[: ends[-1]]]
            of_columns[column] = of_columns.get(column, frozenset()) | {text[ends[-1] + 1 :]}
        else:
            every.add(text)
    return Texts(frozenset(every), of_columns)


@dataclass(frozen=True)
class LearnedReading:
    """How the data of a model were read, and what its columns hold: new files are read alike where they allow it."""

    how: Reading
    dialect: Dialect | None
    levels: Mapping[Any, tuple | None]  # column -> its labels; None: no labels
    ranges: Mapping[Any, Range] = field(default_factory=dict)  # column of numbers -> where they are

    @property
    def day_first(self) -> bool | None:
        """Do days come before months in dates? As it was said, or found."""
        found = self.dialect.day_first if self.dialect is not None else None
        return found if self.how.day_first is None else self.how.day_first

    def spelled_as_in(self, columns: Iterable[Any]) -> LearnedReading:
        """The same, its columns spelled as in a file."""
        here = spelled_here(self.levels, columns)
        if not here:
            return self
        levels = {here.get(column, column): own for column, own in self.levels.items()}
        ranges = {here.get(column, column): own for column, own in self.ranges.items()}
        return replace(self, levels=levels, ranges=ranges)

    def to_json(self) -> dict[str, Any]:
        """Plain values; the columns are in the model itself."""
        how = {
            key: list(value) if isinstance(value, tuple | list) else value for key, value in asdict(self.how).items()
        }
        dialect = None if self.dialect is None else asdict(self.dialect)
        if dialect is not None:
            del dialect["quotes"]  # of one file: each has its own
        return {"options": how, "dialect": dialect}

    @classmethod
    def of(
        cls,
        stored: Mapping[str, Any] | None,
        levels: Mapping[Any, tuple | None],
        ranges: Mapping[Any, tuple[float, float]] | None = None,
    ) -> LearnedReading:
        """What `to_json` gave; options that this version does not know are passed over."""
        stored = stored or {}
        known = {each.name for each in fields(Reading)}
        options = {key: value for key, value in stored.get("options", {}).items() if key in known}
        dialect = stored.get("dialect")
        known_ranges = {column: Range(*numbers) for column, numbers in (ranges or {}).items()}
        return cls(Reading(**options), None if dialect is None else Dialect(**dialect), levels, known_ranges)
