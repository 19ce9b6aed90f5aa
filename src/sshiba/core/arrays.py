"""The few functions that the array API standard lacks or NumPy is slow at, for arrays of any library."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import scipy.special
from array_api_compat import array_namespace as _any_namespace
from array_api_compat import device, is_numpy_array, is_torch_array
from array_api_compat import numpy as _numpy_namespace

FEW = 32  # matrices that are not worth inverting all at once
SMALL_FACTOR = 256  # numbers of a factor that is multiplied with many matrices at once
LEAF = 12  # rows of a triangle that is inverted row by row


def array_namespace(array: Any) -> Any:
    """The functions that go with an array; at once for NumPy's, because kernels ask hundreds of times a sweep."""
    return _numpy_namespace if type(array) is np.ndarray else _any_namespace(array)


def log_ndtr(x: Any) -> Any:
    """log Φ(x), accurate far into the lower tail."""
    return _special("log_ndtr", x)


def erfcx(x: Any) -> Any:
    """exp(x²) erfc(x)."""
    return _special("erfcx", x)


def gammaln(x: Any) -> Any:
    """log Γ(x)."""
    return _special("gammaln", x)


def _special(name: str, x: Any) -> Any:
    """A function that SciPy and PyTorch have under one name."""
    if type(x) is np.ndarray:
        return getattr(scipy.special, name)(x)
    if is_torch_array(x):
        import torch

        return getattr(torch.special, name)(x)
    return like(getattr(scipy.special, name)(to_numpy(x)), x)


def log_sigmoid(x: Any) -> Any:
    """log σ(x) = −log(1 + e^−x), without overflow."""
    xp = array_namespace(x)
    return xp.where(x > 0, 0.0, x) - xp.log1p(xp.exp(-xp.abs(x)))


def to_numpy(array: Any) -> np.ndarray:
    """The same numbers on the host."""
    return np.asarray(array.cpu() if is_torch_array(array) else array)


