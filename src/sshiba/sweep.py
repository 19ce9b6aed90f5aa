"""A sweep: local step, global step, rotation, and the bound, which may not fall."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from .elbo import elbo
from .model import Model
from .rotation import find_rotation, objective, rotate
from .state import ColumnGroups, Posterior, Stats
from .updates import GLOBAL_UPDATES, apply_update, global_step

ROUNDING = 1e-9  # of the size of the bound: a fall beyond it is an error


class BoundError(ArithmeticError):
    """The bound fell, which exact coordinate ascent cannot do."""


class Engine(Protocol):
    """Where the rows are. `local` is whatever the engine keeps for them between sweeps: a value, never changed."""

    model: Model
    groups: tuple[ColumnGroups, ...]

    def start(self, posterior: Posterior) -> Any: ...
    def local_step(self, posterior: Posterior, local: Any, hold_x: bool = False) -> tuple[Any, Stats]: ...


@dataclass(frozen=True)
class State:
    """A fit after a sweep.

    `size` is the sum of the absolute terms of the bound, the measure of its rounding; `gain` is what the rotation
    brought, None without one.
    """

    posterior: Posterior
    local: Any
    stats: Stats | None = None
    bound: float = -np.inf
    size: float = 0.0
    gain: float | None = None


def sweep(engine: Engine, state: State, rotating: bool, hold_x: bool = False) -> State:
    """Local step, global step, rotation; the bound may not fall."""
    local, stats = engine.local_step(state.posterior, state.local, hold_x)
    posterior, gain = global_step(stats, state.posterior, engine.model), None
    if rotating:
        R, gain = find_rotation(objective(posterior, stats, engine.model))
        if gain > 0:
            posterior, stats = rotate(posterior, stats, engine.model, R)
    new = replace(measured(engine.model, posterior, local, stats), gain=gain)
    if not new.bound >= state.bound - ROUNDING * new.size:
        raise BoundError(blame(engine, state, new, hold_x))
    return new


def measured(model: Model, posterior: Posterior, local: Any, stats: Stats) -> State:
    terms = elbo(posterior, stats, model).values()
    return State(posterior, local, stats, sum(terms), sum(abs(t) for t in terms))


def blame(engine: Engine, before: State, after: State, hold_x: bool) -> str:
    """Repeat a sweep update by update, and name the one that lowered the bound."""
    local, stats = engine.local_step(before.posterior, before.local, hold_x)
    state = measured(engine.model, before.posterior, local, stats)
    culprit = "the local step (z, x)"
    if state.bound >= before.bound - ROUNDING * state.size:
        culprit = "the rotation"
        for update in GLOBAL_UPDATES:
            new = measured(engine.model, apply_update(update, stats, state.posterior, engine.model), local, stats)
            if not new.bound >= state.bound - ROUNDING * new.size:
                culprit = update.__name__
                break
            state = new
    return (
        f"The bound fell from {before.bound:.12g} to {after.bound:.12g}, in {culprit}. "
        "This should not happen; please report it with the data's shapes and options."
    )
