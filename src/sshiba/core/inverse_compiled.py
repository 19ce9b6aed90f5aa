"""`inverse_positive` and `inverse_root` of `arrays.py` compiled with numba, tested twins: small matrices, four side by
side.

`inverse_positive` is the sweep operator (Gauss and Jordan's elimination of a symmetric matrix): with pivot p = A_kk and
v = A_·k, A becomes A − v vᵀ/p but for row and column k, which become v/p, and A_kk, which becomes −1/p. After all k it
is −A⁻¹, and the pivots, those of Cholesky's factor squared, give the determinant. Of each matrix the lower half is
kept, packed, with the same cell of the four side by side, so that each step is one instruction for all of them, however
small they are.

`inverse_root` keeps them so, too: Cholesky's A = L Lᵀ column by column, then M = L⁻¹ row by row, from row i of L M = I:
M_ij = −Σ_{j ≤ k < i} L_ik M_kj / L_ii.
"""

from __future__ import annotations

from math import log, sqrt

import numba
import numpy as np

MOST_FACTORS = 64  # of matrices four of which are near a core's first cache; larger ones are LAPACK's
LANES = 4


def inverse_positive(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `arrays.inverse_positive`, in the place of the matrices."""
    logdet = np.empty(len(matrices))
    _invert(matrices, logdet)
    return matrices, logdet


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def _invert(matrices: np.ndarray, logdet: np.ndarray) -> None:
    n, size = matrices.shape[0], matrices.shape[1]
    half, v = np.empty((size * (size + 1) // 2, LANES)), np.empty((size, LANES))
    total = np.empty(LANES)
    for first in range(0, n, LANES):
        _pack(matrices, first, half)
        for lane in range(LANES):
            total[lane] = 0.0
        for k in range(size):
            _sweep_out(half, v, total, k)
        for lane in range(min(LANES, n - first)):
            own, logdet[first + lane] = matrices[first + lane], total[lane]
            for i in range(size):
                for j in range(i + 1):
                    own[i, j] = own[j, i] = -half[i * (i + 1) // 2 + j, lane]


@numba.njit(inline="always")
def _pack(matrices: np.ndarray, first: int, half: np.ndarray) -> None:
    """The lower halves of four matrices; the last of all also fills the lanes that are left over."""
    for lane in range(LANES):
        own = matrices[min(first + lane, len(matrices) - 1)]
        for i in range(own.shape[0]):
            for j in range(i + 1):
                half[i * (i + 1) // 2 + j, lane] = own[i, j]


@numba.njit(inline="always")
def _sweep_out(half: np.ndarray, v: np.ndarray, total: np.ndarray, k: int) -> None:
    """One pivot; −log p is added to `total`. `v` is room to work in."""
    size, pivot = v.shape[0], k * (k + 1) // 2 + k
    for j in range(size):
        place = k * (k + 1) // 2 + j if j < k else j * (j + 1) // 2 + k
        for lane in range(LANES):
            v[j, lane] = half[place, lane]
    s0, s1, s2, s3 = 1 / v[k, 0], 1 / v[k, 1], 1 / v[k, 2], 1 / v[k, 3]
    for i in range(size):
        f0, f1, f2, f3 = v[i, 0] * s0, v[i, 1] * s1, v[i, 2] * s2, v[i, 3] * s3
        start = i * (i + 1) // 2
        for j in range(i + 1):
            # Read before anything is written: else the compiler must do the four one by one.
            a0, a1 = half[start + j, 0] - f0 * v[j, 0], half[start + j, 1] - f1 * v[j, 1]
            a2, a3 = half[start + j, 2] - f2 * v[j, 2], half[start + j, 3] - f3 * v[j, 3]
            half[start + j, 0], half[start + j, 1], half[start + j, 2], half[start + j, 3] = a0, a1, a2, a3
    for lane, scale in enumerate((s0, s1, s2, s3)):
        for j in range(size):
            place = k * (k + 1) // 2 + j if j < k else j * (j + 1) // 2 + k
            half[place, lane] = v[j, lane] * scale
        half[pivot, lane] = -scale
        total[lane] += log(scale)


def inverse_root(precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `arrays.inverse_root`, of a stack."""
    root, logdet = np.zeros(precision.shape), np.empty(len(precision))
    _invert_root(precision, root, logdet)
    return root, logdet


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def _invert_root(matrices: np.ndarray, root: np.ndarray, logdet: np.ndarray) -> None:
    n, size = matrices.shape[0], matrices.shape[1]
    half, v = np.empty((size * (size + 1) // 2, LANES)), np.empty((size, LANES))
    for first in range(0, n, LANES):
        _pack(matrices, first, half)
        for k in range(size):
            _eliminate(half, v, k)
        for i in range(size):
            _invert_row(half, v, i)
        for lane in range(min(LANES, n - first)):
            own, total = root[first + lane], 0.0
            for i in range(size):
                total += log(half[i * (i + 1) // 2 + i, lane])
                for j in range(i + 1):
                    own[j, i] = half[i * (i + 1) // 2 + j, lane]
            logdet[first + lane] = 2 * total


@numba.njit(inline="always")
def _eliminate(half: np.ndarray, v: np.ndarray, k: int) -> None:
    """Column k of L takes the place of that of A, and A loses v vᵀ, v = L_·k, in the rows and columns after it."""
    size, pivot = v.shape[0], k * (k + 1) // 2 + k
    for lane in range(LANES):
        half[pivot, lane] = sqrt(half[pivot, lane])
    for j in range(k + 1, size):
        for lane in range(LANES):
            v[j, lane] = half[j * (j + 1) // 2 + k, lane] / half[pivot, lane]
            half[j * (j + 1) // 2 + k, lane] = v[j, lane]
    for i in range(k + 1, size):
        f0, f1, f2, f3, start = v[i, 0], v[i, 1], v[i, 2], v[i, 3], i * (i + 1) // 2
        for j in range(k + 1, i + 1):
            a0, a1 = half[start + j, 0] - f0 * v[j, 0], half[start + j, 1] - f1 * v[j, 1]
            a2, a3 = half[start + j, 2] - f2 * v[j, 2], half[start + j, 3] - f3 * v[j, 3]
            half[start + j, 0], half[start + j, 1], half[start + j, 2], half[start + j, 3] = a0, a1, a2, a3


@numba.njit(inline="always")
def _invert_row(half: np.ndarray, v: np.ndarray, i: int) -> None:
    """Row i of L⁻¹ takes the place of that of L; the rows before it are already inverted."""
    start = i * (i + 1) // 2
    for j in range(i):
        for lane in range(LANES):
            v[j, lane] = 0.0
    for k in range(i):
        f0, f1, f2, f3 = half[start + k, 0], half[start + k, 1], half[start + k, 2], half[start + k, 3]
        row = k * (k + 1) // 2
        for j in range(k + 1):
            a0, a1 = v[j, 0] - f0 * half[row + j, 0], v[j, 1] - f1 * half[row + j, 1]
            a2, a3 = v[j, 2] - f2 * half[row + j, 2], v[j, 3] - f3 * half[row + j, 3]
            v[j, 0], v[j, 1], v[j, 2], v[j, 3] = a0, a1, a2, a3
    for lane in range(LANES):
        scale = 1 / half[start + i, lane]
        for j in range(i):
            half[start + j, lane] = v[j, lane] * scale
        half[start + i, lane] = scale
