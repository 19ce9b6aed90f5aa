"""Limits of detection made by hand: the bias of means and slopes that is left, on tables of UCI and scikit-learn.

The lowest quarter of every third column is set to its limit, three times, so that each column is cut once. Then that
limit stays, or half of it takes its place, or what `impute(beyond_limits=True)` finds. The figures are the bias of a
column's mean, and of its slope on the column, not cut, that goes best with it; both in standard deviations. Columns
have positive values, 50 or more different ones, and less than a twentieth of them at the limit's own value.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from common import Row, report
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from sshiba import SSHIBA, Real

SHARE, THIRDS = 0.25, 3
WAYS = {"limits": {}, "limits, margin auto": {"margin": "auto"}}


def tables() -> dict[str, np.ndarray]:
    with np.load(Path(os.environ["SSHIBA_DATA"], "uci_tables.npz")) as file:
        found = {name: file[f"{name}_X"] for name in ("wine", "parkinsons", "compression")}
    bundled = {"diabetes": load_diabetes(scaled=False), "cancer": load_breast_cancer(), "wines": load_wine()}
    return {name: usable(table) for name, table in (found | {n: data.data for n, data in bundled.items()}).items()}


def usable(table: np.ndarray) -> np.ndarray:
    low = np.quantile(table, SHARE, axis=0)
    several = np.array([len(np.unique(column)) >= 50 for column in table.T])
    return table[:, several & (table.min(axis=0) > 0) & ((table == low).mean(axis=0) < 0.05)]


def figures(table: np.ndarray, column: int, other: int) -> np.ndarray:
    return np.array([table[:, column].mean(), np.polyfit(table[:, other], table[:, column], 1)[0]])


def biases(whole: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Of each way the biases of all columns, (D, 2), and the seconds of its fits."""
    whole = whole / whole.std(axis=0)
    close = np.abs(np.corrcoef(whole.T))
    found: dict[str, list] = {}
    seconds = dict.fromkeys(WAYS, 0.0)
    for third in range(THIRDS):
        cut = np.arange(whole.shape[1]) % THIRDS == third
        low = np.where(cut, np.quantile(whole, SHARE, axis=0), -np.inf)
        at_limit = whole <= low
        given = np.where(at_limit, low, whole)
        filled = {"limit": given, "half": np.where(at_limit, low / 2, whole)}
        for way, options in WAYS.items():
            began = time.perf_counter()
            view = Real(limits={int(d): (low[d], None) for d in np.flatnonzero(cut)}, **options)
            model = SSHIBA(views={"x": view}, random_state=0).fit({"x": given})
            filled[way] = model.impute({"x": given}, beyond_limits=True)["x"]
            seconds[way] += time.perf_counter() - began
        for d in np.flatnonzero(cut):
            other = int(np.argmax(np.where(cut, -1.0, close[d])))
            truth = figures(whole, d, other)
            for way, table in filled.items():
                found.setdefault(way, []).append(np.abs(figures(table, d, other) - truth))
    return {way: np.array(own) for way, own in found.items()}, seconds


def main(quick: bool = False) -> list[Row]:
    """A row for each table and way; none without the data, which SSHIBA_DATA names the folder of."""
    if "SSHIBA_DATA" not in os.environ:
        return []
    rows = []
    everywhere: dict[str, list] = {}
    for name, whole in list(tables().items())[: 2 if quick else None]:
        found, seconds = biases(whole)
        for way, own in found.items():
            everywhere.setdefault(way, []).append(own)
        for way in WAYS:
            rows.append(_row(name, way, found, seconds[way], seconds["limits"]))
    pooled = {way: np.concatenate(own) for way, own in everywhere.items()}
    return rows + [_row("all columns", way, pooled, 1.0, 1.0) for way in WAYS]


def _row(name: str, way: str, found: dict[str, np.ndarray], seconds: float, plain_seconds: float) -> Row:
    mean = {way: own.mean(axis=0) for way, own in found.items()}
    left = {peer: np.median(found[way] / found[peer], axis=0) for peer in ("limit", "half")}
    parts = []
    for k, what in enumerate(("mean", "slope")):
        was = ", ".join(f"{peer} {mean[peer][k]:.3f}" for peer in ("limit", "half"))
        parts.append(f"{what} {mean[way][k]:.3f} ({was}; median share {left['limit'][k]:.2f}, {left['half'][k]:.2f})")
    extra = {"bias": {way: own.tolist() for way, own in mean.items()}, "columns": len(found[way])}
    return Row("limits", f"{name}, {way}", "limits", plain_seconds, seconds, None, "; ".join(parts), extra)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report(main("--quick" in sys.argv), "limits")
