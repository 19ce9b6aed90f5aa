"""What q(W) q(z) leaves out of the variances of factors and weights: its closed forms, and draws from the posterior."""

import numpy as np
import pytest

from sshiba import SSHIBA
from sshiba.core.coupling import Coupling, rigid_covariance, turn_variances
from sshiba.core.rigid import Curvature

N, WIDTHS = 200, {"a": 30, "b": 40}


def test_the_rigid_covariance_is_that_of_two_coupled_blocks() -> None:
    rng = np.random.default_rng(0)
    half = rng.standard_normal((3, 3))
    H = half @ half.T + np.eye(3)
    more = rng.standard_normal((3, 3))
    Q = H + more @ more.T
    C = (Q - H) / 2
    together = np.linalg.inv(np.block([[Q / 2, -C], [-C, Q / 2]]))[:3, :3]
    np.testing.assert_allclose(rigid_covariance(H, Q), together - np.linalg.inv(Q / 2), atol=1e-12)


def test_nothing_is_left_out_where_q_is_no_surer_than_the_bound() -> None:
    np.testing.assert_allclose(rigid_covariance(np.diag([3.0, 1.0]), np.diag([2.0, 1.0])), 0.0, atol=1e-12)


def test_turns_are_those_of_each_pair() -> None:
    rng = np.random.default_rng(1)
    own, cross = rng.uniform(20, 30, (3, 3)), rng.uniform(-5, 5, (3, 3))
    B, Z = np.diag([5.0, 6.0, 7.0]), np.diag([10.0, 20.0, 30.0])
    found = turn_variances(Curvature(own, cross + cross.T), B, Z)
    for j, k in ((0, 1), (2, 0)):
        H = np.array([[own[j, k], (cross + cross.T)[j, k]], [(cross + cross.T)[j, k], own[k, j]]])
        Q = np.diag([B[j, j] * Z[k, k], B[k, k] * Z[j, j]])
        np.testing.assert_allclose([found[j, k], found[k, j]], np.diagonal(rigid_covariance(H, Q)), rtol=1e-12)
    alone = rigid_covariance(own[1:2, 1:2], np.array([[6.0 * 20.0]]))
    assert found[1, 1] == pytest.approx(alone[0, 0], rel=1e-12)


def two_views() -> dict[str, np.ndarray]:
    """A factor of both views, and one of the second."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal((N, 2))
    active = {"a": [0.8, 0.0], "b": [0.6, 0.9]}
    return {
        name: z @ (rng.standard_normal((2, width)) * np.array(active[name])[:, None]) + rng.standard_normal((N, width))
        for name, width in WIDTHS.items()
    }


def draws(model: SSHIBA, views: dict[str, np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray]:
    """z, (n, N, K), and W of all views, (n, D, K), drawn from the exact posterior by Gibbs sampling."""
    rng, fit = np.random.default_rng(0), model.fitted_
    specs, posterior, k = fit.spec.views, fit.posterior, fit.n_components
    x = np.hstack([(views[name] - c.centre) / c.scale for name, c in fit.schema.codings.items()])
    view_of = np.repeat(np.arange(len(specs)), [spec.n_features for spec in specs])
    W, b = np.vstack([q.w_mean for q in posterior.views]), np.hstack([q.b_mean for q in posterior.views])
    tau, alpha = np.hstack([q.tau.mean for q in posterior.views]), np.stack([q.alpha.mean for q in posterior.views])
    shape = np.hstack([spec.tau_prior.shape for spec in specs])
    rate = np.hstack([spec.tau_prior.rate for spec in specs])
    at = W.copy()
    kept_z, kept_w = np.empty((n, N, k)), np.empty((n, *W.shape))
    for draw in range(n):
        P = np.eye(k) + (W * tau[:, None]).T @ W
        half = np.linalg.cholesky(np.linalg.inv(P))
        z = (x - b) @ (W * tau[:, None]) @ np.linalg.inv(P) + rng.standard_normal((N, k)) @ half.T
        P_w = tau[:, None, None] * (z.T @ z) + alpha[view_of][:, :, None] * np.eye(k)
        half_w = np.linalg.cholesky(np.linalg.inv(P_w))
        W = np.linalg.solve(P_w, (tau[:, None] * ((x - b).T @ z))[:, :, None])[:, :, 0]
        W = W + (half_w @ rng.standard_normal((*W.shape, 1)))[:, :, 0]
        precision = 1 + N * tau
        b = tau * np.sum(x - z @ W.T, axis=0) / precision + rng.standard_normal(len(tau)) / np.sqrt(precision)
        tau = rng.gamma(shape + N / 2) / (rate + np.sum((x - z @ W.T - b) ** 2, axis=0) / 2)
        for m, spec in enumerate(specs):
            squares = np.sum(W[view_of == m] ** 2, axis=0)
            alpha[m] = rng.gamma(spec.alpha_prior.shape + spec.n_features / 2, size=k)
            alpha[m] /= spec.alpha_prior.rate + squares / 2
        sign = np.where(np.sum(W * at, axis=0) < 0, -1.0, 1.0)
        kept_z[draw], kept_w[draw] = z * sign, W * sign
    return kept_z, kept_w


def test_deviations_are_those_of_draws_from_the_posterior() -> None:
    """Those of q are too small by a tenth to a fifth; with what the two share they are right to a few hundredths."""
    views = two_views()
    model = SSHIBA(2, search=None, prune_tol=0.0, random_state=0).fit(views)
    fit = model.fitted_
    z, W = (drawn[500:].std(axis=0) for drawn in draws(model, views, 6000))
    means, stds = (np.vstack(parts) for parts in zip(*map(fit.weights, views)))
    of_q = np.vstack([np.sqrt(q.w_second - q.w_mean**2) for q in fit.posterior.views])
    for k in range(2):
        strong = np.abs(means[:, k]) > 0.3
        assert size(fit.z_std[:, k]) / size(z[:, k]) < 0.93
        assert size(of_q[strong, k]) / size(W[strong, k]) < 0.85
        assert size(fit.factors_std[:, k]) / size(z[:, k]) == pytest.approx(1.0, abs=0.03)
        assert size(stds[strong, k]) / size(W[strong, k]) == pytest.approx(0.97, abs=0.03)


def size(values: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(values**2)))


def test_a_row_of_which_nothing_is_known_is_as_the_prior_has_it() -> None:
    views = two_views()
    model = SSHIBA(2, search=None, random_state=0).fit(views)
    _, std = model.transform({"a": np.full((1, WIDTHS["a"]), np.nan)}, return_std=True)
    np.testing.assert_allclose(std, 1.0, atol=1e-12)


def test_without_coupling_deviations_are_those_of_q() -> None:
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal((5, 3)), rng.uniform(0.1, 0.9, (5, 3))
    nothing = Coupling.none(3)
    np.testing.assert_allclose(nothing.factor_std(mean, std), std, rtol=1e-14)
    np.testing.assert_allclose(nothing.weight_std(mean, std**2, np.ones(3)), std, rtol=1e-14)
