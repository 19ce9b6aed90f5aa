"""The corrected log evidence against the true one, by sequential Monte Carlo, on small real and simulated tables.

    SSHIBA_DATA=... python benchmarks/evidence.py [words in the names of the problems]

The truth is the mean of independent estimates, each unbiased, with its standard error.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from sshiba import Binary, Categorical, Real
from sshiba.core.coded import CodedView
from sshiba.core.evidence import log_evidence
from sshiba.core.likelihoods import Gaussian, Logistic, Threshold
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
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
LOG_NODE_WEIGHTS = np.log(NODE_WEIGHTS) - HALF_LOG_2PI


# ------------------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True)
class Model:
    """log p(data, theta) with alpha integrated out; theta holds W, b, log tau, log gamma, and Z where there are labels.

    Without labels Z is integrated out too, and rows with the same holes count together.
    """

    spec: ModelSpec
    coded: tuple[CodedView, ...]
    n_components: int

    @property
    def labelled(self) -> bool:
        return any(view.likelihood.latent for view in self.spec.views)

    @property
    def n_rows(self) -> int:
        return len(self.coded[0].target)

    @property
    def sizes(self) -> list[int]:
        views, k = self.spec.views, self.n_components
        n_features = sum(view.n_features for view in views)
        n_tau = sum(0 if view.tau_prior is None else len(view.tau_prior.shape) for view in views)
        n_gamma = sum(view.n_features for view in views if view.select_features)
        return [n_features * k, n_features, n_tau, n_gamma, self.n_rows * k if self.labelled else 0]

    def density(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value and its gradient, for each of the particles."""
        flat, b, log_tau, log_gamma, z = np.split(theta, np.cumsum(self.sizes)[:-1], axis=1)
        w = flat.reshape(len(flat), -1, self.n_components)
        tau, value = np.empty_like(b), np.zeros(len(b))
        dw, db, dtau, dgamma = (np.zeros_like(part) for part in (w, b, log_tau, log_gamma))
        for view, own, taus, gammas in self.slices():
            tau[:, own] = view.tau_fixed if view.tau_prior is None else np.exp(log_tau[:, taus])
            gamma = np.exp(log_gamma[:, gammas]) if view.select_features else np.ones((len(w), view.n_features))
            of_w, dw[:, own], of_gamma = weights_prior(w[:, own], gamma, view)
            value += of_w + np.sum(
                0.5 * np.log(view.b_precision / (2 * np.pi)) - view.b_precision * b[:, own] ** 2 / 2, axis=1
            )
            db[:, own] = -view.b_precision * b[:, own]
            if view.select_features:
                of_prior, slope = log_gamma_prior(log_gamma[:, gammas], view.gamma_prior)
                value, dgamma[:, gammas] = value + of_prior, of_gamma + slope
            if view.tau_prior is not None:
                of_prior, dtau[:, taus] = log_gamma_prior(log_tau[:, taus], view.tau_prior)
                value += of_prior
        of_data, (more_w, more_b, more_tau, dz) = (self.given_z if self.labelled else self.rows)(w, b, tau, z)
        for view, own, taus, _ in self.slices():
            if view.tau_prior is not None:
                dtau[:, taus] += (
                    more_tau[:, own] if taus.stop - taus.start > 1 else more_tau[:, own].sum(1, keepdims=True)
                )
        gradient = [(dw + more_w).reshape(len(w), -1), db + more_b, dtau, dgamma, dz]
        return value + of_data, np.concatenate(gradient, axis=1)

    @cached_property
    def patterns(self) -> list[tuple[np.ndarray, int, np.ndarray, np.ndarray]]:
        """Of real rows with the same holes: which features they have, their number, their sum and XᵀX."""
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
            n_tau = 0 if view.tau_prior is None else len(view.tau_prior.shape)
            ends = d + view.n_features, t + n_tau, g + (view.n_features if view.select_features else 0)
            out.append((view, slice(d, ends[0]), slice(t, ends[1]), slice(g, ends[2])))
            d, t, g = ends
        return out

    def rows(self, w: np.ndarray, b: np.ndarray, tau: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Real rows are N(b, C), C = W Wᵀ + 1/tau: the log density, and the gradients in W, b, log tau (and no Z)."""
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
        return value, [dw, db, dtau, z]

    def given_z(self, w: np.ndarray, b: np.ndarray, tau: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, list]:
        """Z and what was observed given Z, with the x of labels integrated out."""
        z = z.reshape(len(z), self.n_rows, self.n_components)
        value = np.sum(-0.5 * z**2 - HALF_LOG_2PI, axis=(1, 2))
        y, dtau = z @ np.swapaxes(w, 1, 2) + b[:, None, :], np.zeros_like(tau)
        dy = np.empty_like(y)
        for (view, own, _, _), coded in zip(self.slices(), self.coded):
            seen = mask(coded)
            if isinstance(view.likelihood, Gaussian):
                rest = np.where(seen, coded.target - y[:, :, own], 0.0)
                square = np.sum(rest**2, axis=1) * tau[:, own]
                value += np.sum(seen.sum(axis=0) * (0.5 * np.log(tau[:, own]) - HALF_LOG_2PI) - 0.5 * square, axis=1)
                dtau[:, own] = 0.5 * (seen.sum(axis=0) - square)
                dy[:, :, own] = tau[:, None, own] * rest
            else:
                log_p, slope = label_likelihood(view)(coded.target, y[:, :, own])
                value += np.sum(np.where(seen[:, : log_p.shape[2]], log_p, 0.0), axis=(1, 2))
                dy[:, :, own] = np.where(seen, slope, 0.0)
        dz = dy @ w - z
        return value, [np.swapaxes(dy, 1, 2) @ z, dy.sum(axis=1), dtau, dz.reshape(len(z), -1)]


def mask(coded: CodedView) -> np.ndarray:
    """What was seen, (N, D); of labels (N, 1)."""
    shape = coded.target.shape if coded.target.ndim == 2 else (len(coded.target), 1)
    return np.broadcast_to(np.True_ if coded.observed is None else coded.observed, shape)


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


def label_likelihood(view: ViewSpec) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """log p(t | y), and its slope in y, of labels: x ~ N(y, 1/tau) integrated out, where need be by quadrature."""
    root = np.sqrt(view.tau_fixed)

    def probit(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sign = root * (2 * t - 1)
        log_p = log_ndtr(sign * y)
        return log_p, sign * np.exp(-0.5 * (root * y) ** 2 - HALF_LOG_2PI - log_p)

    def logit(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sign = 2 * t - 1
        each = -np.logaddexp(0, -sign[..., None] * (y[..., None] + NODES / root))
        log_p = logsumexp(each + LOG_NODE_WEIGHTS, axis=-1)
        share = np.exp(each + LOG_NODE_WEIGHTS - log_p[..., None])
        return log_p, sign * np.sum(share * (1 - np.exp(each)), axis=-1)

    def classes(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = np.arange(y.shape[2]) == t[:, None]
        ahead = np.sum(np.where(own, y, 0.0), axis=2, keepdims=True) - y
        a = NODES[:, None] + ahead[:, :, None, :]
        each = np.where(own[:, None, :], 0.0, log_ndtr(a))
        summed = each.sum(axis=3) + LOG_NODE_WEIGHTS
        log_p = logsumexp(summed, axis=2)
        ratio = np.where(own[:, None, :], 0.0, np.exp(-0.5 * a**2 - HALF_LOG_2PI - each))
        slope = -np.einsum("pnu,pnuc->pnc", np.exp(summed - log_p[:, :, None]), ratio)
        return log_p[:, :, None], slope - np.where(own, slope.sum(axis=2, keepdims=True), 0.0)

    return (
        logit
        if isinstance(view.likelihood, Logistic)
        else probit
        if isinstance(view.likelihood, Threshold)
        else classes
    )


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
    tau = [np.log(v.tau.mean) for v, spec in views if spec.tau_prior is not None]
    gamma = [np.log(v.gamma.mean) for v, spec in views if spec.select_features]
    n_w, _, n_tau, n_gamma, n_z = model.sizes
    centre = [np.zeros(n_w), *(v.b_mean for v, _ in views), *tau, *gamma, np.zeros(n_z)]
    b_spread = [np.full(len(v.b_mean), 1.0 if spec.likelihood.latent else 0.3) for v, spec in views]
    return np.concatenate(centre), np.concatenate([*w_spread, *b_spread, np.ones(n_tau + n_gamma + n_z)])


# -------------------------------------------------------------------------------------------------------- problems


def simulated(n: int, d: int, k: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = 0.5 * rng.standard_normal((n, d)) * (0.5 + rng.random(d))
    return 0.8 * rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + noise


def with_holes(x: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(x.shape) < 0.2, np.nan, x)


def problems() -> dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Name -> data, view types, options (n_components, missing)."""
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
    out["wine, mean-field holes"] = ({"x": with_holes(wine[:, :6])}, {}, {"missing": "mean-field"})
    out["iris, classes"] = ({"x": iris.data[::3], "y": iris.target[::3]}, {"y": Categorical()}, {})
    yes = (numbers[::6] > np.nanmedian(numbers, axis=0)).astype(float)
    out["heart, yes / no"] = ({"x": yes}, {"x": Binary()}, {})
    yes = (wine[::3, 5:11] > np.median(wine[:, 5:11], axis=0)).astype(float)
    out["wine, yes / no"] = ({"x": yes}, {"x": Binary()}, {})
    out["wine, logit"] = ({"x": yes}, {"x": Binary(link="logit")}, {})
    out["wine, numbers and yes / no"] = ({"x": wine[::3, :4], "t": yes[:, :4]}, {"t": Binary()}, {})
    return out


def fitted(
    data: dict[str, Any], types: dict[str, Any], n_components: int = 50, missing: str = "exact"
) -> tuple[Model, State]:
    schema, coded, index = read_training(data, types, "float64")
    spec = schema.model_spec(len(index), Priors(), missing)
    n_components = min(n_components, schema.n_dimensions, len(index))
    rows = make_rows(list(coded.values()), spec, n_components, missing)
    options = FitOptions(tol=1e-7 * schema.n_observed)
    best = run_restarts(rows, n_components, options, np.random.SeedSequence(0).spawn(1)).best
    assert best is not None
    return Model(spec, tuple(coded.values()), best.state.posterior.n_components), best.state


def truth(model: Model, state: State, n_runs: int = RUNS, n_particles: int = PARTICLES) -> tuple[float, float]:
    """The log evidence and its standard error."""
    first = reference(model, state)
    found = np.array([estimate(model, *first, n_particles, seed) for seed in range(n_runs)])
    mean = float(logsumexp(found) - np.log(n_runs))
    return mean, float(np.std(np.exp(found - mean), ddof=1) / np.sqrt(n_runs))


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
        true, error = truth(model, state)
        size = f"{model.n_rows:4d} {sum(v.n_features for v in model.spec.views):3d} {model.n_components:2d}"
        share, corrected = np.nan, "-"
        if found is not None:
            share, corrected = (found - state.bound) / (true - state.bound), f"{found:.1f}"
            shares.append(share)
            above.append(found - true)
        print(f"{name:27s} {size} {true:9.1f} {error:5.2f} {state.bound:9.1f} {corrected:>9s} {share:6.0%}", flush=True)
    print(f"{np.mean(shares):.0%} of the gap on average; at most {max(above):+.1f} nats above the truth")


if __name__ == "__main__":
    main(sys.argv[1:])
