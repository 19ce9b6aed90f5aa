"""The ordered levels of a column: which there are, how often each was seen, and the thresholds between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri


@dataclass(frozen=True)
class Levels:
    """Of one column, in their order."""

    values: tuple  # plain Python values that were seen in training
    counts: tuple[int, ...]  # how often
    categories: tuple | None = None  # of a column of categories: all it had, seen or not

    @property
    def cuts(self) -> tuple[float, ...]:
        """Between each level and the next: the normal scores of the cumulative frequencies."""
        total = np.cumsum(self.counts)
        return tuple(ndtri(total[:-1] / total[-1]).tolist())

    @property
    def labels(self) -> tuple:
        """All that the column may hold."""
        return self.values if self.categories is None else self.categories

    @property
    def array(self) -> np.ndarray:
        """The values as an array: of one kind where they are, else of objects."""
        return np.array(self.values, dtype=None if len({type(value) for value in self.values}) == 1 else object)

    @property
    def median(self) -> int:
        """The place of the median level."""
        return int(np.searchsorted(np.cumsum(self.counts), sum(self.counts) / 2))


def first_places(ordered: Sequence[Levels]) -> np.ndarray:
    """The number of each column's first level where all columns' levels are counted one after the other, (D,)."""
    sizes = np.array([len(own.values) for own in ordered], dtype=np.int64)
    return np.cumsum(sizes) - sizes
