"""Which values hold rows that stay where they are: files by their names, arrays of HDF5 and Zarr, Dask, functions."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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
BATCH_BYTES = 2**26  # of a Parquet file that are read at a time


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
    if isinstance(value, Path) or (isinstance(value, str) and Path(value).suffix.lower() in ENDINGS):
        return path_source(Path(value), name)
    if callable(value) and not hasattr(value, "__array__") and not hasattr(value, "shape"):
        return function_source(value, name)
    return None


def path_source(path: Path, name: str) -> RowSource:
    """A file by its name, or a folder of Parquet files."""
    if not path.exists():
        raise FileNotFoundError(f"view {name!r}: there is no file {str(path)!r}.")
    ending = path.suffix.lower()
    if ending == ".npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return FileArraySource(array, name) if FileArraySource.can_read(array) else ArraySource(array, name)
    if ending == ".parquet" or (path.is_dir() and any(path.glob("**/*.parquet"))):
        return parquet_source(path, name)
    if ending == ".zarr":
        import zarr

        return ArraySource(zarr.open_array(str(path), mode="r"), name)
    if ending in (".h5", ".hdf5"):
        return hdf5_source(path, name)
    raise ValueError(f"view {name!r}: {str(path)!r} is no .npy, .parquet, .zarr, .h5 or .hdf5. Read it, and give that.")


def hdf5_source(path: Path, name: str) -> RowSource:
    """The one array in a file of HDF5."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"view {name!r} is HDF5, which needs: pip install h5py.") from error
    file = h5py.File(path, "r")
    arrays: list[Any] = []
    file.visititems(lambda _, item: arrays.append(item) if isinstance(item, h5py.Dataset) else None)
    arrays = [array for array in arrays if len(array.shape) in (1, 2)]
    if len(arrays) != 1:
        listed = first_few([array.name for array in arrays], 10)
        raise ValueError(f"view {name!r}: {str(path)!r} holds the arrays {listed}. Give one: h5py.File(...)['name'].")
    return ArraySource(arrays[0], name)


def parquet_source(path: Path, name: str) -> RowSource:
    """A file, or a folder of files in the order of their names; rows come in batches."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"view {name!r} is Parquet, which needs: pip install 'sshiba[parquet]'.") from error
    paths = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
    watched = [WatchedFile(str(one), name) for one in paths]
    files = [parquet.ParquetFile(one) for one in paths]
    schema = files[0].schema_arrow
    for other in files[1:]:
        if other.schema_arrow.names != schema.names:
            raise ValueError(f"view {name!r}: the files in {str(path)!r} have different columns.")
    outline = schema.empty_table().to_pandas()
    groups = [
        (i, k, file.metadata.row_group(k).num_rows) for i, file in enumerate(files) for k in range(file.num_row_groups)
    ]
    edges = np.array([0, *accumulate(n for _, _, n in groups)])
    step = max(1, BATCH_BYTES // (8 * max(len(schema.names), 1)))

    def chunks(row: int) -> Chunks:
        first = max(int(np.searchsorted(edges, row, "right")) - 1, 0)
        for (i, group, _), start in list(zip(groups, edges))[first:]:
            for batch in files[i].iter_batches(step, row_groups=[group]):
                watched[i].check()
                frame = batch.to_pandas()
                yield int(start), frame
                start += len(frame)

    names = None
    if not isinstance(outline.index, pd.RangeIndex):
        stored = [column for column in schema.names if column not in outline.columns]
        parts = [file.read(columns=stored, use_pandas_metadata=True).to_pandas().index for file in files]
        names = parts[0].append(parts[1:])
    return ChunkSource(name, chunks, int(edges[-1]), outline, "frame", names)


def dask_source(value: Any, name: str) -> RowSource:
    """The parts of a Dask array or frame, one at a time; their lengths are found where Dask does not know them."""
    if hasattr(value, "partitions") and hasattr(value, "columns"):
        lengths = [int(n) for n in value.map_partitions(len).compute()]
        names = value.index.compute()
        outline, container = value._meta.iloc[:0], "frame"

        def load(k: int) -> pd.DataFrame:
            return value.partitions[k].compute()

    elif hasattr(value, "chunks") and value.ndim in (1, 2):
        value = value.compute_chunk_sizes() if np.isnan(value.shape[0]) else value
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
