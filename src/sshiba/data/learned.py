"""What training learns from the values of a view, chunk by chunk: summaries that add up.

The summary of all rows is the sum of the summaries of its chunks, so data that never fit in memory can be learned, too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cells import float_blocks, observed_mask

ROUNDING = 1e-13  # a feature whose std is below this share of its mean is constant


@dataclass(frozen=True, eq=False)
class NumberSummary:
    """Observed cells of each column of numbers: how many, their mean and population standard deviation.

    The mean is kept as a number near it and the rest: one double would hold seven digits after the point of 1e9.
    """

    features: tuple
    n: np.ndarray  # (D,)
    near_mean: np.ndarray  # (D,)
    rest: np.ndarray  # (D,): the mean less `near_mean`
    std: np.ndarray  # (D,)
    least: np.ndarray  # (D,)
    largest: np.ndarray  # (D,)
    whole: np.ndarray  # (D,) bool: are all of them whole numbers?
    at_limits: np.ndarray | None = None  # (2, D): how many of them are at their lower limit or below, or upper or above
    past_limits: np.ndarray | None = None  # (2, D): how many of these are not at it
    beside: tuple = ()  # columns that have the limits of rows

    @classmethod
    def of(cls, features: tuple, values: np.ndarray) -> NumberSummary:
        n = observed_mask(values).sum(axis=0)
        width = values.shape[1]
        least, largest, whole = np.full(width, np.inf), np.full(width, -np.inf), np.ones(width, dtype=bool)
        for _, cells in float_blocks(values):
            least = np.fmin(least, np.fmin.reduce(cells, axis=0))
            largest = np.fmax(largest, np.fmax.reduce(cells, axis=0))
            whole &= (np.isnan(cells) | (np.floor(cells) == cells)).all(axis=0)
        return cls(features, n, *column_moments(values, np.maximum(n, 1)), least, largest, whole)

    def __add__(self, other: NumberSummary) -> NumberSummary:
        """Chan's formulas, in units of the largest spread: a mean of 1e9 beside a std of 1 loses nothing."""
        n = self.n + other.n
        share = other.n / np.maximum(n, 1)
        gap = (other.near_mean - self.near_mean) + (other.rest - self.rest)
        unit = np.maximum(np.maximum(self.std, other.std), np.abs(gap))
        unit = np.where(unit > 0, unit, 1.0)
        a, b, c = self.std / unit, other.std / unit, gap / unit
        variance = (1 - share) * a**2 + share * b**2 + share * (1 - share) * c**2
        empty = self.n == 0
        near_mean = np.where(empty, other.near_mean, self.near_mean)
        rest = np.where(empty, other.rest, self.rest + share * gap)
        std = np.where(empty, other.std, np.where(other.n == 0, self.std, unit * np.sqrt(variance)))
        at_limits, past_limits = _sum(self.at_limits, other.at_limits), _sum(self.past_limits, other.past_limits)
        ends = np.minimum(self.least, other.least), np.maximum(self.largest, other.largest), self.whole & other.whole
        return NumberSummary(self.features, n, near_mean, rest, std, *ends, at_limits, past_limits, self.beside)

    @property
    def mean(self) -> np.ndarray:
        return self.near_mean + self.rest

    @property
    def constant(self) -> np.ndarray:
        """Is the spread of each column nil, or rounding? (D,)"""
        return self.std <= ROUNDING * np.abs(self.mean)


def _sum(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    return None if one is None or other is None else one + other


def column_moments(values: np.ndarray, n_observed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, in two parts, and population standard deviation of the observed cells of each column.

    Two passes, the second in units of the column's largest value: exact for a mean of 1e9 and a std of 1,
    and free of under- and overflow.
    """
    total, largest = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for _, cells in float_blocks(values):
        total += np.nansum(cells, axis=0)
        largest = np.fmax(largest, np.fmax.reduce(np.abs(cells), axis=0))
    mean = total / n_observed
    unit = np.where(largest > 0, largest, 1.0)
    shift, square = np.zeros_like(mean), np.zeros_like(mean)
    for _, cells in float_blocks(values):
        deviation = (cells - mean) / unit
        deviation[np.isnan(deviation)] = 0
        shift += deviation.sum(axis=0)
        square += np.einsum("nd,nd->d", deviation, deviation)
    shift /= n_observed
    return mean, unit * shift, unit * np.sqrt(np.maximum(square / n_observed - shift**2, 0))


@dataclass(frozen=True, eq=False)
class LabelSummary:
    """The labels of one column and how often each occurs; `dtype` is that of the column."""

    features: tuple
    counts: dict[Any, int]
    dtype: Any

    def __add__(self, other: LabelSummary) -> LabelSummary:
        counts = dict(self.counts)
        for label, n in other.counts.items():
            counts[label] = counts.get(label, 0) + n
        return LabelSummary(self.features, counts, self.dtype)


@dataclass(frozen=True, eq=False)
class LevelSummary:
    """The labels of several columns."""

    columns: tuple[LabelSummary, ...]

    def __add__(self, other: LevelSummary) -> LevelSummary:
        return LevelSummary(tuple(a + b for a, b in zip(self.columns, other.columns)))


@dataclass(frozen=True, eq=False)
class YesNoSummary:
    """Columns that say yes or no: their numbers, and for columns of words (by place) how often each text occurs."""

    numbers: NumberSummary
    texts: dict[int, Counter[str]]

    def __add__(self, other: YesNoSummary) -> YesNoSummary:
        places = {*self.texts, *other.texts}
        texts = {place: self.texts.get(place, Counter()) + other.texts.get(place, Counter()) for place in places}
        return YesNoSummary(self.numbers + other.numbers, texts)
