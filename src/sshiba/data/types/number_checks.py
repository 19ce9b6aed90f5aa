"""What view types of numbers share: columns never observed, and columns that never vary."""

from __future__ import annotations

import numpy as np

from ..advice import DataError, Problem, Remedy
from ..learned import NumberSummary
from ..telling import tell
from ..wording import counted, first_few


def refuse_empty(learned: NumberSummary, name: str) -> None:
    """Every column needs an observed value."""
    empty = [feature for feature, n in zip(learned.features, learned.n) if n == 0]
    if empty:
        what = f"no observed value in {counted(len(empty), 'column')} ({first_few(empty, 10)})"
        raise DataError(Problem(f"view {name!r}: {what}", (Remedy.LEAVE_OUT,)))


def warn_constant(learned: NumberSummary, name: str, constant: np.ndarray) -> None:
    """One warning for all constant columns of a view."""
    columns = [feature for feature, is_so in zip(learned.features, constant) if is_so]
    if columns:
        found = f"{counted(len(columns), 'constant column')} ({first_few(columns)})"
        tell(f"view {name!r}: {found}, which cannot be informative.")
