"""The integrals of `probit_integrals.py` compiled with numba, tested twins of their array forms.

log Φ and its derivative ρ are read from Taylor series around grid points, which is several times faster than erfc, exp
and log, and exact to 1e-13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from math import comb, exp, factorial, log, pi, sqrt
from typing import Any

import numba
import numpy as np
from scipy.special import log_ndtr

from ..threads import in_threads, n_threads
from .probit_grid import FARTHEST, N_ARGMAX, N_EDGE, N_NEWTON, REACH, WIDEST, n_nodes, nodes

SPACING, LOWEST, HIGHEST, ORDER = 1 / 32, -40.0, 8.5, 6
MIN_CHUNK = 20_000  # cells that are worth a thread: five milliseconds of work
FUSED = {"contract"}  # a·b + c in one instruction and one rounding: a third faster
TRUE_GAP = 1e9  # takes the true class out of the product


def _taylor_table() -> np.ndarray:
    """Coefficients of log Φ around each grid point, (n, ORDER + 1).

    With ρ = (log Φ)′: ρ′ = −ρ² − aρ, and by Leibniz ρ⁽ⁿ⁺¹⁾ = −Σ_k C(n,k) ρ⁽ᵏ⁾ρ⁽ⁿ⁻ᵏ⁾ − aρ⁽ⁿ⁾ − nρ⁽ⁿ⁻¹⁾.
    """
    a = np.arange(LOWEST, HIGHEST + SPACING, SPACING)
    value = log_ndtr(a)
    rho = [np.exp(-(a**2) / 2 - 0.5 * log(2 * pi) - value)]
    for n in range(ORDER - 1):
        new = -sum(comb(n, k) * rho[k] * rho[n - k] for k in range(n + 1)) - a * rho[n]
        rho.append(new - n * rho[n - 1] if n else new)
    columns = [value, *(r / factorial(k + 1) for k, r in enumerate(rho))]
    return np.ascontiguousarray(np.stack(columns, axis=1))


TABLE = _taylor_table()


@lru_cache(maxsize=8)
def _grid(n: int) -> np.ndarray:
    """Nodes t, softplus(t) − log 2 and σ(t), (3, n)."""
    t = np.array(nodes(n))
    return np.stack([t, np.log((1 + np.exp(t)) / 2), 1 / (1 + np.exp(-t))])


@numba.njit(inline="always", fastmath=FUSED)
def _log_phi_and_rho(a: float, table: np.ndarray) -> tuple[float, float]:
    if not a < HIGHEST:
        return (a, a) if a != a else (0.0, 0.0)
    if a < LOWEST:
        inverse = 1 / (a * a)
        series = inverse * (1 - inverse * (2.5 - inverse * (37 / 3)))
        rho = -a * (1 + inverse * (1 - inverse * (2 - inverse * 10)))
        return -0.5 * a * a - log(-a) - 0.9189385332046727 - series, rho
    i = int((a - LOWEST) / SPACING + 0.5)
    d = a - (LOWEST + i * SPACING)
    c = table[i]
    value, slope = c[ORDER], 0.0
    for k in range(ORDER - 1, -1, -1):
        slope = slope * d + value
        value = value * d + c[k]
    return value, slope


@numba.njit(inline="always", fastmath=FUSED)
def _log_integrand(u: float, delta: np.ndarray, table: np.ndarray) -> tuple[float, float, float]:
    value, slope, curvature = -0.5 * u * u, -u, 1.0
    for j in range(delta.shape[0]):
        a = u + delta[j]
        log_phi, rho = _log_phi_and_rho(a, table)
        value += log_phi
        slope += rho
        curvature += min(max(rho * (rho + a), 0.0), 1.0)
    return value, slope, curvature


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def _moments(
    y: np.ndarray, target: np.ndarray, grid: np.ndarray, table: np.ndarray, n_hessians: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """log ξ, its gradient, the traces of its Hessians, and of these `n_hessians`: none, their sum (1) or each (n)."""
    n, n_classes = y.shape
    log_xi, step, trace = np.empty(n), np.empty((n, n_classes)), np.zeros(n)
    hessian = np.zeros((n_hessians, n_classes, n_classes))
    delta, mills, rho = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    products = np.empty((n_classes, n_classes))
    for row in range(n):
        t = target[row]
        least = 0.0
        for j in range(n_classes):
            delta[j] = min(max(y[row, t] - y[row, j], -FARTHEST), FARTHEST)
            least = min(least, delta[j])
            mills[j] = 0.0
        delta[t] = TRUE_GAP
        u = -0.5 * least
        for _ in range(N_NEWTON):
            top, slope, curvature = _log_integrand(u, delta, table)
            u += slope / curvature
        top, slope, curvature = _log_integrand(u, delta, table)
        left, right = 1 / sqrt(curvature), 1.0
        for _ in range(N_EDGE):
            value, slope, curvature = _log_integrand(u + REACH * right, delta, table)
            right += (top - REACH**2 / 2 - value) / (slope * REACH)
        total = 0.0
        if n_hessians:
            products[:] = 0.0
        for k in range(grid.shape[1]):
            v = u + left * grid[0, k] + (right - left) * grid[1, k]
            log_f = -0.5 * v * v
            for j in range(n_classes):
                log_phi, rho[j] = _log_phi_and_rho(v + delta[j], table)
                log_f += log_phi
            weight = exp(log_f - top) * (left + (right - left) * grid[2, k])
            total += weight
            for j in range(n_classes):
                mills[j] += weight * rho[j]
            if n_hessians:
                for j in range(n_classes):
                    scaled = weight * rho[j]
                    for i in range(j):
                        products[j, i] += scaled * rho[i]
                    if j != t:
                        products[j, j] -= scaled * (v + delta[j])
        log_xi[row] = top + log(total * (grid[0, 1] - grid[0, 0])) - 0.9189385332046727
        away = 0.0
        for j in range(n_classes):
            mills[j] /= total
            step[row, j] = -mills[j]
            away += mills[j]
        step[row, t] = away
        if n_hessians:
            out = hessian[row if n_hessians > 1 else 0]
            whole = 0.0
            for j in range(n_classes):
                across = 0.0
                for i in range(n_classes):
                    found = (products[j, i] if i <= j else products[i, j]) / total - mills[j] * mills[i]
                    if i != t and j != t:
                        out[j, i] += found
                        across += found
                        if i == j:
                            trace[row] += found
                if j != t:
                    out[j, t] -= across
                    out[t, j] -= across
                    whole += across
            out[t, t] += whole
            trace[row] += whole
    return log_xi, step, trace, hessian


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def _probabilities(y: np.ndarray, A: np.ndarray, std: np.ndarray, draws: np.ndarray, table: np.ndarray) -> np.ndarray:
    """p_i = ∫ ρ_i(x) Π_j Φ_j(x) dx / std_i, up to a factor that is the same for all."""
    n, n_classes = y.shape
    p = np.zeros((n, n_classes))
    total, rho, centre = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for row in range(n):
        inverse, factor = 1 / std[row], A[row if A.shape[0] > 1 else 0]
        for s in range(draws.shape[0]):
            top, bottom = -np.inf, -np.inf
            for j in range(n_classes):
                centre[j] = y[row, j]
                for k in range(draws.shape[1]):
                    centre[j] += factor[j, k] * draws[s, k]
                top = max(top, centre[j] + WIDEST * std[row, j])
                bottom = max(bottom, centre[j] - WIDEST * std[row, j])
            total[:] = 0.0
            for node in range(N_ARGMAX):
                x = bottom + node * (top - bottom) / (N_ARGMAX - 1)
                log_product = 0.0
                for j in range(n_classes):
                    log_phi, rho[j] = _log_phi_and_rho((x - centre[j]) * inverse[j], table)
                    log_product += log_phi
                product = exp(log_product)
                for j in range(n_classes):
                    total[j] += product * rho[j]
            scale = 0.0
            for j in range(n_classes):
                total[j] *= inverse[j]
                scale += total[j]
            for j in range(n_classes):
                p[row, j] += total[j] / (scale * draws.shape[0])
    return p


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def row_form(x: np.ndarray, y: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, ...]:
    """As `probit_rows.row_form`."""
    n, n_classes = y.shape
    m, k = np.empty((n, n_classes)), np.empty((n, n_classes))
    p, p_c, c = np.empty(n), np.empty(n), np.empty(n)
    p1 = np.empty(n_classes)
    for row in range(n):
        P = precision[row if precision.shape[0] > 1 else 0]
        whole, gradient = 0.0, 0.0
        for j in range(n_classes):
            p1[j] = 0.0
            for i in range(n_classes):
                p1[j] += P[j, i]
            whole += p1[j]
            gradient += y[row, j] - x[row, j]
        trace, largest, shift = 0.0, 0.0, gradient / whole
        for j in range(n_classes):
            away = p1[j] - whole / n_classes
            total = 0.0
            for i in range(n_classes):
                centred = P[j, i] - (p1[j] + p1[i]) / n_classes + whole / n_classes**2
                centred -= away * (p1[i] - whole / n_classes) / whole
                total += abs(centred)
                if i == j:
                    trace += centred
            largest = max(largest, total)
            k[row, j] = -away / whole
        p[row], p_c[row] = max(trace / (n_classes - 1), min(largest, 1.0) / 2), whole
        mean_m, mean_x, along = 0.0, 0.0, 0.0
        for j in range(n_classes):
            present = x[row, j] + shift
            m[row, j] = present + (y[row, j] - x[row, j] - shift * p1[j]) / p[row]
            mean_m += m[row, j] / n_classes
            mean_x += present / n_classes
            along += k[row, j] * present  # k is orthogonal to 1
        for j in range(n_classes):
            m[row, j] -= mean_m
        c[row] = mean_x - along
    return m, p, p_c, k, c


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def row_covariances(hessian: np.ndarray, p: np.ndarray, p_c: np.ndarray, k: np.ndarray) -> np.ndarray:
    """As in `probit_rows.row_moments`, one for each row."""
    n, n_classes = k.shape
    cov, along = np.empty((n, n_classes, n_classes)), np.empty(n_classes)
    for row in range(n):
        whole = 1 / p_c[row]
        for j in range(n_classes):
            along[j] = 0.0
            for i in range(n_classes):
                value = (hessian[row, j, i] - 1 / n_classes + (1.0 if i == j else 0.0)) / p[row]
                cov[row, j, i] = value
                along[j] += value * k[row, i]
            whole += along[j] * k[row, j]
        for j in range(n_classes):
            for i in range(n_classes):
                cov[row, j, i] += along[j] + along[i] + whole
    return cov


def probit_moments(y: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `probit_integrals.probit_moments`, in chunks of rows on all threads."""
    log_xi, step, *_ = _all_moments(y, target, hessians=False, each=False)
    return log_xi, step


