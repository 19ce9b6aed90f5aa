"""Tensors, and all arrays that share their memory through `__dlpack__`: real numbers on a device stay there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ..core.arrays import array_namespace, is_torch_array, like, to_numpy
from ..version import how_to_install

CPU = 1  # what `__dlpack_device__` calls the memory of the host
CHUNK_BYTES = 2**27


def is_shared(value: Any) -> bool:
    """Is it an array of another library than NumPy that others can read?"""
    return hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray | np.generic)


def is_on_device(value: Any) -> bool:
    return value.__dlpack_device__()[0] != CPU


def read_shared(value: Any, name: str) -> Any:
    """A tensor where it holds real numbers, rows by features, on a device; else a NumPy array."""
    value = value.detach() if hasattr(value, "detach") else value
    if not is_on_device(value):
        return to_numpy(value) if is_torch_array(value) else np.from_dlpack(value)
    try:
        import torch
    except ImportError as error:
        needed = f"which needs PyTorch: {how_to_install('torch')}."
        raise ImportError(f"view {name!r} is on a device, {needed}") from error
    tensor = torch.from_dlpack(value)
    if tensor.ndim != 2 or not tensor.is_floating_point():
        return to_numpy(tensor)
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.to(torch.float32)


def on_host(value: Any) -> Any:
    return to_numpy(value) if is_torch_array(value) else value


def numpy_dtype(tensor: Any) -> np.dtype:
    return np.dtype(str(tensor.dtype).removeprefix("torch."))


def row_slices(tensor: Any) -> Iterator[slice]:
    step = max(1, CHUNK_BYTES // (8 * tensor.shape[1]))
    return (slice(start, min(start + step, len(tensor))) for start in range(0, len(tensor), step))


def frames(tensor: Any) -> Iterator[pd.DataFrame]:
    """Some rows at a time on the host."""
    for rows in row_slices(tensor):
        yield pd.DataFrame(to_numpy(tensor[rows]), index=pd.RangeIndex(rows.start, rows.stop), copy=False)


def standardise_there(tensor: Any, centre: np.ndarray, scale: np.ndarray, dtype: str) -> tuple[Any, Any]:
    """(values - centre) / scale in double precision, then cast, 0 at holes; and which cells are observed."""
    xp = array_namespace(tensor)
    target, observed = xp.empty_like(tensor, dtype=getattr(xp, dtype)), xp.empty_like(tensor, dtype=xp.bool)
    for rows in row_slices(tensor):
        cells = xp.astype(tensor[rows], xp.float64)
        observed[rows] = ~xp.isnan(cells)
        cells = (cells - like(centre, cells)) / like(scale, cells)
        target[rows] = xp.astype(xp.where(observed[rows], cells, 0.0), target.dtype)
    return target, observed
