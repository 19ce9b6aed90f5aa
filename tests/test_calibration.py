"""A sample of calibration/, how its counts add up, and in which views a factor acts; `make calibration` runs it."""

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma as gamma_distribution
from scipy.stats import multivariate_normal

from calibration import factors, predictions
from calibration.cells import N_BINS, count_cells, reliability
from calibration.summary import calibration_error, factor_rows, interval_gaps, prediction_rows, ranks_off
from sshiba import SSHIBA, Priors, Real
from sshiba.core.explained import activity_nats
from sshiba.core.likelihoods import Gaussian
from sshiba.core.spec import ModelSpec, view_spec
from sshiba.core.state import ColumnGroups, Fixed, Gamma, Posterior, ViewPosterior, WeightCovariance


def fitted_weights(x: np.ndarray, z: np.ndarray) -> tuple[Posterior, ModelSpec]:
    """q(w) and q(alpha) of one factor that is known, with noise 1: their updates, repeated."""
    d = x.shape[1]
    spec = view_spec("x", Gaussian(), 1.0, np.full(d, len(z)), np.ones(d), Priors())
    shape, rate = spec.alpha_prior.shape + d / 2, np.ones(1)
    for _ in range(2000):
        variance = 1 / (shape / rate + z @ z)
        mean = variance * (x.T @ z)
        rate = spec.alpha_prior.rate + 0.5 * np.sum(mean**2 + variance).reshape(1)
    groups, one = ColumnGroups.single(d), np.ones((1, 1, 1))
    cov = WeightCovariance(np.sqrt(variance) * one, np.ones((d, 1)), np.full(d, np.log(variance[0])), groups)
    alpha, zeros = Gamma(np.array([shape]), rate), np.zeros(d)
    fixed = Fixed(np.ones(d)), Fixed(np.ones(1))
    view = ViewPosterior(mean[:, None], (mean**2 + variance)[:, None], cov, zeros, zeros, alpha, *fixed)
    return Posterior((view,)), ModelSpec((spec,))


@pytest.mark.parametrize(("d", "size"), [(3, 0.0), (3, 1.0), (20, 0.0), (20, 0.5)])
def test_the_evidence_that_a_factor_acts_is_below_the_true_one(d: int, size: float) -> None:
    """Weights and alpha integrated by quadrature, of features of which one factor is all there is."""
    rng = np.random.default_rng(d)
    z = rng.standard_normal(40)
    x = np.outer(z, size * rng.standard_normal(d)) + rng.standard_normal((40, d))
    posterior, spec = fitted_weights(x, z)
    found = float(activity_nats(posterior, spec)[0, 0])
    shape, rate = Priors().alpha
    idle = multivariate_normal(np.zeros(40)).logpdf(x.T).sum()

    def integrand(u: float) -> float:
        alpha = np.exp(u)
        own = multivariate_normal(np.zeros(40), np.eye(40) + np.outer(z, z) / alpha).logpdf(x.T).sum() - idle
        return np.exp(own + u) * gamma_distribution.pdf(alpha, shape, scale=1 / rate)

    true = np.log(quad(integrand, np.log(1e-6), np.log(2e4), limit=200, points=[0.0, 4.0])[0])
    assert found <= true + 1e-6
    assert (found > np.log(20)) == (size > 0)
    if size:
        assert found > true - 0.3


def test_in_which_views_factors_act() -> None:
    """With 60 rows a factor explains hundredths of a view in which it is not."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((60, 2))
    active = np.array([[1, 1, 0], [0, 1, 1]])
    views = {
        name: z @ (rng.standard_normal((8, 2)) * active[:, m]).T + rng.standard_normal((60, 8))
        for m, name in enumerate("abc")
    }
    model = SSHIBA(5, random_state=0, keep="fewest").fit(views)
    assert sorted(model.active_.to_numpy().tolist()) == sorted(active.astype(bool).tolist())
    assert list(model.active_.index) == ["factor 1", "factor 2"]


def test_a_sample_of_each_suite() -> None:
    found = json.loads(factors.case(3))
    assert found["views"]
    assert set(found["read"]) >= {"noise", "explained"}
    counted = json.loads(predictions.case(0))
    assert {(kind, what) for kind, what, _ in counted} == {("numbers", "hidden"), ("numbers", "new")}
    assert all(len(own["bins"]) == N_BINS and sum(own["bins"]) == own["n"] for _, _, own in counted)
    rows = factor_rows([found], [])
    assert [row[-1] for row in rows] == ["yes", ""]
    assert rows[0][1:3] == ("≥ 95 %", "100.0 % (2.5 to 100.0)")
    assert len(prediction_rows([counted])) == 4


def test_cells_of_a_model_that_is_too_sure_are_counted_so() -> None:
    """The truth is shifted by as much as it varies: ranks are at one end, and fewer cells are held than is said."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4))
    model = SSHIBA(1, {"x": Real()}, search=None, random_state=0).fit({"x": x})
    hidden, all_cells = {"x": np.full((50, 4), np.nan)}, {"x": np.ones((50, 4), dtype=bool)}
    right, wrong = (
        count_cells(model, {"x": rng.standard_normal((50, 4)) + shift}, hidden, all_cells, rng)["x"] for shift in (0, 2)
    )
    assert ranks_off([right]) < 0.12
    assert ranks_off([wrong]) > 0.5
    gap, error = interval_gaps([wrong, right])
    assert (gap[:3] < -5).all()
    assert (error > 0).all()


def test_expected_calibration_error() -> None:
    """Of two bins: said 0.9, happened 0.5; said 0.1, happened 0.1."""
    p = np.repeat([0.9, 0.1], [20, 60])
    happened = np.concatenate([np.arange(20) % 2 == 0, np.arange(60) % 10 == 0])
    parts = [{"probable": reliability(p[some], happened[some])} for some in (slice(0, 30), slice(30, None))]
    error, bias, n = calibration_error(parts, "probable")
    assert n == 80
    np.testing.assert_allclose([error, bias], [0.4 * 20 / 80, 0.4 * 20 / 80], atol=1e-12)
