"""Warnings that name the line of the user's own code."""

from __future__ import annotations

import sys
import warnings

BETWEEN = (__name__.partition(".")[0], "sklearn", "joblib")  # whose frames may lie between a warning and the user


def tell(what: str | Warning, kind: type[Warning] = UserWarning) -> None:
    """Warn at the first line, from here outwards, that is of no library between us and the user."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(what, kind, stacklevel=level)
