"""Which values hold rows that stay where they are: files by their names, arrays of HDF5 and Zarr, Dask, functions."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import pandas as pd

from .dask_sources import DaskSource, array_source, on_cluster
from .parquet_files import parquet_source
from .sources import (
    ArraySource,
    Chunks,
    ChunkSource,
    FileArraySource,
    RowSource,
    WatchedFile,
    function_source,
    numbered,
)
from .wording import first_few

ENDINGS = (".npy", ".parquet", ".zarr", ".h5", ".hdf5")
INSIDE = re.compile(r"(.+\.(?:h5|hdf5)):([^\\]+)", re.IGNORECASE)  # an array in a file: file.h5:name


def find_source(value: Any, name: str) -> RowSource | None:
    """Where the rows of a value are to be found when they are needed; None where they are in memory."""
    if isinstance(value, RowSource):
        return value
    if FileArraySource.can_read(value):
        return FileArraySource(value, name)
    package = type(value).__module__.split(".")[0]
    if package in ("h5py", "zarr") and hasattr(value, "shape") and hasattr(value, "dtype"):
        return ArraySource(value, name)
    if package.startswith("dask"):
        return dask_source(value, name)
    if isinstance(value, Path) or (isinstance(value, str) and split_inside(value)[0].suffix.lower() in ENDINGS):
        return path_source(value, name)
    if callable(value) and not hasattr(value, "__array__") and not hasattr(value, "shape"):
        return function_source(value, name)
    return None


def split_inside(path: str | Path) -> tuple[Path, str | None]:
    """A path, and the name of the array inside the file where one is named: file.h5:name."""
    found = None if Path(path).exists() else INSIDE.fullmatch(str(path))
    return (Path(path), None) if found is None else (Path(found[1]), found[2])


def path_source(given: str | Path, name: str) -> RowSource:
    """A file by its name, an array inside it, or a folder of Parquet files."""
    path, inside = split_inside(given)
    if not path.exists():
        raise FileNotFoundError(f"view {name!r}: there is no file {str(path)!r}.")
    ending = path.suffix.lower()
    if ending == ".npy":
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError, TokenError) as error:  # the last from NumPy's reader of headers
            raise _damaged(path, name) from error
        return FileArraySource(array, name) if FileArraySource.can_read(array) else ArraySource(array, name)
    if ending == ".parquet" or (path.is_dir() and any(path.glob("**/*.parquet"))):
        return parquet_source(path, name)
    if ending == ".zarr":
        return zarr_source(path, name)
    if ending in (".h5", ".hdf5"):
        return hdf5_source(path, name, inside)
    raise ValueError(f"view {name!r}: {str(path)!r} is no .npy, .parquet, .zarr, .h5 or .hdf5. Read it, and give that.")


def _damaged(path: Path, name: str) -> ValueError:
    ending = path.suffix.lower()
    return ValueError(f"view {name!r}: {str(path)!r} is no {ending} file of numbers or text, or is damaged.")


def zarr_source(path: Path, name: str) -> RowSource:
    """A folder that is one array."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f"view {name!r} is Zarr, which needs: pip install zarr.") from error
    try:
        source = ArraySource(zarr.open_array(str(path), mode="r"), name)
    except (ValueError, OSError) as error:
        raise ValueError(f"view {name!r}: {str(path)!r} is not one array of Zarr. Write one alone.") from error
    described = next(file for file in (path / "zarr.json", path / ".zarray") if file.exists())
    source.file = WatchedFile(str(described), name)  # chunks that vanish would be read as zeros
    return source


def hdf5_source(path: Path, name: str, inside: str | None = None) -> RowSource:
    """The array of this name in a file of HDF5, or the only one in it."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"view {name!r} is HDF5, which needs: pip install h5py.") from error
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise _damaged(path, name) from error
    arrays: list[Any] = []
    file.visititems(lambda _, item: arrays.append(item) if isinstance(item, h5py.Dataset) else None)
    arrays = [array for array in arrays if len(array.shape) in (1, 2)]
    names = [array.name.removeprefix("/") for array in arrays]
    if not names:
        raise ValueError(f"view {name!r}: {str(path)!r} holds no array of rows by features.")
    wanted = names if inside is None else [inside.removeprefix("/")]
    if len(wanted) > 1 or wanted[0] not in names:
        example = f"{path}:{names[0]}"
        raise ValueError(
            f"view {name!r}: {str(path)!r} holds the arrays {first_few(names, 10)}. Give one: {example!r}."
        )
    return ArraySource(arrays[names.index(wanted[0])], name)


def dask_source(value: Any, name: str) -> RowSource:
    """The parts of a Dask array or frame, on the workers of a cluster, or here one at a time.

    Their lengths are found where Dask does not know them.
    """
    if hasattr(value, "partitions") and hasattr(value, "columns"):
        lengths = [int(n) for n in value.map_partitions(len).compute()]
        names = value.index.compute()
        outline, container = value._meta.iloc[:0], "frame"
        if on_cluster():
            return DaskSource(value.to_delayed(), lengths, outline, container, names)

        def load(k: int) -> pd.DataFrame:
            return value.partitions[k].compute()

    elif hasattr(value, "chunks") and value.ndim in (1, 2):
        value = value.compute_chunk_sizes() if np.isnan(value.shape[0]) else value
        if on_cluster():
            return array_source(value)
        lengths, names = list(value.chunks[0]), None
        outline = numbered(np.empty((0, *value.shape[1:]), value.dtype), 0)
        container = "vector" if value.ndim == 1 else "array"

        def load(k: int) -> pd.DataFrame:
            return numbered(value[int(edges[k]) : int(edges[k + 1])].compute(), int(edges[k]))

    else:
        raise TypeError(
            f"view {name!r} is a Dask {type(value).__name__}. Give a Dask array or DataFrame of 1 or 2 dimensions."
        )
    edges = np.array([0, *accumulate(lengths)])

    def chunks(row: int) -> Chunks:
        first = max(int(np.searchsorted(edges, row, "right")) - 1, 0)
        return ((int(edges[k]), load(k)) for k in range(first, len(lengths)))

    return ChunkSource(name, chunks, int(edges[-1]), outline, container, names)
