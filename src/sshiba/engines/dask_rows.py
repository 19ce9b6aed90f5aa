"""Rows on the workers of a Dask cluster: messages go out, statistics come back, q(x) stays with its rows.

The client says where each block of rows is, and each task about it runs there. A worker that is gone, or that does not
answer, loses its blocks: they are made again elsewhere, and what was under way is done once more.
"""

from __future__ import annotations

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from distributed import Future

from ..core.dask_cluster import Cluster, ClusterError, WorkersLostError, needed_client
from ..core.messages import Messages, make_messages
from ..core.parted import PartedView
from ..core.scratch import RowsLostError
from ..core.spec import ModelSpec
from ..core.start import plain_posterior
from ..core.state import ColumnGroups, Posterior, Stats
from ..core.streamed import AnyView
from . import dask_tasks as tasks
from .block_making import cut
from .memory import in_words
from .principal import principal_directions
from .protocol import FULL, Accuracy, Ask, same

logger = logging.getLogger("sshiba")

BLOCKS_EACH = 4  # of a thread: a worker that comes later finds some to take over
LEAST_ROWS = 500  # of a block
MOST_BYTES = 2**28  # of the data of a block
FAN_IN = 8  # blocks of a worker, or sums of workers, that one task, or the client, adds up
MOST_REPAIRS = 20  # of one call: a block that ends each of its workers ends the fit, too
LOOK_AROUND = 5.0  # seconds between two looks for workers that came


class StoredX:
    """q(x) of all rows in one state of the fit, by its number; the workers keep it until nobody needs it."""

    def __init__(self, number: int, on_end: Callable[[int], None]) -> None:
        self.number = number
        weakref.finalize(self, on_end, number)


@dataclass
class Place:
    """A block of rows, and the worker that has it."""

    rows: slice
    worker: str
    block: Future | None = None  # None: it is not made yet

    @property
    def is_known(self) -> bool:
        """Is it somewhere, or being made?"""
        return self.block is not None and self.block.status in ("finished", "pending")


