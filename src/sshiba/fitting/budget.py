"""What a fit may spend: sweeps and time, its trials included."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FitOptions:
    """Where to start, when to stop and prune, and how to go faster; `tol` is in nats per sweep, for the whole bound."""

    max_iter: int = 2000
    tol: float = 1e-2
    prune_tol: float = 1e-6
    rotate: bool = True
    momentum: bool = True
    trials: bool = True  # of a factor less or more, kept where the bound is higher
    max_time: float | None = None  # seconds; of several runs, for all of them
    pause: float = 600.0  # seconds between two calls of `on_pause`
    random_start: bool = False  # is the first start random, as all others are?


@dataclass
class Budget:
    """What a run, its trials included, has spent and may still spend."""

    options: FitOptions
    n_sweeps: int = 0
    stop_requests: Sequence[int] = ()
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def exhausted(self) -> bool:
        """Are sweeps or time used up, or has the user asked to stop?"""
        late = self.options.max_time is not None and self.seconds > self.options.max_time
        return self.n_sweeps >= self.options.max_iter or late or bool(self.stop_requests)
