"""Categorical views: t = argmax_d x_d with unit noise, the multinomial probit (the paper's table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log, pi
from typing import Any

import numpy as np
import pandas as pd

from ..cells import column_kinds, holds_only_zero_one, looks_numeric
from ..coding import Coding, ViewData, first_few, plain_names, show, shrink_mask, unit_coding
from ..special import array_namespace
from ..state import Array, LatentX
from .base import CONFIDENT, PredictiveX, View
from .probit import class_probabilities, moments

FEW_CLASSES = 20  # numbers of at most so many values are taken for labels


@dataclass(frozen=True)
class Categorical(View):
    """One column of labels of any kind; each class is one latent feature.

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`, with classes as features; the weight may be above 1.
    """

    latent = True
    needs_sharpness = True

    @property
    def noise_model(self) -> float | str:
        return 1.0

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        """Text and categories; in a single column also whole numbers of few values."""
        kinds = column_kinds(frame)
        if kinds == {"number"} and frame.shape[1] == 1:
            return _recognise_codes(frame.iloc[:, 0])
        if not kinds <= {"text", "category"}:
            return None
        if kinds == {"text"} and frame.shape[1] == 1:
            texts = frame.iloc[:, 0].dropna()
            if not _has_few_values(texts) and looks_numeric(texts):
                return None  # numbers stored as text: Real says how to convert them
        return " and ".join(sorted(kinds))

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding | None, dtype: Any) -> tuple[ViewData, Coding]:
        if frame.shape[1] != 1:
            raise ValueError(
                f"view {name!r}: a categorical view is one column, this one has {frame.shape[1]} "
                f"({first_few(frame.columns)}). Give one categorical view per column."
            )
        codes, labels = _factorise(frame.iloc[:, 0], name)
        if coding is None:
            levels = _order_levels(labels, frame.dtypes.iloc[0], name)
            n_observed = np.full(len(levels), np.count_nonzero(codes >= 0))
            coding = unit_coding(plain_names(frame.columns), n_observed, levels)
        code_of = {level: code for code, level in enumerate(coding.levels or ())}
        unseen = [code for code, label in enumerate(labels) if label not in code_of]
        if unseen:
            row = frame.index[np.flatnonzero(codes == unseen[0])[0]]
            raise ValueError(
                f"view {name!r}: class {first_few(labels[code] for code in unseen)} unseen in training, "
                f"first in row {show(row)}; known are {first_few(code_of, 10)}. Set such labels to None."
            )
        lookup = np.array([code_of[label] for label in labels] + [0])  # the last for code -1, missing
        return ViewData(lookup[codes], shrink_mask(codes[:, None] >= 0)), coding

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        levels = np.empty(coding.width, dtype=object)
        levels[:] = coding.levels
        return levels[values.astype(np.int64)][:, None]

    def update_x(self, target: Array, y: Array, tau: Array, old: LatentX | None) -> LatentX:
        """q(x) is N(y, I) cut to the cone where x_t is largest; tau is 1.

        The cone is closed under scaling, so ∫ ∇·(x p(x)) dx = 0 over it, hence E|x|² = D + <x>·y: the
        second moment below is right in its sum over classes, which is all that tau = 1 asks for.
        """
        xp = array_namespace(y)
        log_xi, step = moments(y, target)
        mean = y + step
        second = 1 + mean * y
        # E[log p(t|x)] = 0 on the cone; H[q] = log ξ + D/2 log 2π + ½ E|x − y|².
        quad = xp.sum(second - 2 * mean * y + y * y, axis=1)
        bound = log_xi + 0.5 * (y.shape[1] * log(2 * pi) + quad)
        return LatentX(mean, second, bound[:, None])

    def start_y(self, target: Array, zeros: Array) -> Array:
        xp, n_classes = array_namespace(zeros), zeros.shape[1]
        is_true = xp.arange(n_classes)[None, :] == target[:, None]
        return CONFIDENT * (xp.astype(is_true, zeros.dtype) - 1 / n_classes)

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """Class probabilities and the standard deviations of their indicators.

        Classes are correlated through z. Of that covariance S, what is common to all classes does not matter, and as
        much as can be is moved to the part that is independent between classes, S = A Aᵀ + floor·I, which is
        integrated in one dimension; A u is averaged over Sobol draws, its largest directions first.
        """
        xp = array_namespace(x.mean)
        n_classes = x.mean.shape[1]
        factor = x.z_factor - xp.mean(x.z_factor, axis=1, keepdims=True)
        values, vectors = xp.linalg.eigh(factor @ xp.matrix_transpose(factor))
        floor = xp.where(values[:, 1:2] > 0, values[:, 1:2], 0.0)  # values[:, 0] is the common direction's zero
        std = xp.sqrt(x.own_var + x.noise_var + floor)
        spread = xp.where(values > floor, values - floor, 0.0)
        A = xp.flip(vectors * xp.sqrt(spread)[:, None, :], axis=-1)[:, :, : n_classes - 2]
        p = class_probabilities(x.mean, A, std)
        return p, xp.sqrt(p * (1 - p))

    def decide(self, values: np.ndarray) -> np.ndarray:
        return np.argmax(values, axis=1)

    def emit(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.argmax(x, axis=1)

    def empty_target(self, n: int, width: int) -> np.ndarray:
        return np.zeros(n, dtype=np.int64)


def _recognise_codes(column: pd.Series) -> str | None:
    """Whole numbers of few values are labels, also as floats, which holes make of integers."""
    cells = column.dropna()
    if not _has_few_values(cells) or holds_only_zero_one(column.to_frame()):
        return None
    is_whole = all(float(value).is_integer() for value in cells.unique())
    return f"one column of whole numbers, {cells.nunique()} values" if is_whole else None


def _has_few_values(cells: pd.Series) -> bool:
    """At most FEW_CLASSES, and ten rows a value unless there are only five of them."""
    n_distinct = cells.nunique()
    return n_distinct <= FEW_CLASSES and (10 * n_distinct <= len(cells) or n_distinct <= 5 <= len(cells))


def _factorise(column: pd.Series, name: str) -> tuple[np.ndarray, list]:
    """Codes (N,), -1 where missing, and the label of each code as a plain Python value."""
    try:
        codes, found = pd.factorize(column)
    except TypeError as error:  # unhashable
        raise TypeError(f"view {name!r}: {error} among the labels. {_LABEL_RULE}") from error
    labels = [label.item() if isinstance(label, np.generic) else label for label in found]
    odd = [label for label in labels if not isinstance(label, str | int | float) or not _is_finite(label)]
    if odd:
        row = column.index[np.flatnonzero(codes == labels.index(odd[0]))[0]]
        kind = type(odd[0]).__name__
        raise TypeError(f"view {name!r}: label {show(odd[0])} ({kind}) in row {show(row)}. {_LABEL_RULE}")
    return codes, labels


_LABEL_RULE = "Labels are text, finite numbers or True / False: convert others, e.g. with .astype(str)."


def _is_finite(label: str | float) -> bool:
    return not isinstance(label, float) or isfinite(label)


def _order_levels(labels: list, dtype: Any, name: str) -> tuple:
    """The classes: categories in their own order, else sorted; what does not sort by type, then as text."""
    if len(labels) < 2:
        found = f"only one class, {first_few(labels)}" if labels else "no label at all"
        raise ValueError(f"view {name!r}: {found}; training needs two classes. Leave the view out.")
    if isinstance(dtype, pd.CategoricalDtype):
        codes = dtype.categories.get_indexer(pd.Index(labels, dtype=dtype.categories.dtype))
        return tuple(labels[i] for i in np.argsort(codes))
    try:
        return tuple(sorted(labels))
    except TypeError:
        return tuple(sorted(labels, key=lambda label: (type(label).__name__, str(label))))
