"""How sharply the classes of a categorical view are told apart, from the training rows.

q(x) q(z) leaves out the covariance of x and z, so the weights that carry z to the classes come out too small, and class
probabilities too near to each other: on digits 92 % of the guesses were right at a mean confidence of 67 %. Which class
is likeliest hardly depends on it. One number a view repairs it: c in p(t | c·y), y = zWᵀ + b, such that labels of
training rows, predicted from their other views alone, are likeliest.

No row may be judged by weights that have seen its own label. W is a ridge regression of <x> on z, in which row n has
the leverage h = zᵀΣ_W z + Var b and the residual <x> − y = ∇ log ξ: without the row, y is y − h/(1 − h) (<x> − y).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from ..core.likelihoods import PredictiveX
from ..core.predictive import predictive_x
from ..core.spec import ModelSpec
from ..core.state import Posterior
from ..core.streamed import AnyView
from ..engines import make_rows
from ..engines.protocol import ROUGH

MOST_ROWS, LEAST_ROWS = 400, 100  # by which the factor of a view is found
ALL_ROWS = 2000  # the same of all views together
STEP, LARGEST = 1.3, 25.0
SPREAD = 0.5  # of log c before the labels are seen


def find_sharpness(
    data: Sequence[AnyView],
    spec: ModelSpec,
    posterior: Posterior,
    out_of_time: Callable[[], bool] = lambda: False,
    max_memory: float = inf,
) -> tuple[float, ...]:
    """A factor for each view: 1 but for those that need it and can be predicted from others.

    `out_of_time` is asked between two steps; once it says so, the best factors so far are returned.
    """
    needed = [spec.views[i].likelihood.needs_sharpness and len(spec.learned) > 1 for i in spec.learned]
    n_rows = max(LEAST_ROWS, min(MOST_ROWS, ALL_ROWS // max(sum(needed), 1)))
    return tuple(
        _of_view(i, data, spec, posterior, n_rows, out_of_time, max_memory) if wanted and not out_of_time() else 1.0
        for i, wanted in enumerate(needed)
    )


def _of_view(
    i: int,
    data: Sequence[AnyView],
    spec: ModelSpec,
    posterior: Posterior,
    n_rows: int,
    out_of_time: Callable[[], bool],
    max_memory: float,
) -> float:
    others = [data[j].observed_rows for j in spec.learned if j != i]
    useful = np.flatnonzero(data[i].observed_rows & np.any(others, axis=0))
    if len(useful) < 2 * spec.views[i].n_features:
        return 1.0
    chosen = np.sort(np.random.default_rng(0).permutation(useful)[:n_rows])
    shown = [view.take(chosen).to_host() for view in data]
    labels = shown[i].target
    shown[i] = shown[i].hidden()
    likelihood = spec.views[i].likelihood
    parts: list[tuple[np.ndarray, PredictiveX]] = []
    rows = make_rows(shown, spec, posterior.n_components, engine="memory", max_memory=max_memory)
    for part in rows.infer(posterior, accuracy=ROUGH):
        if out_of_time():
            return 1.0
        codes, x = labels[part.rows], predictive_x(posterior.views[i], part.z_mean, part.z_cov)
        leverage = np.minimum(x.own_var, 0.9)
        residual = likelihood.infer_x(codes, x.mean, x.noise_var, None).mean - x.mean
        x = replace(x, mean=x.mean - leverage / (1 - leverage) * residual)
        parts.append((codes, x.with_independent_classes()))  # c hardly moves by it

    def loss(c: float) -> float:
        """−log p of the labels, and of c."""
        total = 0.5 * (np.log(c) / SPREAD) ** 2
        for codes, x in parts:
            total += likelihood.losses(codes, *likelihood.predict(x.sharpened(c))).sum()
        return float(total)

    best, least = 1.0, loss(1.0)
    for step in (STEP, 1 / STEP):
        c, worse = best * step, False
        while not worse and 1 / LARGEST < c < LARGEST and not out_of_time():
            found = loss(c)
            worse = found >= least
            if not worse:
                best, least, c = c, found, c * step
        if best != 1.0:
            break
    return best
