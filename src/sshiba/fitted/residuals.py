"""How the errors of predicted numbers are spread, from the training rows.

Noise is normal in the model and hardly ever in data: errors have heavy tails, are skewed or tied, and q(W) q(z) leaves
out what couples weights and factors. So intervals are made with quantiles of the errors of training cells, in standard
deviations, each cell predicted without itself.

That needs no second fit. ŷ = <z>·<w> + <b> follows its own cell x in two ways. If x moves by δ, z moves ŷ by
u = l_z (δ − v), l_z = weight·tau·wᵀΣ_z w, and w and b move it by v = l_w (δ − u), l_w = tau (tr Σ_w<zzᵀ> + Var b), for
each fits what the other leaves. So x − ŷ moves by δ/(1 + o_z + o_w), o = l/(1 − l). Without the cell its error is
(x − ŷ)(1 + o_z + o_w), and the variance of that (1 + o_z/weight + o_w)/tau. In these deviations, r, the cell also made
1/tau larger by its own r²; without it r is r √((ν − 1)/(ν − r²)), ν = 2·shape of q(tau), as of a studentised residual.

Of a cell at a limit, or of a tied rank, an interval is known. Without such cells the errors of a column would be those
of its large values only. Each gets an error drawn from the normal distribution that the model predicts without the
cell, cut to the interval. q(x) is that distribution, and its mean m is in the place of x: m − ŷ₋ = (m − ŷ)(1 + o) with
ŷ₋ the prediction without the cell and o = o_z + o_w, so that ŷ₋ = ŷ − (m − ŷ₋) o/(1 + o).

Few cells tell little about tails: errors of a column are taken as draws from a Dirichlet process around the standard
normal, which counts as much as PRIOR_CELLS cells. Their predictive distribution is the mixture of the two.

A cell of which less is known, as where all its view is missing, has a larger variance. What is more of it comes from z,
and is normal. The cell's error in deviations is √ρ r + √(1 − ρ) u, ρ = variance of the errors seen / its own, u normal,
and its quantile to first order in ρ, exactly where ρ is 0 or 1, that of u plus ρ times the difference of r's from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

import numpy as np
from scipy.special import ndtr, ndtri

from ..core.arrays import to_numpy
from ..core.coded import CodedView
from ..core.likelihoods import Likelihood, Score
from ..core.likelihoods.interval import FAR, cut_normal
from ..core.predictive import PredictiveView
from ..core.spec import ModelSpec
from ..core.state import Fixed, Gamma, Posterior
from ..core.streamed import AnyView
from ..engines import make_rows
from ..engines.protocol import ROUGH
from .inference import predictive_parts

MOST_ROWS = 1000  # whose errors are looked at
MOST_CELLS = 2_000_000  # of all views
MEMORY_SHARE = 0.25  # of what may be used, for these cells
PRIOR_CELLS = 20.0  # chosen on simulated tables with normal, heavy-tailed and skewed noise
SCORES = np.linspace(-2.5, 2.5, 21)  # normal scores at which quantiles are kept
NORMAL = ndtri((np.arange(200) + 0.5) / 200)
ROUNDS = 5  # in which the prediction without a cell of an interval is found: what is left shrinks by o/(1 + o) in each

# Of each view, of each feature the quantiles at SCORES, and last the variance that the errors had in the model's units,
# (D, 22); None: a normal.
Shapes = tuple[np.ndarray | None, ...]


def find_residual_shapes(
    data: Sequence[AnyView],
    spec: ModelSpec,
    posterior: Posterior,
    places: Sequence[int],
    out_of_time: Callable[[], bool] = lambda: False,
    max_memory: float = inf,
) -> Shapes:
    """The shapes of the views at `places` that are numbers, and not sparse; None for all others."""
    found: list[np.ndarray | None] = [None] * len(spec.views)
    wanted = [i for i in places if spec.views[i].likelihood.numbers and not data[i].is_sparse]
    if not wanted or out_of_time():
        return tuple(found)
    width = sum(spec.views[i].n_features for i in wanted)
    cell_bytes = 16 * (posterior.n_factors + 3)  # deviations by factors and their squares; errors
    n_cells = min(MOST_CELLS, MEMORY_SHARE * max_memory / cell_bytes)
    n_rows = min(MOST_ROWS, max(int(n_cells / width), 1))
    chosen = np.sort(np.random.default_rng(0).permutation(data[0].n_rows)[:n_rows])
    shown = [view.take(chosen).to_host() for view in data]
    errors = {i: np.full((2, len(chosen), spec.views[i].n_features), np.nan) for i in wanted}  # with their variances
    views = {i: PredictiveView(posterior.views[i]) for i in wanted}
    rng = np.random.default_rng(1)
    own = make_rows(shown, spec, posterior.n_components, engine="memory", max_memory=max_memory)
    for part in own.infer(posterior, accuracy=ROUGH):
        if out_of_time():
            return tuple(found)
        for i, view in views.items():
            for rows, x in predictive_parts(part, view, i):
                given, y = shown[i].read(rows), to_numpy(x.mean)
                z_var, own_var = (to_numpy(v) for v in (np.sum(x.z_factor**2, axis=-1), x.own_var))
                known, cut = known_numbers(given, spec.views[i].likelihood)
                pulls = pulls_of(view.view.tau, z_var, own_var, spec.views[i].weight)
                errors[i][:, rows] = left_out(known - y, view.view.tau, *pulls)
                at, j = np.nonzero(cut)
                pull, var = (part[at, j] for part in pulls)
                errors[i][0, rows[at], j] = drawn_errors(given.target[at, j], y[at, j], pull, var, rng)
    for i in wanted:
        columns = np.moveaxis(errors[i], -1, 0)
        found[i] = np.array([shape_of(*column[:, ~np.isnan(column[0])]) for column in columns])
    return tuple(found)


def known_numbers(view: CodedView, likelihood: Likelihood) -> tuple[np.ndarray, np.ndarray]:
    """The cells of some rows, (n, D), NaN where they are not known; and of which of them an interval is."""
    seen, unknown = view.seen_cells, likelihood.unknown(view.target)
    if unknown is None:
        return np.where(seen, view.target, np.nan), np.zeros_like(seen)
    return np.where(seen & ~unknown, view.target[..., 0], np.nan), seen & unknown


def pulls_of(
    q_tau: Gamma | Fixed, z_var: np.ndarray, own_var: np.ndarray, weight: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """o_z + o_w of each cell, and the variance of its error without it.

    z_var = wᵀΣ_z w, own_var = tr Σ_w<zzᵀ> + Var b.
    """
    tau = q_tau.mean
    by_z, by_w = (np.minimum(pull, 1 - 1e-6) for pull in (weight * tau * z_var, tau * own_var))
    by_z, by_w = by_z / (1 - by_z), by_w / (1 - by_w)
    return by_z + by_w, (1 + by_z / weight + by_w) / tau


def left_out(
    residual: np.ndarray, q_tau: Gamma | Fixed, pull: np.ndarray, var: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Errors of cells, each predicted without itself, in standard deviations, and their variances; see `pulls_of`."""
    error = residual * (1 + pull) / np.sqrt(var)
    if isinstance(q_tau, Fixed):
        return error, var
    n = 2 * q_tau.shape
    return error * np.sqrt(np.maximum(n - 1, 1.0) / np.maximum(n - error**2, 1.0)), var


