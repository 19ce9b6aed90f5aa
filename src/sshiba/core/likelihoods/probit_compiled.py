"""The integrals of `probit_integrals.py` compiled with numba, tested twins of their array forms.

Of many rows each takes a microsecond or less, so that nothing here makes an array, or a view of one, for a row alone.
"""

from __future__ import annotations

from math import exp, log, pi, sqrt

import numba
import numpy as np

from ..threads import in_chunks
from .normal_compiled import FUSED, TABLE, log_phi_and_rho
from .probit_few_compiled import CLOSED_FROM, three_classes, two_classes
from .probit_grid import FARTHEST, LEAST_PRECISION, N_ARGMAX, N_EDGE, N_NEWTON, REACH, WIDEST, grid, n_nodes

MIN_CHUNK = 20_000  # cells that are worth a thread: five milliseconds of work
SUMMED = 512  # rows whose covariances are added up: a sum does not depend on how many threads there are
NO_GAIN, NO_W = np.empty((0, 0, 0)), np.empty((0, 0))
# Sums of several terms at a time. A loop that adds up must write nothing: else its order depends on where arrays lie.
SUMS = {"contract", "reassoc"}


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
    node: np.ndarray,
    weight: np.ndarray,
    rho: np.ndarray,
) -> float:
    """log ξ of a row; writes its gradient into `step`, and into `products` the mean of the products of the integrand's
    derivatives, of which the lower half is filled but for class t, unless it is of size 0.

    `delta`, (C − 1,), `node` and `weight`, (nodes,), and `rho`, (C − 1, nodes), are room to work in.
    """
    for j in range(len(delta)):
        delta[j] = min(max(y[t] - y[_other(j, t)], -FARTHEST), FARTHEST)
    if len(delta) == 2 and min(delta[0], delta[1]) >= CLOSED_FROM:
        i, j = _other(0, t), _other(1, t)
        log_xi, mills_i, mills_j, own_i, own_j, mixed = three_classes(delta[0], delta[1], table)
        step[i], step[j], step[t] = -mills_i, -mills_j, mills_i + mills_j
        if len(products):
            products[i, i], products[j, j], products[j, i] = own_i, own_j, mixed
        return log_xi
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


@numba.njit(nogil=True, cache=True, fastmath=FUSED)
def _moments(y: np.ndarray, target: np.ndarray, grid: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_xi, step, nothing = np.empty(len(y)), np.empty(y.shape), np.empty((0, 0))
    delta, node, weight = np.empty(y.shape[1] - 1), np.empty(grid.shape[1]), np.empty(grid.shape[1])
    rho = np.empty((len(delta), len(node)))
    for row in range(len(y)):
        log_xi[row] = _integrate(y[row], target[row], step[row], nothing, grid, table, delta, node, weight, rho)
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
    row: int, x: np.ndarray, y: np.ndarray, P: np.ndarray, m: np.ndarray, k: np.ndarray, p1: np.ndarray
) -> tuple[float, float, float]:
    """As `probit_rows.row_form`, of one row: p, p_c and c; writes m and k, and P1."""
    n_classes, p_c, gradient, share = len(m), 0.0, 0.0, 1 / len(m)
    for j in range(n_classes):
        total = 0.0
        for i in range(n_classes):
            total += P[j, i]
        p1[j] = total
        p_c += total
        gradient += y[row, j] - x[row, j]
    inverse = 1 / p_c
    trace, largest, shift = 0.0, 0.0, gradient * inverse
    for j in range(n_classes):
        k[j] = share - p1[j] * inverse
    for j in range(n_classes):
        # Row j of P⊥ = P − (P1 1ᵀ + 1 1ᵀP)/C + p_c 11ᵀ/C² − p_c k kᵀ.
        outer, inner, total = (p_c * share - p1[j]) * share, p_c * k[j], 0.0
        for i in range(n_classes):
            total += abs(P[j, i] - p1[i] * share + outer - inner * k[i])
        trace += P[j, j] - p1[j] * share + outer - inner * k[j]
        largest = max(largest, total)
    p = max(trace / (n_classes - 1), min(largest, 1.0) / 2, LEAST_PRECISION)
    inverse = 1 / p
    mean_m, mean_x, along = 0.0, 0.0, 0.0
    for j in range(n_classes):
        m[j] = x[row, j] + (y[row, j] - x[row, j] - shift * p1[j]) * inverse
    for j in range(n_classes):
        mean_m += m[j] * share
        mean_x += x[row, j] * share
        along += k[j] * x[row, j]  # k is orthogonal to 1
    for j in range(n_classes):
        m[j] -= mean_m
    return p, p_c, mean_x + shift - along


@numba.njit(fastmath=SUMS)
def _add_covariance(
    hessian: np.ndarray, p: float, p_c: float, k: np.ndarray, along: np.ndarray, place: int, cov: np.ndarray
) -> None:
    """As in `probit_rows.row_moments`, added to `cov[place]`; `along` is room to work in."""
    n_classes, whole, share, scale = len(k), 1 / p_c, 1 / len(k), 1 / p
    for j in range(n_classes):
        hessian[j, j] += 1.0
        for i in range(n_classes):
            hessian[j, i] = (hessian[j, i] - share) * scale
    for j in range(n_classes):
        total = 0.0
        for i in range(n_classes):
            total += hessian[j, i] * k[i]
        along[j] = total
        whole += total * k[j]
    for j in range(n_classes):
        for i in range(n_classes):
            cov[place, j, i] += hessian[j, i] + along[j] + along[i] + whole


