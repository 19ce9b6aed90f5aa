"""Rotation of the latent space (parameter expansion): Z → Z R⁻ᵀ, W → W R leaves the fit unchanged and raises the bound.

What changes is −½ tr(R⁻¹<ZᵀZ>R⁻ᵀ) from the prior of z, (Σ_m w_m D_m − N) log|R| from the entropies, and, with alpha at
its optimum, −Σ_m w_m (a0 + D_m/2) Σ_k log(b0 + ½ r_kᵀ G_m r_k), G_m = Σ_d <gamma_d><w_d w_dᵀ>. Of rows in groups of
samples, with their activity at its optimum, the mirror image −Σ_s (a0 + n_s/2) Σ_k log(b0 + ½ (R⁻¹<Z_sᵀZ_s>R⁻ᵀ)_kk)
takes the place of the first term.

Covariates do not turn. What the learned factors hold of them goes over into their effects: `without_covariates`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .global_step import update_activity, update_alpha
from .spec import ModelSpec
from .state import EFFECT_PRECISION, ColumnGroups, Posterior, Stats
from .w_moments import feature_gamma, weighted_ww

DAMPING = 0.99  # of the largest coupling at which a pair of factors still has one best angle
MAX_HALVINGS = 8
SOLVED, MAX_ROUNDS = 1e-24, 100  # square of a residual, of that of the right side; rounds of conjugate gradients
MIN_GAIN = 0.01  # of what this rotation gained so far: a step that brings less is the last
MAX_STEPS = 3  # of a rotation: the next sweep moves its optimum, so more cost time and gain no sweeps


@dataclass(frozen=True)
class Objective:
    """The part of the bound that depends on R, seen from the present axes (R = I); NumPy, K x K."""

    zz: np.ndarray  # (K, K): of rows in no group of samples
    groups: MovedGroups
    ww: np.ndarray  # (M, K, K): the G_m
    volume: float  # Σ_m w_m D_m − N
    strength: np.ndarray  # (M,): w_m (a0 + D_m/2)
    rate: np.ndarray  # (M,): b0
    weight: np.ndarray  # (M,): w_m

    def of_factors(self, k: int) -> Objective:
        """Of the first k factors alone."""
        groups = replace(self.groups, zz=self.groups.zz[:, :k, :k])
        return replace(self, zz=self.zz[:k, :k], groups=groups, ww=self.ww[:, :k, :k])

    def moved(self, T: np.ndarray) -> Objective:
        """The same after Z → Z T⁻ᵀ, W → W T."""
        inverse = np.linalg.inv(T)
        return replace(self, zz=inverse @ self.zz @ inverse.T, groups=self.groups.moved(inverse), ww=T.T @ self.ww @ T)

    @property
    def rates(self) -> np.ndarray:
        """The rates of alpha, b0 + ½ r_kᵀ G_m r_k, (M, K)."""
        return self.rate[:, None] + 0.5 * np.diagonal(self.ww, axis1=1, axis2=2)

    def value(self, log_det: float) -> float:
        """The objective at the present axes, where the way here had log|R| = `log_det`."""
        alpha = float(self.strength @ np.log(self.rates).sum(axis=1))
        return -0.5 * float(np.trace(self.zz)) + self.volume * log_det - alpha + self.groups.value()

    def gradient(self) -> np.ndarray:
        """d value / dE for R (I + E), at E = 0."""
        pull = np.einsum("m,mjk,mk->jk", self.strength, self.ww, 1 / self.rates)
        return self.zz + self.groups.gradient() + self.volume * np.eye(len(self.zz)) - pull

    def newton_step(self) -> np.ndarray:
        """The step E of Newton's method as if <ZᵀZ> and the G_m were diagonal (ζ and g).

        To second order the value then is −½ Σ A_jk E_jk² − Σ_{j<k} C_jk E_jk E_kj, A_jk = ζ_k + Σ_m c_m g_mj/rate_mk,
        C_jk = ζ_j + ζ_k + volume, which couples only E_jk with E_kj: K² systems of two equations. Of groups of samples
        c_s ζ_sk/rate_sj takes the place of ζ_k in A_jk, and c_s ζ_sk/rate_sk elsewhere.

        A change of scale, W e^e and Z e^-e, is concave in e, since log(b + ½ζ e^-2e) is convex: the second derivative
        is −2ζ − Σ c (2q − q²), with q = g/rate or, of groups of samples, ζ/rate. There it may be small, and e large.
        """
        gradient, zeta = self.gradient(), np.diagonal(self.zz) + np.diagonal(self.groups.gradient())
        g = np.diagonal(self.ww, axis1=1, axis2=2)
        own = np.diagonal(self.zz)[None, :] + self.groups.own()
        own = own + np.einsum("m,mj,mk->jk", self.strength, g, 1 / self.rates)
        cross = zeta[:, None] + zeta[None, :] + self.volume
        # Factors that no view tells apart may turn freely; damping keeps their systems regular.
        limit = DAMPING * np.sqrt(own * own.T)
        cross = np.clip(cross, -limit, limit)
        step = (own.T * gradient - cross * gradient.T) / (own * own.T - cross**2)
        ratio = g / self.rates
        curvature = 2 * np.diagonal(self.zz) + self.strength @ (2 * ratio - ratio**2) + self.groups.curvature()
        np.fill_diagonal(step, np.expm1(np.clip(np.diagonal(gradient) / curvature, -1, 1)))
        return step


@dataclass(frozen=True)
class MovedGroups:
    """The part of `Objective` that belongs to the groups of samples."""

    zz: np.ndarray  # (S, K, K)
    strength: np.ndarray  # (S,): c_s = a0 + n_s/2
    rate: float  # b0

    def moved(self, inverse: np.ndarray) -> MovedGroups:
        return replace(self, zz=inverse @ self.zz @ inverse.T)

    @property
    def zeta(self) -> np.ndarray:
        """Σ<z_k²> within each group, (S, K)."""
        return np.diagonal(self.zz, axis1=1, axis2=2)

    @property
    def rates(self) -> np.ndarray:
        """The rates of the activity, b0 + ½ Σ<z_k²>, (S, K)."""
        return self.rate + 0.5 * self.zeta

    def value(self) -> float:
        return -float(self.strength @ np.log(self.rates).sum(axis=1))

    def gradient(self) -> np.ndarray:
        """(I − E) zz (I − E)ᵀ has −2 Σ_j E_kj zz_jk on its diagonal, to first order."""
        return np.einsum("s,sjk,sj->jk", self.strength, self.zz, 1 / self.rates)

    def own(self) -> np.ndarray:
        """What stands beside −½ E_jk²: c_s ζ_sk/rate_sj."""
        return np.einsum("s,sj,sk->jk", self.strength, 1 / self.rates, self.zeta)

    def curvature(self) -> np.ndarray:
        """In the logarithm of the scale: c_s (2 q − q²), q = ζ/rate, summed over groups, (K,)."""
        q = self.zeta / self.rates
        return self.strength @ (2 * q - q**2)


def best_rotation(posterior: Posterior, stats: Stats, spec: ModelSpec) -> tuple[np.ndarray, float]:
    """An R of all factors, (K, K), that raises the bound, and by how much."""
    k, whole = posterior.n_components, objective(posterior, stats, spec)
    if posterior.n_known == 0:
        return find_rotation(whole)
    R, gain = without_covariates(whole, k)
    found, more = find_rotation(whole.moved(R).of_factors(k))
    R[:, :k] = R[:, :k] @ found
    return R, gain + more


def objective(posterior: Posterior, stats: Stats, spec: ModelSpec) -> Objective:
    """Of all factors, the covariates among them."""
    ww, own = [], [spec.views[m] for m in spec.learned]
    for m, view_spec in zip(spec.learned, own):
        view, everything = posterior.views[m], ColumnGroups.single(view_spec.n_features)
        gamma = feature_gamma(view, view_spec)
        ww.append(weighted_ww(view, gamma, gamma[:, None] * view.w_mean, everything)[0])
    groups, prior = stats.groups, spec.activity_prior
    return Objective(
        zz=stats.zz - np.sum(groups.zz, axis=0),
        groups=MovedGroups(np.asarray(groups.zz), prior.shape + groups.n / 2, float(prior.rate)),
        ww=np.stack(ww),
        volume=sum(view.weight * view.n_features for view in own) - stats.n,
        strength=np.array([view.weight * (view.alpha_prior.shape + view.n_features / 2) for view in own]),
        rate=np.array([view.alpha_prior.rate for view in own]),
        weight=np.array([view.weight for view in own]),
    )


def without_covariates(whole: Objective, k: int) -> tuple[np.ndarray, float]:
    """The R that takes out of the first k factors what they hold of the covariates, and what it gains.

    z − E c in place of z, and a + Eᵀw in place of the effects a, leaves the fit as it is: R = [[I, E], [0, I]]. Of the
    bound −½ tr<(Z − CEᵀ)ᵀ(Z − CEᵀ)> − ½ κ Σ_m w_m Σ_d <gamma_d><|a_d + Eᵀw_d|²> depends on E, κ = EFFECT_PRECISION. It
    is largest where E S_cc + κ G_zz E = S_zc − κ G_zc with S = <ZᵀZ> and G = Σ_m w_m G_m. In groups of samples z_k
    counts a_sk times, so that each row of E has its own S; the activity, at its optimum after it, only gains by it.
    """
    groups, G = whole.groups, EFFECT_PRECISION * np.einsum("m,mjk->jk", whole.weight, whole.ww)
    activity = (groups.strength[:, None] / groups.rates)[:, :k]
    S_cc = whole.zz[k:, k:] + np.einsum("sk,sij->kij", activity, groups.zz[:, k:, k:])  # (k, C, C)
    pull = whole.zz[:k, k:] + np.einsum("sk,skj->kj", activity, groups.zz[:, :k, k:]) - G[:k, k:]
    R = np.eye(len(G))
    R[:k, k:] = solve_gently(lambda E: (E[:, None, :] @ S_cc)[:, 0, :] + G[:k, :k] @ E, pull)
    after = whole.moved(R)
    effects = [float(np.einsum("m,mjj->", o.weight, o.ww[:, k:, k:])) for o in (whole, after)]
    gain = after.of_factors(k).value(0.0) - whole.of_factors(k).value(0.0)
    return R, gain - 0.5 * EFFECT_PRECISION * (effects[1] - effects[0])


def solve_gently(operate: Callable[[np.ndarray], np.ndarray], right: np.ndarray) -> np.ndarray:
    """X with operate(X) = right, by conjugate gradients: each round raises Σ X right − ½ Σ X operate(X)."""
    X, left = np.zeros_like(right), right
    direction, size = left, float(np.sum(left**2))
    enough = SOLVED * size
    for _ in range(MAX_ROUNDS):
        if size <= enough:
            break
        through = operate(direction)
        step = size / float(np.sum(direction * through))
        X, left = X + step * direction, left - step * through
        size, before = float(np.sum(left**2)), size
        direction = left + size / before * direction
    return X


def find_rotation(start: Objective, max_steps: int = MAX_STEPS) -> tuple[np.ndarray, float]:
    """An R that raises the bound, and by how much: Newton steps, each halved until it gains."""
    here, R, log_det = start, np.eye(len(start.zz)), 0.0
    value = first = start.value(0.0)
    for _ in range(max_steps):
        step, before = here.newton_step(), value
        for _ in range(MAX_HALVINGS):
            T = np.eye(len(R)) + step
            sign, log_t = np.linalg.slogdet(T)
            if sign != 0:
                trial = here.moved(T)
                reached = trial.value(log_det + float(log_t))
                if reached > value:
                    here, R, log_det, value = trial, R @ T, log_det + float(log_t), reached
                    break
            step = step / 2
        if value - before <= MIN_GAIN * (value - first):
            break
    return R, value - first


def rotate(posterior: Posterior, stats: Stats, spec: ModelSpec, R: np.ndarray) -> tuple[Posterior, Stats]:
    """Apply R to all that lives in the latent space, and bring alpha and the activity to their optimum; residuals stay
    as they are.
    """
    log_det = float(np.linalg.slogdet(R)[1])
    inverse_t = np.linalg.inv(R).T
    views = []
    for view, view_spec in zip(posterior.views, spec.views):
        cov = replace(view.w_cov, basis=R.T @ view.w_cov.basis, logdet=view.w_cov.logdet + 2 * log_det)
        moved_view = view.with_weights(view.w_mean @ R, cov)
        views.append(moved_view if view_spec.known else update_alpha(moved_view, view_spec))
    moved = Stats(
        stats.n,
        inverse_t.T @ stats.zz @ inverse_t,
        stats.z_logdet - 2 * stats.n * log_det,
        tuple(
            replace(v, z_sum=v.z_sum @ inverse_t, zz=inverse_t.T @ v.zz @ inverse_t, xz=v.xz @ inverse_t, slopes=None)
            for v in stats.views
        ),
        replace(stats.groups, zz=inverse_t.T @ stats.groups.zz @ inverse_t),
    )
    return update_activity(moved, replace(posterior, views=tuple(views)), spec), moved
