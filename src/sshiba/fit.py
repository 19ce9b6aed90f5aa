"""The loop: sweep, prune, stop; what it is told, and what it tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .size import prune, try_other
from .state import Posterior
from .sweep import Engine, State, sweep

HOLD_X = 10  # sweeps in which W learns from the first, confident q(x)
WARM_UP = 20  # plain sweeps before the first rotation; earlier ones prune too much
FIRST_TRIAL = 100.0  # times tol: the rise per sweep at which a smaller model is first tried
SETTLING = 50  # steps in which q(x) of a run that goes on is found again
LONGEST_WAIT = 16  # sweeps between two rotations
WORTHWHILE = 0.1  # of the rise of a sweep: a rotation that gains less is done more rarely


def run(
    engine: Engine,
    begun: Begun,
    options: Options,
    callback: Callable[[Progress], object] | None = None,
    on_pause: Callable[[Fit], object] | None = None,
    pressed: Sequence[int] = (),
) -> Fit:
    """Sweep until the bound rises by less than `tol`, and neither a factor less nor one more gives a higher one.

    `callback` hears of each sweep, `on_pause` gets what there is now and then; once not empty, `pressed` ends the run.
    """
    began = paused = time.perf_counter()
    state, path, converged = first_state(engine, begun), list(begun.path), False
    rotations = Schedule(options.rotate, max(WARM_UP, begun.n_sweeps) + 1)
    patience, n_sweeps = FIRST_TRIAL, begun.n_sweeps

    def so_far(interrupted: bool = False) -> Fit:
        return Fit(state, path, n_sweeps, converged, time.perf_counter() - began, interrupted)

    try:
        while n_sweeps < options.max_iter and not converged and not pressed:
            rotating = rotations.due(n_sweeps + 1)
            new = sweep(engine, state, rotating, hold_x=n_sweeps < HOLD_X)
            n_sweeps += 1
            rise = new.bound - state.bound
            rotations.learn(n_sweeps, new.gain, rise, options.tol)
            path.append(new.bound)
            state = prune(new, options.prune_tol)
            now = time.perf_counter()
            if callback is not None:
                callback(Progress(n_sweeps, new.bound, rise, state.posterior.n_components, now - began))
            if options.max_time is not None and now - began > options.max_time:
                break
            if on_pause is not None and now - paused > options.pause and state.stats is not None:
                on_pause(so_far(interrupted=True))
                paused = now
            if rise < patience * options.tol and n_sweeps > WARM_UP and rotating == options.rotate:
                settled = rise < options.tol
                other, cost = try_other(engine, state, options, settled, begun.n_components, n_sweeps)
                n_sweeps += cost
                if other is not None:
                    state = other
                    path.append(state.bound)
                else:
                    converged = settled
                    patience = max(1.0, min(patience, rise / max(options.tol, 1e-300)) / 10)
    except KeyboardInterrupt:
        if len(path) == len(begun.path):  # nothing was done yet that could be kept
            raise
        return replace(complete(engine, so_far()), interrupted=True)
    return replace(complete(engine, so_far()), interrupted=bool(pressed))


def first_state(engine: Engine, begun: Begun) -> State:
    """At a fresh start q(x) is a confident one; of a run that goes on it is found again, with the globals held."""
    state = State(begun.posterior, engine.start(begun.posterior))
    for _ in range(SETTLING if begun.n_sweeps > HOLD_X else 0):
        state = replace(state, local=engine.local_step(state.posterior, state.local)[0])
    return state


def complete(engine: Engine, fit: Fit) -> Fit:
    """With statistics: factors pruned in the last sweep need one more."""
    if fit.state.stats is not None:
        return fit
    state = sweep(engine, fit.state, rotating=False)
    return replace(fit, state=state, path=[*fit.path, state.bound], n_sweeps=fit.n_sweeps + 1)


@dataclass
class Schedule:
    """When to rotate: after the warm-up; the less it gains beside the plain updates, the more rarely."""

    wanted: bool
    next: int
    wait: int = 1

    def due(self, number: int) -> bool:
        return self.wanted and number >= self.next

    def learn(self, number: int, gain: float | None, rise: float, tol: float) -> None:
        """`gain` is None where the sweep did not rotate: if it stalled, only a rotation can say whether it is over."""
        if gain is None:
            self.next = min(self.next, number + 1) if rise < tol and number > WARM_UP else self.next
        else:
            self.wait = min(2 * self.wait, LONGEST_WAIT) if gain < WORTHWHILE * rise else 1
            self.next = number + self.wait


@dataclass(frozen=True)
class Options:
    """When to stop, prune and rotate; `tol` is in nats per sweep, for the whole bound."""

    max_iter: int = 2000
    tol: float = 1e-2
    prune_tol: float = 1e-6
    rotate: bool = True
    max_time: float | None = None
    pause: float = 600.0  # seconds between two calls of `on_pause`


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each sweep (of parallel restarts: after each restart)."""

    sweep: int
    elbo: float
    rise: float
    n_components: int
    seconds: float
    restart: int = 0


@dataclass(frozen=True)
class Fit:
    """The end of one run, or where it was stopped by the user.

    `path` holds the bound after each accepted sweep; `n_sweeps` counts all of them, those of trials too.
    """

    state: State
    path: list[float]
    n_sweeps: int
    converged: bool
    seconds: float
    interrupted: bool = False


@dataclass(frozen=True)
class Begun:
    """Where a run starts: a random posterior, or one that was stopped after some sweeps."""

    posterior: Posterior
    n_components: int  # the most factors it may have
    path: tuple[float, ...] = ()
    n_sweeps: int = 0
