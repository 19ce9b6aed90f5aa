"""Rows in memory: statistics added as they come, the same with any number of threads; BLAS left as it was."""

import multiprocessing
import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from cases import Problem, make_problem
from samples import fit, make_views, with_holes
from sklearn.exceptions import ConvergenceWarning

from sshiba.core import machine
from sshiba.core.likelihoods.probit_integrals import compiled
from sshiba.core.likelihoods.probit_rows import update_rows
from sshiba.core.local_step import local_step
from sshiba.core.state import Stats
from sshiba.core.threads import BLAS, in_chunks, in_threads, kept_threads, let_others_set, n_threads, one_blas_thread
from sshiba.data.types import Binary, Categorical, Count, Ordinal, Real
from sshiba.engines import memory
from sshiba.engines.memory import MemoryRows
from sshiba.fitting.budget import FitOptions
from sshiba.fitting.loop import StartingPoint, run
from sshiba.fitting.restarts import Restart


def many_blocks(n: int = 120) -> Problem:
    """Rows with holes of their own, two in a block, so that they are shared out between threads."""
    problem = make_problem([Real(), Binary(), Categorical()], [12, 4, 3], ["cells"] * 3, n=n, block_rows=2)
    assert len(problem.rows.blocks) == n / 2
    assert not any(block.shared for block in problem.rows.blocks)
    return problem


