"""Data drawn from the model, whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from sshiba import Binary, Categorical, Count, Ordinal, Real

Views = dict[str, np.ndarray]

# ------------------------------------------------------------------------------------- several views, known factors

N_ROWS, N_FEATURES = 200, 100  # of each of three views
VIEWS = ("a", "b", "c")
PATTERNS = np.array([on for on in product((False, True), repeat=len(VIEWS)) if any(on)])
SHARES = (0.03, 0.06, 0.12)  # of the variance of a view that a factor explains
MOST_FACTORS = 6


@dataclass(frozen=True)
class KnownFactors:
    """Data and what they were made of; features have variance 1."""

    views: Views
    z: np.ndarray  # (N, K)
    weights: dict[str, np.ndarray]  # (D, K)
    active: np.ndarray  # (K, M) bool
    noise_std: dict[str, float]


def known_factors(rng: np.random.Generator, shares: tuple[float, ...] = SHARES) -> KnownFactors:
    """One to six factors, each active in some of three views, where it explains one of the `shares`."""
    k = int(rng.integers(1, MOST_FACTORS + 1))
    active = PATTERNS[rng.integers(len(PATTERNS), size=k)]
    explained = rng.choice(shares, size=k)[:, None] * active
    z = rng.standard_normal((N_ROWS, k))
    views, weights, noise = {}, {}, {}
    for m, name in enumerate(VIEWS):
        weights[name] = rng.standard_normal((N_FEATURES, k)) * np.sqrt(explained[:, m])
        noise[name] = float(np.sqrt(1 - explained[:, m].sum()))
        views[name] = z @ weights[name].T + noise[name] * rng.standard_normal((N_ROWS, N_FEATURES))
    return KnownFactors(views, z, weights, active, noise)


def pure_noise(rng: np.random.Generator) -> Views:
    return {name: rng.standard_normal((N_ROWS, N_FEATURES)) for name in VIEWS}


# -------------------------------------------------------------------------------------------- views of each type

TYPES = ("numbers", "limits", "yes/no", "classes", "levels", "counts")
SIZES = (100, 300, 1000)  # rows of the fit
N_NEW = 500  # rows that the fit has not seen


@dataclass(frozen=True)
class TypedData:
    """A view of numbers, and views of one type.

    `truth` is what a cell is, where it is seen or not: beyond a limit, where a view shows the limit, the value itself.
    The first `n_fit` rows are to be fitted.
    """

    views: Views
    truth: Views
    types: dict[str, Any]
    n_fit: int


def typed_data(rng: np.random.Generator, kind: str, n_fit: int) -> TypedData:
    """Factors, weights, biases and noise at random; each factor is active in the views of the type or not."""
    k, n = int(rng.integers(1, 5)), n_fit + N_NEW
    z = rng.standard_normal((n, k))
    active = rng.random(k) < 0.75
    active[rng.integers(k)] = True
    strength = np.exp(rng.uniform(np.log(0.3), np.log(1.2), size=(2, k)))  # standard deviation of the weights

    def latent(d: int, noise: float | np.ndarray, own: int = 1) -> np.ndarray:
        weights = rng.standard_normal((d, k)) * strength[own] * (active if own else 1.0)
        return z @ weights.T + noise * (rng.standard_normal(d) + rng.standard_normal((n, d)))

    views: Views = {"x": latent(10, rng.uniform(0.5, 1.5, 10), own=0)}
    types: dict[str, Any] = {"x": Real()}
    truth: Views = {}
    if kind == "numbers":
        views["own"], types["own"] = latent(10, rng.uniform(0.5, 1.5, 10)), Real()
    elif kind == "limits":
        truth["own"] = latent(10, rng.uniform(0.5, 1.5, 10))
        low = float(np.quantile(truth["own"], 0.2))
        views["own"], types["own"] = np.maximum(truth["own"], low), Real(limits=(low, None))
    elif kind == "yes/no":
        views["own"], types["own"] = (latent(15, 1.0) > 0).astype(float), Binary()
    elif kind == "classes":
        for number, n_classes in enumerate((2, 3, 4, 6)):
            views[f"own {number}"] = np.argmax(latent(n_classes, 1.0), axis=1)[:, None].astype(float)
            types[f"own {number}"] = Categorical()
    elif kind == "levels":
        x = latent(8, 1.0)
        ends = [np.quantile(column, np.sort(rng.uniform(0.05, 0.95, 4))) for column in x.T]
        views["own"] = np.stack([np.digitize(*pair) for pair in zip(x.T, ends)], axis=1).astype(float)
        types["own"] = Ordinal()
    else:
        x = latent(8, float(rng.uniform(0.3, 1.0)))
        views["own"] = rng.poisson(np.exp(np.clip(rng.uniform(0, 2, 8) + 0.6 * x, None, 12))).astype(float)
        types["own"] = Count(size=False)
    return TypedData(views, {**views, **truth}, types, n_fit)
