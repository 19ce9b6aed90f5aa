"""Where a fit starts, and how it goes faster: principal components, momentum and leaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cases import Problem, make_problem
from scipy.stats import norm

from sshiba.core import momentum as momentum_module
from sshiba.core import start as start_module
from sshiba.core.arrays import pairs_of
from sshiba.core.global_step import expected_residual, update_tau, update_view
from sshiba.core.likelihoods import Interval, Poisson
from sshiba.core.momentum import extrapolate, leap_scale, leap_tau, leap_weights, reached_by
from sshiba.core.rotation import rotate
from sshiba.core.spec import ViewSpec
from sshiba.core.start import posterior_along
from sshiba.core.state import Slopes, ViewPosterior, ViewStats
from sshiba.data.types import Binary, Categorical, Count, Ordinal, Real
from sshiba.engines import make_rows
from sshiba.fitting import sweep as sweep_module
from sshiba.fitting.budget import FitOptions
from sshiba.fitting.loop import StartingPoint, run
from sshiba.fitting.sweep import State, sweep


def mixed(holes: list[str], **options: object) -> Problem:
    return make_problem([Real(), Binary(), Categorical(), Real()], [6, 4, 3, 5], holes, n=40, **options)


def principal(X: np.ndarray, k: int) -> np.ndarray:
    """v √λ of the correlations about 0, with a sign that can be compared."""
    X = X / np.sqrt((X**2).sum(axis=0))
    _, s, vt = np.linalg.svd(X, full_matrices=False)
    return signed(vt[:k].T * s[:k])


def signed(directions: np.ndarray) -> np.ndarray:
    return directions * np.sign(directions[np.abs(directions).argmax(axis=0), range(directions.shape[1])])


@pytest.mark.parametrize("engine", ["memory", "gram"])
@pytest.mark.parametrize("block_rows", [None, 7])
def test_directions_are_those_of_the_svd(engine: str, block_rows: int | None) -> None:
    problem = make_problem([Real(), Real()], [6, 5], ["none", "none"], n=40)
    rows = make_rows(problem.data, problem.spec, 3, engine=engine, block_rows=block_rows)
    X = np.concatenate([view.target for view in problem.data], axis=1)
    np.testing.assert_allclose(signed(rows.directions(4)), principal(X, 4), atol=1e-12)


@pytest.mark.parametrize("holes", [["none"] * 4, ["none", "rows", "none", "cells"]])
def test_directions_do_not_depend_on_how_rows_are_processed(holes: list[str]) -> None:
    """Latent features and holes too."""
    problem = mixed(holes)
    found = [
        signed(make_rows(problem.data, problem.spec, 3, engine=engine, block_rows=rows).directions(5))
        for engine, rows in (("memory", None), ("memory", 9), ("gram", None), ("gram", 9))
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-10)


def test_directions_of_many_features_come_from_a_few_products(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem([Real(), Real()], [60, 40], ["none", "none"], n=30)
    exact = problem.rows.directions(4)
    monkeypatch.setattr(start_module, "WIDE", 50)
    wide = problem.rows.directions(4)
    values, found = (exact**2).sum(axis=0), (wide**2).sum(axis=0)
    np.testing.assert_allclose(found, values, rtol=1e-2)
    np.testing.assert_allclose(signed(wide)[:, :2], signed(exact)[:, :2], atol=1e-2)


def test_where_the_data_have_too_few_directions_weights_are_random_and_faint() -> None:
    problem = make_problem([Real()], [4], ["none"], n=30)
    directions = problem.rows.directions(6)
    assert not directions[:, 4:].any()
    assert directions[:, :4].any(axis=0).all()
    view = posterior_along(problem.spec, problem.rows.groups, directions, np.random.default_rng(0)).views[0]
    assert 0 < np.abs(view.w_mean[:, 4:]).max() < 0.2 * np.abs(view.w_mean[:, :4]).max()
    np.testing.assert_allclose(view.w_second, view.w_cov.diagonal() + view.w_mean**2)


def nearly_exact() -> Problem:
    """Features that two factors tell nearly exactly, beside labels: where plain sweeps creep."""
    problem = make_problem([Real(), Binary()], [8, 4], ["none", "none"], n=200, n_components=4)
    rng = np.random.default_rng(1)
    z = rng.standard_normal((200, 2))
    noise = np.array([0.02, 0.02, 0.1, 0.3, 1.0, 1.0, 1.0, 1.0])
    x = z @ rng.standard_normal((2, 8)) + noise * rng.standard_normal((200, 8))
    t = (z @ rng.standard_normal((2, 4)) > 0).astype(problem.data[1].target.dtype)
    return replace(
        problem, data=[replace(problem.data[0], target=x / x.std(axis=0)), replace(problem.data[1], target=t)]
    )


def test_momentum_reaches_a_higher_bound_in_fewer_sweeps_and_it_never_falls() -> None:
    """Even where it is asked to go on for longer: a rise that is steady but slow ends the plain sweeps early."""
    problem = nearly_exact()
    fits = {}
    for momentum, tol in ((False, 1e-4), (True, 1e-6)):
        options = FitOptions(max_iter=3000, tol=tol, momentum=momentum)
        fits[momentum] = run(problem.rows, StartingPoint(problem.posterior, 4), options)
        path = fits[momentum].path
        k = fits[momentum].state.posterior.n_components
        assert k == 2
        assert all(b >= a - 1e-7 for a, b in pairwise(path[-30:]))
    assert fits[True].state.bound > fits[False].state.bound
    assert fits[True].n_sweeps < 0.6 * fits[False].n_sweeps


def test_extrapolation_that_lowers_the_bound_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = mixed(["none", "none", "none", "cells"])
    state = State(problem.posterior, problem.rows.start(problem.posterior))
    for _ in range(3):
        state = sweep(problem.rows, state, rotating=False, momentum=True)
    plain = sweep(problem.rows, state, rotating=False)
    monkeypatch.setattr(
        sweep_module, "extrapolate", lambda posterior, reached, past, n: posterior.select_factors(range(3), -30.0)
    )
    again = sweep(problem.rows, state, rotating=False, momentum=True)
    assert again.bound == plain.bound
    assert again.n_ahead == 0


def test_what_is_extrapolated_turns_with_the_axes() -> None:
    problem = mixed(["none"] * 4)
    before = State(problem.posterior, problem.rows.start(problem.posterior))
    after = sweep(problem.rows, before, rotating=False)
    R = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0] * [1.5, 1.0, 0.7]
    turned, _ = rotate(after.posterior, after.stats, problem.spec, R)
    old, new = (reached_by(after.stats, p, p, problem.spec) for p in (before.posterior, after.posterior))
    here = extrapolate(after.posterior, new, old, 5)
    there = extrapolate(turned, new.turned(R), old.turned(R), 5)
    for a, b in zip(here.views, there.views):
        np.testing.assert_allclose(a.w_mean @ R, b.w_mean, atol=1e-12)
        np.testing.assert_allclose(a.tau.mean, b.tau.mean)
        np.testing.assert_allclose(a.b_mean, b.b_mean)
    # 5/8 of the last step once more
    last = after.posterior.views[0].w_mean - before.posterior.views[0].w_mean
    np.testing.assert_allclose(here.views[0].w_mean, after.posterior.views[0].w_mean + 5 / 8 * last)


class KnownFactors:
    """Counts whose z is known up to a little, so that only x is to be found."""

    def __init__(self, noise: str) -> None:
        problem = make_problem([Count(noise=noise)], [4], ["none"], n=60, n_components=2)
        self.spec, self.view = problem.spec.views[0], problem.posterior.views[0]
        self.target = self.spec.likelihood.row_target(problem.data[0].target, None)
        self.z = np.random.default_rng(0).standard_normal((60, 2))
        self.spread = np.array([[3.0, 1.0], [1.0, 2.0]])  # Σ Cov(z)

    def stats(self, view: ViewPosterior) -> ViewStats:
        """With x at its best."""
        z, likelihood = self.z, self.spec.likelihood
        assert isinstance(likelihood, Poisson)
        y, tau = z @ view.w_mean.T + view.b_mean, view.tau.mean
        x = likelihood.follow_y(self.target, y, tau, np.ones((1, 4)))
        pairs = x.slope.T @ pairs_of(np.column_stack([z, np.ones(60)]))
        n, groups = np.array([60.0]), view.w_cov.groups
        sums = (n, z.sum(axis=0)[None], (z.T @ z + self.spread)[None], x.mean.sum(axis=0), x.mean.T @ z)
        return ViewStats(*sums, x.second.sum(axis=0), x.bound.sum(), groups, Slopes(pairs, x.drift.sum(axis=0)))


@pytest.mark.parametrize("noise", ["view", "feature"])
def test_leaps_of_weights_and_noise_are_steps_of_newtons_method(noise: str) -> None:
    """They end where the plain updates leave things as they are, and double their digits on the way."""
    known = KnownFactors(noise)
    view, moves = known.view, []
    for _ in range(8):
        w, b = leap_weights(known.stats(view), view, known.spec)
        moves.append(np.abs(np.column_stack([w - view.w_mean, b - view.b_mean])).max())
        view = replace(view.with_weights(w, view.w_cov), b_mean=b)
    stats = known.stats(view)
    pull = stats.xz - view.b_mean[:, None] * stats.z_sum - view.w_mean @ stats.zz[0]
    gradient = view.tau.mean[:, None] * pull - view.alpha.mean * view.w_mean
    assert np.abs(gradient).max() < 1e-8
    assert moves[-1] < 1e-10 < 0.01 < moves[1]
    moves = []
    for _ in range(8):
        stats = known.stats(view)
        new = update_tau(stats, view, known.spec, expected_residual(stats, view))
        tau = leap_tau(stats, view, new)
        moves.append(np.abs(np.log(tau / view.tau.mean)).max())
        view = replace(view, tau=replace(new.tau, rate=new.tau.shape / tau))
    np.testing.assert_allclose(new.tau.mean, tau, rtol=1e-6)
    assert moves[-1] < 1e-6 < 0.01 < moves[0]


def test_newton_steps_of_rows_end_a_fit_to_sparse_counts_sooner_and_no_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem([Count()], [60], ["none"], n=80, n_components=3)
    rng = np.random.default_rng(0)
    rate = np.exp(rng.standard_normal((80, 2)) @ rng.standard_normal((2, 60)) - 2.0)
    problem = replace(problem, data=[replace(problem.data[0], target=rng.poisson(rate).astype(float))])
    fits = []
    for newton in (True, False):
        monkeypatch.setattr(Poisson, "found_with_z", newton)
        fits.append(run(problem.rows, StartingPoint(problem.posterior, 3), FitOptions(tol=1e-5, trials=False)))
    fast, creeping = fits
    assert all(b >= a - 1e-7 for a, b in pairwise(fast.path[-20:]))
    assert fast.state.bound > creeping.state.bound - 0.01
    assert fast.n_sweeps < 0.7 * creeping.n_sweeps


RARE = 0.01  # of the rows have another level than the lowest, in one column


def rare_levels(n: int, n_features: int, rng: np.random.Generator) -> tuple[Interval, np.ndarray]:
    """Cuts and targets of columns of four levels; of the second, nearly all rows have the lowest."""
    shares = np.array([0.6, RARE, 0.5, 0.4, 0.7, 0.3])[:n_features]
    edges = [norm.ppf(1 - share * np.array([1.0, 0.6, 0.3])) for share in shares]
    likelihood = Interval(tuple(tuple(own) for own in edges))
    x = rng.standard_normal((n, 1)) + 0.7 * rng.standard_normal((n, n_features))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return likelihood, likelihood.draw(x, rng)


def levels_of_known_factors() -> tuple[Callable[[ViewPosterior], ViewStats], ViewSpec, ViewPosterior]:
    """The statistics with x at its best, of levels whose one z is known up to a little."""
    n, rng = 1000, np.random.default_rng(0)
    problem = make_problem([Ordinal()], [3], ["none"], n=60, n_components=1)
    likelihood, target = rare_levels(n, 3, rng)
    spec, z = replace(problem.spec.views[0], likelihood=likelihood), rng.standard_normal((n, 1))

    def stats(view: ViewPosterior) -> ViewStats:
        f = z @ view.w_mean.T
        x = likelihood.infer_x(target, f + view.b_mean, view.tau.mean, None)
        pairs = np.stack([np.sum(x.slope * by, axis=0) for by in (f**2, f, np.ones_like(f))], axis=1)
        pulls = np.stack([np.sum(x.pull * by, axis=0) for by in (f, np.ones_like(f))], axis=1)
        sums = (np.array([float(n)]), z.sum(axis=0)[None], (z.T @ z + 2.0)[None], x.mean.sum(axis=0), x.mean.T @ z)
        slopes = Slopes(pairs, x.drift.sum(axis=0), pulls)
        return ViewStats(*sums, x.second.sum(axis=0), x.bound.sum(), view.w_cov.groups, slopes)

    return stats, spec, problem.posterior.views[0]


def test_leaps_of_the_scale_of_levels_end_where_plain_updates_creep_to() -> None:
    """Where these leave things as they are; plain ones have a good part of the way to go after five times as many."""
    stats_of, spec, first = levels_of_known_factors()
    ends = {}
    for leaps, n_rounds in ((True, 60), (False, 300)):
        view = first
        for _ in range(n_rounds):
            stats = stats_of(view)
            new, _ = update_view(stats, view, spec)
            if leaps:
                w, b, tau = leap_scale(stats, view, new, spec)
                new = replace(new.with_weights(w, new.w_cov), b_mean=b, tau=replace(new.tau, rate=new.tau.shape / tau))
            view = new
        after, _ = update_view(stats_of(view), view, spec)
        ends[leaps] = np.log(view.tau.mean), np.log(after.tau.mean / view.tau.mean)
    assert np.abs(ends[True][1]).max() < 1e-6
    assert np.abs(ends[False][0] - ends[True][0]).max() > 0.1


def test_leaps_end_a_fit_to_rare_levels_sooner_and_no_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem([Ordinal()], [6], ["none"], n=1000, n_components=2)
    likelihood, target = rare_levels(1000, 6, np.random.default_rng(1))
    spec = replace(problem.spec, views=(replace(problem.spec.views[0], likelihood=likelihood),))
    problem = replace(problem, spec=spec, data=[replace(problem.data[0], target=target)])
    fits = []
    for leaps in (True, False):
        if not leaps:
            monkeypatch.setattr(
                momentum_module, "leap_scale", lambda s, old, new, spec: (new.w_mean, new.b_mean, new.tau.mean)
            )
        fits.append(run(problem.rows, StartingPoint(problem.posterior, 2), FitOptions(tol=1e-5, trials=False)))
    leaping, creeping = fits
    assert all(b >= a - 1e-7 for a, b in pairwise(leaping.path[-20:]))
    assert leaping.state.bound > creeping.state.bound - 0.01
    assert leaping.n_sweeps < 0.7 * creeping.n_sweeps
