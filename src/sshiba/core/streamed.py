"""A view whose rows are not in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from .coded import CodedView, RowPlaces, shrink_mask
from .holes import Holes, HoleSums
from .scratch import Scratch
from .threads import read_ahead

APART = 2**17  # bytes of rows between two that are still read at once: they take no longer than another reading


class ReadCount:
    """How often rows that are not kept were gone through, and how far the present pass is."""

    def __init__(self) -> None:
        self.per_pass = 0  # bytes of all rows that are read again and again
        self.n_bytes = 0
        self._lock = Lock()

    def add(self, n_bytes: int) -> None:
        with self._lock:
            self.n_bytes += n_bytes

    def __reduce__(self) -> tuple[type[ReadCount], tuple[()]]:
        """A copy, in another process or a file, starts anew."""
        return ReadCount, ()

    def __str__(self) -> str:
        if not self.n_bytes:
            return ""
        if not self.per_pass:
            return f"{self.n_bytes / 1e9:.1f} GB read"
        number, done = divmod(self.n_bytes, self.per_pass)
        return f"pass {number + 1}: {done / 1e9:.1f} of {self.per_pass / 1e9:.1f} GB"


@dataclass(frozen=True, eq=False)
class StreamedView:
    """One view whose rows are read and coded when they are needed: in a file, or wherever they are.

    `read_rows(start, stop)` reads rows that follow one another; where `any_order`, several threads may ask it for rows
    here and there.
    """

    read_rows: Callable[[int, int], CodedView]
    n_rows: int
    empty: CodedView  # the form of the rows, and none of them
    found: Holes
    observed_rows: np.ndarray  # (N,) bool: those that have anything
    chunk_bytes: float  # of rows that are gone through
    any_order: bool

    in_memory = False
    on_host = True
    is_sparse = False

    @classmethod
    def of(
        cls,
        read_rows: Callable[[int, int], CodedView],
        n_rows: int,
        empty: CodedView,
        n_features: int,
        complete: bool,
        chunk_bytes: float,
        any_order: bool = False,
    ) -> StreamedView:
        """Unless they are known to be complete, all rows are read once, to see where the holes are."""
        seen = np.ones(n_rows, dtype=bool)
        view = cls(read_rows, n_rows, empty, Holes.none(n_features), seen, chunk_bytes, any_order)
        if complete:
            return view
        sums = [HoleSums.of(part.observed, start, part.n_rows, n_features) for start, part in view.chunks()]
        seen = np.concatenate([part.observed_rows for part in sums])
        return replace(view, found=HoleSums.joined(sums), observed_rows=seen)

    @property
    def ndim(self) -> int:
        return self.empty.ndim

    @property
    def dtype(self) -> str:
        return self.empty.dtype

    @property
    def is_complete(self) -> bool:
        return self.found.complete

    @property
    def row_bytes(self) -> int:
        """What a row takes once it is read, with its mask."""
        target = self.empty.target
        return int(np.prod(target.shape[1:])) * (target.dtype.itemsize + (not self.is_complete))

    @property
    def nbytes(self) -> int:
        return self.n_rows * self.row_bytes

    def holes(self, n_features: int) -> Holes:
        return self.found

    def read(self, rows: RowPlaces) -> CodedView:
        """Some of the rows, in this order."""
        return self.read_rows(rows.start, min(rows.stop, self.n_rows)) if isinstance(rows, slice) else self.take(rows)

    @property
    def chunk_rows(self) -> int:
        """Rows that are read at a time."""
        return max(1, int(self.chunk_bytes) // max(self.row_bytes, 1))

    def chunks(self) -> Iterator[tuple[int, CodedView]]:
        """All rows, some at a time, with the place of the first; the next are read meanwhile."""
        step = self.chunk_rows
        starts = range(0, self.n_rows, step)
        return zip(starts, read_ahead(lambda start: self.read(slice(start, start + step)), starts))

    def take(self, rows: np.ndarray) -> CodedView:
        """Single rows, which may lie far apart, in this order; no more than a chunk is read at a time."""
        order, room = np.argsort(rows, kind="stable"), self._room(len(rows))
        for places in np.split(order, cuts(rows[order], self.row_bytes, self.chunk_rows)):
            if len(places):
                wanted = rows[places]
                first = int(wanted[0])
                room.put(places, self.read_rows(first, int(wanted[-1]) + 1).take(wanted - first))
        return room.view()

    def _room(self, n_rows: int, empty: Callable[..., np.ndarray] = np.empty) -> RoomForRows:
        shape = self.empty.target.shape[1:]
        width = 1 if self.is_complete or self.ndim == 1 else shape[0]
        return RoomForRows(empty((n_rows, *shape), self.empty.target.dtype), empty((n_rows, width), bool))

    def at(self, places: np.ndarray | None) -> StreamedView:
        """Rows at these places, -1 being a row that the view does not have; None: all as they are.

        Rows in another order than they lie in are copied to a scratch file once.
        """
        if places is None:
            return self
        known = places[places >= 0]
        in_order = bool((np.diff(known) > 0).all())
        holes = self.found if self.is_complete and len(known) == len(places) else self.found.take(places)
        seen = (places >= 0) & self.observed_rows[places]
        read_rows = self._gaps_at(places) if in_order else self._sorted_at(places)
        any_order = self.any_order or not in_order
        changed = {"n_rows": len(places), "found": holes, "observed_rows": seen, "any_order": any_order}
        return replace(self, read_rows=read_rows, **changed)

    def _gaps_at(self, places: np.ndarray) -> Callable[[int, int], CodedView]:
        def read_rows(start: int, stop: int) -> CodedView:
            wanted = places[start:stop]
            known = wanted >= 0
            found = self.take(wanted[known])
            return found if known.all() else found.take(np.where(known, np.cumsum(known) - 1, -1))

        return read_rows

    def _sorted_at(self, places: np.ndarray) -> Callable[[int, int], CodedView]:
        room = self._room(len(places), Scratch().empty)
        present = np.flatnonzero(places >= 0)
        goes_to = np.full(self.n_rows, -1)
        goes_to[places[present]] = present
        room.target[places < 0], room.observed[places < 0] = 0, False
        for start, part in self.chunks():
            to = goes_to[start : start + part.n_rows]
            room.put(to[to >= 0], part.take(np.flatnonzero(to >= 0)))
        return room.read

    def hidden(self) -> CodedView:
        return self.empty.take(np.full(self.n_rows, -1))

    def gathered(self) -> CodedView:
        """All rows in memory."""
        room = self._room(self.n_rows)
        for start, part in self.chunks():
            room.put(slice(start, start + part.n_rows), part)
        return room.view()


@dataclass(frozen=True)
class RoomForRows:
    """Arrays in which rows that are read part by part are put together."""

    target: np.ndarray
    observed: np.ndarray

    def put(self, places: RowPlaces, part: CodedView) -> None:
        self.target[places] = part.target
        self.observed[places] = True if part.observed is None else part.observed

    def view(self) -> CodedView:
        return CodedView(self.target, shrink_mask(self.observed))

    def read(self, start: int, stop: int) -> CodedView:
        """A copy of rows that follow one another."""
        return CodedView(self.target[start:stop].copy(), shrink_mask(self.observed[start:stop].copy()))


AnyView = CodedView | StreamedView


def cuts(rows: np.ndarray, row_bytes: int, chunk_rows: int) -> np.ndarray:
    """Where rows that rise are cut, so that what is read at once is no more than a chunk, and holds little else."""
    far = (np.diff(rows) - 1) * row_bytes > APART
    return np.flatnonzero(far | (np.diff((rows - rows[:1]) // chunk_rows) > 0)) + 1


def class_codes(view: AnyView) -> np.ndarray:
    """The class of each row of a view of classes, (N,), -1 where it has none."""
    rows = view.read(slice(0, view.n_rows))
    return np.where(rows.seen_cells[:, 0], rows.target, -1).astype(np.int32)


def join_views(parts: Sequence[CodedView]) -> CodedView:
    """Rows one below the other."""
    return CodedView(np.concatenate([part.target for part in parts]), _joined_mask(parts))


def _joined_mask(parts: Sequence[CodedView]) -> np.ndarray | None:
    if all(part.observed is None for part in parts):
        return None
    width = max(1 if part.observed is None else part.observed.shape[1] for part in parts)
    masks = [np.broadcast_to(True if p.observed is None else p.observed, (p.n_rows, width)) for p in parts]
    return shrink_mask(np.concatenate(masks))
