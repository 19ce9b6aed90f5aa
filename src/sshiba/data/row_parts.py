"""Rows that are not in memory, some at a time, as data that are; and the answers about them put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
import pandas as pd

from ..core.machine import give_back
from ..core.scratch import empty_answer
from .alignment import align
from .border import as_views
from .containers import Table, read_table
from .markers import AS_GIVEN
from .rows_at import RowsAt
from .sources import RowSource

PART_BYTES = 2**26


def holds_sources(views: Any) -> bool:
    """Are any of these rows not in memory?"""
    return any(isinstance(part, RowSource) for part in _each(views))


def keep_to(views: Any, limit: float) -> None:
    """Let those that are not in memory be read with so many bytes in all."""
    for part in _each(views):
        if isinstance(part, RowSource):
            part.keep_to(limit)


def let_go(views: Any) -> None:
    """Keep nothing of those that are not in memory until they are needed again."""
    for part in _each(views):
        if isinstance(part, RowSource):
            part.let_go()
    give_back()


def _each(views: Any) -> list[Any]:
    return list(views.values()) if isinstance(views, Mapping) else [views]


def row_parts(views: Any, max_bytes: int = PART_BYTES) -> Iterator[Any]:
    """All rows of the views, some at a time, in the order in which they are answered.

    What a model is asked of rows that are larger than memory can so be written part by part.

    Parameters
    ----------
    views : dict of views, or one table; as for `SSHIBA.fit`
    max_bytes : int
        About what the rows of a part may take.

    Yields
    ------
    The same views with some of the rows, in memory.

    Examples
    --------
    >>> for part in sshiba.row_parts({"x": "large.npy"}):  # doctest: +SKIP
    ...     file.write(model.impute(part)["x"])
    """
    views = as_views(views)
    parts = views if isinstance(views, Mapping) else {"": views}
    tables = {name: read_table(part, name, True, AS_GIVEN) for name, part in parts.items()}
    index, places = align(tables, training=False)
    for name, at in places.items():
        source = tables[name].source
        if source is not None and at is not None:
            tables[name], places[name] = replace(tables[name], source=RowsAt(source, at, index)), None
    step = max(1, max_bytes // max(1, sum(table.row_bytes for table in tables.values())))
    for start in range(0, max(len(index), 1), step):
        labels = index[start : start + step]
        found = {name: _some(tables[name], places[name], start, labels) for name in parts}
        yield found if isinstance(views, Mapping) else found[""]


def _some(table: Table, places: np.ndarray | None, start: int, labels: pd.Index) -> Any:
    """The rows of these labels in the container of the table; missing where it has none of them."""
    if places is None:
        frame = table.read(start, start + len(labels))
    else:
        wanted = places[start : start + len(labels)]
        known = wanted[wanted >= 0]
        span = (int(known.min()), int(known.max()) + 1) if len(known) else (0, 0)
        frame = table.read(*span).reindex(labels)
    return in_container(table, frame)


def in_container(table: Table, frame: pd.DataFrame) -> Any:
    """Some rows of a table as they were given."""
    if table.container == "series":
        return frame.iloc[:, 0].rename(table.label)
    if table.container == "frame":
        return frame
    values = frame.to_numpy()
    return values[:, 0] if table.container == "vector" else values


def by_parts(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method about rows: of those that are not in memory some at a time, its answers put together.

    Whoever has the method tells of all rows with `tell_of`.
    """

    @wraps(method)
    def in_parts(self: Any, views: Any, *args: Any, **options: Any) -> Any:
        self.tell_of(views)
        if not holds_sources(views):
            return method(self, views, *args, **options)
        return joined([method(self, part, *args, **options) for part in row_parts(views)])

    return in_parts


def joined(answers: list[Any]) -> Any:
    """Answers about some rows each, one below the other."""
    first = answers[0]
    if len(answers) == 1:
        return first
    if isinstance(first, tuple):
        return tuple(joined(list(parts)) for parts in zip(*answers))
    if isinstance(first, dict):
        return {name: joined([answer[name] for answer in answers]) for name in first}
    if isinstance(first, pd.DataFrame | pd.Series):
        return pd.concat(answers)
    shape = (sum(len(answer) for answer in answers), *first.shape[1:])
    return np.concatenate(answers, out=empty_answer(shape, np.result_type(*answers)))
