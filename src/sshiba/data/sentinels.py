"""Numbers that stand for missing: the same far-off value again and again, such as -999."""

from __future__ import annotations

import numpy as np

FAR = 5  # deviations of the others, from the nearest of them
OFTEN = 3  # times that a value must occur to be more than an outlier


def sentinels(values: np.ndarray) -> dict[int, tuple[float, int]]:
    """Place of a column -> a whole number far from all others that occurs several times, and how often it does."""
    found = {}
    seen = ~np.isnan(values).all(axis=0) if values.dtype.kind == "f" else np.ones(values.shape[1], bool)
    for place in np.flatnonzero(seen):
        column = values[:, place].astype(float)
        column = column[~np.isnan(column)]
        ends = [end for end in (column.min(), column.max()) if end != 0 and float(end).is_integer()]
        often = [end for end in ends if np.count_nonzero(column == end) >= OFTEN]
        others = column[~np.isin(column, often)]
        far = [end for end in often if len(others) > len(column) / 2 and _is_far(end, others)]
        if far:
            found[int(place)] = (far[0], int(np.count_nonzero(column == far[0])))
    return found


def _is_far(value: float, others: np.ndarray) -> bool:
    spread = others.std()
    return bool(spread > 0 and np.abs(others - value).min() > FAR * spread)
