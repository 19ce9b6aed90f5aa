"""From what the user gives to typed, aligned, scaled arrays and masks, and back.

Nothing else looks at user input. `tables` reads containers and matches rows; the view types check and code
values.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from .cells import numeric_block
from .coding import (
    Coding,
    ViewData,
    fill_cells,
    first_few,
    labelled_frame,
    restore_block,
    restore_column,
    show,
    to_container,
)
from .layout import as_views, is_one_table, split_new, split_training
from .likelihoods import VIEW_TYPES, View
from .tables import Table, align, match_columns, read_table

__all__ = [
    "Coding",
    "Schema",
    "ViewData",
    "fill",
    "new_views",
    "read_new",
    "read_training",
    "std_to_user",
    "to_user",
    "training_views",
]

logger = logging.getLogger("sshiba")


@dataclass(frozen=True, eq=False)
class Schema:
    """What training fixed about the views, in the order of the user's dict."""

    types: dict[str, View]
    codings: dict[str, Coding]
    inferred: dict[str, str] = field(default_factory=dict)  # name -> why the view got its type
    one_table: bool = False  # were the views made from the columns of one table?


# Reading ------------------------------------------------------------------------------------------------


def read_training(
    views: Any, types: Mapping[str, Any] | None = None, dtype: Any = "float64"
) -> tuple[Schema, dict[str, ViewData], pd.Index]:
    """Learn how to code the views, and code them.

    Parameters
    ----------
    views : mapping of view name to array, list, DataFrame or Series; or one DataFrame, MuData or AnnData
    types : mapping of view name to a view type (`Real()`, `Real` or "real"), optional
        Types not given are inferred and logged.
    dtype : of the working copies

    Returns
    -------
    schema : Schema
    data : dict of ViewData, all with the same rows
    index : the labels of these rows
    """
    views, given, one_table = training_views(views, types)
    tables = _read_tables(views, allow_no_rows=False)
    _check_names(given, tables, "view types are given for")
    index, rows = align(tables, training=True)
    schema = Schema({}, {}, {}, one_table)
    data = {}
    for name, table in tables.items():
        if name in given:
            view = as_view(given[name], name)
        else:
            view, schema.inferred[name] = infer_type(table.frame, name)
        encoded, coding = view.encode(table.frame, name, None, dtype)
        view.check_options(name, coding.width)
        schema.types[name] = view
        schema.codings[name] = replace(coding, container=table.container, dtypes=table.dtypes)
        data[name] = encoded.take(rows[name])
    return schema, data, index


