"""The few functions that the array API standard lacks, for NumPy and PyTorch arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from array_api_compat import array_namespace as _any_namespace
from array_api_compat import device, is_torch_array
from array_api_compat import numpy as _numpy_namespace


def array_namespace(array: Any) -> Any:
    """The functions that go with an array; at once for NumPy's, because kernels ask hundreds of times a sweep."""
    return _numpy_namespace if type(array) is np.ndarray else _any_namespace(array)


def digamma(x: Any) -> Any:
    return _dispatch("digamma", "psi", x)


def gammaln(x: Any) -> Any:
    return _dispatch("gammaln", "gammaln", x)


def log_ndtr(x: Any) -> Any:
    """log Φ(x), accurate far into the lower tail."""
    return _dispatch("log_ndtr", "log_ndtr", x)


def _dispatch(torch_name: str, scipy_name: str, x: Any) -> Any:
    if is_torch_array(x):
        import torch

        return getattr(torch.special, torch_name)(x)
    return getattr(scipy.special, scipy_name)(x)


def log_sigmoid(x: Any) -> Any:
    """log σ(x) = −log(1 + e^−x), without overflow."""
    xp = array_namespace(x)
    return xp.where(x > 0, 0.0, x) - xp.log1p(xp.exp(-xp.abs(x)))


def log_sum_exp(x: Any, axis: int) -> Any:
    xp = array_namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    return xp.squeeze(top, axis=axis) + xp.log(xp.sum(xp.exp(x - top), axis=axis))


def like(values: Any, other: Any) -> Any:
    """Numbers from NumPy as an array of the namespace, dtype and device of `other`."""
    xp = array_namespace(other)
    return xp.asarray(np.asarray(values), dtype=other.dtype, device=device(other))


def zeros(shape: tuple[int, ...], other: Any) -> Any:
    return array_namespace(other).zeros(shape, dtype=other.dtype, device=device(other))


def eye(n: int, other: Any) -> Any:
    return array_namespace(other).eye(n, dtype=other.dtype, device=device(other))
