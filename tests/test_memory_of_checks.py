"""What checks of files take in memory: all of it within `max_memory`, whatever the working memory of a step is."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sshiba import SSHIBA
from sshiba.data.sampling import draw_sample

MB = 10**6
# In a process of its own: first on a few rows, so that what is imported and compiled is there; then the file.
SCRIPT = """
import logging, sys, threading, warnings
from pathlib import Path
import numpy as np
from sshiba import SSHIBA
from sshiba.evaluate import check, tune

def now():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))

def both(path):
    model = SSHIBA(20, {"x": "real"}, search=None, random_state=0, max_memory="80MB", max_iter=4, prune_tol=0.0)
    check(model, {"x": path})
    tune(model, {"x": path}, {"n_components": [20]}, "x", "cells", n_folds=2)

warnings.simplefilter("ignore")
logging.disable()
tiny, large = sys.argv[1:]
both(tiny)
before = peak = now()
stop = threading.Event()

def watch():
    global peak
    while not stop.wait(0.005):
        peak = max(peak, now())

thread = threading.Thread(target=watch)
thread.start()
both(large)
stop.set()
thread.join()
print(peak - before)
"""


def numbers(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + rng.standard_normal((n, d))


def traced(job: Callable[[], object]) -> int:
    """The most bytes that a job had at a time."""
    tracemalloc.start()
    try:
        job()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")
def test_a_check_and_tuning_of_a_file_keep_to_their_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "large.npy", numbers(30_000, 400))  # 96 MB
    np.save(tmp_path / "tiny.npy", numbers(200, 10))
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "tiny.npy"), str(tmp_path / "large.npy")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) <= 1.1 * 80 * MB


@pytest.mark.filterwarnings("ignore:The bound still rose")
def test_predictions_work_in_small_parts() -> None:
    """What z does to each cell, rows x columns x factors, is 40 times the rows; it is never there for all of them."""
    shown = numbers(600, 500)
    shown[np.random.default_rng(1).random(shown.shape) < 0.1] = np.nan
    model = SSHIBA(40, search=None, random_state=0, max_iter=2, prune_tol=0.0).fit({"x": shown})
    assert traced(lambda: model.predict({"x": shown}, "x", return_std=True, use_target=True)) < 24 * shown.nbytes


def test_rows_are_drawn_from_small_parts(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, numbers(60_000, 100))  # 48 MB
    assert traced(lambda: draw_sample({"x": str(path)}, max_memory="64MB")) < 16 * MB
