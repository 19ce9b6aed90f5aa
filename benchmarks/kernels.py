"""The categorical moments, acceleration, the restarts and the memory: each against what it replaces."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
import warnings

import numpy as np
from common import Row, interleaved, report
from data import arrays, yeast
from sklearn.datasets import load_digits

from sshiba import SSHIBA, Binary, datasets
from sshiba.core.likelihoods.probit_integrals import compiled, probit_moments


def categorical(quick: bool) -> list[Row]:
    """10,249 rows and 16 classes, the size of the AVIRIS scene's labelled pixels."""
    fast = compiled()
    if fast is None:
        return []
    rng = np.random.default_rng(0)
    y, t = 3 * rng.standard_normal((10_249, 16)), rng.integers(0, 16, 10_249)
    for a, b in zip(fast.probit_moments(y, t), probit_moments(y, t)):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    slow_s, fast_s = interleaved([lambda: probit_moments(y, t), lambda: fast.probit_moments(y, t)], 3 if quick else 9)
    return [Row("kernels", "categorical moments, 10,249 x 16", "NumPy form", slow_s, fast_s, 4, "equal to 1e-8")]


def acceleration(quick: bool) -> list[Row]:
    """Yeast, K=100, random starts: what 1,500 plain sweeps reach, and how soon an accelerated fit is there."""
    views = yeast()
    if views is None:
        return []
    rows = []
    n_plain = 300 if quick else 1500
    for seed in range(1 if quick else 5):
        found: dict[str, list[tuple[int, float, float]]] = {"plain": [], "accelerated": []}
        for name, mode, n in (("plain", None, n_plain), ("accelerated", "auto", 2000)):
            path = found[name]
            began = time.perf_counter()

            def note(p, path=path, began=began):
                path.append((p.sweep, p.elbo, time.perf_counter() - began))

            model = SSHIBA(100, {"labels": Binary()}, acceleration=mode, max_iter=n, random_state=seed, callback=note)
            model.set_params(start="random", search=None, tol=0.0 if mode is None else 1e-7)
            model.fit(views)
        _, target, seconds = found["plain"][-1]
        reached = next(((s, t) for s, e, t in found["accelerated"] if e >= target), None)
        final = found["accelerated"][-1][1]
        note_text = f"plain ends at {target:.1f}, accelerated at {final:.1f}"
        if reached is None:
            rows.append(
                Row("acceleration", f"yeast, seed {seed}: never reached", f"{n_plain} plain sweeps", seconds, np.inf)
            )
            continue
        what = f"yeast, K=100, seed {seed}: {reached[0]} accelerated sweeps"
        extra = {"sweeps": reached[0], "plain": target, "accelerated": final}
        rows.append(Row("acceleration", what, f"{n_plain} plain sweeps", seconds, reached[1], 1, note_text, extra))
    return rows


def final_bounds(quick: bool) -> list[Row]:
    """Both to convergence, on several data sets: how far above the plain bound the accelerated one ends."""
    digits = load_digits()
    problems: dict[str, dict] = {
        "digits": {"pixels": digits.data[:, digits.data.std(axis=0) > 0], "digit": digits.target}
    }
    for name, load in (("scene", datasets.load_scene), ("nutrimouse", datasets.load_nutrimouse)):
        data = arrays(load)
        if data is not None:
            problems[name] = data
    rows = []
    for name, views in problems.items():
        results, seconds = [], []
        for mode in (None, "auto"):
            began = time.perf_counter()
            n = 300 if quick else 3000
            starts = 10 if name == "nutrimouse" else 1  # 40 rows: several optima
            model = SSHIBA(40, n_init=starts, acceleration=mode, max_iter=n, search=None, random_state=0).fit(views)
            seconds.append(time.perf_counter() - began)
            results.append((model.elbo_, model.n_components_, model.n_iter_))
        (plain, k_plain, n_plain), (accelerated, k, n_accelerated) = results
        note = f"bounds {plain:.1f} (K={k_plain}, {n_plain} sweeps) and {accelerated:.1f} (K={k}, {n_accelerated})"
        note += f": accelerated is {(accelerated - plain) / abs(plain):+.1e} of its size higher"
        best = ", best of 10" if name == "nutrimouse" else ""
        rows.append(Row("acceleration", f"{name}, K=40: both to convergence{best}", "plain", *seconds, None, note))
    return rows


def restarts(quick: bool) -> list[Row]:
    """Ten restarts on two workers, in units of one restart on one thread; the goal is at most 5.5."""
    views = yeast()
    if views is None:
        return []
    options = {"views": {"labels": Binary()}, "random_state": 0, "tol": 1e-9}
    options |= {"max_iter": 300 if quick else 1500, "search": None}
    n = 4 if quick else 10
    SSHIBA(20, n_init=2, n_jobs=2, max_iter=3).fit(views)  # the workers start once
    one = SSHIBA(100, n_init=n, n_jobs=1, **options).fit(views).inits_["seconds"].mean()
    began = time.perf_counter()
    SSHIBA(100, n_init=n, n_jobs=2, **options).fit(views)
    both = time.perf_counter() - began
    note = f"{both / one:.2f} restarts' time for {n}"
    return [Row("restarts", f"{n} restarts, n_jobs=2", f"{n} x one restart", n * one, both, n / (0.55 * n), note)]


MEMORY = """
import resource, sys, numpy as np, warnings
warnings.simplefilter("ignore")
from sshiba import SSHIBA
dtype = sys.argv[1]
X = np.random.default_rng(0).standard_normal((200_000, 200), dtype=dtype)
SSHIBA(5, max_iter=2, dtype=dtype).fit({"x": X[:1000]})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
SSHIBA(20, max_iter=5, search=None, dtype=dtype).fit({"x": X})
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / X.nbytes)
"""


def memory(quick: bool) -> list[Row]:
    """Peak memory of a fit beyond the user's own array, in units of it; the goal is at most 2.5."""
    rows = []
    for dtype in ("float64", "float32"):
        out = subprocess.run([sys.executable, "-c", MEMORY, dtype], capture_output=True, text=True, check=True).stdout
        share = float(out)
        rows.append(
            Row("memory", f"200,000 x 200 {dtype}: peak of a fit", "2.5 x the data", 2.5, share, 1, "not seconds")
        )
    return rows


def main(quick: bool = False) -> list[Row]:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return categorical(quick) + acceleration(quick) + final_bounds(quick) + restarts(quick) + memory(quick)


if __name__ == "__main__":
    report(main("--quick" in sys.argv), "kernels")
