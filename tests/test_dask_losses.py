"""Workers that die, leave or come in the middle of a fit: it ends where it would have ended, or says why it cannot."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from cases import make_problem
from distributed import Client, LocalCluster

from sshiba import SSHIBA, Progress, load
from sshiba.core.scratch import RowsLostError
from sshiba.data.types import Binary, Categorical, Real
from sshiba.engines import make_rows


def clear_views(n: int = 160) -> dict[str, np.ndarray]:
    """Numbers and yes/no, with holes, that have one optimum whichever way a fit comes to it."""
    rng = np.random.default_rng(4)
    z = rng.standard_normal((n, 2))
    X = z @ rng.standard_normal((2, 10)) + 0.7 * rng.standard_normal((n, 10))
    T = (z @ rng.standard_normal((2, 5)) + rng.standard_normal((n, 5)) > 0).astype(float)
    X[rng.random(X.shape) < 0.1], T[rng.random(T.shape) < 0.1] = np.nan, np.nan
    return {"X": X, "T": T}


VIEWS = clear_views()
SETTINGS: dict[str, Any] = {"n_components": 3, "search": None, "random_state": 0, "tol": 1e-9}


@contextmanager
def local_cluster(n_workers: int = 2) -> Iterator[tuple[LocalCluster, Client]]:
    """Real processes, each followed by another where it dies; nothing of them is left, however the test ends."""
    address = {"host": "127.0.0.1", "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, **address) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


@pytest.fixture(scope="module")
def undisturbed() -> SSHIBA:
    return SSHIBA(**SETTINGS).fit(VIEWS)


@pytest.fixture(scope="module")
def last_told() -> int:
    """The last sweep that the callback of an undisturbed fit is told of; sweeps of trials may come after it."""
    told: list[int] = []
    SSHIBA(**SETTINGS, callback=lambda progress: told.append(progress.sweep)).fit(VIEWS)
    return told[-1]


@pytest.fixture
def lose_patience() -> Iterator[Callable[[float], object]]:
    """Called with the seconds to wait for an answer from now on; until then a machine may be as slow as it likes."""
    with dask.config.set({"sshiba.patience": 120, "distributed.comm.timeouts.connect": "120s"}):
        yield lambda s: dask.config.set({"sshiba.patience": s, "distributed.comm.timeouts.connect": f"{s}s"})


def at_sweep(number: int, action: Callable[[], object]) -> Callable[[Progress], None]:
    """A callback that does something after the first sweep from this one on."""
    done: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.sweep >= number and not done:
            done.append(progress.sweep)
            action()

    return watch


def kill(pids: Any) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def assert_same_end(found: SSHIBA, expected: SSHIBA) -> None:
    """The same bound to 1e-6; nowhere on the way was more lost than two sweeps had gained."""
    assert found.elbo_ == pytest.approx(expected.elbo_, rel=1e-6)
    path = found.elbo_path_
    assert (path[3:] >= path[:-3] - 1e-9 * np.abs(path[3:])).all()


@pytest.mark.parametrize("sweep", [4, 25])  # while q(x) is held, and later
def test_a_worker_is_killed(sweep: int, undisturbed: SSHIBA) -> None:
    with local_cluster() as (_, client):
        pids = list(client.run(os.getpid).values())
        found = SSHIBA(**SETTINGS, engine="dask", callback=at_sweep(sweep, lambda: kill(pids[:1]))).fit(VIEWS)
        assert pids[0] not in client.run(os.getpid).values()
    assert_same_end(found, undisturbed)


def test_workers_come_and_leave_politely(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes takes some rows over, one that retires hands its own over; q(x) goes with them."""
    monkeypatch.setattr("sshiba.engines.dask_rows.LOOK_AROUND", 0.0)
    problem = make_problem([Real(), Binary(), Categorical()], [6, 3, 3], ["cells"] * 3, n=60)
    posterior, here = problem.posterior, problem.rows
    with local_cluster(1) as (cluster, client):
        there = make_rows(problem.data, problem.spec, 3, engine="dask", block_rows=11)
        (first,) = client.nthreads()

        def workers() -> set[str]:
            return {place.worker for place in there.places}

        def come() -> None:
            cluster.scale(2)
            client.wait_for_workers(2)

        a, b = here.start(posterior), there.start(posterior)
        for change, expected in ((come, 2), (lambda: client.retire_workers([first]), 1), (lambda: None, 1)):
            for _ in range(2):
                (a, mine), (b, theirs) = here.step(posterior, a), there.step(posterior, b)
                np.testing.assert_allclose(theirs.zz, mine.zz, rtol=1e-9)
                assert theirs.n_restored == 0
            change()
            a, b = here.step(posterior, a)[0], there.step(posterior, b)[0]
            assert len(workers()) == expected
        assert first not in workers()


