"""Dates as features: year, month, weekday and days since a fixed date, or left aside."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pandas.api.types as pdt

from .advice import DataError, Problem, Remedy, With
from .cells import column_kind
from .wording import first_few, quoted

EPOCH = pd.Timestamp("1970-01-01")
MOST_NAMED = 3  # cells that are no dates: so many are named
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
TIME = r"(?:[T ].*)?\s*$"
# 31/12/2020 or 12/31/2020: day and month, in an order that it does not say by itself.
NO_ORDER = rf"^\s*(\d{{1,2}})([-/.])(\d{{1,2}})[-/.]\d{{1,4}}{TIME}"
# +02:00, -0500 or Z behind a time of day.
OFFSET = r"(?i)(T\d{2,6}|:\d{2})([.,]\d+)?(\s*[ap]m)?\s*(?:Z|[+-]\d{2}(?::?\d{2})?)\s*$"
LOOKS_LIKE_DATE = (
    rf"(?i)^\s*(?:\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}"
    rf"|\d{{1,2}}\.?[-/ ]{MONTH},?[-/ ]\d{{2,4}}|{MONTH}[-/ ]\d{{1,2}},?[-/ ]\d{{4}}){TIME}"
)


def holds_dates(column: pd.Series) -> bool:
    """Is it a column of dates, as such or as text?"""
    kind = column_kind(column)
    if kind == "date":
        cells = column.dropna()
        return len(cells) > 0 and not isinstance(cells.iloc[0], dt.time | dt.timedelta | pd.Timedelta)
    return kind == "text" and are_dates(column.dropna())


def are_dates(texts: pd.Series) -> bool:
    """Do these texts spell dates? The first twenty tell."""
    some = texts.head(20)
    if not len(some) or not all(isinstance(text, str) for text in some):
        return False
    if not some.str.match(LOOKS_LIKE_DATE).all():
        return False
    return any(bool(_parsed(some, day_first).notna().all()) for day_first in (True, False))


def _parsed(column: pd.Series, day_first: bool | None) -> pd.Series:
    """The dates of a column as the clocks of their time zones show them; what is none is missing.

    The order of day and month is for cells that do not say it.
    """
    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    column = _without_categories(column)
    if column_kind(column) != "text":
        return pd.to_datetime(_without_zones(column), errors="coerce")
    column = column.str.replace(OFFSET, r"\1\2\3", regex=True)
    found = pd.Series(pd.NaT, index=column.index, dtype="datetime64[ns]")
    no_order = column.str.match(NO_ORDER, na=False).astype(bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of pandas, about the order of day and month
        for cells, first in ((no_order, bool(day_first)), (~no_order & column.notna(), False)):
            if cells.any():
                some = pd.to_datetime(column[cells], errors="coerce", format="mixed", dayfirst=first, utc=True)
                found[cells] = some.dt.tz_convert(None).astype("datetime64[ns]")
    return found


def _without_zones(column: pd.Series) -> pd.Series:
    """Dates that are no text, each with the day and the time of its own zone."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return column.dt.tz_localize(None)
    if not isinstance(column.dtype, pd.ArrowDtype) and not pdt.is_object_dtype(column.dtype):
        return column
    cells = column.astype(object)
    return cells.map(lambda cell: cell.replace(tzinfo=None) if isinstance(cell, dt.datetime) else cell)


def _without_categories(column: pd.Series) -> pd.Series:
    return column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column


def date_columns(frame: pd.DataFrame) -> list[Any]:
    """The columns of dates."""
    return [name for place, name in enumerate(frame.columns) if holds_dates(frame.iloc[:, place])]


