"""The bound and the predictive variance against sampling from the fitted posterior."""

from dataclasses import dataclass, replace

import numpy as np
import oracle
import pytest
from cases import Problem, covariances, interval_ends, make_problem, with_offsets
from scipy.special import log_expit
from scipy.stats import gamma as gamma_distribution
from scipy.stats import multivariate_normal, norm, poisson, truncnorm

from sshiba import SSHIBA
from sshiba.core import latent_view
from sshiba.core.bound import elbo
from sshiba.core.global_step import global_step
from sshiba.core.likelihoods import Censored, Interval, Likelihood, Poisson, Threshold
from sshiba.core.local_step import prepare_z, update_z
from sshiba.core.messages import make_messages
from sshiba.core.predictive import predictive_x
from sshiba.core.spec import ViewSpec
from sshiba.core.state import Fixed, Gamma, Posterior, ViewPosterior
from sshiba.data.types import VIEW_TYPES, Binary, Categorical, Count, Ordinal, Real, View
from sshiba.engines.memory import MemoryLocal
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
    "binary": [Binary(), Real()],
    "binary, logit": [Binary(link="logit")],
    "binary, logit, learned noise": [Binary(link="logit", noise="learned"), Real()],
    "binary, selected, weighted": [Binary(select_features=True, weight=2.0)],
    "categorical": [Categorical()],
    "categorical, selected, weighted": [Categorical(select_features=True, weight=3.0), Real()],
    "ordinal": [Ordinal(), Real()],
    "limits": [Real(limits=(-0.5, 0.5)), Real()],
    "ordinal, one noise, weighted": [Ordinal(noise="view", weight=2.0)],
    "count": [Count(), Real()],
    "count, each its noise, weighted": [Count(noise="feature", weight=2.0)],
    "all": [
        Real(weight=0.5),
        Binary(link="logit", noise=0.5, weight=0.7),
        Categorical(select_features=True),
        Categorical(),
    ],
}
N_DRAWS = 20_000


def test_no_view_type_escapes_the_bound() -> None:
    assert {type(view) for views in BOUND_CASES.values() for view in views} == set(VIEW_TYPES.values())


