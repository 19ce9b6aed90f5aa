"""Progress of long fits: on a terminal a live line, in a log a plain one now and then."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .loop import Progress as Sweep

LOG_SECONDS = 15.0  # between two lines in a log


class FitBar:
    """Shows the restart, the sweep, the bound and the factors left; call it with each Progress of a fit."""

    def __init__(self, n_init: int, max_iter: int, each: str = "restart", console: Console | None = None) -> None:
        self.n_init = n_init
        self.each = each
        self.console = console or Console(stderr=True)
        self.last_line = time.perf_counter()
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("sweep {task.completed}"),
            TextColumn("bound {task.fields[elbo]:,.1f}"),
            TextColumn("{task.fields[n_components]} factors"),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.max_iter = max_iter
        self.task = self.bar.add_task("fitting", total=max_iter, elbo=float("nan"), n_components=0)

    def __enter__(self) -> FitBar:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def __call__(self, sweep: Sweep) -> None:
        name = "fitting" if self.n_init == 1 else f"{self.each} {sweep.restart + 1} of {self.n_init}"
        self.bar.update(
            self.task,
            completed=sweep.sweep,
            description=name,
            elbo=sweep.elbo,
            n_components=sweep.n_components,
        )
        if not self.console.is_terminal and time.perf_counter() - self.last_line > LOG_SECONDS:
            self.last_line = time.perf_counter()
            words = f"{name}: sweep {sweep.sweep}, bound {sweep.elbo:,.1f}, {sweep.n_components} factors"
            self.console.print(f"{words}, {sweep.seconds:.0f} s", highlight=False)
