"""`latent_step.add_sums` of rows of few classes, with a covariance of z each, compiled with numba, a tested twin: what
they add is added in place, without an n x K x K array for each view.
"""

from __future__ import annotations

import numba
import numpy as np

MOST_CLASSES = 6  # products of more are as fast in BLAS


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def add_spread(zz: np.ndarray, gain: np.ndarray, cov: np.ndarray, copies: float) -> np.ndarray:
    """Adds gᵀ Cov(x) g/copies to `zz` of each row, (n, K, K); returns Σ_n Cov(x) g/copies, (C, K).

    The covariances of cells that are not seen are 0.
    """
    n, n_classes, size = gain.shape
    xz, pulled = np.zeros((n_classes, size)), np.empty(size)
    for row in range(n):
        for c in range(n_classes):
            if cov[row, c, c] == 0:
                continue
            pulled[:] = 0.0
            for d in range(n_classes):
                _add_scaled(pulled, gain[row, d], cov[row, c, d] / copies)
            _add_scaled(xz[c], pulled, 1.0)
            for i in range(size):
                _add_scaled(zz[row, i], pulled, gain[row, c, i])
    return xz


@numba.njit(inline="always")
def _add_scaled(total: np.ndarray, row: np.ndarray, scale: float) -> None:
    for j in range(row.shape[0]):
        total[j] += scale * row[j]
