"""Options that several commands share, each written once: a command that takes a `Reading` has all of its options."""

from __future__ import annotations

import fnmatch
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import pandas as pd
import typer

from ..estimator import SSHIBA
from ..files.tables import Reading

Tables = Annotated[list[str], typer.Argument(help="Files: .csv, .tsv, .parquet, .npz, .h5mu; - is standard input.")]
NewTable = Annotated[str, typer.Argument(help="File with new rows; - is standard input.")]
ModelFile = Annotated[str, typer.Argument(help="Model file, as written by fit.")]
Out = Annotated[str, typer.Option("--out", "-o", help="File to write; - is standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files.")]


@dataclass(frozen=True)
class Fitting:
    """How a model is fitted."""

    view: Sequence[str] = ()  # NAME=columns:type
    components: int = 50
    restarts: int = 1
    seed: int = 0
    jobs: int = 1
    max_time: float | None = None

    def model(self, given: Any) -> SSHIBA:
        """The model that is to be fitted to `given`."""
        views = dict(parse_view(text, given) for text in self.view) or None
        model = SSHIBA(self.components, views, self.restarts)
        return model.set_params(random_state=self.seed, n_jobs=self.jobs, max_time=self.max_time)


OPTIONS: dict[type, dict[str, Any]] = {
    Reading: {
        "index": Annotated[str | None, typer.Option(help="Column with the names of the rows.")],
        "drop": Annotated[list[str] | None, typer.Option(help="Column to leave out (again for more).")],
        "encoding": Annotated[str, typer.Option(help="Of text files.")],
        "missing": Annotated[
            list[str] | None, typer.Option(help="Text that means missing, such as '?' (again for more).")
        ],
        "separator": Annotated[
            str | None, typer.Option("--sep", help="Between cells, or 'tab'; found if not named.", show_default=False)
        ],
        "decimal": Annotated[
            str | None, typer.Option(help="Decimal mark; a comma where semicolons separate, else a point.")
        ],
    },
    Fitting: {
        "view": Annotated[
            list[str] | None,
            typer.Option(help="NAME=columns:type, columns with commas and *, type real, binary or categorical."),
        ],
        "components": Annotated[int, typer.Option(min=1, help="The most factors.")],
        "restarts": Annotated[int, typer.Option(min=1, help="Random starts; the best is kept.")],
        "seed": Annotated[int, typer.Option(min=0, help="Of the random starts.")],
        "jobs": Annotated[int, typer.Option(min=1, help="Restarts at a time.")],
        "max_time": Annotated[float | None, typer.Option(help="Seconds for the fit.")],
    },
}


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of a `Reading` or `Fitting` in place of that parameter."""
    hints = typing.get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if hint in OPTIONS}

    def call(**given: Any) -> None:
        for name, group in groups.items():
            options = {option: given.pop(option) for option in OPTIONS[group]}
            given[name] = group(**{option: value for option, value in options.items() if value is not None})
        command(**given)

    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        for field in fields(groups[name]):
            kept = None if isinstance(field.default, tuple) else field.default
            annotation = OPTIONS[groups[name]][field.name]
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, kind, default=kept, annotation=annotation))
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


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
