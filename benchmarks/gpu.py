"""Sweeps on a GPU beside the bare matrix products of the same shapes, and beside the same sweeps on the host's cores.

    python benchmarks/gpu.py [--quick] [--large] [--fits] [--device=cuda] [--commit=HASH] [--out=FILE.json]

Made-up data, K = 64; `--large` adds 1e7 rows, `--fits` whole fits of real data in both precisions. A row: what is
swept, the bare products and the sweep in milliseconds, their ratio and its goal, memory beyond the data, and where it
was measured the time on the host. Raw results go to FILE.json.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import sklearn.datasets
import torch

from sshiba import SSHIBA, datasets
from sshiba.core.coded import CodedView
from sshiba.core.devices import HOST, Device, find_device
from sshiba.core.likelihoods import Gaussian, MultinomialProbit, Threshold
from sshiba.core.spec import ModelSpec, Priors, view_spec
from sshiba.core.start import random_posterior
from sshiba.engines import make_rows
from sshiba.fitting.sweep import State, sweep

K = 64
WARM_UP, SWEEPS = 4, 10
LIKELIHOODS = {"real": Gaussian(), "binary": Threshold(), "classes": MultinomialProbit()}


@dataclass
class Measured:
    what: str
    bare_ms: float
    sweep_ms: float
    goal: float  # of sweep / bare, or of the milliseconds where there is nothing bare
    data_gb: float
    beyond_data: float  # the peak of memory in a sweep, in sizes of the data, less 1
    bound: float
    host_ms: float | None = None
    host_bound: float | None = None
    parts_ms: dict[str, float] | None = None

    @property
    def ratio(self) -> float:
        return self.sweep_ms / self.bare_ms if self.bare_ms else self.sweep_ms


def make_data(n: int, d: int, n_binary: int, n_classes: int, holes: float, dtype: str) -> dict[str, CodedView]:
    """Real columns from ten factors, and labels from the same."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 10)).astype(dtype)
    x = np.empty((n, d), dtype=dtype)
    w = rng.standard_normal((10, d)).astype(dtype) / np.sqrt(20, dtype=dtype)
    for start in range(0, n, 50_000):
        some = slice(start, min(start + 50_000, n))
        x[some] = z[some] @ w + rng.standard_normal((some.stop - some.start, d), dtype=dtype) * dtype_of(dtype)(0.7)
    observed = None
    if holes:
        observed = rng.random((n, d), dtype=np.float32) >= holes
        x[~observed] = 0
    data = {"real": CodedView(x, observed)}
    if n_binary:
        scores = z @ rng.standard_normal((10, n_binary)) + rng.standard_normal((n, n_binary))
        data["binary"] = CodedView((scores > 0).astype(np.float64), None)
    if n_classes:
        scores = z @ rng.standard_normal((10, n_classes)) + rng.standard_normal((n, n_classes))
        data["classes"] = CodedView(scores.argmax(axis=1), None)
    return data


def dtype_of(name: str) -> type:
    return getattr(np, name)


def make_large(n: int, d: int, device: Device) -> dict[str, CodedView]:
    """Real columns in single precision, made where they stay."""
    torch.manual_seed(0)
    x = torch.empty((n, d), dtype=torch.float32, device=device.name)
    w = torch.randn((10, d), dtype=torch.float32, device=device.name) / 20**0.5
    for some in x.split(500_000):
        some.normal_().mul_(0.7).addmm_(torch.randn((len(some), 10), device=device.name), w)
    return {"real": CodedView(x, None)}


def compare_fits(name: str, device: Device) -> dict:
    """Whole fits with NumPy, and on the device in double and in single precision."""
    views = load_views(name)
    fits = {}
    for key, where, dtype in (
        ("numpy", None, "float64"),
        ("float64", device, "float64"),
        ("float32", device, "float32"),
    ):
        model = SSHIBA(device=where and where.name, dtype=dtype, random_state=0)
        began = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):
            model.fit(views)
        fits[key] = (model, time.perf_counter() - began)
    first = fits["numpy"][0]
    found = {
        key: {
            "seconds": seconds,
            "factors": model.n_components_,
            "sweeps": model.n_iter_,
            "bound": model.elbo_,
            "r2 apart": float(np.abs(np.sum(model.r2_, axis=0) - np.sum(first.r2_, axis=0)).max()),
        }
        for key, (model, seconds) in fits.items()
    }
    print(name, json.dumps(found), flush=True)
    return {"data": name, **found}


def load_views(name: str) -> dict:
    if name == "digits":
        x, y = sklearn.datasets.load_digits(return_X_y=True)
        return {"x": x[:, x.std(axis=0) > 0], "y": y.astype(str)}
    return dict(getattr(datasets, f"load_{name.lower()}")().views)


def make_spec(data: dict[str, CodedView]) -> ModelSpec:
    views = []
    for kind, view in data.items():
        d = int(view.target.max()) + 1 if kind == "classes" else view.target.shape[1]
        n = np.full(d, len(view.target)) if view.observed is None else view.observed.sum(axis=0)
        noise = "feature" if kind == "real" else 1.0
        views.append(view_spec(kind, LIKELIHOODS[kind], noise, n, np.ones(d), Priors()))
    return ModelSpec(tuple(views))


def wait(device: Device) -> None:
    if not device.is_host and str(device.name).startswith("cuda"):
        torch.cuda.synchronize()


