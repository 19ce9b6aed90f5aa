"""Real views: columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...core.arrays import to_numpy
from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Gaussian, Likelihood
from ..advice import Remedy
from ..cells import observed_mask, read_numbers, refuse_cells, standardise
from ..coding import Coding, plain_names
from ..learned import NumberSummary
from ..sparse_tables import SparseTable, refuse_odd, refuse_stored, standardise_stored, summarise
from ..tensors import frames, standardise_there
from ..wording import first_few
from .number_checks import refuse_empty, warn_constant
from .view import View

LARGEST = 1e303  # still leaves room for sums of a hundred thousand
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
    has_probabilities = False
    takes_tensors = True
    takes_blocks = True

    def likelihood(self, coding: Coding) -> Likelihood:
        return Gaussian()

    @property
    def noise_model(self) -> float | str:
        return self.noise

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

    def learn(self, frame: pd.DataFrame, name: str) -> NumberSummary:
        return NumberSummary.of(plain_names(frame.columns), self._read(frame, name))

    def make_coding(self, learned: NumberSummary, name: str) -> Coding:
        """Centre each feature; scale each to unit variance, or all by one number."""
        refuse_empty(learned, name)
        mean, std, constant = learned.mean, learned.std, learned.constant
        warn_constant(learned, name, constant)
        size = np.where(mean == 0, 1.0, np.abs(mean))  # the only scale that a constant feature has
        if self.scale:
            scale = np.where(constant, size if constant.all() else np.median(std[~constant]), std)
        else:
            largest = (size if constant.all() else std).max()
            rms = 1.0 if constant.all() else np.sqrt(np.mean((std / largest) ** 2))
            scale = np.full(len(std), largest * rms)
            tiny = np.flatnonzero(~constant & (std < SMALLEST_SCALE * scale))
            if len(tiny):
                raise ValueError(
                    f"view {name!r}: {first_few(learned.features[d] for d in tiny)} vary by less than "
                    f"{SMALLEST_SCALE:g} of the typical feature, too little to be seen with scale=False. "
                    "Use scale=True, or drop them."
                )
        variance = np.where(constant, 1.0, (std / scale) ** 2)
        counts = tuple(learned.counts.tolist())
        return Coding(learned.features, learned.n, centre=mean, scale=scale, variance=variance, counts=counts)

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        values = self._read(frame, name)
        target = standardise(values, coding.centre, coding.scale, dtype)
        if target.size and max(float(target.max()), -float(target.min())) > FARTHEST:
            centre, scale = coding.centre, coding.scale
            far = f"far-off (over {FARTHEST:g} deviations)"
            refuse_cells(frame, name, values, lambda v: np.abs(v - centre) / scale > FARTHEST, far, Remedy.UNITS)
        return CodedView(target, shrink_mask(observed_mask(values)))

    def encode_again(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        values = read_numbers(frame, name, ())
        observed = None if complete else shrink_mask(observed_mask(values))
        return CodedView(standardise(values, coding.centre, coding.scale, dtype, complete), observed)

    def encode_block(self, values: np.ndarray, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        observed = None if complete else shrink_mask(observed_mask(values))
        return CodedView(standardise(values, coding.centre, coding.scale, dtype, complete, own=True), observed)

    def encode_tensor(self, tensor: Any, name: str, coding: Coding, dtype: Any) -> CodedView:
        target, observed = standardise_there(tensor, coding.centre, coding.scale, dtype)
        if not bool((abs(target) <= FARTHEST).all()):  # which cells they are, and what to do, is said on the host
            for frame in frames(tensor):
                self.encode(frame, name, coding, dtype)
        return CodedView(target, None if bool(observed.all()) else shrink_mask(to_numpy(observed)))

    def without_sparse(self, value: Any, name: str) -> Any:
        return value

    def learn_sparse(self, table: SparseTable, name: str) -> NumberSummary:
        refuse_odd(table, name, LARGEST)
        return summarise(table, plain_names(table.columns))

    def encode_sparse(self, table: SparseTable, name: str, coding: Coding, dtype: Any) -> CodedView:
        refuse_odd(table, name, LARGEST)
        target, farthest = standardise_stored(table, coding, dtype)
        if farthest > FARTHEST:
            centre, scale = coding.centre, coding.scale
            far = f"far-off (over {FARTHEST:g} deviations)"
            refuse_stored(table, name, lambda v, d: np.abs(v - centre[d]) / scale[d] > FARTHEST, far, Remedy.UNITS)
        return CodedView(target, None)

    def _read(self, frame: pd.DataFrame, name: str) -> np.ndarray:
        values = read_numbers(frame, name, (Remedy.MISSING, Remedy.LABELS, Remedy.LEAVE_OUT))
        refuse_cells(frame, name, values, np.isinf, "infinite", Remedy.INFINITE)
        far = f"far-off (beyond {LARGEST:g})"
        too_large = (Remedy.UNITS, Remedy.LEAVE_OUT)
        refuse_cells(frame, name, values, lambda cells: np.abs(cells) > LARGEST, far, *too_large)
        return values

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        return coding.centre + coding.scale * values.astype(np.float64)
