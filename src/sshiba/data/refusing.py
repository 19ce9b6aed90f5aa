"""Columns of a table that are no measurement, and what to do about them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

import pandas as pd

from .advice import Problem, Remedy, With
from .cells import column_kind, looks_numeric
from .dates import are_dates
from .markers import is_text
from .mixed_cells import different_units, mixed, no_numbers, units
from .spellings import holds_yes_no
from .wording import counted, first_few, quoted

MOST_LEVELS = 50  # text of more is no category
NEARLY_ALL = 0.9  # of the cells: so many different ones without blanks are identifiers


def refusal(column: pd.Series) -> Problem | None:
    """Why a column cannot be a feature, and what to do; None if it can."""
    values = column.dropna()
    kind = column_kind(column)
    if len(values) == 0:
        return Problem("has no values", (Remedy.LEAVE_OUT,))
    if kind not in ("number", "text", "category"):
        return _refused_kind(values, kind)
    try:
        n_distinct = values.nunique()
    except TypeError:
        return Problem("holds lists or other objects", (Remedy.LEAVE_OUT,))
    if kind == "number":
        whole = column.dtype.kind in "iu" and len(values) == len(column) == n_distinct >= 20
        if whole and values.max() - values.min() == len(values) - 1:
            return Problem("numbers the rows", (Remedy.LEAVE_OUT, Remedy.ROW_NAMES))
        return None
    if kind == "category" or holds_yes_no(column.to_frame()):
        return None
    texts = values[[isinstance(value, str) for value in values]]
    cells = values.reset_index(drop=True)
    measured = units(cells)
    if measured is not None:
        return _refused_units(cells, measured)
    words = no_numbers(values)
    if 0 < len(words) < len(values) and 2 * words.nunique() <= n_distinct:
        return mixed(words, len(values))
    return _refused_text(values, texts, n_distinct)


def _refused_kind(values: pd.Series, kind: str) -> Problem:
    if kind == "date":
        is_day = not isinstance(values.iloc[0], dt.time | dt.timedelta)
        return Problem("holds dates or times", (Remedy.LEAVE_OUT, *([Remedy.DATES] if is_day else [])))
    if kind == "complex":
        return Problem("holds complex numbers", (Remedy.LEAVE_OUT, Remedy.TWO_COLUMNS))
    if kind in ("list", "dict", "tuple", "set", "ndarray"):
        return Problem("holds lists or other objects", (Remedy.LEAVE_OUT,))
    return Problem(f"holds values of type {kind}, not numbers or labels", (Remedy.LEAVE_OUT,))


def _refused_units(values: pd.Series, measured: pd.Series) -> Problem:
    """Numbers with units, and words among them."""
    words = values[measured.isna()]
    if measured.nunique() > 1:
        return different_units(measured.dropna())
    if len(words):
        return mixed(words, len(values))
    return Problem(f"holds numbers with a unit such as {quoted(values.iloc[0])}", (Remedy.NO_UNIT, Remedy.LEAVE_OUT))


def _refused_text(values: pd.Series, texts: pd.Series, n_distinct: int) -> Problem | None:
    """Texts that are no labels."""
    if n_distinct <= 2:
        return None
    commas = texts.str.match(r"^[+-]?\d+,\d+$")
    if len(texts) and 2 * commas.sum() > len(texts):
        remedies = (Remedy.MARKS, Remedy.LEAVE_OUT)
        return Problem(f"holds numbers with a comma such as {texts[commas].iloc[0]!r}", remedies)
    if looks_numeric(texts) and texts.str.match(r"^\s*0\d").any():
        return Problem(f"holds codes such as {quoted(texts.iloc[0])}", (Remedy.LABELS, Remedy.LEAVE_OUT))
    if looks_numeric(texts):
        return Problem(f"holds numbers written as text such as {texts.iloc[0]!r}", (Remedy.NUMBERS, Remedy.LEAVE_OUT))
    if len(texts) and are_dates(texts):
        return Problem(f"holds dates such as {texts.iloc[0]!r}", (Remedy.LEAVE_OUT, Remedy.DATES))
    if n_distinct == len(values) > 5:
        remedies = (Remedy.LEAVE_OUT, Remedy.ROW_NAMES)
        return Problem("has a different text in every row, as identifiers do", remedies)
    if n_distinct > NEARLY_ALL * len(values) and n_distinct > MOST_LEVELS and not texts.str.contains(r"\s").any():
        what = f"has {n_distinct:,} different texts in {len(values):,} rows, as identifiers do of which some repeat"
        return Problem(what, (Remedy.LEAVE_OUT, Remedy.ROW_NAMES))
    if n_distinct > MOST_LEVELS or (n_distinct > 10 and 3 * n_distinct > len(values)):
        what = f"is free text ({n_distinct} different values; labels have at most {MOST_LEVELS})"
        return Problem(what, (Remedy.LEAVE_OUT, Remedy.FEWER_LEVELS))
    return None


def is_constant_text(column: pd.Series) -> bool:
    """Is it a column of text, or of categories, with one label only?"""
    return column_kind(column) in ("text", "category") and column.nunique() == 1


def words_among_labels(refused: Iterable[Problem], others: pd.DataFrame) -> Iterator[Problem]:
    """Other columns in which texts are labels that may mean missing in a refused column of numbers."""
    advised = [own for problem in refused for own in problem.remedies if isinstance(own, With)]
    words = {one.shell: None for own in advised if own.remedy == Remedy.MISSING for one in own.examples}
    for column in others:
        found = [word for word in words if is_text(others[column].dtype) and others[column].eq(word).any()]
        if found:
            cells = counted(int(others[column].isin(found).sum()), "cell")
            what = f"column {quoted(column)} has {first_few(found)} as a label, in {cells}"
            yield Problem(what, (With.texts(Remedy.MISSING, found),))
