"""The seam: what rows can do, wherever they are.

A fit takes sums out of them alone: NumPy, and small. What is known of each row comes out through `infer`, part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.spec import ModelSpec
from ..core.state import Array, ColumnGroups, Posterior, Stats

SETTLING = 50  # rounds in which a q(x) that is not known any more is found again

Local = Any  # what an engine keeps for its rows between sweeps: a value, never changed, of no concern to others


class Accuracy(NamedTuple):
    """How exactly rows are inferred: q(z) and q(x) take turns with the globals fixed."""

    z_tol: float = 1e-7  # largest change of a factor at which they stop
    max_rounds: int = 1000


FULL, ROUGH = Accuracy(), Accuracy(z_tol=1e-2)


class CellMoments(NamedTuple):
    """Means and variances of q(x), (n, D); 0 where nothing was observed."""

    mean: Array
    var: Array


@dataclass(frozen=True)
class RowPosterior:
    """q(z) of some rows with the globals fixed, where the rows live.

    `rows` are their places among the rows that were given, on the host.
    """

    rows: np.ndarray  # (n,)
    z_mean: Array  # (n, K)
    z_cov: Array  # (n, K, K), or (1, K, K) where all of them share it
    converged: bool  # had q(x) and q(z) settled?
    offsets: tuple[Array | None, ...]  # of each view, (n, 1): what is known of the rows beside x
    x: Mapping[int, CellMoments] = field(default_factory=dict)  # of latent views by cell, by the place of the view

    def part(self, places: slice) -> RowPosterior:
        cov = self.z_cov if self.z_cov.shape[0] == 1 else self.z_cov[places]
        offsets = tuple(None if offset is None else offset[places] for offset in self.offsets)
        x = {i: CellMoments(*(values[places] for values in cells)) for i, cells in self.x.items()}
        return RowPosterior(self.rows[places], self.z_mean[places], cov, self.converged, offsets, x)


Ask = Callable[[RowPosterior], Any]  # what is to be known of some rows, worked out where they are


def same(part: RowPosterior) -> RowPosterior:
    return part


class Rows(Protocol):
    """The rows of all views together. Everything that needs rows goes through these methods."""

    spec: ModelSpec
    groups: tuple[ColumnGroups, ...]  # of each view
    n_rows: int
    portable: bool  # can other processes have a copy of them?

    def describe(self) -> str:
        """One line on how the rows are processed."""
        ...

    def directions(self, k: int) -> np.ndarray:
        """v √λ of the leading principal components of all views side by side, (ΣD, k); 0 where there are fewer.

        Features count in units of their deviation, holes as means, and latent features at their first q(x). With
        covariates the components are those of what they leave, and what they do comes last, (ΣD, k + n_known).
        """
        ...

    def start(self, posterior: Posterior) -> Local:
        """The first q(x)."""
        ...

    def step(self, posterior: Posterior, local: Local, hold_x: bool = False) -> tuple[Local, Stats]:
        """q(z), then q(x) unless it is held, of all rows; and their statistics.

        Where q(x) of some rows was lost it is found again first, and the statistics say of how many.
        """
        ...

    def settle(self, posterior: Posterior, local: Local, max_rounds: int = FULL.max_rounds) -> tuple[Local, bool]:
        """q(x) iterated with the globals fixed; and whether it converged."""
        ...

    def infer(
        self, posterior: Posterior, local: Local | None = None, accuracy: Accuracy = FULL, then: Ask = same
    ) -> Iterator[Any]:
        """What `then` says of the settled q(z) of all rows, each row once, in parts; from q(x) as `local` has it, or
        found anew. `same` gives q(z) itself, as arrays of the device where the rows are. Where rows are on other
        machines `then` is sent there, and only what it returns comes back, on the host.
        """
        ...
