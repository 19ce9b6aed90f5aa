"""Commands that look at data and at what was found: checks, reports, tables, the paper's experiments."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..data.sampling import MOST_ROWS
from ..data.wording import percent
from ..estimator import load
from ..evaluate import holdout
from ..evaluate import stability as find_stability
from ..files.export import export_model
from ..files.formats import TABLES
from ..files.opening import files_of, open_data, room_for_checks, values_of
from ..files.reading_options import Reading
from ..files.writing import check_target, write
from .app import app, plainly
from .arguments import Command, Fitting, Force, MaxMemory, ModelFile, SpreadsheetSafe, TableOut, Tables, expanded
from .parts import say_long
from .steps import dialect_of, read_again
from .terminal import describe, print_scores, print_table, say

__all__ = ["app"]

Rows = Annotated[
    int, typer.Option("--rows", min=100, help="For files larger than memory: how many rows to use, drawn at random.")
]


@app.command(cls=Command, epilog="Example: sshiba evaluate blood.csv --index patient")
@expanded
def evaluate(
    data: Tables,
    fitting: Fitting,
    how: Reading,
    fraction: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the observed cells to hide.")] = 0.1,
    columns: Annotated[bool, typer.Option("--columns", help="One row per column instead of one per view.")] = False,
    rows: Rows = MOST_ROWS,
    out: TableOut = None,
    force: Force = False,
) -> None:
    """How well would gaps be filled? Hides some observed cells, fits the others, and compares."""
    with plainly():
        if out is not None:
            check_target(out, force, TABLES)
        whole = open_data(data, fitting.reading(how), None, room_for_checks(fitting.max_memory))
        say_long(whole)
        given, per = values_of(whole), "feature" if columns else "view"
        model = fitting.model(given, files_of(whole), dialect_of(whole)).set_params(verbose=1)
        scores = holdout(model, given, fraction, fitting.seed, per, rows)
        words = "RMSE in standard deviations of a column; coverage of 90 % intervals"
        print_scores(scores.reset_index(), f"{percent(fraction)} of the observed cells hidden, then predicted. {words}")
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
    refits: Annotated[int, typer.Option("--refits", "-n", min=1, help="How many times to refit the model.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starts and draws.")] = 0,
    rows: Rows = MOST_ROWS,
    max_memory: MaxMemory = None,
    out: TableOut = None,
    force: Force = False,
) -> None:
    """Which factors are found again? Refits the model and compares the weights of its factors."""
    with plainly():
        if out is not None:
            check_target(out, force, TABLES)
        used = load(model).set_params(max_memory=max_memory)
        if used.n_components_ == 0:
            raise ValueError("the model has no factors.")
        found = find_stability(used, read_again(used, data, how), refits, kind.value, seed, 1, rows)
        words = f"Congruence with the factors of {found.refits}: mean and 90 % of them; stable from a mean of 0.95 on"
        print_table(found.table.replace({"stable": {True: "yes", False: "no"}}).reset_index(), words)
        if out is not None:
            write(found.table, out)


@app.command(cls=Command, epilog="Example: sshiba info model.sshiba")
def info(model: ModelFile) -> None:
    """Show what is in a model file."""
    with plainly():
        describe(load(model), Console())


@app.command(cls=Command, epilog="Example: sshiba report model.sshiba -o report.html --data blood.csv --index patient")
@expanded
def report(
    model: ModelFile,
    how: Reading,
    more: Annotated[
        list[str] | None, typer.Argument(help="More files of the data, behind that of --data.", metavar="FILE")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="HTML file to write.")] = "report.html",
    data: Annotated[
        list[str] | None,
        typer.Option(help="The data of the fit: adds an overview, colours and a held-out check (repeatable)."),
    ] = None,
    fraction: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Share of the cells that the held-out check hides; 0 skips the check."),
    ] = 0.1,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    metadata: Annotated[
        str | None,
        typer.Option(help="A table with more about the rows, by the same --index, for colours and associations."),
    ] = None,
    max_memory: MaxMemory = None,
    force: Force = False,
) -> None:
    """Write a report of the fit: one HTML file for a browser, which needs no network."""
    with plainly():
        check_target(out, force, (".html", ".htm"))
        used = load(model).set_params(max_memory=max_memory)
        paths = [*(data or []), *(more or [])]
        given = read_again(used, paths, how) if paths else None
        beside = None if metadata is None else values_of(open_data([metadata], how, None, room_for_checks(max_memory)))
        used.report(out, given, fraction, title or Path(model).stem, beside)
        say(f"Saved: {out}")


@app.command(cls=Command, epilog="Example: sshiba export model.sshiba -o tables")
def export(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; created if needed.")],
    safe: SpreadsheetSafe = False,
    force: Force = False,
) -> None:
    """Write the factors, weights, variance explained and noise of a model as CSV files."""
    with plainly():
        for path in export_model(load(model).fitted_, out, force):
            say(f"Saved: {path}")


@app.command(cls=Command)
def demo(out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path("out/demo")) -> None:
    """Fit handwritten digits as four views with gaps; write a table, a picture and a report (15 seconds)."""
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
    jobs: Annotated[int, typer.Option(min=1, help="Cells of the tables computed in parallel.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; out/reproduce by default.")] = None,
) -> None:
    """Run the paper's experiments on the real data; write tables, pictures and a page. Finished parts are not repeated.

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
