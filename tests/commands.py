"""The real command, in a process of its own.

Imports take most of the time of a short command. So one interpreter imports everything, and each command is a fork of
it; `started` gives one that is a fresh interpreter from the start. `python commands.py WORDS` is a command, too, for
scripts whose environment is that of `for_scripts`.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

SOURCE = str(Path(__file__).parents[1] / "src")
PATHS = os.pathsep.join([SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
PIPES = "SSHIBA_TEST_PIPES"  # the variable that tells a script of the interpreter's pipes
SERVE = "--serve"
SECONDS = 300  # that a command may take


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sshiba.cli", *map(str, arguments)]


def sshiba(
    *arguments: object, cwd: Path | None = None, stdin: str | None = None, data: Path | str | None = None
) -> subprocess.CompletedProcess:
    """The command, finished; `data` is the folder of the data sets."""
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        stdout, stderr, given = (str(Path(folder, name)) for name in ("stdout", "stderr", "stdin"))
        Path(given).write_text(stdin or "", encoding="utf-8")
        where = {"cwd": str(cwd or Path.cwd()), "data": None if data is None else str(data)}
        code = asked({"words": words, **where, "files": [given, stdout, stderr]})
        texts = [Path(name).read_text(encoding="utf-8") for name in (stdout, stderr)]
    return subprocess.CompletedProcess(words, code, *texts)


def asked(wanted: dict) -> int:
    """The exit status of a command, given to the interpreter."""
    inward, outward = pipes()
    os.write(inward, json.dumps(wanted).encode() + b"\n")
    with open(os.dup(outward)) as answers:
        return int(answers.readline())


def pipes() -> tuple[int, int]:
    """Into the interpreter and out of it; a script has those of the test that runs it."""
    if PIPES in os.environ:
        inward, outward = map(int, os.environ[PIPES].split())
        return inward, outward
    server = interpreter()
    assert server.stdin is not None
    assert server.stdout is not None
    return server.stdin.fileno(), server.stdout.fileno()


def for_scripts() -> dict:
    """Options of `subprocess.run` for scripts that give commands to the same interpreter."""
    both = pipes()
    return {"env": {**ENVIRONMENT, PIPES: "{} {}".format(*both)}, "pass_fds": both, "stdin": subprocess.DEVNULL}


@cache
def interpreter() -> subprocess.Popen:
    """It ends with its standard input, so at the latest with the tests."""
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, __file__, SERVE], env=ENVIRONMENT, **ends)


def serve() -> None:
    """Run the commands that are read, and print the exit status of each."""
    from sshiba.cli.looking import app

    load_what_commands_load()
    for line in sys.stdin:
        wanted = json.loads(line)
        process = os.fork()
        if process == 0:
            run(app, wanted)
        status = os.waitpid(process, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)


def load_what_commands_load() -> None:
    """Compiled code, and modules that are imported when they are first used: once, instead of in each fork."""
    import numpy as np

    from sshiba import SSHIBA

    with suppress(ImportError):
        import_module("pydantic.type_adapter")  # by which some versions of typer read arguments
    import_module("sshiba.core.likelihoods.probit_compiled")
    x = np.random.default_rng(0).standard_normal((30, 3))
    for classes in (["a", "b"], ["a", "b", "c", "d", "e"]):
        labels = np.resize(classes, 30)
        with warnings.catch_warnings(action="ignore"):
            SSHIBA(2, max_iter=2, keep="all", search=None).fit({"x": x, "y": labels}).predict_proba({"x": x}, "y")


def run(app, wanted: dict) -> None:
    """In the fork: the command, and its end."""
    signal.alarm(SECONDS)
    os.chdir(wanted["cwd"])
    if wanted["data"]:
        os.environ["SSHIBA_DATA"] = wanted["data"]
    given, *written = wanted["files"]
    os.dup2(os.open(given, os.O_RDONLY), 0)
    for place, name in enumerate(written, start=1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), place)
    sys.argv = ["sshiba", *wanted["words"]]
    code = 0
    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def started(folder: Path, *arguments: object) -> subprocess.Popen:
    """A command that can be stopped by Ctrl-C, also where the tests themselves run in the background and ignore it."""
    options = {"cwd": folder, "env": ENVIRONMENT, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(*arguments), preexec_fn=obey_ctrl_c, **options)


def obey_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    if sys.argv[1:] == [SERVE]:
        serve()
    else:
        done = sshiba(*sys.argv[1:], stdin=sys.stdin.read(), data=os.environ.get("SSHIBA_DATA"))
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
