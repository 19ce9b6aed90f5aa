"""The first state of a fit: weights along the leading directions of the data, or random; with proper covariances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .spec import ModelSpec, ViewSpec
from .state import ColumnGroups, Fixed, Gamma, Posterior, ViewPosterior, WeightCovariance

NOISE_SHARE = 0.5  # of a feature's variance, at the start
WIDE = 600  # features: of more, only the leading directions of XᵀX are sought
SPARE = 10  # directions beyond those that are wanted, so that the last ones are right too
ROUNDS = 4  # of the subspace iteration: the directions of large singular values need no more
FAINT = 1e-3  # of the variance of a feature: that of random weights where the data have too few directions


def random_posterior(
    spec: ModelSpec, n_components: int, groups: Sequence[ColumnGroups], rng: np.random.Generator
) -> Posterior:
    """Half of each feature's variance is given to the factors, half to the noise; covariates do nothing yet."""
    factors = random_factors(spec, n_components, groups, rng)
    views = tuple(_with_covariates(view, own, spec.n_known) for view, own in zip(factors.views, spec.views))
    return replace(factors, views=views)


def random_factors(
    spec: ModelSpec, n_components: int, groups: Sequence[ColumnGroups], rng: np.random.Generator
) -> Posterior:
    """The same without covariates."""
    views = tuple(_random_view(view, n_components, g, rng) for view, g in zip(spec.views, groups))
    each = np.ones((spec.n_groups, n_components))
    return Posterior(views, Gamma(each, each))


def plain_posterior(spec: ModelSpec, groups: Sequence[ColumnGroups]) -> Posterior:
    """For a first q(x) before there is any posterior: its tau is all that matters."""
    return random_posterior(spec, 1, groups, np.random.default_rng(0))


def posterior_along(
    spec: ModelSpec, groups: Sequence[ColumnGroups], directions: np.ndarray, rng: np.random.Generator
) -> Posterior:
    """The weights of `directions` (ΣD, K), in units of each feature's deviation; random and faint where they are 0."""
    start = random_posterior(spec, directions.shape[1] - spec.n_known, groups, rng)
    views, first = [], 0
    for view, view_spec in zip(start.views, spec.views):
        own = directions[first : first + view_spec.n_features]
        first += view_spec.n_features
        if view_spec.known:
            views.append(view)
            continue
        faint = np.sqrt(FAINT) * view.w_mean
        w_mean = np.where(own.any(axis=0), own * np.sqrt(view_spec.variance)[:, None], faint)
        views.append(replace(view, w_mean=w_mean, w_second=view.w_cov.spread + w_mean**2))
    return replace(start, views=tuple(views))


def posterior_like(
    fitted: Posterior, spec: ModelSpec, groups: Sequence[ColumnGroups], rng: np.random.Generator
) -> Posterior:
    """The means of a fit to other rows of the same kind; what depends on which cells these rows have starts anew."""
    start = random_posterior(spec, fitted.n_components, groups, rng)
    views = []
    for view, own in zip(start.views, fitted.views):
        w_second = view.w_cov.spread + own.w_mean**2
        kept = {name: getattr(own, name) for name in ("w_mean", "b_mean", "b_var", "alpha", "gamma", "tau")}
        views.append(replace(view, w_second=w_second, **kept))
    return Posterior(tuple(views), fitted.activity)


def leading_directions(multiply: Callable[[np.ndarray], np.ndarray], n_features: int, k: int) -> np.ndarray:
    """v_j √λ_j of the k largest eigenvalues of a correlation matrix C, (D, k); zero where it has no more.

    `multiply` gives C Q for a D x p matrix Q. A wide C is never formed: Q ← orth(C Q), repeated, turns any Q towards
    the leading eigenvectors (Halko, Martinsson and Tropp 2011), and QᵀCQ has nearly their eigenvalues.
    """
    if n_features <= WIDE:
        basis = np.eye(n_features)
    else:
        basis = np.random.default_rng(0).standard_normal((n_features, min(k + SPARE, n_features)))
        for _ in range(ROUNDS):
            basis = np.linalg.qr(multiply(basis))[0]
    values, vectors = np.linalg.eigh(basis.T @ multiply(basis))
    values, vectors = values[::-1][:k], basis @ vectors[:, ::-1][:, :k]
    strong = values > 1e-9 * max(values[0], 1e-300)
    found = np.where(strong, vectors * np.sqrt(np.where(strong, values, 0.0)), 0.0)
    return np.pad(found, ((0, 0), (0, k - found.shape[1])))


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


def _with_covariates(view: ViewPosterior, spec: ViewSpec, n_known: int) -> ViewPosterior:
    """With one factor for each covariate behind the others; of the covariates themselves these are the weights."""
    if n_known == 0:
        return view
    n_features, k = view.w_mean.shape
    g, total = len(view.w_cov.groups), k + n_known
    if spec.known:
        w_mean = np.concatenate([np.zeros((n_features, k)), np.eye(n_known)], axis=1)
        nothing = np.zeros(n_features)
        cov = WeightCovariance(np.zeros((g, total, total)), np.zeros_like(w_mean), nothing, view.w_cov.groups)
        return replace(view, b_var=nothing).with_weights(w_mean, cov)
    own = (1 - NOISE_SHARE) * spec.variance * FAINT  # of each effect
    spread = np.concatenate([view.w_cov.spread, np.tile(own[:, None], n_known)], axis=1)
    basis = np.broadcast_to(np.eye(total), (g, total, total)).copy()
    cov = WeightCovariance(basis, spread, np.log(spread).sum(axis=1), view.w_cov.groups)
    return view.with_weights(np.concatenate([view.w_mean, np.zeros((n_features, n_known))], axis=1), cov)


def _first_tau(spec: ViewSpec) -> Gamma | Fixed:
    if spec.tau_prior is None:
        return Fixed(np.array([spec.tau_fixed]))
    noise = NOISE_SHARE * (spec.variance if len(spec.tau_prior.rate) > 1 else np.array([spec.variance.mean()]))
    return Gamma(np.ones_like(noise), noise)
