"""What q(W) q(z) leaves out of the variances of factors and weights: its closed forms, and draws from the posterior."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from sshiba import SSHIBA, load
from sshiba.core.coupling import Coupling, RowVariances, move_variances, rigid_covariance, variance_within_a_mode
from sshiba.core.rigid import Curvature
from sshiba.core.state import EFFECT_PRECISION

N, WIDTHS = 200, {"a": 30, "b": 40}
N_COVARIATES = 12


def test_the_rigid_covariance_is_that_of_two_coupled_blocks() -> None:
    rng = np.random.default_rng(0)
    half = rng.standard_normal((3, 3))
    H = half @ half.T + np.eye(3)
    more = rng.standard_normal((3, 3))
    Q = H + more @ more.T
    B = (Q - H) / 2
    together = np.linalg.inv(np.block([[Q / 2, -B], [-B, Q / 2]]))[:3, :3]
    np.testing.assert_allclose(rigid_covariance(H, Q), together - np.linalg.inv(Q / 2), atol=1e-12)


def test_nothing_is_left_out_where_q_is_no_surer_than_the_bound() -> None:
    np.testing.assert_allclose(rigid_covariance(np.diag([3.0, 1.0]), np.diag([2.0, 1.0])), 0.0, atol=1e-12)


def test_moves_are_those_of_each_pair() -> None:
    """Small ones: they neither reach another order of the factors, nor add up to much."""
    rng = np.random.default_rng(1)
    own, cross = 1e4 * rng.uniform(20, 30, (3, 3)), 1e4 * rng.uniform(-5, 5, (3, 3))
    B, Z = np.diag([5.0, 6.0, 7.0]), 1e4 * np.diag([10.0, 20.0, 30.0])
    found = move_variances(Curvature(own, cross + cross.T), B, Z)
    for j, k in ((0, 1), (2, 0)):
        H = np.array([[own[j, k], (cross + cross.T)[j, k]], [(cross + cross.T)[j, k], own[k, j]]])
        Q = np.diag([B[j, j] * Z[k, k], B[k, k] * Z[j, j]])
        np.testing.assert_allclose([found[j, k], found[k, j]], np.diagonal(rigid_covariance(H, Q)), rtol=1e-4)
    alone = rigid_covariance(own[1:2, 1:2], np.array([[6.0 * 20.0e4]]))
    assert found[1, 1] == pytest.approx(alone[0, 0], rel=1e-12)


@pytest.mark.parametrize("variance", [1e-3, 0.05, 0.4, 100.0])
def test_an_angle_is_a_normal_that_is_cut_off(variance: float) -> None:
    angle = np.linspace(-np.pi / 4, np.pi / 4, 20001)
    p = np.exp(-(angle**2) / (2 * variance))
    assert variance_within_a_mode(np.array(variance)) == pytest.approx(np.sum(p * angle**2) / np.sum(p), rel=1e-3)


def two_views(kind: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A factor of both views, and one of the second; and covariates, or none."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal((N, 2))
    c = rng.standard_normal((N, N_COVARIATES if kind == "covariates" else 0))
    views = {}
    for name, active in (("a", (0.8, 0.0)), ("b", (0.6, 0.9))):
        weights = rng.standard_normal((2, WIDTHS[name])) * np.array(active)[:, None]
        effects = 0.3 * rng.standard_normal((c.shape[1], WIDTHS[name]))
        views[name] = z @ weights + c @ effects + rng.standard_normal((N, WIDTHS[name]))
    if kind == "holes":
        views["a"][rng.random(views["a"].shape) < 0.2] = np.nan
        views["b"][N // 2 :] = np.nan
    return views, c


def fit(kind: str) -> tuple[SSHIBA, dict[str, np.ndarray], np.ndarray]:
    views, c = two_views(kind)
    known = {"covariates": [f"c{i}" for i in range(c.shape[1])]} if c.shape[1] else {}
    given = views | {f"c{i}": c[:, [i]] for i in range(c.shape[1])}
    model = SSHIBA(2, search=None, prune_tol=0.0, random_state=0, **known).fit(given)
    assert model.n_components_ == 2
    return model, views, c


def draws(model: SSHIBA, views: dict[str, np.ndarray], c: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """z, (n, N, K), and W of all views, (n, D, K), drawn from the exact posterior by Gibbs sampling."""
    rng, fitted = np.random.default_rng(0), model.fitted_
    specs, posterior, k = fitted.spec.views[: len(views)], fitted.posterior.views[: len(views)], fitted.n_components
    codings = fitted.schema.codings
    x = np.hstack([(views[name] - codings[name].centre) / codings[name].scale for name in views])
    seen = ~np.isnan(x)
    S, x = seen.astype(float), np.where(seen, x, 0.0)
    c = (c - c.mean(axis=0)) / c.std(axis=0)
    view_of = np.repeat(np.arange(len(specs)), [spec.n_features for spec in specs])
    W, b = np.vstack([q.w_mean for q in posterior]), np.hstack([q.b_mean for q in posterior])
    tau, alpha = np.hstack([q.tau.mean for q in posterior]), np.stack([q.alpha.mean for q in posterior])
    shape = np.hstack([spec.tau_prior.shape for spec in specs])
    rate = np.hstack([spec.tau_prior.rate for spec in specs])
    at, cells = W[:, :k].copy(), S.sum(axis=0)
    kept_z, kept_w = np.empty((n, N, k)), np.empty((n, len(W), k))
    for draw in range(n):
        w, left = W[:, :k], S * (x - b - c @ W[:, k:].T)
        P = np.eye(k) + np.tensordot(S * tau, w[:, :, None] * w[:, None, :], 1)
        z = normal(rng, P, left @ (w * tau[:, None]))
        everything = np.hstack([z, c])
        prior = np.hstack([alpha[view_of], np.full((len(W), c.shape[1]), EFFECT_PRECISION)])
        P = tau[:, None, None] * np.tensordot(S.T, everything[:, :, None] * everything[:, None, :], 1)
        W = normal(rng, P + prior[:, :, None] * np.eye(P.shape[1]), tau[:, None] * ((S * (x - b)).T @ everything))
        off = S * (x - everything @ W.T)
        precision = 1 + cells * tau
        b = tau * off.sum(axis=0) / precision + rng.standard_normal(len(tau)) / np.sqrt(precision)
        tau = rng.gamma(shape + cells / 2) / (rate + np.sum((off - S * b) ** 2, axis=0) / 2)
        for m, spec in enumerate(specs):
            squares = np.sum(W[view_of == m, :k] ** 2, axis=0)
            alpha[m] = rng.gamma(spec.alpha_prior.shape + spec.n_features / 2, size=k)
            alpha[m] /= spec.alpha_prior.rate + squares / 2
        sign = np.where(np.sum(W[:, :k] * at, axis=0) < 0, -1.0, 1.0)
        kept_z[draw], kept_w[draw] = z * sign, W[:, :k] * sign
    return kept_z, kept_w


def normal(rng: np.random.Generator, P: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """A draw from N(P⁻¹ pull, P⁻¹) of each row."""
    half = np.linalg.cholesky(np.linalg.inv(P))
    return np.linalg.solve(P, pull[:, :, None])[:, :, 0] + (half @ rng.standard_normal((*pull.shape, 1)))[:, :, 0]


def size(values: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(values**2)))


@pytest.mark.parametrize("kind", ["complete", "holes", "covariates"])
def test_deviations_are_those_of_draws_from_the_posterior(kind: str) -> None:
    """Those of q are too small by up to a third. With what the two share factors are right to three hundredths,
    weights to a tenth or so.
    """
    model, views, c = fit(kind)
    fitted = model.fitted_
    z, W = (drawn[500:].std(axis=0) for drawn in draws(model, views, c, 4000))
    means, stds = (np.vstack(parts) for parts in zip(*map(fitted.weights, views)))
    of_q = np.vstack([np.sqrt(q.w_second - q.w_mean**2)[:, :2] for q in fitted.posterior.views[:2]])
    for k in range(2):
        strong = np.abs(means[:, k]) > 0.3
        assert size(fitted.factors_std[:, k]) / size(z[:, k]) == pytest.approx(1.0, abs=0.03)
        assert np.sqrt(fitted.coupling.z_variance[k]) < size(fitted.factors_std[:, k])
        assert 0.92 < size(stds[strong, k]) / size(W[strong, k]) < 1.15
        assert size(of_q[strong, k]) / size(W[strong, k]) < 0.85


def test_factors_that_nothing_tells_apart_are_no_less_sure_than_the_prior() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 6)) @ (0.6 * rng.standard_normal((6, 40))) + rng.standard_normal((300, 40))
    model = SSHIBA(6, search=None, prune_tol=0.0, random_state=0).fit(x)
    assert 0.4 < size(np.asarray(model.factors_std_)) < 0.9


def test_a_row_of_which_nothing_is_known_is_as_the_prior_has_it() -> None:
    model, _, _ = fit("complete")
    _, std = model.transform({"a": np.full((1, WIDTHS["a"]), np.nan)}, return_std=True)
    np.testing.assert_allclose(std, 1.0, atol=1e-12)


def test_the_training_rows_are_as_sure_when_they_are_asked_for_again() -> None:
    model, views, _ = fit("holes")
    np.testing.assert_allclose(model.transform(views, return_std=True)[1], model.factors_std_, rtol=1e-6)


def test_files_keep_what_is_shared(tmp_path: Path) -> None:
    model, views, _ = fit("complete")
    model.save(tmp_path / "model.sshiba")
    again = load(tmp_path / "model.sshiba")
    for field in fields(Coupling):
        np.testing.assert_array_equal(
            getattr(again.fitted_.coupling, field.name), getattr(model.fitted_.coupling, field.name)
        )
    np.testing.assert_array_equal(
        again.transform(views, return_std=True)[1], model.transform(views, return_std=True)[1]
    )


def test_without_coupling_deviations_are_those_of_q() -> None:
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal((5, 3)), rng.uniform(0.1, 0.9, (5, 3))
    nothing, widened = Coupling.none(np.ones(3)), std.copy()
    nothing.widen(mean, widened)
    np.testing.assert_allclose(widened, std, rtol=1e-14)
    np.testing.assert_allclose(nothing.weight_std(mean, std**2, np.ones(3)), std, rtol=1e-14)


def test_sums_over_rows_are_taken_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    std = np.random.default_rng(0).uniform(0.1, 0.9, (50, 3))
    whole = RowVariances.of(std)
    monkeypatch.setattr("sshiba.core.coupling.PORTION", 20)
    parts = RowVariances.of(std)
    assert whole is not None
    assert parts is not None
    np.testing.assert_allclose(parts.said, whole.said, rtol=1e-12)
    np.testing.assert_allclose(parts.total, np.sum(std**2, axis=0), rtol=1e-12)
    assert RowVariances.of(np.full((4, 2), np.nan)) is None
