"""Dates as features: year, month, weekday and days since a fixed date, or left aside."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd

from .cells import column_kind

EPOCH = pd.Timestamp("1970-01-01")
LOOKS_LIKE_DATE = r"^\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?\s*$"


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
    return bool(some.str.match(LOOKS_LIKE_DATE).all()) and bool(parsed(some).notna().all())


def parsed(column: pd.Series) -> pd.Series:
    """The dates of a column, without a time zone; what is none is missing.

    Points mean that days come before months, as do months above 12.
    """
    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of pandas, about the order of day and month
        first, other = (True, False) if column.astype(str).str.contains(r"^\s*\d{1,2}\.").any() else (False, True)
        found = pd.to_datetime(column, errors="coerce", format="mixed", dayfirst=first, utc=True)
        if found.notna().sum() < column.notna().sum():
            found = pd.to_datetime(column, errors="coerce", format="mixed", dayfirst=other, utc=True)
    return found.dt.tz_convert(None)


def date_columns(frame: pd.DataFrame) -> list[Any]:
    """The columns of dates."""
    return [name for place, name in enumerate(frame.columns) if holds_dates(frame.iloc[:, place])]


def date_features(frame: pd.DataFrame, columns: Sequence[Any] | None = None) -> pd.DataFrame:
    """A frame with year, month, weekday and days since 1970 in place of each column of dates.

    Parameters
    ----------
    frame : DataFrame
    columns : sequence, optional
        The columns of dates; found if not named, also where they are text such as 2020-01-31.

    Returns
    -------
    DataFrame
        "when" becomes "when year", "when month", "when weekday" (Monday ...) and "when days since 1970".
    """
    wanted = set(date_columns(frame) if columns is None else columns)
    parts: dict[Any, pd.Series] = {}
    for name in frame:
        if name not in wanted:
            parts[name] = frame[name]
            continue
        dates = parsed(frame[name])
        parts |= {
            f"{name} year": dates.dt.year.astype("Float64"),
            f"{name} month": dates.dt.month.astype("Float64"),
            f"{name} weekday": dates.dt.day_name().astype(object),
            f"{name} days since 1970": ((dates - EPOCH) / pd.Timedelta(days=1)).astype("Float64"),
        }
    return pd.DataFrame(parts, index=frame.index)
