"""Categorical views: one column of labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import MultinomialProbit
from ..advice import DataError, DataTypeError, Problem, Remedy
from ..cells import column_kinds, holds_only_zero_one, looks_numeric
from ..coding import Coding, plain_names, unit_coding
from ..learned import LabelSummary
from ..spellings import holds_yes_no
from ..wording import counted, first_few, quoted
from .view import View

FEW_CLASSES = 20  # numbers of at most so many values are taken for labels


@dataclass(frozen=True)
class Categorical(View):
    """One column of labels of any kind; each class is one latent feature.

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`, with classes as features; the weight may be above 1.
    unseen : "missing" or "error"
        What a label of new rows is that training never saw: missing, with a warning, or refused.
    """

    unseen: str = "missing"

    likelihood = MultinomialProbit()

    @property
    def noise_model(self) -> float | str:
        return 1.0

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        """Text and categories; in a single column also whole numbers of few values."""
        kinds = column_kinds(frame)
        if kinds == {"number"} and frame.shape[1] == 1:
            return _recognise_codes(frame.iloc[:, 0])
        if not kinds <= {"text", "category"} or holds_yes_no(frame):
            return None
        if kinds == {"text"} and frame.shape[1] == 1:
            texts = frame.iloc[:, 0].dropna()
            if not _has_few_values(texts) and looks_numeric(texts):
                return None  # numbers stored as text: Real says how to convert them
        return " and ".join(sorted(kinds))

    def with_unseen(self, unseen: str) -> Categorical:
        return replace(self, unseen=unseen)

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.unseen not in ("missing", "error"):
            raise ValueError(f"view {name!r}: unseen must be 'missing' or 'error', not {self.unseen!r}.")

    def learn(self, frame: pd.DataFrame, name: str) -> LabelSummary:
        if frame.shape[1] != 1:
            what = f"a categorical view is one column, this one has {frame.shape[1]} ({first_few(frame.columns)})"
            raise DataError(Problem(f"view {name!r}: {what}", (Remedy.ONE_EACH,)))
        codes, labels = _factorise(frame.iloc[:, 0], name)
        counts = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        return LabelSummary(plain_names(frame.columns), dict(zip(labels, counts)), frame.dtypes.iloc[0])

    def make_coding(self, learned: LabelSummary, name: str) -> Coding:
        levels = _order_levels(list(learned.counts), learned.dtype, name)
        return unit_coding(learned.features, np.full(len(levels), sum(learned.counts.values())), levels)

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        codes, labels = _factorise(frame.iloc[:, 0], name)
        code_of = {level: code for code, level in enumerate(coding.levels or ())}
        unseen = [code for code, label in enumerate(labels) if label not in code_of]
        if unseen:
            strange = np.isin(codes, unseen)
            row, what = frame.index[strange][0], first_few(labels[code] for code in unseen)
            where = f"view {name!r}: class {what} unseen in training, first in row {quoted(row)}"
            if self.unseen == "error":
                raise DataError(Problem(f"{where}; known are {first_few(code_of, 10)}", (Remedy.SEEN_LABELS,)))
            n = counted(int(strange.sum()), "label")
            warnings.warn(f"{where}: {n} treated as missing.", UserWarning, stacklevel=2)
            codes = np.where(strange, -1, codes)
        lookup = np.array([code_of.get(label, 0) for label in labels] + [0])  # the last for code -1, missing
        return CodedView(lookup[codes], shrink_mask(codes[:, None] >= 0))

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        levels = np.empty(coding.width, dtype=object)
        levels[:] = coding.levels
        return levels[values.astype(np.int64)][:, None]


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
        raise DataTypeError(Problem(f"view {name!r}: {error} among the labels", (Remedy.LABEL_TYPES,))) from error
    labels = [label.item() if isinstance(label, np.generic) else label for label in found]
    odd = [label for label in labels if not isinstance(label, str | int | float) or not _is_finite(label)]
    if odd:
        row = column.index[np.flatnonzero(codes == labels.index(odd[0]))[0]]
        kind = type(odd[0]).__name__
        what = f"view {name!r}: label {quoted(odd[0])} ({kind}) in row {quoted(row)}"
        raise DataTypeError(Problem(what, (Remedy.LABEL_TYPES,)))
    return codes, labels


def _is_finite(label: str | float) -> bool:
    return not isinstance(label, float) or isfinite(label)


def _order_levels(labels: list, dtype: Any, name: str) -> tuple:
    """The classes: categories in their own order, else sorted; what does not sort by type, then as text."""
    if len(labels) < 2:
        found = f"only one class, {first_few(labels)}" if labels else "no label at all"
        raise DataError(Problem(f"view {name!r}: {found}, and training needs two classes", (Remedy.LEAVE_OUT,)))
    if isinstance(dtype, pd.CategoricalDtype):
        codes = dtype.categories.get_indexer(pd.Index(labels, dtype=dtype.categories.dtype))
        return tuple(labels[i] for i in np.argsort(codes))
    try:
        return tuple(sorted(labels))
    except TypeError:
        return tuple(sorted(labels, key=lambda label: (type(label).__name__, str(label))))
