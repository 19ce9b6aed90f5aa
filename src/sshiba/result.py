"""What a fit leaves behind: its factors in order, and tables of how it went. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .fit import Fit
from .posterior import r2
from .state import Posterior, Stats


def ordered(posterior: Posterior, stats: Stats) -> tuple[Posterior, np.ndarray]:
    """Factors by the variance they explain, the largest weight of each positive; and the shares, as `r2` gives them."""
    shares = r2(posterior, stats)
    order = np.argsort(-shares[:-1].sum(axis=1), kind="stable")
    weights = np.concatenate([view.w_mean for view in posterior.views])[:, order]
    largest = weights[np.argmax(np.abs(weights), axis=0), np.arange(len(order))]
    signs = np.where(largest < 0, -1.0, 1.0)
    return posterior.arranged(order, signs), np.concatenate([shares[order], shares[-1:]])


def inits_table(before: Sequence[dict[str, Any]], fits: Sequence[Fit]) -> pd.DataFrame:
    """A row for each restart: those known from before, then these."""
    rows = [
        {
            "elbo": fit.state.bound,
            "n_components": fit.state.posterior.n_components,
            "n_iter": fit.n_sweeps,
            "converged": fit.converged,
            "seconds": fit.seconds,
            "interrupted": fit.interrupted,
        }
        for fit in fits
    ]
    table = pd.DataFrame([*before, *rows])
    return table.assign(best=np.arange(len(table)) == int(table["elbo"].argmax()))


def r2_table(shares: np.ndarray, names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(shares, index=[*range(len(shares) - 1), "all"], columns=names)


def class_array(levels: tuple) -> np.ndarray:
    """Labels of one kind as an array of that kind, of several kinds as objects."""
    return np.array(levels, dtype=None if len({type(level) for level in levels}) == 1 else object)
