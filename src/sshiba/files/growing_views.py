"""Views that are written some rows at a time: as arrays, or into a copy of the file from which they come."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..data.annotated import modalities
from ..data.sources import RowSource
from .atomic import replacing
from .formats import ending_of, needing
from .growing import ArrayRows
from .opening import FileViews
from .view_files import write_arrays

AddViews = Callable[[Mapping[str, Any]], None]


@contextmanager
def growing_views(given: FileViews, path: str | None) -> Iterator[AddViews]:
    """A function that adds rows of all views to a file, which appears when all went well; None: they are not wanted."""
    if path is None:
        yield lambda found: None
        return
    ending = ending_of(path)
    with replacing(path) as temporary, ExitStack() as stack:
        if ending == ".npy":
            (name,) = given.views
            rows = stack.enter_context(_array_rows(temporary))
            yield lambda found: rows.add(_as_given(found[name], given.views[name]))
        elif ending == ".npz":
            yield stack.enter_context(_zipped(given, temporary))
        else:
            write = _Hdf5Arrays if given.are_arrays else _Matrices
            yield stack.enter_context(needing("mudata", lambda: write(given, temporary))).add


@contextmanager
def _array_rows(path: Path) -> Iterator[ArrayRows]:
    with open(path, "wb") as file, ArrayRows(file) as rows:
        yield rows


@contextmanager
def _zipped(given: FileViews, temporary: Path) -> Iterator[AddViews]:
    """Each view in a file of its own, put together at the end."""
    with tempfile.TemporaryDirectory(prefix=".sshiba-", dir=temporary.parent) as folder:
        files = {name: Path(folder, f"{place}.npy") for place, name in enumerate(given.views)}
        with ExitStack() as stack:
            rows = {name: stack.enter_context(_array_rows(path)) for name, path in files.items()}

            def add(found: Mapping[str, Any]) -> None:
                for name, part in found.items():
                    rows[name].add(_as_given(part, given.views[name]))

            yield add
        write_arrays(temporary, _emptied(files))


def _emptied(files: Mapping[str, Path]) -> Iterator[tuple[str, np.ndarray]]:
    """What is in each file, which is removed when it was used."""
    for name, path in files.items():
        yield name, np.load(path, mmap_mode="r")
        path.unlink()


def _as_given(part: Any, source: RowSource) -> np.ndarray:
    """Labels of text with as much room as they had."""
    values = np.asarray(part)
    own = getattr(getattr(source, "array", None), "dtype", None)
    if own is not None and own.kind in "SU" and values.dtype.kind in "SUO":
        return values.astype(own)
    return values


class _Hdf5Arrays:
    """An array of HDF5 for each view."""

    def __init__(self, given: FileViews, path: Path) -> None:
        import h5py

        self.given, self.file, self.start = given, h5py.File(path, "w"), 0

    def add(self, found: Mapping[str, Any]) -> None:
        n = 0
        for name, part in found.items():
            values = _as_given(part, self.given.views[name])
            values = values.astype("S") if values.dtype.kind == "U" else values
            n = len(values)
            if name not in self.file:
                self.file.create_dataset(name, (self.given.n_rows, *values.shape[1:]), values.dtype)
            self.file[name][self.start : self.start + n] = values
        self.start += n

    def __enter__(self) -> _Hdf5Arrays:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()


class _Matrices:
    """A copy of a .h5ad or .h5mu file in which each X is written anew."""

    def __init__(self, given: FileViews, path: Path) -> None:
        import h5py

        shutil.copyfile(given.path, path)
        self.file = h5py.File(path, "r+")
        parts = modalities(given.views)
        several = hasattr(given.views, "mod")
        self.places = {name: f"mod/{name}/X" if several else "X" for name in parts}
        self.rows = {name: pd.Index(part.obs_names) for name, part in parts.items()}
        self.columns = {name: pd.Index(part.var_names) for name, part in parts.items()}

    def add(self, found: Mapping[str, pd.DataFrame]) -> None:
        for name, part in found.items():
            rows = self.rows[name].get_indexer(part.index)
            values = part[self.columns[name]].to_numpy()[rows >= 0]
            rows = rows[rows >= 0]
            matrix = self._matrix(self.places[name], values.dtype)
            order = np.argsort(rows)
            for run in np.split(order, np.flatnonzero(np.diff(rows[order]) != 1) + 1):  # rows one after the other
                if len(run):
                    matrix[rows[run[0]] : rows[run[-1]] + 1] = values[run]

    def _matrix(self, place: str, dtype: np.dtype) -> Any:
        """The array at this place; one of the dtype that is written in its stead where it has another."""
        old = self.file[place]
        if old.dtype == dtype:
            return old
        shape, told = old.shape, dict(old.attrs)
        del self.file[place]
        new = self.file.create_dataset(place, shape, dtype)
        new.attrs.update(told)
        return new

    def __enter__(self) -> _Matrices:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()
