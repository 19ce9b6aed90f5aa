"""From what the user gives to typed, aligned, coded arrays and masks.

Coding is learned in one pass over the values and applied in another; in memory all rows are one chunk.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from ..core.coded import CodedView
from ..core.machine import chunk_bytes, memory_limit
from ..core.streamed import AnyView, ReadCount, StreamedView
from .advice import DataTypeError, Problem, Remedy
from .alignment import PlacesByView, align
from .border import as_views
from .coding import Coding
from .containers import Table, match_columns, read_table
from .covariates import (
    ENTRY,
    GROUPS,
    groups_among,
    known_inputs,
    learn_columns,
    learn_covariates,
    parts_named,
    refuse_name,
    whole_frame,
)
from .dask_sources import code_on_workers, learn_on_workers
from .hints import give_hints, warn_beyond_training
from .markers import USUAL, Meanings, tell_markers
from .one_table import SplitTable, is_one_table, split_new, split_training
from .row_parts import keep_to
from .schema import Schema
from .sources import RowSource
from .sparse_tables import is_sparse_view
from .telling import tell
from .tensors import on_host
from .types import VIEW_TYPES, View
from .wording import counted, did_you_mean, first_few, quoted

logger = logging.getLogger("sshiba")

MEMORY_SHARE = 0.5  # of what may be used, for coded rows that are kept
SPARSE_REASON = "a sparse matrix of numbers"  # why it is taken as Real


def read_training(
    views: Any,
    types: Mapping[str, Any] | None = None,
    dtype: Any = "float64",
    max_memory: Any = None,
    reads: ReadCount | None = None,
    covariates: Any = None,
    sample_groups: Any = None,
) -> tuple[Schema, dict[str, AnyView], pd.Index]:
    """Learn how to code the views, and code them; those that are too large for memory when they are needed.

    Parameters
    ----------
    views : mapping of view name to array, list, DataFrame or Series; or one DataFrame, MuData or AnnData
        Frames of pandas, polars or Arrow.
    types : mapping of view name to a view type (`Real()`, `Real` or "real"), optional
        Types not given are inferred and logged.
    dtype : of the working copies
    max_memory : as for `memory_limit`
    reads : ReadCount, optional
        Told of all rows that are read and not kept.
    covariates : as for `plain_covariates`
    sample_groups : name of a column, or of an entry, of labels, optional

    Returns
    -------
    schema : Schema
    data : dict of CodedView or StreamedView, all with the same rows; covariates, then the labels of groups of samples,
        are the last, in memory
    index : the labels of these rows
    """
    named = known_inputs(covariates, sample_groups)
    limit = memory_limit(max_memory)
    split = training_views(views, types, named, limit)
    check_mapping(split.views)
    given, parts = split.types, parts_named(split.views, named)
    to_read, beside = apart(split.views, parts)
    said = {name: as_view(view, name) for name, view in given.items()}
    tables = _read_tables(to_read, said, {name: view.meanings() for name, view in said.items()}, allow_no_rows=False)
    reads = ReadCount() if reads is None else reads
    tables = {name: replace(table, reads=reads) for name, table in tables.items()}
    _check_names(given, tables, "view types are given for")
    index, rows = _align_all(tables, beside, training=True)
    frames = {entry: whole_frame(table, rows[entry]) for entry, table in beside.items()}
    labelled = [entry for entry, table in beside.items() if table.has_index]
    columns = learn_columns(frames, parts, named, labelled)
    known, groups = learn_covariates(frames, columns), groups_among(columns, sample_groups)
    schema = Schema({}, {}, dict(split.reasons), split.columns, known, groups)
    tell_markers(
        {
            column if table.frame.shape[1] > 1 else name: own
            for name, table in tables.items()
            for column, own in table.markers.items()
        }
    )
    _learn_codings(schema, tables, given, limit)
    give_hints(schema, tables)
    in_memory = kept_in_memory(tables, dtype, limit)
    data = {
        name: _code(schema, table, name, rows[name], name in in_memory, dtype, limit) for name, table in tables.items()
    }
    if known is not None:
        data[ENTRY] = known.encode(frames, len(index))
    if groups is not None:
        data[GROUPS] = groups.labels(frames, len(index))
    reads.per_pass = sum(table.n_rows * table.row_bytes for name, table in tables.items() if name not in in_memory)
    reads.n_bytes = 0
    return schema, data, index


def _learn_codings(schema: Schema, tables: Mapping[str, Table], given: Mapping[str, Any], limit: float) -> None:
    """Add to the schema the type of each view, given or inferred, and how its values are coded."""
    for name, table in tables.items():
        if name in given:
            view = as_view(given[name], name)
        else:
            view, schema.inferred[name] = infer_type(table, name)
        learned = _learn(view, table, name, chunk_bytes(limit))
        coding = view.make_coding(learned, name)
        view.check_options(name, coding.width)
        schema.types[name] = view
        names = tuple(table.frame.columns.names)
        dtypes = table.dtypes
        if coding.beside:
            dtypes = tuple(d for column, d in zip(table.frame, dtypes) if column not in coding.beside)
        schema.codings[name] = replace(coding, container=table.container, dtypes=dtypes, column_names=names)


def _code(
    schema: Schema, table: Table, name: str, rows: np.ndarray | None, in_memory: bool, dtype: Any, limit: float
) -> AnyView:
    """These rows of a view: coded now, or when they are needed."""
    view, coding = schema.types[name], schema.codings[name]
    if table.source is None and in_memory:
        return _encode(view, table, table.frame, name, coding, dtype).take(rows)
    streamed = _stream(view, replace(table), name, coding, dtype, chunk_bytes(limit))  # without the table's sample
    return streamed.gathered().take(rows) if in_memory else streamed.at(rows)


def read_in_memory(
    views: Any,
    types: Mapping[str, Any] | None = None,
    dtype: Any = "float64",
    covariates: Any = None,
    sample_groups: Any = None,
) -> tuple[Schema, dict[str, CodedView], pd.Index]:
    """The same with all rows in memory, however many there are; the views alone."""
    schema, data, index = read_training(views, types, dtype, np.inf, None, covariates, sample_groups)
    kept = {name: view for name, view in data.items() if isinstance(view, CodedView) and name in schema.types}
    return schema, kept, index


def check_mapping(views: Any) -> None:
    if not isinstance(views, Mapping):
        if isinstance(views, str | os.PathLike):
            hint = "read a table first, e.g. with pd.read_csv; files of numbers are views, {'measured': 'X.npy'}"
        else:
            hint = "give its .views" if hasattr(views, "views") else "{'measured': X}"
        kind = type(views).__name__
        raise TypeError(f"views must be a DataFrame, or a dict of name to data, not {kind}: {hint}.")


def apart(views: Mapping[str, Any], entries: Collection[str]) -> tuple[dict[str, Any], dict[str, Table]]:
    """The views of a dict, and those of its entries that are covariates, read."""
    if entries:
        refuse_name(name for name in views if name not in entries)
    rest = {name: value for name, value in views.items() if name not in entries}
    beside = {name: value for name, value in views.items() if name in entries}
    return rest, {name: read_table(on_host(value), name, allow_no_rows=True) for name, value in beside.items()}


def _align_all(
    tables: Mapping[str, Table], beside: Mapping[str, Table], training: bool
) -> tuple[pd.Index, PlacesByView]:
    """As `align`; rows that only covariates have are no rows, unless there is no view."""
    index, rows = align({**tables, **beside}, training)
    places = [rows[name] for name in tables]
    if not beside or not places or any(own is None for own in places):
        return index, rows
    kept = np.any([own >= 0 for own in places if own is not None], axis=0)
    if kept.all():
        return index, rows
    every = np.arange(len(kept))
    return index[kept], {name: (every if own is None else own)[kept] for name, own in rows.items()}


def kept_in_memory(tables: Mapping[str, Table], dtype: Any, limit: float) -> set[str]:
    """The views whose coded rows are kept: the smallest ones first, as long as they take half of what there is.

    Tensors on a device, sparse matrices and what workers of a cluster have always stay where they are.
    """
    cell = np.dtype(dtype).itemsize
    elsewhere = {name for name, table in tables.items() if table.tensor is not None or table.sparse is not None}
    on_workers = {n for n, table in tables.items() if table.source is not None and table.source.parts is not None}
    sizes = {
        name: table.n_rows * table.frame.shape[1] * cell
        for name, table in tables.items()
        if name not in elsewhere | on_workers
    }
    kept, total = elsewhere, 0
    for name in sorted(sizes, key=lambda name: sizes[name]):
        total += sizes[name]
        if total <= MEMORY_SHARE * limit:
            kept.add(name)
    return kept


def _stream(view: View, table: Table, name: str, coding: Coding, dtype: Any, max_bytes: float) -> StreamedView:
    """A view whose rows are coded as they are read, or were on the workers that have them."""
    if table.source is not None and table.source.parts is not None:
        return code_on_workers(view, table.source, name, coding, dtype, max_bytes)

    def read_rows(start: int, stop: int) -> CodedView:
        block = table.read_block(start, stop) if view.takes_blocks and not coding.beside else None
        if block is not None:
            return view.encode_block(block, coding, dtype, complete)
        return view.encode_again(table.read(start, stop), name, coding, dtype, complete)

    empty = view.encode(table.read(0, 0), name, coding, dtype)
    complete = bool((coding.observed_per_feature == table.n_rows).all())
    any_order = table.source is None or table.source.any_order
    nothing = CodedView(empty.target, None)
    return StreamedView.of(read_rows, table.n_rows, nothing, coding.width, complete, max_bytes, any_order)


def training_views(
    data: Any, types: Mapping[Any, Any] | None, covariates: Collection[Any] = (), limit: float = np.inf
) -> SplitTable:
    """What the user gives to `fit` as a dict of views, with the types that are known, and covariates beside them."""
    if types is not None and not isinstance(types, Mapping):
        raise TypeError(f"view types must be a dict of name to type, not {type(types).__name__}.")
    data = as_views(data)
    keep_to(data, limit)
    if isinstance(data, RowSource) and data.container == "frame":
        split = split_training(read_table(data, "").sample, types, covariates)
        views = {name: data.part(some) for name, some in split.views.items()}
        return replace(split, views=views)
    if is_one_table(data):
        return split_training(data, types, covariates)
    return SplitTable(data, dict(types or {}), {})


def new_views(schema: Schema, given: Any) -> Mapping[str, Any]:
    """What the user gives for new rows as a dict of views."""
    given = as_views(given)
    if not is_one_table(given):
        return given
    if not schema.one_table:
        what = f"the model was fitted to several views, {first_few(schema.types, 10)}, and this is one table"
        raise DataTypeError(Problem(what, (Remedy.SEVERAL_VIEWS,)))
    return split_new(given, schema.codings, schema.types, [own.column for own in schema.known_columns])


def read_new(
    schema: Schema, views: Mapping[str, Any], dtype: Any = "float64", at_mean: bool = False
) -> tuple[dict[str, CodedView], pd.Index]:
    """Code new rows of some of the views as in training; the views come in the schema's order, then the covariates.

    `at_mean`: covariates that are not given are taken at their mean.
    """
    known, groups = schema.covariates, schema.groups
    check_mapping(views)
    rest, beside = apart(views, schema.known_entries)
    meanings = {name: view.meanings(schema.codings[name]) for name, view in schema.types.items()}
    tables = _read_tables(rest, schema.types, meanings, allow_no_rows=True) if rest or not beside else {}
    _check_names(tables, schema.types, "the data hold")
    index, rows = _align_all(tables, beside, training=False)
    data = {}
    for name in schema.types:
        if name in tables:
            coding = schema.codings[name]
            frame = match_columns(tables[name], coding, name, beside=True)
            data[name] = _encode(schema.types[name], tables[name], frame, name, coding, dtype).take(rows[name])
    warn_beyond_training(schema, data)
    frames = {entry: whole_frame(table, rows[entry]) for entry, table in beside.items()}
    if known is not None:
        data[ENTRY] = known.encode(frames, len(index), at_mean, groups)
    if groups is not None:
        data[GROUPS] = groups.labels(frames, len(index))
    return data, index


def _learn(view: View, table: Table, name: str, max_bytes: float) -> Any:
    if table.sparse is not None:
        return view.learn_sparse(table.sparse, name)
    if table.source is not None and table.source.parts is not None:
        return learn_on_workers(view, table.source.parts, name)
    return reduce(add, (view.learn(chunk, name) for chunk in table.chunks(max_bytes)))


def _encode(view: View, table: Table, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
    if table.tensor is not None:
        return view.encode_tensor(table.tensor, name, coding, dtype)
    if table.sparse is not None:
        places = table.frame.columns.get_indexer(frame.columns)
        return view.encode_sparse(table.sparse.with_columns(places), name, coding, dtype)
    return view.encode(frame, name, coding, dtype)


def _read_tables(
    views: Mapping[str, Any], types: Mapping[str, View], meanings: Mapping[str, Meanings], allow_no_rows: bool
) -> dict[str, Table]:
    """Tensors come to the host unless they are, by their type or by themselves, columns of numbers."""
    if not views:
        raise ValueError("no views given. Give a dict of name to data: {'measured': X}.")
    odd = [name for name in views if not isinstance(name, str)]
    if odd:
        raise TypeError(f"view names must be text, not {first_few(odd)}.")
    stay = {name for name in views if name not in types or types[name].takes_tensors}
    given = {name: value if name in stay else on_host(value) for name, value in views.items()}
    for name in types:
        if name in given and is_sparse_view(given[name]):
            given[name] = types[name].without_sparse(given[name], name)
    return {name: read_table(value, name, allow_no_rows, meanings.get(name, USUAL)) for name, value in given.items()}


def _check_names(names: Iterable[str], known: Iterable[str], where: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            hint = did_you_mean([name], known)
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


def infer_type(table: Table, name: str) -> tuple[View, str]:
    """The view type that suits the data, and why; it is logged."""
    view, reason = recognised(table, name)
    logger.info("view %r: taken as %s (%s)", name, type(view).__name__, reason)
    return view, reason


def recognised(table: Table, name: str) -> tuple[View, str]:
    """The most special view type that recognises the data (the last in VIEW_TYPES), and why."""
    if table.sparse is not None:
        return VIEW_TYPES["real"](), SPARSE_REASON
    possible = [kind for kind in VIEW_TYPES.values() if table.tensor is None or kind.takes_tensors]
    for view_type in reversed(possible):
        reason = view_type.recognise(table.sample)
        if reason:
            return view_type(), reason
    raise TypeError(f"view {name!r}: no view type fits these data. Name one: {', '.join(VIEW_TYPES)}.")


def warn_empty_rows(data: Mapping[str, AnyView], index: pd.Index) -> None:
    """Rows with nothing observed are allowed: their factors are the prior's."""
    if any(view.is_complete for view in data.values()):
        return
    empty = ~np.any([view.observed_rows for view in data.values()], axis=0)
    if empty.any():
        rows = f"{counted(int(empty.sum()), 'row')} with nothing observed, first {quoted(index[empty][0])}"
        tell(f"{rows}: what is predicted for them are averages.")
