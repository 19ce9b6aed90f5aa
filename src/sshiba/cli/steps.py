"""What several commands do: read files as a model knows them, fit with a bar, fill holes and write them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype

from ..core.machine import give_back, memory_limit
from ..data.border import as_views
from ..data.row_parts import holds_sources
from ..data.sources import RowSource
from ..data.sparse_tables import SparseTable, is_sparse_view
from ..data.wording import counted, first_few, nearest, quoted, spelled_here
from ..estimator import SSHIBA, load
from ..files.file_table import FileTable
from ..files.growing import growing
from ..files.growing_views import growing_views
from ..files.long_tables import LongTable
from ..files.opening import FileViews, files_of, open_data, room_for_answers, room_for_checks, values_of
from ..files.reading_options import LearnedReading, Reading
from ..files.text_files import Dialect
from ..files.view_files import write_views
from ..files.writing import write
from ..fitted.intervals import LABELS, LOWER, UPPER
from .arguments import Fitting
from .parts import RowsBar, say_long
from .terminal import Expectation, errors, print_scales, say

MEMORY = 3  # times the numbers themselves
FEW = 0.1  # of the cells of a column that is filled: so few are measured that it is said


# ------------------------------------------------------------------------------------------------------ reading


def loaded(path: str, unseen: str, max_memory: str | None) -> SSHIBA:
    """A model from its file, within what may be used; labels that it never saw are missing, or refused."""
    model = load(path).set_params(max_memory=max_memory)
    model.fitted_ = replace(model.fitted_, schema=model.fitted_.schema.with_unseen(unseen))
    return model


def learned_reading(model: SSHIBA) -> LearnedReading:
    """How the data of a model were read, the labels of its columns, and where their numbers are."""
    schema = model.fitted_.schema
    return LearnedReading.of(model.fitted_.reading, schema.labels_by_column, schema.ranges_by_column)


def open_new(
    model: SSHIBA, paths: Sequence[str], how: Reading, target: str | None = None, max_memory: str | None = None
) -> tuple[Any, Dialect | None]:
    """New rows as the model's own were read, and how their file is written, but for answers with names."""
    given = open_data(paths, how, learned_reading(model), room_for_answers(max_memory))
    if isinstance(given, FileViews):
        given = given.called([name for name in entries_of(model) if name != target])
    say_absent(model, columns_of(given), target)
    dialect = dialect_of(given)
    return given, None if dialect is None else replace(dialect, header=True)


def read_again(model: SSHIBA, paths: Sequence[str], how: Reading) -> Any:
    """The data of a model."""
    given = open_data(paths, how, learned_reading(model), room_for_checks(model.max_memory))
    if isinstance(given, FileViews):
        given = given.called(entries_of(model))
    say_long(given)
    say_absent(model, columns_of(given))
    return values_of(given)


def entries_of(model: SSHIBA) -> list[str]:
    """What a dict of views is called that the model can read: its views, and covariates beside them."""
    return [*model.views_, *model.fitted_.schema.known_entries]


def columns_of(given: Any) -> Any:
    """A table with the columns of what is given, where it is one."""
    return given.first.values if isinstance(given, LongTable) else values_of(given)


def say_absent(model: SSHIBA, given: Any, target: str | None = None) -> None:
    """Which columns of the model the files lack, but for the target; and which of theirs may be meant."""
    schema = model.fitted_.schema
    if not schema.one_table or not isinstance(given, pd.DataFrame):
        return
    known = [(name, feature) for name, coding in schema.codings.items() for feature in coding.features]
    present = {*given, *spelled_here((feature for _, feature in known), given)}
    absent = [feature for name, feature in known if feature not in present and target not in (name, str(feature))]
    if not absent:
        return
    features = {feature for _, feature in known}
    near = nearest(absent, [name for name in given if name not in features])
    meant = [f"{quoted(found)} for {quoted(name)}" for name, found in near.items()]
    say(
        f"Not in the data: {first_few(absent, 10)}; predictions do without."
        + (f" Did you mean {', '.join(meant)}?" if meant else "")
    )


