"""A latent view of some rows, and how z follows its x: what `latent_step.py` and `newton_rows.py` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .arrays import add_product, array_namespace, take_columns, times_symmetric, to_numpy
from .blocks import RowView
from .messages import Message
from .state import Array, LatentX

ALL_AT_ONCE = 0.5  # the largest leverage of cells that are updated together


@dataclass(frozen=True)
class LatentView:
    """A latent view of some rows, and how z follows it."""

    rows: RowView
    message: Message
    x: LatentX
    cov: Array  # (r, K, K): of z given x
    gain: Array  # (r, D, K): how <z> moves with <x>
    seen: Array | None  # (r, D) of bool, None where all cells are
    known_one_by_one: tuple[int, ...] | None = None  # `one_by_one`, where rows share a gain: found once for all

    @property
    def by_cell(self) -> bool:
        """Has a cell a q(x) of its own, or a row?"""
        return not self.message.likelihood.joint

    @property
    def found_with_z(self) -> bool:
        """Is its q(x) found together with z?"""
        return self.message.likelihood.found_with_z and self.rows.present

    @cached_property
    def leverage(self) -> Array:
        """Of cells, (r, D); 0 where not observed."""
        leverage = leverage_of(self.message, self.gain)
        return leverage if self.seen is None else array_namespace(leverage).where(self.seen, leverage, 0.0)

    @property
    def free(self) -> Array:
        """What of tau other cells leave to a cell, (r, D)."""
        return 1 - self.leverage

    @property
    def alone(self) -> Array:
        """The cells that must not be updated with others, (r, D)."""
        return self.leverage > ALL_AT_ONCE

    @property
    def one_by_one(self) -> tuple[int, ...]:
        """The features that have such cells."""
        known = self.known_one_by_one
        return marked_columns(self.alone, self.message) if known is None else known

    def predictor(self, z: Array) -> Array:
        return add_product(self.message.b_mean, z, self.message.w_mean.T)

    def moved_z(self, step: Array) -> Array:
        """What a step of <x>, (n, D), does to <z>."""
        return step @ self.gain[0, ...] if self.gain.shape[0] == 1 else (step[:, None, :] @ self.gain)[:, 0, :]


def latent_view(
    rows: RowView, message: Message, x: LatentX, cov: Array, one_by_one: tuple[int, ...] | None
) -> LatentView:
    """`cov` is that of z given x, (r, K, K); `one_by_one` is None where it is not known yet."""
    seen = None if rows.complete else take_columns(rows.observed, rows.groups.index)
    target = message.likelihood.opened(rows.target)
    rows = rows if target is rows.target else replace(rows, target=target)
    return LatentView(rows, message, x, cov, times_symmetric(message.loading, cov), seen, one_by_one)


def leverage_of(message: Message, gain: Array) -> Array:
    """What cells say about themselves through z, (r, D)."""
    return array_namespace(gain).vecdot(gain, message.w_mean) / message.copies


def features_one_by_one(message: Message, cov: Array) -> tuple[int, ...]:
    """The features whose cells must not be updated with others, by the one covariance of z that all rows share.

    Best asked on the host: a device must end all work that waits before it answers.
    """
    return marked_columns(leverage_of(message, message.loading[None, ...] @ cov) > ALL_AT_ONCE, message)


def marked_columns(marks: Array, message: Message) -> tuple[int, ...]:
    """The features that have a mark, of those that are inferred at all: a known x never moves."""
    marked, inferred = to_numpy(array_namespace(marks).any(marks, axis=0)), message.likelihood.inferred
    return tuple(np.flatnonzero(marked if inferred is None else marked & inferred).tolist())


def predictors_of_shared(views: Sequence[LatentView], z: Array) -> list[Array]:
    """y = <z>·<w> + <b> of all latent views from the `z` that static views tell, (n, K), of rows that share a gain.

    <z> moves with the means x of the latent views by their gains, and y by what that is in its own columns, which is
    the shorter way where these are fewer than factors.
    """
    if sum(view.gain.shape[1] for view in views) > z.shape[1]:
        for view in views:
            z = add_product(z, view.x.mean, view.gain[0, ...])
        return [view.predictor(z) for view in views]
    found = []
    for view in views:
        y = view.predictor(z)
        for other in views:
            y = add_product(y, other.x.mean, other.gain[0, ...] @ view.message.w_mean.T)
        found.append(y)
    return found


def seen_only(view: LatentView, values: Array) -> Array:
    """0 where not observed."""
    return values if view.seen is None else array_namespace(values).where(view.seen, values, 0.0)
