"""What PyTorch would do in many passes over a GPU's memory, in one each: kernels in Triton, which comes with its builds
for CUDA. They are tested twins of array forms elsewhere, and take contiguous tensors of double precision.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

LARGEST = 128  # rows of a matrix that `inverse_positive` can hold in registers
CELLS = 512  # of rows times classes that a program works on at a time
BLOCK = 1024  # cells at a time where each is on its own


@triton.jit
def _log_phi_and_rho(a):
    """log Φ and ρ = φ/Φ, by E = exp(a²/2) Φ(a)·2: one special function for both."""
    a = tl.minimum(a, tl.full((), 12.0, tl.float64))
    E = libdevice.erfcx(a * tl.full((), -0.7071067811865476, tl.float64))
    return tl.log(0.5 * E) - 0.5 * a * a, tl.full((), 0.7978845608028654, tl.float64) / E


@triton.jit
def _cells(a_ptr, log_phi_ptr, rho_ptr, n, BLOCK: tl.constexpr):
    cell = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    log_phi, rho = _log_phi_and_rho(tl.load(a_ptr + cell, mask=cell < n, other=0.0))
    tl.store(log_phi_ptr + cell, log_phi, mask=cell < n)
    tl.store(rho_ptr + cell, rho, mask=cell < n)


def log_phi_and_rho(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `probit_integrals.log_phi_and_rho`."""
    a = a.contiguous()
    log_phi, rho = torch.empty_like(a), torch.empty_like(a)
    _cells[(triton.cdiv(a.numel(), BLOCK),)](a, log_phi, rho, a.numel(), BLOCK=BLOCK)
    return log_phi, rho


@triton.jit
def _invert(a_ptr, out_ptr, logdet_ptr, k, WIDTH: tl.constexpr):
    """Gauss and Jordan's elimination in place, one pivot after the other: A ends as −A⁻¹.

    With p the pivot: a_ij −= a_ip a_pj / a_pp, then row and column p are divided by a_pp, which becomes −1/a_pp.
    Positive definite matrices need no search for pivots; their logarithms add up to log|A|.
    """
    matrix = tl.program_id(0).to(tl.int64) * k * k
    i, j = tl.arange(0, WIDTH)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = (i < k) & (j < k)
    A = tl.load(a_ptr + matrix + i * k + j, mask=inside, other=0.0)
    logdet = tl.full((), 0.0, tl.float64)
    for p in range(k):
        down, along = tl.sum(tl.where(j == p, A, 0.0), axis=1), tl.sum(tl.where(i == p, A, 0.0), axis=0)
        pivot = tl.sum(tl.where(tl.arange(0, WIDTH) == p, down, 0.0), axis=0)
        down = down / pivot
        new = tl.where(j == p, down[:, None], A - down[:, None] * along[None, :])
        new = tl.where(i == p, along[None, :] / pivot, new)
        A = tl.where((i == p) & (j == p), -1.0 / pivot, new)
        logdet -= tl.log(pivot)
    tl.store(out_ptr + matrix + i * k + j, -A, mask=inside)
    tl.store(logdet_ptr + tl.program_id(0), logdet)


def inverse_positive(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `arrays.inverse_positive`, of matrices up to `LARGEST`."""
    n, k = matrices.shape[:2]
    matrices = matrices.contiguous()
    out, logdet = torch.empty_like(matrices), matrices.new_empty(n)
    width = max(16, triton.next_power_of_2(k))
    _invert[(n,)](matrices, out, logdet, k, WIDTH=width, num_warps={16: 1, 32: 2, 64: 4}.get(width, 8))
    return out, logdet


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
    """As `probit_integrals.array_integrals`; the constants are those of `probit_grid`."""
    y, (n, n_classes), n_nodes = y.contiguous(), y.shape, grid.shape[1]
    log_xi, mills, own, mixed = y.new_empty(n), torch.empty_like(y), torch.empty_like(y), torch.empty_like(y)
    roots = y.new_empty((n, n_nodes, n_classes) if with_roots else (0,))
    width = triton.next_power_of_2(n_classes)
    rows = max(1, CELLS // width)
    _integrate[(triton.cdiv(n, rows),)](
        y, target.contiguous(), grid, log_xi, mills, own, mixed, roots, n, n_classes, n_nodes,
        ROWS=rows, WIDTH=width, WITH_ROOTS=with_roots, **constants,
    )  # fmt: skip
    return log_xi, mills, own, mixed, roots
