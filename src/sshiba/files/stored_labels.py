"""Labels of rows, columns and classes in JSON, with what JSON would forget."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def tagged(label: Any) -> Any:
    """A label in JSON; tuples, times, periods and intervals under a name for their kind, other things by their text."""
    label = plain(label)
    if label is None or isinstance(label, str | bool | int | float):
        return label
    if isinstance(label, tuple):
        return {"tuple": [tagged(part) for part in label]}
    if isinstance(label, dt.datetime):
        zone = _zone(str(label.tzinfo))
        return {"time": label.isoformat()} if zone is None else {"zoned time": [label.isoformat(), zone]}
    if isinstance(label, dt.date):
        return {"date": label.isoformat()}
    if isinstance(label, pd.Timedelta):
        return {"timedelta": label.isoformat()}
    if isinstance(label, pd.Period):
        return {"period": [label.ordinal, label.freqstr]}
    if isinstance(label, pd.Interval):
        return {"interval": [tagged(label.left), tagged(label.right), label.closed]}
    return str(label)


def untagged(label: Any) -> Any:
    if not isinstance(label, dict):
        return label
    ((kind, value),) = label.items()
    return _READERS[kind](value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda parts: tuple(untagged(part) for part in parts),
    "time": pd.Timestamp,
    "zoned time": lambda both: pd.Timestamp(both[0]).tz_convert(both[1]),
    "date": dt.date.fromisoformat,
    "timedelta": pd.Timedelta,
    "period": lambda both: pd.Period(ordinal=both[0], freq=both[1]),
    "interval": lambda ends: pd.Interval(untagged(ends[0]), untagged(ends[1]), ends[2]),
}


@lru_cache
def _zone(name: str) -> str | None:
    """The name of a time zone that pandas finds by it; None where an offset says it all, and of times without zone."""
    if name == "None" or name.startswith("UTC"):
        return None
    try:
        pd.Timestamp("2000-01-01", tz=name)
    except (KeyError, ValueError):
        return None
    return name


def tagged_index(index: pd.Index) -> dict[str, Any] | None:
    """The labels of rows in JSON; None where rows are just counted."""
    if index.equals(pd.RangeIndex(len(index))) and list(index.names) == [None]:
        return None
    return {"labels": [tagged(label) for label in index], "names": [tagged(name) for name in index.names]}


def untagged_index(stored: Any, n_rows: int) -> pd.Index:
    """What `tagged_index` gave, or the first files: a list of labels."""
    if stored is None:
        return pd.RangeIndex(n_rows)
    labels, names = (stored, None) if isinstance(stored, list) else (stored["labels"], stored["names"])
    index = pd.Index([untagged(label) for label in labels])
    return index if names is None else index.set_names([untagged(name) for name in names])


def same_labels(index: pd.Index, other: pd.Index) -> bool:
    """Are these the same labels, or would they be in a file?"""
    return index.equals(other) or [tagged(label) for label in index] == [tagged(label) for label in other]
