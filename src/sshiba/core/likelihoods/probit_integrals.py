"""The integrals of the multinomial probit, t = argmax_d x_d with x ~ N(y, I)."""

from __future__ import annotations

from functools import lru_cache, partial
from math import log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_numpy_array
from scipy.special import ndtri
from scipy.stats import qmc

from ..arrays import arange, array_namespace, compiled_twin, cuda_kernels, erfcx, eye, like, log_ndtr, zeros
from ..state import Array
from .likelihood import PredictiveX
from .probit_grid import FARTHEST, N_ARGMAX, N_EDGE, N_NEWTON, REACH, WIDEST, grid, n_nodes

N_DRAWS = 128
PLACKETT = np.polynomial.legendre.leggauss(20)  # nodes and weights: 1e-10 for correlations up to 0.99
SMALLEST = 1e-15  # a probability of few classes is at least this
HOST_BYTES, DEVICE_BYTES = 2**22, 2**28  # of rows' integrals at a time

compiled = partial(compiled_twin, "likelihoods.probit_compiled")


def log_xi_and_step(y: Array, target: Array) -> tuple[Array, Array]:
    """`probit_moments` by the fastest way there is: closed for two classes; compiled, where numba is installed."""
    if y.shape[1] == 2:
        return two_class_moments(y, target)
    fast = compiled()
    if fast is not None and is_numpy_array(y):
        return fast.probit_moments(np.ascontiguousarray(y, dtype=np.float64), np.asarray(target, dtype=np.int64))
    return probit_moments(y, target)


def class_probabilities(y: Array, A: Array, std: Array) -> Array:
    """p(x_i is the largest) with x = y + A u + std·e, u and e standard normal, (n, C); A is (n or 1, C, R).

    e is integrated in one dimension, u averaged over Sobol draws. Compiled where it can be.
    """
    draws, fast = sobol_normal(A.shape[2]), compiled()
    if fast is not None and is_numpy_array(y):
        std = np.broadcast_to(std, y.shape)
        return fast.class_probabilities(*(np.ascontiguousarray(v, dtype=np.float64) for v in (y, A, std)), draws)
    return sum(argmax_probabilities(y + A @ like(u, y), std) for u in draws) / len(draws)


def few_class_probabilities(x: PredictiveX) -> Array:
    """p(x_i is the largest) of up to three classes with all their covariance, (n, C): no draws are needed.

    Class i is the largest where the differences x_i − x_j to the others are positive: a normal probability of as many
    dimensions as there are others.
    """
    xp, n_classes = array_namespace(x.mean), x.mean.shape[1]
    var = x.own_var + x.noise_var
    p = []
    for i in range(n_classes):
        others = [j for j in range(n_classes) if j != i]
        apart = [x.z_factor[:, i, :] - x.z_factor[:, j, :] for j in others]
        std = [xp.sqrt(xp.sum(f**2, axis=-1) + var[:, i] + var[:, j]) for f, j in zip(apart, others)]
        h = [(x.mean[:, i] - x.mean[:, j]) / s for j, s in zip(others, std)]
        if n_classes == 3:
            covariance = xp.sum(apart[0] * apart[1], axis=-1) + var[:, i]
            p.append(bivariate_normal(h[0], h[1], covariance / (std[0] * std[1])))
        else:
            p.append(xp.exp(log_ndtr(h[0])) if h else xp.ones_like(x.mean[:, 0]))
    found = xp.clip(xp.stack(p, axis=1), SMALLEST, 1.0)
    return found / xp.sum(found, axis=1, keepdims=True)


def bivariate_normal(h: Array, k: Array, rho: Array) -> Array:
    """P(u < h, v < k) of standard normals with correlation rho < 1.

    Plackett: ∂P/∂rho is the density at (h, k); from rho = 0, with rho = sin θ,
    P = Φ(h) Φ(k) + 1/2π ∫ exp(−(h² + k² − 2 h k sin θ) / (2 cos² θ)) dθ, by Gauss and Legendre's rule.
    """
    xp = array_namespace(h)
    end = xp.asin(rho)
    total = xp.zeros_like(h)
    for node, weight in zip(*(nodes.tolist() for nodes in PLACKETT)):
        sine = xp.sin(end * (1 + node) / 2)
        total = total + weight * xp.exp((h * k * sine - (h**2 + k**2) / 2) / (1 - sine**2))
    return xp.exp(log_ndtr(h) + log_ndtr(k)) + total * end / (4 * pi)


