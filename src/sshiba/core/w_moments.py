"""Moments of W beside statistics of z, in D·K² and without D x K x K arrays where features share their rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .spec import ViewSpec
from .state import ColumnGroups, Features, ViewPosterior, WeightCovariance

CACHED_CELLS = 2**16  # of a D x K array: half a megabyte


def feature_gamma(view: ViewPosterior, spec: ViewSpec) -> np.ndarray:
    """<gamma_d> for each feature, (D,)."""
    return view.gamma.mean[spec.relevance]


def w_trace(view: ViewPosterior, zz: np.ndarray, groups: ColumnGroups) -> np.ndarray:
    """tr(<w_d w_dᵀ> zz_g) with g the group of d in `groups`, (D,); they need not be the groups of the fit."""
    return weights_trace(view.w_mean, zz, groups) + covariance_trace(view.w_cov, zz, groups)


def weights_trace(w: np.ndarray, zz: np.ndarray, groups: ColumnGroups) -> np.ndarray:
    """w_dᵀ zz_g w_d, (D,)."""
    out = np.empty(len(w))

    def shared(g: int, features: Features) -> None:
        for d in in_cache(features, *w.shape):
            out[d] = np.vecdot(w[d] @ zz[g], w[d])

    def alone(g: Features, d: Features) -> None:
        out[d] = np.vecdot((w[d][:, None, :] @ zz[g])[:, 0, :], w[d])

    groups.visit(shared, alone)
    return out


def covariance_trace(cov: WeightCovariance, zz: np.ndarray, groups: ColumnGroups) -> np.ndarray:
    """tr(Σ_d zz_g) = Σ_k s_dk (Bᵀ zz_g B)_kk, (D,)."""
    out = np.empty(len(cov.spread))

    def shared(g: int, d: Features) -> None:
        fitted = cov.groups.index[d]
        if (fitted == fitted[0]).all():
            basis = cov.basis[fitted[0]]
            out[d] = cov.spread[d] @ np.sum(basis * (zz[g] @ basis), axis=0)
        else:
            each(np.broadcast_to(zz[g], (len(fitted), *zz[g].shape)), d)

    def alone(g: Features, d: Features) -> None:
        each(zz[g], d)

    def each(zz_d: np.ndarray, d: Features) -> None:
        basis = cov.basis[d] if cov.groups is groups and isinstance(d, slice) else cov.basis[cov.groups.index[d]]
        out[d] = np.vecdot(cov.spread[d], np.sum(basis * (zz_d @ basis), axis=-2))

    groups.visit(shared, alone)
    return out


def dot_group(w: np.ndarray, per_group: np.ndarray, groups: ColumnGroups) -> np.ndarray:
    """w_d · v_g with g the column group of d, for v (G, K): (D,)."""
    return w @ per_group[0] if len(groups) == 1 else np.vecdot(w, per_group[groups.index])


def weighted_ww(view: ViewPosterior, c: np.ndarray, cw: np.ndarray, groups: ColumnGroups) -> np.ndarray:
    """Σ_{d in group} c_d <w_d w_dᵀ> for each of `groups`, (G, K, K), with cw = c_d <w_d>.

    They need not be the groups of the fit.
    """
    w, cov, n_components = view.w_mean, view.w_cov, view.w_mean.shape[1]
    out = np.zeros((len(groups), n_components, n_components))

    def shared(g: int, d: Features) -> None:
        out[g] = w[d].T @ cw[d] + summed_covariance(cov, c, d)

    def alone(g: Features, d: Features) -> None:
        basis = cov.basis[cov.groups.index[d]]
        scaled = basis * (c[d][:, None] * cov.spread[d])[:, None, :]
        out[g] = scaled @ np.matrix_transpose(basis) + cw[d][:, :, None] * w[d][:, None, :]

    groups.visit(shared, alone)
    return out


def summed_covariance(cov: WeightCovariance, c: np.ndarray, features: Features) -> np.ndarray:
    """Σ_d c_d Σ_d over some features, (K, K)."""
    if len(cov.groups) == 1:
        basis = cov.basis[0]
        return (basis * (c[features] @ cov.spread[features])) @ basis.T
    # Side by side, the scaled bases make one K x (D·K) matrix whose product with itself is the sum.
    weighted = c[features][:, None] * cov.spread[features]
    half = cov.basis[cov.groups.index[features]] * np.sqrt(weighted)[:, None, :]
    flat = np.reshape(np.permute_dims(half, (1, 0, 2)), (half.shape[1], half.shape[0] * half.shape[2]))
    return flat @ flat.T


def in_cache(features: Features, n_features: int, n_components: int) -> Iterator[Features]:
    """Some features, or all, in portions whose D x K arrays stay in a core's cache."""
    step = max(1, CACHED_CELLS // max(n_components, 1))
    if isinstance(features, slice):
        return (slice(a, min(a + step, n_features)) for a in range(0, n_features, step))
    return (features[a : a + step] for a in range(0, len(features), step))
