"""Columns of a table that are no measurement, and what to do about them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd

from .advice import Example, Problem, Remedy, With
from .cells import column_kind, looks_numeric
from .dates import are_dates
from .limits import named_limits
from .spellings import holds_yes_no
from .wording import counted, quoted

BEYOND_LIMIT = r"^\s*[<>≤≥]=?\s*\d[\d.,]*\s*$"  # <0.5: beyond a limit of detection
MARKED_NUMBER = r"^\s*[-+]?[$€£¥]?\s?\d[\d.,'’ ]*[$€£¥%]?\s*$"  # 1,138.3 or $5 or -3 %
MOST_LEVELS = 50  # text of more is no category
MOST_WORDS = 3  # that are no numbers: so many are named


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
    return _mixed(values, texts, n_distinct) or _refused_text(values, texts, n_distinct)


def _refused_kind(values: pd.Series, kind: str) -> Problem:
    if kind == "date":
        is_day = not isinstance(values.iloc[0], dt.time | dt.timedelta)
        return Problem("holds dates or times", (Remedy.LEAVE_OUT, *([Remedy.DATES] if is_day else [])))
    if kind == "complex":
        return Problem("holds complex numbers", (Remedy.LEAVE_OUT, Remedy.TWO_COLUMNS))
    if kind in ("list", "dict", "tuple", "set", "ndarray"):
        return Problem("holds lists or other objects", (Remedy.LEAVE_OUT,))
    return Problem(f"holds values of type {kind}, not numbers or labels", (Remedy.LEAVE_OUT,))


def _mixed(values: pd.Series, texts: pd.Series, n_distinct: int) -> Problem | None:
    """Numbers, and some texts that are none."""
    words = texts[pd.to_numeric(texts, errors="coerce").isna() & ~texts.str.match(MARKED_NUMBER).astype(bool)]
    if not 0 < len(words) < len(values) or 2 * words.nunique() > n_distinct:
        return None
    most = words.value_counts()
    named = [f"{quoted(text)} in {n:,}" for text, n in most.head(MOST_WORDS).items()]
    if len(most) > MOST_WORDS:
        named.append(f"{counted(len(most) - MOST_WORDS, 'other text')} in {most.iloc[MOST_WORDS:].sum():,}")
    listed = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    verb = "is not a number" if len(most) == 1 else "are not numbers"
    what = f"mixes numbers and text: {listed} of {len(values):,} cells {verb}"
    shown = pd.Series(most.index[:MOST_WORDS], dtype=object)
    beyond = shown.str.match(BEYOND_LIMIT).astype(bool)
    at_limit = [_at_limit(values.name, texts)] if beyond.any() else []
    missing = [] if beyond.all() else [With.texts(Remedy.MISSING, shown[~beyond])]
    return Problem(what, (*at_limit, *missing, Remedy.LEAVE_OUT))


def _at_limit(column: Any, texts: pd.Series) -> Remedy | With:
    """The limits that cells such as <0.5 name, where that is one on each side."""
    sides = named_limits(texts)
    if max(map(len, sides)) != 1:
        return Remedy.ROW_LIMITS
    lower, upper = (side[0] if side else None for side in sides)
    ends = ["" if end is None else f"{end:.12g}" for end in (lower, upper)]
    pair = ", ".join(end or "None" for end in ends)
    return With(Remedy.AT_LIMIT, (Example(f"{{{quoted(column)}: ({pair})}}", f"{column}={','.join(ends)}"),))


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
    if n_distinct > MOST_LEVELS or (n_distinct > 10 and 3 * n_distinct > len(values)):
        what = f"is free text ({n_distinct} different values; labels have at most {MOST_LEVELS})"
        return Problem(what, (Remedy.LEAVE_OUT, Remedy.FEWER_LEVELS))
    return None


def is_constant_text(column: pd.Series) -> bool:
    """Is it a column of text, or of categories, with one label only?"""
    return column_kind(column) in ("text", "category") and column.nunique() == 1
