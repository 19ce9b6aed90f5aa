"""What a view is: the options a user sets, and the five things its likelihood knows how to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real as RealNumber
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..coding import Coding, ViewData
from ..special import array_namespace
from ..state import Array, LatentX

CONFIDENT = 2.5  # how far from 0 the latent x of a target lies at the start


@dataclass(frozen=True)
class PredictiveX:
    """The predictive distribution of x on n rows, its variance in parts.

    x = mean + z_factor u + own + noise, u ~ N(0, I): `z_factor` (n or 1, D, K) is what the uncertainty of z
    does to all features together; `own_var` (n, D) comes from W and b and is independent between features.
    """

    mean: Array  # (n, D)
    z_factor: Array  # (n or 1, D, K)
    own_var: Array  # (n, D)
    noise_var: Array  # (D,)

    @property
    def var(self) -> Array:
        xp = array_namespace(self.mean)
        return xp.sum(self.z_factor**2, axis=-1) + self.own_var + self.noise_var

    def sharpened(self, c: float) -> PredictiveX:
        """With c·W and c·b."""
        return replace(self, mean=c * self.mean, z_factor=c * self.z_factor, own_var=c**2 * self.own_var)


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

    latent: ClassVar[bool]  # is x to be inferred, or is it the data?
    needs_sharpness: ClassVar[bool] = False  # are its probabilities too cautious as the bound leaves them?
    mofa_likelihood: ClassVar[str] = "gaussian"  # what MOFA would call it; of x itself where MOFA has nothing like it

    @classmethod
    @abstractmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        """Why data of unknown type belong in such a view; None if they do not."""

    @abstractmethod
    def encode(self, frame: pd.DataFrame, name: str, coding: Coding | None, dtype: Any) -> tuple[ViewData, Coding]:
        """Check the user's values and code them as `coding` says, or, in training, learn it (None)."""

    @abstractmethod
    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        """Decided values in the model's units -> (n, columns) in the user's; floats only if means."""

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

    @property
    @abstractmethod
    def noise_model(self) -> float | str:
        """How tau is known: learned per "feature" or per "view", or fixed to a number."""

    @abstractmethod
    def update_x(self, target: Array, y: Array, tau: Array, old: LatentX | None) -> LatentX:
        """q(x) given the target, <zWᵀ + b> and <tau>, as if nothing were missing; `old` is None at the start."""

    def start_y(self, target: Array, zeros: Array) -> Array:
        """The predictor of a model that already knows the target; `zeros` is of its shape, (n, D)."""
        return zeros

    @abstractmethod
    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """What the user is told: means or probabilities, and standard deviations."""

    @abstractmethod
    def decide(self, values: np.ndarray) -> np.ndarray:
        """From `predict`'s values to one value per cell: the mean, 0 / 1, the class code."""

    @abstractmethod
    def emit(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw what is observed given x, in the form that `decide` returns."""

    def empty_target(self, n: int, width: int) -> np.ndarray:
        """The target of n rows of which nothing was observed."""
        return np.zeros((n, width))


def is_positive(value: Any) -> bool:
    """Is this a positive, finite number?"""
    return isinstance(value, RealNumber) and not isinstance(value, bool) and 0 < float(value) < float("inf")