def dialect_of(whole: Any) -> Dialect | None:
    table = whole.first if isinstance(whole, LongTable) else whole
    return table.dialect if isinstance(table, FileTable) else None


def reading_of(how: Reading, dialect: Dialect | None) -> dict[str, Any]:
    """How the data of a model were read, to be stored with it."""
    return LearnedReading(how, dialect, {}).to_json()


# ------------------------------------------------------------------------------------------------------ fitting


def fitted(given: Any, fitting: Fitting, whole: Any) -> SSHIBA:
    """A model fitted with a progress bar to what is given of the files."""
    model = fitting.model(given, files_of(whole), dialect_of(whole))
    fit_shown(model, given)
    print_scales(model, errors)
    return model


def fit_shown(model: SSHIBA, given: Any, goes_on: bool = False, **saving: Any) -> None:
    """A fit, or one that goes on, with a progress bar, and before it what it will take."""
    tables = [given] if isinstance(given, pd.DataFrame | RowSource) else list(as_views(given).values())
    cells = sum(part.matrix.nnz if isinstance(part, SparseTable) else n_cells(part) for part in tables)
    megabytes, room = cells * 8 * MEMORY / 2**20, memory_limit(model.max_memory) / 2**20
    if megabytes > room and holds_sources(dict(enumerate(tables))):
        say(f"{cells:,} cells: those that do not fit into {room:,.0f} MB of memory are read again in each sweep.")
    elif megabytes > 100:
        say(f"{cells:,} cells: about {megabytes:,.0f} MB of memory.")
    model.set_params(verbose=1, callback=Expectation())
    try:
        (model.resume if goes_on else model.fit)(given, **saving)
    finally:
        model.set_params(callback=None)


def n_cells(part: Any) -> int:
    return part.n_rows * part.outline.shape[1] if isinstance(part, RowSource) else int(np.prod(part.shape))


# ------------------------------------------------------------------------------------------------------ filling


@dataclass(frozen=True)
class Targets:
    """The files that filled data, their deviations and the ends of intervals go to; None: they are not wanted."""

    out: str
    std: str | None
    lower: str | None
    upper: str | None

    @property
    def bounds(self) -> dict[str, str]:
        """End of intervals -> its file."""
        return {end: path for end, path in ((LOWER, self.lower), (UPPER, self.upper)) if path is not None}

    def distinct(self) -> list[str]:
        """All of them, each another file."""
        named = {"--out": self.out, "--std": self.std, "--lower": self.lower, "--upper": self.upper}
        seen: dict[str, str] = {}
        for option, path in named.items():
            if path is not None and path in seen:
                raise ValueError(f"{seen[path]} and {option} are the same file.")
            seen |= {} if path is None else {path: option}
        return list(seen)


