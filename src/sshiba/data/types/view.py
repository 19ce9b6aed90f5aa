"""What a view is to the user: its options, and the way between the user's values and the model's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real as RealNumber
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...core.coded import CodedView
from ...core.likelihoods import Likelihood
from ..advice import DataTypeError, Problem, Remedy
from ..coding import Coding
from ..far_off import FarOff
from ..limits import Limits
from ..markers import USUAL, Meanings
from ..sparse_tables import SparseTable
from ..twins import TwinOptions


@dataclass(frozen=True)
class View(ABC):
    """Options shared by all view types.

    Parameters
    ----------
    select_features : bool
        Learn a relevance for each feature (the double ARD prior).
    groups : sequence, optional
        One label per feature; features of one label share one relevance. Needs `select_features`.
    weight : float
        Counts the view this many times.
    """

    select_features: bool = False
    groups: Sequence[Any] | None = None
    weight: float = 1.0

    latent: ClassVar[bool] = True  # is x inferred from what is observed, or is it the data?
    has_probabilities: ClassVar[bool] = True  # is what is predicted for a cell a probability of each label?
    takes_tensors: ClassVar[bool] = False  # can values be coded on the device where they are?
    takes_blocks: ClassVar[bool] = False  # can rows that were checked before be coded as one array?
    mofa_likelihood: ClassVar[str] = "gaussian"  # what MOFA would call it; of x itself where MOFA has nothing like it

    @abstractmethod
    def likelihood(self, coding: Coding) -> Likelihood:
        """Its mathematics, for data that are coded so."""

    @property
    @abstractmethod
    def noise_model(self) -> float | str:
        """How tau is known: learned per "feature" or per "view", or fixed to a number."""

    def held_noise(self, coding: Coding) -> np.ndarray | None:
        """Where tau is learned: the features whose tau is 1 all the same, (D,) bool; None: there are none."""
        return None

    @property
    def twin_options(self) -> TwinOptions | None:
        """How its kernel features are to be made; None: it has none."""
        return None

    def limits_of(self, columns: tuple) -> Limits:
        """The limits of measurement of these columns of it."""
        return Limits.of(None, columns)

    @property
    def named_limits(self) -> Mapping[Any, Any]:
        """Column -> its limits of measurement, where they are given by name."""
        return {}

    def outliers(self, frame: pd.DataFrame, name: str, coding: Coding) -> Mapping[int, FarOff]:
        """Place of a feature -> cells that look as if they meant missing, or may ruin a fit; none by default."""
        return {}

    def meanings(self, coding: Coding | None = None) -> Meanings:
        """What texts mean in its columns."""
        return USUAL

    @classmethod
    @abstractmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        """Why data of unknown type belong in such a view; None if they do not."""

    @abstractmethod
    def learn(self, frame: pd.DataFrame, name: str) -> Any:
        """Check the user's values, some rows of them, and sum them up: summaries of several chunks can be added."""

    @abstractmethod
    def make_coding(self, learned: Any, name: str) -> Coding:
        """How values are coded, from the summary of all training rows."""

    @abstractmethod
    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        """Check the user's values, some rows of them, and code them as `coding` says."""

    def encode_block(self, values: np.ndarray, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        """The same as `encode_again` of an array that nobody else has."""
        raise NotImplementedError

    def encode_again(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        """The same of rows that were checked when their coding was learned, and perhaps found to have no holes."""
        return self.encode(frame, name, coding, dtype)

    def without_sparse(self, value: Any, name: str) -> Any:
        """A sparse matrix as views of this type can have it."""
        what = f"view {name!r} is a sparse matrix, which cannot be {type(self).__name__}"
        raise DataTypeError(Problem(what, (Remedy.SPARSE_REAL, Remedy.LEAVE_OUT)))

    def learn_sparse(self, table: SparseTable, name: str) -> Any:
        """The same as `learn` of a sparse matrix, where it stays one."""
        raise NotImplementedError

    def encode_sparse(self, table: SparseTable, name: str, coding: Coding, dtype: Any) -> CodedView:
        """The same as `encode` of a sparse matrix, which stays one."""
        raise NotImplementedError

    def encode_tensor(self, tensor: Any, name: str, coding: Coding, dtype: Any) -> CodedView:
        """The same of numbers on a device, which stay there."""
        raise NotImplementedError

    def log_jacobian(self, view: CodedView, coding: Coding) -> np.ndarray:
        """Σ log scale over the observed cells of each row, (n,): log p(user's units) = log p(model's units) − this."""
        log_scale = np.log(coding.scale)
        if view.observed is None or view.observed.shape[1] == 1:
            seen = np.ones(view.n_rows) if view.observed is None else view.observed[:, 0]
            return seen * log_scale.sum()
        return view.observed @ log_scale

    @abstractmethod
    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        """Decided values in the model's units -> (n, columns) in the user's; floats only if means."""

    def decode_predicted(
        self, mean: np.ndarray, std: np.ndarray, coding: Coding, ends: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decided values with their standard deviations, both in the user's units.

        `ends`: of numbers that are known by an interval, where that begins and ends in the model's units, (n, D, 2).
        """
        return self.decode(mean, coding), std * (coding.scale if std.shape[1] == coding.width else 1.0)

    def features_of(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
        """The columns that are features, and what their cells mean."""
        return frame

    def measured(self, frame: pd.DataFrame, coding: Coding) -> pd.DataFrame:
        """What comes back of these columns: numbers as such, though other cells are such as <0.5."""
        return frame

    def advise(self, frame: pd.DataFrame, name: str) -> Problem | None:
        """Options that would suit the data better, where that is easily seen."""
        return None

    def at_limits(self, view: CodedView, coding: Coding) -> np.ndarray | None:
        """The cells that are at a limit, (n, D) bool; None where there are no limits."""
        return None

    def is_like(self, other: View) -> bool:
        """Is it of the same type with the same options?"""

        def options(view: View) -> list[Any]:
            groups = None if view.groups is None else list(view.groups)
            return [groups, *(getattr(view, option.name) for option in fields(view) if option.name != "groups")]

        return type(self) is type(other) and options(self) == options(other)

    def with_unseen(self, unseen: str) -> View:
        """The same, with labels that training never saw "missing" or an "error", where it has labels."""
        return self

    def check_options(self, name: str, n_features: int) -> None:
        """Raise a ValueError that names the view and the option that is wrong."""
        if not is_positive(self.weight):
            raise ValueError(f"view {name!r}: weight must be a positive number, not {self.weight!r}.")
        if self.groups is None:
            return
        if isinstance(self.groups, str | Mapping) or not isinstance(self.groups, Sequence | np.ndarray | pd.Index):
            raise TypeError(f"view {name!r}: groups must be a list of labels, one a feature, not {self.groups!r}.")
        if not self.select_features:
            raise ValueError(f"view {name!r}: groups share a relevance, so they need select_features=True.")
        if len(self.groups) != n_features:
            raise ValueError(
                f"view {name!r}: groups must have {n_features} labels, one a feature, not {len(self.groups)}."
            )


def is_positive(value: Any) -> bool:
    """Is this a positive, finite number?"""
    return isinstance(value, RealNumber) and not isinstance(value, bool) and 0 < float(value) < float("inf")
