"""The `sshiba` command."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    help="Bayesian factor analysis for several views of the same samples, of different types, with holes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
errors = Console(stderr=True)


class Which(enum.StrEnum):
    """What can be reproduced."""

    yeast = "yeast"
    aviris = "aviris"
    missing = "missing"
    faces = "faces"
    multiview = "multiview"
    all = "all"


def version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/demo")) -> None:
    """Fit handwritten digits as four views with holes; a table, and a picture (a quarter of a minute)."""
    from .demo import main

    main(out)


@app.command(epilog="Example: sshiba reproduce yeast --quick --jobs 2")
def reproduce(
    which: Annotated[list[Which] | None, typer.Argument(help="Experiments; all of them if none is named.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter form: ten minutes on two cores.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Cells computed at a time.")] = 2,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results [out/reproduce, with --quick …-quick].")
    ] = None,
) -> None:
    """Run the paper's experiments on the real data; tables, pictures and a page. What is done is not done again.

    The data come from the folder that SSHIBA_DATA names, or are fetched where that is possible.
    """
    from .datasets import DatasetError
    from .reproduce import EXPERIMENTS
    from .reproduce import reproduce as run

    chosen = [name for name in EXPERIMENTS if not which or Which.all in which or name in which]
    folder = out or Path("out/reproduce-quick" if quick else "out/reproduce")
    try:
        n_failed = run(chosen, quick, jobs, folder)
    except DatasetError as error:
        errors.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        errors.print(f"Stopped. What is done is kept in {folder}; the same command goes on from there.")
        raise typer.Exit(1) from None
    if n_failed:
        errors.print(f"{n_failed} cells failed (above); the same command tries them again.")
        raise typer.Exit(1)
