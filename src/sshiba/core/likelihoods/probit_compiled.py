"""The integrals of `probit_integrals.py` compiled with numba, tested twins of their array forms.

log Φ and its derivative ρ are read from Taylor series around grid points, which is several times faster than erfc, exp
and log, and exact to 1e-13.
"""

from __future__ import annotations

from math import comb, exp, factorial, log, pi, sqrt

import numba
import numpy as np
from scipy.special import log_ndtr

from ..threads import in_chunks
from .probit_grid import FARTHEST, N_ARGMAX, N_EDGE, N_NEWTON, REACH, WIDEST, grid, n_nodes

SPACING, LOWEST, HIGHEST, ORDER = 1 / 32, -40.0, 8.5, 6
MIN_CHUNK = 20_000  # cells that are worth a thread: five milliseconds of work
FUSED = {"contract"}  # a·b + c in one instruction and one rounding: a third faster
# Sums of several terms at a time. A loop that adds up must write nothing: else its order depends on where arrays lie.
SUMS = {"contract", "reassoc"}


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
    table = np.stack([value, *(r / factorial(k + 1) for k, r in enumerate(rho))], axis=1)
    table[-1] = 0.0  # from HIGHEST on both vanish
    return table


TABLE = _taylor_table()


@numba.njit(inline="always", fastmath=FUSED)
def log_phi_and_rho(a: float, table: np.ndarray) -> tuple[float, float]:
    if a >= LOWEST:
        near = min(a, HIGHEST)
        i = int((near - LOWEST) / SPACING + 0.5)
        d = near - (LOWEST + i * SPACING)
        value, slope = table[i, ORDER], 0.0
        for k in range(ORDER - 1, -1, -1):
            slope = slope * d + value
            value = value * d + table[i, k]
        return value, slope
    inverse = 1 / (a * a)
    series = inverse * (1 - inverse * (2.5 - inverse * (37 / 3 - inverse * (353 / 4))))
    rho = -a * (1 + inverse * (1 - inverse * (2 - inverse * (10 - inverse * 74))))
    return -0.5 * a * a - log(-a) - 0.9189385332046727 - series, rho


@numba.njit(inline="always", fastmath=FUSED)
def _log_integrand(u: float, delta: np.ndarray, table: np.ndarray) -> tuple[float, float, float]:
    value, slope, curvature = -0.5 * u * u, -u, 1.0
    for j in range(delta.shape[0]):
        a = u + delta[j]
        log_phi, rho = log_phi_and_rho(a, table)
        value += log_phi
        slope += rho
        curvature += min(max(rho * (rho + a), 0.0), 1.0)
    return value, slope, curvature


@numba.njit(inline="always", fastmath=FUSED)
def _nodes_of(delta: np.ndarray, table: np.ndarray) -> tuple[float, float, float, float]:
    """Where the integrand is largest, its logarithm there, and how far the nodes reach to the left and the right."""
    u = 0.0
    for j in range(delta.shape[0]):
        u = max(u, -0.5 * delta[j])
    for _ in range(N_NEWTON):
        top, slope, curvature = _log_integrand(u, delta, table)
        u += slope / curvature
    top, slope, curvature = _log_integrand(u, delta, table)
    left, right = 1 / sqrt(curvature), 1.0
    for _ in range(N_EDGE):
        value, slope, curvature = _log_integrand(u + REACH * right, delta, table)
        right += (top - REACH**2 / 2 - value) / (slope * REACH)
    return u, top, left, right


@numba.njit(inline="always")
def _other(j: int, t: int) -> int:
    """The j-th of the classes other than t."""
    return j + 1 if j >= t else j


