"""What checks of files take in memory: all of it within `max_memory`, whatever the working memory of a step is."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sshiba import SSHIBA, Real, load
from sshiba.data.parquet_groups import group_batches
from sshiba.data.sampling import draw_sample
from sshiba.evaluate import check
from sshiba.fitted import reader

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


# The same for a wide table of Parquet: all that commands read of it, and the fit of all rows.
PARQUET = """
from sshiba.data.sampling import draw_sample
from sshiba.files.long_tables import LongTable
from sshiba.files.opening import open_data, room_for_checks
from sshiba.files.reading_options import Reading

def both(path):
    whole = open_data([path], Reading(), None, room_for_checks("80MB"))
    if isinstance(whole, LongTable):
        draw_sample(whole.source(), max_rows=500, max_memory="80MB")
    SSHIBA(3, search=None, random_state=0, max_memory="80MB", max_iter=2).fit(path)
"""


def added(script: str, tiny: Path, large: Path) -> int:
    """Bytes that the job on a large file took beyond those after the same on a tiny one."""
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tiny), str(large)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


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
    assert added(SCRIPT, tmp_path / "tiny.npy", tmp_path / "large.npy") <= 1.1 * 80 * MB


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")
def test_a_draw_and_a_fit_of_parquet_keep_to_their_memory(tmp_path: Path) -> None:
    """One row group of 96 MB, more than the memory."""
    pytest.importorskip("pyarrow")
    for name, n, d in (("large", 20_000, 600), ("tiny", 200, 10)):
        frame = pd.DataFrame(numbers(n, d), columns=[f"c{j}" for j in range(d)])
        frame.to_parquet(tmp_path / f"{name}.parquet", row_group_size=n)
    script = SCRIPT.replace('warnings.simplefilter("ignore")', PARQUET + '\nwarnings.simplefilter("ignore")')
    assert added(script, tmp_path / "tiny.parquet", tmp_path / "large.parquet") <= 1.1 * 80 * MB


def test_a_row_group_some_columns_at_a_time_is_the_same(tmp_path: Path) -> None:
    """Numbers, text, labels with holes, in batches that do not divide the row group."""
    parquet = pytest.importorskip("pyarrow.parquet")
    frame = pd.DataFrame(numbers(1_000, 7), columns=list("abcdefg"))
    frame["text"] = [None if i % 7 == 0 else f"t{i % 5}" for i in range(1_000)]
    frame["kind"] = pd.Categorical(frame["text"])
    frame["count"] = pd.array([None if i % 9 == 0 else i for i in range(1_000)], dtype="Int64")
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=600)
    with parquet.ParquetFile(tmp_path / "x.parquet") as file:
        for columns in (None, ["text", "b", "count", "a", "kind"]):
            for group in (0, 1):
                ways = [list(group_batches(file, group, 70, columns, limit)) for limit in (np.inf, 5_000, 0)]
                for way in ways[1:]:
                    assert [start for start, _ in way] == [start for start, _ in ways[0]]
                    for (_, batch), (_, plain) in zip(way, ways[0], strict=True):
                        pd.testing.assert_frame_equal(batch.to_pandas(), plain.to_pandas())


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


@pytest.mark.filterwarnings("ignore:The bound still rose")
def test_answers_work_within_what_the_model_may_use_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fit and of refits it was any; a file does not say what another machine has."""
    asked: set[float] = set()
    own = reader.make_rows

    def noted(*given: Any, max_memory: float, **options: Any) -> Any:
        asked.add(max_memory)
        return own(*given, max_memory=max_memory, **options)

    def limits(job: Callable[[], object]) -> set[float]:
        asked.clear()
        job()
        return set(asked)

    monkeypatch.setattr(reader, "make_rows", noted)
    views = {"x": np.exp(numbers(60, 4)), "y": numbers(60, 3)}
    types = {"x": Real(margin="log")}
    model = SSHIBA(2, types, search=None, random_state=0, max_iter=2, max_memory="80MB").fit(views)
    assert limits(lambda: model.predict({"x": views["x"]}, "y")) == {80 * MB}
    assert limits(lambda: check(model, views)) == {80 * MB}
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    assert limits(lambda: again.transform(views)) == {np.inf}
    assert limits(lambda: again.set_params(max_memory="90MB").score(views)) == {90 * MB}
