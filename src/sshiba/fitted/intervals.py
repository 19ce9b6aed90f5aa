"""What is asked for beside predictions: standard deviations, quantiles, intervals and sets of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ..core.likelihoods import Likelihood, Score
from ..core.likelihoods.censored import quantile_beyond

LOWER, UPPER, LABELS = "lower", "upper", "labels"


@dataclass(frozen=True)
class Asked:
    """Quantiles are found under their probability, the ends of an interval as "lower" and "upper"."""

    std: bool = False
    quantiles: tuple[float, ...] = ()
    interval: float | None = None

    @classmethod
    def of(cls, std: bool, quantiles: Any, interval: Any) -> Asked:
        """Checked."""
        if quantiles is None:
            quantiles = ()
        elif isinstance(quantiles, Real):
            quantiles = (quantiles,)
        elif not isinstance(quantiles, Sequence | np.ndarray) or not len(quantiles) or not all(map(_inside, quantiles)):
            raise ValueError(f"quantiles must be numbers between 0 and 1, as (0.05, 0.95), not {quantiles!r}.")
        for name, value in (*(("quantiles", p) for p in quantiles), ("interval", interval)):
            if value is not None and not _inside(value):
                raise ValueError(f"{name} must be between 0 and 1, not {value!r}.")
        return cls(bool(std), tuple(float(p) for p in quantiles), None if interval is None else float(interval))

    def bounds(
        self,
        likelihood: Likelihood,
        values: np.ndarray,
        std: np.ndarray,
        score: Score,
        cut: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> dict[Any, np.ndarray]:
        """Quantiles and ends as `Likelihood.decide` would return them; none where labels have no order.

        `cut` are cells of numbers, (n, D), that lie beyond an end, (n, D, 2): values and deviations are those beyond.
        """
        if not likelihood.ordered:
            return {}
        found: dict[Any, np.ndarray] = {p: likelihood.quantile(values, std, p, score) for p in self.quantiles}
        shares: dict[Any, float] = {p: p for p in self.quantiles}
        if self.interval is not None:
            found[LOWER], found[UPPER] = likelihood.interval(values, std, self.interval, score)
            shares[LOWER], shares[UPPER] = (1 - self.interval) / 2, (1 + self.interval) / 2
        if cut is not None:
            cells, ends = cut
            edge = np.where(np.isinf(ends[..., 0]), ends[..., 1], ends[..., 0])[cells]
            for key, bound in found.items():
                bound[cells] = quantile_beyond(values[cells], std[cells], edge, shares[key])
        return found

    def arranged(self, prediction: Any, std: Any, bounds: dict[Any, Any], labels: Any) -> Any:
        """The prediction, or a tuple of it and what was asked for; `labels` are None where there are no such sets."""
        parts = [prediction]
        if self.std:
            parts.append(std)
        if self.quantiles:
            parts.append({p: bounds[p] for p in self.quantiles if p in bounds})
        if self.interval is not None:
            ends = {end: bounds[end] for end in (LOWER, UPPER) if end in bounds}
            parts.append(ends if labels is None else {**ends, LABELS: labels})
        return tuple(parts) if len(parts) > 1 else prediction


def _inside(p: Any) -> bool:
    return isinstance(p, Real) and not isinstance(p, bool) and 0 < float(p) < 1
