"""Several tables, together too large to hold, side by side: rows by name where they have names, else by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from ..core.machine import chunk_bytes
from ..data.markers import added
from ..data.rows_at import RowsAt
from ..data.sources import RowSource
from .file_table import FileTable
from .joining import check_columns, columns_by_file, names_of_all
from .long_tables import LongTable
from .reading_options import LearnedReading, Reading
from .tables import columns_to_drop, tell_taken

PART = 2**24  # bytes of rows, the most that are read at a time


class JoinedTables(LongTable):
    """Tables in files of text and of Parquet as one; what is filled is written anew, not as it was written before."""

    is_text = False

    def __init__(
        self, paths: Sequence[str], how: Reading, learned: LearnedReading | None = None, limit: float = inf
    ) -> None:
        self.paths, self.path, self.how, self.learned, self.limit = list(paths), paths[0], how, learned, limit
        columns = [name for path in paths for name in LongTable(path, Reading(), learned).columns]
        self.dropped = columns_to_drop(how.drop, columns, paths)
        self.tables = [LongTable(path, how, learned, columns, limit) for path in paths]
        check_columns([next(table.parts()) for table in self.tables])

    @cached_property
    def index(self) -> pd.Index | None:
        """The names of all rows; None where they have none."""
        surveys = [table.survey for table in self.tables]
        columns = [name for table in self.tables for name in table.columns]
        tell_taken(added(own.taken for own in surveys), columns, self.how)
        return names_of_all([own.names for own in surveys], [own.n_rows for own in surveys], self.paths)

    @property
    def total_rows(self) -> int:
        return self.tables[0].survey.n_rows if self.index is None else len(self.index)

    @property
    def n_rows(self) -> int:
        return self.total_rows

    @cached_property
    def first(self) -> FileTable:
        """All columns, and no row."""
        outline = pd.concat([table.first.values.iloc[:0].reset_index(drop=True) for table in self.tables], axis=1)
        dialects = [table.first.dialect for table in self.tables]
        return FileTable(outline, outline, dialect=dialects[0] if None not in dialects else None)

    @property
    def files(self) -> Mapping[str, list]:
        return columns_by_file(self.paths, [table.survey.outline for table in self.tables])

    def keep_to(self, limit: float) -> None:
        self.limit = limit
        for table in self.tables:
            table.keep_to(limit)

    def source(self) -> RowSource:
        return self._source

    @cached_property
    def _source(self) -> RowSource:
        sources: list[RowSource] = [table.source() for table in self.tables]
        index = self.index
        if index is None:
            return SideBySide(sources)
        at = [source.index.get_indexer(index) for source in sources if source.index is not None]
        same = [np.array_equal(places, np.arange(source.n_rows)) for places, source in zip(at, sources)]
        return SideBySide(
            [source if own else RowsAt(source, places, index) for source, places, own in zip(sources, at, same)]
        )

    def parts(self) -> Iterator[FileTable]:
        return (part for _, part in self.parts_of_whole())

    def parts_of_whole(self, row: int = 0) -> Iterator[tuple[int, FileTable]]:
        source = self.source()
        whole = frozenset(name for table in self.tables for name in table.survey.whole)
        step = max(1, int(min(PART, chunk_bytes(self.limit))) // max(source.row_bytes, 1))
        for start in range(row - row % step, source.n_rows, step):
            frame = source.read(start, min(start + step, source.n_rows))
            yield start, FileTable(frame, frame, whole=whole)

    def read_as(self, learned: LearnedReading) -> JoinedTables:
        return JoinedTables(self.paths, self.how, learned, self.limit)


class SideBySide(RowSource):
    """The columns of several sources that have the same rows."""

    container = "frame"

    def __init__(self, sources: Sequence[RowSource]) -> None:
        self.sources, self.n_rows, self.index = sources, sources[0].n_rows, sources[0].index
        self.outline = pd.concat([source.outline for source in sources], axis=1)

    def keep_to(self, limit: float) -> None:
        super().keep_to(limit)
        for source in self.sources:
            source.keep_to(limit)

    def let_go(self) -> None:
        for source in self.sources:
            source.let_go()

    def read(self, start: int, stop: int) -> pd.DataFrame:
        parts: list[Any] = [source.read(start, stop) for source in self.sources]
        return pd.concat([part.set_axis(parts[0].index) for part in parts], axis=1)
