"""Numbers that stand for missing: the same far-off value again and again, such as -999."""

from __future__ import annotations

import numpy as np

FAR = 5  # deviations of the others, from the nearest of them
OFTEN = 3  # times that a value must occur to be more than an outlier


def sentinels(values: np.ndarray) -> dict[int, tuple[float, int]]:
    """Place of a column -> a whole number far from all others that occurs several times, and how often it does."""
    found: dict[int, tuple[float, int]] = {}
    if len(values) < OFTEN:
        return found
    ends = np.stack([np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)]).astype(float)
    whole = (ends != 0) & (ends == np.round(ends))  # not so where all cells are missing
    for place in np.flatnonzero(whole.any(axis=0)):
        column = values[:, place].astype(float)
        often = [end for end in ends[whole[:, place], place] if np.count_nonzero(column == end) >= OFTEN]
        if not often:
            continue
        column = column[~np.isnan(column)]
        others = column[~np.isin(column, often)]
        far = [end for end in often if len(others) > len(column) / 2 and _is_far(end, others)]
        if far:
            found[int(place)] = (float(far[0]), int(np.count_nonzero(column == far[0])))
    return found


def _is_far(value: float, others: np.ndarray) -> bool:
    spread = others.std()
    return bool(spread > 0 and np.abs(others - value).min() > FAR * spread)
