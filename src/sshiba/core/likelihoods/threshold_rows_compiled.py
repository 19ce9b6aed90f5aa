"""`threshold_rows.py` compiled with numba, a tested twin: row by row, in one pass over memory.

Arrays are copied cell by cell: numba takes ten seconds to compile the error of an assignment whose shapes differ.
"""

from __future__ import annotations

from math import ceil, exp, inf, log, sqrt

import numba
import numpy as np

from ..threads import in_chunks
from .normal_compiled import FUSED, TABLE, log_phi_and_rho
from .threshold_rows import LARGEST_STEP, LEAST_SECANT, MOST_STEPS, NODES, REACH, SETTLED, SMALLEST_STEP

MIN_CHUNK = 20_000  # cells that are worth a thread


def best_sites(
    s: np.ndarray, x: np.ndarray, y: np.ndarray, v: np.ndarray, M: np.ndarray, weight: float
) -> tuple[np.ndarray, ...]:
    """e, c, <a>, Cov(a), Σ E log Φ and log |I + uRMR| of the best q(a)."""
    n, d = y.shape
    found = (*np.empty((3, n, d)), np.empty((n, d, d)), *np.empty((2, n)))
    given = [np.ascontiguousarray(a, dtype=np.float64) for a in (np.broadcast_to(s, y.shape), x, y, v)]
    M = np.ascontiguousarray(M, dtype=np.float64)

    def job(some: slice) -> None:
        own = M[some] if len(M) > 1 else M
        s, x, y, v = (a[some] for a in given)
        e, c, mean, cov, log_phi, lost = (a[some] for a in found)
        _best(s, x, y, v, own, float(weight), e, c, mean, cov, log_phi, lost, TABLE)

    in_chunks(job, n, y.size, MIN_CHUNK)
    return found


@numba.njit(nogil=True, fastmath=FUSED)
def _expect(s: float, mean: float, std: float, table: np.ndarray) -> tuple[float, float, float]:
    """From the middle outwards: the weights exp(−(i step)²/2) have ratios with a ratio of exp(−step²)."""
    n = ceil(NODES * max(1.0, std))
    step = REACH / n
    ratio = exp(-0.5 * step * step)
    square = ratio * ratio
    total, e, c, weights, weight = 0.0, 0.0, 0.0, 0.0, 1.0
    for i in range(n + 1):
        for side in range(2 if i else 1):
            a = s * mean + (i if side else -i) * step * std
            log_phi, rho = log_phi_and_rho(a, table)
            weights += weight
            total += weight * log_phi
            e += weight * rho
            c += weight * rho * (rho + a)
        weight *= ratio
        ratio *= square
    return total / weights, s * e / weights, min(max(c / weights, 0.0), 1.0)


@numba.njit(nogil=True)
def _secant_share(share: float, along: float, before: float) -> float:
    """As `threshold_rows.secant_share`."""
    if before == 0:
        return 1.0
    return LARGEST_STEP if along >= before else min(max(share / (1 - along / before), LEAST_SECANT), LARGEST_STEP)


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def _best(
    s: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    v: np.ndarray,
    M: np.ndarray,
    weight: float,
    e: np.ndarray,
    c: np.ndarray,
    mean: np.ndarray,
    cov: np.ndarray,
    log_phi: np.ndarray,
    lost: np.ndarray,
    table: np.ndarray,
) -> None:
    n, d = y.shape
    a0, L, half, trial_cov = np.empty(d), np.zeros((d, d)), np.empty((d, d)), np.empty((d, d))
    sites, best_sites, goal, best_goal = np.zeros((2, d)), np.zeros((2, d)), np.zeros((2, d)), np.zeros((2, d))
    trial_e, trial_mean, last = np.empty(d), np.empty(d), np.zeros((2, d))
    for row in range(n):
        own = M[row if M.shape[0] > 1 else 0]
        for i in range(d):
            a0[i] = y[row, i]
            for j in range(d):
                if s[row, j] != 0:
                    a0[i] -= weight * own[i, j] * (x[row, j] - y[row, j])
            sites[0, i] = sites[1, i] = 0.0
            if s[row, i] != 0:
                sites[0, i] = _expect(s[row, i], y[row, i], sqrt(v[row, i]), table)[2]
                sites[1, i] = x[row, i] - y[row, i] + sites[0, i] * y[row, i]
        best, share, before = -inf, 1.0, 0.0
        for _ in range(1 + MOST_STEPS):
            logdet = _factor(own, sites[0], weight, L, half)
            total, value = _apply(s[row], sites, a0, own, weight, L, half, trial_e, trial_mean, trial_cov, goal, table)
            value -= 0.5 * logdet
            gain = value - best
            if gain > -SETTLED:
                best, log_phi[row], lost[row] = value, total, logdet
                along, now = 0.0, 0.0
                for i in range(d):
                    e[row, i], c[row, i], mean[row, i] = trial_e[i], sites[0, i], trial_mean[i]
                    for j in range(d):
                        cov[row, i, j] = trial_cov[i, j]
                    for k in range(2):
                        best_sites[k, i], best_goal[k, i] = sites[k, i], goal[k, i]
                        move = goal[k, i] - sites[k, i]
                        along += move * last[k, i]
                        now += move * move
                        last[k, i] = move
                share, before = _secant_share(share, along, before), now
            else:
                share = min(share / 2, 1.0)
            if abs(gain) <= SETTLED or share <= SMALLEST_STEP:
                break
            for k in range(2):
                for i in range(d):
                    sites[k, i] = best_sites[k, i] + share * (best_goal[k, i] - best_sites[k, i])


