"""What a posterior says about rows, seen in the fit or new, in the model's units: factors, predictions, scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log, pi
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.arrays import array_namespace, to_numpy
from ..core.bound import rows_bound
from ..core.coded import CodedView
from ..core.devices import HOST
from ..core.likelihoods import PredictiveX
from ..core.predictive import PredictiveView
from ..core.scratch import empty_answer
from ..core.spec import ModelSpec
from ..core.state import Posterior
from ..data.telling import tell
from ..engines import RowPosterior, Rows
from ..engines.protocol import FULL, Accuracy, Local

DEVICE_BYTES = 2**28  # working memory of predictions on a device; on the host it is that of rows with own covariances
COPIES = 4  # at a time: those of the rows before these, of these, sharpened, and squared


def infer_factors(
    rows: Rows, posterior: Posterior, local: Local | None = None, accuracy: Accuracy = FULL
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the learned factors, (N, K), in the order of the rows that were given."""
    k = posterior.n_components
    mean, std = empty_answer((rows.n_rows, k)), empty_answer((rows.n_rows, k))
    for part in settled(rows.infer(posterior, local, accuracy, factor_moments), accuracy):
        mean[part.rows], std[part.rows] = part.mean[:, :k], part.std[:, :k]
    return mean, std


class FactorMoments(NamedTuple):
    """Means and standard deviations of z of some rows, and whether they had settled."""

    rows: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    converged: bool


def factor_moments(part: RowPosterior) -> FactorMoments:
    variances = array_namespace(part.z_cov).linalg.diagonal(part.z_cov)
    return FactorMoments(part.rows, to_numpy(part.z_mean), np.sqrt(to_numpy(variances)), part.converged)


def predict_views(
    rows: Rows,
    posterior: Posterior,
    targets: Sequence[int],
    sharpness: Sequence[float],
    accuracy: Accuracy = FULL,
    roughly: bool = False,
    unknown: Mapping[int, np.ndarray] | None = None,
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Values and standard deviations of some views on all rows.

    `roughly` is quicker: classes are taken as independent, which is nearly the same, and numbers have no deviations.
    `unknown` are cells of some views, (N, D), of which the x itself is asked for, with all that is known of it.
    """
    out: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for i in targets:
        width, likelihood = rows.spec.views[i].n_features, rows.spec.views[i].likelihood
        out[i] = (np.empty((rows.n_rows, likelihood.n_values(width))), np.empty((rows.n_rows, width)))
    views = {i: PredictiveView(posterior.views[i]) for i in targets}
    for part in settled(rows.infer(posterior, accuracy=accuracy), accuracy):
        for i, view in views.items():
            likelihood = rows.spec.views[i].likelihood
            if roughly and likelihood.numbers:
                out[i][0][part.rows], out[i][1][part.rows] = to_numpy(view.mean(part.z_mean)), np.nan
                continue
            for places, x in predictive_parts(part, view, i):
                simple = x.with_independent_classes() if roughly and likelihood.whole_rows else x
                value, std = likelihood.predict(simple.sharpened(sharpness[i]))
                out[i][0][places], out[i][1][places] = to_numpy(value), to_numpy(std)
        for i, cells in (unknown or {}).items():
            if i in part.x:  # not where all rows of the part lack the view
                own = cells[part.rows]
                for values, found in zip(out[i], (part.x[i].mean, part.x[i].var ** 0.5)):
                    values[part.rows] = np.where(own, to_numpy(found), values[part.rows])
    return out


def predictive_parts(part: RowPosterior, view: PredictiveView, i: int) -> Iterator[tuple[np.ndarray, PredictiveX]]:
    """The predictive x of view `i` for some rows at a time, with their places."""
    n_factors = part.z_mean.shape[1]
    # D·K for z_factor where rows have covariances of their own; where features have, K²/2 for <zzᵀ>.
    own = n_factors if part.z_cov.shape[0] > 1 else 1
    cells = len(view.noise_var) * max(own, 1) + n_factors**2
    room = HOST.part_bytes if isinstance(part.z_mean, np.ndarray) else DEVICE_BYTES
    step = max(1, room // (8 * COPIES * cells))
    for start in range(0, len(part.rows), step):
        some = part.part(slice(start, start + step))
        yield some.rows, view.x(some.z_mean, some.z_cov).shifted(some.offsets[i])


def log_likelihood(rows: Rows, posterior: Posterior) -> float:
    """Σ_n of the bound on log p(row), the globals fixed at their posterior."""
    local, converged = rows.settle(posterior, rows.start(posterior))
    if not converged:
        warn_unsettled()
    _, stats = rows.step(posterior, local)  # once more changes nothing
    return rows_bound(posterior, stats, rows.spec)


def log_likelihoods(rows: Rows, posterior: Posterior, data: Sequence[CodedView]) -> np.ndarray:
    """The same of each row, (N,), where x is the data in all views: ½(log|Σ| − tr<zzᵀ> + K) of its z, and of each cell
    ½(E log tau − log 2π) − ½ tau E(x − zw − b)².
    """
    total = np.zeros(rows.n_rows)
    views = [PredictiveView(view) for view in posterior.views]
    for part in settled(rows.infer(posterior)):
        z, cov = to_numpy(part.z_mean), to_numpy(part.z_cov)
        of_z = np.linalg.slogdet(cov)[1] - np.trace(cov, axis1=1, axis2=2) - np.sum(z**2, axis=1) + z.shape[1]
        total[part.rows] += of_z / 2
        for i, (view, own) in enumerate(zip(views, data)):
            tau, log_tau = view.view.tau.mean, view.view.tau.log_mean
            if not own.observed_rows[part.rows].any():
                continue
            for places, x in predictive_parts(part, view, i):
                known = own.read(places)
                residual = (to_numpy(known.target) - to_numpy(x.mean)) ** 2 + to_numpy(x.var - x.noise_var)
                cells = (log_tau - log(2 * pi) - tau * residual) / 2
                total[places] += np.sum(cells if known.observed is None else np.where(known.observed, cells, 0), axis=1)
    return total


def settled(parts: Iterator[Any], accuracy: Accuracy = FULL) -> Iterator[Any]:
    """The same parts; a warning at the end where some had not converged, unless less than the full accuracy will do."""
    converged = True
    for part in parts:
        converged &= part.converged
        yield part
    if not converged and accuracy == FULL:
        warn_unsettled()


def warn_unsettled() -> None:
    tell(
        "The factors of some rows had not converged when their inference ended; their values may be slightly off.",
        ConvergenceWarning,
    )


def unweighted(spec: ModelSpec) -> ModelSpec:
    """Every view counted once, as a likelihood needs it."""
    return replace(spec, views=tuple(replace(view, weight=1.0) for view in spec.views))
