"""The corrected log evidence against the true one, by sequential Monte Carlo, on small real and simulated tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from sshiba.core.spec import ModelSpec

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class Model:
    """The model of real views with z and alpha integrated out: a density of (W, b, log tau, log gamma) of all features.

    Rows with the same holes are one `pattern`: which features they have, their number, their sum and X'X.
    """

    patterns: tuple[tuple[np.ndarray, int, np.ndarray, np.ndarray], ...]
    spec: ModelSpec
    n_components: int

    @property
    def n_features(self) -> int:
        return sum(view.n_features for view in self.spec.views)

    @property
    def tau_of(self) -> np.ndarray:
        """Which log tau each feature has."""
        out, first = [], 0
        for view in self.spec.views:
            own = len(view.tau_prior.shape)
            out.append(first + (np.arange(own) if own > 1 else np.zeros(view.n_features, dtype=int)))
            first += own
        return np.concatenate(out)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Of W, b, log tau and log gamma."""
        d = self.n_features
        selected = sum(view.n_features for view in self.spec.views if view.select_features)
        return d * self.n_components, d, int(self.tau_of.max()) + 1, selected

    def parts(self, theta: np.ndarray) -> list[np.ndarray]:
        w, *rest = np.split(theta, np.cumsum(self.sizes)[:-1], axis=1)
        return [w.reshape(len(w), self.n_features, self.n_components), *rest]

    def density(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(data, theta) and its gradient, for each of the particles."""
        w, b, log_tau, log_gamma = self.parts(theta)
        value, (dw, db, dtau) = self.likelihood(w, b, np.exp(log_tau[:, self.tau_of]))
        d_log_tau, d_log_gamma = np.zeros_like(log_tau), np.zeros_like(log_gamma)
        np.add.at(d_log_tau, (slice(None), self.tau_of), dtau)
        first = first_tau = first_gamma = 0
        for view in self.spec.views:
            own = slice(first, first + view.n_features)
            taus = slice(first_tau, first_tau + len(view.tau_prior.shape))
            gamma = np.ones((len(w), view.n_features))
            if view.select_features:
                gammas = slice(first_gamma, first_gamma + view.n_features)
                gamma = np.exp(log_gamma[:, gammas])
            shape, rate = float(view.alpha_prior.shape), float(view.alpha_prior.rate)
            energy = rate + 0.5 * np.einsum("pd,pdk->pk", gamma, w[:, own] ** 2)
            end = shape + view.n_features / 2
            scale = shape * np.log(rate) - gammaln(shape) + gammaln(end) - view.n_features * HALF_LOG_2PI
            value = value + self.n_components * (scale + 0.5 * np.log(gamma).sum(axis=1)) - end * np.log(energy).sum(axis=1)
            dw[:, own] -= end * gamma[:, :, None] * w[:, own] / energy[:, None, :]
            if view.select_features:
                a, r = float(view.gamma_prior.shape), float(view.gamma_prior.rate)
                value = value + np.sum(a * np.log(r) - gammaln(a) + a * np.log(gamma) - r * gamma, axis=1)
                pull = 0.5 * end * gamma * np.einsum("pdk,pk->pd", w[:, own] ** 2, 1 / energy)
                d_log_gamma[:, gammas] = a - r * gamma + 0.5 * self.n_components - pull
                first_gamma += view.n_features
            a, r = view.tau_prior.shape, view.tau_prior.rate
            tau = np.exp(log_tau[:, taus])
            value = value + np.sum(a * np.log(r) - gammaln(a) + a * log_tau[:, taus] - r * tau, axis=1)
            d_log_tau[:, taus] += a - r * tau
            beta = view.b_precision
            value = value + np.sum(0.5 * np.log(beta) - HALF_LOG_2PI - 0.5 * beta * b[:, own] ** 2, axis=1)
            db[:, own] -= beta * b[:, own]
            first, first_tau = own.stop, taus.stop
        return value, np.concatenate([dw.reshape(len(w), -1), db, d_log_tau, d_log_gamma], axis=1)

    def likelihood(self, w: np.ndarray, b: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Rows are N(b, W W' + 1/tau): its log density, and the gradients in W, b and log tau."""
        value, dw, db, dtau = np.zeros(len(w)), np.zeros_like(w), np.zeros_like(b), np.zeros_like(tau)
        for seen, n, total, square in self.patterns:
            W, B, T = w[:, seen], b[:, seen], tau[:, seen]
            cross = total[None, :, None] * B[:, None, :]
            S = square - cross - np.swapaxes(cross, 1, 2) + n * B[:, :, None] * B[:, None, :]
            A = T[:, :, None] * W
            M = np.eye(self.n_components) + np.swapaxes(W, 1, 2) @ A
            V = A @ np.linalg.inv(M)  # C⁻¹ W
            Y = T[:, :, None] * S - V @ (np.swapaxes(A, 1, 2) @ S)  # C⁻¹ S
            YV = Y @ V
            diagonal = np.diagonal(Y, axis1=1, axis2=2)
            log_det = np.linalg.slogdet(M)[1] - np.log(T).sum(axis=1)
            value += -n * len(seen) * HALF_LOG_2PI - 0.5 * n * log_det - 0.5 * diagonal.sum(axis=1)
            dw[:, seen] += YV - n * V
            inverse = T - np.sum(V * A, axis=2)
            both = diagonal * T - np.sum(YV * A, axis=2) if False else diagonal * T - np.sum((Y @ V) * A, axis=2)
            dtau[:, seen] += 0.5 * (n * inverse - both) / T
            rest = total - n * B
            db[:, seen] += T * rest - np.sum(V * np.sum(A * rest[:, :, None], axis=1)[:, None, :], axis=2)
        return value, [dw, db, dtau]


def make_model(x: np.ndarray, seen: np.ndarray, spec: ModelSpec, n_components: int) -> Model:
    patterns = []
    for pattern in np.unique(seen, axis=0):
        rows = x[(seen == pattern).all(axis=1)][:, pattern]
        if pattern.any():
            patterns.append((np.flatnonzero(pattern), len(rows), rows.sum(axis=0), rows.T @ rows))
    return Model(tuple(patterns), spec, n_components)


# ------------------------------------------------------------------------------------------- sequential Monte Carlo


@dataclass
class Particles:
    """Where the particles are, with log density and gradient of the reference (first) and of the target."""

    theta: np.ndarray
    values: list[np.ndarray]
    gradients: list[np.ndarray]

    def take(self, index: np.ndarray) -> Particles:
        return Particles(self.theta[index], [v[index] for v in self.values], [g[index] for g in self.gradients])

    def replace(self, other: Particles, where: np.ndarray) -> Particles:
        both = lambda a, b: np.where(where if a.ndim == 1 else where[:, None], b, a)  # noqa: E731
        return Particles(
            both(self.theta, other.theta),
            [both(a, b) for a, b in zip(self.values, other.values)],
            [both(a, b) for a, b in zip(self.gradients, other.gradients)],
        )


def log_evidence_smc(
    model: Model, centre: np.ndarray, spread: np.ndarray, n_particles: int, seed: int, keep: float = 0.85
) -> float:
    """One unbiased estimate of the evidence, in logs: from N(centre, spread²) to the model in small steps.

    Steps keep the effective sample at `keep`; after each the particles are resampled and moved by Hamiltonian Monte Carlo.
    """
    rng = np.random.default_rng(seed)

    def at(theta: np.ndarray) -> Particles:
        deviation = (theta - centre) / spread
        reference = -0.5 * np.sum(deviation**2, axis=1) - np.sum(np.log(spread)) - len(centre) * HALF_LOG_2PI
        value, gradient = model.density(theta)
        return Particles(theta, [reference, value], [-deviation / spread, gradient])

    here = at(centre + spread * rng.standard_normal((n_particles, len(centre))))
    power, total, step = 0.0, 0.0, 0.3
    while power < 1:
        difference = here.values[1] - here.values[0]
        power, before = next_power(difference, power, keep), power
        weight = (power - before) * difference
        total += logsumexp(weight) - np.log(n_particles)
        share = np.cumsum(np.exp(weight - logsumexp(weight)))
        places = np.searchsorted(share, (np.arange(n_particles) + rng.random()) / n_particles)
        here = here.take(np.minimum(places, n_particles - 1))
        scale = scales(here, power)
        for _ in range(MOVES):
            here, accepted = hamiltonian_move(here, at, power, scale, step, rng)
            step = float(np.clip(step * np.exp(0.3 * (accepted - 0.75)), 1e-3, 1.0))
    return total


MOVES, LEAPS = 3, 8


def next_power(difference: np.ndarray, power: float, keep: float) -> float:
    def effective(new: float) -> float:
        weight = (new - power) * difference
        return float(np.exp(2 * logsumexp(weight) - logsumexp(2 * weight))) / len(weight)

    low, high = power, 1.0
    if effective(high) >= keep:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if effective(middle) < keep else (middle, high)
    return high


def scales(here: Particles, power: float) -> np.ndarray:
    """Of each coordinate, for the moves: the root mean square of the gradient is the inverse of its local spread."""
    gradient = (1 - power) * here.gradients[0] + power * here.gradients[1]
    return np.minimum(1 / np.sqrt(np.mean(gradient**2, axis=0)), here.theta.std(axis=0) + 1e-12)


def hamiltonian_move(here: Particles, at, power: float, scale: np.ndarray, step: float, rng) -> tuple[Particles, float]:
    momentum = rng.standard_normal(here.theta.shape)
    size = step * np.exp(0.4 * rng.standard_normal((len(momentum), 1))) * scale

    def energy(p: Particles, m: np.ndarray) -> np.ndarray:
        return (1 - power) * p.values[0] + power * p.values[1] - 0.5 * np.sum(m**2, axis=1)

    def pull(p: Particles) -> np.ndarray:
        return (1 - power) * p.gradients[0] + power * p.gradients[1]

    first, there = energy(here, momentum), here
    for _ in range(LEAPS):
        momentum = momentum + 0.5 * size * pull(there)
        there = at(np.clip(there.theta + size * momentum, -15, 15))
        momentum = momentum + 0.5 * size * pull(there)
    accept = np.exp(np.minimum(0, np.nan_to_num(energy(there, momentum) - first, nan=-np.inf)))
    return here.replace(there, rng.random(len(accept)) < accept), float(np.mean(accept))
