"""Formats of files, told by the ending of their names; "-" is standard input or output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..data.source_formats import split_inside
from ..version import how_to_install

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
TEXTS = (*SEPARATORS, *(f"{ending}.gz" for ending in SEPARATORS))
TABLES = (*TEXTS, ".parquet", ".feather", ".xlsx")
VIEWS = (".npz", ".h5mu", ".h5ad")
ARRAYS = (".npy", ".h5", ".hdf5", ".zarr")  # one array each; of HDF5 also file.h5:name
ENDINGS = (*TABLES, *VIEWS, *ARRAYS)
ANSWERS = (*TABLES, ".npy")  # in which answers are written
IN_PARTS = (*TEXTS, ".parquet", ".npy")  # those that can be written some rows at a time
MODEL = ".sshiba"  # the usual ending of a model
STREAM = "-"
NO_NAME = "Unnamed: 0"  # pandas' name of a first column without one: the row names that it writes itself


class FileError(ValueError):
    """A file that cannot be read or written, and what to do."""


def ending_of(path: str, among: Sequence[str] = ENDINGS) -> str:
    """The ending that says the format, .gz included; a folder of Parquet files is .parquet."""
    if path == STREAM and ".csv" in among:
        return ".csv"
    file, _ = split_inside(path)
    name = file.name.lower()
    ending = next((ending for ending in sorted(among, key=len, reverse=True) if name.endswith(ending)), None)
    if ending is None and ".parquet" in among and file.is_dir() and any(file.glob("**/*.parquet")):
        return ".parquet"
    if ending is None and file.is_dir():
        raise FileError(f"{path!r} is a folder; give a file, or a folder of Parquet files.")
    if ending is None and name.endswith(MODEL):
        raise FileError(f"{path!r} is named as a model, and not as a table such as table.csv.")
    if ending is None and name.endswith(".xls"):
        raise FileError(f"{path!r}: .xls is neither read nor written; save it as .xlsx.")
    if ending is None:
        raise FileError(f"{path!r}: the ending says the format, one of {', '.join(among)}.")
    return ending


def filled_endings(paths: Sequence[str]) -> tuple[str, ...]:
    """In which these files can be written when their holes are filled."""
    endings = [ending_of(path) for path in paths]
    if endings[0] in ARRAYS:
        several = (".npz", ".h5", ".hdf5")
        return several if len(paths) > 1 else (".npy", *several)
    return next(((ending,) for ending in endings if ending in VIEWS), TABLES)


def separator_of_ending(ending: str) -> str:
    return SEPARATORS[ending.removesuffix(".gz")]


def needing(extra: str, load: Callable[[], Any]) -> Any:
    """What `load` gives, or which extra it lacks."""
    try:
        return load()
    except ImportError:
        raise FileError(f"this format needs the extra {extra!r}: {how_to_install(extra)}.") from None
