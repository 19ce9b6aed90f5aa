"""Which rows have the same holes in all views."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


def arrange_rows(
    codes: Sequence[np.ndarray], n_rows: int, min_shared: int
) -> tuple[np.ndarray, list[tuple[slice, bool]]]:
    """An order of the rows, and its parts, each with whether its rows share one pattern of holes.

    `codes` are the `row_codes` of views with holes. Patterns of `min_shared` rows or more come first, one part each;
    the rows of all others make one last part.
    """
    pattern = row_patterns(codes, n_rows)
    counts = np.bincount(pattern)
    common = counts >= min(min_shared, n_rows)
    key = np.where(common[pattern], pattern, len(counts))
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-2)) if n_rows else np.zeros(0, dtype=int)
    parts = [(slice(int(a), int(b)), bool(common[pattern[order[a]]])) for a, b in pairwise(edges)]
    return order, parts


def row_patterns(codes: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """A number for each row, equal for rows with the same holes in all views, (N,)."""
    if not codes:
        return np.zeros(n_rows, dtype=int)
    joined = np.ascontiguousarray(np.concatenate(codes, axis=1))
    as_bytes = joined.view(np.dtype((np.void, joined.shape[1])))[:, 0]
    return np.unique(as_bytes, return_inverse=True)[1].reshape(-1)
