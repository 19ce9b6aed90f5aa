"""What a fit may spend and what it keeps: sweeps, time, settling, and the states of restarts."""

import gc
import signal
import weakref
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import Problem, make_problem
from joblib import parallel_config

from sshiba import SSHIBA
from sshiba.core.explained import gained_nats, largest_share
from sshiba.core.scratch import RowsLostError
from sshiba.data.reading import read_training
from sshiba.data.types import Binary, Real
from sshiba.engines import Rows, make_rows, memory
from sshiba.fitting import loop, restarts
from sshiba.fitting.budget import Budget, FitOptions
from sshiba.fitting.loop import Fit, Progress, StartingPoint, run
from sshiba.fitting.restarts import Restarts, best_place, run_restarts
from sshiba.fitting.size import IDLE_COST, prune
from sshiba.fitting.sweep import State, sweep


class CountedRows:
    """Rows that count what they are asked for."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.calls = rows, Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.rows, name)
        if not callable(found):
            return found

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments, **options)

        return counted


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A problem whose fit soon tries other numbers of factors."""
    return make_problem([Real(), Binary()], [8, 5], ["none", "rows"], n=40, n_components=5)


def fit_counted(problem: Problem, options: FitOptions) -> tuple[Fit, Counter]:
    rows = CountedRows(problem.rows)
    return run(rows, StartingPoint(problem.posterior, 5), options), rows.calls


def test_trials_count_as_sweeps(problem: Problem) -> None:
    """Whatever the limit, also in the midst of a trial; one more sweep where factors were pruned in the last."""
    whole, calls = fit_counted(problem, FitOptions(tol=0.5))
    assert whole.converged
    assert len(whole.path) == calls["step"] == whole.n_sweeps
    for max_iter in (*range(1, whole.n_sweeps), whole.n_sweeps + 1):
        fit, calls = fit_counted(problem, FitOptions(max_iter=max_iter, tol=0.5))
        assert calls["step"] == fit.n_sweeps <= max_iter + 1
        assert fit.converged == (max_iter > whole.n_sweeps)  # a trial that was cut short says nothing
        assert fit.converged or fit.n_sweeps >= max_iter


@pytest.mark.parametrize(("seed", "prune_tol"), [(11, 1e-6), (21, 1e-6), (29, 1e-2)])
def test_no_trial_right_after_pruning(seed: int, prune_tol: float) -> None:
    """In these a factor goes in the very sweep in which the fit settles: any trial would beat a bound not yet known."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6)) + rng.standard_normal((60, 6))
    model = SSHIBA(5, tol=1e-3, prune_tol=prune_tol, random_state=seed, start="random").fit({"x": x})
    assert np.diff(model.elbo_path_).min() >= 0


def test_factors_added_where_others_were_dropped(problem: Problem) -> None:
    few = problem.posterior.select_factors(np.array([3, 1]))
    more = few.add_factors(problem.posterior, 0.5)
    assert more.n_components == 7
    for view, old, new in zip(more.views, few.views, problem.posterior.views):
        expected = np.concatenate([old.w_cov.diagonal(), 0.25 * new.w_cov.diagonal()], axis=1)
        np.testing.assert_allclose(view.w_cov.diagonal(), expected)


def test_the_first_start_may_be_random(problem: Problem) -> None:
    seeds = np.random.SeedSequence(0).spawn(2)
    ends = {}
    for random_start in (False, True):
        options = FitOptions(max_iter=1, random_start=random_start)
        ends[random_start] = [restart.elbo for restart in run_restarts(problem.rows, 5, options, seeds).all]
    assert ends[True][0] != ends[False][0]
    assert ends[True][1] == ends[False][1]


def test_trials_count_as_time(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by a second a sweep."""
    cut_short = 0
    for max_time in (0, 5, 21, 24, 27, 30, 33, 36, 39):
        rows = CountedRows(problem.rows)
        monkeypatch.setattr(Budget, "seconds", property(lambda self, rows=rows: float(rows.calls["step"])))
        fit = run(rows, StartingPoint(problem.posterior, 5), FitOptions(max_time=max_time, tol=0.5))
        assert rows.calls["step"] == fit.n_sweeps <= max_time + 2
        assert fit.converged or fit.n_sweeps > max_time
        assert len(fit.path) == fit.n_sweeps
        cut_short += not fit.converged and fit.path[-2:].count(fit.path[-1]) == 2
    assert cut_short > 0


