"""Numbers that were predicted on the scale of their margin, beside what they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..fitted.answers import Answers
from ..fitted.fitted import fitted_of
from .metrics import SMALLEST


class OnMargins(NamedTuple):
    """By how many deviations numbers are off, and their log density in the user's units; (n, D), NaN where not known.

    Ranks have no density: of margin "normal" it is NaN. A number that its margin cannot have is infinitely far off, and
    its density is taken to be SMALLEST per standard deviation of its column.
    """

    error: np.ndarray
    log_density: np.ndarray


def on_margins(fitted: Any, shown: Any, name: str, truth: np.ndarray) -> OnMargins | None:
    """Of a view none of whose columns has a margin: None, its errors are those of a normal in the user's units."""
    fit = fitted_of(fitted)
    coding = fit.schema.codings[name]
    if not coding.margins:
        return None
    mean, std = Answers.of(fitted).normal_predictions(shown, name)
    mean, std = coding.centre + coding.scale * mean, coding.scale * std
    error, slope = np.empty(truth.shape), np.full(truth.shape, np.nan)
    for d, margin in enumerate(coding.margins):
        u = margin.forward(truth[:, d])
        error[:, d] = (u - mean[:, d]) / std[:, d]
        if margin.has_density:
            with np.errstate(invalid="ignore"):
                slope[:, d] = margin.log_slope(u)
    log_density = slope - 0.5 * error**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    for d, margin in enumerate(coding.margins):
        impossible = ~margin.allowed(truth[:, d])
        error[impossible, d] = np.where(truth[impossible, d] > 0, np.inf, -np.inf)
        log_density[impossible, d] = np.log(SMALLEST) - np.log(margin.std)
    return OnMargins(error, log_density)
