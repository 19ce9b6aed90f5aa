"""What PyTorch would do in many passes over a GPU's memory, in one each: kernels in Triton, which comes with its builds
for CUDA. They are tested twins of array forms elsewhere, and take contiguous tensors of double precision.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

SMALL = 32  # rows of a matrix that one warp holds in its registers
CELLS = 256  # of rows times classes that a program works on at a time
BLOCK = 1024  # cells at a time where each is on its own


@triton.jit
def _log_phi_and_rho(a):
    """log Φ and ρ = φ/Φ, by E = exp(a²/2) Φ(a)·2: one special function for both."""
    a = tl.minimum(a, tl.full((), 12.0, tl.float64))
    E = libdevice.erfcx(a * tl.full((), -0.7071067811865476, tl.float64))
    return tl.log(0.5 * E) - 0.5 * a * a, tl.full((), 0.7978845608028654, tl.float64) / E


@triton.jit
def _cut(
    t_ptr, y_ptr, root_ptr, log_ptr, mean_ptr, second_ptr, bound_ptr, n, n_tau,
    EACH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """As `Threshold.infer_x`, cell by cell, given √tau and log tau of `EACH` cell or of each feature."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    cell = first + tl.arange(0, BLOCK)
    inside = cell < n
    own = cell if EACH else ((first % n_tau).to(tl.int32) + tl.arange(0, BLOCK)) % n_tau
    root, log_tau = tl.load(root_ptr + own, mask=inside, other=1.0), tl.load(log_ptr + own, mask=inside, other=0.0)
    y = tl.load(y_ptr + cell, mask=inside, other=0.0)
    s, unit = 2.0 * tl.load(t_ptr + cell, mask=inside, other=0.0) - 1.0, 1.0 / root
    a = s * y * root
    log_phi, rho = _log_phi_and_rho(a)
    mean, quad = y + s * rho * unit, 1.0 - a * rho
    tl.store(mean_ptr + cell, mean, mask=inside)
    tl.store(second_ptr + cell, mean * mean + tl.maximum(quad - rho * rho, 0.0) * unit * unit, mask=inside)
    log_2pi = tl.full((), 1.8378770664093453, tl.float64)
    tl.store(bound_ptr + cell, log_phi + 0.5 * (log_2pi - log_tau + quad), mask=inside)


