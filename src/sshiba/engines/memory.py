"""All rows in memory, that of the host or of a device, processed in blocks."""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from ..core.arrays import to_numpy
from ..core.blocks import Block, LocalX, RowView, join_x, rows_of_x
from ..core.devices import HOST, Device
from ..core.holes import Holes
from ..core.latent_step import start_x
from ..core.local_step import Settled, local_step, settle, z_covariance
from ..core.messages import Globals, Messages, make_messages
from ..core.scratch import Scratch
from ..core.sparse_rows import is_sparse
from ..core.spec import ModelSpec
from ..core.start import plain_posterior
from ..core.state import Array, LatentX, Stats
from ..core.streamed import AnyView, StreamedView, class_codes
from ..core.threads import in_threads, n_threads, read_ahead, threads_for, with_one_thread_less
from ..core.work import product_operations
from .block_making import cut, outline_of, row_view, summarised, with_sums, working_width
from .gram import Cross, Gram, choose_gram, gram_step, take_cross, take_gram
from .patterns import arrange_rows
from .placed import DeviceRoom, PlacedBlocks
from .principal import RowProducts, principal_directions, products, squares_of
from .protocol import FULL, Accuracy, Ask, CellMoments, RowPosterior, same

X_SHARE, X_COPIES = 0.25, 6  # of the memory for q(x), and how often <x> is counted: with xi, of two states and a trial
AT_ONCE = 4  # blocks that are read and worked on at a time, each by a thread; sums do not depend on how many there are
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as malloc.h has them
FREED, FREED_OF_DEVICE = 2**25, 2**19  # the largest arrays whose memory is kept for the next sweep
FREED_IN_MEMORY = 64  # of what may be used: several of them are kept, and nothing else can use them
MOST_PASSES = 8  # over rows that are read, for patterns of holes that lie apart


@dataclass(frozen=True)
class MemoryLocal:
    """What the rows keep between sweeps: q(x) of each block, and the products of each part in Gram space."""

    x: tuple[LocalX, ...]
    cross: tuple[Cross | None, ...] = ()


