"""One sweep of the library against the naive oracle, for every likelihood and option."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
from cases import Problem, differences, groups_to_oracle, make_problem, to_oracle

from sshiba.core.bound import elbo
from sshiba.core.global_step import global_step
from sshiba.core.likelihoods import Poisson
from sshiba.core.state import Gamma
from sshiba.data.types import VIEW_TYPES, Binary, Categorical, Count, Ordinal, Real

SWEEPS = 2
TIED = (0, 0, 1, 2, 1)
CASES = {
    "real": [Real()],
    "real, one noise": [Real(noise="view")],
    "real, selected": [Real(select_features=True)],
    "real, selected, one noise": [Real(select_features=True, noise="view")],
    "real, tied": [Real(select_features=True, groups=TIED)],
    "real, weighted": [Real(weight=0.4), Real()],
    "real, limits": [Real(limits=(-0.3, 0.8))],
    "real, limits, one noise": [Real(limits=(None, 0.2), noise="view", select_features=True), Real()],
    "real, limits, weighted": [Real(limits={1: (-0.5, None), 3: (0.1, 0.4)}, weight=0.5), Ordinal()],
    "binary": [Binary()],
    "binary, other noise": [Binary(noise=0.3)],
    "binary, logit": [Binary(link="logit")],
    "binary, logit, learned noise": [Binary(link="logit", noise="learned")],
    "binary, selected": [Binary(select_features=True, groups=TIED)],
    "binary, weighted": [Binary(weight=2.5), Real()],
    "binary, logit, weighted": [Binary(link="logit", noise=0.1, weight=2.5), Real()],
    "categorical": [Categorical()],
    "categorical, selected": [Categorical(select_features=True)],
    "categorical, weighted": [Categorical(weight=3.0), Binary(weight=0.5)],
    "ordinal": [Ordinal()],
    "ordinal, one noise": [Ordinal(noise="view")],
    "ordinal, selected": [Ordinal(select_features=True, groups=TIED)],
    "ordinal, weighted": [Ordinal(weight=2.5), Real()],
    "count": [Count()],
    "count, each its noise, no sizes": [Count(noise="feature", size=False)],
    "count, selected, weighted": [Count(select_features=True, groups=TIED, weight=2.5), Real()],
    "all": [
        Real(select_features=True, weight=0.7),
        Binary(link="logit", noise="learned"),
        Binary(),
        Categorical(),
        Ordinal(),
        Count(),
        Real(noise="view"),
    ],
}


@pytest.fixture(autouse=True)
def without_newton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts take plain steps; those of Newton's method have witnesses in test_latent_step.py and test_start.py."""
    monkeypatch.setattr(Poisson, "found_with_z", False)


def test_no_likelihood_escapes_the_list() -> None:
    """A new view type must be added to CASES (and to cases.draw_view)."""
    assert {type(view) for views in CASES.values() for view in views} == set(VIEW_TYPES.values())


@pytest.mark.parametrize("space", ["memory", "gram"])
@pytest.mark.parametrize("missing", ["exact", "mean-field"])
@pytest.mark.parametrize("holes", ["none", "rows", "cells"])
@pytest.mark.parametrize("case", CASES)
def test_sweep_equals_oracle(case: str, holes: str, missing: str, space: str) -> None:
    views = CASES[case]
    problem = make_problem(views, [5] * len(views), [holes] * len(views), n=8, missing=missing, seed=3, space=space)
    assert_sweeps_equal(problem)


@pytest.mark.parametrize("missing", ["exact", "mean-field"])
@pytest.mark.parametrize("case", CASES)
def test_sweep_without_factors_equals_oracle(case: str, missing: str) -> None:
    """Of one posterior of labels in Gram space, of the other, with holes, in memory."""
    views, space = CASES[case], "gram" if missing == "exact" else "memory"
    holes = ["none" if missing == "exact" else "cells"] * len(views)
    problem = make_problem(views, [5] * len(views), holes, n=9, missing=missing, seed=3, space=space)
    none = problem.posterior.select_factors(np.arange(0))
    assert none.n_components == 0
    assert_sweeps_equal(replace(problem, posterior=none))


