"""Rows of classes among other cells: the linear algebra around the integrals of the multinomial probit.

See `MultinomialProbit.infer_rows` for what the letters mean. All of it is O(C²) a row: J A J takes away means of rows
and columns, and V = (J + Hessian)/p has JV = V, so that L V Lᵀ = V + 1 (Vk)ᵀ + (Vk) 1ᵀ + (k·Vk) 11ᵀ with L = J + 1kᵀ.
"""

from __future__ import annotations

from math import log, pi
from typing import NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from ..arrays import array_namespace, eye
from ..state import Array
from .probit_grid import LEAST_PRECISION
from .probit_integrals import compiled, probit_curvature, two_class_curvature


class RowForm(NamedTuple):
    """q(x⊥) is N(m, I/p) cut to the cone; c given x⊥ is N(c + k·x⊥, 1/p_c)."""

    m: Array  # (n, C)
    p: Array  # (n,)
    p_c: Array  # (n,)
    k: Array  # (n, C)
    c: Array  # (n,)


def update_rows(target: Array, x: Array, y: Array, precision: Array, each: bool) -> tuple[Array, Array, Array]:
    """<x>, Cov(x) and the bound as `row_moments`; compiled, where numba is installed."""
    fast = compiled()
    if fast is not None and is_numpy_array(y):
        arrays = (np.ascontiguousarray(v, dtype=np.float64) for v in (x, y, precision))
        return fast.update_rows(np.asarray(target, dtype=np.int64), *arrays, each)
    form = row_form(x, y, precision)
    root = array_namespace(y).sqrt(form.p)[:, None]
    curvature = two_class_curvature if y.shape[1] == 2 else probit_curvature
    log_xi, step, trace, hessian = curvature(root * form.m, target, each)
    return row_moments(form, log_xi, step / root, trace, hessian)


def row_form(x: Array, y: Array, precision: Array) -> RowForm:
    """From the present means x, the gradient y − x there and the precision P, (r, C, C)."""
    xp, n_classes = array_namespace(y), y.shape[1]
    p1 = xp.sum(precision, axis=2)
    p_c = xp.sum(p1, axis=1)
    away = p1 - p_c[:, None] / n_classes  # JP1
    centred = precision - (p1[:, :, None] + p1[:, None, :]) / n_classes + p_c[:, None, None] / n_classes**2
    without_c = centred - away[:, :, None] * away[:, None, :] / p_c[:, None, None]
    mean_value = xp.sum(without_c * eye(n_classes, y), axis=(1, 2)) / (n_classes - 1)
    largest = xp.max(xp.sum(xp.abs(without_c), axis=2), axis=1)
    least = xp.where(largest < 1, largest, 1.0) / 2
    p = xp.maximum(mean_value, xp.where(least > LEAST_PRECISION, least, LEAST_PRECISION))
    shift = xp.sum(y - x, axis=1) / p_c  # brings c to its optimum
    x, pull = x + shift[:, None], y - x - shift[:, None] * p1
    m = x + pull / p[:, None]
    k, ones = -away / p_c[:, None], xp.ones_like(shift)
    inner = x - xp.mean(x, axis=1, keepdims=True)
    c = xp.mean(x, axis=1) - xp.sum(k * inner, axis=1)
    return RowForm(m - xp.mean(m, axis=1, keepdims=True), p * ones, p_c * ones, k * ones[:, None], c)


def row_moments(form: RowForm, log_xi: Array, step: Array, trace: Array, hessian: Array) -> tuple[Array, Array, Array]:
    """<x> (n, C), Cov(x) (n, C, C) or their sum (1, C, C), as the Hessians come, and the bound (n,)."""
    xp, n, n_classes = array_namespace(step), step.shape[0], step.shape[1]
    inner = form.m + step
    mean = inner + (form.c + xp.sum(form.k * inner, axis=1))[:, None]
    quad = n_classes - 1 + trace + form.p * xp.sum(step**2, axis=1)
    constants = (n_classes - 1) * xp.log(2 * pi / form.p) + xp.log(2 * pi / form.p_c) + 1 + log(n_classes)
    bound = log_xi + 0.5 * (constants + quad)
    count = n if hessian.shape[0] < n else 1  # a sum over rows has all of its terms so often, and one p, p_c and k
    V = (count * (eye(n_classes, step) - 1 / n_classes) + hessian) / form.p[: hessian.shape[0], None, None]
    k, p_c = form.k[: hessian.shape[0], :], form.p_c[: hessian.shape[0]]
    along = xp.sum(V * k[:, None, :], axis=2)
    whole = xp.sum(along * k, axis=1) + count / p_c
    return mean, V + along[:, :, None] + along[:, None, :] + whole[:, None, None], bound
