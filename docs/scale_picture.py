"""The picture of scale.md: which way a view takes. `python docs/scale_picture.py` draws it anew."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

PICTURE = Path(__file__).parent / "images" / "scale.png"
QUESTIONS = (
    ("Is it a sparse matrix?", "Stored cells alone are kept\nand multiplied", "about twice the matrix"),
    ("Does it fit into half\nof max_memory?", "All rows in memory", "no reading"),
    ("Complete numbers,\nfar more rows than columns?", "Gram space:\nsweeps work on XᵀX", "three passes in all"),
    ("Anything else", "Rows are read in each sweep,\nthe next block meanwhile", "one pass a sweep"),
)
ASK, DO, COST = "#dbe7f3", "#e3f1df", "#555555"


def box(axes: plt.Axes, x: float, y: float, text: str, colour: str) -> None:
    shape = FancyBboxPatch((x, y - 0.32), 3.0, 0.64, boxstyle="round,pad=0.04", facecolor=colour, edgecolor="#8899aa")
    axes.add_patch(shape)
    axes.text(x + 1.5, y, text, ha="center", va="center", fontsize=10.5)


def draw() -> None:
    figure, axes = plt.subplots(figsize=(10.5, 4.9))
    for row, (question, way, cost) in enumerate(QUESTIONS):
        y = 3.0 - row
        last = row == len(QUESTIONS) - 1
        box(axes, 0.0, y, question, ASK)
        box(axes, 4.1, y, way, DO)
        axes.annotate("", (4.02, y), (3.08, y), arrowprops={"arrowstyle": "->", "color": "#556677"})
        axes.text(7.4, y, cost, va="center", fontsize=10.5, color=COST)
        if not last:
            axes.text(3.5, y + 0.08, "yes", ha="center", va="bottom", fontsize=9, color="#556677")
            axes.annotate("", (1.5, y - 0.62), (1.5, y - 0.38), arrowprops={"arrowstyle": "->", "color": "#556677"})
            axes.text(1.6, y - 0.5, "no", va="center", fontsize=9, color="#556677")
    axes.text(7.4, 3.55, "what it costs", fontsize=10.5, color=COST, style="italic")
    axes.set(xlim=(-0.1, 9.9), ylim=(-0.5, 3.8))
    axes.axis("off")
    figure.savefig(PICTURE, dpi=130, bbox_inches="tight")


if __name__ == "__main__":
    draw()
