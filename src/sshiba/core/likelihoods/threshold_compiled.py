"""q(x) of `threshold.py` compiled with numba, a tested twin: cell by cell, in one pass over memory."""

from __future__ import annotations

from math import log, pi

import numba
import numpy as np

from ..arrays import for_numba
from ..threads import in_chunks
from .normal_compiled import FUSED, TABLE, log_phi_and_rho

MIN_CHUNK = 500_000  # cells that are worth a thread


def cut_normal(target: np.ndarray, y: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """<x>, <x²> and the bound of cells, (n, D) each; tau is for each feature, or for each cell."""
    tau = np.atleast_2d(tau).astype(np.float64, copy=False)
    tau = np.broadcast_to(tau, (len(tau), y.shape[1]))
    root, constant = np.sqrt(tau), 0.5 * (log(2 * pi) - np.log(tau))
    found = np.empty((3, *y.shape), dtype=y.dtype)

    def job(some: slice) -> None:
        own = some if len(root) > 1 else slice(None)
        given = for_numba(target[some], y.dtype), for_numba(y[some], y.dtype)
        _cut(*given, root[own], constant[own], found[:, some], TABLE)

    in_chunks(job, len(y), y.size, MIN_CHUNK)
    mean, second, bound = found
    return mean, second, bound


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def _cut(
    target: np.ndarray, y: np.ndarray, root: np.ndarray, constant: np.ndarray, found: np.ndarray, table: np.ndarray
) -> None:
    for i in range(y.shape[0]):
        r = i if root.shape[0] > 1 else 0
        for j in range(y.shape[1]):
            s = 1.0 if target[i, j] > 0 else -1.0
            a = s * y[i, j] * root[r, j]
            log_phi, rho = log_phi_and_rho(a, table)
            mean, quad = y[i, j] + s * rho / root[r, j], 1 - a * rho
            found[0, i, j] = mean
            found[1, i, j] = mean * mean + max(quad - rho * rho, 0.0) / (root[r, j] * root[r, j])
            found[2, i, j] = log_phi + constant[r, j] + 0.5 * quad
