"""What was counted, as tables: each promise, what was measured, how sure that is, and whether it is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from interval_coverage import LEVELS

from sshiba.data.wording import percent
from sshiba.evaluate.confidence import binomial_interval
from torture.runner import FAILED, Result

Row = tuple[str, str, str, str, str]  # promise, asked for, measured, of what, kept or not
HEAD: Row = ("promise", "asked for", "measured", "of", "kept")
Counts = list[dict[str, Any]]  # of each set

RIGHT_FACTORS, NO_FACTORS = 0.95, 0.99
OFF_MODEL, OFF_TABLES = 1.0, 2.0  # points by which a share of intervals may be off
RANKS_OFF = 0.02  # the largest distance of the distribution of ranks from the uniform
OFF_PROBABILITIES = 0.02  # expected calibration error
REPORT = "no goal"
SURE, OPEN = 2.0, "not sure"  # standard errors beyond a mark by which it is surely missed; what lies between
PERCENT = " / ".join(f"{100 * level:.0f}" for level in LEVELS)


def measured(results: Iterable[Result]) -> list[Any]:
    return [json.loads(result.outcome) for result in results if result.outcome != FAILED]


def verdict(kept: bool) -> str:
    return "yes" if kept else "NO"


def as_report(row: Row) -> Row:
    """The same without a mark: part of what has one."""
    return row[0], REPORT, row[2], row[3], ""


def share_row(promise: str, right: list[bool], least: float) -> Row:
    share, n = float(np.mean(right)), len(right)
    low, high = binomial_interval(sum(right), n)
    words = f"{percent(share, 1)} ({100 * low:.1f} to {100 * high:.1f})"
    return promise, f"≥ {percent(least)}", words, f"{n} sets", verdict(share >= least)


def factor_rows(sets: list[Any], noise: list[Any]) -> list[Row]:
    words = "number of factors and their views"
    rows = [share_row(words, [one["views"] for one in sets], RIGHT_FACTORS)]
    for kind in dict.fromkeys(one["kind"] for one in sets):
        own = [one["views"] for one in sets if one["kind"] == kind]
        rows.append(as_report(share_row(f"{words}, {kind}", own, RIGHT_FACTORS)))
    if noise:
        rows.append(share_row("no factor in pure noise", [one["found"] == 0 for one in noise], NO_FACTORS))
    return rows


def added(counts: Counts) -> dict[str, Any]:
    """Counts of several views of one fit."""
    return {key: np.sum([own[key] for own in counts], axis=0) for key in counts[0]}


def interval_gaps(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Held less said, in points, and its standard error, at each level.

    A fit is one observation; of a few fits that says little, and it is at least the error of as many single cells.
    """
    n = np.array([own["n"] for own in counts], dtype=float)
    off = np.array([np.subtract(own["held"], own["said"]) for own in counts])
    gap = off.sum(axis=0) / n.sum()
    of_fits = np.sum((off - gap * n[:, None]) ** 2, axis=0) / n.sum() ** 2 * len(n) / max(len(n) - 1, 1)
    share = np.sum([own["held"] for own in counts], axis=0) / n.sum()
    error = np.sqrt(np.maximum(of_fits, share * (1 - share) / n.sum()))
    return 100 * gap, 100 * error


def interval_row(what: str, counts: Counts, most: float) -> Row:
    gap, error = interval_gaps(counts)
    words = " / ".join(f"{g:+.1f}" for g in gap) + f" (± {error.max():.1f})"  # the largest standard error
    size = f"{sum(own['n'] for own in counts):,} cells, {len(counts)} fits"
    kept = verdict(bool((abs(gap) <= most).all()))
    if kept == "NO" and (abs(gap) <= most + SURE * error).all():
        kept = OPEN
    return f"intervals of {PERCENT} %: {what}", f"within {most:g}", words, size, kept


def ranks_off(counts: Counts) -> float:
    """The largest distance between the distribution of ranks and the uniform."""
    bins = np.sum([own["bins"] for own in counts], axis=0)
    return float(np.abs(np.cumsum(bins) / bins.sum() - np.arange(1, len(bins) + 1) / len(bins)).max())


