"""Warnings that name the line of the user's own code."""

from __future__ import annotations

import sys
import warnings

# Whose frames may lie between a warning and the user; and those of a thread, in which there is no line of the user.
BETWEEN = (__name__.partition(".")[0], "sklearn", "joblib", "dask", "distributed")
THREADS = ("threading", "concurrent")


def tell(what: str | Warning, kind: type[Warning] = UserWarning) -> None:
    """Warn at the first line, from here outwards, that is of no library between us and the user."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in BETWEEN:
        frame, level = frame.f_back, level + 1
    in_thread = _package(frame.f_globals) in THREADS
    warnings.warn(what, kind, stacklevel=2 if in_thread else level)


def _package(module: dict) -> str:
    return str(module.get("__name__", "")).partition(".")[0]
