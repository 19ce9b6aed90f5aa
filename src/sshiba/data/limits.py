"""Limits of what can be measured: of a view, of a column, or of each row, which other columns of the view then say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real as RealNumber
from typing import Any

import numpy as np
import pandas as pd

from .advice import DataError, DataWarning, Problem, Remedy, With
from .cells import cell_name, column_kind, read_numbers
from .mixed_cells import SIGN, numbers_of_texts
from .telling import tell
from .wording import counted, did_you_mean, first_few, quoted

SIDES = ("at or below", "at or above")  # the lower limit, and the upper
ROUNDING = 1e-6  # of a limit: a value of single precision is at a limit of double precision

Edge = float | str | None  # a number, the column that has one for each row, or none
Edges = tuple[np.ndarray, np.ndarray]  # lower and upper limits, (1, D) or (n, D)
Pair = tuple[Edge, Edge]
ONE_PAIR: Any = None  # in the place of a column's name, where one pair is for all columns


def plain_limits(given: Any) -> Any:
    """The option in a form that can be compared and stored; what is wrong with it is said later."""
    if isinstance(given, Mapping):
        return {column: _plain_pair(pair) for column, pair in given.items()}
    return _plain_pair(given)


def _plain_pair(pair: Any) -> Any:
    if not isinstance(pair, Sequence | np.ndarray) or isinstance(pair, str):
        return pair
    return tuple(float(edge) if _is_number(edge) else edge for edge in pair)


def _is_number(edge: Any) -> bool:
    return isinstance(edge, RealNumber) and not isinstance(edge, bool)


def check_limits(given: Any, columns: pd.Index, name: str) -> None:
    """Refuse limits that cannot be meant."""
    pairs = given if isinstance(given, dict) else {ONE_PAIR: given}
    for column, pair in pairs.items() if given is not None else ():
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(_is_edge(edge) for edge in pair):
            raise ValueError(
                f"view {name!r}: limits must be a pair (lower, upper), numbers or None, or a dict of column to such a "
                f"pair, in which the name of a column that has the limit of each row may stand; not {pair!r}."
            )
        if _is_number(pair[0]) and _is_number(pair[1]) and pair[0] >= pair[1]:
            raise ValueError(f"view {name!r}: the lower limit {pair[0]:g} is not below the upper one, {pair[1]:g}.")
        if column is not ONE_PAIR and column not in columns:
            hint = did_you_mean([column], columns)
            raise ValueError(f"view {name!r}: limits are given for {quoted(column)}, which is no column of it.{hint}")
        absent = [edge for edge in pair if isinstance(edge, str) and edge not in columns]
        if absent:
            what, hint = f"{quoted(absent[0])} should have limits", did_you_mean(absent[:1], columns)
            raise ValueError(f"view {name!r}: {what}, and is no column of the view.{hint}")
    limits = Limits.of(given, tuple(columns))
    if not limits.pairs:
        raise ValueError(f"view {name!r}: all of its columns hold limits of others.")


def _is_edge(edge: Any) -> bool:
    return edge is None or isinstance(edge, str) or (_is_number(edge) and np.isfinite(edge))


@dataclass(frozen=True)
class Limits:
    """Of each feature of a view a lower and an upper limit."""

    features: tuple
    pairs: tuple[Pair, ...]
    beside: tuple[str, ...]  # the columns that have limits of rows, and are no features

    @classmethod
    def of(cls, given: Any, columns: tuple) -> Limits:
        """From the option of a view with these columns."""
        if given is None:
            return cls(columns, ((None, None),) * len(columns), ())
        every = given if isinstance(given, dict) else dict.fromkeys(columns, given)
        named = dict.fromkeys(edge for pair in every.values() for edge in pair if isinstance(edge, str))
        features = tuple(column for column in columns if column not in named)
        return cls(features, tuple(every.get(feature, (None, None)) for feature in features), tuple(named))

    @property
    def limited(self) -> tuple[bool, ...]:
        """Which features have any."""
        return tuple(pair != (None, None) for pair in self.pairs)

    def edges(self, frame: pd.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper limits in the user's units, (1, D), or (n, D) where rows of the frame have their own."""
        n = len(frame) if self.beside else 1
        found = np.full((2, n, len(self.pairs)), [[[-np.inf]], [[np.inf]]])
        own = read_numbers(frame[list(self.beside)], name, (Remedy.LEAVE_OUT,)) if self.beside else np.empty((1, 0))
        for d, pair in enumerate(self.pairs):
            for side, edge in enumerate(pair):
                if isinstance(edge, str):
                    of_rows = own[:, self.beside.index(edge)].astype(np.float64)
                    found[side, ~np.isnan(of_rows), d] = of_rows[~np.isnan(of_rows)]
                elif edge is not None:
                    found[side, :, d] = edge
        lower, upper = found
        if n and self.beside and (lower >= upper).any():
            row, d = np.argwhere(lower >= upper)[0]
            where = cell_name(frame[list(self.features)], row, d)
            what = f"view {name!r}: the lower limit {lower[row, d]:g} is not below the upper one, {upper[row, d]:g}"
            raise DataError(Problem(f"{what}, in {where}", (Remedy.LEAVE_OUT,)))
        return lower, upper

    def in_words(self, at_limits: Sequence[int]) -> list[str]:
        """'a', 'b': 19 cells at or below 0.5: of each pair of limits, how many training cells are at one."""
        found: dict[Pair, list[int]] = {}
        for place, pair in enumerate(self.pairs):
            if pair != (None, None):
                found.setdefault(pair, []).append(place)
        return [
            f"{first_few(self.features[d] for d in own)}: "
            f"{counted(sum(at_limits[d] for d in own) if at_limits else 0, 'cell')} {_pair_in_words(pair)}"
            for pair, own in found.items()
        ]

    def warn_odd(self, name: str, at_limits: np.ndarray, past_limits: np.ndarray) -> None:
        """One warning for limits that no cell is at, and for those that cells lie beyond; both counts are (2, D)."""
        found: dict[tuple[int, Edge], list[int]] = {}
        for place, pair in enumerate(self.pairs):
            for side, edge in enumerate(pair):
                if edge is not None:
                    found.setdefault((side, edge), []).append(place)
        problems = []
        for (side, edge), own in found.items():
            limit, whose = _in_words(edge), first_few(self.features[d] for d in own)
            n_at, n_past = int(at_limits[side, own].sum()), int(past_limits[side, own].sum())
            if n_at == 0:
                problems.append(Problem(f"{whose}: no cell is {SIDES[side]} its limit {limit}", (Remedy.LIMITS,)))
            elif n_past:
                cells = f"{counted(n_past, 'cell is', 'cells are')} {('below', 'above')[side]} the limit {limit}"
                problems.append(Problem(f"{whose}: {cells}, and known only to lie beyond it"))
        if problems:
            tell(DataWarning(*(problem.of(f"view {name!r},") for problem in problems)))


