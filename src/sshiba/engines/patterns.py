"""Which features, and which rows, have the same holes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..core.state import ColumnGroups


def column_groups(observed: np.ndarray | None, n_features: int) -> tuple[ColumnGroups, np.ndarray]:
    """Features with equal columns of the mask, and the mask by group, (N, G), or (1, 1) where nothing is missing."""
    if observed is None or observed.shape[1] == 1:
        seen = np.ones((1, 1), dtype=bool) if observed is None else observed
        return ColumnGroups.single(n_features), seen
    numbers: dict[bytes, int] = {}
    columns = np.packbits(observed, axis=0).T
    index = np.array([numbers.setdefault(column.tobytes(), len(numbers)) for column in columns])
    first = np.unique(index, return_index=True)[1]
    return ColumnGroups(index), observed[:, first]


def arrange_rows(
    observed: Sequence[np.ndarray], n_rows: int, min_shared: int
) -> tuple[np.ndarray, list[tuple[slice, bool]]]:
    """An order of the rows, and its parts, each with whether its rows share one pattern of holes.

    Patterns of `min_shared` rows or more come first, one part each; the rows of all others make one last part.
    """
    pattern = row_patterns([seen for seen in observed if len(seen) == n_rows and not seen.all()], n_rows)
    counts = np.bincount(pattern)
    common = counts >= min(min_shared, n_rows)
    key = np.where(common[pattern], pattern, len(counts))
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-2)) if n_rows else np.zeros(0, dtype=int)
    parts = [(slice(int(a), int(b)), bool(common[pattern[order[a]]])) for a, b in pairwise(edges)]
    return order, parts


def row_patterns(masks: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """A number for each row, equal for rows with the same holes in all views, (N,)."""
    if not masks:
        return np.zeros(n_rows, dtype=int)
    packed = np.ascontiguousarray(np.packbits(np.concatenate(masks, axis=1), axis=1))
    as_bytes = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
    return np.unique(as_bytes, return_inverse=True)[1].reshape(-1)
