"""Which margin a column of numbers has: sums of its values under each candidate, and the likelihood of each.

A candidate is judged by the likelihood of the column alone, normal on the transformed scale: −n/2 log Var(u) + Σ log
dg/dx at its best mean and variance, values at a limit counting by the mass beyond it. That is the bound of the column
without factors; it needs no fit, and adds up over chunks of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from .learned import NumberSummary
from .margins import KINDS, Margin, rank_margin
from .wording import did_you_mean

POWERS = tuple(round(0.1 * k, 1) for k in range(21))  # of Box and Cox, 0 to 2
BENT = {
    "log": ("log",),
    "logit": ("logit",),
    "box-cox": ("box-cox",),
    "normal": (),
    "auto": ("log", "logit", "box-cox"),
}
EXPLODING = ("log", "box-cox")  # a small step of u may be a large one of x
SURE = 3.0  # nats by which a column must be likelier on another scale, and ½ log n for a power
ROUNDS = 200  # of the mean and variance of a column with values at limits
MOST_VALUES = 20_000  # different ones of a column whose ranks are kept; of more some stand for their neighbours


def plain_margin(given: Any) -> Any:
    """The option with columns in a dict."""
    return dict(given) if hasattr(given, "items") else given


def check_margin(given: Any, features: tuple, name: str, limited: tuple[bool, ...]) -> None:
    """Refuse margins that cannot be meant."""
    every = given if isinstance(given, dict) else dict.fromkeys(features, given)
    for column, kind in every.items():
        if kind is not None and (not isinstance(kind, str) or kind not in BENT):
            known = ", ".join(map(repr, BENT))
            raise ValueError(f"view {name!r}: margin must be one of {known} or None, not {kind!r}.")
        if column not in features:
            hint = did_you_mean([column], features)
            raise ValueError(f"view {name!r}: a margin is given for {column!r}, which is no column of it.{hint}")
    for feature, has_limits in zip(features, limited):
        if has_limits and every.get(feature) == "normal":
            raise ValueError(
                f"view {name!r}: {feature!r} has limits, and margin='normal' never goes beyond the values that were "
                "seen. Use another margin for it."
            )


def asked_margins(given: Any, features: tuple) -> tuple[str | None, ...]:
    """What is asked for each feature."""
    every = given if isinstance(given, dict) else dict.fromkeys(features, given)
    return tuple(every.get(feature) for feature in features)


@dataclass(frozen=True, eq=False)
class Tried:
    """Columns under one candidate: their transformed values, all, measured, and at either limit."""

    every: NumberSummary
    measured: NumberSummary
    low: NumberSummary
    high: NumberSummary
    log_slopes: np.ndarray  # (D,): Σ log dg/dx of measured values
    allowed: np.ndarray  # (D,) bool: can all values be transformed?
    largest: np.ndarray  # (D,): of the transformed values; infinite where some are above a limit

    @classmethod
    def of(cls, margin: Margin, features: tuple, values: np.ndarray, sides: tuple[np.ndarray, np.ndarray]) -> Tried:
        allowed = np.asarray(margin.allowed(values).all(axis=0))
        u = margin.forward(values)
        low, high = sides
        measured = np.where(low | high, np.nan, u)
        with np.errstate(invalid="ignore"):
            slopes = np.nansum(margin.log_slope(measured), axis=0)
        largest = np.where(high.any(axis=0), np.inf, np.fmax.reduce(u, axis=0, initial=-np.inf))
        every = NumberSummary.of(features, u)
        if not (low.any() or high.any()):
            nothing = NumberSummary.of(features, np.full((1, len(features)), np.nan))
            return cls(every, every, nothing, nothing, slopes, allowed, largest)
        inside, below, above = (
            NumberSummary.of(features, np.where(side, u, np.nan)) for side in (~(low | high), low, high)
        )
        return cls(every, inside, below, above, slopes, allowed, largest)

    def __add__(self, other: Tried) -> Tried:
        return Tried(
            self.every + other.every,
            self.measured + other.measured,
            self.low + other.low,
            self.high + other.high,
            self.log_slopes + other.log_slopes,
            self.allowed & other.allowed,
            np.maximum(self.largest, other.largest),
        )

    def log_likelihood(self) -> np.ndarray:
        """Of each column, (D,); −inf where it cannot be transformed."""
        found = cut_likelihood(self.measured, self.low, self.high) + self.log_slopes
        return np.where(self.allowed & np.isfinite(found), found, -np.inf)


def cut_likelihood(measured: NumberSummary, low: NumberSummary, high: NumberSummary) -> np.ndarray:
    """max log p of columns that are normal, some of whose values lie below or above a limit, by EM; (D,).

    It starts from all values as they are: there may be none inside the limits.
    """
    every = measured + low + high
    unit = np.where(every.std > 0, every.std, 1.0)  # in which squares neither overflow nor vanish
    means = {own: own.mean / unit for own in (measured, low, high, every)}
    n, mean = measured.n, np.where(measured.n > 0, means[measured], means[every])
    var, spread = (np.maximum((own.std / unit) ** 2, 1e-300) for own in (measured, every))
    mu, sd = means[every], np.sqrt(spread)
    total = np.maximum(n + low.n + high.n, 1)
    sides = [(side.n, np.where(side.n > 0, means[side], mean), sign) for side, sign in ((low, 1.0), (high, -1.0))]
    for _ in range(ROUNDS if (low.n + high.n).any() else 0):
        parts = [(n, mean, var)]
        for count, edge, sign in sides:
            a = sign * (edge - mu) / sd
            rho = np.exp(-0.5 * a**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(a))
            parts.append((count, mu - sign * sd * rho, sd**2 * np.maximum(1 - a * rho - rho**2, 0.0)))
        mu = sum(count * own for count, own, _ in parts) / total
        sd = np.sqrt(np.maximum(sum(c * (v + (m - mu) ** 2) for c, m, v in parts) / total, 1e-300))
    found = -0.5 * n * (np.log(2 * np.pi) + 2 * (np.log(sd) + np.log(unit)) + (var + (mean - mu) ** 2) / sd**2)
    return found + sum(np.where(c > 0, c * log_ndtr(s * (e - mu) / sd), 0.0) for c, e, s in sides)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The different values of a column, rising, and how often each was seen."""

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Ranks:
        return cls(*np.unique(values[~np.isnan(values)].astype(np.float64), return_counts=True)).shortened()

    def __add__(self, other: Ranks) -> Ranks:
        values, places = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([self.counts, other.counts]), len(values)).astype(np.int64)
        return Ranks(values, counts).shortened()

    def shortened(self) -> Ranks:
        """Of too many values every other one, with the counts of both; the first, the last and frequent ones stay."""
        if len(self.values) <= MOST_VALUES:
            return self
        heavy = self.counts > 1e-3 * self.counts.sum()
        begins = (np.arange(len(heavy)) % 2 == 1) | heavy
        begins[1:] |= heavy[:-1]
        begins[0] = begins[-1] = True
        group = np.cumsum(begins) - 1
        last = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)
        return Ranks(self.values[last], np.bincount(group, self.counts).astype(np.int64)).shortened()


