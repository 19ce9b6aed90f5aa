"""The factors of a table as new columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .table_model import OneTableModel, plain


@dataclass(kw_only=True, eq=False, repr=False)
class SSHIBATransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OneTableModel):
    """Replace the columns of X, which may have gaps, by `n_components_` factors, K.

    All parameters but those below are those of `SSHIBA`.

    Parameters
    ----------
    views : mapping, optional
        View name -> its columns of X, or (columns, type).

    Attributes
    ----------
    model_ : SSHIBA
        The fitted model: weights, variance explained, report.
    """

    def fit(self, X: Any, y: None = None) -> SSHIBATransformer:
        """Fit to rows of X; y is ignored."""
        table = self._read_table(X, fitting=True)
        self.is_frame_ = isinstance(table, pd.DataFrame)
        self._fit_model(table)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The factors of rows, (n, K)."""
        views = self._views_of(X)
        return plain(self.model_.transform(views))

    def inverse_transform(self, X: Any) -> Any:
        """Rows with these factors, (n, K): means, and the most probable labels; a frame where the fit was to one."""
        check_is_fitted(self, "model_")
        factors = check_array(X, ensure_min_features=0)
        if factors.shape[1] != self.n_components_:
            raise ValueError(f"X has {factors.shape[1]} factors, and the model {self.n_components_}.")
        nothing = np.full((len(factors), self.n_features_in_), np.nan)
        names = getattr(self, "feature_names_in_", None)
        table = pd.DataFrame(nothing, columns=names) if self.is_frame_ else nothing
        return self.columns_.put(self.model_.from_factors(factors), table)

    def score_samples(self, X: Any) -> np.ndarray:
        """A lower bound of log p of each row, (n,), in nats and the units of X."""
        views = self._views_of(X)
        return self.model_.score_samples(views)

    def score(self, X: Any, y: None = None) -> float:
        """The mean of `score_samples`."""
        return float(np.mean(self.score_samples(X)))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
