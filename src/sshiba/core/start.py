"""The first state of a fit: random weights on the scale of the data, with proper covariances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .spec import ModelSpec, ViewSpec
from .state import ColumnGroups, Fixed, Gamma, Posterior, ViewPosterior, WeightCovariance

NOISE_SHARE = 0.5  # of a feature's variance, at the start


def random_posterior(
    spec: ModelSpec, n_components: int, groups: Sequence[ColumnGroups], rng: np.random.Generator
) -> Posterior:
    """Half of each feature's variance is given to the factors, half to the noise."""
    return Posterior(tuple(_random_view(view, n_components, g, rng) for view, g in zip(spec.views, groups)))


def _random_view(spec: ViewSpec, n_components: int, groups: ColumnGroups, rng: np.random.Generator) -> ViewPosterior:
    size = (spec.n_features, n_components)
    var = (1 - NOISE_SHARE) * spec.variance / n_components  # of each weight
    spread = np.broadcast_to(0.1 * var[:, None], size).copy()
    basis = np.broadcast_to(np.eye(n_components), (len(groups), n_components, n_components)).copy()
    n_gammas = int(spec.relevance.max()) + 1
    w_mean = rng.standard_normal(size) * np.sqrt(var)[:, None]
    return ViewPosterior(
        w_mean=w_mean,
        w_second=spread + w_mean**2,
        w_cov=WeightCovariance(basis, spread, np.log(spread).sum(axis=1), groups),
        b_mean=np.zeros(spec.n_features),
        b_var=np.ones(spec.n_features),
        alpha=Gamma(np.ones(n_components), np.full(n_components, float(np.mean(var)))),
        gamma=Gamma(np.ones(n_gammas), np.ones(n_gammas)) if spec.select_features else Fixed(np.ones(n_gammas)),
        tau=_first_tau(spec),
    )


def _first_tau(spec: ViewSpec) -> Gamma | Fixed:
    if spec.tau_prior is None:
        return Fixed(np.array([spec.tau_fixed]))
    noise = NOISE_SHARE * (spec.variance if len(spec.tau_prior.rate) > 1 else np.array([spec.variance.mean()]))
    return Gamma(np.ones_like(noise), noise)
