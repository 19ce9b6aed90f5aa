"""Answers about rows that are not in memory: some rows at a time, written as they are found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import pandas as pd
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..files.formats import IN_PARTS, STREAM, ending_of
from ..files.growing import growing
from ..files.long_tables import LongTable
from ..files.opening import FileViews, values_of
from ..files.text_files import Dialect
from ..files.writing import write
from .terminal import errors, say

LOG_SECONDS = 15.0  # between two lines in a log


class RowsBar:
    """How many rows are done: a bar at a terminal, else a line now and then."""

    def __init__(self, doing: str, total: int | None) -> None:
        self.doing, self.total, self.done, self.last = doing, total, 0, time.perf_counter()
        rows = TextColumn("{task.completed:,} rows")
        columns = (TextColumn("{task.description}"), BarColumn(), rows, TimeElapsedColumn())
        self.bar = Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True)
        self.task: TaskID = self.bar.add_task(doing, total=total)

    def advance(self, n_rows: int) -> None:
        self.done += n_rows
        self.bar.update(self.task, advance=n_rows)
        if not errors.is_terminal and time.perf_counter() - self.last > LOG_SECONDS:
            self.last = time.perf_counter()
            say(f"{self.doing}: {self.done:,}{'' if self.total is None else f' of {self.total:,}'} rows")

    def __enter__(self) -> RowsBar:
        self.bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()


def is_long(given: Any) -> bool:
    """Do the rows stay in their files?"""
    return isinstance(given, LongTable | FileViews)


def say_long(given: Any) -> None:
    """Before a table is gone through for the first time, which may take a while."""
    if isinstance(given, LongTable):
        say(f"Reading {given.path!r} in parts, since it is large.")


def check_growing(given: Any, *paths: str | None) -> None:
    """Refuse a file that cannot be written part by part where the rows come so."""
    for path in paths:
        if is_long(given) and path is not None and path != STREAM:
            ending_of(path, IN_PARTS)


def write_answers(
    given: Any, answer: Callable[[Any], pd.DataFrame], out: str, like: Dialect | None, doing: str
) -> None:
    """What is found for all rows, as one table."""
    if not is_long(given):
        write(answer(values_of(given)), out, like)
        return
    with RowsBar(doing, given.n_rows) as bar, growing(out, like) as add:
        for found in answers(given, answer):
            add(found)
            bar.advance(len(found))


def answers(given: LongTable | FileViews, answer: Callable[[Any], pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in given.parts():
        yield answer(values_of(part))