@numba.njit(fastmath=SUMS)
def _integrate(
    y: np.ndarray,
    t: int,
    step: np.ndarray,
    products: np.ndarray,
    grid: np.ndarray,
    table: np.ndarray,
    delta: np.ndarray,
    work: np.ndarray,
) -> float:
    """log ξ of a row; writes its gradient into `step`, and into `products` the mean of the products of the integrand's
    derivatives, of which the lower half is filled but for class t, unless it is of size 0.

    `delta`, (C − 1,), and `work`, (C + 1, nodes), are room to work in.
    """
    node, weight, rho = work[0], work[1], work[2:]
    for j in range(len(delta)):
        delta[j] = min(max(y[t] - y[_other(j, t)], -FARTHEST), FARTHEST)
    u, top, left, right = _nodes_of(delta, table)
    for k in range(len(node)):
        node[k] = u + left * grid[0, k] + (right - left) * grid[1, k]
        weight[k] = -0.5 * node[k] * node[k] - top
    for j in range(len(delta)):
        for k in range(len(node)):
            log_phi, rho[j, k] = log_phi_and_rho(node[k] + delta[j], table)
            weight[k] += log_phi
    for k in range(len(node)):
        weight[k] = exp(weight[k]) * (left + (right - left) * grid[2, k])
    total = 0.0
    for k in range(len(node)):
        total += weight[k]
    weight /= total
    step[t] = 0.0
    for j in range(len(delta)):
        mills, own = 0.0, 0.0
        for k in range(len(node)):
            mills += weight[k] * rho[j, k]
            own -= weight[k] * rho[j, k] * (node[k] + delta[j])
        step[_other(j, t)] = -mills
        step[t] += mills
        if len(products):
            products[_other(j, t), _other(j, t)] = own
            for i in range(j):
                mixed = 0.0
                for k in range(len(node)):
                    mixed += weight[k] * rho[j, k] * rho[i, k]
                products[_other(j, t), _other(i, t)] = mixed
    return top + log(total * (grid[0, 1] - grid[0, 0])) - 0.9189385332046727


@numba.njit(fastmath=SUMS)
def _make_hessian(products: np.ndarray, step: np.ndarray, t: int) -> float:
    """Turn the products into the Hessian of log ξ, whose rows and columns add up to 0; returns its trace."""
    n_classes, trace, whole = step.shape[0], 0.0, 0.0
    products[t, :] = 0.0
    products[:, t] = 0.0
    for j in range(n_classes):
        if j != t:
            for i in range(j + 1):
                if i != t:
                    products[j, i] -= step[j] * step[i]
                    products[i, j] = products[j, i]
    for j in range(n_classes):
        if j != t:
            across = 0.0
            for i in range(n_classes):
                across += products[j, i]
            products[j, t] = -across
            whole += across
            trace += products[j, j]
    for j in range(n_classes):
        products[t, j] = products[j, t]
    products[t, t] = whole
    return trace + whole


