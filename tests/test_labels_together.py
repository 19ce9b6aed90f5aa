"""Yes/no cells of a row inferred together: q(z) normal and q(x | z) exact, against quadrature and its array twin."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr

from sshiba import SSHIBA, Binary, Candidate, Categorical, Real, load
from sshiba.core.bound import elbo
from sshiba.core.likelihoods import Threshold, ThresholdTogether, threshold_rows
from sshiba.core.spec import Priors
from sshiba.core.state import ColumnGroups, Fixed, Gamma, Posterior, ViewPosterior, WeightCovariance
from sshiba.data.reading import read_training
from sshiba.engines import make_rows
from sshiba.evaluate.metrics import binary_log_likelihood
from sshiba.fitted.candidates import candidates_for, misses_cells, without_doubles, without_search, worth_a_try
from sshiba.fitted.hidden_cells import hide_in_turn
from sshiba.fitted.inference import log_likelihood

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
TOGETHER = [Candidate(labels_together=True)]


def known_globals(w: np.ndarray) -> Posterior:
    """Weights that are known, no bias."""
    d, k = w.shape
    cov = WeightCovariance(1e-9 * np.eye(k)[None], np.ones((d, k)), np.zeros(d), ColumnGroups.single(d))
    ones = np.ones(k)
    view = ViewPosterior(
        w, w**2, cov, np.zeros(d), np.full(d, 1e-18), Gamma(ones, ones), Fixed(np.ones(d)), Fixed(np.ones(1))
    )
    return Posterior((view,))


def row_bound(y: np.ndarray, w: np.ndarray, likelihood: Threshold) -> float:
    """What the library says of one row of one view with known weights."""
    schema, data, _ = read_training({"y": y}, {"y": Binary()}, "float64")
    spec = schema.model_spec(len(y), Priors(), "exact")
    spec = replace(spec, views=(replace(spec.views[0], likelihood=likelihood),))
    return log_likelihood(make_rows(list(data.values()), spec, w.shape[1]), known_globals(w)) / len(y)


def best_normal(s: np.ndarray, w: np.ndarray, weight: float = 1.0) -> float:
    """max over q(z) = N(m, v) of the weight times Σ E log Φ(s w z), − KL, one factor."""

    def loss(p: np.ndarray) -> float:
        z = p[0] + np.exp(p[1]) * NODES
        gain = sum(WEIGHTS @ log_ndtr(a * z) for a in s * w)
        return -(weight * gain - 0.5 * (p[0] ** 2 + np.exp(2 * p[1]) - 1 - 2 * p[1]))

    return -minimize(loss, [0.3, -0.3], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun


@pytest.mark.filterwarnings("ignore:view 'y'")
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_the_bound_of_a_row_is_that_of_the_best_normal_q_of_z(scale: float) -> None:
    """And most of what Π q(x) loses of log p(t), which is by quadrature, is gone."""
    w, s = scale * np.array([1.0, 1.3, -0.7, 1.0]), np.array([1, 1, -1, 1])
    y = np.tile((s + 1) / 2, (3, 1))
    z = np.linspace(-9, 9, 4001)
    evidence = np.log(np.trapezoid(np.exp(log_ndtr(np.outer(z, s * w)).sum(axis=1) - z**2 / 2) / np.sqrt(2 * np.pi), z))
    apart, together = (row_bound(y, w[:, None], likelihood) for likelihood in (Threshold(), ThresholdTogether()))
    np.testing.assert_allclose(together, best_normal(s, w), atol=2e-6)
    assert apart < together < evidence
    assert evidence - together < 0.25 * (evidence - apart)


def bound_of_step(y: np.ndarray, w: np.ndarray, weight: float, min_shared: int) -> float:
    """The bound after a sweep's local step, by the statistics of rows; what the globals add is `weight` times the same.

    Patterns of holes with less than `min_shared` rows are rows with a covariance each.
    """
    schema, data, _ = read_training({"y": y}, {"y": Binary(weight=weight)}, "float64")
    spec = schema.model_spec(len(y), Priors(), "exact")
    spec = replace(spec, views=(replace(spec.views[0], likelihood=ThresholdTogether()),))
    rows = make_rows(list(data.values()), spec, w.shape[1], min_shared=min_shared)
    assert all(block.shared == (min_shared == 1) for block in rows.blocks)
    posterior = known_globals(w)
    local = rows.start(posterior)
    for _ in range(5):
        local, stats = rows.step(posterior, local)
    return sum(elbo(posterior, stats, spec).values())


@pytest.mark.filterwarnings("ignore:view 'y'")
@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("min_shared", [1, 100])
def test_statistics_are_those_of_the_best_normal_whichever_cells_are_missing(weight: float, min_shared: int) -> None:
    """Each cell of a row in turn, also the first one."""
    w, s = np.array([1.2, 1.5, -0.8, 1.2]), np.array([1.0, 1.0, -1.0, 1.0])
    complete, missing = np.tile(s, (6, 1)), np.tile(s, (6, 1))
    missing[range(4), range(4)] = 0
    complete, missing = ((np.where(rows == 0, np.nan, (rows + 1) / 2), rows) for rows in (complete, missing))
    globals_add = bound_of_step(complete[0], w[:, None], 1.0, 1) - 6 * best_normal(s, w)
    best = sum(best_normal(row[row != 0], w[row != 0], weight) for row in missing[1])
    found = bound_of_step(missing[0], w[:, None], weight, min_shared)
    np.testing.assert_allclose(found, weight * globals_add + best, atol=1e-6)


@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
def test_sites_are_those_of_their_own_mean_and_variance_and_arrays_say_the_same(weight: float) -> None:
    rng = np.random.default_rng(0)
    w = 1.5 * rng.standard_normal((5, 2))
    s = np.sign(rng.standard_normal((40, 5))) * (rng.random((40, 5)) < 0.8)
    seen = (s != 0)[:, :, None] & (s != 0)[:, None, :]
    y, v = rng.standard_normal((40, 5)), rng.random((40, 5))
    leverage = np.where(seen, w @ np.linalg.inv(np.eye(2) + w.T @ w) @ w.T, 0.0)
    arguments = (s, np.where(s != 0, y + s, 0.0), y, v, np.linalg.inv(np.eye(5) - leverage) - np.eye(5), weight)
    e, c, mean, cov, *_ = by_arrays = threshold_rows.best_sites(*arguments)
    _, next_e, next_c = threshold_rows.expectations(s, mean, np.linalg.diagonal(cov))
    np.testing.assert_allclose(e, np.where(s != 0, next_e, 0.0), atol=1e-5)
    np.testing.assert_allclose(c, np.where(s != 0, next_c, 0.0), atol=1e-5)
    prior = arguments[4]
    np.testing.assert_allclose(cov, np.linalg.solve(np.eye(5) + weight * prior * c[:, None, :], prior), atol=1e-9)
    fast = threshold_rows.compiled()
    if fast is not None:
        for one, other in zip(by_arrays, fast.best_sites(*arguments)):
            np.testing.assert_allclose(one, other, atol=1e-5)


def twins(n: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Labels of which two say the same, hardly told by x; a tenth of them hidden."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    y = (
        z @ np.array([[3.0, 3.0, 0.0, 1.0], [0.0, 0.0, 3.0, 1.0], [0.0] * 4]) + 0.3 * rng.standard_normal((n, 4)) > 0
    ) * 1.0
    x = z @ (rng.standard_normal((3, 6)) * np.array([0.4, 0.4, 2.0])[:, None]) + rng.standard_normal((n, 6))
    hidden = rng.random(y.shape) < 0.1
    return {"x": x, "y": np.where(hidden, np.nan, y)}, y, hidden


def test_labels_are_told_better_from_each_other() -> None:
    views, y, hidden = twins(150)
    found = {}
    for name, candidates in (("apart", [Candidate()]), ("together", TOGETHER)):
        model = SSHIBA(3, {"x": Real(), "y": Binary()}, search=candidates, random_state=0).fit(views)
        p = np.asarray(model.predict_proba(views, "y", use_target=True))
        found[name] = binary_log_likelihood(y[hidden], p[hidden])
        assert model.n_components_ == 3  # so that the bound is of one model all the way
        assert np.diff(model.elbo_path_).min() > -1e-6
    assert found["together"] > found["apart"] + 0.02


@pytest.mark.filterwarnings("ignore:The bound still rose")
@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_gram_space_says_the_same(weight: float) -> None:
    views, y, _ = twins(80)
    views = {"x": views["x"], "y": np.where(np.arange(80)[:, None] < 60, y, np.nan)}
    bounds = [
        SSHIBA(2, {"y": Binary(weight=weight)}, search=TOGETHER, engine=engine, max_iter=20, random_state=0)
        .fit(views)
        .elbo_
        for engine in ("memory", "gram")
    ]
    np.testing.assert_allclose(*bounds, rtol=1e-9)


@pytest.mark.usefixtures("with_search")
@pytest.mark.filterwarnings("ignore:The bound still rose")
def test_the_search_asks_for_cells_where_cells_are_missing(tmp_path: Path) -> None:
    views, _, _ = twins(120)
    schema, data, index = read_training(views, None, "float64")
    coded = list(data.values())
    auto = without_doubles(candidates_for("auto", None, None), lambda p: schema.model_spec(len(index), p, "exact"))
    spec = schema.model_spec(len(index), Priors(), "exact")
    assert [c.labels_together for c in worth_a_try(auto, coded, spec)] == [False, False, False, True, True]
    few_numbers = coded[0].with_only(np.arange(coded[0].target.size).reshape(coded[0].target.shape) % 3 > 0)
    all_labels = coded[1].take(np.flatnonzero(coded[1].seen_cells.all(axis=1)))
    assert not any(c.labels_together for c in worth_a_try(auto, [few_numbers, all_labels], spec))
    questions = hide_in_turn(coded, spec, np.random.default_rng(0), some_missing=[1])
    asked = [question.hidden[1] for question in questions if 1 in question.hidden]
    np.testing.assert_array_equal(np.sum(asked, axis=0), 2 * coded[1].seen_cells)
    assert [misses_cells(question.shown[1]) for question in questions if 1 in question.hidden] == [
        False,
        True,
        True,
        True,
    ]
    assert without_search(auto, coded, spec) == Candidate(labels_together=True)
    assert without_search(auto, coded[:1], spec) == without_search(auto[:1], coded, spec) == Candidate()
    model = SSHIBA(3, random_state=0, max_iter=12).fit(views)
    assert model.search_["labels_together"].any()
    assert model.fitted_.choice.labels_together
    model.save(tmp_path / "model.sshiba")
    again = load(tmp_path / "model.sshiba")
    np.testing.assert_allclose(*(np.asarray(m.predict_proba(views, "y", use_target=True)) for m in (model, again)))


def test_with_other_latent_views_it_changes_nothing() -> None:
    views, _, _ = twins(30)
    views["kind"] = np.array(list("ab"))[np.arange(30) % 2]
    schema, _, index = read_training(views, {"kind": Categorical(), "x": Real(), "y": Binary()}, "float64")
    spec = TOGETHER[0].spec(lambda priors: schema.model_spec(len(index), priors, "exact"))
    assert {type(view.likelihood) for view in spec.views if view.name == "y"} == {Threshold}
