"""Rows of a source at other places than they lie: with gaps, or in another order, in a scratch file then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..core.machine import chunk_bytes
from ..core.scratch import Scratch
from ..core.streamed import cuts
from .sources import RowSource


class RowsAt(RowSource):
    """Rows of a source at these places, -1 being a row that it does not have, called by other names.

    Rows in another order than they lie in are copied to a scratch file once.
    """

    def __init__(self, source: RowSource, places: np.ndarray, index: pd.Index) -> None:
        self.source, self.places, self.names, self.n_rows = source, places, index, len(places)
        self.index = index
        self.container = source.container
        outline = with_holes(source.outline) if (places < 0).any() else source.outline
        self.outline = outline.set_axis(index[:0])
        in_order = bool((np.diff(places[places >= 0]) > 0).all())
        self.copy = None if in_order else SortedCopy(source, places, self.outline)
        self.any_order = self.copy is not None or source.any_order

    def keep_to(self, limit: float) -> None:
        super().keep_to(limit)
        self.source.keep_to(limit)

    def let_go(self) -> None:
        self.source.let_go()

    def read(self, start: int, stop: int) -> pd.DataFrame:
        found = self._with_gaps(start, stop) if self.copy is None else self.copy.read(start, stop)
        return as_outlined(found, self.outline).set_axis(self.names[start:stop])

    def _with_gaps(self, start: int, stop: int) -> pd.DataFrame:
        wanted = self.places[start:stop]
        some = wanted[wanted >= 0]
        runs = np.split(some, cuts(some, self.source.row_bytes, rows_at_once(self.source)))
        parts = [self._run(run) for run in runs]
        found = pd.concat(parts) if len(parts) > 1 else parts[0]
        return found if len(some) == len(wanted) else found.set_axis(some).reindex(wanted)  # -1 is none of them

    def _run(self, rows: np.ndarray) -> pd.DataFrame:
        """Rows that lie close together."""
        first, last = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        found = self.source.read(first, last)
        return found if len(rows) == last - first else found.iloc[rows - first]


def rows_at_once(source: RowSource) -> int:
    return max(1, int(chunk_bytes(source.limit)) // max(source.row_bytes, 1))


def as_outlined(frame: pd.DataFrame, outline: pd.DataFrame) -> pd.DataFrame:
    """The same with the dtypes of an outline; which categories there are, parts tell themselves."""
    odd: dict[Any, Any] = {}
    for (name, dtype), own in zip(outline.dtypes.items(), frame.dtypes):
        if isinstance(dtype, pd.CategoricalDtype):
            if not isinstance(own, pd.CategoricalDtype):
                odd[name] = "category"
        elif own != dtype:
            odd[name] = dtype
    return frame.astype(odd) if odd else frame


def with_holes(outline: pd.DataFrame) -> pd.DataFrame:
    """With dtypes that can hold missing cells."""
    wider = {"i": np.dtype(float), "u": np.dtype(float), "b": np.dtype(object)}
    dtypes = {name: wider[d.kind] for name, d in outline.dtypes.items() if isinstance(d, np.dtype) and d.kind in wider}
    return outline.astype(dtypes)


class SortedCopy:
    """The rows of a source in a scratch file, in another order; what is no number by its place among those seen."""

    def __init__(self, source: RowSource, places: np.ndarray, outline: pd.DataFrame) -> None:
        self.columns, scratch, n = outline.columns, Scratch(), len(places)
        own: dict[np.dtype, list[int]] = {}
        self.others: list[int] = []
        for j, dtype in enumerate(outline.dtypes):
            is_number = isinstance(dtype, np.dtype) and dtype.kind in "iufMm"
            (own.setdefault(dtype, []) if is_number else self.others).append(j)
        self.numbers = [(columns, scratch.empty((n, len(columns)), dtype)) for dtype, columns in own.items()]
        self.codes = scratch.empty((n, len(self.others)), np.int32)
        self.values: list[list[Any]] = [[] for _ in self.others]
        known: list[dict[Any, int]] = [{} for _ in self.others]
        goes_to = np.full(source.n_rows, -1)
        present = np.flatnonzero(places >= 0)
        goes_to[places[present]] = present
        for _, array in self.numbers:
            if array.dtype.kind not in "iu":
                array[places < 0] = np.nan if array.dtype.kind == "f" else np.array("NaT", array.dtype)
        self.codes[places < 0] = -1
        step = rows_at_once(source)
        for start in range(0, source.n_rows, step):
            frame = source.read(start, min(start + step, source.n_rows))
            to = goes_to[start : start + len(frame)]
            frame, to = frame[to >= 0], to[to >= 0]
            for columns, array in self.numbers:
                array[to] = frame.iloc[:, columns].to_numpy(array.dtype)
            for k, j in enumerate(self.others):
                self.codes[to, k] = self._coded(frame.iloc[:, j], known[k], self.values[k])

    @staticmethod
    def _coded(column: pd.Series, known: dict[Any, int], values: list[Any]) -> np.ndarray:
        codes, uniques = pd.factorize(column)
        for value in uniques:
            if value not in known:
                known[value] = len(values)
                values.append(value)
        table = np.array([*(known[value] for value in uniques), -1], dtype=np.int32)
        return table[codes]

    def read(self, start: int, stop: int) -> pd.DataFrame:
        parts: dict[int, Any] = {}
        for columns, array in self.numbers:
            parts |= {j: array[start:stop, i].copy() for i, j in enumerate(columns)}
        for k, j in enumerate(self.others):
            values = np.empty(len(self.values[k]) + 1, dtype=object)
            values[:-1], values[-1] = self.values[k], None
            parts[j] = values[self.codes[start:stop, k]]
        return pd.DataFrame({j: parts[j] for j in range(len(self.columns))}).set_axis(self.columns, axis=1)
