"""How much less sure factors and weights are than q(W) q(z) says, since each is known only together with the other.

Two kinds of variance are left out (docs/model.md, "Standard deviations of factors and weights"):

* Along a move of Z and W together that leaves the fit as it is, both vary as much as the bound lets them: `rigid.py`.
* Given the weights z_n is normal. Its mean follows each weight, and what it varies with these is added (the law of
  total variance). The same holds for the weights, with W and Z exchanged.

Predictions do not need the first: where z moves, W moves against it. The second they leave out; it is a few hundredths
of what z adds to their variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from scipy.linalg import eigh
from scipy.special import erf

from .explained import shear_covariances
from .rigid import Curvature, information_about_z, rotation_curvature, rotation_information, shift_forms, with_angle
from .rotation import objective
from .spec import ModelSpec
from .state import Posterior, Stats

MOST = 1 - 1e-9  # of a share
IDLE = 1e-6  # of H: the least that Q is taken for, of factors of which q knows nothing
PORTION = 2**18  # cells of factors that are worked on at a time


@dataclass(frozen=True)
class RowVariances:
    """How well q(z) knows the factors of the training rows, C_n being the covariance of z_n."""

    total: np.ndarray  # (K,): Σ_n C_n,kk
    said: np.ndarray  # (K, K): Σ_n (1 − C_n,jj)(1 − C_n,kk), N where each row says all about its factors

    @classmethod
    def of(cls, std: np.ndarray) -> RowVariances | None:
        """From the deviations of all rows, (N, K); None where some are not known."""
        k = std.shape[1]
        total, said = np.zeros(k), np.zeros((k, k))
        for rows in _portions(*std.shape):
            variance = np.minimum(std[rows] ** 2, 1.0)
            total += variance.sum(axis=0)
            said += (1 - variance).T @ (1 - variance)
        return cls(total, said) if np.isfinite(total).all() else None

    @classmethod
    def of_average_row(cls, precision: np.ndarray, n_rows: int) -> RowVariances:
        variance = np.minimum(np.diagonal(np.linalg.inv(precision)), 1.0)
        return cls(n_rows * variance, n_rows * np.outer(1 - variance, 1 - variance))

    def select_factors(self, order: np.ndarray) -> RowVariances:
        return RowVariances(self.total[order], self.said[np.ix_(order, order)])


@dataclass(frozen=True)
class Coupling:
    """What is left out, of K factors, and what q(z) has."""

    z_variance: np.ndarray  # (K,): that of q(z), the mean over the training rows
    move: np.ndarray  # (K, K): the variance of E_jk beyond what q has of it, W → W exp(E), Z → Z exp(−E)ᵀ
    shift: np.ndarray  # (K,): the same of c_k, Z → Z + c, with what moves along the covariates of an average row
    unsure_weights: np.ndarray  # (K,): the share of Σ_d w_m τ_d (n_d/N) <w_dk²> that is variance
    unsure_factors: np.ndarray  # (K,): the share of Σ_n <z_nk²> that is variance

    @classmethod
    def none(cls, z_variance: np.ndarray) -> Coupling:
        k = len(z_variance)
        return cls(z_variance, np.zeros((k, k)), np.zeros(k), np.zeros(k), np.zeros(k))

    def select_factors(self, order: np.ndarray) -> Coupling:
        """The factors in another order; nothing depends on their signs."""
        vectors = (self.shift[order], self.unsure_weights[order], self.unsure_factors[order])
        return Coupling(self.z_variance[order], self.move[np.ix_(order, order)], *vectors)

    def widen(self, mean: np.ndarray, std: np.ndarray) -> None:
        """Add to the deviations of q(z), (n, K), in place, some rows at a time.

        A move takes z_nk to z_nk − Σ_j E_kj z_nj + c_k; where a row says little of a factor, less of a stretch E_kk and
        of a shift. And z_n given W has the mean C Σ_d τ_d w_d x_d, which moves by C Σ_d τ_d e_d δw_d besides: its
        variance is C S C with S = Σ_d w_m τ_d Σ_d, since τ_d <(x_d − z·w_d − b_d)²> is 1 on average. With the diagonals
        alone S_kk is the share of what the weights say of z_k, 1/C_kk − 1, that is their own variance. What a row says
        nothing of stays as the prior has it: there C_kk = 1.
        """
        turn, stretch = self.move - np.diag(np.diagonal(self.move)), np.diagonal(self.move)
        for rows in _portions(*std.shape):
            variance, square = std[rows] ** 2, mean[rows] ** 2
            said = np.maximum(1 - variance, 0.0)
            moved = square @ turn.T + square * (stretch * (1 - 2 * variance) ** 2) + self.shift * said**2
            std[rows] = np.sqrt(variance * (1 + self.unsure_weights * said) + moved)

    def weight_std(self, mean: np.ndarray, variance: np.ndarray, prior_precision: np.ndarray) -> np.ndarray:
        """Deviations of the weights of a view, from the moments of their q(w), (D, K).

        A move takes w_dk to w_dk + Σ_j E_jk w_dj. And as above with z and w exchanged: Σ_d (Σ_n τ_d C_n) Σ_d, where
        τ_d Σ_n <z_nk²> = 1/Var w_dk − γ_d α_k, of which the share that is variance is that of Σ_n C_n.
        """
        said = np.maximum(1 - prior_precision * variance, 0.0)
        return np.sqrt(variance * (1 + self.unsure_factors * said) + mean**2 @ self.move)


def find_coupling(posterior: Posterior, stats: Stats, spec: ModelSpec, rows: RowVariances | None) -> Coupling:
    """Near the end of a fit, where the rotation's gradient is 0; O(D K² + K³). `rows` are those of an average row where
    they are not known. With groups of samples, which leave the scale of z free, nothing is derived.
    """
    k, n = posterior.n_components, stats.n
    about_z = information_about_z(posterior, stats, spec)
    rows = rows or RowVariances.of_average_row(about_z.precision, n)
    if k == 0 or spec.n_groups:
        return Coupling.none(rows.total / max(n, 1))
    said, by_means = np.diagonal(about_z.precision) - 1, np.diagonal(about_z.by_means)
    zz, known = stats.zz[:k, :k], slice(k, None)
    H = moved_by_rows(rotation_curvature(objective(posterior, stats, spec).of_factors(k)), rows.said, n)
    H_shift, Q_shift = shift_forms(posterior, stats, spec, about_z.precision)
    shift = np.diagonal(rigid_covariance(H_shift - np.diag(rows.total), Q_shift))
    shear = shear_covariances(posterior, spec, stats.zz[known, known])  # of an average row: Σ c cᵀ/N
    return Coupling(
        z_variance=rows.total / n,
        move=move_variances(H, *rotation_information(zz, n, about_z)),
        shift=shift + np.einsum("kij,ij->k", shear, stats.zz[known, known]) / n,
        unsure_weights=np.clip(1 - by_means / np.maximum(said, np.finfo(float).tiny), 0.0, MOST),
        unsure_factors=np.clip(rows.total / np.diagonal(zz), 0.0, MOST),
    )


def moved_by_rows(H: Curvature, said: np.ndarray, n_rows: int) -> Curvature:
    """H where rows move only as far as they say something of their factors.

    With W moved, q(z_n) is best at (1 − C_n) of the move: N in H, from the prior of z, becomes Σ_n (1 − C_n)(1 − C_n).
    """
    less = n_rows - said
    own = H.own - less - np.diag(np.diagonal(less))
    return Curvature(np.maximum(own, np.maximum(said, IDLE * H.own)), H.cross - less)


def rigid_covariance(H: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """What mean field leaves out of the covariance of a move, (n, n); H is the precision of both blocks together, Q
    the sum of what each has alone.

    As in `evidence.rigid_gain` each block has precision Q/2 and H = Q − 2B, B their coupling. So the covariance of a
    block is (Q/2)/((Q/2)² − B²) = 2Q/(H (2Q − H)), of which q has 2/Q; along the eigenvectors of H beside Q, where Q is
    1 and H is h, that leaves `rigid_variance(h)`.
    """
    h, along = eigh(H, Q)
    return (along * rigid_variance(h)) @ along.T


def rigid_variance(h: np.ndarray) -> np.ndarray:
    """2/(h (2 − h)) − 2; nothing where both together know as much as each alone, h ≥ 1."""
    h = np.minimum(h, 1.0)
    return 2 / (h * (2 - h)) - 2


def move_variances(H: Curvature, B: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The same of each E_jk under Q = B ⊗ Z, (K, K): E_jk is coupled with E_kj, E_jj with none.

    Factors that no view tells apart turn freely, up to where the next order and sign of the factors begins: an angle is
    normal, cut off at ±π/4. Many such turns add up to no more than another direction of the same length.
    """
    Q = np.maximum(np.outer(np.diagonal(B), np.diagonal(Z)), IDLE * H.own)
    j, k = np.triu_indices(len(Q), 1)
    root = np.sqrt(np.stack([Q[j, k], Q[k, j]], axis=1))
    h1, h2, h12 = with_angle(H.own[j, k], H.own[k, j], H.cross[j, k], variance_within_a_mode)
    forms = np.stack([np.stack([h1, h12], axis=1), np.stack([h12, h2], axis=1)], axis=1)
    h, along = np.linalg.eigh(forms / (root[:, :, None] * root[:, None, :]))
    pairs = np.sum(along**2 * rigid_variance(h)[:, None, :], axis=2) / root**2
    out = np.zeros_like(Q)
    out[j, k], out[k, j] = pairs.T
    turns = np.sum(out + out.T, axis=0) / 2
    kept = np.sqrt(np.where(turns > 0, -np.expm1(-turns) / np.where(turns > 0, turns, 1.0), 1.0))
    return out * np.outer(kept, kept) + np.diag(rigid_variance(np.diagonal(H.own / Q)) / np.diagonal(Q))


def variance_within_a_mode(variance: np.ndarray) -> np.ndarray:
    """The variance of a normal angle that is cut off at ±π/4."""
    cut = pi / 4 / np.sqrt(variance)
    return variance * (1 - np.sqrt(2 / pi) * cut * np.exp(-(cut**2) / 2) / erf(cut / np.sqrt(2)))


def _portions(n_rows: int, k: int) -> list[slice]:
    step = max(1, PORTION // max(k, 1))
    return [slice(start, start + step) for start in range(0, n_rows, step)]
