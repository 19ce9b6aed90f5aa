"""All rows in memory, that of the host or of a device, processed in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import inf
from operator import add
from typing import Any

import numpy as np

from ..core.arrays import array_namespace, to_numpy
from ..core.blocks import Block, LocalX, RowView, as_float, join_x, rows_of_x
from ..core.coded import CodedView
from ..core.devices import HOST, Device
from ..core.holes import Holes
from ..core.latent_step import start_x
from ..core.local_step import Settled, local_step, settle, z_covariance
from ..core.messages import Messages, make_messages
from ..core.scratch import Scratch
from ..core.sparse_rows import is_sparse
from ..core.spec import ModelSpec, ViewSpec
from ..core.start import WIDE, random_posterior
from ..core.state import Array, LatentX, Posterior, Stats
from ..core.streamed import AnyView, StreamedView
from ..core.threads import in_threads, n_threads, read_ahead, with_one_thread_less
from .gram import Cross, Gram, gram_step, static_columns, take_cross, take_gram
from .patterns import arrange_rows
from .placed import PlacedBlocks, Room
from .principal import RowProducts, principal_directions
from .protocol import MAX_ROUNDS, Z_TOL, RowPosterior

X_SHARE, X_COPIES = 0.25, 6  # of the memory for q(x), and how often <x> is counted: with xi, of two states and a trial
AT_ONCE = 4  # blocks that are read and worked on at a time, each by a thread; sums do not depend on how many there are
MOST_PASSES = 8  # over rows that are read, for patterns of holes that lie apart
SPARSE_COST = 8.0  # of a stored cell in a product, in multiplications of a dense one
SPARSE_SHARE = 4  # blocks of sparse rows are smaller by this, so that all threads have some


@dataclass(frozen=True)
class Local:
    """What the rows keep between sweeps: q(x) of each block, and the products of each part in Gram space."""

    x: tuple[LocalX, ...]
    cross: tuple[Cross | None, ...] = ()


def keep_freed_memory() -> None:
    """Let the working memory of one sweep serve the next.

    The C library of Linux gives freed memory back to the system beyond twice the largest block that was ever freed
    (of those up to 32 MB), and each sweep would fetch it anew, page by page: a third of the time of rows with own
    covariances. Freeing one such block, never touched, raises that limit; elsewhere it does nothing.
    """
    np.empty(2**25 - 2**13, dtype=np.uint8)


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
        Bytes; where q(x) would take too much of them it lies in a scratch file.
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
    ) -> None:
        keep_freed_memory()
        self.device = device
        n_components = max(n_components, 1)  # only the sizes of blocks depend on it
        self.data, self.spec, self.missing = data, spec, missing
        self.n_rows = data[0].n_rows
        self.in_memory = all(view.in_memory for view in data)
        self.any_order = device.is_host and all(view.any_order for view in data)
        self.portable = device.is_host and self.in_memory
        n_latent = sum(own.n_features for own in spec.views if own.likelihood.latent or missing != "exact")
        self.on_disk = X_COPIES * 8 * self.n_rows * n_latent > X_SHARE * max_memory and device.is_host
        widths = [view.n_features for view in spec.views]
        holes = [view.holes(d) for view, d in zip(data, widths)]
        self.complete = [own.complete for own in holes]
        self.holes = holes if missing == "exact" else [Holes.none(d) for d in widths]
        self.groups = tuple(holes.groups for holes in self.holes)
        min_shared = min_shared or max(8, int(device.worth_a_block // n_components**3))
        if not self.in_memory:  # rows that are read lie as they come, unless there are few patterns
            min_shared = max(min_shared, self.n_rows // MOST_PASSES)
        codes = [holes.row_codes for holes in self.holes if holes.row_codes is not None]
        self.order, parts = arrange_rows(codes, self.n_rows, min_shared)
        self.in_order = np.array_equal(self.order, np.arange(self.n_rows))
        self.slices: list[slice] = []  # the places of each block in `order`
        self.blocks = PlacedBlocks(device, [], None if self.in_memory else self._read)
        self.parts: list[Part] = []
        self.room = Room(device, sum(view.nbytes for view in data if view.on_host and view.in_memory))
        for part, shared in parts:
            self.parts.append(self._make_part(part, shared, engine, n_components, block_rows))

    def _make_part(self, rows: slice, shared: bool, engine: str, n_components: int, block_rows: int | None) -> Part:
        """Cut some rows into blocks and keep them, with the sums of their real views; in one pass over the rows."""
        first, n = len(self.blocks), rows.stop - rows.start
        places = list(cut(rows, block_rows or self._block_rows(n, shared, n_components)))
        blocks = (map if self.in_memory else read_ahead)(partial(self._row_views, shared=shared), places)
        wanted, gram = False, None
        for place, views in zip(places, blocks):
            if place is places[0]:
                wanted = choose_gram(engine, self._block(views, shared), n, n_components, self.device)
            gram = self._with_room(partial(self._place, views, shared, wanted, gram))
            self.slices.append(place)
        where = slice(first, len(self.blocks))
        part = Part(where, gram, self.device.put(summarised(self.blocks.stored[where])))
        if part.on_host:
            return self.device.fetch(part)
        return replace(part, shared=to_numpy(part.summary.observed)) if part.summary.shared and gram is None else part

    def _block_rows(self, n: int, shared: bool, n_components: int) -> int:
        """Rows of a block, of n that may be together: as many as there is room for what a row needs.

        Besides data in memory that is the latent x and what is made of it, copies in double precision of what is stored
        in single, and rows that are read, or that come to a device one block at a time.
        """
        width = sum(working_width(view, own) for view, own in zip(self.data, self.spec.views))
        at_once = AT_ONCE if shared and self.any_order and not self.in_memory else 1
        read = sum(max(2, at_once) * view.row_bytes for view in self.data if isinstance(view, StreamedView))
        if not self.room.resident:
            read = max(read, sum(view.nbytes for view in self.data) // self.n_rows)
        row_bytes = 8 * at_once * (4 * width + 4 * n_components) + read + (0 if shared else 32 * n_components**2)
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

    def _block(self, views: Sequence[RowView], shared: bool) -> Block:
        return Block.of(views, len(views[0].target), shared, self.missing, self.device.part_bytes)

    def _read(self, i: int) -> Block:
        """A block that is not in memory."""
        outline = self.blocks.stored[i]
        read = self._row_views(self.slices[i], outline.shared)
        views = [replace(view, x_sum=own.x_sum, xx=own.xx) for view, own in zip(read, outline.views)]
        return self._block(views, outline.shared)

    def _place(self, views: tuple[RowView, ...], shared: bool, wanted: bool, gram: Gram | None) -> Gram | None:
        """Keep a block, with the sums of its real views, where there is room for it; its products added to `gram`.

        It is made on the device: one that is put there as a whole has its masks twice.
        """
        there = with_sums(self._block(self.device.put(views), shared), self.room.block_bytes)
        if wanted:
            own = take_gram(there)
            gram = own if gram is None else gram + own
        if not (self.room.resident and self.in_memory):
            sums = [self.device.to_host((view.x_sum, view.xx)) for view in there.views]
            views = tuple(replace(view, x_sum=x, xx=xx) for view, (x, xx) in zip(views, sums))
            there = self.device.to_host(self._block(views, shared))
        self.blocks.stored.append(there if self.in_memory else outline_of(there))
        return gram

    def _with_room(self, job: Callable[[], Any]) -> Any:
        return self.room.with_room(job, self.blocks)

    def describe(self) -> str:
        """One line on how the rows are processed."""
        sizes = {"gram": 0, "direct": 0, "a covariance each": 0}
        for part in self.parts:
            blocks = self.blocks.stored[part.blocks]
            rows, shared = sum(block.n for block in blocks), blocks[0].shared
            sizes["gram" if part.gram else "direct" if shared else "a covariance each"] += rows
        how = ", ".join(f"{n} rows {kind}" for kind, n in sizes.items() if n)
        from_host = "" if self.room.resident else ", from the memory of the host"
        where = "" if self.device.is_host else f"on {self.device.name}{from_host}: "
        return f"{where}{how}; {len(self.parts)} patterns of holes, {len(self.blocks)} blocks"

    def directions(self, k: int) -> np.ndarray:
        none = random_posterior(self.spec, 1, self.groups, np.random.default_rng(0))  # its tau is all that matters
        local = self.start(none)

        def directions() -> np.ndarray:
            products = [
                RowProducts(self.blocks[part.blocks], local.x[part.blocks], part.gram, cross, part.summary)
                for part, cross in zip(self.parts, local.cross)
            ]
            return principal_directions(products, k)

        return self._with_room(directions)

    def start(self, posterior: Posterior) -> Local:
        if not self._has_latent:
            return Local(tuple((None,) * len(self.data) for _ in self.slices), (None,) * len(self.parts))
        messages = self._messages(posterior)
        keep = self._keeping()
        return self._with_room(
            lambda: self._with_products(tuple(keep(start_x(block, messages)) for block in self.blocks))
        )

    def step(self, posterior: Posterior, local: Local, hold_x: bool = False) -> tuple[Local, Stats]:
        return self._with_room(lambda: self._step(posterior, local, hold_x))

    def _step(self, posterior: Posterior, local: Local, hold_x: bool) -> tuple[Local, Stats]:
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
                told = on_host if part.on_host else messages
                new, cross, stats = gram_step(part.gram, part.summary, blocks, old, cross, told, hold_x, keep)
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
        return Local(tuple(x), tuple(crosses)), total

    def _each(self, part: Part, job: Callable[..., Any], blocks: PlacedBlocks, x: Sequence[LocalX]) -> Iterator[Any]:
        """What a job finds for each block and its q(x), in order.

        Many small matrices, and sparse ones, gain from threads over blocks, large products from those inside BLAS. Rows
        that are read take a thread for each block: one more than there are cores, since some wait for their rows.
        """
        by_block = not part.summary.shared or any(is_sparse(view.target) for view in part.summary.views)
        if self.in_memory:
            run = in_threads if by_block and len(blocks) > 1 and self.device.is_host else map
            return run(job, blocks, x)
        if self.any_order and part.summary.shared:
            workers = min(AT_ONCE, n_threads() + 1)
            return in_threads(lambda i, q: job(blocks[i], q), range(len(blocks)), x, workers=workers)
        found = map(job, blocks, x)
        return found if by_block else with_one_thread_less(found)

    def settle(self, posterior: Posterior, local: Local, max_rounds: int = MAX_ROUNDS) -> tuple[Local, bool]:
        if not self._has_latent:
            return local, True
        messages, keep = self._messages(posterior), self._keeping()
        settled, converged = [], True
        for i, block in enumerate(self.blocks.whole()):
            parts = []
            for some in block.parts(posterior.n_components):
                found = self._settled(i, block, some, local, messages, max_rounds, Z_TOL, each=False)
                parts.append(found.x)
                converged &= found.converged
            settled.append(keep(join_x(parts)))
        return self._with_room(lambda: self._with_products(tuple(settled))), converged

    def infer(self, posterior: Posterior, local: Local | None = None, z_tol: float = Z_TOL) -> Iterator[RowPosterior]:
        messages = self._messages(posterior)

        def job(i: int, block: Block, some: slice) -> RowPosterior:
            found = self._settled(i, block, some, local, messages, MAX_ROUNDS, z_tol, each=True)
            return RowPosterior(self.order[self.slices[i]][some], found.z, found.cov(), found.converged)

        for i, block in enumerate(self.blocks.whole()):
            parts = block.parts(posterior.n_components, own=not block.shared or block.z_follows_x)
            run = in_threads if self.device.is_host else map
            yield from run(partial(job, i, block), parts)

    def _settled(
        self,
        i: int,
        whole: Block,
        some: slice,
        local: Local | None,
        messages: Messages,
        rounds: int,
        z_tol: float,
        each: bool,
    ) -> Settled:
        """Some rows of a block; without `local` from the start."""

        def job() -> Settled:
            block = self.device.put(whole.rows(some))
            if local is None:
                x = start_x(block, messages)
            else:
                x = local.x[i] if block.n == whole.n else rows_of_x(local.x[i], some)
            return settle(block, x, messages, rounds, z_tol, each)

        return self._with_room(job)

    def _keeping(self) -> Callable[[LocalX], LocalX]:
        """How q(x) of a sweep is kept: as it is, or in a scratch file that is gone with the last who needs it."""
        if not self.on_disk:
            return lambda x: x
        scratch = Scratch()

        def keep(q: LatentX | None) -> LatentX | None:
            return q and replace(q, mean=scratch.keep(q.mean), xi=None if q.xi is None else scratch.keep(q.xi))

        return lambda x: tuple(map(keep, x))

    def _messages(self, posterior: Posterior) -> Messages:
        return self.device.put_at_once(make_messages(posterior, self.spec, self.groups))

    def _with_products(self, x: tuple[LocalX, ...]) -> Local:
        """q(x) of all blocks with its products in Gram space."""
        cross = [
            take_cross(self.blocks[part.blocks], x[part.blocks]) if part.gram is not None else None
            for part in self.parts
        ]
        return Local(x, tuple(cross))

    @property
    def _has_latent(self) -> bool:
        """Has any view a q(x)?"""
        return any(not view.is_static for view in self.parts[0].summary.views) if self.parts else False


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


def choose_gram(engine: str, block: Block, n: int, n_components: int, device: Device = HOST) -> bool:
    """Is a sweep over n rows like those of a block cheaper in Gram space?

    By multiplications, and never at the price of memory.
    """
    static, latent = static_columns(block)
    if not block.shared or not static or engine == "memory":
        return False
    targets = [block.views[i].target for i in static]
    has_sparse = any(is_sparse(target) for target in targets)
    if has_sparse and len(static) > 1:
        return False  # a sparse matrix and others side by side are no matrix of one kind
    if engine == "gram":
        return True
    S = sum(len(block.views[i].groups.index) for i in static)
    T = sum(len(block.views[i].groups.index) for i in latent)
    cells = n * S if not has_sparse else SPARSE_COST * sum(target.matrix.nnz for target in targets) * n / block.n
    direct = 2 * cells * n_components + n * (4 * T * n_components + 2 * n_components**2)
    # Narrow products run at the speed of memory, not of multiplication: T counts for 16 at least.
    gram = (S + T) * ((S + T) * n_components + 2 * n_components**2)
    gram += 2 * cells * max(T, 16) + 3 * n * T**2 if T else 0
    size = sum(target.nbytes for target in targets) * n / block.n if has_sparse else 8 * n * S
    fits = max(device.block_bytes, size) >= 8 * S * S
    return fits and gram < direct


def working_width(view: AnyView, spec: ViewSpec) -> float:
    """Numbers that a row needs four of besides its data: of latent x and what is made of it, of a copy in double
    precision; of sparse rows as much as is stored of them, or as their products with a start take.
    """
    if view.is_sparse:
        stored = view.nbytes / max(view.n_rows, 1)
        return max(stored, 8 * min(spec.n_features, WIDE)) * SPARSE_SHARE / 32
    return (4 if spec.likelihood.latent else view.dtype == "float32") * spec.n_features


def outline_of(block: Block) -> Block:
    """All that is known of a block without its rows; which columns each of them has is not kept either."""

    def masks(observed: Array) -> Array:
        return observed if block.shared else np.broadcast_to(np.False_, observed.shape)

    views = [
        replace(v, target=v.target[:0].copy(), observed=masks(v.observed), holes=None, seen=None) for v in block.views
    ]
    return replace(block, views=tuple(views), observed=masks(block.observed))


def summarised(blocks: Sequence[Block]) -> Block:
    """All blocks of a part as one, without its data: rows in Gram space need no more of real views."""
    views = []
    for rows in zip(*(block.views for block in blocks)):
        sums = {name: [getattr(view, name) for view in rows] for name in ("x_sum", "xx")}
        total = {name: reduce(add, parts) for name, parts in sums.items() if rows[0].is_static}
        views.append(replace(rows[0], target=rows[0].target[:0], holes=None, seen=None, **total))
    return replace(blocks[0], n=sum(block.n for block in blocks), views=tuple(views))


def cut(part: slice, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, part.stop)) for start in range(part.start, part.stop, step))


def row_view(view: CodedView, holes: Holes, spec: ViewSpec, shared: bool, exact: bool) -> RowView:
    """One view of some rows, which are all that is given of it; unless `exact`, its holes are variables."""
    n, n_features = view.n_rows, spec.n_features
    seen = holes.seen(view.observed if exact else None, n)
    observed = seen[:1] if shared else seen
    complete = bool(observed.all())
    whole_rows = not shared and not complete and observed.shape[1] == 1
    variables = None
    if not exact:
        missing = np.False_ if view.observed is None else ~view.observed
        variables = np.broadcast_to(missing, (n, n_features))
    return RowView(
        view.target,
        np.ascontiguousarray(observed),
        holes.groups,
        variables,
        present=bool(observed.any()),
        complete=complete,
        seen=np.flatnonzero(observed[:, 0]) if whole_rows and variables is None else None,
        is_static=not spec.likelihood.latent and variables is None,
    )


def with_sums(block: Block, block_bytes: int) -> Block:
    """With Σx and Σx² of its static views."""
    views = [replace(view, **column_sums(view, block_bytes)) if view.is_static else view for view in block.views]
    return replace(block, views=tuple(views))


def column_sums(view: RowView, block_bytes: int) -> dict[str, Array]:
    if is_sparse(view.target):
        return dict(zip(("x_sum", "xx"), view.target.column_sums()))
    x_sum: Array = 0.0
    xx: Array = 0.0
    for place in cut(slice(0, len(view.target)), max(1, block_bytes // (32 * view.target.shape[1]))):
        x = as_float(view.target[place])
        xp = array_namespace(x)
        x_sum, xx = x_sum + xp.sum(x, axis=0), xx + xp.sum(x * x, axis=0)
    return {"x_sum": x_sum, "xx": xx}
