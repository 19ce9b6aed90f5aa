"""All rows in memory, processed in blocks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np

from ..coding import ViewData
from ..model import Model
from ..state import ColumnGroups, Posterior, Stats
from ..threads import in_threads
from ..updates import Block, LocalX, RowView, local_step, messages, start_x
from .gram import Cross, Gram, gram_step, static_columns, take_cross, take_gram

logger = logging.getLogger("sshiba")

WORTH_A_BLOCK = 2_000_000  # n·K³: what rows of one pattern of holes must save to have a block of their own
BLOCK_BYTES = 2**26  # working memory of one block of rows that share a covariance of z
OWN_BLOCK_BYTES = 2**23  # of rows with a covariance each: small enough for the caches


@dataclass(frozen=True)
class Local:
    """What the rows keep between sweeps: q(x) of each block, and the products of each part in Gram space."""

    x: tuple[LocalX, ...]
    cross: tuple[Cross | None, ...] = ()


class MemoryEngine:
    """Rows in an order in which those with the same holes lie together, cut into blocks.

    Parameters
    ----------
    data : sequence of ViewData
        Aligned views, in the order of `model.views`.
    missing : "exact" or "mean-field"
    n_components : int
        The most factors there will be; sets the size of the blocks.
    block_rows : int, optional
        Rows per block, instead of what BLOCK_BYTES allows.
    engine : "auto", "memory" or "gram"
        Work in Gram space where that is cheaper, never, or wherever it can be.
    min_shared : int, optional
        Rows of one pattern of holes that get a block of their own, instead of what WORTH_A_BLOCK says.

    Attributes
    ----------
    groups : tuple of ColumnGroups
        One for each view.
    order : (N,)
        The row that stands at each place.
    slices : list of slice
        The places of each block.
    """

    def __init__(
        self,
        data: Sequence[ViewData],
        model: Model,
        missing: str = "exact",
        n_components: int = 50,
        block_rows: int | None = None,
        engine: str = "auto",
        min_shared: int | None = None,
    ) -> None:
        self.model = model
        self.n_rows = len(data[0].target)
        masks = [view.observed if missing == "exact" else None for view in data]
        columns = [column_groups(mask, spec.n_features) for mask, spec in zip(masks, model.views)]
        self.groups = tuple(groups for groups, _ in columns)
        # What a row needs besides its data: the latent x, and copies in double precision of what is stored in single.
        kept = [v.target.dtype == np.float64 and not s.view.latent for v, s in zip(data, model.views)]
        width = sum(spec.n_features for spec, in_place in zip(model.views, kept) if not in_place)
        self.order, parts = arrange_rows(
            [seen for _, seen in columns], self.n_rows, min_shared or max(8, WORTH_A_BLOCK // n_components**3)
        )
        in_order = np.array_equal(self.order, np.arange(self.n_rows))
        self.slices: list[slice] = []
        self.blocks: list[Block] = []
        self.parts: list[Part] = []
        for part, shared in parts:
            first = len(self.blocks)
            bytes_per_row = 8 * (4 * width + 4 * n_components + (0 if shared else 4 * n_components**2))
            budget = BLOCK_BYTES if shared else OWN_BLOCK_BYTES
            for place in cut(part, block_rows or max(1, budget // bytes_per_row)):
                rows = place if in_order else self.order[place]
                views = tuple(
                    row_view(view, spec.view.latent, groups, seen, rows, shared, missing)
                    for view, spec, (groups, seen) in zip(data, model.views, columns)
                )
                self.slices.append(place)
                self.blocks.append(Block(place.stop - place.start, shared, views))
            blocks = self.blocks[first:]
            gram = take_gram(blocks) if choose_gram(engine, blocks, n_components) else None
            self.parts.append(Part(slice(first, len(self.blocks)), gram))
        logger.info("engine: %s", self.describe())

    def describe(self) -> str:
        """One line on how the rows are processed."""
        sizes = {"gram": 0, "direct": 0, "a covariance each": 0}
        for part in self.parts:
            rows = sum(block.n for block in self.blocks[part.blocks])
            shared = self.blocks[part.blocks][0].shared
            sizes["gram" if part.gram else "direct" if shared else "a covariance each"] += rows
        how = ", ".join(f"{n} rows {kind}" for kind, n in sizes.items() if n)
        return f"{how}; {len(self.parts)} patterns of holes, {len(self.blocks)} blocks"

    def start(self, posterior: Posterior) -> Local:
        """The first q(x)."""
        told = messages(posterior, self.model, self.groups)
        x = tuple(start_x(block, told) for block in self.blocks)
        has_latent = any(q is not None for q in (x[0] if x else ()))
        cross = [
            take_cross(self.blocks[part.blocks], x[part.blocks]) if part.gram is not None and has_latent else None
            for part in self.parts
        ]
        return Local(x, tuple(cross))

    def local_step(self, posterior: Posterior, local: Local, hold_x: bool = False) -> tuple[Local, Stats]:
        """One local step over all rows; `hold_x` leaves q(x) as it is."""
        told = messages(posterior, self.model, self.groups)
        x: list[LocalX] = []
        crosses: list[Cross | None] = []
        total: list[Stats] = []
        for part, cross in zip(self.parts, local.cross):
            blocks, old = self.blocks[part.blocks], local.x[part.blocks]
            if part.gram is not None:
                new, cross, stats = gram_step(part.gram, blocks, old, cross, told, hold_x)
                x.extend(new)
                total.append(stats)
            else:
                # Many small matrices gain from threads over blocks, large products from those inside BLAS.
                run = map if blocks[0].shared else in_threads
                for q, stats in run(lambda block, q: local_step(block, q, told, hold_x), blocks, old):
                    x.append(q)
                    total.append(stats)
            crosses.append(cross)
        return Local(tuple(x), tuple(crosses)), reduce(add, total)


@dataclass(frozen=True)
class Part:
    """Blocks whose rows share one pattern of holes, with their Gram matrix where that is cheaper; or all others."""

    blocks: slice
    gram: Gram | None


def choose_gram(engine: str, blocks: Sequence[Block], n_components: int) -> bool:
    """Is a sweep over these blocks cheaper in Gram space? By multiplications, and never at the price of memory."""
    static, latent = static_columns(blocks[0])
    if not blocks[0].shared or not static or engine == "memory":
        return False
    if engine == "gram":
        return True
    n = sum(block.n for block in blocks)
    S = sum(len(blocks[0].views[i].groups.index) for i in static)
    T = sum(len(blocks[0].views[i].groups.index) for i in latent)
    direct = n * (2 * (S + 2 * T) * n_components + 2 * n_components**2)
    # Narrow products run at the speed of memory, not of multiplication: T counts for 16 at least.
    gram = (S + T) * ((S + T) * n_components + 2 * n_components**2) + n * (2 * S * max(T, 16) + 3 * T**2 if T else 0)
    fits = max(BLOCK_BYTES, 8 * n * S) >= 8 * S * S
    return fits and gram < direct


def column_groups(observed: np.ndarray | None, n_features: int) -> tuple[ColumnGroups, np.ndarray]:
    """Features with equal columns of the mask, and the mask by group, (N, G), or (1, 1) where nothing is missing."""
    if observed is None or observed.shape[1] == 1:
        seen = np.ones((1, 1), dtype=bool) if observed is None else observed
        return ColumnGroups(np.zeros(n_features, dtype=int)), seen
    numbers: dict[bytes, int] = {}
    columns = np.packbits(observed, axis=0).T
    index = np.array([numbers.setdefault(column.tobytes(), len(numbers)) for column in columns])
    first = np.unique(index, return_index=True)[1]
    return ColumnGroups(index), observed[:, first]


def arrange_rows(
    observed: Sequence[np.ndarray], n_rows: int, min_shared: int
) -> tuple[np.ndarray, list[tuple[slice, bool]]]:
    """An order of the rows, and its parts, each with whether its rows share one pattern of holes.

    Patterns of `min_shared` rows or more come first, one part each; the rows of all others make one last part.
    """
    pattern = row_patterns([seen for seen in observed if len(seen) == n_rows and not seen.all()], n_rows)
    counts = np.bincount(pattern)
    common = counts >= min(min_shared, n_rows)
    key = np.where(common[pattern], pattern, len(counts))
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-2)) if n_rows else np.zeros(0, dtype=int)
    parts = [(slice(int(a), int(b)), bool(common[pattern[order[a]]])) for a, b in pairwise(edges)]
    return order, parts


def row_patterns(masks: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """A number for each row, equal for rows with the same holes in all views, (N,)."""
    if not masks:
        return np.zeros(n_rows, dtype=int)
    packed = np.ascontiguousarray(np.packbits(np.concatenate(masks, axis=1), axis=1))
    as_bytes = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
    return np.unique(as_bytes, return_inverse=True)[1].reshape(-1)


def cut(part: slice, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, part.stop)) for start in range(part.start, part.stop, step))


def row_view(
    view: ViewData,
    latent: bool,
    groups: ColumnGroups,
    seen: np.ndarray,
    rows: slice | np.ndarray,
    shared: bool,
    missing: str,
) -> RowView:
    """One view of some rows; `seen` is the mask by column group."""
    target = view.target[rows]
    if len(seen) > 1 or len(target) == 1:
        seen = np.broadcast_to(seen, (len(view.target), seen.shape[1]))[rows]
    observed = seen[:1] if shared else np.broadcast_to(seen, (len(target), seen.shape[1]))
    block = RowView(target, observed.astype(np.float64), groups, present=bool(observed.any()))
    if missing == "mean-field" and view.observed is not None:
        return replace(block, holes=np.broadcast_to(~view.observed[rows], (len(target), len(groups.index))))
    if latent:
        return block
    x = target.astype(np.float64, copy=False)
    return replace(block, x_sum=x.sum(axis=0), xx=(x * x).sum(axis=0))
