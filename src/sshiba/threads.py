"""Threads over blocks of rows, which gain more from them than the small matrices of a block do inside BLAS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from threadpoolctl import ThreadpoolController

BLAS = ThreadpoolController().select(user_api="blas")


def n_threads() -> int:
    """As many as BLAS may use now: one inside a worker, or inside `in_threads`."""
    return max((library.num_threads for library in BLAS.lib_controllers), default=1)


def in_threads(job: Callable[..., Any], *arguments: Sequence[Any]) -> Iterator[Any]:
    """`map` on all threads, each with one BLAS thread. Results come in order, so that sums do not depend on it."""
    workers = min(len(arguments[0]), n_threads())
    if workers < 2:
        yield from map(job, *arguments)
        return
    with BLAS.limit(limits=1), ThreadPoolExecutor(workers) as threads:
        yield from threads.map(job, *arguments)
