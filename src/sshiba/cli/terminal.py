"""What the command says: lines, tables, errors in one line, and what a long fit will take."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from ..data.advice import AdvisedError, Problem, Remedy
from ..data.wording import counted, percent, quoted
from ..datasets import DatasetError
from ..estimator import SSHIBA
from ..files.model_file import ModelFileError
from ..fitted.candidates import FEWEST
from ..fitted.describe import views_table
from ..fitting.loop import Progress
from ..fitting.sweep import BoundError

errors = Console(stderr=True)
# What a user at a shell can do: the option for each remedy.
OPTIONS = {
    Remedy.LEAVE_OUT: "leave it out with --drop",
    Remedy.ROW_NAMES: "name the rows by it with --index",
    Remedy.MISSING: "name what means missing with --missing {example}",
    Remedy.READING: "name the separator with --sep, or what means missing with --missing",
    Remedy.LIMITS: "--limits takes COLUMN=lower,upper, numbers with a decimal point",
    Remedy.AT_LIMIT: "name the limit with --limits {example}",
    Remedy.ROW_LIMITS: "name a column that has the limit of each row with --limits COLUMN=lower,upper",
    Remedy.KEEP_LABELS: "if one is a label, keep it with --not-missing",
    Remedy.NUMBERS: "name its --decimal or --thousands mark",
    Remedy.NO_UNIT: "write it without",
    Remedy.ONE_UNIT: "write all of them in one",
    Remedy.MARKS: "name its --decimal or --thousands mark",
    Remedy.DATES: "make features of it with --dates features",
    Remedy.DAY_FIRST: "say --day-first or --month-first",
    Remedy.FEWER_LEVELS: "code it in fewer labels",
    Remedy.ORDER: "say so with --levels {example}",
    Remedy.COPY: "leave one out with --drop {example}",
    Remedy.IF_MISSING: "if it means missing, say --missing {example}",
    Remedy.WRONG_UNIT: "if its unit is wrong, correct the cell",
    Remedy.IF_REAL: "if it is real, say --margin auto",
    Remedy.MARGIN: "--margin auto may give better predictions",
    Remedy.ABOVE_ZERO: "keep them above with --margin {example}",
    Remedy.COUNTS: "if they count something, say --view {example}",
    Remedy.OTHER_MARGIN: "give it another margin with --margin COLUMN=KIND, or limits with --limits COLUMN=lower,upper",
    Remedy.LEVELS: "give its levels in their order with --levels COLUMN=lowest,...,highest",
    Remedy.REAL: "make it numbers with --view NAME=columns:real",
    Remedy.SPELLINGS: "make them one with --normalise-labels",
    Remedy.OWN_ENTRY: "make it labels with --view NAME=column:categorical",
    Remedy.LABELS: "make it labels with --view NAME=column:categorical",
    Remedy.ZERO_ONE: "write it as 0 and 1",
    Remedy.OTHER_TYPE: "choose another type with --view NAME=columns:real",
    Remedy.TWO_COLUMNS: "give real and imaginary parts as two columns",
    Remedy.INFINITE: "treat them as missing with --missing inf --missing -inf",
    Remedy.FLOATS: "write it with a decimal point if digits may be lost",
    Remedy.UNITS: "check the units",
    Remedy.ONE_EACH: "give each a --view of its own",
    Remedy.LABEL_TYPES: "leave it out with --drop",
    Remedy.SEVERAL_VIEWS: "give a file with views, .npz or .h5mu",
    Remedy.SAME_ROWS: "fill absent rows with NaN",
    Remedy.SEEN_LABELS: "count them as missing with --unseen missing",
    Remedy.MORE_FACTORS: "raise --components",
    Remedy.RESUME: "",  # the command says how
    Remedy.DENSE: "write it as a dense matrix, in which NaN means missing",
    Remedy.SPARSE_REAL: "take it as numbers with --view NAME=columns:real",
    Remedy.AT_MEAN: "take them at their mean with --covariates-at-mean",
    Remedy.DEVIATIONS: "use --std for its deviations",
    Remedy.AS_LABELS: "if they are labels, say so with --covariate NAME=categorical",
    Remedy.SAME_NAMES: "name the rows as in the fit with --index",
    Remedy.UNIQUE_ROWS: "name the rows by another column with --index",
}
INSTEAD = {
    Remedy.AT_LIMIT: "write the limit itself there",
    Remedy.ABOVE_ZERO: "fit anew with --margin {example}",
    Remedy.COUNTS: "if they count something, fit anew with --view {example}",
}  # where the command does not have the option
running: ContextVar[Any] = ContextVar("running", default=None)  # what typer knows of the command that runs
INDENT = " " * len("Error: ")
USUAL_SWEEPS = 300  # of a fit
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, DatasetError, ModelFileError, BoundError, MemoryError)


def options_here() -> dict[Remedy, str]:
    """What can be done with the command that runs: clauses with options that it does not have are left out."""
    context = running.get()
    if context is None:
        return OPTIONS
    has = {option for parameter in context.command.params for option in (*parameter.opts, *parameter.secondary_opts)}

    def here(words: str) -> str:
        return ", and ".join(clause for clause in words.split(", and ") if has >= set(re.findall(r"--[a-z-]+", clause)))

    return {remedy: here(words) or INSTEAD.get(remedy, "") for remedy, words in OPTIONS.items()}


class PlainWords(logging.Formatter):
    """What is logged, with options where the library would advise Python."""

    def format(self, record: logging.LogRecord) -> str:
        return record.msg.said(options_here()) if isinstance(record.msg, Problem) else super().format(record)


class Once(logging.Filter):
    """Passes each line once, though it is true of many parts of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        words = record.getMessage()
        new = words not in self.said
        self.said.add(words)
        return new


