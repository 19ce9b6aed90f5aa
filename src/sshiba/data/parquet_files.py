"""Parquet: a file, or a folder of files, whose rows come in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..core.machine import CHUNK_BYTES, chunk_bytes
from ..core.scratch import ScratchError
from ..version import how_to_install
from .parquet_groups import group_batches
from .sources import Chunks, ChunkSource, Cursor, SourceError, WatchedFile

BATCH_BYTES = CHUNK_BYTES  # of all columns, the most that are read at a time
PAGES_IN_MEMORY = 8  # of what may be used: the pages of columns that Arrow has read
LEAST_BUFFER, MOST_BUFFER = 2**12, 2**16  # bytes of a column that are read at a time


def parquet_source(path: Path, name: str) -> ParquetSource:
    """A file, or a folder of files in the order of their names."""
    files = ParquetFiles(path, name)
    return ParquetSource(files, None, "frame", files.row_names())


class ParquetFiles:
    """Files with the same columns, one below the other."""

    def __init__(self, path: Path, name: str) -> None:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError(f"view {name!r} is Parquet, which needs: {how_to_install('parquet')}.") from error
        paths = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
        self.name = name
        self.watched = [WatchedFile(str(one), name) for one in paths]
        self.limit = inf
        self.metadata = [parquet.read_metadata(one) for one in paths]
        self.schema = self.metadata[0].schema.to_arrow_schema()
        for other in self.metadata[1:]:
            if other.schema.to_arrow_schema().names != self.schema.names:
                raise ValueError(f"view {name!r}: the files in {str(path)!r} have different columns.")
        self.outline = self.schema.empty_table().to_pandas()
        self.groups = [
            (i, k, own.row_group(k).num_rows) for i, own in enumerate(self.metadata) for k in range(own.num_row_groups)
        ]
        self.edges = np.array([0, *accumulate(n for _, _, n in self.groups)])

    @property
    def step(self) -> int:
        """Rows that are read at a time."""
        return max(1, int(self._batch_bytes) // (8 * max(len(self.schema.names), 1)))

    @property
    def _batch_bytes(self) -> float:
        return min(BATCH_BYTES, chunk_bytes(self.limit))

    def opened(self, i: int) -> Any:
        """One of the files, of whose columns Arrow does not read more than it needs."""
        from pyarrow import parquet

        buffer = int(min(max(self._batch_bytes / max(len(self.schema.names), 1), LEAST_BUFFER), MOST_BUFFER))
        path, metadata = self.watched[i].path, self.metadata[i]
        return parquet.ParquetFile(path, metadata=metadata, buffer_size=buffer, pre_buffer=False)

    @property
    def index_columns(self) -> list[Any]:
        return [column for column in self.schema.names if column not in self.outline.columns]

    def row_names(self) -> pd.Index | None:
        """As pandas stored them; None where it did not."""
        if isinstance(self.outline.index, pd.RangeIndex):
            return None
        columns = self.index_columns
        parts = []
        for i in range(len(self.metadata)):
            with self.opened(i) as file:
                parts.append(file.read(columns=columns, use_pandas_metadata=True).to_pandas().index)
        return parts[0].append(parts[1:])

    def batches(self, row: int, columns: Sequence[Any] | None) -> Iterator[tuple[int, Any]]:
        """Some rows at a time, of these columns or of all, from the row group on that has this row."""
        first = max(int(np.searchsorted(self.edges, row, "right")) - 1, 0)
        groups = list(zip(self.groups, self.edges))[first:]
        for i, own in groupby(groups, lambda group: group[0][0]):
            watched = self.watched[i]
            try:
                with self.opened(i) as file:
                    for (_, group, _), start in own:
                        for place, batch in group_batches(
                            file, group, self.step, columns, self.limit / PAGES_IN_MEMORY
                        ):
                            watched.check()
                            yield int(start) + place, batch
                            del batch
                        release()
            except ScratchError:
                raise
            except (OSError, ValueError) as error:  # Arrow's are such
                watched.check()
                raise SourceError(f"view {self.name!r}: {watched.path!r} can no longer be read: {error}.") from error


def release() -> None:
    """Memory that Arrow has freed goes back to the system."""
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()


class ParquetSource(ChunkSource):
    """All columns of Parquet files, or those of a view, of which no others are read.

    Where they are all numbers Arrow makes one array of each batch, which is sooner coded than a frame.
    """

    def __init__(self, files: ParquetFiles, columns: list[Any] | None, container: str, index: pd.Index | None) -> None:
        self.files, self.columns = files, columns
        outline = files.outline if columns is None else files.outline[columns]
        super().__init__(files.name, self._as_frames, int(files.edges[-1]), outline, container, index)
        self.limit = files.limit
        self._arrays = Cursor(files.name, self._as_arrays)
        kinds = [files.schema.field(name).type for name in outline.columns if isinstance(name, str)]
        self.is_numbers = len(kinds) == outline.shape[1] and all(map(is_number, kinds))

    def part(self, like: pd.DataFrame | pd.Series) -> ParquetSource:
        names = [like.name] if isinstance(like, pd.Series) else list(like.columns)
        return ParquetSource(self.files, names, "series" if isinstance(like, pd.Series) else "frame", self.index)

    def keep_to(self, limit: float) -> None:
        super().keep_to(limit)
        self.files.limit = limit

    def let_go(self) -> None:
        super().let_go()
        with self._lock:
            self._arrays.let_go()
        release()

    def read_block(self, start: int, stop: int) -> np.ndarray | None:
        if not self.is_numbers or stop <= start:
            return None
        with self._lock:
            self._frames.let_go()
            parts = self._arrays.parts(start, stop)
        return np.concatenate(parts) if len(parts) > 1 else parts[0].copy()

    def _as_frames(self, row: int) -> Chunks:
        columns = None if self.columns is None else [*self.columns, *self.files.index_columns]
        for start, batch in self.files.batches(row, columns):
            frame = batch.to_pandas()
            del batch
            if self.index is None:
                frame.index = pd.RangeIndex(start, start + len(frame))
            yield start, frame if self.columns is None else frame[self.columns]
            del frame

    def _as_arrays(self, row: int) -> Iterator[tuple[int, np.ndarray]]:
        for start, batch in self.files.batches(row, list(self.outline.columns)):
            found = batch.to_tensor(null_to_nan=True).to_numpy()
            del batch
            yield start, found if found.dtype.kind == "f" else found.astype(float)


def is_number(kind: Any) -> bool:
    """Is it a type of Arrow that an array of floats can hold?"""
    from pyarrow import types

    return types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind)
