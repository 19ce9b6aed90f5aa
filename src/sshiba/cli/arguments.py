"""Options that several commands share, each written once: a command that takes a `Reading` has all of its options."""

from __future__ import annotations

import enum
import inspect
import shlex
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..data.markers import MISSING
from ..data.types import VIEW_TYPES
from ..estimator import SSHIBA
from ..files.formats import ENDINGS
from ..files.growing import spreadsheet_safe
from ..files.reading_options import DATES, Reading
from ..files.text_files import Dialect
from ..fitted.candidates import KEEP
from ..version import how_to_install
from .column_options import (
    MARGINS,
    labels_named,
    parse_covariates,
    parse_view,
    refuse_commas,
    with_files,
    with_kernels,
    with_levels,
    with_numbers,
    without_columns,
)
from .terminal import plain_errors, running


class UnseenLabels(enum.StrEnum):
    """What labels are that a model never saw."""

    missing = "missing"
    error = "error"


FILES = f"Files: {' '.join(ENDINGS)}, or a folder of Parquet files; - is standard input."
NAMED = "Arrays are views that are called as their files, or NAME=FILE; one in HDF5 may be file.h5:array."
Tables = Annotated[list[str], typer.Argument(help=f"{FILES} {NAMED}", metavar="FILE")]
NewTables = Annotated[list[str], typer.Argument(help="Files with new rows; - is standard input.", metavar="FILE")]
ModelFile = Annotated[str, typer.Argument(help="Model file, as written by fit.", metavar="MODEL")]
Out = Annotated[str, typer.Option("--out", "-o", help="File to write; - is standard output.")]
TableOut = Annotated[str | None, typer.Option("--out", "-o", help="Also write the table to this file.")]
Unseen = Annotated[
    UnseenLabels,
    typer.Option(
        help="Labels that the model never saw: count them as missing, or refuse them.", metavar="missing|error"
    ),
]
AtMean = Annotated[
    bool,
    typer.Option("--covariates-at-mean", help="Covariates that the files lack are taken at their mean."),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(help="Memory limit, such as 4GB; 60 % of the free memory by default.", metavar="SIZE"),
]
SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="In text files, cells that a spreadsheet would run as formulas (= + - @) begin with an apostrophe.",
        callback=lambda given: (spreadsheet_safe.set(bool(given)), given)[1],
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files.")]


@dataclass(frozen=True)
class Fitting:
    """How a model is fitted."""

    view: Sequence[str] = ()  # NAME=columns:type
    levels: Sequence[str] = ()  # COLUMN=lowest,...,highest
    limits: Sequence[str] = ()  # COLUMN=lower,upper
    margin: Sequence[str] = ()  # KIND, or COLUMN=KIND
    kernel: Sequence[str] = ()  # VIEW=KERNEL
    covariate: Sequence[str] = ()  # NAME, or NAME=type
    groups: str | None = None
    components: int | None = None
    keep: str | None = None
    restarts: int = 1
    seed: int = 0
    jobs: int = 1
    max_time: float | None = None
    device: str | None = None
    max_memory: str | None = None
    scheduler: str | None = None

    def model(self, given: Any, files: Mapping[str, list], dialect: Dialect | None = None) -> SSHIBA:
        """The model that is to be fitted to `given`; `files` are those that it is made of, where they are several, and
        the dialect is how a text file is written.
        """
        if dialect is not None and dialect.decimal == ",":
            refuse_commas(self.limits)
        covariates = parse_covariates(self.covariate, given)
        given = without_columns(given, [*covariates, *([] if self.groups is None else [self.groups])])
        views = with_levels(dict(parse_view(text, given) for text in self.view), self.levels, given, files)
        views = with_files(views, files, self.limits, given)
        views = with_kernels(with_numbers(views, self.limits, self.margin, given), self.kernel, given, files)
        model = SSHIBA(self.components, views or None, self.restarts, keep=self.keep, engine=self.engine())
        model.set_params(covariates=covariates or None, sample_groups=self.groups)
        limits = {"max_time": self.max_time, "max_memory": self.max_memory}
        return model.set_params(random_state=self.seed, n_jobs=self.jobs, device=self.device, **limits)

    def reading(self, how: Reading) -> Reading:
        """How files are read, where levels that are named are labels."""
        return replace(how, not_missing=(*how.not_missing, *labels_named(self.levels, {*MISSING, *how.missing})))

    def going_on(self, earlier: SSHIBA) -> SSHIBA:
        """An interrupted model, with what may be another now."""
        device = earlier.device if self.device is None else self.device
        limits = {"max_time": self.max_time, "max_memory": self.max_memory}
        return earlier.set_params(n_jobs=self.jobs, device=device, engine=self.engine(), **limits)

    def engine(self) -> str:
        """On the workers of the scheduler that is named, else here."""
        if self.scheduler is None:
            return "auto"
        connect(self.scheduler)
        return "dask"


