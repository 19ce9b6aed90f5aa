"""The one place that constructs an engine."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.coded import CodedView
from ..core.devices import HOST, Device
from ..core.spec import ModelSpec
from .memory import MemoryRows
from .protocol import Rows

ENGINES = ("auto", "memory", "gram")


def make_rows(
    data: Sequence[CodedView],
    spec: ModelSpec,
    n_components: int,
    missing: str = "exact",
    engine: str = "auto",
    block_rows: int | None = None,
    min_shared: int | None = None,
    device: Device = HOST,
) -> Rows:
    """Rows that are ready for a fit, or for questions about them.

    Parameters
    ----------
    data : sequence of CodedView
        Aligned views, in the order of `spec.views`.
    n_components : int
        The most factors there will be; sets the size of the blocks.
    missing : "exact" or "mean-field"
    engine : one of ENGINES
        Work in Gram space where that is cheaper, never, or wherever it can be.
    block_rows, min_shared : int, optional
        As for `MemoryRows`.
    device : Device
        Where the rows live.
    """
    for view, own in zip(data, spec.views):
        if missing == "mean-field" and view.is_sparse and view.observed is not None:
            raise ValueError(
                f"view {own.name!r} is sparse and lacks some rows, which missing='mean-field' would fill. "
                "Use missing='exact', or give a dense array."
            )
    return MemoryRows(data, spec, n_components, missing, engine, block_rows, min_shared, device)