@dataclass(frozen=True, eq=False)
class MarginSummary:
    """What is learned of a view some of whose columns are to be transformed."""

    raw: NumberSummary
    asked: tuple[str | None, ...]
    tried: dict[Margin, Tried]
    ranks: dict[int, Ranks]  # of columns that are to have normal scores

    @classmethod
    def of(
        cls, raw: NumberSummary, values: np.ndarray, sides: tuple[np.ndarray, np.ndarray], asked: tuple[str | None, ...]
    ) -> MarginSummary:
        values = values.astype(np.float64)
        tried = {margin: Tried.of(margin, raw.features, values, sides) for margin in candidates(asked)}
        ranks = {d: Ranks.of(values[:, d]) for d, kind in enumerate(asked) if kind == "normal"}
        return cls(raw, asked, tried, ranks)

    def __add__(self, other: MarginSummary) -> MarginSummary:
        tried = {margin: own + other.tried[margin] for margin, own in self.tried.items()}
        ranks = {d: own + other.ranks[d] for d, own in self.ranks.items()}
        return MarginSummary(self.raw + other.raw, self.asked, tried, ranks)


def candidates(asked: tuple[str | None, ...]) -> list[Margin]:
    kinds = {bent for kind in asked if kind is not None for bent in BENT[kind]}
    found = [Margin()]
    for kind in KINDS:
        if kind in kinds:
            found += [Margin(kind, power) for power in POWERS] if kind == "box-cox" else [Margin(kind)]
    return found


