"""Columns in which some cells are numbers and others are text: which of them are no numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from .advice import Problem, Remedy
from .wording import counted, quoted

BEYOND_LIMIT = r"^\s*[<>≤≥]=?\s*\d[\d.,]*\s*$"  # <0.5: beyond a limit of detection
MARKED_NUMBER = r"^\s*[-+]?[$€£¥]?\s?\d[\d.,'’ ]*[$€£¥%]?\s*$"  # 1,138.3 or $5 or -3 %
MOST_WORDS = 3  # that are no numbers: so many are named


def no_numbers(values: pd.Series) -> pd.Series:
    """Those of the observed cells that are text and spell no number."""
    texts = values[[isinstance(value, str) for value in values]]
    return texts[pd.to_numeric(texts, errors="coerce").isna() & ~texts.str.match(MARKED_NUMBER).astype(bool)]


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
    remedies = (*([Remedy.AT_LIMIT] if beyond.any() else []), *([] if beyond.all() else [Remedy.MISSING]))
    return Problem(what, (*remedies, *others), tuple(shown[~beyond]))
