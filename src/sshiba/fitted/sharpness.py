"""How sharply the classes of a categorical view are told apart, from the training rows.

q(x) q(z) leaves out the covariance of x and z, so the weights that carry z to the classes come out too small, and class
probabilities too near to each other: on digits 92 % of the guesses were right at a mean confidence of 67 %. Which class
is likeliest hardly depends on it. One number a view repairs it: c in p(t | c·y), y = zWᵀ + b, such that labels of
training rows, predicted from their other views alone, are likeliest.

No row may be judged by weights that have seen its own label. W is a ridge regression of <x> on z, in which row n has
the leverage h = zᵀΣ_W z + Var b and the residual <x> − y = ∇ log ξ: without the row, y is y − h/(1 − h) (<x> − y).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from ..core.coded import CodedView
from ..core.likelihoods import Likelihood, PredictiveX
from ..core.predictive import predictive_x
from ..core.spec import ModelSpec
from ..core.state import Posterior
from ..core.streamed import AnyView
from ..engines import make_rows
from ..engines.protocol import ROUGH

MOST_ROWS, LEAST_ROWS = 400, 100  # by which the factor of a view is found
ALL_ROWS = 2000  # the same of all views together, and of those that are predicted at once
STEP, LARGEST = 1.3, 25.0
SPREAD = 0.5  # of log c before the labels are seen


Judges = list[tuple[np.ndarray, PredictiveX]]  # the labels of some rows, and what other views say of them


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
    found = dict.fromkeys(spec.learned, 1.0)
    for some in _batches(_choose_rows(data, spec)):
        for i, judges in _predict(some, data, spec, posterior, out_of_time, max_memory).items():
            found[i] = _best_factor(spec.views[i].likelihood, judges, out_of_time)
    return tuple(found.values())


def _choose_rows(data: Sequence[AnyView], spec: ModelSpec) -> dict[int, np.ndarray]:
    """Of each view that needs a factor, rows that have a label and something else."""
    needed = [i for i in spec.learned if spec.views[i].likelihood.needs_sharpness]
    if not needed or len(spec.learned) < 2:
        return {}
    n_rows = max(LEAST_ROWS, min(MOST_ROWS, ALL_ROWS // len(needed)))
    n_seen = np.sum([data[j].observed_rows for j in spec.learned], axis=0)
    chosen = {}
    for i in needed:
        useful = np.flatnonzero(data[i].observed_rows & (n_seen > 1))
        if len(useful) >= 2 * spec.views[i].n_features:
            chosen[i] = np.sort(np.random.default_rng(0).permutation(useful)[:n_rows])
    return chosen


def _batches(chosen: Mapping[int, np.ndarray]) -> Iterator[dict[int, np.ndarray]]:
    """Views whose labels are predicted at once."""
    batch: dict[int, np.ndarray] = {}
    for i, rows in chosen.items():
        if batch and sum(map(len, batch.values())) + len(rows) > ALL_ROWS:
            yield batch
            batch = {}
        batch[i] = rows
    if batch:
        yield batch


def _predict(
    chosen: Mapping[int, np.ndarray],
    data: Sequence[AnyView],
    spec: ModelSpec,
    posterior: Posterior,
    out_of_time: Callable[[], bool],
    max_memory: float,
) -> dict[int, Judges]:
    """The chosen rows of each view one below the other, each without the label that is predicted; none without time."""
    judges: dict[int, Judges] = {i: [] for i in chosen}
    if out_of_time():
        return {}
    whole = [view.take(np.concatenate(list(chosen.values()))).to_host() for view in data]
    shown, start, places = list(whole), 0, {}
    for i, rows in chosen.items():
        places[i] = slice(start, start + len(rows))
        shown[i] = _without_labels(whole[i], places[i])
        start += len(rows)
    made = make_rows(shown, spec, posterior.n_components, engine="memory", max_memory=max_memory)
    for part in made.infer(posterior, accuracy=ROUGH):
        if out_of_time():
            return {}
        for i, place in places.items():
            own = np.flatnonzero((part.rows >= place.start) & (part.rows < place.stop))
            if len(own) == 0:
                continue
            codes, cov = whole[i].target[part.rows[own]], part.z_cov if len(part.z_cov) == 1 else part.z_cov[own]
            x = predictive_x(posterior.views[i], part.z_mean[own], cov)
            leverage = np.minimum(x.own_var, 0.9)
            residual = spec.views[i].likelihood.infer_x(codes, x.mean, x.noise_var, None).mean - x.mean
            x = replace(x, mean=x.mean - leverage / (1 - leverage) * residual)
            judges[i].append((codes, x.with_independent_classes()))  # c hardly moves by it
    return judges


def _without_labels(view: CodedView, rows: slice) -> CodedView:
    seen = view.seen_cells
    seen[rows] = False
    return view.with_only(seen)


def _best_factor(likelihood: Likelihood, judges: Judges, out_of_time: Callable[[], bool]) -> float:
    """The c under which the labels are likeliest, stepwise from 1 on."""

    def loss(c: float) -> float:
        """−log p of the labels, and of c."""
        total = 0.5 * (np.log(c) / SPREAD) ** 2
        for codes, x in judges:
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
