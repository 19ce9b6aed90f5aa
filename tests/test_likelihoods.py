"""Every closed form and quadrature of the likelihoods against an independent number."""

import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from cases import coding_of, every_likelihood
from oracle import count_x
from scipy.integrate import IntegrationWarning, quad
from scipy.special import expit, log_ndtr
from scipy.stats import norm
from scipy.stats import poisson as poisson_distribution

from sshiba.core.likelihoods import (
    Censored,
    Gaussian,
    Interval,
    Logistic,
    MultinomialProbit,
    Poisson,
    PredictiveX,
    RowCells,
    Threshold,
    ThresholdTogether,
    interval,
    poisson,
    probit_integrals,
    probit_rows,
    threshold,
)
from sshiba.core.likelihoods.interval import FAR, cut_moments, cut_normal
from sshiba.core.likelihoods.logistic import lambda_xi, logistic_normal
from sshiba.core.likelihoods.poisson_predictive import below, log_probability, log_rate_of, moments
from sshiba.core.likelihoods.probit_integrals import (
    argmax_probabilities,
    class_probabilities,
    compiled,
    probit_moments,
)
from sshiba.core.likelihoods.yes_no import YesNo
from sshiba.data.types import VIEW_TYPES


def test_no_likelihood_escapes_the_list() -> None:
    """A new likelihood needs its witness here: its local bound against the evidence of one cell.

    Those of `ThresholdTogether` are in test_labels_together.py.
    """
    known = {Censored, Gaussian, Interval, Logistic, MultinomialProbit, Poisson, Threshold, ThresholdTogether}
    assert every_likelihood() == known
    assert {type(view().likelihood(coding_of(view(), 3))) for view in VIEW_TYPES.values()} <= known


def test_a_binary_likelihood_is_three_functions() -> None:
    """As CONTRIBUTING says."""
    assert YesNo.__abstractmethods__ == {"infer_x", "predict", "draw"}


# ------------------------------------------------------------------------------------------------- categorical


def reference_moments(y: np.ndarray, i: int) -> tuple[float, np.ndarray]:
    """log ξ and ∇ log ξ by adaptive quadrature around the mode, class by class."""
    delta = y[i] - np.delete(y, i)

    def log_f(u: float) -> float:
        return -u * u / 2 + float(log_ndtr(u + delta).sum())

    grid = np.linspace(-10, 45, 5501)
    mode = grid[np.argmax([log_f(u) for u in grid])]
    top = log_f(mode)

    def integral(g) -> float:
        f = lambda u: np.exp(log_f(u) - top) * g(u)  # noqa: E731
        return quad(f, mode - 9, mode + 9, points=[mode], epsabs=0, epsrel=1e-11, limit=400)[0]

    total = integral(lambda u: 1.0)
    others = np.array([integral(lambda u, d=d: np.exp(norm.logpdf(u + d) - log_ndtr(u + d))) / total for d in delta])
    return np.log(total) + top - 0.5 * np.log(2 * np.pi), np.insert(-others, i, others.sum())


@pytest.mark.parametrize("gap", [0.0, 5.0, 20.0, 30.0])
@pytest.mark.parametrize("n_classes", [2, 3, 16])
def test_probit_moments_against_adaptive_quadrature(n_classes: int, gap: float) -> None:
    """To 1e-6 relative, also where the true class is far below the best."""
    rng = np.random.default_rng(n_classes)
    y = 2 * rng.standard_normal(n_classes)
    y[1] = y.max() - gap
    log_xi, step = probit_moments(y[None], np.array([1]))
    expected_log_xi, expected_step = reference_moments(y, 1)
    assert log_xi[0] == pytest.approx(expected_log_xi, rel=1e-6)
    np.testing.assert_allclose(step[0], expected_step, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 16, 100])
