"""Categorical views: one column of labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Likelihood, MultinomialProbit
from ..advice import DataError, Problem, Remedy
from ..cells import column_kinds, holds_only_zero_one, looks_numeric
from ..coding import Coding, plain_names, unit_coding
from ..learned import LabelSummary
from ..spellings import holds_yes_no
from ..wording import first_few
from .labelled import LabelledView, factorise

FEW_CLASSES = 20  # numbers of at most so many values are taken for labels


@dataclass(frozen=True)
class Categorical(LabelledView):
    """One column of labels of any kind; each class is one latent feature.

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`, with classes as features; the weight may be above 1.
    unseen : "missing" or "error"
        How a label that training never saw is read: as missing, with a warning, or refused.
    """

    def likelihood(self, coding: Coding) -> Likelihood:
        return MultinomialProbit()

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

    def learn(self, frame: pd.DataFrame, name: str) -> LabelSummary:
        if frame.shape[1] != 1:
            what = f"a categorical view is one column, this one has {frame.shape[1]} ({first_few(frame.columns)})"
            raise DataError(Problem(f"view {name!r}: {what}", (Remedy.ONE_EACH,)))
        codes, labels = factorise(frame.iloc[:, 0], f"view {name!r}")
        counts = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        return LabelSummary(plain_names(frame.columns), dict(zip(labels, counts)), frame.dtypes.iloc[0])

    def make_coding(self, learned: LabelSummary, name: str) -> Coding:
        levels = order_levels(list(learned.counts), learned.dtype, name)
        coding = unit_coding(learned.features, np.full(len(levels), sum(learned.counts.values())), levels)
        if isinstance(learned.dtype, pd.CategoricalDtype):
            return replace(coding, categories=plain_names(learned.dtype.categories))
        return coding

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        codes, labels = factorise(frame.iloc[:, 0], f"view {name!r}")
        code_of = {level: code for code, level in enumerate(coding.levels or ())}
        strange = np.isin(codes, [code for code, label in enumerate(labels) if label not in code_of])
        self.tell_unseen(frame.iloc[:, 0], strange, code_of, f"view {name!r}")
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
    """At most FEW_CLASSES, some of them again and again; so the type does not depend on the number of rows."""
    return cells.nunique() <= min(FEW_CLASSES, len(cells) - 1)


def order_levels(labels: list, dtype: Any, name: str) -> tuple:
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