@contextmanager
def separate_cluster(folder: Path) -> Iterator[tuple[Client, list[subprocess.Popen]]]:
    """A scheduler and a worker, each a process by itself, and a client that seeks a lost scheduler for ten seconds."""
    file = folder / "scheduler.json"
    python = [sys.executable, "-m"]
    own = ["--host", "127.0.0.1", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [
        subprocess.Popen(
            [*python, "distributed.cli.dask_scheduler", *own, "--port", "0", "--scheduler-file", str(file)], **quiet
        )
    ]
    try:
        while not file.exists():
            time.sleep(0.1)
        worker = ["distributed.cli.dask_worker", *own, "--no-nanny", "--nthreads", "1", "--scheduler-file", str(file)]
        processes.append(subprocess.Popen([*python, *worker], cwd=folder, **quiet))
        with Client(scheduler_file=str(file), timeout=10) as client:
            client.wait_for_workers(1, timeout=300)
            yield client, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


SAID = ("the scheduler .* no longer answers", "no worker is left .*")


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_all_are_lost(
    how: signal.Signals, who: int, tmp_path: Path, undisturbed: SSHIBA, lose_patience: Callable[[float], object]
) -> None:
    """Gone, or there and silent: the best state is kept, also in the checkpoint, and goes on from there elsewhere."""
    file = tmp_path / "kept.sshiba"
    with separate_cluster(tmp_path) as (client, processes):

        def lose_it() -> None:
            lose_patience(4)
            processes[who].send_signal(how)
            while (how, who) == (signal.SIGKILL, 0) and client.status != "closed":  # it gives up between two sweeps
                time.sleep(0.1)

        model = SSHIBA(**SETTINGS, engine="dask", callback=at_sweep(20, lose_it))
        with pytest.raises(RowsLostError, match=SAID[who] + r"\. The best state so far is kept: resume"):
            model.fit(VIEWS, checkpoint=file)
    kept = load(file)
    assert kept.n_iter_ == model.n_iter_ >= 20
    assert np.isnan(kept.factors_).all()
    kept.set_params(engine="auto").resume(VIEWS)
    assert kept.elbo_ == pytest.approx(undisturbed.elbo_, rel=1e-6)


@pytest.mark.slow
def test_a_worker_that_no_longer_answers_is_left(undisturbed: SSHIBA, lose_patience: Callable[[float], object]) -> None:
    """It is there, and silent; the other one, which may be slow, has all rows then."""
    with local_cluster() as (_, client):
        pid = next(iter(client.run(os.getpid).values()))

        def silence() -> None:
            os.kill(pid, signal.SIGSTOP)
            lose_patience(20)

        try:
            found = SSHIBA(**SETTINGS, engine="dask", callback=at_sweep(20, silence)).fit(VIEWS)
        finally:
            os.kill(pid, signal.SIGKILL)
    assert_same_end(found, undisturbed)


# ------------------------------------------------------------------------------------------- at random moments


def lose(what: str, cluster: LocalCluster, client: Client, rng: random.Random) -> None:
    if what == "retire":
        client.retire_workers([rng.choice(list(client.nthreads()))])
    elif what == "add":
        cluster.scale(4)
    else:
        pids = list(client.run(os.getpid).values())
        kill(rng.sample(pids, min(len(pids), 2 if what == "kill two" else 1)))


@pytest.fixture(scope="module")
def lasting_cluster() -> Iterator[tuple[LocalCluster, Client]]:
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}), local_cluster(3) as both:
        yield both


@pytest.fixture(scope="module")
def usual_seconds(lasting_cluster: tuple[LocalCluster, Client]) -> float:
    """How long the fit takes here when nothing happens."""
    began = time.perf_counter()
    SSHIBA(**SETTINGS, engine="dask").fit(VIEWS)
    return time.perf_counter() - began


@pytest.fixture
def three_workers(lasting_cluster: tuple[LocalCluster, Client]) -> tuple[LocalCluster, Client]:
    """As many as there were before the test that came before: who died or left is followed by another."""
    cluster, client = lasting_cluster
    cluster.scale(3)
    while len(client.nthreads()) != 3:
        time.sleep(0.5)
        cluster.scale(3)
    return lasting_cluster


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("what", ["kill", "kill two", "retire", "add"])
def test_at_a_random_moment(
    what: str, seed: int, usual_seconds: float, three_workers: tuple[LocalCluster, Client], undisturbed: SSHIBA
) -> None:
    """Three workers; it may happen while rows are sent, in the sweeps, or while their factors are inferred."""
    rng = random.Random(seed)
    with ThreadPoolExecutor(1) as aside:
        loss = aside.submit(lambda: (time.sleep(rng.uniform(0, usual_seconds)), lose(what, *three_workers, rng)))
        found = SSHIBA(**SETTINGS, engine="dask").fit(VIEWS)
        loss.result()  # it happened
    assert_same_end(found, undisturbed)
    # Bounds that agree to 1e-6 leave factors this far apart.
    np.testing.assert_allclose(found.factors_, undisturbed.factors_, atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("who", [0, 1])
def test_all_are_lost_at_a_random_moment(
    who: int,
    seed: int,
    last_told: int,
    tmp_path: Path,
    undisturbed: SSHIBA,
    lose_patience: Callable[[float], object],
) -> None:
    rng, file = random.Random(seed), tmp_path / "kept.sshiba"
    sweep, later = rng.randint(2, last_told - 6), rng.uniform(0, 0.1)
    with separate_cluster(tmp_path) as (_, processes):
        timer = threading.Timer(later, processes[who].kill)

        def lose_it() -> None:
            timer.start()
            lose_patience(4)

        starts, waits = at_sweep(sweep, lose_it), at_sweep(sweep + 4, timer.join)  # the fit must not end before it

        def watch(progress: Progress) -> None:
            starts(progress)
            waits(progress)

        model = SSHIBA(**SETTINGS, engine="dask", callback=watch)
        with pytest.raises(RowsLostError, match="resume"):
            model.fit(VIEWS, checkpoint=file)
        timer.join()
    kept = load(file).set_params(engine="auto").resume(VIEWS)
    assert kept.elbo_ == pytest.approx(undisturbed.elbo_, rel=1e-6)
