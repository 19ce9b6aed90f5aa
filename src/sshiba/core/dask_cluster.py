"""A Dask cluster as the engine sees it: which workers answer, and what was lost with those that do not."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Sequence
from functools import partial
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, wait

from .scratch import RowsLostError

PATIENCE = 60.0  # seconds without an answer; "sshiba.patience" in Dask's configuration
LOOK = 0.25  # seconds between two looks at the workers while a result is waited for


class ClusterError(RowsLostError):
    """The cluster no longer answers."""


class WorkersLostError(Exception):
    """Some blocks of rows, or what is computed of them, are gone with their workers."""


def needed_client() -> Client:
    """The client that is in use in this process."""
    try:
        return Client.current(allow_global=True)
    except ValueError as error:
        raise ValueError(
            "engine='dask' needs a Dask client in this process: distributed.Client() for the cores of this machine, or "
            "Client('tcp://host:8786') for a cluster."
        ) from error


class Cluster:
    """Whom to ask, and how long to wait for an answer."""

    def __init__(self, client: Client) -> None:
        if client.asynchronous:
            raise ValueError("engine='dask' needs a Client that is not asynchronous.")
        self.client = client
        self.address = str(client.scheduler_info()["address"])
        self._heard: dict[str, tuple[float, float]] = {}  # when a worker last spoke, by its scheduler and by our clock
        self.leaving: set[str] = set()  # workers that still answer, and will be gone soon

    @property
    def patience(self) -> float:
        """As it is set now: it may be changed while a fit runs."""
        return float(dask.config.get("sshiba.patience", PATIENCE))

    def workers(self) -> dict[str, int]:
        """The threads of each worker that answers: it spoke within the time of our patience, and takes tasks."""
        now, found = time.monotonic(), {}
        heard: dict[str, tuple[float, float]] = {}
        self.leaving = set()
        for address, worker in self._identity()["workers"].items():
            last, since = self._heard.get(address, (-1.0, now))
            speaks = worker["last_seen"] != last and worker["status"] != "paused"
            heard[address] = (worker["last_seen"], now) if speaks else (last, since)
            if now - heard[address][1] < self.patience:
                if worker["status"] in ("running", "paused"):
                    found[address] = int(worker["nthreads"])
                else:
                    self.leaving.add(address)
        self._heard = heard
        return found

    def wait_for_workers(self) -> dict[str, int]:
        """The same; where there is none, one that comes soon enough."""
        ends = time.monotonic() + self.patience
        while True:
            found = self.workers()
            if found:
                return found
            if time.monotonic() > ends:
                raise ClusterError(
                    f"no worker is left on the Dask cluster {self.address}, and none came in {self.patience:g} s."
                )
            time.sleep(LOOK)

    def begin(self, graph: Any, keys: Sequence[Any]) -> list[Future]:
        """Tasks that are sent off. A client that lost its scheduler some time ago has closed itself."""
        try:
            return self.client.get(graph, keys, sync=False)
        except Exception:
            self.wait_for_workers()
            raise

    def results(self, futures: Sequence[Future], needed: set[str]) -> list[Any]:
        """Their results, as long as the workers that are needed for them are there; else WorkersLostError."""
        try:
            while not self._all_done(futures):
                gone = needed - set(self.wait_for_workers())
                if gone:
                    raise WorkersLostError(f"{len(gone)} of the workers of the Dask cluster {self.address} are gone")
            gather = partial(self.client.gather, futures, asynchronous=True)
            return self.client.sync(gather, callback_timeout=self.patience)
        except (RowsLostError, WorkersLostError):
            raise
        except (Exception, CancelledError) as error:
            if any(future.status == "error" for future in futures) and not isinstance(error, KilledWorker):
                raise  # it is a task's own
            self.wait_for_workers()
            raise WorkersLostError(f"results on the Dask cluster {self.address} are gone") from error

    def _all_done(self, futures: Sequence[Future]) -> bool:
        """Are they, after a short while? Asked within Dask's loop: an error that left it would keep all that its caller
        had in hand, q(x) of the last states among it, until the garbage collector comes.
        """

        async def done() -> bool:
            try:
                await wait(futures, timeout=LOOK)
            except TimeoutError:
                return False
            return True

        return self.client.sync(done)

    def compute(self, wanted: Sequence[Any]) -> list[Any]:
        """What Dask computes, wherever it likes; what is lost meanwhile it computes again."""
        try:
            return self.results(self.client.compute(list(wanted)), set())
        except WorkersLostError as error:
            raise ClusterError(
                f"workers of the Dask cluster {self.address} were lost with data of their own."
            ) from error

    def keep(self, wanted: Sequence[Any]) -> list[Future]:
        """The same, kept where it is."""
        futures = self.client.compute(list(wanted))
        while not self._all_done(futures):
            self.wait_for_workers()
        return futures

    def send(self, values: Sequence[Any], worker: str) -> list[Future]:
        """Values to a worker."""
        try:
            return self.client.scatter(values, workers=[worker], hash=False, timeout=self.patience)
        except Exception as error:
            if worker in self.wait_for_workers() and not isinstance(error, OSError | TimeoutError):
                raise
            raise WorkersLostError(f"a worker of the Dask cluster {self.address} is gone") from error

    def holders(self, futures: Sequence[Future | None]) -> list[list[str]]:
        """The workers that have each of these results."""
        keys = [None if future is None else future.key for future in futures]
        found = self._ask("who_has", keys=[key for key in keys if key is not None])
        return [list(found.get(key) or ()) for key in keys]

    def _identity(self) -> dict[str, Any]:
        return self._ask("identity")

    def _ask(self, what: str, **arguments: Any) -> Any:
        """What the scheduler says."""
        try:
            return self.client.sync(getattr(self.client.scheduler, what), callback_timeout=self.patience, **arguments)
        except (Exception, CancelledError) as error:
            raise ClusterError(f"the scheduler of the Dask cluster, {self.address}, no longer answers.") from error