@numba.njit(nogil=True, cache=True, fastmath=SUMS)
def _rows(
    target: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    precision: np.ndarray,
    gain: np.ndarray,
    w: np.ndarray,
    places: np.ndarray,
    mean: np.ndarray,
    cov: np.ndarray,
    bound: np.ndarray,
    grid: np.ndarray,
    table: np.ndarray,
) -> None:
    """Writes <x> and the bound of the rows at these places, and adds their covariances (one sum where `cov` has one).

    Their `precision` is one for all, (1, C, C), or one for each, or, where each has a gain, found from it.
    """
    n_classes = y.shape[1]
    m, k, step, sums = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    hessian, P = np.empty((n_classes, n_classes)), np.empty((n_classes, n_classes))
    delta, node, weight = np.empty(n_classes - 1), np.empty(grid.shape[1]), np.empty(grid.shape[1])
    rho = np.empty((n_classes - 1, grid.shape[1]))
    for number in range(len(places)):
        row = places[number]
        to = row if len(cov) > 1 else 0
        if len(gain):
            for j in range(n_classes):
                for i in range(j + 1):
                    leverage = 0.0
                    for f in range(w.shape[1]):
                        leverage += gain[row, j, f] * w[i, f]
                    P[i, j] = P[j, i] = (1.0 if i == j else 0.0) - leverage
        elif number == 0 or len(precision) > 1:
            of = row if len(precision) > 1 else 0
            for j in range(n_classes):
                for i in range(n_classes):
                    P[j, i] = precision[of, j, i]
        if n_classes == 2:
            mean[row, 0], mean[row, 1], var_0, var_1, across, bound[number] = two_classes(
                target[row], x[row, 0], x[row, 1], y[row, 0], y[row, 1], P[0, 0], P[0, 1], P[1, 1], table
            )
            cov[to, 0, 0] += var_0
            cov[to, 0, 1] += across
            cov[to, 1, 0] += across
            cov[to, 1, 1] += var_1
            continue
        p, p_c, c = _row_form(row, x, y, P, m, k, sums)
        root = sqrt(p)
        for j in range(n_classes):
            m[j] *= root
        log_xi = _integrate(m, target[row], step, hessian, grid, table, delta, node, weight, rho)
        quad, along = n_classes - 1 + _make_hessian(hessian, step, target[row]), c
        for j in range(n_classes):
            m[j] = (m[j] + step[j]) / root
        for j in range(n_classes):
            along += k[j] * m[j]
            quad += step[j] ** 2
        for j in range(n_classes):
            mean[row, j] = m[j] + along
        constants = n_classes * log(2 * pi) - (n_classes - 1) * log(p) - log(p_c) + 1 + log(n_classes)
        bound[number] = log_xi + 0.5 * (constants + quad)
        _add_covariance(hessian, p, p_c, k, sums, to, cov)


def probit_moments(y: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
    """As `probit_integrals.probit_moments`, in chunks of rows on all threads."""
    nodes = grid(n_nodes(y.shape[1]))
    parts = in_chunks(lambda part: _moments(y[part], target[part], nodes, TABLE), len(y), y.size, MIN_CHUNK)
    return tuple(map(np.concatenate, zip(*parts)))


def update_rows(
    target: np.ndarray, x: np.ndarray, y: np.ndarray, precision: np.ndarray, each: bool
) -> tuple[np.ndarray, ...]:
    """<x>, Cov(x) and the bound as `probit_rows.update_rows`, in chunks of rows on all threads."""
    (n, n_classes), nodes = y.shape, grid(n_nodes(y.shape[1]))
    mean, bound = np.empty((n, n_classes)), np.empty(n)
    n_parts = -(-n // SUMMED)
    cov = np.zeros((n if each else n_parts, n_classes, n_classes))

    def job(some: slice) -> None:
        for number in range(some.start, some.stop):
            part = slice(number * SUMMED, min((number + 1) * SUMMED, n))
            own, places = precision[part] if len(precision) > 1 else precision, np.arange(part.stop - part.start)
            given = target[part], x[part], y[part], own, NO_GAIN, NO_W, places
            to = cov[part] if each else cov[number : number + 1]
            _rows(*given, mean[part], to, bound[part], nodes, TABLE)

    in_chunks(job, n_parts, y.size, MIN_CHUNK)
    return mean, cov if each else np.sum(cov, axis=0, keepdims=True), bound


def update_own_rows(
    target: np.ndarray, x: np.ndarray, y: np.ndarray, gain: np.ndarray, w: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The same of the rows at these places, each with a gain, where threads are already over parts of them."""
    x, y, gain, w = (np.ascontiguousarray(v, dtype=np.float64) for v in (x, y, gain, w))
    (n, n_classes), target = y.shape, np.asarray(target, dtype=np.int64)
    mean, cov, bound = np.zeros((n, n_classes)), np.zeros((n, n_classes, n_classes)), np.empty(len(places))
    nodes = grid(n_nodes(n_classes))

    def job(part: slice) -> None:
        own = slice(*np.searchsorted(places, (part.start, part.stop)))
        given = target[part], x[part], y[part], NO_GAIN, gain[part], w, places[own] - part.start
        _rows(*given, mean[part], cov[part], bound[own], nodes, TABLE)

    in_chunks(job, n, y.size, MIN_CHUNK // 4 if n_classes > 3 else MIN_CHUNK)
    return mean, cov, bound


def class_probabilities(y: np.ndarray, A: np.ndarray, std: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """As `probit_integrals.class_probabilities`, in chunks of rows on all threads."""

    def job(part: slice) -> np.ndarray:
        return _probabilities(y[part], A[part] if len(A) > 1 else A, std[part], draws, TABLE)

    return np.concatenate(list(in_chunks(job, len(y), y.size * len(draws), MIN_CHUNK)))
