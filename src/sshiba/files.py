"""Tables from files and into files, by the ending of their names; "-" is standard input or output."""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .coding import first_few

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
ENDINGS = (*SEPARATORS, ".parquet", ".npz", ".h5mu", ".h5ad")
NO_NAME = "Unnamed: 0"  # pandas' name of a first column without one: the row names that it writes itself


LONG = 200 * 2**20  # bytes of a text file that is read in parts
PART_ROWS = 50_000


class FileError(ValueError):
    """A file that cannot be read or written, and what to do."""


# ------------------------------------------------------------------------------------------------------ reading


def read(path: str, index: str | None = None, drop: Sequence[str] = (), encoding: str = "utf-8") -> Any:
    """A DataFrame, or for .npz and .h5mu a dict of views.

    Parameters
    ----------
    path : file name, or "-" for CSV on standard input
    index : column with the names of the rows; a first column without a name is taken by itself
    drop : columns to leave out
    """
    ending = ending_of(path)
    try:
        if ending in SEPARATORS:
            frame = _read_text(path, SEPARATORS[ending], encoding)
        elif ending == ".parquet":
            frame = _needing("parquet", lambda: pd.read_parquet(path))
        elif ending == ".npz":
            return _read_npz(path)
        else:
            return _read_annotated(path, ending)
    except FileNotFoundError:
        raise FileError(f"there is no file {path!r}.") from None
    except PermissionError:
        raise FileError(f"{path!r} may not be read.") from None
    except IsADirectoryError:
        raise FileError(f"{path!r} is a folder; give a file.") from None
    except UnicodeDecodeError:
        raise FileError(
            f"{path!r} is not written in {encoding}: name its encoding, such as --encoding latin-1."
        ) from None
    except LookupError:
        raise FileError(f"there is no encoding {encoding!r}.") from None
    except FileError:
        raise
    except (ValueError, OSError) as error:
        raise FileError(f"{path!r} cannot be read: {str(error).splitlines()[0]}.") from error
    return _arranged(frame, path, index, drop)


def ending_of(path: str) -> str:
    if path == "-":
        return ".csv"
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise FileError(f"{path!r}: the ending says the format, one of {', '.join(ENDINGS)}.")
    return ending


def _read_text(path: str, separator: str, encoding: str) -> pd.DataFrame:
    source: Any = path
    if path == "-":
        source = io.StringIO(sys.stdin.read())
    elif Path(path).stat().st_size == 0:
        raise FileError(f"{path!r} is empty.")
    header = _header(source, separator, encoding)
    twice = [name for i, name in enumerate(header) if name in header[:i]]
    if twice:
        raise FileError(f"{path!r} has several columns of the name {first_few(twice)}: rename them.")
    try:
        # Numbers are read to the last bit, so that what was seen is written as it was.
        frame = pd.read_csv(source, sep=separator, encoding=encoding, index_col=False, float_precision="round_trip")
    except pd.errors.EmptyDataError:
        raise FileError(f"{path!r} is empty.") from None
    except pd.errors.ParserError as error:
        words = str(error).split("C error: ")[-1].strip()
        raise FileError(f"{path!r} has lines of different lengths ({words}): mend them, or quote their text.") from None
    if frame.shape[1] == 1 and any(mark in str(frame.columns[0]) for mark in (";", "\t", ",")):
        raise FileError(
            f"{path!r} seems to be separated otherwise than by {separator!r}: name it .csv or .tsv as it is."
        )
    return frame


def _header(source: Any, separator: str, encoding: str) -> list[str]:
    """The names as they stand in the file; pandas would rename the second of a kind."""
    if isinstance(source, io.StringIO):
        line = source.readline()
        source.seek(0)
    else:
        with open(source, encoding=encoding) as file:
            line = file.readline()
    return next(csv.reader([line.lstrip("\ufeff")], delimiter=separator), [])


def _read_npz(path: str) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        views = {name: file[name] for name in file.files}
    wrong = [name for name, array in views.items() if array.ndim not in (1, 2)]
    if not views or wrong:
        raise FileError(
            f"{path!r} must hold arrays of rows by features" + (f", not {first_few(wrong)}." if wrong else ".")
        )
    return views


def _read_annotated(path: str, ending: str) -> Any:
    def load() -> Any:
        import mudata

        return mudata.read_h5mu(path) if ending == ".h5mu" else mudata.read_h5ad(path)

    if not Path(path).is_file():
        raise FileNotFoundError(path)
    return _needing("mudata", load)


