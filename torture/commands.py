"""Every command with ugly files and options: done, or exit code 2 and one sentence; nothing is half written."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import sshiba

from .runner import Suite, demand, main
from .ugly_files import clean_table, write_ugly
from .ugly_views import Rng, pick

SECONDS = 60
TRUE_ANSWERS = (0, 2)  # done, or refused; 1 is for what was interrupted
OF_OTHERS = (
    "error of another library",
    "RuntimeWarning",
    "FutureWarning",
    "DeprecationWarning",
    "PerformanceWarning",
    "ParserWarning",
    "DtypeWarning",
)
LIBRARY = str(Path(sshiba.__file__).parent)
MODEL = Path(tempfile.gettempdir()) / f"torture-{os.getuid()}" / "model.sshiba"
OPTIONS = [
    *(
        ["--index", "id"],
        ["--index", "none"],
        ["--drop", "c0"],
        ["--drop", "none"],
        ["--drop", "*"],
        ["--missing", "?"],
    ),
    *(["--missing", ""], ["--sep", ";"], ["--sep", "tab"], ["--sep", ""], ["--sep", "ab"], ["--encoding", "utf-16"]),
    *(["--encoding", "klingon"], ["--decimal", ","], ["--decimal", "x"], ["--thousands", "."], ["--no-header"]),
    *(["--dates", "features"], ["--dates", "odd"], ["--normalise-labels"], ["--day-first"], ["--sheet", "none"]),
]
FITTING = [
    *(
        ["--view", "a=c0,c1:real"],
        ["--view", "a=c*:real"],
        ["--view", "a"],
        ["--view", "a=none:real"],
        ["--view", "a=c0:odd"],
    ),
    *(["--levels", "who=lo,hi"], ["--levels", "who"], ["--limits", "c0=0,1"], ["--limits", "c0"], ["--margin", "auto"]),
    *(["--margin", "c0=log"], ["--kernel", "numeric=rbf"], ["--kernel", "none=rbf"], ["--covariate", "who"]),
    *(["--covariate", "c0=odd"], ["--groups", "who"], ["--groups", "none"], ["--keep", "all"], ["--keep", "odd"]),
    *(["--components", "2"], ["--components", "0"], ["--restarts", "2"], ["--seed", "-1"], ["--max-time", "0.2"]),
    *(["--max-memory", "1GB"], ["--max-memory", "2 apples"], ["--max-memory", "1"], ["--device", "abacus"]),
]


def words(rng: Rng, folder: Path) -> list[str]:
    """A command line."""
    ugly = write_ugly(rng, folder)
    more = [write_ugly(rng, folder, "more")] if rng.random() < 0.1 else []
    command = pick(
        rng, ["fit", "impute", "predict", "transform", "evaluate", "report", "stability"] * 2 + ["info", "export"]
    )
    out = pick(
        rng,
        ["out.csv"] * 40 + ["-", "none/out.csv", "out.odd", "out.parquet", "out.xlsx", ".", "", "out.tsv", "out.npy"],
    )
    reading = pick(rng, OPTIONS) if rng.random() < 0.25 else [] if rng.random() < 0.1 else ["--index", "id"]
    fitting = ["--components", "2", "--max-time", "1", *(pick(rng, FITTING) if rng.random() < 0.3 else [])]
    model = str(MODEL) if rng.random() < 0.85 else ugly
    lines: dict[str, list[str]] = {
        "fit": [ugly, *more, *reading, *fitting, "-o", "out.sshiba"],
        "impute": [ugly, *more, *reading, *(["--model", model] if rng.random() < 0.6 else fitting), "-o", out],
        "predict": [model, ugly, *reading, "--target", pick(rng, ["who", "c0", "who", "c1", "none", ""]), "-o", out],
        "transform": [model, ugly, *reading, "-o", out],
        "evaluate": [ugly, *reading, *fitting, "--out", "out.csv"],
        "info": [model],
        "report": [model, "--data", ugly, *reading, "--fraction", "0", "-o", "out.html"],
        "export": [model, "-o", pick(rng, ["out", "out.csv", "."])],
        "stability": [model, ugly, *reading, "-n", "1"],
    }
    if command == "predict" and rng.random() < 0.4:
        lines["predict"].append(pick(rng, ["--proba", "--std", "--use-target"]))
    return [command, *lines[command]]


def run_command(arguments: list[str], folder: Path) -> tuple[int, str]:
    """In a fork of this process: its exit status, and what it said on standard error."""
    said, heard = folder / ".stderr", folder / ".stdout"
    process = os.fork()
    if process == 0:
        signal.alarm(SECONDS)
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for place, path in ((1, heard), (2, said)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), place)
        sys.stdout, sys.stderr = (os.fdopen(place, "w", encoding="utf-8") for place in (1, 2))
        os._exit(in_child(arguments))
    status = os.waitpid(process, 0)[1]
    return os.waitstatus_to_exitcode(status), said.read_text(encoding="utf-8", errors="replace")


def in_child(arguments: list[str]) -> int:
    from sshiba.cli import terminal
    from sshiba.cli.looking import app

    shown = terminal.show_warning

    def named_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        print(f"{category.__name__}:", end=" ", file=sys.stderr)
        shown(message, category, *rest, **more)

    printed = terminal.errors.print

    def placed_error(*given: Any, **more: Any) -> None:
        error = sys.exc_info()[1]
        of_system = isinstance(error, OSError) and error.strerror
        if (
            error is not None
            and not of_system
            and not traceback.extract_tb(error.__traceback__)[-1].filename.startswith(LIBRARY)
        ):
            print(OF_OTHERS[0], traceback.format_exc()[-600:].replace("Traceback", ""), file=sys.stderr)
        printed(*given, **more)

    terminal.errors.print = placed_error  # type: ignore[method-assign]
    sys.modules["sshiba.cli.app"].show_warning = named_warning  # type: ignore[attr-defined]
    sys.argv = ["sshiba", *arguments]
    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
        code = 99
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def case(seed: int) -> str:
    rng = np.random.default_rng([2, seed])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = words(rng, folder)
        before = set(os.listdir(folder))
        code, said = run_command(arguments, folder)
        after = set(os.listdir(folder)) - before - {".stderr", ".stdout"}
    line = " ".join(arguments)[:300]
    demand(code != -signal.SIGALRM, f"hangs: {line}")
    demand("Traceback" not in said, f"a traceback: {line}: {said[-400:]}")
    demand(code in TRUE_ANSWERS, f"exit code {code}: {line}: {said[-300:]}")
    demand(not any(other in said for other in OF_OTHERS), f" {line}: {said[-400:]}")
    if code:
        errors = [text for text in said.splitlines() if text.startswith("Error: ")]
        usage = "Usage: " in said
        demand(usage or len(errors) == 1, f"not one line of an error: {line}: {said[-300:]}")
        demand(usage or 10 < len(errors[0]) < 1500, f"no sentence: {line}: {said[-300:]}")
        demand(not after, f"refused, and yet wrote {sorted(after)}: {line}")
    hidden = sorted(path for path in after if path.startswith("."))
    demand(not hidden, f"left behind {hidden}: {line}")
    return f"{arguments[0]} {'done' if code == 0 else 'refused'}"


def prepare() -> None:
    """Import and compile once, and fit the model that some commands use."""
    from sshiba import SSHIBA

    with warnings.catch_warnings(action="ignore"):
        frame = clean_table(np.random.default_rng(0), 40).set_index("id")
        model = SSHIBA(2, random_state=0, max_iter=50).fit(frame)
        model.impute(frame)
        MODEL.parent.mkdir(parents=True, exist_ok=True)
        model.save(MODEL)


SUITE = Suite("commands", case, 2_000, prepare, seconds=90)

if __name__ == "__main__":
    main(SUITE)