def cut_normal(target: torch.Tensor, y: torch.Tensor, tau: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Mean, second moment and bound as `Threshold.infer_x`; tau is (D,), (1, D) or (n, D)."""
    target, y = target.to(y.dtype).contiguous(), y.contiguous()
    each = tau.ndim == 2 and tau.shape[0] > 1
    tau = tau.expand(y.shape if each else (1, y.shape[1]))
    root, log_tau = tau.sqrt().contiguous(), tau.log().contiguous()
    found = [torch.empty_like(y) for _ in range(3)]
    _cut[(triton.cdiv(y.numel(), BLOCK),)](
        target, y, root, log_tau, *found, y.numel(), tau.numel(), EACH=each, BLOCK=BLOCK
    )
    return tuple(found)


@triton.jit
def _invert(a_ptr, logdet_ptr, k, of_matrix, of_row, WIDTH: tl.constexpr):
    """Gauss and Jordan's elimination in place, one pivot after the other: A ends as −A⁻¹.

    With p the pivot: a_ij −= a_ip a_pj / a_pp, then row and column p are divided by a_pp, which becomes −1/a_pp.
    Positive definite matrices need no search for pivots; their logarithms add up to log|A|.
    """
    matrix = tl.program_id(0).to(tl.int64)
    i, j = tl.arange(0, WIDTH)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = (i < k) & (j < k)
    place = a_ptr + matrix * of_matrix + i * of_row + j
    A = tl.load(place, mask=inside, other=0.0)
    logdet = tl.full((), 0.0, tl.float64)
    for p in range(k):
        down, along = tl.sum(tl.where(j == p, A, 0.0), axis=1), tl.sum(tl.where(i == p, A, 0.0), axis=0)
        pivot = tl.sum(tl.where(tl.arange(0, WIDTH) == p, down, 0.0), axis=0)
        inverse = 1.0 / pivot
        new = tl.where(j == p, down[:, None] * inverse, A - (down * inverse)[:, None] * along[None, :])
        A = tl.where(i == p, tl.where(j == p, -inverse, along[None, :] * inverse), new)
        logdet -= tl.log(pivot)
    tl.store(place, -A, mask=inside)
    tl.store(logdet_ptr + matrix, logdet)


def inverse_positive(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `arrays.inverse_positive`, in place.

    Large ones by halves: with X = A⁻¹B and S = C − BᵀX, [[A, B], [Bᵀ, C]]⁻¹ = [[A⁻¹ + X S⁻¹ Xᵀ, −X S⁻¹], [., S⁻¹]].
    The error of A⁻¹ in X would enter S times the condition of the matrix, so X is refined: X + A⁻¹(B − A X). For the
    same reason −S⁻¹Xᵀ is not the transpose of −X S⁻¹: rounding makes S⁻¹ a little asymmetric, and a large A counts it.
    """
    n, k = matrices.shape[:2]
    if k > SMALL:
        half = (k + 1) // 2
        A, B = matrices[:, :half, :half], matrices[:, :half, half:]
        Bt, C = matrices[:, half:, :half], matrices[:, half:, half:]
        before = A.clone()
        _, logdet = inverse_positive(A)
        X = A @ B
        X = torch.baddbmm(X, A, torch.baddbmm(B, before, X, alpha=-1))
        _, other = inverse_positive(torch.baddbmm(C, Bt, X, alpha=-1, out=C))
        XS = X @ C
        torch.baddbmm(A, XS, X.mT, out=A)
        torch.neg(XS, out=B)
        torch.baddbmm(Bt, C, X.mT, beta=0, alpha=-1, out=Bt)
        return matrices, logdet + other
    logdet = matrices.new_empty(n)
    width = max(16, triton.next_power_of_2(k))
    of_matrix, of_row, _ = matrices.stride()
    _invert[(n,)](matrices, logdet, k, of_matrix, of_row, WIDTH=width, num_warps=1)
    return matrices, logdet


@triton.jit
def _log_integrand(u, delta, others):
    """f, f′ and −f″ as `probit_integrals._log_integrand`."""
    a = u[:, None] + delta
    log_phi, rho = _log_phi_and_rho(a)
    bent = tl.minimum(tl.maximum(rho * (rho + a), 0.0), 1.0)
    value = tl.sum(tl.where(others, log_phi, 0.0), axis=1) - 0.5 * u * u
    slope = tl.sum(tl.where(others, rho, 0.0), axis=1) - u
    return value, slope, 1.0 + tl.sum(tl.where(others, bent, 0.0), axis=1)


@triton.jit
def _integrate(
    y_ptr, target_ptr, grid_ptr, log_xi_ptr, mills_ptr, own_ptr, mixed_ptr, roots_ptr, n, n_classes, n_nodes,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, WITH_ROOTS: tl.constexpr,
    FARTHEST: tl.constexpr, REACH: tl.constexpr, N_NEWTON: tl.constexpr, N_EDGE: tl.constexpr,
):  # fmt: skip
    row, j = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)[None, :]
    inside = (row < n)[:, None] & (j < n_classes)
    place = row[:, None] * n_classes + j
    target = tl.load(target_ptr + row, mask=row < n, other=0)
    y = tl.load(y_ptr + place, mask=inside, other=0.0)
    is_true = j == target[:, None]
    others = inside & (j != target[:, None])
    delta = tl.sum(tl.where(is_true, y, 0.0), axis=1)[:, None] - y
    delta = tl.where(others, tl.minimum(tl.maximum(delta, -FARTHEST), FARTHEST), 0.0)
    u = tl.max(delta * -0.5, axis=1)
    for _ in tl.static_range(N_NEWTON):
        _, slope, curvature = _log_integrand(u, delta, others)
        u += slope / curvature
    top, _, curvature = _log_integrand(u, delta, others)
    left, right = 1.0 / tl.sqrt(curvature), tl.full((ROWS,), 1.0, tl.float64)
    for _ in tl.static_range(N_EDGE):
        value, slope, _ = _log_integrand(u + REACH * right, delta, others)
        right += (top - 0.5 * REACH * REACH - value) / (slope * REACH)
    total = tl.zeros((ROWS,), tl.float64)
    mills = tl.zeros((ROWS, WIDTH), tl.float64)
    own = tl.zeros((ROWS, WIDTH), tl.float64)
    mixed = tl.zeros((ROWS, WIDTH), tl.float64)
    for k in range(n_nodes):
        t, softplus = tl.load(grid_ptr + k), tl.load(grid_ptr + n_nodes + k)
        v = u + left * t + (right - left) * softplus
        a = v[:, None] + delta
        log_phi, rho = _log_phi_and_rho(a)
        rho = tl.where(others, rho, 0.0)
        log_f = tl.sum(tl.where(others, log_phi, 0.0), axis=1) - 0.5 * v * v
        weight = tl.exp(log_f - top) * (left + (right - left) * tl.load(grid_ptr + 2 * n_nodes + k))
        total += weight
        scaled = weight[:, None] * rho
        mills += scaled
        own -= scaled * a
        mixed += scaled * (tl.sum(rho, axis=1)[:, None] - rho)
        if WITH_ROOTS:
            tl.store(roots_ptr + (row[:, None] * n_nodes + k) * n_classes + j, tl.sqrt(weight)[:, None] * rho, inside)
    tl.store(log_xi_ptr + row, top + tl.log(total), mask=row < n)
    tl.store(mills_ptr + place, mills / total[:, None], mask=inside)
    tl.store(own_ptr + place, own / total[:, None], mask=inside)
    tl.store(mixed_ptr + place, mixed / total[:, None], mask=inside)
    if WITH_ROOTS:
        for k in range(n_nodes):
            root = roots_ptr + (row[:, None] * n_nodes + k) * n_classes + j
            tl.store(root, tl.load(root, mask=inside, other=0.0) / tl.sqrt(total)[:, None], mask=inside)


def class_integrals(
    y: torch.Tensor, target: torch.Tensor, grid: torch.Tensor, with_roots: bool, **constants: Any
) -> tuple[torch.Tensor, ...]:
    """As `probit_integrals.array_integrals`, with the roots of products; the constants are those of `probit_grid`."""
    y, (n, n_classes), n_nodes = y.contiguous(), y.shape, grid.shape[1]
    log_xi, mills, own, mixed = y.new_empty(n), torch.empty_like(y), torch.empty_like(y), torch.empty_like(y)
    roots = y.new_empty((n if with_roots else 0, n_nodes, n_classes))
    width = triton.next_power_of_2(n_classes)
    rows = max(1, CELLS // width)
    _integrate[(triton.cdiv(n, rows),)](
        y, target.contiguous(), grid, log_xi, mills, own, mixed, roots, n, n_classes, n_nodes,
        ROWS=rows, WIDTH=width, WITH_ROOTS=with_roots, **constants,
    )  # fmt: skip
    return log_xi, mills, own, mixed, roots