@pytest.mark.parametrize(("holes", "missing"), [("none", "exact"), ("cells", "exact"), ("cells", "mean-field")])
@pytest.mark.parametrize("case", BOUND_CASES)
def test_bound_against_monte_carlo(case: str, holes: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every term of the bound is the mean of log p − log q over draws from q, and so is their sum.

    The bound is E_q[log p(z) − log q(z | x)] + Σ_m w_m E_q[log p(t, x, W, b, alpha, gamma, tau | z) − log q(x, W,
    b, ...)], with Jaakkola and Jordan's h(x, ξ) in the place of a logistic p(t | x). It is taken after a whole
    sweep: x was updated given the globals and the x before it (here `before` and `old`), z given x, then the
    globals; each q is the one that its own update left. Under "mean-field" z came first, and does not depend on x.
    A view of weight 2 or 3 has as many copies of its x, of which z sees the mean.
    """
    monkeypatch.setattr(latent_view, "ALL_AT_ONCE", 2.0)  # one update for each cell: the bound is exact for any q
    views = BOUND_CASES[case]
    problem = make_problem(views, [3] * len(views), [holes] * len(views), n=6, n_components=2, missing=missing, seed=1)
    before, old, _ = fitted(problem, 3)
    local, stats = problem.rows.step(before, old)
    posterior, residuals = global_step(stats, before, problem.spec)
    rng = np.random.default_rng(0)
    follows = missing == "exact"
    z_mean, z_cov = q_of_z(problem, before, local if follows else old)
    drawn_x, moved = [], 0.0
    for i, spec in enumerate(problem.spec.views):
        x = draw_x(problem, i, before, old, local, rng)
        drawn_x.append(x)
        if follows:
            gain = (
                spec.weight * (before.views[i].tau.mean + 0 * before.views[i].b_mean)[:, None] * before.views[i].w_mean
            )
            step = x.x.mean(axis=0) - gather(problem, local, i, "mean") if spec.likelihood.latent else 0 * x.x[0]
            moved = moved + np.einsum("snd,dk,nkl->snl", np.where(x.cells, step, 0.0), gain, z_cov)
    z, log_q = draw_normal(z_mean, z_cov, rng)  # q(z | x) is N(z_mean + moved, z_cov)
    z = z + moved
    drawn = {"z": (norm.logpdf(z).sum(-1) - log_q).sum(1)}
    for spec, view, x in zip(problem.spec.views, posterior.views, drawn_x):
        for name, values in view_terms(view, spec, z, x, rng).items():
            drawn[f"{name}:{spec.name}"] = spec.weight * values
    found = elbo(posterior, stats, problem.spec, residuals)
    assert found.keys() == drawn.keys()
    for name, values in (*drawn.items(), ("all", sum(drawn.values()))):
        expected = sum(found.values()) if name == "all" else found[name]
        error = np.std(values) / np.sqrt(N_DRAWS)
        assert abs(np.mean(values) - expected) <= 5 * error + 1e-9, name


@dataclass(frozen=True)
class DrawnX:
    """Draws of the copies of x of one view, which of its cells there are, and log p(t | x) − log q(x), over copies."""

    x: np.ndarray  # (copies, S, n, D)
    cells: np.ndarray  # (n, D) bool
    log_ratio: np.ndarray  # (S,), the mean of all copies


def draw_x(
    problem: Problem, i: int, before: Posterior, old: MemoryLocal, new: MemoryLocal, rng: np.random.Generator
) -> DrawnX:
    """From q(x) as its update left it; cells that have no q(x) are 0."""
    data, spec = problem.data[i], problem.spec.views[i]
    y, precision = predictors(problem, i, before, old, new)
    shape = (problem.rows.n_rows, spec.n_features)
    observed = np.broadcast_to(True if data.observed is None else data.observed, shape)
    tau = np.diagonal(precision, axis1=1, axis2=2)
    # A hole that is a variable of its own: N(y, 1/tau), and no t that it would have to explain.
    is_hole = ~observed & (problem.missing == "mean-field")
    copies = round(max(1.0, spec.weight)) if problem.missing == "exact" else 1
    x, ratios = [], []
    for _ in range(copies):
        mean, var = (np.where(is_hole, value, np.zeros(shape)) for value in (y if y.ndim == 2 else 0.0, 1 / tau))
        if not spec.likelihood.latent:
            mean = np.where(observed, data.target, mean)
        one = mean + np.sqrt(var) * rng.standard_normal((N_DRAWS, *shape))
        ratio = -norm.logpdf(one, mean, np.sqrt(np.where(var > 0, var, 1.0)))[:, var > 0].sum(1)
        if spec.likelihood.latent:
            xi = gather(problem, old, i, "xi"), gather(problem, new, i, "xi")
            ratio += draw_latent(spec.likelihood, one, data.target, observed, y, precision, xi, rng)
        x.append(one)
        ratios.append(ratio)
    return DrawnX(np.stack(x), observed | is_hole, np.mean(ratios, axis=0))


def predictors(
    problem: Problem, i: int, before: Posterior, old: MemoryLocal, new: MemoryLocal
) -> tuple[np.ndarray, np.ndarray]:
    """The predictor (n, D) and the precision (n, D, D) with which q(x) of a view was made.

    By z alone under "mean-field". Else by all other cells, of which those of views before it are new, for classes also
    all cells of yes and no; for classes these are <x> and the gradient there, <x> + gradient, of `oracle.class_form`.
    """
    view, spec = before.views[i], problem.spec.views[i]
    tau = view.tau.mean + 0 * view.b_mean
    told = old
    if problem.missing == "exact" and spec.likelihood.whole_rows:
        first = [j < i or not other.likelihood.whole_rows for j, other in enumerate(problem.spec.views)]
        told = MemoryLocal(tuple(tuple(b if f else a for a, b, f in zip(x, y, first)) for x, y in zip(old.x, new.x)))
    z, cov = q_of_z(problem, before, told)
    y = z @ view.w_mean.T + view.b_mean
    if problem.missing == "mean-field" or not spec.likelihood.latent:
        return y, np.broadcast_to(np.diag(tau), (len(y), len(tau), len(tau)))
    loading, copies = tau[:, None] * view.w_mean, max(1.0, spec.weight)
    P = np.diag(tau) - spec.weight / copies * loading @ cov @ loading.T
    if spec.likelihood.whole_rows:
        return np.stack([gather(problem, old, i, "mean"), y]), P
    x, own = gather(problem, old, i, "mean"), np.diagonal(P, axis1=1, axis2=2)
    return x + tau * (y - x) / own, own[:, :, None] * np.eye(len(tau))


def draw_latent(
    likelihood: Likelihood,
    x: np.ndarray,
    target: np.ndarray,
    observed: np.ndarray,
    y: np.ndarray,
    precision: np.ndarray,
    xi: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    """Put draws into the observed cells of x, (S, n, D); returns their log p(t | x) − log q(x)."""
    ratio = np.zeros(N_DRAWS)
    for n, d in np.argwhere(observed) if not likelihood.whole_rows else ():
        tau = precision[n, d, d]
        if isinstance(likelihood, Threshold | Interval | Censored):  # N(y, 1/tau) on the side, or in the interval, of t
            if isinstance(likelihood, Interval | Censored):
                side = interval_ends(likelihood, target)[n, d]
                if side[0] == side[1]:
                    x[:, n, d] = side[0]
                    continue
            else:
                side = (0.0, np.inf) if target[n, d] else (-np.inf, 0.0)
            cut = truncnorm(*((edge - y[n, d]) * np.sqrt(tau) for edge in side), loc=y[n, d], scale=tau**-0.5)
            x[:, n, d] = cut.rvs(N_DRAWS, random_state=rng)
            ratio -= cut.logpdf(x[:, n, d])
        elif isinstance(likelihood, Poisson):
            t, offset = with_offsets(likelihood, target, observed)[n, d]
            cell = oracle.count_x(t, offset, y[n, d], tau)
            x[:, n, d] = rng.normal(cell.mean, np.sqrt(cell.var), N_DRAWS)
            ratio += poisson.logpmf(t, np.exp(x[:, n, d] + offset)) - norm.logpdf(x[:, n, d], cell.mean, cell.var**0.5)
        else:  # made with the ξ of the update before; what is kept is the best ξ for this q(x)
            var = 1 / (tau + 2 * oracle.jaakkola_lambda(xi[0][n, d]))
            mean, best = var * (target[n, d] - 0.5 + tau * y[n, d]), xi[1][n, d]
            x[:, n, d] = rng.normal(mean, np.sqrt(var), N_DRAWS)
            log_h = log_expit(best) + x[:, n, d] * target[n, d] - (x[:, n, d] + best) / 2
            log_h -= oracle.jaakkola_lambda(best) * (x[:, n, d] ** 2 - best**2)
            ratio += log_h - norm.logpdf(x[:, n, d], mean, np.sqrt(var))
    for n in np.flatnonzero(observed[:, 0]) if likelihood.whole_rows else ():
        x[:, n], log_q = draw_classes(int(target[n]), y[..., n, :], precision[n], rng)
        ratio -= log_q
    return ratio


def draw_classes(t: int, y: np.ndarray, P: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """x of a row of classes, (S, D), and log q(x): N(y, I) cut to the cone of t, or `oracle.class_form` of (<x>, y)."""
    if y.ndim == 1:
        x = draw_cone(y, t, rng)
        return x, norm.logpdf(x, y).sum(1) - oracle.log_gauss_integral([0.0], np.delete(y[t] - y, t))
    m, p, p_c, slope, present = oracle.class_form(y[0], y[1], P)
    C = len(m)
    J, around = np.eye(C) - 1 / C, np.sqrt(p) * m
    inner = draw_cone(around, t, rng) @ J / np.sqrt(p)
    c_mean = present.mean() + (inner - J @ present) @ slope
    c = rng.normal(c_mean, p_c**-0.5)
    log_share = oracle.log_gauss_integral([0.0], np.delete(around[t] - around, t))
    log_inner = 0.5 * (C - 1) * np.log(p / (2 * np.pi)) - 0.5 * p * ((inner - m) ** 2).sum(1) - log_share
    return inner + c[:, None], log_inner + norm.logpdf(c, c_mean, p_c**-0.5) - 0.5 * np.log(C)


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
    level = 1.0 if spec.b_in_common else 0.0
    cov = (np.eye(spec.n_features) + level) / spec.b_precision
    terms["b"] = multivariate_normal.logpdf(b, np.zeros(spec.n_features), cov) - log_q.sum(1)
    fit = np.einsum("snk,sdk->snd", z, w) + b[:, None, :]
    log_p = norm.logpdf(x.x, fit, draws["tau"][:, None, :] ** -0.5)
    terms["x"] = log_p[:, :, x.cells].sum(2).mean(0)
    return terms


def q_of_z(problem: Problem, posterior: Posterior, local: MemoryLocal) -> tuple[np.ndarray, np.ndarray]:
    """What these globals and this q(x) say of z: (n, K) and (n, K, K), in the order of the data."""
    n, k = problem.rows.n_rows, posterior.n_components
    mean, cov = np.empty((n, k)), np.empty((n, k, k))
    messages = make_messages(posterior, problem.spec, problem.rows.groups)
    for block, x, part in zip(problem.rows.blocks, local.x, problem.rows.slices):
        known = prepare_z(block, messages)
        mean[problem.rows.order[part]] = update_z(block, x, known, messages)
        cov[problem.rows.order[part]] = known.cov
    return mean, cov


def gather(problem: Problem, local: MemoryLocal, i: int, name: str) -> np.ndarray:
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


@pytest.mark.filterwarnings("ignore:view .y.")
def test_rare_labels_are_predicted_as_often_as_they_were_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intercepts are drawn to the level that the labels of a view have in common, not to even chances."""

    def said_and_seen(seed: int) -> tuple[float, float]:
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((580, 3))
        x = z @ rng.standard_normal((3, 12)) + rng.standard_normal((580, 12))
        y = z @ (0.6 * rng.standard_normal((3, 40))) + rng.normal(-1.7, 0.25, 40) + rng.standard_normal((580, 40)) > 0
        model = SSHIBA(6, {"y": Binary()}, random_state=0, search=None).fit({"x": x[:80], "y": y[:80]})
        return float(np.mean(model.predict_proba({"x": x[80:]}, "y"))), float(np.mean(y[:80]))

    said, seen = np.mean([said_and_seen(seed) for seed in range(4)], axis=0)
    assert said == pytest.approx(seen, rel=0.03)
    monkeypatch.setattr(Threshold, "level_in_common", False)
    said, seen = np.mean([said_and_seen(seed) for seed in range(4)], axis=0)
    assert said > 1.05 * seen
