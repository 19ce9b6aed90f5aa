"""Tables that are too large to hold: text files, and files or folders of Parquet, some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype, is_object_dtype

from ..data.markers import Markers, added
from ..data.source_formats import parquet_source
from ..data.sources import Chunks, ChunkSource, RowSource, WatchedFile
from ..data.wording import the_one
from .file_table import FileTable
from .formats import TEXTS, FileError, ending_of
from .joining import tell_repeated
from .number_marks import NumberFormat
from .reading_options import LearnedReading, Reading
from .spooled import Spool
from .tables import RawTable, columns_to_drop, make_table, open_text, readable, tell_taken
from .text_files import Dialect

PART_ROWS = 20_000  # of a text file, the most that are read at a time
PART_CELLS = 1_000_000
MOST_LABELS = 10_000  # of a column that are kept while all rows go by
HOLES = None  # the dtype of a column of which nothing was seen


@dataclass(frozen=True)
class Survey:
    """What all rows together say, so that some of them are read as they would be among all."""

    n_rows: int
    names: pd.Index | None  # of the rows
    written: Mapping[Any, Any]  # column as it is written -> the dtype that holds all of its cells
    outline: pd.DataFrame  # the values that a model is to see: columns, dtypes, and no row
    formats: Mapping[Any, NumberFormat]
    whole: frozenset
    learned: LearnedReading
    taken: Mapping[Any, Markers]  # the texts of each column that were taken for missing


class LongTable:
    """A table in a file, or in a folder of Parquet files; its rows come in parts.

    `beside`: the columns of all files of which this is one. `limit`: as for `RowSource`.
    """

    def __init__(
        self,
        path: str,
        how: Reading,
        learned: LearnedReading | None = None,
        beside: Sequence[Any] | None = None,
        limit: float = inf,
    ) -> None:
        self.path, self.how, self.learned, self.limit = path, how, learned, limit
        self.alone = beside is None
        self.name, ending = Path(path).stem, ending_of(path)
        self.is_text = ending in TEXTS
        with readable(path, ending):
            self.columns = self._open_text() if self.is_text else self._open_parquet()
        self.dropped = columns_to_drop(how.drop, self.columns if beside is None else beside, [path])

    def _open_text(self) -> list[Any]:
        file, watched = open_text(self.path, self.how, self.learned), WatchedFile(self.path, self.name)
        step = max(1, min(PART_ROWS, PART_CELLS // len(file.names)))

        def frames(row: int) -> Chunks:
            start = 0
            for texts in file.texts(step):
                watched.check()
                yield start, texts
                start += len(texts)
            watched.check()

        self._frames: Callable[[int], Chunks] = frames
        self._dialect: Dialect | None = file.dialect
        self._n_rows: int | None = None
        self._keep_to: Callable[[float], None] = lambda limit: None
        self._let_go: Callable[[], None] = lambda: None
        return list(file.names)

    def _open_parquet(self) -> list[Any]:
        source = parquet_source(Path(self.path), self.name)
        source.keep_to(self.limit)
        self._keep_to, self._let_go = source.keep_to, source.let_go
        self._frames, self._dialect, self._n_rows = source.chunks, None, source.n_rows
        return list(source.outline.columns)

    def parts(self) -> Iterator[FileTable]:
        """All rows as the model has learned to read them; rows without names are numbered through."""
        learned, taken = self.learned, dict[Any, Markers]()
        for _, frame in self._frames(0):
            part = self._part(frame, learned)
            learned = learned or LearnedReading(Reading(), part.dialect, {})
            taken = added([taken, part.taken])
            yield part
        if self.alone:
            tell_taken(taken, self.columns, self.how)

    def parts_of_whole(self, row: int = 0) -> Iterator[tuple[int, FileTable]]:
        """Rows as they are read among all, with the place of the first; from `row` on or before."""
        survey = self.survey
        for start, frame in self._frames(row):
            odd = {name: dtype for name, dtype in survey.written.items() if frame[name].dtype != dtype}
            part = self._part(frame.astype(odd) if odd else frame, survey.learned)
            part = replace(part, formats=survey.formats, whole=survey.whole)
            del frame
            yield start, part
            del part

    def _part(self, frame: pd.DataFrame, learned: LearnedReading | None) -> FileTable:
        return make_table(RawTable(self.path, frame, self._dialect), self.how, learned, self.dropped)

    @cached_property
    def survey(self) -> Survey:
        """One pass over all rows."""
        sums = Sums()
        for part in self.parts():
            sums.add(part)
        if sums.n_rows == 0:
            raise FileError(f"{self.path!r} has no rows.")
        learned = self.learned or LearnedReading(Reading(), sums.dialect, {})
        learned = replace(learned, levels={**sums.levels, **learned.levels})
        formats = {name: own for name, own in sums.formats.items() if name not in sums.texts}
        written = {} if self.is_text else sums.written
        names = None if sums.names is None else sums.names[0].append(sums.names[1:])
        whole = frozenset(sums.whole - sums.texts)
        if names is not None and self.alone:
            tell_repeated(names)
        return Survey(sums.n_rows, names, written, sums.outline(names), formats, whole, learned, sums.taken)

    @cached_property
    def first(self) -> FileTable:
        """All columns, and no row; the first rows tell how the file is written."""
        part = next(self.parts())
        return replace(part, given=part.given.iloc[:0].copy(), values=part.values.iloc[:0].copy())

    @property
    def n_rows(self) -> int | None:
        """None where that is not known yet."""
        return self.survey.n_rows if "survey" in self.__dict__ else self._n_rows

    @property
    def total_rows(self) -> int:
        """How many they are, though all must be gone through for it."""
        return self.survey.n_rows

    def read_as(self, learned: LearnedReading) -> LongTable:
        """The same as a model has learned to read it."""
        return LongTable(self.path, self.how, learned, limit=self.limit)

    def keep_to(self, limit: float) -> None:
        """As for `RowSource`."""
        self.limit = limit
        self._keep_to(limit)

    def let_go(self) -> None:
        """As for `RowSource`."""
        self._let_go()

    def source(self) -> RowSource:
        """Rows for a model."""
        return TableSource(self)

    def sample(self, n: int, seed: int = 0) -> pd.DataFrame:
        """About n rows, some of every part."""
        rng = np.random.default_rng(seed)
        share = n / max(n, self.survey.n_rows)
        parts = (_cast(part.values, self.survey.outline) for _, part in self.parts_of_whole())
        return pd.concat([part[rng.random(len(part)) < share] for part in parts])


class TableSource(ChunkSource):
    """The rows of a long table when they are needed, all with the same columns and dtypes.

    Text is parsed once where there is Arrow, into a scratch file that is read far faster.
    """

    def __init__(self, table: LongTable) -> None:
        survey = table.survey

        def parse(row: int) -> Chunks:
            for start, part in table.parts_of_whole(row):
                yield start, _cast(part.values.reindex(columns=survey.outline.columns), survey.outline)

        chunks, skips = parse, not table.is_text
        if table.is_text and find_spec("pyarrow") is not None:
            spool = Spool(frame for _, frame in parse(0))

            def chunks(row: int) -> Chunks:
                for start, frame in spool.chunks(row):
                    rows = pd.RangeIndex(start, start + len(frame)) if survey.names is None else survey.names[start:]
                    yield start, _cast(frame.set_axis(rows[: len(frame)]), survey.outline)

            skips = True
        super().__init__(table.name, chunks, survey.n_rows, survey.outline, "frame", survey.names, skips)
        self.table, self.limit = table, table.limit

    def keep_to(self, limit: float) -> None:
        super().keep_to(limit)
        self.table.keep_to(limit)

    def let_go(self) -> None:
        super().let_go()
        self.table.let_go()

    def read(self, start: int, stop: int) -> pd.DataFrame:
        return _cast(super().read(start, stop), self.outline)  # parts with different categories become objects


def _cast(frame: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """The same with the dtypes of another table of its columns."""
    odd = {name: dtype for (name, dtype), own in zip(like.dtypes.items(), frame.dtypes) if dtype != own}
    found = frame.astype(odd) if odd else frame
    for name in odd:  # other parts of a column of numbers have texts such as <0.5
        if is_object_dtype(odd[name]) and is_numeric_dtype(frame[name].dtype):
            found[name] = [None if pd.isna(cell) else str(cell) for cell in frame[name]]
    return found


@dataclass
class Sums:
    """What is found while the parts of a table go by."""

    n_rows: int = 0
    names: list[pd.Index] | None = None
    dialect: Dialect | None = None
    written: dict[Any, Any] = field(default_factory=dict)
    dtypes: dict[Any, Any] = field(default_factory=dict)
    labels: dict[Any, dict[Any, None]] = field(default_factory=dict)  # of columns of text and of categories
    formats: dict[Any, NumberFormat] = field(default_factory=dict)  # of columns of numbers in text files
    texts: set[Any] = field(default_factory=set)  # columns that hold something else somewhere
    whole: set[Any] = field(default_factory=set)
    seen: set[Any] = field(default_factory=set)  # columns that have any cell
    taken: Mapping[Any, Markers] = field(default_factory=dict)

    def add(self, part: FileTable) -> None:
        self.n_rows += len(part.values)
        self.taken = added([self.taken, part.taken])
        if not isinstance(part.values.index, pd.RangeIndex):
            self.names = [*(self.names or []), part.values.index]
        self.dialect = self.dialect or part.dialect
        _join_dtypes(self.written, part.given.dtypes.to_dict())
        seen = set(part.values.columns[part.values.notna().any().to_numpy(bool)])
        own = part.values.dtypes.to_dict()
        if part.dialect is not None:  # no cell tells what the others are, but that they have holes
            own |= {name: HOLES for name in part.values if name not in seen}
        _join_dtypes(self.dtypes, own)
        for name in seen & {name for name, dtype in own.items() if is_object_dtype(dtype) or _is_category(dtype)}:
            labels = self.labels.setdefault(name, {})
            if len(labels) <= MOST_LABELS:
                labels |= dict.fromkeys(_labels(part.values[name]))
        for name in seen:
            if name in part.formats:
                known = self.formats.get(name)
                self.formats[name] = part.formats[name] if known is None else _join_formats(known, part.formats[name])
            elif part.dialect is not None:
                self.texts.add(name)
            if name in part.whole and (name not in self.seen or name in self.whole):
                self.whole.add(name)
            else:
                self.whole.discard(name)
        self.seen |= seen

    @property
    def levels(self) -> dict[Any, tuple | None]:
        """Which columns of a text file are text, (), and which are numbers, None: what a part tells may differ."""
        return {name: () if name in self.texts else None for name in self.seen & (self.texts | set(self.formats))}

    def outline(self, names: pd.Index | None) -> pd.DataFrame:
        """All columns, each with the dtype that holds it, and no row."""
        dtypes = {name: np.dtype(object) if dtype is HOLES else dtype for name, dtype in self.dtypes.items()}
        dtypes |= dict.fromkeys(self.texts & set(self.formats), np.dtype(object))
        for name, dtype in dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype) and dtype.categories is None:
                dtypes[name] = pd.CategoricalDtype(list(self.labels[name]))
        found = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in dtypes.items()}, columns=list(dtypes))
        return found if names is None else found.set_axis(names[:0])


def _join_dtypes(known: dict[Any, Any], dtypes: Mapping[Any, Any]) -> None:
    for name, dtype in dtypes.items():
        known[name] = _common_dtype(known[name], dtype) if name in known else dtype


def _common_dtype(one: Any, other: Any) -> Any:
    """The dtype that holds the cells of both; of different categories one that does not say which they are."""
    if one is HOLES or other is HOLES:
        dtype = other if one is HOLES else one
        return np.dtype(float) if dtype is not HOLES and dtype.kind in "iu" else dtype
    if one == other:
        return one
    if _is_category(one) or _is_category(other):
        return pd.CategoricalDtype()
    numbers = all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in (one, other))
    return np.result_type(one, other) if numbers else np.dtype(object)


def _labels(column: pd.Series) -> Iterable[Any]:
    """The categories of a column, or its texts."""
    if _is_category(column.dtype):
        return column.cat.categories
    return (cell for cell in column if isinstance(cell, str))


def _is_category(dtype: Any) -> bool:
    return isinstance(dtype, pd.CategoricalDtype)


def _join_formats(one: NumberFormat, other: NumberFormat) -> NumberFormat:
    """How the numbers of a column are written of which each of these is a part."""
    if one == other:
        return one
    decimals = max((each.decimals for each in (one, other) if each.decimals is not None), default=None)
    before, after = the_one([one.before, other.before]) or "", the_one([one.after, other.after]) or ""
    thousands = one.thousands or other.thousands
    return NumberFormat(one.decimal, thousands, before, after, decimals, one.whole and other.whole)
