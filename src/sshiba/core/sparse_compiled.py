"""Products with the stored cells of rows, compiled with numba: threads do not wait for one another, as in SciPy's.

Cells of single precision need no copy in double.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def add_product(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
    """S W is added to `out`, (n, K)."""
    for i in range(len(indptr) - 1):
        for place in range(indptr[i], indptr[i + 1]):
            cell, column = data[place], indices[place]
            for k in range(W.shape[1]):
                out[i, k] += cell * W[column, k]


@numba.njit(nogil=True, cache=True)
def add_product_across(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, Z: np.ndarray, out: np.ndarray
) -> None:
    """SᵀZ is added to `out`, (D, K)."""
    for i in range(len(indptr) - 1):
        for place in range(indptr[i], indptr[i + 1]):
            cell, column = data[place], indices[place]
            for k in range(Z.shape[1]):
                out[column, k] += cell * Z[i, k]
