"""Rows on a Dask cluster: what a sweep costs beside the work itself, and how far more workers help.

    python benchmarks/dask_scaling.py [--quick] [--out=FILE.json] [--figure=FILE.png]

Measured on this machine, with workers that are processes of their own and have one BLAS thread each:
- overhead: a sweep over rows so few that the work is nothing, in 20 and in 80 blocks on two workers;
- efficiency: a sweep over rows with holes of their own, the same ones on one worker and on two; and what two processes
  gain here that have nothing to do with Dask, each with its half of the blocks.

Simulated, for 4 to 64 workers: the work of a sweep grows with the workers (`weak`) or is that of 64 blocks in all
(`strong`). The time of each task is drawn from those measured in one process; a worker does its blocks one after the
other, and a sweep lasts as long as its slowest worker. To that come the two parts of the overhead as measured on this
machine, one for a sweep and one for each task; and the messages, which pass from worker to worker in a tree (each
worker that has them gives them to one more at a time) over a network of `NETWORK` bytes a second; and the statistics,
of which one machine receives `FAN_IN` at a time, level by level. Nothing else is in it: no other load, no slow machine.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from math import ceil, log2
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from sshiba.core.coded import CodedView
from sshiba.core.spec import ModelSpec, Priors
from sshiba.core.start import random_posterior
from sshiba.core.threads import one_blas_thread
from sshiba.data.reading import read_in_memory
from sshiba.engines import make_rows
from sshiba.engines.dask_rows import FAN_IN

NETWORK = 1.25e9  # bytes a second: 10 Gbit
WORKERS = (4, 8, 16, 32, 64)
BLOCKS_EACH = 4
K = 20


def make_views(n: int, width: int, holes: float) -> dict[str, np.ndarray]:
    """Numbers from ten factors with holes at random, and eight yes/no columns from the same."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 10))
    x = z @ rng.standard_normal((10, width)) / 3 + rng.standard_normal((n, width))
    x[rng.random(x.shape) < holes] = np.nan
    return {"x": x, "bits": (z @ rng.standard_normal((10, 8)) + rng.standard_normal((n, 8)) > 0).astype(float)}


def coded(views: dict[str, np.ndarray]) -> tuple[list[CodedView], ModelSpec]:
    schema, data, index = read_in_memory(views)
    return list(data.values()), schema.model_spec(len(index), Priors(), "exact")


def sweeps(data: list[CodedView], spec: ModelSpec, block_rows: int, n_sweeps: int) -> dict[str, float]:
    """Seconds of a local step on the cluster in use, the median, and bytes."""
    rows = make_rows(data, spec, K, engine="dask", block_rows=block_rows)
    posterior = random_posterior(spec, K, rows.groups, np.random.default_rng(0))
    local, _ = rows.step(posterior, rows.start(posterior))
    seconds, counted = [], rows.n_bytes
    for _ in range(n_sweeps):
        began = time.perf_counter()
        local, _ = rows.step(posterior, local)
        seconds.append(time.perf_counter() - began)
    n_bytes = (rows.n_bytes - counted) / n_sweeps
    return {"seconds": float(np.median(seconds)), "n_blocks": len(rows.places), "n_bytes": n_bytes}


def block_times(data: list[CodedView], spec: ModelSpec, block_rows: int) -> tuple[list[float], dict[str, int]]:
    """Seconds of the local step of each block, in one process; bytes of the messages and of the statistics."""
    from sshiba.core.messages import make_messages
    from sshiba.engines.dask_tasks import n_bytes

    holes = [view.holes(own.n_features).outline for view, own in zip(data, spec.views)]
    from sshiba.engines.memory import MemoryRows

    seconds = []
    with one_blas_thread():
        for start in range(0, data[0].n_rows, block_rows):
            part = [view.read(slice(start, start + block_rows)) for view in data]
            rows = MemoryRows(part, spec, K, holes=holes)
            posterior = random_posterior(spec, K, rows.groups, np.random.default_rng(0))
            messages = make_messages(posterior, spec, rows.groups)
            local, stats = rows.step(messages, rows.start(messages))
            began = time.perf_counter()
            rows.step(messages, local)
            seconds.append(time.perf_counter() - began)
    return seconds, {"messages": n_bytes(messages), "stats": n_bytes(stats)}


