"""How many factors a default fit keeps of made-up data whose number is known, and how often its search keeps all.

python benchmarks/known_truth.py [tables]
"""

from __future__ import annotations

import logging
import sys
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

from sshiba import SSHIBA

Views = dict[str, np.ndarray]


def noise(rng: np.random.Generator) -> Views:
    return {"x": rng.standard_normal((200, 15))}


def noise_and_classes(rng: np.random.Generator) -> Views:
    return {"x": rng.standard_normal((150, 10)), "kind": rng.choice(np.array(["a", "b", "c"]), 150)}


def four_factors(rng: np.random.Generator) -> Views:
    return {"x": rng.standard_normal((200, 4)) @ rng.standard_normal((4, 20)) + rng.standard_normal((200, 20))}


def two_views(rng: np.random.Generator) -> Views:
    z = rng.standard_normal((150, 2))
    x, y = (z @ rng.standard_normal((2, d)) + rng.standard_normal((150, d)) for d in (12, 8))
    return {"x": x, "y": y}


def with_labels(rng: np.random.Generator) -> Views:
    z = rng.standard_normal((250, 3))
    kind = np.array(["a", "b", "c"])[np.argmax(z + 0.5 * rng.standard_normal((250, 3)), axis=1)]
    return {"x": z @ rng.standard_normal((3, 15)) + rng.standard_normal((250, 15)), "kind": kind}


MADE = {"noise": (noise, 0), "noise, classes": (noise_and_classes, 0), "four factors": (four_factors, 4)}
MADE |= {"two views": (two_views, 2), "labels": (with_labels, 3)}


def main(n_tables: int = 25) -> None:
    logging.disable(logging.WARNING)
    table = Table("made with", "factors", "right number", "kept all", "mean number of the others")
    for name, (make, truth) in MADE.items():
        fits = [SSHIBA(random_state=0).fit(make(np.random.default_rng(9000 + i))) for i in range(n_tables)]
        few = [fit.n_components_ for fit in fits if fit.fitted_.choice.keep == "fewest"]
        right = sum(n == truth for n in few)
        table.add_row(name, str(truth), str(right), str(n_tables - len(few)), f"{np.mean(few):.2f}")
    Console().print(table)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(*map(int, sys.argv[1:2]))
