"""The `sshiba` command: what it is told, and how it answers. The work is done by the library."""

from __future__ import annotations

import enum
import logging
import sys
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.progress import Progress as BarProgress

from ..estimator import SSHIBA, load
from ..evaluate import holdout
from ..files import tables as files
from ..files.tables import Reading
from ..version import __version__
from .arguments import Fitting, Force, ModelFile, NewTable, Out, Tables, expanded
from .terminal import Expectation, describe, errors, plain_errors, print_table, say

app = typer.Typer(
    help="Bayesian factor analysis for several views of the same samples, of different types, with holes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
debugging = False
MEMORY = 3  # times the numbers themselves


def plainly() -> AbstractContextManager[None]:
    return plain_errors(debugging)


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


# ------------------------------------------------------------------------------------------------------ commands


@app.command(epilog="Example: sshiba fit blood.csv --index patient --view sex=sex:categorical -o model.sshiba")
@expanded
def fit(
    data: Tables,
    fitting: Fitting,
    how: Reading,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Model file to write.")] = None,
    resume: Annotated[str | None, typer.Option(help="Model file of an interrupted fit to go on with.")] = None,
    checkpoint: Annotated[float | None, typer.Option(min=0, help="Save the model every so many minutes.")] = None,
    force: Force = False,
) -> None:
    """Fit a model to tables with holes, and save it.

    Columns are split by type, each column of labels being a view of its own, or as --view says. Ctrl-C ends the fit and
    saves the best state so far; --resume goes on from it, with the same data.
    """
    with plainly():
        target = out or resume
        if target is None:
            raise ValueError("say where the model goes: -o model.sshiba.")
        files.check_target(target, force or target == resume)
        given = files.values_of(files.read_together(data, how))
        saving = {} if checkpoint is None else {"checkpoint": target, "checkpoint_minutes": checkpoint}
        if resume is not None:
            settings = {"verbose": 1, "n_jobs": fitting.jobs, "max_time": fitting.max_time}
            model = load(resume).set_params(**settings).resume(given, **saving)
        else:
            model = fitted(given, fitting, **saving)
        model.save(target)
        describe(model, errors)
        say(f"Saved: {target}")
        if not model.converged_ or len(model.inits_) < model.n_init:
            say(f"Not finished. To go on: sshiba fit {' '.join(data)} --resume {target}")
            raise typer.Exit(1)


@app.command(epilog="Example: sshiba impute blood.csv -o filled.csv --std uncertainty.csv")
@expanded
def impute(
    data: Tables,
    out: Out,
    fitting: Fitting,
    how: Reading,
    std: Annotated[str | None, typer.Option(help="File for the standard deviations; 0 where a cell was seen.")] = None,
    model: Annotated[str | None, typer.Option(help="Model file; without it one is fitted to the table itself.")] = None,
    fit_rows: Annotated[int, typer.Option(min=100, help="Rows that are fitted of a table over 200 MB.")] = 20_000,
    force: Force = False,
) -> None:
    """Fill the holes of a table; everything that was seen stays as it is.

    Text files over 200 MB are never held as a whole: some of their rows are fitted, then all are filled, part by part.
    """
    with plainly():
        if std is not None and std == out:
            raise ValueError("--out and --std are the same file.")
        long = files.LongTable.of(data, how)
        for path in (out, std):
            if path is not None:
                files.check_target(path, force, files.TABLES if long is None else tuple(files.SEPARATORS))
        if long is not None:
            n_rows = long.count()
            given = long.sample(fit_rows, n_rows, fitting.seed)
            say(f"A long table: fitting {len(given):,} of its {n_rows:,} rows, filling all of them.")
            used = load(model) if model else fitted(given, fitting)
            impute_long(used, long, n_rows, out, std)
            return
        whole = files.read_together(data, how)
        given = table(files.values_of(whole))
        used = load(model) if model else fitted(given, fitting)
        filled, deviations = used.impute(given, return_std=True)
        files.write(whole.filled(filled) if isinstance(whole, files.TextTable) else filled, out)
        if std is not None:
            files.write(deviations, std)
        say(f"Filled {int((given.isna() & filled.notna()).to_numpy().sum()):,} of {given.size:,} cells.")


@app.command(epilog="Example: sshiba predict model.sshiba new.csv --target diagnosis --proba -o diagnosis.csv")
@expanded
def predict(
    model: ModelFile,
    new: NewTable,
    target: Annotated[str, typer.Option(help="View or column to predict.")],
    how: Reading,
    out: Out = "-",
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities instead of labels.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Also the standard deviations.")] = False,
    force: Force = False,
) -> None:
    """Predict a column or view of new rows from whatever else is known of them."""
    with plainly():
        if proba and std:
            raise ValueError("choose one of --proba and --std.")
        files.check_target(out, force, files.TABLES)
        used = load(model)
        given = files.values_of(files.read(new, how))
        if proba:
            files.write(as_table(used.predict_proba(given, target)), out)
            return
        found = used.predict(given, target, return_std=True)
        means, deviations = (as_table(part, target) for part in found)
        if std:
            means = pd.concat([means, deviations.add_suffix(" std")], axis=1)
        files.write(means, out)


@app.command(epilog="Example: sshiba transform model.sshiba new.csv -o factors.csv")
@expanded
def transform(
    model: ModelFile,
    new: NewTable,
    how: Reading,
    out: Out = "-",
    force: Force = False,
) -> None:
    """The factors of new rows."""
    with plainly():
        files.check_target(out, force, files.TABLES)
        used = load(model)
        given = files.values_of(files.read(new, how))
        files.write(as_table(used.transform(given)), out)


@app.command(epilog="Example: sshiba evaluate blood.csv --index patient")
@expanded
def evaluate(
    data: Tables,
    fitting: Fitting,
    how: Reading,
    fraction: Annotated[float, typer.Option(help="Share of the seen cells that is hidden.")] = 0.1,
    columns: Annotated[bool, typer.Option("--columns", help="A row for each column, not for each view.")] = False,
    out: Annotated[str | None, typer.Option("--out", "-o", help="File for the table.")] = None,
    force: Force = False,
) -> None:
    """How well would holes be filled? Hides some seen cells, fits the others, and compares."""
    with plainly():
        if out is not None:
            files.check_target(out, force, files.TABLES)
        given = files.values_of(files.read_together(data, how))
        per = "feature" if columns else "view"
        scores = holdout(fitting.model(given), given, fraction, fitting.seed, per)
        words = "RMSE in standard deviations of a column; coverage of 90 % intervals"
        print_table(scores.reset_index(), f"{fraction:.0%} of the seen cells hidden, then predicted. {words}")
        if out is not None:
            files.write(scores, out)


@app.command(epilog="Example: sshiba info model.sshiba")
def info(model: ModelFile) -> None:
    """What is in a model file."""
    with plainly():
        describe(load(model), Console())


@app.command(epilog="Example: sshiba report model.sshiba -o report.html --data blood.csv --index patient")
@expanded
def report(
    model: ModelFile,
    how: Reading,
    out: Annotated[str, typer.Option("--out", "-o", help="HTML file to write.")] = "report.html",
    data: Annotated[
        list[str] | None, typer.Option(help="The data of the fit: more to see, and a held-out check (again for more).")
    ] = None,
    fraction: Annotated[float, typer.Option(help="Share of the cells the check hides; 0: no check.")] = 0.1,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    force: Force = False,
) -> None:
    """Everything a fit has to say, as one page for a browser; it works without a network."""
    with plainly():
        files.check_target(out, force, (".html", ".htm"))
        used = load(model)
        given = None if not data else files.values_of(files.read_together(data, how))
        used.report(out, given, fraction, title or Path(model).stem)
        say(f"Saved: {out}")


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the picture and the report go.")] = Path("out/demo")) -> None:
    """Fit handwritten digits as four views with holes; a table, a picture, a report (a quarter of a minute)."""
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
    quick: Annotated[bool, typer.Option("--quick", help="A shorter form: six minutes on two cores.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Cells computed at a time.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; out/reproduce if not named.")] = None,
) -> None:
    """Run the paper's experiments on the real data; tables, pictures and a page. What is done is not done again.

    The data come from the folder that SSHIBA_DATA names, or are fetched where that is possible.
    """
    with plainly():
        from ..paper import EXPERIMENTS
        from ..paper import reproduce as run

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


def fitted(given: Any, fitting: Fitting, **saving: Any) -> SSHIBA:
    """A fit with a progress bar, and before it what it will take."""
    model = fitting.model(given)
    tables = [given] if isinstance(given, pd.DataFrame) else list(getattr(given, "mod", given).values())
    cells = sum(int(np.prod(part.shape)) for part in tables)
    megabytes = cells * 8 * MEMORY / 2**20
    if megabytes > 100:
        say(f"{cells:,} cells: about {megabytes:,.0f} MB of memory.")
    return model.set_params(verbose=1, callback=Expectation()).fit(given, **saving).set_params(callback=None)


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
