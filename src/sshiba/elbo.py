"""The exact evidence lower bound, term by term, from the posterior and the statistics: it never touches data."""

from __future__ import annotations

from math import log, pi

from .model import Model, ViewModel
from .moments import w_second
from .special import array_namespace
from .state import Array, Fixed, Gamma, Posterior, Stats, ViewPosterior, ViewStats
from .updates import residual_second


def elbo(posterior: Posterior, stats: Stats, model: Model) -> dict[str, float]:
    """Named terms of the bound, in nats; their sum is the bound. A view of weight w counts w times, in all terms."""
    terms = {"z": float(z_term(stats))}
    for vs, view, spec in zip(stats.views, posterior.views, model.views):
        for name, value in view_terms(vs, view, spec).items():
            terms[f"{name}:{spec.name}"] = spec.weight * float(value)
    return terms


def z_term(stats: Stats) -> Array:
    """Σ_n E log p(z) − E log q(z) = −½ tr<ZᵀZ> + ½ Σ log|Σ_n| + NK/2."""
    xp = array_namespace(stats.zz)
    return 0.5 * (stats.z_logdet - xp.linalg.trace(stats.zz) + stats.n * stats.zz.shape[0])


def view_terms(stats: ViewStats, view: ViewPosterior, model: ViewModel) -> dict[str, Array]:
    return {
        "x": x_term(stats, view),
        "t": stats.bound,
        "W": w_term(view, model),
        "b": b_term(view, model),
        "alpha": gamma_term(view.alpha, model.alpha_prior),
        "gamma": 0.0 if isinstance(view.gamma, Fixed) else gamma_term(view.gamma, model.gamma_prior),
        "tau": 0.0 if isinstance(view.tau, Fixed) else gamma_term(view.tau, model.tau_prior),
    }


def x_term(stats: ViewStats, view: ViewPosterior) -> Array:
    """E log p(x | z, W, b, tau) = Σ_d ½ n_d (E log tau_d − log 2π) − ½ tau_d E Σ(x − zw − b)²."""
    xp = array_namespace(view.w_mean)
    n = stats.n[stats.groups.index]
    return 0.5 * xp.sum(n * (view.tau.log_mean - log(2 * pi)) - view.tau.mean * residual_second(stats, view))


def w_term(view: ViewPosterior, model: ViewModel) -> Array:
    """E log p(W | alpha, gamma) − E log q(W); log 2π cancels between the two."""
    xp = array_namespace(view.w_mean)
    n_features, n_components = view.w_mean.shape
    gamma, log_gamma = view.gamma.mean[model.relevance], view.gamma.log_mean[model.relevance]
    log_prior = n_features * xp.sum(view.alpha.log_mean) + n_components * xp.sum(log_gamma)
    energy = (gamma @ w_second(view)) @ view.alpha.mean
    return 0.5 * (log_prior - energy + xp.sum(view.w_cov.logdet) + n_features * n_components)


def b_term(view: ViewPosterior, model: ViewModel) -> Array:
    xp = array_namespace(view.b_mean)
    beta = model.b_precision
    return 0.5 * xp.sum(xp.log(view.b_var) + log(beta) - beta * (view.b_mean**2 + view.b_var) + 1)


def gamma_term(q: Gamma, prior: Gamma | None) -> Array:
    """E log p − E log q of Gamma variables, written out."""
    assert prior is not None
    xp = array_namespace(q.rate)
    log_p = prior.log_scale + (prior.shape - 1) * q.log_mean - prior.rate * q.mean
    log_q = q.log_scale + (q.shape - 1) * q.log_mean - q.shape
    return xp.sum(log_p - log_q)
