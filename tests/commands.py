"""The real command, in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

SOURCE = str(Path(__file__).parents[1] / "src")
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sshiba.cli", *map(str, arguments)]


def sshiba(
    *arguments: object, cwd: Path | None = None, stdin: str | None = None, data: Path | None = None
) -> subprocess.CompletedProcess:
    """The command, finished; `data` is the folder of the data sets."""
    environment = ENVIRONMENT if data is None else {**ENVIRONMENT, "SSHIBA_DATA": str(data)}
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, cwd=cwd, input=stdin, env=environment, timeout=300
    )


def started(folder: Path, *arguments: object) -> subprocess.Popen:
    """A command that can be stopped by Ctrl-C, also where the tests themselves run in the background and ignore it."""
    options = {"cwd": folder, "env": ENVIRONMENT, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(*arguments), preexec_fn=obey_ctrl_c, **options)


def obey_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
