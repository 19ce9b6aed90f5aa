"""Which priors, and how many factors, predict best: short fits without a quarter of the rows, then judged by these.

The bound, and less so the log evidence, prefers few factors: on small tables factors go that would help to predict.
Here candidates are judged by what they predict (`hidden_cells`). Each is fitted to three quarters of the rows, which
costs less than a fit of all (hidden cells among complete rows would cost more). More factors must be better by more
than chance: by part of the standard error of the difference, in which a row is one observation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.coded import CodedView
from ..core.spec import ModelSpec, Priors, ViewSpec
from ..core.state import Posterior
from ..core.work import has_own_covariances, n_operations
from .candidates import FEWEST, Candidate
from .hidden_cells import (
    ENOUGH_TESTED,
    LEAST_HIDDEN,
    TEST_SHARE,
    AddTwins,
    Fold,
    Losses,
    asked_for,
    difference,
    joined,
    judge,
    make_folds,
    no_twins,
    score,
)
from .short_fits import OutOfTimeError, ShortFits

logger = logging.getLogger("sshiba")

SEARCH_SHARE = 0.5  # of the time of the fit
MARGIN = 0.002  # nats a cell by which a candidate with more factors must be better
SURE, SURE_OF_ANY = 0.25, 3.0  # standard errors of the difference, the same; where the other has no factor at all
CLEAR = 3.0  # standard errors by which a candidate that is worse than another so far is not tried on the next fold
TIE = 0.001  # nats a cell by which one with no more factors must be better
MOST_OPERATIONS = 2.5e8  # of a sweep, some 60 milliseconds: up to there a search takes all rows
PART_OPERATIONS, PART_COMPONENTS = 4e8, 40  # of a sweep, and factors, of a search in a part of the rows
MOST_PART = 0.5  # of the rows, so that such a search takes less time than the fit


def affordable(
    data: Sequence[CodedView], spec: ModelSpec, n_components: int, seed: np.random.SeedSequence
) -> tuple[list[CodedView], int] | None:
    """The rows, and how many factors, that a search can afford; None where it can afford none.

    Where gaps give each row a covariance of its own, and sweeps of all rows would take too long, these are a part of
    the rows, drawn at random, and fewer factors. Enough of these rows must be left to judge by.
    """
    if n_operations(data, spec, n_components) <= MOST_OPERATIONS:
        return list(data), n_components
    fewer, n_rows = min(n_components, PART_COMPONENTS), len(data[0].target)
    n_part = int(n_rows * min(MOST_PART, PART_OPERATIONS / n_operations(data, spec, fewer)))
    if not has_own_covariances(data) or n_part * TEST_SHARE < ENOUGH_TESTED:
        return None
    rows = np.sort(np.random.default_rng(seed).permutation(n_rows)[:n_part])
    logger.info("search: in %d of %d rows, with up to %d factors", n_part, n_rows, fewer)
    return [view.take(rows) for view in data], fewer


@dataclass(frozen=True)
class Search:
    """What a search found: of each candidate its score on each view that was judged, and its number of factors."""

    candidates: tuple[Candidate, ...]
    scores: tuple[dict[str, float], ...]
    n_components: tuple[int, ...]
    chosen: int

    @property
    def means(self) -> list[float]:
        return [float(np.mean(list(score.values()))) for score in self.scores]

    @property
    def choice(self) -> Candidate:
        return self.candidates[self.chosen]

    def in_words(self) -> str:
        """One line: what was chosen, and why."""
        said = [
            f"{candidate.in_words()} ({n}) {mean:.3f}"
            for candidate, n, mean in zip(self.candidates, self.n_components, self.means)
        ]
        return f"search, nats a hidden cell: {'; '.join(said)}. Taken: {self.choice.in_words()}"


def run_search(
    candidates: Sequence[Candidate],
    data: Sequence[CodedView],
    make_spec: Callable[[Priors], ModelSpec],
    n_components: int,
    fits: ShortFits,
    seed: np.random.SeedSequence,
    add_twins: AddTwins = no_twins,
    kernels: Sequence[int] = (),
) -> tuple[Search, Posterior] | None:
    """A short fit of each candidate to the same rows, and the end of the chosen one; None where too few are left to
    judge it, or where half of the time of the fit is not enough. `add_twins` gives views with a kernel, at the places
    `kernels`, their twins.

    A candidate that is clearly worse so far is not fitted to the next fold, nor is the last that is left.
    """
    fits = fits.within(SEARCH_SHARE)
    spec, rng = make_spec(Priors()), np.random.default_rng(seed)
    folds = make_folds(data, spec, n_components, rng, kernels)
    judged = [i for i in spec.given if sum(fold.n_asked(i) for fold in folds) >= LEAST_HIDDEN]
    if not judged or any(not view.observed_rows.any() for fold in folds for view in fold.training):
        return None
    n_components = min(n_components, folds[0].n_training)
    running = dict(enumerate(candidates))
    losses: list[Losses] = [{} for _ in candidates]
    ends: list[list[Posterior]] = [[] for _ in candidates]  # of each, by fold
    try:
        for fold in folds:
            for number, found, end in compare(running, fold, make_spec, n_components, fits, seed, add_twins):
                losses[number] = joined(losses[number], {i: found[i] for i in judged})
                ends[number].append(end)
            worse = [i for i in running if clearly_worse(i, list(running), losses, spec.views)]
            running = {i: candidate for i, candidate in running.items() if i not in worse}
            if len(running) == 1:
                break
    except OutOfTimeError:
        return None
    sizes = [min(end.n_components for end in own) for own in ends]
    left = list(running)
    chosen = left[choose([losses[i] for i in left], [sizes[i] for i in left], spec.views)]
    scores = [{spec.views[i].name: score(part, spec.views[i]) for i, part in asked_for(own).items()} for own in losses]
    return Search(tuple(candidates), tuple(scores), tuple(sizes), chosen), ends[chosen][0]


def compare(
    candidates: Mapping[int, Candidate],
    fold: Fold,
    make_spec: Callable[[Priors], ModelSpec],
    n_components: int,
    fits: ShortFits,
    seed: np.random.SeedSequence,
    add_twins: AddTwins,
) -> Iterator[tuple[int, Losses, Posterior]]:
    """Of each candidate its number, how wrong it is about the rows of a fold that judge it, and the end of its fit.

    One that keeps all factors starts from where the last one with the same priors ended.
    """
    training = add_twins(fold.training, ())
    near: dict[Priors, Posterior] = {}
    for number, candidate in candidates.items():
        few, spec = candidate.keep == FEWEST, candidate.spec(make_spec)
        start = None if few else near.get(candidate.priors)
        end = fits.fit(training, spec, n_components, seed, start, trials=few, number=number)
        if not few:
            near[candidate.priors] = end
        yield number, judge(end, spec, fold, fits, add_twins), end


def clearly_worse(i: int, running: Sequence[int], losses: Sequence[Losses], views: Sequence[ViewSpec]) -> bool:
    """Is another one better by so many standard errors that a further fold would not turn it?"""
    found = [difference(losses[i], losses[other], views) for other in running if other != i]
    return any(gain > max(MARGIN, CLEAR * error) for gain, error in found)


def choose(losses: Sequence[Losses], sizes: Sequence[int], views: Sequence[ViewSpec]) -> int:
    """The best candidate; one with more factors than another only where it is clearly better."""
    best, *others = sorted(range(len(losses)), key=lambda i: (sizes[i], i))
    for i in others:
        gain, error = difference(losses[best], losses[i], views)
        sure = SURE if sizes[best] else SURE_OF_ANY
        if gain > (max(MARGIN, sure * error) if sizes[i] > sizes[best] else TIE):
            best = i
    return best
