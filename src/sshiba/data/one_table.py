"""One table as a dict of views: columns split by type, or as the user says."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .advice import DataError, DataWarning, Problem, Remedy
from .cells import column_kind
from .coding import Coding, plain_names
from .containers import refuse_odd_names
from .covariates import ENTRY, columns_named, refuse_name
from .limits import Limits, read_beyond
from .markers import Meanings, Texts, tell_markers, without_markers
from .refusing import is_constant_text, refusal, words_among_labels
from .spellings import holds_yes_no
from .telling import tell
from .types import VIEW_TYPES, Ordinal, View, says_type
from .wording import counted, did_you_mean, first_few, quoted, spelled_here

logger = logging.getLogger("sshiba")

NUMERIC, BINARY, ORDINAL = "numeric", "binary", "ordinal"  # the views that hold all columns of a kind
OVERDISPERSED = 2.0  # variances in units of the mean, of whole numbers that may be counts
LEAST_GRADES, MOST_GRADES = 3, 11  # whole numbers one after the other, which may be levels


def is_one_table(data: Any) -> bool:
    return isinstance(data, pd.DataFrame)


# ------------------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class SplitTable:
    """The views of one table: their data, the types that are given for them, and why others were made."""

    views: dict[str, Any]
    types: dict[str, Any]
    reasons: dict[str, str]  # of the types that the split itself gave
    columns: tuple = ()  # all of the table's, in its order; none where they were views from the start


def split_training(frame: pd.DataFrame, option: Mapping[Any, Any] | None, covariates: Iterable[Any] = ()) -> SplitTable:
    """The views of one table, and their types as far as they are known; columns of covariates are an entry beside them.

    Parameters
    ----------
    frame : DataFrame
    option : mapping, optional
        View name -> its columns (one, or a list), or (columns, type), or a type alone where the name is that of a
        column or of one of the views made by type. Columns that are not named are split by type.
    """
    _check_columns(frame)
    if len(frame) == 0:
        raise ValueError("the table has no rows.")
    frame, markers = without_markers(frame, Meanings(labels=_named_labels(option or {})))
    tell_markers(markers)
    whole, known = frame, columns_named(frame, covariates)
    frame = frame.drop(columns=known)
    columns: dict[str, list] = {}
    types: dict[Any, Any] = {}
    for name, given in (option or {}).items():
        if says_type(given):
            types[name] = given
        elif isinstance(given, tuple) and len(given) == 2 and (_is_list(given[0]) or says_type(given[1])):
            columns[name], types[name] = _columns_of(given[0], frame, name), given[1]
        else:
            columns[name] = _columns_of(given, frame, name)
    used = [column for some in columns.values() for column in some]
    twice = sorted({str(column) for column in used if used.count(column) > 1})
    if twice:
        raise ValueError(f"columns {first_few(twice)} are in more than one view.")
    rest = frame.drop(columns=used)
    alone = [name for name in types if any(same_name(name, column) for column in rest)]
    rest = numbers_at_limits(rest, types.values())
    made, numeric = by_type(rest, alone, [*frame.columns, *columns])
    _tell_split(rest, made, numeric)
    for name, some in made.items():
        columns[name] = some
        if len(some) == 1 and some[0] in alone:
            types[name] = types.pop(some[0])
    reasons = {numeric: "numbers"} if numeric in made and numeric not in types else {}
    types |= dict.fromkeys(reasons, "real")
    views = {name: _part(frame, some) for name, some in columns.items()}
    if known:
        refuse_name(views)
        views[ENTRY] = whole[known]
    return SplitTable(views, types, reasons, plain_names(whole.columns))


def _named_labels(option: Mapping[Any, Any]) -> Texts:
    """The labels that the types of an option as in `split_training` name for columns of a table."""
    found: dict[Any, frozenset[str]] = {}
    for name, given in option.items():
        columns, kind = given if isinstance(given, tuple) and len(given) == 2 else (name, given)
        if isinstance(kind, View):
            named = kind.meanings().labels
            found |= {column: named.of(column) for column in (columns if _is_list(columns) else [columns])}
            found |= named.of_columns
    return Texts(of_columns=found)


def numbers_at_limits(frame: pd.DataFrame, types: Iterable[Any]) -> pd.DataFrame:
    """The frame, in which columns whose limits are given by name are numbers, though cells of them are such as <0.5."""
    for limits in (kind.named_limits for kind in types if isinstance(kind, View)):
        if set(limits) & set(frame):
            frame = read_beyond(frame, Limits.of(_within(limits, frame), tuple(frame)), NUMERIC)
    return frame


def _within(limits: Mapping[Any, Any], frame: pd.DataFrame) -> dict[Any, Any]:
    """Those of limits that are pairs, and whose columns the frame has."""
    pairs = {column: pair for column, pair in limits.items() if isinstance(pair, tuple) and column in frame}
    return {column: pair for column, pair in pairs.items() if all(not isinstance(e, str) or e in frame for e in pair)}


def same_name(a: Any, b: Any) -> bool:
    """Are these one column's name? 3 and 3.0 are, 3 and "3" or 1 and True are not."""
    return isinstance(a, str) == isinstance(b, str) and isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence | pd.Index | np.ndarray) and not isinstance(given, str | tuple)


