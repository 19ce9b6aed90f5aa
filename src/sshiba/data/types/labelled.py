"""What view types of labels share: labels of new rows that training never saw."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..advice import DataError, Problem, Remedy
from ..wording import counted, first_few, quoted
from .view import View


@dataclass(frozen=True)
class LabelledView(View):
    """A view whose cells are labels; `unseen` says what one is that training never saw: "missing" or an "error"."""

    unseen: str = "missing"

    def with_unseen(self, unseen: str) -> View:
        return replace(self, unseen=unseen)

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.unseen not in ("missing", "error"):
            raise ValueError(f"view {name!r}: unseen must be 'missing' or 'error', not {self.unseen!r}.")

    def tell_unseen(self, column: pd.Series, strange: np.ndarray, known: Iterable, whose: str) -> None:
        """One warning, or error, for all labels of a column that training never saw."""
        if not strange.any():
            return
        cells = column[strange]
        where = f"{whose}: class {first_few(cells.unique())} unseen in training, first in row {quoted(cells.index[0])}"
        if self.unseen == "error":
            raise DataError(Problem(f"{where}; known are {first_few(known, 10)}", (Remedy.SEEN_LABELS,)))
        n = counted(len(cells), "label")
        warnings.warn(f"{where}: {n} treated as missing.", UserWarning, stacklevel=3)
