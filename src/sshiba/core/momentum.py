"""Momentum: the next sweep starts ahead of the globals, in the direction in which the last one moved them.

Coordinate ascent creeps where variables are strongly coupled, such as z and the noise of a feature that the factors
tell nearly exactly: each sweep is a small step in much the same direction. Extrapolation only moves the point at which
the local step is taken. All updates after it are exact, so the bound is that of a proper state, and a step that went
too far is seen at once (Nesterov's scheme, restarted where the bound would fall).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .state import Gamma, Posterior

LARGEST = 0.99  # share of the last step that is taken once more
MOST_PLAIN = 5.0  # sweeps that one with momentum counts for, at most, where a fit decides whether it still rises


class Past(NamedTuple):
    """The globals that rows are told of, one sweep ago and in the present axes: <W>, <b> and tau of each view, and the
    precisions of the factors in groups of samples.
    """

    w_mean: tuple[np.ndarray, ...]
    b_mean: tuple[np.ndarray, ...]
    tau: tuple[np.ndarray, ...]
    activity: np.ndarray  # (S, K)


def remember(posterior: Posterior, R: np.ndarray | None) -> Past:
    """`posterior` seen from the axes after a rotation, W R and Z R⁻ᵀ; None for no rotation."""
    views, activity = posterior.views, posterior.activity.mean
    if R is not None:
        k = posterior.n_components
        activity = 1 / ((1 / activity) @ (np.linalg.inv(R)[:k, :k] ** 2).T)  # variances along the new axes
    return Past(
        tuple(view.w_mean if R is None else view.w_mean @ R for view in views),
        tuple(view.b_mean for view in views),
        tuple(view.tau.mean for view in views),
        activity,
    )


def share(n_ahead: int) -> float:
    """Of the last step, which is taken once more after so many sweeps that did so with success."""
    return min(n_ahead / (n_ahead + 3), LARGEST)


def plain_sweeps(n_ahead: int) -> float:
    """How many plain sweeps one with momentum does the work of: near an optimum 1/(1 − share)."""
    return min(1 / (1 - share(n_ahead)), MOST_PLAIN)


def extrapolate(posterior: Posterior, past: Past, n_ahead: int) -> Posterior:
    """The globals moved on by a share of their last step; tau and the activity by its ratio."""
    part = share(n_ahead)
    if part == 0:
        return posterior

    def further(learned: Gamma, before: np.ndarray) -> Gamma:
        return Gamma(learned.shape, learned.rate * (before / learned.mean) ** part)

    views = []
    for view, w_mean, b_mean, tau in zip(posterior.views, past.w_mean, past.b_mean, past.tau):
        moved = view.with_weights(view.w_mean + part * (view.w_mean - w_mean), view.w_cov)
        learned = further(view.tau, tau) if isinstance(view.tau, Gamma) else view.tau
        views.append(replace(moved, b_mean=view.b_mean + part * (view.b_mean - b_mean), tau=learned))
    return Posterior(tuple(views), further(posterior.activity, past.activity))
