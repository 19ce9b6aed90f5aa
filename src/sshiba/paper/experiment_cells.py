"""Cells: the units of work of an experiment. Each is stored as soon as it is done, and skipped on the next run."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from threadpoolctl import threadpool_limits

SEED = 0  # of every split, mask and fit
# Raise them when what a cell computes has changed, or what SSHIBA does in it: stored ones are then done again.
FORMAT, MODEL = 2, 4


@dataclass(frozen=True)
class Cell:
    """One piece of work: which experiment, and the options that say what to compute (JSON values)."""

    experiment: str
    options: dict[str, Any]
    cost: float = 1.0  # rough, relative: the dear ones start first
    after: Cell | None = None  # one whose result it needs
    is_baseline: bool = False  # has SSHIBA no part in it?

    @property
    def name(self) -> str:
        """A file name: readable, and different for different options."""
        words = "-".join(str(value) for value in self.options.values())
        versions = [FORMAT] if self.is_baseline else [FORMAT, MODEL]
        digest = hashlib.sha256(json.dumps([*versions, self.options], sort_keys=True).encode()).hexdigest()[:8]
        return re.sub(r"[^\w.+-]+", "_", words)[:80] + "-" + digest


@dataclass(frozen=True)
class Result:
    """What a cell found: numbers for the tables, arrays for the figures."""

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


class Store:
    """A folder of finished cells: NAME.json and, where there are arrays, NAME.npz."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, cell: Cell) -> bool:
        return self._path(cell, "json").is_file()

    def put(self, cell: Cell, result: Result) -> None:
        """The JSON comes last and complete: where it is, the cell is done."""
        self._path(cell, "json").parent.mkdir(parents=True, exist_ok=True)
        if result.arrays:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, allow_pickle=False, **result.arrays)
            write_whole(self._path(cell, "npz"), buffer.getvalue())
        text = json.dumps({"options": cell.options, "numbers": result.numbers}, indent=1, default=_plain)
        write_whole(self._path(cell, "json"), text.encode())

    def get(self, cell: Cell) -> Result:
        numbers = json.loads(self._path(cell, "json").read_text())["numbers"]
        path = self._path(cell, "npz")
        if not path.is_file():
            return Result(numbers)
        with np.load(path, allow_pickle=False) as file:
            return Result(numbers, {key: file[key] for key in file.files})

    def _path(self, cell: Cell, ending: str) -> Path:
        return self.folder / cell.experiment / f"{cell.name}.{ending}"


def write_whole(path: Path, content: bytes) -> None:
    """A file that is there whole or not at all; no two processes write the same one."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be stored")


Compute = Callable[[Cell, Result | None], Result]  # a cell and what it needs -> what it found


def run_cells(cells: Sequence[Cell], compute: Compute, store: Store, n_jobs: int, console: Console) -> int:
    """Compute what is not stored yet, `n_jobs` at a time: first what others need, then the dear ones.

    One that fails is told and left out, so that hours of work do not end with it; how many did is returned.
    """
    n_failed = 0
    todo = [cell for cell in cells if cell not in store]
    if len(todo) < len(cells):
        console.print(f"{len(cells) - len(todo)} of {len(cells)} cells are stored already.")
    with _bar(console) as bar:
        task = bar.add_task("", total=len(todo))
        for later in (False, True):
            batch = sorted((c for c in todo if (c.after is not None) == later), key=lambda cell: -cell.cost)
            for cell, seconds, failure in _finished(batch, compute, store, n_jobs):
                done = f"{cell.experiment}: {_words(cell)}, {failure or f'{seconds:.0f} s'}"
                n_failed += bool(failure)
                bar.update(task, advance=1, description=done)
                if failure or not console.is_terminal:
                    console.print(done, markup=False, soft_wrap=True)
    return n_failed


def _finished(cells: list[Cell], compute: Compute, store: Store, n_jobs: int) -> Iterable[tuple[Cell, float, str]]:
    threads = max(1, cpu_count() // n_jobs)
    if n_jobs == 1 or not cells:
        return (_one(cell, compute, store, threads) for cell in cells)
    jobs = (delayed(_one)(cell, compute, store, threads) for cell in cells)
    return Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch=n_jobs)(jobs)


def _one(cell: Cell, compute: Compute, store: Store, threads: int) -> tuple[Cell, float, str]:
    """The cell, its seconds, and what went wrong, if anything did."""
    began = time.perf_counter()
    try:
        with unless_interrupted(), quiet(), threadpool_limits(threads):
            result = compute(cell, None if cell.after is None else store.get(cell.after))
        seconds = time.perf_counter() - began
        store.put(cell, Result({**result.numbers, "seconds": round(seconds, 2)}, result.arrays))
    except Exception as error:
        return cell, time.perf_counter() - began, f"failed: {type(error).__name__}: {error}"
    return cell, seconds, ""


@contextlib.contextmanager
def unless_interrupted() -> Iterator[None]:
    """Ends with KeyboardInterrupt where Ctrl-C was pressed inside, whoever took it.

    A fit takes it as the wish to end early, and what is computed from such a fit must not be stored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told, tell = socket.socketpair()  # Python writes the number of each signal into one of them
    told.setblocking(False)
    tell.setblocking(False)
    before = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
    try:
        yield
        with contextlib.suppress(BlockingIOError):
            if signal.SIGINT in told.recv(4096):
                raise KeyboardInterrupt
    finally:
        signal.set_wakeup_fd(before)
        told.close()
        tell.close()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Baselines warn by the thousand (labels of one outcome, steps that did not converge); the tables tell instead."""
    logger = logging.getLogger("sshiba")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


def _words(cell: Cell) -> str:
    return " ".join(str(value) for value in cell.options.values() if not isinstance(value, bool))[:60]


def _bar(console: Console) -> Progress:
    """In a narrow terminal the words about the last cell are cut, not the numbers."""
    whole = Column(no_wrap=True, min_width=7)
    return Progress(
        BarColumn(20),
        MofNCompleteColumn(table_column=whole),
        TimeElapsedColumn(table_column=whole),
        TextColumn("left:", table_column=whole),
        TimeRemainingColumn(table_column=whole),
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        console=console,
        expand=True,
        disable=not console.is_terminal,
    )
