"""What all benchmarks share: a row is a ratio measured in one run."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info

OUT = Path("out/bench")


@dataclass
class Row:
    """One comparison. `peer_seconds / seconds` is the ratio; `goal` is what it should at least be."""

    group: str
    what: str
    peer: str
    peer_seconds: float
    seconds: float
    goal: float | None = None
    note: str = ""
    extra: dict = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds


def interleaved(jobs: Sequence[Callable[[], object]], repeats: int = 5) -> list[float]:
    """The median seconds of each job, run in turns so that what else the machine does hits all alike."""
    times: list[list[float]] = [[] for _ in jobs]
    for _ in range(repeats):
        for job, mine in zip(jobs, times):
            began = time.perf_counter()
            job()
            mine.append(time.perf_counter() - began)
    return [float(np.median(mine)) for mine in times]


def machine() -> dict[str, object]:
    """Where the figures were measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    blas = sorted({f"{i['internal_api']} {i['version']}" for i in threadpool_info() if i["user_api"] == "blas"})
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version(), "blas": blas}


def report(rows: Sequence[Row], name: str = "bench") -> None:
    """Print one table, and write it with the machine as JSON."""
    table = Table("what", "peer", "peer s", "ours s", "ratio", "goal", "note", title=f"{machine()['cpu']}")
    for row in rows:
        met = "" if row.goal is None else ("[green]≥ " if row.ratio >= row.goal else "[red]≥ ") + f"{row.goal:g}"
        table.add_row(
            row.what, row.peer, f"{row.peer_seconds:.4g}", f"{row.seconds:.4g}", f"{row.ratio:.2f}", met, row.note
        )
    Console(width=180).print(table)
    OUT.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "rows": [{**asdict(row), "ratio": row.ratio} for row in rows]}
    (OUT / f"{name}.json").write_text(json.dumps(content, indent=1))
