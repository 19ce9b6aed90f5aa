"""Pictures of a fitted model (matplotlib), each with a twin whose name ends in `_data` that gives its numbers.

Every function takes `ax=` and returns the Axes it drew on.
"""

from .draw import (
    activity,
    calibration,
    elbo,
    factor_correlation,
    factor_relevance,
    factors,
    feature_relevance,
    imputation,
    overview,
    stability,
    variance_by_group,
    variance_explained,
    weights,
)
from .numbers import (
    activity_data,
    calibration_data,
    elbo_data,
    factor_correlation_data,
    factor_relevance_data,
    factors_data,
    feature_relevance_data,
    imputation_data,
    overview_data,
    stability_data,
    variance_by_group_data,
    variance_explained_data,
    weights_data,
)

__all__ = [
    "activity",
    "activity_data",
    "calibration",
    "calibration_data",
    "elbo",
    "elbo_data",
    "factor_correlation",
    "factor_correlation_data",
    "factor_relevance",
    "factor_relevance_data",
    "factors",
    "factors_data",
    "feature_relevance",
    "feature_relevance_data",
    "imputation",
    "imputation_data",
    "overview",
    "overview_data",
    "stability",
    "stability_data",
    "variance_by_group",
    "variance_by_group_data",
    "variance_explained",
    "variance_explained_data",
    "weights",
    "weights_data",
]
