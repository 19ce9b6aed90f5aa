"""A view whose coded rows are on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .coded import CodedView
from .streamed import StreamedView


@dataclass(frozen=True, eq=False)
class PartedView(StreamedView):
    """One view in parts that workers keep. Its rows can be read from here, too, like those of a file.

    `there(start, stop)` is what a cluster knows rows by that follow one another; `fetch(places)` reads single rows;
    `edges` are the places of the first row of each part, and the number of rows.
    """

    there: Callable[[int, int], Any]
    fetch: Callable[[np.ndarray], CodedView]
    edges: tuple[int, ...]

    def take(self, rows: np.ndarray) -> CodedView:
        """Single rows, at once from all parts that have any of them."""
        return self.fetch(rows)

    def at(self, places: np.ndarray | None) -> StreamedView:
        """Rows in another order, or with gaps, are read here."""
        if places is None:
            return self
        return StreamedView(**{f.name: getattr(self, f.name) for f in fields(StreamedView)}).at(places)
