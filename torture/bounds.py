"""Random fits: the bound never falls, and answers do not depend on how the rows are processed, stored or ordered."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sshiba import SSHIBA, Binary, Categorical, Count, Ordinal, Priors, Real, load

from .runner import Suite, demand, main
from .ugly_views import Rng, pick

KINDS = ("real", "real", "binary", "categorical", "ordinal", "count")
CLOSE = 1e-7  # relative
SWEEPS = 20


def make_view(rng: Rng, kind: str, z: np.ndarray) -> tuple[np.ndarray, Any]:
    """Data of the model, more or less, and a type with options."""
    n, d = len(z), int(rng.integers(1, 5))
    x = z @ rng.standard_normal((z.shape[1], d)) + 0.5 * rng.standard_normal((n, d))
    common = {"select_features": bool(rng.random() < 0.2), "weight": float(pick(rng, [1, 1, 1, 0.5]))}
    if kind == "real":
        margin = pick(rng, [None, None, "auto"])
        limits = pick(rng, [None, None, (float(np.quantile(x, 0.1)), None)])
        noise = pick(rng, ["feature", "view"])
        return x, Real(**common, margin=margin, limits=limits, noise=noise, scale=bool(rng.random() < 0.8))
    if kind == "binary":
        return (x > 0).astype(float), Binary(**common, link=pick(rng, ["probit", "logit"]))
    if kind == "ordinal":
        return np.clip(np.round(x), -2, 2), Ordinal(**common, noise=pick(rng, ["feature", "view"]))
    if kind == "count":
        return rng.poisson(np.exp(np.minimum(0.5 * x + 1, 5))).astype(float), Count(
            **common, size=bool(rng.random() < 0.5)
        )
    labels = np.array(["a", "b", "c", "d"])[: int(rng.integers(2, 5))]
    return labels[
        np.argmax(z @ rng.standard_normal((z.shape[1], len(labels))) + rng.gumbel(size=(n, len(labels))), axis=1)
    ], Categorical(**common)


def holed(rng: Rng, x: np.ndarray) -> np.ndarray:
    x = x.astype(object if x.dtype.kind == "U" else float)
    if rng.random() < 0.4:
        gone = rng.random(x.shape) < 0.15
        gone[:4] = False
        x[gone] = None if x.dtype.kind == "O" else np.nan
    elif rng.random() < 0.3:
        x[rng.permutation(len(x))[: len(x) // 5]] = None if x.dtype.kind == "O" else np.nan
    return x


def make(rng: Rng) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
    n = int(rng.integers(25, 70))
    z = rng.standard_normal((n, 2))
    views, types = {}, {}
    for i in range(int(rng.integers(1, 4))):
        x, types[f"v{i}"] = make_view(rng, pick(rng, KINDS), z)
        views[f"v{i}"] = holed(rng, x)
    options = {
        "n_components": int(rng.integers(1, 6)),
        "missing": pick(rng, ["exact", "exact", "exact", "mean-field"]),
        "acceleration": pick(rng, ["auto", "rotation", None]),
        "keep": pick(rng, ["fewest", "all"]),
        "start": pick(rng, ["principal", "random"]),
        "engine": pick(rng, ["auto", "memory", "gram"]),
        "random_state": int(rng.integers(100)),
        "tol": 0.0,
        "max_iter": SWEEPS,
        "search": None,
    }
    if rng.random() < 0.3:
        options["priors"] = Priors(
            alpha=(10 ** rng.uniform(-2, 0), 10 ** rng.uniform(-3, 0)), noise_floor=pick(rng, [0.0, 1e-3])
        )
    return views, types, options


def fit(views: dict[str, np.ndarray], types: dict[str, Any], options: dict[str, Any]) -> SSHIBA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        return SSHIBA(views=types, **options).fit(views)


def same_bits(a: SSHIBA, b: SSHIBA, words: str) -> None:
    demand(a.elbo_ == b.elbo_ and np.array_equal(a.factors_, b.factors_), f"{words}: {a.elbo_!r} and {b.elbo_!r}")


def close(a: SSHIBA, b: SSHIBA, words: str) -> None:
    gap = abs(a.elbo_ - b.elbo_) / max(abs(a.elbo_), 1.0)
    demand(gap < CLOSE, f"{words}: bounds {a.elbo_!r} and {b.elbo_!r}, {gap:.1e} apart")


def case(seed: int) -> str:
    """`BoundError` of the fit itself says that the bound fell."""
    rng = np.random.default_rng([4, seed])
    views, types, options = make(rng)
    model = fit(views, types, options)
    same_bits(model, fit(views, types, options), "twice with one seed")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "m.sshiba"))
        again = load(Path(folder, "m.sshiba"))
    same_bits(model, again, "saved and loaded")
    first = {name: views[name] for name in list(views)[:1]}
    pairs = [np.asarray(one.transform(first)) for one in (model, again)]
    demand(np.array_equal(*pairs), "a loaded model has other factors of rows")
    what = pick(rng, ["engine", "rows", "columns", "views", "threads", "jobs"])
    if what == "engine":
        other = {"auto": "memory", "memory": "gram", "gram": "memory"}[options["engine"]]
        close(model, fit(views, types, {**options, "engine": other}), f"engines {options['engine']} and {other}")
    elif what == "threads":
        with threadpool_limits(2):
            close(model, fit(views, types, options), "threads of BLAS")
    elif what == "jobs":
        several = {**options, "n_init": 2, "max_iter": 5}
        close(fit(views, types, several), fit(views, types, {**several, "n_jobs": 2}), "jobs")
    elif options["start"] == "principal":  # a random start knows the order
        close(model, fit(*shuffled(rng, what, views, types), options), f"order of {what}")
    return what


def shuffled(rng: Rng, what: str, views: dict[str, np.ndarray], types: dict[str, Any]) -> tuple[dict, dict]:
    """The same data in another order."""
    if what == "rows":
        order = rng.permutation(len(next(iter(views.values()))))
        return {name: x[order] for name, x in views.items()}, types
    if what == "columns":
        return {name: x[:, ::-1] if x.ndim == 2 else x for name, x in views.items()}, types
    return dict(reversed(views.items())), dict(reversed(types.items()))


SUITE = Suite("bounds", case, 1_000)

if __name__ == "__main__":
    main(SUITE)
