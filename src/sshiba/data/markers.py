"""Texts that mean missing, in files and in frames alike."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from .advice import DataWarning, Problem, Remedy
from .telling import tell
from .wording import counted, first_few

logger = logging.getLogger("sshiba")

# pandas' own, and a cell of blanks. A category is exempt: its levels are what their owner says they are.
MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
        *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
# Those that a person may mean as a label.
WORDS = frozenset(("N/A", "NA", "NULL", "None", "n/a", "null"))
# They may be labels, so they are only pointed out.
SUSPECTS = (
    *("?", "??", "-", "--", "---", ".", "..", "...", "unknown", "unk.", "missing", "na", "n/a", "n.a.", "none", "null"),
    *("nil", "nan", "nd", "n.d.", "n/d", "undefined", "pending", "no data", "not available", "not applicable"),
    *("not known", "not determined", "not done", "not measured", "not recorded", "not reported"),
    *("unbekannt", "fehlt", "fehlend", "entfällt", "ausstehend", "keine angabe", "k.A.", "ohne Angabe", "o.A.", "s.o."),
    *("nicht bestimmt", "nicht bekannt", "n.b.", "nicht erhoben", "n.e.", "nicht gemessen", "nicht durchgeführt"),
    *("nicht verfügbar", "n.v.", "nicht auswertbar", "nicht untersucht", "n.u.", "keine Daten"),
    *("inconnu", "manquant", "non fait", "non disponible", "non déterminé", "non renseigné", "desconocido", "sin dato"),
)


def is_text(dtype: Any) -> bool:
    """May a column of this dtype hold text that is not declared as categories?"""
    return pdt.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype)


@dataclass(frozen=True)
class Texts:
    """Texts of which something is said: in all columns, and in single ones."""

    everywhere: frozenset[str] = frozenset()
    of_columns: Mapping[Any, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def among(
        cls, everywhere: Iterable[Any] | None, of_columns: Mapping[Any, Iterable[Any] | None] | None = None
    ) -> Texts:
        """Those of values that are texts; None: there are no values."""
        return cls(_texts(everywhere), {column: _texts(values) for column, values in (of_columns or {}).items()})

    def of(self, column: Any) -> frozenset[str]:
        return self.everywhere | self.of_columns.get(column, frozenset())

    def __or__(self, other: Texts) -> Texts:
        columns = {*self.of_columns, *other.of_columns}
        own = {c: self.of_columns.get(c, frozenset()) | other.of_columns.get(c, frozenset()) for c in columns}
        return Texts(self.everywhere | other.everywhere, own)


@dataclass(frozen=True)
class Meanings:
    """What texts of a table mean: what is said of one column counts more than what is said of all."""

    usual: frozenset[str] = MISSING  # those that mean missing where nothing is said
    missing: Texts = Texts()  # those that do so as well
    labels: Texts = Texts()  # those that are labels

    def named(self, column: Any) -> frozenset[str]:
        """The texts of a column that mean missing since somebody says so; of one that is a label nobody does."""
        return self.missing.of(column) - self.labels.of_columns.get(column, frozenset())

    def markers(self, column: Any) -> frozenset[str]:
        """All texts of a column that mean missing."""
        return (self.usual - self.labels.of(column)) | self.named(column)


USUAL = Meanings()
AS_GIVEN = Meanings(usual=frozenset())  # no text means missing: whoever reads the rows next says which do


@dataclass(frozen=True)
class Markers:
    """The texts of one column that were taken for missing, and how often each occurs."""

    texts: Counter[str]
    among_labels: bool  # is the rest of the column text, too?
    named: Counter[str] = field(default_factory=Counter)  # those that mean missing since somebody says so

    def __add__(self, other: Markers) -> Markers:
        among_labels = self.among_labels or other.among_labels
        return Markers(self.texts + other.texts, among_labels, self.named + other.named)


def added(parts: Iterable[Mapping[Any, Markers]]) -> dict[Any, Markers]:
    """What was taken for missing in each column of a table that comes in parts, or in several files."""
    found: dict[Any, Markers] = {}
    for part in parts:
        found |= {name: own + found[name] if name in found else own for name, own in part.items()}
    return found


def without_markers(frame: pd.DataFrame, meanings: Meanings = USUAL) -> tuple[pd.DataFrame, dict[Any, Markers]]:
    """The frame with its markers missing (itself where it has none), and what they were in each column."""
    taken: dict[Any, Markers] = {}
    if not any(is_text(dtype) for dtype in frame.dtypes.unique()):
        return frame, taken
    found = frame
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes)):
        if not is_text(dtype):
            continue
        column, markers, said = frame.iloc[:, place], meanings.markers(name), meanings.named(name)
        texts = Counter(cell for cell in column if isinstance(cell, str))
        own = Counter({text: n for text, n in texts.items() if text.strip() in markers})
        if own:
            found = frame.copy(deep=False) if found is frame else found
            seen = np.fromiter((not isinstance(cell, str) or cell not in own for cell in column), bool, len(column))
            found.isetitem(place, column.where(seen, None).array)
            named = Counter({text: n for text, n in own.items() if text.strip() in said})
            taken[name] = Markers(own, among_labels=len(texts) > len(own), named=named)
    return found, taken


def tell_markers(taken: Mapping[Any, Markers], words: Iterable[str] = WORDS) -> None:
    """Log what was taken for missing; one warning for all `words` among labels, since they may be labels themselves."""
    if not taken:
        return
    n_cells = sum(sum(own.texts.values()) for own in taken.values())
    cells, columns = counted(n_cells, "cell"), counted(len(taken), "column")
    logger.info("taken for missing: %s of %s, %s", cells, columns, first_few(taken, 10))
    words = frozenset(words)
    labels: Counter[str] = Counter()
    where = []
    for name, own in taken.items():
        may_be = {text: n for text, n in (own.texts - own.named).items() if text.strip() in words}
        texts = Counter(may_be if own.among_labels else {})
        labels += texts
        where += [name] if texts else []
    if labels:
        verb = "is" if len(labels) == 1 else "are"
        cells = counted(sum(labels.values()), "cell")
        what = f"{first_few(labels, 6)} {verb} taken for missing in {cells} of {first_few(where, 10)}"
        tell(DataWarning(Problem(what, (Remedy.KEEP_LABELS,))))


def _texts(values: Iterable[Any] | None) -> frozenset[str]:
    return frozenset(value for value in values or () if isinstance(value, str))


def suspects(labels: Iterable[Any]) -> list[str]:
    """The labels that look like markers."""
    return [label for label in labels if isinstance(label, str) and _bare(label) in BARE_SUSPECTS]


def _bare(text: str) -> str:
    """The same for n. B., n.b. and n.b: small letters without blanks and a point at the end."""
    text = "".join(text.split()).casefold()
    return text.rstrip(".") or text


BARE_SUSPECTS = frozenset(map(_bare, SUSPECTS))