def pair_gains(n: int) -> float:
    """How much of a second core two processes without Dask get: 1 is all of it."""
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        list(processes.map(block_seconds, [2000, 2000]))  # they are started
        alone = next(iter(processes.map(block_seconds, [n])))
        return alone / float(np.mean(list(processes.map(block_seconds, [n, n]))))


def block_seconds(n: int) -> float:
    """Seconds of four local steps of n rows each."""
    return sum(block_times(*coded(make_views(4 * n, 100, 0.1)), n)[0])


def measure(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
    small, large = coded(make_views(400, 50, 0.0)), coded(make_views(6_000 if quick else 120_000, 100, 0.1))
    n = large[0][0].n_rows
    options = {"threads_per_worker": 1, "processes": True, "host": "127.0.0.1", "dashboard_address": ":0"}
    taken: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for n_workers in (1, 2) * (1 if quick else 3):  # in turns, as a machine has slow minutes
        with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster):
            if n_workers == 2 and not taken[2]:
                found["overhead, 20 blocks"] = sweeps(*small, 20, 40)
                found["overhead, 80 blocks"] = sweeps(*small, 5, 20)
            taken[n_workers].append(sweeps(*large, n // (2 * BLOCKS_EACH), 3 if quick else 7))
    for n_workers, each in taken.items():
        found[f"{n_workers} workers"] = sorted(each, key=lambda own: own["seconds"])[len(each) // 2]
    found["block seconds"], found["bytes"] = block_times(*large, n // (2 * BLOCKS_EACH))
    found["two processes without Dask"] = pair_gains(n // (2 * BLOCKS_EACH))
    found["efficiency of two"] = found["1 workers"]["seconds"] / (2 * found["2 workers"]["seconds"])
    return found


def simulate(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Seconds of a sweep by the number of workers."""
    few, many = found["overhead, 20 blocks"], found["overhead, 80 blocks"]
    per_task = max(0.0, (many["seconds"] - few["seconds"]) / (many["n_blocks"] - few["n_blocks"]))
    per_sweep = max(0.0, few["seconds"] - few["n_blocks"] * per_task)
    rng, times, sent = np.random.default_rng(0), np.array(found["block seconds"]), found["bytes"]
    out: dict[str, dict[str, float]] = {"weak": {}, "strong": {}}
    for w in WORKERS:
        travel = sent["messages"] * ceil(log2(w)) / NETWORK + sent["stats"] * FAN_IN * ceil(log2(w) / 3) / NETWORK
        for kind, each in (("weak", BLOCKS_EACH), ("strong", 64 * BLOCKS_EACH / w)):
            blocks = max(1, round(each))
            slowest = np.mean([rng.choice(times, (w, blocks)).sum(axis=1).max() for _ in range(200)])
            out[kind][str(w)] = float(slowest + per_sweep + per_task * w * blocks + travel)
    found["overhead"] = {"per sweep": per_sweep, "per task": per_task}
    return out


def draw(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    work = float(np.mean(found["block seconds"])) * BLOCKS_EACH
    figure, axes = plt.subplots(figsize=(7, 4.2))
    axes.plot([1, 64], [1, 64], color="#bbbbbb", lw=1, label="perfect")
    for kind, label in (("weak", "work grows with the workers"), ("strong", "the same work for all")):
        seconds = found["simulated"][kind]
        total = [work * (w if kind == "weak" else 64) for w in WORKERS]
        axes.plot(WORKERS, [t / s for t, s in zip(total, seconds.values())], "o--", label=f"simulated: {label}")
    axes.plot([1, 2], [1, 2 * found["efficiency of two"]], "s-", color="black", label="measured")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="times as fast as one")
    axes.set_xticks([1, 2, *WORKERS], [str(w) for w in (1, 2, *WORKERS)])
    axes.set_yticks([1, 2, *WORKERS], [str(w) for w in (1, 2, *WORKERS)])
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    options = dict(argument.removeprefix("--").partition("=")[::2] for argument in sys.argv[1:])
    found = measure("quick" in options)
    found["simulated"] = simulate(found)
    text = json.dumps(found, indent=1)
    print(text)
    if "out" in options:
        Path(options["out"]).write_text(text + "\n", encoding="utf-8")
    if "figure" in options:
        draw(found, Path(options["figure"]))


if __name__ == "__main__":
    main()
