"""The bound and the predictive variance against sampling from the fitted posterior."""

from dataclasses import dataclass, replace

import numpy as np
import oracle
import pytest
from cases import Problem, covariances, make_problem
from scipy.special import log_expit
from scipy.stats import gamma as gamma_distribution
from scipy.stats import norm

from sshiba.core.bound import elbo
from sshiba.core.global_step import global_step
from sshiba.core.likelihoods import Gaussian, Logistic, MultinomialProbit
from sshiba.core.local_step import make_messages, prepare_z, update_z
from sshiba.core.predictive import predictive_x
from sshiba.core.spec import ViewSpec
from sshiba.core.state import Fixed, Gamma, Posterior, ViewPosterior
from sshiba.data.types import VIEW_TYPES, Binary, Categorical, Real, View
from sshiba.engines.memory import Local
from sshiba.fitted.draws import draw_rows


def fitted(problem: Problem, n_sweeps: int = 10):
    posterior, local = problem.posterior, problem.rows.start(problem.posterior)
    for _ in range(n_sweeps):
        local, stats = problem.rows.step(posterior, local)
        posterior, _ = global_step(stats, posterior, problem.spec)
    return posterior, local, stats


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


# ------------------------------------------------------------------------------------------------------ the bound

BOUND_CASES: dict[str, list[View]] = {
    "real": [Real()],
    "real, one noise, selected": [Real(noise="view", select_features=True), Real()],
    "real, weighted": [Real(weight=0.4), Real(select_features=True, groups=(0, 0, 1))],
    "binary": [Binary()],
    "binary, learned noise": [Binary(noise="learned"), Real()],
    "binary, selected, weighted": [Binary(noise=1.0, select_features=True, weight=2.5)],
    "categorical": [Categorical()],
    "categorical, selected, weighted": [Categorical(select_features=True, weight=3.0), Real()],
    "all": [Real(weight=0.5), Binary(noise="learned", weight=0.7), Categorical(select_features=True)],
}
N_DRAWS = 20_000


def test_no_view_type_escapes_the_bound() -> None:
    assert {type(view) for views in BOUND_CASES.values() for view in views} == set(VIEW_TYPES.values())


@pytest.mark.parametrize(("holes", "missing"), [("none", "exact"), ("cells", "exact"), ("cells", "mean-field")])
@pytest.mark.parametrize("case", BOUND_CASES)
def test_bound_against_monte_carlo(case: str, holes: str, missing: str) -> None:
    """Every term of the bound is the mean of log p − log q over draws from q, and so is their sum.

    The bound is E_q[log p(z) − log q(z)] + Σ_m w_m E_q[log p(t, x, W, b, alpha, gamma, tau | z) − log q(x, W, b, ...)],
    with Jaakkola and Jordan's h(x, ξ) in the place of a binary p(t | x). q factorises, so that all can be drawn alone.
    It is taken after a whole sweep: z was updated given the globals and the x before it (here `before`), then x given
    this z, then the globals; each q is the one that its own update left.
    """
    views = BOUND_CASES[case]
    problem = make_problem(views, [3] * len(views), [holes] * len(views), n=6, n_components=2, missing=missing, seed=1)
    before, old, _ = fitted(problem, 3)
    local, stats = problem.rows.step(before, old)
    posterior, residuals = global_step(stats, before, problem.spec)
    rng = np.random.default_rng(0)
    z_mean, z_cov = q_of_z(problem, before, old)
    z, log_q = draw_normal(z_mean, z_cov, rng)
    drawn = {"z": (norm.logpdf(z).sum(-1) - log_q).sum(1)}
    for i, spec in enumerate(problem.spec.views):
        y = z_mean @ before.views[i].w_mean.T + before.views[i].b_mean
        x = draw_x(problem, i, y, before.views[i].tau.mean + 0 * y, old, local, rng)
        for name, values in view_terms(posterior.views[i], spec, z, x, rng).items():
            drawn[f"{name}:{spec.name}"] = spec.weight * values
    found = elbo(posterior, stats, problem.spec, residuals)
    assert found.keys() == drawn.keys()
    for name, values in (*drawn.items(), ("all", sum(drawn.values()))):
        expected = sum(found.values()) if name == "all" else found[name]
        error = np.std(values) / np.sqrt(N_DRAWS)
        assert abs(np.mean(values) - expected) <= 5 * error + 1e-9, name


@dataclass(frozen=True)
class DrawnX:
    """Draws of x of one view, which of its cells there are, and log p(t | x) − log q(x) of each draw."""

    x: np.ndarray  # (S, n, D)
    cells: np.ndarray  # (n, D) bool
    log_ratio: np.ndarray  # (S,)