def _columns_of(given: Any, frame: pd.DataFrame, name: str) -> list:
    wanted = list(given) if _is_list(given) else [given]
    unknown = [column for column in wanted if column not in frame]
    if unknown and not _is_list(given):
        known = f"the columns are {first_few(frame, 10)}, the types {first_few(VIEW_TYPES, 10)}"
        hint = did_you_mean([given], [*frame, *VIEW_TYPES])
        raise ValueError(f"view {name!r}: {quoted(given)} is no column and no view type; {known}.{hint}")
    if unknown:
        has = f"there are {first_few(frame, 10)}.{did_you_mean(unknown, frame)}"
        raise ValueError(f"view {name!r}: there is no column {first_few(unknown)}; {has}")
    if not wanted:
        raise ValueError(f"view {name!r} has no columns.")
    return wanted


def _check_columns(frame: pd.DataFrame) -> None:
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"there are several columns of the name {first_few(twice.unique())}. Rename them.")
    refuse_odd_names(frame)


def _part(frame: pd.DataFrame, columns: list) -> Any:
    """One column of labels as a Series, so that it comes back as one; else a frame."""
    if len(columns) == 1 and column_kind(frame[columns[0]]) != "number" and not holds_yes_no(frame[columns]):
        return frame[columns[0]]
    return frame[columns]


def by_type(frame: pd.DataFrame, alone: Sequence[Any] = (), taken: Sequence[Any] = ()) -> tuple[dict[str, list], str]:
    """Numbers in one view, 0 / 1 and yes / no in another, ordered categories in a third; each column of other labels in
    its own, as have those in `alone`.

    Columns with one label only are left aside.

    No view has a name that is `taken`, that of another column among them. Also the name of the view of numbers.

    Raises
    ------
    DataError
        Columns that are no measurement: dates, identifiers, free text. All are named, with what to do.
    """
    numeric, binary, ordinal = (name_by_type(kind, [*frame, *taken]) for kind in (NUMERIC, BINARY, ORDINAL))
    views: dict[str, list] = {}
    refused: list[Problem] = []
    for column in frame:
        if column in alone:
            views[free_name(str(column), views)] = [column]
            continue
        why_not = refusal(frame[column])
        yes_no = why_not is None and holds_yes_no(frame[[column]])
        if why_not:
            refused.append(why_not.of(f"column {quoted(column)}"))
        elif is_constant_text(frame[column]):
            continue
        elif Ordinal.recognise(frame[[column]]):
            views.setdefault(ordinal, []).append(column)
        elif column_kind(frame[column]) != "number" and not yes_no:
            views[free_name(str(column), views)] = [column]
        else:
            views.setdefault(binary if yes_no else numeric, []).append(column)
    if len(refused) > 1 and frame.isna().all(axis=None):
        raise DataError(Problem("no cell has a value", (Remedy.READING,)))
    if refused:
        raise DataError(*refused, *words_among_labels(refused, frame[[c for own in views.values() for c in own]]))
    return views, numeric


def _tell_split(frame: pd.DataFrame, views: Mapping[str, list], numeric: str) -> None:
    """What `by_type` made of a table, and one warning for all columns that it left aside."""
    used = {column for columns in views.values() for column in columns}
    constant = [column for column in frame if column not in used]
    if constant:
        columns_in_words = f"{counted(len(constant), 'column')} ({first_few(constant, 10)})"
        tell(DataWarning(Problem(f"one label only in {columns_in_words}, left aside")))
    for name, columns in views.items():
        logger.info("view %r: %s, %s", name, counted(len(columns), "column"), first_few(columns, 5))
    _suggest_types(frame, views.get(numeric, []))


def name_by_type(kind: str, taken: Iterable[Any]) -> str:
    """What the view of all columns of a kind is called."""
    return f"{kind} columns" if kind in map(str, taken) else kind


def _suggest_types(frame: pd.DataFrame, columns: list) -> None:
    """Whole numbers may be levels or counts; they may be codes, too, so it is only said."""
    for may_be, what in (
        (
            _may_be_grades,
            "%s of few whole numbers, taken as numbers (%s): if they are levels such as grades, Ordinal suits them "
            "better, e.g. views={'grades': (columns, Ordinal())}",
        ),
        (
            _may_be_counts,
            "%s of whole numbers from 0 on, taken as numbers (%s): if they count something, Count suits them better, "
            "e.g. views={'counts': (columns, Count())}",
        ),
    ):
        found = [column for column in columns if may_be(frame[column])]
        if found:
            logger.info(what, counted(len(found), "column"), first_few(found, 10))


