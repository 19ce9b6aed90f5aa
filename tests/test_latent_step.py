"""q(z | x) Π q(x) of rows with yes/no cells and classes, against the evidence of single rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cases import Problem, make_problem
from scipy.integrate import quad
from scipy.special import expit, log_ndtr
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from sshiba import SSHIBA
from sshiba.core import latent_step, latent_view, local_step, newton_rows
from sshiba.core.bound import elbo, rows_bound
from sshiba.core.devices import HOST
from sshiba.core.likelihoods import Poisson, XUpdate, probit
from sshiba.core.state import Gamma, Posterior
from sshiba.data.types import Binary, Categorical, Count, Ordinal, Real, View
from sshiba.engines import make_rows

TARGETS = {"probit": lambda u: np.exp(log_ndtr(u)), "logit": expit}


def one_factor(view: View, missing: str = "exact", n: int = 5) -> Problem:
    """Five cells of strong, known weights on one factor; W and b hardly vary."""
    problem = make_problem([view], [5], ["none"], n=n, n_components=1, missing=missing)
    known = problem.posterior.views[0]
    w = np.array([[2.0], [1.5], [-2.5], [0.8], [3.0]])
    cov = replace(known.w_cov, spread=np.full_like(known.w_cov.spread, 1e-10))
    known = replace(known, b_mean=0.3 * np.arange(5.0) - 0.5, b_var=np.full(5, 1e-10)).with_weights(w, cov)
    return replace(problem, posterior=Posterior((known,)))


def settled_bound(problem: Problem) -> float:
    local, converged = problem.rows.settle(problem.posterior, problem.rows.start(problem.posterior))
    assert converged
    _, stats = problem.rows.step(problem.posterior, local)
    return rows_bound(problem.posterior, stats, problem.spec)


def evidence(problem: Problem, link: Callable[[np.ndarray], np.ndarray]) -> float:
    """Σ log ∫ N(z) Π ∫ p(t | x) N(x | z w + b, 1) dx dz; for the probit the inner one has a closed form."""
    view, nodes = problem.posterior.views[0], np.polynomial.hermite_e.hermegauss(60)
    w, b = view.w_mean[:, 0], view.b_mean

    def given_z(z: float, t: np.ndarray) -> float:
        sign = 2 * t - 1
        if link is expit:
            inner = (nodes[1] @ expit(sign * (z * w + b + nodes[0][:, None]))) / nodes[1].sum()
        else:
            inner = link(sign * (z * w + b))
        return float(norm.pdf(z) * np.prod(inner))

    return sum(np.log(quad(given_z, -9, 9, args=(t,), epsabs=0)[0]) for t in problem.data[0].target)


@pytest.mark.parametrize("link", TARGETS)
def test_the_bound_is_below_the_evidence_and_far_closer_than_mean_field(link: str) -> None:
    exact = evidence(one_factor(Binary(link=link)), TARGETS[link])
    ours, mean_field = (settled_bound(one_factor(Binary(link=link), missing)) for missing in ("exact", "mean-field"))
    assert mean_field < ours <= exact + 1e-6
    assert exact - ours < {"probit": 0.5, "logit": 0.95}[link] * (
        exact - mean_field
    )  # Jaakkola and Jordan's bound is loose


@pytest.mark.parametrize("n_classes", [2, 3, 9])
def test_compiled_classes_of_rows_with_holes_equal_those_of_arrays(
    n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows with and without a label, weights that count a view more than once, more classes than are compiled."""
    if latent_step.compiled() is None:
        pytest.skip("numba is not installed")
    views: list[View] = [Real(), Categorical(weight=2.0), Categorical()]
    problem = make_problem(views, [4, n_classes, 3], ["cells", "rows", "none"], n=40)
    local = problem.rows.start(problem.posterior)
    x, stats = problem.rows.step(problem.posterior, local)
    monkeypatch.setattr(latent_step, "compiled", lambda: None)
    monkeypatch.setattr(probit, "compiled", lambda: None)
    expected_x, expected = problem.rows.step(problem.posterior, local)
    np.testing.assert_allclose(x.x[0][1].mean, expected_x.x[0][1].mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stats.zz, expected.zz, rtol=1e-10, atol=1e-10)
    for own, other in zip(stats.views, expected.views):
        for name in ("zz", "xz", "xx", "bound"):
            np.testing.assert_allclose(getattr(own, name), getattr(other, name), rtol=1e-9, atol=1e-9)