def choose_margins(learned: MarginSummary) -> tuple[list[Margin], list[tuple[int, str]]]:
    """The margin of each column; and the columns, with their margin, that hold values which it cannot have."""
    scores = {margin: own.log_likelihood() for margin, own in learned.tried.items()}
    price = {margin: _price(margin, learned.raw.n) for margin in scores}
    chosen, refused = [], []
    for d, kind in enumerate(learned.asked):
        mean, std = float(learned.raw.mean[d]), float(learned.raw.std[d])
        if kind == "normal":
            own = learned.ranks[d]
            chosen.append(rank_margin(own.values, own.counts, mean, std) if len(own.values) else Margin())
            continue
        bent = () if kind is None or learned.raw.constant[d] else BENT[kind]
        possible = [margin for margin in scores if margin.kind in bent]
        if kind == "auto" or not possible:
            possible.append(Margin())
        best = max(possible, key=lambda margin: scores[margin][d] - (price[margin][d] if kind == "auto" else 0.0))
        if kind == "auto" and not np.isfinite(scores[best][d]):  # no digits are left on any scale
            best = Margin()
        if not np.isfinite(scores[best][d]) and best.kind != "none":
            refused.append((d, best.kind))
        top = float(learned.tried[best].largest[d] + learned.tried[best].every.std[d])
        chosen.append(Margin(best.kind, best.power, (), mean, std, top if best.kind in EXPLODING else np.inf))
    return chosen, refused


def _price(margin: Margin, n: np.ndarray) -> np.ndarray:
    if margin.kind == "none":
        return np.zeros(len(n))
    return SURE + (0.5 * np.log(np.maximum(n, 1)) if margin.kind == "box-cox" else np.zeros(len(n)))


def gain_per_cell(learned: MarginSummary, margins: list[Margin]) -> np.ndarray:
    """Nats by which a cell of each column is likelier on its chosen scale than as it is, (D,)."""
    scores = {margin: own.log_likelihood() for margin, own in learned.tried.items()}
    plain = {(margin.kind, margin.power): score for margin, score in scores.items()}
    gains = [plain[margin.kind, margin.power][d] - scores[Margin()][d] for d, margin in enumerate(margins)]
    return np.array(gains) / np.maximum(learned.raw.n, 1)


def summary_of(learned: MarginSummary, margins: list[Margin]) -> NumberSummary:
    """The columns as they are transformed."""
    raw = learned.raw
    names = ("near_mean", "rest", "std")
    parts: dict[str, Any] = {name: np.array(getattr(raw, name)) for name in names}
    by_kind = {(margin.kind, margin.power): own for margin, own in learned.tried.items()}
    for d, margin in enumerate(margins):
        if margin.kind == "normal":
            own = learned.ranks[d]
            u, n = margin.forward(own.values), own.counts / own.counts.sum()
            parts["near_mean"][d], parts["rest"][d] = 0.0, u @ n
            parts["std"][d] = np.sqrt((u - u @ n) ** 2 @ n)
        elif margin.kind != "none":
            for name in names:
                parts[name][d] = getattr(by_kind[margin.kind, margin.power].every, name)[d]
    return replace(raw, **parts)
