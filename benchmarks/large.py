"""A file larger than memory: how much memory fits take that may use 2 GB, and how long they and their sweeps take.

    python benchmarks/large.py                                        all cases of a file of 12 GB
    python benchmarks/large.py --gigabytes 0.3 --cases holes,labels   some of them, of a smaller one
    python benchmarks/large.py --folder DIR --keep --seconds 400 --out FILE.json
                               no case longer than that; the same command again goes on where each of them stopped
    python benchmarks/large.py --device cuda --cases holes,labels     the blocks of rows go to a GPU, one after another

The files are made on the spot and removed at the end, unless they are kept for the next call. Each case runs in a
process of its own, whose anonymous resident memory is watched: what it takes itself, without the pages of files that
the system keeps. What is found is added to FILE.json.

gram, direct, holes, labels   fits to convergence: complete numbers in Gram space and without it, with a tenth of the
                              cells missing, and beside 20 yes/no columns and one of five classes
cold, cold-holes, cold-parquet, warm-parquet
                              eight sweeps with all factors, without Gram space, in turns with reading the file and
                              nothing else; cold: the system is made to forget the file before each of them
same                          a file of a twelfth of the size against the same rows in memory
checks, checks-labels, checks-parquet
                              evaluate, stability, tune and report of the file, which look at some of its rows: of
                              numbers, the same beside 20 yes/no columns, and a Parquet table; each in a process of its
                              own, whose memory is compared with that of the same command on a tiny file of the kind
answers-parquet, answers-mixed
                              fit, impute and predict of a Parquet table, alike: of numbers, and beside two columns of
                              text
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sshiba import SSHIBA, load
from sshiba.data.source_formats import find_source

WIDTH, K, CHUNK = 1000, 25, 10_000
BLOCK = 2**24  # bytes: about what a sweep reads at a time
FITS: dict[str, dict[str, Any]] = {"gram": {}, "direct": {"engine": "memory"}, "holes": {}, "labels": {}}
TURNS = {"cold": "numbers.npy", "cold-holes": "holes.npy", "cold-parquet": "table.parquet"}
TURNS["warm-parquet"] = TURNS["cold-parquet"]
CHECKED = {  # the files of each case
    "checks": ["numbers.npy"],
    "checks-labels": ["numbers.npy", "yes_no.npy"],
    "checks-parquet": ["table.parquet"],
    "answers-parquet": ["table.parquet"],
    "answers-mixed": ["mixed.parquet"],
}
COMMANDS = {"checks": ("evaluate", "stability", "tune", "report"), "answers": ("fit", "impute", "predict")}
FIT_SECONDS = "20"  # of a fit whose memory is watched
TINY, TINY_ROWS, TINY_WIDTH = "tiny", 300, 40
CASES = (*FITS, *TURNS, "same", *CHECKED)
NEEDS = {"holes": "holes.npy", "same": "small.npy"} | TURNS  # the file of each case; of all others numbers.npy


# --------------------------------------------------------------------------------------------------- files


def chunk(i: int, n: int) -> dict[str, np.ndarray]:
    """Some rows of all files: numbers from ten factors, the same with holes, and labels from the same factors."""
    rng = np.random.default_rng(0)
    w, v, u = (rng.standard_normal((10, d)) / 3 for d in (WIDTH, 20, 5))
    rng = np.random.default_rng([1, i])
    z = rng.standard_normal((n, 10))
    x = z @ w + 0.7 * rng.standard_normal((n, WIDTH), dtype=np.float32)
    yes_no = (z @ v + rng.standard_normal((n, 20)) > 0).astype(np.uint8)
    classes = (z @ u + rng.standard_normal((n, 5))).argmax(axis=1).astype(np.uint8)
    missing = rng.random(x.shape, dtype=np.float32) < 0.1
    return {"numbers": x, "holes": np.where(missing, np.nan, x), "yes_no": yes_no, "classes": classes}


def make_file(path: Path, n: int) -> None:
    """One of the files, unless it is there already."""
    if path.exists():
        return
    whole = path.with_suffix(".part")
    if path.suffix == ".parquet":
        make_parquet(whole, n, path.stem == "mixed")
    else:
        make_array(whole, "numbers" if path.stem == "small" else path.stem, n)
    whole.rename(path)


def make_array(path: Path, what: str, n: int) -> None:
    like = chunk(0, 1)[what]
    header = {"descr": like.dtype.str, "fortran_order": False, "shape": (n, *like.shape[1:])}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        first = file.tell()

    def write(i: int) -> None:
        with open(path, "r+b") as own:
            own.seek(first + i * CHUNK * like.nbytes)
            own.write(chunk(i, min(CHUNK, n - i * CHUNK))[what].data)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(write, range(-(-n // CHUNK))))


def texts_of(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Two columns of text: five classes, and yes or no."""
    return {"class": np.array(list("abcde"))[rows["classes"]], "ill": np.array(["no", "yes"])[rows["yes_no"][:, 0]]}