def for_numba(array: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """The numbers in one type and layout, read-only: numba compiles a function anew, for seconds, for each other."""
    same = np.ascontiguousarray(array, dtype=dtype).view()
    same.flags.writeable = False
    return same


def like(values: Any, other: Any) -> Any:
    """Numbers from NumPy as an array of the namespace, dtype and device of `other`."""
    xp = array_namespace(other)
    return xp.asarray(np.asarray(values), dtype=other.dtype, device=device(other))


def arange(n: int, other: Any) -> Any:
    """0 ... n − 1 as integers, where `other` is."""
    return array_namespace(other).arange(n, device=device(other))


def zeros(shape: tuple[int, ...], other: Any) -> Any:
    return array_namespace(other).zeros(shape, dtype=other.dtype, device=device(other))


def eye(n: int, other: Any) -> Any:
    return array_namespace(other).eye(n, dtype=other.dtype, device=device(other))


def take_columns(array: Any, places: np.ndarray) -> Any:
    """Columns of a matrix by their places, which are on the host."""
    xp = array_namespace(array)
    return xp.take(array, xp.asarray(places, device=device(array)), axis=1)


def place_rows(values: Any, places: Any, n: int) -> Any:
    """`values` as these of n rows, 0 in the others; `places` rise."""
    if is_numpy_array(values) or is_torch_array(values):  # several times as fast
        out = zeros((n, *values.shape[1:]), values)
        out[places] = values
        return out
    xp, rows = array_namespace(values), arange(n, values)
    nearest = xp.clip(xp.searchsorted(places, rows), max=places.shape[0] - 1)
    found = xp.reshape(xp.take(places, nearest) == rows, (n, *(1 for _ in values.shape[1:])))
    return xp.where(found, xp.take(values, nearest, axis=0), 0.0)


def inverse_root(precision: Any) -> tuple[Any, Any]:
    """B with B Bᵀ = precision⁻¹, upper triangular, and log|B Bᵀ|; of one positive definite matrix or a stack."""
    fast = _compiled_for(precision)
    if fast is not None:
        if precision.ndim == 3:
            return fast.inverse_root(precision)
        roots, logdets = fast.inverse_root(precision[None])
        return roots[0], logdets[0]
    xp = array_namespace(precision)
    chol = xp.linalg.cholesky(precision)
    if is_torch_array(chol):
        import torch

        one = torch.eye(chol.shape[-1], dtype=chol.dtype, device=chol.device)
        root = torch.linalg.solve_triangular(chol, one.expand_as(chol), upper=False)
    elif is_numpy_array(chol) and chol.ndim == 3 and len(chol) >= FEW:
        root = inverse_lower(chol)
    else:
        root = xp.linalg.inv(chol)
    return xp.matrix_transpose(root), -2 * xp.sum(xp.log(xp.linalg.diagonal(chol)), axis=-1)


def inverse_positive(matrices: Any) -> tuple[Any, Any]:
    """The inverses of positive definite matrices, (n, K, K), and the log determinants of the inverses, (n,).

    The inverses may take the place of the matrices.
    """
    kernels = cuda_kernels(matrices)
    if kernels is not None and matrices.shape[1]:
        return kernels.inverse_positive(matrices)
    fast = _compiled_for(matrices)
    if fast is not None:
        return fast.inverse_positive(matrices)
    root, logdet = inverse_root(matrices)
    return root @ array_namespace(root).matrix_transpose(root), logdet


@cache
def compiled_twin(name: str) -> ModuleType | None:
    """A module of core whose functions are those of arrays, compiled; None without numba.

    What else goes wrong in its import is an error: it would make every fit slow, and say nothing.
    """
    try:
        import_module("numba")
    except ImportError:  # not installed, or not for this NumPy
        return None
    return import_module(f".{name}", __package__)


_compiled_inverse = partial(compiled_twin, "inverse_compiled")


def _compiled_for(matrices: Any) -> ModuleType | None:
    """The compiled twins for matrices that they are faster for, else None."""
    fast = _compiled_inverse() if type(matrices) is np.ndarray and matrices.dtype == np.float64 else None
    return fast if fast is not None and matrices.shape[-1] <= fast.MOST_FACTORS else None


def cuda_kernels(array: Any) -> ModuleType | None:
    """Kernels for arrays of double precision on a GPU, or None elsewhere, and without Triton."""
    if not (is_torch_array(array) and array.is_cuda and array.element_size() == 8):
        return None
    return _cuda_kernels()


@cache
def _cuda_kernels() -> ModuleType | None:
    try:
        from . import cuda_kernels as found
    except ImportError:
        return None
    return found


def add_product(total: Any, a: Any, b: Any, in_place: bool = False) -> Any:
    """total + a @ b, in one pass over the product; `total` may have one row, but not where the sum takes its place."""
    if is_torch_array(a):
        import torch

        return torch.addmm(total, a, b, out=total if in_place else None)
    product = a @ b
    product += total
    return product


def move_by(a: Any, b: Any, share: Any) -> Any:
    """a + share·(b − a), in one pass."""
    if is_torch_array(a):
        import torch

        return torch.lerp(a, b, share)
    return a + share * (b - a)


def pairs_of(rows: Any) -> Any:
    """The products of all pairs of columns, (n, K (K + 1)/2)."""
    xp = array_namespace(rows)
    return xp.concat([rows[:, i:] * rows[:, i : i + 1] for i in range(rows.shape[1])], axis=1)


def unpack_pairs(pairs: Any, k: int) -> Any:
    """Symmetric matrices, (n, K, K), from their pairs in the order of `pairs_of`."""
    place = np.zeros((k, k), dtype=int)
    upper = np.triu_indices(k)
    place[upper] = place[upper[::-1]] = np.arange(len(upper[0]))
    return array_namespace(pairs).reshape(take_columns(pairs, place.ravel()), (pairs.shape[0], k, k))


def add_outer(total: Any, a: Any) -> Any:
    """total + a aᵀ of each row, (n, K, K), in the place of `total`."""
    if is_torch_array(a):
        return total.addcmul_(a[:, :, None], a[:, None, :])
    total += a[:, :, None] * a[:, None, :]
    return total


def sum_of_rows(rows: Any) -> Any:
    """(1, K), as a product: a sum of few columns is slower, and on a GPU may take twice the memory of `rows`."""
    xp = array_namespace(rows)
    return xp.ones((1, rows.shape[0]), dtype=rows.dtype, device=device(rows)) @ rows


def times_symmetric(a: Any, symmetric: Any) -> Any:
    """a @ S of each S, (n, K, K): where `a`, (D, K), is small, as (S aᵀ)ᵀ in one product, three times as fast."""
    n, k = symmetric.shape[:2]
    if n == 1 or type(a) is not np.ndarray or a.size > SMALL_FACTOR:
        return a[None, ...] @ symmetric
    flat = symmetric.reshape(n * k, k) @ a.T
    return np.ascontiguousarray(np.swapaxes(flat.reshape(n, k, len(a)), 1, 2))


def cross_product(a: Any, b: Any) -> Any:
    """aᵀb; outside of PyTorch as (bᵀa)ᵀ, which for a wide `a` is up to twice as fast."""
    if is_torch_array(a):
        return a.T @ b
    out = zeros((a.shape[1], b.shape[1]), b)
    out[...] = (b.T @ a).T
    return out


def inverse_lower(lower: np.ndarray) -> np.ndarray:
    """The inverses of lower triangular matrices, (n, K, K), all at once; several times as fast as one after the other.

    By halves, [[A, 0], [C, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹ C A⁻¹, D⁻¹]], and small ones row by row, from row i of L L⁻¹ = I.
    """
    k = lower.shape[-1]
    out = np.zeros_like(lower)
    if k <= LEAF:
        pivots = 1 / np.diagonal(lower, axis1=1, axis2=2)
        for i in range(k):
            out[:, i, :i] = -pivots[:, i, None] * (lower[:, i, None, :i] @ out[:, :i, :i])[:, 0, :]
            out[:, i, i] = pivots[:, i]
        return out
    half = (k + 1) // 2
    out[:, :half, :half] = inverse_lower(lower[:, :half, :half])
    out[:, half:, half:] = inverse_lower(lower[:, half:, half:])
    out[:, half:, :half] = -(out[:, half:, half:] @ (lower[:, half:, :half] @ out[:, :half, :half]))
    return out
