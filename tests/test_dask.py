"""Rows on the workers of a Dask cluster: the same fit as in memory, whatever happens to the workers."""

from __future__ import annotations

import gc
import pickle
import warnings
from collections.abc import Iterator

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cases import make_problem
from distributed import Client, LocalCluster
from samples import fit, make_views, with_holes
from sklearn.exceptions import ConvergenceWarning

from sshiba import SSHIBA
from sshiba.core import dask_cluster
from sshiba.core.dask_cluster import LOOK
from sshiba.core.messages import make_messages
from sshiba.core.state import Stats
from sshiba.data.types import Binary, Categorical, Count, Real
from sshiba.engines import dask_tasks as tasks
from sshiba.engines import make_rows
from sshiba.engines.dask_rows import FAN_IN
from sshiba.fitted.inference import infer_factors, log_likelihood

pytestmark = pytest.mark.usefixtures("client")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two real processes on this machine, and nothing that others could reach."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=":0"
    ) as found:
        yield found


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as found:
        yield found


def assert_equal(a: Stats, b: Stats) -> None:
    """To 1e-9, relative to the largest number of each kind."""
    assert a.n == b.n
    assert b.n_restored == 0
    np.testing.assert_allclose(b.zz, a.zz, rtol=0, atol=1e-9 * np.abs(a.zz).max())
    assert b.z_logdet == pytest.approx(a.z_logdet, rel=1e-9)
    for name in ("n", "zz"):
        np.testing.assert_allclose(getattr(b.groups, name), getattr(a.groups, name), rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(a.views, b.views):
        for name in ("n", "z_sum", "zz", "x_sum", "xz", "xx", "bound"):
            one, other = getattr(mine, name), getattr(theirs, name)
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-9 * max(np.abs(one).max(), 1), err_msg=name)


@pytest.mark.parametrize("missing", ["exact", "mean-field"])
@pytest.mark.parametrize("holes", ["none", "rows", "cells"])
def test_steps_are_those_of_rows_in_memory(holes: str, missing: str) -> None:
    """Real, binary, categorical and count views; the last block is shorter, and some have no hole at all in a view.
    Beside views with holes there are covariates, or groups of samples.
    """
    views = [Real(), Binary(), Binary(link="logit"), Categorical(), Count()]
    sizes = {"n": 60, "n_covariates": 2 if holes == "cells" else 0, "n_groups": 2 if holes == "rows" else 0}
    problem = make_problem(views, [12, 4, 3, 3, 4], [holes] * 5, missing=missing, **sizes)
    here, there = problem.rows, make_rows(problem.data, problem.spec, 3, missing, "dask", block_rows=11)
    np.testing.assert_allclose(np.abs(there.directions(4)), np.abs(here.directions(4)), atol=1e-9)
    a, b = here.start(problem.posterior), there.start(problem.posterior)
    for hold_x in (True, False, False):
        (a, mine), (b, theirs) = (
            rows.step(problem.posterior, local, hold_x) for rows, local in ((here, a), (there, b))
        )
        assert_equal(mine, theirs)
    for mean_or_std, other in zip(
        infer_factors(here, problem.posterior, a), infer_factors(there, problem.posterior, b)
    ):
        np.testing.assert_allclose(other, mean_or_std, atol=1e-6)
    assert log_likelihood(there, problem.posterior) == pytest.approx(log_likelihood(here, problem.posterior), rel=1e-9)


def test_complete_real_rows_in_gram_space() -> None:
    problem = make_problem([Real(), Real()], [4, 3], ["none", "none"], n=400)
    there = make_rows(problem.data, problem.spec, 3, engine="dask", block_rows=150)
    assert "400 rows gram" in there.describe()
    assert_equal(
        problem.rows.step(problem.posterior, problem.rows.start(problem.posterior))[1],
        there.step(problem.posterior, there.start(problem.posterior))[1],
    )


def test_what_was_lost_is_found_again_and_said() -> None:
    """A block that does not know q(x) of a state: the statistics are those of q(x) with the globals fixed."""
    problem = make_problem([Real(), Binary()], [6, 4], ["cells", "cells"], n=40)
    rows, posterior = problem.rows, problem.posterior
    plan = tasks.Plan(problem.spec, 3, "exact", 4, None, tuple(own.outline for own in rows.holes))
    block = tasks.make_block(0, True, plan, *problem.data)
    messages = make_messages(posterior, problem.spec, rows.groups)
    tasks.first_x(block, messages, 0, ())
    assert tasks.local_step(block, messages, 0, 1, False, ()).n_restored == 0
    assert set(block.kept) == {0, 1}
    again = tasks.local_step(pickle.loads(pickle.dumps(block)), messages, 1, 2, False, ())
    assert again.n_restored == 0  # it travels with the block
    found = tasks.local_step(block, messages, 99, 3, False, (0, 1))
    assert found.n_restored == 40
    assert set(block.kept) == {3}
    settled, _ = rows.settle(posterior, rows.start(posterior))
    np.testing.assert_allclose(found.zz, rows.step(posterior, settled)[1].zz, rtol=1e-4)