def _needing(extra: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except ImportError:
        raise FileError(f"this format needs the extra {extra!r}: pip install 'sshiba[{extra}]'.") from None


def _arranged(frame: pd.DataFrame, path: str, index: str | None, drop: Sequence[str]) -> pd.DataFrame:
    for name in [*drop, *([index] if index is not None else [])]:
        if name not in frame:
            raise FileError(f"{path!r} has no column {name!r}; it has {first_few(frame, 10)}.")
    frame = frame.drop(columns=list(drop))
    if index is None and len(frame.columns) and frame.columns[0] == NO_NAME:
        index = NO_NAME
    if index is not None:
        frame = frame.set_index(index)
        if index == NO_NAME:
            frame.index.name = None
        if not frame.index.is_unique:
            twice = frame.index[frame.index.duplicated()]
            raise FileError(f"{path!r}: several rows are named {first_few(twice.unique())}; names must differ.")
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise FileError(f"{path!r} has no {'rows' if frame.shape[0] == 0 else 'columns'}.")
    return frame


def read_together(paths: Sequence[str], **options: Any) -> Any:
    """One table from several files, side by side: rows by name where they have names, else by place."""
    parts = [read(path, **options) for path in paths]
    if len(parts) == 1:
        return parts[0]
    if not all(isinstance(part, pd.DataFrame) for part in parts):
        raise FileError("several files must all be tables: .csv, .tsv or .parquet.")
    columns = [column for part in parts for column in part]
    twice = sorted({str(column) for column in columns if columns.count(column) > 1})
    if twice:
        raise FileError(f"columns {first_few(twice)} are in more than one file: rename them, or --drop them.")
    named = [not isinstance(part.index, pd.RangeIndex) for part in parts]
    if any(named) and not all(named):
        raise FileError("some files name their rows and some do not: name them in all (--index).")
    if not any(named) and len({len(part) for part in parts}) > 1:
        raise FileError(
            "the files have different numbers of rows: name the rows (--index), so that they can be matched."
        )
    return pd.concat(parts, axis=1)


# --------------------------------------------------------------------------------------------- larger than memory


@dataclass(frozen=True)
class LongTable:
    """A text file too large to hold: its rows come in parts."""

    path: str
    index: str | None
    drop: Sequence[str]
    encoding: str

    @classmethod
    def of(cls, paths: Sequence[str], index: str | None, drop: Sequence[str], encoding: str) -> LongTable | None:
        """One text file of at least LONG bytes, or None."""
        if len(paths) != 1 or paths[0] == "-" or Path(paths[0]).suffix.lower() not in SEPARATORS:
            return None
        path = Path(paths[0])
        return cls(paths[0], index, drop, encoding) if path.is_file() and path.stat().st_size >= LONG else None

    @property
    def n_bytes(self) -> int:
        return Path(self.path).stat().st_size

    def parts(self) -> Iterator[tuple[pd.DataFrame, int]]:
        """Some rows at a time, and how many bytes of the file were read until then."""
        separator = SEPARATORS[ending_of(self.path)]
        with open(self.path, "rb") as raw:
            reader = pd.read_csv(
                raw,
                sep=separator,
                encoding=self.encoding,
                index_col=False,
                float_precision="round_trip",
                chunksize=PART_ROWS,
            )
            for frame in reader:
                yield _arranged(frame, self.path, self.index, self.drop), raw.tell()

    def sample(self, n: int, seed: int = 0) -> pd.DataFrame:
        """About n rows, some of every part."""
        first, read = next(self.parts())
        share = n / max(n, len(first) * self.n_bytes / read)
        rng = np.random.default_rng(seed)
        kept = [part[rng.random(len(part)) < share] for part, _ in self.parts()]
        return pd.concat(kept).reset_index(drop=True) if self.index is None else pd.concat(kept)


# ------------------------------------------------------------------------------------------------------ writing


def check_target(path: str, force: bool) -> None:
    """Refuse to overwrite before any work is done."""
    if path == "-":
        return
    if Path(path).exists() and not force:
        raise FileError(f"{path!r} exists: choose another name, or --force to overwrite it.")
    if not Path(path).absolute().parent.is_dir():
        raise FileError(f"there is no folder {str(Path(path).parent)!r} to write {path!r} into.")


def check_text(path: str) -> None:
    """Only text can be written part by part."""
    if ending_of(path) not in SEPARATORS:
        raise FileError(f"{path!r}: a long table is written as .csv or .tsv.")


def write(frame: pd.DataFrame | pd.Series, path: str) -> None:
    """By the ending, beside the target and then renamed. Row names are written where they are names."""
    table = frame.to_frame() if isinstance(frame, pd.Series) else frame
    table = table.rename(columns=str)
    named = not isinstance(table.index, pd.RangeIndex)
    ending = ending_of(path)
    if path == "-":
        table.to_csv(sys.stdout, index=named)
    elif ending in SEPARATORS:
        with replacing(path) as temporary:
            table.to_csv(temporary, sep=SEPARATORS[ending], index=named)
    elif ending == ".parquet":
        with replacing(path) as temporary:
            _needing("parquet", lambda: table.to_parquet(temporary, index=named))
    else:
        raise FileError(f"{path!r}: tables are written as .csv, .tsv or .parquet.")


@contextmanager
def growing(path: str | None) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A function that adds rows to a text file, which appears when all went well; None: they are not wanted."""
    if path is None:
        yield lambda frame: None
        return
    check_text(path)
    separator = SEPARATORS[ending_of(path)]
    started = False

    def adder(file: Any) -> Callable[[pd.DataFrame], None]:
        def add(frame: pd.DataFrame) -> None:
            nonlocal started
            named = not isinstance(frame.index, pd.RangeIndex)
            frame.to_csv(file, sep=separator, index=named, header=not started)
            started = True

        return add

    if path == "-":
        yield adder(sys.stdout)
        return
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        yield adder(file)


@contextmanager
def replacing(path: str) -> Iterator[Path]:
    """A file beside the target that takes its place when all went well: nobody ever sees half of it."""
    target = Path(path).absolute()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
