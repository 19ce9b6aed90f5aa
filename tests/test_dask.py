"""Rows on the workers of a Dask cluster: the same fit as in memory, whatever happens to the workers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from cases import make_problem
from distributed import Client, LocalCluster
from samples import fit, make_views, with_holes

from sshiba.core.state import Stats
from sshiba.data.types import Binary, Categorical, Real
from sshiba.engines import make_rows
from sshiba.fitted.inference import infer_factors, log_likelihood

pytestmark = pytest.mark.usefixtures("client")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two real processes on this machine, and nothing that others could reach."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
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
    for mine, theirs in zip(a.views, b.views):
        for name in ("n", "z_sum", "zz", "x_sum", "xz", "xx", "bound"):
            one, other = getattr(mine, name), getattr(theirs, name)
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-9 * max(np.abs(one).max(), 1), err_msg=name)


@pytest.mark.parametrize("missing", ["exact", "mean-field"])
@pytest.mark.parametrize("holes", ["none", "rows", "cells"])
def test_steps_are_those_of_rows_in_memory(holes: str, missing: str) -> None:
    """Real, binary and categorical views; the last block is shorter, and some have no hole at all in a view."""
    views = [Real(), Binary(), Binary(link="logit"), Categorical()]
    problem = make_problem(views, [12, 4, 3, 3], [holes] * 4, n=60, missing=missing)
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


def test_a_whole_fit() -> None:
    views = with_holes(make_views())
    here, there = (fit(views, engine=engine, n_components=5) for engine in ("auto", "dask"))
    assert there.n_iter_ == here.n_iter_
    np.testing.assert_allclose(there.elbo_path_, here.elbo_path_, rtol=1e-9)
    np.testing.assert_allclose(there.factors_, here.factors_, atol=1e-5)
