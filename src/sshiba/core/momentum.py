"""Momentum and leaps: the next sweep starts ahead of the globals.

Coordinate ascent creeps where variables are strongly coupled, such as z and the noise of a feature that the factors
tell nearly exactly: each sweep is a small step in much the same direction. Momentum goes on in the direction in which
the last sweep moved the globals (Nesterov's scheme, restarted where the bound would fall). A leap goes where Newton's
method says, with x following: a count of 0, or the level that nearly all rows have, says little about its x, so x
follows W, b and tau, and they follow x.

Both only move the point at which the local step is taken. All updates after it are exact, so the bound is that of a
proper state, and a step that went too far is seen at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .arrays import unpack_pairs
from .spec import ModelSpec, ViewSpec
from .state import Gamma, Posterior, Stats, ViewPosterior, ViewStats
from .w_moments import feature_gamma

LARGEST = 0.99  # share of the last step that is taken once more
MOST_PLAIN = 5.0  # sweeps that one with momentum counts for, at most, where a fit decides whether it still rises
FARTHEST = 1.0  # that a leap moves the predictors of a feature, in the root mean square over rows
MOST_FOLLOWED = 0.99  # of a step of the scale: the largest share that counts as x following
LONGEST_OF_SCALE = (0.5, 1.0, 1.0)  # the longest steps of a, b and log tau
SMALLEST = 1e-12  # Σ<f²> of a feature
MOST_OF_TAU = 0.98  # how far the next log tau follows the present one, at most
LONGEST_OF_TAU = 1.0  # the longest step of log tau


class Point(NamedTuple):
    """The globals that rows are told of: <W>, <b> and tau of each view, and the precisions of the factors in groups of
    samples.
    """

    w_mean: tuple[np.ndarray, ...]
    b_mean: tuple[np.ndarray, ...]
    tau: tuple[np.ndarray, ...]
    activity: np.ndarray  # (S, K)

    def turned(self, R: np.ndarray | None) -> Point:
        """The same seen from the axes after a rotation, W R and Z R⁻ᵀ; None for no rotation."""
        if R is None:
            return self
        k = self.activity.shape[1]
        variances = (1 / self.activity) @ (np.linalg.inv(R)[:k, :k] ** 2).T  # along the new axes
        return self._replace(w_mean=tuple(w @ R for w in self.w_mean), activity=1 / variances)


def share(n_ahead: int) -> float:
    """Of the last step, which is taken once more after so many sweeps that did so with success."""
    return min(n_ahead / (n_ahead + 3), LARGEST)


def plain_sweeps(n_ahead: int) -> float:
    """How many plain sweeps one with momentum does the work of: near an optimum 1/(1 − share)."""
    return min(1 / (1 - share(n_ahead)), MOST_PLAIN)


def extrapolate(posterior: Posterior, reached: Point, past: Point | None, n_ahead: int) -> Posterior:
    """The globals at `reached`, moved on by a share of the step from `past`; tau and the activity by its ratio."""
    past, part = (reached, 0.0) if past is None else (past, share(n_ahead))

    def further(learned: Gamma, now: np.ndarray, before: np.ndarray) -> Gamma:
        return Gamma(learned.shape, learned.shape / (now * (now / before) ** part))

    views = []
    for view, w_mean, b_mean, tau, w_past, b_past, tau_past in zip(posterior.views, *reached[:3], *past[:3]):
        moved = view.with_weights(w_mean + part * (w_mean - w_past), view.w_cov)
        learned = further(view.tau, tau, tau_past) if isinstance(view.tau, Gamma) else view.tau
        views.append(replace(moved, b_mean=b_mean + part * (b_mean - b_past), tau=learned))
    return Posterior(tuple(views), further(posterior.activity, reached.activity, past.activity))


# -------------------------------------------------------------------------------------------------------------- leaps


def reached_by(stats: Stats, before: Posterior, after: Posterior, spec: ModelSpec) -> Point:
    """Where a sweep has brought the globals, from `before`, where its statistics were taken, to `after`; those of views
    with slopes leap, and get farther.
    """
    found = []
    for own, old, new, view_spec in zip(stats.views, before.views, after.views, spec.views):
        if own.slopes is None:
            found.append((new.w_mean, new.b_mean, new.tau.mean))
        elif own.slopes.pulls is not None:
            found.append(leap_scale(own, old, new, view_spec))
        else:
            found.append((*leap_weights(own, old, view_spec), leap_tau(own, old, new)))
    w_mean, b_mean, tau = map(tuple, zip(*found))
    return Point(w_mean, b_mean, tau, after.activity.mean)


def leap_weights(stats: ViewStats, view: ViewPosterior, spec: ViewSpec) -> tuple[np.ndarray, np.ndarray]:
    """<W> and <b> after a step of Newton's method with x at its best and z held.

    Of the bound at the best x, the gradient in v = (w_d, b_d) is that with x held: tau (Σ x ẑ − Σ<ẑẑᵀ> v) − prior v,
    ẑ = (z, 1). Its Hessian is that with x held, −tau Σ<ẑẑᵀ> − prior, and what <x> adds that follows y = ẑ·v: tau Σ
    d<x>/dy <ẑ><ẑ>ᵀ.
    """
    assert stats.slopes is not None
    k, index = view.w_mean.shape[1], stats.groups.index
    tau = (view.tau.mean + np.zeros_like(view.b_mean))[:, None]
    n = stats.n[index][:, None, None]
    zz, z_sum = stats.zz[index], stats.z_sum[index][:, :, None]
    second = np.concatenate(
        [np.concatenate([zz, z_sum], axis=2), np.concatenate([np.matrix_transpose(z_sum), n], axis=2)], axis=1
    )
    prior = np.column_stack([feature_gamma(view, spec)[:, None] * view.alpha_mean, np.full(len(tau), spec.b_precision)])
    v, pull = np.column_stack([view.w_mean, view.b_mean]), np.column_stack([stats.xz, stats.x_sum])
    gradient = tau * (pull - _times(second, v)) - prior * v
    curvature = tau[:, :, None] * (second - unpack_pairs(stats.slopes.pairs, k + 1))
    curvature += prior[:, :, None] * np.eye(k + 1)
    step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
    moved = np.sqrt(np.vecdot(step, _times(second, step)) / np.maximum(stats.n[index], 1))
    v = v + step * np.minimum(1, FARTHEST / np.maximum(moved, FARTHEST))[:, None]
    return v[:, :k], v[:, k]


def _times(matrices: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return (matrices @ rows[:, :, None])[:, :, 0]


def leap_tau(stats: ViewStats, old: ViewPosterior, new: ViewPosterior) -> np.ndarray:
    """tau after a step of Newton's method towards where its update leaves it as it is.

    Its update gives log tau = log shape − log rate, rate = b0 + ½ E Σ(x − y)², which moves with the present log tau by
    −½ drift/rate.
    """
    assert stats.slopes is not None
    if not isinstance(new.tau, Gamma):
        return new.tau.mean
    drift = stats.slopes.drift if new.tau.mean.shape[0] > 1 else np.sum(stats.slopes.drift, keepdims=True)
    follows = np.clip(-0.5 * drift / new.tau.rate, 0.0, MOST_OF_TAU)
    step = np.log(new.tau.mean / old.tau.mean) / (1 - follows)
    return old.tau.mean * np.exp(np.clip(step, -LONGEST_OF_TAU, LONGEST_OF_TAU))


def leap_scale(
    stats: ViewStats, old: ViewPosterior, new: ViewPosterior, spec: ViewSpec
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """<W>, <b> and tau of features of levels after a step of Newton's method along the scale of each.

    Where most cells say little of their x, it follows the predictor y = a f + b, f = <w>·<z>, and tau; the scale a of
    the weights, b and l = log tau then creep together. Their updates lead (a, b) to the regression of <x> on (f, 1) and
    l to log(shape/rate), rate = b0 + ½ E Σ(x − y)². With s = d<x>/dy, m = d<x>/dl and g = d E(x − y)²/dl, where
    E(x − y)² moves by −2m with y as x moves alone, that map has the Jacobian M⁻¹S,
        M = diag(tau Σ<(f, 1)(f, 1)ᵀ> + prior, shape),  S = tau [[Σ s (f, 1)(f, 1)ᵀ, Σ m (f, 1)], [·ᵀ, −½ Σ g]],
    and where it moves them by δ they come to rest after (I − M⁻¹S)⁻¹ δ, to first order.
    """
    slopes, index = stats.slopes, stats.groups.index
    assert slopes is not None
    assert slopes.pulls is not None
    tau, w = old.tau.mean + np.zeros_like(old.b_mean), old.w_mean
    zz_w, f = _times(stats.zz[index], w), np.vecdot(stats.z_sum[index], w)
    ff, n = np.maximum(np.vecdot(zz_w, w), SMALLEST), stats.n[index]
    M, S, move = np.zeros((len(w), 3, 3)), np.zeros((len(w), 3, 3)), np.zeros((len(w), 3))
    M[:, 0, 0] = tau * ff + feature_gamma(old, spec) * (w**2 @ old.alpha_mean)
    M[:, 0, 1], M[:, 1, 0], M[:, 1, 1], M[:, 2, 2] = tau * f, tau * f, tau * n + spec.b_precision, 1.0
    S[:, :2, :2] = tau[:, None, None] * slopes.pairs[:, [0, 1, 1, 2]].reshape(-1, 2, 2)
    move[:, 0], move[:, 1] = np.vecdot(zz_w, new.w_mean - w) / ff, new.b_mean - old.b_mean
    learned = isinstance(new.tau, Gamma) and len(new.tau.rate) == len(w)
    if isinstance(new.tau, Gamma) and learned:
        M[:, 2, 2], S[:, 2, 2] = new.tau.shape, -0.5 * tau * slopes.drift
        S[:, :2, 2] = S[:, 2, :2] = tau[:, None] * slopes.pulls
        move[:, 2] = np.log(new.tau.mean / old.tau.mean)
    step = _beyond(M, S, move)
    step /= np.maximum(np.max(np.abs(step) / LONGEST_OF_SCALE, axis=1), 1.0)[:, None]
    weights = new.w_mean + (step[:, :1] - move[:, :1]) * w
    return weights, old.b_mean + step[:, 1], old.tau.mean * np.exp(step[:, 2]) if learned else new.tau.mean


def _beyond(M: np.ndarray, S: np.ndarray, move: np.ndarray) -> np.ndarray:
    """(I − M⁻¹S)⁻¹ δ of each feature, for symmetric M and S; far from the optimum eigenvalues of M⁻¹S may be 1 or more,
    and count as the largest that is allowed, so that the leap goes on in the direction of δ.
    """
    root = np.linalg.cholesky(M)
    back = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(back @ S @ np.matrix_transpose(back))
    along = _times(np.matrix_transpose(vectors) @ np.matrix_transpose(root), move)
    return _times(np.matrix_transpose(back) @ vectors, along / (1 - np.clip(values, 0.0, MOST_FOLLOWED)))
