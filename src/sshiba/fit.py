"""The loop: sweep, rotate, bound, prune, stop; and restarts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from .elbo import elbo
from .model import Model
from .rotation import find_rotation, objective, rotate
from .special import array_namespace
from .start import random_posterior
from .state import ColumnGroups, Posterior, Stats
from .updates import GLOBAL_UPDATES, apply_update, global_step

HOLD_X = 10  # sweeps in which W learns from the first, confident q(x)
WARM_UP = 20  # plain sweeps before the first rotation; earlier ones prune too much
TRIAL_SWEEPS = 10  # what a model with a factor less gets to show that its bound is higher
BIRTH_SWEEPS = 20  # the same for a factor more
CANDIDATES = 3  # weakest factors, each left out for trial at convergence
BIRTH_SCALE = 0.3  # of the random weights of a start
FIRST_TRIAL = 100.0  # times tol: the rise per sweep at which a smaller model is first tried
SETTLING = 50  # steps in which q(x) of a run that goes on is found again
LONGEST_WAIT = 16  # sweeps between two rotations
WORTHWHILE = 0.1  # of the rise of a sweep: a rotation that gains less is done more rarely
ROUNDING = 1e-9  # of the size of the bound: a fall beyond it is an error


class BoundError(ArithmeticError):
    """The bound fell, which exact coordinate ascent cannot do."""


class Engine(Protocol):
    """Where the rows are. `local` is whatever the engine keeps for them between sweeps: a value, never changed."""

    model: Model
    groups: tuple[ColumnGroups, ...]

    def start(self, posterior: Posterior) -> Any: ...
    def local_step(self, posterior: Posterior, local: Any, hold_x: bool = False) -> tuple[Any, Stats]: ...


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
class State:
    """A fit after a sweep.

    `size` is the sum of the absolute terms of the bound, the measure of its rounding; `gain` is what the rotation
    brought, None without one.
    """

    posterior: Posterior
    local: Any
    stats: Stats | None = None
    bound: float = -np.inf
    size: float = 0.0
    gain: float | None = None


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


@contextmanager
def ctrl_c() -> Iterator[list[int]]:
    """Ctrl-C as a list that is no longer empty, looked at between sweeps; pressed again, it interrupts at once.

    An exception in the midst of a sweep could hit compiled code, which turns it into another one.
    """
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def note(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


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


def run_restarts(
    engine: Engine,
    n_components: int,
    options: Options,
    seeds: Sequence[np.random.SeedSequence],
    n_jobs: int | None = None,
    callback: Callable[[Progress], object] | None = None,
    on_pause: Callable[[list[Fit]], object] | None = None,
    begun: Begun | None = None,
) -> list[Fit]:
    """Independent runs from random starts, in the order of their seeds; the first may go on from where it was.

    Several of them run on one thread each, however many there are at a time, so that `n_jobs` changes nothing but
    the time. A run that the user interrupts is the last.
    """

    def start(number: int) -> Begun:
        if number == 0 and begun is not None:
            return begun
        rng = np.random.default_rng(seeds[number])
        return Begun(random_posterior(engine.model, n_components, engine.groups, rng), n_components)

    def one(number: int, done: list[Fit]) -> Fit:
        def notify(progress: Progress) -> None:
            if callback is not None:
                callback(replace(progress, restart=number))

        def pause(fit: Fit) -> None:
            if on_pause is not None:
                on_pause([*done, fit])

        return run(engine, start(number), options, notify, pause if on_pause is not None else None, pressed)

    done: list[Fit] = []
    if len(seeds) == 1 or effective_n_jobs(n_jobs) == 1:
        with threadpool_limits(None if len(seeds) == 1 else 1), ctrl_c() as pressed:
            for number in range(len(seeds)):
                done.append(one(number, done))
                if done[-1].interrupted:
                    break
        return done
    fits = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_alone)(engine, start(number), options) for number in range(len(seeds))
    )
    try:
        for number, fit in enumerate(fits):
            done.append(fit)
            if callback is not None:
                last = fit.state.posterior.n_components
                callback(Progress(fit.n_sweeps, fit.state.bound, 0.0, last, fit.seconds, number))
    except KeyboardInterrupt:
        if not done:
            raise
    return done


def _alone(engine: Engine, begun: Begun, options: Options) -> Fit:
    with threadpool_limits(1):
        return run(engine, begun, options)


def sweep(engine: Engine, state: State, rotating: bool, hold_x: bool = False) -> State:
    """Local step, global step, rotation; the bound may not fall."""
    local, stats = engine.local_step(state.posterior, state.local, hold_x)
    posterior, gain = global_step(stats, state.posterior, engine.model), None
    if rotating:
        R, gain = find_rotation(objective(posterior, stats, engine.model))
        if gain > 0:
            posterior, stats = rotate(posterior, stats, engine.model, R)
    new = replace(measured(engine.model, posterior, local, stats), gain=gain)
    if not new.bound >= state.bound - ROUNDING * new.size:
        raise BoundError(blame(engine, state, new, hold_x))
    return new


def measured(model: Model, posterior: Posterior, local: Any, stats: Stats) -> State:
    terms = elbo(posterior, stats, model).values()
    return State(posterior, local, stats, sum(terms), sum(abs(t) for t in terms))


def blame(engine: Engine, before: State, after: State, hold_x: bool) -> str:
    """Repeat a sweep update by update, and name the one that lowered the bound."""
    local, stats = engine.local_step(before.posterior, before.local, hold_x)
    state = measured(engine.model, before.posterior, local, stats)
    culprit = "the local step (z, x)"
    if state.bound >= before.bound - ROUNDING * state.size:
        culprit = "the rotation"
        for update in GLOBAL_UPDATES:
            new = measured(engine.model, apply_update(update, stats, state.posterior, engine.model), local, stats)
            if not new.bound >= state.bound - ROUNDING * new.size:
                culprit = update.__name__
                break
            state = new
    return (
        f"The bound fell from {before.bound:.12g} to {after.bound:.12g}, in {culprit}. "
        "This should not happen; please report it with the data's shapes and options."
    )


def prune(state: State, prune_tol: float) -> State:
    """Drop the factors that explain less than `prune_tol` of every view. The bound starts anew: the model changed."""
    if state.stats is None or state.posterior.n_components == 1:
        return state
    share = explained_share(state.posterior, state.stats)
    keep = np.flatnonzero(share > prune_tol)
    if len(keep) == len(share):
        return state
    return without(state, keep if len(keep) else np.array([int(np.argmax(share))]))


def explained_share(posterior: Posterior, stats: Stats) -> np.ndarray:
    """The largest share of a view's variance that each factor explains: mean over d of <w_dk>² · mean(z_k²), (K,)."""
    xp = array_namespace(stats.zz)
    z_square = xp.linalg.diagonal(stats.zz) / stats.n
    shares = [xp.mean(view.w_mean**2, axis=0) * z_square for view in posterior.views]
    return np.max(np.stack([np.asarray(share) for share in shares]), axis=0)