@pytest.mark.parametrize("look", [LOOK, 1e-4])
def test_workers_forget_what_nobody_needs(client: Client, monkeypatch: pytest.MonkeyPatch, look: float) -> None:
    """Also where results are waited for more than once: nothing may hold on to a state until garbage is collected."""
    monkeypatch.setattr(dask_cluster, "LOOK", look)
    problem = make_problem([Real(), Binary()], [6, 4], ["none", "none"], n=40)
    rows = make_rows(problem.data, problem.spec, 3, engine="dask", block_rows=10)
    local = rows.start(problem.posterior)
    gc.disable()
    try:
        for _ in range(6):
            local, _ = rows.step(problem.posterior, local)
    finally:
        gc.enable()
    kept = client.gather([client.submit(lambda block: set(block.kept), place.block) for place in rows.places])
    assert kept == [{local.number - 1, local.number}] * len(kept)


def test_the_dashboard_names_the_tasks(client: Client) -> None:
    problem = make_problem([Real()], [4], ["none"], n=40)
    rows = make_rows(problem.data, problem.spec, 3, engine="dask", block_rows=10)
    rows.step(problem.posterior, rows.start(problem.posterior))
    names = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    assert {"local_step", "add_stats"} <= names


def test_what_blocks_say_is_let_go_once_it_is_added() -> None:
    """Statistics may be large, with holes at random a matrix for each feature: a worker never has those of all blocks.
    They are added in the order of the blocks.
    """
    problem = make_problem([Real()], [4], ["none"], n=300)
    rows = make_rows(problem.data, problem.spec, 3, engine="dask", block_rows=3)

    def said(block: tasks.HeldBlock, _: None) -> list[tuple[int, int]]:
        """Where the block starts, and what its worker has of all that was said; `+` puts lists together."""
        from time import sleep

        from distributed import get_worker

        sleep(0.01)  # as a short step
        return [(block.first, sum("said" in str(key) for key in get_worker().data))]

    starts, alive = zip(*rows._ask(said, None))
    assert starts == tuple(range(0, 300, 3))
    assert max(alive) <= 2 * FAN_IN  # of 50


def test_a_whole_fit() -> None:
    views = with_holes(make_views())
    here, there = (fit(views, engine=engine, n_components=5) for engine in ("auto", "dask"))
    assert there.n_iter_ == here.n_iter_
    np.testing.assert_allclose(there.elbo_path_, here.elbo_path_, rtol=1e-9)
    np.testing.assert_allclose(there.factors_, here.factors_, atol=1e-5)


# -------------------------------------------------------------------------------------------------- collections


def mixed(n: int = 150) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers and yes/no, with holes, and classes."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 2))
    X = z @ rng.standard_normal((2, 8)) + 0.5 * rng.standard_normal((n, 8))
    T = (z @ rng.standard_normal((2, 4)) > 0).astype(float)
    X[rng.random(X.shape) < 0.1], T[::9] = np.nan, np.nan
    return X, T, np.array(["a", "b", "c"], object)[np.argmax(np.c_[z, 0 * z[:, 0]], axis=1)]


def few_sweeps(views: object, **options: object) -> SSHIBA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SSHIBA(3, search=None, random_state=0, max_iter=15, **options).fit(views)


def test_arrays_are_coded_and_fitted_where_they_are() -> None:
    """In other chunks each, with one array in memory; nothing of `engine` need be said."""
    X, T, y = mixed()
    here = few_sweeps({"X": X, "T": T, "y": y})
    views = {"X": da.from_array(X, chunks=(70, 3)), "T": da.from_array(T, chunks=(40, 4)), "y": y}
    there = few_sweeps(views)
    np.testing.assert_allclose(there.elbo_path_, here.elbo_path_, rtol=1e-9)
    np.testing.assert_allclose(there.factors_, here.factors_, atol=1e-5)
    assert there.sharpness_ == pytest.approx(here.sharpness_)


def test_a_frame_is_split_by_type_and_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    X, T, y = mixed()
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(y=y, t=T[:, 0])
    here = few_sweeps(frame)
    with caplog.at_level("INFO", "sshiba"):
        there = few_sweeps(dd.from_pandas(frame, npartitions=4))
    assert "150 rows a covariance each; 4 blocks" in caplog.text
    np.testing.assert_allclose(there.elbo_path_, here.elbo_path_, rtol=1e-9)
    np.testing.assert_allclose(there.factors_, here.factors_, atol=1e-5)