def milliseconds(job: Callable[[], object], device: Device, repeats: int = SWEEPS) -> float:
    times = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        job()
        wait(device)
        times.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times))


def time_sweeps(
    data: dict[str, CodedView], spec: ModelSpec, device: Device, engine: str, n_sweeps: int
) -> tuple[float, State, dict[str, float]]:
    """The median of a sweep, the last state, and the parts of a sweep."""
    rows = make_rows(list(data.values()), spec, K, engine=engine, device=device)
    posterior = random_posterior(spec, K, rows.groups, np.random.default_rng(0))
    state = State(posterior, rows.start(posterior))
    for _ in range(WARM_UP):
        state = sweep(rows, state, rotating=False)
    times = []
    for _ in range(n_sweeps):
        wait(device)
        began = time.perf_counter()
        state = sweep(rows, state, rotating=False)
        wait(device)
        times.append(1e3 * (time.perf_counter() - began))
    parts = {"local step": milliseconds(lambda: rows.step(state.posterior, state.local), device, 3)}
    return float(np.median(times)), state, parts


def bare_products(data: dict[str, CodedView], device: Device) -> float:
    """X·W, Zᵀ·X and ZᵀZ in double precision; of rows with holes the two mask products and the inverses of Σ_n⁻¹."""
    x = torch.as_tensor(data["real"].target, device=device.name)
    w = torch.randn(x.shape[1], K, dtype=torch.float64, device=device.name)
    if data["real"].observed is None:

        def products() -> None:
            z = x.to(torch.float64) @ w
            z.T @ x.to(torch.float64)
            z.T @ z

        return milliseconds(products, device)
    mask = torch.as_tensor(data["real"].observed, device=device.name).to(torch.float64)
    ww = torch.reshape(w[:, :, None] * w[:, None, :], (len(w), -1)) / len(w)
    one = torch.eye(K, dtype=torch.float64, device=device.name)

    def parts() -> None:
        for start in range(0, len(mask), 8000):
            seen = mask[start : start + 8000]
            precision = torch.reshape(seen @ ww, (-1, K, K)) + one
            lower = torch.linalg.cholesky(precision)
            torch.linalg.solve_triangular(lower, one.expand_as(lower), upper=False)
            seen.T @ torch.reshape(precision, (len(seen), -1))

    return milliseconds(parts, device, 3)


def measure(
    what: str,
    goal: float,
    device: Device,
    n: int,
    n_binary: int = 0,
    n_classes: int = 0,
    holes: float = 0.0,
    engine: str = "memory",
    dtype: str = "float64",
    on_host: bool = True,
    n_sweeps: int = SWEEPS,
    d: int = 1000,
) -> Measured:
    in_place = not on_host and dtype == "float32"
    data = make_large(n, d, device) if in_place else make_data(n, d, n_binary, n_classes, holes, dtype)
    spec = make_spec(data)
    size = sum(view.target.nbytes + getattr(view.observed, "nbytes", 0) for view in data.values())
    cuda = str(device.name).startswith("cuda")
    bare = 0.0 if engine == "gram" else bare_products(data, device)
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    ms, state, parts = time_sweeps(data, spec, device, engine, n_sweeps)
    peak = torch.cuda.max_memory_allocated() if cuda else 0
    found = Measured(what, bare, ms, goal, size / 1e9, peak / size - 1, state.bound, parts_ms=parts)
    del state
    if on_host:
        found.host_ms, host, _ = time_sweeps(data, spec, HOST, engine, 2)
        again = time_sweeps(data, spec, device, engine, 2)[1]
        found.host_bound, found.bound = host.bound, again.bound
    print(json.dumps(asdict(found)), flush=True)
    return found


def main(arguments: Sequence[str]) -> None:
    options = dict(word.lstrip("-").partition("=")[::2] for word in arguments)
    device, small = find_device(options.get("device", "cuda")), 100 if "quick" in options else 1
    million, holed = 1_000_000 // small, 200_000 // small
    rows = [
        measure("complete real, direct", 2.0, device, million),
        measure("complete real, Gram space", 5.0, device, million, engine="gram"),
        measure("with 20 binary columns", 2.5, device, million, n_binary=20),
        measure("with 16 classes", 6.0, device, million, n_classes=16),
        measure("a tenth of the cells missing", 1.5, device, holed, holes=0.1, n_sweeps=3),
    ]
    if "large" in options:
        large = {"engine": "gram", "dtype": "float32", "on_host": False}
        rows.append(measure("1e7 rows, Gram space, float32", 5.0, device, 10 * million, **large))
    fits = [compare_fits(name, device) for name in ("digits", "CLL", "yeast")] if "fits" in options else []
    about = {"commit": options.get("commit", ""), "python": platform.python_version(), "torch": torch.__version__}
    about |= {"numpy": np.__version__, "cores": os.cpu_count()}
    about["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    if "out" in options:
        found = {"about": about, "rows": [asdict(row) | {"ratio": row.ratio} for row in rows], "fits": fits}
        text = json.dumps(found, indent=1)
        Path(options["out"]).write_text(text + "\n")
    for row in rows:
        print(f"{row.what:35} bare {row.bare_ms:8.1f}  sweep {row.sweep_ms:8.1f}  {row.ratio:6.2f} (goal {row.goal:g})")


if __name__ == "__main__":
    main(sys.argv[1:])
