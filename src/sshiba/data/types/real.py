"""Real views: columns of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...core.arrays import array_namespace, like, to_numpy
from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Censored, Gaussian, Likelihood
from ...core.streamed import join_views
from ..advice import DataError, Problem, Remedy
from ..cells import TEXT_IN_NEW_ROWS, TEXT_IN_TRAINING, observed_mask, read_numbers, refuse_cells, standardise
from ..coding import Coding, plain_names
from ..far_off import FarOff, far_off
from ..learned import NumberSummary
from ..limits import Edges, Limits, as_intervals, beyond, check_limits, count, plain_limits, read_beyond, read_measured
from ..margin_choice import (
    MarginSummary,
    asked_margins,
    check_margin,
    choose_margins,
    gain_per_cell,
    plain_margin,
    summary_of,
)
from ..margins import DOMAINS, transform
from ..sparse_tables import SparseTable, dense_if_small, refuse_odd, refuse_stored, standardise_stored, summarise
from ..tensors import frames, standardise_there
from ..twins import LANDMARKS, TwinOptions, check_kernel
from ..wording import counted, first_few, quoted
from .number_checks import refuse_empty, warn_constant
from .view import View

LARGEST = 1e303  # still leaves room for sums of a hundred thousand
FARTHEST = 1e30  # deviations; float32 still holds them
MOST_CELLS = 2_000_000  # that are looked at for advice
WORTH_SAYING = 0.1  # nats a cell by which a column is likelier on another scale
FEW_COUNTS = 20  # the largest of whole numbers that are taken for counts, though none of them is 0
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
        The lower and the upper limit of measurement, None where there is none: limits of detection, or censoring times.
        Of a value at or beyond a limit the model only knows that it lies there or farther out. The name of another
        column of the view in place of a number means that this column has the limit of each row (missing: none); it is
        then not a feature. Texts such as "<0.5" are at the limit that they name, which their column must have; `impute`
        gives numbers that stand as text beside them as numbers.
        Predictions are of the quantity itself; `impute(beyond_limits=True)` also replaces values at a limit. If no
        training value is at a limit, the view has no limits, and new values beyond a limit count as that limit.
    margin : "log", "logit", "box-cox", "auto" or "normal", or mapping of column to one, optional
        The scale on which a column is nearly normal: its logarithm, that of its odds (shares between 0 and 1), a power
        from 0 to 2 found by maximum likelihood, or what makes the column likeliest of these and none at all ("auto").
        "normal" are the normal scores of its ranks: what is predicted stays within the values seen, and
        `score` has no density to count. Predictions come back in the units of the data; weights, biases and noise are
        those of the transformed column. `margins_` says what was chosen.
    guess : "mean" or "median"
        What is predicted with a margin: the mean, which minimises the squared error, or the median, which minimises the
        absolute error.
    kernel : str or callable, optional
        Adds kernel features of the view, its "twin", so that other views may depend on it nonlinearly: "rbf", any other
        kernel of scikit-learn by its name, or a function of two rows. The features are similarities to landmarks among
        the training rows. The twin shows only in `r2_` and the report, as "x (rbf)". A model with a function cannot be
        saved.
    kernel_params : mapping, optional
        Parameters of the kernel, of columns in standard deviations; without gamma the width is found on hidden cells.
    landmarks : int
        The most landmarks.
    """

    scale: bool = True
    noise: str = "feature"
    limits: Any = None
    margin: Any = None
    guess: str = "mean"
    kernel: Any = None
    kernel_params: Any = None
    landmarks: int = LANDMARKS

    latent = False
    has_probabilities = False
    takes_tensors = True
    takes_blocks = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", plain_limits(self.limits))
        object.__setattr__(self, "margin", plain_margin(self.margin))

    def likelihood(self, coding: Coding) -> Likelihood:
        if not coding.has_intervals:
            return Gaussian()
        limited = self.limits_of(coding.read_columns).limited
        tied = [margin.ties for margin in coding.margins] or [False] * len(limited)
        return Censored(tuple(a or b for a, b in zip(limited, tied)))

    @property
    def noise_model(self) -> float | str:
        return self.noise

    def held_noise(self, coding: Coding) -> np.ndarray | None:
        """Where all values are at a limit, or are one of two ranks, nothing tells the scale of x."""
        if not coding.has_intervals:
            return None
        at_limits = np.asarray(coding.at_limits or [-1] * coding.width)
        two = [margin.kind == "normal" and margin.n_values <= 2 for margin in coding.margins]
        return (at_limits == coding.observed_per_feature) | np.array(two or [False] * coding.width)

    @property
    def twin_options(self) -> TwinOptions | None:
        return None if self.kernel is None else TwinOptions(self.kernel, self.kernel_params, self.landmarks)

    def limits_of(self, columns: tuple) -> Limits:
        return Limits.of(self.limits, columns)

    @property
    def named_limits(self) -> Mapping[Any, Any]:
        return self.limits if isinstance(self.limits, dict) else {}

    def outliers(self, frame: pd.DataFrame, name: str, coding: Coding) -> Mapping[int, FarOff]:
        """Of each column on the scale of its margin, where it has one; a limit is none."""
        limits, asked = self.limits_of(coding.read_columns), asked_margins(self.margin, coding.features)
        values = read_numbers(self.features_of(frame, name), name, ())
        return {
            place: replace(own, may_be_skewed=asked[place] is None)
            for place, own in far_off(values, coding.margins).items()
            if not set(own.values) & set(limits.pairs[place])
        }

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        return "numbers"

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.noise not in ("feature", "view"):
            raise ValueError(f"view {name!r}: noise must be 'feature' or 'view', not {self.noise!r}.")
        if self.guess not in ("mean", "median"):
            raise ValueError(f"view {name!r}: guess must be 'mean' or 'median', not {self.guess!r}.")
        check_kernel(self.kernel, self.kernel_params, name)
        if isinstance(self.landmarks, bool) or not isinstance(self.landmarks, int | np.integer) or self.landmarks < 2:
            raise ValueError(f"view {name!r}: landmarks must be a whole number of 2 or more, not {self.landmarks!r}.")
        if self.weight > 1:
            raise ValueError(
                f"view {name!r}: weight {self.weight:g} on a real view equals {self.weight:g} exact copies "
                "of it, and its noise precision would run away. Lower the weights of the other views instead."
            )

    def learn(self, frame: pd.DataFrame, name: str) -> NumberSummary | MarginSummary:
        if self.limits is None and self.margin is None:
            return NumberSummary.of(plain_names(frame.columns), self._read(frame, name, TEXT_IN_TRAINING))
        columns = pd.Index(plain_names(frame.columns), dtype=object)
        check_limits(self.limits, columns, name)
        limits = self.limits_of(tuple(columns))
        values = self._read(self.features_of(frame, name), name, TEXT_IN_TRAINING)
        edges = limits.edges(frame, name)
        sides, past = beyond(values, *edges), count(beyond(values, *edges, but_at=True))
        values = np.clip(values, *edges)
        learned = NumberSummary.of(limits.features, values)
        if self.limits is not None:
            learned = replace(learned, at_limits=count(sides), past_limits=past, beside=limits.beside)
        check_margin(self.margin, limits.features, name, limits.limited)
        asked = asked_margins(self.margin, limits.features)
        return MarginSummary.of(learned, values, sides, asked) if any(asked) else learned

    def make_coding(self, learned: NumberSummary | MarginSummary, name: str) -> Coding:
        """Find the margins, centre each feature; scale each to unit variance, or all by one number."""
        if isinstance(learned, NumberSummary):
            return self._standard_coding(learned, name).with_ends(learned.least, learned.largest)
        refuse_empty(learned.raw, name)
        margins, refused = choose_margins(learned)
        if refused:
            d, kind = refused[0]
            what = (
                f"view {name!r}: column {quoted(learned.raw.features[d])} cannot have the margin {kind!r}, which is of"
            )
            raise DataError(Problem(f"{what} {DOMAINS[kind]}", (Remedy.MISSING, Remedy.OTHER_MARGIN)))
        coding = self._standard_coding(summary_of(learned, margins), name)
        margins = margins if any(margin.kind != "none" for margin in margins) else []
        return replace(coding, margins=tuple(margins)).with_ends(learned.raw.least, learned.raw.largest)

    def _standard_coding(self, learned: NumberSummary, name: str) -> Coding:
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
        limits = self.limits_of((*learned.features, *learned.beside))
        above_zero = tuple(self._above_zero(learned, limits))
        coding = Coding(learned.features, learned.n, centre=mean, scale=scale, variance=variance, above_zero=above_zero)
        at_limits: tuple = ()
        if learned.at_limits is not None and learned.past_limits is not None:
            limits.warn_odd(name, learned.at_limits, learned.past_limits)
            at_limits = tuple(learned.at_limits.sum(axis=0).tolist())
        return replace(coding, at_limits=at_limits if any(at_limits) else (), beside=learned.beside)

    def _above_zero(self, learned: NumberSummary, limits: Limits) -> Iterator[str | None]:
        """As `Coding.above_zero`; None where values lie below 0, or, at a limit of 0, may do so."""
        asked = asked_margins(self.margin, learned.features)
        columns = zip(asked, limits.limited, learned.least, learned.largest, learned.whole)
        for margin, limited, least, largest, whole in columns:
            if least < 0 or (least == 0 and limited):
                yield None
            elif whole and not limited and (least == 0 or largest <= FEW_COUNTS):
                yield "count"
            elif least == 0:
                yield "normal"
            else:
                yield "auto" if margin is None else "log"

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        features = self.features_of(frame, name)
        values = self._read(features, name, TEXT_IN_NEW_ROWS)
        edges = self._edges(frame, name, coding)
        self._refuse_outside(features, name, values, edges, coding)
        target = self._code(values, coding, dtype, edges)
        if (
            not coding.margins
            and target.size
            and np.max(np.abs(target), where=np.isfinite(target), initial=0) > FARTHEST
        ):
            centre, scale = coding.centre, coding.scale
            far = f"far-off (over {FARTHEST:g} deviations)"
            refuse_cells(features, name, values, lambda v: np.abs(v - centre) / scale > FARTHEST, far, Remedy.UNITS)
        return CodedView(target, shrink_mask(observed_mask(values)))

    def encode_again(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        values = read_numbers(self.features_of(frame, name), name, ())
        observed = None if complete else shrink_mask(observed_mask(values))
        return CodedView(self._code(values, coding, dtype, self._edges(frame, name, coding), complete), observed)

    def encode_block(self, values: np.ndarray, coding: Coding, dtype: Any, complete: bool) -> CodedView:
        observed = None if complete else shrink_mask(observed_mask(values))
        edges = self._edges(pd.DataFrame(), "", coding)
        return CodedView(self._code(values, coding, dtype, edges, complete, own=True), observed)

    def encode_tensor(self, tensor: Any, name: str, coding: Coding, dtype: Any) -> CodedView:
        if coding.margins or self.limits is not None:  # coded on the host, some rows at a time
            parts = [self.encode(frame, name, coding, dtype) for frame in frames(tensor)]
            whole = join_views(parts)
            xp = array_namespace(tensor)
            return CodedView(xp.astype(like(whole.target, tensor), getattr(xp, dtype)), whole.observed)
        target, observed = standardise_there(tensor, coding.centre, coding.scale, dtype)
        if not bool((abs(target) <= FARTHEST).all()):  # which cells they are, and what to do, is said on the host
            for frame in frames(tensor):
                self.encode(frame, name, coding, dtype)
        return CodedView(target, None if bool(observed.all()) else shrink_mask(to_numpy(observed)))

    def _edges(self, frame: pd.DataFrame, name: str, coding: Coding) -> Edges | None:
        return self.limits_of(coding.read_columns).edges(frame, name) if self.limits is not None else None

    def _code(
        self,
        values: np.ndarray,
        coding: Coding,
        dtype: Any,
        edges: Edges | None,
        complete: bool = False,
        own: bool = False,
    ) -> np.ndarray:
        """Standardised values, transformed where columns have a margin; where some cells are known by an interval its
        ends, (n, D, 2).
        """
        centre, scale = coding.centre, coding.scale
        if edges is not None and not coding.at_limits:  # training met no limit, and knows no values beyond one
            values, edges = np.clip(values, *edges), None
        if not coding.margins and not coding.has_intervals:
            return standardise(values, centre, scale, dtype, complete, own)
        low = high = values
        sides = None if edges is None else beyond(values, *edges)
        if coding.margins:
            low, high = transform(values if edges is None else np.clip(values, *edges), coding.margins)
            if edges is not None:
                edges = transform(edges[0], coding.margins)[0], transform(edges[1], coding.margins)[0]
        target = standardise(low, centre, scale, dtype, complete)
        if not coding.has_intervals:
            return target
        end = target if high is low else standardise(high, centre, scale, dtype, complete)
        if edges is None or sides is None:
            return np.stack([target, end], axis=-1)
        lower, upper = ((side - centre) / scale for side in edges)
        return as_intervals(target, end, sides, lower, upper)

    def _refuse_outside(
        self, features: pd.DataFrame, name: str, values: np.ndarray, edges: Edges | None, coding: Coding
    ) -> None:
        """Values that the margin of their column cannot have."""
        for d, margin in enumerate(coding.margins):
            if margin.kind in ("none", "normal"):
                continue
            side = (slice(None), slice(d, d + 1))
            cells = values[side] if edges is None else np.clip(values[side], edges[0][side], edges[1][side])
            refuse_cells(
                *(features.iloc[:, d : d + 1], name, cells, lambda own, m=margin: ~m.allowed(own)),
                f"impossible (margin {str(margin)!r} is of {DOMAINS[margin.kind]})",
                *(Remedy.MISSING, Remedy.OTHER_MARGIN),
            )

    def advise(self, frame: pd.DataFrame, name: str) -> Problem | None:
        """Columns that are clearly likelier on another scale."""
        if self.margin is not None or frame.size > MOST_CELLS:
            return None
        learned = replace(self, margin="auto").learn(frame, name)
        assert isinstance(learned, MarginSummary)
        margins = choose_margins(learned)[0]
        gains = gain_per_cell(learned, margins)
        skewed = [feature for feature, gain in zip(learned.raw.features, gains) if gain > WORTH_SAYING]
        if not skewed:
            return None
        columns = f"{counted(len(skewed), 'column')} ({first_few(skewed, 5)})"
        verb = "is" if len(skewed) == 1 else "are"
        return Problem(f"view {name!r}: {columns} {verb} nearer to normal on another scale", (Remedy.MARGIN,))

    def at_limits(self, view: CodedView, coding: Coding) -> np.ndarray | None:
        if not coding.at_limits:
            return None
        limited = np.array(self.limits_of(coding.read_columns).limited)
        return to_numpy(self.likelihood(coding).unknown(view.target)) & limited

    def log_jacobian(self, view: CodedView, coding: Coding) -> np.ndarray:
        """Values at a limit have a probability, not a density, whatever the units; margins have a slope."""
        at_limits = self.at_limits(view, coding)
        total = super().log_jacobian(view, coding)
        total = total if at_limits is None else total - at_limits @ np.log(coding.scale)
        if not coding.margins:
            return total
        ranked = [feature for feature, margin in zip(coding.features, coding.margins) if not margin.has_density]
        if ranked:
            what = f"margin='normal' ({first_few(ranked)}) has ranks, and no density, so there is no score"
            raise ValueError(f"{what}. Score a model with another margin.")
        target = to_numpy(view.target if view.target.ndim == 2 else view.target[..., 0])
        densities = view.seen_cells if at_limits is None else view.seen_cells & ~at_limits
        for d, margin in enumerate(coding.margins):
            rows = np.flatnonzero(densities[:, d])
            total[rows] -= margin.log_slope(coding.centre[d] + coding.scale[d] * target[rows, d].astype(np.float64))
        return total

    def without_sparse(self, value: Any, name: str) -> Any:
        plain = self.limits is None and self.margin is None and self.kernel is None
        return value if plain else dense_if_small(value, name, "Real with limits, a margin or a kernel")

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

    def features_of(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
        """The columns that are features, and cells such as <0.5 of them as the limits that they name."""
        if self.limits is None:
            return frame
        limits = self.limits_of(plain_names(frame.columns))
        frame = read_beyond(frame, limits, name)
        return frame[list(limits.features)] if limits.beside else frame

    def measured(self, frame: pd.DataFrame, coding: Coding) -> pd.DataFrame:
        return frame if self.limits is None else read_measured(frame, self.limits_of(coding.read_columns))

    def _read(self, frame: pd.DataFrame, name: str, text_remedies: tuple[Remedy, ...]) -> np.ndarray:
        values = read_numbers(frame, name, text_remedies)
        refuse_cells(frame, name, values, np.isinf, "infinite", Remedy.INFINITE)
        far = f"far-off (beyond {LARGEST:g})"
        too_large = (Remedy.UNITS, Remedy.LEAVE_OUT)
        refuse_cells(frame, name, values, lambda cells: np.abs(cells) > LARGEST, far, *too_large)
        return values

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        u = coding.centre + coding.scale * values.astype(np.float64)
        for d, margin in enumerate(coding.margins):
            u[:, d] = margin.backward(u[:, d])
        return u

    def decode_predicted(
        self, mean: np.ndarray, std: np.ndarray, coding: Coding, ends: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        mean, std = mean.astype(np.float64), np.asarray(std, dtype=np.float64)
        if not coding.margins:
            return self.decode(mean, coding), coding.scale * std
        u, spread = coding.centre + coding.scale * mean, coding.scale * std
        found = np.empty((2, *u.shape))
        for d, margin in enumerate(coding.margins):
            found[:, :, d] = margin.moments(u[:, d], spread[:, d])
            if self.guess == "median":
                found[0, :, d] = margin.median(u[:, d])
            cut = np.zeros(len(u), dtype=bool) if ends is None else np.isinf(ends[:, d]).any(axis=1) & (std[:, d] > 0)
            if cut.any() and margin.kind != "none":
                edge = np.where(np.isinf(ends[cut, d, 0]), ends[cut, d, 1], ends[cut, d, 0])  # type: ignore[index]
                edge = coding.centre[d] + coding.scale[d] * edge
                left = u[cut, d], spread[cut, d], edge
                found[:, cut, d] = margin.moments_beyond(*left)
                if self.guess == "median":
                    found[0, cut, d] = margin.median_beyond(*left)
        return found[0], found[1]