def ranks_error(counts: Counts) -> float:
    """The standard error of that, by leaving out one fit after another (jackknife)."""
    if len(counts) < 2:
        return np.inf
    without = np.array([ranks_off(counts[:i] + counts[i + 1 :]) for i in range(len(counts))])
    return float(np.sqrt((len(counts) - 1) * without.var()))


def calibration_error(counts: Counts, which: str) -> tuple[float, float, int]:
    """Expected calibration error, mean said less mean happened, and the number of cells."""
    n, said, happened = np.sum([own[which] for own in counts], axis=0).T
    return float(np.abs(said - happened).sum() / n.sum()), float((said - happened).sum() / n.sum()), int(n.sum())


def prediction_rows(sets: list[Any]) -> list[Row]:
    by: dict[tuple[str, str], Counts] = {}
    for one in sets:
        for pair in dict.fromkeys((kind, what) for kind, what, _ in one):
            by.setdefault(pair, []).append(added([own for kind, what, own in one if (kind, what) == pair]))
    rows = []
    for (kind, what), counts in sorted(by.items()):
        rows.append(interval_row(f"{kind}, {what}", counts, OFF_MODEL))
    for (kind, what), counts in sorted(by.items()):
        off, error, n = ranks_off(counts), ranks_error(counts), sum(own["n"] for own in counts)
        kept = OPEN if RANKS_OFF < off <= RANKS_OFF + SURE * error else verdict(off <= RANKS_OFF)
        size = f"{n:,} cells, {len(counts)} fits"
        rows.append((f"ranks: {kind}, {what}", f"≤ {RANKS_OFF}", f"{off:.3f} (± {error:.3f})", size, kept))
    for kind in ("yes/no", "classes"):
        counts = [own for (other, _), parts in by.items() if other == kind for own in parts]
        for which, words in (("confident", "the likeliest"), ("probable", "each")) if counts else ():
            off, bias, n = calibration_error(counts, which)
            found = f"{off:.3f} (mean {bias:+.3f})"
            row = (f"probabilities, {kind}: of {words}", f"≤ {OFF_PROBABILITIES}", found, f"{n:,} cells")
            rows.append((*row, verdict(off <= OFF_PROBABILITIES)))
    return rows


def table_rows(sets: list[Any]) -> list[Row]:
    """All cells together, and by type."""
    by: dict[str, Counts] = {}
    together: Counts = []
    for one in sets:
        own = {kind: counts for kind, counts in one.items() if kind != "table"}
        for kind, counts in own.items():
            by.setdefault(kind, []).append(counts)
        together.append(added(list(own.values())))
    rows = [as_report(interval_row(f"real tables, {kind}", counts, OFF_TABLES)) for kind, counts in by.items()]
    return [interval_row("real tables, all cells", together, OFF_TABLES), *rows] if rows else []


def reading_rows(sets: list[Any]) -> list[Row]:
    """What users read of factors: a report, without a mark."""
    read, rows = [one["read"] for one in sets if "read" in one], []
    for name in ("factors", "weights", "noise"):
        own = [part[name] for part in read if name in part]
        n = sum(part["n"] for part in own)
        shares = {level: sum(part[level] for part in own) / max(n, 1) for level in ("0.5", "0.9")}
        words = " / ".join(percent(share, 1) for share in shares.values())
        rows.append((f"intervals of 50 / 90 %: {name}", REPORT, words, f"{n:,} in {len(own)} sets", ""))
    off = [part["explained"] for part in read]
    n = max(sum(part["n"] for part in off), 1)
    mean, square = (sum(part[key] for part in off) / n for key in ("sum", "squares"))
    words = f"{100 * mean:+.2f} points, root mean square {100 * np.sqrt(square):.2f}"
    return [*rows, ("variance explained, less the truth", REPORT, words, f"{n} views", "")]


def markdown(rows: list[Row]) -> str:
    lines = [HEAD, ("---",) * len(HEAD), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
