"""Binary views: t = 1 where x > 0, x normal around its predictor; a probit, with q(x) in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import log, pi

import numpy as np

from ..arrays import array_namespace, compiled_twin, cuda_kernels, log_ndtr
from ..state import Array
from .likelihood import Likelihood, PredictiveX, RowCells, RowUpdate, XUpdate
from .probit_integrals import log_phi_and_rho
from .threshold_rows import update_rows
from .yes_no import YesNo

compiled = partial(compiled_twin, "likelihoods.threshold_compiled")


@dataclass(frozen=True)
class Threshold(YesNo):
    """Yes where x > 0."""

    level_in_common = True

    def infer_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """q(x) is N(y, 1/tau) cut to the side of t.

        With s = ±1 that side, a = s y √tau and ρ = φ(a)/Φ(a): E[x] = y + s ρ/√tau, tau E(x − y)² = 1 − aρ.
        """
        kernels = compiled() if type(y) is np.ndarray else cuda_kernels(y)
        if kernels is not None:
            return XUpdate(*kernels.cut_normal(target, y, tau))
        xp = array_namespace(y)
        s, root = 2 * xp.astype(target, y.dtype, copy=False) - 1, xp.sqrt(tau)
        a = s * y * root
        log_phi, rho = log_phi_and_rho(a)
        mean, quad = y + s * rho / root, 1 - a * rho
        second = mean**2 + xp.where(quad > rho**2, quad - rho**2, 0.0) / tau  # Var(x) tau = 1 − aρ − ρ²
        # E[log p(t|x)] = 0 on that side; H[q] = log Φ(a) + ½ (log 2π − log tau + tau E(x − y)²).
        return XUpdate(mean, second, log_phi + 0.5 * (log(2 * pi) - xp.log(tau) + quad))

    def together(self) -> Likelihood:
        return ThresholdTogether()

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """p(t = 1) and its standard deviation as a 0/1 variable."""
        xp = array_namespace(x.mean)
        p = xp.exp(log_ndtr(x.mean / xp.sqrt(x.var)))
        return p, xp.sqrt(p * (1 - p))

    def draw(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (x > 0).astype(np.float64)


@dataclass(frozen=True)
class ThresholdTogether(Threshold):
    """The same, the cells of a row inferred together: see `threshold_rows.py`."""

    joint = True
    exact = False

    def infer_rows(self, cells: RowCells, each: bool) -> RowUpdate:
        """`xi` are the variances of a; all in units of the noise."""
        y, seen, leverage, tau, weight = cells.y, cells.seen, cells.leverage, cells.tau, cells.weight
        xp = array_namespace(y)
        s, root = 2 * xp.astype(cells.target, y.dtype, copy=False) - 1, xp.sqrt(tau)
        if seen is not None:
            s = xp.where(seen, s, 0.0)
            leverage = xp.where(seen[:, :, None] & seen[:, None, :], leverage, 0.0)
        xi = xp.zeros_like(y) if cells.xi is None else cells.xi
        mean, cov, bound, xi = update_rows(s, cells.x * root, y * root, xi, leverage, weight, each)
        n_seen = xp.sum(xp.astype(s != 0, y.dtype), axis=1)
        return RowUpdate(mean / root, cov * max(1.0, weight) / tau, bound - 0.5 * n_seen * xp.log(tau), xi)
