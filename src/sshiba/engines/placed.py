"""Blocks of rows on a device: all of them, or, where they do not fit, each for as long as it is needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from ..core.blocks import Block
from ..core.devices import Device
from ..core.threads import read_ahead

logger = logging.getLogger("sshiba")


class PlacedBlocks(Sequence[Block]):
    """Blocks as they are processed; `stored` are the same as they are kept: on the device or on the host.

    Where rows are not in memory, what is kept is their outline, and `read` makes the block of it.
    """

    def __init__(
        self,
        device: Device,
        stored: list[Block],
        read: Callable[[int], Block] | None = None,
        which: range | None = None,
    ) -> None:
        self.device, self.stored, self.read, self._which = device, stored, read, which

    @property
    def which(self) -> range:
        """The places of these blocks among all that are stored."""
        return range(len(self.stored)) if self._which is None else self._which

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, i: int) -> Block: ...
    @overload
    def __getitem__(self, i: slice) -> PlacedBlocks: ...
    def __getitem__(self, i: int | slice) -> Block | PlacedBlocks:
        if isinstance(i, slice):
            return PlacedBlocks(self.device, self.stored, self.read, self.which[i])
        place = self.which[i]
        return self.device.put(self.stored[place] if self.read is None else self.read(place))

    def __iter__(self) -> Iterator[Block]:
        return map(self.device.put, self.whole())

    def whole(self) -> Iterator[Block]:
        """Each with its rows, where they are kept; of those that are read the next is read meanwhile."""
        if self.read is not None:
            return read_ahead(self.read, self.which)
        return (self.stored[place] for place in self.which)


class DeviceRoom:
    """Whether the data stay on a device. They leave it the first time that its memory is full."""

    def __init__(self, device: Device, data_bytes: int) -> None:
        self.device, self.resident = device, device.holds(data_bytes)
        if not self.resident:
            self._say()

    @property
    def block_bytes(self) -> int:
        """Working memory of a block of rows, with its data where they come from the host."""
        free = None if self.resident else self.device.memory
        return self.device.block_bytes if free is None else min(self.device.block_bytes, free[0] // 4)

    def with_room(self, job: Callable[[], Any], blocks: PlacedBlocks) -> Any:
        """What a job returns; where the memory is full it is done again with the blocks on the host."""
        try:
            return job()
        except self.device.full_errors as error:
            if not self.resident:
                raise MemoryError(self._too_small()) from error
        # Only now, without the error, is what the job had made let go.
        self.resident = False
        self._say()
        blocks.stored[:] = [self.device.to_host(block) for block in blocks.stored]
        return self.with_room(job, blocks)

    def _say(self) -> None:
        logger.warning(
            "the data do not fit on %s: blocks of rows go there one at a time, which is slower", self.device.name
        )

    def _too_small(self) -> str:
        free = ""
        if self.device.memory is not None:
            free = " ({:.1f} of {:.1f} GB are free)".format(*(n / 1e9 for n in self.device.memory))
        return (
            f"device={self.device.name!r} has too little memory for a block of rows{free}. "
            "Take fewer factors (n_components), or device=None."
        )
