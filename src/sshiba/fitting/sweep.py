"""A sweep: local step, global step, rotation, momentum, and the bound, which may not fall."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.bound import elbo
from ..core.explained import gained_nats
from ..core.global_step import GLOBAL_UPDATES, Residuals, global_step
from ..core.momentum import Point, extrapolate, reached_by
from ..core.rotation import best_rotation, rotate
from ..core.spec import ModelSpec
from ..core.state import Posterior, Stats
from ..core.threads import threads_for
from ..core.work import product_operations
from ..engines.protocol import Local, Rows

ROUNDING = 1e-9  # of the size of the bound: a fall beyond it is an error
FADING = 0.9  # of what it added a sweep ago: a factor that adds less is fading
INEXACT = 1e-3  # nats a row, where an update of q(x) is not exact: a sweep that lowers the bound by less is not made


class BoundError(ArithmeticError):
    """The bound fell, which exact coordinate ascent cannot do."""


@dataclass(frozen=True)
class State:
    """A fit after a sweep.

    `size` is the sum of the absolute terms of the bound, the measure of its rounding; `gain` is what the rotation
    brought, None without one. The next sweep starts from what is `reached`, and from momentum: `past` is what had been
    reached one sweep ago, and `n_ahead` how many sweeps in a row started so.
    """

    posterior: Posterior
    local: Local
    stats: Stats | None = None
    bound: float = -np.inf
    size: float = 0.0
    gain: float | None = None
    reached: Point | None = None
    past: Point | None = None
    n_ahead: int = 0
    nats: np.ndarray | None = None  # (K,): what each factor adds to the log-likelihood
    fading: np.ndarray | None = None  # (K,) of bool: which of them added clearly more a sweep ago

    @property
    def is_anew(self) -> bool:
        """Was q(x) of some rows lost, and found again? Then the bound may be lower than before, and starts anew."""
        return self.stats is not None and self.stats.n_restored > 0


def sweep(rows: Rows, state: State, rotating: bool, hold_x: bool = False, momentum: bool = False) -> State:
    """One sweep; the bound may not fall, unless q(x) of some rows was lost.

    With momentum the local step starts ahead of the globals, where the last two sweeps point to. If that lowers the
    bound it is forgotten, and the sweep is repeated from where the globals stand.
    """
    if momentum and state.reached is not None:
        ahead = extrapolate(state.posterior, state.reached, state.past, state.n_ahead)
        new = sweep_once(rows, replace(state, posterior=ahead), rotating, hold_x, momentum)
        if new.is_anew or new.bound >= state.bound:  # a fall here need not be rounding, however small it is
            return replace(new, n_ahead=state.n_ahead + 1)
    new = sweep_once(rows, state, rotating, hold_x, momentum)
    if new.is_anew or new.bound >= state.bound - ROUNDING * new.size:
        return new
    if not all(view.likelihood.exact for view in rows.spec.views) and new.bound >= state.bound - INEXACT * rows.n_rows:
        return replace(state, gain=new.gain, reached=None, past=None, n_ahead=0)
    raise BoundError(explain_fall(rows, state, new, hold_x))


def sweep_once(rows: Rows, state: State, rotating: bool, hold_x: bool, momentum: bool) -> State:
    """Local step, global step, rotation; with momentum also what is reached."""
    n_masks = sum(map(len, rows.groups))
    with threads_for(product_operations(rows.n_rows, rows.spec, n_masks, state.posterior.n_factors)):
        local, stats = rows.step(state.posterior, state.local, hold_x)
        posterior, residuals = global_step(stats, state.posterior, rows.spec)
        reached, past = None, None
        if momentum and not hold_x:
            reached, past = reached_by(stats, state.posterior, posterior, rows.spec), state.reached
        gain, R = None, None
        nats = gained_nats(posterior, stats, rows.spec)
        fading = None if state.nats is None else nats < FADING * state.nats
        if rotating:
            found, gain = best_rotation(posterior, stats, rows.spec)
            if gain > 0:
                R = found
                posterior, stats = rotate(posterior, stats, rows.spec, R)
                nats = gained_nats(posterior, stats, rows.spec)
        new = with_bound(rows.spec, posterior, local, stats, residuals)
        reached, past = reached and reached.turned(R), past and past.turned(R)
        return replace(new, gain=gain, reached=reached, past=past, nats=nats, fading=fading)


def with_bound(
    spec: ModelSpec, posterior: Posterior, local: Local, stats: Stats, residuals: Residuals | None = None
) -> State:
    terms = elbo(posterior, stats, spec, residuals).values()
    return State(posterior, local, stats, sum(terms), sum(abs(t) for t in terms))


def explain_fall(rows: Rows, before: State, after: State, hold_x: bool) -> str:
    """Repeat a sweep update by update, and name the one that lowered the bound."""
    local, stats = rows.step(before.posterior, before.local, hold_x)
    state = with_bound(rows.spec, before.posterior, local, stats)
    culprit = "the local step (z, x)"
    if state.bound >= before.bound - ROUNDING * state.size:
        culprit = "the rotation"
        for name, update in GLOBAL_UPDATES.items():
            new = with_bound(rows.spec, update(stats, state.posterior, rows.spec), local, stats)
            if not new.bound >= state.bound - ROUNDING * new.size:
                culprit = name
                break
            state = new
    return (
        f"The bound fell from {before.bound:.12g} to {after.bound:.12g}, in {culprit}. "
        "This should not happen; please report it with the data's shapes and options."
    )
