"""A classifier and a regressor: y is one more view of the same rows, and predicted from X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags, assert_all_finite, check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from ..data.telling import tell
from ..data.types import Binary, Categorical, Real
from ..fitted.candidates import ALL
from .table_model import OneTableModel, plain, with_nan

TARGET = "y (target)"  # the view that y is; no view of X is called so
TO_PREDICT = Real(noise="view")  # one noise for all columns of X, so that no factor is spent on one of them


@dataclass(kw_only=True, eq=False, repr=False)
class SupervisedModel(OneTableModel):
    """Defaults that predict y: all factors that explain anything, without a search."""

    keep: str | None = ALL
    search: Any = None

    _numbers = TO_PREDICT


@dataclass(kw_only=True, eq=False, repr=False)
class SSHIBAClassifier(ClassifierMixin, SupervisedModel):
    """A classifier for tables X with gaps, which also learns from rows without a label.

    All parameters but those below are those of `SSHIBA`. y may be 2-D: several labels of yes and no (0 / 1).
    scikit-learn's scorers refuse gaps in y (scores are NaN): give validation a scorer that leaves these rows out, and
    `cv=KFold(5, shuffle=True)`.

    Parameters
    ----------
    unlabelled : optional
        The value that means no label, such as -1. NaN, None and NA always do.
    views : mapping, optional
        View name -> its columns of X, or (columns, type).

    Attributes
    ----------
    model_ : SSHIBA
        The fitted model: factors, weights, report.
    classes_ : array, or list of arrays where y is 2-D
    """

    unlabelled: Any = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> SSHIBAClassifier:
        """Fit to rows of X and their labels y, (n,) or (n, labels); labels may be missing."""
        X = self._read_table(X, fitting=True)
        labels, absent = self._read_labels(y)
        check_consistent_length(X, labels)
        if labels.ndim == 2:
            self.classes_: Any = [np.array([0, 1])] * labels.shape[1]
            self._fit_model(X, {TARGET: (_yes_no(labels, absent), Binary())})
            return self
        self.classes_, codes = np.unique(labels[~absent], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has {len(self.classes_)} class(es), and a classifier needs more than one class.")
        coded = np.full(len(labels), np.nan)
        coded[~absent] = codes
        self._fit_model(X, {TARGET: (coded, Categorical())})
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of `classes_`, (n, classes); of several labels those of yes, (n, labels)."""
        views = self._views_of(X)
        return plain(self.model_.predict_proba(views, TARGET))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class; of several labels those that are more probable than not."""
        proba = self.predict_proba(X)
        if isinstance(self.classes_, list):
            return (proba > 0.5).astype(int)
        return self.classes_[np.argmax(proba, axis=1)]

    def _read_labels(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels, (n,) or (n, several), and which are missing."""
        if y is None:
            raise ValueError("This SSHIBAClassifier estimator requires y to be passed, but the target y is None.")
        if issparse(y):
            raise TypeError("Sparse data was passed for y, but dense data is required. Use '.toarray()' to convert.")
        labels = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            tell(
                "A column-vector y was passed when a 1d array was expected. Change the shape of y to (n_samples,), "
                "for example using ravel().",
                DataConversionWarning,
            )
            labels = labels[:, 0]
        if labels.ndim not in (1, 2):
            raise ValueError(f"y should be a 1d array, or 2d of several labels, got an array of shape {labels.shape}.")
        absent = np.asarray(pd.isna(labels))
        if self.unlabelled is not None:
            absent |= np.asarray(labels == self.unlabelled)
        known = labels[~absent]
        if len(known) == 0:
            raise ValueError("y has no label, and a classifier needs more than one class.")
        if known.dtype.kind == "O":
            known = np.array(known.tolist())
        assert_all_finite(known, input_name="y")
        check_classification_targets(known)
        return labels, absent


def _yes_no(labels: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Several labels as 0 and 1, NaN where missing."""
    values = np.where(absent, np.nan, labels).astype(np.float64)
    if not np.isin(values[~absent], (0, 1)).all():
        raise ValueError("y has several columns, which must be labels of yes and no: 0 and 1.")
    return values


@dataclass(kw_only=True, eq=False, repr=False)
class SSHIBARegressor(RegressorMixin, SupervisedModel):
    """A regressor for tables X with gaps, with standard deviations; it also learns from rows without a target.

    All parameters but those below are those of `SSHIBA`. y may have several columns, and NaN where a target is missing.

    Parameters
    ----------
    views : mapping, optional
        View name -> its columns of X, or (columns, type).

    Attributes
    ----------
    model_ : SSHIBA
        The fitted model: factors, weights, report.
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> SSHIBARegressor:
        """Fit to rows of X and their targets y, (n,) or (n, targets); NaN where a target is missing."""
        X = self._read_table(X, fitting=True)
        if y is None:
            raise ValueError("This SSHIBARegressor estimator requires y to be passed, but the target y is None.")
        y = check_array(with_nan(y), ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
        check_consistent_length(X, y)
        if y.ndim > 2:
            raise ValueError(f"y must be (n_samples,) or (n_samples, n_targets), not of shape {y.shape}.")
        self._is_vector = y.ndim == 1
        self._fit_model(X, {TARGET: (y[:, None] if y.ndim == 1 else y, Real())})
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Means, (n,) or (n, targets); with `return_std` also the standard deviations of what is predicted."""
        views = self._views_of(X)
        found = self.model_.predict(views, TARGET, return_std=True)
        mean, std = (plain(part)[:, 0] if self._is_vector else plain(part) for part in found)
        return (mean, std) if return_std else mean
