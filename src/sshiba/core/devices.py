"""Where rows live: NumPy arrays on the host, or PyTorch tensors on a device; and the way from one to the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from ..version import how_to_install
from .state import ColumnGroups
from .streamed import AnyView

DATA_SHARE = 0.8  # of the free memory of a device that data may take
NAMES = "None, 'cpu', 'cuda' or one of several, as 'cuda:1'"


@dataclass(frozen=True)
class Device:
    """Where the arrays of rows are, and how many rows are worth while at a time.

    Parameters
    ----------
    name : str, optional
        A device of PyTorch. None: NumPy arrays on the host.
    block_bytes, part_bytes : int
        Working memory of a block of rows, and of rows that have a covariance each.
    worth_a_block : float
        n·K³: what rows of one pattern of holes must save to have a block of their own.
    """

    name: str | None = None
    block_bytes: int = 2**26
    part_bytes: int = 2**24  # small enough for the caches
    worth_a_block: float = 2e6

    @property
    def is_host(self) -> bool:
        return self.name is None

    @property
    def full_errors(self) -> tuple[type[Exception], ...]:
        """What is raised where its memory is full; the host's is not watched."""
        if self.is_host:
            return ()
        import torch

        return (torch.OutOfMemoryError,)

    @property
    def memory(self) -> tuple[int, int] | None:
        """Bytes that are free, with those that PyTorch holds and does not use, and bytes in all; None: not known."""
        if self.is_host or self.name == "cpu":
            return None
        import torch

        free, total = torch.cuda.mem_get_info(self.name)
        return free + torch.cuda.memory_reserved(self.name) - torch.cuda.memory_allocated(self.name), total

    def holds(self, n_bytes: int) -> bool:
        """Is there room for data of this size beside what a sweep works with?"""
        return self.memory is None or n_bytes <= DATA_SHARE * self.memory[0]

    def put(self, value: Any) -> Any:
        """The same value with its arrays on the device; how columns are laid out stays on the host."""
        if self.is_host:
            return value
        import torch

        return map_arrays(value, (np.ndarray, torch.Tensor), self._tensor)

    def put_at_once(self, value: Any) -> Any:
        """The same of arrays in double precision, such as messages: in one copy, however many there are."""
        if self.is_host:
            return value
        import torch

        found: list[np.ndarray] = []
        map_arrays(value, np.ndarray, found.append)
        here = torch.empty(sum(array.size for array in found), dtype=torch.float64, pin_memory=self.name != "cpu")
        np.concatenate([array.reshape(-1) for array in found], out=here.numpy())
        parts = iter(here.to(self.name).split([array.size for array in found]))
        return map_arrays(value, np.ndarray, lambda array: next(parts).reshape(array.shape))

    def fetch(self, value: Any) -> Any:
        """The same value with its arrays on the host in double precision: in one copy, however many there are."""
        if self.is_host:
            return value
        import torch

        found: list[Any] = []
        map_arrays(value, torch.Tensor, found.append)
        if not found:
            return value
        there = torch.cat([array.reshape(-1).to(torch.float64) for array in found])
        # PyTorch keeps pinned memory for the next time; to other memory a copy is ten times as slow.
        here = torch.empty(there.shape, dtype=there.dtype, pin_memory=there.is_cuda)
        flat = here.copy_(there).numpy()
        edges = np.cumsum([0, *(array.numel() for array in found)])
        parts = iter([flat[a:b].reshape(tuple(t.shape)) for a, b, t in zip(edges, edges[1:], found)])
        return map_arrays(value, torch.Tensor, lambda _: next(parts))

    def to_host(self, value: Any) -> Any:
        """The same value with its arrays on the host one by one, each of the dtype that it has."""
        if self.is_host:
            return value
        import torch

        return map_arrays(value, torch.Tensor, lambda array: array.cpu().numpy())

    def standard_normal(self, size: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Standard normal numbers, made on the device."""
        if self.is_host:
            return rng.standard_normal(size)
        import torch

        return torch.randn(size, generator=self._seeded(rng), dtype=torch.float64, device=self.name)

    def standard_gamma(self, shape: np.ndarray, size: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Numbers from Gamma(shape, 1), made on the device."""
        if self.is_host:
            return rng.standard_gamma(shape, size)
        import torch

        return torch._standard_gamma(self.put(shape).expand(size), generator=self._seeded(rng))

    def _seeded(self, rng: np.random.Generator) -> Any:
        import torch

        return torch.Generator(device=self.name).manual_seed(int(rng.integers(2**63 - 1)))

    def _tensor(self, array: Any) -> Any:
        import torch

        return array.to(self.name) if isinstance(array, torch.Tensor) else torch.tensor(array, device=self.name)


HOST = Device()


def find_device(name: str | None) -> Device:
    """The device of this name; an error in one sentence where there is none."""
    if name is None:
        return HOST
    number = re.fullmatch(r"cuda(?::(\d+))?", name) if isinstance(name, str) else None
    if name != "cpu" and number is None:
        raise ValueError(f"device must be {NAMES}, not {name!r}.")
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={name!r} needs PyTorch: {how_to_install('torch')}.") from error
    memory = 2**35
    if number is not None:
        instead = "Name no device to compute on the CPU."
        if not torch.cuda.is_available():
            built = "" if torch.version.cuda else ", which was built without CUDA"
            raise ValueError(
                f"device={name!r}: there is no CUDA device for PyTorch {torch.__version__}{built}. {instead}"
            )
        n_devices = torch.cuda.device_count()
        if int(number[1] or 0) >= n_devices:
            raise ValueError(f"device={name!r}: there are {n_devices} CUDA devices, counted from cuda:0. {instead}")
        memory = torch.cuda.get_device_properties(name).total_memory
    return Device(name, block_bytes=min(2**32, memory // 40), part_bytes=2**29, worth_a_block=2e9)


def device_for(name: str | None, data: Iterable[AnyView]) -> Device:
    """The device of this name; where none is named that of the first tensor among the data."""
    views = list(data)
    tensors = (view.target for view in views if not view.on_host)  # type: ignore[union-attr]
    device = find_device(next((str(tensor.device) for tensor in tensors), None) if name is None else name)
    if not device.is_host and any(view.is_sparse for view in views):
        raise ValueError(f"device={device.name!r}: sparse matrices need the CPU. Name no device, or give dense arrays.")
    return device


def device_or_host(name: str | None, data: Iterable[AnyView] = ()) -> Device:
    """The same, or the host where it is not here: a model may be asked elsewhere than it was fitted."""
    try:
        return device_for(name, data)
    except (ImportError, ValueError):
        return HOST


def map_arrays(value: Any, kind: type | tuple[type, ...], change: Callable[[Any], Any]) -> Any:
    """The same value with its arrays changed, in nested dataclasses, tuples and lists."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple | list):
        parts = [map_arrays(part, kind, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if is_dataclass(value) and not isinstance(value, ColumnGroups | type):
        old = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        new = {name: map_arrays(part, kind, change) for name, part in old.items()}
        changed = {name: part for name, part in new.items() if part is not old[name]}
        return replace(value, **changed) if changed else value
    return value
