"""The exact evidence lower bound, term by term, from the posterior and the statistics: it never touches data."""

from __future__ import annotations

from math import log, pi

import numpy as np

from .global_step import Residuals, expected_residual
from .spec import ModelSpec, ViewSpec
from .state import Fixed, Gamma, Posterior, Stats, ViewPosterior, ViewStats


def elbo(posterior: Posterior, stats: Stats, spec: ModelSpec, residuals: Residuals | None = None) -> dict[str, float]:
    """Named terms of the bound, in nats; their sum is the bound. A view of weight w counts w times, in all terms.

    `residuals` are those of `global_step`, where it has just been done.
    """
    terms = {"z": z_term(posterior, stats)}
    if spec.n_groups:
        terms["activity"] = gamma_term(posterior.activity, spec.activity_prior)
    if residuals is None:
        residuals = tuple(expected_residual(vs, view) for vs, view in zip(stats.views, posterior.views))
    for vs, view, view_spec, residual in zip(stats.views, posterior.views, spec.views, residuals):
        if view_spec.known:
            terms[f"x:{view_spec.name}"] = known_term(vs, view, residual)
            continue
        for name, value in view_terms(vs, view, view_spec, residual).items():
            terms[f"{name}:{view_spec.name}"] = view_spec.weight * float(value)
    return terms


def rows_bound(posterior: Posterior, stats: Stats, spec: ModelSpec) -> float:
    """The part of the bound that belongs to the rows: Σ_n of a bound on log p(row), the globals at their posterior."""
    total = z_term(posterior, stats)
    for vs, view, view_spec in zip(stats.views, posterior.views, spec.views):
        residual = expected_residual(vs, view)
        total += known_term(vs, view, residual) if view_spec.known else x_term(vs, view, residual) + float(vs.bound)
    return total


def z_term(posterior: Posterior, stats: Stats) -> float:
    """Σ_n E log p(z) − E log q(z) = −½ tr<ZᵀZ> + ½ Σ log|Σ_n| + NK/2.

    Of rows in a group of samples −½ Σ_k a_k <z_k²> + ½ Σ_k E log a_k takes the place of −½ |<z>|².
    """
    a, groups = posterior.activity, stats.groups
    within = np.sum((a.mean - 1) * groups.squares(posterior.n_components)) - np.sum(groups.n @ a.log_mean)
    return 0.5 * float(stats.z_logdet - np.trace(stats.zz) - within + stats.n * stats.zz.shape[0])


def view_terms(stats: ViewStats, view: ViewPosterior, spec: ViewSpec, residual: np.ndarray) -> dict[str, float]:
    return {
        "x": x_term(stats, view, residual),
        "t": float(stats.bound),
        "W": w_term(view, spec),
        "b": b_term(view, spec),
        "alpha": gamma_term(view.alpha, spec.alpha_prior),
        "gamma": 0.0 if isinstance(view.gamma, Fixed) else gamma_term(view.gamma, spec.gamma_prior),
        "tau": 0.0 if isinstance(view.tau, Fixed) else gamma_term(view.tau, spec.tau_prior),
    }


def x_term(stats: ViewStats, view: ViewPosterior, residual: np.ndarray) -> float:
    """E log p(x | z, W, b, tau) = Σ_d ½ n_d (E log tau_d − log 2π) − ½ tau_d E Σ(x − zw − b)²."""
    n = stats.n[stats.groups.index]
    return 0.5 * float(np.sum(n * (view.tau.log_mean - log(2 * pi)) - view.tau.mean * residual))


def known_term(stats: ViewStats, view: ViewPosterior, residual: np.ndarray) -> float:
    """E log p(c | z) − log p(c), c ~ N(0, 1 + 1/tau): with it the bound is one of log p(t | c)."""
    n, variance = stats.n[stats.groups.index], 1 + 1 / view.tau.mean
    log_p = -0.5 * float(np.sum(n * np.log(2 * pi * variance) + stats.xx / variance))
    return x_term(stats, view, residual) - log_p


def w_term(view: ViewPosterior, spec: ViewSpec) -> float:
    """E log p(W | alpha, gamma) − E log q(W); log 2π cancels between the two."""
    n_features, n_components = view.w_mean.shape
    gamma, log_gamma = view.gamma.mean[spec.relevance], view.gamma.log_mean[spec.relevance]
    log_prior = n_features * np.sum(view.alpha_log_mean) + n_components * np.sum(log_gamma)
    energy = (gamma @ view.w_second) @ view.alpha_mean
    return 0.5 * float(log_prior - energy + np.sum(view.w_cov.logdet) + n_features * n_components)


def b_term(view: ViewPosterior, spec: ViewSpec) -> float:
    """E log p(b) + H[q(b)], log|β (I − s 11ᵀ)| = D log β + log(1 − s D)."""
    beta, share = spec.b_precision, spec.b_in_common
    own, common = np.sum(view.b_mean**2 + view.b_var), np.sum(view.b_mean) ** 2 + np.sum(view.b_var)
    log_prior = spec.n_features * log(beta) + log(1 - share * spec.n_features) - beta * (own - share * common)
    return 0.5 * float(log_prior + np.sum(np.log(view.b_var) + 1))


def gamma_term(q: Gamma, prior: Gamma | None) -> float:
    """E log p − E log q of Gamma variables, written out."""
    assert prior is not None
    log_p = prior.log_scale + (prior.shape - 1) * q.log_mean - prior.rate * q.mean
    log_q = q.log_scale + (q.shape - 1) * q.log_mean - q.shape
    return float(np.sum(log_p - log_q))
