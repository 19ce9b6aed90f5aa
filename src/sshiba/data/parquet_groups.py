"""One row group of a Parquet file in batches of rows, however large it is: some columns at a time where they are many.

Arrow has a page of each column in memory, as it is stored and as it is decoded, and with many columns these are most of
the row group. Then batches of some columns after the other go to a scratch file, and come from there side by side.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..core.scratch import no_room

PAGE_BYTES = 2**20  # as writers have it unless they are told otherwise


def group_batches(
    file: Any, group: int, step: int, columns: Sequence[Any] | None, page_bytes: float
) -> Iterator[tuple[int, Any]]:
    """Batches of up to so many rows, each with the place of its first row in the group.

    Parameters
    ----------
    file : pyarrow.parquet.ParquetFile
    group, step : int
    columns : names, optional
        None: all.
    page_bytes : float
        Of the pages of columns that are in memory at a time; those of one column are in any case.
    """
    parts = _parts_of_columns(file, group, columns, page_bytes)
    if len(parts) > 1:
        yield from _by_way_of_disk(file, group, step, parts)
        return
    yield from _numbered(file.iter_batches(step, row_groups=[group], columns=columns))


def _numbered(batches: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    start = 0
    for batch in batches:
        n = batch.num_rows
        yield start, batch
        del batch
        start += n


def _parts_of_columns(file: Any, group: int, columns: Sequence[Any] | None, page_bytes: float) -> list[list[Any]]:
    """Columns whose pages are in memory together; all in one where they are nested, so that names do not tell them."""
    names = list(file.schema_arrow.names)
    wanted = names if columns is None else list(columns)
    meta = file.metadata.row_group(group)
    if meta.num_columns != len(names) or len(set(names)) < len(names):
        return [wanted]
    place = {name: j for j, name in enumerate(names)}
    parts: list[list[Any]] = [[]]
    taken = 0.0
    for name in wanted:
        column = meta.column(place[name])
        pages = min(column.total_compressed_size, PAGE_BYTES) + min(column.total_uncompressed_size, PAGE_BYTES)
        if parts[-1] and taken + pages > page_bytes:
            parts.append([])
            taken = 0.0
        parts[-1].append(name)
        taken += pages
    return parts


def _by_way_of_disk(file: Any, group: int, step: int, parts: Sequence[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa

    metadata = file.schema_arrow.metadata
    with Pieces(len(parts)) as pieces:
        for k, names in enumerate(parts):
            for start, batch in _numbered(file.iter_batches(step, row_groups=[group], columns=names)):
                pieces.add(k, start, batch)
                del batch
            pa.default_memory_pool().release_unused()
        for start, stop in pairwise(pieces.edges):
            found = [pieces.read(k, start, stop) for k in range(len(parts))]
            fields = [field for part in found for field in part.schema]
            arrays = [array for part in found for array in part.columns]
            del found
            batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata))
            del arrays
            yield start, batch
            del batch


class Pieces:
    """Batches of some columns each in a file without a name, in the folder for temporary files (TMPDIR)."""

    def __init__(self, n_parts: int) -> None:
        self.at: list[list[tuple[int, int, int]]] = [[] for _ in range(n_parts)]  # first row, row after, place
        try:
            self.file = tempfile.TemporaryFile(prefix="sshiba-")  # noqa: SIM115 (it is closed at the end)
        except OSError as error:
            raise no_room(error) from error

    def __enter__(self) -> Pieces:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def add(self, part: int, start: int, batch: Any) -> None:
        from pyarrow import ipc

        plain = batch.replace_schema_metadata(None)
        place = self.file.tell()
        try:
            with ipc.new_stream(self.file, plain.schema) as stream:
                stream.write_batch(plain)
            self.file.flush()
        except OSError as error:
            raise no_room(error) from error
        self.at[part].append((start, start + batch.num_rows, place))

    @property
    def edges(self) -> list[int]:
        """The rows at which a batch of some columns begins, and the number of rows."""
        return sorted({row for part in self.at for start, stop, _ in part for row in (start, stop)})

    def read(self, part: int, start: int, stop: int) -> Any:
        """Rows of one piece."""
        from pyarrow import ipc

        first, _, place = next(piece for piece in self.at[part] if piece[0] <= start < piece[1])
        self.file.seek(place)
        with ipc.open_stream(self.file) as stream:
            return stream.read_next_batch().slice(start - first, stop - start)
