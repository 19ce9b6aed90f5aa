"""How much a sweep computes, roughly, in multiplications: what decides whether a search can be afforded, and whether
threads help.
"""

from __future__ import annotations

from collections.abc import Sequence

from .coded import CodedView
from .spec import ModelSpec

GRAM_SHARE = 60  # sweeps that share the one pass in which XᵀX is taken
FEW_MASKS = 3  # with more of them rows have covariances of their own
PER_CELL, PER_CLASS = 3, 6  # times K² for a latent cell of a row with its own covariance; a class also has integrals


def n_operations(data: Sequence[CodedView], spec: ModelSpec, n_components: int) -> float:
    """All of a sweep over these data."""
    n_rows, k = len(data[0].target), n_components + spec.n_known
    labels = label_operations(n_rows, spec, k) if has_own_covariances(data) else 0.0
    return product_operations(n_rows, spec, count_masks(data), k) + labels


def count_masks(data: Sequence[CodedView]) -> int:
    """Columns of masks: one for a view whose rows are seen or missing as a whole, one for each feature otherwise."""
    return sum(view.observed.shape[1] for view in data if view.observed is not None)


def has_own_covariances(data: Sequence[CodedView]) -> bool:
    """Are there so many gaps that z of each row has a covariance of its own?"""
    return count_masks(data) > FEW_MASKS


def product_operations(n_rows: int, spec: ModelSpec, n_masks: int, n_factors: int) -> float:
    """Products with the data, or in Gram space, where that is cheaper, those with XᵀX (and a share of the pass that
    takes it) and between labels and data; with many masks those with the data and the covariances of rows and columns.
    """
    n, k = n_rows, float(n_factors)
    n_latent = sum(view.n_features for view in spec.views if view.likelihood.latent)
    n_real = sum(view.n_features for view in spec.views) - n_latent
    direct = n * (n_real + n_latent) * k
    if n_masks > FEW_MASKS:
        return direct + n * (k**3 + n_masks * k**2) + n_masks * k**3
    gram = (n_real + n_latent) ** 2 * k + n * n_real * (n_latent + n_real / GRAM_SHARE)
    return min(direct, gram)


def label_operations(n_rows: int, spec: ModelSpec, n_factors: int) -> float:
    """What latent cells do to covariances of z that each row has of its own."""
    latent = [view for view in spec.views if view.likelihood.latent]
    each = (view.n_features * (PER_CLASS if view.likelihood.whole_rows else PER_CELL) for view in latent)
    return n_rows * sum(each) * float(n_factors) ** 2
