"""Commands killed at random moments, on full disks, with files that change: never half a file, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from sshiba import load

from .harm import changed, closed_pipe, full_disk, read_only
from .processes import ROOT_OUT, cluster, end, run, start
from .runner import Suite, demand, fingerprint, main
from .ugly_views import Rng, pick

SAME_BOUND = 1e-6  # relative
FIT = ["--components", "4", "--index", "id", "--restarts", "16"]  # longer than the start of Python
SAVING = "import sys; from sshiba import load; model = load('whole.sshiba')\nwhile True: model.save('m.sshiba')"
# The cells of one experiment that take no time, on faces that are noise.
REPRODUCING = """
from sshiba.paper import multiview
multiview.METHODS = {name: multiview.METHODS[name] for name in ("SSHIBA, paper's settings", "CCA", "ridge")}
from sshiba.cli.looking import app
app(["reproduce", "multiview", "--quick", "--jobs", "1", "--out", "results"])
"""
EARLIEST, LATEST = 0.25, 0.85  # of the seconds that a command takes by itself: when it is ended


@dataclass(frozen=True)
class Scene:
    """A folder with data and a model, and the bound of the model."""

    folder: Path
    bound: float


@cache
def prepared() -> Scene:
    """Made once for a state of the sources, by whichever process is first."""
    place = ROOT_OUT / fingerprint() / "killed"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="killed-", dir=place.parent))
        make_files(folder)
        with suppress(OSError):  # another one was first
            folder.rename(place)
    return Scene(place, **json.loads((place / "facts.json").read_text()))


def make_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((1500, 3))
    x = z @ rng.standard_normal((3, 12)) + rng.standard_normal((1500, 12))
    x[rng.random(x.shape) < 0.1] = np.nan
    names = [f"c{j}" for j in range(12)]
    for name, rows in (("data.csv", x), ("long.csv", np.tile(x.round(3), (60, 1)))):
        index = pd.Index([f"r{i}" for i in range(len(rows))], name="id")
        pd.DataFrame(rows, columns=names, index=index).to_csv(folder / name)
    pd.read_csv(folder / "long.csv", index_col="id").to_parquet(folder / "long.parquet")
    np.save(folder / "long.npy", np.tile(x, (60, 1)))
    person = np.arange(90) % 3
    attributes = (person[:, None] == np.arange(12) % 3).astype(np.uint8)
    faces = {"X": rng.integers(0, 255, (90, 2400)), "y": person, "class_names": np.array(["A", "B", "C"])}
    np.savez(folder / "lfw7_60x40.npz", **faces, attr=attributes, attr_names=np.array(list("abcdefghijkl")))
    demand(run(folder, "fit", "data.csv", *FIT, "-o", "whole.sshiba") == 0, "the fit itself fails")
    facts = {"bound": load(folder / "whole.sshiba").elbo_}
    demand(run(folder, "fit", "long.npy", "--components", "4", "--max-time", "3", "-o", "array.sshiba") == 0, "so, too")
    (folder / "facts.json").write_text(json.dumps(facts))


def moment(rng: Rng, begin: Callable[[], subprocess.Popen], what: str) -> float:
    """Seconds after which to end a command, at random among those that it takes when nobody ends it."""
    return float(rng.uniform(EARLIEST, LATEST)) * seconds_alone(what, begin)


TAKEN: dict[str, float] = {}


def seconds_alone(what: str, begin: Callable[[], subprocess.Popen]) -> float:
    """The shorter of two runs, by each process that runs cases: the first may have to compile, and how fast the machine
    is changes from hour to hour.
    """
    if what not in TAKEN:
        edges = [time.perf_counter()]
        for _ in range(2):
            demand(begin().wait(timeout=300) == 0, f"{what} fails where nobody ends it")
            edges.append(time.perf_counter())
        TAKEN[what] = min(later - earlier for earlier, later in pairwise(edges))
    return TAKEN[what]


def kill(rng: Rng, begin: Callable[[], subprocess.Popen], what: str) -> int:
    """Begin it, end it after a random time; the exit code."""
    seconds = moment(rng, begin, what)
    return end(begin(), seconds, pick(rng, [signal.SIGKILL, signal.SIGTERM]))


def outcome(what: str, code: int) -> str:
    return f"{what} {'done' if code == 0 else 'terminated' if code in (1, -signal.SIGTERM) else 'killed'}"


def no_litter(folder: Path, code: int, what: str) -> None:
    """Only what was killed without a word may leave the beginnings of a file, under a name that is no file's."""
    left = [path.name for path in folder.rglob("*") if path.name.startswith(".") or path.suffix == ".part"]
    demand(code == -signal.SIGKILL or not left, f"{what}: exit code {code}, and {left} are left")


# ------------------------------------------------------------------------------------------------- what is killed


def fitted(rng: Rng, scene: Scene, what: str) -> str:
    """The checkpoint is whole at any time, and goes on to where an undisturbed fit ends."""
    path = scene.folder / "m.sshiba"
    where: list[str] = []

    def begin() -> subprocess.Popen:
        path.unlink(missing_ok=True)
        return start(scene.folder, "fit", "data.csv", *FIT, "-o", path.name, "--checkpoint", "0", *where)

    if what == "fit":
        return gone_on(scene, kill(rng, begin, what), what)
    with cluster() as (address, pids):
        where += ["--scheduler", address]
        if rng.random() < 0.5:
            seconds = moment(rng, begin, what)
            process = begin()
            time.sleep(seconds)
            os.kill(pick(rng, pids), signal.SIGKILL)  # a worker is lost
            code = process.wait(timeout=120)
            demand(code == 0, f"a worker was lost, and the fit ended: exit code {code}")
            gone_on(scene, code, what, where)
            return "a worker lost"
        return gone_on(scene, kill(rng, begin, what), what, where)


