"""Values in the model's units as the user gave the data: units, labels, names, dtypes and containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from .advice import DataWarning, Example, Problem, Remedy, With
from .cells import numeric_block
from .coding import Coding, fill_cells, labelled_frame, restore_block, restore_column, to_container
from .containers import Table, match_columns, read_table
from .levels import first_places
from .limits import numbers_if_all_are
from .schema import Schema
from .telling import tell
from .tensors import on_host
from .wording import first_few, quoted

MOST = 5  # columns that are named
ROUNDING = 1e-9  # of the scale of a column: so far below 0 it is at 0


def to_user(
    schema: Schema,
    name: str,
    values: np.ndarray,
    index: pd.Index,
    whole: bool = False,
    asked: int | None = None,
    decoded: bool = False,
) -> Any:
    """Decided values in the model's units -> the user's units, labels, dtypes and container (as in `to_container`).

    `asked` is the place of the one column that the user asked for. `decoded`: they are in the user's units already.
    """
    coding = schema.codings[name]
    values = values if decoded else schema.types[name].decode(np.asarray(values), coding)
    warn_below_zero(schema, name, values, asked)
    return to_container(values, coding, index, whole)


def bounds_to_user(schema: Schema, name: str, values: np.ndarray, index: pd.Index) -> Any:
    """Quantiles, as decided values in the model's units, in the container of predictions; counts are whole numbers."""
    coding, view = schema.codings[name], schema.types[name]
    decoded = view.decode(np.asarray(values), coding)
    return to_container(decoded, coding, index, whole=not view.likelihood(coding).numbers)


def warn_below_zero(schema: Schema, name: str, decoded: np.ndarray, asked: int | None = None) -> None:
    """Numbers are predicted as means of a normal distribution, and may be below 0 where none was in training."""
    coding = schema.codings[name]
    kept = {place: how for place, how in enumerate(coding.above_zero) if how is not None and asked in (None, place)}
    least = {place: decoded[:, place].min(initial=0) for place in kept}
    below = {place: how for place, how in kept.items() if least[place] < -ROUNDING * coding.scale[place]}
    if below:
        whose = first_few((coding.features[place] for place in below), MOST)
        if not schema.one_table:
            whose = f"view {name!r}, {'column' if len(below) == 1 else 'columns'} {whose}"
        what = f"{whose}: predicted below 0, where none was in training"
        tell(DataWarning(Problem(what, tuple(_ways_above_zero(schema, name, below)))))


def _ways_above_zero(schema: Schema, name: str, below: Mapping[int, str]) -> Iterator[With]:
    """Margins and views of counts: for each of a few columns, else for all that may have one margin; only those of one
    table have options and views of their own.
    """
    features, limits = schema.codings[name].features, schema.types[name].limits_of(schema.codings[name].read_columns)
    each = len(below) <= MOST or any(limits.limited)
    counts = [features[place] for place, how in below.items() if how == "count" and schema.one_table and each]
    margins = {features[place]: how for place, how in below.items() if features[place] not in counts}
    margins = {feature: "normal" if how == "count" else how for feature, how in margins.items()}
    if margins:
        of_all = max(margins.values())  # "normal" serves where "auto" does
        own = ", ".join(f"{quoted(feature)}: {how!r}" for feature, how in margins.items())
        python = f"{{{name!r}: Real(margin={f'{{{own}}}' if each else repr(of_all)})}}"
        shell = [f"{feature}={how}" for feature, how in margins.items()] if schema.one_table and each else [of_all]
        yield With(Remedy.ABOVE_ZERO, (Example(python, shell[0]), *(Example("", text) for text in shell[1:])))
    if counts:
        python = ", ".join(f"{quoted(feature)}: Count()" for feature in counts)
        shell = [f"{feature}={feature}:count" for feature in counts]
        yield With(Remedy.COUNTS, (Example(f"{{{python}}}", shell[0]), *(Example("", text) for text in shell[1:])))


