"""All of it, on all cores, within an hour; what was done before is not done again, and a table is at the end.

Exit code 1 where a promise is not kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from torture.runner import FAILED, ROOT, run_kept

from . import factors, predictions, tables
from .summary import factor_rows, markdown, measured, prediction_rows, reading_rows, table_rows

SHARES = {factors.SUITE: 0.2, factors.NOISE: 0.15, predictions.SUITE: 0.45, tables.SUITE: 0.2}  # of the time


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=60.0, help="at most, for everything")
    options.add_argument("--share", type=float, default=1.0, help="of the sets of each kind")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--out", type=Path, default=ROOT / "out" / "calibration")
    given = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found, left, until = {}, 1.0, time.perf_counter() + 60 * given.minutes
    for suite, share in SHARES.items():
        now = time.perf_counter()
        seeds = list(range(max(1, round(given.share * suite.n_seeds))))
        found[suite.name] = run_kept(suite, seeds, given.jobs, given.out, now + (until - now) * share / left)
        left -= share
    sets = {name: measured(results.values()) for name, results in found.items()}
    rows = factor_rows(sets["factors"], sets["noise"]) if sets["factors"] else []
    rows += [*prediction_rows(sets["predictions"]), *table_rows(sets["tables"]), *reading_rows(sets["factors"])]
    (given.out / "summary.md").write_text(markdown(rows) + "\n", encoding="utf-8")
    print("\n" + markdown(rows))
    failed = [result for results in found.values() for result in results.values() if result.outcome == FAILED]
    for result in failed:
        print(f"seed {result.seed} failed: {result.words[:300]}")
    sys.exit(bool(failed) or any(row[-1] == "NO" for row in rows))


if __name__ == "__main__":
    main()
