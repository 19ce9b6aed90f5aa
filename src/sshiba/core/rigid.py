"""Moves of W and Z together that leave the fit as it is: how the bound bends along them, and what q knows of them.

Along Z → Z R⁻ᵀ, W → W R with R = exp(E), and along Z → Z + c, b → b − W c, the bound falls by ½ H when both move, as
one. Q is what q(W) q(Z) says of the same move by its means, the one of W and that of Z added up, as if neither knew of
the other. Where Q is far above H, the two are coupled nearly rigidly: mean field loses evidence (`evidence.py`), and
its variances are too small (`coupling.py`).

With covariates c, Z → Z − C Eᵀ, A → A + W E is one more such move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .rotation import Objective
from .spec import ModelSpec
from .state import EFFECT_PRECISION, ColumnGroups, Posterior, Stats
from .w_moments import feature_gamma, weighted_ww

SINGULAR = 1e-6  # how near a pair's curvature may come to a singular one: factors that no view tells apart


@dataclass(frozen=True)
class Curvature:
    """A quadratic form in E, K x K: the coefficients of E_jk² (`own`) and of 2 E_jk E_kj (`cross`, j ≠ k)."""

    own: np.ndarray  # (K, K)
    cross: np.ndarray  # (K, K)


def rotation_curvature(o: Objective) -> Curvature:
    """H: minus the Hessian of the rotation's objective in E, R = exp(E), where its gradient is 0.

    H(E) = tr(E zz Eᵀ) + 2 tr(E² zz) + volume tr(E²) + Σ_m c_m Σ_k (EᵀG_mE)_kk/rate_mk − (G_mE)_kk²/rate_mk². At the
    best axes zz and the G_m are nearly diagonal, and only E_jk and E_kj are coupled. Where factors are far from that
    in some view, the coefficient of E_jk² is kept at zz_kk.
    """
    zeta, g = np.diagonal(o.zz), np.diagonal(o.ww, axis1=1, axis2=2)
    share = o.ww / o.rates[:, None, :]
    own = zeta[None, :] + np.einsum("m,mjk->jk", o.strength, g[:, :, None] / o.rates[:, None, :] - share**2)
    cross = zeta[:, None] + zeta[None, :] + o.volume
    return Curvature(np.maximum(own + np.diag(np.diagonal(cross)), zeta), cross)


@dataclass(frozen=True)
class AboutZ:
    """What the cells of a row say about its z, that of covariates being known, averaged over the rows."""

    precision: np.ndarray  # (K, K): P = I + T, T = Σ_d w τ_d (n_d/N) <w_d w_dᵀ>
    by_means: np.ndarray  # (K, K): T̄, the same with w̄_d w̄_dᵀ


def information_about_z(posterior: Posterior, stats: Stats, spec: ModelSpec) -> AboutZ:
    """The mean precision of q(z), and the part of it that is due to the means of the weights."""
    n_components = posterior.n_components
    precision, by_means = np.eye(n_components), np.zeros((n_components, n_components))
    own = slice(n_components)
    for m in spec.learned:
        view, vs = posterior.views[m], stats.views[m]
        c = spec.views[m].weight * view.tau.mean * vs.n[vs.groups.index] / stats.n
        cw = c[:, None] * view.w_mean
        precision += weighted_ww(view, c, cw, ColumnGroups.single(len(c)))[0][own, own]
        by_means += (cw.T @ view.w_mean)[own, own]
    return AboutZ(precision, by_means)


def rotation_information(zz: np.ndarray, n_rows: int, about: AboutZ) -> tuple[np.ndarray, np.ndarray]:
    """B and Z of Q = B ⊗ Z, the information of q(W) q(Z) about E through their means: Q(E) = tr(B E Z Eᵀ).

    w̄_d moves by Eᵀw̄_d, seen with Σ_d⁻¹ ≈ τ_d zz: T̄ ⊗ zz. z̄_n moves by −E z̄_n, seen with P_n: P ⊗ Σ z̄_n z̄_nᵀ. The two
    are nearly alike, so that B = T̄ + P, and Z is the mean of the others with the traces as weights. Σ z̄_n z̄_nᵀ is
    zz − N P⁻¹, exact where rows share their holes, and else right in Σ P_n z̄_n z̄_nᵀ.
    """
    rows, features = float(np.trace(about.precision)), float(np.trace(about.by_means))
    Z = zz - rows / (rows + features) * n_rows * np.linalg.inv(about.precision)
    return about.precision + about.by_means, Z


def with_angle(
    h1: np.ndarray, h2: np.ndarray, h12: np.ndarray, bounded: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, ...]:
    """H of pairs, regular, with a variance of the angle (E_jk − E_kj)/2 that is `bounded` of that under N(0, H⁻¹)."""
    root = np.sqrt(h1) * np.sqrt(h2)  # neither overflows
    r = np.clip(h12 / root, SINGULAR - 1, 1 - SINGULAR)
    h12, variance = r * root, (1 / h1 + 1 / h2 + 2 * r / root) / (4 * (1 - r**2))
    more = (1 / bounded(variance) - 1 / variance) / 4
    return h1 + more, h2 + more, h12 - more


def shift_forms(
    posterior: Posterior, stats: Stats, spec: ModelSpec, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same of Z → Z + c, b → b − W c: H = N I + Σ w <Wᵀ B W>, B = β (I − s 11ᵀ) the precision of b, and Q = N P +
    Σ_d w w̄_d w̄_dᵀ/Var b_d.
    """
    k = len(precision)
    H, Q = stats.n * np.eye(k), stats.n * precision
    for m in spec.learned:
        view, view_spec = posterior.views[m], spec.views[m]
        beta, w, share = view_spec.weight * view_spec.b_precision, view.w_mean, view_spec.b_in_common
        # Weights of different features are independent: <(1ᵀW)ᵀ(1ᵀW)> is that of the means, and their covariances.
        own, total = np.full(len(w), beta * (1 - share)), np.sum(w, axis=0)
        H += weighted_ww(view, own, own[:, None] * w, ColumnGroups.single(len(w)))[0][:k, :k]
        H -= beta * share * (np.outer(total, total) - w.T @ w)[:k, :k]
        Q += view_spec.weight * (w[:, :k].T / view.b_var) @ w[:, :k]
    return H, Q


def shear_forms(
    posterior: Posterior, stats: Stats, spec: ModelSpec, about: AboutZ
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same of Z → Z − C Eᵀ, A → A + W E, one for each axis of Σ c cᵀ, s its eigenvalue and κ = EFFECT_PRECISION:

    H = s I + κ G, G = Σ w γ <w_d w_dᵀ>; and since Σ_d⁻¹ has κ γ + τ_d s there, Q = s (P + T̄) + κ Ḡ.
    """
    k = posterior.n_components
    G, by_means = np.zeros((k, k)), np.zeros((k, k))
    for m in spec.learned if posterior.n_known else ():
        view, view_spec = posterior.views[m], spec.views[m]
        c = view_spec.weight * EFFECT_PRECISION * feature_gamma(view, view_spec)
        cw = c[:, None] * view.w_mean
        G += weighted_ww(view, c, cw, ColumnGroups.single(len(c)))[0][:k, :k]
        by_means += (cw.T @ view.w_mean)[:k, :k]
    for s in np.linalg.eigvalsh(stats.zz[k:, k:]):
        yield s * np.eye(k) + G, s * (about.precision + about.by_means) + by_means
