"""The bound never falls, whatever the mixture; blocks and orders change nothing."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cases import Problem, covariances, make_problem, spec_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sshiba.core import global_step as globals_module
from sshiba.core.bound import elbo
from sshiba.core.coded import CodedView
from sshiba.core.global_step import GLOBAL_UPDATES, expected_residual, global_step
from sshiba.core.likelihoods import Poisson
from sshiba.core.rotation import best_rotation, find_rotation, objective, rotate
from sshiba.core.spec import ModelSpec
from sshiba.core.start import random_posterior
from sshiba.core.state import ColumnGroups, Gamma, Posterior, WeightCovariance
from sshiba.core.w_moments import w_trace
from sshiba.data.types import Binary, Categorical, Count, Ordinal, Real
from sshiba.engines import make_rows
from sshiba.fitting.budget import Budget, FitOptions
from sshiba.fitting.loop import StartingPoint, run
from sshiba.fitting.size import keep_factors, prune, try_larger
from sshiba.fitting.sweep import BoundError, State, sweep

N_SWEEPS = 12


@st.composite
def view_and_width(draw: st.DrawFn) -> tuple:
    width = draw(st.integers(2, 6))
    select = draw(st.booleans())
    tied = draw(st.booleans()) if select else False
    shared = {
        "select_features": select,
        "groups": tuple(d % 2 for d in range(width)) if tied else None,
    }
    weight = draw(st.sampled_from([1.0, 0.3, 0.05]))
    heavy = draw(st.sampled_from([1.0, 0.3, 4.0]))
    kinds = ["real", "real, one noise", "limits", "binary", "binary, learned", "categorical", "ordinal", "count"]
    kind = draw(st.sampled_from(kinds))
    limits = draw(st.sampled_from([(-0.5, None), (-0.2, 0.3), {0: (None, 0)}]))
    view = {
        "real": Real(weight=weight, **shared),
        "real, one noise": Real(noise="view", weight=weight, **shared),
        "limits": Real(weight=weight, limits=limits, **shared),
        "binary": Binary(weight=heavy, noise=draw(st.sampled_from([0.5, 1.0, 3.0])), **shared),
        "binary, learned": Binary(weight=weight, noise="learned", **shared),
        "categorical": Categorical(weight=heavy, **shared),
        "count": Count(weight=heavy, noise=draw(st.sampled_from(["feature", "view"])), **shared),
        "ordinal": Ordinal(weight=heavy, noise=draw(st.sampled_from(["feature", "view"])), **shared),
    }[kind]
    return view, width, draw(st.sampled_from(["none", "rows", "cells"]))


@st.composite
def problems(draw: st.DrawFn, n_groups: tuple[int, ...] = (0,)) -> Problem:
    parts = draw(st.lists(view_and_width(), min_size=1, max_size=4))
    views, widths, holes = map(list, zip(*parts))
    return make_problem(
        views,
        widths,
        holes,
        n=draw(st.sampled_from([3, 11, 40])),
        n_components=draw(st.integers(1, 5)),
        missing=draw(st.sampled_from(["exact", "mean-field"])),
        seed=draw(st.integers(0, 10_000)),
        space=draw(st.sampled_from(["memory", "gram"])),
        n_groups=draw(st.sampled_from(n_groups)),
        n_covariates=draw(st.sampled_from([0, 0, 2])),
    )


@settings(max_examples=120, deadline=None)
@given(problems(n_groups=(0, 2)))
def test_bound_never_falls(problem: Problem) -> None:
    """After every single update, rotations among them; pruning starts anew."""
    local, before = problem.rows.start(problem.posterior), -np.inf
    posterior, spec = problem.posterior, problem.spec
    for number in range(N_SWEEPS):
        local, stats = problem.rows.step(posterior, local)
        before = check_rise(before, posterior, stats, spec, "local step")
        for name, update in GLOBAL_UPDATES.items():
            posterior = update(stats, posterior, spec)
            before = check_rise(before, posterior, stats, spec, name)
        if number % 3 == 2:
            R, _ = best_rotation(posterior, stats, spec)
            posterior, stats = rotate(posterior, stats, spec, R)
            before = check_rise(before, posterior, stats, spec, "rotation")
        state = prune(State(posterior, local, stats, before), FitOptions(), spec)
        posterior, before = state.posterior, state.bound


def check_rise(before: float, posterior: Posterior, stats: object, spec: ModelSpec, name: str) -> float:
    terms = elbo(posterior, stats, spec).values()
    bound = sum(terms)
    assert np.isfinite(bound), name
    assert bound >= before - 1e-9 * max(1.0, sum(map(abs, terms))), f"{name}: {before} -> {bound}"
    return bound


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(1, 13))
def test_blocks_and_spaces_change_nothing(problem: Problem, block_rows: int) -> None:
    """Blocks of any size, in Gram space or not."""
    cut = replace(problem, block_rows=block_rows, space={"gram": "memory", "memory": "gram"}[problem.space])
    assert_same_sweep(problem, cut, [np.arange(s.n_features) for s in problem.spec.views])


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_orders_change_nothing(problem: Problem, seed: int) -> None:
    """Rows, features and views of data and first state permuted: the same result, permuted.

    Also of yes/no cells that must not go together, and of views of classes, which take turns.
    """
    assert_order_does_not_matter(problem, seed)


@pytest.mark.parametrize("holes", ["none", "cells"])
def test_what_takes_turns_does_so_in_any_order(holes: str) -> None:
    """Strong weights: many cells must not go together."""
    problem = make_problem([Categorical(), Binary(), Categorical()], [3, 6, 4], [holes] * 3, n=40, n_components=2)
    views = [view.with_weights(4 * view.w_mean, view.w_cov) for view in problem.posterior.views]
    strong = replace(problem, posterior=Posterior(tuple(views)))
    for seed in range(4):
        assert_order_does_not_matter(strong, seed)


def assert_order_does_not_matter(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.permutation(problem.rows.n_rows)
    places = rng.permutation(len(problem.data))
    columns = [rng.permutation(s.n_features) for s in problem.spec.views]
    parts = [permuted(problem, i, rows, columns[i]) for i in places]
    data, specs, views = (list(part) for part in zip(*parts))
    other = Problem(data, ModelSpec(tuple(specs)), Posterior(tuple(views)), problem.missing)
    assert_same_sweep(problem, other, columns, list(places))


def permuted(problem: Problem, i: int, rows: np.ndarray, d: np.ndarray) -> tuple:
    data, spec, view = problem.data[i], problem.spec.views[i], problem.posterior.views[i]
    if data.target.ndim == 1:  # class c gets the place where d says c
        target = np.argsort(d)[data.target[rows]]
    else:
        target = data.target[rows][:, d]
    observed = None if data.observed is None else data.observed[rows]
    if observed is not None and observed.shape[1] > 1:
        observed = observed[:, d]
    tau_prior = spec.tau_prior
    if tau_prior is not None and len(tau_prior.rate) > 1:
        tau_prior = Gamma(tau_prior.shape[d], tau_prior.rate[d])
    spec = replace(spec, relevance=spec.relevance[d], tau_prior=tau_prior, variance=spec.variance[d])
    if isinstance(spec.likelihood, Poisson):
        own = tuple(spec.likelihood.log_mean[c] for c in d)
        spec = replace(spec, likelihood=replace(spec.likelihood, log_mean=own))
    cov = view.w_cov
    # The random start has the same basis in all groups, so that any grouping of the features will do.
    groups = ColumnGroups(np.zeros(len(d), dtype=int))
    cov = WeightCovariance(cov.basis[:1], cov.spread[d], cov.logdet[d], groups)
    tau = view.tau
    if isinstance(tau, Gamma) and len(tau.rate) > 1:
        tau = Gamma(tau.shape[d], tau.rate[d])
    view = replace(view, b_mean=view.b_mean[d], b_var=view.b_var[d], tau=tau).with_weights(view.w_mean[d], cov)
    return CodedView(target, observed), spec, view


def assert_same_sweep(one: Problem, two: Problem, columns: list[np.ndarray], places: list[int] | None = None) -> None:
    places = list(range(len(one.data))) if places is None else places
    (first, bound), (second, other_bound) = two_sweeps(one), two_sweeps(two)
    rounding = 1e-7 if any(spec.known for spec in one.spec.views) else 1e-8  # covariates have a precision of 1e6
    assert bound == pytest.approx(other_bound, rel=1e-9, abs=rounding)
    for j, i in enumerate(places):
        a, b, d = first.views[i], second.views[j], columns[i]
        for x, y in [
            (a.w_mean[d], b.w_mean),
            (covariances(a.w_cov)[d], covariances(b.w_cov)),
            (a.b_mean[d], b.b_mean),
            (a.alpha.rate, b.alpha.rate),
            ((a.tau.mean + 0 * a.b_mean)[d], b.tau.mean + 0 * b.b_mean),
        ]:
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * (1 + np.max(np.abs(x))))


def two_sweeps(problem: Problem) -> tuple[Posterior, float]:
    posterior, local = problem.posterior, problem.rows.start(problem.posterior)
    for _ in range(2):
        local, stats = problem.rows.step(posterior, local)
        posterior, _ = global_step(stats, posterior, problem.spec)
    return posterior, sum(elbo(posterior, stats, problem.spec).values())


@pytest.mark.parametrize("holes", ["none", "rows", "cells"])
def test_moments_of_w_are_those_written_out(holes: str) -> None:
    """What updates hand on (<w²>, the trace, the residual) against Σ_d written out; also for rows with other holes."""
    problem = make_problem([Real(select_features=True), Real(), Real(noise="view")], [6, 5, 4], [holes] * 3, n=30)
    posterior, local = problem.posterior, problem.rows.start(problem.posterior)
    _, stats = problem.rows.step(posterior, local)
    posterior, residuals = global_step(stats, posterior, problem.spec)
    R, _ = find_rotation(objective(posterior, stats, problem.spec))
    turned, turned_stats = rotate(posterior, stats, problem.spec, R)
    for state, its_stats in ((posterior, stats), (turned, turned_stats)):
        for view, vs, residual in zip(state.views, its_stats.views, residuals):
            second = covariances(view.w_cov) + view.w_mean[:, :, None] * view.w_mean[:, None, :]
            np.testing.assert_allclose(view.w_second, np.einsum("dkk->dk", second), rtol=1e-10)
            expected = np.einsum("dkl,dkl->d", second, vs.zz[vs.groups.index])
            np.testing.assert_allclose(w_trace(view, vs.zz, vs.groups), expected, rtol=1e-10)
            np.testing.assert_allclose(residual, expected_residual(vs, view), rtol=1e-9)
            d = len(view.w_mean)
            for index in (np.zeros(d, dtype=int), np.arange(d), np.arange(d) % 2):  # other holes than those of the fit
                zz = np.stack([np.eye(view.w_mean.shape[1]) * (g + 1) for g in range(index.max() + 1)])
                expected = np.einsum("dkl,dkl->d", second, zz[index])
                np.testing.assert_allclose(w_trace(view, zz, ColumnGroups(index)), expected, rtol=1e-10)


@pytest.mark.parametrize("n_covariates", [0, 2])
@pytest.mark.parametrize("holes", ["none", "cells"])
def test_rotation_gains_what_it_says(holes: str, n_covariates: int) -> None:
    """With covariates, which stay as they are, nothing of them is left in the factors."""
    views = [Real(select_features=True, weight=0.5), Binary(), Categorical()]
    n_groups = 2 * (holes == "cells")
    sizes = {"n": 60, "n_components": 5, "n_groups": n_groups, "n_covariates": n_covariates}
    problem = make_problem(views, [6, 5, 4], [holes] * 3, **sizes)
    posterior, local = problem.posterior, problem.rows.start(problem.posterior)
    for _ in range(3):
        local, stats = problem.rows.step(posterior, local)
        posterior, _ = global_step(stats, posterior, problem.spec)
    before = sum(elbo(posterior, stats, problem.spec).values())
    R, gain = best_rotation(posterior, stats, problem.spec)
    posterior, stats = rotate(posterior, stats, problem.spec, R)
    after = sum(elbo(posterior, stats, problem.spec).values())
    assert gain > 1e-3
    np.testing.assert_array_equal(R[5:], np.eye(5 + n_covariates)[5:])
    left = np.abs(stats.zz[:5, 5:]).max(initial=0) / np.diagonal(stats.zz).max()
    assert left < (0.03 if n_groups else 0.01)  # rows of groups count by their activity
    assert after - before == pytest.approx(gain, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n_groups", [0, 2])
def test_rotation_gradient(n_groups: int) -> None:
    rng, holes = np.random.default_rng(0), ["none", "cells"]
    problem = make_problem([Real(), Binary(weight=2.0)], [6, 5], holes, n=30, n_components=4, n_groups=n_groups)
    local, stats = problem.rows.step(problem.posterior, problem.rows.start(problem.posterior))
    target = objective(global_step(stats, problem.posterior, problem.spec)[0], stats, problem.spec)
    target = target.moved(np.eye(4) + 0.2 * rng.standard_normal((4, 4)))
    step = rng.standard_normal((4, 4))

    def value(t: float) -> float:
        T = np.eye(4) + t * step
        return target.moved(T).value(np.linalg.slogdet(T)[1])

    numeric = (value(1e-6) - value(-1e-6)) / 2e-6
    assert np.sum(target.gradient() * step) == pytest.approx(numeric, rel=1e-6)


@pytest.mark.parametrize("n_groups", [0, 2])
def test_newton_step_is_exact_on_diagonal_problems(n_groups: int) -> None:
    """Near a stationary point where all matrices are diagonal, one step goes all the way."""
    rng, holes = np.random.default_rng(1), ["none", "none"]
    problem = make_problem([Real(), Binary(weight=2.0)], [6, 5], holes, n=30, n_components=3, n_groups=n_groups)
    local, stats = problem.rows.step(problem.posterior, problem.rows.start(problem.posterior))
    target = objective(global_step(stats, problem.posterior, problem.spec)[0], stats, problem.spec)
    diagonal = replace(target, ww=np.stack([np.diag([3.0, 1, 2]), np.diag([1.0, 2, 0.5])]))
    groups = replace(diagonal.groups, zz=diagonal.groups.zz * np.eye(3))
    diagonal = replace(diagonal, zz=diagonal.zz * 0, groups=groups)
    diagonal = replace(diagonal, zz=-diagonal.gradient())  # stationary
    for some in (1 - np.eye(3), np.eye(3)):  # turns, then changes of scale
        tilted = diagonal.moved(np.eye(3) + 1e-4 * rng.standard_normal((3, 3)) * some)
        after = tilted.moved(np.eye(3) + tilted.newton_step() * some)
        assert np.abs(after.gradient() * some).max() < 0.01 * np.abs(tilted.gradient() * some).max()


def test_a_fall_is_an_error_that_names_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem([Real()], [5], ["none"], n=30)
    state = State(problem.posterior, problem.rows.start(problem.posterior))
    for _ in range(3):
        state = sweep(problem.rows, state, rotating=False)
    right = globals_module.update_tau

    def wrong(stats: object, view: object, spec: object, residual: object) -> object:
        found = right(stats, view, spec, residual)
        return replace(found, tau=Gamma(found.tau.shape, found.tau.rate * 3))

    monkeypatch.setattr(globals_module, "update_tau", wrong)
    with pytest.raises(BoundError, match="update_tau"):
        sweep(problem.rows, state, rotating=False)


def test_run_is_monotone_between_prunings_and_converges() -> None:
    problem = make_problem([Real(), Binary()], [8, 6], ["cells", "rows"], n=80, n_components=6)
    seen = []
    options = FitOptions(max_iter=3000, tol=1e-3)
    fit = run(problem.rows, StartingPoint(problem.posterior, 6), options, seen.append)
    assert fit.converged
    assert fit.state.stats is not None
    assert np.isfinite(fit.path).all()
    rises = [b.elbo - a.elbo for a, b in pairwise(seen) if a.n_components == b.n_components]
    assert len(rises) > 0.8 * len(seen)
    assert min(rises) >= -1e-9 * abs(fit.state.bound)
    assert max(rises[-10:]) < max(rises[:10])


@pytest.mark.parametrize("holes", ["none", "cells"])
def test_added_factors_are_both_there(holes: str) -> None:
    one = make_problem([Real(select_features=True), Binary()], [5, 4], [holes, "none"], n=20, n_components=3)
    more = make_problem([Real(select_features=True), Binary()], [5, 4], [holes, "none"], n=20, n_components=2, seed=9)
    joined = one.posterior.add_factors(more.posterior, scale=0.3)
    assert joined.n_components == 5
    for mine, theirs, both in zip(one.posterior.views, more.posterior.views, joined.views):
        np.testing.assert_array_equal(both.w_mean, np.hstack([mine.w_mean, 0.3 * theirs.w_mean]))
        np.testing.assert_allclose(both.w_second, both.w_cov.diagonal() + both.w_mean**2)
        for d, cov in enumerate(covariances(both.w_cov)):
            np.testing.assert_allclose(cov[:3, :3], covariances(mine.w_cov)[d])
            np.testing.assert_allclose(cov[3:, 3:], 0.09 * covariances(theirs.w_cov)[d])
            np.testing.assert_allclose(both.w_cov.logdet[d], np.linalg.slogdet(cov)[1])
        np.testing.assert_allclose(both.alpha.mean[3:], theirs.alpha.mean / 0.09)


def test_a_factor_that_was_lost_is_found_again() -> None:
    """Three factors made the data; from two at their optimum only a new one can lead back."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12)) + 0.5 * rng.standard_normal((200, 12))
    data = [CodedView((x - x.mean(axis=0)) / x.std(axis=0), None)]
    spec = ModelSpec((spec_of("x", Real(), np.full(12, 200.0), np.ones(12)),))
    rows, options = make_rows(data, spec, 3), FitOptions(tol=1e-4)
    whole = run(rows, StartingPoint(random_posterior(spec, 3, rows.groups, rng), 3), options).state
    lost = keep_factors(whole, np.array([0, 2]))
    for _ in range(200):
        lost = sweep(rows, lost, rotating=True)
    budget = Budget(options)
    found = try_larger(rows, lost, options, budget, seed=0).better
    assert found is not None
    assert found.posterior.n_components == 3
    assert lost.bound < found.bound <= whole.bound + 1e-3
    assert 0 < budget.n_sweeps <= 20
    assert try_larger(rows, whole, options, Budget(options), seed=0).better is None
    again = run(rows, StartingPoint(lost.posterior, 3), options).state
    assert again.bound == pytest.approx(whole.bound, abs=0.1)
