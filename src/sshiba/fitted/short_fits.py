"""Short fits to some of the rows, by which models are compared: few sweeps, and a limit of time for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from ..core.coded import CodedView
from ..core.devices import HOST, Device
from ..core.spec import ModelSpec
from ..core.start import posterior_along
from ..core.state import Posterior
from ..engines import make_rows
from ..fitting.budget import FitOptions
from ..fitting.loop import Progress, StartingPoint, run

SHORT = 60  # sweeps
SHORT_TOL = 4e-6  # nats a cell and sweep: the tolerance of these fits, or that of the fit itself where it is larger


class OutOfTimeError(Exception):
    """Short fits have taken the time that they may take."""


@dataclass(frozen=True)
class ShortFits:
    """How short fits are made, and until when."""

    options: FitOptions
    tol: float  # nats a row and sweep, in place of that of the options, which is for all rows
    missing: str = "exact"
    engine: str = "auto"
    device: Device = HOST
    max_memory: float = inf
    watch: Callable[[Progress], object] | None = None
    stop_requests: Sequence[int] = ()
    until: float = inf  # by `time.perf_counter`

    def within(self, share: float) -> ShortFits:
        """The same, and all of them together take at most this share of the time of the fit, from now on."""
        limit = self.options.max_time
        return self if limit is None else replace(self, until=time.perf_counter() + share * limit)

    def check(self) -> None:
        """KeyboardInterrupt after a stop request, as there is nothing yet to be kept; OutOfTimeError when late."""
        if self.stop_requests:
            raise KeyboardInterrupt
        if time.perf_counter() > self.until:
            raise OutOfTimeError

    def fit(
        self,
        data: Sequence[CodedView],
        spec: ModelSpec,
        n_components: int,
        seed: int | np.random.SeedSequence,
        near: Posterior | None = None,
        trials: bool = False,
        number: int = 0,
    ) -> Posterior:
        """The end of a fit to these rows, which is `number` to those who watch.

        It starts from `near`, where a like one ended, or from the principal components.
        """
        limit = None if self.until == inf else self.until - time.perf_counter()
        tol = self.tol * data[0].n_rows
        options = replace(self.options, max_iter=SHORT, tol=tol, trials=trials, max_time=limit)
        model, memory = (data, spec, n_components, self.missing, self.engine), self.max_memory
        rows = make_rows(*model, device=self.device, max_memory=memory)
        if near is None:
            along = rows.directions(n_components)
            first = posterior_along(spec, rows.groups, along, np.random.default_rng(seed))
            start = StartingPoint(first, n_components)
        else:
            start = StartingPoint(near, n_components, is_near=True)
        watch = self.watch
        told = watch and (lambda progress: watch(replace(progress, restart=number)))
        end = run(rows, start, options, told, stop_requests=self.stop_requests).state.posterior
        self.check()
        return end
