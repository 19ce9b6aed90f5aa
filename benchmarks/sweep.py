"""Seconds per sweep on made-up data of several shapes; prints a table."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table

from sshiba import SSHIBA, Binary, Categorical, Real

SHAPES = {
    "real, complete": ("real", 5000, 200, 0.0),
    "real, selected": ("select", 1000, 2000, 0.0),
    "real, a fifth missing": ("real", 1000, 100, 0.2),
    "binary": ("binary", 5000, 50, 0.0),
    "categorical": ("categorical", 5000, 10, 0.0),
}
VIEWS = {"real": Real(), "select": Real(select_features=True), "binary": Binary(), "categorical": Categorical()}


def main(n_components: int = 30, n_sweeps: int = 15) -> None:
    rng = np.random.default_rng(0)
    table = Table("data", "rows", "features", "ms per sweep", title=f"K = {n_components}")
    for name, (kind, n, d, holes) in SHAPES.items():
        y = rng.standard_normal((n, 10)) @ rng.standard_normal((10, d)) + rng.standard_normal((n, d))
        data = {"binary": (y > 0).astype(float), "categorical": y.argmax(axis=1)}.get(kind, y)
        if holes:
            data = np.where(rng.random(y.shape) < holes, np.nan, y)
        times: list[float] = []
        model = SSHIBA(n_components, {"v": VIEWS[kind]}, max_iter=n_sweeps, acceleration=None, random_state=0)
        model.set_params(callback=lambda _, times=times: times.append(time.perf_counter()))
        model.fit({"v": data})
        table.add_row(name, str(n), str(d), f"{1000 * np.median(np.diff(times)):.1f}")
    Console().print(table)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main()
