"""Parquet: a file, or a folder of files, whose rows come in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .sources import Chunks, ChunkSource, Cursor, SourceError, WatchedFile

BATCH_BYTES = 2**26  # of all columns that are read at a time


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
            raise ImportError(f"view {name!r} is Parquet, which needs: pip install 'sshiba[parquet]'.") from error
        paths = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
        self.name = name
        self.watched = [WatchedFile(str(one), name) for one in paths]
        self.files = [parquet.ParquetFile(one) for one in paths]
        self.schema = self.files[0].schema_arrow
        for other in self.files[1:]:
            if other.schema_arrow.names != self.schema.names:
                raise ValueError(f"view {name!r}: the files in {str(path)!r} have different columns.")
        self.outline = self.schema.empty_table().to_pandas()
        self.groups = [
            (i, k, file.metadata.row_group(k).num_rows)
            for i, file in enumerate(self.files)
            for k in range(file.num_row_groups)
        ]
        self.edges = np.array([0, *accumulate(n for _, _, n in self.groups)])
        self.step = max(1, BATCH_BYTES // (8 * max(len(self.schema.names), 1)))

    @property
    def index_columns(self) -> list[Any]:
        return [column for column in self.schema.names if column not in self.outline.columns]

    def row_names(self) -> pd.Index | None:
        """As pandas stored them; None where it did not."""
        if isinstance(self.outline.index, pd.RangeIndex):
            return None
        columns = self.index_columns
        parts = [file.read(columns=columns, use_pandas_metadata=True).to_pandas().index for file in self.files]
        return parts[0].append(parts[1:])

    def batches(self, row: int, columns: Sequence[Any] | None) -> Iterator[tuple[int, Any]]:
        """Some rows at a time, of these columns or of all, from the row group on that has this row."""
        first = max(int(np.searchsorted(self.edges, row, "right")) - 1, 0)
        for (i, group, _), start in list(zip(self.groups, self.edges))[first:]:
            watched = self.watched[i]
            try:
                for batch in self.files[i].iter_batches(self.step, row_groups=[group], columns=columns):
                    watched.check()
                    yield int(start), batch
                    start += batch.num_rows
            except (OSError, ValueError) as error:  # Arrow's are such
                watched.check()
                raise SourceError(f"view {self.name!r}: {watched.path!r} can no longer be read: {error}.") from error


class ParquetSource(ChunkSource):
    """All columns of Parquet files, or those of a view, of which no others are read.

    Where they are all numbers Arrow makes one array of each batch, which is sooner coded than a frame.
    """

    def __init__(self, files: ParquetFiles, columns: list[Any] | None, container: str, index: pd.Index | None) -> None:
        self.files, self.columns = files, columns
        outline = files.outline if columns is None else files.outline[columns]
        super().__init__(files.name, self._as_frames, int(files.edges[-1]), outline, container, index)
        self._arrays = Cursor(files.name, self._as_arrays)
        kinds = [files.schema.field(name).type for name in outline.columns if isinstance(name, str)]
        self.is_numbers = len(kinds) == outline.shape[1] and all(map(is_number, kinds))

    def part(self, like: pd.DataFrame | pd.Series) -> ParquetSource:
        names = [like.name] if isinstance(like, pd.Series) else list(like.columns)
        return ParquetSource(self.files, names, "series" if isinstance(like, pd.Series) else "frame", self.index)

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
            if self.index is None:
                frame.index = pd.RangeIndex(start, start + len(frame))
            yield start, frame if self.columns is None else frame[self.columns]

    def _as_arrays(self, row: int) -> Iterator[tuple[int, np.ndarray]]:
        for start, batch in self.files.batches(row, list(self.outline.columns)):
            found = batch.to_tensor(null_to_nan=True).to_numpy()
            yield start, found if found.dtype.kind == "f" else found.astype(float)


def is_number(kind: Any) -> bool:
    """Is it a type of Arrow that an array of floats can hold?"""
    from pyarrow import types

    return types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind)
