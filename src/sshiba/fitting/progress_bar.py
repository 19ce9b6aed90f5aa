"""Progress of long fits: on a terminal a live line, in a log a plain one now and then."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from ..core.streamed import ReadCount
from .loop import Progress as Sweep

LOG_SECONDS = 15.0  # between two lines in a log


class FitBar:
    """Shows the restart, the sweep, the bound and the factors left; call it with each Progress of a fit."""

    def __init__(
        self,
        n_init: int,
        max_iter: int,
        each: str = "restart",
        console: Console | None = None,
        reads: ReadCount | None = None,
    ) -> None:
        self.n_init = n_init
        self.reads = ReadCount() if reads is None else reads
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
            ReadsColumn(self.reads),
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
            reads = f", {self.reads}" if self.reads.n_bytes else ""
            self.console.print(f"{words}{reads}, {sweep.seconds:.0f} s", highlight=False)


class ReadsColumn(ProgressColumn):
    """How far the present pass over rows is that are not in memory."""

    def __init__(self, reads: ReadCount) -> None:
        super().__init__()
        self.reads = reads

    def render(self, task: Task) -> Text:
        return Text(str(self.reads))


class ReadingBar:
    """Shown while the coding of rows that are not in memory is learned."""

    def __init__(self, reads: ReadCount, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("reading"), ReadsColumn(reads), TimeElapsedColumn())
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self.bar.add_task("reading", total=None)

    def __enter__(self) -> ReadingBar:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
