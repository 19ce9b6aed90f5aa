"""How many factors: those that explain nothing are dropped, and a model with one less or one more is given a try.

Models of different sizes are compared by their log evidence: the bound loses more, the more factors there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.evidence import is_derived, log_evidence
from ..core.explained import gained_nats, largest_share
from ..core.spec import ModelSpec
from ..core.start import random_factors
from ..engines.protocol import Rows
from .budget import Budget, FitOptions
from .sweep import State, sweep

FIRST_TRIAL = 1000.0  # times tol: the rise per sweep at which a smaller model is first tried
TRIAL_SWEEPS = 10  # what a model with a factor less gets to show that it is better
BIRTH_SWEEPS = 20  # the same for a factor more
CANDIDATES = 3  # weakest factors, each of which is left out for trial at convergence
NEAR = 2.0  # times what the weakest factor adds: one that adds more is no candidate
IDLE_COST = 2.0  # nats a view: at least that much a factor costs that does nothing, by its alpha
BIRTH_SCALE = 0.3  # of the random weights of a start


def prune(state: State, options: FitOptions, spec: ModelSpec) -> State:
    """Drop the factors that explain less than `prune_tol` of every view. The bound starts anew: the model changed.

    Where trials are wanted and the bound decides them, also those that fade and already add less than they cost: some
    more sweeps, the longest ones of a fit, would end with them gone. One that adds as little but grows stays. (Where
    the log evidence decides, one that fades may be worth it.)
    """
    if state.stats is None:
        return state
    used = largest_share(state.posterior, state.stats) > options.prune_tol
    drop_fading = options.trials and not is_derived(spec)
    if drop_fading and state.nats is not None and state.fading is not None:
        used &= ~state.fading | (state.nats > IDLE_COST * len(state.posterior.views))
    return state if used.all() else keep_factors(state, np.flatnonzero(used))


def keep_factors(state: State, keep: np.ndarray) -> State:
    """The same state with only some of its factors, or none, before any update has seen it.

    It has no momentum: with it the sweeps in which factors go, and trials, came to their end sooner, but with a factor
    too few.
    """
    nats = None if state.nats is None else state.nats[keep]
    return State(state.posterior.select_factors(keep), state.local, nats=nats)


class Trials:
    """When models with a factor less or more are tried, and whether a fit has converged.

    A trial takes sweeps, so the bound must rise slowly first. After a trial that failed it must rise ten times as
    slowly, and must have risen by what that trial lacked: else another one would not win either. At convergence there
    is one anyway.
    """

    def __init__(self, rows: Rows, options: FitOptions, budget: Budget, most: int, n_warm_up: int) -> None:
        """`most` factors may be in the model; for `n_warm_up` sweeps there is no trial."""
        self.rows, self.options, self.budget, self.most, self.n_warm_up = rows, options, budget, most, n_warm_up
        self.patience = FIRST_TRIAL  # times tol: a rise per sweep below it is slow
        self.grown_to = 0  # how many factors there were when one was added last
        self.hopeless_below = -np.inf  # the bound from which on another trial may win

    def after_sweep(self, state: State, pace: float) -> tuple[State, bool]:
        """The model of a trial, if one is due and wins, else the same state; and whether the fit has converged.

        `pace` is the rise of the bound in a plain sweep. A fit has converged where it is below `tol` and no trial wins.
        """
        settled = pace < self.options.tol
        if not self._due(state, pace, settled):
            return state, False
        size, converged = state.posterior.n_components, False
        most = size if size < self.grown_to else self.most  # one that came and went is not tried again
        better, lacked = try_other_size(self.rows, state, self.options, self.budget, settled, most)
        if better is not None:
            state = better
            if state.posterior.n_components > size:
                self.grown_to = state.posterior.n_components
        elif not self.budget.exhausted:  # else the trial was cut short, and says nothing
            converged = settled
            self.patience = max(1.0, min(self.patience, pace / max(self.options.tol, 1e-300)) / 10)
        self.hopeless_below = state.bound + lacked
        return state, converged

    def _due(self, state: State, pace: float, settled: bool) -> bool:
        """Not right after pruning, when the bound is not known, nor, if the fit rotates, after a sweep without that."""
        rotated = state.gain is not None
        ready = state.stats is not None and self.budget.n_sweeps > self.n_warm_up and rotated == self.options.rotate
        slow = pace < self.patience * self.options.tol
        return ready and slow and (settled or state.bound >= self.hopeless_below)


class Outcome(NamedTuple):
    """How trials ended: with a model that is worth more, or None; and what the last one lacked, in nats."""

    better: State | None
    lacked: float = 0.0


def try_other_size(rows: Rows, state: State, options: FitOptions, budget: Budget, settled: bool, most: int) -> Outcome:
    """A model with a factor less, or at convergence with one more, if it is worth more and trials are wanted."""
    if not options.trials:
        return Outcome(None)
    seed = budget.n_sweeps
    outcome = try_smaller(rows, state, options, budget, CANDIDATES if settled else 1)
    if outcome.better is None and settled and state.posterior.n_components < most:
        outcome = try_larger(rows, state, options, budget, seed)
    return outcome


def try_smaller(rows: Rows, state: State, options: FitOptions, budget: Budget, n_candidates: int) -> Outcome:
    """Drop one of the weakest factors as long as the model is worth more without it.

    A factor can sit for ever at a small local optimum that costs more than it explains; its removal is a step that
    coordinate ascent cannot take.
    """
    best, found, lacked = None, True, 0.0
    while found and state.stats is not None:
        nats = gained_nats(state.posterior, state.stats, rows.spec)
        found, best_so_far = False, worth(rows, state)
        weakest = np.argsort(nats)[:n_candidates]
        for weak in weakest[nats[weakest] <= NEAR * nats[weakest[:1]]]:
            smaller = keep_factors(state, np.delete(np.arange(len(nats)), weak))
            trial, lacked = attempt(rows, smaller, best_so_far, options, budget, TRIAL_SWEEPS, options.rotate)
            if trial is not None:
                best, state, found = trial, trial, True
                break
    return Outcome(best, lacked)


def try_larger(rows: Rows, state: State, options: FitOptions, budget: Budget, seed: int) -> Outcome:
    """Add a faint random factor; keep it if the model is soon worth more. Early rotations prune one too many."""
    born = random_factors(rows.spec, 1, rows.groups, np.random.default_rng(seed))
    larger = State(state.posterior.add_factors(born, BIRTH_SCALE), state.local)
    return attempt(rows, larger, worth(rows, state) + options.tol, options, budget, BIRTH_SWEEPS, rotating=False)


def worth(rows: Rows, state: State) -> float:
    """What models of different sizes are compared by: the log evidence, or the bound where that is not derived."""
    if state.stats is None:
        return state.bound
    found = log_evidence(state.posterior, state.stats, rows.spec, state.bound)
    return state.bound if found is None else found


def attempt(
    rows: Rows, trial: State, goal: float, options: FitOptions, budget: Budget, n_sweeps: int, rotating: bool
) -> Outcome:
    """A few sweeps in which `trial` must become worth more than `goal`; None where it does not, or the budget ends."""
    value = -np.inf
    for left in reversed(range(n_sweeps)):
        if budget.exhausted:
            return Outcome(None)
        trial = sweep(rows, trial, rotating, momentum=options.momentum)
        budget.n_sweeps += 1
        before, value = value, worth(rows, trial)
        if value > goal:
            return Outcome(trial)
        # Rises shrink from sweep to sweep: what does not arrive at the present pace never will.
        if value + left * (value - before) < goal:
            break
    return Outcome(None, goal - value)
