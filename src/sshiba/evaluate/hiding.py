"""Cells of the user's data hidden, or kept alone, and rows drawn, whatever holds them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from ..core.coded import CodedView
from ..data.advice import DataWarning
from ..data.coding import Coding
from ..data.containers import fill_masked
from ..data.sparse_tables import SparseTable, is_sparse_view, read_sparse
from ..data.types import View
from ..fitted.fitted import fitted_of
from ..fitting.restarts import ctrl_c


def take_rows(value: Any, index: pd.Index, rows: np.ndarray) -> Any:
    """Some of the rows of all views, by mask or place, in one of them; those it has, where it is labelled."""
    value = _readable(value)
    places = _places_in(value, index)[rows]
    return _rows_at(value, places[places >= 0])


def take_drawn(value: Any, index: pd.Index, rows: np.ndarray) -> Any:
    """Rows of one view as they were drawn, some of them several times, named by their places in the draw."""
    value = _readable(value)
    places = _places_in(value, index)[rows]
    drawn, names = _rows_at(value, places[places >= 0]), pd.Index(np.flatnonzero(places >= 0))
    if isinstance(drawn, SparseTable):
        return replace(drawn, index=names)
    return drawn.set_axis(names) if isinstance(drawn, pd.DataFrame | pd.Series) else drawn


def _readable(value: Any) -> Any:
    """A view as something whose rows can be taken."""
    if is_sparse_view(value):
        return read_sparse(value, "")
    return value if isinstance(value, pd.DataFrame | pd.Series) else as_array(value)


def _places_in(value: Any, index: pd.Index) -> np.ndarray:
    """Where the rows of all views are in one of them, -1 where it lacks them.

    Labels repeat only where all views have the same ones in the same order (`align`); there rows are matched by place.
    """
    has_names = value.has_names if isinstance(value, SparseTable) else isinstance(value, pd.DataFrame | pd.Series)
    if not has_names or value.index.equals(index):
        return np.arange(len(index))
    return value.index.get_indexer(index)


def _rows_at(value: Any, places: np.ndarray) -> Any:
    if isinstance(value, SparseTable):
        return value.take(places)
    return value.iloc[places] if isinstance(value, pd.DataFrame | pd.Series) else value[places]


def features_of(value: Any, view: View, name: str) -> Any:
    """One view as its type reads it: without columns that are no features, texts among numbers as numbers."""
    if isinstance(value, pd.Series):
        return view.features_of(value.to_frame(name if value.name is None else value.name), name).iloc[:, 0]
    if isinstance(value, pd.DataFrame):
        return view.features_of(value, name)
    array = as_array(value)
    if array.dtype.kind not in "OUS":
        return value
    read = view.features_of(pd.DataFrame(array.astype(object)), name).to_numpy()
    return read if array.ndim == 2 else read[:, 0]


def of_all_columns(hidden: np.ndarray, value: Any, coding: Coding) -> np.ndarray:
    """A mask of features, (n, D), as one of all columns of a view, of which others stay."""
    if not coding.beside:
        return hidden
    every = np.zeros((len(hidden), value.shape[1]), dtype=bool)
    every[:, value.columns.get_indexer(pd.Index(list(coding.features)))] = hidden
    return every


def tellable_cells(rows: CodedView, view: View, coding: Coding) -> np.ndarray:
    """The observed cells, (n, D), whose value is known: of one at a limit nobody could say how well it is predicted."""
    at_limits = view.at_limits(rows, coding)
    return rows.seen_cells if at_limits is None else rows.seen_cells & ~at_limits


def hide_cells(value: Any, index: pd.Index, hidden: np.ndarray) -> Any:
    """One view with these cells, (n, D) of all rows, missing."""
    if is_sparse_view(value):
        raise ValueError("no cell of a sparse view can be missing. Give it as a dense array to hide some of it.")
    if isinstance(value, pd.DataFrame | pd.Series):
        own = hidden if index.equals(value.index) else hidden[index.get_indexer(value.index)]
        return value.mask(own if isinstance(value, pd.DataFrame) else own[:, 0])
    array = as_array(value)
    if array.dtype.kind in "biu":
        array = array.astype(object if array.ndim == 1 else float)
    missing: Any = None if array.dtype.kind in "OUS" else np.nan
    return np.where(hidden.reshape(array.shape), missing, array)


def keep_cells(value: Any, kept: np.ndarray) -> np.ndarray:
    """Values (n, D), missing where not kept."""
    array = as_array(value)
    array = array[:, None] if array.ndim == 1 else array
    missing: Any = None if array.dtype.kind in "OUS" else np.nan
    return array if kept.all() else np.where(kept, array, missing)


def as_array(value: Any) -> np.ndarray:
    """Arrays and lists as an array, masked cells as missing ones."""
    return fill_masked(value if isinstance(value, np.ndarray) else np.asarray(value))


def quiet_fit(model: Any, views: Any) -> Any:
    """A fit among many to parts of data that were read before: it need not converge, and says nothing of the data that
    was not said then, but Ctrl-C ends all of them.
    """
    with warnings.catch_warnings():
        for known in (ConvergenceWarning, DataWarning):
            warnings.simplefilter("ignore", known)
        with ctrl_c() as stop_requests:
            fitted = model.fit(views)
    if stop_requests or fitted_of(fitted).interrupted:
        raise KeyboardInterrupt
    return fitted
