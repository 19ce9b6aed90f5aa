"""A sparse matrix of the size of a single-cell study: memory and time of a fit to convergence.

    python benchmarks/sparse_cells.py                    100,000 cells x 33,000 genes, 3 % of them not 0
    python benchmarks/sparse_cells.py --rows 10000       a tenth of it
    python benchmarks/sparse_cells.py --mofapy2 PYTHON   also mofapy2 on a tenth, with an interpreter that has it

Log-normalised counts of a low-rank model are made on the spot, some rows at a time.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

GENES, DENSITY, RANK, K = 33_000, 0.03, 12, 20
CHUNK_ROWS = 500
PER_CELL = 1e4  # counts that each cell is scaled to before the logarithm


def peak_gb() -> float:
    """Of this process since it began."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def make_cells(n_rows: int, dtype: str, seed: int = 0) -> sparse.csr_array:
    """log(1 + counts scaled to a total) of Poisson counts whose log rates are of low rank."""
    rng = np.random.default_rng(seed)
    genes = 1.5 * rng.standard_normal(GENES)
    weights = 0.5 * rng.standard_normal((RANK, GENES)) * (rng.random((RANK, GENES)) < 0.2)

    def log_rates(n: int, own: np.random.Generator) -> np.ndarray:
        cells = 0.4 * own.standard_normal((n, 1))  # how deep each is sequenced
        return cells + genes + own.standard_normal((n, RANK)) @ weights

    some = log_rates(200, np.random.default_rng(seed + 1))
    level = find(lambda x: float(-np.expm1(-np.exp(some + x)).mean()) - DENSITY, -30.0, 10.0)

    def chunk(job: tuple[int, np.random.SeedSequence]) -> sparse.csr_array:
        n, own = job[0], np.random.default_rng(job[1])
        counts = sparse.csr_array(own.poisson(np.exp(log_rates(n, own) + level)).astype(np.float32))
        totals = np.maximum(counts.sum(axis=1), 1.0)
        counts.data = np.log1p(counts.data * np.repeat(PER_CELL / totals, np.diff(counts.indptr))).astype(dtype)
        return counts

    sizes = [min(CHUNK_ROWS, n_rows - start) for start in range(0, n_rows, CHUNK_ROWS)]
    with ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(chunk, zip(sizes, np.random.SeedSequence(seed).spawn(len(sizes)))))
    stored = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum()
    data = np.concatenate([part.data for part in parts])
    for part in parts:
        part.data = part.data[:0]
    indices = np.concatenate([part.indices for part in parts])
    return sparse.csr_array((data, indices.astype(np.int32), stored.astype(np.int32)), shape=(n_rows, GENES))


def find(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is 0."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return low


def fit(X: sparse.csr_array, dtype: str, tol: float) -> dict[str, Any]:
    from sshiba import SSHIBA

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    before, began = peak_gb(), time.perf_counter()
    seconds: list[float] = []

    def note(progress: Any) -> None:
        seconds.append(progress.seconds)
        if len(seconds) % 10 == 0:
            print(
                f"sweep {progress.sweep}: {progress.seconds:.0f} s, {progress.n_components} factors, "
                f"rise {progress.rise:.4g}",
                file=sys.stderr,
            )

    model = SSHIBA(K, random_state=0, dtype=dtype, tol=tol, callback=note).fit({"rna": X})
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "sweeps": model.n_iter_,
        "seconds a sweep": round(seconds[-1] / model.n_iter_, 2),
        "converged": model.converged_,
        "factors": model.n_components_,
        "explained": round(float(model.r2_.loc["all"].iloc[0]), 4),
        "peak GB before the fit": round(before, 2),
        "peak GB": round(peak_gb(), 2),
    }


def fit_mofapy2(path: str, n_sweeps: int) -> dict[str, Any]:
    """In an interpreter that has mofapy2, NumPy and SciPy."""
    from mofapy2.run.entry_point import entry_point

    X = sparse.load_npz(path).toarray()
    entry = entry_point()
    entry.set_data_options(scale_views=False)
    entry.set_data_matrix([[X]])
    entry.set_model_options(factors=K, spikeslab_weights=False, ard_weights=True, ard_factors=False)
    entry.set_train_options(iter=n_sweeps, convergence_mode="medium", startELBO=1, freqELBO=5, seed=0, quiet=True)
    entry.build()
    began = time.perf_counter()
    entry.run()
    seconds = np.asarray(entry.model.getTrainingStats()["time"])
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "sweeps": len(seconds),
        "seconds a sweep": round(float(np.median(seconds)), 2),
        "peak GB": round(peak_gb(), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--tol", type=float, default=1e-7)
    parser.add_argument("--mofapy2", metavar="PYTHON", help="an interpreter that has mofapy2: run it on a tenth")
    parser.add_argument("--mofapy2-sweeps", type=int, default=1000, help="the most that it may take")
    parser.add_argument("--mofapy2-data", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.mofapy2_data:
        print(json.dumps(fit_mofapy2(asked.mofapy2_data, asked.mofapy2_sweeps)))
        return
    began = time.perf_counter()
    X = make_cells(asked.rows, asked.dtype)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**30
    made = round(time.perf_counter() - began, 1)
    print(json.dumps({"rows": asked.rows, "stored": X.nnz / np.prod(X.shape), "GB": round(size, 2), "made in": made}))
    print(json.dumps({"sshiba": fit(X, asked.dtype, asked.tol)}), flush=True)
    if asked.mofapy2:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "tenth.npz")
            sparse.save_npz(path, X[: asked.rows // 10], compressed=False)
            command = [asked.mofapy2, __file__, "--mofapy2-data", path, "--mofapy2-sweeps", str(asked.mofapy2_sweeps)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(json.dumps({"mofapy2, a tenth of the rows": json.loads(out.splitlines()[-1])}))


if __name__ == "__main__":
    main()
