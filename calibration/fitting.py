"""Default fits without a word, and one of them shown."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from typing import Any

from sshiba import SSHIBA
from torture.runner import Suite


def quiet() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def fit(views: dict[str, Any], types: dict[str, Any] | None = None, random_state: int = 0) -> SSHIBA:
    return SSHIBA(views=types, random_state=random_state).fit(views)


def show(suite: Suite) -> None:
    """`python -m calibration.SUITE --seed 3`: what is counted of one set of data."""
    options = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    options.add_argument("--seed", type=int, required=True)
    given = options.parse_args()
    suite.prepare()
    print(suite.case(given.seed))