@pytest.mark.parametrize("space", ["memory", "gram"])
@pytest.mark.parametrize("missing", ["exact", "mean-field"])
@pytest.mark.parametrize("holes", ["none", "rows", "cells"])
def test_sweep_with_groups_of_samples_equals_oracle(holes: str, missing: str, space: str) -> None:
    """With covariates in the Gram space."""
    views = [Real(), Binary(), Categorical(), Real(noise="view", select_features=True)]
    sizes = {"n": 10, "n_groups": 2, "n_covariates": 2 * (space == "gram")}
    problem = make_problem(views, [4] * 4, [holes] * 4, missing=missing, space=space, **sizes)
    start = problem.posterior.activity.mean * np.array([[1.0, 0.3, 2.0], [0.2, 1.0, 5.0]])
    activity = Gamma(start, np.ones_like(start))
    assert_sweeps_equal(replace(problem, posterior=replace(problem.posterior, activity=activity)))


@pytest.mark.parametrize("space", ["memory", "gram"])
@pytest.mark.parametrize("holes", ["none", "cells"])
@pytest.mark.parametrize("case", ["real", "real, selected, one noise", "all"])
def test_sweep_with_covariates_equals_oracle(case: str, holes: str, space: str) -> None:
    views, missing = CASES[case], "mean-field" if space == "gram" and holes == "cells" else "exact"
    widths, holes_each = [5] * len(views), [holes] * len(views)
    problem = make_problem(views, widths, holes_each, n=8, missing=missing, seed=3, space=space, n_covariates=2)
    assert problem.posterior.n_components == 3
    assert_sweeps_equal(problem)
    assert_sweeps_equal(replace(problem, posterior=problem.posterior.select_factors(np.arange(0))))


def assert_sweeps_equal(problem: Problem) -> None:
    """Every variable and every term of the bound, after each of some sweeps."""
    missing, posterior = problem.missing, problem.posterior
    naive = to_oracle(problem)
    groups = groups_to_oracle(problem, naive)
    local = problem.rows.start(posterior)
    for _ in range(SWEEPS):
        naive, groups, z = oracle.sweep(naive, missing, groups)
        local, stats = problem.rows.step(posterior, local)
        posterior, residuals = global_step(stats, posterior, problem.spec)
        for view, ov in zip(posterior.views, naive):
            if ov.known:
                continue
            worst = differences(view, ov)
            assert max(worst.values()) < 1e-9, worst
        ours, theirs = elbo(posterior, stats, problem.spec, residuals), oracle.elbo(naive, groups, z)
        assert ours["z"] == pytest.approx(theirs["z"], rel=1e-9)
        np.testing.assert_allclose(posterior.activity.mean, groups.shape / groups.rate, rtol=1e-9)
        assert ours.get("activity", 0.0) == pytest.approx(theirs.get("activity", 0.0), rel=1e-9, abs=1e-9)
        for i, view in enumerate(naive):
            if view.known:
                assert ours["x:covariates"] == pytest.approx(theirs[f"x{i}"], rel=1e-7)
                continue
            x_and_t = theirs[f"x{i}"] + theirs[f"local{i}"]
            assert ours[f"x:v{i}"] + ours[f"t:v{i}"] == pytest.approx(x_and_t, rel=1e-9, abs=1e-9)
            for name, letter in (
                ("W", "w"),
                ("b", "b"),
                ("alpha", "alpha"),
                ("gamma", "gamma"),
                ("tau", "tau"),
            ):
                assert ours[f"{name}:v{i}"] == pytest.approx(theirs[f"{letter}{i}"], rel=1e-9, abs=1e-9)
        assert np.isclose(sum(ours.values()), sum(theirs.values()), rtol=1e-9)
