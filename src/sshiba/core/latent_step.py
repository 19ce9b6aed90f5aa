"""q(x) of latent views, given what z, or all other cells of the row, say.

Under missing="mean-field" the posterior is the paper's, q(z) q(x), and `update_x` is all. Else it is q(z | x) Π q(x),
with q(z | x) the exact conditional: its covariance is Σ_n, and its mean moves with x_nd by the gain g_nd = Σ_n
loading_d. With z integrated out, log p of a row is quadratic in its latent cells. In cell d alone its precision is
tau_d (1 − h_d), where the leverage h_d = g_d·<w_d> is what the cell says about itself through z, and its gradient at
the present means is tau_d (y_d − <x_d>), y = <z>·<w> + <b>. So q(x_d) is that of a cell whose predictor is <x_d> +
(y_d − <x_d>)/(1 − h_d) and whose noise has the precision tau_d (1 − h_d); then <z> moves by Δ<x_d> g_d.

Cells with h ≤ ½ may be updated at once: no eigenvalue of the precision P of all cells exceeds 1 in units of tau, and
with D its diagonal the bound rises by at least ½ Δᵀ(2D − P)Δ ≥ 0 where p(t | x) is log-concave. The leverages of a row
add up to less than K, so fewer than 2K cells are above ½; they are updated one by one.

A view of weight w > 1 counts as w copies of its cells, each with an x of its own: the leverage of one copy is h/w, and
the mean of the copies, which is what z sees, has the variance Var(x)/w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, pi
from types import ModuleType

import numpy as np

from .arrays import add_product, array_namespace, eye, move_by, place_rows, take_columns, to_numpy, zeros
from .blocks import Block, LocalX, RowView
from .likelihoods import RowUpdate, XUpdate
from .messages import Message, Messages
from .state import Array, LatentX

ALL_AT_ONCE = 0.5  # the largest leverage of cells that are updated together


def update_x(block: Block, x: LocalX, z: Array, messages: Messages) -> LocalX:
    """q(x) of the latent views (table 3, table 4)."""
    new: list[LatentX | None] = []
    for rows, old, message in zip(block.views, x, messages.views):
        if old is None:
            new.append(None)
        else:
            new.append(update_view_x(rows, old.xi, add_product(message.b_mean, z, message.w_mean.T), message))
    return tuple(new)


def update_view_x(rows: RowView, xi: Array | None, y: Array, message: Message) -> LatentX:
    """q(x) of one view at y = <z><w> + <b>."""
    if not rows.present:
        nothing = zeros(y.shape, y)
        return LatentX(nothing, nothing[0, :], nothing[0, 0], xi)
    if message.likelihood.whole_rows and rows.seen is not None:
        return infer_seen_rows(rows, rows.seen, y, message)
    found = message.likelihood.infer_x(rows.target, y, message.tau, xi)
    return leave_out_holes(rows, found) if rows.holes is None else fill_holes(rows, found, y, message.tau)


def infer_seen_rows(rows: RowView, seen: Array, y: Array, message: Message) -> LatentX:
    """q(x) of a view whose rows are seen or missing as a whole: only of those that are seen."""
    xp = array_namespace(y)
    target, seen_y = xp.take(rows.target, seen, axis=0), xp.take(y, seen, axis=0)
    found = message.likelihood.infer_x(target, seen_y, message.tau, None)
    return LatentX(place_rows(found.mean, seen, y.shape[0]), xp.sum(found.second, axis=0), xp.sum(found.bound))


def leave_out_holes(rows: RowView, x: XUpdate) -> LatentX:
    """Zero where not observed: a hole has no q(x)."""
    xp = array_namespace(x.mean)
    mean, second, bound = x.mean, x.second, x.bound
    if not rows.complete:
        seen = take_columns(rows.observed, rows.groups.index)
        seen_bound = seen if bound.shape[1] == mean.shape[1] else rows.observed
        mean, second, bound = (xp.where(m, v, 0.0) for m, v in ((seen, mean), (seen, second), (seen_bound, bound)))
    return LatentX(mean, xp.sum(second, axis=0), xp.sum(bound), x.xi)


def fill_holes(rows: RowView, x: XUpdate, y: Array, tau: Array) -> LatentX:
    """N(y, 1/tau) at a hole under missing="mean-field".

    Its unseen t̃ integrates out, so it is the same in all types (table 5; the paper prints its covariance as the
    precision, and leaves b out of its mean).
    """
    xp = array_namespace(y)
    holes = rows.holes
    assert holes is not None
    entropy = 0.5 * (log(2 * pi) + 1 - xp.log(tau)) + xp.zeros_like(y)
    own = xp.where(holes[:, : x.bound.shape[1]], 0.0, x.bound)
    bound = xp.sum(xp.where(holes, entropy, 0.0)) + xp.sum(own)
    second = xp.sum(xp.where(holes, y**2 + 1 / tau, x.second), axis=0)
    return LatentX(xp.where(holes, y, x.mean), second, bound, x.xi)


def start_x(block: Block, messages: Messages) -> LocalX:
    """q(x) as if the factors already told the targets: from there W learns fast; from y = 0 it may never grow."""
    new: list[LatentX | None] = []
    for rows, message in zip(block.views, messages.views):
        if rows.is_static:
            new.append(None)
            continue
        xp = array_namespace(message.loading)
        y = message.likelihood.start_y(rows.target, zeros((block.n, message.w_mean.shape[0]), message.loading))
        y = y if rows.holes is None else xp.where(rows.holes, 0.0, y)
        new.append(update_view_x(rows, None, y, message))
    return tuple(new)


# ------------------------------------------------------------------------------------------- q(x) that z is to follow


@dataclass(frozen=True)
class LatentView:
    """A latent view of some rows, and how z follows it."""

    rows: RowView
    message: Message
    x: LatentX
    gain: Array  # (r, D, K): how <z> moves with <x>
    seen: Array | None  # (r, D) of bool, None where all cells are
    crowded: tuple[int, ...] | None = None  # what `one_by_one` is, where rows share a gain

    @property
    def by_cell(self) -> bool:
        """Has a cell a q(x) of its own, or a row?"""
        return not self.message.likelihood.joint

    @cached_property
    def leverage(self) -> Array:
        """Of cells, (r, D); 0 where not observed."""
        leverage = leverage_of(self.message, self.gain)
        return leverage if self.seen is None else array_namespace(leverage).where(self.seen, leverage, 0.0)

    @property
    def alone(self) -> Array:
        """The cells that must not be updated with others, (r, D)."""
        return self.leverage > ALL_AT_ONCE

    @property
    def one_by_one(self) -> tuple[int, ...]:
        """The features that have such cells."""
        return marked_columns(self.alone, self.message) if self.crowded is None else self.crowded

    def predictor(self, z: Array) -> Array:
        return add_product(self.message.b_mean, z, self.message.w_mean.T)

    def moved_z(self, step: Array) -> Array:
        """What a step of <x>, (n, D), does to <z>."""
        return step @ self.gain[0, ...] if self.gain.shape[0] == 1 else (step[:, None, :] @ self.gain)[:, 0, :]


def latent_view(rows: RowView, message: Message, x: LatentX, cov: Array, crowded: tuple[int, ...] | None) -> LatentView:
    """`cov` is that of z given x, (r, K, K)."""
    seen = None if rows.complete else take_columns(rows.observed, rows.groups.index)
    rows = replace(rows, target=message.likelihood.opened(rows.target))
    return LatentView(rows, message, x, message.loading[None, ...] @ cov, seen, crowded)


def leverage_of(message: Message, gain: Array) -> Array:
    """What cells say about themselves through z, (r, D)."""
    return array_namespace(gain).vecdot(gain, message.w_mean) / message.copies


def crowded_features(message: Message, cov: Array) -> tuple[int, ...]:
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


@dataclass(frozen=True)
class LatentStep:
    """A new q(x), and the covariances of one copy of what z follows: between cells none, but their variances."""

    x: LatentX
    var: Array | None = None  # (n, D)
    cov: Array | None = None  # (n, D, D), or (1, D, D) their sum


def step_x(views: Sequence[LatentView], y: Sequence[Array], each: bool) -> list[LatentStep]:
    """q(x) of all latent views from their predictors at the present <z>.

    First the cells that may go together, then those that may not, then the views of classes; each is told what changed
    before. `each`: covariances of classes for each row, or their sum.
    """
    cells = {i: _infer_cells(v, y[i], slice(None)) for i, v in enumerate(views) if v.by_cell and v.rows.present}
    waiting = [(i, d) for i in cells for d in views[i].one_by_one]
    classes = [i for i, view in enumerate(views) if not view.by_cell and view.rows.present]
    moved: Array = 0.0
    if waiting or (classes and cells):
        moved = _update_one_by_one(views, y, cells, waiting)
    found = {i: _finish_cells(views[i], update) for i, update in cells.items()}
    for i in classes:
        view = views[i]
        predictor = y[i] if isinstance(moved, float) else y[i] + moved @ view.message.w_mean.T
        found[i] = _infer_rows(view, predictor, each)
        if i != classes[-1]:
            moved = moved + view.moved_z(found[i].x.mean - view.x.mean)
    return [found[i] if i in found else LatentStep(_nothing(view)) for i, view in enumerate(views)]


def _infer_cells(view: LatentView, y: Array, some: slice) -> XUpdate:
    """q(x) of some features, told what the other cells say; `y` has these features only."""
    xp, mean, free = array_namespace(y), view.x.mean[:, some], 1 - view.leverage[:, some]
    tau = (view.message.tau + xp.zeros_like(view.message.b_mean))[some]
    xi = None if view.x.xi is None else view.x.xi[:, some]
    return view.message.likelihood.infer_x(view.rows.target[:, some, ...], move_by(mean, y, 1 / free), tau * free, xi)


def _update_one_by_one(
    views: Sequence[LatentView], y: Sequence[Array], cells: dict[int, XUpdate], waiting: Sequence[tuple[int, int]]
) -> Array:
    """Replace in `cells` those that must not be updated with others; returns what all of them do to <z>."""
    xp = array_namespace(y[0])
    for i, d in waiting:
        cells[i].mean[:, d] = xp.where(views[i].alone[:, d], views[i].x.mean[:, d], cells[i].mean[:, d])
    moved = sum(views[i].moved_z(_seen(views[i], found.mean) - views[i].x.mean) for i, found in cells.items())
    for i, d in waiting:
        view, found, one = views[i], cells[i], slice(d, d + 1)
        alone = view.alone[:, one]
        new = _infer_cells(view, y[i][:, one] + moved @ view.message.w_mean[one, :].T, one)
        moved = moved + xp.where(alone, new.mean - view.x.mean[:, one], 0.0) * view.gain[:, d, :]
        for name in ("mean", "second", "bound", "xi"):
            if getattr(new, name) is not None:
                getattr(found, name)[:, one] = xp.where(alone, getattr(new, name), getattr(found, name)[:, one])
    return moved


def _seen(view: LatentView, values: Array) -> Array:
    return values if view.seen is None else array_namespace(values).where(view.seen, values, 0.0)


def _finish_cells(view: LatentView, cells: XUpdate) -> LatentStep:
    return LatentStep(leave_out_holes(view.rows, cells), _seen(view, cells.second - cells.mean**2))


def _infer_rows(view: LatentView, y: Array, each: bool) -> LatentStep:
    """q(x) of rows whose cells are inferred together."""
    xp, found = array_namespace(y), None
    if view.gain.shape[0] > 1 and type(y) is np.ndarray:
        w = view.message.w_mean / view.message.copies
        found = view.message.likelihood.infer_own_rows(view.rows.target, view.x.mean, y, view.gain, w, view.rows.seen)
    found = _infer_rows_of_arrays(view, y, each) if found is None else found
    diagonal = xp.sum(xp.sum(found.cov, axis=0) * eye(y.shape[1], y), axis=1)
    second = xp.sum(found.mean**2, axis=0) + diagonal
    return LatentStep(LatentX(found.mean, second, xp.sum(found.bound), found.xi), cov=found.cov)


def _infer_rows_of_arrays(view: LatentView, y: Array, each: bool) -> RowUpdate:
    """<x> and its covariances are 0 in rows without a label."""
    xp, rows, message = array_namespace(y), view.rows, view.message
    own = view.gain.shape[0] > 1

    def some(values: Array) -> Array:
        return values if rows.seen is None else xp.take(values, rows.seen, axis=0)

    gain = some(view.gain) if own else view.gain
    r, n_features, n_components = gain.shape
    flat = xp.reshape(gain, (r * n_features, n_components))  # one product is faster than one for each row
    told = xp.reshape(flat @ message.w_mean.T, (r, n_features, n_features))
    cells = some(rows.target), some(view.x.mean), some(y), None if view.x.xi is None else some(view.x.xi)
    seen = None if view.seen is None or rows.seen is not None else view.seen
    found = message.likelihood.infer_rows(*cells, told, seen, message.tau, message.weight, each or own)
    if rows.seen is None:
        return found
    mean, cov, xi = (
        v if v is None else place_rows(v, rows.seen, y.shape[0]) for v in (found.mean, found.cov, found.xi)
    )
    return RowUpdate(mean, cov, found.bound, xi)


def _nothing(view: LatentView) -> LatentX:
    """q(x) of a view that no row of the block has."""
    nothing = zeros(view.x.mean.shape, view.x.mean)
    return LatentX(nothing, nothing[0, :], nothing[0, 0], view.x.xi)


def added_zz(view: LatentView, step: LatentStep) -> Array:
    """gᵀ Cov(x_n) g, which x adds to the covariance of z, of each row: (n, K, K)."""
    xp, gain = array_namespace(view.gain), view.gain
    scaled = gain / view.message.copies
    if step.cov is not None:
        return xp.matrix_transpose(gain) @ step.cov @ scaled
    assert step.var is not None
    if gain.shape[0] > 1:
        return xp.matrix_transpose(gain) @ (step.var[:, :, None] * scaled)
    outer = gain[0, :, :, None] * scaled[0, :, None, :]
    return xp.reshape(step.var @ xp.reshape(outer, (outer.shape[0], -1)), (step.var.shape[0], *outer.shape[1:]))


def pulled_by(view: LatentView, step: LatentStep) -> Array:
    """Cov(x) g of each row, (n, D, K), or their sum, (1, D, K), where rows share a gain: Cov(x, z)."""
    gain, spread = view.gain, step.var if step.cov is None else step.cov
    assert spread is not None
    if gain.shape[0] == 1 < spread.shape[0]:
        spread = array_namespace(gain).sum(spread, axis=0, keepdims=True)
    spread = spread / view.message.copies
    return spread[:, :, None] * gain if step.cov is None else spread @ gain


def add_sums(total: Array, view: LatentView, step: LatentStep) -> Array:
    """Adds to `total`, (r, K, K), what the covariances of x add to Σ<zzᵀ>; returns what they add to Σ<xzᵀ>, (D, K)."""
    xp, gain = array_namespace(view.gain), view.gain
    fast = compiled() if step.cov is not None and gain.shape[0] > 1 and type(total) is np.ndarray else None
    if fast is not None and gain.shape[1] <= fast.MOST_CLASSES:
        return fast.add_spread(total, gain, step.cov, view.message.copies)
    pulled = pulled_by(view, step)
    total += xp.matrix_transpose(gain) @ pulled
    return xp.sum(pulled, axis=0)


def compiled() -> ModuleType | None:
    """The compiled twin, or None without numba."""
    try:
        from . import spread_compiled
    except ImportError:
        return None
    return spread_compiled
