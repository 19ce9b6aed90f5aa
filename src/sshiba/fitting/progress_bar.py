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
    """Shows the restart, the sweep, the bound and the factors left; call it with each Progress of a fit.

    Until the first sweep is done it says so. `expected` is how many sweeps a fit like this one took: then the time that
    is left is told, too.
    """

    def __init__(
        self,
        n_init: int,
        max_iter: int,
        each: str = "restart",
        console: Console | None = None,
        reads: ReadCount | None = None,
        expected: int | None = None,
        name: str = "fitting",
    ) -> None:
        self.n_init, self.each, self.name = n_init, each, name
        self.total, self.expected = expected or max_iter, expected
        self.reads = ReadCount() if reads is None else reads
        self.console = console or Console(stderr=True)
        self.began = self.last_line = time.perf_counter()
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[words]}"),
            ReadsColumn(self.reads),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.words = "preparing the first sweep"
        self.task = self.bar.add_task(name, total=None, words=self.words)

    def __enter__(self) -> FitBar:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:  # what is over is full, however many sweeps it took
            done = max(self.bar.tasks[0].completed, 1)
            self.bar.update(self.task, total=done, completed=done, words=self.words)
        self.bar.stop()

    def __call__(self, sweep: Sweep) -> None:
        name = self.name if self.n_init == 1 else f"{self.each} {sweep.restart + 1} of {self.n_init}"
        self.words = _words(sweep.sweep, sweep.elbo, sweep.n_components)
        words = self.words + self._left(sweep)
        total = max(self.total, sweep.sweep + 1)
        self.bar.update(self.task, completed=sweep.sweep, total=total, description=name, words=words)
        if not self.console.is_terminal and time.perf_counter() - self.last_line > LOG_SECONDS:
            self.last_line = time.perf_counter()
            reads = f", {self.reads}" if self.reads.n_bytes else ""
            self.console.print(f"{name}: {words}{reads}, {sweep.seconds:.0f} s", highlight=False)

    def _left(self, sweep: Sweep) -> str:
        if self.expected is None or sweep.sweep >= self.expected:
            return ""
        each = (time.perf_counter() - self.began) / sweep.sweep
        return f", {in_time(each * (self.expected - sweep.sweep))} left"

    def finish(self, n_sweeps: int, elbo: float, n_components: int) -> None:
        """How the best run ended, all of its sweeps counted, those of trials too."""
        name = self.name if self.n_init == 1 else f"best of {self.n_init}"
        self.words = _words(n_sweeps, elbo, n_components)
        self.bar.update(self.task, completed=n_sweeps, total=n_sweeps, description=name, words=self.words)


def _words(n_sweeps: int, elbo: float, n_components: int) -> str:
    return f"sweep {n_sweeps}, bound {elbo:,.1f}, {n_components} factors"


def in_time(seconds: float) -> str:
    """About how long, in words."""
    return f"about {max(seconds, 1):.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"


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
