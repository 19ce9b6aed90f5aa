"""Numbers as people write them: decimal and thousands marks, currency and percent signs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..data.mixed_cells import SIGN, UNIT
from ..data.wording import the_one

BLANKS = " \u00a0\u202f\u2009"
SIGN_OF_UNIT = r"(?:[$€£¥₹₽₩₺₪฿₫₴₦₱%‰]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|kr|zł|Fr\.?)"
WITH_UNIT = rf"^\s*([+-]?)({SIGN_OF_UNIT}?\s*)([+-]?[\d.,'’{BLANKS}eE+-]*\d[.,]?)(\s*(?:{SIGN_OF_UNIT}|{UNIT})?)\s*$"
# Thousands: groups of three after one to three digits, all with the same mark. Without a reference back to the mark,
# which the regular expressions of Arrow, and so of pandas' strings, do not know.
THOUSANDS_MARK = rf"^[+-]?\d+([,'’{BLANKS}])"
GROUPS = "|".join(rf"(?:{mark}\d{{3}})+" for mark in ",'’" + BLANKS)
NUMBER = rf"^[+-]?(?:[1-9]\d{{0,2}}(?:{GROUPS})(?:\.\d*)?|\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
MARKS_BETWEEN = rf"[,'’{BLANKS}]"  # the digits, where a point is the decimal mark
SWAP = str.maketrans({",": ".", ".": ","})
MARK = r"(?<=\d)[.,]|[.,](?=\d)"  # and not that of a unit such as Fr.
FEWEST_MEASURED = 2  # different numbers beside cells such as <18 and >65, which else are labels
A_FEW = 100  # cells that are tried before all are
NEAR = 10  # deviations from the mean of a column, within which new numbers of it usually are
NEARER = 3  # times nearer one reading of a column must be than the other to be told from it


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written."""

    decimal: str = "."
    thousands: str = ""
    before: str = ""
    after: str = ""
    decimals: int | None = None  # None: as many digits as it takes
    whole: bool = False  # are all of them whole numbers?

    @property
    def unit(self) -> str:
        """What stands before or behind each number."""
        return (self.before + self.after).strip()

    @property
    def swapped(self) -> NumberFormat:
        """With a comma for a point, and a point for a comma."""
        return replace(self, decimal=self.decimal.translate(SWAP), thousands=self.thousands.translate(SWAP))

    def write(self, value: float) -> str:
        """A number as the others of its column; six digits where they have no fixed form."""
        if self.whole:
            text = f"{abs(round(value)):,}"
        elif self.decimals is not None:
            text = f"{abs(value):,.{self.decimals}f}"
        else:
            text = f"{abs(value):.6g}"
        text = text.replace(",", "\0").replace(".", self.decimal).replace("\0", self.thousands)
        sign = "-" if value < 0 and any(digit in text for digit in "123456789") else ""
        return f"{sign}{self.before}{text}{self.after}"


