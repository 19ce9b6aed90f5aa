"""Numbers far from all others of their column: outliers, and those that stand for missing, such as -999."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .cells import CACHED_CELLS, observed_mask
from .learned import column_moments
from .margins import Margin

FAR = 5  # deviations of the others, from the nearest of them
OFTEN = 3  # times that a whole number occurs that is no outlier: it may mean missing
FEW = 3  # cells at most that are outliers
LEAST = 20  # cells of a column that tells outliers


@dataclass(frozen=True)
class FarOff:
    """Some cells of a column: their values, how many they are, and the nearest of the others."""

    values: tuple[float, ...]
    n: int
    nearest: float
    may_be_skewed: bool = True  # or does their column have a margin already?


def far_off(values: np.ndarray, margins: Sequence[Margin] = ()) -> dict[int, FarOff]:
    """Place of a column -> those at one of its ends that are far from all others; `margins` are those of the columns,
    where any has one.
    """
    step = max(1, CACHED_CELLS // max(len(values), 1))
    found: dict[int, FarOff] = {}
    for start in range(0, values.shape[1] if len(values) >= OFTEN else 0, step):
        some = slice(start, start + step)
        found |= {start + place: own for place, own in _of_some(values[:, some], margins[some])}
    return found


def _of_some(values: np.ndarray, margins: Sequence[Margin]) -> Iterator[tuple[int, FarOff]]:
    """The same of some columns."""
    bent = {place: margin for place, margin in enumerate(margins) if margin.kind != "none"}
    scaled = values.astype(float) if bent else values
    for place, margin in bent.items():
        scaled[:, place] = margin.forward(scaled[:, place])
    n = observed_mask(scaled).sum(axis=0)
    near, rest, std = column_moments(scaled, np.maximum(n, 1))
    ends = _ends(values)
    whole = ((ends != 0) & (ends == np.round(ends))).any(axis=0)  # not so where all cells are missing
    away = np.abs((_ends(scaled) if bent else ends) - near - rest)
    may_be_few = (n >= LEAST) & (away > _least_distance(n) * std).any(axis=0)
    for place in np.flatnonzero(whole | may_be_few).tolist():
        column = values[:, place].astype(float)
        cells = np.sort(column[~np.isnan(column)])
        few = _few(cells, bent.get(place)) if may_be_few[place] else iter(())
        own = next(_repeated(cells), None) or next(few, None)
        if own is not None:
            yield place, own


def _ends(values: np.ndarray) -> np.ndarray:
    return np.stack([np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)]).astype(float)


def _least_distance(n: np.ndarray) -> np.ndarray:
    """From the mean, in deviations, of the farthest of up to `FEW` cells that are far from n others in all."""
    share = FEW / np.maximum(n, LEAST)
    return FAR * (1 - share) / np.sqrt((1 - share) * (1 + FAR**2 * share))


def _repeated(cells: np.ndarray) -> Iterator[FarOff]:
    """A whole number that occurs again and again, though in less than half of the cells; `cells` are in order.

    It is farther from the others than these from each other: so codes 0, 1, 2 of which one is rare are none.
    """
    ends = [end for end in (cells[0], cells[-1]) if end not in (0, np.inf) and end == np.round(end)]
    often = [end for end in ends if np.count_nonzero(cells == end) >= OFTEN]
    others = cells[~np.isin(cells, often)]
    for end in often:
        some = np.array([end])
        if 2 * len(others) > len(cells) and _is_far(some, others) and _distance(some, others) > np.ptp(others):
            yield FarOff((float(end),), int(np.count_nonzero(cells == end)), _nearest(end, others))


def _few(cells: np.ndarray, margin: Margin | None) -> Iterator[FarOff]:
    """Cells that are far on the scale of the margin; without one as they are and, where they have one, on the
    logarithmic scale. `cells` are in order.
    """
    if margin is not None:
        cells = cells[margin.allowed(cells)]
        scales = [margin.forward(cells)]
    else:
        scales = [cells, np.log(cells)] if cells[0] > 0 else [cells]
    for k in range(FEW, 0, -1):
        for some, others in ((slice(-k, None), slice(-k)), (slice(k), slice(k, None))):
            rest = cells[others]
            middle = rest[len(rest) // 4] < rest[3 * len(rest) // 4]  # not one value again and again
            if middle and all(_is_far(scale[some], scale[others]) for scale in scales):
                yield FarOff(tuple(np.unique(cells[some]).tolist()), k, _nearest(cells[some][0], rest))


def _is_far(some: np.ndarray, others: np.ndarray) -> bool:
    unit = np.abs(others).max() or 1.0
    spread = unit * (others / unit).std()
    return bool(spread > 0 and _distance(some, others) > FAR * spread)


def _distance(some: np.ndarray, others: np.ndarray) -> float:
    return float(max(some.min() - others.max(), others.min() - some.max()))


def _nearest(value: float, others: np.ndarray) -> float:
    return float(others[-1] if value > others[-1] else others[0])
