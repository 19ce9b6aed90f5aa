"""Estimators for one table X, and y, that stand where scikit-learn's stand: in pipelines, searches, validation."""

from .imputer import SSHIBAImputer
from .supervised import SSHIBAClassifier, SSHIBARegressor
from .transformer import SSHIBATransformer

__all__ = ["SSHIBAClassifier", "SSHIBAImputer", "SSHIBARegressor", "SSHIBATransformer"]