def connect(scheduler: str) -> None:
    """From now on the workers of this scheduler are at hand."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(f"--scheduler needs Dask: {how_to_install('dask')}.") from error
    try:
        Client(scheduler)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {scheduler!r}.") from error


OPTIONS: dict[type, dict[str, Any]] = {
    Reading: {
        "index": Annotated[str | None, typer.Option(help="Column with the names of the rows.")],
        "drop": Annotated[list[str] | None, typer.Option(help="Columns to leave out, with commas (repeatable).")],
        "missing": Annotated[
            list[str] | None,
            typer.Option(
                help="TEXT, or COLUMN=TEXT for one column: means missing, such as '?' or age=999 (repeatable).",
                metavar="TEXT",
            ),
        ],
        "not_missing": Annotated[
            list[str] | None,
            typer.Option(
                help="TEXT, or COLUMN=TEXT for one column: a label here, though it often means missing: None, NA ... "
                "(repeatable).",
                metavar="TEXT",
            ),
        ],
        "normalise_labels": Annotated[
            bool, typer.Option("--normalise-labels", help="Merge labels that differ only in case and blanks.")
        ],
        "dates": Annotated[
            str | None,
            typer.Option(help=f"How to use dates: {' (year, month, weekday, days) or '.join(DATES)}.", metavar="HOW"),
        ],
        "day_first": Annotated[
            bool | None,
            typer.Option(
                "--day-first/--month-first", help="Read 03/04/2020 as 3 April or 4 March; detected where possible."
            ),
        ],
        "no_header": Annotated[
            bool, typer.Option("--no-header", help="The first line is data; columns are named 'column 1' ...")
        ],
        "sheet": Annotated[str | None, typer.Option(help="Sheet of a workbook; the first by default.")],
        "encoding": Annotated[
            str | None, typer.Option(help="Encoding of text files; detected by default.", show_default=False)
        ],
        "separator": Annotated[
            str | None,
            typer.Option("--sep", help="Separator of cells, or 'tab'; detected by default.", show_default=False),
        ],
        "decimal": Annotated[str | None, typer.Option(help="Decimal mark, '.' or ','; detected by default.")],
        "thousands": Annotated[str | None, typer.Option(help="Thousands mark, ',' or '.'; detected by default.")],
    },
    Fitting: {
        "view": Annotated[
            list[str] | None,
            typer.Option(help=f"NAME=columns:type, columns with commas and *, type {', '.join(VIEW_TYPES)}."),
        ],
        "levels": Annotated[
            list[str] | None,
            typer.Option(
                help="COLUMN=lowest,...,highest: ordered levels, which make the column ordinal (repeatable).",
                metavar="COLUMN=LEVELS",
            ),
        ],
        "limits": Annotated[
            list[str] | None,
            typer.Option(
                help="COLUMN=lower,upper: values at a limit are known only to lie beyond it; either may be empty, or "
                "the name of a column that has the limit of each row (repeatable).",
                metavar="COLUMN=LIMITS",
            ),
        ],
        "margin": Annotated[
            list[str] | None,
            typer.Option(
                help=f"KIND, or COLUMN=KIND for one column: the scale of columns of numbers, {', '.join(MARGINS)} "
                "(repeatable).",
                metavar="KIND",
            ),
        ],
        "kernel": Annotated[
            list[str] | None,
            typer.Option(
                help="VIEW=KERNEL: other views may depend nonlinearly on this view of numbers, by kernel features: "
                "rbf, laplacian, polynomial ... (repeatable).",
                metavar="VIEW=KERNEL",
            ),
        ],
        "covariate": Annotated[
            list[str] | None,
            typer.Option(
                help="NAME, or NAME=categorical: a known input such as a batch or an age, a column or a file beside "
                "the others. Its effects take no factor (repeatable).",
                metavar="NAME",
            ),
        ],
        "groups": Annotated[
            str | None,
            typer.Option(
                help="Column with the group of each row, such as a cohort, or a file beside the others: factors are "
                "shared, and each has an activity in every group.",
                metavar="NAME",
            ),
        ],
        "components": Annotated[
            int | None,
            typer.Option(min=1, help="Upper limit of factors; 50 by default, and one more for each kernel feature."),
        ],
        "keep": Annotated[
            str | None,
            typer.Option(
                help=f"Which factors to keep: {' or '.join(KEEP)} that explain anything; short fits choose by default.",
                metavar="|".join(KEEP),
            ),
        ],
        "restarts": Annotated[
            int,
            typer.Option(
                min=1, help="Starts: the first along the principal components, others random; the best is kept."
            ),
        ],
        "seed": Annotated[int, typer.Option(min=0, help="Seed of all that is random: starts, rows and cells drawn.")],
        "jobs": Annotated[int, typer.Option(min=1, help="Starts that run in parallel.")],
        "max_time": Annotated[float | None, typer.Option(min=0, help="Time limit of the fit, in seconds.")],
        "device": Annotated[
            str | None, typer.Option(help="Where to compute: cuda, cuda:1 or cpu, with PyTorch.", metavar="NAME")
        ],
        "max_memory": Annotated[
            str | None,
            typer.Option(
                help="Memory limit, such as 4GB; 60 % of the free memory by default. Rows that do not fit stay in "
                "their files.",
                metavar="SIZE",
            ),
        ],
        "scheduler": Annotated[
            str | None,
            typer.Option(help="A Dask scheduler, tcp://host:8786: rows go to its workers.", metavar="ADDRESS"),
        ],
    },
}


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of a `Reading` or `Fitting` in place of that parameter."""
    hints = typing.get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if hint in OPTIONS}

    def call(**given: Any) -> None:
        for name, group in groups.items():
            options = {option: given.pop(option) for option in OPTIONS[group]}
            said = {option: value for option, value in options.items() if value is not None}
            with plain_errors():
                given[name] = group(**{o: tuple(v) if isinstance(v, list) else v for o, v in said.items()})
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


