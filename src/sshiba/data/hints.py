"""Hints about data that are read as they are: cells that may mean missing, outliers, copies, labels with an order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..core.coded import CodedView
from .advice import DataWarning, Example, Problem, Remedy, With
from .cells import column_kind
from .containers import Table
from .far_off import LEAST, FarOff
from .markers import is_text, suspects
from .ordered_words import in_order
from .schema import Schema
from .spellings import spellings, text_counts
from .telling import tell
from .wording import counted, first_few, quoted

logger = logging.getLogger("sshiba")

MOST = 5  # columns of which one thing is said
FAR_BEYOND = 5.0  # deviations by which a cell of new rows may be beyond all of training, or by the range of these
FEW_SEEN = 30  # so few cells of training tell that only half: twice as far is allowed
NOT_USUAL = 3  # cells at least in which a copy differs from its most frequent value: rare events coincide


def give_hints(schema: Schema, tables: Mapping[str, Table]) -> None:
    """Once for a fit, when all views have been learned."""
    _warn_labels(schema, tables)
    for what in (_far_off(schema, tables), _copies(schema, tables)):
        problems = list(what)
        if problems:
            more = len(problems) - MOST
            rest = [Problem(f"so it is with {counted(more, 'more column')}")] if more > 0 else []
            tell(DataWarning(*problems[:MOST], *rest))
    for hint in _orders(schema):
        logger.warning(hint)


def _warn_labels(schema: Schema, tables: Mapping[str, Table]) -> None:
    """One warning for all labels that look like markers, and for spellings that differ only in case and blanks."""
    marks: dict[Any, Any] = {}
    ways: dict[Any, Any] = {}
    for name, coding in schema.codings.items():
        column = tables[name].sample.iloc[:, 0]
        if coding.levels is None or not is_text(column.dtype):
            continue
        counts, whose = text_counts(column), coding.features[0] if schema.one_table else name
        odd = _suspects(coding.levels)
        if odd:
            marks[whose] = (sum(counts[label] for label in odd), odd)
        same = [some for some in spellings(counts).values() if len(some) > 1]
        if same:
            ways[whose] = (sum(map(len, same)) - len(same), [label for some in same for label in some])
    problems = []
    if marks:
        cells = counted(sum(n for n, _ in marks.values()), "label")
        listed = "; ".join(f"{quoted(whose)}: {first_few(odd, 5)}" for whose, (_, odd) in marks.items())
        verb = "looks" if cells.startswith("1 ") else "look"
        shown = [(whose, label) for whose, (_, odd) in marks.items() for label in odd[:5]]
        often = Counter(label for _, label in shown)
        own = [_missing(whose if often[label] == 1 else None, label) for whose, label in shown]
        said = With(Remedy.MISSING, tuple(dict.fromkeys(own)))
        problems.append(Problem(f"{cells} that {verb} like missing ({listed})", (said,)))
    if ways:
        n = counted(sum(n for n, _ in ways.values()), "label")
        listed = "; ".join(f"{quoted(whose)}: {first_few(some, 5)}" for whose, (_, some) in ways.items())
        problems.append(Problem(f"{n} spelled in several ways ({listed})", (Remedy.SPELLINGS,)))
    if problems:
        tell(DataWarning(*problems))


def _suspects(labels: Sequence[Any]) -> list[str]:
    """The labels that look like markers, and are not the end of a scale as none is of none, mild, severe."""
    odd = suspects(labels)
    others = [label for label in labels if label not in odd]
    return [label for label in odd if in_order([label, *others]) is None]


def _far_off(schema: Schema, tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Numbers that look as if they meant missing, or may ruin a fit, each column on the scale that it has."""
    for name, view in schema.types.items():
        table, coding = tables[name], schema.codings[name]
        if table.tensor is None and table.sparse is None:
            for place, own in view.outliers(table.sample, name, coding).items():
                yield _far_off_in_words(coding.features[place], own)


def _missing(column: Any, text: str) -> Example:
    """A text that means missing in a column, or, where none is named, in all."""
    return Example(repr(text), text if column is None else f"{column}={text}")


def _if_missing(column: Any, values: Iterable[float]) -> With:
    return With(Remedy.IF_MISSING, tuple(_missing(column, f"{value:.12g}") for value in values))


def _far_off_in_words(column: Any, own: FarOff) -> Problem:
    texts = [f"{value:g}" for value in own.values]
    where = f"{quoted(column)}: {' and '.join(texts)} ({counted(own.n, 'cell')})"
    what = f"{where} {'is' if len(texts) == 1 else 'are'} far from all others (next: {own.nearest:g})"
    readings = (_if_missing(column, own.values), Remedy.WRONG_UNIT)
    return Problem(what, (*readings, Remedy.IF_REAL) if own.may_be_skewed else readings)