def gone_on(scene: Scene, code: int, what: str, where: list[str] | None = None) -> str:
    path = scene.folder / "m.sshiba"
    demand(code in (0, 1, -signal.SIGKILL, -signal.SIGTERM), f"{what}: exit code {code}")
    no_litter(scene.folder, code, what)
    if not path.exists():
        demand(code != 0, "done, and no model")
        return f"{what} killed before the first checkpoint"
    with warnings.catch_warnings(action="ignore"):
        load(path)
    words = ["fit", "data.csv", "--index", "id", "--resume", path.name]
    demand(run(scene.folder, *words, *(where or [])) == 0, "cannot go on from a checkpoint")
    found = load(path).elbo_
    gap = abs(found - scene.bound) / abs(scene.bound)
    demand(gap < SAME_BOUND, f"went on to the bound {found!r}, alone it is {scene.bound!r}")
    return outcome(what, code)


def written(rng: Rng, scene: Scene, what: str) -> str:
    """An older file stays whole until the new one takes its place."""
    name = "out.html" if what == "report" else "out.csv"
    long = ["--max-memory", "64MB"]
    words = {
        "impute": ["impute", "data.csv", "--index", "id", "--model", "whole.sshiba"],
        "long impute": ["impute", "long.csv", "--index", "id", "--model", "whole.sshiba", *long],
        "report": ["report", "whole.sshiba"],
    }[what]

    def begin() -> subprocess.Popen:
        (scene.folder / name).write_text("the old file")
        return start(scene.folder, *words, "-o", name, "--force")

    code = kill(rng, begin, what)
    text = (scene.folder / name).read_text(encoding="utf-8")
    n_lines = {"impute": 1501, "long impute": 90_001}.get(what)
    whole = text.count("\n") == n_lines and text.endswith("\n") if n_lines else text.rstrip().endswith("</html>")
    demand(text == "the old file" or whole, f"half a file: {len(text)} characters")
    demand(code != 0 or whole, "done, and nothing is written")
    demand(code in (0, 1, -signal.SIGKILL, -signal.SIGTERM), f"{what}: exit code {code}")
    no_litter(scene.folder, code, what)
    return outcome(what, code)


def saved(rng: Rng, scene: Scene, what: str) -> str:
    """A model saved again and again."""
    (scene.folder / "m.sshiba").write_bytes((scene.folder / "whole.sshiba").read_bytes())
    end(start(scene.folder, "-c", SAVING, program=()), float(rng.uniform(1.0, 4.0)), signal.SIGKILL)
    demand(load(scene.folder / "m.sshiba").elbo_ == scene.bound, "another model")
    return what


def cells_of(folder: Path) -> dict[str, tuple[int, dict]]:
    """Cells that are stored: when they were written, and what they say but for their seconds."""
    found = {}
    for path in (folder / "results" / "cells").rglob("*.json"):
        numbers = json.loads(path.read_text())["numbers"]
        found[path.stem] = path.stat().st_mtime_ns, {**numbers, "seconds": 0}
    return found


@cache
def all_cells() -> dict[str, dict]:
    with tempfile.TemporaryDirectory() as name:
        begin_reproducing(Path(name), prepared().folder).wait(timeout=200)
        return {cell: numbers for cell, (_, numbers) in cells_of(Path(name)).items()}


def begin_reproducing(folder: Path, data: Path) -> subprocess.Popen:
    return start(folder, "-c", REPRODUCING, program=(), more={"SSHIBA_DATA": str(data)})


def reproduced(rng: Rng, scene: Scene, what: str) -> str:
    """What is stored is whole and not done again; the rest is done, and says the same."""
    expected = all_cells()

    def begin() -> subprocess.Popen:
        shutil.rmtree(scene.folder / "results", ignore_errors=True)
        return begin_reproducing(scene.folder, scene.folder)

    code = kill(rng, begin, what)
    before = cells_of(scene.folder)
    page = scene.folder / "results" / "index.html"
    demand(not page.exists() or page.read_text().rstrip().endswith("</html>"), "half a page")
    demand(begin_reproducing(scene.folder, scene.folder).wait(timeout=200) == 0, "cannot go on")
    after = cells_of(scene.folder)
    demand(all(after[cell] == before[cell] for cell in before), "a cell was done again")
    demand({cell: numbers for cell, (_, numbers) in after.items()} == expected, "other numbers than undisturbed")
    demand(page.read_text().rstrip().endswith("</html>"), "no page")
    return outcome(what, code)


CASES: dict[str, Callable[[Rng, Scene, str], str]] = {
    "fit": fitted,
    "impute": written,
    "long impute": written,
    "report": written,
    "save": saved,
    "reproduce": reproduced,
    "cluster": fitted,
    "full disk": full_disk,
    "read-only": read_only,
    "pipe": closed_pipe,
    "changed": changed,
}
OFTEN = [*["fit", "long impute", "full disk", "changed"] * 2, *CASES]


def case(seed: int) -> str:
    rng = np.random.default_rng([5, seed])
    scene = prepared()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in scene.folder.iterdir():
            if file.suffix in (".csv", ".npy", ".parquet"):
                shutil.copyfile(file, folder / file.name)
            else:
                os.symlink(file, folder / file.name)
        what = pick(rng, OFTEN)
        return CASES[what](rng, Scene(folder, scene.bound), what)


SUITE = Suite("killed", case, 200, prepared, seconds=300)

if __name__ == "__main__":
    main(SUITE)