def crowded(view: View) -> Problem:
    """Factors tell all of three cells but their sum: each has a leverage near 2/3, and all at once they overshoot."""
    problem = make_problem([view], [3], ["none"], n=20, n_components=2)
    known = problem.posterior.views[0]
    across = np.linalg.svd(np.eye(3) - 1 / 3)[0][:, :2]
    cov = replace(known.w_cov, spread=np.full_like(known.w_cov.spread, 1e-10))
    return replace(problem, posterior=Posterior((known.with_weights(10 * across, cov),)))


def test_cells_that_must_not_go_together_are_updated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, paths = crowded(Binary()), ([], [])
    for path, limit in zip(paths, (latent_view.ALL_AT_ONCE, 2.0)):
        monkeypatch.setattr(latent_view, "ALL_AT_ONCE", limit)
        local = problem.rows.start(problem.posterior)
        for _ in range(60):
            local, stats = problem.rows.step(problem.posterior, local)
            path.append(rows_bound(problem.posterior, stats, problem.spec))
    one_by_one, together = paths
    assert np.diff(one_by_one).min() > -1e-9
    assert together[-1] < one_by_one[-1] - 1


@pytest.mark.parametrize("view", [Binary(), Binary(link="logit"), Ordinal()])
def test_cells_that_are_updated_one_by_one_keep_nothing_of_the_update_with_others(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Levels also say how they would follow the scale of their weights."""
    infer, finish = latent_step._infer_cells, latent_step._finish_cells
    single, finished = {}, []

    def infer_cells(view: latent_view.LatentView, y: np.ndarray, some: slice) -> XUpdate:
        found = infer(view, y, some)
        if some != slice(None):
            single[some.start] = found
        return found

    def finish_cells(view: latent_view.LatentView, cells: XUpdate) -> latent_step.LatentStep:
        finished.append(cells)
        return finish(view, cells)

    monkeypatch.setattr(latent_step, "_infer_cells", infer_cells)
    monkeypatch.setattr(latent_step, "_finish_cells", finish_cells)
    problem = crowded(view)
    problem.rows.step(problem.posterior, problem.rows.start(problem.posterior))
    assert sorted(single) == [0, 1, 2]
    for d, one in single.items():
        for name, value in vars(one).items():
            if value is not None:
                np.testing.assert_array_equal(getattr(finished[0], name)[:, d], value[:, 0])


@pytest.mark.parametrize("space", ["memory", "gram"])
def test_with_globals_held_the_bound_of_rows_only_rises(space: str) -> None:
    views = [Real(), Binary(weight=2.0), Binary(link="logit"), Categorical(), Categorical(weight=3.0)]
    views += [Ordinal(), Real(limits=(-0.5, 0.5)), Count()]
    problem = make_problem(views, [6, 5, 4, 3, 2, 5, 4, 5], ["none"] * 8, n=40, n_components=4, space=space)
    local, path = problem.rows.start(problem.posterior), []
    for _ in range(60):
        local, stats = problem.rows.step(problem.posterior, local)
        path.append(sum(elbo(problem.posterior, stats, problem.spec).values()))
    assert np.diff(path).min() > -1e-3  # classes are nearly exact: see `MultinomialProbit.exact`
    assert path[-1] - path[0] > 1


def test_where_classes_are_nearly_exact_the_bound_of_a_fit_still_never_falls() -> None:
    """A number that the class determines: at the end the step of the classes would lower the bound by 5e-4."""
    table = pd.DataFrame({"town": [*["Rome", "Paris", "Oslo"] * 9, "Paris"], "a": [*[1.0, 2.0, 3.0] * 9, np.nan]})
    model = SSHIBA(2, random_state=0).fit(table)
    assert model.converged_
    assert model.n_components_ == 1
    assert np.diff(model.elbo_path_[-20:]).min() >= 0
    assert model.impute(table)["a"].iloc[-1] == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("views", [[Real(), Categorical()], [Real(), Binary(), Categorical(weight=2.0)]])
def test_rows_one_at_a_time(views: list[View]) -> None:
    """Also parts of a block in which no row has a label: the same as all at once."""
    widths = [*[5, 4][: len(views) - 1], 3]
    problem = make_problem(views, widths, ["cells", *["rows"] * (len(views) - 1)], n=25)
    results = []
    for device in (HOST, replace(HOST, part_bytes=1)):
        rows = make_rows(problem.data, problem.spec, 3, device=device)
        local = rows.start(problem.posterior)
        for hold_x in (True, False, False):
            local, stats = rows.step(problem.posterior, local, hold_x)
        factors = np.empty((25, 3))
        for part in rows.infer(problem.posterior):
            factors[part.rows] = part.z_mean
        results.append((sum(elbo(problem.posterior, stats, problem.spec).values()), factors))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-6)


def test_extrapolation_saves_rounds_and_ends_in_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((80, 2))
    yes = (3 * z @ rng.standard_normal((2, 6)) + rng.standard_normal((80, 6)) > 0).astype(float)
    kind = np.array(list("abc"))[np.argmax(2 * z @ rng.standard_normal((2, 3)), axis=1)]
    model = SSHIBA(3, search=None, random_state=0, max_iter=60).fit({"yes": yes, "kind": kind})
    rounds: list[float] = []
    count = local_step.largest_move
    monkeypatch.setattr(local_step, "largest_move", lambda *moved: rounds.append(count(*moved)) or rounds[-1])
    found, n_rounds = model.transform({"yes": yes, "kind": kind}), len(rounds)
    monkeypatch.setattr(local_step.Jumps, "ahead", lambda *_: None)
    np.testing.assert_allclose(found, model.transform({"yes": yes, "kind": kind}), atol=1e-6)
    assert n_rounds < 0.8 * (len(rounds) - n_rounds)


def test_rows_settle_where_extrapolation_would_lead_astray() -> None:
    """One column has nearly all of the counts: its cells swing, and moves of z say little of those of x."""
    rng = np.random.default_rng(0)
    z, w = rng.standard_normal((100, 2)), rng.standard_normal((2, 6))
    counts = np.random.default_rng(1).poisson(np.exp(1 + 0.5 * z @ w)).astype(float)
    counts[:, 0] = np.floor(1e4 * np.exp(z @ w[:, 0]))
    model = SSHIBA(3, {"k": Count()}, search=None, random_state=0, max_iter=60).fit({"k": counts})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = model.transform({"k": counts})
    np.testing.assert_allclose(found, model.factors_, atol=1e-5)


def certain(problem: Problem, tau: float, scale: float) -> Problem:
    """With less noise around the log rates, so that a count of 0 says little of its own, and larger weights."""
    views = []
    for view, spec in zip(problem.posterior.views, problem.spec.views):
        if isinstance(spec.likelihood, Poisson):
            own = Gamma(np.full_like(view.tau.mean, tau), np.ones_like(view.tau.mean))
            view = replace(view.with_weights(scale * view.w_mean, view.w_cov), tau=own)
        views.append(view)
    return replace(problem, posterior=Posterior(tuple(views)))


@pytest.mark.parametrize("holes", ["none", "cells"])
def test_newton_takes_rows_of_counts_to_where_coordinate_ascent_creeps(
    holes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside other views and with weights; the bound never falls, and a few steps end as high as very many."""
    views = [Real(), Count(), Count(weight=2.0), Count(weight=0.5), Binary()]
    problem = make_problem(views, [3, 8, 5, 4, 4], ["none", holes, holes, "rows", holes], n=12)
    problem, paths = certain(problem, 20.0, 1.0), []
    rows = problem.rows
    for newton, n_steps in ((True, 10), (False, 150)):
        monkeypatch.setattr(Poisson, "found_with_z", newton)
        local, path = rows.start(problem.posterior), []
        for _ in range(n_steps):
            local, stats = rows.step(problem.posterior, local)
            path.append(sum(elbo(problem.posterior, stats, problem.spec).values()))
        assert np.diff(path).min() > -1e-8
        paths.append(path)
    fast, creeping = paths
    assert creeping[9] + 0.03 < fast[9] == pytest.approx(creeping[-1], abs=1e-3)


@pytest.mark.parametrize("far", [0.0, -6.0])
def test_a_newton_step_raises_the_bound_of_each_row_or_is_not_made(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What steps are said to gain is what the bound gains by them; from far off those of some rows lead astray."""
    problem = certain(make_problem([Count(weight=1.5)], [6], ["cells"], n=12), 30.0, 3.0)
    local = problem.rows.start(problem.posterior)
    local = replace(local, x=tuple(tuple(replace(q, mean=q.mean + far * (q.mean != 0)) for q in x) for x in local.x))
    gains: list[np.ndarray] = []
    rise = newton_rows._rise
    monkeypatch.setattr(newton_rows, "_rise", lambda *given: gains.append(rise(*given)) or gains[-1])
    _, ahead = problem.rows.step(problem.posterior, local)
    monkeypatch.setattr(newton_rows, "_rise", lambda *given: rise(*given) - np.inf)
    _, plain = problem.rows.step(problem.posterior, local)
    bounds = [sum(elbo(problem.posterior, stats, problem.spec).values()) for stats in (ahead, plain)]
    assert (gains[0] < 0).any() == (far < 0)
    assert np.maximum(gains[0], 0).sum() == pytest.approx(bounds[0] - bounds[1], abs=1e-8)
