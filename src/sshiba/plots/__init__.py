"""Pictures of a fitted model (matplotlib), each with a twin whose name ends in `_data` that gives its numbers.

Every function takes `ax=` and returns the Axes it drew on.
"""

from .draw import (
    calibration,
    covariate_effects,
    elbo,
    factor_correlation,
    factor_relevance,
    factors,
    feature_relevance,
    imputation,
    overview,
    stability,
    variance_explained,
    weights,
)
from .numbers import (
    calibration_data,
    covariate_effects_data,
    elbo_data,
    factor_correlation_data,
    factor_relevance_data,
    factors_data,
    feature_relevance_data,
    imputation_data,
    overview_data,
    stability_data,
    variance_explained_data,
    weights_data,
)

__all__ = [
    "calibration",
    "calibration_data",
    "covariate_effects",
    "covariate_effects_data",
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
    "variance_explained",
    "variance_explained_data",
    "weights",
    "weights_data",
]
