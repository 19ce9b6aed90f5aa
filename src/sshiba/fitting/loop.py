"""The loop: sweep, prune, stop; and what it reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.evidence import log_evidence
from ..core.momentum import plain_sweeps
from ..core.scratch import RowsLostError
from ..core.state import Posterior
from ..engines.protocol import SETTLING, Rows
from .budget import Budget, FitOptions
from .size import Trials, prune
from .sweep import State, sweep

HOLD_X = 10  # sweeps in which W learns from the first, confident q(x)
WARM_UP = 20  # plain sweeps before the first rotation, and the first trial; earlier rotations prune too much
NEARLY = 5  # of a start from similar rows: sweeps before the first trial, and rounds for q(x), as the globals will move
LONGEST_WAIT = 16  # sweeps between two rotations
WORTHWHILE = 0.1  # of the rise of a sweep: a rotation that gains less is done more rarely


def run(
    rows: Rows,
    start: StartingPoint,
    options: FitOptions,
    callback: Callable[[Progress], object] | None = None,
    on_pause: Callable[[Fit], object] | None = None,
    stop_requests: Sequence[int] = (),
) -> Fit:
    """Sweep until the bound rises by less than `tol`, and neither a factor less nor one more gives a better model.

    `callback` is called after each sweep, `on_pause` with the present state now and then; a stop request ends the run,
    and so does a loss of the rows, with the last state that was whole.
    """
    paused = time.perf_counter()
    budget = Budget(options, start.n_sweeps, stop_requests)
    state, path, converged = first_state(rows, start), list(start.path), False
    whole = state  # the last one with statistics
    n_held, n_warm_up = (0, NEARLY) if start.is_near else (HOLD_X, WARM_UP)
    rotations = Schedule(options.rotate, 1 if start.is_near else max(WARM_UP, start.n_sweeps) + 1)
    trials = Trials(rows, options, budget, start.n_components, n_warm_up)

    def so_far(interrupted: bool = False) -> Fit:
        path.extend(path[-1:] * (budget.n_sweeps - len(path)))  # a trial that was cut short
        return Fit(state, path, budget.n_sweeps, converged, budget.seconds, interrupted)

    try:
        while not converged and not budget.exhausted:
            rotating = rotations.due(budget.n_sweeps + 1)
            new = sweep(rows, state, rotating, hold_x=budget.n_sweeps < n_held, momentum=options.momentum)
            budget.n_sweeps += 1
            rise = np.inf if new.is_anew else new.bound - state.bound
            pace = rise / plain_sweeps(new.n_ahead)
            rotations.learn(budget.n_sweeps, new.gain, rise, stalled=pace < options.tol)
            path.append(new.bound)
            whole, state = new, prune(new, options, rows.spec)
            if callback is not None:
                callback(Progress(budget.n_sweeps, new.bound, rise, state.posterior.n_components, budget.seconds))
            due = time.perf_counter() - paused > options.pause
            if on_pause is not None and due and state.stats is not None:
                on_pause(with_evidence(rows, so_far(interrupted=True)))
                paused = time.perf_counter()
            state, converged = trials.after_sweep(state, pace)
            path += [state.bound] * (budget.n_sweeps - len(path))  # the sweeps of a trial
        done = with_evidence(rows, so_far())
        return replace(done, interrupted=bool(stop_requests) and not done.converged)
    except KeyboardInterrupt:
        if len(path) == len(start.path):  # nothing was done yet that could be kept
            raise
        return replace(with_evidence(rows, so_far()), interrupted=True)
    except RowsLostError as error:
        if whole.stats is None:
            raise
        state = whole
        return replace(with_evidence(rows, so_far(interrupted=True)), lost=error)


def first_state(rows: Rows, start: StartingPoint) -> State:
    """At a fresh start q(x) is a confident one; of a run that goes on it is found again, with the globals held."""
    local = rows.start(start.posterior)
    if start.is_near or start.n_sweeps > HOLD_X:
        local, _ = rows.settle(start.posterior, local, NEARLY if start.is_near else SETTLING)
    return State(start.posterior, local)


def with_statistics(rows: Rows, fit: Fit) -> Fit:
    """Factors pruned in the last sweep, or a run without any sweep, need one more."""
    if fit.state.stats is not None:
        return fit
    state = sweep(rows, fit.state, rotating=False)
    return replace(fit, state=state, path=[*fit.path, state.bound], n_sweeps=fit.n_sweeps + 1)


def with_evidence(rows: Rows, fit: Fit) -> Fit:
    """With the corrected log evidence of its end."""
    fit = with_statistics(rows, fit)
    end = fit.state
    assert end.stats is not None
    return replace(fit, log_evidence=log_evidence(end.posterior, end.stats, rows.spec, end.bound))


@dataclass
class Schedule:
    """When to rotate: after the warm-up; the less it gains beside the plain updates, the more rarely."""

    wanted: bool
    next: int
    wait: int = 1

    def due(self, number: int) -> bool:
        return self.wanted and number >= self.next

    def learn(self, number: int, gain: float | None, rise: float, stalled: bool) -> None:
        """`gain` is None where the sweep did not rotate: if it stalled, only a rotation can say whether it is over."""
        if gain is None:
            self.next = min(self.next, number + 1) if stalled and number > WARM_UP else self.next
        else:
            self.wait = min(2 * self.wait, LONGEST_WAIT) if gain < WORTHWHILE * rise else 1
            self.next = number + self.wait


@dataclass(frozen=True)
class Progress:
    """What a callback receives after each sweep (of parallel restarts: after each restart)."""

    sweep: int
    elbo: float
    rise: float
    n_components: int
    seconds: float
    restart: int = 0


@dataclass(frozen=True)
class Fit:
    """The end of one run, or where it was stopped by the user.

    `path` holds the bound of what was kept after each sweep, so that it stays the same during a trial of another number
    of factors; `n_sweeps` is its length. `log_evidence` is None where it is not derived.
    """

    state: State
    path: list[float]
    n_sweeps: int
    converged: bool
    seconds: float
    interrupted: bool = False
    log_evidence: float | None = None
    lost: RowsLostError | None = None  # why the run could not go on


@dataclass(frozen=True)
class StartingPoint:
    """Where a run starts: a first guess, the end of a fit to similar rows (`is_near`), or of a run that was stopped."""

    posterior: Posterior
    n_components: int  # the most factors it may have
    path: tuple[float, ...] = ()
    n_sweeps: int = 0
    is_near: bool = False
