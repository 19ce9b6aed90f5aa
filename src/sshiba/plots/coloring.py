"""Points coloured by what is known of their rows: numbers and times on a scale, labels in a colour each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .canvas import PALETTE, POINTS, UNKNOWN, point_size, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELS = 2 * len(PALETTE)  # that colours and two shapes tell apart
OTHERS = "#8c564b"  # the rarest labels together


@dataclass(frozen=True)
class Layer:
    """Points that look alike, or share a scale; what is drawn first lies below."""

    rows: np.ndarray  # (n,) bool
    style: dict[str, Any] = field(default_factory=dict)
    label: str | None = None
    shades: np.ndarray | None = None  # of these rows, on a scale


@dataclass(frozen=True)
class Coloring:
    """How points are coloured, whatever they are drawn against."""

    layers: tuple[Layer, ...]
    title: str = ""
    is_time: bool = False

    def draw(self, ax: Axes, x: Any, y: Any, size: float | None = None) -> None:
        x, y = np.asarray(x), np.asarray(y)
        size = point_size(len(x)) if size is None else size
        shades = [layer.shades for layer in self.layers if layer.shades is not None]
        scale = {"vmin": shades[0].min(), "vmax": shades[0].max(), "cmap": POINTS} if shades else {}
        for layer in self.layers:
            look = layer.style if layer.shades is None else {"c": layer.shades, **scale}
            look = {"lw": 0, **look}
            ax.scatter(x[layer.rows], y[layer.rows], s=size, label=layer.label, **look)

    def explain(self, ax: Axes, beside: Axes | None = None) -> None:
        """A colour bar beside the Axes, or those that hold them, or a legend; nothing where all points look alike."""
        from matplotlib import dates

        drawn = list(zip(_scatters(ax)[-len(self.layers) :], self.layers))
        scaled = [points for points, layer in drawn if layer.shades is not None]
        home, corner = ax, (1.0, 1.0)
        if scaled:
            bar = ax.figure.colorbar(scaled[0], ax=ax if beside is None else beside, label=self.title)
            if self.is_time:
                bar.ax.yaxis.set_major_formatter(dates.ConciseDateFormatter(dates.AutoDateLocator()))
            home, corner = bar.ax, (-1.0, 0.0)  # below it
        named = [(points, layer.label) for points, layer in drawn if layer.label]
        if named:
            title = None if scaled else self.title or None  # of a scale the bar has it
            look: dict[str, Any] = {"frameon": False, "markerscale": 1.5, "loc": "upper left"}
            home.legend(*zip(*named), title=title, bbox_to_anchor=corner, **look)


def _scatters(ax: Axes) -> list:
    from matplotlib.collections import PathCollection

    return [part for part in ax.collections if isinstance(part, PathCollection)]


def coloring(values: pd.Series | None, n_rows: int) -> Coloring:
    """By the values of rows; one colour for all where there are none."""
    if values is None:
        return Coloring((Layer(np.ones(n_rows, dtype=bool), {"color": PALETTE[0], "alpha": 0.7}),))
    title = short("" if values.name is None else values.name)
    return _on_a_scale(values, title) if is_scale(values) else _by_label(values, title)


def is_scale(values: pd.Series) -> bool:
    """Times, and numbers but two values, or a few whole ones."""
    if pd.api.types.is_datetime64_any_dtype(values):
        return True
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return False
    found = values.dropna().unique()
    few = len(found) <= MOST_LABELS and all(float(value).is_integer() for value in found)
    return len(found) > 2 and not few


def _on_a_scale(values: pd.Series, title: str) -> Coloring:
    from matplotlib import dates

    seen = values.notna().to_numpy()
    is_time = pd.api.types.is_datetime64_any_dtype(values)
    shades = np.asarray(dates.date2num(values[seen]) if is_time else values[seen], dtype=float)
    unknown = () if seen.all() else (Layer(~seen, {"color": UNKNOWN}, "unknown"),)
    return Coloring((*unknown, Layer(seen, shades=shades)), title, is_time)


def label_order(values: pd.Series) -> list:
    """The labels that occur: ordered categories in their order, numbers before texts, each sorted."""
    if isinstance(values.dtype, pd.CategoricalDtype) and values.cat.ordered:
        seen = set(values.dropna())
        return [level for level in values.cat.categories if level in seen]
    return sorted(values.dropna().unique(), key=lambda label: (isinstance(label, str), label))


def label_colors(values: pd.Series) -> dict[Any, dict[str, Any]]:
    """How each label looks: colours that rise with ordered categories; the rarest of very many are left out."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    named = label_order(values)
    if isinstance(values.dtype, pd.CategoricalDtype) and values.cat.ordered:
        rising = colormaps["plasma"](np.linspace(0.15, 0.85, len(named)))
        return {label: {"color": to_hex(shade)} for label, shade in zip(named, rising)}
    if len(named) > MOST_LABELS:
        common = set(values.value_counts().index[: MOST_LABELS - 1])
        named = [label for label in named if label in common]
    shapes = {0: "o", 1: "v"}
    return {
        label: {"color": PALETTE[number % len(PALETTE)], "marker": shapes[number // len(PALETTE)]}
        for number, label in enumerate(named)
    }


def _by_label(values: pd.Series, title: str) -> Coloring:
    """A colour and shape for each label, the rarest together where there are too many; what is unknown lies below."""
    styles = label_colors(values)
    unknown, named = values.isna().to_numpy(), values.isin(list(styles)).to_numpy()
    rest = ~named & ~unknown
    layers = [Layer(unknown, {"color": UNKNOWN}, "unknown")] if unknown.any() else []
    if rest.any():
        words = f"{values[rest].nunique()} others"
        layers.append(Layer(rest, {"facecolor": "none", "edgecolor": OTHERS, "lw": 0.8}, words))
    for label, style in styles.items():
        layers.append(Layer((values == label).fillna(False).to_numpy(bool), {**style, "alpha": 0.8}, short(label)))
    return Coloring(tuple(layers), title)
