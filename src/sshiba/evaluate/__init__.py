"""How well a model predicts what it was not shown, options chosen by that, and which factors are found again."""

from .holdout import Check, check, holdout, scores_table
from .metrics import (
    Auc,
    auc_mc,
    binary_log_likelihood,
    class_log_likelihood,
    coverage,
    normal_log_likelihood,
    reliability,
    rmse,
)
from .stability import Stability, match, stability
from .tuning import Tuned, tune

__all__ = [
    "Auc",
    "Check",
    "Stability",
    "Tuned",
    "auc_mc",
    "binary_log_likelihood",
    "check",
    "class_log_likelihood",
    "coverage",
    "holdout",
    "match",
    "normal_log_likelihood",
    "reliability",
    "rmse",
    "scores_table",
    "stability",
    "tune",
]
