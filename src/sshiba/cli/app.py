"""The `sshiba` command, and those of its commands that fit, fill and predict. The work is done by the library."""

from __future__ import annotations

import logging
import shlex
import sys
import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Annotated, Any

import pandas as pd
import typer

from ..core.scratch import RowsLostError
from ..estimator import load
from ..files.formats import ANSWERS, filled_endings
from ..files.long_tables import LongTable
from ..files.opening import FileViews, files_of, open_data, room_for_answers, room_for_fit, values_of
from ..files.reading_options import Reading
from ..files.writing import check_target
from ..fitting.restarts import ctrl_c
from ..version import __version__
from .arguments import (
    AtMean,
    Command,
    Commands,
    Fitting,
    Force,
    MaxMemory,
    ModelFile,
    NewTables,
    Out,
    SpreadsheetSafe,
    Tables,
    Unseen,
    UnseenLabels,
    as_options,
    expanded,
    given_options,
)
from .parts import check_growing, say_long, write_answers
from .steps import (
    Targets,
    as_table,
    columns_of,
    dialect_of,
    entries_of,
    fit_shown,
    impute_long,
    impute_tables,
    impute_views,
    interval_columns,
    learned_reading,
    loaded,
    named_by_label,
    open_new,
    reading_of,
    say_absent,
    whole_labels,
)
from .terminal import Once, PlainWords, describe, errors, once, plain_errors, say, show_warning

