"""Default fits without a word."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from sshiba import SSHIBA


def quiet() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def fit(views: dict[str, Any], types: dict[str, Any] | None = None, random_state: int = 0) -> SSHIBA:
    return SSHIBA(views=types, random_state=random_state).fit(views)
