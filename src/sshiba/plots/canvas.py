"""What pictures are drawn with: axes, colours that colour-blind people tell apart, names cut so that none overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..version import how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe and Ito's colours, the yellow darker: theirs cannot be seen on white.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A900", "#000000")
GREY = "#9a9a9a"
UNKNOWN = "#d0d0d0"  # rows of which a value is not known, and holes
SEQUENTIAL, DIVERGING, POINTS = "Blues", "RdBu_r", "viridis"
LONGEST_NAME = 26  # characters of a name that are shown
MANY = 60  # names, or numbers in cells, that can be read side by side
MOST_POINTS = 20_000  # of a scatter
FOOT = 0.45  # inches: below panels, for what is written under them
POWER = 0.5  # of the colour scale of shares: weak factors are seen beside strong ones


def make_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The given Axes, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: {how_to_install('plot')}.") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def make_panels(
    ax: Axes | None, n: int, n_columns: int, size: tuple[float, float], gap: tuple[float, float] = (0.3, 0.3)
) -> tuple[Axes, list[Axes]]:
    """Axes without a frame that hold n smaller ones, row by row; gaps are shares of a panel's width and height."""
    n_columns = min(n, n_columns)
    n_rows = -(-n // n_columns)
    height = n_rows * size[1] + 0.5
    ax = make_axes(ax, n_columns * size[0] + 0.6, height)
    ax.set_axis_off()
    foot = FOOT / height
    wide, high = 1 / (n_columns + (n_columns - 1) * gap[0]), (1 - foot) / (n_rows + (n_rows - 1) * gap[1])
    panels = []
    for place in range(n):
        row, column = divmod(place, n_columns)
        corner = (column * wide * (1 + gap[0]), 1 - high - row * high * (1 + gap[1]))
        panels.append(ax.inset_axes((*corner, wide, high)))
    return ax, panels


def say_instead(ax: Axes | None, title: str, words: str = "no factors") -> Axes:
    """In the place of a picture, where there is nothing to draw."""
    ax = make_axes(ax, 5, 3)
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color=GREY)
    ax.set(xticks=[], yticks=[], title=title)
    return without_box(ax)


def without_box(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def name_bars(ax: Axes, names: pd.Series, longest: int = LONGEST_NAME) -> None:
    ax.set_yticks(range(len(names)), [short(name, longest) for name in names])
    ax.set_ylim(-0.7, len(names) - 0.3)


def short(name: Any, longest: int = LONGEST_NAME) -> str:
    """Cut, on one line, and with dollars that are not mathematics; whole numbers without a decimal point."""
    whole = isinstance(name, float | np.floating) and float(name).is_integer()
    text = " ".join((str(int(name)) if whole else str(name)).split())
    return (text if len(text) <= longest else text[: longest - 1] + "…").replace("$", r"\$")


def heat(
    ax: Axes, values: np.ndarray, cmap: Any, low: float | None, high: float | None, label: str, **more: Any
) -> Any:
    """An image with its colour bar; with `norm` the scale is that one's."""
    scale = {} if "norm" in more else {"vmin": low, "vmax": high}
    image = ax.imshow(values, cmap, interpolation="nearest", **{"aspect": "auto", **scale, **more})
    ax.figure.colorbar(image, ax=ax, label=label)
    return image


def factor_heat(table: pd.DataFrame, ax: Axes | None, label: str, title: str, least: float = 0.0) -> Axes:
    """Factors from 1 x views, with the numbers in the cells where there is room; the scale ends at `least` or above.

    Colours follow the root of the values.
    """
    from matplotlib.colors import PowerNorm

    ax = make_axes(ax, 2.4 + 1.1 * table.shape[1], float(np.clip(1.4 + 0.28 * len(table), 2.6, 9)))
    values = table.to_numpy()
    scale = PowerNorm(POWER, 0, max(float(values.max()), least, 1e-12))
    n_factors, n_views = values.shape
    edges = (-0.5, n_views - 0.5, n_factors + 0.5, 0.5)
    heat(ax, values, SEQUENTIAL, None, None, label, norm=scale, extent=edges)
    if values.size <= MANY * 2 and len(table) <= MANY // 2:
        for (k, m), value in np.ndenumerate(values):
            text, colour = f"{value:.1f}" if least else f"{value:.2f}", "white" if scale(value) > 0.6 else "black"
            ax.text(m, k + 1, text, ha="center", va="center", fontsize=8, color=colour)
    ax.set(ylabel="factor", title=title)
    return whole_ticks(ax, ax.yaxis)


def whole_ticks(ax: Axes, *axes: Axis) -> Axes:
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    return ax


def point_size(n: int, most: float = 36) -> float:
    return float(np.clip(4000 / max(n, 1), 4, most))
