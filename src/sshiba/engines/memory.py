"""All rows in memory, that of the host or of a device, processed in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from ..core.arrays import array_namespace, to_numpy
from ..core.blocks import Block, LocalX, RowView, as_float, join_x, rows_of_x
from ..core.coded import CodedView
from ..core.devices import HOST, Device
from ..core.latent_step import start_x
from ..core.local_step import Settled, local_step, settle, z_covariance
from ..core.messages import Messages, make_messages
from ..core.sparse_rows import is_sparse
from ..core.spec import ModelSpec, ViewSpec
from ..core.start import WIDE, random_posterior
from ..core.state import Array, ColumnGroups, Posterior, Stats
from ..core.threads import in_threads
from .gram import Cross, Gram, gram_step, static_columns, take_cross, take_gram
from .patterns import arrange_rows, column_groups
from .placed import PlacedBlocks, Room
from .principal import RowProducts, principal_directions
from .protocol import MAX_ROUNDS, Z_TOL, RowPosterior

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
    """

    def __init__(
        self,
        data: Sequence[CodedView],
        spec: ModelSpec,
        n_components: int,
        missing: str = "exact",
        engine: str = "auto",
        block_rows: int | None = None,
        min_shared: int | None = None,
        device: Device = HOST,
    ) -> None:
        keep_freed_memory()
        self.device, self.portable = device, device.is_host
        n_components = max(n_components, 1)  # only the sizes of blocks depend on it
        self.spec = spec
        self.n_rows = len(data[0].target)
        masks = [view.observed if missing == "exact" else None for view in data]
        columns = [column_groups(mask, view.n_features) for mask, view in zip(masks, spec.views)]
        self.groups = tuple(groups for groups, _ in columns)
        # What a row needs besides its data: the latent x and what is made of it, and copies in double precision of what
        # is stored in single.
        width = sum(working_width(view, own) for view, own in zip(data, spec.views))
        min_shared = min_shared or max(8, int(device.worth_a_block // n_components**3))
        self.order, parts = arrange_rows([seen for _, seen in columns], self.n_rows, min_shared)
        in_order = np.array_equal(self.order, np.arange(self.n_rows))
        self.slices: list[slice] = []  # the places of each block in `order`
        self.blocks = PlacedBlocks(device, [])
        self.parts: list[Part] = []
        self.room = Room(device, sum(v.target.nbytes + getattr(v.observed, "nbytes", 0) for v in data if v.on_host))
        for part, shared in parts:
            first = len(self.blocks)
            bytes_per_row, own_bytes = 8 * (4 * width + 4 * n_components), 0 if shared else 32 * n_components**2
            # Rows with a covariance each: all in one block where that is small, else blocks that stay in a cache.
            fits = (part.stop - part.start) * (bytes_per_row + own_bytes) <= device.block_bytes
            budget = device.block_bytes if shared or fits else device.part_bytes
            for place in cut(part, block_rows or max(1, int(budget // (bytes_per_row + own_bytes)))):
                rows = place if in_order else self.order[place]
                views = tuple(
                    row_view(view, groups, seen, rows, shared, missing) for view, (groups, seen) in zip(data, columns)
                )
                self.slices.append(place)
                block = Block.of(place.stop - place.start, shared, views, missing, device.part_bytes)
                self._with_room(partial(self._place, block))
            self.parts.append(self._make_part(slice(first, len(self.blocks)), engine, n_components))

    def _make_part(self, place: slice, engine: str, n_components: int) -> Part:
        wanted = choose_gram(engine, self.blocks.stored[place], n_components, self.device)
        gram = self._with_room(lambda: take_gram(self.blocks[place])) if wanted else None
        part = Part(place, gram, self.device.put(summarised(self.blocks.stored[place])))
        if part.on_host:
            return self.device.fetch(part)
        return replace(part, shared=to_numpy(part.summary.observed)) if part.summary.shared and gram is None else part

    def _place(self, block: Block) -> None:
        """Keep a block, with the sums of its real views, where there is room for it."""
        there = with_sums(self.device.put(block), self.spec, self.device.block_bytes)
        if not self.room.resident:
            sums = [self.device.to_host((view.x_sum, view.xx)) for view in there.views]
            views = tuple(replace(view, x_sum=x, xx=xx) for view, (x, xx) in zip(block.views, sums))
            there = self.device.to_host(replace(block, views=views))
        self.blocks.stored.append(there)

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
                RowProducts(self.blocks[part.blocks], local.x[part.blocks], part.gram, cross)
                for part, cross in zip(self.parts, local.cross)
            ]
            return principal_directions(products, k)

        return self._with_room(directions)

    def start(self, posterior: Posterior) -> Local:
        messages = self._messages(posterior)
        return self._with_room(lambda: self._with_products(tuple(start_x(block, messages) for block in self.blocks)))

    def step(self, posterior: Posterior, local: Local, hold_x: bool = False) -> tuple[Local, Stats]:
        return self._with_room(lambda: self._step(posterior, local, hold_x))

    def _step(self, posterior: Posterior, local: Local, hold_x: bool) -> tuple[Local, Stats]:
        on_host = make_messages(posterior, self.spec, self.groups)
        # What rows share is K x K, and sooner found on the host than launched on a device.
        shared = [None if part.shared is None else z_covariance(part.shared, on_host) for part in self.parts]
        needed = any(not part.on_host for part in self.parts)
        messages, known = self.device.put_at_once((on_host, shared)) if needed else (on_host, shared)
        x: list[LocalX] = []
        crosses: list[Cross | None] = []
        total: Stats | None = None
        for part, cross, cov in zip(self.parts, local.cross, known):
            blocks, old = self.blocks[part.blocks], local.x[part.blocks]
            stats: Stats | None = None
            if part.gram is not None:
                told = on_host if part.on_host else messages
                new, cross, stats = gram_step(part.gram, part.summary, blocks, old, cross, told, hold_x)
                x.extend(new)
            else:
                # Many small matrices, and sparse ones, gain from threads over blocks, large products from those inside
                # BLAS.
                by_block = not part.summary.shared or any(is_sparse(view.target) for view in part.summary.views)
                run = in_threads if by_block and len(blocks) > 1 and self.device.is_host else map
                for q, own in run(partial(local_step, messages=messages, hold_x=hold_x, known=cov), blocks, old):
                    x.append(q)
                    stats = own if stats is None else stats + own
            assert stats is not None  # a part has at least one block
            fetched = stats if part.on_host else self.device.fetch(stats)
            total = fetched if total is None else total + fetched
            crosses.append(cross)
        assert total is not None  # there is at least one row
        return Local(tuple(x), tuple(crosses)), total

    def settle(self, posterior: Posterior, local: Local, max_rounds: int = MAX_ROUNDS) -> tuple[Local, bool]:
        if not self._has_latent(local.x):
            return local, True
        messages = self._messages(posterior)
        settled, converged = [], True
        for i, block in enumerate(self.blocks.stored):
            parts = []
            for some in block.parts(posterior.n_components):
                found = self._settled(i, some, local, messages, max_rounds, Z_TOL, each=False)
                parts.append(found.x)
                converged &= found.converged
            settled.append(join_x(parts))
        return self._with_room(lambda: self._with_products(tuple(settled))), converged

    def infer(self, posterior: Posterior, local: Local | None = None, z_tol: float = Z_TOL) -> Iterator[RowPosterior]:
        messages = self._messages(posterior)

        def job(i: int, some: slice) -> RowPosterior:
            found = self._settled(i, some, local, messages, MAX_ROUNDS, z_tol, each=True)
            return RowPosterior(self.order[self.slices[i]][some], found.z, found.cov(), found.converged)

        for i, block in enumerate(self.blocks.stored):
            parts = block.parts(posterior.n_components, own=not block.shared or block.z_follows_x)
            run = in_threads if self.device.is_host else map
            yield from run(job, [i] * len(parts), parts)

    def _settled(
        self, i: int, some: slice, local: Local | None, messages: Messages, rounds: int, z_tol: float, each: bool
    ) -> Settled:
        """Some rows of a block; without `local` from the start."""

        def job() -> Settled:
            block = self.device.put(self.blocks.stored[i].rows(some))
            if local is None:
                x = start_x(block, messages)
            else:
                x = local.x[i] if block.n == self.blocks.stored[i].n else rows_of_x(local.x[i], some)
            return settle(block, x, messages, rounds, z_tol, each)

        return self._with_room(job)

    def _messages(self, posterior: Posterior) -> Messages:
        return self.device.put_at_once(make_messages(posterior, self.spec, self.groups))

    def _with_products(self, x: tuple[LocalX, ...]) -> Local:
        """q(x) of all blocks with its products in Gram space, where any view is latent."""
        has_latent = self._has_latent(x)
        cross = [
            take_cross(self.blocks[part.blocks], x[part.blocks]) if part.gram is not None and has_latent else None
            for part in self.parts
        ]
        return Local(x, tuple(cross))

    @staticmethod
    def _has_latent(x: tuple[LocalX, ...]) -> bool:
        return any(q is not None for q in (x[0] if x else ()))


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


def choose_gram(engine: str, blocks: Sequence[Block], n_components: int, device: Device = HOST) -> bool:
    """Is a sweep over these blocks cheaper in Gram space? By multiplications, and never at the price of memory."""
    static, latent = static_columns(blocks[0])
    if not blocks[0].shared or not static or engine == "memory":
        return False
    targets = [block.views[i].target for block in blocks for i in static]
    has_sparse = any(is_sparse(target) for target in targets)
    if has_sparse and len(static) > 1:
        return False  # a sparse matrix and others side by side are no matrix of one kind
    if engine == "gram":
        return True
    n = sum(block.n for block in blocks)
    S = sum(len(blocks[0].views[i].groups.index) for i in static)
    T = sum(len(blocks[0].views[i].groups.index) for i in latent)
    cells = n * S if not has_sparse else SPARSE_COST * sum(target.matrix.nnz for target in targets)
    direct = 2 * cells * n_components + n * (4 * T * n_components + 2 * n_components**2)
    # Narrow products run at the speed of memory, not of multiplication: T counts for 16 at least.
    gram = (S + T) * ((S + T) * n_components + 2 * n_components**2)
    gram += 2 * cells * max(T, 16) + 3 * n * T**2 if T else 0
    fits = max(device.block_bytes, sum(target.nbytes for target in targets) if has_sparse else 8 * n * S) >= 8 * S * S
    return fits and gram < direct


def working_width(view: CodedView, spec: ViewSpec) -> float:
    """Numbers that a row needs four of besides its data: of latent x and what is made of it, of a copy in double
    precision; of sparse rows as much as is stored of them, or as their products with a start take.
    """
    if view.is_sparse:
        stored = view.target.nbytes / max(len(view.target), 1)
        return max(stored, 8 * min(spec.n_features, WIDE)) * SPARSE_SHARE / 32
    return (3 if spec.likelihood.latent else str(view.target.dtype).endswith("32")) * spec.n_features


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


def row_view(
    view: CodedView, groups: ColumnGroups, seen: np.ndarray, rows: slice | np.ndarray, shared: bool, missing: str
) -> RowView:
    """One view of some rows; `seen` is the mask by column group."""
    target = view.target[rows]
    if len(seen) > 1 or len(target) == 1:
        seen = np.broadcast_to(seen, (len(view.target), seen.shape[1]))[rows]
    observed = seen[:1] if shared else np.broadcast_to(seen, (len(target), seen.shape[1]))
    complete = bool(observed.all())
    whole_rows = not shared and not complete and observed.shape[1] == 1
    holes = None
    if missing == "mean-field" and view.observed is not None:
        holes = np.broadcast_to(~view.observed[rows], (len(target), len(groups.index)))
    return RowView(
        target,
        np.ascontiguousarray(observed),
        groups,
        holes,
        present=bool(observed.any()),
        complete=complete,
        seen=np.flatnonzero(observed[:, 0]) if whole_rows and holes is None else None,
    )


def with_sums(block: Block, spec: ModelSpec, block_bytes: int) -> Block:
    """With Σx and Σx² of its real views, unless some cells of them are variables."""
    views = [
        view if own.likelihood.latent or view.holes is not None else replace(view, **column_sums(view, block_bytes))
        for view, own in zip(block.views, spec.views)
    ]
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
