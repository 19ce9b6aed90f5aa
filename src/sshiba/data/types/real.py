"""Real views: columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...core.arrays import to_numpy
from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Censored, Gaussian, Likelihood
from ..advice import Remedy
from ..cells import observed_mask, read_numbers, refuse_cells, standardise
from ..coding import Coding, plain_names
from ..learned import NumberSummary
from ..limits import Limits, as_intervals, beyond, check_limits, plain_limits
from ..sparse_tables import SparseTable, dense_if_small, refuse_odd, refuse_stored, standardise_stored, summarise
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
    limits : pair, or mapping of column to pair, optional
        The lower and the upper limit of what could be measured, None where there is none: limits of detection, or times
        that were still running. A value at a limit, or beyond it, is known only to lie there or farther out. In the
        place of a number the name of another column of the view may stand, which has the limit of each row (missing:
        none), and is then no feature. Predictions are of the quantity itself; `impute(beyond_limits=True)` also
        replaces values at a limit. With no training value at a limit the view is one without limits.
    """

    scale: bool = True
    noise: str = "feature"
    limits: Any = None

    latent = False
    takes_tensors = True
    takes_blocks = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", plain_limits(self.limits))

    def likelihood(self, coding: Coding) -> Likelihood:
        return Censored(Limits.of(self.limits, coding.read_columns).limited) if coding.at_limits else Gaussian()

    @property
    def noise_model(self) -> float | str:
        return self.noise

    def held_noise(self, coding: Coding) -> np.ndarray | None:
        """Where all values are at a limit nothing tells the scale of x."""
        if not coding.at_limits:
            return None
        return np.asarray(coding.at_limits) == coding.observed_per_feature

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
        if self.limits is None:
            return NumberSummary.of(plain_names(frame.columns), self._read(frame, name))
        columns = pd.Index(plain_names(frame.columns), dtype=object)
        check_limits(self.limits, columns, name)
        limits = Limits.of(self.limits, tuple(columns))
        values = self._read(frame[list(limits.features)], name)
        lower, upper = limits.edges(frame, name)
        at_limits = sum(side.sum(axis=0) for side in beyond(values, lower, upper))
        learned = NumberSummary.of(limits.features, np.clip(values, lower, upper))
        return replace(learned, at_limits=at_limits, beside=limits.beside)

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
        coding = Coding(learned.features, learned.n, centre=mean, scale=scale, variance=variance, counts=counts)
        at_limits = tuple(learned.at_limits.tolist()) if learned.at_limits is not None else ()
        return replace(coding, at_limits=at_limits if any(at_limits) else (), beside=learned.beside)

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        features = frame[list(coding.features)] if coding.beside else frame
        values = self._read(features, name)
        target = standardise(values, coding.centre, coding.scale, dtype)
        if target.size and max(float(target.max()), -float(target.min())) > FARTHEST:
            centre, scale = coding.centre, coding.scale
            far = f"far-off (over {FARTHEST:g} deviations)"
            refuse_cells(features, name, values, lambda v: np.abs(v - centre) / scale > FARTHEST, far, Remedy.UNITS)
        cells = self._with_limits(values, target, coding, self._edges(frame, name, coding))
        return CodedView(cells, shrink_mask(observed_mask(values)))

    def encode_again(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        values = read_numbers(frame[list(coding.features)] if coding.beside else frame, name, ())
        observed = None if complete else shrink_mask(observed_mask(values))
        target = standardise(values, coding.centre, coding.scale, dtype, complete)
        return CodedView(self._with_limits(values, target, coding, self._edges(frame, name, coding)), observed)

    def encode_block(self, values: np.ndarray, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        observed, own = None if complete else shrink_mask(observed_mask(values)), not coding.at_limits
        target = standardise(values, coding.centre, coding.scale, dtype, complete, own)
        return CodedView(self._with_limits(values, target, coding, self._edges(pd.DataFrame(), "", coding)), observed)

    def encode_tensor(self, tensor: Any, name: str, coding: Coding, dtype: Any) -> CodedView:
        target, observed = standardise_there(tensor, coding.centre, coding.scale, dtype)
        if not bool((abs(target) <= FARTHEST).all()):  # which cells they are, and what to do, is said on the host
            for frame in frames(tensor):
                self.encode(frame, name, coding, dtype)
        cells = self._with_limits(tensor, target, coding, self._edges(pd.DataFrame(), name, coding))
        return CodedView(cells, None if bool(observed.all()) else shrink_mask(to_numpy(observed)))

    def _edges(self, frame: pd.DataFrame, name: str, coding: Coding) -> tuple[np.ndarray, np.ndarray] | None:
        return Limits.of(self.limits, coding.read_columns).edges(frame, name) if coding.at_limits else None

    def _with_limits(
        self, values: Any, target: Any, coding: Coding, edges: tuple[np.ndarray, np.ndarray] | None
    ) -> Any:
        """Coded values, or, where some of training were at a limit, where x lies."""
        if edges is None:
            return target
        lower, upper = ((edge - coding.centre) / coding.scale for edge in edges)
        return as_intervals(target, beyond(values, *edges), lower, upper)

    def log_jacobian(self, view: CodedView, coding: Coding) -> float:
        """Values at a limit have a probability, not a density, whatever the units."""
        unknown = self.likelihood(coding).unknown(view.target)
        at_limits = 0.0 if unknown is None else float(to_numpy(unknown).sum(axis=0) @ np.log(coding.scale))
        return super().log_jacobian(view, coding) - at_limits

    def without_sparse(self, value: Any, name: str) -> Any:
        return value if self.limits is None else dense_if_small(value, name, "Real with limits")

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
