"""Files larger than memory: what a fit takes, in time and in memory, and how a sweep compares with reading the file.

    python benchmarks/large.py [--gigabytes=12] [--max-memory=2GB] [--folder=DIR] [--case=NAME] [--out=FILE.json]

The files are made on the spot and removed at the end. Each case runs in a process of its own, whose anonymous resident
memory is watched: what it takes itself, without the pages of files that the system keeps. `same` compares a file of a
twelfth of the size with the same rows in memory.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from sshiba import SSHIBA
from sshiba.data.source_formats import find_source

WIDTH, K = 1000, 25
BLOCK = 2**24  # bytes: about what a sweep reads at a time
CASES = {
    "real, Gram space": {},
    "real, Gram off": {"engine": "memory", "max_iter": 8},
    "a tenth missing": {"holes": True, "max_iter": 3},
    "20 yes/no, 5 classes": {"labels": True, "max_iter": 5},
}


def make_files(folder: Path, n: int) -> None:
    """Numbers from ten factors, the same with a tenth of the cells missing, and labels from the same factors."""
    rng = np.random.default_rng(0)
    w, v, u = (rng.standard_normal((10, d)) / 3 for d in (WIDTH, 20, 5))
    header = {"descr": "<f8", "fortran_order": False, "shape": (n, WIDTH)}
    with open(folder / "numbers.npy", "wb") as numbers, open(folder / "holes.npy", "wb") as holes:
        for file in (numbers, holes):
            np.lib.format.write_array_header_1_0(file, header)
        yes_no, classes = [], []
        for start in range(0, n, 10_000):
            z = rng.standard_normal((min(10_000, n - start), 10))
            x = z @ w + 0.7 * rng.standard_normal((len(z), WIDTH), dtype=np.float32)
            numbers.write(x.tobytes())
            x[rng.random(x.shape, dtype=np.float32) < 0.1] = np.nan
            holes.write(x.tobytes())
            yes_no.append((z @ v + rng.standard_normal((len(z), 20)) > 0).astype(np.uint8))
            classes.append((z @ u + rng.standard_normal((len(z), 5))).argmax(axis=1).astype(np.uint8))
    np.save(folder / "yes_no.npy", np.concatenate(yes_no))
    np.save(folder / "classes.npy", np.concatenate(classes))


def forget(path: Path) -> None:
    """Drop what the system keeps of a file in memory."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def reading_time(path: Path) -> float:
    """Seconds to read a file that is not in memory, in blocks as a sweep does, and nothing else."""
    source = find_source(np.load(path, mmap_mode="r"), "x")
    assert source is not None
    step = BLOCK // source.row_bytes
    forget(path)
    began = time.perf_counter()
    for start in range(0, source.n_rows, step):
        source.read_block(start, min(start + step, source.n_rows))
    return time.perf_counter() - began


class Watch(threading.Thread):
    """The most anonymous resident memory that this process had, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.stopped = 0, threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.02):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    self.peak = max(self.peak, 1024 * int(line.split()[1]))


def run_case(name: str, folder: Path, max_memory: str) -> dict:
    """One fit, watched; each sweep finds nothing of the file in memory."""
    options = dict(CASES[name])
    path = folder / ("holes.npy" if options.pop("holes", False) else "numbers.npy")
    views: dict = {"x": np.load(path, mmap_mode="r")}
    types: dict = {"x": "real"}
    if options.pop("labels", False):
        views |= {key: np.load(folder / f"{key}.npy", mmap_mode="r") for key in ("yes_no", "classes")}
        types |= {"yes_no": "binary", "classes": "categorical"}
    times: list[float] = []
    reading: list[float] = []

    def each_sweep(progress: object) -> None:
        times.append(time.perf_counter())
        if name == "real, Gram off":  # reading and sweeps in turns
            reading.append(reading_time(path))
        forget(path)
        times.append(time.perf_counter())

    watch = Watch()
    watch.start()
    before = watch_now()
    forget(path)
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        model = SSHIBA(K, types, random_state=0, max_memory=max_memory, prune_tol=0.0, callback=each_sweep, **options)
        model.fit(views)
    seconds = time.perf_counter() - began
    watch.stopped.set()
    sweeps = np.array(times[2::2]) - np.array(times[1:-1:2])
    beside = {"each sweep": sweeps.tolist(), "reading cold, in turns": reading} if reading else {}
    return {
        "case": name,
        **beside,
        "seconds": seconds,
        "sweeps": model.n_iter_,
        "converged": model.converged_,
        "factors": model.n_components_,
        "seconds a sweep": float(np.median(sweeps)),
        "first sweep after": times[0] - began,
        "GB of memory": watch.peak / 1e9,
        "GB at the start": before / 1e9,
    }


def watch_now() -> int:
    found = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:")]
    return 1024 * int(found[0].split()[1])


def run_same(folder: Path) -> dict:
    """A file against the same rows in memory."""
    mapped = np.load(folder / "small.npy", mmap_mode="r")
    fits = {}
    for key, rows, limit in (("memory", np.array(mapped), None), ("file", mapped, "500MB")):
        began = time.perf_counter()
        model = SSHIBA(K, random_state=0, max_memory=limit, search=None, engine="memory", max_iter=30)
        with warnings.catch_warnings(action="ignore"):
            model.fit({"x": rows})
        fits[key] = (model, time.perf_counter() - began)
    ours, theirs = fits["file"][0], fits["memory"][0]
    apart = np.abs(ours.factors_ - theirs.factors_).max() / np.abs(theirs.factors_).max()
    return {
        "case": "same",
        "GB": mapped.nbytes / 1e9,
        "bound apart": abs(ours.elbo_ / theirs.elbo_ - 1),
        "factors apart": float(apart),
        "seconds": fits["file"][1],
        "seconds in memory": fits["memory"][1],
    }


def in_a_process(case: str, folder: Path, max_memory: str) -> dict:
    command = [sys.executable, __file__, f"--case={case}", f"--folder={folder}", f"--max-memory={max_memory}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"{case}: {found.stderr[-2000:]}")
    print(found.stdout.strip(), flush=True)
    return json.loads(found.stdout.splitlines()[-1])


def main(arguments: list[str]) -> None:
    options = dict(word.lstrip("-").partition("=")[::2] for word in arguments)
    max_memory = options.get("max-memory", "2GB")
    if "case" in options:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        folder = Path(options["folder"])
        found = run_same(folder) if options["case"] == "same" else run_case(options["case"], folder, max_memory)
        print(json.dumps(found))
        return
    n = int(float(options.get("gigabytes", 12)) * 1e9 / (8 * WIDTH))
    with tempfile.TemporaryDirectory(dir=options.get("folder")) as name:
        folder = Path(name)
        make_files(folder, n)
        cold = min(reading_time(folder / "numbers.npy") for _ in range(2))
        print(f"{8 * n * WIDTH / 1e9:.1f} GB, read cold in {cold:.1f} s", flush=True)
        rows = [in_a_process(case, folder, max_memory) for case in CASES]
        np.save(folder / "small.npy", np.load(folder / "numbers.npy", mmap_mode="r")[: n // 12])
        rows.append(in_a_process("same", folder, max_memory))
    about = {"python": platform.python_version(), "numpy": np.__version__, "cores": os.cpu_count()}
    found = {"about": about, "GB": 8 * n * WIDTH / 1e9, "reading cold": cold, "max_memory": max_memory, "rows": rows}
    print(json.dumps(found, indent=1))
    if "out" in options:
        Path(options["out"]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
