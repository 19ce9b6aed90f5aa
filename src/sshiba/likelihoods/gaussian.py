"""Real views: x is the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..cells import (
    count_observed,
    is_constant,
    moments,
    observed_cells,
    read_numbers,
    refuse_cells,
    standardise,
    warn_constant,
)
from ..coding import Coding, ViewData, first_few, plain_names, shrink_mask
from ..special import array_namespace
from ..state import Array, LatentX
from .base import PredictiveX, View

FARTHEST = 1e30  # deviations; float32 still holds them
SMALLEST_SCALE = 1e-6  # of the typical feature, below which unscaled ones drown


@dataclass(frozen=True)
class Real(View):
    """Columns of numbers.

    Parameters
    ----------
    select_features : bool
        Learn a relevance for each feature (the double ARD prior).
    groups : sequence, optional
        One label per feature; features of one label share one relevance.
    weight : float
        Counts the view this many times, at most once for a real view.
    scale : bool
        Give each feature unit variance. If False the whole view is divided by one number, so that the
        features keep their relative scales.
    noise : "feature" or "view"
        One noise precision per feature, or one for the view (the paper's).
    """

    scale: bool = True
    noise: str = "feature"

    latent = False

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        return "numbers"

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.noise not in ("feature", "view"):
            raise ValueError(f"view {name!r}: noise must be 'feature' or 'view', not {self.noise!r}.")
        if self.weight > 1:
            raise ValueError(
                f"view {name!r}: weight {self.weight:g} on a real view equals {self.weight:g} exact copies "
                "of it, and its noise precision would run away. Lower the weights of the other views instead."
            )

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding | None, dtype: Any) -> tuple[ViewData, Coding]:
        values = read_numbers(frame, name, text_remedy="Give it a Categorical view of its own, or drop it.")
        remedy = "Replace them with NaN to treat them as missing."
        refuse_cells(frame, name, values, np.isinf, "infinite", remedy)
        observed = observed_cells(values)
        if coding is None:
            coding = self._learn_coding(frame, name, values, observed)
        target = standardise(values, coding.centre, coding.scale, dtype)
        if target.size and max(float(target.max()), -float(target.min())) > FARTHEST:
            remedy = f"They lie more than {FARTHEST:g} deviations from the training data: check their units."
            centre, scale = coding.centre, coding.scale
            refuse_cells(frame, name, values, lambda v: np.abs(v - centre) / scale > FARTHEST, "far-off", remedy)
        return ViewData(target, shrink_mask(observed)), coding

    def _learn_coding(self, frame: pd.DataFrame, name: str, values: np.ndarray, observed: np.ndarray) -> Coding:
        """Centre each feature; scale each to unit variance, or all by one number."""
        n_observed = count_observed(frame, name, observed)
        mean, std = moments(values, n_observed)
        constant = is_constant(mean, std)
        warn_constant(frame, name, constant)
        size = np.where(mean == 0, 1.0, np.abs(mean))  # the only scale that a constant feature has
        if self.scale:
            scale = np.where(constant, size if constant.all() else np.median(std[~constant]), std)
        else:
            largest = (size if constant.all() else std).max()
            rms = 1.0 if constant.all() else np.sqrt(np.mean((std / largest) ** 2))
            scale = np.full(len(std), largest * rms)
            tiny = ~constant & (std < SMALLEST_SCALE * scale)
            if tiny.any():
                raise ValueError(
                    f"view {name!r}: {first_few(frame.columns[tiny])} vary by less than {SMALLEST_SCALE:g} of the "
                    "typical feature, too little to be seen with scale=False. Use scale=True, or drop them."
                )
        variance = np.where(constant, 1.0, (std / scale) ** 2)
        return Coding(plain_names(frame.columns), n_observed, centre=mean, scale=scale, variance=variance)

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        return coding.centre + coding.scale * values.astype(np.float64)

    @property
    def noise_model(self) -> float | str:
        return self.noise

    def update_x(self, target: Array, y: Array, tau: Array, old: LatentX | None) -> LatentX:
        xp = array_namespace(y)
        x = xp.astype(target, y.dtype)
        return LatentX(x, x**2, xp.zeros_like(x[:, :1]))

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        return x.mean, array_namespace(x.mean).sqrt(x.var)

    def decide(self, values: np.ndarray) -> np.ndarray:
        return values

    def emit(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return x
