"""Large and tiny data, each in a process of its own: memory and time stay within what was allowed.

The cases are numbered, not random: a seed is the place of a case in CASES.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .processes import said
from .runner import ROOT, Suite, demand, main

MB = 10**6
ODD_NAMES = ['quo"ted', "two\nlines", "🐕 wuff", "it's", "</script>", "=1+1", "a,b;c", " ", "tab\t", "%s{}", "\\n"]


@dataclass(frozen=True)
class Work:
    """What is to be done, and what it may take.

    Parameters
    ----------
    do : it
    memory : bytes, beyond what the process has before it, without the pages of files
    whole_memory : bytes of the process, all in all
    seconds : of the processor, since other programs run, too
    """

    do: Callable[[], Any]
    memory: float = inf
    whole_memory: float = inf
    seconds: float = inf


Case = Callable[[Path], Work]
CASES: dict[str, Case] = {}


def case_of(make: Case) -> Case:
    CASES[make.__name__.replace("_", " ")] = make
    return make


# -------------------------------------------------------------------------------------------------------- data


def numbers(n: int, d: int, holes: float = 0.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4)) @ rng.standard_normal((4, d)) + rng.standard_normal((n, d))
    if holes:
        x[rng.random(x.shape) < holes] = np.nan
    return x


def array_file(path: Path, n: int, d: int, holes: float = 0.1, yes_no: bool = False) -> str:
    """Written part by part, so that the process stays small."""
    file = np.lib.format.open_memmap(path, "w+", np.float64, (n, d))
    for number, first in enumerate(range(0, n, 50_000)):
        part = numbers(min(50_000, n - first), d, holes, number)
        file[first : first + len(part)] = np.where(np.isnan(part), np.nan, part > 0) if yes_no else part
    file.flush()
    return str(path)


def model(**options: Any) -> Any:
    from sshiba import SSHIBA

    return SSHIBA(**{"n_components": 4, "search": None, "random_state": 0, **options})


def command(*words: Any) -> int:
    """The command in this process; its exit code."""
    from sshiba.cli.looking import app

    try:
        app([str(word) for word in words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def done(*words: Any) -> None:
    code = command(*words)
    demand(code == 0, f"exit code {code}: {' '.join(map(str, words))[:200]}")


# ---------------------------------------------------------------------------------------------------- max_memory


@case_of
def memory_of_a_fit_to_a_file(folder: Path) -> Work:
    path = array_file(folder / "x.npy", 1_000_000, 50)  # 400 MB
    return Work(lambda: model(max_memory="200MB", max_iter=3).fit({"x": path}), memory=200 * MB)


@case_of
def memory_of_a_fit_to_labels_in_a_file(folder: Path) -> Work:
    from sshiba import Binary

    path = array_file(folder / "x.npy", 600_000, 20, yes_no=True)
    fit = model(max_memory="150MB", max_iter=3, views={"x": Binary()})
    return Work(lambda: fit.fit({"x": path}), memory=150 * MB)


@case_of
def memory_of_a_fit_to_an_array(folder: Path) -> Work:
    x = numbers(300_000, 50, 0.1)  # 120 MB
    return Work(lambda: model(max_memory="100MB", max_iter=3).fit({"x": x}), memory=100 * MB)


@case_of
def memory_of_trials_and_intervals(folder: Path) -> Work:
    """Few rows, many features: what is said of the errors of each cell takes more than the cells."""
    path = array_file(folder / "x.npy", 2_000, 5_000, 0.0)
    return Work(lambda: model(n_components=10, max_memory="250MB", max_iter=60).fit({"x": path}), memory=250 * MB)


def candidates() -> list[Any]:
    from sshiba import Candidate

    return [Candidate(), Candidate(keep="all")]


@case_of
def memory_of_a_search(folder: Path) -> Work:
    views = {"x": numbers(20_000, 40, 0.1), "y": numbers(20_000, 20, 0.1, 1)}
    return Work(lambda: model(search=candidates(), max_memory="200MB", max_iter=20).fit(views), memory=200 * MB)


@case_of
def memory_of_a_kernel_choice(folder: Path) -> Work:
    from sshiba import Real

    views = {"x": numbers(40_000, 10), "y": numbers(40_000, 5, 0.1, 1)}
    fit = model(search="auto", max_memory="400MB", max_iter=3, views={"x": Real(kernel="rbf")})
    return Work(lambda: fit.fit(views), memory=400 * MB)


@case_of
def memory_of_tuning(folder: Path) -> Work:
    from sshiba.evaluate import tune

    data = {"x": array_file(folder / "x.npy", 400_000, 40), "y": array_file(folder / "y.npy", 400_000, 10)}
    fit = model(max_memory="200MB", max_iter=5)
    return Work(lambda: tune(fit, data, {"n_components": [1, 2]}, "y", n_folds=2), memory=200 * MB)


@case_of
def memory_of_a_check(folder: Path) -> Work:
    from sshiba.evaluate import check

    path = array_file(folder / "x.npy", 400_000, 50)
    return Work(lambda: check(model(max_memory="200MB", max_iter=5), {"x": path}), memory=200 * MB)


@case_of
def memory_of_a_report(folder: Path) -> Work:
    path = array_file(folder / "x.npy", 400_000, 50)
    fit = model(max_memory="200MB", max_iter=5).fit({"x": path})
    return Work(lambda: fit.report(folder / "out.html", {"x": path}), memory=200 * MB)


# ------------------------------------------------------------------------------------------------------ max_time

LATE = 1.5  # times what was allowed: the sweep that is under way ends, and what follows from the last is found
MOMENT = 2.0


def in_time(do: Callable[[], Any], seconds: float) -> Work:
    return Work(do, seconds=LATE * seconds + MOMENT)


@case_of
def time_of_trials(folder: Path) -> Work:
    views = {"x": numbers(3_000, 300, 0.1)}
    return in_time(lambda: model(n_components=40, max_time=4).fit(views), 4)


@case_of
def time_of_restarts(folder: Path) -> Work:
    views = {"x": numbers(3_000, 300, 0.1)}
    return in_time(lambda: model(n_components=40, max_time=4, n_init=3).fit(views), 4)


@case_of
def time_of_a_search(folder: Path) -> Work:
    views = {"x": numbers(1_500, 300, 0.1), "y": numbers(1_500, 50, 0.1, 1) > 0}
    return in_time(lambda: model(n_components=40, search=candidates(), max_time=4).fit(views), 4)


@case_of
def time_of_a_kernel_choice(folder: Path) -> Work:
    from sshiba import Real

    views = {"x": numbers(1_000, 20), "y": numbers(1_000, 5, 0.1, 1)}
    fit = model(n_components=60, search="auto", max_time=5, views={"x": Real(kernel="rbf", landmarks=100)})
    return in_time(lambda: fit.fit(views), 5)


@case_of
def time_of_sharpness(folder: Path) -> Work:
    rng = np.random.default_rng(0)
    names = np.array([f"class {i}" for i in range(60)])
    labels = {f"y{i}": names[rng.integers(0, 60, 3_000)] for i in range(4)}
    views = {"x": numbers(3_000, 30), **labels}
    return in_time(lambda: model(max_time=4).fit(views), 4)


@case_of
def time_of_groups_and_intervals(folder: Path) -> Work:
    """What the factors explain in each group is found after the fit, in one pass over its rows each."""
    views = {"x": numbers(2_000, 800, 0.1), "site": np.repeat([f"s{i}" for i in range(40)], 50)}
    return in_time(lambda: model(n_components=20, max_time=4, sample_groups="site").fit(views), 8)


@case_of
def time_of_tuning(folder: Path) -> Work:
    from sshiba.evaluate import tune

    views = {"x": numbers(2_000, 200, 0.1), "y": numbers(2_000, 20, 0.1, 1)}
    fit = model(n_components=40, max_time=1)
    return in_time(lambda: tune(fit, views, {"n_components": [20, 40]}, "y", n_folds=2), 4)


@case_of
def time_of_a_check_and_a_report(folder: Path) -> Work:
    from sshiba.evaluate import check

    views = {"x": numbers(2_000, 200, 0.1)}
    fit = model(n_components=40, max_time=2)
    known = model(n_components=2, max_iter=5).fit(views).set_params(n_components=40, max_time=2, max_iter=2000)

    def both() -> None:
        check(fit, views)
        known.report(folder / "out.html", views)

    return in_time(both, 6)


# --------------------------------------------------------------------------------------------------------- sizes


def used(model: Any, views: Any, target: str) -> None:
    """Everything that may be asked is finite."""
    answers = [model.transform(views), model.predict(views, target, use_target=True)]
    if not model.views_[target].has_probabilities:
        answers.append(model.predict(views, target, return_std=True, use_target=True)[1])
        demand(all(np.isfinite(np.asarray(answer, float)).all() for answer in answers), "not finite")
    else:
        demand(np.isfinite(np.asarray(model.predict_proba(views, target, use_target=True))).all(), "not finite")
    model.impute(views)
    with tempfile.TemporaryDirectory() as name:
        model.save(Path(name, "m.sshiba"))
        model.report(Path(name, "out.html"))


@case_of
def two_million_rows_of_fifty_through_the_command(folder: Path) -> Work:
    path = array_file(folder / "x.npy", 2_000_000, 50)  # 800 MB

    def do() -> None:
        done("fit", path, "--components", 4, "--max-time", 60, "--max-memory", "2GB", "-o", folder / "m.sshiba")
        done("impute", path, "--model", folder / "m.sshiba", "-o", folder / "out.npy")
        found = np.load(folder / "out.npy", mmap_mode="r")
        demand(found.shape == (2_000_000, 50) and np.isfinite(found[::1000]).all(), "not filled")

    return Work(do, whole_memory=3_000 * MB)


@case_of
def a_thousand_classes(folder: Path) -> Work:
    """Each row has a covariance of its classes, so that its inference takes a thousand times that of a number."""
    labels = np.array([f"class {i}" for i in range(1000)])
    views = {"x": numbers(1_200, 20), "y": labels[np.random.default_rng(0).permutation(1_200) % 1000]}

    def do() -> None:
        fitted = model(max_time=10).fit(views)
        few = {name: values[:50] for name, values in views.items()}
        for found in (fitted.transform(few), fitted.predict_proba(few, "y")):
            demand(np.isfinite(np.asarray(found)).all(), "not finite")
        with tempfile.TemporaryDirectory() as name:
            fitted.save(Path(name, "m.sshiba"))
            fitted.report(Path(name, "out.html"))

    return Work(do, memory=2_000 * MB, seconds=300)


@case_of
def fifty_thousand_features(folder: Path) -> Work:
    views = {"x": numbers(200, 50_000, 0.05)}
    return Work(lambda: used(model(max_time=30).fit(views), views, "x"), memory=3_000 * MB, seconds=180)


@case_of
def five_hundred_views(folder: Path) -> Work:
    views = {f"v{i}": numbers(200, 4, 0.05, i) for i in range(500)}
    return Work(lambda: used(model(max_time=30).fit(views), views, "v0"), memory=1_000 * MB, seconds=180)


@case_of
def a_table_of_five_hundred_columns_of_labels(folder: Path) -> Work:
    """Each of them is a view of its own."""
    rng = np.random.default_rng(0)
    labels = np.array(["low", "mid", "high"])
    table = pd.DataFrame({f"c{i}": labels[rng.integers(0, 3, 200)] for i in range(500)}, dtype=object)
    table[rng.random(table.shape) < 0.05] = None
    return Work(lambda: model(max_time=30).fit(table).impute(table), memory=1_000 * MB, seconds=180)


@case_of
def one_row_one_column_one_cell(folder: Path) -> Work:
    def do() -> None:
        for shape in ((1, 5), (1, 1), (2, 1), (200, 1)):
            for kind in (numbers(*shape), (numbers(*shape) > 0).astype(float), np.round(numbers(*shape)) + 10):
                try:
                    fitted = model(search="auto").fit({"x": kind})
                except ValueError as error:
                    demand(len(str(error)) > 10 and "\n" not in str(error), f"no sentence: {error}")
                    continue
                used(fitted, {"x": kind}, "x")

    return Work(do, seconds=120)


@case_of
def a_file_with_100_000_columns(folder: Path) -> Work:
    x = numbers(20, 100_000)
    pd.DataFrame(x, columns=[f"c{i}" for i in range(100_000)]).round(3).to_csv(folder / "x.csv", index_label="id")

    def do() -> None:
        words = ["--index", "id", "--components", 2, "--max-time", 30, "-o", folder / "m.sshiba"]
        done("fit", folder / "x.csv", *words)
        done("impute", folder / "x.csv", "--index", "id", "--model", folder / "m.sshiba", "-o", folder / "out.csv")

    return Work(do, memory=3_000 * MB, seconds=300)


@case_of
def a_gigabyte_on_one_line(folder: Path) -> Work:
    def write(name: str, part: bytes) -> Path:
        with open(folder / name, "wb") as file:
            for _ in range(2**30 // len(part)):
                file.write(part)
        return folder / name

    def do() -> None:
        for name, part in {
            "digits.csv": b"1" * 2**20,
            "cells.csv": b"1," * 2**19,
            "quote.csv": b'"' + b"a" * 2**20,
        }.items():
            path = write(name, part)
            code = command("fit", path, "-o", folder / "m.sshiba")
            demand(code == 2, f"{name}: exit code {code}")
            path.unlink()

    return Work(do, whole_memory=6_000 * MB, seconds=240)


@case_of
def names_with_quotes_newlines_and_emoji(folder: Path) -> Work:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(numbers(40, len(ODD_NAMES), 0.05), columns=ODD_NAMES)
    table["label\n🐕"] = np.array(["a\n", '"b"', "</b>"])[rng.integers(0, 3, 40)]
    table.index = pd.Index([f'row "{i}"\n🐕' for i in range(40)], name="id")
    table.to_csv(folder / "x.csv")

    def do() -> None:
        known = ["--index", "id"]
        done("fit", folder / "x.csv", *known, "--components", 2, "--max-time", 0.5, "-o", folder / "m.sshiba")
        made = [folder / "m.sshiba", folder / "x.csv", *known]
        done("impute", folder / "x.csv", *known, "--model", folder / "m.sshiba", "-o", folder / "out.csv")
        found = pd.read_csv(folder / "out.csv", index_col="id")
        demand(list(found.columns) == list(table.columns), f"other columns: {list(found.columns)}")
        demand(list(found.index) == list(table.index), "other rows")
        for target in [*ODD_NAMES[:3], "label\n🐕"]:
            done("predict", *made, "--target", target, "-o", folder / "p.csv", "--force")
            demand(len(pd.read_csv(folder / "p.csv")) == 40, "other rows are predicted")
        done("export", folder / "m.sshiba", "-o", folder / "tables")
        done("report", folder / "m.sshiba", "--data", folder / "x.csv", *known, "-o", folder / "out.html")
        done("info", folder / "m.sshiba")

    return Work(do, seconds=120)


# ------------------------------------------------------------------------------------------------------ one case


def memory_now(key: str) -> int:
    """Bytes that this process has without the pages of files (RssAnon), or had at most in all (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


class Watch(threading.Thread):
    """The most memory that this process had, without the pages of files, which the system takes back when it must."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.peak = memory_now("RssAnon")
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.stopped.wait(0.01):
            self.peak = max(self.peak, memory_now("RssAnon"))


def alone(number: int, folder: str) -> None:
    """In a process of its own: prepare, then do it and tell what it took."""
    warnings.simplefilter("ignore")
    work = list(CASES.values())[number](Path(folder))
    import sshiba.evaluate
    import sshiba.report  # noqa: F401

    model(max_iter=2).fit({"x": numbers(50, 3, 0.1)})  # what is compiled and imported once is no matter of this case
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    watch, began = Watch(), time.process_time()
    work.do()
    seconds, peak = time.process_time() - began, memory_now("VmHWM")
    took = {"memory": watch.peak - watch.first, "whole_memory": peak, "seconds": seconds}
    limits = {name: getattr(work, name) for name in took}
    print("\n" + json.dumps({"took": took, "limits": limits}))


def case(seed: int) -> str:
    name = list(CASES)[seed]
    with tempfile.TemporaryDirectory() as folder:
        line = f"from torture.limits import alone; alone({seed}, {folder!r})"
        ended = said(ROOT, [sys.executable, "-c", line], {"OMP_NUM_THREADS": "1"}, seconds=SUITE.seconds)
    demand(ended.returncode == 0, f"{name}: exit code {ended.returncode}: {ended.stderr[-500:]}")
    found = json.loads(ended.stdout.splitlines()[-1])
    for what, took in found["took"].items():
        allowed = found["limits"][what]
        demand(took <= allowed, f"{name}: {what} {took:,.0f}, allowed were {allowed:,.0f}")
    took = found["took"]
    return f"{name}: {took['seconds']:.0f} s, {took['memory'] / MB:.0f} MB more"


SUITE = Suite("limits", case, len(CASES), seconds=480)

if __name__ == "__main__":
    main(SUITE)
