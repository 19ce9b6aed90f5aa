"""The corrected log evidence against the true one, by sequential Monte Carlo, on small real and simulated tables.

    SSHIBA_DATA=... python benchmarks/evidence.py [words in the names of the problems]

The truth is the mean of independent estimates, each unbiased, with its standard error.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from sshiba import Real
from sshiba.core.coded import CodedView
from sshiba.core.evidence import log_evidence
from sshiba.core.spec import ModelSpec, Priors, ViewSpec
from sshiba.core.state import Gamma
from sshiba.data.reading import read_training
from sshiba.engines import make_rows
from sshiba.fitting.budget import FitOptions
from sshiba.fitting.restarts import run_restarts
from sshiba.fitting.sweep import State

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
FILES = "uci_tables", "nutrimouse", "tab_heart_cleveland"
RUNS, PARTICLES = 4, 400
MOVES, LEAPS = 3, 8  # of Hamiltonian Monte Carlo after each step


# ------------------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True)
class Model:
    """log p(data, theta) of real views with Z and alpha integrated out; theta holds W, b, log tau and log gamma."""

    spec: ModelSpec
    coded: tuple[CodedView, ...]
    n_components: int

    @property
    def n_rows(self) -> int:
        return len(self.coded[0].target)

    @property
    def sizes(self) -> list[int]:
        """Of W, b, log tau and log gamma."""
        _, features, taus, gammas = self.slices()[-1]
        return [features.stop * self.n_components, features.stop, taus.stop, gammas.stop]

    def density(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value and its gradient, for each of the particles."""
        flat, b, log_tau, log_gamma = np.split(theta, np.cumsum(self.sizes)[:-1], axis=1)
        w = flat.reshape(*b.shape, self.n_components)
        tau, value = np.empty_like(b), np.zeros(len(b))
        dw, db, dtau, dgamma = (np.zeros_like(part) for part in (w, b, log_tau, log_gamma))
        for view, own, taus, gammas in self.slices():
            tau[:, own] = np.exp(log_tau[:, taus])
            gamma = np.exp(log_gamma[:, gammas]) if view.select_features else np.ones((len(w), view.n_features))
            of_w, dw[:, own], of_gamma = weights_prior(w[:, own], gamma, view)
            beta = view.b_precision
            value += of_w + np.sum(0.5 * np.log(beta) - HALF_LOG_2PI - beta * b[:, own] ** 2 / 2, axis=1)
            db[:, own] = -beta * b[:, own]
            if view.select_features:
                of_prior, slope = log_gamma_prior(log_gamma[:, gammas], view.gamma_prior)
                value, dgamma[:, gammas] = value + of_prior, of_gamma + slope
            of_prior, dtau[:, taus] = log_gamma_prior(log_tau[:, taus], view.tau_prior)
            value += of_prior
        of_data, (more_w, more_b, more_tau) = self.rows(w, b, tau)
        for _, own, taus, _ in self.slices():
            each = taus.stop - taus.start > 1
            dtau[:, taus] += more_tau[:, own] if each else more_tau[:, own].sum(axis=1, keepdims=True)
        gradient = [(dw + more_w).reshape(len(w), -1), db + more_b, dtau, dgamma]
        return value + of_data, np.concatenate(gradient, axis=1)

    @cached_property
    def patterns(self) -> list[tuple[np.ndarray, int, np.ndarray, np.ndarray]]:
        """Of rows with the same holes: which features they have, their number, their sum and XᵀX."""
        x, seen = np.hstack([c.target for c in self.coded]), np.hstack([mask(c) for c in self.coded])
        out = []
        for pattern in np.unique(seen[seen.any(axis=1)], axis=0):
            own = x[(seen == pattern).all(axis=1)][:, pattern]
            out.append((np.flatnonzero(pattern), len(own), own.sum(axis=0), own.T @ own))
        return out

    def slices(self) -> list[tuple[ViewSpec, slice, slice, slice]]:
        """Of each view: where its features, its log tau and its log gamma are."""
        out, d, t, g = [], 0, 0, 0
        for view in self.spec.views:
            ends = (
                d + view.n_features,
                t + len(view.tau_prior.shape),
                g + (view.n_features if view.select_features else 0),
            )
            out.append((view, slice(d, ends[0]), slice(t, ends[1]), slice(g, ends[2])))
            d, t, g = ends
        return out

    def rows(self, w: np.ndarray, b: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Rows are N(b, C), C = W Wᵀ + 1/tau: the log density, and the gradients in W, b and log tau."""
        value, dw, db, dtau = np.zeros(len(w)), np.zeros_like(w), np.zeros_like(b), np.zeros_like(tau)
        for pattern, n, total, squares in self.patterns:
            W, B, T = w[:, pattern], b[:, pattern], tau[:, pattern]
            cross = total[None, :, None] * B[:, None, :]
            S = squares - cross - np.swapaxes(cross, 1, 2) + n * B[:, :, None] * B[:, None, :]
            A = T[:, :, None] * W
            M = np.eye(self.n_components) + np.swapaxes(W, 1, 2) @ A
            V = A @ np.linalg.inv(M)  # C⁻¹ W
            Y = T[:, :, None] * S - V @ (np.swapaxes(A, 1, 2) @ S)  # C⁻¹ S
            YV, diagonal = Y @ V, np.diagonal(Y, axis1=1, axis2=2)
            log_det = np.linalg.slogdet(M)[1] - np.log(T).sum(axis=1)
            value -= n * W.shape[1] * HALF_LOG_2PI + 0.5 * n * log_det + 0.5 * diagonal.sum(axis=1)
            dw[:, pattern] += YV - n * V
            dtau[:, pattern] += 0.5 * (n * (1 - np.sum(V * W, axis=2)) - diagonal + np.sum(YV * W, axis=2))
            rest = total - n * B
            db[:, pattern] += T * rest - (V @ (np.swapaxes(A, 1, 2) @ rest[:, :, None]))[:, :, 0]
        return value, [dw, db, dtau]


def mask(coded: CodedView) -> np.ndarray:
    """What was seen, (N, D)."""
    return np.broadcast_to(np.True_ if coded.observed is None else coded.observed, coded.target.shape)


def weights_prior(w: np.ndarray, gamma: np.ndarray, view: ViewSpec) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log ∫ p(W | alpha, gamma) p(alpha) d alpha, and its gradients in W and log gamma."""
    shape, rate = float(view.alpha_prior.shape), float(view.alpha_prior.rate)
    n_components, end = w.shape[2], shape + view.n_features / 2
    energy = rate + 0.5 * np.einsum("pd,pdk->pk", gamma, w**2)
    scale = shape * np.log(rate) - gammaln(shape) + gammaln(end) - view.n_features * HALF_LOG_2PI
    value = n_components * (scale + 0.5 * np.log(gamma).sum(axis=1)) - end * np.log(energy).sum(axis=1)
    pull = end * gamma[:, :, None] * w / energy[:, None, :]
    return value, -pull, 0.5 * (n_components - np.sum(pull * w, axis=2))


def log_gamma_prior(log_x: np.ndarray, prior: Gamma) -> tuple[np.ndarray, np.ndarray]:
    """Of log x where x is Gamma: the log density, and its slope."""
    a, r = prior.shape, prior.rate
    value = a * np.log(r) - gammaln(a) + a * log_x - r * np.exp(log_x)
    return np.sum(value, axis=1), a - r * np.exp(log_x)


# ------------------------------------------------------------------------------------------- sequential Monte Carlo


@dataclass(frozen=True)
class Particles:
    """Where particles are; value and gradient of the log density there, of the reference [0] and of the model [1]."""

    theta: np.ndarray
    value: np.ndarray  # (2, P)
    gradient: np.ndarray  # (2, P, dimensions)

    def take(self, index: np.ndarray) -> Particles:
        return Particles(self.theta[index], self.value[:, index], self.gradient[:, index])

    def moved(self, other: Particles, where: np.ndarray) -> Particles:
        take = where[:, None]
        return Particles(
            np.where(take, other.theta, self.theta),
            np.where(where, other.value, self.value),
            np.where(take, other.gradient, self.gradient),
        )


def estimate(model: Model, centre: np.ndarray, spread: np.ndarray, n_particles: int, seed: int) -> float:
    """The log of an unbiased estimate of the evidence: from N(centre, spread²) to the model in many small steps.

    Each keeps the effective number of particles at 80 %; they are then resampled, and moved by Hamiltonian Monte Carlo.
    """
    rng = np.random.default_rng(seed)

    def at(theta: np.ndarray) -> Particles:
        deviation = (theta - centre) / spread
        reference = np.sum(-0.5 * deviation**2 - np.log(spread) - HALF_LOG_2PI, axis=1)
        value, gradient = model.density(theta)
        return Particles(theta, np.stack([reference, value]), np.stack([-deviation / spread, gradient]))

    here = at(centre + spread * rng.standard_normal((n_particles, len(centre))))
    power, total, step = 0.0, 0.0, 0.3
    while power < 1:
        ratio = here.value[1] - here.value[0]
        before, power = power, next_power(ratio, power)
        weight = (power - before) * ratio
        total += logsumexp(weight) - np.log(n_particles)
        places = (np.arange(n_particles) + rng.random()) / n_particles
        index = np.searchsorted(np.cumsum(np.exp(weight - logsumexp(weight))), places)
        here = here.take(np.minimum(index, n_particles - 1))
        mix = np.array([1 - power, power])
        slopes = np.sqrt(np.mean(np.tensordot(mix, here.gradient, 1) ** 2, axis=0))
        scale = np.minimum(1 / slopes, here.theta.std(axis=0))
        for _ in range(MOVES):
            here, accepted = hamiltonian_move(here, at, mix, step * scale, rng)
            step = float(np.clip(step * np.exp(0.3 * (accepted - 0.75)), 1e-3, 1.0))
    return float(total)


def next_power(ratio: np.ndarray, power: float, keep: float = 0.8) -> float:
    def effective(new: float) -> float:
        weight = (new - power) * ratio
        return float(np.exp(2 * logsumexp(weight) - logsumexp(2 * weight))) / len(weight)

    low, high = power, 1.0
    if effective(high) >= keep:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if effective(middle) < keep else (middle, high)
    return high


def hamiltonian_move(here: Particles, at: Any, mix: np.ndarray, scale: np.ndarray, rng: Any) -> tuple[Particles, float]:
    momentum = rng.standard_normal(here.theta.shape)
    size = scale * np.exp(0.4 * rng.standard_normal((len(momentum), 1)))
    first, there = mix @ here.value - 0.5 * np.sum(momentum**2, axis=1), here
    for _ in range(LEAPS):
        momentum = momentum + 0.5 * size * np.tensordot(mix, there.gradient, 1)
        there = at(np.clip(there.theta + size * momentum, -15, 15))
        momentum = momentum + 0.5 * size * np.tensordot(mix, there.gradient, 1)
    last = mix @ there.value - 0.5 * np.sum(momentum**2, axis=1)
    accept = np.exp(np.minimum(0.0, np.nan_to_num(last - first, nan=-np.inf)))
    return here.moved(there, rng.random(len(accept)) < accept), float(np.mean(accept))


def reference(model: Model, state: State) -> tuple[np.ndarray, np.ndarray]:
    """Centre and spread of the first particles: wide, and on no side of the model's symmetries."""
    views = list(zip(state.posterior.views, model.spec.views))
    w_spread = [np.full(v.w_mean.size, max(0.3, float(np.sqrt(np.mean(v.w_second))))) for v, _ in views]
    tau = [np.log(v.tau.mean) for v, _ in views]
    gamma = [np.log(v.gamma.mean) for v, spec in views if spec.select_features]
    n_w, n_b, n_tau, n_gamma = model.sizes
    centre = [np.zeros(n_w), *(v.b_mean for v, _ in views), *tau, *gamma]
    return np.concatenate(centre), np.concatenate([*w_spread, np.full(n_b, 0.3), np.ones(n_tau + n_gamma)])


# -------------------------------------------------------------------------------------------------------- problems


def simulated(n: int, d: int, k: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = 0.5 * rng.standard_normal((n, d)) * (0.5 + rng.random(d))
    return 0.8 * rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + noise


def with_holes(x: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(x.shape) < 0.2, np.nan, x)


def problems() -> dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Name -> data, view types, and options: n_components."""
    tables, mouse, heart = (np.load(Path(os.environ["SSHIBA_DATA"]) / f"{name}.npz") for name in FILES)
    iris, wine, numbers = load_iris(), load_wine().data, heart["X_num"].astype(float)
    real = {
        "iris": iris.data,
        "wine, 6 columns": wine[:, :6],
        "wine, 10 columns": wine[:, :10],
        "diabetes, 100 rows": load_diabetes().data[:100],
        "breast cancer, 8 columns": load_breast_cancer().data[::5, :8],
        "heart": numbers,
        "airfoil": tables["airfoil_X"][::10],
        "compression": tables["compression_X"][::10],
        "parkinsons, 8 columns": tables["parkinsons_X"][:, :8],
        "nutrimouse lipids": mouse["lipid"][:, :10].astype(float),
        "simulated, 2 factors": simulated(40, 5, 2, 0),
        "simulated, 3 factors": simulated(60, 8, 3, 1),
        "simulated, 4 factors": simulated(100, 12, 4, 2),
        "simulated, none": np.random.default_rng(3).standard_normal((50, 5)),
        "iris, holes": with_holes(iris.data),
        "wine, holes": with_holes(wine[:, :6]),
        "heart, holes": with_holes(numbers),
        "simulated, holes": with_holes(simulated(60, 8, 3, 1), 5),
    }
    out: dict[str, Any] = {name: ({"x": x}, {}, {}) for name, x in real.items()}
    two = {"gene": mouse["gene"][:, :6].astype(float), "lipid": mouse["lipid"][:, :6].astype(float)}
    out["genes and lipids"] = (two, {}, {})
    out["simulated, one noise"] = ({"x": simulated(50, 6, 2, 4)}, {"x": Real(noise="view")}, {})
    out["wine, selection"] = ({"x": wine[:, :6]}, {"x": Real(select_features=True)}, {})
    out["simulated, selection"] = ({"x": real["simulated, 3 factors"]}, {"x": Real(select_features=True)}, {})
    out["wine, 2 factors only"] = ({"x": wine[:, :10]}, {}, {"n_components": 2})
    return out


def fitted(data: dict[str, Any], types: dict[str, Any], n_components: int = 50) -> tuple[Model, State]:
    schema, coded, index = read_training(data, types, "float64")
    spec = schema.model_spec(len(index), Priors(), "exact")
    n_components = min(n_components, schema.n_dimensions, len(index))
    rows = make_rows(list(coded.values()), spec, n_components)
    options = FitOptions(tol=1e-7 * schema.n_observed)
    best = run_restarts(rows, n_components, options, np.random.SeedSequence(0).spawn(1)).best
    assert best is not None
    return Model(spec, tuple(coded.values()), best.state.posterior.n_components), best.state


def truth(model: Model, state: State) -> tuple[float, float]:
    """The log evidence and its standard error."""
    first = reference(model, state)
    found = np.array([estimate(model, *first, PARTICLES, seed) for seed in range(RUNS)])
    mean = float(logsumexp(found) - np.log(RUNS))
    return mean, float(np.std(np.exp(found - mean), ddof=1) / np.sqrt(RUNS))


def main(words: list[str]) -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    print(f"{'problem':27s}    N   D  K     truth  ± se     bound corrected  share")
    shares, above = [], []
    for name, (data, types, options) in problems().items():
        if words and not any(word in name for word in words):
            continue
        model, state = fitted(data, types, **options)
        assert state.stats is not None
        found = log_evidence(state.posterior, state.stats, model.spec, state.bound)
        assert found is not None
        true, error = truth(model, state)
        size = f"{model.n_rows:4d} {sum(v.n_features for v in model.spec.views):3d} {model.n_components:2d}"
        values = f"{true:9.1f} {error:5.2f} {state.bound:9.1f} {found:9.1f}"
        if model.n_components:  # without factors there is next to no gap
            shares.append((found - state.bound) / (true - state.bound))
            values += f" {100 * shares[-1]:4.0f} %"
        above.append(found - true)
        print(f"{name:27s} {size} {values}", flush=True)
    print(f"{100 * np.mean(shares):.0f} % of the gap on average; at most {max(above):+.1f} nats above the truth")


if __name__ == "__main__":
    main(sys.argv[1:])