def probit_curvature(y: np.ndarray, target: np.ndarray, each: bool) -> tuple[np.ndarray, ...]:
    """As `probit_integrals.probit_curvature`, in chunks of rows on all threads."""
    return _all_moments(y, target, hessians=True, each=each)


def _all_moments(y: np.ndarray, target: np.ndarray, hessians: bool, each: bool) -> tuple[np.ndarray, ...]:
    grid = _grid(n_nodes(y.shape[1]))

    def job(part: slice) -> tuple[np.ndarray, ...]:
        n_hessians = (part.stop - part.start if each else 1) if hessians else 0
        return _moments(y[part], target[part], grid, TABLE, n_hessians)

    log_xi, step, trace, hessian = zip(*_in_chunks(job, len(y), y.size))
    curvature = np.concatenate(hessian) if each else np.sum(hessian, axis=0)
    return np.concatenate(log_xi), np.concatenate(step), np.concatenate(trace), curvature


def class_probabilities(y: np.ndarray, A: np.ndarray, std: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """As `probit_integrals.class_probabilities`, in chunks of rows on all threads."""

    def job(part: slice) -> np.ndarray:
        return _probabilities(y[part], A[part] if len(A) > 1 else A, std[part], draws, TABLE)

    return np.concatenate(list(_in_chunks(job, len(y), y.size * len(draws))))


def _in_chunks(job: Callable[[slice], Any], n_rows: int, n_cells: int) -> Iterator[Any]:
    n_chunks = 1 if n_cells < MIN_CHUNK else min(n_threads(), 1 + n_cells // MIN_CHUNK)
    if n_chunks == 1:
        return iter([job(slice(0, n_rows))])
    edges = np.linspace(0, n_rows, n_chunks + 1).astype(int)
    return in_threads(job, [slice(a, b) for a, b in pairwise(edges)])
