"""Spellings of labels: those that differ only in case and blanks, and those that say yes or no."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from .cells import column_parts, part_holds_only_zero_one
from .markers import is_text

PAIRS = (
    *(("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("off", "on"), ("-", "+"), ("absent", "present")),
    *(("negative", "positive"), ("neg", "pos"), ("nein", "ja"), ("n", "j"), ("nee", "ja"), ("nej", "ja")),
    *(("non", "oui"), ("no", "sí"), ("no", "si"), ("não", "sim"), ("nao", "sim"), ("negativ", "positiv")),
)
MEANING = {no: 0 for no, _ in PAIRS} | {yes: 1 for _, yes in PAIRS}
OTHER_WORD = dict(reversed(PAIRS)) | {yes: no for no, yes in reversed(PAIRS)}


def folded(label: Any) -> str:
    """The same for spellings that differ only in case and blanks."""
    return " ".join(str(label).split()).casefold()


def spellings(counts: Mapping[Any, int]) -> dict[str, list[str]]:
    """Folded label -> its spellings, the most frequent first."""
    found: dict[str, list[str]] = {}
    for label in sorted(counts, key=lambda label: -counts[label]):
        if isinstance(label, str):
            found.setdefault(folded(label), []).append(label)
    return found


def normalise_labels(frame: pd.DataFrame, known: Mapping[Any, Iterable[Any]] | None = None) -> pd.DataFrame:
    """A frame whose labels are spelled in one way each: those that differ only in case and blanks become one.

    Parameters
    ----------
    frame : DataFrame
        Its columns of text and of categories are looked at.
    known : mapping of column to labels, optional
        Spellings to take where a label has one of them; else the most frequent one, without blanks around it, is taken.

    Returns
    -------
    DataFrame
    """
    found = frame.copy(deep=False)
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes)):
        if not is_text(dtype) and not isinstance(dtype, pd.CategoricalDtype):
            continue
        column = frame.iloc[:, place]
        counts = Counter(cell.strip() for cell in column if isinstance(cell, str))
        best = {fold: ways[0] for fold, ways in spellings(counts).items()}
        best |= {folded(label): label for label in (known or {}).get(name, ()) if isinstance(label, str)}

        def spelled(label: Any, best: Mapping[str, str] = best) -> Any:
            return best.get(folded(label), label.strip()) if isinstance(label, str) else label

        if isinstance(dtype, pd.CategoricalDtype):
            dtype = pd.CategoricalDtype(list(dict.fromkeys(map(spelled, dtype.categories))), dtype.ordered)
        found.isetitem(place, pd.Series([spelled(cell) for cell in column], dtype=dtype).array)
    return found


def text_counts(column: pd.Series) -> Counter[str]:
    """How often each text occurs in a column."""
    return Counter(cell for cell in column if isinstance(cell, str))


# ------------------------------------------------------------------------------------------------- yes and no


def holds_yes_no(frame: pd.DataFrame) -> bool:
    """Does every column hold 0 / 1 / True / False, or one pair of words such as yes / no?"""
    return all(part_holds_only_zero_one(part) or _is_pair(part.iloc[:, 0]) for _, part in column_parts(frame))


def says_yes_no(text: str) -> bool:
    return folded(text) in MEANING


def _is_pair(column: pd.Series) -> bool:
    if not is_text(column.dtype):
        return False
    counts = text_counts(column)
    words = tuple(sorted({folded(text) for text in counts}, key=lambda word: MEANING.get(word, 0)))
    return words in PAIRS and sum(counts.values()) == int(column.notna().sum())


def words_to_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of words that say yes or no as 1 and 0; others as they are."""
    found = frame
    for place, dtype in enumerate(frame.dtypes):
        if not is_text(dtype):
            continue
        column = frame.iloc[:, place]
        counts = text_counts(column)
        if counts and all(map(says_yes_no, counts)):
            found = frame.copy(deep=False) if found is frame else found
            numbers = {text: MEANING[folded(text)] for text in counts}
            cells = [numbers[cell] if isinstance(cell, str) else cell for cell in column]
            found.isetitem(place, pd.Series(cells, dtype=object).array)
    return found


def zero_one(values: np.ndarray) -> np.ndarray:
    """Cells that say yes or no in numbers or words as floats, NaN where missing."""
    if values.dtype.kind in "fiub":
        return values.astype(float)
    cells = [MEANING.get(folded(cell), cell) if isinstance(cell, str) else cell for cell in values.ravel()]
    return pd.Series(cells, dtype=object).astype(float).to_numpy().reshape(values.shape)


def word_pair(counts: Mapping[str, int]) -> tuple[str, str] | None:
    """The texts for 0 and 1 of a column, each in its most frequent spelling; None where it has no words."""
    words: dict[int, str] = {}
    for fold, ways in spellings(counts).items():
        words.setdefault(MEANING[fold], ways[0])
    if not words:
        return None
    one = next(iter(words.values()))
    return words.get(0, OTHER_WORD[folded(one)]), words.get(1, OTHER_WORD[folded(one)])
