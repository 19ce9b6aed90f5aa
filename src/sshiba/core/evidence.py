"""A corrected estimate of the log evidence: what the bound loses because q factorises, in closed form.

Let V = log p − log q − bound. The loss is log E_q[e^V], and at the optimum of q only couplings between its factors are
in V. Three kinds are told apart (docs/model.md, "The log evidence"):

* Along the moves of `rigid.py`, Z → Z R⁻ᵀ, W → W R and others, the fit stays as it is, and W (or b) and Z are coupled
  nearly rigidly. To second order both are Gaussian: `rigid_gain`.
* Signs and permutations of the factors are modes of their own: `log_symmetries`.
* All other couplings are weak, and cost ½ Var_q V: `weak_gain`.

A view of weight w counts as w copies of it, each with its own W, as in the bound. With covariates c it is log p(x | c).
"""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np
from scipy.linalg import eigvalsh

from .global_step import expected_residual
from .rigid import (
    SINGULAR,
    Curvature,
    information_about_z,
    rotation_curvature,
    rotation_information,
    shear_forms,
    shift_forms,
    with_angle,
)
from .rotation import best_rotation, objective, rotate
from .spec import ModelSpec, ViewSpec
from .state import ColumnGroups, Gamma, Posterior, Stats, ViewPosterior, ViewStats
from .w_moments import covariance_trace, feature_gamma

MAX_ROTATIONS = 20
LITTLE = 1e-3  # nats: a rotation that gains less is the last
WIDEST_ANGLE = (pi / 2) ** 2 / (2 * pi)  # variance of an angle: a Gaussian of the height 2/π, since modes are π/2 apart


def is_derived(spec: ModelSpec) -> bool:
    """Not with labels and under missing="mean-field", where most of what the bound loses is in q(x), nor with groups of
    samples, for which the scale of z is free.
    """
    return not (spec.mean_field or spec.n_groups or any(view.likelihood.latent for view in spec.views))


def log_evidence(posterior: Posterior, stats: Stats, spec: ModelSpec, bound: float) -> float | None:
    """The bound and an estimate of what it loses, in nats; O(D K² + K³) where features share their rows.

    An estimate, not a bound; `stats` are those of a sweep near convergence. Real views of any options, with holes or
    without; None where it is not derived.
    """
    if not is_derived(spec):
        return None
    if posterior.n_components == 0:  # nothing of these is coupled
        return float(bound)
    posterior, stats, rise = best_axes(posterior, stats, spec)
    k, about_z = posterior.n_components, information_about_z(posterior, stats, spec)
    H = rotation_curvature(objective(posterior, stats, spec).of_factors(k))
    B, Z = rotation_information(stats.zz[:k, :k], stats.n, about_z)
    used = np.flatnonzero(np.diagonal(B) * np.diagonal(Z) > np.diagonal(H.own))  # others are idle: q knows no E of them
    own = np.ix_(used, used)
    gain = rotation_gain(Curvature(H.own[own], H.cross[own]), B[own], Z[own])
    forms = [shift_forms(posterior, stats, spec, about_z.precision)]
    forms += shear_forms(posterior, stats, spec, about_z)
    gain += sum(float(np.sum(rigid_gain(eigvalsh(Q, of_both)))) for of_both, Q in forms) + log_symmetries(len(used))
    z_cov = np.zeros_like(stats.zz)
    z_cov[:k, :k] = np.linalg.inv(about_z.precision)
    for m in spec.learned:
        gain += spec.views[m].weight * weak_gain(posterior.views[m], stats.views[m], spec.views[m], z_cov)
    return float(bound + rise + gain)


def best_axes(posterior: Posterior, stats: Stats, spec: ModelSpec) -> tuple[Posterior, Stats, float]:
    """The posterior where the rotation's gradient is 0, and what that gains: a fit need not rotate, or end with it."""
    total = 0.0
    for _ in range(MAX_ROTATIONS):
        R, rise = best_rotation(posterior, stats, spec)
        if rise > 0:
            posterior, stats = rotate(posterior, stats, spec, R)
            total += rise
        if rise < LITTLE:
            break
    return posterior, stats, total


# ----------------------------------------------------------------------------------------------- rigid couplings


def rigid_gain(mu: np.ndarray) -> np.ndarray:
    """What mean field loses in a direction in which two blocks move together, mu = Q/H.

    Each block alone has precision Q/2 about the direction, both together H. With C their coupling, H = Q − 2C, and a
    Gaussian loses −½ log(1 − r²), r = C/(Q/2) = 1 − 1/mu. (Shares other than one half of Q lose more.)
    """
    mu = np.maximum(mu, 1.0)
    return np.log(mu) - 0.5 * np.log(2 * mu - 1)


