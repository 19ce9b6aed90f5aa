"""How many factors: those that explain nothing are dropped, and a model with one less or one more is given a try."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .special import array_namespace
from .start import random_posterior
from .state import Posterior, Stats
from .sweep import Engine, State, sweep

if TYPE_CHECKING:
    from .fit import Options

TRIAL_SWEEPS = 10  # what a model with a factor less gets to show that its bound is higher
BIRTH_SWEEPS = 20  # the same for a factor more
CANDIDATES = 3  # weakest factors, each left out for trial at convergence
BIRTH_SCALE = 0.3  # of the random weights of a start


def prune(state: State, prune_tol: float) -> State:
    """Drop the factors that explain less than `prune_tol` of every view. The bound starts anew: the model changed."""
    if state.stats is None or state.posterior.n_components == 1:
        return state
    share = explained_share(state.posterior, state.stats)
    keep = np.flatnonzero(share > prune_tol)
    if len(keep) == len(share):
        return state
    return without(state, keep if len(keep) else np.array([int(np.argmax(share))]))


def explained_share(posterior: Posterior, stats: Stats) -> np.ndarray:
    """The largest share of a view's variance that each factor explains: mean over d of <w_dk>² · mean(z_k²), (K,)."""
    xp = array_namespace(stats.zz)
    z_square = xp.linalg.diagonal(stats.zz) / stats.n
    shares = [xp.mean(view.w_mean**2, axis=0) * z_square for view in posterior.views]
    return np.max(np.stack([np.asarray(share) for share in shares]), axis=0)


def without(state: State, keep: np.ndarray) -> State:
    """The same state with only some of its factors, before any update has seen it; of none, the last with no weight."""
    posterior = state.posterior.arranged(keep) if len(keep) else state.posterior.arranged(np.array([0]), signs=0.0)
    return State(posterior, state.local)


def try_other(
    engine: Engine, state: State, options: Options, settled: bool, most: int, seed: int
) -> tuple[State | None, int]:
    """A model with a factor less, or at convergence with one more, if its bound is higher; also the sweeps it took."""
    other, cost = try_smaller(engine, state, options, CANDIDATES if settled else 1)
    if other is None and settled and state.posterior.n_components < most:
        other, more = try_larger(engine, state, options, seed)
        cost += more
    return other, cost


def try_smaller(engine: Engine, state: State, options: Options, n_candidates: int) -> tuple[State | None, int]:
    """Drop one of the weakest factors as long as the bound is higher without it; also the sweeps it took.

    A factor can sit for ever at a small local optimum that costs more than it explains; its removal is a step that
    coordinate ascent cannot take.
    """
    best, cost, found = None, 0, True
    while found and state.stats is not None:
        share = explained_share(state.posterior, state.stats)
        if len(share) == 1 and share[0] <= options.prune_tol:
            break
        found = False
        for weak in np.argsort(share)[:n_candidates]:
            start = without(state, np.delete(np.arange(len(share)), weak))
            trial, n_sweeps = attempt(engine, start, state.bound, TRIAL_SWEEPS, options.rotate)
            cost += n_sweeps
            if trial is not None:
                best, state, found = trial, trial, True
                break
    return best, cost


def try_larger(engine: Engine, state: State, options: Options, seed: int) -> tuple[State | None, int]:
    """Add a faint random factor; keep it if the bound is soon higher with it. Early rotations prune one too many."""
    born = random_posterior(engine.model, 1, engine.groups, np.random.default_rng(seed))
    start = State(state.posterior.joined(born, BIRTH_SCALE), state.local)
    return attempt(engine, start, state.bound + options.tol, BIRTH_SWEEPS, rotating=False)


def attempt(engine: Engine, trial: State, bound: float, n_sweeps: int, rotating: bool) -> tuple[State | None, int]:
    """A few sweeps in which `trial` must pass `bound`; None where it does not. Also the sweeps it took."""
    for left in reversed(range(n_sweeps)):
        before, trial = trial.bound, sweep(engine, trial, rotating)
        if trial.bound > bound:
            return trial, n_sweeps - left
        # Rises shrink from sweep to sweep: what does not arrive at the present pace never will.
        if trial.bound + left * (trial.bound - before) < bound:
            break
    return None, n_sweeps - left
