"""What a fit leaves behind: its factors in order, and tables of how it went. Pure functions."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy
import sklearn

from . import __version__
from .fit import Fit
from .posterior import r2
from .state import Posterior, Stats

if TYPE_CHECKING:
    from .estimator import SSHIBA


def ordered(posterior: Posterior, stats: Stats) -> tuple[Posterior, np.ndarray]:
    """Factors by the variance they explain, the largest weight of each positive; and the shares, as `r2` gives them."""
    shares = r2(posterior, stats)
    order = np.argsort(-shares[:-1].sum(axis=1), kind="stable")
    weights = np.concatenate([view.w_mean for view in posterior.views])[:, order]
    largest = weights[np.argmax(np.abs(weights), axis=0), np.arange(len(order))]
    signs = np.where(largest < 0, -1.0, 1.0)
    return posterior.arranged(order, signs), np.concatenate([shares[order], shares[-1:]])


@dataclass(frozen=True)
class Restart:
    """How one random start ended, and the bound after each of its sweeps."""

    elbo: float
    n_components: int
    n_iter: int
    converged: bool
    seconds: float
    interrupted: bool
    path: np.ndarray

    @classmethod
    def of(cls, fit: Fit) -> Restart:
        end = fit.state
        sizes = (end.bound, end.posterior.n_components, fit.n_sweeps)
        return cls(*sizes, fit.converged, fit.seconds, fit.interrupted, np.asarray(fit.path))


def inits_table(restarts: Sequence[Restart]) -> pd.DataFrame:
    """A row for each restart."""
    table = pd.DataFrame([asdict(restart) for restart in restarts]).drop(columns="path")
    return table.assign(best=np.arange(len(table)) == int(table["elbo"].argmax()))


def r2_table(shares: np.ndarray, names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(shares, index=[*range(len(shares) - 1), "all"], columns=names)


def views_table(model: SSHIBA) -> pd.DataFrame:
    """A row for each view: its type, size (features or classes), share of missing cells and of variance explained."""
    rows = []
    for name, view in model.views_.items():
        coding = model._schema.codings[name]
        rows.append(
            {
                "view": name,
                "type": type(view).__name__,
                "size": coding.width,
                "missing": 1 - float(coding.observed_per_feature.mean()) / len(model.factors_),
                "explained": float(model.r2_[name].iloc[-1]),
            }
        )
    return pd.DataFrame(rows)


def provenance() -> dict[str, str]:
    """When and with what a fit was made."""
    packages = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "pandas": pd}
    versions = {"sshiba": __version__} | {name: package.__version__ for name, package in packages.items()}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"fitted": now, "python": platform.python_version(), **versions}


def class_array(levels: tuple) -> np.ndarray:
    """Labels of one kind as an array of that kind, of several kinds as objects."""
    return np.array(levels, dtype=None if len({type(level) for level in levels}) == 1 else object)
