"""How much less sure factors and weights are than q(W) q(z) says, since each is known only together with the other.

Two kinds of variance are left out (docs/model.md, "Standard deviations of factors and weights"):

* Along a move of Z and W together that leaves the fit as it is, both vary as much as the bound lets them: `rigid.py`.
* Given the weights z_n is normal, and its mean follows each weight: the law of total variance. Its mirror image holds
  for the weights.

Predictions need neither: what z gains in such a move, W loses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from .rigid import (
    Curvature,
    information_about_z,
    no_wider_than_an_angle,
    rotation_curvature,
    rotation_information,
    shift_forms,
)
from .rotation import objective
from .spec import ModelSpec
from .state import Posterior, Stats

MOST = 1 - 1e-9  # of a share
IDLE = 1e-6  # of H: the least that Q is taken for, of factors of which q knows nothing


@dataclass(frozen=True)
class Coupling:
    """What is left out, of K factors."""

    turn: np.ndarray  # (K, K): the variance of E_jk beyond what q has of it, W → W exp(E), Z → Z exp(−E)ᵀ
    shift: np.ndarray  # (K,): the same of c_k, Z → Z + c
    of_weights: np.ndarray  # (K,): the share of Σ_d τ_d <w_dk²> that is variance
    of_factors: np.ndarray  # (K,): the share of Σ_n <z_nk²> that is variance

    @classmethod
    def none(cls, k: int) -> Coupling:
        return cls(np.zeros((k, k)), np.zeros(k), np.zeros(k), np.zeros(k))

    def select_factors(self, order: np.ndarray) -> Coupling:
        """The factors in another order; of their signs nothing depends."""
        return Coupling(
            self.turn[np.ix_(order, order)], self.shift[order], self.of_weights[order], self.of_factors[order]
        )

    def factor_std(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        """Deviations of the factors of some rows, from the moments of their q(z), (n, K).

        A move takes z_nk to z_nk − Σ_j E_kj z_nj + c_k. And z_n given W has the mean C Σ_d τ_d w_d x_d, which moves by
        C Σ_d τ_d e_d δw_d: its variance is C S C with S = Σ_d (τ_d e_d)² Σ_d, and τ_d e_d² is 1 on average. With the
        diagonals alone, S_kk = κ_k (1/C_kk − 1), κ the share of what the weights say of z_k that is their variance.
        What a row says nothing of stays as the prior has it: there C_kk = 1.
        """
        variance = std**2
        said = np.maximum(1 - variance, 0.0)
        return np.sqrt(variance * (1 + self.of_weights * said) + mean**2 @ self.turn.T + self.shift * said**2)

    def weight_std(self, mean: np.ndarray, variance: np.ndarray, prior_precision: np.ndarray) -> np.ndarray:
        """Deviations of the weights of a view, from the moments of their q(w), (D, K).

        A move takes w_dk to w_dk + Σ_j E_jk w_dj. And as above with z and w exchanged: Σ_d (Σ_n τ_d C_n) Σ_d, where
        τ_d Σ_n <z_nk²> = 1/Var w_dk − γ_d α_k, of which the share λ_k is that of Σ_n C_n.
        """
        said = np.maximum(1 - prior_precision * variance, 0.0)
        return np.sqrt(variance * (1 + self.of_factors * said) + mean**2 @ self.turn)


def find_coupling(posterior: Posterior, stats: Stats, spec: ModelSpec) -> Coupling:
    """At the end of a fit; O(D K² + K³). With groups of samples, which leave the scale of z free, it is not derived."""
    k = posterior.n_components
    if k == 0 or spec.n_groups:
        return Coupling.none(k)
    about_z = information_about_z(posterior, stats, spec)
    H = rotation_curvature(objective(posterior, stats, spec).of_factors(k))
    zz = stats.zz[:k, :k]
    said, by_means = np.diagonal(about_z.precision) - 1, np.diagonal(about_z.by_means)
    z_variance = stats.n * np.diagonal(np.linalg.inv(about_z.precision))
    return Coupling(
        turn=turn_variances(H, *rotation_information(zz, stats.n, about_z)),
        shift=np.diagonal(rigid_covariance(*shift_forms(posterior, stats, spec, about_z.precision))),
        of_weights=np.clip(1 - by_means / np.maximum(said, np.finfo(float).tiny), 0.0, MOST),
        of_factors=np.clip(z_variance / np.diagonal(zz), 0.0, MOST),
    )


def rigid_covariance(H: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """What mean field leaves out of the covariance of a move, (n, n); H is the precision of both blocks together, Q
    the sum of what each has alone.

    As in `evidence.rigid_gain` each block has precision Q/2 and H = Q − 2C, C their coupling. So the covariance of a
    block is (Q/2)/((Q/2)² − C²) = 2Q/(H (2Q − H)), of which q has 2/Q; along the eigenvectors of H beside Q, where Q is
    1 and H is h, 2/(h (2 − h)) − 2. Where h ≥ 1 nothing is left out.
    """
    h, along = eigh(H, Q)
    h = np.minimum(h, 1.0)
    return (along * (2 / (h * (2 - h)) - 2)) @ along.T


def turn_variances(H: Curvature, B: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The same of each E_jk under Q = B ⊗ Z, (K, K): E_jk is coupled with E_kj, E_jj with none."""
    b, z = np.diagonal(B), np.diagonal(Z)
    Q = np.maximum(np.outer(b, z), IDLE * H.own)
    out = np.zeros_like(Q)
    for j in range(len(b)):
        out[j, j] = rigid_covariance(H.own[j, j, None, None], Q[j, j, None, None])[0, 0]
        for i in range(j):
            h1, h2, h12 = no_wider_than_an_angle(H.own[j, i], H.own[i, j], H.cross[j, i])
            found = rigid_covariance(np.array([[h1, h12], [h12, h2]]), np.diag([Q[j, i], Q[i, j]]))
            out[j, i], out[i, j] = np.diagonal(found)
    return out
