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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log, pi

import numpy as np

from .arrays import (
    add_product,
    array_namespace,
    compiled_twin,
    cross_product,
    move_by,
    pairs_of,
    place_rows,
    sum_of_rows,
    take_columns,
    zeros,
)
from .blocks import Block, LocalX, RowView
from .latent_view import LatentView, seen_only
from .likelihoods import RowCells, RowUpdate, XUpdate
from .messages import Message, Messages
from .newton_rows import find_with_z, moved_by
from .state import Array, LatentX, Slopes

compiled = partial(compiled_twin, "spread_compiled")


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
    return _view_x(message.likelihood.infer_x, rows, xi, y, message)


def _view_x(infer: Callable[..., XUpdate], rows: RowView, xi: Array | None, y: Array, message: Message) -> LatentX:
    """q(x) of one view by `infer` of its likelihood."""
    if not rows.present:
        nothing = zeros(y.shape, y)
        return LatentX(nothing, nothing[0, :], nothing[0, 0], xi)
    if message.likelihood.whole_rows and rows.seen_rows is not None:
        return infer_seen_rows(infer, rows, rows.seen_rows, y, message)
    found = infer(rows.target, y, message.tau, xi)
    return leave_out_holes(rows, found) if rows.holes is None else fill_holes(rows, found, y, message.tau)


def infer_seen_rows(infer: Callable[..., XUpdate], rows: RowView, seen: Array, y: Array, message: Message) -> LatentX:
    """q(x) of a view whose rows are seen or missing as a whole: only of those that are seen."""
    xp = array_namespace(y)
    target, seen_y = xp.take(rows.target, seen, axis=0), xp.take(y, seen, axis=0)
    found = infer(target, seen_y, message.tau, None)
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
        new.append(_view_x(message.likelihood.start_x, rows, None, y, message))
    return tuple(new)


# ------------------------------------------------------------------------------------------- q(x) that z is to follow


@dataclass(frozen=True)
class LatentStep:
    """A new q(x) of a view, and its spread, which z follows: `var` of cells that have a q(x) each, `cov` of rows whose
    cells are inferred together. Where a cell counts as several copies, the spread is that of one.

    Where the likelihood tells them, also `slope`, `drift` and `pull` of the cells, as `XUpdate` has them.
    """

    x: LatentX
    var: Array | None = None  # (n, D)
    slope: Array | None = None  # (n, D)
    drift: Array | None = None  # (n, D)
    pull: Array | None = None  # (n, D)
    cov: Array | None = None  # (n, D, D), or (1, D, D) their sum


def step_x(views: Sequence[LatentView], y: Sequence[Array], each: bool) -> list[LatentStep]:
    """q(x) of all latent views from their predictors at the present <z>.

    First the views that are found with z, then the cells that may go together, then those that may not, then the views
    of classes; each is told what changed before. Those that take turns do so from the strongest on, whatever the order
    of columns and views. `each`: covariances of classes for each row, or their sum.
    """
    with_z = find_with_z({i: view for i, view in enumerate(views) if view.found_with_z}, y)
    others = [i for i, view in enumerate(views) if view.rows.present and i not in with_z]
    if with_z and others:
        moved_z = moved_by(dict(enumerate(views)), with_z)
        y = [own + moved_z @ view.message.w_mean.T for view, own in zip(views, y)]
    cells = {i: _infer_cells(views[i], y[i], slice(None)) for i in others if views[i].by_cell}
    waiting = [(i, d) for i in cells for d in views[i].one_by_one]
    waiting.sort(key=lambda place: -views[place[0]].message.strength[place[1]])
    classes = sorted((i for i in others if not views[i].by_cell), key=lambda i: -sum(views[i].message.strength))
    moved: Array = 0.0
    if waiting or (classes and cells):
        moved = _update_one_by_one(views, y, cells, waiting)
    found = {i: _finish_cells(views[i], update) for i, update in (cells | with_z).items()}
    for i in classes:
        view = views[i]
        predictor = y[i] if isinstance(moved, float) else y[i] + moved @ view.message.w_mean.T
        found[i] = _infer_rows(view, predictor, each)
        if i != classes[-1]:
            moved = moved + view.moved_z(found[i].x.mean - view.x.mean)
    return [found[i] if i in found else LatentStep(_nothing(view)) for i, view in enumerate(views)]


def _infer_cells(view: LatentView, y: Array, some: slice) -> XUpdate:
    """q(x) of some features, told what the other cells say; `y` has these features only."""
    xp, mean, free = array_namespace(y), view.x.mean[:, some], view.free[:, some]
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
    moved = sum(views[i].moved_z(seen_only(views[i], found.mean) - views[i].x.mean) for i, found in cells.items())
    for i, d in waiting:
        view, found, one = views[i], cells[i], slice(d, d + 1)
        alone = view.alone[:, one]
        new = _infer_cells(view, y[i][:, one] + moved @ view.message.w_mean[one, :].T, one)
        moved = moved + xp.where(alone, new.mean - view.x.mean[:, one], 0.0) * view.gain[:, d, :]
        for name, value in vars(new).items():
            if value is not None:
                getattr(found, name)[:, one] = xp.where(alone, value, getattr(found, name)[:, one])
    return moved


