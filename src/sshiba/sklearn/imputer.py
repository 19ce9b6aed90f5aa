"""The gaps of a table filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ..data.border import library_of
from ..fitted.candidates import ALL, Candidate
from .table_model import OneTableModel


@dataclass(kw_only=True, eq=False, repr=False)
class SSHIBAImputer(TransformerMixin, OneTableModel):
    """Fill the gaps of a table from all other cells: numbers by means, labels by the most probable one.

    All parameters but those below are those of `SSHIBA`. A frame comes back as a frame, with its types and labels.

    Parameters
    ----------
    add_indicator : bool
        Add columns that say where gaps were, as `MissingIndicator` does, for columns with gaps at the fit.
    keep_empty_features : bool
        Columns without any value at the fit: fill numbers with 0 (others stay empty), or leave the columns out.
    sample_posterior : bool
        Draw filled values from their predictive distribution, for multiple imputation.
    views : mapping, optional
        View name -> its columns of X, or (columns, type).
    tol : float
        As in `SSHIBA`, but ten times as large: beyond that, filled values hardly change.
    keep, search
        By default all factors that explain anything, without a search: this fills gaps slightly better in half the
        time. For as few factors as possible, use `keep=None, search="auto"`.

    Attributes
    ----------
    model_ : SSHIBA
    indicator_ : MissingIndicator or None
    """

    add_indicator: bool = False
    keep_empty_features: bool = False
    sample_posterior: bool = False
    tol: float = 1e-6
    keep: str | None = ALL
    search: str | Sequence[Candidate] | None = None

    _takes_sparse = False

    def fit(self, X: Any, y: None = None) -> SSHIBAImputer:
        """Fit to rows of X; y is ignored."""
        table = self._read_table(X, fitting=True)
        self._fit_model(table)
        values = table.notna().to_numpy() if isinstance(table, pd.DataFrame) else ~np.isnan(table)
        self.is_empty_ = ~values.any(axis=0)
        self.indicator_ = MissingIndicator(error_on_new=False).fit(_gaps(table)) if self.add_indicator else None
        return self

    def transform(self, X: Any) -> Any:
        """X with its gaps filled."""
        check_is_fitted(self, "model_")
        table = self._read_table(X, fitting=False)
        filled = self.model_.impute(self.columns_.split(table), **self._how())
        out = self.columns_.put(filled[0] if self.sample_posterior else filled, table)
        kept = np.flatnonzero(self._kept)
        if not isinstance(out, pd.DataFrame):
            out[:, self.is_empty_] = 0.0
            out = out[:, kept]
            return out if self.indicator_ is None else np.hstack([out, self.indicator_.transform(_gaps(table))])
        for place in np.flatnonzero(self.is_empty_):
            column = out.iloc[:, int(place)]
            if pd.api.types.is_numeric_dtype(column.dtype):
                out.isetitem(int(place), column.fillna(0).array)
        out = out.iloc[:, kept]
        if self.indicator_ is not None:
            names = self.get_feature_names_out()[len(kept) :]
            gaps = self.indicator_.transform(_gaps(table))
            out = pd.concat([out, pd.DataFrame(gaps, columns=names)], axis=1)
        return self._in_kind(out, X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns of what `transform` returns."""
        check_is_fitted(self, "model_")
        names = _check_feature_names_in(self, input_features)
        out = names[self._kept]
        return out if self.indicator_ is None else np.concatenate([out, self.indicator_.get_feature_names_out(names)])

    @property
    def _kept(self) -> np.ndarray:
        """The columns that come back, (D,) bool."""
        return np.asarray(self.keep_empty_features | ~self.is_empty_)

    def _how(self) -> dict[str, Any]:
        if not self.sample_posterior:
            return {}
        seed = int(check_random_state(self.random_state).randint(2**31))
        return {"n_draws": 1, "random_state": seed}

    def _in_kind(self, out: pd.DataFrame, given: Any) -> Any:
        """In the library in which X came, rows called as there; or as `set_output` will make it another."""
        if isinstance(given, pd.DataFrame):
            return out.set_axis(given.index)
        if _get_output_config("transform", self)["dense"] != "default":
            return out
        library = library_of(given)
        assert library is not None
        return library.answer(out)


def _gaps(table: Any) -> np.ndarray:
    """NaN where a cell is missing, else 0."""
    return np.where(pd.isna(table), np.nan, 0.0)