class DaskRows:
    """Rows in blocks on the workers of a Dask cluster, each block a `MemoryRows` of its own.

    Parameters
    ----------
    data, spec, n_components, missing, min_shared
        As for `make_rows`.
    block_rows : int, optional
        Rows of a block.
    device : str, optional
        Of each worker.
    """

    portable = False

    def __init__(
        self,
        data: Sequence[AnyView],
        spec: ModelSpec,
        n_components: int,
        missing: str = "exact",
        block_rows: int | None = None,
        min_shared: int | None = None,
        device: str | None = None,
    ) -> None:
        self.data, self.spec, self.n_rows = data, spec, data[0].n_rows
        self.client = needed_client()
        self.cluster = Cluster(self.client)
        self._numbers = count()
        self._dropped: list[int] = []
        self._lost: RowsLostError | None = None
        self._looked = monotonic()
        self.n_bytes = 0  # of all arrays that were sent and came back, each counted once
        holes = tuple(view.holes(own.n_features) for view, own in zip(data, spec.views))
        exact = missing == "exact"
        self.plan = tasks.Plan(spec, n_components, missing, min_shared, device, tuple(own.outline for own in holes))
        self.groups = tuple(own.groups if exact else ColumnGroups.single(len(own.groups.index)) for own in holes)
        workers = self.cluster.wait_for_workers()
        slots = [address for address, threads in workers.items() for _ in range(threads)]
        edges = next((view.edges for view in data if isinstance(view, PartedView)), None)
        if edges is None:
            parts = list(cut(slice(0, self.n_rows), block_rows or self._block_rows(len(slots))))
        else:
            parts = [slice(a, b) for a, b in pairwise(edges) if b > a]
        self.places: list[Place] = []
        for i, rows in enumerate(parts):
            worker = slots[i * len(slots) // len(parts)]
            self.places.append(Place(rows, self._holder(rows) or worker))
        self._through(self._make_blocks)

    def _block_rows(self, n_threads: int) -> int:
        n_bytes = sum(view.nbytes for view in self.data)
        n_blocks = max(BLOCKS_EACH * n_threads, n_bytes // MOST_BYTES)
        return max(-(-self.n_rows // n_blocks), min(LEAST_ROWS, -(-self.n_rows // n_threads)))

    def _holder(self, rows: slice) -> str | None:
        """A worker that has most of these rows already."""
        parts = [view.there(rows.start, rows.stop) for view in self.data if isinstance(view, PartedView)]
        holders = self.cluster.holders([part for part in parts if isinstance(part, Future)])
        found = Counter(worker for own in holders for worker in own)
        return found.most_common(1)[0][0] if found else None

    def _make_blocks(self) -> None:
        for place in self.places:
            if place.block is None:
                self._move(place, place.worker, intact=False)

    def _send(self, rows: slice, worker: str) -> list[Any]:
        """What a block is made of, on a worker, or known there already: Dask computes again what was lost of that."""
        plan, *sent = self.cluster.send(
            [self.plan, *(v.read(rows).to_host() for v in self.data if not isinstance(v, PartedView))], worker
        )
        rest = iter(sent)
        return [plan, *(self._there(v, rows) if isinstance(v, PartedView) else next(rest) for v in self.data)]

    def _there(self, view: PartedView, rows: slice) -> Future:
        found = view.there(rows.start, rows.stop)
        return found if isinstance(found, Future) else self.client.compute(found)

    def _move(self, place: Place, worker: str, intact: bool) -> None:
        """A block to a worker: with its q(x) where it is intact, else it is made again."""
        if intact and place.block is not None:
            place.block = self.client.submit(tasks.take_over, place.block, workers=[worker], pure=False)
        else:
            owns_data = not any(isinstance(view, PartedView) for view in self.data)
            made_of = (place.rows.start, owns_data, *self._send(place.rows, worker))
            place.block = self.client.submit(tasks.make_block, *made_of, workers=[worker], pure=False)
        place.worker = worker

    # ------------------------------------------------------------------------------------------------- the seam

    def describe(self) -> str:
        ways = self._ask(tasks.ways, None)
        n_workers = len({place.worker for place in self.places})
        where = f"on {n_workers} workers of the Dask cluster {self.cluster.address}"
        return f"{where}: {in_words(ways)}; {len(self.places)} blocks"

    def directions(self, k: int) -> np.ndarray:
        plain = plain_posterior(self.spec, self.groups)
        messages, local = self._messages(plain), self.start(plain)

        def times(Q: np.ndarray) -> np.ndarray:
            return self._ask(tasks.times, (messages, Q), local.number)

        return principal_directions(self._ask(tasks.squares, messages, local.number), times, k, self.spec.n_known)

    def start(self, posterior: Posterior) -> StoredX:
        new = self._new()
        self._ask(tasks.first_x, self._messages(posterior), new.number, self._no_longer_needed())
        return new

    def step(self, posterior: Posterior, local: StoredX, hold_x: bool = False) -> tuple[StoredX, Stats]:
        new = self._new()
        numbers = (local.number, new.number, hold_x, self._no_longer_needed())
        return new, self._ask(tasks.local_step, self._messages(posterior), *numbers)

    def settle(self, posterior: Posterior, local: StoredX, max_rounds: int = FULL.max_rounds) -> tuple[StoredX, bool]:
        new = self._new()
        numbers = (local.number, new.number, max_rounds, self._no_longer_needed())
        return new, self._ask(tasks.settle, self._messages(posterior), *numbers) == 0

    def infer(
        self, posterior: Posterior, local: StoredX | None = None, accuracy: Accuracy = FULL, then: Ask = same
    ) -> Iterator[Any]:
        messages, number = self._messages(posterior), None if local is None else local.number
        step = 2 * len(self.places) // BLOCKS_EACH + 1
        for first in range(0, len(self.places), step):
            some = self.places[first : first + step]
            job = partial(self._run, some, tasks.infer, (messages, then), number, accuracy, add=False)
            for parts in self._through(job):
                yield from parts

    def _messages(self, posterior: Posterior) -> Messages:
        return make_messages(posterior, self.spec, self.groups)

    def _new(self) -> StoredX:
        return StoredX(next(self._numbers), self._dropped.append)

    def _no_longer_needed(self) -> tuple[int, ...]:
        """Numbers that all blocks are told of once; one that was lost meanwhile has nothing to forget."""
        dropped = tuple(self._dropped)
        del self._dropped[: len(dropped)]
        return dropped

    # ------------------------------------------------------------------------------------------------ the tasks

    def _ask(self, task: Callable[..., Any], *arguments: Any) -> Any:
        """The sum of what all blocks say."""
        return self._through(lambda: self._run(self.places, task, *arguments))

    def _run(self, places: Sequence[Place], task: Callable[..., Any], large: Any, *small: Any, add: bool = True) -> Any:
        """One task for each block, where it is, and additions of what blocks of one worker, then all workers say; or
        what each block says. `large` is sent once, and workers have it from one another.
        """
        name = f"{task.__name__}-{uuid4().hex}"
        graph, total = TaskGraph(), f"add_stats-{name}"
        # Every task is on a worker that is watched: one that is silent would keep the others waiting.
        sent = graph.add(f"messages-{name}", places[0].worker, tasks.unpack, tasks.pack(large))
        sums: list[tuple[Any, str]] = []
        for worker in dict.fromkeys(place.worker for place in places):
            own = [i for i, place in enumerate(places) if place.worker == worker]
            said = [graph.add((name, i), worker, task, places[i].block, sent, *small) for i in own]
            if add:
                sums.append((graph.add_up((total, worker), worker, said), worker))
        while len(sums) > FAN_IN:
            groups = [sums[i : i + FAN_IN] for i in range(0, len(sums), FAN_IN)]
            sums = [((total, len(groups), i), group[0][1]) for i, group in enumerate(groups)]
            for (key, worker), group in zip(sums, groups):
                graph.add(key, worker, tasks.add_stats, [key for key, _ in group])
        keys = [key for key, _ in sums] if add else [(name, i) for i in range(len(places))]
        futures = self.cluster.begin(graph.whole(), keys)
        found = self.cluster.results(futures, {place.worker for place in places})
        self.n_bytes += tasks.n_bytes(large) + sum(map(tasks.n_bytes, found))
        return tasks.add_stats(found) if add else found

    # ----------------------------------------------------------------------------------------------------- losses

    def _through(self, job: Callable[[], Any]) -> Any:
        """What a job returns, done again where workers were lost meanwhile."""
        if self._lost is not None:  # nobody waits a second time
            raise self._lost
        look = monotonic() - self._looked > LOOK_AROUND
        try:
            for _ in range(MOST_REPAIRS):
                try:
                    if look:
                        self._find_places()
                    return job()
                except WorkersLostError as error:
                    logger.warning("%s: their rows go to others", error)
                    look = True
            raise ClusterError(f"workers of the Dask cluster {self.cluster.address} end again and again.")
        except RowsLostError as error:
            self._lost = error
            raise

    def _find_places(self) -> None:
        """Each block to where there is a worker that answers; some of them to workers that came."""
        self._looked = monotonic()
        workers = self.cluster.wait_for_workers()
        astray = [place for place in self.places if place.worker not in workers or not place.is_known]
        for place, holders in zip(astray, self.cluster.holders([place.block for place in astray])):
            there = [worker for worker in holders if worker in workers]
            if there:  # a worker that retired has handed it over
                place.worker = there[0]
            else:
                intact = not self.cluster.leaving.isdisjoint(holders)
                self._move(place, least_busy(self._loads(workers), workers), intact)
        self._share_out(workers)

    def _share_out(self, workers: Mapping[str, int]) -> None:
        """Blocks move to workers that have fewer for each of their threads."""
        while True:
            loads = self._loads(workers)
            most = max(workers, key=lambda worker: loads[worker] / workers[worker])
            least = least_busy(loads, workers)
            if (loads[most] - 1) / workers[most] < (loads[least] + 1) / workers[least]:
                return
            self._move(next(place for place in self.places if place.worker == most), least, intact=True)

    def _loads(self, workers: Mapping[str, int]) -> Counter[str]:
        return Counter(place.worker for place in self.places if place.worker in workers)


def least_busy(loads: Mapping[str, int], workers: Mapping[str, int]) -> str:
    return min(workers, key=lambda worker: loads[worker] / workers[worker])


class TaskGraph:
    """Tasks in an order in which each needs only earlier ones, each on one worker alone."""

    def __init__(self) -> None:
        self.layers: list[tuple[str, dict[Any, Any]]] = []  # tasks that follow one another on a worker

    def add(self, key: Any, worker: str, task: Callable[..., Any], *arguments: Any) -> Any:
        if not self.layers or self.layers[-1][0] != worker:
            self.layers.append((worker, {}))
        self.layers[-1][1][key] = (task, *arguments)
        return key

    def add_up(self, key: tuple[Any, ...], worker: str, parts: Sequence[Any]) -> Any:
        """A sum in a chain: each link adds FAN_IN parts or a few more, which are let go before the last are there."""
        step = -(-len(parts) // max(1, len(parts) // FAN_IN))
        so_far: list[Any] = []
        for first in range(0, len(parts), step):
            some = [*so_far, *parts[first : first + step]]
            so_far = [self.add((*key, first), worker, tasks.add_stats, some)]
        return so_far[0]

    def whole(self) -> HighLevelGraph:
        layers = {
            str(i): MaterializedLayer(own, annotations={"workers": [worker]})
            for i, (worker, own) in enumerate(self.layers)
        }
        return HighLevelGraph(layers, {name: {str(i) for i in range(int(name))} for name in layers})