app = typer.Typer(
    cls=Commands,
    help="Bayesian factor analysis for several views of the same samples, of different types, with gaps.",
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
    logged.addFilter(Once())
    logging.basicConfig(level=logging.WARNING, handlers=[logged])
    warnings.showwarning = once(show_warning)


# ------------------------------------------------------------------------------------------------------ commands


@app.command(
    cls=Command, epilog="Example: sshiba fit blood.csv --index patient --view sex=sex:categorical -o model.sshiba"
)
@expanded
def fit(
    data: Tables,
    fitting: Fitting,
    how: Reading,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Model file to write; needed, unless --resume names one.")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="Model file of an interrupted fit to continue.")] = None,
    checkpoint: Annotated[float | None, typer.Option(min=0, help="Save the model every so many minutes.")] = None,
    force: Force = False,
) -> None:
    """Fit a model to tables with gaps, and save it.

    Columns of one type make one view in each file; each column of labels is a view of its own. --view says otherwise.
    Ctrl-C ends the fit and saves the best state so far. --resume continues it, with the same data.
    """
    with plainly():
        target = out or resume
        if target is None:
            raise ValueError("say where the model goes: -o model.sshiba.")
        if resume is not None and (
            others := given_options(
                *("view", "levels", "limits", "margin", "kernel", "covariate", "groups"),
                *("components", "keep", "restarts", "seed"),
            )
        ):
            raise ValueError(f"--resume goes on with the settings of the model: leave out {', '.join(others)}.")
        how = fitting.reading(how)
        check_target(target, force or target == resume)
        earlier = load(resume) if resume is not None else None
        learned = learned_reading(earlier) if earlier is not None else None
        whole = open_data(data, how, learned, room_for_fit(fitting.max_memory))
        say_long(whole)
        given, dialect = values_of(whole), dialect_of(whole)
        saving = {} if checkpoint is None else {"checkpoint": target, "checkpoint_minutes": checkpoint}
        limit = [] if fitting.max_memory is None else ["--max-memory", shlex.quote(fitting.max_memory)]
        words = ["sshiba", "fit", *map(shlex.quote, data), *as_options(how), *limit, "--resume", shlex.quote(target)]
        to_go_on = f"Not finished. To go on: {' '.join(words)}"
        files = files_of(whole)
        model = fitting.model(given, files, dialect) if earlier is None else fitting.going_on(earlier)
        stored = None if earlier is None else earlier.fitted_.reading

        def save() -> None:
            model.fitted_ = replace(model.fitted_, reading=stored or reading_of(how, dialect))
            model.save(target)

        with ctrl_c():  # a fit that is done is saved
            try:
                fit_shown(model, given, goes_on=earlier is not None, **saving)
            except RowsLostError:
                if hasattr(model, "fitted_"):  # the best state so far
                    save()
                    say(f"Saved: {target}\n{to_go_on}")
                raise
            with ctrl_c(anew=True):
                save()
        describe(model, errors)
        say(f"Saved: {target}")
        if model.fitted_.interrupted or not model.converged_:
            say(to_go_on)
        if model.fitted_.interrupted:
            raise typer.Exit(1)


@app.command(cls=Command, epilog="Example: sshiba impute blood.csv -o filled.csv --std uncertainty.csv")
@expanded
def impute(
    data: Tables,
    out: Out,
    fitting: Fitting,
    how: Reading,
    std: Annotated[
        str | None,
        typer.Option(help="File for the standard deviations: 0 for observed cells, empty where nothing is filled."),
    ] = None,
    lower: Annotated[
        str | None,
        typer.Option(
            help="File for the table filled with the lower ends of the intervals; gaps of labels without an order "
            "stay, for they have none."
        ),
    ] = None,
    upper: Annotated[
        str | None, typer.Option(help="File for the table filled with the upper ends of the intervals.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Probability of the intervals of --lower and --upper.")] = 0.9,
    model: Annotated[
        str | None, typer.Option(help="Model file; without it, a model is fitted to the table itself.")
    ] = None,
    beyond_limits: Annotated[
        bool, typer.Option("--beyond-limits", help="Also replace values at a limit by their means beyond it.")
    ] = False,
    fit_rows: Annotated[int, typer.Option(min=100, help="Rows to fit of a text file over 200 MB.")] = 20_000,
    at_mean: AtMean = False,
    unseen: Unseen = UnseenLabels.missing,
    safe: SpreadsheetSafe = False,
    force: Force = False,
) -> None:
    """Fill the gaps of a table; observed cells stay as they are.

    Large files are filled and written part by part, never held as a whole. The fit uses all rows, but of text files
    over 200 MB only some of them (--fit-rows).
    """
    with plainly():
        targets = Targets(out, std, lower, upper)
        if given_options("interval") and not targets.bounds:
            raise ValueError("say where the ends of the intervals go: --lower low.csv --upper high.csv.")
        for path in targets.distinct():
            check_target(path, force, filled_endings(data))
        how, used = fitting.reading(how), loaded(model, unseen, fitting.max_memory) if model else None
        learned = learned_reading(used) if used is not None else None
        given = open_data(data, how, learned, room_for_answers(fitting.max_memory))
        if used is not None:
            say_absent(used, columns_of(given))
        asked: dict[str, Any] = {"beyond_limits": beyond_limits, "covariates": "mean" if at_mean else None}
        asked |= {"interval": interval} if targets.bounds else {}
        if isinstance(given, LongTable):
            check_growing(given, *targets.distinct())
            say_long(given)
            by = impute_long(given, fitting, used, fit_rows, targets, asked)
        elif isinstance(given, FileViews):
            known = given if used is None else given.called(entries_of(used))
            by = impute_views(known, fitting, used, targets, asked)
        else:
            by = impute_tables(given, fitting, used, targets, asked)
        if used is None and by.fitted_.interrupted:
            say("Not finished: the fit was interrupted, and gaps are filled from its best state so far.")
            raise typer.Exit(1)


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
    std: Annotated[bool, typer.Option("--std", help="Also write the standard deviations.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(help="Also write intervals of this probability, such as 0.9; for labels, which are inside."),
    ] = None,
    use_target: Annotated[
        bool, typer.Option("--use-target", help="Also use the target's own values, to fill its gaps.")
    ] = False,
    at_mean: AtMean = False,
    unseen: Unseen = UnseenLabels.missing,
    safe: SpreadsheetSafe = False,
    max_memory: MaxMemory = None,
    force: Force = False,
) -> None:
    """Predict a column or view of new rows from everything else known about them. Its own values are ignored."""
    with plainly():
        if proba and (std or interval is not None):
            raise ValueError(f"choose one of --proba and {'--std' if std else '--interval'}.")
        check_target(out, force, ANSWERS)
        used = loaded(model, unseen, max_memory)
        given, dialect = open_new(used, new, how, target, max_memory)
        check_growing(given, out)
        known = "mean" if at_mean else None

        def answer(part: Any) -> pd.DataFrame:
            if proba:
                return named_by_label(used, as_table(used.predict_proba(part, target, use_target, known)))
            found = used.predict(part, target, True, use_target, known, interval=interval)
            means, deviations = (as_table(values, target) for values in found[:2])
            parts = [whole_labels(used, means)]
            parts += [deviations.add_suffix(" std")] if std else []
            parts += interval_columns(used, found[2], target) if interval is not None else []
            return pd.concat(parts, axis=1)

        write_answers(given, answer, out, dialect, "predicting")


@app.command(cls=Command, epilog="Example: sshiba transform model.sshiba new.csv -o factors.csv")
@expanded
def transform(
    model: ModelFile,
    new: NewTables,
    how: Reading,
    out: Out = "-",
    at_mean: AtMean = False,
    unseen: Unseen = UnseenLabels.missing,
    safe: SpreadsheetSafe = False,
    max_memory: MaxMemory = None,
    force: Force = False,
) -> None:
    """Write the factors of new rows."""
    with plainly():
        check_target(out, force, ANSWERS)
        used = loaded(model, unseen, max_memory)
        given, dialect = open_new(used, new, how, max_memory=max_memory)
        check_growing(given, out)
        known = "mean" if at_mean else None

        def answer(part: Any) -> pd.DataFrame:
            return as_table(used.transform(part, covariates=known))

        write_answers(given, answer, out, dialect, "finding factors")
