"""What a command is given: tables and views in memory, or, where they are too large for it, in their files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.machine import memory_limit
from ..data.annotated import modalities
from ..data.border import as_views
from ..data.row_parts import row_parts
from ..data.sampling import COPIES
from ..data.source_formats import parquet_source, path_source, split_inside
from ..data.sources import RowSource
from ..data.wording import first_few
from .file_table import FileTable
from .formats import ARRAYS, STREAM, TABLES, TEXTS, FileError, ending_of, needing
from .long_joined import JoinedTables
from .long_tables import LongTable
from .reading_options import LearnedReading, Reading
from .tables import read_together, readable
from .text_files import file_size
from .view_files import read_annotated

logger = logging.getLogger("sshiba")

GROWTH = 8  # bytes in memory for each of a text file, while it is read
LONG = 200 * 2**20 * GROWTH  # bytes in memory, above which answers about rows are written part by part
SHARE = 0.5  # of the memory that may be used, for the rows
PART = 2**24  # bytes of rows that are answered at a time


@dataclass(frozen=True, eq=False)
class FileViews:
    """Views whose rows stay in their files."""

    views: Any  # name -> RowSource; or a MuData or AnnData that is open
    path: str  # of the first

    @property
    def sources(self) -> dict[str, RowSource]:
        return dict(as_views(self.views))

    @property
    def are_arrays(self) -> bool:
        return isinstance(self.views, Mapping)

    @property
    def n_rows(self) -> int:
        return next(iter(self.views.values())).n_rows if self.are_arrays else self.views.n_obs

    def parts(self) -> Iterator[dict[str, Any]]:
        """All rows, some at a time."""
        return row_parts(self.views, PART)

    def called(self, names: Sequence[str]) -> FileViews:
        """One view may have any name where the model has one only."""
        if self.are_arrays and len(self.views) == 1 and len(names) == 1:
            return replace(self, views=dict(zip(names, self.views.values())))
        return self


@dataclass(frozen=True)
class Room:
    """Bytes of memory: above `held` data are not held as a whole; they are read in parts with up to `limit` in all."""

    held: float
    limit: float


def room_for_fit(max_memory: Any) -> Room:
    limit = memory_limit(max_memory)
    return Room(SHARE * limit, limit)


def room_for_answers(max_memory: Any = None) -> Room:
    """The same where nothing is kept of the rows that have been answered."""
    limit = memory_limit(max_memory)
    return Room(min(LONG, SHARE * limit), limit)


def room_for_checks(max_memory: Any) -> Room:
    """The same where they are copied again and again."""
    limit = memory_limit(max_memory)
    return Room(limit / COPIES, limit)


def open_data(paths: Sequence[str], how: Reading, learned: LearnedReading | None, room: Room) -> Any:
    """A FileTable, or views in memory; of data that are not to be held as a whole a LongTable or FileViews.

    Arrays (.npy, .h5, .hdf5, .zarr) are always FileViews, each named as its file, or as said: NAME=file.
    """
    endings = [ending_of(path) for path in paths]
    if how.missing and not any(ending in TABLES for ending in endings):
        logger.warning("--missing is for tables, and does nothing for arrays: set such cells to NaN.")
    if any(ending in ARRAYS for ending in endings):
        if not all(ending in ARRAYS for ending in endings):
            raise FileError(
                f"arrays ({', '.join(ARRAYS)}) go with arrays only: write all views as such, or all as tables."
            )
        return _open_arrays(paths)
    sizes = {path: held_bytes(path, ending) for path, ending in zip(paths, endings)}
    if sum(sizes.values()) <= room.held or not any(_may_stay(ending) for ending in endings):
        return read_together(paths, how, learned)
    if len(paths) > 1:
        odd = [path for path, ending in zip(paths, endings) if ending not in TEXTS and ending != ".parquet"]
        if odd:
            raise FileError(
                f"{first_few(paths, 10)} are too large to be put side by side in memory (about "
                f"{_gigabytes(sum(sizes.values()))}): write {first_few(odd)} as text or Parquet, or raise --max-memory."
            )
        return JoinedTables(paths, how, learned, room.limit)
    if endings[0] not in (".h5ad", ".h5mu"):
        return LongTable(paths[0], how, learned, limit=room.limit)
    found = _open_annotated(paths[0], endings[0])
    return read_together(paths, how) if found is None else FileViews(found, paths[0])


def _may_stay(ending: str) -> bool:
    return ending in TEXTS or ending in (".parquet", ".h5ad", ".h5mu")


def held_bytes(path: str, ending: str) -> float:
    """About what a file takes in memory; a file that is not there takes nothing."""
    if path == STREAM or not Path(path).exists():
        return 0
    if ending in TEXTS:
        return GROWTH * file_size(path)
    if ending == ".parquet":
        with readable(path, ending):
            return needing("parquet", lambda: parquet_source(Path(path), Path(path).stem).nbytes)
    return Path(path).stat().st_size


def _gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.1f} GB"


def _open_arrays(paths: Sequence[str]) -> FileViews:
    views: dict[str, RowSource] = {}
    for text in paths:
        name, path = _named(text)
        file, inside = split_inside(path)
        if not file.exists():
            raise FileError(f"there is no file {str(file)!r}.")
        name = name or (Path(inside).name if inside else file.stem)
        if name in views:
            raise FileError(f"two views are called {name!r}: name them, such as {name}2={path}.")
        views[name] = path_source(path, name)
    return FileViews(views, paths[0])


def _named(text: str) -> tuple[str, str]:
    """NAME=path, or a path; what is there under the whole of it is a path."""
    name, equals, path = text.partition("=")
    return (name, path) if equals and name and not split_inside(text)[0].exists() else ("", text)


def _open_annotated(path: str, ending: str) -> Any:
    """A MuData or AnnData whose matrices stay in its file; None where some of them are sparse."""
    with readable(path, ending):
        found = read_annotated(path, ending, backed="r")
    matrices = [part.X for part in modalities(found).values()]
    return found if all(type(matrix).__module__.startswith("h5py") for matrix in matrices) else None


def files_of(given: Any) -> Mapping[str, list]:
    """Of a table that is in several files the columns of each, by what the file is called; of others nothing."""
    return given.files if isinstance(given, FileTable | JoinedTables) else {}


def values_of(given: Any) -> Any:
    """What a model is to see."""
    if isinstance(given, FileTable):
        return given.values
    if isinstance(given, LongTable):
        return given.source()
    return given.views if isinstance(given, FileViews) else given
