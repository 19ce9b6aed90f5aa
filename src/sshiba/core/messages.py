"""What rows need to know of the globals: small, and made once a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .likelihoods import Likelihood
from .spec import ModelSpec
from .state import Array, ColumnGroups, Posterior
from .w_moments import weighted_ww


@dataclass(frozen=True)
class Message:
    """What rows need to know of one view's globals."""

    likelihood: Likelihood
    loading: Array  # (D, K): w_m tau_d <w_d>
    w_mean: Array  # (D, K)
    b_mean: Array  # (D,)
    tau: Array  # (D,) or (1,)
    weight: float = 1.0  # w_m
    strength: tuple[float, ...] = ()  # of the features of a latent view: w_m tau_d |<w_d>|²

    @property
    def copies(self) -> float:
        """How often a latent cell counts: the weight of the view, at least 1."""
        return max(1.0, self.weight)


@dataclass(frozen=True)
class Messages:
    """All that rows need to know of the globals; small, and made once per sweep.

    `ww` and `offset` are of the column groups of all views, then of the S groups of samples: what a row has of them is
    added to the precision I of its z, so that the prior of a row in group s has the precision diag(a_s).
    """

    views: tuple[Message, ...]
    ww: Array  # (ΣG + S, K²): w_m Σ_{d in group} tau_d <w_d w_dᵀ>; diag(a_s) − I
    offset: Array  # (ΣG + S, K): w_m Σ_{d in group} tau_d <b_d> <w_d>; 0

    @property
    def n_factors(self) -> int:
        """As `Posterior.n_factors`."""
        return int(self.offset.shape[1])


Globals = Posterior | Messages  # what rows are asked with: where they are far away the messages are made once for all


def make_messages(posterior: Globals, spec: ModelSpec, groups: Sequence[ColumnGroups]) -> Messages:
    """From the globals to the rows; `groups` are the column groups of each view of these rows."""
    if isinstance(posterior, Messages):
        return posterior
    views, ww, offset = [], [], []
    for view, view_spec, columns in zip(posterior.views, spec.views, groups):
        tau = view_spec.weight * view.tau.mean + np.zeros_like(view.b_mean)
        loading = tau[:, None] * view.w_mean
        ww.append(np.reshape(weighted_ww(view, tau, loading, columns), (len(columns), -1)))
        offset.append(columns.totals(view.b_mean[:, None] * loading))
        moments = (loading, view.w_mean, view.b_mean, view.tau.mean)
        strength = np.sum(loading * view.w_mean, axis=1).tolist() if view_spec.likelihood.latent else ()
        views.append(Message(view_spec.likelihood, *moments, view_spec.weight, tuple(strength)))
    if spec.n_groups:
        more = np.zeros((spec.n_groups, offset[0].shape[1]))  # than the precision 1; of covariates nothing
        more[:, : posterior.n_components] = posterior.activity.mean - 1
        ww.append(np.reshape(more[:, :, None] * np.eye(more.shape[1]), (len(more), -1)))
        offset.append(np.zeros_like(more))
    return Messages(tuple(views), ww[0] if len(ww) == 1 else np.concatenate(ww), np.concatenate(offset))
