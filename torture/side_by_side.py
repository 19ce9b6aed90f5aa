"""The same work in threads, forks, workers and odd interpreters: the same answers to the last bit as alone.

The cases are numbered, not random: a seed is the place of a case in CASES.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .processes import ENVIRONMENT, said
from .runner import ROOT, Suite, demand, main

EXTRAS = ("numba", "matplotlib", "plotly", "mudata", "anndata", "h5py", "pyarrow", "openpyxl", "torch", "dask")
EXTRAS += ("distributed", "polars", "zarr", "psutil")
HIDING = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: None if name.split(".")[0] in {extras!r} else find(name, *where)
"""
COMMA = "de_DE.UTF-8"
Case = Callable[[], str]
CASES: dict[str, Case] = {}


def case_of(make: Case) -> Case:
    CASES[make.__name__.replace("_", " ")] = make
    return make


# ------------------------------------------------------------------------------------------------------- the work


def views(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((80, 2))
    x = z @ rng.standard_normal((2, 6)) + rng.standard_normal((80, 6))
    x[rng.random(x.shape) < 0.1] = np.nan
    yes = (z @ rng.standard_normal((2, 3)) + rng.standard_normal((80, 3)) > 0).astype(float)
    labels = np.array(["a", "b", "c"])[np.argmax(z @ rng.standard_normal((2, 3)), axis=1)]
    return {"x": x, "yes": yes, "labels": labels, "n": rng.poisson(np.exp(0.5 * z[:, :1] + 1)).astype(float)}


def work(seed: int, **options: Any) -> str:
    """A fit and what it answers, as a digest of all bits."""
    from sshiba import SSHIBA, Count, load

    data = views(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it did not converge
        settings = {"n_components": 3, "max_iter": 15, "random_state": seed, "views": {"n": Count()}}
        model = SSHIBA(**settings, search=None if seed else "auto", **options).fit(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.sshiba")
        model.save(path)
        rights = path.stat().st_mode & 0o777
        model = load(path)
    digest = hashlib.sha256(repr((model.elbo_, rights)).encode())
    known = {name: data[name][:20] for name in ("x", "yes")}
    answers = [model.factors_, model.transform(known), model.predict_proba(known, "labels")]
    answers += [model.predict(known, "n"), model.impute(data)["x"], model.score_samples(known)]
    for answer in answers:
        digest.update(np.ascontiguousarray(answer, float).tobytes())
    return digest.hexdigest()


@cache
def alone(n: int = 4) -> list[str]:
    """In a process that does nothing else."""
    line = f"from torture.side_by_side import work; import json; print(json.dumps([work(s) for s in range({n})]))"
    return json.loads(answer_of([sys.executable, "-c", line]))


def answer_of(line: list[str], more: dict[str, str] | None = None) -> str:
    """The last line that a program says."""
    ended = said(ROOT, line, more)
    demand(ended.returncode == 0, f"exit code {ended.returncode}: {ended.stderr[-500:]}")
    return ended.stdout.splitlines()[-1]


def same(found: Any, words: str) -> None:
    answers = list(found)
    demand(answers == alone()[: len(answers)], f"{words}: other answers than alone")


# ------------------------------------------------------------------------------------------- threads and processes


@case_of
def threads() -> str:
    """Fits, saves and predictions at the same time; the umask of the process stays as it was."""
    mask = os.umask(0o022)
    try:
        with ThreadPoolExecutor(4) as pool:
            same(pool.map(work_of_thread, range(4)), "threads")
        demand(os.umask(0o022) == 0o022, "the umask of the process has changed")
    finally:
        os.umask(mask)
    return "same"


def work_of_thread(seed: int) -> str:
    first, again = work(seed), work(seed)
    demand(first == again, "twice in a thread: other answers")
    return first


@case_of
def one_model_in_many_threads() -> str:
    from sshiba import SSHIBA

    data = views(0)
    del data["n"]
    with warnings.catch_warnings(action="ignore"):
        model = SSHIBA(3, max_iter=15, search=None, random_state=0).fit(data)
    expected = [model.predict_proba({"x": data["x"][i : i + 9]}, "labels") for i in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: model.predict_proba({"x": data["x"][i : i + 9]}, "labels"), range(40)))
    demand(all(np.array_equal(a, b) for a, b in zip(expected, found)), "other answers in threads")
    return "same"


def in_pool(method: str) -> str:
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        same(pool.map_async(work, range(4)).get(timeout=150), method)
    return "same"


@case_of
def fork() -> str:
    same([work(0)], "before the fork")  # threads of compiled code and of BLAS are there already
    return in_pool("fork")


@case_of
def spawn() -> str:
    return in_pool("spawn")


@case_of
def nested_joblib() -> str:
    """Restarts on two workers within two workers; the outer ones processes, then threads."""
    from joblib import Parallel, delayed

    expected = [work(seed, n_init=2) for seed in range(2)]
    for backend in ("loky", "threading"):
        jobs = (delayed(work)(seed, n_init=2, n_jobs=2) for seed in range(2))
        demand(list(Parallel(n_jobs=2, backend=backend)(jobs)) == expected, f"{backend}: other answers than alone")
    return "same"


@case_of
def inside_a_dask_worker() -> str:
    from distributed import Client, LocalCluster

    options = {"host": "127.0.0.1", "dashboard_address": None, "n_workers": 1, "threads_per_worker": 2}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        same(client.gather(client.map(work, range(4)), errors="raise"), "Dask")
    return "same"


# ---------------------------------------------------------------------------------------------------- interpreters

ASKED = "from torture.side_by_side import work; import json; print(json.dumps([work(s) for s in range(2)]))"


def interpreter(*options: str, more: dict[str, str] | None = None, before: str = "") -> str:
    same(json.loads(answer_of([sys.executable, *options, "-c", before + ASKED], more)), " ".join(options))
    return "same"


@case_of
def without_asserts() -> str:
    return interpreter("-O")


@case_of
def warnings_as_errors() -> str:
    """Of the library's own doing; what others warn of when they are imported is theirs."""
    before = "import sshiba, sshiba.evaluate, sshiba.report, torture.side_by_side, warnings; "
    before += "warnings.simplefilter('error'); "
    return interpreter(before=before)


@case_of
def random_hashes() -> str:
    for number in (1, 77, 4_000_000_000):
        interpreter(more={"PYTHONHASHSEED": str(number)})
    return "same"


@case_of
def without_any_extra() -> str:
    """As if none were installed; compiled code rounds otherwise, so the bits are others."""
    before = HIDING.format(extras=EXTRAS)
    found = json.loads(answer_of([sys.executable, "-c", before + ASKED]))
    demand(len(found) == 2, "no answers")
    with tempfile.TemporaryDirectory() as name:
        np.savetxt(Path(name, "x.csv"), views(0)["x"], delimiter=",", header="a,b,c,d,e,f", comments="")
        for words in (["fit", "x.csv", "-o", "m.sshiba"], ["impute", "x.csv", "--model", "m.sshiba", "-o", "o.csv"]):
            line = f"{before}from sshiba.cli.looking import app; app({words!r})"
            ended = said(Path(name), [sys.executable, "-c", line])
            demand(ended.returncode == 0, f"{words[0]}: {ended.stderr[-400:]}")
    return "same kind"


def comma_locale(folder: str) -> dict[str, str] | None:
    """Variables of a locale in which numbers have a decimal comma; it is made where the system has none."""
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.lower().replace("-", "")
    if COMMA.lower().replace("-", "") in known:
        return {"LC_ALL": COMMA}
    if shutil.which("localedef") is None:
        return None
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(Path(folder, COMMA))], capture_output=True)
    return {"LC_ALL": COMMA, "LOCPATH": folder} if made.returncode == 0 else None


