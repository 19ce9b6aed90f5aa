"""Rows as the local step sees them: blocks of rows, with q(x) of their latent views.

Shapes: n rows of a block, D features, K factors, G column groups; `r` is 1 where all rows of a block share one pattern
of holes, else n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .arrays import array_namespace
from .devices import HOST
from .sparse_rows import is_sparse
from .state import Array, ColumnGroups, LatentX


@dataclass(frozen=True)
class RowView:
    """One view of a block of rows.

    `observed` (r, G) of bool says whether the rows of the block have the features of a column group. `holes` (n, D)
    marks the cells that are variables of their own under missing="mean-field"; such a view counts as observed.
    """

    target: Array
    observed: Array
    groups: ColumnGroups
    holes: Array | None = None
    present: bool = True  # is anything of this view observed in the block?
    complete: bool = False  # is all of it?
    seen_rows: Array | None = None  # where whole rows are seen or missing: places of the seen ones
    is_static: bool = False  # a real view without mean-field holes: x is the data
    x_sum: Array | None = None  # Σx and Σx² of a static view, taken once
    xx: Array | None = None

    def rows(self, some: slice) -> RowView:
        """Some of the rows; sums over all of them stay as they are."""
        holes, seen = None if self.holes is None else self.holes[some, ...], self.seen_rows
        if seen is not None:
            xp = array_namespace(seen)
            first, last = (int(xp.count_nonzero(seen < edge)) for edge in (some.start, some.stop))
            seen = seen[first:last] - some.start
        observed = self.observed if self.observed.shape[0] == 1 else self.observed[some, ...]
        present = self.present and (seen is None or seen.shape[0] > 0)
        own = {"observed": observed, "holes": holes, "seen_rows": seen, "present": present}
        return replace(self, target=self.target[some, ...], **own)


@dataclass(frozen=True)
class Block:
    """Rows that are processed together.

    `shared`: one pattern of holes, hence one covariance of z given x, for all. `exact`: holes are left out; else they
    are variables of their own.
    """

    n: int
    shared: bool
    views: tuple[RowView, ...]
    observed: Array  # (r, ΣG + S): the masks of all views side by side, each view has its part of it; the row's group
    exact: bool
    part_bytes: int = HOST.part_bytes  # working memory of rows with a covariance each

    @classmethod
    def of(
        cls,
        views: Sequence[RowView],
        n: int,
        shared: bool,
        missing: str = "exact",
        part_bytes: int = HOST.part_bytes,
        groups: Array | None = None,
    ) -> Block:
        """The masks of the views are put side by side, and not kept twice.

        `groups` (r, S) of bool says which group of samples the rows are in; None where there are none.
        """
        xp = array_namespace(views[0].observed)
        masks = [*(view.observed for view in views), *([] if groups is None else [groups])]
        observed = masks[0] if len(masks) == 1 else xp.concat(masks, axis=1)
        kept, start = [], 0
        for view in views:
            stop = start + view.observed.shape[1]
            kept.append(replace(view, observed=observed[:, start:stop]))
            start = stop
        return cls(n, shared, tuple(kept), observed, missing == "exact", part_bytes)

    @property
    def z_follows_x(self) -> bool:
        """Is the posterior of latent x q(z | x) Π q(x), or, with holes as variables, q(z) q(x)?"""
        return self.exact and any(not view.is_static for view in self.views)

    def parts(self, n_factors: int, own: bool | None = None) -> list[slice]:
        """As many rows at a time as there is room for what each has of its own, or all where they share it."""
        latent = [view for view in self.views if not view.is_static]
        classes = sum(len(view.groups.index) ** 2 for view in latent if view.target.ndim == 1)
        own_bytes = 32 * n_factors**2 + sum(8 * len(v.groups.index) * n_factors for v in latent) + 8 * classes
        step = max(1, self.part_bytes // max(own_bytes, 1)) if (not self.shared if own is None else own) else self.n
        return [slice(start, min(start + step, self.n)) for start in range(0, self.n, step)]

    def rows(self, some: slice) -> Block:
        if some == slice(0, self.n):
            return self
        views = tuple(view.rows(some) for view in self.views)
        observed = self.observed if self.shared else self.observed[some, ...]
        return replace(self, n=some.stop - some.start, views=views, observed=observed)


LocalX = tuple[LatentX | None, ...]  # q(x) of a block, None for static views


def latent_x(x: LocalX, i: int) -> LatentX:
    """q(x) of a view that has one."""
    found = x[i]
    assert found is not None
    return found


def rows_of_x(x: LocalX, some: slice) -> LocalX:
    """q(x) of some of the rows; their sums are not known."""
    return tuple(q and LatentX(q.mean[some, ...], None, None, None if q.xi is None else q.xi[some, ...]) for q in x)


def join_x(parts: Sequence[LocalX]) -> LocalX:
    """q(x) of rows that were processed in parts."""
    return parts[0] if len(parts) == 1 else tuple(_join(column) for column in zip(*parts))


def _join(parts: Sequence[LatentX | None]) -> LatentX | None:
    found = [part for part in parts if part is not None]
    if not found:
        return None
    xp = array_namespace(found[0].mean)
    xi = None if found[0].xi is None else xp.concat([part.xi for part in found])
    second, bound = (sum(getattr(part, name) for part in found) for name in ("second", "bound"))
    return LatentX(xp.concat([part.mean for part in found]), second, bound, xi)


def as_float(stored: Array, like: Array | None = None) -> Array:
    """Numbers of single precision, or a mask, in the precision of the sums: that of `like`, else double.

    Sparse rows stay as they are: their products are in double precision.
    """
    if is_sparse(stored):
        return stored
    xp = array_namespace(stored)
    return xp.astype(stored, xp.float64 if like is None else like.dtype, copy=False)
