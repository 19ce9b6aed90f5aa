"""Harm that comes from outside: a disk that is full or read-only, a pipe that closes, a file that changes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .processes import ENVIRONMENT, can_mount, said
from .runner import demand
from .ugly_views import Rng, pick

OLD = "the old file"
MODEL = ["--index", "id", "--model", "whole.sshiba"]
WRITING = {  # each with the file that it writes
    "impute": ("out.csv", ["impute", "data.csv", *MODEL, "--force", "-o"]),
    "impute gzip": ("out.csv.gz", ["impute", "data.csv", *MODEL, "--force", "-o"]),
    "impute parquet": ("out.parquet", ["impute", "data.csv", *MODEL, "--force", "-o"]),
    "impute xlsx": ("out.xlsx", ["impute", "data.csv", *MODEL, "--force", "-o"]),
    "long impute": ("out.csv", ["impute", "long.csv", *MODEL, "--max-memory", "64MB", "--force", "-o"]),
    "arrays": ("out.npy", ["impute", "long.npy", "--model", "array.sshiba", "--force", "-o"]),
    "transform": ("out.csv", ["transform", "whole.sshiba", "data.csv", "--index", "id", "--force", "-o"]),
    "report": ("out.html", ["report", "whole.sshiba", "--force", "-o"]),
    "fit": ("m.sshiba", ["fit", "data.csv", "--index", "id", "--components", "2", "--force", "-o"]),
    "checkpoint": ("m.sshiba", ["fit", "data.csv", "--index", "id", "--checkpoint", "0", "--force", "-o"]),
}
SMALL_DISK = """
mount -t tmpfs -o size={size}k none disk || exit 99
printf '%s' '{old}' > disk/{name}
{after}
"$@"; code=$?
ls -A disk > left; cp disk/{name} kept
exit $code
"""
LIMITED = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
LIMITED += "resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
LIMITED += "sys.argv = ['sshiba', *sys.argv[1:]]; from sshiba.cli.looking import app; app()"
may_mount = cache(can_mount)


def refused_whole(done: subprocess.CompletedProcess, words: str, why: str = "") -> None:
    """Exit code 2 and one sentence, which says why."""
    demand("Traceback" not in done.stderr and "Exception ignored" not in done.stderr, f"{words}: {done.stderr[-500:]}")
    demand(done.returncode == 2, f"{words}: exit code {done.returncode}: {done.stderr[-300:]}")
    demand(done.stderr.count("Error: ") == 1, f"{words}: {done.stderr[-300:]}")
    demand(re.search(why, done.stderr) is not None, f"{words}, another reason: {done.stderr[-300:]}")


def on_disk(folder: Path, size: int, name: str, line: Sequence[str], after: str = "") -> Any:
    """Run with the folder "disk", of so many kilobytes, in which the old file lies; then what is left there."""
    (folder / "disk").mkdir()
    script = SMALL_DISK.format(size=size, name=name, old=OLD, after=after)
    done = said(folder, ["unshare", "--mount", "sh", "-c", script, "sh", *line])
    demand(done.returncode != 99, "cannot mount a small disk")
    return done, (folder / "left").read_text().split(), (folder / "kept").read_bytes()


def full_disk(rng: Rng, scene: Any, what: str) -> str:
    """A disk of some kilobytes or, where none may be had, a limit on the size of files."""
    how = pick(rng, list(WRITING))
    name, words = WRITING[how]
    size = int(2 ** rng.uniform(2, 8))
    if how == "long impute" and rng.random() < 0.3:
        return full_scratch(scene.folder)
    if not may_mount():
        return limited(scene.folder, size, name, words)
    line = [sys.executable, "-m", "sshiba.cli", *words, f"disk/{name}"]
    done, left, kept = on_disk(scene.folder, size, name, line)
    words = f"{how} on {size} kB"
    demand(left == [name], f"{words}: {left} are left on a full disk")
    if done.returncode == 0:
        demand(kept != OLD.encode(), f"{words}: done, and not written")
        return "disk had room"
    refused_whole(done, words, "No space left")
    demand(kept == OLD.encode() or how == "checkpoint", f"{words}: half a file on a full disk")
    return what


def full_scratch(folder: Path) -> str:
    """Rows that do not fit into memory have no room on the disk for temporary files."""
    if not may_mount():
        return "no small disk may be had"
    words = ["fit", "long.csv", "--index", "id", "--components", "2", "--max-memory", "64MB", "-o", "m.sshiba"]
    line = ["env", f"TMPDIR={folder / 'disk'}", sys.executable, "-m", "sshiba.cli", *words]
    done, _, _ = on_disk(folder, 64, "old", line)
    refused_whole(done, "scratch", "TMPDIR")
    demand(not (folder / "m.sshiba").exists(), "a model of rows that were never there")
    return "full scratch"


def limited(folder: Path, size: int, name: str, words: Sequence[str]) -> str:
    (folder / name).write_text(OLD)
    done = said(folder, [sys.executable, "-c", LIMITED.format(size=1024 * size), *words, name])
    if done.returncode == 0:
        return "file not too large"
    refused_whole(done, " ".join(words), "too large")
    demand(not [path for path in folder.iterdir() if path.name.startswith(".")], "something is left")
    return "limited file"


def read_only(rng: Rng, scene: Any, what: str) -> str:
    how = pick(rng, list(WRITING))
    name, words = WRITING[how]
    if not may_mount():  # the folder of processes, into which nobody can write
        refused_whole(
            said(scene.folder, [sys.executable, "-m", "sshiba.cli", *words, f"/proc/{name}"]), how, "No such|written"
        )
        return what
    line = [sys.executable, "-m", "sshiba.cli", *words, f"disk/{name}"]
    done, left, kept = on_disk(scene.folder, 64, name, line, "mount -o remount,ro disk")
    refused_whole(done, f"{how}, read-only", "Read-only|nothing may be written")
    demand(left == [name] and kept == OLD.encode(), f"{left} in a read-only folder")
    return what


def closed_pipe(rng: Rng, scene: Any, what: str) -> str:
    """The reader of standard output has had enough."""
    lines = {
        "impute": "impute data.csv --index id --model whole.sshiba -o -",
        "long impute": "impute long.csv --index id --model whole.sshiba --max-memory 64MB -o -",
        "transform": "transform whole.sshiba long.csv --index id",
        "predict": "predict whole.sshiba data.csv --index id --target c0 --std",
        "info": "info whole.sshiba",
        "help": "fit --help",
    }
    words, n = lines[pick(rng, list(lines))], int(rng.integers(3))
    line = f"'{sys.executable}' -m sshiba.cli {words} | head -n {n}"
    done = subprocess.run(
        line, shell=True, cwd=scene.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=200
    )
    demand(len(done.stdout.splitlines()) == n, f"{words}: said {done.stdout[:100]!r}")
    odd = [word for word in ("Traceback", "Error", "Exception ignored", "Broken") if word in done.stderr]
    demand(not odd, f"{words}: {done.stderr[-300:]}")
    return what


# ------------------------------------------------------------------------------------------- files that change


def shrink(path: Path, rng: Rng) -> None:
    os.truncate(path, int(rng.integers(path.stat().st_size)))


def grow(path: Path, rng: Rng) -> None:
    with open(path, "ab") as file:
        file.write(b"r-1,1,1,1,1,1,1,1,1,1,1,1,1\n" * int(rng.integers(1, 4000)))


def overwrite(path: Path, rng: Rng) -> None:
    with open(path, "r+b") as file:
        file.seek(int(rng.integers(path.stat().st_size)))
        file.write(b"7" * 1000)


def remove(path: Path, rng: Rng) -> None:
    path.unlink()


def put_another(path: Path, rng: Rng) -> None:
    """As a careful program does it: the old one can be read by those that have it open."""
    path.with_name("other").write_bytes(path.read_bytes()[: int(rng.integers(path.stat().st_size))])
    path.with_name("other").replace(path)


def changed(rng: Rng, scene: Any, what: str) -> str:
    """Done with all rows that the file had or has, or refused in a sentence; never a part of them."""
    folder = scene.folder
    name = pick(rng, ["long.csv", "long.csv", "data.csv", "long.npy", "long.parquet"])
    model = "array.sshiba" if name == "long.npy" else "whole.sshiba"
    words = pick(
        rng,
        [
            ["impute", name, "--model", model, "--max-memory", "64MB", "-o", "out.npy" if "npy" in name else "out.csv"],
            ["transform", model, name, "-o", "out.csv"],
            ["fit", name, "--components", "2", "--max-memory", "64MB", "--max-time", "3", "-o", "m.sshiba"],
        ],
    )
    words = [*words, *([] if name == "long.npy" else ["--index", "id"])]
    line = [sys.executable, "-m", "sshiba.cli", *words]
    pipes: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(line, cwd=folder, env=ENVIRONMENT, **pipes)
    time.sleep(float(rng.uniform(0.5, 4.0)))
    harm = pick(rng, [shrink, shrink, grow, overwrite, remove, put_another])
    harm(folder / name, rng)
    errors = process.communicate(timeout=200)[1]
    done = subprocess.CompletedProcess(line, process.returncode, "", errors)
    said_words = f"{' '.join(words)}, {harm.__name__}"
    if done.returncode != 0:
        refused_whole(done, said_words)
        demand(not any((folder / out).exists() for out in ("out.csv", "out.npy")), f"{said_words}: half a file")
        return "changed, refused"
    demand("Traceback" not in errors, f"{said_words}: {errors[-300:]}")
    if (folder / "out.csv").exists():
        n_rows = (folder / "out.csv").read_bytes().count(b"\n") - 1
        demand(n_rows in (1500, 90_000) or harm not in (remove, overwrite), f"{said_words}: {n_rows} rows were written")
    return "changed, done"
