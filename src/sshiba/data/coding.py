"""How a view's values in the user's units map to the model's, and back into the user's containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from .levels import Levels
from .margins import Margin
from .wording import counted

EXACT_INTEGER = 2**53  # above it a float64 no longer holds every integer


@dataclass(frozen=True, eq=False)
class Coding:
    """A fitted view's way between the user's values and the model's: user = centre + scale * model.

    A view type makes it from the values alone; `container`, `dtypes` and `column_names` are set by who knows them.
    """

    features: tuple  # column names as the user gave them; 0..D-1 for arrays
    observed_per_feature: np.ndarray  # (width,)
    centre: np.ndarray  # (width,)
    scale: np.ndarray  # (width,)
    variance: np.ndarray  # (width,): of each feature in the model's units
    levels: tuple | None = None  # the classes of a categorical view, plain Python values
    container: str = "frame"  # what comes back: "array", "vector", "frame" or "series"
    dtypes: tuple[str, ...] = field(default=())  # one per column, for what comes back
    above_zero: tuple[str | None, ...] = ()  # of a real view: the margin, or "count", that keeps it at 0 or above
    categories: tuple | None = None  # of a column of categories: all it had, seen or not
    column_names: tuple = (None,)  # of the levels of the columns
    ordered: tuple[Levels, ...] = ()  # of an ordinal view: the levels of each column
    words: tuple[tuple[str, str] | None, ...] = ()  # of a binary view: what 0 and 1 are called, None: 0 and 1
    at_limits: tuple[int, ...] = ()  # of a real view with limits: how many training cells of each column are at one
    margins: tuple[
        Margin, ...
    ] = ()  # of a real view some of whose columns are transformed: how; before centre and scale
    beside: tuple = ()  # columns that are read with the features: the limits of each row
    ends: tuple[tuple[float, float], ...] = ()  # of a real view: the least and the largest cell of each column, coded

    @property
    def latent_names(self) -> tuple:
        """The names of the latent features: the columns, or the classes."""
        return self.features if self.levels is None else self.levels

    @property
    def columns(self) -> pd.Index:
        """The columns as pandas has them."""
        index = column_index(self.features)
        return index.set_names(list(self.column_names)) if index.nlevels == len(self.column_names) else index

    def labels_of(self, place: int) -> tuple | None:
        """All labels that a column of classes or levels may hold, seen or not."""
        if self.ordered:
            return self.ordered[place].labels
        return self.levels if self.categories is None else self.categories

    def texts_of(self, place: int) -> tuple | None:
        """The labels of a column of classes, or of levels that are text."""
        if self.ordered:
            values = self.ordered[place].values
            return values if any(isinstance(value, str) for value in values) else None
        return self.levels

    @property
    def latent_index(self) -> pd.Index:
        """The names of the latent features as pandas has them."""
        return self.columns if self.levels is None else column_index(self.levels)

    @property
    def width(self) -> int:
        """Number of latent features."""
        return len(self.latent_names)

    @property
    def has_classes(self) -> bool:
        """Is it one column of labels, each class a latent feature?"""
        return self.levels is not None

    @property
    def usual(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each column of numbers in the user's units, (D,) each."""
        mean, std = self.centre.copy(), self.scale.copy()
        for d, margin in enumerate(self.margins):
            if margin.kind != "none":
                mean[d], std[d] = margin.mean, margin.std / np.sqrt(self.variance[d])
        return mean, std

    def with_ends(self, least: np.ndarray, largest: np.ndarray) -> Coding:
        """The same, with the least and the largest cell of each column in the user's units, (D,) each."""
        pairs = np.transpose([least, largest])
        for d, margin in enumerate(self.margins):
            pairs[d] = margin.forward(pairs[d])
        coded = (pairs - self.centre[:, None]) / self.scale[:, None]
        return replace(self, ends=tuple((low, high) for low, high in coded.tolist()))

    @property
    def has_intervals(self) -> bool:
        """Are some cells of a real view known by an interval: at a limit, or tied ranks?"""
        return bool(self.at_limits) or any(margin.ties for margin in self.margins)

    @property
    def read_columns(self) -> tuple:
        """The features, and the columns that say more about their cells."""
        return (*self.features, *self.beside)

    @property
    def is_labelled(self) -> bool:
        """Did the view come with names, as a frame or series?"""
        return self.container in ("frame", "series")

    @property
    def margins_in_words(self) -> list[str]:
        """Margins: log 5, logit 1. Of views without such columns empty."""
        kinds = Counter(margin.kind for margin in self.margins if margin.kind != "none")
        return [f"margins: {', '.join(f'{kind} {n}' for kind, n in kinds.most_common())}"] if kinds else []

    @property
    def size_in_words(self) -> str:
        """12 features, or 3 classes."""
        return counted(self.width, *(("class", "classes") if self.has_classes else ("feature",)))


def unit_coding(features: tuple, n_observed: np.ndarray, levels: tuple | None = None) -> Coding:
    """The coding of a view whose values have no units."""
    zeros, ones = np.zeros(len(n_observed)), np.ones(len(n_observed))
    return Coding(features, n_observed, centre=zeros, scale=ones, variance=ones, levels=levels)


def plain_names(columns: pd.Index) -> tuple:
    """Column names as plain Python values."""
    return tuple(name.item() if isinstance(name, np.generic) else name for name in columns)


# Back to the user's containers --------------------------------------------------------------------------