def without(state: State, keep: np.ndarray) -> State:
    """The same state with only some of its factors, before any update has seen it; of none, the last with no weight."""
    posterior = state.posterior.arranged(keep) if len(keep) else state.posterior.arranged(np.array([0]), signs=0.0)
    return State(posterior, state.local)


def try_other(
    engine: Engine, state: State, options: Options, settled: bool, most: int, seed: int
) -> tuple[State | None, int]:
    """A model with a factor less, or at convergence with one more, if its bound is higher; also the sweeps it took."""
    other, cost = try_smaller(engine, state, options, CANDIDATES if settled else 1)
    if other is None and settled and state.posterior.n_components < most:
        other, more = try_larger(engine, state, options, seed)
        cost += more
    return other, cost


def try_smaller(engine: Engine, state: State, options: Options, n_candidates: int) -> tuple[State | None, int]:
    """Drop one of the weakest factors as long as the bound is higher without it; also the sweeps it took.

    A factor can sit for ever at a small local optimum that costs more than it explains; its removal is a step that
    coordinate ascent cannot take.
    """
    best, cost, found = None, 0, True
    while found and state.stats is not None:
        share = explained_share(state.posterior, state.stats)
        if len(share) == 1 and share[0] <= options.prune_tol:
            break
        found = False
        for weak in np.argsort(share)[:n_candidates]:
            start = without(state, np.delete(np.arange(len(share)), weak))
            trial, n_sweeps = attempt(engine, start, state.bound, TRIAL_SWEEPS, options.rotate)
            cost += n_sweeps
            if trial is not None:
                best, state, found = trial, trial, True
                break
    return best, cost


def try_larger(engine: Engine, state: State, options: Options, seed: int) -> tuple[State | None, int]:
    """Add a faint random factor; keep it if the bound is soon higher with it. Early rotations prune one too many."""
    born = random_posterior(engine.model, 1, engine.groups, np.random.default_rng(seed))
    start = State(state.posterior.joined(born, BIRTH_SCALE), state.local)
    return attempt(engine, start, state.bound + options.tol, BIRTH_SWEEPS, rotating=False)


def attempt(engine: Engine, trial: State, bound: float, n_sweeps: int, rotating: bool) -> tuple[State | None, int]:
    """A few sweeps in which `trial` must pass `bound`; None where it does not. Also the sweeps it took."""
    for left in reversed(range(n_sweeps)):
        before, trial = trial.bound, sweep(engine, trial, rotating)
        if trial.bound > bound:
            return trial, n_sweeps - left
        # Rises shrink from sweep to sweep: what does not arrive at the present pace never will.
        if trial.bound + left * (trial.bound - before) < bound:
            break
    return None, n_sweeps - left