@numba.njit(fastmath=FUSED)
def _two_classes(
    y: np.ndarray, t: int, step: np.ndarray, hessian: np.ndarray, table: np.ndarray
) -> tuple[float, float]:
    """log ξ of a row and the trace of its Hessian, as `probit_integrals.two_class_curvature`."""
    a = (y[t] - y[1 - t]) / sqrt(2)
    log_xi, rho = log_phi_and_rho(a, table)
    half = -0.5 * min(max(rho * (rho + a), 0.0), 1.0)
    step[t], step[1 - t] = rho / sqrt(2), -rho / sqrt(2)
    hessian[0, 0] = hessian[1, 1] = half
    hessian[0, 1] = hessian[1, 0] = -half
    return log_xi, 2 * half


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def _moments(y: np.ndarray, target: np.ndarray, grid: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_xi, step, nothing = np.empty(len(y)), np.empty(y.shape), np.empty((0, 0))
    delta, work = np.empty(y.shape[1] - 1), np.empty((y.shape[1] + 1, grid.shape[1]))
    for row in range(len(y)):
        log_xi[row] = _integrate(y[row], target[row], step[row], nothing, grid, table, delta, work)
    return log_xi, step


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
                    log_phi, rho[j] = log_phi_and_rho((x - centre[j]) * inverse[j], table)
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


@numba.njit(fastmath=SUMS)
def _row_form(
    x: np.ndarray, y: np.ndarray, P: np.ndarray, m: np.ndarray, k: np.ndarray, p1: np.ndarray
) -> tuple[float, float, float]:
    """As `probit_rows.row_form`, of one row: p, p_c and c; writes m and k."""
    n_classes, whole, gradient, share = y.shape[0], 0.0, 0.0, 1 / y.shape[0]
    for j in range(n_classes):
        total = 0.0
        for i in range(n_classes):
            total += P[j, i]
        p1[j] = total
        whole += total
        gradient += y[j] - x[j]
    for j in range(n_classes):
        k[j] = share - p1[j] / whole
    trace, largest, shift = 0.0, 0.0, gradient / whole
    for j in range(n_classes):
        # Row j of P⊥ = P − (P1 1ᵀ + 1 1ᵀP)/C + p_c 11ᵀ/C² − p_c k kᵀ.
        outer, inner, total = (whole * share - p1[j]) * share, whole * k[j], 0.0
        for i in range(n_classes):
            total += abs(P[j, i] - p1[i] * share + outer - inner * k[i])
        trace += P[j, j] - p1[j] * share + outer - inner * k[j]
        largest = max(largest, total)
    p = max(trace / (n_classes - 1), min(largest, 1.0) / 2)
    for j in range(n_classes):
        m[j] = x[j] + (y[j] - x[j] - shift * p1[j]) / p
    mean_m, mean_x, along = 0.0, 0.0, 0.0
    for j in range(n_classes):
        mean_m += m[j] * share
        mean_x += x[j] * share
        along += k[j] * x[j]  # k is orthogonal to 1
    m -= mean_m
    return p, whole, mean_x + shift - along


@numba.njit(fastmath=SUMS)
def _add_covariance(
    hessian: np.ndarray, p: float, p_c: float, k: np.ndarray, along: np.ndarray, cov: np.ndarray
) -> None:
    """As in `probit_rows.row_moments`, added to `cov`."""
    n_classes, whole, share, scale = k.shape[0], 1 / p_c, 1 / k.shape[0], 1 / p
    for j in range(n_classes):
        hessian[j, j] += 1.0
        for i in range(n_classes):
            hessian[j, i] = (hessian[j, i] - share) * scale
        total = 0.0
        for i in range(n_classes):
            total += hessian[j, i] * k[i]
        along[j] = total
        whole += total * k[j]
    for j in range(n_classes):
        for i in range(n_classes):
            cov[j, i] += hessian[j, i] + along[j] + along[i] + whole


@numba.njit(fastmath=FUSED)
def _room(n_classes: int, n_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """To work in, for `_row`."""
    square, vectors = np.empty((n_classes, n_classes)), np.empty((4, n_classes))
    return square, vectors, np.empty(n_classes - 1), np.empty((n_classes + 1, n_nodes))


@numba.njit(fastmath=FUSED)
def _row(
    t: int,
    x: np.ndarray,
    y: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    cov: np.ndarray,
    grid: np.ndarray,
    table: np.ndarray,
    room: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> float:
    """The bound of a row of classes; writes <x>, and adds the covariance to `cov`."""
    n_classes, (hessian, (m, k, step, sums), delta, work) = len(y), room
    p, p_c, c = _row_form(x, y, precision, m, k, sums)
    root = sqrt(p)
    m *= root
    if n_classes == 2:
        log_xi, trace = _two_classes(m, t, step, hessian, table)
    else:
        log_xi = _integrate(m, t, step, hessian, grid, table, delta, work)
        trace = _make_hessian(hessian, step, t)
    quad, along = n_classes - 1 + trace, c
    for j in range(n_classes):
        mean[j] = (m[j] + step[j]) / root
        along += k[j] * mean[j]
        quad += step[j] ** 2
    for j in range(n_classes):
        mean[j] += along
    constants = (n_classes - 1) * log(2 * pi / p) + log(2 * pi / p_c) + 1 + log(n_classes)
    _add_covariance(hessian, p, p_c, k, sums, cov)
    return log_xi + 0.5 * (constants + quad)


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def _rows(
    target: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    precision: np.ndarray,
    n_cov: int,
    grid: np.ndarray,
    table: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """<x>, the covariances (their sum where `n_cov` is 1) and the bound of rows of classes."""
    n, n_classes = y.shape
    mean, cov, bound = np.empty((n, n_classes)), np.zeros((n_cov, n_classes, n_classes)), np.empty(n)
    room = _room(n_classes, grid.shape[1])
    for row in range(n):
        P, own = precision[row if len(precision) > 1 else 0], cov[row if n_cov > 1 else 0]
        bound[row] = _row(target[row], x[row], y[row], P, mean[row], own, grid, table, room)
    return mean, cov, bound


@numba.njit(nogil=True, cache=True, fastmath=SUMS)
def _own_rows(
    target: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    gain: np.ndarray,
    w: np.ndarray,
    places: np.ndarray,
    grid: np.ndarray,
    table: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of the rows at these places, each with a gain; all others are 0."""
    n, n_classes = y.shape
    mean, cov, bound = np.zeros((n, n_classes)), np.zeros((n, n_classes, n_classes)), np.empty(len(places))
    room, P = _room(n_classes, grid.shape[1]), np.empty((n_classes, n_classes))
    for number, row in enumerate(places):
        for j in range(n_classes):
            for i in range(j + 1):
                leverage = 0.0
                for k in range(w.shape[1]):
                    leverage += gain[row, j, k] * w[i, k]
                P[i, j] = P[j, i] = (1.0 if i == j else 0.0) - leverage
        bound[number] = _row(target[row], x[row], y[row], P, mean[row], cov[row], grid, table, room)
    return mean, cov, bound


def probit_moments(y: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
    """As `probit_integrals.probit_moments`, in chunks of rows on all threads."""
    nodes = grid(n_nodes(y.shape[1]))
    parts = in_chunks(lambda part: _moments(y[part], target[part], nodes, TABLE), len(y), y.size, MIN_CHUNK)
    return tuple(map(np.concatenate, zip(*parts)))


def update_rows(
    target: np.ndarray, x: np.ndarray, y: np.ndarray, precision: np.ndarray, each: bool
) -> tuple[np.ndarray, ...]:
    """<x>, Cov(x) and the bound as `probit_rows.update_rows`, in chunks of rows on all threads."""
    nodes = grid(n_nodes(y.shape[1]))

    def job(part: slice) -> tuple[np.ndarray, ...]:
        own = precision[part] if len(precision) > 1 else precision
        n_cov = part.stop - part.start if each else 1
        return _rows(target[part], x[part], y[part], own, n_cov, nodes, TABLE)

    mean, cov, bound = zip(*in_chunks(job, len(y), y.size, MIN_CHUNK))
    return np.concatenate(mean), np.concatenate(cov) if each else np.sum(cov, axis=0), np.concatenate(bound)


def update_own_rows(
    target: np.ndarray, x: np.ndarray, y: np.ndarray, gain: np.ndarray, w: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, ...]:
    """As `probit_rows.update_rows`, of rows with a gain each, where threads are already over parts of them."""
    x, y, gain, w = (np.ascontiguousarray(v, dtype=np.float64) for v in (x, y, gain, w))
    return _own_rows(np.asarray(target, dtype=np.int64), x, y, gain, w, places, grid(n_nodes(y.shape[1])), TABLE)


def class_probabilities(y: np.ndarray, A: np.ndarray, std: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """As `probit_integrals.class_probabilities`, in chunks of rows on all threads."""

    def job(part: slice) -> np.ndarray:
        return _probabilities(y[part], A[part] if len(A) > 1 else A, std[part], draws, TABLE)

    return np.concatenate(list(in_chunks(job, len(y), y.size * len(draws), MIN_CHUNK)))
