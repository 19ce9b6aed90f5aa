"""The picture of benchmarks/imputation.py: errors by table, and what they cost in seconds."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "imputation.png"
STYLES = {
    "SSHIBA": ("#c0392b", "o"),
    "ExtraTrees": ("#2c7a4b", "^"),
    "miceforest": ("#7fb069", "v"),
    "hyperimpute": ("#8e6bbf", "D"),
    "gcimpute": ("#e08e0b", "s"),
    "BayesianRidge": ("#2f6db5", "P"),
    "KNN": ("#7a8794", "X"),
}


def draw(found: pd.DataFrame) -> None:
    """Left: 30 % hidden at random, each table. Right: means over the tables on which none failed."""
    found = found[(found["share"] == 0.3) & (found["way"] == "at random")]
    order = found[found["imputer"] == "SSHIBA"].sort_values("error")["table"].tolist()
    whole = [name for name in STYLES if (found["imputer"] == name).sum() == len(order)]
    errors = found[found["imputer"].isin(whole)].pivot_table(index="table", columns="imputer", values="error")
    common = errors.dropna().index
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), width_ratios=[1.55, 1], layout="constrained")
    for imputer, (colour, marker) in STYLES.items():
        own = found[found["imputer"] == imputer].dropna(subset="error")
        if own.empty:
            continue
        ours = imputer == "SSHIBA"
        style = {"color": colour, "marker": marker, "zorder": 4 if ours else 3, "s": 75 if ours else 40}
        left.scatter(own["error"], [order.index(table) for table in own["table"]], label=imputer, **style)
        if imputer in whole:
            place = own[own["table"].isin(common)][["seconds", "error"]].mean()
            right.scatter(*place, **style)
            right.annotate(imputer, place, (0, 9), textcoords="offset points", ha="center")
    left.set_yticks(range(len(order)), [table.replace("_", " ") for table in order])
    left.axvline(1, color="#999999", linewidth=1)
    left.set_xlabel("error, relative to mean / mode")
    left.legend(frameon=False, fontsize=9, loc="upper left")
    left.set_title("30 % of the cells hidden at random", fontsize=11)
    right.set_xscale("log")
    right.set_xlabel("seconds a table (one thread)")
    right.set_ylabel("error, mean of the tables")
    right.margins(0.2, 0.15)
    right.set_title(f"what it costs, {len(common)} tables", fontsize=11)
    for axes in (left, right):
        axes.grid(color="#e6e6e6", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
