"""What the command says: lines, tables, errors in one line, and what a long fit will take."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ..data.wording import counted
from ..datasets import DatasetError
from ..estimator import SSHIBA
from ..files.model_file import ModelFileError
from ..fitted.describe import views_table
from ..fitting.loop import Progress
from ..fitting.sweep import BoundError

errors = Console(stderr=True)
USUAL_SWEEPS = 300  # of a fit
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, DatasetError, ModelFileError, BoundError, MemoryError)


def say(words: str) -> None:
    errors.print(words, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def plain_errors(debugging: bool = False) -> Iterator[None]:
    """Errors that users can correct in one line, exit code 1; any other is a bug and keeps its traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader of standard output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        say("Stopped; nothing was written.")
        raise typer.Exit(1) from None
    except USER_ERRORS as error:
        if debugging:
            raise
        words = " ".join(str(error).split()) or type(error).__name__
        errors.print(f"Error: {words}", markup=False, highlight=False, soft_wrap=True, style="red")
        raise typer.Exit(1) from None


class Expectation:
    """Tells the time that a sweep takes, once it is known, where a fit will be long."""

    def __call__(self, progress: Progress) -> None:
        per_sweep = progress.seconds / progress.sweep
        if progress.restart == 0 and progress.sweep == 10 and per_sweep * USUAL_SWEEPS > 90:
            usual = per_sweep * USUAL_SWEEPS / 60
            say(f"{per_sweep:.2g} s a sweep: about {usual:.0f} minutes for the usual {USUAL_SWEEPS} sweeps.")


def describe(model: SSHIBA, console: Console) -> None:
    """Views, sizes, what the factors explain, and how the fit went."""
    table = views_table(model.fitted_)
    sizes = [coding.size_in_words for coding in model.fitted_.schema.codings.values()]
    shares = {column: table[column].map("{:.1%}".format) for column in ("missing", "explained")}
    how = "converged" if model.converged_ else "not converged"
    rows, factors = counted(len(model.fitted_.index), "row"), counted(model.n_components_, "factor")
    title = f"{rows}, {factors}; {how} after {counted(model.n_iter_, 'sweep')}, bound {model.fitted_.elbo:,.1f}"
    print_table(table[["view", "type"]].assign(size=sizes, **shares), title, console)


def print_table(frame: pd.DataFrame, title: str, console: Console | None = None) -> None:
    console = console or Console()
    console.print(title, highlight=False)
    frame = frame.dropna(axis="columns", how="all")
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    for column in frame:
        name = "log-lik." if column == "log_likelihood" else str(column)
        shown.add_column(name, justify="right" if frame[column].dtype.kind in "fi" else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        shown.add_row(*(_text(value) for value in row))
    console.print(shown)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.3f}"
    return str(value)