def keep_freed_memory(largest: int) -> None:
    """Let arrays of up to so many bytes that were freed serve the next sweep; larger ones go back to the system.

    By itself the C library of Linux learns such a limit, up to 32 MB, from what is freed, and in workers of Dask
    (MALLOC_TRIM_THRESHOLD_) never: then each sweep fetches its working memory anew, page by page, a third of the time
    of rows with own covariances. Rows that are read for a device come in arrays that no sweep can use again in the
    same place: kept, they took four times the memory that the fit may have. Elsewhere than on Linux it does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # not every C library of Linux has it
        mallopt(M_TRIM_THRESHOLD, 2 * largest)
        mallopt(M_MMAP_THRESHOLD, largest)


class MemoryRows:
    """Rows in an order in which those with the same holes lie together, cut into blocks.

    Parameters
    ----------
    data, spec, n_components, missing, engine
        As for `make_rows`.
    block_rows : int, optional
        Rows per block, instead of what `device.block_bytes` allows.
    min_shared : int, optional
        Rows of one pattern of holes that get a block of their own, instead of what `device.worth_a_block` says.
    device : Device
        Where the rows live. Globals go there as messages, statistics come back, once a sweep.
    max_memory : float
        Bytes; where q(x) would take too much of them it lies in a scratch file. The less they are, the less of what is
        freed is kept.
    holes : sequence of Holes, optional
        Of each view over all rows, where `data` are some of them, in memory.
    """

    def __init__(
        self,
        data: Sequence[AnyView],
        spec: ModelSpec,
        n_components: int,
        missing: str = "exact",
        engine: str = "auto",
        block_rows: int | None = None,
        min_shared: int | None = None,
        device: Device = HOST,
        max_memory: float = inf,
        holes: Sequence[Holes] | None = None,
    ) -> None:
        self.device = device
        n_factors = max(n_components + spec.n_known, 1)  # only the sizes of blocks depend on it
        self.labels = class_codes(data[len(spec.views)]) if spec.n_groups else None  # they come after the views
        data = data[: len(spec.views)]
        self.data, self.spec, self.missing = data, spec, missing
        self.n_rows = data[0].n_rows
        self.in_memory = all(view.in_memory for view in data)
        largest = FREED if device.is_host or self.in_memory else FREED_OF_DEVICE
        keep_freed_memory(int(min(largest, max_memory / FREED_IN_MEMORY)))
        self.any_order = device.is_host and all(view.any_order for view in data)
        self.portable = device.is_host and self.in_memory
        n_latent = sum(own.n_features for own in spec.views if own.likelihood.latent or missing != "exact")
        self.on_disk = X_COPIES * 8 * self.n_rows * n_latent > X_SHARE * max_memory and device.is_host
        widths = [view.n_features for view in spec.views]
        if holes is None:
            holes = [view.holes(d) for view, d in zip(data, widths)]
        else:
            masks = [view.read(slice(0, self.n_rows)).observed for view in data]
            holes = [own.among(mask, self.n_rows) for own, mask in zip(holes, masks)]
        self.complete = [own.complete for own in holes]
        self.holes = holes if missing == "exact" else [Holes.none(d) for d in widths]
        self.groups = tuple(holes.groups for holes in self.holes)
        min_shared = min_shared or max(8, int(device.worth_a_block // n_factors**3))
        if not self.in_memory:  # rows that are read lie as they come, unless there are few patterns
            min_shared = max(min_shared, self.n_rows // MOST_PASSES)
        codes = [holes.row_codes for holes in self.holes if holes.row_codes is not None]
        if self.labels is not None:  # another prior of z is as another pattern of holes
            codes.append(self.labels[:, None].view(np.uint8))
        self.order, parts = arrange_rows(codes, self.n_rows, min_shared)
        self.in_order = np.array_equal(self.order, np.arange(self.n_rows))
        self.slices: list[slice] = []  # the places of each block in `order`
        self.blocks = PlacedBlocks(device, [], None if self.in_memory else self._read)
        self.parts: list[Part] = []
        self.room = DeviceRoom(device, sum(view.nbytes for view in data if view.on_host and view.in_memory))
        for part, shared in parts:
            self.parts.append(self._make_part(part, shared, engine, n_factors, block_rows))

    def _make_part(self, rows: slice, shared: bool, engine: str, n_factors: int, block_rows: int | None) -> Part:
        """Cut some rows into blocks and keep them, with the sums of their real views; in one pass over the rows."""
        first, n = len(self.blocks), rows.stop - rows.start
        places = list(cut(rows, block_rows or self._block_rows(n, shared, n_factors)))
        blocks = (map if self.in_memory else read_ahead)(partial(self._row_views, shared=shared), places)
        wanted, gram = False, None
        for place, views in zip(places, blocks):
            if place is places[0]:
                block = self._block(views, self._groups(place, shared), shared)
                wanted = choose_gram(engine, block, n, n_factors, self.device)
            gram = self._with_room(partial(self._place, views, place, shared, wanted, gram))
            self.slices.append(place)
        where = slice(first, len(self.blocks))
        part = Part(where, gram, self.device.put(summarised(self.blocks.stored[where])))
        if part.on_host:
            return self.device.fetch(part)
        return replace(part, shared=to_numpy(part.summary.observed)) if part.summary.shared and gram is None else part

    def _block_rows(self, n: int, shared: bool, n_factors: int) -> int:
        """Rows of a block, of n that may be together: as many as there is room for what a row needs.

        Besides data in memory that is the latent x and what is made of it, copies in double precision of what is stored
        in single, and rows that are read, or that come to a device one block at a time.
        """
        width = sum(working_width(view, own) for view, own in zip(self.data, self.spec.views))
        at_once = AT_ONCE if shared and self.any_order and not self.in_memory else 1
        read = sum(max(2, at_once) * view.row_bytes for view in self.data if isinstance(view, StreamedView))
        if not self.room.resident:
            read = max(read, sum(view.nbytes for view in self.data) // self.n_rows)
        row_bytes = 8 * at_once * (4 * width + 4 * n_factors) + read + (0 if shared else 32 * n_factors**2)
        # Rows with a covariance each: all in one block where that is small, else blocks that stay in a cache.
        large = shared or not self.in_memory or n * row_bytes <= self.room.block_bytes
        budget = self.room.block_bytes if large else min(self.room.block_bytes, self.device.part_bytes)
        return max(1, int(budget // row_bytes))

    def _row_views(self, place: slice, shared: bool) -> tuple[RowView, ...]:
        """Rows at these places of `order`."""
        rows = place if self.in_order else self.order[place]
        return tuple(
            row_view(view.read(rows), holes, own, shared, self.missing == "exact" or complete)
            for view, holes, own, complete in zip(self.data, self.holes, self.spec.views, self.complete)
        )

    def _groups(self, place: slice, shared: bool) -> np.ndarray | None:
        """Which group of samples rows at these places of `order` are in, (r, S) of bool; None where there are none."""
        if self.labels is None:
            return None
        labels = self.labels[self.order[place]][: 1 if shared else None]
        return labels[:, None] == np.arange(self.spec.n_groups)

    def _block(self, views: Sequence[RowView], groups: Array | None, shared: bool) -> Block:
        return Block.of(views, len(views[0].target), shared, self.missing, self.device.part_bytes, groups)

    def _read(self, i: int) -> Block:
        """A block that is not in memory."""
        outline = self.blocks.stored[i]
        read = self._row_views(self.slices[i], outline.shared)
        views = [replace(view, x_sum=own.x_sum, xx=own.xx) for view, own in zip(read, outline.views)]
        return self._block(views, self._groups(self.slices[i], outline.shared), outline.shared)

    def _place(
        self, views: tuple[RowView, ...], place: slice, shared: bool, wanted: bool, gram: Gram | None
    ) -> Gram | None:
        """Keep a block, with the sums of its real views, where there is room for it; its products added to `gram`.

        It is made on the device: one that is put there as a whole has its masks twice.
        """
        groups = self._groups(place, shared)
        block = self._block(self.device.put(views), self.device.put(groups), shared)
        there = with_sums(block, self.room.block_bytes)
        if wanted:
            own = take_gram(there)
            gram = own if gram is None else gram + own
        if not (self.room.resident and self.in_memory):
            sums = [self.device.to_host((view.x_sum, view.xx)) for view in there.views]
            views = tuple(replace(view, x_sum=x, xx=xx) for view, (x, xx) in zip(views, sums))
            there = self.device.to_host(self._block(views, groups, shared))
        self.blocks.stored.append(there if self.in_memory else outline_of(there))
        return gram

    def _with_room(self, job: Callable[[], Any]) -> Any:
        return self.room.with_room(job, self.blocks)

    def describe(self) -> str:
        """One line on how the rows are processed."""
        from_host = "" if self.room.resident else ", from the memory of the host"
        where = "" if self.device.is_host else f"on {self.device.name}{from_host}: "
        return f"{where}{in_words(self.ways())}; patterns of holes: {len(self.parts)}, blocks: {len(self.blocks)}"

    def ways(self) -> Counter[str]:
        """How many rows are processed in each way."""
        rows: Counter[str] = Counter()
        for part in self.parts:
            blocks = self.blocks.stored[part.blocks]
            way = "gram" if part.gram else "direct" if blocks[0].shared else "a covariance each"
            rows[way] += sum(block.n for block in blocks)
        return rows

    def directions(self, k: int) -> np.ndarray:
        local = self.start(plain_posterior(self.spec, self.groups))
        return principal_directions(self.squares(local), partial(self.times, local), k, self.spec.n_known)

    def squares(self, local: MemoryLocal) -> np.ndarray:
        """Σ <x>² of each feature, (ΣD,)."""
        return self._with_room(lambda: sum(map(squares_of, self._products(local))))

    def times(self, local: MemoryLocal, Q: np.ndarray) -> np.ndarray:
        """XᵀX Q of the features of all views side by side, (ΣD, p); x at its mean."""
        return self._with_room(lambda: sum(products(part, Q) for part in self._products(local)))

    def _products(self, local: MemoryLocal) -> list[RowProducts]:
        return [
            RowProducts(self.blocks[part.blocks], local.x[part.blocks], part.gram, cross, part.summary)
            for part, cross in zip(self.parts, local.cross)
        ]

    def start(self, posterior: Globals) -> MemoryLocal:
        if not self.has_latent:
            return MemoryLocal(tuple((None,) * len(self.data) for _ in self.slices), (None,) * len(self.parts))
        messages = self._messages(posterior)
        keep = self._keeping()
        return self._with_room(
            lambda: self._with_products(tuple(keep(start_x(block, messages)) for block in self.blocks))
        )

    def step(self, posterior: Globals, local: MemoryLocal, hold_x: bool = False) -> tuple[MemoryLocal, Stats]:
        return self._with_room(lambda: self._step(posterior, local, hold_x))

    def _step(self, posterior: Globals, local: MemoryLocal, hold_x: bool) -> tuple[MemoryLocal, Stats]:
        on_host = make_messages(posterior, self.spec, self.groups)
        # What rows share is K x K, and sooner found on the host than launched on a device.
        shared = [None if part.shared is None else z_covariance(part.shared, on_host) for part in self.parts]
        needed = any(not part.on_host for part in self.parts)
        messages, known = self.device.put_at_once((on_host, shared)) if needed else (on_host, shared)
        keep = self._keeping()
        x: list[LocalX] = []
        crosses: list[Cross | None] = []
        total: Stats | None = None
        for part, cross, cov in zip(self.parts, local.cross, known):
            blocks, old = self.blocks[part.blocks], local.x[part.blocks]
            stats: Stats | None = None
            if part.gram is not None:
                own_messages = on_host if part.on_host else messages
                new, cross, stats = gram_step(part.gram, part.summary, blocks, old, cross, own_messages, hold_x, keep)
                x.extend(new)
            else:
                one = partial(local_step, messages=messages, hold_x=hold_x, known=cov)
                for q, own in self._each(part, one, blocks, old):
                    x.append(keep(q))
                    stats = own if stats is None else stats + own
                    del own  # before the next block needs its memory
            assert stats is not None  # a part has at least one block
            fetched = stats if part.on_host else self.device.fetch(stats)
            total = fetched if total is None else total + fetched
            crosses.append(cross)
        assert total is not None  # there is at least one row
        return MemoryLocal(tuple(x), tuple(crosses)), total

    def _each(self, part: Part, job: Callable[..., Any], blocks: PlacedBlocks, x: Sequence[LocalX]) -> Iterator[Any]:
        """What a job finds for each block and its q(x), in order.

        Many small matrices, sparse ones and costly cells gain from threads over blocks, large products from those in
        BLAS. Rows that are read take a thread for each block: one more than there are cores, since some wait.
        """
        costly = any(view.likelihood.costly for view in self.spec.views)
        by_block = not part.summary.shared or costly or any(is_sparse(view.target) for view in part.summary.views)
        if self.in_memory:
            run = in_threads if by_block and len(blocks) > 1 and self.device.is_host else map
            return run(job, blocks, x)
        if self.any_order and part.summary.shared:
            workers = min(AT_ONCE, n_threads() + 1)
            return in_threads(lambda i, q: job(blocks[i], q), range(len(blocks)), x, workers=workers)
        found = map(job, blocks, x)
        return found if by_block else with_one_thread_less(found)

    def settle(
        self, posterior: Globals, local: MemoryLocal, max_rounds: int = FULL.max_rounds
    ) -> tuple[MemoryLocal, bool]:
        if not self.has_latent:
            return local, True
        messages, keep = self._messages(posterior), self._keeping()
        settled, converged = [], True
        accuracy = Accuracy(max_rounds=max_rounds)
        for i, block in enumerate(self.blocks.whole()):
            parts = []
            for some in block.parts(posterior.n_factors):
                found = self._settled(i, block, some, local, messages, accuracy, each=False)
                parts.append(found.x)
                converged &= found.converged
            settled.append(keep(join_x(parts)))
        return self._with_room(lambda: self._with_products(tuple(settled))), converged

    def infer(
        self, posterior: Globals, local: MemoryLocal | None = None, accuracy: Accuracy = FULL, then: Ask = same
    ) -> Iterator[Any]:
        messages = self._messages(posterior)

        def job(i: int, block: Block, some: slice) -> RowPosterior:
            found = self._settled(i, block, some, local, messages, accuracy, each=True)
            x = {place: CellMoments(step.x.mean, step.var) for place, _, step in found.spread if step.var is not None}
            known = (own.likelihood.row_offset(view.target) for own, view in zip(self.spec.views, block.views))
            offsets = self.device.put(tuple(None if offset is None else offset[some] for offset in known))
            rows = self.order[self.slices[i]][some]
            return RowPosterior(rows, found.z, found.cov(), found.converged, offsets, x)

        for i, block in enumerate(self.blocks.whole()):
            parts = block.parts(posterior.n_factors, own=not block.shared or block.z_follows_x)
            run = in_threads if self.device.is_host else map
            yield from map(then, run(partial(job, i, block), parts))

    def _settled(
        self,
        i: int,
        whole: Block,
        some: slice,
        local: MemoryLocal | None,
        messages: Messages,
        accuracy: Accuracy,
        each: bool,
    ) -> Settled:
        """Some rows of a block; without `local` from the start."""

        def job() -> Settled:
            block = self.device.put(whole.rows(some))
            if local is None:
                x = start_x(block, messages)
            else:
                x = local.x[i] if block.n == whole.n else rows_of_x(local.x[i], some)
            with threads_for(product_operations(block.n, self.spec, n_masks, messages.n_factors)):
                return settle(block, x, messages, accuracy.max_rounds, accuracy.z_tol, each)

        n_masks = sum(map(len, self.groups))
        return self._with_room(job)

    def _keeping(self) -> Callable[[LocalX], LocalX]:
        """How q(x) of a sweep is kept: as it is, or in a scratch file that is gone with the last who needs it."""
        if not self.on_disk:
            return lambda x: x
        scratch = Scratch()

        def keep(q: LatentX | None) -> LatentX | None:
            return q and replace(q, mean=scratch.keep(q.mean), xi=None if q.xi is None else scratch.keep(q.xi))

        return lambda x: tuple(map(keep, x))

    def _messages(self, posterior: Globals) -> Messages:
        return self.device.put_at_once(make_messages(posterior, self.spec, self.groups))

    def _with_products(self, x: tuple[LocalX, ...]) -> MemoryLocal:
        """q(x) of all blocks with its products in Gram space."""
        cross = [
            take_cross(self.blocks[part.blocks], x[part.blocks]) if part.gram is not None else None
            for part in self.parts
        ]
        return MemoryLocal(x, tuple(cross))

    @property
    def has_latent(self) -> bool:
        """Has any view a q(x)?"""
        return any(not view.is_static for view in self.parts[0].summary.views) if self.parts else False


def in_words(ways: Counter[str]) -> str:
    return ", ".join(f"{ways[way]} rows {way}" for way in ("gram", "direct", "a covariance each") if ways[way])


@dataclass(frozen=True)
class Part:
    """Blocks whose rows share one pattern of holes, with their Gram matrix where that is cheaper; or all others."""

    blocks: slice
    gram: Gram | None
    summary: Block  # all of them as one, without data
    shared: np.ndarray | None = None  # outside of Gram space: which columns all rows have, (1, ΣG); on the host

    @property
    def on_host(self) -> bool:
        """Real rows in Gram space need nothing but `gram` and `summary`, which then are on the host."""
        return self.gram is not None and all(view.is_static for view in self.summary.views)
