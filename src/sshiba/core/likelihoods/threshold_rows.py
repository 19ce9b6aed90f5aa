"""Rows of yes and no whose cells are inferred together: q(z) normal, and q(x | z) exact.

Π q(x) cannot hold that cells of a row are sure only of each other: of two cells of one factor with weight w it loses
½ log((1 + w²)²/(1 + 2w²)) nats a row, so that weights stay small. Here q(z) is any normal distribution instead, and x
given z is N(a, 1), a = <w>·z + <b>, cut to the side of its label. What x adds to the bound is then E log Φ(s a), with
a normal and s = ±1.

H says how far y moves with x (`leverage`), P = I − H is the precision of the cells with z integrated out, and u the
weight of the view. All other views say a ~ N(a0, M), M = (P⁻¹ − I)/u. The best q has a covariance (M⁻¹ + uC)⁻¹ of a,
with C = diag(c), and the mean a0 + u M e, where e = E[s ρ(s a)] and c = E[ρ(ρ + s a)] = −de/d<a> are those of each
cell; ρ = φ/Φ. Newton's method finds it: with r = e + c<a>, c and r of all cells (their sites) go to those of the
present <a> and Var(a), and

    e = (I + u C M)⁻¹ (r − C a0).

The problem is concave. A secant chooses how far each step goes, and of a row whose bound it would lower it is halved.
With the sites that are best the moments below are those of q, so that the bound of a fit cannot fall.

By Stein's identity Cov(x, z) = (I − C) W Cov(z). That is what comes of <x> = <a> + e and Cov(x) = (I − C)/u +
(I − C) Cov(a) (I − C) where z follows x, as it does in other latent views; so the sums over rows need nothing new.
"""

from __future__ import annotations

from functools import partial
from math import ceil, exp, log, pi
from typing import NamedTuple

from array_api_compat import is_numpy_array

from ..arrays import array_namespace, compiled_twin, eye, inverse_positive
from ..state import Array
from .probit_integrals import log_phi_and_rho

REACH, NODES = 6.0, 8.0  # of the trapezoid rule: so many deviations to each side, and nodes there; more where a is wide
MOST_STEPS, SETTLED, SMALLEST_STEP = 30, 1e-10, 1e-3  # of Newton's method; nats of a row; share of a step
LEAST_SECANT, LARGEST_STEP = 0.5, 2.0  # shares of a step that the secant may choose

compiled = partial(compiled_twin, "likelihoods.threshold_rows_compiled")


def expectations(s: Array, mean: Array, var: Array) -> tuple[Array, Array, Array]:
    """E log Φ(s a), E s ρ(s a), and E ρ(ρ + s a), a ~ N(mean, var), by the trapezoid rule."""
    xp = array_namespace(mean)
    std = xp.sqrt(var)
    n = ceil(NODES * max(1.0, float(xp.max(std))))
    total, e, c, weights = (xp.zeros_like(mean) for _ in range(4))
    for i in range(-n, n + 1):
        u = REACH * i / n
        weight = exp(-u * u / 2)
        a = s * (mean + u * std)
        log_phi, rho = log_phi_and_rho(a)
        total, e, c = total + weight * log_phi, e + weight * rho, c + weight * rho * (rho + a)
        weights = weights + weight
    return total / weights, s * e / weights, xp.clip(c / weights, 0.0, 1.0)


def update_rows(
    s: Array, x: Array, y: Array, v: Array, leverage: Array, weight: float, each: bool
) -> tuple[Array, Array, Array, Array]:
    """<x>, Cov(x) (of each row, or their sum), the bound of each row and the variances of a; from the present <x>, y
    and v.

    `s` is 0 where a cell is not seen, and `leverage` is H, with rows and columns of 0 there.
    """
    xp = array_namespace(y)
    inverse, logdet = inverse_positive(eye(y.shape[1], y) - leverage)
    M = (inverse - eye(y.shape[1], y)) / weight
    fast = compiled() if is_numpy_array(y) else None
    e, c, mean, cov_a, log_phi, lost = (best_sites if fast is None else fast.best_sites)(s, x, y, v, M, weight)
    v = xp.clip(xp.linalg.diagonal(cov_a), min=0.0)
    seen = s != 0
    free = xp.where(seen, 1 - c, 0.0)
    cov = free[:, :, None] * cov_a * free[:, None, :] + (free / weight)[:, :, None] * eye(y.shape[1], y)
    # E(x − a)² as the sums over rows will have it, Cov(x) being that of one copy; E log Φ takes the place of what it is
    # in E log N(x; a, 1), and log |Cov(z)|/|Cov(z | x)| = −log|P| − log|I + uRMR|, R = diag(√c).
    residual = e * e + max(1.0, weight) * xp.linalg.diagonal(cov) - 2 * free * v + v
    cells = xp.where(seen, 0.5 * log(2 * pi) + 0.5 * residual, 0.0)
    bound = log_phi + xp.sum(cells, axis=1) + (logdet - lost) / (2 * weight)
    return xp.where(seen, mean + e, 0.0), cov if each else xp.sum(cov, axis=0, keepdims=True), bound, v


