"""The `sshiba` command: what it is told, and how it answers. The work is done by the library."""

from __future__ import annotations

import enum
import fnmatch
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.progress import Progress as BarProgress
from rich.table import Table

from . import SSHIBA, __version__, files, load
from .datasets import DatasetError
from .fit import BoundError, Progress
from .io import ModelFileError

app = typer.Typer(
    help="Bayesian factor analysis for several views of the same samples, of different types, with holes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
errors = Console(stderr=True)
debugging = False
MEMORY = 3  # times the numbers themselves
USUAL_SWEEPS = 300  # of a fit

# ----------------------------------------------------------------------------------------------- shared options

Tables = Annotated[list[str], typer.Argument(help="Files: .csv, .tsv, .parquet, .npz, .h5mu; - is standard input.")]
NewTable = Annotated[str, typer.Argument(help="File with new rows; - is standard input.")]
ModelFile = Annotated[str, typer.Argument(help="Model file, as written by fit.")]
Out = Annotated[str, typer.Option("--out", "-o", help="File to write; - is standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files.")]
Index = Annotated[str | None, typer.Option(help="Column with the names of the rows.")]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out (again for more).")]
Encoding = Annotated[str, typer.Option(help="Of text files.")]
Missing = Annotated[list[str] | None, typer.Option(help="Text that means missing, such as '?' (again for more).")]
Separator = Annotated[str | None, typer.Option("--sep", help="Between cells, or 'tab'; found if not named.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark; a comma where semicolons separate, else a point.")]
ViewOption = Annotated[
    list[str] | None,
    typer.Option("--view", help="NAME=columns:type, columns with commas and *, type real, binary or categorical."),
]
Components = Annotated[int, typer.Option(min=1, help="The most factors.")]
Restarts = Annotated[int, typer.Option(min=1, help="Random starts; the best is kept.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the random starts.")]
Jobs = Annotated[int, typer.Option(min=1, help="Restarts at a time.")]
MaxTime = Annotated[float | None, typer.Option(help="Seconds for the fit.")]


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    global debugging
    debugging = debug
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    warnings.showwarning = lambda message, *_: say(str(message))


@contextmanager
def plain_errors() -> Iterator[None]:
    """What users can mend is told in one line, exit code 1; the rest is a bug and keeps its traceback."""
    known = (ValueError, TypeError, OSError, ImportError, DatasetError, ModelFileError, BoundError, MemoryError)
    try:
        yield
    except BrokenPipeError:  # the reader of standard output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        say("Stopped; nothing was written.")
        raise typer.Exit(1) from None
    except known as error:
        if debugging:
            raise
        words = " ".join(str(error).split()) or type(error).__name__
        errors.print(f"Error: {words}", markup=False, highlight=False, soft_wrap=True, style="red")
        raise typer.Exit(1) from None


# ------------------------------------------------------------------------------------------------------ commands


@app.command(epilog="Example: sshiba fit blood.csv --index patient --view sex=sex:categorical -o model.sshiba")
def fit(
    data: Tables,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Model file to write.")] = None,
    view: ViewOption = None,
    components: Components = 50,
    restarts: Restarts = 1,
    index: Index = None,
    drop: Drop = None,
    encoding: Encoding = "utf-8",
    missing: Missing = None,
    sep: Separator = None,
    decimal: Decimal = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    max_time: MaxTime = None,
    resume: Annotated[str | None, typer.Option(help="Model file of an interrupted fit to go on with.")] = None,
    checkpoint: Annotated[float | None, typer.Option(min=0, help="Save the model every so many minutes.")] = None,
    force: Force = False,
) -> None:
    """Fit a model to tables with holes, and save it.

    Columns are split by type, each column of labels being a view of its own, or as --view says. Ctrl-C ends the fit and
    saves the best state so far; --resume goes on from it, with the same data.
    """
    with plain_errors():
        target = out or resume
        if target is None:
            raise ValueError("say where the model goes: -o model.sshiba.")
        files.check_target(target, force or target == resume)
        given = files.values_of(files.read_together(data, reading(index, drop, encoding, missing, sep, decimal)))
        saving = {} if checkpoint is None else {"checkpoint": target, "checkpoint_minutes": checkpoint}
        if resume is not None:
            settings = {"verbose": 1, "n_jobs": jobs, "max_time": max_time}
            model = load(resume).set_params(**settings).resume(given, **saving)
        else:
            model = fitted(given, view, components, restarts, seed, jobs, max_time, **saving)
        model.save(target)
        describe(model, errors)
        say(f"Saved: {target}")
        if not model.converged_ or len(model.inits_) < model.n_init:
            say(f"Not finished. To go on: sshiba fit {' '.join(data)} --resume {target}")
            raise typer.Exit(1)


@app.command(epilog="Example: sshiba impute blood.csv -o filled.csv --std uncertainty.csv")
def impute(
    data: Tables,
    out: Out,
    std: Annotated[str | None, typer.Option(help="File for the standard deviations; 0 where a cell was seen.")] = None,
    model: Annotated[str | None, typer.Option(help="Model file; without it one is fitted to the table itself.")] = None,
    view: ViewOption = None,
    components: Components = 50,
    restarts: Restarts = 1,
    index: Index = None,
    drop: Drop = None,
    encoding: Encoding = "utf-8",
    missing: Missing = None,
    sep: Separator = None,
    decimal: Decimal = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    max_time: MaxTime = None,
    fit_rows: Annotated[int, typer.Option(min=100, help="Rows that are fitted of a table over 200 MB.")] = 20_000,
    force: Force = False,
) -> None:
    """Fill the holes of a table; everything that was seen stays as it is.

    Text files over 200 MB are never held as a whole: some of their rows are fitted, then all are filled, part by part.
    """
    with plain_errors():
        if std is not None and std == out:
            raise ValueError("--out and --std are the same file.")
        how = reading(index, drop, encoding, missing, sep, decimal)
        long = files.LongTable.of(data, how)
        for path in (out, std):
            if path is not None:
                files.check_target(path, force, files.TABLES if long is None else tuple(files.SEPARATORS))
        if long is not None:
            n_rows = long.count()
            given = long.sample(fit_rows, n_rows, seed)
            say(f"A long table: fitting {len(given):,} of its {n_rows:,} rows, filling all of them.")
            used = load(model) if model else fitted(given, view, components, restarts, seed, jobs, max_time)
            impute_long(used, long, n_rows, out, std)
            return
        whole = files.read_together(data, how)
        given = table(files.values_of(whole))
        used = load(model) if model else fitted(given, view, components, restarts, seed, jobs, max_time)
        filled, deviations = used.impute(given, return_std=True)
        files.write(whole.filled(filled) if isinstance(whole, files.TextTable) else filled, out)
        if std is not None:
            files.write(deviations, std)
        say(f"Filled {int((given.isna() & filled.notna()).to_numpy().sum()):,} of {given.size:,} cells.")


@app.command(epilog="Example: sshiba predict model.sshiba new.csv --target diagnosis --proba -o diagnosis.csv")
def predict(
    model: ModelFile,
    new: NewTable,
    target: Annotated[str, typer.Option(help="View or column to predict.")],
    out: Out = "-",
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities instead of labels.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Also the standard deviations.")] = False,
    index: Index = None,
    drop: Drop = None,
    encoding: Encoding = "utf-8",
    missing: Missing = None,
    sep: Separator = None,
    decimal: Decimal = None,
    force: Force = False,
) -> None:
    """Predict a column or view of new rows from whatever else is known of them."""
    with plain_errors():
        if proba and std:
            raise ValueError("choose one of --proba and --std.")
        files.check_target(out, force, files.TABLES)
        used = load(model)
        given = files.values_of(files.read(new, reading(index, drop, encoding, missing, sep, decimal)))
        if proba:
            files.write(as_table(used.predict_proba(given, target)), out)
            return
        found = used.predict(given, target, return_std=True)
        means, deviations = (as_table(part, target) for part in found)
        if std:
            means = pd.concat([means, deviations.add_suffix(" std")], axis=1)
        files.write(means, out)


@app.command(epilog="Example: sshiba transform model.sshiba new.csv -o factors.csv")
def transform(
    model: ModelFile,
    new: NewTable,
    out: Out = "-",
    index: Index = None,
    drop: Drop = None,
    encoding: Encoding = "utf-8",
    missing: Missing = None,
    sep: Separator = None,
    decimal: Decimal = None,
    force: Force = False,
) -> None:
    """The factors of new rows."""
    with plain_errors():
        files.check_target(out, force, files.TABLES)
        used = load(model)
        given = files.values_of(files.read(new, reading(index, drop, encoding, missing, sep, decimal)))
        files.write(as_table(used.transform(given)), out)


@app.command(epilog="Example: sshiba evaluate blood.csv --index patient")
def evaluate(
    data: Tables,
    fraction: Annotated[float, typer.Option(help="Share of the seen cells that is hidden.")] = 0.1,
    view: ViewOption = None,
    components: Components = 50,
    restarts: Restarts = 1,
    index: Index = None,
    drop: Drop = None,
    encoding: Encoding = "utf-8",
    missing: Missing = None,
    sep: Separator = None,
    decimal: Decimal = None,
    seed: Seed = 0,
    out: Annotated[str | None, typer.Option("--out", "-o", help="File for the table.")] = None,
    force: Force = False,
) -> None:
    """How well would holes be filled? Hides some seen cells, fits the others, and compares."""
    from .evaluate import holdout

    with plain_errors():
        if out is not None:
            files.check_target(out, force, files.TABLES)
        given = files.values_of(files.read_together(data, reading(index, drop, encoding, missing, sep, decimal)))
        model = configured(given, view, components, restarts, seed, 1, None)
        scores = holdout(model, given, fraction, seed)
        words = "RMSE in standard deviations of a column; coverage of 90 % intervals"
        show(scores.reset_index(names="view"), f"{fraction:.0%} of the seen cells hidden, then predicted. {words}")
        if out is not None:
            files.write(scores.rename_axis("view"), out)


@app.command(epilog="Example: sshiba info model.sshiba")
def info(model: ModelFile) -> None:
    """What is in a model file."""
    with plain_errors():
        describe(load(model), Console())


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/demo")) -> None:
    """Fit handwritten digits as four views with holes; a table, and a picture (a quarter of a minute)."""
    from .demo import main

    main(out)


class Which(enum.StrEnum):
    """What can be reproduced."""

    yeast = "yeast"
    aviris = "aviris"
    missing = "missing"
    faces = "faces"
    multiview = "multiview"
    all = "all"


@app.command(epilog="Example: sshiba reproduce yeast --quick --jobs 2")
def reproduce(
    which: Annotated[list[Which] | None, typer.Argument(help="Experiments; all of them if none is named.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter form: ten minutes on two cores.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Cells computed at a time.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; out/reproduce if not named.")] = None,
) -> None:
    """Run the paper's experiments on the real data; tables, pictures and a page. What is done is not done again.

    The data come from the folder that SSHIBA_DATA names, or are fetched where that is possible.
    """
    with plain_errors():
        from .reproduce import EXPERIMENTS
        from .reproduce import reproduce as run

        chosen = [name for name in EXPERIMENTS if not which or Which.all in which or name in which]
        folder = out or Path("out/reproduce-quick" if quick else "out/reproduce")
        try:
            n_failed = run(chosen, quick, jobs, folder)
        except KeyboardInterrupt:
            say(f"Stopped. What is done is kept in {folder}; the same command goes on from there.")
            raise typer.Exit(1) from None
        if n_failed:
            say(f"{n_failed} cells failed (above); the same command tries them again.")
            raise typer.Exit(1)


# ------------------------------------------------------------------------------------------------------- helpers


def fitted(
    given: Any,
    view: Sequence[str] | None,
    components: int,
    restarts: int,
    seed: int,
    jobs: int,
    seconds: float | None,
    **saving: Any,
) -> SSHIBA:
    """A fit with a progress bar, and before it what it will take."""
    model = configured(given, view, components, restarts, seed, jobs, seconds)
    tables = [given] if isinstance(given, pd.DataFrame) else list(getattr(given, "mod", given).values())
    cells = sum(int(np.prod(part.shape)) for part in tables)
    megabytes = cells * 8 * MEMORY / 2**20
    if megabytes > 100:
        say(f"{cells:,} cells: about {megabytes:,.0f} MB of memory.")
    return model.set_params(verbose=1, callback=Expectation()).fit(given, **saving).set_params(callback=None)


class Expectation:
    """Tells the time that a sweep takes, once it is known, where a fit will be long."""

    def __call__(self, progress: Progress) -> None:
        per_sweep = progress.seconds / progress.sweep
        if progress.restart == 0 and progress.sweep == 10 and per_sweep * USUAL_SWEEPS > 90:
            usual = per_sweep * USUAL_SWEEPS / 60
            say(f"{per_sweep:.2g} s a sweep: about {usual:.0f} minutes for the usual {USUAL_SWEEPS} sweeps.")


def impute_long(model: SSHIBA, long: files.LongTable, n_rows: int, out: str, std: str | None) -> None:
    """Part by part; the files appear when all of them are done."""
    n_holes = n_cells = 0
    bar = BarProgress(*BarProgress.get_default_columns(), console=errors, disable=not errors.is_terminal)
    with bar, files.growing(out) as add, files.growing(std) as add_std:
        task = bar.add_task("filling", total=n_rows)
        for part in long.parts():
            filled, deviations = model.impute(part.values, return_std=True)
            add(part.filled(filled))
            add_std(deviations)
            holes = part.values.isna() & filled.notna()
            n_holes, n_cells = n_holes + int(holes.to_numpy().sum()), n_cells + part.values.size
            bar.update(task, advance=len(filled))
    say(f"Filled {n_holes:,} of {n_cells:,} cells.")


def say(words: str) -> None:
    errors.print(words, highlight=False, markup=False, soft_wrap=True)


def reading(
    index: str | None,
    drop: list[str] | None,
    encoding: str,
    missing: list[str] | None,
    separator: str | None,
    decimal: str | None,
) -> files.Reading:
    return files.Reading(index, drop or (), encoding, missing or (), separator, decimal)


def configured(
    given: Any, view: Sequence[str] | None, components: int, restarts: int, seed: int, jobs: int, seconds: float | None
) -> SSHIBA:
    views = dict(parse_view(text, given) for text in view or ()) or None
    return SSHIBA(components, views, restarts, random_state=seed, n_jobs=jobs, max_time=seconds)


def parse_view(text: str, given: Any) -> tuple[str, Any]:
    """NAME=columns:type; the type may be left out, and for files with views of their own the columns, too."""
    name, equals, rest = text.partition("=")
    columns, _, kind = rest.partition(":")
    if not equals or not name or not rest:
        raise ValueError(f"--view {text!r}: write NAME=columns:type, such as blood=hb,wbc:real.")
    if not isinstance(given, pd.DataFrame):
        return name, kind or columns
    found: list[str] = []
    for pattern in columns.split(","):
        names = [c for c in map(str, given) if c == pattern or fnmatch.fnmatchcase(c, pattern)]
        if not names:
            raise ValueError(f"--view {text!r}: there is no column {pattern!r}.")
        found += [column for column in names if column not in found]
    return name, (found, kind) if kind else found


def table(given: Any) -> pd.DataFrame:
    if not isinstance(given, pd.DataFrame):
        raise ValueError("impute takes tables: .csv, .tsv or .parquet.")
    return given


def as_table(found: Any, name: str | None = None) -> pd.DataFrame:
    """Any prediction as a frame."""
    if isinstance(found, pd.DataFrame):
        return found
    if isinstance(found, pd.Series):
        return found.to_frame(name if found.name is None else found.name)
    frame = pd.DataFrame(found)
    return frame.set_axis([name], axis=1) if name is not None and frame.shape[1] == 1 else frame


def describe(model: SSHIBA, console: Console) -> None:
    """Views, sizes, what the factors explain, and how the fit went."""
    rows = []
    for name, view in model.views_.items():
        coding = model._schema.codings[name]
        columns = list(coding.levels or coding.features)
        seen = float(coding.observed_per_feature.mean()) / len(model.factors_)
        explained = float(model.r2_[name].iloc[-1])
        rows.append(
            {
                "view": name,
                "type": type(view).__name__,
                "size": f"{len(columns)} {'classes' if coding.levels else 'features'}",
                "missing": f"{1 - seen:.1%}",
                "explained": f"{explained:.1%}",
            }
        )
    how = "converged" if model.converged_ else "not converged"
    title = f"{len(model.factors_)} rows, {model.n_components_} factors; {how} after {model.n_iter_} sweeps"
    show(pd.DataFrame(rows), f"{title}, bound {model.elbo_:,.1f}", console)


def show(frame: pd.DataFrame, title: str, console: Console | None = None) -> None:
    console = console or Console()
    console.print(title, highlight=False)
    shown = Table()
    for column in frame:
        shown.add_column(str(column), justify="right" if frame[column].dtype.kind in "fi" else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        shown.add_row(*(_text(value) for value in row))
    console.print(shown)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.3f}" if value % 1 else f"{value:.0f}"
    return str(value)


if __name__ == "__main__":
    app()