def date_orders(
    frame: pd.DataFrame, columns: Iterable[Any], said: bool | None = None, usual: bool | None = None
) -> dict[Any, bool | None]:
    """Column of dates -> do days come before months? One order for all its cells; None where it makes no difference.

    A column that fits both orders takes the one that is `said`, that of the other columns, or the `usual` one; points
    say that days come first.

    Raises
    ------
    DataError
        Nothing tells the order of a column, or it has cells in both orders. All such columns are named.
    """
    cells = {name: _days_and_months(frame[name]) for name in columns}
    fits = {name: _fitting(some) for name, some in cells.items()}
    proven = {next(iter(some)) for some in fits.values() if len(some) == 1}
    likely = said if said is not None else next(iter(proven)) if len(proven) == 1 else usual
    orders: dict[Any, bool | None] = {}
    problems = []
    for name, some in cells.items():
        points = said is None and bool((some["mark"] == ".").any())
        if not fits[name]:
            odd = [quoted(some["cell"][some[part] > 12].iloc[0]) for part in ("first", "second")]
            what = f"column {quoted(name)} has dates in two orders, {odd[0]} and {odd[1]}"
            problems.append(Problem(what, (Remedy.LEAVE_OUT,)))
        elif (some["first"] == some["second"]).all():
            orders[name] = None
        elif len(fits[name]) == 1:
            orders[name] = next(iter(fits[name]))
        elif points or likely is not None:
            orders[name] = points or likely
        else:
            what = f"column {quoted(name)}: is {quoted(some['cell'].iloc[0])} a day and a month, or a month and a day"
            problems.append(Problem(what, (Remedy.DAY_FIRST,)))
    if problems:
        raise DataError(*problems)
    return orders


def _days_and_months(column: pd.Series) -> pd.DataFrame:
    """The cells that do not say their order, with their first number, the mark behind it, and the second number."""
    column = _without_categories(column)
    if column_kind(column) != "text":
        return pd.DataFrame({"cell": [], "first": [], "mark": [], "second": []})
    parts = column.str.extract(NO_ORDER).set_axis(["first", "mark", "second"], axis=1)
    return parts.assign(cell=column).dropna().astype({"first": int, "second": int})


def _fitting(cells: pd.DataFrame) -> set[bool]:
    """With days first the second numbers are months, else the first ones are."""
    return {first for first, months in ((True, "second"), (False, "first")) if (cells[months] <= 12).all()}


def date_features(
    frame: pd.DataFrame, columns: Sequence[Any] | None = None, day_first: bool | None = None
) -> pd.DataFrame:
    """A frame with year, month, weekday and days since 1970 in place of each column of dates.

    Parameters
    ----------
    frame : DataFrame
    columns : sequence, optional
        The columns of dates; found if not named, also where they are text such as 2020-01-31.
    day_first : bool, optional
        Is 03/04/2020 the third of April? Needed where nothing in the dates tells.

    Returns
    -------
    DataFrame
        "when" becomes "when year", "when month", "when weekday" (Monday ...) and "when days since 1970", all of them by
        the clock of the date's own time zone.
    """
    wanted = date_columns(frame) if columns is None else columns
    return features_of_dates(frame, date_orders(frame, wanted, day_first))


def features_of_dates(frame: pd.DataFrame, orders: Mapping[Any, bool | None]) -> pd.DataFrame:
    """`date_features` where the columns and their orders are known."""
    parts: dict[Any, pd.Series] = {}
    for name in frame:
        if name not in orders:
            parts[name] = frame[name]
            continue
        dates = _parsed(frame[name], orders[name])
        _refuse_others(frame[name], dates, name)
        parts |= {
            f"{name} year": dates.dt.year.astype("Float64"),
            f"{name} month": dates.dt.month.astype("Float64"),
            f"{name} weekday": dates.dt.day_name().astype(object),
            f"{name} days since 1970": ((dates - EPOCH) / pd.Timedelta(days=1)).astype("Float64"),
        }
    return pd.DataFrame(parts, index=frame.index)


def _refuse_others(column: pd.Series, dates: pd.Series, name: Any) -> None:
    others = column[column.notna() & dates.isna()]
    if len(others):
        texts = list(map(str, others.unique()))
        verb = "is no date" if len(texts) == 1 else "are no dates"
        cells = f"{len(others):,} of {len(column):,} cells"
        what = f"column {quoted(name)}: {first_few(texts, MOST_NAMED)} in {cells} {verb}"
        raise DataError(Problem(what, (With.texts(Remedy.MISSING, texts[:MOST_NAMED]),)))
