"""Answers about Dask collections: collections themselves, worked out partition by partition when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd

from .alignment import check_same_length


def is_collection(value: Any) -> bool:
    """Is it an array or a frame of Dask?"""
    return type(value).__module__.split(".")[0].startswith("dask") and hasattr(value, "to_delayed")


def is_frame(value: Any) -> bool:
    return is_collection(value) and hasattr(value, "divisions")


def in_partitions(views: Any) -> Partitions | None:
    """Collections whose rows can be answered partition by partition; None for all else.

    That is one collection, or several and arrays in memory whose rows belong together by their places. Frames beside
    others are matched by the names of rows, which no partition knows by itself.
    """
    if not isinstance(views, Mapping):
        return Partitions({"": views}) if is_collection(views) else None
    collections = [view for view in views.values() if is_collection(view)]
    alone = len(views) == 1
    by_place = all(isinstance(v, np.ndarray) or (is_collection(v) and not is_frame(v)) for v in views.values())
    return Partitions(views) if collections and (alone or by_place) else None


class Partitions:
    """The same rows of all views, partition by partition."""

    def __init__(self, views: Mapping[str, Any]) -> None:
        self.views, self.first = views, next(view for view in views.values() if is_collection(view))
        self.lengths: Sequence[float]
        if is_frame(self.first):
            self.lengths = [np.nan] * self.first.npartitions
        else:
            self.first = _with_length(self.first)
            self.lengths = self.first.chunks[0]

    def parts(self) -> list[dict[str, Any]]:
        """What each partition has of each view, as Dask knows it."""
        if not is_frame(self.first):
            lengths = {name: int(_with_length(view).shape[0]) for name, view in self.views.items()}
            check_same_length(lengths)
        columns = {name: self._parts(view) for name, view in self.views.items()}
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def _parts(self, view: Any) -> list[Any]:
        if is_frame(view):
            return view.to_delayed()
        if is_collection(view):
            view = _with_length(view)
            rows = {0: self.lengths, 1: -1} if view.ndim == 2 else {0: self.lengths}
            return list(view.rechunk(rows).to_delayed().ravel())
        starts = [0, *accumulate(int(n) for n in self.lengths)]
        return [view[a:b] for a, b in pairwise(starts)]

    def empty(self) -> dict[str, Any]:
        """The form of all views, without a row."""
        return {name: _empty(view) for name, view in self.views.items()}


def _with_length(view: Any) -> Any:
    return view.compute_chunk_sizes() if np.isnan(view.shape[0]) else view


def _empty(view: Any) -> Any:
    if is_frame(view):
        return view._meta.iloc[:0]
    return np.empty((0, *view.shape[1:]), view.dtype)


def answer_lazily(answers: Any, method: str, views: Any, partitions: Partitions, args: Any, options: Any) -> Any:
    """What a method says of all rows: arrays and frames of Dask, in the form of an answer about no rows."""
    import dask

    one = not isinstance(views, Mapping)
    asked = dask.delayed(answers.for_new_rows(), pure=False, traverse=False)
    ask = dask.delayed(answer_part)
    found = [ask(asked, method, part, one, args, options) for part in partitions.parts()]
    form = answer_part(answers, method, partitions.empty(), one, args, options)
    return _collection(form, found, partitions)


def answer_part(answers: Any, method: str, views: dict[str, Any], one: bool, args: Any, options: Any) -> Any:
    return getattr(answers, method)(views[""] if one else views, *args, **options)


def pick(answer: Any, place: Any) -> Any:
    return answer[place]


def _collection(form: Any, found: Sequence[Any], partitions: Partitions) -> Any:
    import dask

    take: Callable[..., Any] = dask.delayed(pick)
    if isinstance(form, list):
        raise ValueError("draws are made of rows in memory: give some of the rows at a time (row_parts).")
    if isinstance(form, tuple):
        return tuple(_collection(own, [take(f, i) for f in found], partitions) for i, own in enumerate(form))
    if isinstance(form, dict):
        return {name: _collection(own, [take(f, name) for f in found], partitions) for name, own in form.items()}
    if isinstance(form, pd.DataFrame | pd.Series):
        from dask import dataframe

        divisions = partitions.first.divisions if is_frame(partitions.first) else None
        return dataframe.from_delayed(found, meta=form, divisions=divisions, verify_meta=False)
    from dask import array

    shapes = [(n, *form.shape[1:]) for n in partitions.lengths]
    return array.concatenate([array.from_delayed(f, shape, form.dtype) for f, shape in zip(found, shapes)])


def add_up_parts(job: Callable[[Any], Any], views: Any, partitions: Partitions) -> list[Any]:
    """What a function says of each partition, worked out where it is."""
    import dask

    one = not isinstance(views, Mapping)
    return list(dask.compute(*(dask.delayed(job)(part[""] if one else part) for part in partitions.parts())))