def _pair_in_words(pair: Pair) -> str:
    told = [f"{words} {_in_words(edge)}" for words, edge in zip(SIDES, pair) if edge is not None]
    return " or ".join(told)


def _in_words(edge: Edge) -> str:
    return f"{edge:g}" if isinstance(edge, float) else quoted(edge)


# Cells such as <0.5 -----------------------------------------------------------------------------------------


def read_beyond(frame: pd.DataFrame, limits: Limits, name: str) -> pd.DataFrame:
    """The frame, in which cells such as <0.5 of columns with this limit are the limit; texts that are no numbers stay.

    Raises
    ------
    DataError
        A cell names another limit than its column has; all such columns are named.
    """
    texts = _texts_at_limits(frame, limits)
    if not texts:
        return frame
    edges = dict(zip(limits.features, zip(*(side.T for side in limits.edges(frame, name)))))
    frame, problems = frame.copy(deep=False), []
    for feature in texts:
        column = frame[feature].astype(object).reset_index(drop=True)
        is_text = np.array([isinstance(cell, str) for cell in column], dtype=bool)
        cells = column[is_text]
        numbers, signs = numbers_of_texts(cells), cells.str.extract(SIGN, expand=False).str[0]
        for side, sign, limit in zip(("lower", "upper"), ("<≤", ">≥"), edges[feature]):
            own = np.broadcast_to(limit, len(column))[is_text]
            here = (signs.isin(list(sign)) & numbers.notna()).to_numpy()
            odd = here & ~(np.abs(numbers - own) <= ROUNDING * np.abs(numbers)).to_numpy()
            if odd.any():
                problems.append(_other_limit(cells[odd], own[odd], side).of(f"column {quoted(feature)}"))
            numbers = numbers.mask(here, own)
        column[is_text] = numbers.astype(object).where(numbers.notna(), cells)
        frame[feature] = numbers_if_all_are(column.where(column.notna(), np.nan)).array
    if problems:
        raise DataError(*problems)
    return frame