def test_compiled_twin(n_classes: int) -> None:
    """The compiled form equals the array form, also in the far tails and beyond its table."""
    fast = compiled()
    if fast is None:
        pytest.skip("numba is not installed: pip install '.[fast]'")
    rng = np.random.default_rng(n_classes)
    y = rng.standard_normal((400, n_classes)) * rng.choice([0.1, 1, 5, 30], (400, 1))
    target = rng.integers(0, n_classes, 400)
    for ours, theirs in zip(fast.probit_moments(y, target), probit_moments(y, target)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("lowest", [-7.999, -3.0, 0.0, 6.0])
def test_three_classes_in_closed_form_equal_the_integrals(lowest: float) -> None:
    """log ξ, its gradient and its Hessian by Plackett's formula, down to where nodes take over, against 200 nodes."""
    if compiled() is None:
        pytest.skip("numba is not installed: pip install '.[fast]'")
    from sshiba.core.likelihoods.normal_compiled import TABLE
    from sshiba.core.likelihoods.probit_few_compiled import three_classes

    rng = np.random.default_rng(0)
    deltas = np.stack([np.full(50, lowest), lowest + rng.exponential(3.0, 50)], axis=1)
    y = np.concatenate([np.zeros((50, 1)), -deltas], axis=1)
    target = np.zeros(50, dtype=int)
    expected, step = probit_moments(y, target, 200)
    hessian = probit_integrals.probit_curvature(y, target, True)[3]
    for row, delta in enumerate(deltas):
        log_xi, *means, own_1, own_2, mixed = three_classes(*delta, TABLE)
        assert log_xi == pytest.approx(expected[row], rel=1e-9, abs=1e-11)
        np.testing.assert_allclose(means, -step[row, 1:], rtol=1e-8, atol=1e-12)
        found = np.array([[own_1, mixed], [mixed, own_2]]) - np.outer(means, means)
        np.testing.assert_allclose(found, hessian[row, 1:, 1:], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("excess", [0.0, 1e-16, 1e-10])
def test_classes_that_others_tell_fully_have_finite_moments(n_classes: int, excess: float) -> None:
    """A leverage of 1, as far as rounding can tell: of a precision of 0, or just below it."""
    precision = np.full((1, n_classes, n_classes), (1 + excess) / n_classes)
    precision[:, range(n_classes), range(n_classes)] -= excess
    x, y = np.linspace(1, -1, n_classes)[None], np.linspace(2, 0, n_classes)[None]
    for form in ("compiled", "arrays"):
        with pytest.MonkeyPatch.context() as patch:
            if form == "arrays":
                patch.setattr(probit_rows, "compiled", lambda: None)
            for found in probit_rows.update_rows(np.array([0]), x, y, precision, True):
                assert np.isfinite(found).all()


@pytest.mark.parametrize("n_classes", [1, 2, 3, 16])
def test_compiled_class_probabilities(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled form equals the array form, with classes far apart and of very unequal spread."""
    if compiled() is None:
        pytest.skip("numba is not installed: pip install '.[fast]'")
    rng = np.random.default_rng(n_classes)
    y = rng.standard_normal((60, n_classes)) * rng.choice([0.1, 1, 10], (60, 1))
    A = rng.standard_normal((60, n_classes, max(0, n_classes - 2)))
    std = rng.choice([0.02, 1.0, 3.0], (60, n_classes))
    fast = [class_probabilities(y, factor, std) for factor in (A, A[:1])]
    monkeypatch.setattr(probit_integrals, "compiled", lambda: None)
    for ours, factor in zip(fast, (A, A[:1])):
        slow = class_probabilities(y, factor, std)
        np.testing.assert_allclose(ours, slow, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(slow.sum(axis=1), 1)


def test_probit_step_is_the_gradient() -> None:
    rng = np.random.default_rng(0)
    y, target = 3 * rng.standard_normal((6, 5)), rng.integers(0, 5, 6)
    for d in range(5):
        h = 1e-5 * np.eye(5)[d]
        numeric = (probit_moments(y + h, target)[0] - probit_moments(y - h, target)[0]) / 2e-5
        np.testing.assert_allclose(probit_moments(y, target)[1][:, d], numeric, rtol=1e-6, atol=1e-9)


def test_probit_probabilities_sum_to_one_and_agree() -> None:
    rng = np.random.default_rng(0)
    y = 3 * rng.standard_normal((50, 16))
    p = np.exp([probit_moments(y, np.full(50, i))[0] for i in range(16)]).T
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-7)
    np.testing.assert_allclose(argmax_probabilities(y, np.ones_like(y)), p, atol=1e-7)


def test_argmax_probabilities_with_unequal_spread() -> None:
    rng = np.random.default_rng(0)
    y, std = np.array([[0.0, 1.0, -0.5]]), np.array([[2.0, 0.3, 1.0]])
    draws = y + std * rng.standard_normal((400_000, 3))
    np.testing.assert_allclose(
        argmax_probabilities(y, std)[0], np.bincount(draws.argmax(1), minlength=3) / 400_000, atol=0.003
    )


@pytest.mark.parametrize(("n_classes", "n"), [(2, 9), (3, 2), (5, 40)])
def test_rows_of_a_class_start_alike(n_classes: int, n: int) -> None:
    """One row of each class is inferred; others are to the last bit as if they had been, too."""
    target = np.random.default_rng(0).integers(0, n_classes, n)
    likelihood, tau = MultinomialProbit(), np.ones(1)
    y = likelihood.start_y(target, np.zeros((n, n_classes)))
    alike, each = likelihood.start_x(target, y, tau, None), likelihood.infer_x(target, y, tau, None)
    for name in ("mean", "second", "bound"):
        np.testing.assert_array_equal(getattr(alike, name), getattr(each, name))


def test_categorical_second_moment_and_bound() -> None:
    """E|x|² against draws; and, q(x) being exact, the local bound at its own y is log p(t)."""
    rng = np.random.default_rng(0)
    y = np.array([[0.3, -0.2, 0.8, 0.0]])
    x = MultinomialProbit().infer_x(np.array([1]), y, np.ones(1), None)
    draws = y + rng.standard_normal((2_000_000, 4))
    kept = draws[draws.argmax(1) == 1]
    np.testing.assert_allclose(x.mean[0], kept.mean(0), atol=0.01)
    assert x.second.sum() == pytest.approx((kept**2).sum(1).mean(), abs=0.02)
    gaussian = -0.5 * (4 * np.log(2 * np.pi) + (x.second - 2 * x.mean * y + y * y).sum())
    assert float(x.bound[0, 0]) + gaussian == pytest.approx(np.log(len(kept) / len(draws)), abs=0.01)
    assert float(x.bound[0, 0]) + gaussian == pytest.approx(probit_moments(y, np.array([1]))[0][0], rel=1e-12)


@pytest.mark.parametrize(("n_classes", "tolerance"), [(2, 0.003), (3, 0.004), (10, 0.008)])
def test_class_probabilities_are_those_of_draws(n_classes: int, tolerance: float) -> None:
    """All four sources of variance, classes correlated through z."""
    rng = np.random.default_rng(0)
    mean, z_factor = rng.standard_normal((1, n_classes)), 0.7 * rng.standard_normal((1, n_classes, 4))
    own_var, noise_var = rng.random((1, n_classes)), np.ones(n_classes)
    p, _ = MultinomialProbit().predict(PredictiveX(mean, z_factor, own_var, noise_var))
    n = 400_000
    own = np.sqrt(own_var + noise_var) * rng.standard_normal((n, n_classes))
    x = mean + rng.standard_normal((n, 4)) @ z_factor[0].T + own
    np.testing.assert_allclose(p[0], np.bincount(x.argmax(1), minlength=n_classes) / n, atol=tolerance)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_probabilities_of_more_classes_than_factors(rank: int) -> None:
    """As from the eigenvectors of the covariance of the classes itself."""
    rng = np.random.default_rng(rank)
    mean, z_factor, own_var = rng.standard_normal((6, 8)), rng.standard_normal((6, 8, rank)), rng.random((6, 8))
    p, _ = MultinomialProbit().predict(PredictiveX(mean, z_factor, own_var, np.ones(8)))
    centred = z_factor - z_factor.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(centred @ np.swapaxes(centred, 1, 2))
    A = np.flip(vectors * np.sqrt(np.maximum(values, 0))[:, None, :], axis=2)[:, :, :rank]
    A = np.where(A.max(axis=1, keepdims=True) < -A.min(axis=1, keepdims=True), -A, A)
    np.testing.assert_allclose(p, class_probabilities(mean, A, np.sqrt(own_var + 1)), atol=1e-10)


def test_many_classes_need_no_matrix_of_classes() -> None:
    rng = np.random.default_rng(0)
    x = PredictiveX(rng.standard_normal((50, 400)), rng.standard_normal((50, 400, 3)), np.ones((50, 400)), np.ones(400))
    MultinomialProbit().predict(x)  # compiled
    tracemalloc.start()
    MultinomialProbit().predict(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 50 * 400 * 100


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_probit_curvature_is_the_derivative_of_the_step(n_classes: int) -> None:
    """By finite differences; each Hessian, their sum and their traces; two classes in closed form, too."""
    rng = np.random.default_rng(n_classes)
    y, t = 2 * rng.standard_normal((30, n_classes)), rng.integers(0, n_classes, 30)
    small = 1e-5 * np.eye(n_classes)
    for find in (probit_integrals.probit_curvature, probit_integrals.two_class_curvature)[: 3 - min(n_classes, 2)]:
        log_xi, step, trace, hessian = find(y, t, True)
        ahead, behind = (np.stack([probit_moments(y + sign * e, t)[1] for e in small], axis=2) for sign in (1, -1))
        np.testing.assert_allclose(hessian, (ahead - behind) / 2e-5, atol=1e-8)
        np.testing.assert_allclose(trace, np.trace(hessian, axis1=1, axis2=2), atol=1e-12)
        np.testing.assert_allclose((log_xi, *step.T), (probit_moments(y, t)[0], *probit_moments(y, t)[1].T), atol=1e-9)
        np.testing.assert_allclose(find(y, t, False)[3], hessian.sum(axis=0, keepdims=True), atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("shared", [True, False])
def test_compiled_rows_of_classes_equal_those_of_arrays(
    n_classes: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled() is None:
        pytest.skip("numba is not installed: pip install '.[fast]'")
    rng = np.random.default_rng(n_classes)
    W = rng.standard_normal((1 if shared else 30, n_classes, 2))
    P = np.eye(n_classes) - W @ np.linalg.inv(np.eye(2) + np.swapaxes(W, 1, 2) @ W) @ np.swapaxes(W, 1, 2)
    x, y = rng.standard_normal((2, 30, n_classes))
    t = rng.integers(0, n_classes, 30)
    for each in (True, False) if shared else (True,):
        fast = probit_rows.update_rows(t, x, y, P, each)
        with monkeypatch.context() as patch:
            patch.setattr(probit_rows, "compiled", lambda: None)
            for ours, theirs in zip(fast, probit_rows.update_rows(t, x, y, P, each), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_of_classes_among_others_are_nearly_exact(n_classes: int) -> None:
    """log ∫ over the cone of exp(−½ xᵀPx + ηᵀx), by draws: the bound is below it, and closer than with q(z) q(x)."""
    rng = np.random.default_rng(0)
    W = 1.5 * rng.standard_normal((n_classes, 2))
    P = np.eye(n_classes) - W @ np.linalg.inv(np.eye(2) + W.T @ W) @ W.T
    eta, t, x = rng.standard_normal(n_classes), np.array([1]), np.zeros((1, n_classes))
    leverage = np.eye(n_classes)[None] - P
    for _ in range(300):
        cells = RowCells(t, x, x + eta - x @ P, None, leverage, None, np.ones(1), 1.0)
        found = MultinomialProbit().infer_rows(cells, each=True)
        x = found.mean
    reached = found.bound[0] - 0.5 * np.trace(P @ (found.cov[0] + np.outer(x, x))) + eta @ x[0]
    plain = np.zeros((1, n_classes))
    for _ in range(3000):
        q = MultinomialProbit().infer_x(t, plain + eta - plain @ P, np.ones(1), None)
        plain = q.mean
    # Of q(z) q(x) the form is −½ E|x|² + ½ <x>ᵀ(I − P)<x>: z hears the mean of x alone.
    mean_field = (
        q.bound[0, 0] - 0.5 * q.second.sum() + 0.5 * plain[0] @ (np.eye(n_classes) - P) @ plain[0] + eta @ plain[0]
    )
    cov = np.linalg.inv(P)
    draws = rng.multivariate_normal(cov @ eta, cov, 2_000_000)
    exact = np.log(np.mean(draws.argmax(axis=1) == 1)) + 0.5 * eta @ cov @ eta
    exact += 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    assert reached <= exact + 0.005
    assert exact - reached < 0.25 * (exact - mean_field)
    kept = draws[draws.argmax(axis=1) == 1]
    np.testing.assert_allclose(x[0], kept.mean(axis=0), atol=0.15)
    np.testing.assert_allclose(np.diag(found.cov[0]), kept.var(axis=0), rtol=0.4)


# ------------------------------------------------------------------------------------------------------ binary


@pytest.mark.parametrize("t", [0.0, 1.0])
@pytest.mark.parametrize(("y", "tau"), [(0.0, 1.0), (2.5, 1.0), (-8.0, 0.3), (1.0, 10.0)])
def test_threshold_moments_and_bound(y: float, tau: float, t: float) -> None:
    """q(x) is exact: E log N(x|y) + its bound is log Φ; its moments by quadrature."""
    x = Threshold().infer_x(np.array([[t]]), np.array([[y]]), np.array([tau]), None)
    gaussian = 0.5 * (np.log(tau / (2 * np.pi)) - tau * (x.second - 2 * x.mean * y + y * y))
    log_p = float(log_ndtr((2 * t - 1) * y * tau**0.5))
    assert float((x.bound + gaussian)[0, 0]) == pytest.approx(log_p, rel=1e-9, abs=1e-12)
    reach = 12 / tau**0.5
    low, high = (0.0, max(y, 0) + reach) if t else (min(y, 0) - reach, 0.0)
    mean, second = (
        quad(lambda u, k=k: u**k * np.exp(norm.logpdf(u, y, tau**-0.5) - log_p), low, high, limit=400, epsabs=0)[0]
        for k in (1, 2)
    )
    assert float(x.mean[0, 0]) == pytest.approx(mean, rel=1e-6)
    assert float(x.second[0, 0]) == pytest.approx(second, rel=1e-6)


@pytest.mark.parametrize("t", [0.0, 1.0])
@pytest.mark.parametrize(("y", "tau"), [(0.0, 1.0), (2.5, 1.0), (-4.0, 0.3), (1.0, 10.0)])
def test_binary_bound_is_below_the_evidence_and_close(y: float, tau: float, t: float) -> None:
    """Iterated to its optimum, E log N(x|y) + the local bound ≤ log ∫ σ(x)^t (1 − σ(x))^(1−t) N(x|y, 1/tau) dx."""
    xi = None
    for _ in range(500):
        x = Logistic().infer_x(np.array([[t]]), np.array([[y]]), np.array([tau]), xi)
        xi = x.xi
    gaussian = 0.5 * (np.log(tau / (2 * np.pi)) - tau * (x.second - 2 * x.mean * y + y * y))
    bound = float((x.bound + gaussian)[0, 0])
    sign = 2 * t - 1
    evidence = quad(lambda u: expit(sign * u) * norm.pdf(u, y, tau**-0.5), y - 12 / tau**0.5, y + 12 / tau**0.5)[0]
    assert bound <= np.log(evidence) + 1e-9
    assert bound >= np.log(evidence) - 0.15


def test_binary_local_bound_by_quadrature() -> None:
    """E log h(x, ξ) + H[q] with q = N(μ, s), integrated numerically."""
    x = Logistic().infer_x(np.ones((1, 1)), np.full((1, 1), 0.4), np.full(1, 2.0), np.full((1, 1), 0.7))
    mu, xi = x.mean[0, 0], x.xi[0, 0]
    s = x.second[0, 0] - mu**2
    lam = float(lambda_xi(np.array(xi)))

    def integrand(u: float) -> float:
        log_h = np.log(expit(xi)) + u - (u + xi) / 2 - lam * (u * u - xi * xi)
        return norm.pdf(u, mu, s**0.5) * (log_h - norm.logpdf(u, mu, s**0.5))

    assert x.bound[0, 0] == pytest.approx(quad(integrand, mu - 10, mu + 10, epsabs=1e-12)[0], rel=1e-9)


def test_lambda_is_smooth_at_zero() -> None:
    xi = np.array([0.0, 1e-9, 0.99e-4, 1.01e-4, 0.1])
    exact = np.where(xi > 0, np.tanh(xi / 2) / np.where(xi > 0, 4 * xi, 1), 0.125)
    np.testing.assert_allclose(lambda_xi(xi), exact, rtol=1e-9)


@pytest.mark.parametrize("std", [0.01, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("mean", [-6.0, 0.0, 1.5])
def test_logistic_normal_against_quadrature(mean: float, std: float) -> None:
    exact = quad(
        lambda u: expit(u) * norm.pdf(u, mean, std), mean - 12 * std, mean + 12 * std, epsabs=1e-13, limit=500
    )[0]
    assert logistic_normal(np.array([mean]), np.array([std**2]))[0] == pytest.approx(exact, abs=1e-5)


# ----------------------------------------------------------------------------------------------------- ordinal


def cut_by_quadrature(a: float, b: float) -> tuple[float, float, float]:
    """Mean, variance and log mass, integrated from the end with the higher density, relative to the density there."""
    if a + b > 0:
        mean, var, log_mass = cut_by_quadrature(-b, -a)
        return -mean, var, log_mass
    top = min(b, 0.0)
    reach = min(b - a, 40 / max(1.0, -top)) if b <= 0 else 40.0
    low, high = max(a, top - reach), min(b, 12.0)
    parts = np.linspace(low, high, 9)

    def integral(f) -> float:
        weighted = lambda u: f(u) * np.exp((top - u) * (top + u) / 2)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IntegrationWarning)  # of intervals of no width: as exact as doubles are
            return sum(quad(weighted, *piece, epsabs=0, epsrel=1e-13)[0] for piece in pairwise(parts))

    total = integral(lambda u: 1.0)
    mean = top + integral(lambda u: u - top) / total
    var = integral(lambda u: (u - mean) ** 2) / total
    return mean, var, np.log(total) - top**2 / 2 - 0.5 * np.log(2 * np.pi)


@pytest.mark.parametrize("width", [1e-6, 1e-3, 0.1, 0.7, 1.0, 1.5, 3.0, 20.0])
@pytest.mark.parametrize("middle", [-30.0, -8.0, -2.0, -0.3, 0.0, 0.6, 3.0, 30.0])
def test_cut_normal_against_quadrature(middle: float, width: float) -> None:
    """To 1e-10, also far out and in intervals of no width."""
    a, b = middle - width / 2, middle + width / 2
    mean, var, log_mass = (float(part[0]) for part in cut_normal(np.array([a]), np.array([b])))
    expected_mean, expected_var, expected_log_mass = cut_by_quadrature(a, b)
    assert mean == pytest.approx(expected_mean, abs=1e-10)
    assert var == pytest.approx(expected_var, abs=1e-10, rel=1e-7 if width > 1e-3 else 1e-3)
    assert log_mass == pytest.approx(expected_log_mass, rel=1e-10, abs=1e-10)
    assert a <= mean <= b
    assert 0 < var <= width**2 / 4


@pytest.mark.parametrize("edge", [-30.0, -3.0, 0.0, 1.0, 7.0, 9.0, 30.0])
def test_cut_normal_with_one_end(edge: float) -> None:
    """Below or above an edge, as `Threshold` has it; without edges the normal itself."""
    for a, b, sign in ((-FAR, edge, 1), (edge, FAR, -1)):
        mean, var, log_mass = (float(part[0]) for part in cut_normal(np.array([a]), np.array([b])))
        rho = np.exp(norm.logpdf(edge) - log_ndtr(sign * edge))
        assert mean == pytest.approx(-sign * rho, rel=1e-10, abs=1e-12)
        assert var == pytest.approx(1 - sign * edge * rho - rho**2, abs=1e-9)
        assert log_mass == pytest.approx(log_ndtr(sign * edge), rel=1e-10, abs=1e-14)
    free = [float(part[0]) for part in cut_normal(np.array([-FAR]), np.array([FAR]))]
    np.testing.assert_allclose(free, [0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("of_cells", [False, True])
def test_compiled_thresholds_equal_those_of_arrays(of_cells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a precision for each feature or each cell, far out, of columns of a larger array, in single precision."""
    if threshold.compiled() is None:
        pytest.skip("numba is not installed")
    rng = np.random.default_rng(0)
    y, target = rng.uniform(-60, 60, (50, 9)), (rng.random((50, 9)) < 0.5).astype(float)
    y[:25] /= 20
    tau = rng.uniform(0.1, 3, (50, 9) if of_cells else 9)
    for some, dtype, rtol in (
        (slice(None), np.float64, 1e-9),
        (slice(2, 6), np.float64, 1e-9),
        (slice(None), "f4", 1e-4),
    ):
        cells = target[:, some], y[:, some].astype(dtype, order="A"), tau[..., some], None
        found = Threshold().infer_x(*cells)
        with monkeypatch.context() as patch:
            patch.setattr(threshold, "compiled", lambda: None)
            expected = Threshold().infer_x(*(cells[0], cells[1].astype(float), *cells[2:]))
        for name in ("mean", "second", "bound"):
            mine, theirs = getattr(found, name), getattr(expected, name)
            assert mine.dtype == dtype
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=10 * rtol)


def test_compiled_cut_normals_equal_those_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any width, anywhere, in either order of memory, in single precision, too."""
    if interval.compiled() is None:
        pytest.skip("numba is not installed")
    rng = np.random.default_rng(0)
    middle, width = rng.uniform(-45, 45, (40, 60)), 10 ** rng.uniform(-4, 1.5, (40, 60))
    a, b = middle - width / 2, np.where(rng.random(width.shape) < 0.2, FAR, middle + width / 2)
    for order, dtype, rtol in (("C", np.float64, 1e-9), ("F", np.float64, 1e-9), ("C", np.float32, 1e-5)):
        edges = [np.asarray(edge, order=order, dtype=dtype) for edge in (a, b)]
        found = cut_moments(*edges)
        with monkeypatch.context() as patch:
            patch.setattr(interval, "compiled", lambda: None)
            expected = cut_normal(*(edge.astype(np.float64) for edge in edges))
        for mine, theirs, scale in zip(found, expected, (1.0, 0.1, 1.0)):
            assert mine.dtype == dtype
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * scale)


CUTS = ((-0.5,), (), (-1.0, 0.2, 0.3), (0.0, 1.0))


@pytest.mark.parametrize("tau", [0.3, 1.0, 50.0])
def test_interval_bound_is_log_p(tau: float) -> None:
    """q(x) is exact: E log N(x|y) + its bound is the log probability of the level; its mean by finite differences."""
    likelihood = Interval(CUTS)
    rng = np.random.default_rng(0)
    y = 2 * rng.standard_normal((40, 4))
    target = likelihood.starts + rng.integers(0, 10, y.shape) % likelihood.n_levels
    precision = np.full(4, tau)
    x = likelihood.infer_x(target, y, precision, None)
    gaussian = 0.5 * (np.log(tau / (2 * np.pi)) - tau * (x.second - 2 * x.mean * y + y * y))

    def log_p(y: np.ndarray) -> np.ndarray:
        return cut_normal(*(tau**0.5 * (edges[target] - y) for edges in (likelihood.lower, likelihood.upper)))[2]

    np.testing.assert_allclose(x.bound + gaussian, log_p(y), rtol=1e-9, atol=1e-9)
    step = 1e-5
    slope = (log_p(y + step) - log_p(y - step)) / (2 * step)  # d log p / dy = tau (E[x] − y)
    np.testing.assert_allclose(x.mean, y + slope / tau, atol=1e-6)
    curvature = (log_p(y + 1e-4) - 2 * log_p(y) + log_p(y - 1e-4)) / 1e-8  # tau² Var x − tau
    np.testing.assert_allclose(x.second - x.mean**2, (curvature + tau) / tau**2, atol=1e-5 / tau)


@pytest.mark.parametrize("by_arrays", [False, True])
def test_slopes_of_levels_by_finite_differences(by_arrays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of <x> in y and log tau, and of E(x − y)² in log tau."""
    if by_arrays:
        monkeypatch.setattr(interval, "compiled", lambda: None)
    likelihood, rng, step = Interval(CUTS), np.random.default_rng(0), 1e-5
    y, tau = 2 * rng.standard_normal((40, 4)), 10 ** rng.uniform(-1, 1, (40, 4))
    target = likelihood.starts + rng.integers(0, 10, y.shape) % likelihood.n_levels

    def moments(y: np.ndarray, tau: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = likelihood.infer_x(target, y, tau, None)
        return x.mean, x.second - 2 * x.mean * centre + centre**2

    x = likelihood.infer_x(target, y, tau, None)
    above, below = moments(y + step, tau, y), moments(y - step, tau, y)
    np.testing.assert_allclose(x.slope, (above[0] - below[0]) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(-2 * x.pull, (above[1] - below[1]) / (2 * step), atol=1e-6)
    above, below = (moments(y, tau * np.exp(sign * step), y) for sign in (1, -1))
    np.testing.assert_allclose(x.pull, (above[0] - below[0]) / (2 * step), atol=1e-6)
    np.testing.assert_allclose(x.drift, (above[1] - below[1]) / (2 * step), atol=1e-6)


def test_level_probabilities_are_those_of_draws() -> None:
    """Probabilities, deviations, the median, the mode, the draw and the loss, of columns of 2, 1, 4 and 3 levels."""
    rng = np.random.default_rng(0)
    likelihood = Interval(CUTS)
    mean, z_factor, own_var = rng.standard_normal((1, 4)), 0.7 * rng.standard_normal((1, 4, 2)), rng.random((1, 4))
    p, std = likelihood.predict(PredictiveX(mean, z_factor, own_var, np.full(4, 0.5)))
    n = 400_000
    x = mean + rng.standard_normal((n, 2)) @ z_factor[0].T + np.sqrt(own_var + 0.5) * rng.standard_normal((n, 4))
    drawn = likelihood.draw(x, rng)
    np.testing.assert_allclose(p[0], np.bincount(drawn.ravel(), minlength=10) / n, atol=0.003)
    np.testing.assert_allclose(np.add.reduceat(p[0], likelihood.starts), 1, rtol=1e-12)
    np.testing.assert_allclose(std[0], drawn.std(axis=0), atol=0.01)
    np.testing.assert_array_equal(likelihood.decide(p)[0], likelihood.draw(mean, rng)[0])
    np.testing.assert_array_equal(likelihood.decide(p)[0], np.median(drawn, axis=0))
    likeliest = [first + np.argmax(p[0, likelihood.levels_of(d)]) for d, first in enumerate(likelihood.starts)]
    np.testing.assert_array_equal(Interval(CUTS, mode=True).decide(p)[0], likeliest)
    np.testing.assert_allclose(likelihood.losses(drawn[:5], np.repeat(p, 5, axis=0), std), -np.log(p[0, drawn[:5]]))


# ------------------------------------------------------------------------------------------------------- counts


def count_bound(m: float, v: float, t: float, offset: float, y: float, tau: float) -> float:
    """E log Poisson(t | e^(x + offset)) + H[q] + E log N(x | y, 1/tau) under N(m, v), by quadrature."""

    def integrand(u: float) -> float:
        log_p = poisson_distribution.logpmf(t, np.exp(u + offset)) + norm.logpdf(u, y, tau**-0.5)
        return norm.pdf(u, m, v**0.5) * (log_p - norm.logpdf(u, m, v**0.5))

    return quad(integrand, m - 12 * v**0.5, m + 12 * v**0.5, epsabs=1e-11, limit=400)[0]


COUNT_CELLS = [
    (0.0, -4.0, 0.3, 0.8),
    (0.0, 2.0, 1.5, 0.4),
    (1.0, -6.0, 0.0, 1.0),
    (7.0, 0.5, 1.0, 3.0),
    (40.0, 1.0, -2.0, 0.2),
    (3.0, 1.1, 0.0, 200.0),
]


@pytest.mark.parametrize("cell", COUNT_CELLS)
@pytest.mark.parametrize("fast", [True, False])
def test_count_cells_are_the_best_normal_ones(cell: tuple, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound by quadrature; no other mean or variance does better; below the evidence, and close to it."""
    if not fast:
        monkeypatch.setattr(poisson, "compiled", lambda: None)
    t, offset, y, tau = cell
    target = poisson.Counts(np.array([[t]]), np.array([[0.25]]), np.array([[offset - 0.25]]))
    x = Poisson((offset,)).infer_x(target, np.array([[y]]), np.array([tau]), None)
    m, v = x.mean[0, 0], x.second[0, 0] - x.mean[0, 0] ** 2
    gaussian = 0.5 * (np.log(tau / (2 * np.pi)) - tau * (x.second - 2 * x.mean * y + y * y))
    bound = float((x.bound + gaussian)[0, 0])
    assert bound == pytest.approx(count_bound(m, v, t, offset, y, tau), abs=1e-8)
    for dm, dv in ((1e-3, 0.0), (0.0, 1e-3)):
        ahead, behind = (count_bound(m + h * dm, v * np.exp(h * dv), t, offset, y, tau) for h in (1, -1))
        assert ahead - behind == pytest.approx(0, abs=1e-7 * (1 + t))
        assert max(ahead, behind) < bound
    reach = 14 / tau**0.5
    evidence = quad(
        lambda u: np.exp(poisson_distribution.logpmf(t, np.exp(u + offset)) + norm.logpdf(u, y, tau**-0.5)),
        y - reach, y + reach, points=[m], epsabs=0, limit=800,
    )[0]  # fmt: skip
    assert -0.06 < bound - np.log(evidence) <= 1e-9


def extreme_counts() -> tuple[poisson.Counts, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    t = np.where(rng.random((300, 20)) < 0.4, 0, np.floor(10 ** rng.uniform(0, 6.3, (300, 20))))
    tau = 10 ** rng.uniform(-2.5, 4, (300, 20))
    offsets = rng.uniform(-5, 5, (300, 1)), rng.uniform(-9, 9, (1, 20))
    return poisson.Counts(t, *offsets), rng.uniform(-12, 8, (300, 20)), tau


def test_extreme_counts_have_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 0 to millions as the oracle has them; the compiled form is that of arrays."""
    target, y, tau = extreme_counts()
    fast = Poisson(()).infer_x(target, y, tau, None)
    one_tau = Poisson(()).infer_x(target, y, tau[0], None)
    monkeypatch.setattr(poisson, "compiled", lambda: None)
    slow = Poisson(()).infer_x(target, y, tau, None)
    for name in ("mean", "second", "bound"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(one_tau.mean, Poisson(()).infer_x(target, y, tau[0], None).mean, rtol=1e-9, atol=1e-9)
    offset = target.log_size + target.log_mean
    for i in range(300):
        cell = count_x(target.cells[i, 0], offset[i, 0], y[i, 0], tau[i, 0])
        assert slow.mean[i, 0] == pytest.approx(cell.mean, rel=1e-8, abs=1e-8)
        assert slow.bound[i, 0] == pytest.approx(cell.bound, abs=1e-10 * (1e3 + target.cells[i, 0]))


@pytest.mark.parametrize("guess", [None, 0.01, 30.0])
def test_a_guess_of_x_changes_nothing(guess: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells whose x varies with less precision than their mean, from nowhere, from near by and from far off."""
    target, y, tau = extreme_counts()
    free = np.random.default_rng(1).uniform(0.05, 1, (1, 20))
    with monkeypatch.context() as patch:
        patch.setattr(poisson, "compiled", lambda: None)
        slow = Poisson(()).follow_y(target, y, tau, free)
    off = np.random.default_rng(2).standard_normal(y.shape)
    fast = Poisson(()).follow_y(target, y, tau, free, None if guess is None else slow.mean + guess * off)
    for name in ("mean", "second", "bound", "slope", "drift"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("free", [1.0, 0.3])
def test_how_counts_follow_their_predictor(free: float) -> None:
    """`follow_y` has the highest bound, and its slopes are those of finite differences."""
    t, offset, y, tau = (np.array([column]) for column in zip(*COUNT_CELLS))
    target, free_of = poisson.Counts(t, np.zeros((1, 1)), offset), np.full((1, len(COUNT_CELLS)), free)
    x = Poisson(()).follow_y(target, y, tau, free_of)
    var = x.second - x.mean**2

    def value(m: np.ndarray, v: np.ndarray) -> np.ndarray:
        return t * (m + offset) - np.exp(m + offset + v / 2) + np.log(v) / 2 - tau / 2 * ((m - y) ** 2 + free * v)

    for m, v in ((x.mean + 1e-3, var), (x.mean - 1e-3, var), (x.mean, 1.01 * var), (x.mean, var / 1.01)):
        assert (value(m, v) < value(x.mean, var)).all()

    def distance(log_tau: float) -> np.ndarray:
        own = Poisson(()).follow_y(target, y, tau * np.exp(log_tau), free_of)
        return (own.mean - y) ** 2 + free * (own.second - own.mean**2)

    ahead, behind = (Poisson(()).follow_y(target, y + h, tau, free_of).mean for h in (1e-5, -1e-5))
    np.testing.assert_allclose(x.slope, (ahead - behind) / 2e-5, atol=1e-7)
    np.testing.assert_allclose(x.drift, (distance(1e-5) - distance(-1e-5)) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("var", [1e-3, 0.3, 1.2, 4.0])
@pytest.mark.parametrize("m", [-6.0, -0.5, 1.0, 5.0])
def test_predicted_counts_by_quadrature(m: float, var: float) -> None:
    """Mean, deviation, log-likelihood and distribution function of a Poisson with a log-normal rate."""
    mean, std = (float(part) for part in moments(np.array(m), np.array(var)))

    def expected(f) -> float:
        reach = 11 * var**0.5
        parts = np.linspace(m - reach, m + reach, 9)
        weighted = lambda u: f(np.exp(u)) * norm.pdf(u, m, var**0.5)  # noqa: E731
        return sum(quad(weighted, *piece, epsabs=0)[0] for piece in pairwise(parts))

    assert mean == pytest.approx(expected(lambda rate: rate), rel=1e-6)
    assert std**2 == pytest.approx(expected(lambda rate: rate + rate**2) - mean**2, rel=1e-5)
    np.testing.assert_allclose(log_rate_of(np.array(mean), np.array(std)), (m, var), rtol=1e-6, atol=1e-6)
    for t in (0, 1, 3, 30, 500):
        p = expected(lambda rate, t=t: poisson_distribution.pmf(t, rate))
        if p > 1e-12:
            assert log_probability(np.array(t), mean, std) == pytest.approx(np.log(p), abs=2e-3)
    cdf = expected(lambda rate: poisson_distribution.cdf(2, rate))
    assert float(below(np.array(2), np.array(mean), np.array(std))) == pytest.approx(cdf, abs=5e-3)
    assert float(below(np.array(-1), np.array(mean), np.array(std))) == 0


def test_drawn_counts_have_the_predicted_moments() -> None:
    rng = np.random.default_rng(0)
    likelihood = Poisson((0.2, 2.0, -1.0))
    mean, z_factor = 0.5 * rng.standard_normal((1, 3)), 0.4 * rng.standard_normal((1, 3, 2))
    own_var = np.full((1, 3), 0.1)
    values, std = likelihood.predict(PredictiveX(mean, z_factor, own_var, np.full(3, 0.1)))
    n = 400_000
    x = mean + rng.standard_normal((n, 2)) @ z_factor[0].T + np.sqrt(0.2) * rng.standard_normal((n, 3))
    drawn = likelihood.draw(x, rng)
    np.testing.assert_array_equal(drawn, np.floor(drawn))
    np.testing.assert_allclose(values[0], drawn.mean(axis=0), rtol=0.02)
    np.testing.assert_allclose(std[0], drawn.std(axis=0), rtol=0.03)
    frequency = [np.mean(drawn[:, d] == 2) for d in range(3)]
    loss = likelihood.losses(np.full((1, 3), 2.0), values, std)
    np.testing.assert_allclose(np.exp(-loss[0]), frequency, rtol=0.03)


def test_sizes_of_rows_know_only_what_is_seen() -> None:
    """Half a count more seen and expected; a row of which nothing is seen has the size 1."""
    likelihood = Poisson(tuple(np.log([2.0, 8.0, 30.0])))
    target = np.array([[4.0, 16.0, 60.0], [4.0, 0.0, 60.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    observed = np.array([[True] * 3, [True, False, True], [False] * 3, [True] * 3])
    found = np.exp(likelihood.row_target(target, observed).log_size[:, 0])
    np.testing.assert_allclose(found, [80.5 / 40.5, 64.5 / 32.5, 1.0, 0.5 / 40.5])
    whole = likelihood.row_target(target, observed[:, :1]).log_size
    np.testing.assert_allclose(np.exp(whole[:, 0]), [80.5 / 40.5, 64.5 / 40.5, 1.0, 0.5 / 40.5])
    assert (Poisson(likelihood.log_mean, sizes=False).row_target(target, None).log_size == 0).all()


# --------------------------------------------------------------------------------------------------- compiled code


@pytest.mark.parametrize("name", ["threshold", "poisson"])
def test_other_layouts_are_the_same_to_the_last_bit_and_not_compiled_anew(name: str) -> None:
    """Columns of a larger array, columns one after another, read-only, single precision: each would take seconds."""
    fast = {"threshold": threshold, "poisson": poisson}[name].compiled()
    if fast is None:
        pytest.skip("numba is not installed")
    rng = np.random.default_rng(0)
    t, y, tau = rng.integers(0, 2, (20, 4)).astype(float), rng.standard_normal((20, 4)), rng.uniform(0.5, 2, (1, 4))
    ones = np.ones((1, 4))

    def found(t: np.ndarray, y: np.ndarray) -> np.ndarray:
        if name == "threshold":
            return np.stack(fast.cut_normal(t, y, tau))
        return np.stack(fast.update(t, np.zeros((20, 1)), np.zeros(4), y, tau, ones, near=y))

    compiled_code = fast._cut if name == "threshold" else fast._update
    expected, n_compiled = found(t, y), len(compiled_code.signatures)
    locked = t.copy()
    locked.flags.writeable = False
    wide = np.hstack([y, y])
    for one, other in (
        (np.asfortranarray(t), y),
        (t, wide[:, :4]),
        (locked, np.asfortranarray(y)),
        (t.astype("f4"), y),
    ):
        np.testing.assert_array_equal(found(one, other), expected)
    assert len(compiled_code.signatures) == n_compiled
