"""View types as the user sees them, one file each: options, and how values are coded. A new one joins VIEW_TYPES."""

from typing import Any

from .binary import Binary
from .categorical import Categorical
from .count import Count
from .ordinal import Ordinal
from .real import Real
from .view import View

# The more special the later: a type not given is the last one that recognises the data.
VIEW_TYPES: dict[str, type[View]] = {
    "real": Real,
    "count": Count,
    "binary": Binary,
    "categorical": Categorical,
    "ordinal": Ordinal,
}

__all__ = ["VIEW_TYPES", "Binary", "Categorical", "Count", "Ordinal", "Real", "View", "says_type"]


def says_type(given: Any) -> bool:
    """Is this a view type as the user may say it: `Real()`, `Real` or "real"?"""
    if isinstance(given, str):
        return given in VIEW_TYPES
    return isinstance(given, View) or (isinstance(given, type) and issubclass(given, View))