def _may_be_grades(column: pd.Series) -> bool:
    """Few, one after the other."""
    found = column.dropna().unique()
    if not LEAST_GRADES <= len(found) <= MOST_GRADES:
        return False
    values = np.sort(np.asarray(found, dtype=np.float64))
    return bool((np.diff(values) == 1).all() and values[0] == np.floor(values[0]))


def _may_be_counts(column: pd.Series) -> bool:
    """Some are 0, more than grades have are different, and they vary more than a Poisson variable of their mean."""
    values = column.dropna().to_numpy(dtype=np.float64, na_value=np.nan)
    if len(values) == 0 or values.min() != 0 or (values != np.floor(values)).any():
        return False
    return len(np.unique(values)) > MOST_GRADES and bool(values.var() > OVERDISPERSED * values.mean() > 0)


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or with a number behind it: columns 1 and "1" are two."""
    numbered = (f"{name} ({n})" for n in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if free not in taken)


# ------------------------------------------------------------------------------------------------- new tables


def split_new(
    frame: pd.DataFrame, codings: Mapping[str, Coding], types: Mapping[str, View], covariates: Iterable[Any] = ()
) -> dict[str, Any]:
    """The views of a new table: those of which it has a column; columns it lacks are missing. Covariates as ever."""
    _check_columns(frame)
    covariates = list(covariates)
    known = [*(column for coding in codings.values() for column in coding.read_columns), *covariates]
    spelled = {here: name for name, here in spelled_here(known, frame).items()}
    frame = frame.set_axis([spelled.get(name, name) for name in frame], axis=1) if spelled else frame
    labels = {name: types[name].meanings(coding).labels for name, coding in codings.items()}
    labelled = {name: coding for name, coding in codings.items() if labels[name] != Texts()}
    learned = {feature: labels[name].of(feature) for name, coding in labelled.items() for feature in coding.features}
    frame, _ = without_markers(frame, Meanings(labels=Texts(of_columns=learned)))
    views: dict[str, Any] = {}
    for name, coding in codings.items():
        present = [column for column in coding.features if column in frame]
        if present:
            _refuse_without_limits(frame, name, coding, types[name])
            part = frame.reindex(columns=list(coding.read_columns))
            views[name] = part.iloc[:, 0] if coding.container == "series" else part
    beside = [column for column in covariates if column in frame]
    if beside:
        views[ENTRY] = frame[beside]
    if not views:
        raise ValueError(f"the table has none of the model's columns, {first_few(known, 10)}.")
    return views


def tell_strange(columns: Iterable[Any], training: Collection[Any]) -> None:
    """Which columns of a new table that of training did not have."""
    known = {*training, *spelled_here(training, columns := list(columns)).values()}
    strange = [column for column in columns if column not in known]
    if strange:
        logger.warning("columns the model does not know, left as they are: %s", first_few(strange, 10))


def _refuse_without_limits(frame: pd.DataFrame, name: str, coding: Coding, view: View) -> None:
    """Values whose limits are in a column that the table lacks would be taken for measured ones."""
    limits = view.limits_of(coding.read_columns)
    for feature, pair in zip(limits.features, limits.pairs):
        lacking = [edge for edge in pair if isinstance(edge, str) and edge not in frame]
        if lacking and feature in frame and frame[feature].notna().any():
            raise ValueError(
                f"view {name!r}: column {quoted(lacking[0])}, which has the limits of {quoted(feature)}, is missing. "
                "Add it, with NaN where there is no limit."
            )


def merge_columns(frame: pd.DataFrame, parts: Mapping[str, Any], others: pd.DataFrame) -> pd.DataFrame:
    """The user's table with its columns taken from the views, and from `others` where no view has them."""
    columns = _columns(parts)
    columns |= {here: columns[name] for name, here in spelled_here(columns, frame).items()}
    out = {}
    for place, name in enumerate(frame.columns):
        column = columns[name] if name in columns else others[name]
        out[place] = pd.Series(column.array, index=frame.index, dtype=column.dtype)
    result = pd.DataFrame(out, index=frame.index)
    result.columns = frame.columns
    return result


def columns_absent_from(parts: Mapping[str, Any], frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of the views that a table lacks."""
    columns = _columns(parts)
    present = {*frame, *spelled_here(columns, frame)}
    absent = pd.DataFrame({name: column for name, column in columns.items() if name not in present})
    if absent.columns.nlevels == frame.columns.nlevels:
        absent.columns = absent.columns.set_names(list(frame.columns.names))
    return absent


def whole_table(parts: Mapping[str, Any], order: Sequence[Any]) -> pd.DataFrame:
    """The views of one table as that table: their columns in its order."""
    columns, places = _columns(parts), {name: place for place, name in enumerate(order)}
    return pd.DataFrame({name: columns[name] for name in sorted(columns, key=places.__getitem__)})


def _columns(parts: Mapping[str, Any]) -> dict[Any, pd.Series]:
    columns: dict[Any, pd.Series] = {}
    for part in parts.values():
        columns |= {part.name: part} if isinstance(part, pd.Series) else {name: part[name] for name in part}
    return columns