def make_parquet(path: Path, n: int, mixed: bool = False) -> None:
    """A row group for each chunk; beside two columns of text where it is mixed."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {f"c{d}": pa.float64() for d in range(WIDTH)} | (
        {"class": pa.string(), "ill": pa.string()} if mixed else {}
    )
    with parquet.ParquetWriter(path, pa.schema(list(kinds.items())), use_dictionary=False) as file:
        for i in range(-(-n // CHUNK)):
            rows = chunk(i, min(CHUNK, n - i * CHUNK))
            columns = [pa.array(column.copy()) for column in rows["numbers"].T]
            columns += [pa.array(column) for column in texts_of(rows).values()] if mixed else []
            file.write_table(pa.table(columns, list(kinds)))


def forget(path: Path) -> None:
    """Drop what the system keeps of a file in memory."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def reading_time(path: Path) -> float:
    """Seconds to read a file, in blocks as a sweep does or a row group at a time, and nothing else."""
    began = time.perf_counter()
    if path.suffix == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group)
        return time.perf_counter() - began
    source = find_source(np.load(path, mmap_mode="r"), "x")
    assert source is not None
    step = BLOCK // source.row_bytes
    for start in range(0, source.n_rows, step):
        source.read_block(start, min(start + step, source.n_rows))
    return time.perf_counter() - began


# --------------------------------------------------------------------------------------------------- cases


