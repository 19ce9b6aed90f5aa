"""Where a view has holes: which of its features, and which of its rows, have the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .state import ColumnGroups


@dataclass(frozen=True, eq=False)
class Holes:
    """The holes of one view, in what groups of features and of rows need.

    `row_codes` (N, bytes) are equal for rows with the same holes; None: the view is complete.
    """

    groups: ColumnGroups
    firsts: np.ndarray  # (G,): a feature of each group
    row_codes: np.ndarray | None = None

    @classmethod
    def none(cls, n_features: int) -> Holes:
        return cls(ColumnGroups.single(n_features), np.zeros(1, dtype=int))

    @classmethod
    def of(cls, observed: np.ndarray | None, n_features: int) -> Holes:
        """From a mask: None, (N, 1) or (N, D)."""
        if observed is None:
            return cls.none(n_features)
        if observed.shape[1] == 1:
            return cls(ColumnGroups.single(n_features), np.zeros(1, dtype=int), observed.view(np.uint8))
        groups, firsts = equal_columns(np.packbits(observed, axis=0).T)
        return cls(groups, firsts, np.packbits(observed[:, firsts], axis=1))

    @property
    def complete(self) -> bool:
        return self.row_codes is None

    def take(self, places: np.ndarray) -> Holes:
        """Of these rows, -1 being a row that the view does not have: its code is like no other's."""
        codes = (places < 0).astype(np.uint8)[:, None]
        if self.row_codes is not None:
            codes = np.column_stack([codes, np.where(codes == 0, self.row_codes[places], 0)])
        return Holes(self.groups, self.firsts, codes)

    @property
    def outline(self) -> Holes:
        """What is known of the holes without any row."""
        return Holes(self.groups, self.firsts, None if self.row_codes is None else self.row_codes[:0])

    def among(self, observed: np.ndarray | None, n: int) -> Holes:
        """Of n of the rows, from their mask: features stand in the groups that they have over all rows."""
        codes = None if self.complete else np.packbits(self.seen(observed, n), axis=1)
        return Holes(self.groups, self.firsts, codes)

    def seen(self, observed: np.ndarray | None, n: int) -> np.ndarray:
        """Which groups of features n rows have, (n, G), from the mask of these rows."""
        if observed is None or observed.shape[1] == 1:
            return np.broadcast_to(np.True_ if observed is None else observed, (n, len(self.firsts)))
        every = len(self.firsts) == observed.shape[1]  # then groups are numbered as features are
        return observed if every else observed[:, self.firsts]


def equal_columns(codes: np.ndarray) -> tuple[ColumnGroups, np.ndarray]:
    """Features with equal rows of bytes, numbered as they first appear, and the first feature of each group."""
    numbers: dict[bytes, int] = {}
    index = np.array([numbers.setdefault(code.tobytes(), len(numbers)) for code in codes])
    return ColumnGroups(index), np.unique(index, return_index=True)[1]


@dataclass(frozen=True, eq=False)
class HoleSums:
    """The holes of some rows of a view, in sums that add up over chunks of rows.

    Each row and each feature has a random number of 64 bits. Two features have the same holes where the sums of the
    numbers of the rows that they lack are equal, and two rows where those of the features are: but for a chance of
    one in 10^19 for each pair.
    """

    of_features: np.ndarray  # (D,) uint64
    of_rows: np.ndarray  # (n,) uint64
    n_observed: np.ndarray  # (D,)
    observed_rows: np.ndarray  # (n,) bool: those that have anything

    @classmethod
    def of(cls, observed: np.ndarray | None, first: int, n: int, n_features: int) -> HoleSums:
        """Of n rows from place `first` on."""
        if observed is None:
            nothing = np.zeros(n_features, np.uint64), np.zeros(n, np.uint64)
            return cls(*nothing, np.full(n_features, n), np.ones(n, dtype=bool))
        missing = np.broadcast_to(~observed, (n, n_features)).astype(np.uint64)
        rows, features = random_bits(first, n), random_bits(2**62, n_features)
        n_observed = n - missing.sum(axis=0).astype(int)
        return cls(rows @ missing, missing @ features, n_observed, np.asarray(observed.any(axis=1)))

    @staticmethod
    def joined(parts: Sequence[HoleSums]) -> Holes:
        """From the chunks of all rows, in their order; `of_rows` may have stayed with the rows."""
        of_rows = np.concatenate([part.of_rows for part in parts])
        of_features = np.stack([part.of_features for part in parts]).sum(axis=0, dtype=np.uint64)
        if all((part.n_observed == len(part.observed_rows)).all() for part in parts):
            return Holes.none(len(of_features))
        groups, firsts = equal_columns(of_features[:, None].view(np.uint8))
        return Holes(groups, firsts, of_rows[:, None].view(np.uint8))


def random_bits(first: int, n: int) -> np.ndarray:
    """A number for each place from `first` on, always the same for one place (SplitMix64), (n,) uint64."""
    with np.errstate(over="ignore"):
        x = np.arange(first + 1, first + 1 + n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