def impute_asked(model: SSHIBA, data: Any, asked: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Filled data, deviations, and the same filled with the ends of intervals; `asked` are options of `impute`."""
    filled, deviations, *bounds = model.impute(data, return_std=True, **asked)
    return filled, deviations, bounds[0] if bounds else {}


def impute_tables(
    given: Any, fitting: Fitting, model: SSHIBA | None, targets: Targets, asked: Mapping[str, Any]
) -> SSHIBA:
    """Tables, or files of views, which come back in their own form; without a model one is fitted to them.

    `asked` are options of `SSHIBA.impute`. Returns the model.
    """
    values = values_of(given)
    used = model or fitted(values, fitting, given)
    if not isinstance(given, FileTable):
        views = as_views(given)
        filled, deviations, bounds = impute_asked(used, views, asked)
        write_views(given, filled, targets.out)
        if targets.std is not None:
            write_views(given, deviations, targets.std)
        for end, path in targets.bounds.items():
            write_views(given, {**filled, **bounds[end]}, path)
        tally = Tally()
        tally.add_views(views, filled)
        tally.say()
        return used
    filled, deviations, bounds = impute_asked(used, values, asked)
    table, rounded = given.filled(filled)
    write(table, targets.out, given.dialect, given.sheet)
    if targets.std is not None:
        write(given.deviations(deviations), targets.std, given.dialect, given.sheet)
    for end, path in targets.bounds.items():
        write(given.filled(bounds[end])[0], path, given.dialect, given.sheet)
    tally = Tally(own_fit=model is None)
    tally.add_table(given, filled, rounded)
    tally.say()
    return used


@dataclass
class Tally:
    """What was filled, and what was not."""

    own_fit: bool = True  # by a model that was fitted to the same cells?
    cells: int = 0
    filled: int = 0
    left: Counter[Any] = field(default_factory=Counter)  # column or view -> its cells that stay empty
    rounded: dict[Any, None] = field(default_factory=dict)  # columns of whole numbers
    measured: Counter[Any] = field(default_factory=Counter)  # column of a table -> its cells that were there
    new: Counter[Any] = field(default_factory=Counter)  # and those that were filled

    def add_table(self, table: FileTable, found: pd.DataFrame, rounded: Sequence[Any]) -> None:
        self.cells += table.own.size
        for name, own in table.own.items():
            changed, holes = table.changed(name, found), own.isna().to_numpy()
            self.filled += int(changed.sum())
            self.measured[name] += int((~holes).sum())
            self.new[name] += int((changed & holes).sum())
        self.left.update(table.gaps_left(found))
        self.rounded |= dict.fromkeys(rounded)

    def add_views(self, views: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        for name, part in views.items():
            left = count_holes(found[name])
            self.cells += n_cells(part)
            self.filled += count_holes(part) - left
            self.left.update({name: left} if left else {})

    def say(self) -> None:
        n_left = self.left.total()
        gaps = f" {counted(n_left, 'gap')} {'stays' if n_left == 1 else 'stay'}, in {first_few(self.left, 10)}."
        say(f"Filled {self.filled:,} of {self.cells:,} cells.{gaps if n_left else ''}")
        total = self.measured + self.new
        few = [name for name in self.new if self.own_fit and self.measured[name] < FEW * total[name]]
        if few:
            sizes = [(name, counted(self.measured[name], "cell"), self.new[name]) for name in few[:5]]
            cells = "; ".join(f"{quoted(name)}: {measured} measured, {new:,} filled" for name, measured, new in sizes)
            more = f"; and {counted(len(few) - 5, 'more column')}" if len(few) > 5 else ""
            say(f"{cells}{more}. --drop leaves out what so few cells tell.")
        if self.rounded:
            say(f"Rounded, since the others are whole numbers: {first_few(self.rounded, 10)}.")


def count_holes(part: Any) -> int:
    return 0 if is_sparse_view(part) else int(np.sum(pd.isna(np.asarray(part))))


def impute_long(
    long: LongTable,
    fitting: Fitting,
    model: SSHIBA | None,
    fit_rows: int,
    targets: Targets,
    asked: Mapping[str, Any],
) -> SSHIBA:
    """Part by part; the files appear when all of them are done. Returns the model."""
    n_rows = long.total_rows
    if model is None and long.is_text:
        some = long.sample(fit_rows, fitting.seed)
        say(f"A long table: fitting {len(some):,} of its {n_rows:,} rows, filling all of them.")
        used = fitted(some, fitting, long)
    else:
        used = model or fitted(long.source(), fitting, long)
    long = long.read_as(learned_reading(used))
    tally = Tally(own_fit=model is None)
    dialect = dialect_of(long)
    with RowsBar("filling", n_rows) as bar, ExitStack() as files:
        add, add_std = (files.enter_context(growing(path, dialect)) for path in (targets.out, targets.std))
        add_end = {end: files.enter_context(growing(path, dialect)) for end, path in targets.bounds.items()}
        for _, part in long.parts_of_whole():
            filled, deviations, bounds = impute_asked(used, part.values, asked)
            table, rounded = part.filled(filled)
            add(table)
            add_std(part.deviations(deviations))
            for end, add_part in add_end.items():
                add_part(part.filled(bounds[end])[0])
            tally.add_table(part, filled, rounded)
            bar.advance(len(filled))
            del part, filled, deviations, bounds, table  # before the next is read
            give_back()
    tally.say()
    return used


def impute_views(
    given: FileViews, fitting: Fitting, model: SSHIBA | None, targets: Targets, asked: Mapping[str, Any]
) -> SSHIBA:
    """Views in files, part by part. Returns the model."""
    used = model or fitted(given.views, fitting, given)
    tally = Tally()
    with RowsBar("filling", given.n_rows) as bar, ExitStack() as files:
        add, add_std = (files.enter_context(growing_views(given, path)) for path in (targets.out, targets.std))
        add_end = {end: files.enter_context(growing_views(given, path)) for end, path in targets.bounds.items()}
        for part in given.parts():
            filled, deviations, bounds = impute_asked(used, part, asked)
            add(filled)
            add_std(deviations)
            for end, add_part in add_end.items():
                add_part({**filled, **bounds[end]})
            tally.add_views(part, filled)
            bar.advance(len(next(iter(part.values()))))
    tally.say()
    return used


# ------------------------------------------------------------------------------------------------------ answers


def interval_columns(model: SSHIBA, interval: Mapping[str, Any], target: str) -> list[pd.DataFrame]:
    """The ends of intervals, "weight lower", "weight upper"; of classes whether each is in the set, "north in set"."""
    ends = [
        whole_labels(model, as_table(interval[end], target)).add_suffix(f" {end}")
        for end in (LOWER, UPPER)
        if end in interval
    ]
    sets = [named_by_label(model, as_table(interval[LABELS])).add_suffix(" in set")] if LABELS in interval else []
    return ends + sets


def whole_labels(model: SSHIBA, found: pd.DataFrame) -> pd.DataFrame:
    """Labels that are whole numbers as such, where holes or a workbook made floats of them in training."""
    schema = model.fitted_.schema
    one_table = schema.one_table
    labelled = [own for name, own in schema.codings.items() if one_table and schema.types[name].has_probabilities]
    labels = {
        feature: coding.ordered[place].values if coding.ordered else coding.levels or (0.0, 1.0)
        for coding in labelled
        for place, feature in enumerate(coding.features)
    }
    whole = [name for name in found if _are_whole_floats(labels.get(name, ())) and is_float_dtype(found[name].dtype)]
    return found.astype(dict.fromkeys(whole, "Int64"))


def _are_whole_floats(labels: Collection[Any]) -> bool:
    return len(labels) > 0 and all(isinstance(label, float) and label.is_integer() for label in labels)


def named_by_label(model: SSHIBA, proba: pd.DataFrame) -> pd.DataFrame:
    """Probabilities called by the label whose they are; those of yes / no columns "smoker Yes", "ill 1", and of levels
    of several columns "grade 3".
    """
    if proba.columns.nlevels > 1:
        levels = [int(level) if _are_whole_floats([level]) else level for level in proba.columns.get_level_values(1)]
        return proba.set_axis([f"{a} {b}" for a, b in zip(proba.columns.get_level_values(0), levels)], axis=1)
    if _are_whole_floats(proba.columns):
        return proba.rename(columns=int)
    codings = [
        coding for coding in model.fitted_.schema.codings.values() if coding.levels is None and not coding.ordered
    ]
    pairs = [pair for coding in codings for pair in itertools.zip_longest(coding.features, coding.words)]
    words = {feature: "1" if pair is None else pair[1] for feature, pair in pairs}
    names = {name: f"{name} {words[name]}" for name in proba if name in words}
    return proba.rename(columns=names)


def as_table(found: Any, name: str | None = None) -> pd.DataFrame:
    """Any prediction as a frame."""
    if isinstance(found, pd.DataFrame):
        return found
    if isinstance(found, pd.Series):
        return found.to_frame(name if found.name is None else found.name)
    frame = pd.DataFrame(found)
    return frame.set_axis([name], axis=1) if name is not None and frame.shape[1] == 1 else frame
