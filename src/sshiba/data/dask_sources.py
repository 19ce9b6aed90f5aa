"""Rows of Dask collections where a cluster is at hand: learned and coded on its workers, partition by partition."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, pairwise
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from ..core.coded import CodedView
from ..core.holes import Holes, HoleSums
from ..core.parted import PartedView
from ..core.streamed import join_views
from .coding import Coding
from .markers import without_markers
from .sources import RowSource, numbered
from .types import View

FAN_IN = 8  # summaries that one task adds up


def on_cluster() -> bool:
    """Is a client of a Dask cluster in use in this process?"""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.Client.current(allow_global=True)
    except ValueError:
        return False
    return True


def cluster() -> Any:
    from ..core.dask_cluster import Cluster, needed_client

    return Cluster(needed_client())


class DaskSource(RowSource):
    """The partitions of a collection, each a frame on some worker."""

    def __init__(
        self,
        parts: Sequence[Any],
        lengths: Sequence[int],
        outline: pd.DataFrame,
        container: str,
        index: pd.Index | None,
    ) -> None:
        self.parts, self.edges = tuple(parts), (0, *accumulate(lengths))
        self.outline, self.container, self.index, self.n_rows = outline, container, index, self.edges[-1]

    def read(self, start: int, stop: int) -> pd.DataFrame:
        import dask

        assert self.parts is not None
        cut = dask.delayed(rows_of_frame)
        wanted = [cut(self.parts[k], a, b) for k, a, b in overlaps(self.edges, start, stop)]
        return pd.concat(cluster().compute(wanted)) if wanted else self.outline


def array_source(value: Any) -> DaskSource:
    """A Dask array whose lengths are known."""
    import dask

    value = value.rechunk({1: -1}) if value.ndim == 2 else value
    container, lengths = "vector" if value.ndim == 1 else "array", value.chunks[0]
    starts = [0, *accumulate(lengths)]
    parts = [dask.delayed(numbered)(part, start) for part, start in zip(value.to_delayed().ravel(), starts)]
    return DaskSource(parts, lengths, numbered(np.empty((0, *value.shape[1:]), value.dtype), 0), container, None)


def rows_of_frame(frame: pd.DataFrame, start: int, stop: int) -> pd.DataFrame:
    return frame.iloc[start:stop]


def overlaps(edges: Sequence[int], start: int, stop: int) -> list[tuple[int, int, int]]:
    """The partitions in which rows lie, and where in them."""
    found = ((k, max(start, a) - a, min(stop, b) - a) for k, (a, b) in enumerate(pairwise(edges)))
    return [(k, a, b) for k, a, b in found if a < b]


# ------------------------------------------------------------------------------------------------------- in two passes


def learn_on_workers(view: View, parts: Sequence[Any], name: str) -> Any:
    """The summary of all partitions, added up where they are."""
    import dask

    found = [dask.delayed(learn_part)(part, view, name) for part in parts]
    while len(found) > 1:
        found = [dask.delayed(add_summaries)(found[i : i + FAN_IN]) for i in range(0, len(found), FAN_IN)]
    return cluster().compute(found)[0]


def learn_part(frame: pd.DataFrame, view: View, name: str) -> Any:
    return view.learn(without_markers(frame, view.meanings())[0], name)


def add_summaries(parts: Sequence[Any]) -> Any:
    return reduce(add, parts)


def code_on_workers(
    view: View, source: RowSource, name: str, coding: Coding, dtype: Any, chunk_bytes: float
) -> PartedView:
    """The coded rows of all partitions, kept where they are."""
    import dask

    assert source.parts is not None
    complete = bool((coding.observed_per_feature == source.n_rows).all())
    code = dask.delayed(code_part)
    coded = cluster().keep([code(part, view, name, coding, dtype, complete) for part in source.parts])
    empty = view.encode(source.outline, name, coding, dtype)
    holes, seen = Holes.none(coding.width), np.ones(source.n_rows, dtype=bool)
    if not complete:
        of_part = dask.delayed(holes_of)
        sums = cluster().compute([of_part(part, first, coding.width) for part, first in zip(coded, source.edges)])
        holes, seen = HoleSums.joined(sums), np.concatenate([own.observed_rows for own in sums])

    def rows(start: int, stop: int) -> Any:
        parts = [dask.delayed(rows_of_view)(coded[k], a, b) for k, a, b in overlaps(source.edges, start, stop)]
        return parts[0] if len(parts) == 1 else dask.delayed(join_views)(parts)

    def there(start: int, stop: int) -> Any:
        whole = source.edges.index(start) if start in source.edges else -1
        return coded[whole] if whole >= 0 and source.edges[whole + 1] == stop else rows(start, stop)

    def read_rows(start: int, stop: int) -> CodedView:
        return cluster().compute([rows(start, stop)])[0] if stop > start else CodedView(empty.target, None)

    def fetch(places: np.ndarray) -> CodedView:
        which = np.searchsorted(source.edges, places, "right") - 1
        order = np.argsort(which, kind="stable")
        take = dask.delayed(take_rows)
        wanted = [take(coded[k], places[which == k] - source.edges[k]) for k in np.unique(which)]
        found = join_views(cluster().compute(wanted)) if wanted else CodedView(empty.target, None)
        return found.take(np.argsort(order, kind="stable"))

    form = CodedView(empty.target, None)
    return PartedView(read_rows, source.n_rows, form, holes, seen, chunk_bytes, False, there, fetch, source.edges)


def code_part(frame: pd.DataFrame, view: View, name: str, coding: Coding, dtype: Any, complete: bool) -> CodedView:
    return view.encode_again(without_markers(frame, view.meanings(coding))[0], name, coding, dtype, complete)


def take_rows(view: CodedView, places: np.ndarray) -> CodedView:
    return view.take(places)


def rows_of_view(view: CodedView, start: int, stop: int) -> CodedView:
    return view.read(slice(start, stop))


def holes_of(view: CodedView, first: int, n_features: int) -> HoleSums:
    """What all rows together must know of the holes; that of each row stays with it."""
    found = HoleSums.of(view.observed, first, view.n_rows, n_features)
    return replace(found, of_rows=found.of_rows[:0])
