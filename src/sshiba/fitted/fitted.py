"""A fitted model: one frozen value that the estimator, answers, files, pictures and the report share."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import scipy
import sklearn
from sklearn.utils.validation import check_is_fitted

from ..core.coupling import Coupling, RowVariances, find_coupling
from ..core.explained import order_factors
from ..core.scratch import RowsLostError
from ..core.spec import ModelSpec
from ..core.state import Posterior
from ..core.w_moments import feature_gamma
from ..data.schema import Schema
from ..engines import Rows
from ..engines.protocol import FULL, Accuracy
from ..fitting.restarts import Restart, Restarts, best_place
from ..version import __version__
from .candidates import Candidate
from .inference import infer_factors
from .residuals import Shapes
from .search import Search


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that a fit leaves behind. Factors are ordered by the variance they explain, with fixed signs."""

    schema: Schema
    spec: ModelSpec
    posterior: Posterior
    sharpness: tuple[float, ...]  # of each view
    residuals: Shapes  # of each view: how the errors of its numbers are spread
    index: pd.Index  # names of the training rows
    factors: np.ndarray  # (N, K)
    factors_std: np.ndarray  # (N, K)
    coupling: Coupling  # what q(W) q(z) leaves out of the deviations of factors and weights
    r2: np.ndarray  # share of each view's variance, a row for each of `r2_names`
    elbo: float
    log_evidence: float | None  # None where it is not derived
    elbo_path: np.ndarray
    n_iter: int
    converged: bool
    restarts: tuple[Restart, ...]
    provenance: dict[str, str]
    settings: dict[str, Any]  # of the estimator at the fit, all but views, callback and max_memory
    choice: Candidate  # the priors, and which factors were to be kept
    groups: np.ndarray | None = None  # (N,): the group of samples of each training row, -1: none
    r2_by_group: np.ndarray | None = None  # (S, K + 1, M): r2 within each group, about its own intercepts
    search: Search | None = None  # how `choice` was found, None where there was no search
    reading: dict[str, Any] | None = None  # how the files of the data were read, in JSON values; None: no files

    @property
    def n_components(self) -> int:
        return self.posterior.n_components

    @property
    def dtype(self) -> str:
        """The precision in which real views are stored."""
        return self.settings["dtype"]

    @property
    def factor_names(self) -> list[str]:
        """What factors are called wherever they are named; as in MOFA, they are counted from 1."""
        return [f"factor {number}" for number in range(1, self.n_components + 1)]

    @property
    def r2_names(self) -> list[str]:
        """What explains variance: each factor, the covariates together where there are any, and all of these."""
        return [*self.factor_names, *(["covariates"] if self.posterior.n_known else []), "all"]

    def weights(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the weights of a view, in the model's units, (D, K)."""
        place, k = self.schema.place(name), self.n_components
        view, spec = self.posterior.views[place], self.spec.views[place]
        mean = view.w_mean[:, :k]
        variance = np.maximum(view.w_second[:, :k] - mean**2, 0.0)
        prior_precision = feature_gamma(view, spec)[:, None] * view.alpha.mean
        return mean, self.coupling.weight_std(mean, variance, prior_precision)

    @property
    def best_restart(self) -> int:
        return best_place(self.restarts)

    @property
    def interrupted(self) -> bool:
        """Did the user end the fit, in the midst of a restart or before the last one?"""
        return len(self.restarts) < self.settings["n_init"] or any(restart.interrupted for restart in self.restarts)


def make_fitted(
    schema: Schema,
    rows: Rows,
    restarts: Restarts,
    index: pd.Index,
    settings: dict[str, Any],
    choice: Candidate,
    search: Search | None = None,
    earlier: Fitted | None = None,
    exact_rows: Rows | None = None,
    accuracy: Accuracy = FULL,
) -> Fitted:
    """From the end of the restarts; `earlier` is what there was, kept where its restart is still the best.

    `exact_rows` are the same rows where the fit treated holes as variables: factors are inferred as `transform` does.
    """
    best = restarts.best
    if best is None:
        assert earlier is not None  # some earlier restart was better
        return replace(earlier, restarts=restarts.all, settings=settings)
    assert best.state.stats is not None  # a run ends with a whole sweep
    found = best.state.posterior, best.state.stats, rows.spec
    posterior, order, shares = order_factors(*found)
    local = best.state.local if exact_rows is None else None
    try:
        mean, std = infer_factors(exact_rows or rows, posterior, local, accuracy)
    except RowsLostError:  # the model is there all the same
        mean, std = np.full((2, rows.n_rows, posterior.n_components), np.nan)
    known = RowVariances.of(std)
    coupling = find_coupling(*found, known and known.select_factors(np.argsort(order))).select_factors(order)
    coupling.widen(mean, std)
    return Fitted(
        schema=schema,
        spec=rows.spec,
        posterior=posterior,
        sharpness=(1.0,) * len(rows.spec.views),
        residuals=(None,) * len(rows.spec.views),
        index=index,
        factors=mean,
        factors_std=std,
        coupling=coupling,
        r2=shares,
        elbo=float(best.state.bound),
        log_evidence=best.log_evidence,
        elbo_path=np.asarray(best.path),
        n_iter=int(best.n_sweeps),
        converged=bool(best.converged),
        restarts=restarts.all,
        provenance=provenance(),
        settings=settings,
        choice=choice,
        search=search,
    )


FittedModel = Any  # an estimator that was fitted, or its `Fitted`


def fitted_of(model: FittedModel) -> Fitted:
    """The fit of an estimator, or the fit itself; scikit-learn's NotFittedError where there is none."""
    if isinstance(model, Fitted):
        return model
    check_is_fitted(model, "fitted_")
    return model.fitted_


def provenance() -> dict[str, str]:
    """When and with what a fit was made."""
    packages = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "pandas": pd}
    versions = {"sshiba": __version__} | {name: package.__version__ for name, package in packages.items()}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"fitted": now, "python": platform.python_version(), **versions}