def probit_moments(y: Array, target: Array, n: int | None = None) -> tuple[Array, Array]:
    """log ξ (n,) and <x> − y = ∇ log ξ (n, C), with ξ = E_u Π_{j≠t} Φ(u + y_t − y_j), u ~ N(0, 1).

    `n` are nodes, instead of what `n_nodes` says.
    """
    found = class_integrals(y, target, None, n)
    return found.log_xi, _gradient(found.mills, is_true_class(y, target))


def probit_curvature(y: Array, target: Array, each: bool) -> tuple[Array, Array, Array, Array]:
    """log ξ, its gradient, the traces of its Hessians (n,), and the Hessians (n, C, C), or (1, C, C) their sum.

    With M = E ρ the gradient with respect to δ_j = y_t − y_j, the Hessian is E[ρ_i ρ_j] − M_i M_j between other
    classes, and −E[a_j ρ_j] − M_j² for one, since ρ′ = −ρ² − aρ. The true class has minus the sums of the others.

    Those sums, `across`, need no products between classes, and of products only their sum over nodes (and rows).
    """
    xp, n_classes = array_namespace(y), y.shape[1]
    is_true, diagonal = is_true_class(y, target), eye(n_classes, y)
    log_xi, mills, own, mixed, products = class_integrals(y, target, each)
    across = mixed + own - mills * xp.sum(mills, axis=1, keepdims=True)
    whole, true = xp.sum(across, axis=1), xp.astype(is_true, y.dtype)
    trace = xp.sum(own - mills**2, axis=1) + whole
    if each:
        inner = products * (1 - diagonal) + own[:, :, None] * diagonal
        inner = inner - mills[:, :, None] * mills[:, None, :]
        to_true = across[:, :, None] * true[:, None, :]
        hessian = (
            inner
            - to_true
            - xp.matrix_transpose(to_true)
            + whole[:, None, None] * true[:, :, None] * (true[:, None, :])
        )
    else:
        inner = products[0, ...] * (1 - diagonal) + xp.sum(own, axis=0) * diagonal - mills.T @ mills
        to_true = across.T @ true
        hessian = (inner - to_true - to_true.T + (whole @ true) * diagonal)[None, ...]
    return log_xi, _gradient(mills, is_true), trace, hessian


def _gradient(mills: Array, is_true: Array) -> Array:
    xp = array_namespace(mills)
    return xp.where(is_true, xp.sum(mills, axis=1, keepdims=True), -mills)


class ClassIntegrals(NamedTuple):
    """Means over the integrand of ξ. With ρ_j = φ/Φ at a_j = u + δ_j, 0 for the true class:"""

    log_xi: Array  # (n,)
    mills: Array  # (n, C): E ρ_j
    own: Array  # (n, C): −E a_j ρ_j
    mixed: Array  # (n, C): Σ_{i≠j} E ρ_i ρ_j
    products: Array  # (n, C, C): E ρ_i ρ_j; (1, C, C) their sum over rows; zeros where not asked for


def is_true_class(y: Array, target: Array) -> Array:
    return arange(y.shape[1], y)[None, :] == target[:, None]


