"""Two and three classes, compiled: the integrals over their cones have a closed form, or nearly so."""

from __future__ import annotations

from math import exp, log, pi, sqrt

import numba
import numpy as np

from .normal_compiled import FUSED, log_phi_and_rho
from .probit_grid import LEAST_PRECISION

CLOSED_FROM = -8.0  # a gap between classes: below it a few nodes are not enough
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_ANGLES = (1 + _NODES) * pi / 12  # from 0 to arcsin ½
SINES, STEEPNESS, WEIGHTS = np.sin(_ANGLES), 0.5 / np.cos(_ANGLES) ** 2, _WEIGHTS / 24
ROOT_2, ROOT_3, ROOT_2_PI = sqrt(2), sqrt(3), sqrt(2 * pi)


@numba.njit(fastmath=FUSED)
def two_classes(
    t: int, x0: float, x1: float, y0: float, y1: float, p00: float, p01: float, p11: float, table: np.ndarray
) -> tuple[float, float, float, float, float, float]:
    """<x_0>, <x_1>, their variances and covariance, and the bound, as `probit_rows.update_rows`.

    x⊥ has one direction, (1, −1)/√2, so that all is told by the difference d = x_0 − x_1: with its sign towards the
    true class it is normal with the variance 2/p, cut at 0.
    """
    p_c, apart = p00 + 2 * p01 + p11, p00 - p11
    p = max(0.5 * (p00 - 2 * p01 + p11 - apart * apart / p_c), LEAST_PRECISION)
    shift, k = (y0 - x0 + y1 - x1) / p_c, -0.5 * apart / p_c
    difference = x0 - x1 + (y0 - x0 - y1 + x1 - shift * apart) / p
    sign, width = 1.0 - 2.0 * t, ROOT_2 / sqrt(p)
    a = sign * difference / width
    log_xi, rho = log_phi_and_rho(a, table)
    left = 1 - min(max(rho * (rho + a), 0.0), 1.0)  # the share of the variance
    mean = difference + sign * width * rho
    middle = 0.5 * (x0 + x1) + shift - k * (x0 - x1) + k * mean
    var = 0.5 * left / p  # of d/2
    common = 1 / p_c + 4 * k * k * var
    bound = log_xi + 0.5 * (log(8 * pi * pi / (p * p_c)) + 1 + left + rho * rho)
    across, along = common - var, 4 * k * var
    return middle + 0.5 * mean, middle - 0.5 * mean, common + var + along, common + var - along, across, bound


@numba.njit(fastmath=FUSED)
def three_classes(delta_1: float, delta_2: float, table: np.ndarray) -> tuple[float, float, float, float, float, float]:
    """log ξ, the means E ρ_1 and E ρ_2, their own derivatives −E a ρ of both, and E ρ_1 ρ_2, for gaps ≥ `CLOSED_FROM`.

    ξ = Φ₂(h, k), h = δ_1/√2, k = δ_2/√2, of two normals with the correlation ½. By Plackett's formula it is Φ(h) Φ(k) +
    ∫ exp(−(h² + k² − 2 h k sin θ)/(2 cos² θ)) dθ / 2π from 0 to arcsin ½: sums of positive terms, exact to 1e-12. Then
    ∂Φ₂/∂h = φ(h) Φ((k − h/2)/√¾), ∂²Φ₂/∂h∂k is the density φ₂ = exp(−(h² + k² − h k)/1.5)/(2π √¾), and
    ∂²Φ₂/∂h² = −h ∂Φ₂/∂h − φ₂/2.
    """
    h, k = delta_1 / ROOT_2, delta_2 / ROOT_2
    squares, product = h * h + k * k, h * k
    log_h, _ = log_phi_and_rho(h, table)
    log_k, _ = log_phi_and_rho(k, table)
    xi = exp(log_h + log_k)
    for i in range(len(SINES)):
        xi += WEIGHTS[i] * exp(-(squares - 2 * product * SINES[i]) * STEEPNESS[i])
    rest_k, _ = log_phi_and_rho((2 * k - h) / ROOT_3, table)
    rest_h, _ = log_phi_and_rho((2 * h - k) / ROOT_3, table)
    mills_1 = exp(rest_k - 0.5 * h * h) / (ROOT_2_PI * xi)
    mills_2 = exp(rest_h - 0.5 * k * k) / (ROOT_2_PI * xi)
    mixed = exp(-(squares - product) / 1.5) / (pi * ROOT_3 * xi)
    own_1, own_2 = -0.5 * (h * mills_1 + 0.5 * mixed), -0.5 * (k * mills_2 + 0.5 * mixed)
    return log(xi), mills_1 / ROOT_2, mills_2 / ROOT_2, own_1, own_2, 0.5 * mixed