def _finish_cells(view: LatentView, cells: XUpdate) -> LatentStep:
    var = seen_only(view, cells.second - cells.mean**2)
    return LatentStep(leave_out_holes(view.rows, cells), var, cells.slope, cells.drift, cells.pull)


def _infer_rows(view: LatentView, y: Array, each: bool) -> LatentStep:
    """q(x) of rows whose cells are inferred together."""
    xp, found = array_namespace(y), None
    if view.gain.shape[0] > 1 and type(y) is np.ndarray:
        w, rows = view.message.w_mean / view.message.copies, view.rows
        found = view.message.likelihood.infer_own_rows(rows.target, view.x.mean, y, view.gain, w, rows.seen_rows)
    found = _infer_rows_of_arrays(view, y, each) if found is None else found
    second = sum_of_rows(found.mean**2)[0, :] + sum_of_rows(xp.linalg.diagonal(found.cov))[0, :]
    return LatentStep(LatentX(found.mean, second, xp.sum(found.bound), found.xi), cov=found.cov)


def _infer_rows_of_arrays(view: LatentView, y: Array, each: bool) -> RowUpdate:
    """<x> and its covariances are 0 in rows without a label."""
    xp, rows, message = array_namespace(y), view.rows, view.message
    own = view.gain.shape[0] > 1

    def some(values: Array) -> Array:
        return values if rows.seen_rows is None else xp.take(values, rows.seen_rows, axis=0)

    gain = some(view.gain) if own else view.gain
    r, n_features, n_factors = gain.shape
    flat = xp.reshape(gain, (r * n_features, n_factors))  # one product is faster than one for each row
    leverage = xp.reshape(flat @ message.w_mean.T, (r, n_features, n_features))
    xi = None if view.x.xi is None else some(view.x.xi)
    seen = None if view.seen is None or rows.seen_rows is not None else view.seen
    cells = RowCells(some(rows.target), some(view.x.mean), some(y), xi, leverage, seen, message.tau, message.weight)
    found = message.likelihood.infer_rows(cells, each or own)
    if rows.seen_rows is None:
        return found
    mean, cov, xi = (
        v if v is None else place_rows(v, rows.seen_rows, y.shape[0]) for v in (found.mean, found.cov, found.xi)
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
    if view.message.copies != 1:
        spread = spread / view.message.copies
    return spread[:, :, None] * gain if step.cov is None else spread @ gain


def add_sums(total: Array, view: LatentView, step: LatentStep) -> Array:
    """Adds to `total`, (r, K, K), what the covariances of x add to Σ<zzᵀ>; returns what they add to Σ<xzᵀ>, (D, K)."""
    xp, gain = array_namespace(view.gain), view.gain
    fast = compiled() if step.cov is not None and gain.shape[0] > 1 and type(total) is np.ndarray else None
    if fast is not None and gain.shape[1] <= fast.MOST_CLASSES:
        return fast.add_spread(total, gain, step.cov, float(view.message.copies))
    pulled = pulled_by(view, step)
    total += xp.matrix_transpose(gain) @ pulled
    return xp.sum(pulled, axis=0)


def sum_slopes(view: LatentView, step: LatentStep, z: Array) -> Slopes | None:
    """How <x> would follow the globals of the view, summed over rows; None where its cells do not tell it."""
    if step.slope is None or step.drift is None:
        return None
    xp = array_namespace(z)
    if step.pull is not None:
        return _sum_scale_slopes(view, step, z)
    with_one = xp.concat([z, xp.ones_like(step.slope[:, :1])], axis=1)
    return Slopes(
        cross_product(seen_only(view, step.slope), pairs_of(with_one)), xp.sum(seen_only(view, step.drift), axis=0)
    )


def _sum_scale_slopes(view: LatentView, step: LatentStep, z: Array) -> Slopes:
    """The same along the scale of each feature alone, in O(n D): sums with f = <w>·<z> and 1.

    z follows x, so that x − w·z moves by the share `free` of a step of x, and tau·free, with which x was inferred, by
    as much less than tau; of a cell that is told by many others that leaves a shorter leap, not a longer one.
    """
    xp, free = array_namespace(z), view.free
    slope, pull = seen_only(view, free * step.slope), seen_only(view, free**2 * step.pull)
    f = z @ view.message.w_mean.T
    pairs = [xp.sum(v, axis=0) for v in (slope * f**2, slope * f, slope)]
    pulls = [xp.sum(v, axis=0) for v in (pull * f, pull)]
    drift = xp.sum(seen_only(view, free**3 * step.drift), axis=0)
    return Slopes(xp.stack(pairs, axis=1), drift, xp.stack(pulls, axis=1))