def drawn_errors(
    ends: np.ndarray, y: np.ndarray, pull: np.ndarray, var: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Errors, in standard deviations, of cells that lie between two ends, (n, 2), drawn as the model has them."""
    if not len(y):
        return y
    std, off = np.sqrt(var), np.zeros_like(y)  # `off` is ŷ₋ − ŷ
    for _ in range(ROUNDS):
        low, high = (np.clip((ends[..., end] - y - off) / std, -FAR, FAR) for end in (0, 1))
        off = -std * cut_normal(low, np.maximum(high, low))[0] * pull / (1 + pull)
    flip = low + high > 0  # so that no probability is near 1
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    u = ndtri(ndtr(low) + rng.random(y.shape) * (ndtr(high) - ndtr(low)))
    return np.where(flip, -1, 1) * np.clip(u, low, high)  # so far out that both are 0 it is the nearer end


def shape_of(errors: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Quantiles at SCORES of the mixture of these errors, 1 each, and the standard normal, PRIOR_CELLS; and the middle
    variance, (22,).

    The next error is as likely to lie before, between or behind the n others: the k-th of them is its quantile at
    k/(n + 1), not at (k − ½)/n. With no errors the normal stays as it is.
    """
    one_more = len(errors) / (len(errors) + PRIOR_CELLS)
    values = np.concatenate([errors, NORMAL])
    weights = np.concatenate([np.ones(len(errors)), np.full(len(NORMAL), PRIOR_CELLS / len(NORMAL))])
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    share = (upto - weights[order] / 2 + one_more / 2) / (upto[-1] + one_more)
    return np.append(np.interp(ndtr(SCORES), share, values[order]), np.median(variances) if len(errors) else 1.0)


def score_of(shape: np.ndarray | None, std: np.ndarray) -> Score:
    """The quantiles of the errors of cells with these standard deviations, (n, D), in such deviations."""
    if shape is None:
        return ndtri
    with np.errstate(divide="ignore"):
        return partial(_score, shape, np.minimum(shape[:, -1] / std**2, 1.0))


def _score(shape: np.ndarray, share: np.ndarray, p: float) -> np.ndarray:
    """Linear between SCORES; beyond them as a normal goes on."""
    u = float(ndtri(p))
    inside = float(np.clip(u, SCORES[0], SCORES[-1]))
    step = (inside - SCORES[0]) / (SCORES[1] - SCORES[0])
    place = min(int(step), len(SCORES) - 2)
    between = shape[:, place] + (step - place) * (shape[:, place + 1] - shape[:, place])
    return u + share * (between - inside)
