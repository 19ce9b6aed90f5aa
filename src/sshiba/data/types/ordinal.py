"""Ordinal views: columns of ordered levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Interval, Likelihood
from ..advice import DataError, DataTypeError, Problem, Remedy
from ..cells import column_kind
from ..coding import Coding, plain_names, unit_coding
from ..learned import LabelSummary, LevelSummary
from ..levels import Levels, first_places
from ..markers import Texts
from ..telling import tell
from ..wording import counted, did_you_mean, first_few, quoted
from .labelled import LabelledView, factorise

MOST_LEVELS = 100  # of a column; more are measurements
KINDS = ("number", "text", "category")


@dataclass(frozen=True)
class Ordinal(LabelledView):
    """Several columns of ordered levels: grades, answers from "never" to "daily", ordered categories.

    A level is an interval of a latent x; the thresholds are the normal scores of the cumulative frequencies of the
    levels. Levels are those seen in training.

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`; the weight may be above 1.
    levels : sequence, or mapping of column to sequence, optional
        The levels from the lowest to the highest. Numbers and ordered pandas categories have an order of their own;
        text needs this. A text that is named is a level, also one that otherwise means missing, such as "None".
    noise : "feature" or "view"
        One noise precision per column, or one for the view. That of a column of two levels, or fewer, is 1, the unit
        of x, and so is that of a view that has no others.
    guess : "median" or "mode"
        What is predicted and filled in: the median level, which minimises the absolute error in levels, or the most
        probable level, which is right most often.
    unseen : "missing" or "error"
        How a level that training never saw is read, even one between others: as missing, with a warning, or refused.
    """

    levels: Any = None
    noise: str = "feature"
    guess: str = "median"

    def __post_init__(self) -> None:
        """Levels that can be compared, whatever held them."""
        given = self.levels
        if isinstance(given, Mapping):
            given = {column: _as_tuple(own) for column, own in given.items()}
        object.__setattr__(self, "levels", given if isinstance(given, dict) else _as_tuple(given))

    def likelihood(self, coding: Coding) -> Likelihood:
        return Interval(tuple(own.cuts for own in coding.ordered), mode=self.guess == "mode")

    @property
    def noise_model(self) -> float | str:
        return self.noise

    @property
    def named_labels(self) -> Texts:
        if isinstance(self.levels, dict):
            return Texts.among((), {column: own for column, own in self.levels.items() if isinstance(own, tuple)})
        return Texts.among(self.levels if isinstance(self.levels, tuple) else ())

    def held_noise(self, coding: Coding) -> np.ndarray | None:
        """Two levels have one threshold, which tells nothing about the scale of x."""
        return np.array([len(own.values) <= 2 for own in coding.ordered])

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        ordered = all(isinstance(dtype, pd.CategoricalDtype) and dtype.ordered for dtype in frame.dtypes)
        return "ordered categories" if ordered else None

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.noise not in ("feature", "view"):
            raise ValueError(f"view {name!r}: noise must be 'feature' or 'view', not {self.noise!r}.")
        if self.guess not in ("median", "mode"):
            raise ValueError(f"view {name!r}: guess must be 'median' or 'mode', not {self.guess!r}.")

    def learn(self, frame: pd.DataFrame, name: str) -> LevelSummary:
        self._check_levels(frame.columns, name)
        problems: list[Problem] = []
        columns = []
        for place, column_name in enumerate(plain_names(frame.columns)):
            column, whose = frame.iloc[:, place], f"view {name!r}, column {quoted(column_name)}"
            given = self._given(column_name)
            why_not = _no_order(column) if given is None else None
            if why_not is not None:
                problems.append(why_not.of(whose))
                continue
            codes, found = factorise(column, whose)
            strange = [] if given is None else [level for level in found if level not in given]
            if strange:
                row = quoted(column.index[np.flatnonzero(codes == found.index(strange[0]))[0]])
                what = f"{quoted(strange[0])} in row {row} is not among its levels, {first_few(given or (), 10)}"
                problems.append(Problem(what, (Remedy.LEVELS, Remedy.MISSING)).of(whose))
            counts = np.bincount(codes[codes >= 0], minlength=len(found)).tolist()
            columns.append(LabelSummary((column_name,), dict(zip(found, counts)), column.dtype))
        if problems:
            raise DataTypeError(*problems)
        return LevelSummary(tuple(columns))

    def make_coding(self, learned: LevelSummary, name: str) -> Coding:
        ordered = [self._levels(column) for column in learned.columns]
        features = tuple(column.features[0] for column in learned.columns)
        sizes = {feature: len(own.values) for feature, own in zip(features, ordered)}
        empty = [feature for feature, n in sizes.items() if n == 0]
        if empty:
            what = f"no observed value in {counted(len(empty), 'column')} ({first_few(empty, 10)})"
            raise DataError(Problem(f"view {name!r}: {what}", (Remedy.LEAVE_OUT,)))
        many = [feature for feature, n in sizes.items() if n > MOST_LEVELS]
        if many:
            what = f"more than {MOST_LEVELS} levels in {counted(len(many), 'column')} ({first_few(many, 10)})"
            raise DataError(Problem(f"view {name!r}: {what}", (Remedy.FEWER_LEVELS, Remedy.REAL)))
        constant = [feature for feature, n in sizes.items() if n == 1]
        if constant:
            found = f"one level only in {counted(len(constant), 'column')} ({first_few(constant)})"
            tell(f"view {name!r}: {found}, which cannot be informative.")
        n = np.array([sum(own.counts) for own in ordered])
        return replace(unit_coding(features, n), ordered=tuple(ordered))

    def _levels(self, column: LabelSummary) -> Levels:
        """The levels that were seen, in their order: as given, as categories have it, or as numbers."""
        categories = None
        if isinstance(column.dtype, pd.CategoricalDtype):
            categories = plain_names(column.dtype.categories)
        given = self._given(column.features[0])
        if given is None and categories is not None and column.dtype.ordered:
            given = categories
        seen = sorted(column.counts) if given is None else [level for level in given if level in column.counts]
        return Levels(tuple(seen), tuple(column.counts[level] for level in seen), categories)

    def _given(self, column: Any) -> tuple | None:
        """The levels of a column as the user gave them."""
        return self.levels.get(column) if isinstance(self.levels, dict) else self.levels

    def _check_levels(self, columns: pd.Index, name: str) -> None:
        by_column = self.levels if isinstance(self.levels, dict) else {None: self.levels}
        for column, own in by_column.items():
            if own is None:
                continue
            if not isinstance(own, tuple) or len(own) < 2 or len(set(own)) < len(own):
                raise ValueError(
                    f"view {name!r}: levels must be a list of two or more different levels, the lowest first, or a "
                    f"dict of column to such a list, not {own!r}."
                )
            if column is not None and column not in columns:
                what = f"view {name!r}: levels are given for {quoted(column)}, which is no column of it"
                raise ValueError(f"{what}.{did_you_mean([column], columns)}")

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        target = np.zeros(frame.shape, dtype=np.int32)
        observed = np.ones(frame.shape, dtype=bool)
        for place, (own, first) in enumerate(zip(coding.ordered, first_places(coding.ordered))):
            column, whose = frame.iloc[:, place], f"view {name!r}, column {quoted(frame.columns[place])}"
            codes, found = factorise(column, whose)
            place_of = {level: i for i, level in enumerate(own.values)}
            strange = np.isin(codes, [code for code, level in enumerate(found) if level not in place_of])
            self.tell_unseen(column, strange, own.values, whose, "level")
            observed[:, place] = (codes >= 0) & ~strange
            lookup = np.array([place_of.get(level, 0) for level in found] + [0])  # the last for code -1, missing
            target[:, place] = np.where(observed[:, place], first + lookup[codes], 0)
        return CodedView(target, shrink_mask(observed))

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        columns = []
        for own, first, numbers in zip(coding.ordered, first_places(coding.ordered), values.T):
            columns.append(own.array[np.clip(numbers.astype(np.int64) - first, 0, len(own.values) - 1)])
        kinds = {column.dtype.kind for column in columns}
        return np.stack(columns if len(kinds) == 1 else [column.astype(object) for column in columns], axis=1)


def _as_tuple(levels: Any) -> Any:
    """A list of levels, of whatever kind, as plain values; anything else as it is."""
    is_list = isinstance(levels, Sequence | np.ndarray | pd.Index | pd.Series) and not isinstance(levels, str)
    return plain_names(pd.Index(levels, dtype=object)) if is_list else levels


def _no_order(column: pd.Series) -> Problem | None:
    """Why a column has no order of its own."""
    kind, dtype = column_kind(column), column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.ordered or column_kind(dtype.categories.to_series()) == "number":
            return None
        return Problem("holds categories that have no order", (Remedy.LEVELS,))
    if kind == "text":
        return Problem(f"holds text ({first_few(column.dropna().unique())}), which has no order", (Remedy.LEVELS,))
    return None if kind in KINDS else Problem(f"holds values of type {kind}", (Remedy.LEAVE_OUT,))