@pytest.mark.parametrize("ask", ["transform", "impute", "predict", "predict_proba"])
def test_answers_about_arrays_are_lazy_arrays(ask: str) -> None:
    X, T, y = mixed(60)
    model = few_sweeps({"X": X, "T": T, "y": y})
    target = {"target": "y"} if ask.startswith("predict") else {}
    views = {"X": da.from_array(X, chunks=(25, 3)), "T": da.from_array(T, chunks=(20, 4))}
    found, expected = getattr(model, ask)(views, **target), getattr(model, ask)({"X": X, "T": T}, **target)
    for mine, theirs in zip(*(v.values() if ask == "impute" else [v] for v in (found, expected))):
        assert isinstance(mine, da.Array)
        assert mine.chunks[0] == (25, 25, 10)
        same = np.testing.assert_array_equal if theirs.dtype == object else np.testing.assert_allclose
        same(mine.compute(), theirs, **({} if theirs.dtype == object else {"atol": 1e-5}))


def test_answers_about_a_frame_are_lazy_frames() -> None:
    X, T, y = mixed(60)
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(y=y, t=T[:, 0])
    model, lazy = few_sweeps(frame), dd.from_pandas(frame, npartitions=3)
    filled, stds = model.impute(lazy, return_std=True)
    assert filled.divisions == stds.divisions == lazy.divisions
    expected = model.impute(frame, return_std=True)
    for mine, theirs in zip((filled, stds), expected):
        pd.testing.assert_frame_equal(mine.compute(), theirs, check_dtype=False, atol=1e-5)
    pd.testing.assert_frame_equal(model.transform(lazy).compute(), model.transform(frame), atol=1e-5)
    assert model.score(lazy) == pytest.approx(model.score(frame), rel=1e-7)


# ------------------------------------------------------------------------------------------------------- traffic


def count_bytes() -> None:
    """Let this process count what it writes to other processes."""
    from distributed.comm.tcp import TCP

    if not hasattr(TCP, "n_written"):
        TCP.n_written, write = 0, TCP.write

        async def counted(self, *args, **options):
            n_bytes = await write(self, *args, **options)
            TCP.n_written += n_bytes
            return n_bytes

        TCP.write = counted


def n_written() -> int:
    from distributed.comm.tcp import TCP

    return TCP.n_written


def bytes_per_sweep(client: Client, n: int, n_sweeps: int = 8) -> tuple[float, float]:
    """What crosses between all processes in a sweep over n rows in six blocks; and what the engine counts of it."""
    problem = make_problem([Real(), Binary()], [60, 8], ["none", "rows"], n=n, n_components=8)
    rows = make_rows(problem.data, problem.spec, 8, engine="dask", block_rows=n // 6)
    local, _ = rows.step(problem.posterior, rows.start(problem.posterior))
    before, counted = sum(client.run(n_written).values()) + n_written(), rows.n_bytes
    for _ in range(n_sweeps):
        local, _ = rows.step(problem.posterior, local)
    after = sum(client.run(n_written).values()) + n_written()
    return (after - before) / n_sweeps, (rows.n_bytes - counted) / n_sweeps


def test_bytes_of_a_sweep_do_not_depend_on_the_rows(client: Client) -> None:
    count_bytes()
    client.run(count_bytes)
    (few, few_counted), (many, many_counted) = (bytes_per_sweep(client, n) for n in (240, 24_000))
    assert few_counted == many_counted
    assert many == pytest.approx(few, rel=0.2)  # heartbeats and measured times are in it
    assert many < 24_000 * 8  # not even one number for each row


@pytest.mark.parametrize(
    "view", [Real(limits=(0.5, 4.0), margin="auto"), Real(margin="normal")], ids=["limits", "ranks"]
)
def test_limits_and_margins(view: Real) -> None:
    """Learned and coded on the workers: the fit of the same rows in memory, and answers beyond the limits."""
    x = np.round(np.exp(make_views(n=80)["X"][:, :4] / 2), 2) + 0.01
    ours, theirs = (
        fit({"x": data}, views={"x": view}, max_iter=5, search=None) for data in (da.from_array(x, chunks=(30, -1)), x)
    )
    assert ours.margins_ == theirs.margins_
    assert ours.elbo_ == pytest.approx(theirs.elbo_, rel=1e-9)
    lazy = ours.impute({"x": da.from_array(x, chunks=(30, -1))}, beyond_limits=True)["x"]
    np.testing.assert_allclose(np.asarray(lazy), theirs.impute({"x": x}, beyond_limits=True)["x"], rtol=1e-6)