@numba.njit(nogil=True, fastmath=FUSED)
def _apply(
    s: np.ndarray,
    sites: np.ndarray,
    a0: np.ndarray,
    M: np.ndarray,
    weight: float,
    L: np.ndarray,
    half: np.ndarray,
    e: np.ndarray,
    mean: np.ndarray,
    cov: np.ndarray,
    goal: np.ndarray,
    table: np.ndarray,
) -> tuple[float, float]:
    """Σ E log Φ, and the value of the row but for its determinant; e, <a>, Cov(a) and where the sites should go."""
    d = len(a0)
    for i in range(d):  # L⁻¹ R M b, then L⁻ᵀ of it, from below
        mean[i] = 0.0
        for j in range(d):
            mean[i] += half[i, j] * (sites[1, j] - sites[0, j] * a0[j])
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            mean[i] -= L[j, i] * mean[j]
        mean[i] /= L[i, i]
    for i in range(d):
        e[i] = sites[1, i] - sites[0, i] * a0[i] - sqrt(weight * sites[0, i]) * mean[i]
    for i in range(d):
        for j in range(i + 1):
            cov[i, j] = M[i, j]
    for k in range(d):
        for i in range(d):
            for j in range(i + 1):
                cov[i, j] -= half[k, i] * half[k, j]
    for i in range(d):
        for j in range(i):
            cov[j, i] = cov[i, j]
    total, value = 0.0, 0.0
    for i in range(d):
        moved = 0.0
        for j in range(d):
            moved += weight * M[i, j] * e[j]
        mean[i] = a0[i] + moved
        goal[0, i] = goal[1, i] = 0.0
        if s[i] != 0:
            var = max(cov[i, i], 0.0)
            log_phi, next_e, next_c = _expect(s[i], mean[i], sqrt(var), table)
            total += log_phi
            value += weight * (log_phi + 0.5 * sites[0, i] * var - 0.5 * e[i] * moved)
            goal[0, i], goal[1, i] = next_c, next_e + next_c * mean[i]
    return total, value


@numba.njit(nogil=True, fastmath=FUSED)
def _factor(M: np.ndarray, c: np.ndarray, weight: float, L: np.ndarray, half: np.ndarray) -> float:
    """L Lᵀ = I + uRMR, `half` = L⁻¹ √u R M; the log determinant is returned."""
    d, logdet, root = len(c), 0.0, np.empty(len(c))
    for i in range(d):
        root[i] = sqrt(weight * c[i])
        for j in range(i + 1):
            value = root[i] * M[i, j] * root[j] + (1.0 if i == j else 0.0)
            for k in range(j):
                value -= L[i, k] * L[j, k]
            L[i, j] = sqrt(value) if i == j else value / L[j, j]
        logdet += 2 * log(L[i, i])
    for i in range(d):
        for j in range(d):
            half[i, j] = root[i] * M[i, j]
        for k in range(i):
            for j in range(d):
                half[i, j] -= L[i, k] * half[k, j]
        for j in range(d):
            half[i, j] /= L[i, i]
    return logdet
