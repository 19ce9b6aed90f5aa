"""Columns in which some cells are numbers and others are text: which of them are no numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .advice import Example, Problem, Remedy, With
from .wording import counted, quoted

SIGN = r"^\s*([<>≤≥]=?)\s*"  # of a cell beyond a limit, such as <0.5
DECIMAL_COMMA = r"^[+-]?(?:0+,\d+|\d+,(?:\d{1,2}|\d{4,}))$"  # and no thousands mark
BEYOND_LIMIT = r"^\s*[<>≤≥]=?\s*\d[\d.,]*\s*$"  # <0.5: beyond a limit of detection
MARKED_NUMBER = r"^\s*[-+]?[$€£¥]?\s?\d[\d.,'’ ]*[$€£¥%]?\s*$"  # 1,138.3 or $5 or -3 %
# A unit behind a number, such as cm, µg/l or °C; written for the regular expressions of Python and of Arrow.
UNIT = r"[^\s\d.,;:<>=()'\"’+_?!*#&@|-][^\s.,;:<>=()'\"?!*#&@|]{0,7}"
WITH_UNIT = rf"^\s*(?:[<>≤≥]=?)?\s*[-+]?\d[\d.,'’ ]*?\s*({UNIT})\s*$"
MANY = 10  # different numbers with a unit that are measured; fewer may be labels, such as 1a and 2a
MOST_WORDS = 3  # that are no numbers: so many are named


def no_numbers(values: pd.Series) -> pd.Series:
    """Those of the observed cells that are text and spell no number."""
    texts = values[[isinstance(value, str) for value in values]]
    return texts[pd.to_numeric(texts, errors="coerce").isna() & ~texts.str.match(MARKED_NUMBER).astype(bool)]


def units(values: pd.Series) -> pd.Series | None:
    """The unit of each observed cell, "" of numbers without one and NaN of words; None where most are not measured.

    The names of the cells differ.
    """
    texts = values[[isinstance(value, str) for value in values]]
    found = texts.str.extract(WITH_UNIT, expand=False).dropna()
    most = found.value_counts()
    if most.empty or 2 * most.iloc[0] < len(values) or texts[found.index[found == most.index[0]]].nunique() <= MANY:
        return None
    named = pd.Series("", index=values.index, dtype=object)
    return named.mask(values.index.isin(no_numbers(values).index), np.nan).where(~named.index.isin(found.index), found)


def different_units(found: pd.Series) -> Problem:
    """What is wrong where these are the units of numbers."""
    most = found.value_counts()
    named = [f"{quoted(unit) if unit else 'none'} in {n:,}" for unit, n in most.head(MOST_WORDS).items()]
    what = f"holds numbers in several units: {', '.join(named)} of {len(found):,} cells"
    return Problem(what, (Remedy.ONE_UNIT, Remedy.LABELS, Remedy.LEAVE_OUT))


def mixed(words: pd.Series, n_cells: int, others: Sequence[Remedy] = (Remedy.LEAVE_OUT,)) -> Problem:
    """What is wrong where these cells are text, and the others of so many are numbers; `others` can be done, too."""
    most = words.value_counts()
    named = [f"{quoted(text)} in {n:,}" for text, n in most.head(MOST_WORDS).items()]
    if len(most) > MOST_WORDS:
        named.append(f"{counted(len(most) - MOST_WORDS, 'other text')} in {most.iloc[MOST_WORDS:].sum():,}")
    listed = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    verb = "is not a number" if len(most) == 1 else "are not numbers"
    what = f"mixes numbers and text: {listed} of {n_cells:,} cells {verb}"
    shown = pd.Series(most.index[:MOST_WORDS], dtype=object)
    beyond = shown.str.match(BEYOND_LIMIT).astype(bool)
    at_limit = [_at_limit(words)] if beyond.any() else []
    missing = [] if beyond.all() else [With.texts(Remedy.MISSING, shown[~beyond])]
    return Problem(what, (*at_limit, *missing, *others))


def _at_limit(words: pd.Series) -> Remedy | With:
    """The limits that cells such as <0.5 of a column name, where that is one on each side."""
    sides = named_limits(words)
    if max(map(len, sides)) != 1:
        return Remedy.ROW_LIMITS
    lower, upper = (side[0] if side else None for side in sides)
    ends = ["" if end is None else f"{end:.12g}" for end in (lower, upper)]
    pair = ", ".join(end or "None" for end in ends)
    # In a shell 5,9 might be a number with a decimal comma.
    told = [f"{end}.0" for end in ends] if all(end.lstrip("-").isdigit() for end in ends) else ends
    return With(Remedy.AT_LIMIT, (Example(f"{{{quoted(words.name)}: ({pair})}}", f"{words.name}={','.join(told)}"),))


def numbers_of_texts(texts: pd.Series) -> pd.Series:
    """Texts, also those beyond a limit, as numbers; NaN where they are none."""
    bare = texts.str.replace(SIGN, "", regex=True).str.strip()
    commas = bare.str.match(DECIMAL_COMMA).astype(bool)
    if commas.any() and not bare.str.contains(".", regex=False).any():
        commas[:] = True
    return pd.to_numeric(bare.mask(commas, bare.str.replace(",", ".", regex=False)), errors="coerce").astype(float)


def named_limits(texts: pd.Series) -> tuple[list[float], list[float]]:
    """The lower and the upper limits that texts such as <0.5 name, the most frequent first."""
    signs, numbers = texts.str.extract(SIGN, expand=False), numbers_of_texts(texts)
    sides = (signs.str[0].isin(list(sign)) & numbers.notna() for sign in ("<≤", ">≥"))
    lower, upper = (numbers[side].value_counts().index.tolist() for side in sides)
    return lower, upper
