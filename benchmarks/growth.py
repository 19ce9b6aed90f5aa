"""How a sweep grows with rows, features, factors, holes and patterns of holes, and what of it is matrix products."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from common import OUT, Row, interleaved, machine, report
from threadpoolctl import threadpool_limits

from sshiba.core.coded import CodedView
from sshiba.core.likelihoods import Gaussian
from sshiba.core.spec import ModelSpec, Priors, view_spec
from sshiba.core.start import random_posterior
from sshiba.engines import make_rows
from sshiba.fitting.sweep import State, sweep

TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)  # milliseconds
BETWEEN = (0.3, 0.7, 3, 7, 30, 70, 300)  # where less than a decade is drawn


def sweep_seconds(
    n: int, d: int, k: int, select: bool = False, seen: np.ndarray | None = None, engine: str = "auto", repeats: int = 5
) -> float:
    """The median time of a whole sweep, with its bound, at K = k."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10)) @ rng.standard_normal((10, d))
    X += rng.standard_normal((n, d))
    X /= X.std(axis=0)
    counts = np.full(d, float(n)) if seen is None else seen.sum(axis=0).astype(float)
    if seen is not None:
        X *= seen
    view = view_spec("x", Gaussian(), "feature", counts, np.ones(d), Priors(), select_features=select)
    rows = make_rows([CodedView(X, seen)], ModelSpec((view,)), k, engine=engine)
    posterior = random_posterior(rows.spec, k, rows.groups, rng)
    state = State(posterior, rows.start(posterior))
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        state = sweep(rows, state, rotating=False)
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def in_turns(sizes: Sequence[int], seconds: Callable[[int], float]) -> list[tuple[float, float]]:
    """The time at each size, three times in turns, so that what else the machine does hits all sizes alike."""
    times = np.array([[seconds(size) for size in sizes] for _ in range(3)])
    return list(zip(sizes, np.median(times, axis=0).tolist()))


def patterns_mask(n: int, d: int, n_patterns: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.random((n_patterns, d)) < 0.8)[rng.integers(0, n_patterns, n)]


def against_products(n: int, d: int, k: int) -> Row:
    """A sweep of the direct path against the products that it cannot avoid: X B, Xᵀ Z, and four of D x K x K."""
    rng = np.random.default_rng(0)
    X, B, Z, U = (rng.standard_normal(s) for s in ((n, d), (d, k), (n, k), (k, k)))

    def bare() -> None:
        X @ B
        X.T @ Z
        for _ in range(4):
            B @ U

    products = interleaved([bare], 5)[0]
    whole = sweep_seconds(n, d, k, select=True, engine="memory")
    note = f"a sweep takes {whole / products:.2f} times its bare products"
    return Row("share", f"direct sweep, N={n:,}, D={d:,}, K={k}", "bare products", products, whole, 0.5, note)


def per_feature(points: Sequence[tuple[float, float]], threads: str) -> Row:
    """How far the time per feature, most to least, is from constant."""
    each = np.array([seconds / d for d, seconds in points])
    what = f"D from {points[0][0]:,} to {points[-1][0]:,}, {threads}: time per feature"
    return Row("growth", what, "1.3 x the least", 1.3, float(each.max() / each.min()), 1, "ratios")


def main(quick: bool = False) -> list[Row]:
    curves: dict[str, list[tuple[float, float]]] = {}
    rows_ = (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000)
    curves["rows N (D=200, K=25, complete)"] = in_turns(rows_, lambda n: sweep_seconds(n, 200, 25, repeats=9))
    features = (500, 2000) if quick else (500, 1000, 2000, 4000, 8000)
    by_d = {}
    limits = {"one thread": 1} if len(os.sched_getaffinity(0)) == 1 else {"one thread": 1, "all threads": None}
    for threads, limit in limits.items():
        with threadpool_limits(limit):
            by_d[threads] = in_turns(features, lambda d: sweep_seconds(500, d, 100, select=True))
        curves[f"features D (selection, N=500, K=100, {threads})"] = by_d[threads]
    factors = (25, 100) if quick else (25, 50, 100, 200)
    curves["factors K (N=2,000, D=500)"] = [(k, sweep_seconds(2000, 500, k)) for k in factors]
    rng = np.random.default_rng(0)
    shares = (0.0, 0.5) if quick else (0.0, 0.05, 0.1, 0.25, 0.5)
    holes = [(h, sweep_seconds(1000, 100, 30, seen=None if h == 0 else rng.random((1000, 100)) >= h)) for h in shares]
    curves["share of holes (N=1,000, D=100, K=30)"] = holes
    counts = (1, 1000) if quick else (1, 4, 16, 64, 256, 1000)
    curves["patterns of holes (N=1,000, D=100, K=30)"] = [
        (p, sweep_seconds(1000, 100, 30, seen=patterns_mask(1000, 100, p))) for p in counts
    ]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "growth.json").write_text(json.dumps({"machine": machine(), "curves": curves}, indent=1))
    draw(curves)
    by_n = curves["rows N (D=200, K=25, complete)"]
    return [
        Row(
            "growth",
            f"N from {by_n[0][0]:,} to {by_n[-1][0]:,}, D=200",
            "1.2 x the first",
            1.2 * by_n[0][1],
            by_n[-1][1],
            1,
        ),
        *(per_feature(points, threads) for threads, points in by_d.items()),
        against_products(2000 if quick else 10_000, 2000, 100),
    ]


def draw(curves: dict[str, Sequence[tuple[float, float]]]) -> None:
    """A panel for each kind of size, both axes logarithmic, but that of sizes which begin at 0; the dotted line is time
    in proportion to the size.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    panels: dict[str, list[tuple[str, Sequence[tuple[float, float]]]]] = {}
    for name, points in curves.items():
        title, _, detail = name.partition(" (")
        panels.setdefault(title, []).append((detail.rstrip(")"), points))
    figure, axes = plt.subplots(2, 3, figsize=(10, 6.2), layout="constrained")
    for ax, (title, lines) in zip(axes.flat, panels.items()):
        for (detail, points), colour in zip(lines, ("#0072b2", "#d55e00")):
            x, y = np.array(points).T
            label = detail.rsplit(", ", 1)[-1] if len(lines) > 1 else None
            ax.plot(x, 1000 * y, "o-", color=colour, label=label)
        if x.min() > 0:
            ax.set_xscale("log")
            ax.set_xticks(x, [f"{v:,.0f}" if v < 1e6 else f"{v / 1e6:.0f} million" for v in x])
            ax.plot(x, 1000 * y[0] * x / x[0], ":", color="#999999", zorder=0)
        every = 1000 * np.concatenate([np.array(points)[:, 1] for _, points in lines])
        ax.set(yscale="log", ylim=(every.min() / 2, every.max() * 2), title=title)
        ax.minorticks_off()
        low, high = every.min() / 2, every.max() * 2
        ax.set_yticks([t for t in (TICKS if high / low > 10 else sorted((*TICKS, *BETWEEN))) if low <= t <= high])
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.grid(axis="y", color="#e5e5e5")
        shared = lines[0][0].rsplit(", ", 1)[0] if len(lines) > 1 else lines[0][0]
        ax.set_xlabel(shared, fontsize=9)
        if len(lines) > 1:
            ax.legend(frameon=False)
    for ax in axes[:, 0]:
        ax.set_ylabel("ms per sweep")
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
        ax.text(0, 0.6, "dotted: in proportion\nto the size", color="#777777")
    figure.savefig(OUT / "growth.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    report(main("--quick" in sys.argv), "growth_rows")