@dataclass(frozen=True)
class Range:
    """Where the numbers of a column usually are."""

    mean: float
    deviation: float

    def deviations(self, numbers: pd.Series) -> float:
        """How far numbers typically are from the mean."""
        return float((numbers.astype(float) - self.mean).abs().median()) / self.deviation


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers under both readings: a point as the decimal mark, or a comma; None where it does not fit."""

    texts: pd.Series  # of the cells that are not missing, without units
    point: pd.Series | None
    comma: pd.Series | None
    before: str = ""
    after: str = ""
    plain: bool = False  # are there no thousands marks where a point is the decimal mark?
    signs: pd.Series | None = None  # of the cells that are beyond a limit, such as <0.5; of others ""

    @property
    def marks(self) -> set[str]:
        """Decimal marks with which it can be read."""
        return {mark for mark, numbers in ((".", self.point), (",", self.comma)) if numbers is not None}

    @property
    def ambiguous(self) -> bool:
        """Does it say different numbers with one mark and with the other?"""
        return self.point is not None and self.comma is not None and not np.array_equal(self.point, self.comma)

    def nearer(self, usual: Range) -> str | None:
        """The mark by which its numbers lie where such numbers usually do; None where both do, or neither."""
        assert self.point is not None
        assert self.comma is not None
        away = {mark: usual.deviations(numbers) for mark, numbers in ((".", self.point), (",", self.comma))}
        best, other = sorted(away, key=away.__getitem__)
        return best if away[best] <= NEAR and away[other] > NEARER * max(away[best], 1) else None

    def read(self, decimal: str) -> tuple[pd.Series, NumberFormat]:
        """Numbers, and how they are written; where some are beyond a limit texts, all with a point."""
        numbers, how = self._read(decimal)
        if self.signs is None:
            return numbers, how
        texts = self.texts if decimal == "." else self.texts.str.translate(SWAP)
        texts = texts.str.replace(MARKS_BETWEEN, "", regex=True)
        return (self.signs + texts).astype(object), replace(how, whole=False, decimals=0 if how.whole else how.decimals)

    def _read(self, decimal: str) -> tuple[pd.Series, NumberFormat]:
        numbers = self.point if decimal == "." else self.comma
        assert numbers is not None
        if self.plain and decimal == ".":
            whole, fixed = numbers.dtype.kind in "iu", bool(self.before or self.after)
            digits = self.texts.str.extract(r"\.(\d*)", expand=False).str.len() if fixed and not whole else None
            decimals = (0 if digits is None else int(digits.fillna(0).max())) if fixed else None
            return numbers, NumberFormat(decimal, "", self.before, self.after, decimals, whole)
        texts = self.texts if decimal == "." else self.texts.str.translate(SWAP)
        groups = texts.str.extract(THOUSANDS_MARK, expand=False).dropna()
        thousands = "" if groups.empty else str(groups.iloc[0])
        if decimal == ",":
            thousands = thousands.translate(SWAP)
        digits = texts.str.extract(r"\.(\d*)", expand=False).str.len()
        whole = not texts.str.contains(r"[.eEnN]").any()
        fixed = bool(thousands or self.before or self.after)
        decimals = int(digits.max()) if fixed and digits.notna().any() else 0 if fixed else None
        return numbers, NumberFormat(decimal, thousands, self.before, self.after, decimals, whole)

    @classmethod
    def of(cls, known: pd.Series) -> NumberColumn | None:
        """The cells of a column that are not missing; None where they are no numbers."""
        found = cls._of_numbers(known)
        if found is None and (signed := known.str.match(SIGN)).any() and known[~signed].nunique() >= FEWEST_MEASURED:
            found = cls._of_numbers(known.str.replace(SIGN, "", regex=True))
            signs = known.str.extract(SIGN, expand=False).fillna("").str.strip()
            return None if found is None else replace(found, signs=signs)
        return found

    @classmethod
    def _of_numbers(cls, known: pd.Series) -> NumberColumn | None:
        texts, before, after = known.str.strip(), "", ""
        point = _plain(texts)
        if point is None:
            parts = known.head(A_FEW).str.extract(WITH_UNIT)
            if parts[2].notna().all() and (parts[1].str.strip() + parts[3].str.strip() != "").any():
                parts = known.str.extract(WITH_UNIT)
                signs = parts[[1, 3]].apply(lambda part: part.str.strip())
                if parts[2].isna().any() or len(signs.drop_duplicates()) > 1:
                    return None
                texts = (parts[0] + parts[2]).str.strip()
                before, after = str(parts[1].iloc[0]), str(parts[3].iloc[0])
                point = _plain(texts)
        plain = point is not None
        if point is not None and point.dtype.kind in "iu":
            return cls(texts, point, point, before, after, plain)
        if point is None:
            point = _parsed(texts)
        comma = _parsed(texts.str.translate(SWAP)) if _fits(texts.head(A_FEW).str.translate(SWAP)) else None
        if point is None and comma is None:
            return None
        return cls(texts, point, comma, before, after, plain)


def swapped(texts: pd.Series) -> pd.Series:
    """Numbers as they are written with the other decimal mark."""
    return texts.str.replace(MARK, lambda mark: mark[0].translate(SWAP), regex=True)


def _plain(texts: pd.Series) -> pd.Series | None:
    """Numbers without thousands marks, the fast way."""
    numbers = pd.to_numeric(texts, errors="coerce")
    return None if numbers.isna().any() else numbers


def _fits(texts: pd.Series) -> bool:
    return bool(texts.str.match(NUMBER).all())


def _parsed(texts: pd.Series) -> pd.Series | None:
    if not _fits(texts.head(A_FEW)) or not _fits(texts):
        return None
    return _plain(texts.str.replace(MARKS_BETWEEN, "", regex=True))


class AmbiguousMarksError(ValueError):
    """Numbers that could mean two things: column -> one of them."""

    def __init__(self, examples: Mapping[Any, str]) -> None:
        super().__init__(examples)
        self.examples = dict(examples)


def read_numbers(
    columns: Mapping[Any, NumberColumn],
    decimal: str | None,
    separator: str,
    usual: str | None = None,
    ranges: Mapping[Any, Range] | None = None,
) -> tuple[dict[Any, tuple[pd.Series, NumberFormat]], str]:
    """The numbers of all columns of a file, how each is written, and the file's decimal mark.

    Parameters
    ----------
    columns : of one file, which has one way to write numbers
    decimal : the mark that the user named, if any
    separator : between cells; semicolons say that a comma may be a decimal mark
    usual : the mark that was found in earlier data, if any
    ranges : of columns that a model knows, where it saw their numbers

    Raises
    ------
    AmbiguousMarksError
        3,333 alone: nothing tells whether that is three thousand.
    """
    ranges = ranges or {}
    proven = {mark for column in columns.values() if len(column.marks) == 1 for mark in column.marks}
    settled = decimal or (next(iter(proven)) if len(proven) == 1 else None)
    by_range = {name: columns[name].nearer(ranges[name]) for name in ranges if _is_open(columns.get(name), settled)}
    ranged = the_one(by_range.values())
    told = settled or ranged or (None if proven else usual)
    of_file = told or ("," if separator == ";" else ".")
    found, ambiguous = {}, {}
    for name, column in columns.items():
        if column.ambiguous:
            custom = told or _by_custom(column, separator, proven)
            mark = by_range[name] or ranged if name in by_range else custom
            if mark is None:
                ambiguous[name] = next(text for text in column.texts if "," in text or "." in text)
                continue
        else:
            mark = of_file if of_file in column.marks else next(iter(column.marks))
        found[name] = column.read(mark)
    if ambiguous:
        raise AmbiguousMarksError(ambiguous)
    return found, of_file


def _is_open(column: NumberColumn | None, settled: str | None) -> bool:
    return column is not None and column.ambiguous and settled is None


def _by_custom(column: NumberColumn, separator: str, proven: set[str]) -> str | None:
    """Nothing in the file tells: a point is a decimal mark, and between semicolons a comma."""
    has_comma, has_point = (column.texts.str.contains(mark, regex=False).any() for mark in ",.")
    if proven or (has_comma and has_point):
        return None
    if has_comma:
        return "," if separator == ";" else None
    return "." if separator != ";" else None
