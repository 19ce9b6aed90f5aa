"""What all suites share: seeds run in processes of their own, results that are kept, and the table at the end.

A suite is a function of a seed. It returns in a word what happened ("fitted", "refused" ...), or raises: then a promise
was broken, and the same seed breaks it again. A case that hangs, or ends its process, is a failure as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FAILED = "failed"
STARTING = 30.0  # seconds: the first seed of a process waits for `prepare`
FORK = multiprocessing.get_context("fork")


class BrokenPromiseError(AssertionError):
    """What a case was to show is not so."""


def demand(kept: bool, words: str) -> None:
    if not kept:
        raise BrokenPromiseError(words)


@dataclass(frozen=True)
class Suite:
    """Cases of one kind.

    Parameters
    ----------
    name : of its module
    case : what to do with a seed
    n_seeds : how many seeds `make torture` runs
    prepare : run once in each process before its first seed
    seconds : that a case may take before it counts as hanging
    memory : bytes of address space that the process of a case may have beyond what it has at the start, if limited
    """

    name: str
    case: Callable[[int], str]
    n_seeds: int
    prepare: Callable[[], Any] = lambda: None
    seconds: float = 60.0
    memory: int | None = None


@dataclass(frozen=True)
class Result:
    """What became of one seed."""

    seed: int
    outcome: str
    seconds: float
    words: str = ""


# ------------------------------------------------------------------------------------------------- one seed


def attempt(suite: Suite, seed: int) -> Result:
    began = time.perf_counter()
    try:
        outcome, words = suite.case(seed), ""
    except Exception as error:
        outcome, words = FAILED, f"{type(error).__name__}: {error} ({place_of(error)})"
    return Result(seed, outcome, round(time.perf_counter() - began, 3), words)


def place_of(error: BaseException) -> str:
    """Where the library, or else the suite, was when it happened."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "sshiba" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


def limit_memory(n_bytes: int) -> None:
    """Beyond what the process has now; threads and compiled code count their whole address space."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + n_bytes, resource.RLIM_INFINITY))


# ------------------------------------------------------------------------------------------- many, side by side


def serve(suite: Suite, pipe: Connection) -> None:
    """In a worker: seeds come in, results go out."""
    suite.prepare()
    if suite.memory is not None:
        limit_memory(suite.memory)
    while (seed := pipe.recv()) is not None:
        pipe.send(attempt(suite, seed))


class Worker:
    """A process that tries one seed at a time."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=serve, args=(suite, theirs), daemon=False)
        self.process.start()
        theirs.close()
        self.seed, self.began = -1, 0.0

    def give(self, seed: int) -> None:
        self.seed, self.began = seed, time.perf_counter()
        self.pipe.send(seed)

    def overdue(self) -> bool:
        return time.perf_counter() - self.began > self.suite.seconds + STARTING

    def result(self) -> Result:
        """That of its seed, or that the process ended with it."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            seconds = time.perf_counter() - self.began
            return Result(self.seed, FAILED, round(seconds, 3), f"the process ended: {self.process.exitcode}")

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run(suite: Suite, seeds: list[int], n_jobs: int, until: float = float("inf")) -> Iterator[Result]:
    """Results as they come; no seed is begun after `until`, a time of `time.perf_counter`."""
    left, workers = list(reversed(seeds)), []
    try:
        while left or workers:
            while left and len(workers) < n_jobs and time.perf_counter() < until:
                workers.append(Worker(suite))
                workers[-1].give(left.pop())
            if not workers:
                return
            ready = wait([worker.pipe for worker in workers], timeout=1.0)
            for worker in list(workers):
                if worker.pipe in ready:
                    yield worker.result()
                elif worker.overdue():
                    yield Result(worker.seed, FAILED, suite.seconds, f"hangs: over {suite.seconds:.0f} s")
                else:
                    continue
                if worker.pipe in ready and worker.process.is_alive() and left and time.perf_counter() < until:
                    worker.give(left.pop())
                else:
                    worker.end()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.end()


# ------------------------------------------------------------------------------------------------- what is kept


class Kept:
    """Results in a file, a line each, for one state of the sources: other sources begin anew."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.path = folder / fingerprint() / f"{suite.name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def all(self) -> dict[int, Result]:
        if not self.path.exists():
            return {}
        lines = self.path.read_text(encoding="utf-8").splitlines()
        found: dict[int, Result] = {}
        for line in filter(None, lines):
            with suppress(json.JSONDecodeError):  # a line that was cut off
                result = Result(**json.loads(line))
                found[result.seed] = result
        return found

    def add(self, result: Result) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(asdict(result)))  # so that a line that was cut off spoils no other


def fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("src", "torture", "calibration") for path in (ROOT / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def summary(found: dict[str, dict[int, Result]]) -> str:
    """A line for each suite, then each failure with the command that shows it."""
    lines = [f"{'suite':12}{'cases':>7}{'failed':>8}{'minutes':>9}  outcomes"]
    for name, results in found.items():
        counts = Counter(result.outcome for result in results.values())
        minutes = sum(result.seconds for result in results.values()) / 60
        words = ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common() if outcome != FAILED)
        lines.append(f"{name:12}{len(results):7}{counts[FAILED]:8}{minutes:9.1f}  {words}")
    for name, results in found.items():
        for result in results.values():
            if result.outcome == FAILED:
                lines.append(f"python -m torture.{name} --seed {result.seed}: {result.words[:300]}")
    return "\n".join(lines)


def run_kept(suite: Suite, seeds: list[int], n_jobs: int, folder: Path, until: float = float("inf")) -> dict:
    """Those of the seeds that are not done yet; all results, in the order of the seeds."""
    kept = Kept(suite, folder)
    done = kept.all()
    left = [seed for seed in seeds if seed not in done or done[seed].outcome == FAILED]
    print(f"{suite.name}: seeds {seeds[0]} to {seeds[-1]}, {len(seeds) - len(left)} done before", flush=True)
    for result in run(suite, left, n_jobs, until):
        kept.add(result)
        done[result.seed] = result
        if result.outcome == FAILED:
            print(f"  seed {result.seed}: {result.words}", flush=True)
    return {seed: done[seed] for seed in seeds if seed in done}


# --------------------------------------------------------------------------------------------- one suite alone


def main(suite: Suite) -> None:
    """`python -m torture.SUITE`: one seed, shown, or several of them."""
    options = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    options.add_argument("--seed", type=int, help="try this one here, and show what goes wrong")
    options.add_argument("--first", type=int, default=0, help="of many seeds")
    options.add_argument("--seeds", type=int, default=suite.n_seeds, help="how many")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--minutes", type=float, default=float("inf"))
    options.add_argument("--out", type=Path, default=ROOT / "out" / "torture")
    given = options.parse_args()
    if given.seed is not None:
        suite.prepare()
        print(suite.case(given.seed))
        return
    until = time.perf_counter() + 60 * given.minutes
    seeds = list(range(given.first, given.first + given.seeds))
    found = run_kept(suite, seeds, given.jobs, given.out, until)
    print(summary({suite.name: found}))
    sys.exit(any(result.outcome == FAILED for result in found.values()))
