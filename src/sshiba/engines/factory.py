"""The one place that constructs the engine of a fit or a question.

On a cluster each worker makes a `MemoryRows` of every block that it has: `dask_tasks.HeldBlock`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from ..core.devices import HOST, Device
from ..core.parted import PartedView
from ..core.spec import ModelSpec
from ..core.streamed import AnyView, StreamedView
from ..version import how_to_install
from .memory import MemoryRows
from .protocol import Rows

BLOCKS_IN_MEMORY = 32  # of what may be used: several are at work, or read ahead, at a time
BLOCKS_TO_DEVICE = 8  # likewise, where blocks are read one ahead of the other and go to a device
ENGINES = ("auto", "memory", "gram", "dask")


def check_engine(engine: str) -> None:
    """Refuse an engine that this process cannot use now."""
    if engine == "dask":
        try:
            from ..core.dask_cluster import needed_client
        except ImportError as error:
            raise ImportError(f"engine='dask' needs Dask: {how_to_install('dask')}.") from error
        needed_client()


def make_rows(
    data: Sequence[AnyView],
    spec: ModelSpec,
    n_components: int,
    missing: str = "exact",
    engine: str = "auto",
    block_rows: int | None = None,
    min_shared: int | None = None,
    device: Device = HOST,
    max_memory: float = inf,
) -> Rows:
    """Rows that are ready for a fit, or for questions about them.

    Parameters
    ----------
    data : sequence of CodedView or StreamedView
        Aligned views, in the order of `spec.views`; then, where `spec` has groups of samples, their labels: the number
        of each row's group, missing where it is in none.
    n_components : int
        The most factors there will be; sets the size of the blocks.
    missing : "exact" or "mean-field"
    engine : one of ENGINES
        Work in Gram space where that is cheaper, never, or wherever it can be; or on the workers of a Dask cluster
        whose client is in use in this process. "auto" does that where some of the rows are there.
    block_rows, min_shared : int, optional
        As for `MemoryRows`.
    device : Device
        Where the rows live; on a cluster one of each worker.
    max_memory : float
        Bytes that may be used: blocks of rows are smaller where it is little, and q(x) that would take too much of it
        lies in a scratch file.
    """
    for view, own in zip(data, spec.views):
        if missing == "mean-field" and view.is_sparse and not view.is_complete:
            raise ValueError(
                f"view {own.name!r} is sparse and lacks some rows, which missing='mean-field' would fill. "
                "Use missing='exact', or give a dense array."
            )
    on_workers = any(isinstance(view, PartedView) for view in data)
    if on_workers and engine in ("memory", "gram"):
        data = [view.gathered() if isinstance(view, PartedView) else view for view in data]
    elif on_workers or engine == "dask":
        from .dask_rows import DaskRows

        return DaskRows(data, spec, n_components, missing, block_rows, min_shared, device.name)
    is_read = any(isinstance(view, StreamedView) for view in data)
    share = BLOCKS_IN_MEMORY if device.is_host else BLOCKS_TO_DEVICE if is_read else 0  # 0: no block is on the host
    block_bytes = int(min(device.block_bytes, max_memory / share)) if share else device.block_bytes
    device = replace(device, block_bytes=block_bytes, part_bytes=min(device.part_bytes, block_bytes))
    return MemoryRows(data, spec, n_components, missing, engine, block_rows, min_shared, device, max_memory)