def warn_beyond_training(schema: Schema, data: Mapping[str, CodedView]) -> None:
    """Numbers of new rows that are farther from the mean than any in training: what follows from them means little."""
    problems = list(_beyond_training(schema, data))
    if problems:
        tell(DataWarning(*problems[:MOST]))


def _beyond_training(schema: Schema, data: Mapping[str, CodedView]) -> Iterator[Problem]:
    """Cells that are farther beyond the range of training than it is wide, and than some deviations."""
    for name, view in data.items():
        kind, coding = schema.types.get(name), schema.codings.get(name)
        if kind is None or coding is None or not coding.ends or not isinstance(view.target, np.ndarray):
            continue
        low, high = np.transpose(coding.ends)
        few = 1 + FEW_SEEN / np.maximum(coding.observed_per_feature, 1)
        most = few * np.maximum(high - low, FAR_BEYOND * np.sqrt(coding.variance))
        known = view.target[:, : len(coding.features)]
        known = np.clip(0.0, known[..., 0], known[..., 1]) if view.ndim == 3 else known  # where an interval is nearest
        top, bottom = (end(known, axis=0, initial=0.0) for end in (np.max, np.min))  # of the mean, too, which is 0
        for place in np.flatnonzero((top > high + most) | (bottom < low - most)):
            beyond = np.maximum(known[:, place] - high[place], low[place] - known[:, place])
            far = np.flatnonzero(beyond > most[place])
            farthest = int(far[np.argmax(beyond[far])])
            margin = coding.margins[place] if coding.margins else None
            value = coding.centre[place] + coding.scale[place] * known[farthest, place]
            value = float(value if margin is None else margin.backward(np.array([value]))[0])
            away = abs(known[farthest, place]) / np.sqrt(coding.variance[place])
            times = f"{away:,.0f}" if away < 1e6 else f"{away:.0e}"
            what = f"{quoted(coding.features[place])}: {value:g} is {times} deviations from the mean in training"
            more = f", and {counted(len(far) - 1, 'more cell')} as far off" if len(far) > 1 else ""
            missing = _if_missing(coding.features[place], [value])
            yield Problem(f"{what}, farther than any cell there{more}", (Remedy.UNITS, missing))


# ------------------------------------------------------------------------------------------------- copies


def _copies(schema: Schema, tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Columns that are the same as another in every row; only those that are alike in number and moments are compared.

    Of rows elsewhere a sample is compared, and of all rows the moments: labels, which have none, are left out.
    """
    alike: dict[Any, list[tuple[str, int]]] = {}
    for name, coding in schema.codings.items():
        table, latent = tables[name], schema.types[name].latent
        if table.tensor is None and table.sparse is None and not (latent and table.source is not None):
            for place, n in enumerate(coding.observed_per_feature[: len(coding.features)].tolist()):
                moments = (False, coding.centre[place], coding.scale[place]) if not latent else (True,)
                alike.setdefault((n, table.n_rows, *moments), []).append((name, place))
    for places in alike.values():
        first: dict[Any, str] = {}
        for name, place in places if len(places) > 1 else []:
            feature = schema.codings[name].features[place]
            column = tables[name].sample[feature]
            whose = feature if schema.one_table or len(schema.codings[name].features) > 1 else name
            same = _fingerprint(column)
            other = whose if same is None else first.setdefault(same, whose)
            if other is not whose and len(column) >= LEAST and _is_told(column):
                what = f"{quoted(whose)} repeats {quoted(other)} in every row, and a factor may be spent on it"
                yield Problem(what, (With.texts(Remedy.COPY, [str(whose)]),))


def _fingerprint(column: pd.Series) -> tuple[int, int] | None:
    """The same for columns of the same cells and names of rows; whole numbers are alike whatever their dtype. None
    where cells or names cannot be hashed: such a column is not compared.
    """
    try:
        cells = column.astype(object).to_numpy()
        if column_kind(column) == "number":
            cells = column.to_numpy(dtype=float, na_value=np.nan) + 0.0
            cells[np.isnan(cells)] = np.nan
        names = pd.util.hash_pandas_object(column.index).to_numpy()
        return hash(pd.util.hash_array(cells).tobytes()), hash(names.tobytes())
    except (TypeError, ValueError):
        return None


def _is_told(column: pd.Series) -> bool:
    return int(column.value_counts(dropna=False).iloc[1:].sum()) >= NOT_USUAL


# ------------------------------------------------------------------------------------------------- orders


def _orders(schema: Schema) -> Iterator[Problem]:
    """Labels that have an order by their words, and are taken without it."""
    for name, coding in schema.codings.items():
        levels = in_order(coding.levels or ())
        if levels is not None:
            whose = coding.features[0] if schema.one_table else name
            said = Example(f"{{{quoted(whose)}: Ordinal(levels={levels})}}", f"{whose}={','.join(levels)}")
            yield Problem(f"{quoted(whose)} looks ordered", (With(Remedy.ORDER, (said,)),))
