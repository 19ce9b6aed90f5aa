"""Several runs from random starts, one after the other or side by side, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from ..core.scratch import RowsLostError
from ..core.start import posterior_along, random_posterior
from ..core.threads import kept_threads
from ..engines.protocol import Rows
from .budget import FitOptions
from .loop import Fit, Progress, StartingPoint, run


@dataclass(frozen=True)
class Restart:
    """How one random start ended, and the bound after each of its sweeps.

    `log_evidence` is the bound corrected for what it loses, None where that is not derived.
    """

    elbo: float
    log_evidence: float | None
    n_components: int
    n_iter: int
    converged: bool
    seconds: float
    interrupted: bool
    path: np.ndarray

    @classmethod
    def of(cls, fit: Fit) -> Restart:
        end = fit.state
        sizes = (float(end.bound), fit.log_evidence, end.posterior.n_components, int(fit.n_sweeps))
        return cls(*sizes, bool(fit.converged), fit.seconds, fit.interrupted, np.asarray(fit.path))


@dataclass(frozen=True)
class Restarts:
    """How each restart ended, and the whole of the best one; None where that is one of those that came before."""

    all: tuple[Restart, ...]
    best: Fit | None = None
    lost: RowsLostError | None = None  # why the last one could not go on
    interrupted: bool = False  # did the user end them, in the midst of the last one or before one that is missing?

    def add(self, fit: Fit) -> Restarts:
        """With one more; the states of all but the best are let go."""
        restarts = (*self.all, Restart.of(fit))
        best = fit if best_place(restarts) == len(self.all) else self.best
        return Restarts(restarts, best, fit.lost, fit.interrupted)


def best_place(restarts: Sequence[Restart]) -> int:
    """Which is the best: by the log evidence, since numbers of factors differ, or by the bound where any lacks it."""
    evidence = [restart.log_evidence for restart in restarts if restart.log_evidence is not None]
    bounds = [restart.elbo for restart in restarts]
    return int(np.argmax(evidence if len(evidence) == len(bounds) else bounds))


@dataclass(frozen=True)
class _Runs:
    """What the runs have in common, and what each of them starts with."""

    rows: Rows
    n_components: int
    options: FitOptions
    seeds: Sequence[np.random.SeedSequence]
    callback: Callable[[Progress], object] | None
    start: StartingPoint | None
    before: Sequence[Restart]
    began: float

    def starting_point(self, number: int) -> StartingPoint:
        if number == 0 and self.start is not None:
            return self.start
        rng, spec, groups = np.random.default_rng(self.seeds[number]), self.rows.spec, self.rows.groups
        if len(self.before) + number == 0 and not self.options.random_start:
            first = posterior_along(spec, groups, self.rows.directions(self.n_components), rng)
        else:
            first = random_posterior(spec, self.n_components, groups, rng)
        return StartingPoint(first, self.n_components)

    def with_share(self, n_left: int) -> FitOptions:
        """The options of the next of `n_left` runs that follow one another: its share of the time that is left."""
        if self.options.max_time is None:
            return self.options
        left = max(self.began + self.options.max_time - time.perf_counter(), 0.0)
        return replace(self.options, max_time=left / n_left)

    def notify(self, progress: Progress, number: int) -> None:
        if self.callback is not None:
            self.callback(replace(progress, restart=len(self.before) + number))


def run_restarts(
    rows: Rows,
    n_components: int,
    options: FitOptions,
    seeds: Sequence[np.random.SeedSequence],
    n_jobs: int | None = None,
    callback: Callable[[Progress], object] | None = None,
    on_pause: Callable[[Restarts], object] | None = None,
    start: StartingPoint | None = None,
    before: Sequence[Restart] = (),
) -> Restarts:
    """Independent runs: the first from the principal components, or on from `start`; the others from random weights.

    With `options.random_start` the first is random, too. `options.max_time` is the time of all of them together.
    `before` are restarts that were done earlier. A run that the user interrupts is the last. With `on_pause` they run
    one after the other.
    """
    runs = _Runs(rows, n_components, options, seeds, callback, start, before, time.perf_counter())
    workers = min(len(seeds), effective_n_jobs(n_jobs))
    if workers <= 1 or on_pause is not None or not rows.portable:
        return _in_turn(runs, on_pause)
    return _side_by_side(runs, workers)


def _in_turn(runs: _Runs, on_pause: Callable[[Restarts], object] | None) -> Restarts:
    done = Restarts(tuple(runs.before))
    with ctrl_c() as stop_requests, kept_threads():
        for number in range(len(runs.seeds)):

            def pause(fit: Fit, done: Restarts = done) -> None:
                if on_pause is not None:
                    on_pause(done.add(fit))

            def each_sweep(progress: Progress, number: int = number) -> None:
                runs.notify(progress, number)

            first, on_its_pause = runs.starting_point(number), pause if on_pause is not None else None
            options = runs.with_share(len(runs.seeds) - number)
            done = done.add(run(runs.rows, first, options, each_sweep, on_its_pause, stop_requests))
            if stop_requests and number + 1 < len(runs.seeds):
                done = replace(done, interrupted=True)
            if done.interrupted:
                break
    return done


def _side_by_side(runs: _Runs, workers: int) -> Restarts:
    """In so many processes at a time; an interrupt ends all that are not done."""
    done, n_runs = Restarts(tuple(runs.before)), len(runs.seeds)
    threads, options = max(1, cpu_count() // workers), runs.with_share(-(-n_runs // workers))
    try:
        with ctrl_c_at_once():
            fits = Parallel(n_jobs=workers, return_as="generator")(
                delayed(_in_worker)(runs.rows, runs.starting_point(number), options, threads)
                for number in range(n_runs)
            )
            for number, fit in enumerate(fits):
                done = done.add(fit)
                end = fit.state
                runs.notify(Progress(fit.n_sweeps, end.bound, 0.0, end.posterior.n_components, fit.seconds), number)
    except KeyboardInterrupt:
        if len(done.all) == len(runs.before):
            raise
        return replace(done, interrupted=len(done.all) < len(runs.before) + n_runs)
    return done


def _in_worker(rows: Rows, start: StartingPoint, options: FitOptions, threads: int) -> Fit:
    with threadpool_limits(threads):
        return run(rows, start, options)


# ------------------------------------------------------------------------------------------------------ Ctrl-C


class _Noting:
    """Notes that Ctrl-C was pressed; pressed again, it interrupts at once."""

    def __init__(self) -> None:
        self.requests: list[int] = []

    def __call__(self, number: int, frame: object) -> None:
        if self.requests:
            raise KeyboardInterrupt
        self.requests.append(number)


@contextmanager
def ctrl_c(anew: bool = False) -> Iterator[list[int]]:
    """Ctrl-C as a list of stop requests, looked at between sweeps; pressed again, it interrupts at once.

    An exception in the midst of a sweep could hit compiled code, which turns it into another one. A block within such a
    block has its list; `anew` has one of its own, which is added to the other when it ends.
    """
    noting = _Noting()
    with _on_ctrl_c(noting) as around:
        outer = around.requests if isinstance(around, _Noting) else []
        if not anew:
            noting.requests = outer
        yield noting.requests
        if anew:
            outer += noting.requests


def ctrl_c_at_once() -> AbstractContextManager[Any]:
    """Ctrl-C interrupts at once, also within a block that would note it."""
    return _on_ctrl_c(signal.default_int_handler)


@contextmanager
def _on_ctrl_c(handler: Any) -> Iterator[Any]:
    """What Ctrl-C does meanwhile, in the main thread, which alone is told of it; what it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield before
    finally:
        signal.signal(signal.SIGINT, before)
