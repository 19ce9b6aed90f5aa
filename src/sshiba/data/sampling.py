"""Rows drawn at random from data that are too large to be held: what is asked of them needs them in memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..core.machine import chunk_bytes, memory_limit
from ..core.random import seed_sequence
from .alignment import align
from .border import as_views
from .containers import Table, read_table
from .markers import AS_GIVEN
from .row_parts import holds_sources, in_container, keep_to, let_go
from .rows_at import as_outlined

logger = logging.getLogger("sshiba")

MOST_ROWS = 100_000  # that are drawn, unless more are asked for
LEAST_ROWS = 1_000  # however little memory there is
COPIES = 22  # of each row at a time: as it came, with cells hidden, coded, predicted, and what is made of them


@dataclass(frozen=True, eq=False)
class Sample:
    """Data in memory, and which of all rows they are."""

    views: Any
    index: pd.Index | None = None  # the labels of these rows; None where all rows were in memory anyway
    all_rows: pd.Index | None = None  # of all
    places: np.ndarray | None = None  # of these rows among all; None: they are all

    @property
    def in_words(self) -> str:
        """Which rows these are; nothing where they are all."""
        if self.places is None or self.all_rows is None:
            return ""
        return f"{len(self.places):,} of the {len(self.all_rows):,} rows, drawn at random"


def draw_sample(views: Any, max_rows: int = MOST_ROWS, max_memory: Any = None, random_state: int | None = 0) -> Sample:
    """Data that are in memory as they are; of others all rows, or some where they are many or take too much memory.

    Parameters
    ----------
    views : as for `fit`
    max_rows : int
        The most rows of data that are not in memory.
    max_memory : as for `memory_limit`
    random_state : int, optional
        Which rows.
    """
    if isinstance(max_rows, bool) or not isinstance(max_rows, int | np.integer) or max_rows < 1:
        raise ValueError(f"max_rows must be a whole number of rows, at least 1, not {max_rows!r}.")
    views = as_views(views)
    if not holds_sources(views):
        return Sample(views)
    limit = memory_limit(max_memory)
    keep_to(views, limit)
    parts = views if isinstance(views, Mapping) else {"": views}
    tables = {name: read_table(part, name, meanings=AS_GIVEN) for name, part in parts.items()}
    index, places = align(tables, training=False)
    room = limit / (COPIES * sum(table.row_bytes for table in tables.values()))
    wanted = min(int(max_rows), max(LEAST_ROWS, int(room)))
    rows, labels = None, index
    if len(index) > wanted:
        rng = np.random.default_rng(seed_sequence(random_state).spawn(1)[0].spawn(1)[0])
        rows = np.sort(rng.choice(len(index), wanted, replace=False))
        labels = index[rows]
    found = {name: _taken(table, places[name], rows, chunk_bytes(limit)) for name, table in tables.items()}
    let_go(views)
    sample = Sample(found if isinstance(views, Mapping) else found[""], labels, index, rows)
    if rows is not None:
        logger.warning("looking at %s", sample.in_words)
    return sample


def _taken(table: Table, places: np.ndarray | None, rows: np.ndarray | None, max_bytes: float) -> Any:
    """Some rows of a view, in its container; a view with names may lack some of them."""
    n_rows = table.n_rows if places is None else len(places)
    wanted = np.arange(n_rows) if rows is None else rows
    if places is not None:
        wanted = places[wanted]
        wanted = wanted[wanted >= 0]
    if table.sparse is not None:
        return table.sparse.take(wanted)
    if table.tensor is not None:
        return table.tensor[wanted]
    return in_container(table, gathered(table, wanted, max_bytes))


def gathered(table: Table, wanted: np.ndarray, max_bytes: float) -> pd.DataFrame:
    """Rows at these places, in this order; in one pass over the table, so many bytes at a time."""
    if table.source is None:
        return table.frame.iloc[wanted]
    if len(wanted) == 0:
        return table.frame
    order = np.argsort(wanted, kind="stable")
    places, step = wanted[order], max(1, int(max_bytes) // max(table.row_bytes, 1))
    parts = []
    for some in np.split(places, np.flatnonzero(np.diff(places // step)) + 1):
        first = int(some[0])
        parts.append(table.read(first, int(some[-1]) + 1).iloc[some - first])
    found = pd.concat(parts) if len(parts) > 1 else parts[0]
    found = as_outlined(found, table.frame)  # parts with different categories become objects
    return found if np.array_equal(order, np.arange(len(order))) else found.iloc[np.argsort(order, kind="stable")]
