"""Margins of real columns: errors of hidden cells, a fifth of all, on tables of UCI and scikit-learn.

`rmse` is the squared error over that of each column's mean, `mae` the absolute error over that of its median, averaged
over columns.
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

WAYS = {
    "none": Real(),
    "auto": Real(margin="auto"),
    "auto, median": Real(margin="auto", guess="median"),
    "normal": Real(margin="normal"),
    "normal, median": Real(margin="normal", guess="median"),
}


def tables() -> dict[str, np.ndarray]:
    with np.load(Path(os.environ["SSHIBA_DATA"], "uci_tables.npz")) as file:
        found = {name: file[f"{name}_X"] for name in ("airfoil", "compression", "wine", "parkinsons")}
    bundled = {"diabetes": load_diabetes(scaled=False), "cancer": load_breast_cancer(), "wines": load_wine()}
    return found | {name: data.data for name, data in bundled.items()}


def errors(whole: np.ndarray, shown: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    squared, absolute = [], []
    for d in range(whole.shape[1]):
        rows = np.isnan(shown[:, d])
        truth, error = whole[rows, d], (found - whole)[rows, d]
        usual = np.mean((truth - np.nanmean(shown[:, d])) ** 2), np.mean(np.abs(truth - np.nanmedian(shown[:, d])))
        if min(usual) > 0:
            squared.append(np.sqrt(np.mean(error**2) / usual[0]))
            absolute.append(np.mean(np.abs(error)) / usual[1])
    return float(np.mean(squared)), float(np.mean(absolute))


def main(quick: bool = False) -> list[Row]:
    """A row for each table and margin: times beside the fit without one; none without the data."""
    if "SSHIBA_DATA" not in os.environ:
        return []
    rows = []
    for name, whole in tables().items():
        found: dict[str, list] = {way: [] for way in WAYS}
        chosen: dict[str, int] = {}
        for seed in range(1 if quick else 3):
            hidden = np.random.default_rng(seed).random(whole.shape) < 0.2
            shown = np.where(hidden, np.nan, whole)
            for way, view in WAYS.items():
                began = time.perf_counter()
                model = SSHIBA(views={"x": view}, random_state=0).fit({"x": shown})
                filled = model.impute({"x": shown})["x"]
                took = time.perf_counter() - began
                found[way].append((took, *errors(whole, shown, filled)))
                for kind in model.margins_.get("x", {}).values() if way == "auto" else ():
                    chosen[kind.split()[0]] = chosen.get(kind.split()[0], 0) + 1
        plain = np.mean(found["none"], axis=0)
        for way, figures in found.items():
            took, rmse, mae = np.mean(figures, axis=0)
            more = 100 * (np.array([rmse, mae]) / plain[1:] - 1)
            note = f"rmse {rmse:.3f} ({more[0]:+.1f} %), mae {mae:.3f} ({more[1]:+.1f} %)"
            note += f"; {chosen}" if way == "auto" else ""
            rows.append(
                Row("margins", f"{name}, {way}", "none", plain[0], took, None, note, {"rmse": rmse, "mae": mae})
            )
    return rows


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report(main("--quick" in sys.argv), "margins")
