"""The `sshiba` command: what it is told, and how it answers. The work is done by the library."""

from __future__ import annotations

import enum
import logging
import shlex
import sys
import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.console import Console

from ..estimator import load
from ..evaluate import holdout
from ..evaluate import stability as find_stability
from ..files.export import export_model
from ..files.file_table import values_of
from ..files.formats import TABLES, TEXTS, VIEWS, ending_of
from ..files.reading_options import Reading
from ..files.tables import LongTable, read_together
from ..files.writing import check_target, write
from ..fitting.restarts import ctrl_c
from ..version import __version__
from .arguments import (
    Command,
    Commands,
    Fitting,
    Force,
    ModelFile,
    NewTables,
    Out,
    TableOut,
    Tables,
    Unseen,
    UnseenLabels,
    as_options,
    expanded,
    given_options,
)
from .steps import (
    as_table,
    check_has_probabilities,
    dialect_of,
    fitted,
    impute_long,
    impute_tables,
    learned_reading,
    loaded,
    named_by_label,
    read_new,
    remember_reading,
    whole_labels,
)
from .terminal import PlainWords, describe, errors, plain_errors, print_scores, print_table, say, show_warning

app = typer.Typer(
    cls=Commands,
    help="Bayesian factor analysis for several views of the same samples, of different types, with holes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
debugging = False


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
    logged = logging.StreamHandler(sys.stderr)
    logged.setFormatter(PlainWords())
    logging.basicConfig(level=logging.WARNING, handlers=[logged])
    warnings.showwarning = show_warning


# ------------------------------------------------------------------------------------------------------ commands


@app.command(
    cls=Command, epilog="Example: sshiba fit blood.csv --index patient --view sex=sex:categorical -o model.sshiba"
)
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
        if resume is not None and (others := given_options("view", "components", "keep", "restarts", "seed")):
            raise ValueError(f"--resume goes on with the settings of the model: leave out {', '.join(others)}.")
        check_target(target, force or target == resume)
        earlier = load(resume) if resume is not None else None
        whole = read_together(data, how, learned_reading(earlier) if earlier is not None else None)
        given = values_of(whole)
        saving = {} if checkpoint is None else {"checkpoint": target, "checkpoint_minutes": checkpoint}
        with ctrl_c():  # a fit that is done is saved
            if earlier is not None:
                stored = earlier.fitted_.reading
                device = earlier.device if fitting.device is None else fitting.device
                settings = {"verbose": 1, "n_jobs": fitting.jobs, "max_time": fitting.max_time, "device": device}
                model = earlier.set_params(**settings).resume(given, **saving)
                model.fitted_ = replace(model.fitted_, reading=stored)
            else:
                model = fitted(given, fitting, **saving)
            with ctrl_c(anew=True):
                remember_reading(model, how, dialect_of(whole))
                model.save(target)
        describe(model, errors)
        say(f"Saved: {target}")
        if not model.converged_ or len(model.inits_) < model.n_init:
            words = ["sshiba", "fit", *map(shlex.quote, data), *as_options(how), "--resume", shlex.quote(target)]
            say(f"Not finished. To go on: {' '.join(words)}")
            if model.inits_["interrupted"].any():
                raise typer.Exit(1)


@app.command(cls=Command, epilog="Example: sshiba impute blood.csv -o filled.csv --std uncertainty.csv")
@expanded
def impute(
    data: Tables,
    out: Out,
    fitting: Fitting,
    how: Reading,
    std: Annotated[
        str | None, typer.Option(help="File for the standard deviations: 0 for seen cells, none for strange columns.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model file; without it one is fitted to the table itself.")] = None,
    fit_rows: Annotated[int, typer.Option(min=100, help="Rows that are fitted of a table over 200 MB.")] = 20_000,
    unseen: Unseen = UnseenLabels.missing,
    force: Force = False,
) -> None:
    """Fill the holes of a table; everything that was seen stays as it is.

    Text files over 200 MB are never held as a whole: some of their rows are fitted, then all are filled, part by part.
    """
    with plainly():
        if std is not None and std == out:
            raise ValueError("--out and --std are the same file.")
        long = LongTable.of(data, how)
        own_form = [ending_of(path) for path in data if ending_of(path) in VIEWS]
        endings = TEXTS if long is not None else own_form[:1] or TABLES
        for path in (out, std):
            if path is not None:
                check_target(path, force, endings)
        used = loaded(model, unseen) if model else None
        if long is not None:
            impute_long(long, fitting, used, fit_rows, out, std)
        else:
            impute_tables(data, how, fitting, used, out, std)


@app.command(
    cls=Command, epilog="Example: sshiba predict model.sshiba new.csv --target diagnosis --proba -o diagnosis.csv"
)
@expanded
def predict(
    model: ModelFile,
    new: NewTables,
    target: Annotated[str, typer.Option(help="View or column to predict.")],
    how: Reading,
    out: Out = "-",
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities instead of labels.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Also the standard deviations.")] = False,
    use_target: Annotated[
        bool, typer.Option("--use-target", help="Use what the file has of the target, too, to fill its gaps.")
    ] = False,
    unseen: Unseen = UnseenLabels.missing,
    force: Force = False,
) -> None:
    """Predict a column or view of new rows from whatever else is known of them; its own values are not looked at."""
    with plainly():
        if proba and std:
            raise ValueError("choose one of --proba and --std.")
        check_target(out, force, TABLES)
        used = loaded(model, unseen)
        given, dialect = read_new(used, new, how, target)
        if proba:
            check_has_probabilities(used, target)
            write(named_by_label(used, as_table(used.predict_proba(given, target, use_target))), out, dialect)
            return
        found = used.predict(given, target, return_std=True, use_target=use_target)
        means, deviations = (as_table(part, target) for part in found)
        means = whole_labels(used, means)
        if std:
            means = pd.concat([means, deviations.add_suffix(" std")], axis=1)
        write(means, out, dialect)


@app.command(cls=Command, epilog="Example: sshiba transform model.sshiba new.csv -o factors.csv")
@expanded
def transform(
    model: ModelFile,
    new: NewTables,
    how: Reading,
    out: Out = "-",
    unseen: Unseen = UnseenLabels.missing,
    force: Force = False,
) -> None:
    """The factors of new rows."""
    with plainly():
        check_target(out, force, TABLES)
        used = loaded(model, unseen)
        given, dialect = read_new(used, new, how)
        write(as_table(used.transform(given)), out, dialect)


@app.command(cls=Command, epilog="Example: sshiba evaluate blood.csv --index patient")
@expanded
def evaluate(
    data: Tables,
    fitting: Fitting,
    how: Reading,
    fraction: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the seen cells that is hidden.")] = 0.1,
    columns: Annotated[bool, typer.Option("--columns", help="A row for each column, not for each view.")] = False,
    out: TableOut = None,
    force: Force = False,
) -> None:
    """How well would holes be filled? Hides some seen cells, fits the others, and compares."""
    with plainly():
        if out is not None:
            check_target(out, force, TABLES)
        given = values_of(read_together(data, how))
        per = "feature" if columns else "view"
        scores = holdout(fitting.model(given), given, fraction, fitting.seed, per)
        words = "RMSE in standard deviations of a column; coverage of 90 % intervals"
        print_scores(scores.reset_index(), f"{fraction:.0%} of the seen cells hidden, then predicted. {words}")
        if out is not None:
            write(scores, out)


class Kind(enum.StrEnum):
    """Of refits."""

    restarts = "restarts"
    bootstrap = "bootstrap"


@app.command(cls=Command, epilog="Example: sshiba stability model.sshiba blood.csv --kind bootstrap")
@expanded
def stability(
    model: ModelFile,
    data: Tables,
    how: Reading,
    kind: Annotated[
        Kind,
        typer.Option(help="The same rows from random starts, or rows drawn at random.", metavar="restarts|bootstrap"),
    ] = Kind.restarts,
    refits: Annotated[int, typer.Option("--refits", "-n", min=1, help="How often the model is fitted again.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the starts and draws.")] = 0,
    out: TableOut = None,
    force: Force = False,
) -> None:
    """Which factors are found again? Fits the data of a model anew, and compares the weights of its factors."""
    with plainly():
        if out is not None:
            check_target(out, force, TABLES)
        used = load(model)
        if used.n_components_ == 0:
            raise ValueError("the model has no factors.")
        found = find_stability(used, read_new(used, data, how)[0], refits, kind.value, seed, verbose=1)
        words = f"Congruence with the factors of {found.refits}: mean and 90 % of them; stable from a mean of 0.95 on"
        print_table(found.table.replace({"stable": {True: "yes", False: "no"}}).reset_index(), words)
        if out is not None:
            write(found.table, out)


@app.command(cls=Command, epilog="Example: sshiba info model.sshiba")
def info(model: ModelFile) -> None:
    """What is in a model file."""
    with plainly():
        describe(load(model), Console())


@app.command(cls=Command, epilog="Example: sshiba report model.sshiba -o report.html --data blood.csv --index patient")
@expanded
def report(
    model: ModelFile,
    how: Reading,
    out: Annotated[str, typer.Option("--out", "-o", help="HTML file to write.")] = "report.html",
    data: Annotated[
        list[str] | None, typer.Option(help="The data of the fit: more to see, and a held-out check (again for more).")
    ] = None,
    fraction: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the cells the check hides; 0: no check.")
    ] = 0.1,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    force: Force = False,
) -> None:
    """Everything a fit has to say, as one page for a browser; it works without a network."""
    with plainly():
        check_target(out, force, (".html", ".htm"))
        used = load(model)
        given = None if not data else read_new(used, data, how)[0]
        used.report(out, given, fraction, title or Path(model).stem)
        say(f"Saved: {out}")


@app.command(cls=Command, epilog="Example: sshiba export model.sshiba -o tables")
def export(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; it is made if there is none.")],
    force: Force = False,
) -> None:
    """Factors, weights, variance explained and noise of a model as CSV files."""
    with plainly():
        for path in export_model(load(model).fitted_, out, force):
            say(f"Saved: {path}")


@app.command(cls=Command)
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


@app.command(cls=Command, epilog="Example: sshiba reproduce yeast --quick --jobs 2")
def reproduce(
    which: Annotated[
        list[Which] | None,
        typer.Argument(help="yeast, aviris, missing, faces, multiview; all of them if none is named.", metavar="NAME"),
    ] = None,
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
