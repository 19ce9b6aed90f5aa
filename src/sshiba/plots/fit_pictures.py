"""How a fit went, and whether its factors are found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..data.wording import counted
from ..evaluate import Stability
from ..evaluate.stability import STABLE
from ..fitted.fitted import FittedModel, fitted_of
from .canvas import GREY, PALETTE, make_axes, say_instead, whole_ticks, without_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STABILITY = ["kind", "factor", "mean", "low", "high", "stable"]  # columns
APART = 0.3  # factors: between the dots of two kinds of stability


def elbo_data(model: FittedModel) -> pd.DataFrame:
    """The bound after each sweep of each restart: restart, sweep, elbo, best."""
    fit = fitted_of(model)
    parts = [
        pd.DataFrame({"restart": i, "sweep": np.arange(1, len(one.path) + 1), "elbo": one.path})
        for i, one in enumerate(fit.restarts)
    ]
    parts = [part.assign(best=i == fit.best_restart) for i, part in enumerate(parts)]
    return pd.concat(parts, ignore_index=True)


def elbo(model: FittedModel, ax: Axes | None = None) -> Axes:
    """How far the bound of every restart is below the best one, sweep by sweep: the best line goes down furthest."""
    table = elbo_data(model)
    ax = make_axes(ax, 6, 4)
    top = table["elbo"].max()
    finest = max(1e-6 * abs(top), 1e-3)
    several = table["restart"].nunique() > 1
    for number, (_, path) in enumerate(table.groupby("restart"), start=1):
        best = bool(path["best"].iloc[0])
        label = f"best: start {number}" if best and several else None if several else f"ends at {top:,.1f}"
        width, colour = (2, PALETTE[0]) if best else (1, GREY)
        ax.plot(path["sweep"], top - path["elbo"] + finest, color=colour, lw=width, zorder=2 + best, label=label)
    if several:
        ax.plot([], [], color=GREY, label=counted(table["restart"].nunique() - 1, "other start"))
    ax.set(yscale="log", xlabel="sweep", ylabel="nats below the best bound", title="Convergence")
    ax.legend(frameon=False)
    return without_box(ax)


def stability_data(found: Stability | Sequence[Stability]) -> pd.DataFrame:
    """How well each factor was found again: kind, factor, mean, low, high, stable; of one `Stability` or several.

    They come from `sshiba.evaluate.stability`.
    """
    several = found if isinstance(found, Sequence) else [found]
    if not several or not all(isinstance(one, Stability) for one in several):
        raise TypeError(f"give what sshiba.evaluate.stability returns, one or several, not {found!r}.")
    if len({tuple(one.table.index) for one in several}) > 1:
        raise ValueError("these are of models with different numbers of factors; draw each on its own.")
    return pd.concat([one.table.reset_index().assign(kind=one.kind) for one in several], ignore_index=True)[STABILITY]


def stability(found: Stability | Sequence[Stability], ax: Axes | None = None) -> Axes:
    """How well each factor was found again by other fits: the mean and 90 % of them; several kinds side by side.

    Above the dashed line a factor counts as stable.
    """
    table = stability_data(found)
    if table.empty:
        return say_instead(ax, "Stability of factors")
    several = found if isinstance(found, Sequence) else [found]
    n_factors = len(table) // len(several)
    ax = make_axes(ax, float(np.clip(2.2 + 0.32 * n_factors, 4.5, 12)), 3.6)
    ax.axhline(STABLE, color="black", lw=0.8, ls="--")
    for number, one in enumerate(several):
        own = table.iloc[number * n_factors : (number + 1) * n_factors]
        places = np.arange(1, n_factors + 1) + APART * (number - (len(several) - 1) / 2)
        colour = PALETTE[number % len(PALETTE)]
        ax.vlines(places, own["low"], own["high"], color=colour, lw=1.5, alpha=0.5)
        ax.plot(places, own["mean"], "o", ms=5, color=colour, label=one.refits)
    ax.set(xlim=(0.4, n_factors + 0.6), ylim=(0, 1.03), xlabel="factor", ylabel="congruence of weights")
    ax.set_title("Stability of factors")
    ax.legend(frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left")
    return without_box(whole_ticks(ax, ax.xaxis))