class Sites(NamedTuple):
    """What cells say, and q(a) of it."""

    c: Array  # (n, D)
    r: Array  # (n, D)
    e: Array  # (n, D)
    mean: Array  # (n, D)
    cov: Array  # (n, D, D)
    log_phi: Array  # (n,): E log Φ of all cells
    lost: Array  # (n,): log |I + uRMR|
    value: Array  # (n,): the bound of the row, up to a constant
    next_c: Array  # what c and r would be at this mean and these variances
    next_r: Array


def best_sites(s: Array, x: Array, y: Array, v: Array, M: Array, weight: float) -> tuple[Array, ...]:
    """e, c, <a>, Cov(a), Σ E log Φ and log |I + uRMR| of the best q(a), from the present <x>, y and v."""
    xp, seen = array_namespace(y), s != 0
    e = xp.where(seen, x - y, 0.0)
    a0 = y - weight * (e[:, None, :] @ M)[:, 0, :]
    _, _, c = expectations(s, y, v)
    c = xp.where(seen, c, 0.0)
    best = apply_sites(s, c, e + c * y, a0, M, weight)
    share, going = xp.ones_like(best.value), xp.ones_like(best.value) > 0
    last, before = moves(best), squares(moves(best), moves(best))
    for _ in range(MOST_STEPS):
        t = share[:, None]
        c, r = best.c + t * (best.next_c - best.c), best.r + t * (best.next_r - best.r)
        new = apply_sites(s, c, r, a0, M, weight)
        gain = new.value - best.value
        better = going & (gain > -SETTLED)
        going = going & (xp.abs(gain) > SETTLED) & (share > SMALLEST_STEP)
        now = moves(new)
        share = xp.where(better, secant_share(share, squares(now, last), before), xp.clip(share / 2, max=1.0))
        before = xp.where(better, squares(now, now), before)
        last = xp.where(better[:, None], now, last)
        best = Sites(*(xp.where(xp.reshape(better, (-1,) + (1,) * (b.ndim - 1)), a, b) for a, b in zip(new, best)))
        if not xp.any(going):
            break
    return best.e, best.c, best.mean, best.cov, best.log_phi, best.lost


def moves(sites: Sites) -> Array:
    """How far c and r have to go, (n, 2 D)."""
    return array_namespace(sites.c).concat([sites.next_c - sites.c, sites.next_r - sites.r], axis=1)


def squares(a: Array, b: Array) -> Array:
    return array_namespace(a).sum(a * b, axis=1)


def secant_share(share: Array, along: Array, before: Array) -> Array:
    """The share of the next step, by the secant of the last two (Barzilai and Borwein), of each row.

    C lags behind the variances, so that plain steps converge linearly, at some rate r = <move, last>/|last|² after a
    share t of the last move: along that direction the best share is t/(1 − r).
    """
    xp = array_namespace(share)
    is_known = along < before
    rate = xp.where(is_known, along / xp.where(is_known, before, xp.ones_like(before)), xp.zeros_like(along))
    found = xp.clip(share / (1 - rate), min=LEAST_SECANT, max=LARGEST_STEP)
    return xp.where(is_known, found, xp.where(before > 0, LARGEST_STEP * xp.ones_like(share), xp.ones_like(share)))


def apply_sites(s: Array, c: Array, r: Array, a0: Array, M: Array, weight: float) -> Sites:
    """q(a) of such sites. Its value is u Σ E log Φ − KL, KL = ½ (log|I + uRMR| − u Σ c v + u e·(<a> − a0))."""
    xp, one, seen = array_namespace(c), eye(c.shape[1], c), s != 0
    root = xp.sqrt(weight * c)
    L = xp.linalg.cholesky(one + root[:, :, None] * M * root[:, None, :])
    half = xp.linalg.solve(L, root[:, :, None] * M)
    b = r - c * a0
    e = b - root * xp.linalg.solve(xp.matrix_transpose(L), half @ b[:, :, None])[:, :, 0]
    moved = weight * (e[:, None, :] @ M)[:, 0, :]
    cov = M - xp.matrix_transpose(half) @ half
    v = xp.clip(xp.linalg.diagonal(cov), min=0.0)
    cells = expectations(s, a0 + moved, v)
    log_phi, next_e, next_c = (xp.where(seen, value, 0.0) for value in cells)
    lost = 2 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=1)
    value = weight * xp.sum(log_phi + 0.5 * (c * v - e * moved), axis=1) - 0.5 * lost
    mean = a0 + moved
    return Sites(c, r, e, mean, cov, xp.sum(log_phi, axis=1), lost, value, next_c, next_e + next_c * mean)
