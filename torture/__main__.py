"""All suites, one after another, on all cores; what was done before is not done again, and a table is at the end."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from .runner import FAILED, ROOT, run_kept, summary

# Of the time. Those whose cases are few, and each a promise of its own, are first.
SHARES = {
    **{"side_by_side": 0.05, "limits": 0.15, "killed": 0.2},
    **{"inputs": 0.2, "commands": 0.15, "strangers": 0.1, "bounds": 0.15},
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=150.0, help="at most, for all suites")
    options.add_argument("--share", type=float, default=1.0, help="of the seeds of each suite")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--out", type=Path, default=ROOT / "out" / "torture")
    given = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found, left, until = {}, 1.0, time.perf_counter() + 60 * given.minutes
    for name, share in SHARES.items():
        suite = import_module(f"torture.{name}").SUITE
        now = time.perf_counter()
        seeds = list(range(max(1, round(given.share * suite.n_seeds))))
        found[name] = run_kept(suite, seeds, given.jobs, given.out, now + (until - now) * share / left)
        left -= share
    words = summary(found)
    (given.out / "summary.txt").write_text(words + "\n", encoding="utf-8")
    print("\n" + words)
    sys.exit(any(result.outcome == FAILED for results in found.values() for result in results.values()))


if __name__ == "__main__":
    main()
