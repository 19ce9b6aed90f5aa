"""How often intervals hold hidden cells of real tables, with the default options.

SSHIBA_DATA=... python -m calibration.tables --seed 3
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
from interval_coverage import LEVELS, hide, inside, real_data

from torture.runner import Suite

from .fitting import fit, quiet, show


@cache
def tables() -> list:
    return list(real_data())


def case(seed: int) -> str:
    """One table under one mask; of each type how many cells there are, how many are held, and what was said."""
    name, views, types = tables()[seed % len(tables())]
    shown, hidden = hide(views, np.random.default_rng([seed // len(tables()), len(name)]))
    model = fit(shown, types)
    found: dict[str, dict] = {}
    for place, level in enumerate(LEVELS):
        for kind, held, said in inside(model, views, shown, hidden, level).values():
            own = found.setdefault(kind, {"n": 0, "held": [0] * len(LEVELS), "said": [0.0] * len(LEVELS)})
            own["n"] += len(held) if place == 0 else 0
            own["held"][place] += int(held.sum())
            own["said"][place] += float(said.sum())
    return json.dumps({"table": name, **found})


SUITE = Suite("tables", case, 30, quiet, seconds=300)

if __name__ == "__main__":
    show(SUITE)