class LiveStats:
    """How many of the statistics that blocks report are alive, and how many were at most."""

    def __init__(self) -> None:
        self.made = self.now = self.most = 0
        self.lock = threading.Lock()

    def local_step(self, *arguments: object, **options: object) -> object:
        x, stats = local_step(*arguments, **options)
        with self.lock:
            self.made, self.now = self.made + 1, self.now + 1
            self.most = max(self.most, self.now)
        weakref.finalize(stats, self.gone)
        return x, stats

    def gone(self) -> None:
        with self.lock:
            self.now -= 1


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_statistics_are_added_as_they_come(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks there are, only those of a few wait for their turn."""
    problem, live = many_blocks(), LiveStats()
    local = problem.rows.start(problem.posterior)
    monkeypatch.setattr("sshiba.core.threads.n_threads", lambda: threads)
    monkeypatch.setattr(memory, "local_step", live.local_step)
    problem.rows.step(problem.posterior, local)
    assert live.made == len(problem.rows.blocks)
    assert live.most <= 3 * threads + 2 < live.made / 2


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = many_blocks()
    found = []
    for threads in (1, 2, 4, 2):
        monkeypatch.setattr("sshiba.core.threads.n_threads", lambda threads=threads: threads)
        local = problem.rows.start(problem.posterior)
        for _ in range(2):
            local, stats = problem.rows.step(problem.posterior, local)
        found.append(stats)
    for other in found[1:]:
        assert_identical(found[0], other)


def assert_identical(a: Stats, b: Stats) -> None:
    assert a.n == b.n
    np.testing.assert_array_equal(a.zz, b.zz)
    assert a.z_logdet == b.z_logdet
    for mine, theirs in zip(a.views, b.views):
        for name in ("n", "z_sum", "zz", "x_sum", "xz", "xx", "bound"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), err_msg=name)


# -------------------------------------------------------------------------------------------------------- BLAS


@contextmanager
def threads(n: int) -> Iterator[None]:
    """BLAS on `n` threads, however many cores there are, and no thread barred from changing that."""
    limiter = BLAS.limit(limits=n)
    let_others_set()
    assert n_threads() == n
    yield
    limiter.restore_original_limits()
    let_others_set()


@pytest.fixture
def two_threads() -> Iterator[None]:
    with threads(2):
        yield


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_fit_on_two_threads_is_that_on_one(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns with holes of their own are shared out; where rows are read one thread is left for that."""
    monkeypatch.setattr("sshiba.core.threads.WORTH_THREADS", 0)
    monkeypatch.setattr(machine, "LEAST", 1000)
    used, found = [], []
    monkeypatch.setattr(memory, "local_step", lambda *a, **b: used.append(n_threads()) or local_step(*a, **b))
    np.save(tmp_path / "x.npy", make_views()["X"])
    rows = {"X": tmp_path / "x.npy"} if place == "file" else with_holes(make_views())
    options = {"search": None, "engine": "memory", "max_iter": 8, "max_memory": 10_000 if place == "file" else None}
    for n in (1, 2):
        used.clear()
        with threads(n):
            found.append(fit(rows, **options))
            assert n_threads() == n
    assert set(used) == ({1} if place == "file" else {2})
    np.testing.assert_allclose(found[1].factors_, found[0].factors_, rtol=0, atol=1e-9)
    assert found[1].elbo_ == pytest.approx(found[0].elbo_, rel=1e-12)


@pytest.mark.usefixtures("two_threads")
def test_small_sweeps_and_inferences_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for one another in each small product lose a time slice wherever a core is taken."""
    used: list[int] = []
    for name in ("local_step", "settle"):
        kernel = getattr(memory, name)
        monkeypatch.setattr(memory, name, lambda *a, kernel=kernel, **b: used.append(n_threads()) or kernel(*a, **b))
    problem = make_problem([Real(), Binary()], [12, 4], ["cells", "none"], n=60)
    start = StartingPoint(problem.posterior, 3)
    for worth, wanted in ((None, {1}), (0, {2})):
        if worth is not None:
            monkeypatch.setattr("sshiba.core.threads.WORTH_THREADS", worth)
        used.clear()
        end = run(problem.rows, start, FitOptions(max_iter=3))
        list(problem.rows.infer(end.state.posterior))
        assert set(used) == wanted
        assert n_threads() == 2


def chunks(n_cells: int = 100) -> list[tuple[slice, int]]:
    """The chunks of ten rows, and the threads that had them."""
    return in_chunks(lambda some: (some, threading.get_ident()), 10, n_cells, 100)


@pytest.mark.usefixtures("two_threads")
def test_compiled_chunks_take_threads_where_blas_takes_one() -> None:
    """The caller has the first; few cells are one chunk, and so are those of a thread that shares a job."""
    for context in (nullcontext(), one_blas_thread()):
        with context:
            (first, own), (second, other) = chunks()
            assert (first, second, own) == (slice(0, 5), slice(5, 10), threading.get_ident())
            assert other != own
            assert len(chunks(n_cells=99)) == 1
    assert [len(found) for found in in_threads(lambda _: chunks(), range(3))] == [1, 1, 1]
    with threads(1):
        assert len(chunks()) == 1


@pytest.mark.usefixtures("two_threads")
def test_threads_are_kept_for_several_jobs_in_chunks() -> None:
    with kept_threads(), kept_threads():
        assert len({chunks()[1][1] for _ in range(5)}) == 1
    with pytest.raises(ZeroDivisionError):
        in_chunks(lambda some: 1 // (5 - some.start), 10, 100, 100)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    """Those that were kept are not there, and would never answer."""
    with kept_threads():
        chunks()
        child = multiprocessing.get_context("fork").Process(target=chunks)
        child.start()
        child.join(60)
        if child.is_alive():
            child.kill()
        assert child.exitcode == 0


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_sums_over_rows_of_classes_do_not_depend_on_threads(n_classes: int) -> None:
    if compiled() is None:
        pytest.skip("numba is not installed: pip install '.[fast]'")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 12_345, n_classes))
    given = rng.integers(n_classes, size=len(x)), x, y, 0.7 * np.eye(n_classes)[None] + 0.05
    found = update_rows(*given, each=False)
    with threads(1):
        for ours, theirs in zip(found, update_rows(*given, each=False)):
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(found[1][0], update_rows(*given, each=True)[1].sum(axis=0), rtol=1e-12)


@pytest.mark.usefixtures("two_threads")
def test_the_last_one_out_gives_the_threads_back() -> None:
    """The first leaves first; an error inside changes nothing."""
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert n_threads() == 1
    second.__exit__(None, None, None)
    assert n_threads() == 2
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError("an error inside")
    assert n_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_overlapping_work_on_threads_leaves_blas_as_it_was() -> None:
    """The second begins while the first is under way, and ends after it, in another thread."""
    first_began, second_began, first_ended = (threading.Event() for _ in range(3))

    def work(began: threading.Event, until: threading.Event) -> list[bool]:
        def job(number: int) -> bool:
            began.set()
            return until.wait(timeout=30)

        return list(in_threads(job, range(4)))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(work, first_began, second_began)
        assert first_began.wait(timeout=30)
        second = pool.submit(lambda: list(work_alone(second_began, first_ended)))
        assert all(first.result(timeout=60))
        between = n_threads()
        first_ended.set()
        assert all(second.result(timeout=60))
    assert (between, n_threads()) == (1, 2)


def work_alone(began: threading.Event, until: threading.Event) -> Iterator[bool]:
    """One thread's work inside the limit, as a fit in a thread of its own does it."""
    with one_blas_thread():
        began.set()
        yield until.wait(timeout=30)


@pytest.mark.usefixtures("two_threads")
def test_overlapping_fits_leave_blas_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several at a time, each with threads over its blocks; and all come to the same end as one alone."""
    monkeypatch.setattr("sshiba.core.threads.n_threads", lambda: 2)  # also while others hold BLAS at one thread

    def job(_: int) -> float:
        problem = many_blocks(40)
        return Restart.of(run(problem.rows, StartingPoint(problem.posterior, 3), FitOptions(max_iter=12))).elbo

    alone = job(0)
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(job, range(6)))
    assert n_threads() == 2
    assert together == [alone] * 6


# --------------------------------------------------------------------------------------------------- settling


def test_inference_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In three rounds, with a limit that no change is below; a purely real model has nothing to settle."""
    views = {name: view[:30] for name, view in make_views().items()}
    model, real = fit(views, max_iter=300), fit({"X": views["X"]})
    settle = memory.settle
    monkeypatch.setattr(memory, "settle", lambda block, x, messages, *_, **__: settle(block, x, messages, 3, 0.0))
    for ask in (
        lambda: model.transform({"T": views["T"]}),
        lambda: model.predict({"T": views["T"]}, "X"),
        lambda: model.predict_proba({"T": views["T"]}, "y"),
        lambda: model.impute({"T": np.where(np.eye(30, 4) > 0, np.nan, views["T"])}),
        lambda: model.score({"T": views["T"]}),
    ):
        with pytest.warns(ConvergenceWarning, match="had not converged") as caught:
            ask()
        assert len(caught) == 1
    real.transform({"X": views["X"]})
    real.score({"X": views["X"]})


@pytest.mark.parametrize("views", [[Real()], [Real(), Binary()], [Categorical()], [Real(), Ordinal()], [Count()]])
def test_settling_says_whether_it_did(views: list) -> None:
    problem = make_problem(views, [4] * len(views), ["cells"] * len(views), n=20)
    local = problem.rows.start(problem.posterior)
    latent = any(view.latent for view in views)
    assert isinstance(problem.rows, MemoryRows)
    assert problem.rows.settle(problem.posterior, local, max_rounds=1)[1] != latent
    settled, converged = problem.rows.settle(problem.posterior, local)
    assert converged
    assert (settled is local) != latent
    again, stats = problem.rows.step(problem.posterior, settled)
    _, twice = problem.rows.step(problem.posterior, again)
    for mine, theirs in zip(stats.views, twice.views):  # where it has settled, another step changes nothing
        np.testing.assert_allclose(mine.xz, theirs.xz, atol=1e-5)