@case_of
def decimal_comma() -> str:
    with tempfile.TemporaryDirectory() as folder:
        more = comma_locale(folder)
        if more is None:
            return "skipped: no locale with a decimal comma"
        before = "import locale; locale.setlocale(locale.LC_ALL, ''); assert locale.str(1.5) == '1,5'; "
        interpreter(more=more, before=before)
        np.savetxt(Path(folder, "x.csv"), views(0)["x"], delimiter=",", header="a,b,c,d,e,f", comments="")
        filled = []
        for variables, first in (({}, ""), (more, before)):
            line = f"{first}from sshiba.cli.looking import app; app(['impute', 'x.csv', '-o', 'o.csv', '--force'])"
            ended = said(Path(folder), [sys.executable, "-c", line], variables)
            demand(ended.returncode == 0, ended.stderr[-400:])
            filled.append(Path(folder, "o.csv").read_bytes())
        demand(filled[0] == filled[1], "another file where numbers have a decimal comma")
    return "same"


# ------------------------------------------------------------------------------------------------------- interrupts

# As a notebook's kernel runs a cell: in the main thread, within an event loop, and interrupted by SIGINT.
CELL = """
import asyncio, os, signal, threading, warnings
import numpy as np
from sshiba import SSHIBA
warnings.simplefilter("ignore")
handler = signal.getsignal(signal.SIGINT)
x = np.random.default_rng(0).standard_normal((2000, 40))
x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan

def interrupt(progress):
    if progress.sweep == 30:
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()

async def cell():
    model = SSHIBA(20, tol=0, search=None, callback=interrupt).fit({"x": x})
    assert 30 <= model.n_iter_ < 2000 and model.inits_["interrupted"].all(), model.n_iter_
    before = model.elbo_
    model.set_params(callback=None, max_iter=model.n_iter_ + 5).resume({"x": x})
    assert model.elbo_ >= before
    return model

model = asyncio.run(cell())
assert signal.getsignal(signal.SIGINT) is handler
print("kept")
"""


@case_of
def interrupted_in_an_event_loop() -> str:
    demand(answer_of([sys.executable, "-c", CELL]) == "kept", "not kept")
    return "kept"


@case_of
def interrupted_in_a_notebook() -> str:
    """A real kernel, where there is one."""
    try:
        from jupyter_client.manager import start_new_kernel
    except ImportError:
        return "skipped: no Jupyter"
    manager, client = start_new_kernel(env=ENVIRONMENT)
    try:
        cell = CELL.split("async def")[0] + "model = SSHIBA(20, tol=0, search=None, callback=interrupt).fit({'x': x})"
        replies = [client.execute_interactive(cell, timeout=100)]
        replies.append(client.execute_interactive("assert model.inits_['interrupted'].all()", timeout=60))
        demand(all(reply["content"]["status"] == "ok" for reply in replies), f"{replies}")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return "kept"


def case(seed: int) -> str:
    return f"{list(CASES)[seed]}: {list(CASES.values())[seed]()}"


SUITE = Suite("side_by_side", case, len(CASES), seconds=240)

if __name__ == "__main__":
    main(SUITE)
