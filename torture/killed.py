"""Commands killed at random moments: never half a file, never a lost checkpoint, and the same bound in the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from sshiba import load

from .runner import ROOT, Suite, demand, main
from .ugly_views import Rng, pick

SAME_BOUND = 1e-6  # relative
FIT = ["--components", "4", "--index", "id"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@cache
def prepared() -> tuple[Path, float, float]:
    """A folder with data and a model, its bound, and how long the fit takes."""
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    rng = np.random.default_rng(0)
    z = rng.standard_normal((3000, 3))
    x = z @ rng.standard_normal((3, 12)) + rng.standard_normal((3000, 12))
    x[rng.random(x.shape) < 0.1] = np.nan
    frame = pd.DataFrame(
        x, columns=[f"c{j}" for j in range(12)], index=pd.Index([f"r{i}" for i in range(3000)], name="id")
    )
    frame.to_csv(folder / "data.csv")
    began = time.perf_counter()
    demand(run(folder, "fit", "data.csv", *FIT, "-o", "whole.sshiba") == 0, "the fit itself fails")
    return folder, load(folder / "whole.sshiba").elbo_, time.perf_counter() - began


def start(folder: Path, *words: str) -> subprocess.Popen:
    line = [sys.executable, "-m", "sshiba.cli", *words]
    return subprocess.Popen(line, cwd=folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def run(folder: Path, *words: str) -> int:
    return start(folder, *words).wait(timeout=300)


def kill(rng: Rng, seconds: float, folder: Path, *words: str) -> int:
    """End it after a random time, or let it end; the exit code."""
    process = start(folder, *words)
    try:
        process.wait(timeout=float(rng.uniform(0.2, 1.1)) * seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(pick(rng, [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        process.wait(timeout=60)
    return process.returncode


def case(seed: int) -> str:
    rng = np.random.default_rng([5, seed])
    source, bound, seconds = prepared()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("data.csv", "whole.sshiba"):
            os.symlink(source / file, folder / file)
        what = pick(rng, ["fit", "fit", "impute", "report", "full disk", "read-only", "pipe"])
        return {"fit": fitted, "full disk": full_disk, "read-only": read_only, "pipe": closed_pipe}.get(what, written)(
            rng, folder, what, bound, seconds
        )


def fitted(rng: Rng, folder: Path, what: str, bound: float, seconds: float) -> str:
    """The checkpoint is whole at any time, and goes on to where an undisturbed fit ends."""
    path = folder / "m.sshiba"
    code = kill(rng, seconds, folder, "fit", "data.csv", *FIT, "-o", path.name, "--checkpoint", "0")
    if not path.exists():
        demand(code != 0, "done, and no model")
        return "killed before the first checkpoint"
    load(path)
    demand(
        run(folder, "fit", "data.csv", "--index", "id", "--resume", path.name) == 0, "cannot go on from a checkpoint"
    )
    with warnings.catch_warnings(action="ignore"):
        found = load(path).elbo_
    demand(abs(found - bound) < SAME_BOUND * abs(bound), f"went on to the bound {found!r}, alone it is {bound!r}")
    return "fit done" if code == 0 else "fit killed, and gone on"


def written(rng: Rng, folder: Path, what: str, bound: float, seconds: float) -> str:
    """An older file stays whole until the new one takes its place."""
    name = "out.csv" if what == "impute" else "out.html"
    (folder / name).write_text("the old file")
    words = ["impute", "data.csv", "--model", "whole.sshiba"] if what == "impute" else ["report", "whole.sshiba"]
    code = kill(
        rng, 0.6 * seconds, folder, *words, *(["--index", "id"] if what == "impute" else []), "-o", name, "--force"
    )
    text = (folder / name).read_text(encoding="utf-8")
    if what == "impute":
        whole = text.count("\n") == 3001 and text.endswith("\n")
    else:
        whole = text.rstrip().endswith("</html>")
    demand(text == "the old file" or whole, f"half a file: {len(text)} characters")
    demand(code != 0 or whole, "done, and nothing is written")
    return f"{what} {'done' if code == 0 else 'killed'}"


def full_disk(rng: Rng, folder: Path, what: str, bound: float, seconds: float) -> str:
    """A limit on the size of files stands for a disk without room, which needs no rights to be had."""
    limit = int(rng.integers(1, 60)) * 1024
    (folder / "out.csv").write_text("the old file")
    line = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    line += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
    line += "sys.argv = ['sshiba', *sys.argv[1:]]; from sshiba.cli import app; app()"
    words = ["impute", "data.csv", "--index", "id", "--model", "whole.sshiba", "-o", "out.csv", "--force"]
    done = subprocess.run(
        [sys.executable, "-c", line, *words], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    demand(done.returncode == 2, f"exit code {done.returncode}: {done.stderr[-300:]}")
    demand("Traceback" not in done.stderr, done.stderr[-300:])
    demand((folder / "out.csv").read_text() == "the old file", "half a file on a full disk")
    demand(not [path for path in folder.iterdir() if path.name.startswith(".out")], "something was left on a full disk")
    return what


def read_only(rng: Rng, folder: Path, what: str, bound: float, seconds: float) -> str:
    """The folder of processes, into which nobody can write."""
    done = subprocess.run(
        [sys.executable, "-m", "sshiba.cli", "export", "whole.sshiba", "-o", "/proc/none"],
        **{"cwd": folder, "env": ENVIRONMENT, "capture_output": True, "text": True, "timeout": 120},
    )
    demand(
        done.returncode == 2 and "Traceback" not in done.stderr, f"exit code {done.returncode}: {done.stderr[-300:]}"
    )
    return what


def closed_pipe(rng: Rng, folder: Path, what: str, bound: float, seconds: float) -> str:
    line = f"'{sys.executable}' -m sshiba.cli impute data.csv --index id --model whole.sshiba -o - | head -n 2"
    done = subprocess.run(line, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    demand(len(done.stdout.splitlines()) == 2, f"said {done.stdout[:100]!r}")
    demand("Traceback" not in done.stderr and "Error" not in done.stderr, done.stderr[-300:])
    return what


SUITE = Suite("killed", case, 200, prepared, seconds=300)

if __name__ == "__main__":
    main(SUITE)
