"""Tables from files and into files, by the ending of their names; "-" is standard input or output."""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..data.wording import first_few
from .atomic import replacing

TABLES = (".csv", ".tsv", ".txt", ".parquet")  # that can be written
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
ENDINGS = (*SEPARATORS, ".parquet", ".npz", ".h5mu", ".h5ad")
MISSING = ("", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NULL", "null")  # what means missing, besides --missing
NO_NAME = "Unnamed: 0"  # pandas' name of a first column without one: the row names that it writes itself


LONG = 200 * 2**20  # bytes of a text file that is read in parts
PART_ROWS = 20_000


class FileError(ValueError):
    """A file that cannot be read or written, and what to do."""


# ------------------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True)
class Reading:
    """How tables are read."""

    index: str | None = None  # column with the names of the rows; a first column without a name is taken by itself
    drop: Sequence[str] = ()  # columns to leave out of the model
    encoding: str = "utf-8"
    missing: Sequence[str] = ()  # texts that mean missing, besides MISSING
    separator: str | None = None  # None: found in the first line
    decimal: str | None = None  # None: a point; a comma where semicolons separate


@dataclass(frozen=True)
class TextTable:
    """A table as it is written, cell by cell, and the same as values."""

    texts: pd.DataFrame  # all columns, all text
    values: pd.DataFrame  # without the columns that were dropped

    def filled(self, found: pd.DataFrame) -> pd.DataFrame:
        """The texts, with the holes of `values` filled from `found`; what was seen stays to the last character.

        A value that the column has elsewhere is written as it is there.
        """
        out = self.texts.copy()
        for name in self.values:
            column = self.values[name]
            holes = column.isna().to_numpy()
            if holes.any():
                written = dict(zip(column[~holes], self.texts[name][~holes]))
                out.loc[holes, name] = [written.get(value, _written(value)) for value in found[name][holes]]
        return out


def _written(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def read(path: str, how: Reading) -> Any:
    """A TextTable, a DataFrame (.parquet), or views (.npz, .h5mu, .h5ad)."""
    ending = ending_of(path)
    try:
        if ending in SEPARATORS:
            texts, how = _read_text(path, how)
            return as_values(texts, path, how)
        if ending == ".parquet":
            frame = _needing("parquet", lambda: pd.read_parquet(path))
            return _arranged(frame, path, how).drop(columns=list(how.drop))
        if ending == ".npz":
            return _read_npz(path)
        return _read_annotated(path, ending)
    except FileNotFoundError:
        raise FileError(f"there is no file {path!r}.") from None
    except PermissionError:
        raise FileError(f"{path!r} may not be read.") from None
    except IsADirectoryError:
        raise FileError(f"{path!r} is a folder; give a file.") from None
    except UnicodeDecodeError:
        words = f"{path!r} is not written in {how.encoding}: name its encoding, such as --encoding latin-1."
        raise FileError(words) from None
    except LookupError:
        raise FileError(f"there is no encoding {how.encoding!r}.") from None
    except FileError:
        raise
    except (ValueError, OSError) as error:
        raise FileError(f"{path!r} cannot be read: {str(error).splitlines()[0]}.") from error


def ending_of(path: str) -> str:
    if path == "-":
        return ".csv"
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise FileError(f"{path!r}: the ending says the format, one of {', '.join(ENDINGS)}.")
    return ending


def _read_text(path: str, how: Reading, chunks: int | None = None) -> tuple[Any, Reading]:
    """All cells as text, with `chunks` so many rows at a time; and how they are read, now that the file was seen."""
    source: Any = path
    if path == "-":
        source = io.StringIO(sys.stdin.read())
    elif Path(path).stat().st_size == 0:
        raise FileError(f"{path!r} is empty.")
    line = _first_line(source, how.encoding)
    separator = separator_of(line, path, how)
    how = replace(how, separator=separator, decimal=how.decimal or ("," if separator == ";" else "."))
    header = next(csv.reader([line], delimiter=separator), [])
    twice = [name for i, name in enumerate(header) if name in header[:i]]
    if twice:
        raise FileError(f"{path!r} has several columns of the name {first_few(twice)}: rename them.")
    try:
        texts = pd.read_csv(
            source,
            sep=separator,
            encoding="utf-8-sig" if how.encoding.lower() in ("utf-8", "utf8") else how.encoding,
            dtype=str,
            keep_default_na=False,
            index_col=False,
            chunksize=chunks,
        )
        return texts, how
    except pd.errors.EmptyDataError:
        raise FileError(f"{path!r} is empty.") from None
    except pd.errors.ParserError as error:
        words = str(error).split("C error: ")[-1].strip()
        raise FileError(f"{path!r} has lines of different lengths ({words}): mend them, or quote their text.") from None


def separator_of(line: str, path: str, how: Reading) -> str:
    """The one that is asked for, or the one that the first line holds most of; a .tsv file has tabs."""
    if how.separator is not None:
        return {"tab": "\t", "\\t": "\t"}.get(how.separator, how.separator)
    if Path(path).suffix.lower() == ".tsv":
        return "\t"
    return max(",;\t", key=line.count)


def as_values(texts: pd.DataFrame, path: str, how: Reading) -> TextTable:
    """What the cells mean: numbers where all of a column are numbers, True and False, else text."""
    texts = _arranged(texts, path, how)
    marks = [*MISSING, *how.missing]
    values = {name: _column(texts[name], marks, how.decimal or ".") for name in texts if name not in set(how.drop)}
    return TextTable(texts, pd.DataFrame(values, index=texts.index))


def _column(texts: pd.Series, marks: Sequence[str], decimal: str) -> pd.Series:
    seen = texts.where(~texts.str.strip().isin(marks))
    known = seen.dropna()
    if len(known) and known.str.lower().isin(["true", "false"]).all():
        return seen.str.lower().map({"true": True, "false": False}).astype("boolean" if seen.isna().any() else bool)
    for mark in dict.fromkeys([decimal, "."]):
        numbers = pd.to_numeric(seen.str.replace(mark, ".", regex=False), errors="coerce")
        if len(known) and numbers.notna().sum() == len(known) and not _are_codes(known):
            return numbers
    return seen.astype(object).where(seen.notna(), None)


def _are_codes(known: pd.Series) -> bool:
    """Numbers with leading zeros, such as 007, are names."""
    return bool(known.str.match(r"^0\d").any())


def _first_line(source: Any, encoding: str) -> str:
    if isinstance(source, io.StringIO):
        line = source.readline()
        source.seek(0)
    else:
        with open(source, encoding=encoding) as file:
            line = file.readline()
    return line.lstrip("\ufeff")


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # mudata's own, which users cannot mend
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


def _arranged(frame: pd.DataFrame, path: str, how: Reading) -> pd.DataFrame:
    """Rows named, names checked."""
    index = how.index
    for name in [*how.drop, *([index] if index is not None else [])]:
        if name not in frame:
            raise FileError(f"{path!r} has no column {name!r}; it has {first_few(frame, 10)}.")
    if index is None and len(frame.columns) and frame.columns[0] == NO_NAME:
        index = NO_NAME
    if index is not None:
        frame = frame.set_index(index)
        if index == NO_NAME:
            frame.index.name = None
        if (frame.index.astype(str).str.strip() == "").any():
            raise FileError(f"{path!r}: some rows have no name in {index!r}.")
        if not frame.index.is_unique:
            twice = frame.index[frame.index.duplicated()]
            raise FileError(f"{path!r}: several rows are named {first_few(twice.unique())}; names must differ.")
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise FileError(f"{path!r} has no {'rows' if frame.shape[0] == 0 else 'columns'}.")
    return frame


def read_together(paths: Sequence[str], how: Reading) -> Any:
    """One table from several files, side by side: rows by name where they have names, else by place."""
    parts = [read(path, how) for path in paths]
    if len(parts) == 1:
        return parts[0]
    if not all(isinstance(part, TextTable | pd.DataFrame) for part in parts):
        raise FileError("several files must all be tables: .csv, .tsv or .parquet.")
    frames = [values_of(part) for part in parts]
    columns = [column for frame in frames for column in frame]
    twice = sorted({str(column) for column in columns if columns.count(column) > 1})
    if twice:
        raise FileError(f"columns {first_few(twice)} are in more than one file: rename them, or --drop them.")
    named = [not isinstance(frame.index, pd.RangeIndex) for frame in frames]
    if any(named) and not all(named):
        raise FileError("some files name their rows and some do not: name them in all (--index).")
    if not any(named) and len({len(frame) for frame in frames}) > 1:
        raise FileError(
            "the files have different numbers of rows: name the rows (--index), so that they can be matched."
        )
    return pd.concat(frames, axis=1)


def values_of(part: Any) -> Any:
    return part.values if isinstance(part, TextTable) else part


# --------------------------------------------------------------------------------------------- larger than memory


@dataclass(frozen=True)
class LongTable:
    """A text file too large to hold: its rows come in parts."""

    path: str
    how: Reading

    @classmethod
    def of(cls, paths: Sequence[str], how: Reading) -> LongTable | None:
        """One text file of at least LONG bytes, or None."""
        if len(paths) != 1 or paths[0] == "-" or Path(paths[0]).suffix.lower() not in SEPARATORS:
            return None
        path = Path(paths[0])
        return cls(paths[0], how) if path.is_file() and path.stat().st_size >= LONG else None

    def parts(self) -> Iterator[TextTable]:
        """Some rows at a time; rows without names are numbered through."""
        reader, how = _read_text(self.path, self.how, PART_ROWS)
        with reader:
            for texts in reader:
                yield as_values(texts, self.path, how)

    def count(self) -> int:
        """Lines of the file, the names of the columns left out."""
        with open(self.path, "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(2**24), b"")) - 1

    def sample(self, n: int, n_rows: int, seed: int = 0) -> pd.DataFrame:
        """About n rows, some of every part."""
        rng = np.random.default_rng(seed)
        share = n / max(n, n_rows)
        return pd.concat([part.values[rng.random(len(part.values)) < share] for part in self.parts()])


# ------------------------------------------------------------------------------------------------------ writing


def check_target(path: str, force: bool, endings: Sequence[str] | None = None) -> None:
    """Refuse to overwrite before any work is done."""
    if path == "-":
        return
    if endings is not None and Path(path).suffix.lower() not in endings:
        raise FileError(f"{path!r}: the ending says the format, one of {', '.join(endings)}.")
    if Path(path).exists() and not force:
        raise FileError(f"{path!r} exists: choose another name, or --force to overwrite it.")
    if not Path(path).absolute().parent.is_dir():
        raise FileError(f"there is no folder {str(Path(path).parent)!r} to write {path!r} into.")


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
    separator = SEPARATORS[ending_of(path)]
    started = False

    def adder(file: Any) -> Callable[[pd.DataFrame], None]:
        def add(frame: pd.DataFrame) -> None:
            nonlocal started
            frame.to_csv(file, sep=separator, index=not isinstance(frame.index, pd.RangeIndex), header=not started)
            started = True

        return add

    if path == "-":
        yield adder(sys.stdout)
        return
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        yield adder(file)
