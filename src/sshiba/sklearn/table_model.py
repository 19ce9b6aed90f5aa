"""What the estimators for one table share: the settings of SSHIBA, and the way from X to views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.spec import Priors
from ..data.border import library_of
from ..data.types import Real
from ..estimator import SSHIBA
from ..fitted.candidates import Candidate
from ..fitting.loop import Progress
from .columns import ColumnViews

OWN_SETTINGS = ("views", "random_state")  # of SSHIBA that are not handed on as they are


@dataclass(kw_only=True, eq=False, repr=False)
class OneTableModel(BaseEstimator):
    """The settings of SSHIBA, and the way from X to views.

    Parameters
    ----------
    views : mapping, optional
        View name -> its columns, or (columns, type), or a type alone, as for `SSHIBA`; columns as `ColumnTransformer`
        takes them. Of arrays and sparse matrices "X" is the view of all columns that are not named. None: they are one
        view of numbers, frames are split by type.

    All others are those of `SSHIBA`.
    """

    views: Mapping[str, Any] | None = None
    n_components: int | None = None
    n_init: int = 1
    start: str = "principal"
    max_iter: int = 2000
    tol: float = 1e-7
    prune_tol: float = 1e-6
    missing: str = "exact"
    acceleration: str | None = "auto"
    priors: Priors | None = None
    keep: str | None = None
    search: str | Sequence[Candidate] | None = "auto"
    device: str | None = None
    engine: str = "auto"
    dtype: str = "float64"
    random_state: Any = None
    n_jobs: int | None = None
    callback: Callable[[Progress], object] | None = None
    max_time: float | None = None
    max_memory: str | float | None = None
    verbose: int = 0

    _takes_sparse: ClassVar[bool] = True
    _numbers: ClassVar[Real] = Real()  # the type of views of numbers that are not named

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._takes_sparse
        return tags

    @property
    def n_iter_(self) -> int:
        """Sweeps of the fit."""
        check_is_fitted(self, "model_")
        return self.model_.n_iter_

    @property
    def n_components_(self) -> int:
        """The factors that were kept."""
        check_is_fitted(self, "model_")
        return self.model_.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _fit_model(self, X: Any, target: Mapping[str, tuple[Any, Any]] | None = None) -> SSHIBA:
        """Fit SSHIBA to the views of X, which was read, and to views beside it: name -> (values, type)."""
        self.columns_ = ColumnViews.of(X, self.views, self._numbers)
        target = target or {}
        views = self.columns_.split(X) | {name: values for name, (values, _) in target.items()}
        types = self.columns_.types | {name: view for name, (_, view) in target.items()}
        names = [setting.name for setting in fields(OneTableModel) if setting.name not in OWN_SETTINGS]
        settings = {name: getattr(self, name) for name in names}
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31))
        self.model_ = SSHIBA(views=types, random_state=seed, **settings).fit(views)
        return self.model_

    def _read_table(self, X: Any, *, fitting: bool) -> Any:
        """X checked as scikit-learn checks it: an array of floats, a sparse matrix, or a frame of pandas.

        Rows are matched by their place, so what a frame calls them is forgotten.
        """
        library, X = library_of(X), with_nan(X)
        least = 2 if fitting else 1
        if library is None:
            return validate_data(
                self,
                X,
                reset=fitting,
                accept_sparse=("csr", "csc") if self._takes_sparse else False,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                ensure_min_samples=least,
            )
        validate_data(self, X, reset=fitting, skip_check_array=True)
        frame = library.to_pandas(X, "X")
        if frame.ndim != 2:
            raise ValueError("Expected a 2-dimensional container, a table, but got one column instead.")
        for size, least_size, what in ((len(frame), least, "sample"), (frame.shape[1], 1, "feature")):
            if size < least_size:
                found = f"Found a table with {size} {what}(s) (shape={frame.shape})"
                raise ValueError(f"{found} while a minimum of {least_size} is required by {type(self).__name__}.")
        return frame.reset_index(drop=True)

    def _views_of(self, X: Any) -> dict[str, Any]:
        """The views of new rows."""
        check_is_fitted(self, "model_")
        return self.columns_.split(self._read_table(X, fitting=False))


def with_nan(given: Any) -> Any:
    """An array of objects with NaN where a cell is missing, be it None or pandas' NA; anything else as it is."""
    is_objects = isinstance(given, np.ndarray) and given.dtype == object
    return np.where(pd.isna(given), np.nan, given) if is_objects else given


def plain(found: Any) -> np.ndarray:
    """An answer of SSHIBA as an array."""
    return np.asarray(found)
