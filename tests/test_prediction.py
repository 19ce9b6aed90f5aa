"""The bound and the predictive variance against sampling from the fitted posterior."""

from dataclasses import replace

import numpy as np
import pytest
from cases import Problem, covariances, make_problem
from scipy.stats import gamma as gamma_distribution
from scipy.stats import multivariate_normal, norm

from sshiba.core.bound import elbo
from sshiba.core.global_step import global_step
from sshiba.core.local_step import make_messages, prepare_z, update_z
from sshiba.core.predictive import predictive_x
from sshiba.core.state import Fixed, ViewPosterior
from sshiba.data.types import Binary, Real
from sshiba.fitted.draws import draw_rows


def fitted(problem: Problem, n_sweeps: int = 10):
    posterior, local = problem.posterior, problem.rows.start(problem.posterior)
    for _ in range(n_sweeps):
        local, stats = problem.rows.step(posterior, local)
        posterior, _ = global_step(stats, posterior, problem.spec)
    return posterior, local, stats


def draw_globals(view: ViewPosterior, rng: np.random.Generator):
    w = np.stack([rng.multivariate_normal(m, c) for m, c in zip(view.w_mean, covariances(view.w_cov))])
    b = rng.normal(view.b_mean, np.sqrt(view.b_var))
    tau = view.tau.value if isinstance(view.tau, Fixed) else rng.gamma(view.tau.shape, 1 / view.tau.rate)
    return w, b, tau


@pytest.mark.parametrize("holes", ["none", "cells"])
def test_predictive_variance_against_sampling(holes: str) -> None:
    """Noise, z, W and b: all four parts, in a posterior in which each is large enough to be missed."""
    rng = np.random.default_rng(0)
    problem = make_problem([Real(), Real(noise="view")], [4, 3], [holes, "none"], n=9, n_components=2)
    posterior, _, _ = fitted(problem)
    part = next(iter(problem.rows.infer(posterior)))
    n_draws = 200_000
    for fitted_view in posterior.views:
        view = fitted_view
        spread = 0.1 + rng.random(view.w_cov.spread.shape) / np.max(view.w_cov.basis**2)
        w_cov = replace(view.w_cov, spread=spread)
        view = replace(view, b_var=0.2 + view.b_var).with_weights(rng.normal(size=view.w_mean.shape), w_cov)
        z_mean, z_cov = 0.5 + part.z_mean[:1], part.z_cov[:1]
        x = predictive_x(view, z_mean, z_cov)
        parts = {"noise": x.noise_var, "z": (x.z_factor**2).sum(-1), "W": x.own_var - view.b_var, "b": view.b_var}
        assert all((part / x.var > 0.03).any() for part in parts.values())
        size = (n_draws, len(view.b_mean))
        w = view.w_mean + np.einsum(
            "dkl,ndl->ndk", np.linalg.cholesky(covariances(view.w_cov)), rng.normal(size=(*size, 2))
        )
        z = z_mean + rng.normal(size=(n_draws, 2)) @ np.linalg.cholesky(z_cov[0]).T
        b = view.b_mean + np.sqrt(view.b_var) * rng.normal(size=size)
        tau = rng.gamma(view.tau.shape, 1 / view.tau.rate, size=(n_draws, len(view.tau.rate)))
        draws = np.einsum("nk,ndk->nd", z, w) + b + rng.normal(size=size) / np.sqrt(tau)
        np.testing.assert_allclose(x.mean[0], draws.mean(0), atol=0.03)
        np.testing.assert_allclose(x.var[0], draws.var(0), rtol=0.02)


def test_samples_have_the_predictive_moments() -> None:
    problem = make_problem([Real(), Binary()], [4, 3], ["none", "none"], n=40, n_components=2)
    posterior, _, _ = fitted(problem)
    x, t = draw_rows(posterior, problem.spec, 40_000, np.random.default_rng(0))
    view = posterior.views[0]
    prior = predictive_x(view, np.zeros((1, 2)), np.eye(2)[None])
    np.testing.assert_allclose(x.mean(0), prior.mean[0], atol=0.05)
    np.testing.assert_allclose(x.var(0), prior.var[0], rtol=0.08)
    p, _ = problem.spec.views[1].likelihood.predict(predictive_x(posterior.views[1], np.zeros((1, 2)), np.eye(2)[None]))
    np.testing.assert_allclose(t.mean(0), p[0], atol=0.01)


@pytest.mark.parametrize("views", [[Real()], [Real(noise="view", select_features=True), Real()]])
def test_bound_against_monte_carlo(views: list) -> None:
    """E_q[log p(x, all variables) − log q(all variables)], by drawing from q."""
    rng = np.random.default_rng(1)
    problem = make_problem(views, [3] * len(views), ["cells"] + ["none"] * (len(views) - 1), n=5, n_components=2)
    posterior, local, stats = fitted(problem, 4)
    # q(z) as it was in the last local step: the globals before the last global step made it.
    before, local, _ = fitted(problem, 3)
    messages = make_messages(before, problem.spec, problem.rows.groups)
    z_parts = []
    for block, x, part in zip(problem.rows.blocks, local.x, problem.rows.slices):
        prior = prepare_z(block, messages)
        z_parts.append((problem.rows.order[part], update_z(block, x, prior, messages), prior.cov))
    values = [log_ratio(problem, posterior, z_parts, rng) for _ in range(4000)]
    expected = sum(elbo(posterior, stats, problem.spec).values())
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 5 * error


def log_ratio(problem: Problem, posterior, z_parts, rng: np.random.Generator) -> float:
    n, k = problem.rows.n_rows, posterior.n_components
    z, total = np.empty((n, k)), 0.0
    for rows, mean, cov in z_parts:
        for i, row in enumerate(rows):
            q = multivariate_normal(mean[i], cov[0 if len(cov) == 1 else i])
            z[row] = q.rvs(random_state=rng)
            total += norm.logpdf(z[row]).sum() - q.logpdf(z[row])
    for data, view, spec in zip(problem.data, posterior.views, problem.spec.views):
        alpha, gamma, tau = view.alpha, view.gamma, view.tau
        alpha_draw = rng.gamma(alpha.shape, 1 / alpha.rate)
        total += log_gamma(alpha_draw, spec.alpha_prior) - log_gamma(alpha_draw, alpha)
        gamma_draw = np.ones(spec.n_features)
        if not isinstance(gamma, Fixed):
            gamma_draw = rng.gamma(gamma.shape, 1 / gamma.rate)
            total += log_gamma(gamma_draw, spec.gamma_prior) - log_gamma(gamma_draw, gamma)
        w, b, _ = draw_globals(view, rng)
        for d, cov in enumerate(covariances(view.w_cov)):
            total += norm.logpdf(w[d], 0, (gamma_draw[d] * alpha_draw) ** -0.5).sum()
            total -= multivariate_normal(view.w_mean[d], cov).logpdf(w[d])
        total += norm.logpdf(b).sum() - norm.logpdf(b, view.b_mean, np.sqrt(view.b_var)).sum()
        tau_draw = rng.gamma(tau.shape, 1 / tau.rate)
        total += log_gamma(tau_draw, spec.tau_prior) - log_gamma(tau_draw, tau)
        cells = norm.logpdf(data.target, z @ w.T + b, tau_draw**-0.5)
        total += cells.sum() if data.observed is None else cells[np.broadcast_to(data.observed, cells.shape)].sum()
    return total


def log_gamma(x: np.ndarray, q) -> float:
    return gamma_distribution.logpdf(x, q.shape, scale=1 / q.rate).sum()
