"""Several runs from random starts, one after the other or side by side, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from .fit import Begun, Fit, Options, Progress, run
from .start import random_posterior
from .sweep import Engine


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