@pytest.mark.parametrize("latent", [False, True])
def test_only_latent_views_settle_when_a_fit_goes_on(latent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    views = [Real(), Binary()] if latent else [Real(), Real(noise="view")]
    problem = make_problem(views, [6, 4], ["cells", "none"], n=30, n_components=3)
    first = run(
        problem.rows, StartingPoint(problem.posterior, 3), FitOptions(max_iter=15, momentum=False, trials=False)
    )
    settled, settle = [], memory.settle
    monkeypatch.setattr(memory, "settle", lambda *given, **options: settled.append(1) or settle(*given, **options))
    rows = CountedRows(problem.rows)
    start = StartingPoint(first.state.posterior, 3, tuple(first.path), first.n_sweeps)
    again = run(rows, start, FitOptions(max_iter=20, momentum=False, trials=False))
    assert bool(settled) == latent
    assert rows.calls["step"] == again.n_sweeps - first.n_sweeps == 5
    assert again.path[:15] == first.path
    if not latent:  # nothing was thrown away: to the last bit the way of a fit that was never stopped
        options = FitOptions(max_iter=20, momentum=False, trials=False)
        whole = run(problem.rows, StartingPoint(problem.posterior, 3), options)
        assert again.path == whole.path


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_only_the_best_state_stays(n_jobs: int, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all restarts; and while they run, beside it only the state that is at work."""
    states: list[weakref.ref] = []
    most_alive = []
    add = Restarts.add

    def alive() -> list[Any]:
        gc.collect()
        return [state() for state in states if state() is not None]

    def watched(self: Restarts, fit: Fit) -> Restarts:
        states.append(weakref.ref(fit.state))
        most_alive.append(len(alive()))
        return add(self, fit)

    monkeypatch.setattr(Restarts, "add", watched)
    seeds = np.random.SeedSequence(0).spawn(6)
    restarts = run_restarts(problem.rows, 5, FitOptions(max_iter=4 + n_jobs), seeds, n_jobs)
    assert len(states) == len(restarts.all) == 6
    assert restarts.best is not None
    assert restarts.best.state.bound == restarts.all[best_place(restarts.all)].elbo
    assert [id(state) for state in alive()] == [id(restarts.best.state)]
    assert max(most_alive) <= 3  # the best, the one before, and this one


def test_the_weakest_factor_is_the_one_the_likelihood_misses_least() -> None:
    """In nats, not by its largest share of a view: a factor of one column may explain much of it, and little in all."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 3))
    wide = z[:, :2] @ rng.standard_normal((2, 30)) + rng.standard_normal((300, 30))
    narrow = z[:, 2:] + 0.5 * rng.standard_normal((300, 2))
    views = {"wide": wide, "narrow": narrow}
    fit = SSHIBA(3, random_state=0, search=None).fit(views).fitted_
    rows = make_rows(list(read_training(views)[1].values()), fit.spec, 3)
    _, stats = rows.step(fit.posterior, rows.start(fit.posterior))
    nats = gained_nats(fit.posterior, stats, fit.spec)
    for k in range(fit.n_components):
        lost = 0.0
        for view, x in zip(fit.posterior.views, (view.target for view in rows.blocks[0].views)):
            residual = x - view.b_mean - fit.factors @ view.w_mean.T
            without = residual + fit.factors[:, [k]] * view.w_mean[:, k]
            lost += 0.5 * float(np.sum(view.tau.mean * (without**2 - residual**2)))
        assert nats[k] == pytest.approx(lost, rel=0.15)
    share = largest_share(fit.posterior, stats)
    assert np.argmin(nats) == np.argmax(share) == np.argmax(np.abs(fit.posterior.views[1].w_mean).sum(axis=0))


def test_a_factor_that_fades_below_its_cost_goes_and_others_stay(problem: Problem) -> None:
    """Only where trials are decided by the bound; what a sweep says of fading is what its nats say, rotations aside."""
    first = sweep(problem.rows, State(problem.posterior, problem.rows.start(problem.posterior)), rotating=False)
    second = sweep(problem.rows, first, rotating=False)
    assert first.fading is None
    np.testing.assert_array_equal(second.nats, gained_nats(second.posterior, second.stats, problem.rows.spec))
    np.testing.assert_array_equal(second.fading, second.nats < 0.9 * first.nats)
    cost = IDLE_COST * 2
    nats, fading = np.array([0.9, 0.9, 1.1, 1.1, 50.0]) * cost, np.array([True, False, True, False, True])
    state = replace(second, nats=nats, fading=fading)
    by_bound = problem.rows.spec
    by_evidence = replace(by_bound, views=by_bound.views[:1])  # without the labels
    fewer = prune(state, FitOptions(), by_bound)
    assert fewer.posterior.n_components == 4
    np.testing.assert_array_equal(fewer.nats, nats[1:])
    assert prune(state, FitOptions(), by_evidence) is state
    assert prune(state, FitOptions(trials=False), by_bound) is state


@pytest.mark.parametrize("in_turn", [False, True])
def test_restarts_share_the_time_that_is_left(problem: Problem, in_turn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they once had the whole time each, if several jobs were allowed."""
    given: list[float] = []
    own = restarts.run

    def timed(rows: Rows, start: StartingPoint, options: FitOptions, *more: Any) -> Fit:
        given.append(options.max_time)
        return own(rows, start, replace(options, max_time=None), *more)

    monkeypatch.setattr(restarts, "run", timed)
    options, seeds = FitOptions(max_iter=2, max_time=3000.0), np.random.SeedSequence(0).spawn(3)
    with parallel_config(backend="threading"):
        run_restarts(problem.rows, 5, options, seeds, n_jobs=3, on_pause=(lambda done: None) if in_turn else None)
    assert given == pytest.approx([1000, 1500, 3000] if in_turn else [3000] * 3, rel=0.02)


def test_an_interrupt_of_parallel_restarts_is_known(problem: Problem) -> None:
    """What is done is kept, and the fit is not taken for a whole one."""
    seeds = np.random.SeedSequence(0).spawn(4)

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    found = run_restarts(problem.rows, 5, FitOptions(max_iter=2), seeds, n_jobs=2, callback=stop)
    assert len(found.all) < 4
    assert found.interrupted


def test_a_restart_that_has_converged_is_not_called_interrupted(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while its evidence is computed: the restart is done, and only others are missing."""
    own = loop.with_evidence

    def pressed(rows: Rows, fit: Fit) -> Fit:
        signal.raise_signal(signal.SIGINT)
        return own(rows, fit)

    monkeypatch.setattr(loop, "with_evidence", pressed)
    for n_runs in (1, 3):
        seeds = np.random.SeedSequence(0).spawn(n_runs)
        found = run_restarts(problem.rows, 3, FitOptions(tol=1e3, trials=False), seeds)
        assert [(one.converged, one.interrupted) for one in found.all] == [(True, False)]
        assert found.interrupted == (n_runs > 1)


def test_rows_that_are_lost_after_a_last_factor_went_keep_the_fit(problem: Problem) -> None:
    """The last sweep dropped a factor, so one more is needed; there the rows are gone."""

    class Lost(CountedRows):
        def step(self, *given: Any, **named: Any) -> Any:
            if self.calls["step"] == 2:
                raise RowsLostError("gone")
            self.calls["step"] += 1
            return self.rows.step(*given, **named)

    def drop(state: State, tol: float, fading: bool) -> State:
        posterior = state.posterior.select_factors(np.arange(4))
        return replace(state, posterior=posterior, stats=None) if rows.calls["step"] == 2 else state

    rows = Lost(problem.rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "prune", drop)
        fit = run(rows, StartingPoint(problem.posterior, 5), FitOptions(max_iter=2, momentum=False))
    assert fit.lost is not None
    assert fit.state.posterior.n_components == 5
