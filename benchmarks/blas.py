"""The share of a fit's sweeps that is spent inside BLAS and LAPACK, by sampling the native stacks (py-spy)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Row

INSIDE = ("openblas", "libmkl", "libblis", "accelerate")  # the libraries, as their frames are labelled
PROGRAM = """
import sys, warnings
sys.path.insert(0, {folder!r})
warnings.simplefilter("ignore")
import numpy as np
import data
from sshiba import SSHIBA, Binary, Categorical, Real, datasets
def direct():
    rng = np.random.default_rng(0)
    return 100, {{"x": rng.standard_normal((10_000, 2000))}}, {{"x": Real()}}, "memory"
def faces():
    found = data.arrays(datasets.load_faces)
    views = {{"pixels": found["pixels"].astype(float), "person": np.unique(found["person"], return_inverse=True)[1]}}
    return 100, views, {{"pixels": Real(select_features=True), "person": Categorical()}}, "auto"
def cll():
    return 25, data.cll(), {{"Mutations": Binary()}}, "auto"
def yeast():
    return 100, data.yeast(), {{"labels": Binary()}}, "auto"
k, views, types, engine = {name}()
plain = dict(acceleration=None, prune_tol=0.0, search=None, engine=engine)
SSHIBA(k, types, max_iter=10**6, max_time={seconds}, **plain).fit(views)
"""
WHAT = {
    "direct": "direct sweeps, N=10000, D=2000, K=100",
    "faces": "faces, 1277 x 2400, selection, K=100",
    "cll": "CLL, K=25",
    "yeast": "yeast, K=100",
}


def share(name: str, seconds: int) -> float:
    """Of the samples with a sweep on the stack, those with BLAS or LAPACK on it, too."""
    text = PROGRAM.format(folder=str(Path(__file__).parent), name=name, seconds=seconds)
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        raise ImportError("py-spy")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "stacks"
        command = [
            spy,
            "record",
            "--native",
            "-f",
            "raw",
            "-r",
            "200",
            "-o",
            str(out),
            "--",
            sys.executable,
            "-c",
            text,
        ]
        subprocess.run(command, check=True, capture_output=True)
        lines = [line.rsplit(" ", 1) for line in out.read_text().splitlines()]
    sweeps = [(stack, int(count)) for stack, count in lines if "sweep (" in stack]
    inside = sum(count for stack, count in sweeps if any(word in stack.lower() for word in INSIDE))
    return inside / max(1, sum(count for _, count in sweeps))


def main(quick: bool = False) -> list[Row]:
    rows = []
    for name, what in WHAT.items():
        found = share(name, 4 if quick else 10)
        note = f"{100 * found:.0f} % of the time of a sweep is inside BLAS and LAPACK"
        rows.append(Row("share", f"{what}: inside BLAS / LAPACK", "a sweep", 1.0, found, None, note))
    return rows


if __name__ == "__main__":
    for row in main():
        print(row.what, row.note)
