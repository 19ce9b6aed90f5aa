"""The predictive distribution of x for rows whose q(z) is known, with all four sources of its variance."""

from __future__ import annotations

import numpy as np

from .arrays import array_namespace, like, take_columns, zeros
from .likelihoods import PredictiveX
from .state import Array, Fixed, ViewPosterior


def predictive_x(view: ViewPosterior, z_mean: Array, z_cov: Array) -> PredictiveX:
    """x* with its four sources of variance: E[1/tau], wᵀΣ_z w, zᵀΣ_w z + tr(Σ_w Σ_z), Var b.

    z_mean is (n, K), z_cov (n, K, K), or (1, K, K) where all rows share it.
    """
    return PredictiveView(view).x(z_mean, z_cov)


class PredictiveView:
    """The predictive distribution of a view's x for rows that come in parts; what all parts need is made once."""

    def __init__(self, view: ViewPosterior) -> None:
        self.view = view
        self.noise_var = noise_variance(view)
        self.flat_covs: np.ndarray | None = None
        if len(view.w_cov.groups) > 1:
            basis = view.w_cov.basis[view.w_cov.groups.index]
            covs = (basis * view.w_cov.spread[:, None, :]) @ np.matrix_transpose(basis)  # (D, K, K)
            # Symmetric, as <zzᵀ> is: of each pair of entries one is enough, counted twice.
            rows, columns = np.triu_indices(covs.shape[1])
            self.flat_covs = (covs[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)).T

    def mean(self, z_mean: Array) -> Array:
        return z_mean @ like(self.view.w_mean, z_mean).T + like(self.view.b_mean, z_mean)

    def x(self, z_mean: Array, z_cov: Array) -> PredictiveX:
        z_factor = like(self.view.w_mean, z_mean)[None, ...] @ array_namespace(z_mean).linalg.cholesky(z_cov)
        own_var = self.weight_variance(z_mean, z_cov) + like(self.view.b_var, z_mean)
        return PredictiveX(self.mean(z_mean), z_factor, own_var, like(self.noise_var, z_mean))

    def given_z(self, z: Array) -> PredictiveX:
        """The same where z is known, (n, K)."""
        width, k = self.view.w_mean.shape
        own_var = self.weight_variance(z, zeros((1, k, k), z)) + like(self.view.b_var, z)
        return PredictiveX(self.mean(z), zeros((1, width, 0), z), own_var, like(self.noise_var, z))

    def weight_variance(self, z_mean: Array, z_cov: Array) -> Array:
        """E[zᵀΣ_d z] = tr(Σ_d <zzᵀ>), (n, D).

        Where all features share one basis, Σ_k s_dk E[(Bᵀz)_k²], in n·K·(K + D); else one product, n·K²·D/2.
        """
        xp, w_cov = array_namespace(z_mean), self.view.w_cov
        if self.flat_covs is None:
            basis = like(w_cov.basis[0], z_mean)
            square = (z_mean @ basis) ** 2 + xp.sum(basis * (z_cov @ basis), axis=-2)
            return square @ like(w_cov.spread, z_mean).T
        flat = like(self.flat_covs, z_mean)
        k = z_mean.shape[1]
        rows, columns = np.triu_indices(k)
        square = take_columns(z_mean, rows) * take_columns(z_mean, columns)
        cov = take_columns(xp.reshape(z_cov, (z_cov.shape[0], k * k)), k * rows + columns)
        return square @ flat + cov @ flat if cov.shape[0] == 1 else (square + cov) @ flat


def noise_variance(view: ViewPosterior) -> np.ndarray:
    """E[1/tau] = rate/(shape − 1), (D,); 1/E[tau] where that has no useful value, on three cells or fewer."""
    tau = view.tau
    if isinstance(tau, Fixed):
        return 1 / tau.value + np.zeros_like(view.b_mean)
    return tau.rate / np.where(tau.shape > 2.5, tau.shape - 1, tau.shape) + np.zeros_like(view.b_mean)
