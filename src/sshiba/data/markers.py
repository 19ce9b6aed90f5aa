"""Texts that mean missing, in files and in frames alike."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from .wording import counted, first_few

logger = logging.getLogger("sshiba")

# pandas' own, and a cell of blanks. A category is exempt: its levels are what their owner says they are.
MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
        *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
# Small letters. They may be labels, so they are only pointed out.
SUSPECTS = frozenset(
    (
        *("?", "??", "-", "--", "---", ".", "..", "...", "unknown", "unk", "unk.", "missing", "na", "n/a", "n.a."),
        *("n. a.", "n.a", "none", "null", "nil", "nan", "not available", "not applicable", "not known", "no data"),
        *("nodata", "undefined", "unbekannt", "keine angabe", "k.a.", "inconnu", "desconocido"),
    )
)


def is_text(dtype: Any) -> bool:
    """May a column of this dtype hold text that is not declared as categories?"""
    return pdt.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype)


def marked(column: pd.Series, also: Iterable[str] = ()) -> np.ndarray:
    """Where a column of text says missing; `also` are markers besides pandas' own."""
    markers = MISSING.union(also)
    return np.fromiter((isinstance(cell, str) and cell.strip() in markers for cell in column), bool, len(column))


def without_markers(frame: pd.DataFrame, also: Iterable[str] = ()) -> tuple[pd.DataFrame, dict[Any, int]]:
    """The frame with its markers missing (itself where it has none), and how many each column had."""
    counts: dict[Any, int] = {}
    if not any(is_text(dtype) for dtype in frame.dtypes.unique()):
        return frame, counts
    also = frozenset(also)
    found = frame
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes)):
        if not is_text(dtype):
            continue
        column = frame.iloc[:, place]
        holes = marked(column, also)
        if holes.any():
            found = frame.copy(deep=False) if found is frame else found
            found.isetitem(place, column.where(~holes, None).array)
            counts[name] = int(holes.sum())
    return found, counts


def log_markers(counts: dict[Any, int]) -> None:
    if counts:
        cells, columns = counted(sum(counts.values()), "cell"), counted(len(counts), "column")
        logger.info("taken for missing: %s of %s, %s", cells, columns, first_few(counts, 10))


def suspects(labels: Iterable[Any]) -> list[str]:
    """The labels that look like markers."""
    return [label for label in labels if isinstance(label, str) and label.strip().casefold() in SUSPECTS]