def training_views(data: Any, types: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """What the user gives to `fit` as a dict of views, with the types named; and whether it was one table."""
    if types is not None and not isinstance(types, Mapping):
        raise TypeError(f"view types must be a dict of name to type, not {type(types).__name__}.")
    data = as_views(data)
    if is_one_table(data):
        return *split_training(data, types), True
    return data, dict(types or {}), False


def new_views(schema: Schema, given: Any) -> Mapping[str, Any]:
    """What the user gives for new rows as a dict of views."""
    given = as_views(given)
    if not is_one_table(given):
        return given
    if not schema.one_table:
        raise TypeError(f"the model was fitted to several views: give a dict of some of {first_few(schema.types, 10)}.")
    return split_new(given, schema.codings)


def read_new(schema: Schema, views: Mapping[str, Any], dtype: Any = "float64") -> tuple[dict[str, ViewData], pd.Index]:
    """Code new rows of some of the views as in training; the views come in the schema's order."""
    tables = _read_tables(views, allow_no_rows=True)
    _check_names(tables, schema.types, "the data hold")
    index, rows = align(tables, training=False)
    data = {}
    for name in schema.types:
        if name in tables:
            coding = schema.codings[name]
            frame = match_columns(tables[name], coding, name)
            encoded, _ = schema.types[name].encode(frame, name, coding, dtype)
            data[name] = encoded.take(rows[name])
    return data, index


def _read_tables(views: Any, allow_no_rows: bool) -> dict[str, Table]:
    if not isinstance(views, Mapping):
        raise TypeError(f"views must be a dict of name to data, not {type(views).__name__}: {{'measured': X}}.")
    if not views:
        raise ValueError("no views given. Give a dict of name to data: {'measured': X}.")
    odd = [name for name in views if not isinstance(name, str)]
    if odd:
        raise TypeError(f"view names must be text, not {first_few(odd)}.")
    return {name: read_table(value, name, allow_no_rows) for name, value in views.items()}


def _check_names(names: Iterable[str], known: Iterable[str], where: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{where} an unknown view {name!r}; the views are {first_few(known, 10)}.{hint}")


def as_view(given: Any, name: str) -> View:
    """A view type from `Real()`, `Real` or "real"."""
    if isinstance(given, View):
        return given
    if isinstance(given, type) and issubclass(given, View):
        return given()
    if isinstance(given, str) and given in VIEW_TYPES:
        return VIEW_TYPES[given]()
    raise TypeError(
        f"view {name!r}: {given!r} is no view type. Give an instance such as Real(), or one of "
        f"{first_few(VIEW_TYPES, 10)}."
    )


def infer_type(frame: pd.DataFrame, name: str) -> tuple[View, str]:
    """The most special view type that recognises the data (the last in VIEW_TYPES), and why."""
    for view_type in reversed(VIEW_TYPES.values()):
        reason = view_type.recognise(frame)
        if reason:
            logger.info("view %r: taken as %s (%s)", name, view_type.__name__, reason)
            return view_type(), reason
    raise TypeError(f"view {name!r}: no view type fits these data. Name one: {', '.join(VIEW_TYPES)}.")


# Giving back --------------------------------------------------------------------------------------------


def to_user(schema: Schema, name: str, values: np.ndarray, index: pd.Index) -> Any:
    """Decided values in the model's units -> the user's units, labels, dtypes and container."""
    coding = schema.codings[name]
    return to_container(schema.types[name].decode(np.asarray(values), coding), coding, index)


def std_to_user(schema: Schema, name: str, std: np.ndarray, index: pd.Index) -> Any:
    """Standard deviations (or probabilities) per column in the user's scale and container.

    Those of the classes of a categorical view come as an array or frame of one column per class.
    """
    coding = schema.codings[name]
    values = np.asarray(std, dtype=np.float64)
    by_class = coding.levels is not None and values.shape[1] == coding.width
    names = coding.latent_names if by_class else coding.features
    values = values * (coding.scale if len(names) == coding.width else 1.0)
    if coding.container in ("array", "vector"):
        return values if by_class or coding.container == "array" else values[:, 0]
    frame = labelled_frame(values, names, index)
    return frame.iloc[:, 0] if coding.container == "series" and not by_class else frame


def fill(schema: Schema, name: str, given: Any, values: np.ndarray, index: pd.Index) -> Any:
    """A copy of what the user gave for a view, its holes filled with `values` (as in `to_user`).

    Container, names, dtypes and observed cells stay; integers become floats where means fill their holes.
    The rows are those of `index`, so rows that the view lacked are added.
    """
    coding = schema.codings[name]
    table = read_table(given, name, allow_no_rows=True)
    frame = match_columns(table, coding, name)
    decoded = schema.types[name].decode(np.asarray(values), coding)
    if table.has_index:
        filled = _fill_frame(table.frame, frame, decoded, coding, index)
        return filled.iloc[:, 0].rename(table.label) if table.container == "series" else filled
    block = fill_cells(frame.to_numpy(), np.arange(len(frame)), restore_block(decoded, table.dtypes))
    if table.holds_objects_for_array:
        block = restore_block(block.astype(np.float64) if decoded.dtype.kind == "f" else block, table.dtypes)
    return block[:, 0] if table.container == "vector" else block


def _fill_frame(
    given: pd.DataFrame, matched: pd.DataFrame, decoded: np.ndarray, coding: Coding, index: pd.Index
) -> pd.DataFrame:
    """The given frame filled, as one block where it is one; columns unknown to the model stay as they are."""
    rows = given.index.get_indexer(index)
    dtypes = Table(given, "frame").dtypes
    if matched is given and numeric_block(given) is not None:
        block = fill_cells(given.to_numpy(), rows, restore_block(decoded, dtypes))
        return pd.DataFrame(block, index=index, columns=given.columns, copy=False)
    columns = {}
    for j, place in enumerate(matched.columns.get_indexer(given.columns)):
        column = given.iloc[:, j]
        if place < 0:
            columns[j] = column.reindex(index)
        else:
            new = restore_column(decoded[:, place], dtypes[j], coding.levels)
            cells = column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array
            cells = fill_cells(cells, rows, new)
            columns[j] = pd.Series(cells, index=index, dtype=cells.dtype)  # a frame would guess at objects
    filled = pd.DataFrame(columns, index=index)
    filled.columns = given.columns
    return filled


# What was observed ---------------------------------------------------------------------------------------


def observed_cells(schema: Schema) -> int:
    return int(sum(coding.observed_per_feature.sum() for coding in schema.codings.values()))


def warn_empty_rows(data: Mapping[str, ViewData], index: pd.Index) -> None:
    """Rows with nothing observed are allowed: their factors are the prior's."""
    masks = [view.observed for view in data.values()]
    if any(mask is None for mask in masks):
        return
    empty = ~np.any([mask.any(axis=1) for mask in masks if mask is not None], axis=0)
    if empty.any():
        warnings.warn(
            f"{int(empty.sum())} rows have nothing observed, first {show(index[empty][0])}: their z is the prior.",
            UserWarning,
            stacklevel=3,
        )


def log_jacobian(schema: Schema, data: Mapping[str, ViewData], n_rows: int) -> float:
    """Σ log scale over observed cells: log p(user's units) = log p(model's units) − this."""
    total = 0.0
    for name, view in data.items():
        log_scale = np.log(schema.codings[name].scale)
        if view.observed is None:
            total += n_rows * float(log_scale.sum())
        else:
            total += float((view.observed * log_scale).sum())
    return total