def draw_x(
    problem: Problem, i: int, y: np.ndarray, tau: np.ndarray, old: Local, new: Local, rng: np.random.Generator
) -> DrawnX:
    """From q(x) as the update at y = <z><w> + <b> and <tau> left it; cells that have no q(x) are 0."""
    data, likelihood = problem.data[i], problem.spec.views[i].likelihood
    observed = np.broadcast_to(True if data.observed is None else data.observed, y.shape)
    # A hole that is a variable of its own: N(y, 1/tau), and no t that it would have to explain.
    is_hole = ~observed & (problem.missing == "mean-field")
    mean, var = np.where(is_hole, y, 0.0), np.where(is_hole, 1 / tau, 0.0)
    is_binary, curvature = isinstance(likelihood, Logistic), np.vectorize(oracle.jaakkola_lambda)
    if isinstance(likelihood, Gaussian):
        mean = np.where(observed, data.target, mean)
    if is_binary:  # q(x) is made with the ξ of the update before; what is kept is the best ξ for this q(x)
        var = np.where(observed, 1 / (tau + 2 * curvature(gather(problem, old, i, "xi"))), var)
        mean = np.where(observed, gather(problem, new, i, "mean"), mean)
    x = mean + np.sqrt(var) * rng.standard_normal((N_DRAWS, *y.shape))
    log_ratio = -norm.logpdf(x, mean, np.sqrt(np.where(var > 0, var, 1.0)))[:, var > 0].sum(1)
    if is_binary:
        xi = gather(problem, new, i, "xi")
        log_h = log_expit(xi) + x * data.target - (x + xi) / 2 - curvature(xi) * (x**2 - xi**2)
        log_ratio += log_h[:, observed].sum(1)
    if isinstance(likelihood, MultinomialProbit):  # N(y, I) where x_t is the largest, a share ξ of it; p(t | x) = 1
        for n in np.flatnonzero(observed[:, 0]):
            t = int(data.target[n])
            x[:, n] = draw_cone(y[n], t, rng)
            log_share = oracle.log_gauss_integral([0.0], np.delete(y[n, t] - y[n], t))
            log_ratio -= norm.logpdf(x[:, n], y[n]).sum(1) - log_share
    return DrawnX(x, observed | is_hole, log_ratio)


def draw_cone(y: np.ndarray, t: int, rng: np.random.Generator) -> np.ndarray:
    """N(y, I) where entry t is the largest, by rejection, (S, D)."""
    kept = np.empty((0, len(y)))
    while len(kept) < N_DRAWS:
        x = y + rng.standard_normal((4 * N_DRAWS, len(y)))
        kept = np.concatenate([kept, x[x.argmax(axis=1) == t]])
    return kept[:N_DRAWS]


def view_terms(
    view: ViewPosterior, spec: ViewSpec, z: np.ndarray, x: DrawnX, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """log p − log q of each variable of a view, for draws of all of them, (S,) each."""
    terms = {"t": x.log_ratio}
    draws = {}
    for name, q, prior in (
        ("alpha", view.alpha, spec.alpha_prior),
        ("gamma", view.gamma, spec.gamma_prior),
        ("tau", view.tau, spec.tau_prior),
    ):
        draws[name], terms[name] = np.broadcast_to(q.mean, (N_DRAWS, len(q.mean))), np.zeros(N_DRAWS)
        if not isinstance(q, Fixed):
            draws[name] = rng.gamma(q.shape, 1 / q.rate, (N_DRAWS, len(q.rate)))
            terms[name] = (log_gamma(draws[name], prior) - log_gamma(draws[name], q)).sum(1)
    w, log_q = draw_normal(view.w_mean, covariances(view.w_cov), rng)
    precision = draws["gamma"][:, spec.relevance, None] * draws["alpha"][:, None, :]
    terms["W"] = (norm.logpdf(w, 0, precision**-0.5).sum(2) - log_q).sum(1)
    b = rng.normal(view.b_mean, np.sqrt(view.b_var), (N_DRAWS, len(view.b_mean)))
    log_q = norm.logpdf(b, view.b_mean, np.sqrt(view.b_var))
    terms["b"] = (norm.logpdf(b, 0, spec.b_precision**-0.5) - log_q).sum(1)
    fit = np.einsum("snk,sdk->snd", z, w) + b[:, None, :]
    terms["x"] = norm.logpdf(x.x, fit, draws["tau"][:, None, :] ** -0.5)[:, x.cells].sum(1)
    return terms


def q_of_z(problem: Problem, posterior: Posterior, local: Local) -> tuple[np.ndarray, np.ndarray]:
    """What these globals and this q(x) say of z: (n, K) and (n, K, K), in the order of the data."""
    n, k = problem.rows.n_rows, posterior.n_components
    mean, cov = np.empty((n, k)), np.empty((n, k, k))
    messages = make_messages(posterior, problem.spec, problem.rows.groups)
    for block, x, part in zip(problem.rows.blocks, local.x, problem.rows.slices):
        known = prepare_z(block, messages)
        mean[problem.rows.order[part]] = update_z(block, x, known, messages)
        cov[problem.rows.order[part]] = known.cov
    return mean, cov


def gather(problem: Problem, local: Local, i: int, name: str) -> np.ndarray:
    """What is kept of each cell of a view's q(x), in the order of the data; 1 where nothing is."""
    out = np.ones((problem.rows.n_rows, problem.spec.views[i].n_features))
    for x, part in zip(local.x, problem.rows.slices):
        kept = getattr(x[i], name)
        if kept is not None:
            out[problem.rows.order[part]] = kept
    return out


def draw_normal(mean: np.ndarray, cov: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws of several Gaussian vectors, (S, m, K), and their log densities, (S, m)."""
    root = np.linalg.cholesky(cov)
    unit = rng.standard_normal((N_DRAWS, *mean.shape))
    log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
    return mean + np.einsum("mkl,sml->smk", root, unit), norm.logpdf(unit).sum(2) - log_det


def log_gamma(x: np.ndarray, q: Gamma) -> np.ndarray:
    return gamma_distribution.logpdf(x, q.shape, scale=1 / q.rate)
