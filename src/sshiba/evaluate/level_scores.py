"""Cells of ordinal views as numbers of levels, and the probabilities of their levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.coding import Coding
from ..fitted.fitted import fitted_of
from .metrics import SMALLEST, class_codes


def level_numbers(values: np.ndarray, coding: Coding, asked: np.ndarray) -> np.ndarray:
    """The places of levels among those of their column, (n, D); -1 where training never saw one, NaN unless asked."""
    out = np.full(values.shape, np.nan)
    for d, own in enumerate(coding.ordered):
        out[asked[:, d], d] = class_codes(np.array(own.values, dtype=object), values[asked[:, d], d])
    return out


def level_probabilities(fitted: Any, views: Any, name: str) -> tuple[np.ndarray, ...]:
    """Of each column of a view, (n, levels), told also what the view itself shows."""
    ordered = fitted_of(fitted).schema.codings[name].ordered
    found = fitted.predict_proba(views, name, use_target=True)
    if isinstance(found, dict):
        return tuple(found.values())
    ends = np.cumsum([len(own.values) for own in ordered])[:-1]
    return tuple(np.split(np.asarray(found, dtype=float), ends, axis=1))


def level_log_likelihood(numbers: np.ndarray, levels: Sequence[np.ndarray]) -> float:
    """Mean log probability of levels, (n, D), -1 being one without a probability and NaN one that is not asked for."""
    chances = []
    for own, p in zip(numbers.T, levels):
        rows = np.flatnonzero(~np.isnan(own))
        places = own[rows].astype(int)
        chances.append(np.where(places >= 0, p[rows, places], 0.0))
    return float(np.mean(np.log(np.maximum(np.concatenate(chances), SMALLEST))))
