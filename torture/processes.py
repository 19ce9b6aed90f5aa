"""The command in a process of its own, ended at some moment; a disk of some kilobytes; a cluster of two workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .runner import ROOT

ROOT_OUT = ROOT / "out" / "torture"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
COMMAND = ("-m", "sshiba.cli")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
CLUSTER = """
import json, os, sys
from distributed import Client, LocalCluster
if __name__ == "__main__":
    options = {"host": "127.0.0.1", "dashboard_address": None, "n_workers": 2, "threads_per_worker": 1}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        print(json.dumps([cluster.scheduler_address, list(client.run(os.getpid).values())]), flush=True)
        sys.stdin.read()
"""


def start(folder: Path, *words: str, program: Sequence[str] = COMMAND, more: Mapping[str, str] | None = None):
    """A command that runs; `program` () is Python itself, `more` variables of its environment."""
    environment = {**ENVIRONMENT, **(more or {})}
    return subprocess.Popen([sys.executable, *program, *words], cwd=folder, env=environment, **QUIET)


def run(folder: Path, *words: str) -> int:
    return start(folder, *words).wait(timeout=300)


def said(
    folder: Path, line: Sequence[str], more: Mapping[str, str] | None = None, seconds: float = 200.0
) -> subprocess.CompletedProcess:
    """A program that has ended, with all that it said."""
    environment = {**ENVIRONMENT, **(more or {})}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)


def end(process: subprocess.Popen, seconds: float, how: signal.Signals) -> int:
    """A signal after so many seconds, unless it has ended before; its exit code."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(how)
        process.wait(timeout=60)
    return process.returncode


def can_mount() -> bool:
    """May a small disk be had? It is seen by nobody else, and gone with the process for which it is made."""
    if shutil.which("unshare") is None:
        return False
    line = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=4k none /mnt"]
    return subprocess.run(line, capture_output=True).returncode == 0


@contextmanager
def cluster() -> Iterator[tuple[str, list[int]]]:
    """Its address, and its workers, each followed by another where it dies."""
    line = [sys.executable, "-c", CLUSTER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(line, env=ENVIRONMENT, text=True, **pipes)
    try:
        yield tuple(json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
