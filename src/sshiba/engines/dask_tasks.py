"""What the workers of a Dask cluster do. Each task is about one block of rows, which stays where it is.

Tasks change nothing but what a block keeps of q(x), by a number for each state of the fit. A task may be done twice, on
another worker, or on a block that was made anew: q(x) that is not there is found again from the globals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

import cloudpickle
import numpy as np
from dask.sizeof import sizeof

from ..core.coded import CodedView
from ..core.devices import find_device, map_arrays
from ..core.holes import Holes
from ..core.messages import Messages
from ..core.spec import ModelSpec
from ..core.state import Stats
from .memory import MemoryLocal, MemoryRows
from .protocol import SETTLING, Accuracy, Ask, RowPosterior


@dataclass(frozen=True)
class Plan:
    """What all blocks of rows have in common, as for `make_rows`; a device is one of the worker's own."""

    spec: ModelSpec
    n_components: int
    missing: str
    min_shared: int | None
    device: str | None
    holes: tuple[Holes, ...]  # of each view, over all rows


@dataclass(eq=False)
class HeldBlock:
    """A block of rows on a worker, with q(x) of each state of the fit that is still needed, by its number."""

    plan: Plan
    first: int  # the place of its first row among all
    data: Sequence[CodedView]
    kept: dict[int, MemoryLocal] = field(default_factory=dict)
    owns_data: bool = True  # or does the worker count them already as parts of a collection?
    rows: MemoryRows = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        self.rows = MemoryRows(
            self.data,
            plan.spec,
            plan.n_components,
            plan.missing,
            min_shared=plan.min_shared,
            device=find_device(plan.device),
            holes=plan.holes,
        )

    def __reduce__(self) -> Any:
        """A worker that takes it over arranges the rows again, in the same way."""
        return HeldBlock, (self.plan, self.first, self.data, dict(self.kept))

    def recall(self, number: int, messages: Messages, rounds: int = SETTLING) -> tuple[MemoryLocal, bool]:
        """q(x) of a state, and whether it had to be found again: in so many rounds with the globals fixed."""
        if number in self.kept:
            return self.kept[number], False
        local = self.rows.start(messages)
        if self.rows.has_latent and rounds:
            local, _ = self.rows.settle(messages, local, rounds)
        return local, self.rows.has_latent

    def keep(self, number: int, local: MemoryLocal, dropped: Sequence[int]) -> None:
        """What a state has of q(x); nobody needs that of the `dropped` ones any more."""
        self.kept[number] = local
        for gone in dropped:
            self.kept.pop(gone, None)


@sizeof.register(HeldBlock)
def _size(block: HeldBlock) -> int:
    latent = sum(own.n_features for own in block.plan.spec.views if own.likelihood.latent)
    own = sum(view.nbytes for view in block.data) if block.owns_data else 0
    return own + 16 * block.rows.n_rows * latent * len(block.kept)


@sizeof.register(Stats)
@sizeof.register(Messages)
def _size_sent(value: Stats | Messages) -> int:
    return n_bytes(value)


def pack(value: Any) -> bytes:
    """What is sent to all workers, as Dask need not look into it."""
    return cloudpickle.dumps(value)


def unpack(packed: bytes) -> Any:
    """What is sent to workers is a result like any other: each worker fetches it once, from whoever has it."""
    return cloudpickle.loads(packed)


def make_block(first: int, owns_data: bool, plan: Plan, *data: CodedView) -> HeldBlock:
    return HeldBlock(plan, first, data, owns_data=owns_data)


def take_over(block: HeldBlock) -> HeldBlock:
    """The same block, where this runs."""
    return block


def first_x(block: HeldBlock, messages: Messages, new: int, dropped: Sequence[int]) -> int:
    block.keep(new, block.rows.start(messages), dropped)
    return 0


def local_step(block: HeldBlock, messages: Messages, old: int, new: int, hold_x: bool, dropped: Sequence[int]) -> Stats:
    """q(z) and q(x) of a block; its statistics are all that leaves it."""
    local, was_lost = block.recall(old, messages, 0 if hold_x else SETTLING)
    local, stats = block.rows.step(messages, local, hold_x)
    block.keep(new, local, dropped)
    return replace(stats, n_restored=stats.n) if was_lost else stats


def settle(block: HeldBlock, messages: Messages, old: int, new: int, max_rounds: int, dropped: Sequence[int]) -> int:
    """q(x) with the globals fixed; 1 where it had not converged."""
    local, _ = block.recall(old, messages, 0)
    local, converged = block.rows.settle(messages, local, max_rounds)
    block.keep(new, local, dropped)
    return int(not converged)


def squares(block: HeldBlock, messages: Messages, old: int) -> np.ndarray:
    return block.rows.squares(block.recall(old, messages, 0)[0])


def times(block: HeldBlock, sent: tuple[Messages, np.ndarray], old: int) -> np.ndarray:
    messages, Q = sent
    return block.rows.times(block.recall(old, messages, 0)[0], Q)


def infer(block: HeldBlock, sent: tuple[Messages, Ask], old: int | None, accuracy: Accuracy) -> list[Any]:
    """What `then` says of the rows of a block, which are counted among all."""
    messages, then = sent
    local = None if old is None else block.kept.get(old)

    def among_all(part: RowPosterior) -> Any:
        return block.rows.device.to_host(then(replace(part, rows=part.rows + block.first)))

    return list(block.rows.infer(messages, local, accuracy, among_all))


def ways(block: HeldBlock, _: None) -> Counter[str]:
    return block.rows.ways()


def add_stats(parts: Sequence[Any]) -> Any:
    """The sum of what several blocks say."""
    return reduce(add, parts)


def n_bytes(value: Any) -> int:
    """Of all arrays in a value that is sent."""
    found: list[int] = []
    map_arrays(value, np.ndarray, lambda array: found.append(array.nbytes))
    return sum(found)