def rotation_gain(H: Curvature, B: np.ndarray, Z: np.ndarray) -> float:
    """Σ `rigid_gain` over E_jj and over the pairs (E_jk, E_kj), each a system of two, with the whole of log|B ⊗ Z|.

    Factors that no view tells apart turn freely, up to a quarter turn: `WIDEST_ANGLE` bounds 1/H of an angle.
    """
    b, z = np.diagonal(B), np.diagonal(Z)
    alike_b, alike_z = B / np.sqrt(np.outer(b, b)), Z / np.sqrt(np.outer(z, z))
    j, k = np.triu_indices(len(B), 1)
    h1, h2, h12 = with_angle(H.own[j, k], H.own[k, j], H.cross[j, k], no_wider_than_an_angle)
    q1, q2 = b[j] * z[k], b[k] * z[j]
    alike = np.clip(alike_b[j, k] * alike_z[j, k], SINGULAR - 1, 1 - SINGULAR)
    product = q1 * q2 * (1 - alike**2) / (h1 * h2 - h12**2)
    half_trace = (h2 * q1 + h1 * q2 - 2 * h12 * alike * np.sqrt(q1 * q2)) / (h1 * h2 - h12**2) / 2
    larger = half_trace + np.sqrt(np.maximum(half_trace**2 - product, 0.0))
    pairs = rigid_gain(larger) + rigid_gain(product / larger)
    # log|Q| = K log|B| + K log|Z| is below the sum of log|Q| over pairs: Q couples them too.
    coupled = len(B) * (_log_det(alike_b) + _log_det(alike_z)) - np.sum(np.log(1 - alike**2))
    gain = np.sum(rigid_gain(b * z / np.diagonal(H.own))) + np.sum(pairs) + 0.5 * coupled
    return max(0.0, float(gain))


def no_wider_than_an_angle(variance: np.ndarray) -> np.ndarray:
    return np.minimum(variance, WIDEST_ANGLE)


def _log_det(correlation: np.ndarray) -> float:
    return float(np.sum(np.log(np.maximum(np.linalg.eigvalsh(correlation), SINGULAR))))


def log_symmetries(n_used: int) -> float:
    """Signs and orders of the factors in use. An idle one adds no mode: a model is worth no more for having it."""
    return n_used * log(2) + lgamma(n_used + 1)


# ------------------------------------------------------------------------------------------------ weak couplings


def weak_gain(view: ViewPosterior, stats: ViewStats, spec: ViewSpec, z_cov: np.ndarray) -> float:
    """½ Var_q of the other couplings, in −½ τ_d (x_nd − z_n·w_d − b_d)² and in −½ γ_d α_k w_dk².

    With e = x − z̄·w̄ − b̄, leverage h_d = τ_d w̄_dᵀ C w̄_d, C the covariance of z, and a the shape of τ_d or α_k:

    * z_n and w_d, τ e δz·δw: ½ τ_d² Σ_n e² tr(C Σ_d);
    * τ_d and z_n, δτ (e w̄·δz − ½ (w̄·δz)²): (τ_d Σ_n e² h_d/2 + n h_d²/4)/a;
    * τ_d and w_d, −½ δτ δwᵀ zz δw: tr((τ_d zz Σ_d)²)/4a ≥ (τ_d tr zz Σ_d)²/4aK;
    * α_k and w_dk, −½ δα γ w²: α_k² Σ_d γ_d² (w̄² Var w/2 + (Var w)²/4)/a.

    Left out: a τ that the whole view shares and z, since Σ_d e w̄·δz is small there (q(z) is at its optimum), and γ.
    """
    n, tau = stats.n[stats.groups.index], view.tau.mean + np.zeros_like(view.b_mean)
    wz = covariance_trace(view.w_cov, stats.zz, stats.groups)
    leverage = tau * np.sum(view.w_mean @ z_cov * view.w_mean, axis=1)
    error = tau * (expected_residual(stats, view) - wz - n * view.b_var) - n * leverage  # τ_d Σ_n e²
    one_group = ColumnGroups.single(spec.n_features)
    gain = 0.5 * np.sum(tau * error * covariance_trace(view.w_cov, z_cov[None], one_group))
    gamma, w_var = feature_gamma(view, spec), view.w_second - view.w_mean**2
    of_alpha = (gamma**2 @ (view.w_mean**2 * w_var / 2 + w_var**2 / 4))[: len(view.alpha.rate)]
    gain += np.sum(view.alpha.mean**2 / view.alpha.shape * of_alpha)
    if isinstance(view.tau, Gamma):
        of_tau = (tau * wz) ** 2 / (4 * len(z_cov))
        if len(view.tau.shape) == spec.n_features:
            of_tau += error * leverage / 2 + n * leverage**2 / 4
        gain += np.sum(of_tau / view.tau.shape)
    return float(gain)