def as_options(group: Any) -> list[str]:
    """The words of a command line that say the same."""
    words: list[str] = []
    for each in fields(group):
        value = getattr(group, each.name)
        if value == each.default:
            continue
        option = typing.get_args(OPTIONS[type(group)][each.name])[1]
        named = [word for word in (*option.param_decls, option.default) if isinstance(word, str)]
        flag = named[0] if named else "--" + each.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag.split("/")[0 if value else 1])
            continue
        values = list(value) if isinstance(value, tuple | list) else [value]
        words += [word for one in values for word in (flag, shlex.quote(str(one)))]
    return words


def given_options(*names: str) -> list[str]:
    """Those of these options that are on the command line."""
    given = [name for name in names if running.get().get_parameter_source(name).name == "COMMANDLINE"]
    return ["--" + name.replace("_", "-") for name in given]


class PlainHelp:
    """A command whose help shows no types that only programmers know."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.metavar is None and param.param_type_name == "option":
                param.metavar = "NUMBER" if _takes_number(param) else "TEXT"
            elif param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None  # its name says it
        return params


def _takes_number(param: Any) -> bool:
    """Does an option take a number? typer calls its types differently from version to version."""
    kind = param.bare_type() if hasattr(param, "bare_type") else param.type.name
    return "int" in kind.lower() or "float" in kind.lower()


class Command(PlainHelp, TyperCommand):
    """One command."""

    def invoke(self, ctx: Any) -> Any:
        token = running.set(ctx)
        try:
            return super().invoke(ctx)
        finally:
            running.reset(token)


class Commands(PlainHelp, TyperGroup):
    """All commands."""
