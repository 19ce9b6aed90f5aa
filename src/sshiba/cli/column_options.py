"""Options of a shell about columns: which view they are in, their levels, limits, margins and kernels."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from ..data.border import as_views
from ..data.containers import read_table
from ..data.margin_choice import BENT
from ..data.markers import without_markers
from ..data.one_table import BINARY, NUMERIC, ORDINAL, by_type, free_name, name_by_type, numbers_at_limits
from ..data.reading import recognised
from ..data.sources import RowSource
from ..data.twins import KERNELS
from ..data.types import VIEW_TYPES, Ordinal, Real
from ..data.wording import did_you_mean

MARGINS = tuple(BENT)
LEVELS_VIEW = "ordinal"  # of the columns of --levels that are in no --view


def parse_covariates(texts: Sequence[str], given: Any) -> dict[str, str | None]:
    """NAME, or NAME=type where a name without its type is a column, or a file beside the others."""
    outline = given.outline if isinstance(given, RowSource) else given
    found: dict[str, str | None] = {}
    for text in texts:
        name, _, kind = text.rpartition("=")
        known = name in outline and text not in outline
        found[name if known else text] = kind if known else None
    return found


def without_columns(given: Any, names: Collection[str]) -> Any:
    """A table without some of its columns; several views as they are."""
    outline = given.outline if isinstance(given, RowSource) else given
    if not names or not isinstance(outline, pd.DataFrame):
        return given
    kept = outline.drop(columns=[name for name in names if name in outline])
    return given.part(kept) if isinstance(given, RowSource) else kept


def parse_view(text: str, given: Any) -> tuple[str, Any]:
    """NAME=columns:type; the type may be left out, and for files with views of their own the columns, too."""
    name, equals, rest = text.partition("=")
    columns, _, kind = rest.partition(":")
    if not equals or not name or not rest:
        raise ValueError(f"--view {text!r}: write NAME=columns:type, such as blood=hb,wbc:real.")
    if isinstance(given, RowSource):
        given = given.outline
    if not isinstance(given, pd.DataFrame):
        return name, _view_type(kind or columns, text)
    found: list[str] = []
    for pattern in columns.split(","):
        names = [c for c in map(str, given) if c == pattern or fnmatch.fnmatchcase(c, pattern)]
        if not names:
            raise ValueError(f"--view {text!r}: there is no column {pattern!r}.{did_you_mean([pattern], given)}")
        found += [column for column in names if column not in found]
    return name, (found, _view_type(kind, text)) if kind else found


def with_levels(views: dict[str, Any], texts: Sequence[str], given: Any, files: Mapping[str, list]) -> dict[str, Any]:
    """The views with the levels of --levels: of the ordinal view that has the column, else of one for all others of a
    file.
    """
    if not texts:
        return views
    outline = given.outline if isinstance(given, RowSource) else given
    if not isinstance(outline, pd.DataFrame):
        raise ValueError("--levels needs one table, whose columns have names.")
    levels = dict(parse_levels(text, outline) for text in texts)
    named: set[Any] = set()
    for name, said in views.items():
        columns, kind = said if isinstance(said, tuple) else (said, None)
        own = {column: levels[column] for column in columns if column in levels}
        if own and kind not in (None, "ordinal"):
            raise ValueError(f"--levels: {next(iter(own))!r} is in view {name!r}, which is {kind}, not ordinal.")
        views[name] = (columns, Ordinal(levels=own)) if own else said
        named |= set(own)
    rest = {column: own for column, own in levels.items() if column not in named}
    levelled = {f"{file} {LEVELS_VIEW}".strip(): own for file, own in by_file(rest, files).items()}
    return views | {name: (own, Ordinal(levels={c: rest[c] for c in own})) for name, own in levelled.items()}


def with_files(views: dict[str, Any], files: Mapping[str, list], limits: Sequence[str], given: Any) -> dict[str, Any]:
    """The views, and of each file its other numbers, yes/no and levels, for a view is one table.

    It is called as its file where all else of that is of one type. Each column of labels is a view of its own anyway.
    """
    if not files:
        return views
    outline = given.outline if isinstance(given, RowSource) else given
    edges, taken = dict(parse_limits(text, outline) for text in limits), [*outline, *views]
    sample = numbers_at_limits(_sample(given), [Real(limits=edges)])
    made = by_type(sample.drop(columns=_columns(views)), taken=taken)[0]
    beside = {edge: column for column, pair in edges.items() for edge in pair if isinstance(edge, str)}
    n_views = Counter(file for columns in made.values() for file in by_file(columns, files, beside))
    found = dict(views)
    for kind in (NUMERIC, BINARY, ORDINAL):
        for file, columns in by_file(made.get(name_by_type(kind, taken), ()), files, beside).items():
            name = file if n_views[file] == 1 else f"{file} {kind}"
            own = free_name(name_by_type(name, taken), found)
            found[own] = (columns, "real") if kind == NUMERIC else columns
    return found


def by_file(
    columns: Iterable[Any], files: Mapping[str, list], beside: Mapping[Any, Any] = MappingProxyType({})
) -> dict[str, list]:
    """Which of the columns each file has, of those that have any, or "" all of them where there are no files.

    `beside`: column -> another, whose file counts as its own.
    """
    file_of = {column: file for file, own in files.items() for column in own}
    found: dict[str, list] = {}
    for column in columns:
        found.setdefault(file_of.get(beside.get(column, column), ""), []).append(column)
    return found


def parse_levels(text: str, outline: pd.DataFrame) -> tuple[str, list]:
    """COLUMN=lowest,...,highest; levels of a column of numbers as numbers."""
    column, equals, rest = text.partition("=")
    found = [level.strip() for level in rest.split(",")]
    if not equals or len(found) < 2 or not all(found):
        raise ValueError(f"--levels {text!r}: write COLUMN=lowest,...,highest, such as pain=none,some,much.")
    if column not in outline:
        raise ValueError(f"--levels {text!r}: there is no column {column!r}.{did_you_mean([column], outline)}")
    is_number = pd.api.types.is_numeric_dtype(outline[column].dtype)
    return column, [float(level) for level in found] if is_number else found


def labels_named(texts: Sequence[str], markers: Collection[str]) -> list[str]:
    """The levels of --levels that would mean missing without it, each as COLUMN=TEXT."""
    named = [(text.partition("=")[0], level.strip()) for text in texts for level in text.partition("=")[2].split(",")]
    return [f"{column}={level}" for column, level in named if level in markers]


def with_numbers(views: dict[str, Any], limits: Sequence[str], margins: Sequence[str], given: Any) -> dict[str, Any]:
    """The views with --limits and --margin: of the real view that has the column, else of all other numbers."""
    if not limits and not margins:
        return views
    outline = given.outline if isinstance(given, RowSource) else given
    if not isinstance(outline, pd.DataFrame):
        if limits or any("=" in text for text in margins):
            raise ValueError("--limits and --margin of a column need one table, whose columns have names.")
        real = [name for name, part in as_views(given).items() if _is_real(views.get(name), part, name)]
        _check_any(real, margins)
        return views | {name: Real(margin=margins[-1]) for name in real}
    edges = dict(parse_limits(text, outline) for text in limits)
    bent = dict(parse_margin(text, outline) for text in margins)
    everywhere = bent.pop(None, None)
    sample = None if everywhere is None else numbers_at_limits(_sample(given), [Real(limits=edges)])
    found = dict(views)
    for name, said in views.items():
        columns, kind = said if isinstance(said, tuple) else (said, None)
        own = [_taken(some, columns) for some in (edges, bent)]
        if any(own) and kind not in (None, "real"):
            named = next(iter(own[0] or own[1]))
            raise ValueError(f"--limits, --margin: {named!r} is in view {name!r}, which is not real.")
        if any(own) or (sample is not None and _is_real(kind, sample[columns], name)):
            found[name] = (columns, _real(columns, own[0], own[1], everywhere))
    taken = [*outline, *views]
    name = name_by_type(NUMERIC, taken)
    rest = {} if sample is None else by_type(sample.drop(columns=_columns(views)), taken=taken)[0]
    if edges or bent or name in rest:
        found[name] = _real(rest.get(name, ()), edges, bent, everywhere)
    if everywhere is not None:
        _check_any([name for name in found if found[name] is not views.get(name)], margins)
    return found


def _taken(some: dict[Any, Any], columns: Iterable[Any]) -> dict[Any, Any]:
    """What is said of columns, which is said then."""
    return {column: some.pop(column) for column in columns if column in some}


def _real(columns: Iterable[Any], limits: dict, margins: dict, everywhere: str | None) -> Real:
    """A view of columns; what is said of one counts more than what is said everywhere."""
    margin: Any = margins or everywhere
    if margins and everywhere is not None:
        beside = {edge for pair in limits.values() for edge in pair}
        margin = {column: everywhere for column in columns if column not in beside} | margins
    return Real(limits=limits or None, margin=margin)


def with_kernels(views: dict[str, Any], texts: Sequence[str], given: Any, files: Mapping[str, list]) -> dict[str, Any]:
    """The views with --kernel: of a real view that --view names, of one of a file, or of all other numbers."""
    outline = given.outline if isinstance(given, RowSource) else given
    one_table = isinstance(outline, pd.DataFrame)
    others = [] if files else [name_by_type(NUMERIC, [*outline, *views])] if one_table else []
    known = [*views, *others] if one_table else list(as_views(given)) if texts else []
    found = dict(views)
    for text in texts:
        name, equals, kernel = text.rpartition("=")
        if not equals or kernel not in KERNELS:
            raise ValueError(f"--kernel {text!r}: write VIEW=KERNEL, with a kernel of {', '.join(KERNELS)}.")
        if name not in known:
            raise ValueError(f"--kernel {text!r}: there is no view {name!r}; there are {', '.join(known)}.")
        said = found.get(name)
        columns, kind = said if isinstance(said, tuple) else (said, None) if isinstance(said, list) else (None, said)
        if not (kind in (None, "real") or isinstance(kind, Real)):
            raise ValueError(f"--kernel {text!r}: view {name!r} is not real.")
        view = replace(kind if isinstance(kind, Real) else Real(), kernel=kernel)
        found[name] = view if columns is None else (columns, view)
    return found


def _sample(given: Any) -> pd.DataFrame:
    """The rows of a table by which its columns are split; of what is not in memory some."""
    return read_table(given, "").sample if isinstance(given, RowSource) else without_markers(given)[0]


def _is_real(kind: Any, part: Any, name: str) -> bool:
    """Is a view of the type real: as is said, or else by what it holds?"""
    return kind == "real" if kind is not None else type(recognised(read_table(part, name), name)[0]) is Real


def _check_any(real: Sequence[str], margins: Sequence[str]) -> None:
    if not real:
        raise ValueError(f"--margin {margins[-1]}: no view is of numbers; say which one is, --view NAME=...:real.")


def _columns(views: dict[str, Any]) -> list[Any]:
    return [column for said in views.values() for column in (said[0] if isinstance(said, tuple) else said)]


def parse_margin(text: str, outline: pd.DataFrame) -> tuple[str | None, str]:
    """KIND, for all columns of numbers, or COLUMN=KIND."""
    column, equals, kind = text.rpartition("=")
    if kind not in MARGINS:
        raise ValueError(f"--margin {text!r}: write KIND or COLUMN=KIND, with a kind of {', '.join(MARGINS)}.")
    if equals and column not in outline:
        raise ValueError(f"--margin {text!r}: there is no column {column!r}.{did_you_mean([column], outline)}")
    return (column, kind) if equals else (None, kind)


def refuse_commas(texts: Iterable[str]) -> None:
    """Limits that are two whole numbers, or one as a file with decimal commas writes it."""
    for text in texts:
        column, _, rest = text.partition("=")
        found = re.fullmatch(r"\s*(-?\d+),(\d+)\s*", rest)
        if found:
            lower, upper = found.groups()
            raise ValueError(
                f"--limits {text!r}: the file has decimal commas; write {column}={lower}.{upper}, for a lower limit of "
                f"{lower}.{upper}, {column}=,{lower}.{upper} for an upper one, or {column}={lower}.0,{upper}.0 for "
                f"limits of {lower} and {upper}."
            )


def parse_limits(text: str, outline: pd.DataFrame) -> tuple[str, tuple]:
    """COLUMN=lower,upper, of which one may be empty; a number, or the name of a column."""
    column, equals, rest = text.partition("=")
    found = [edge.strip() for edge in rest.split(",")]
    if not equals or len(found) != 2 or not any(found):
        raise ValueError(f"--limits {text!r}: write COLUMN=lower,upper, such as lead=0.05, or hours=,48.")
    if column not in outline:
        raise ValueError(f"--limits {text!r}: there is no column {column!r}.{did_you_mean([column], outline)}")
    return column, tuple(_edge(edge, text, outline) for edge in found)


def _edge(edge: str, text: str, outline: pd.DataFrame) -> float | str | None:
    try:
        return float(edge) if edge else None
    except ValueError:
        if edge in outline:
            return edge
    raise ValueError(f"--limits {text!r}: {edge!r} is neither a number nor a column.{did_you_mean([edge], outline)}")


def _view_type(kind: str, text: str) -> str:
    if kind not in VIEW_TYPES:
        raise ValueError(f"--view {text!r}: {kind!r} is no view type; there are {', '.join(VIEW_TYPES)}.")
    return kind