def class_integrals(y: Array, target: Array, each: bool | None, n: int | None = None) -> ClassIntegrals:
    """By one kernel on a GPU, else by arrays; with products of `each` row, or their sum, or None.

    `n` are nodes, instead of what `n_nodes` says. Some rows at a time: each has an array of nodes times classes.
    """
    n_rows, n_classes = y.shape
    n = n_nodes(n_classes) if n is None else n
    integrals = array_integrals if cuda_kernels(y) is None else kernel_integrals
    step = max(1, (HOST_BYTES if is_numpy_array(y) else DEVICE_BYTES) // (8 * n * n_classes))
    places = (slice(i, min(i + step, n_rows)) for i in range(0, max(1, n_rows), step))
    found = [integrals(y[some, :], target[some], each, n) for some in places]
    if len(found) == 1:
        return found[0]
    *cells, products = zip(*found)
    joined = array_namespace(y).concat
    log_xi, mills, own, mixed = (joined(part) for part in cells)
    return ClassIntegrals(log_xi, mills, own, mixed, joined(products) if each else sum(products))


def kernel_integrals(y: Array, target: Array, each: bool | None, n: int) -> ClassIntegrals:
    """`array_integrals` on a GPU."""
    kernels = cuda_kernels(y)
    assert kernels is not None
    constants = {"FARTHEST": FARTHEST, "REACH": REACH, "N_NEWTON": N_NEWTON, "N_EDGE": N_EDGE}
    nodes = _grid_on(n, array_namespace(y), device(y))
    log_total, mills, own, mixed, roots = kernels.class_integrals(y, target, nodes, each is not None, **constants)
    return ClassIntegrals(log_total + log_spacing(n), mills, own, mixed, products_of_roots(roots, each))


@lru_cache(maxsize=8)
def _grid_on(n: int, xp: Any, where: Any) -> Array:
    """The nodes, copied to a device once: a copy waits until it has done all else."""
    return xp.asarray(grid(n), device=where)


def products_of_roots(roots: Array, each: bool | None) -> Array:
    """Products between classes from their roots at all nodes, (n, nodes, C): of each row, or their sum, (1, C, C)."""
    xp = array_namespace(roots)
    roots = roots if each else xp.reshape(roots, (1, roots.shape[0] * roots.shape[1], roots.shape[2]))
    return xp.matrix_transpose(roots) @ roots


def log_spacing(n: int) -> float:
    """Of the trapezoid rule, with the constant of the normal density."""
    return log(2 * REACH / (n - 1)) - 0.5 * log(2 * pi)


def array_integrals(y: Array, target: Array, each: bool | None, n: int) -> ClassIntegrals:
    """The integrand exp f(u), f = −u²/2 + Σ log Φ(u + δ_j), is log-concave, and −f″ falls with u, to 1: it is steep on
    the left of its mode, of width l = (−f″)^-½ there, and long on the right, of a width r ≤ 1 that Newton steps find,
    which on this side never go too far. The trapezoid rule in t, u = mode + l·t + (r − l)(softplus(t) − log 2),
    converges exponentially: `n_nodes` of them give log ξ to 1e-10 and its gradient to 1e-9 for up to 200 classes.
    """
    xp, is_true = array_namespace(y), is_true_class(y, target)
    y_true = xp.sum(xp.where(is_true, y, 0.0), axis=1, keepdims=True)
    # A gap so large that log Φ and ρ vanish takes the true class itself out of the product.
    delta = xp.where(is_true, 40.0, xp.clip(y_true - y, -FARTHEST, FARTHEST))
    u = xp.maximum(xp.min(delta, axis=1) / -2, xp.zeros_like(delta[:, 0]))
    for _ in range(N_NEWTON):
        _, slope, curvature = _log_integrand(u, delta)
        u = u + slope / curvature
    top, _, curvature = _log_integrand(u, delta)
    left, right = 1 / xp.sqrt(curvature), xp.ones_like(u)
    for _ in range(N_EDGE):
        value, slope, _ = _log_integrand(u + REACH * right, delta)
        right = right + (top - REACH**2 / 2 - value) / (slope * REACH)
    total = xp.zeros_like(u)
    mills, own, mixed = (xp.zeros_like(y) for _ in range(3))
    roots = []
    for t, softplus, sigmoid in grid(n).T.tolist():
        v = u + left * t + (right - left) * softplus
        a = v[:, None] + delta
        log_phi, rho = log_phi_and_rho(a)
        rho = xp.where(is_true, 0.0, rho)
        weight = xp.exp(xp.sum(log_phi, axis=1) - v**2 / 2 - top) * (left + (right - left) * sigmoid)
        scaled = weight[:, None] * rho
        total, mills, own = total + weight, mills + scaled, own - scaled * a
        if each is not None:
            mixed = mixed + scaled * (xp.sum(rho, axis=1, keepdims=True) - rho)
            roots.append(xp.sqrt(weight)[:, None] * rho)
    mills, own, mixed = (values / total[:, None] for values in (mills, own, mixed))
    stacked = xp.stack(roots, axis=1) / xp.sqrt(total)[:, None, None] if roots else zeros((0, n, y.shape[1]), y)
    products = products_of_roots(stacked, each)
    return ClassIntegrals(top + xp.log(total) + log_spacing(n), mills, own, mixed, products)


def two_class_moments(y: Array, target: Array) -> tuple[Array, Array]:
    """As `probit_moments`: of two classes ξ = Φ(δ/√2), δ = y_t − y_j, so ∇ log ξ = ± ρ(δ/√2)/√2."""
    return two_class_curvature(y, target, each=True)[:2]


def two_class_curvature(y: Array, target: Array, each: bool) -> tuple[Array, Array, Array, Array]:
    """As `probit_curvature`: log Φ has the second derivative −ρ(ρ + a), here at a = δ/√2."""
    xp = array_namespace(y)
    sign = xp.astype(2 * target - 1, y.dtype)  # of class 1
    a = sign * (y[:, 1] - y[:, 0]) / sqrt(2)
    log_xi, rho = log_phi_and_rho(a)
    step, half = sign * rho / sqrt(2), -0.5 * xp.clip(rho * (rho + a), 0.0, 1.0)
    signs = 2 * eye(2, y) - 1
    hessian = (half if each else xp.sum(half, axis=0, keepdims=True))[:, None, None] * signs
    return log_xi, xp.stack([-step, step], axis=1), 2 * half, hessian


def _log_integrand(u: Array, delta: Array) -> tuple[Array, Array, Array]:
    """f, f′ and −f″: with ρ = φ/Φ, f′ = −u + Σρ and −f″ = 1 + Σρ(ρ + a), a = u + δ."""
    xp = array_namespace(u)
    a = u[:, None] + delta
    log_phi, rho = log_phi_and_rho(a)
    value = xp.sum(log_phi, axis=1) - u**2 / 2
    # 0 < ρ(ρ + a) < 1, which rounding forgets far out.
    return value, xp.sum(rho, axis=1) - u, 1 + xp.sum(xp.clip(rho * (rho + a), 0.0, 1.0), axis=1)


def log_phi_and_rho(a: Array) -> tuple[Array, Array]:
    """log Φ and ρ = φ/Φ: with E = 2 exp(a²/2) Φ(a), log Φ = log E/2 − a²/2 and ρ = √(2/π)/E, however far out."""
    if is_numpy_array(a) and a.size and a.min() >= -100.0:  # the same, a little sooner; further out φ and Φ cancel
        log_phi = log_ndtr(a)
        return log_phi, np.exp(-0.5 * a * a - 0.5 * log(2 * pi) - log_phi)
    xp = array_namespace(a)
    a = xp.clip(a, max=12.0)  # beyond it nothing changes, and E would overflow
    E = erfcx(-sqrt(0.5) * a)
    return xp.log(0.5 * E) - 0.5 * a * a, sqrt(2 / pi) / E


def argmax_probabilities(y: Array, std: Array) -> Array:
    """p(x_i is the largest), x_j ~ N(y_j, std_j²) independent, (n, C).

    p_i = ∫ (φ_i/Φ_i)(x) Π_j Φ_j(x) dx: one grid over where the maximum can lie serves all classes.
    """
    xp = array_namespace(y)
    top = xp.max(y + WIDEST * std, axis=1, keepdims=True)
    bottom = xp.max(y - WIDEST * std, axis=1, keepdims=True)
    total = xp.zeros_like(y)
    for share in np.linspace(0, 1, N_ARGMAX):
        a = (bottom + float(share) * (top - bottom) - y) / std
        log_cdf = log_ndtr(a)
        total = total + xp.exp(xp.sum(log_cdf, axis=1, keepdims=True) - log_cdf - a**2 / 2)
    p = total / std
    return p / xp.sum(p, axis=1, keepdims=True)


@lru_cache(maxsize=8)
def sobol_normal(dim: int) -> np.ndarray:
    """Standard normal points of low discrepancy, the same at every call, (n, dim); one point suffices for dim 0."""
    if dim == 0:
        return np.zeros((1, 0))
    return ndtri(np.clip(qmc.Sobol(dim, seed=0).random(N_DRAWS), 1e-12, 1 - 1e-12))
