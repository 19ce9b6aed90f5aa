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

from . import SSHIBA
from .datasets import DatasetError
from .fit import Progress
from .io import ModelFileError
from .result import views_table
from .sweep import BoundError

errors = Console(stderr=True)
USUAL_SWEEPS = 300  # of a fit
MENDABLE = (ValueError, TypeError, OSError, ImportError, DatasetError, ModelFileError, BoundError, MemoryError)


def say(words: str) -> None:
    errors.print(words, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def plain_errors(debugging: bool = False) -> Iterator[None]:
    """What users can mend is told in one line, exit code 1; the rest is a bug and keeps its traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader of standard output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        say("Stopped; nothing was written.")
        raise typer.Exit(1) from None
    except MENDABLE as error:
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
    table = views_table(model)
    names = [("class", "classes") if name in model.classes_ else ("feature", "features") for name in table["view"]]
    sizes = [f"{n} {one if n == 1 else many}" for n, (one, many) in zip(table["size"], names)]
    shares = {column: table[column].map("{:.1%}".format) for column in ("missing", "explained")}
    how = "converged" if model.converged_ else "not converged"
    factors = "1 factor" if model.n_components_ == 1 else f"{model.n_components_} factors"
    title = f"{len(model.factors_)} rows, {factors}; {how} after {model.n_iter_} sweeps"
    show(table[["view", "type"]].assign(size=sizes, **shares), f"{title}, bound {model.elbo_:,.1f}", console)


def show(frame: pd.DataFrame, title: str, console: Console | None = None) -> None:
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