def restore_column(values: np.ndarray, dtype: str, categories: Sequence | None, whole: bool = False) -> Any:
    """Decoded values (n,) in the user's dtype; means of numbers stay floats whatever the column was, unless `whole`.

    Labels that the dtype cannot hold stay as they are: a column without any value may have been read as numbers.
    """
    if values.dtype.kind == "f":
        return _restore_numbers(values, dtype, whole)
    if dtype.startswith("category"):
        known = None if categories is None else list(categories)
        return pd.Categorical(values, categories=known, ordered=dtype == ORDERED_CATEGORY)
    if is_numpy_name(dtype):
        return restore_block(values, (dtype,))
    try:
        return pd.Series(values).astype(dtype).array  # type: ignore[call-overload]
    except (ValueError, TypeError):
        return values


def _restore_numbers(values: np.ndarray, dtype: str, whole: bool) -> Any:
    if whole and pd.api.types.is_integer_dtype(dtype):
        return as_whole(values, dtype)
    return values.astype("float32" if dtype.lower() == "float32" else "float64")


def as_whole(values: np.ndarray, dtype: Any) -> Any:
    """Numbers rounded to the nearest that an integer dtype, of NumPy or pandas, holds."""
    kind: Any = pd.api.types.pandas_dtype(dtype)
    plain = getattr(kind, "numpy_dtype", kind)
    low, high = max(np.iinfo(plain).min, -EXACT_INTEGER), min(np.iinfo(plain).max, EXACT_INTEGER)
    rounded = np.clip(np.rint(values), low, high).astype(plain)
    return rounded if plain is kind else pd.array(rounded, dtype=kind)


ORDERED_CATEGORY = "category[ordered]"


def restore_block(values: np.ndarray, dtypes: Sequence[str], whole: bool = False) -> np.ndarray:
    """Decoded values of any shape as a NumPy array of the one dtype that serves all columns."""
    names = set(dtypes)
    if values.dtype.kind == "f":
        return _restore_numbers(values, names.pop() if len(names) == 1 else "float64", whole)
    if not all(is_numpy_name(name) for name in names):
        return values.astype(object)
    found = [np.dtype(name) for name in names]
    if any(dtype.kind == "U" for dtype in found):
        return values.astype(np.str_)
    try:
        return values.astype(object if np.dtype(object) in found else np.result_type(*found))
    except ValueError:  # as in `restore_column`
        return values


def is_numpy_name(dtype: str) -> bool:
    """Is this the name of a NumPy dtype, not of a pandas one?"""
    try:
        return isinstance(pd.api.types.pandas_dtype(dtype), np.dtype)
    except TypeError:
        return False


def to_container(values: np.ndarray, coding: Coding, index: pd.Index, whole: bool = False) -> Any:
    """Decoded values (n, D) in the container and the dtypes that the view was trained with.

    Means of whole numbers come as floats; where `whole`, numbers are rounded for columns of an integer dtype.
    """
    if coding.container == "array":
        return restore_block(values, coding.dtypes, whole)
    if coding.container == "vector":
        return restore_block(values, coding.dtypes, whole)[:, 0]
    if len(set(coding.dtypes)) == 1 and is_numpy_name(coding.dtypes[0]):
        frame = labelled_frame(restore_block(values, coding.dtypes[:1], whole), coding.columns, index)
    else:
        columns = [
            restore_column(column, d, coding.labels_of(place), whole)
            for place, (column, d) in enumerate(zip(values.T, coding.dtypes))
        ]
        frame = pd.DataFrame(dict(enumerate(columns)), index=index)
        frame.columns = coding.columns
    return frame.iloc[:, 0] if coding.container == "series" else frame


def fill_cells(cells: Any, rows: np.ndarray, new: Any, also: np.ndarray | None = None) -> Any:
    """These rows of a NumPy or pandas array, with `new` where they are missing or absent (-1), and `also` there."""
    is_numpy = isinstance(cells, np.ndarray)
    if len(cells) == 0:
        return new
    filled = cells[rows] if is_numpy else cells.take(rows, allow_fill=True)
    holes = pd.isna(filled)
    holes[rows < 0] = True
    holes |= False if also is None else also
    if not holes.any():
        return filled
    if filled.dtype.kind in "iu" and new.dtype.kind == "f":
        new = as_whole(new, filled.dtype)
    elif filled.dtype.kind == "b" and new.dtype.kind == "f":
        filled = filled.astype("float64" if is_numpy else "Float64")
    elif (filled.dtype.kind in "iufb" and new.dtype.kind in "OUT") or _is_text_of_numbers(filled, new):
        filled, is_numpy = np.asarray(filled, dtype=object), True
    if isinstance(filled, pd.Categorical):
        new = np.asarray(new)
        filled = filled.add_categories([level for level in pd.unique(new) if level not in filled.categories])
    if is_numpy:
        np.copyto(filled, new, where=holes, casting="unsafe")
    else:
        filled[holes] = new[holes]
    return filled


def _is_text_of_numbers(cells: Any, new: Any) -> bool:
    """A column of text, some of it <0.5, that is filled with numbers?"""
    return isinstance(cells.dtype, pd.StringDtype) and new.dtype.kind == "f"


def labelled_frame(values: np.ndarray, columns: Iterable, index: pd.Index) -> pd.DataFrame:
    """A frame around an array: no copy, no guess at dtypes."""
    named = columns if isinstance(columns, pd.Index) else column_index(columns)
    return pd.DataFrame(values, index=index, columns=named, dtype=values.dtype, copy=False)


def column_index(names: Iterable) -> pd.Index:
    """Column names as an Index; tuples of one length become its levels, as pandas has them."""
    return pd.Index(list(names))
