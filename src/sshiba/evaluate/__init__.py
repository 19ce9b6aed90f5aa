"""How well a model predicts what it was not shown: metrics, hidden cells, options chosen by them."""

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
from .tuning import Tuned, tune

__all__ = [
    "Auc",
    "Check",
    "Tuned",
    "auc_mc",
    "binary_log_likelihood",
    "check",
    "class_log_likelihood",
    "coverage",
    "holdout",
    "normal_log_likelihood",
    "reliability",
    "rmse",
    "scores_table",
    "tune",
]