def read_measured(frame: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """The frame, in which texts of columns with a limit are the numbers that they spell; cells such as <0.5 stay."""
    texts = _texts_at_limits(frame, limits)
    frame = frame.copy(deep=False) if texts else frame
    for feature in texts:
        column = frame[feature].astype(object).reset_index(drop=True)
        cells = column[[isinstance(cell, str) for cell in column]]
        numbers = numbers_of_texts(cells).where(~cells.str.match(SIGN).astype(bool))
        column[cells.index] = numbers.astype(object).where(numbers.notna(), cells)
        frame[feature] = numbers_if_all_are(column.where(column.notna(), np.nan)).array
    return frame


def _texts_at_limits(frame: pd.DataFrame, limits: Limits) -> list[Any]:
    """The columns with a limit some of whose cells are text."""
    limited = [feature for feature, own in zip(limits.features, limits.limited) if own and feature in frame]
    return [feature for feature in limited if _is_text(frame[feature])]


def numbers_if_all_are(column: pd.Series) -> pd.Series:
    """As it is where a cell is no number."""
    if any(isinstance(cell, str) for cell in column):
        return column
    try:
        return column.astype(float)
    except (TypeError, ValueError):
        return column


def _is_text(column: pd.Series) -> bool:
    return column_kind(column) == "text" and not isinstance(column.dtype, pd.CategoricalDtype)


def _other_limit(cells: pd.Series, limits: np.ndarray, side: str) -> Problem:
    """What cells say, and what their column, or the first of their rows, has."""
    most = cells.value_counts()
    has = f"its {side} limit is {limits[0]:g}" if np.isfinite(limits[0]) else f"it has no {side} limit there"
    what = f"has {quoted(most.index[0])} in {counted(len(cells), 'cell')}, but {has}"
    return Problem(what, (Remedy.ROW_LIMITS, With.texts(Remedy.MISSING, most.index[:1])))


# What the model is told of them -----------------------------------------------------------------------------


def beyond(
    values: np.ndarray, lower: np.ndarray, upper: np.ndarray, but_at: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Which values are at their lower limit or below, and which at their upper or above; `but_at`: and not at it."""
    near = [ROUNDING * np.where(np.isfinite(edges), np.abs(edges), 0.0) for edges in (lower, upper)]
    if but_at:
        return values < lower - near[0], values > upper + near[1]
    return values <= lower + near[0], values >= upper - near[1]


def count(sides: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """How many cells of each column are on either side, (2, D)."""
    return np.stack([side.sum(axis=0) for side in sides])


def as_intervals(
    begin: np.ndarray, end: np.ndarray, sides: tuple[np.ndarray, np.ndarray], lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """Where x lies, (n, D, 2), from where cells begin and end: at a limit from there to infinity; all standardised."""
    below, above = sides
    begins = np.where(above, upper, np.where(below, -np.inf, begin))
    ends = np.where(below, lower, np.where(above, np.inf, end))
    return np.stack([begins, ends], axis=-1).astype(begin.dtype, copy=False)