class Watch(threading.Thread):
    """The most anonymous resident memory that this process had, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.peak = self.now()
        self.stopped = threading.Event()
        self.start()

    @staticmethod
    def now() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))

    def run(self) -> None:
        while not self.stopped.wait(0.02):
            self.peak = max(self.peak, self.now())

    def found(self) -> dict[str, float]:
        self.stopped.set()
        return {"GB of memory": self.peak / 1e9, "GB at the start": self.first / 1e9}


def views_of(case: str, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    path = folder / NEEDS.get(case, "numbers.npy")
    views: dict[str, Any] = {"x": str(path)}
    types = {"x": "real"}
    if case == "labels":
        views |= {name: str(folder / f"{name}.npy") for name in ("yes_no", "classes")}
        types |= {"yes_no": "binary", "classes": "categorical"}
    return views, types


def run_fit(
    case: str, folder: Path, max_memory: str, seconds: float | None, device: str | None = None
) -> dict[str, Any]:
    """A fit to convergence, or as far as it comes in so many seconds; a model that is there already goes on."""
    views, types = views_of(case, folder)
    if device is not None:  # what PyTorch itself takes is there before the fit
        import torch

        torch.zeros(1, device=device)
    kept = folder / f"{case}.sshiba"
    times: list[float] = []
    watch, began = Watch(), time.perf_counter()
    own = {"max_memory": max_memory, "max_time": seconds, "callback": lambda _: times.append(time.perf_counter())}
    if kept.exists():
        model = load(kept).set_params(**own).resume(views)
    else:
        model = SSHIBA(K, types, random_state=0, device=device, **own, **FITS[case]).fit(views)
    ended = time.perf_counter()
    model.save(kept)
    return {
        "case": case,
        "seconds": ended - began,
        "sweeps": model.n_iter_,
        "converged": model.converged_,
        "factors": model.n_components_,
        "bound": model.elbo_,
        "seconds a sweep": float(np.median(np.diff(times))) if len(times) > 1 else None,
        "first sweep after": times[0] - began if times else None,
        "after the last sweep": ended - times[-1] if times else None,
        **watch.found(),
    }


def run_turns(case: str, folder: Path, max_memory: str) -> dict[str, Any]:
    """Eight sweeps in turns with reading and nothing else."""
    views, types = views_of(case, folder)
    path = Path(views["x"])
    times: list[float] = []
    reading: list[float] = []
    prepare: Callable[[Path], object] = forget if case.startswith("cold") else lambda _: None

    def each_sweep(_: object) -> None:
        times.append(time.perf_counter())
        prepare(path)
        reading.append(reading_time(path))
        prepare(path)
        times.append(time.perf_counter())

    views = path if path.suffix == ".parquet" else views
    types = {"x": ([f"c{d}" for d in range(WIDTH)], "real")} if path.suffix == ".parquet" else types
    watch = Watch()
    options = {"engine": "memory", "max_iter": 8, "prune_tol": 0.0, "max_memory": max_memory}
    SSHIBA(K, types, random_state=0, callback=each_sweep, **options).fit(views)
    sweeps = np.array(times[2::2]) - np.array(times[1:-1:2])
    return {
        "case": case,
        "GB": path.stat().st_size / 1e9,
        "each sweep": sweeps.tolist(),
        "reading, in turns": reading,
        "sweep over reading (medians)": float(np.median(sweeps) / np.median(reading)),
        **watch.found(),
    }


def run_same(folder: Path) -> dict[str, Any]:
    """A file against the same rows in memory."""
    mapped = np.load(folder / "small.npy", mmap_mode="r")
    fits = {}
    for key, rows, limit in (("memory", np.array(mapped), None), ("file", mapped, "500MB")):
        began = time.perf_counter()
        model = SSHIBA(K, random_state=0, max_memory=limit, search=None, engine="memory", max_iter=30)
        fits[key] = (model.fit({"x": rows}), time.perf_counter() - began)
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


def paths_of(case: str, folder: Path) -> list[str]:
    return [str(folder / name) for name in CHECKED[case]]


def is_parquet(case: str) -> bool:
    return CHECKED[case][0].endswith(".parquet")


def make_tiny(folder: Path, names: list[str]) -> None:
    """Files of the same kinds with a few rows and columns."""
    folder.mkdir(exist_ok=True)
    rows = chunk(0, TINY_ROWS)
    for name in names:
        values = rows["numbers" if name.endswith(".parquet") else Path(name).stem][:, :TINY_WIDTH]
        if name.endswith(".parquet"):
            frame = pd.DataFrame(values, columns=[f"c{d}" for d in range(values.shape[1])])
            frame.assign(**(texts_of(rows) if name.startswith("mixed") else {})).to_parquet(folder / name)
        else:
            np.save(folder / name, values)


def make_model(case: str, folder: Path, max_memory: str) -> None:
    """A model of all rows, which need not have converged, for the checks that ask for one."""
    views: Any = {Path(path).stem: path for path in paths_of(case, folder)}
    views = next(iter(views.values())) if is_parquet(case) else views
    model = SSHIBA(K, random_state=0, max_memory=max_memory, max_iter=12, search=None)
    model.fit(views).save(folder / f"{case}.sshiba")


def run_check(case: str, name: str, folder: Path, max_memory: str) -> dict[str, Any]:
    """One of the commands; the most memory that its process had, imports and all."""
    from sshiba.cli.looking import app
    from sshiba.evaluate import tune

    paths, made, memory = paths_of(case, folder), str(folder / f"{case}.sshiba"), ["--max-memory", max_memory]
    words = {
        "evaluate": ["evaluate", *paths, "--components", str(K), *memory],
        "stability": ["stability", made, *paths, "-n", "3", *memory],
        "report": ["report", made, "-o", str(folder / "report.html"), "--force", *memory],
        "fit": ["fit", *paths, "--components", str(K), "-o", str(folder / "fit.sshiba"), "--force", *memory],
        "impute": ["impute", *paths, "--model", made, "-o", str(folder / "filled.parquet"), "--force", *memory],
        "predict": ["predict", made, *paths, "--target", "c0", "-o", str(folder / "c0.csv"), "--force", *memory],
    }
    words["fit"] += ["--max-time", FIT_SECONDS]
    words["report"] += [word for path in paths for word in ("--data", path)]
    watch, began = Watch(), time.perf_counter()
    if name == "tune":  # which is no command
        views: Any = paths[0] if is_parquet(case) else {Path(path).stem: path for path in paths}
        target = "c0" if is_parquet(case) else "numbers"
        model = SSHIBA(K, random_state=0, max_memory=max_memory)
        tune(model, views, {"n_components": [10, K]}, target, "cells", n_folds=2)
    else:
        with contextlib.redirect_stdout(sys.stderr):
            app(words[name], standalone_mode=False)
    return {"seconds": time.perf_counter() - began, **watch.found()}


def run_case(case: str, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    with warnings.catch_warnings(action="ignore"):
        if case in FITS:
            return run_fit(case, folder, asked.max_memory, asked.seconds, asked.device)
        if case in TURNS:
            return run_turns(case, folder, asked.max_memory)
        if case == "same":
            return run_same(folder)
        kind, _, name = case.partition(":")
        if name == "model":
            make_model(kind, folder, asked.max_memory)
            return {"case": case}
        return {"case": case, **run_check(kind, name, folder, asked.max_memory)}


# ------------------------------------------------------------------------------------------------ all of them


def in_a_process(case: str, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", case, "--folder", str(folder), "--max-memory", asked.max_memory]
    command += [] if asked.seconds is None else ["--seconds", str(asked.seconds)]
    command += [] if asked.device is None else ["--device", asked.device]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"{case}: {found.stderr[-2000:]}")
    print(found.stdout.strip(), flush=True)
    return json.loads(found.stdout.splitlines()[-1])


def run_checks(case: str, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """All commands, one after the other."""
    tiny = folder / TINY
    make_tiny(tiny, CHECKED[case])
    found: dict[str, Any] = {
        "case": case,
        "GB": sum(Path(path).stat().st_size for path in paths_of(case, folder)) / 1e9,
    }
    for place in (tiny, folder):
        in_a_process(f"{case}:model", place, asked)
    for name in COMMANDS[case.partition("-")[0]]:
        own, least = (in_a_process(f"{case}:{name}", place, asked) for place in (folder, tiny))
        of_tiny = {"GB of memory, tiny file": least["GB of memory"]}
        found[name] = own | of_tiny | {"GB added": own["GB of memory"] - least["GB of memory"]}
    return found


def with_earlier(new: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    """A fit that went on: its time in all, and the most memory that it took."""
    if old is None or "converged" not in new:
        return new
    both = {"seconds": new["seconds"] + old["seconds"], "calls": old.get("calls", 1) + 1}
    return old | new | both | {"GB of memory": max(new["GB of memory"], old["GB of memory"])}


def needed_files(case: str) -> list[str]:
    if case in CHECKED:
        return CHECKED[case]
    return [NEEDS.get(case, "numbers.npy"), *(["yes_no.npy", "classes.npy"] if case == "labels" else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=12.0)
    parser.add_argument("--max-memory", default="2GB")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--folder", type=Path, help="for the files; else one for temporary files")
    parser.add_argument("--keep", action="store_true", help="leave the files there for the next call")
    parser.add_argument("--seconds", type=float, help="for the sweeps of each fit")
    parser.add_argument("--device", help="of PyTorch, such as cuda; else NumPy")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(run_case(asked.one, asked.folder, asked)))
        return
    n = int(asked.gigabytes * 1e9 / (8 * WIDTH))
    versions = {"python": platform.python_version(), "numpy": np.__version__, "cores": os.cpu_count()}
    found: dict[str, Any] = {"about": versions, "GB": 8 * n * WIDTH / 1e9, "max_memory": asked.max_memory, "rows": {}}
    if asked.out and asked.out.exists():
        found = json.loads(asked.out.read_text())
    folder = asked.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for case in asked.cases.split(","):
            old = found["rows"].get(case)
            if old and old.get("converged"):
                continue
            for name in needed_files(case):
                make_file(folder / name, n // 12 if name == "small.npy" else n)
            new = run_checks(case, folder, asked) if case in CHECKED else in_a_process(case, folder, asked)
            found["rows"][case] = with_earlier(new, old)
            if asked.out:
                asked.out.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        if not asked.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
