"""Moments of W and sums over features, in D·K² and without D x K x K arrays where features share their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .model import ViewModel
from .special import array_namespace, zeros
from .state import Array, ColumnGroups, RowCovariance, ViewPosterior

CACHED_CELLS = 2**16  # of a D x K array: half a megabyte


def feature_gamma(view: ViewPosterior, model: ViewModel) -> Array:
    """<gamma_d> for each feature, (D,)."""
    return view.gamma.mean[model.relevance]


def w_second(view: ViewPosterior) -> Array:
    """<w_dk²>, (D, K)."""
    return view.w_cov.kept("second", (view.w_mean,), lambda: view.w_cov.diagonal + view.w_mean**2)


def w_trace(view: ViewPosterior, zz: Array, groups: ColumnGroups) -> Array:
    """tr(<w_d w_dᵀ> zz_g) with g the group of d in `groups`, (D,); they need not be the groups of the fit."""
    return view.w_cov.kept("trace", (view.w_mean, zz), lambda: _w_trace(view, zz, groups))


def _w_trace(view: ViewPosterior, zz: Array, groups: ColumnGroups) -> Array:
    xp = array_namespace(zz)
    cov = view.w_cov
    out = xp.empty_like(view.b_mean)
    for g, features, alone in groups.parts:
        fitted = cov.groups.index[features]
        if not alone and (fitted == fitted[0]).all():
            zz_g, basis = zz[g], cov.basis[int(fitted[0])]
            inner = xp.sum(basis * (zz_g @ basis), axis=-2)  # diag(Bᵀ zz B)
            for d in in_cache(features, *view.w_mean.shape):
                out[d] = xp.vecdot(view.w_mean[d] @ zz_g, view.w_mean[d]) + cov.spread[d] @ inner
            continue
        w, zz_g = view.w_mean[features], zz[g] if alone else zz[g][None]
        basis = cov.basis[g] if groups is cov.groups else cov.basis[fitted]
        inner = xp.sum(basis * (zz_g @ basis), axis=-2)
        out[features] = xp.vecdot((w[:, None, :] @ zz_g)[:, 0, :], w) + xp.vecdot(cov.spread[features], inner)
    return out


def dot_group(w: Array, per_group: Array, groups: ColumnGroups) -> Array:
    """w_d · v_g with g the column group of d, for v (G, K): (D,)."""
    xp = array_namespace(w)
    out = xp.empty_like(w[:, 0])
    for g, d, alone in groups.parts:
        out[d] = xp.vecdot(w[d], per_group[g]) if alone else w[d] @ per_group[g]
    return out


def weighted_ww(view: ViewPosterior, c: Array, cw: Array, groups: ColumnGroups) -> Array:
    """Σ_{d in group} c_d <w_d w_dᵀ> for each of `groups`, (G, K, K), with cw = c_d <w_d>.

    They need not be the groups of the fit.
    """
    xp = array_namespace(view.w_mean)
    cov, n_components = view.w_cov, view.w_mean.shape[1]
    out = zeros((len(groups), n_components, n_components), c)
    for g, d, alone in groups.parts:
        w = view.w_mean[d]
        if alone:
            basis = cov.basis[cov.groups.index[d]]
            scaled = basis * (c[d][:, None] * cov.spread[d])[:, None, :]
            out[g] = scaled @ xp.matrix_transpose(basis) + cw[d][:, :, None] * w[:, None, :]
        else:
            out[g] = w.T @ cw[d] + _summed_cov(cov, c, d)
    return out


def _summed_cov(cov: RowCovariance, c: Array, features: Any) -> Array:
    """Σ_d c_d Σ_d over some features, (K, K)."""
    xp = array_namespace(c)
    if len(cov.groups) == 1:
        basis = cov.basis[0]
        return (basis * (c[features] @ cov.spread[features])) @ basis.T
    # Side by side, the scaled bases make one K x (D·K) matrix whose product with itself is the sum.
    weighted = c[features][:, None] * cov.spread[features]
    half = cov.basis[cov.groups.index[features]] * xp.sqrt(weighted)[:, None, :]
    flat = xp.reshape(xp.permute_dims(half, (1, 0, 2)), (half.shape[1], -1))
    return flat @ flat.T


def group_dot(c: Array, values: Array, groups: ColumnGroups) -> Array:
    """Σ_{d in group} c_d v_d for v (D, K), (G, K)."""
    out = zeros((len(groups), values.shape[1]), values)
    for g, d, alone in groups.parts:
        out[g] = c[d][:, None] * values[d] if alone else c[d] @ values[d]
    return out


def group_sum(values: Array, groups: ColumnGroups) -> Array:
    """Sum the rows (features) of `values` within each column group, (G, ...)."""
    xp = array_namespace(values)
    out = zeros((len(groups), *values.shape[1:]), values)
    for g, d, alone in groups.parts:
        out[g] = values[d] if alone else xp.sum(values[d], axis=0)
    return out


def in_cache(features: Any, n_features: int, n_components: int) -> Iterator[Any]:
    """Some features, or all, in portions whose D x K arrays stay in a core's cache."""
    step = max(1, CACHED_CELLS // n_components)
    if isinstance(features, slice):
        return (slice(a, min(a + step, n_features)) for a in range(0, n_features, step))
    return (features[a : a + step] for a in range(0, len(features), step))
