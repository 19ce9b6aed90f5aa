"""Cells of the user's data hidden, or kept alone, whatever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def take_rows(value: Any, index: pd.Index, rows: np.ndarray) -> Any:
    """Some of the rows of one view; those it has, where it is labelled."""
    if isinstance(value, pd.DataFrame | pd.Series):
        return value.loc[index[rows][index[rows].isin(value.index)]]
    return np.asarray(value)[rows]


def hide_cells(value: Any, index: pd.Index, hidden: np.ndarray) -> Any:
    """One view with these cells, (n, D) of all rows, missing."""
    if isinstance(value, pd.DataFrame):
        return value.mask(pd.DataFrame(hidden, index=index, columns=value.columns).loc[value.index])
    if isinstance(value, pd.Series):
        return value.mask(pd.Series(hidden[:, 0], index=index).loc[value.index])
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        array = array.astype(object if array.ndim == 1 else float)
    missing: Any = None if array.dtype.kind in "OUS" else np.nan
    return np.where(hidden.reshape(array.shape), missing, array)


def keep_cells(value: Any, kept: np.ndarray) -> np.ndarray:
    """Values (n, D), missing where not kept."""
    array = np.asarray(value)
    array = array[:, None] if array.ndim == 1 else array
    missing: Any = None if array.dtype.kind in "OUS" else np.nan
    return array if kept.all() else np.where(kept, array, missing)
