"""<z> and q(x) of a row found together, by Newton's method.

A cell that says little of its own x, such as a count of 0, follows z, and z follows it. In turns they creep, by the
share of what such cells leave unsaid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from array_api_compat import is_numpy_array

from .arrays import array_namespace, eye, pairs_of, unpack_pairs
from .latent_view import LatentView, seen_only
from .likelihoods import XUpdate
from .state import Array

ROUNDING = 1e-10  # nats: a smaller loss of a row is none


def find_with_z(views: Mapping[int, LatentView], y: Sequence[Array]) -> dict[int, XUpdate]:
    """q(x) of these views, found together with <z> by a step of Newton's method.

    At a given <z> the best <x> is that of `follow_y`. It moves with y by its slope s, and <z> then moves by G Δ<z>, G =
    Σ_n loadingᵀ diag(s) <W>. So where the best <x> would move <z> by δ, both are at their best after (I − G)⁻¹ δ, to
    first order; slopes are below 1, and I − G is regular. The best <x> of the present <z> raises the bound; a row that
    the step would leave lower keeps it.
    """
    plain = {i: _follow(view, y[i], view.x.mean, y[i]) for i, view in views.items()}
    if not views or (cov := next(iter(views.values())).cov).shape[-1] == 0:
        return plain
    xp = array_namespace(cov)
    delta = moved_by(views, plain)
    told = sum(_told_by_slopes(view, plain[i].slope) for i, view in views.items())
    ahead_z = xp.linalg.solve(eye(cov.shape[-1], cov) - cov @ told, delta[:, :, None])[:, :, 0]
    ahead = {}
    for i, view in views.items():
        step = ahead_z @ view.message.w_mean.T
        ahead[i] = _follow(view, y[i] + step, plain[i].mean + plain[i].slope * step, None)
    better = (_rise(views, y, plain, ahead, delta) >= -ROUNDING)[:, None]
    if is_numpy_array(better) and better.all():
        return ahead
    names = ("mean", "second", "bound", "slope", "drift")
    return {
        i: XUpdate(**{name: xp.where(better, getattr(ahead[i], name), getattr(plain[i], name)) for name in names})
        for i in views
    }


def _follow(view: LatentView, y: Array, near: Array, near_holes: Array | None) -> XUpdate:
    """q(x) while z is held; <x> is expected `near` this, and at holes near that."""
    if view.seen is not None and near_holes is not None:
        near = array_namespace(y).where(view.seen, near, near_holes)
    return view.message.likelihood.follow_y(view.rows.target, y, view.message.tau, view.free, near)


def moved_by(views: Mapping[int, LatentView], found: Mapping[int, XUpdate]) -> Array:
    """What new means do to <z>, (n, K)."""
    return sum(views[i].moved_z(seen_only(views[i], new.mean) - views[i].x.mean) for i, new in found.items())


def _told_by_slopes(view: LatentView, slope: Array | None) -> Array:
    """Σ_d s_d w_m tau_d <w_d><w_d>ᵀ of each row, (n, K, K)."""
    assert slope is not None
    weights = array_namespace(slope).sqrt(view.message.tau * view.message.weight)[:, None] * view.message.w_mean
    return unpack_pairs(seen_only(view, slope) @ pairs_of(weights), weights.shape[1])


def _rise(
    views: Mapping[int, LatentView],
    y: Sequence[Array],
    a: Mapping[int, XUpdate],
    b: Mapping[int, XUpdate],
    moved: Array,
) -> Array:
    """How much higher the bound of each row is at `b` than at `a`, (n,); `moved` is what `a` does to <z>.

    log p of x, z integrated out, has in <x> the gradient w_m tau (y − <x>) and the second derivatives −P: P e = w_m
    tau (e − <W> g), where g is what the step e does to <z>.
    """
    xp = array_namespace(moved)
    total: Array = 0.0
    pulled: Array = 0.0
    ahead: Array = moved
    for i, view in views.items():
        tau, old, new = view.message.tau, a[i], b[i]
        step = new.mean - old.mean
        variances = (new.second - old.second) - step * (new.mean + old.mean)
        own = new.bound - old.bound + tau * (step * (y[i] - old.mean - 0.5 * step) - 0.5 * view.free * variances)
        total = total + view.message.weight * xp.sum(seen_only(view, own), axis=1)
        step = seen_only(view, step)
        pulled, ahead = pulled + step @ view.message.loading, ahead + 0.5 * view.moved_z(step)
    return total + xp.vecdot(pulled, ahead)
