"""What view types of labels share: reading them, and those of new rows that training never saw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
import pandas as pd

from ..advice import DataError, DataTypeError, Problem, Remedy
from ..coding import Coding
from ..markers import Meanings, Texts
from ..telling import tell
from ..wording import counted, first_few, quoted
from .view import View


@dataclass(frozen=True)
class LabelledView(View):
    """A view whose cells are labels; `unseen` says what one is that training never saw: "missing" or an "error"."""

    unseen: str = "missing"

    @property
    def named_labels(self) -> Texts:
        """The texts that its options name as labels."""
        return Texts()

    def meanings(self, coding: Coding | None = None) -> Meanings:
        """A text is a label where an option names it as one, or the coding has learned it as one."""
        learned = Texts()
        if coding is not None:
            texts = {feature: coding.texts_of(place) for place, feature in enumerate(coding.features)}
            learned = Texts.among(coding.levels, texts)
        return Meanings(labels=self.named_labels | learned)

    def with_unseen(self, unseen: str) -> View:
        return replace(self, unseen=unseen)

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.unseen not in ("missing", "error"):
            raise ValueError(f"view {name!r}: unseen must be 'missing' or 'error', not {self.unseen!r}.")

    def tell_unseen(
        self, column: pd.Series, strange: np.ndarray, known: Iterable, whose: str, kind: str = "class"
    ) -> None:
        """One warning, or error, for all labels of a column that training never saw; `kind` is what they are called."""
        if not strange.any():
            return
        cells = column[strange]
        where = f"{whose}: {kind} {first_few(cells.unique())} unseen in training, first in row {quoted(cells.index[0])}"
        if self.unseen == "error":
            raise DataError(Problem(f"{where}; known are {first_few(known, 10)}", (Remedy.SEEN_LABELS,)))
        n = counted(len(cells), "label")
        tell(f"{where}: {n} treated as missing.")


def factorise(column: pd.Series, whose: str) -> tuple[np.ndarray, list]:
    """Codes (N,), -1 where missing, and the label of each code as a plain Python value."""
    try:
        codes, found = pd.factorize(column)
    except TypeError as error:  # unhashable
        raise DataTypeError(Problem(f"{whose}: {error} among the labels", (Remedy.LABEL_TYPES,))) from error
    labels = [label.item() if isinstance(label, np.generic) else label for label in found]
    odd = [label for label in labels if not isinstance(label, str | int | float) or not _is_finite(label)]
    if odd:
        row = column.index[np.flatnonzero(codes == labels.index(odd[0]))[0]]
        kind = type(odd[0]).__name__
        what = f"{whose}: label {quoted(odd[0])} ({kind}) in row {quoted(row)}"
        raise DataTypeError(Problem(what, (Remedy.LABEL_TYPES,)))
    return codes, labels


def _is_finite(label: str | float) -> bool:
    return not isinstance(label, float) or isfinite(label)
