"""Threads over blocks of rows, which gain more from them than the small matrices of a block do inside BLAS."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any

from threadpoolctl import ThreadpoolController

WORTH_THREADS = 5e7  # multiplications, some five milliseconds on one core

BLAS = ThreadpoolController().select(user_api="blas")


def n_threads() -> int:
    """As many as BLAS may use now: one inside a worker, or inside `one_blas_thread`."""
    return max((library.num_threads for library in BLAS.lib_controllers), default=1)


class _OneThread:
    """How many have asked for one BLAS thread, and what to go back to: the setting belongs to the whole process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.before = 1  # as many threads as BLAS had, while there are holders
        self.limiter: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.before = n_threads()
                self.limiter = BLAS.limit(limits=1)
                let_others_set()
            self.holders += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                self.limiter.restore_original_limits()
                let_others_set()
                self.before = 1


def let_others_set() -> None:
    """Some versions of threadpoolctl obey only the first thread that set a limit; the last one out may be another."""
    for library in BLAS.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


_one_thread = _OneThread()
_own = threading.local()  # of a thread: `shares`, is it one of several at one job? `threads`, which it keeps for chunks


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread. Several threads may be inside at a time; the last one out gives back what there was."""
    with _one_thread:
        yield


def threads_for(n_operations: float) -> AbstractContextManager[None]:
    """BLAS on one thread where so many multiplications take it a few milliseconds only.

    Threads of BLAS wait for one another in each product. Where another process has a core, such a wait is as long as a
    time slice of the system: sweeps of 3 ms took 48. Where nobody has, a second thread saves up to a quarter of them.
    """
    return one_blas_thread() if n_operations < WORTH_THREADS else nullcontext()


def with_one_thread_less(results: Iterable[Any]) -> Iterator[Any]:
    """The same results, BLAS on all threads but one, which reads meanwhile: a thread without a core would keep the
    others waiting.
    """
    n = n_threads()
    if n < 2:
        yield from results
        return
    with BLAS.limit(limits=n - 1):
        let_others_set()
        yield from results
    let_others_set()


def in_threads(job: Callable[..., Any], *arguments: Sequence[Any], workers: int | None = None) -> Iterator[Any]:
    """`map` on all threads, or on so many, each with one BLAS thread.

    Results come in order, so that sums do not depend on it, and only a few are ahead of their turn.
    """
    n_jobs = len(arguments[0])
    workers = min(n_jobs, workers or n_threads()) if n_jobs > 1 else 1
    if workers < 2:
        yield from map(job, *arguments)
        return
    with one_blas_thread(), ThreadPoolExecutor(workers, initializer=_join_in) as threads:
        waiting: deque[Future] = deque()
        for parts in zip(*arguments):
            waiting.append(threads.submit(job, *parts))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def in_chunks(job: Callable[[slice], Any], n_rows: int, n_cells: int, least: int) -> list[Any]:
    """A compiled job for chunks of rows on all threads, one chunk where there are less than `least` cells.

    Such jobs call no BLAS, and wait for one another once: they take threads where small products had better not.
    """
    n_chunks = 1 if n_cells < least else min(_n_free_threads(), 1 + n_cells // least)
    edges = [n_rows * i // n_chunks for i in range(n_chunks + 1)]
    first, *others = [slice(a, b) for a, b in pairwise(edges)]
    if not others:
        return [job(first)]
    with kept_threads() as threads:
        waiting = [threads.submit(job, some) for some in others]
        return [job(first), *(chunk.result() for chunk in waiting)]


@contextmanager
def kept_threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for the chunks of this thread's jobs; within it `in_chunks` starts no others."""
    kept = getattr(_own, "threads", None)
    if kept is not None:
        yield kept
        return
    with ThreadPoolExecutor(max(1, _n_free_threads() - 1), initializer=_join_in) as _own.threads:
        try:
            yield _own.threads
        finally:
            _own.threads = None


def _n_free_threads() -> int:
    """As many as BLAS had before it was told to use one, but in a thread that shares a job with others."""
    return 1 if getattr(_own, "shares", False) else max(n_threads(), _one_thread.before)


def _join_in() -> None:
    _own.shares = True


def _start_anew() -> None:
    """In a forked process, which has no other threads: those that were kept would never answer."""
    _own.threads = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def read_ahead(job: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """`map` on a thread of its own, which is one result ahead: the next is read while one is worked on."""
    with ThreadPoolExecutor(1) as thread:
        waiting: deque[Future] = deque()
        for item in items:
            waiting.append(thread.submit(job, item))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