def say(words: str) -> None:
    errors.print(words, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """What a batch system sends before it kills: a fit saves its best state, and no half of a file is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def plain_errors(debugging: bool = False) -> Iterator[None]:
    """Errors that users can correct in one line, exit code 2; any other is a bug and keeps its traceback."""
    try:
        with sigterm_as_ctrl_c():
            yield
    except BrokenPipeError:  # the reader of standard output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (KeyboardInterrupt, SystemError) as error:
        if isinstance(error, SystemError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        say("Stopped; nothing was written.")  # compiled code makes a SystemError of Ctrl-C
        raise typer.Exit(1) from None
    except USER_ERRORS as error:
        if debugging:
            raise
        words = f"\n{INDENT}".join(error_lines(error))
        errors.print(f"Error: {words}", markup=False, highlight=False, soft_wrap=True, style="red")
        raise typer.Exit(2) from None


def error_lines(error: Exception) -> list[str]:
    """What an error says: one sentence, with a line for each thing that is wrong with the data."""
    if isinstance(error, AdvisedError):
        return error.said(options_here()).split("\n")
    said = str(error)
    if isinstance(error, OSError) and error.strerror:  # of the system: without its number
        said = f"{quoted(error.filename)}: {error.strerror}." if error.filename else f"{error.strerror}."
    return [" ".join(said.split()) or type(error).__name__]


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """A warning as a line; that a fit did not converge is said by the command itself, with what to do."""
    if not issubclass(category, ConvergenceWarning):
        say(message.said(options_here()) if isinstance(message, AdvisedError) else str(message))


def once(show: Callable[..., None]) -> Callable[..., None]:
    """Shows each warning once, though it is true of several fits."""
    said: set[str] = set()

    def show_new(message: Warning | str, *rest: Any, **more: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            show(message, *rest, **more)

    return show_new


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
    schema = model.fitted_.schema
    sizes = [coding.size_in_words for coding in schema.codings.values()]
    sizes += [counted(twin.width, "feature") for twin in schema.twins.values()]
    shares = {column: table[column].map(lambda share: percent(share, 1)) for column in ("missing", "explained")}
    how, n_init = "converged" if model.converged_ else "not converged", model.fitted_.settings["n_init"]
    if model.fitted_.interrupted and n_init > 1:
        n_done = sum(not restart.interrupted for restart in model.fitted_.restarts)
        how = f"{n_done} of {n_init} restarts done, the best so far {how}"
    rows, factors = counted(len(model.fitted_.index), "row"), counted(model.n_components_, "factor")
    kept = "the fewest that suffice" if model.fitted_.choice.keep == FEWEST else "all that explain anything"
    which = f" ({kept})" if model.n_components_ else ""
    ended = f"{how} after {counted(model.n_iter_, 'sweep')}, bound {model.fitted_.elbo:,.1f}"
    title = f"{rows}, {factors}{which}; {ended}"
    print_table(table[["view", "type"]].assign(size=sizes, **shares), title, console)
    print_scales(model, console)
    known = model.fitted_.schema.covariates
    if known is not None:
        console.print(f"covariates: {known.in_words}", highlight=False, markup=False)


def print_scales(model: SSHIBA, console: Console) -> None:
    """Margins, and what is at a limit."""
    schema = model.fitted_.schema
    for name in schema.codings:
        if schema.scales_in_words(name):
            console.print(f"{name}: {schema.scales_in_words(name)}", highlight=False, markup=False, soft_wrap=True)


def print_scores(scores: pd.DataFrame, title: str) -> None:
    """A table for each type of view, since each has measures of its own: that fits into a narrow terminal."""
    Console().print(title, highlight=False)
    for kind, rows in scores.groupby("type", sort=False):
        print_table(rows.drop(columns="type"), f"\n{kind}")


def print_table(frame: pd.DataFrame, title: str, console: Console | None = None) -> None:
    console = console or Console()
    console.print(title, highlight=False)
    frame = frame.dropna(axis="columns", how="all").rename(columns={"log_likelihood": "log-lik."})
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    is_number = [frame[column].dtype.kind in "fi" for column in frame]
    for column, right, width in zip(frame, is_number, column_widths(frame, is_number, console.width)):
        justify: Any = "right" if right else "left"
        shown.add_column(str(column), justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in frame.itertuples(index=False):
        shown.add_row(*(_text(value) for value in row))
    console.print(shown)


def column_widths(frame: pd.DataFrame, is_number: list[bool], room: int) -> list[int]:
    """As wide as their cells; where there is no room, the widest names are cut, and numbers never are."""
    widths = [max(map(len, [str(name), *map(_text, frame[name])])) for name in frame]
    names = [place for place, number in enumerate(is_number) if not number]
    while sum(widths) + 3 * len(widths) > room and names and max(widths[place] for place in names) > 4:
        widths[max(names, key=lambda place: widths[place])] -= 1
    return widths


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.3f}"
    return str(value)
