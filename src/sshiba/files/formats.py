"""Formats of files, told by the ending of their names; "-" is standard input or output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
TEXTS = (*SEPARATORS, *(f"{ending}.gz" for ending in SEPARATORS))
TABLES = (*TEXTS, ".parquet", ".feather", ".xlsx")
VIEWS = (".npz", ".h5mu", ".h5ad")
ENDINGS = (*TABLES, *VIEWS)
STREAM = "-"
NO_NAME = "Unnamed: 0"  # pandas' name of a first column without one: the row names that it writes itself


class FileError(ValueError):
    """A file that cannot be read or written, and what to do."""


def ending_of(path: str, among: Sequence[str] = ENDINGS) -> str:
    """The ending that says the format, .gz included."""
    if path == STREAM and ".csv" in among:
        return ".csv"
    name = Path(path).name.lower()
    ending = next((ending for ending in sorted(among, key=len, reverse=True) if name.endswith(ending)), None)
    if ending is None:
        raise FileError(f"{path!r}: the ending says the format, one of {', '.join(among)}.")
    return ending


def separator_of_ending(ending: str) -> str:
    return SEPARATORS[ending.removesuffix(".gz")]


def needing(extra: str, load: Callable[[], Any]) -> Any:
    """What `load` gives, or which extra it lacks."""
    try:
        return load()
    except ImportError:
        raise FileError(f"this format needs the extra {extra!r}: pip install 'sshiba[{extra}]'.") from None
