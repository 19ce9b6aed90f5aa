"""Names and numbers in messages, as the user would write them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any
from unicodedata import normalize

import numpy as np

LONGEST = 60  # characters of a name or value that are shown


def quoted(label: Any) -> str:
    """A row label, column name or value as the user would write it; of long ones the beginning."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str | bytes) and len(label) > LONGEST:
        return f"{label[:LONGEST]!r}..."
    return repr(label) if isinstance(label, str | int | float | tuple | bytes) else str(label)


def first_few(labels: Iterable[Any], limit: int = 3) -> str:
    """'a', 'b', 'c' and 4 more."""
    labels = list(labels)
    shown = ", ".join(quoted(label) for label in islice(labels, limit))
    return shown if len(labels) <= limit else f"{shown} and {len(labels) - limit:,} more"


def nearest(names: Iterable[Any], known: Iterable[Any]) -> dict[Any, Any]:
    """Of names that are not known, those that are near one that is, whatever their case and blanks; and which one."""
    folded = {str(name).strip().casefold(): name for name in known}
    close = {name: get_close_matches(str(name).strip().casefold(), folded, 1) for name in names}
    return {name: folded[near[0]] for name, near in close.items() if near}


def spelled_here(known: Iterable[Any], here: Iterable[Any]) -> dict[Any, Any]:
    """Known names that are here in other characters that look the same (Unicode's NFKC), such as µ or ü in two; and how
    they are spelled here.
    """
    here = dict.fromkeys(here)
    absent = [name for name in known if isinstance(name, str) and name not in here]
    forms: dict[str, list[str]] = {}
    for name in filter(lambda one: isinstance(one, str), here if absent else ()):
        forms.setdefault(normalize("NFKC", name), []).append(name)
    found = {name: forms.get(normalize("NFKC", name), []) for name in absent}
    return {name: ways[0] for name, ways in found.items() if len(ways) == 1}


def did_you_mean(names: Iterable[Any], known: Iterable[Any]) -> str:
    """A sentence to come after another, " Did you mean 'a'?"; empty where no known name is near."""
    meant = nearest(names, known)
    return f" Did you mean {first_few(meant.values())}?" if meant else ""


def counted(n: int, one: str, many: str | None = None) -> str:
    """1 value, 2 values, 1,000 values."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def percent(share: float, digits: int = 0) -> str:
    """A share as it is written everywhere: 0.9 is "90 %"."""
    return f"{100 * share:.{digits}f} %"


def the_one(values: Iterable[Any]) -> Any:
    """The value that all have that have one; None where they differ."""
    found = {value for value in values if value is not None}
    return found.pop() if len(found) == 1 else None
