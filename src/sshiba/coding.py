"""How a view's values in the user's units map to the model's, and back into the user's containers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class ViewData:
    """One view of aligned rows, in the model's units.

    `target` is (N, D) standardised (real) or 0 / 1 (binary), or (N,) class codes; 0 at holes.
    `observed` is None (complete), (N, 1) bool (whole rows missing) or (N, D) bool (single cells missing).
    """

    target: np.ndarray
    observed: np.ndarray | None

    def take(self, rows: np.ndarray | None) -> ViewData:
        """These rows, -1 being a row that this view does not have; None: all as they are."""
        if rows is None:
            return self
        absent = rows < 0
        if len(self.target) == 0:
            target = np.zeros((len(rows), *self.target.shape[1:]), self.target.dtype)
            return ViewData(target, shrink_mask(np.zeros((len(rows), 1), bool)))
        target = self.target[rows]
        target[absent] = 0
        observed = np.ones((len(self.target), 1), bool) if self.observed is None else self.observed
        observed = observed[rows]
        observed[absent] = False
        return ViewData(target, shrink_mask(observed))


def shrink_mask(observed: np.ndarray) -> np.ndarray | None:
    """The smallest form of an (N, D) mask that says the same: None, (N, 1) or (N, D)."""
    if observed.all():
        return None
    whole_rows = (observed == observed[:, :1]).all()
    return np.ascontiguousarray(observed[:, :1]) if whole_rows else observed


@dataclass(frozen=True, eq=False)
class Coding:
    """A fitted view's way between the user's values and the model's: user = centre + scale * model.

    A view type makes it from the values alone; `container` and `dtypes` are set by who knows them.
    """

    features: tuple  # column names as the user gave them; 0..D-1 for arrays
    observed_per_feature: np.ndarray  # (width,)
    centre: np.ndarray  # (width,)
    scale: np.ndarray  # (width,)
    variance: np.ndarray  # (width,): of each feature in the model's units
    levels: tuple | None = None  # the classes of a categorical view, plain Python values
    container: str = "frame"  # what comes back: "array", "vector", "frame" or "series"
    dtypes: tuple[str, ...] = field(default=())  # one per column, for what comes back

    @property
    def latent_names(self) -> tuple:
        """The names of the latent features: the columns, or the classes."""
        return self.features if self.levels is None else self.levels

    @property
    def width(self) -> int:
        """Number of latent features."""
        return len(self.latent_names)


def unit_coding(features: tuple, n_observed: np.ndarray, levels: tuple | None = None) -> Coding:
    """The coding of a view whose values have no units."""
    zeros, ones = np.zeros(len(n_observed)), np.ones(len(n_observed))
    return Coding(features, n_observed, centre=zeros, scale=ones, variance=ones, levels=levels)


def plain_names(columns: pd.Index) -> tuple:
    """Column names as plain Python values."""
    return tuple(name.item() if isinstance(name, np.generic) else name for name in columns)


# What the user reads ------------------------------------------------------------------------------------


def show(label: Any) -> str:
    """A row label, column name or value as the user would write it."""
    if isinstance(label, np.generic):
        label = label.item()
    return repr(label) if isinstance(label, str | int | float | tuple | bytes) else str(label)


def first_few(labels: Iterable[Any], limit: int = 3) -> str:
    """'a', 'b', 'c' and 4 more."""
    labels = list(labels)
    shown = ", ".join(show(label) for label in islice(labels, limit))
    return shown if len(labels) <= limit else f"{shown} and {len(labels) - limit} more"


def counted(n: int, one: str, many: str | None = None) -> str:
    """1 value, 2 values."""
    return f"{n} {one if n == 1 else many or one + 's'}"


# Back to the user's containers --------------------------------------------------------------------------


def restore_column(values: np.ndarray, dtype: str, levels: Sequence | None) -> Any:
    """Decoded values (n,) in the user's dtype; means of numbers stay floats whatever the column was."""
    if values.dtype.kind == "f":
        return values.astype("float32" if dtype.lower() == "float32" else "float64")
    if dtype.startswith("category"):
        categories = None if levels is None else list(levels)
        return pd.Categorical(values, categories=categories, ordered=dtype == ORDERED_CATEGORY)
    if is_numpy_name(dtype):
        return restore_block(values, (dtype,))
    return pd.Series(values).astype(dtype).array  # type: ignore[call-overload]


ORDERED_CATEGORY = "category[ordered]"


def restore_block(values: np.ndarray, dtypes: Sequence[str]) -> np.ndarray:
    """Decoded values of any shape as a NumPy array of the one dtype that serves all columns."""
    names = set(dtypes)
    if values.dtype.kind == "f":
        return values.astype("float32" if names == {"float32"} else "float64")
    if not all(is_numpy_name(name) for name in names):
        return values.astype(object)
    found = [np.dtype(name) for name in names]
    if any(dtype.kind == "U" for dtype in found):
        return values.astype(np.str_)
    return values.astype(object if np.dtype(object) in found else np.result_type(*found))


def is_numpy_name(dtype: str) -> bool:
    """Is this the name of a NumPy dtype, not of a pandas one?"""
    try:
        return isinstance(pd.api.types.pandas_dtype(dtype), np.dtype)
    except TypeError:
        return False


def to_container(values: np.ndarray, coding: Coding, index: pd.Index) -> Any:
    """Decoded values (n, D) in the container and the dtypes that the view was trained with."""
    if coding.container == "array":
        return restore_block(values, coding.dtypes)
    if coding.container == "vector":
        return restore_block(values, coding.dtypes)[:, 0]
    if len(set(coding.dtypes)) == 1 and is_numpy_name(coding.dtypes[0]):
        frame = labelled_frame(restore_block(values, coding.dtypes[:1]), coding.features, index)
    else:
        columns = [restore_column(column, d, coding.levels) for column, d in zip(values.T, coding.dtypes)]
        frame = pd.DataFrame(dict(enumerate(columns)), index=index)
        frame.columns = column_index(coding.features)
    return frame.iloc[:, 0] if coding.container == "series" else frame


def fill_cells(cells: Any, rows: np.ndarray, new: Any) -> Any:
    """These rows of a NumPy or pandas array, with `new` where they are missing or absent (-1)."""
    is_numpy = isinstance(cells, np.ndarray)
    if len(cells) == 0:
        return new
    filled = cells[rows] if is_numpy else cells.take(rows, allow_fill=True)
    holes = pd.isna(filled)
    holes[rows < 0] = True
    if not holes.any():
        return filled
    if filled.dtype.kind in "iub" and new.dtype.kind == "f":
        filled = filled.astype("float64" if is_numpy else "Float64")
    if isinstance(filled, pd.Categorical):
        new = np.asarray(new)
        filled = filled.add_categories([level for level in pd.unique(new) if level not in filled.categories])
    if is_numpy:
        np.copyto(filled, new, where=holes, casting="unsafe")
    else:
        filled[holes] = new[holes]
    return filled


def labelled_frame(values: np.ndarray, columns: Iterable, index: pd.Index) -> pd.DataFrame:
    """A frame around an array: no copy, no guess at dtypes."""
    return pd.DataFrame(values, index=index, columns=column_index(columns), dtype=values.dtype, copy=False)


def column_index(names: Iterable) -> pd.Index:
    """Column names as an Index; tuples of one length become its levels, as pandas has them."""
    return pd.Index(list(names))
