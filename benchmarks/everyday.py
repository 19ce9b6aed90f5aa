"""Everyday work that once was slow: each row against the seconds that it may take."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from common import Row, report

from sshiba import SSHIBA, Categorical
from sshiba.core.coded import CodedView
from sshiba.fitted.sharpness import find_sharpness


def mixed_table(n: int = 690, seed: int = 0) -> pd.DataFrame:
    """Six columns of numbers and ten of labels, 2 to 14 levels, from three factors; a fifth of the cells missing."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    columns = {f"number {j}": z @ rng.standard_normal(3) + rng.standard_normal(n) for j in range(6)}
    for j, n_levels in enumerate((2, 3, 3, 14, 9, 2, 2, 2, 3, 2)):
        scores = z @ rng.standard_normal((3, n_levels)) + 1.5 * rng.standard_normal((n, n_levels))
        columns[f"label {j}"] = np.array([f"level {k}" for k in range(n_levels)], dtype=object)[scores.argmax(axis=1)]
    table = pd.DataFrame(columns)
    return table.mask(rng.random(table.shape) < 0.2)


def seconds(job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def classes(n: int, n_classes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 5))
    x = z @ rng.standard_normal((5, 20)) + rng.standard_normal((n, 20))
    scores = 1.5 * z @ rng.standard_normal((5, n_classes)) + rng.standard_normal((n, n_classes))
    return {"x": x, "y": scores.argmax(axis=1).astype(str)}


def sharpness(n: int, n_classes: int) -> Row:
    views = classes(n, n_classes)
    model = SSHIBA(20, {"y": Categorical()}, random_state=0)
    fit = seconds(lambda: model.fit(views))
    codes = np.searchsorted(model.classes_["y"], views["y"])
    standardised = (views["x"] - views["x"].mean(axis=0)) / views["x"].std(axis=0)
    data = [CodedView(standardised, None), CodedView(codes, None)]
    alone = seconds(lambda: find_sharpness(data, model.fitted_.spec, model.fitted_.posterior))
    what = f"sharpness, {n:,} rows x {n_classes} classes"
    return Row("everyday", what, "a tenth of the fit", fit / 10, alone, 1)


def predictions() -> Row:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3, 30))
    z = rng.standard_normal((2000, 3))
    kind = np.array(list("abc"))[np.argmax(z + 0.5 * rng.standard_normal(z.shape), axis=1)]
    views = {"x": z @ weights + rng.standard_normal((2000, 30)), "kind": kind}
    model = SSHIBA(10, random_state=0).fit(views)
    x = rng.standard_normal((100_000, 3)) @ weights + rng.standard_normal((100_000, 30))
    took = seconds(lambda: model.predict_proba({"x": x}, "kind"))
    return Row("everyday", "3 classes of 100,000 rows x 30 features predicted", "2 s", 2.0, took, 1)


def imputation() -> Row:
    """At K = 80, with holes: the deviations of all cells against one sweep of the fit."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 100)) @ rng.standard_normal((100, 100))
    x[rng.random(x.shape) < 0.3] = np.nan
    times: list[float] = []
    model = SSHIBA(80, random_state=0, max_iter=15, prune_tol=0.0, acceleration=None)
    model.set_params(callback=lambda progress: times.append(time.perf_counter())).fit({"x": x})
    sweep = float(np.median(np.diff(times)))
    took = seconds(lambda: model.impute({"x": x}, return_std=True))
    return Row("everyday", "600 x 100 imputed with deviations, K=80", "two sweeps", 2 * sweep, took, 1)


def main(quick: bool = False) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SSHIBA(3, max_iter=3).fit(mixed_table())  # compiles
        table = mixed_table()
        fits = [seconds(lambda: SSHIBA(random_state=0).fit(table)) for _ in range(1 if quick else 3)]
        fit = float(np.median(fits))
        rows = [Row("everyday", "690 x 16 mixed cells, a fifth missing: a fit", "1 s", 1.0, fit, 1)]
        sizes = ((400, 60),) if quick else ((400, 60), (1000, 200))
        return rows + [sharpness(*size) for size in sizes] + [predictions(), imputation()]


if __name__ == "__main__":
    report(main(), "everyday")
