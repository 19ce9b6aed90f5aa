"""Binary views: several yes/no columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Logistic
from ..cells import holds_only_zero_one, not_zero_one, observed_mask, read_numbers, refuse_cells, standardise
from ..coding import Coding, plain_names, unit_coding
from ..learned import NumberSummary
from .number_checks import refuse_empty, warn_constant
from .view import View, is_positive


@dataclass(frozen=True)
class Binary(View):
    """Several yes/no columns (0 / 1 / True / False / missing).

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`; the weight may be above 1.
    noise : float or "learned"
        Precision of the latent x around the factors: a fixed number, or learned as in the paper.
        A learned one is hardly told apart from the scale of x. A label tells x with a precision of at most 1/4 (its
        2λ), yet z hears x with this one: well below 1/4 no label counts for more than it says.
    """

    noise: float | str = 0.1

    likelihood = Logistic()
    mofa_likelihood = "bernoulli"

    @property
    def noise_model(self) -> float | str:
        return "view" if self.noise == "learned" else self.noise

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        return "only 0 / 1 / True / False" if holds_only_zero_one(frame) else None

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.noise != "learned" and not is_positive(self.noise):
            raise ValueError(f"view {name!r}: noise must be a positive number or 'learned', not {self.noise!r}.")

    def learn(self, frame: pd.DataFrame, name: str) -> NumberSummary:
        return NumberSummary.of(plain_names(frame.columns), self._read(frame, name))

    def make_coding(self, learned: NumberSummary, name: str) -> Coding:
        refuse_empty(learned, name)
        warn_constant(learned, name, (learned.mean == 0) | (learned.mean == 1))
        return unit_coding(learned.features, learned.n)

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        values = self._read(frame, name)
        target = standardise(values, np.zeros(values.shape[1]), np.ones(values.shape[1]), dtype)
        return CodedView(target, shrink_mask(observed_mask(values)))

    def _read(self, frame: pd.DataFrame, name: str) -> np.ndarray:
        remedy = "Code it as 0 / 1 / True / False / missing, or give it a Categorical view of its own."
        values = read_numbers(frame, name, text_remedy=remedy)
        remedy = "A binary view holds 0 / 1 / True / False / missing: recode it, or make it Real or Categorical."
        refuse_cells(frame, name, values, not_zero_one, "non-binary", remedy)
        return values

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        return values.astype(np.int64)