def probabilities_to_user(schema: Schema, name: str, values: np.ndarray, index: pd.Index, asked: int | None) -> Any:
    """Probabilities as `predict_proba` gives them, by class, column or level.

    Of levels: those of one column as columns; of several as a frame whose columns have two levels of names, column and
    level, or, where the view was an array, as a dict of column to array. `asked` is as in `to_user`.
    """
    coding = schema.codings[name]
    is_array = coding.container in ("array", "vector")
    if not coding.ordered:
        if is_array:
            return values
        found = pd.DataFrame(values, index=index, columns=coding.latent_index)
        return found if asked is None else found.iloc[:, asked]
    parts = np.split(values, first_places(coding.ordered)[1:], axis=1)
    if asked is None and len(parts) > 1:
        if is_array:
            return dict(zip(coding.features, parts))
        names = [(feature, level) for feature, own in zip(coding.features, coding.ordered) for level in own.values]
        return pd.DataFrame(values, index=index, columns=pd.MultiIndex.from_tuples(names, names=["column", "level"]))
    place = asked or 0
    own = coding.ordered[place]
    return parts[place] if is_array else pd.DataFrame(parts[place], index=index, columns=pd.Index(list(own.values)))


def std_to_user(schema: Schema, name: str, std: np.ndarray, index: pd.Index, decoded: bool = False) -> Any:
    """Standard deviations (or probabilities) per column in the user's scale and container; `decoded` as in `to_user`.

    Those of the classes of a categorical view come as an array or frame of one column per class.
    """
    coding = schema.codings[name]
    values = np.asarray(std, dtype=np.float64)
    by_class = coding.levels is not None and values.shape[1] == coding.width
    names = coding.latent_index if by_class else coding.columns
    values = values * (coding.scale if len(names) == coding.width and not decoded else 1.0)
    if coding.container in ("array", "vector"):
        return values if by_class or coding.container == "array" else values[:, 0]
    frame = labelled_frame(values, names, index)
    return frame.iloc[:, 0] if coding.container == "series" and not by_class else frame


def fill(
    schema: Schema,
    name: str,
    given: Any,
    values: np.ndarray,
    index: pd.Index,
    also: np.ndarray | None = None,
    decoded: bool = False,
    told: bool = True,
) -> Any:
    """A copy of what the user gave for a view, its holes, and `also` these cells, filled with `values`.

    `told`: a warning where numbers fall below 0 that never were in training.

    Container, names, dtypes and observed cells stay; means that fill holes of an integer dtype are rounded. Texts of a
    column with limits are numbers then, but for those beyond a limit, such as <0.5.
    The rows are those of `index`, so rows that the view lacked are added.
    """
    coding = schema.codings[name]
    table = read_table(on_host(given), name, True, schema.types[name].meanings(coding))
    table = replace(table, frame=schema.types[name].measured(table.frame, coding))
    frame = match_columns(table, coding, name)
    values = values if decoded else schema.types[name].decode(np.asarray(values), coding)
    if told:
        warn_below_zero(schema, name, values)
    if table.has_index:
        filled = _fill_frame(table.frame, frame, values, coding, index, also)
        return filled.iloc[:, 0].rename(table.label) if table.container == "series" else filled
    block = fill_cells(frame.to_numpy(), np.arange(len(frame)), restore_block(values, table.dtypes), also)
    if table.holds_objects_for_array:
        block = restore_block(block.astype(np.float64) if values.dtype.kind == "f" else block, table.dtypes)
    return block[:, 0] if table.container == "vector" else block


def _fill_frame(
    given: pd.DataFrame,
    matched: pd.DataFrame,
    decoded: np.ndarray,
    coding: Coding,
    index: pd.Index,
    also: np.ndarray | None,
) -> pd.DataFrame:
    """The given frame filled, as one block where it is one; columns unknown to the model stay as they are."""
    rows = np.arange(len(index)) if given.index.equals(index) else given.index.get_indexer(index)
    dtypes = Table(given, "frame").dtypes
    if matched is given and numeric_block(given) is not None:
        block = fill_cells(given.to_numpy(), rows, restore_block(decoded, dtypes), also)
        return pd.DataFrame(block, index=index, columns=given.columns, copy=False)
    columns = {}
    for j, place in enumerate(matched.columns.get_indexer(given.columns)):
        column = given.iloc[:, j]
        if place < 0:
            columns[j] = column if given.index.equals(index) else column.reindex(index)
        else:
            new = restore_column(decoded[:, place], dtypes[j], coding.labels_of(int(place)))
            cells = column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array
            cells = fill_cells(cells, rows, new, None if also is None else also[:, place])
            whole = pd.Series(cells, index=index, dtype=cells.dtype)  # a frame would guess at objects
            beyond = also is not None and also[:, place].any()  # else cells such as <0.5 stay
            columns[j] = numbers_if_all_are(whole) if beyond and cells.dtype.kind == "O" else whole
    filled = pd.DataFrame(columns, index=index)
    filled.columns = given.columns
    return filled
