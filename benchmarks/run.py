"""All benchmarks: one table, one JSON. `--quick` finishes in four minutes."""

from __future__ import annotations

import sys
import time
import warnings

import blas
import counts
import everyday
import flexible_peers
import growth
import holes
import kernels
import mofa
import ordinal
import peers
import textbook
from common import Row, report
from rich.console import Console


def main() -> None:
    quick = "--quick" in sys.argv
    console = Console(stderr=True)
    rows: list[Row] = []
    for module in (holes, kernels, textbook, everyday, peers, growth, blas, mofa, flexible_peers, ordinal, counts):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                rows += module.main(quick)
            except ImportError as error:
                words = f"{module.__name__}: left out, {error}. Install it with: pip install '.[bench]'"
                console.print(words, markup=False)
        console.print(f"{module.__name__}: {time.perf_counter() - began:.0f} s")
    report(rows, "quick" if quick else "bench")


if __name__ == "__main__":
    main()
