"""Which priors, and how many factors, predict best: short fits without a quarter of the rows, then judged by these.

The bound, and less so the log evidence, prefers few factors: on small tables factors go that would help to predict.
Here candidates are judged by what they predict. Each is fitted to three quarters of the rows, which costs less than a
fit of all (hidden cells among complete rows would cost more). Of the other rows a third of the columns of real,
ordinal and count views is hidden at a time, then each view of labels, and predicted from the rest. Where the data lack
single cells of labels, a third of the cells of each row is hidden, too, and told from all others.

The score of a view is in nats a cell: −½ log of the mean squared error of real cells (the log-likelihood of errors of
one size, up to a constant; under deviations of their own a few outliers would decide), the mean log probability of
labels. All views count the same. More factors must be better by more than chance: by part of the standard error of the
difference, in which a row is one observation.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.coded import CodedView
from ..core.devices import HOST, Device
from ..core.spec import ModelSpec, Priors, ViewSpec
from ..core.start import posterior_along
from ..core.state import Posterior
from ..core.streamed import AnyView
from ..core.work import sweep_operations
from ..engines import make_rows
from ..fitting.budget import FitOptions
from ..fitting.loop import Progress, StartingPoint, run
from .inference import predict_views

FEWEST, ALL = "fewest", "all"
KEEP = {FEWEST: "as few factors as will do", ALL: "all factors that explain anything"}
ALL_PRIORS = Priors(alpha=(1.0, 0.1), noise_floor=1e-4)  # under which idle factors shrink, but need not go
TEST_SHARE, MOST_TEST_ROWS = 0.25, 1000  # of the rows, in each fold
ENOUGH_ROWS, MOST_FOLDS = 150, 4  # folds until so many rows are tested, where a sweep takes milliseconds; else one
FEW_OPERATIONS = 5e7  # of such a sweep
N_GROUPS = 3  # of columns that are no labels, hidden in turn
LEAST_HIDDEN = 15  # cells of a view: fewer tell nothing
MARGIN = 0.002  # nats a cell by which a candidate with more factors must be better
SURE, SURE_OF_ANY = 0.25, 3.0  # standard errors of the difference, the same; where the other has no factor at all
CLEAR = 3.0  # standard errors by which a candidate that is worse than another so far is not tried on the next fold
TIE = 0.001  # nats a cell by which one with no more factors must be better
SMALLEST = 1e-12  # a mean squared error is taken to be at least this
SHORT = 60  # sweeps
ROUGH = 3e-6  # nats a cell and sweep: the tolerance of these fits, or that of the fit itself where it is larger
ROUGH_Z = 1e-3  # change of a factor at which the inference of rows ends
MOST_OPERATIONS = 2.5e8  # of a sweep, some 60 milliseconds: beyond it there is no search unless it is asked for
MOST_TOGETHER = 32  # yes/no columns whose cells are inferred together: the cube of it for each row


@dataclass(frozen=True)
class Candidate:
    """Settings that a search can choose.

    Parameters
    ----------
    priors : Priors
    keep : "fewest" or "all"
        Which factors stay: as few as the evidence asks for, or all that explain anything.
    label_weight : float
        Weight of the views of labels (not real, ordinal or counts) whose weight is 1. With many factors the
        posterior can be too sure of what labels say; a weight below 1 tempers it.
    labels_together : bool
        Infer the cells of a row of yes/no columns together: they are told better from each other. Where they are 2 to
        32 with a probit, and no other view has labels, levels, counts or limits; else it changes nothing.
    """

    priors: Priors = field(default_factory=Priors)
    keep: str = FEWEST
    label_weight: float = 1.0
    labels_together: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.priors, Priors):
            raise TypeError(f"priors must be a Priors(...), not {self.priors!r}.")
        if self.keep not in KEEP:
            raise ValueError(f"keep must be one of {tuple(KEEP)}, not {self.keep!r}.")
        if not 0 < self.label_weight <= 1:
            raise ValueError(f"label_weight must be in (0, 1], not {self.label_weight!r}.")
        object.__setattr__(self, "label_weight", float(self.label_weight))

    def spec(self, make_spec: Callable[[Priors], ModelSpec]) -> ModelSpec:
        """The model with these settings; `make_spec` is that of the data, given priors."""
        spec = make_spec(self.priors)
        latent = [view for view in spec.views if view.likelihood.latent]
        together = self.labels_together and len(latent) == 1 and not spec.mean_field

        def own(view: ViewSpec) -> ViewSpec:
            if view.likelihood.labels and view.weight == 1:
                view = replace(view, weight=self.label_weight)
            joint = view.likelihood.together() if 2 <= view.n_features <= MOST_TOGETHER else None
            return replace(view, likelihood=joint) if together and joint is not None else view

        return replace(spec, views=tuple(map(own, spec.views)))

    def in_words(self) -> str:
        words = KEEP[self.keep]
        if self.priors not in (Priors(), ALL_PRIORS):
            words += ", alpha ~ Gamma({:g}, {:g}), noise floor {:g}".format(*self.priors.alpha, self.priors.noise_floor)
        words += "" if self.label_weight == 1 else f", labels with weight {self.label_weight:g}"
        return words + (", labels of a row together" if self.labels_together else "")


HELD = Candidate(Priors(alpha=(100.0, 100.0), noise_floor=1e-4), ALL)  # weights are held at some 1: all factors stay


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


def candidates_for(
    search: Any, priors: Priors | None, keep: str | None, kernels: bool = False
) -> tuple[Candidate, ...]:
    """Those that a search is to compare, given what the user has decided; the first is what is taken without one.

    With kernels all factors stay unless the user says otherwise: few of them cannot tell what hundreds of features do.
    """
    keep = ALL if kernels and keep is None else keep
    if search is not None and not isinstance(search, str):
        return tuple(search)
    few, many = Candidate(priors or Priors(), FEWEST), Candidate(priors or ALL_PRIORS, ALL)
    tempered, held = replace(many, label_weight=0.5), () if priors else (HELD,)
    every = (few, many, tempered, *held, *(replace(one, labels_together=True) for one in (few, many)))
    auto = [candidate for candidate in every if keep in (None, candidate.keep)]
    return tuple(auto) if search == "auto" else (auto[0],)


def without_doubles(candidates: Sequence[Candidate], make_spec: Callable[[Priors], ModelSpec]) -> tuple[Candidate, ...]:
    """Those that make different models of these data, and fit them: without labels their weight changes nothing, and
    weights are held only where the bound would keep too few factors.
    """
    kept: dict[Any, Candidate] = {}
    hold = any(view.likelihood.keeps_few for view in make_spec(Priors()).views)
    for candidate in candidates:
        if candidate is HELD and not hold:
            continue
        own = tuple((view.weight, view.likelihood.joint) for view in candidate.spec(make_spec).views)
        kept.setdefault((candidate.keep, candidate.priors, own), candidate)
    return tuple(kept.values())


def worth_a_try(candidates: Sequence[Candidate], data: Sequence[AnyView], spec: ModelSpec) -> tuple[Candidate, ...]:
    """Without those that tell labels from each other, where the data do not ask for it: no row lacks some of them."""
    labels = [view for view, own in zip(data, spec.views) if own.likelihood.labels]
    some_missing = any(isinstance(view, CodedView) and misses_cells(view) for view in labels)
    return tuple(candidate for candidate in candidates if some_missing or not candidate.labels_together)


def without_search(candidates: Sequence[Candidate], data: Sequence[AnyView], spec: ModelSpec) -> Candidate:
    """What is taken of them where they are not compared: the first, or its like with labels together, if that is among
    them and worth a try.
    """
    together = replace(candidates[0], labels_together=True)
    return together if together in worth_a_try(candidates, data, spec) else candidates[0]


def misses_cells(view: CodedView) -> bool:
    """Does any row have some cells of this view, and lack others?"""
    if view.observed is None or view.observed.shape[1] == 1:
        return False
    return bool((view.observed.any(axis=1) & ~view.observed.all(axis=1)).any())


def n_operations(data: Sequence[CodedView], spec: ModelSpec, n_components: int) -> float:
    """Multiplications of a sweep over these data, roughly."""
    n_masks = sum(view.observed.shape[1] for view in data if view.observed is not None)
    return sweep_operations(len(data[0].target), spec, n_masks, n_components)


# (the user's views, places of those whose holes are asked for) -> all views of the model
AddTwins = Callable[[Sequence[CodedView], Collection[int]], Sequence[CodedView]]


def no_twins(views: Sequence[CodedView], asked: Collection[int] = ()) -> Sequence[CodedView]:
    return views


class OutOfTimeError(Exception):
    """A search that did not end in its time says nothing."""


def run_search(
    candidates: Sequence[Candidate],
    data: Sequence[CodedView],
    make_spec: Callable[[Priors], ModelSpec],
    n_components: int,
    options: FitOptions,
    seed: np.random.SeedSequence,
    missing: str = "exact",
    engine: str = "auto",
    device: Device = HOST,
    callback: Callable[[Progress], object] | None = None,
    stop_requests: Sequence[int] = (),
    add_twins: AddTwins = no_twins,
    kernels: Sequence[int] = (),
    max_memory: float = inf,
) -> tuple[Search, Posterior] | None:
    """A short fit of each candidate to the same rows, and the end of the chosen one; None where too few are left to
    judge it, or where half of the time of the fit is not enough. A stop request raises KeyboardInterrupt: there is
    nothing yet to be kept. `add_twins` gives views with a kernel, at the places `kernels`, their twins.

    A candidate that keeps all factors starts from where the last one with the same priors ended. One that is clearly
    worse so far is not fitted to the next fold, nor is the last that is left.
    """
    began, limit = time.perf_counter(), None if options.max_time is None else options.max_time / 2

    def check() -> None:
        if stop_requests:
            raise KeyboardInterrupt
        if limit is not None and time.perf_counter() - began > limit:
            raise OutOfTimeError

    spec, rng = make_spec(Priors()), np.random.default_rng(seed)
    folds = make_folds(data, spec, n_components, rng, kernels)
    judged = [i for i in spec.given if sum(fold.n_asked(i) for fold in folds) >= LEAST_HIDDEN]
    if not judged or any(not view.observed_rows.any() for fold in folds for view in fold.training):
        return None
    n_components = min(n_components, folds[0].n_training)
    found: list[list[tuple[Losses, Posterior]]] = [[] for _ in candidates]  # of each, by fold
    running = list(range(len(candidates)))

    def short_fit(number: int, fold: Fold, near: dict[Priors, Posterior]) -> tuple[Losses, Posterior]:
        candidate = candidates[number]
        few = candidate.keep == FEWEST
        left = None if limit is None else began + limit - time.perf_counter()
        short = replace(options, max_iter=SHORT, trials=few, max_time=left)
        watch = callback and (lambda progress: callback(replace(progress, restart=number)))
        training, own = add_twins(fold.training, ()), candidate.spec(make_spec)
        rows = make_rows(training, own, n_components, missing, engine, device=device, max_memory=max_memory)
        if few or candidate.priors not in near:
            along = rows.directions(n_components)
            first = posterior_along(rows.spec, rows.groups, along, np.random.default_rng(seed))
            start = StartingPoint(first, n_components)
        else:
            start = StartingPoint(near[candidate.priors], n_components, is_near=True)
        end = run(rows, start, short, watch, stop_requests=stop_requests).state.posterior
        check()
        if not few:
            near[candidate.priors] = end
        losses = judge(end, rows.spec, fold, check, add_twins, max_memory)
        return {i: losses[i] for i in judged}, end

    try:
        for fold in folds:
            near: dict[Priors, Posterior] = {}
            for number in running:
                found[number].append(short_fit(number, fold, near))
            losses = [joined([own for own, _ in parts]) for parts in found]
            running = [i for i in running if not clearly_worse(i, running, losses, spec.views)]
            if len(running) == 1:
                break
    except OutOfTimeError:
        return None
    sizes = [min(end.n_components for _, end in parts) for parts in found]
    chosen = running[choose([losses[i] for i in running], [sizes[i] for i in running], spec.views)]
    scores = [{spec.views[i].name: score(part, spec.views[i]) for i, part in asked_for(own).items()} for own in losses]
    return Search(tuple(candidates), tuple(scores), tuple(sizes), chosen), found[chosen][0][1]


@dataclass(frozen=True)
class Fold:
    """Rows that are fitted, rows that judge the fit, and what they are asked."""

    training: list[CodedView]
    test: list[CodedView]
    questions: list[Question]

    @property
    def n_training(self) -> int:
        return len(self.training[0].target)

    def n_asked(self, i: int) -> int:
        """Hidden cells of a view."""
        return sum(int(question.hidden[i].sum()) for question in self.questions if i in question.hidden)


def make_folds(
    data: Sequence[CodedView], spec: ModelSpec, n_components: int, rng: np.random.Generator, kernels: Sequence[int]
) -> list[Fold]:
    """As many as it takes until enough rows judge; one where sweeps are long."""
    n_rows = len(data[0].target)
    n_test = min(int(TEST_SHARE * n_rows), MOST_TEST_ROWS)
    cheap = n_operations(data, spec, n_components) < FEW_OPERATIONS
    n_folds = min(-(-ENOUGH_ROWS // max(n_test, 1)), MOST_FOLDS) if cheap else 1
    order = rng.permutation(n_rows)
    parts = [order[i * n_test : (i + 1) * n_test] for i in range(n_folds)]
    return [make_fold(data, part, spec, rng, kernels) for part in parts]


def make_fold(
    data: Sequence[CodedView],
    test_rows: np.ndarray,
    spec: ModelSpec,
    rng: np.random.Generator,
    kernels: Sequence[int] = (),
) -> Fold:
    is_test = np.zeros(len(data[0].target), dtype=bool)
    is_test[test_rows] = True
    test, training = ([view.take(np.flatnonzero(some)) for view in data] for some in (is_test, ~is_test))
    test = [view.to_host() for view in test]
    some_missing = [i for i, view in enumerate(data) if misses_cells(view)]
    return Fold(training, test, hide_in_turn(test, spec, rng, kernels, some_missing))


@dataclass(frozen=True)
class Question:
    """Test rows with some cells hidden: `shown` are their views, `hidden` the cells of some views, (n, D) bool."""

    shown: list[CodedView]
    hidden: dict[int, np.ndarray]


def hide_in_turn(
    test: Sequence[CodedView],
    spec: ModelSpec,
    rng: np.random.Generator,
    kernels: Sequence[int] = (),
    some_missing: Sequence[int] = (),
) -> list[Question]:
    """Each cell is asked for once: columns that are no labels in groups, then the views of labels, one at a time or in
    groups; and once more in groups of cells of the views of labels in `some_missing`, where rows lack some of them.

    A view of yes and no that is the only one has nothing but its own columns to be told from: these go in groups, too.
    Nothing of a sparse view is hidden, since it would have to be dense, nor are covariates, which are always known.
    From views with a kernel others are to be told: where there are others, each of them is hidden as a whole, and these
    are not.
    """
    alone = len(spec.given) == 1 and not spec.views[0].likelihood.whole_rows
    dense = [i for i in spec.given if not test[i].is_sparse]
    others = [i for i in dense if i not in kernels]
    if kernels and others:
        return [ask(test, {i: np.ones(1, dtype=bool)}) for i in others]
    by_column = [i for i in dense if alone or not spec.views[i].likelihood.labels]
    labels = [int(i) for i in rng.permutation([i for i in dense if i not in by_column])]
    group_of = {i: (rng.permutation(spec.views[i].n_features) + rng.integers(N_GROUPS)) % N_GROUPS for i in by_column}
    asked = [{i: group_of[i] == group for i in by_column} for group in range(N_GROUPS)]
    asked += [{i: np.ones(1, dtype=bool) for i in labels[group::N_GROUPS]} for group in range(N_GROUPS)]
    place_of = {i: rng.integers(N_GROUPS, size=test[i].target.shape) for i in labels if i in some_missing}
    asked += [{i: place == group for i, place in place_of.items()} for group in range(N_GROUPS)]
    return [ask(test, columns) for columns in asked if columns]


def ask(test: Sequence[CodedView], cells: Mapping[int, np.ndarray]) -> Question:
    """Hide these cells, or columns, of some views."""
    shown, hidden = list(test), {}
    for i, asked in cells.items():
        seen = test[i].seen_cells
        hidden[i] = seen & asked
        shown[i] = test[i].with_only(seen & ~asked)
    return Question(shown, hidden)


Losses = dict[int, np.ndarray]  # of each view that is judged, (n, D times questions); NaN where a cell is not asked for


def judge(
    posterior: Posterior,
    spec: ModelSpec,
    fold: Fold,
    check: Callable[[], None],
    add_twins: AddTwins = no_twins,
    max_memory: float = inf,
) -> Losses:
    """How far the predictions of hidden cells are from what they were; `check` may end it between two questions."""
    losses: dict[int, list[np.ndarray]] = {}
    for question in fold.questions:
        shown, k = add_twins(question.shown, question.hidden), posterior.n_components
        rows = make_rows(shown, spec, k, engine="memory", max_memory=max_memory)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # these rows are nobody's
            predicted = predict_views(rows, posterior, list(question.hidden), (1.0,) * len(spec.views), ROUGH_Z, True)
        check()
        for i, hidden in question.hidden.items():
            found = spec.views[i].likelihood.losses(fold.test[i].target, *predicted[i])
            losses.setdefault(i, []).append(np.where(hidden, np.reshape(found, hidden.shape), np.nan))
    return {i: np.concatenate(found, axis=1) for i, found in losses.items()}


def score(losses: np.ndarray, view: ViewSpec) -> float:
    """Of a view, in nats a cell."""
    mean = float(np.nanmean(losses))
    return -0.5 * float(np.log(max(mean, SMALLEST))) if view.likelihood.numbers else -mean


def joined(parts: Sequence[Losses]) -> Losses:
    """Losses of several folds, one below the other."""
    return {i: np.concatenate([part[i] for part in parts]) for i in parts[0]}


def asked_for(losses: Losses) -> Losses:
    """Those of views of which some cell was asked for in these folds."""
    return {i: own for i, own in losses.items() if not np.isnan(own).all()}


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


def difference(before: Losses, after: Losses, views: Sequence[ViewSpec]) -> tuple[float, float]:
    """By how much the score of `after` is better, on average over views, and its standard error.

    The difference of ½ log of two means is nearly that of the means over their sum.
    """
    asked = asked_for(before)
    if not asked:
        return 0.0, 0.0
    gains, of_rows = [], 0.0
    for i, losses in asked.items():
        total = float(np.nanmean(losses) + np.nanmean(after[i]))
        unit = max(total, SMALLEST) if views[i].likelihood.numbers else 1.0
        cells = (losses - after[i]) / unit
        gains.append(score(after[i], views[i]) - score(losses, views[i]))
        around = np.nansum(cells - np.nanmean(cells), axis=1)
        of_rows = of_rows + around / (np.sum(~np.isnan(cells)) * len(asked))
    return float(np.mean(gains)), float(np.sqrt(np.sum(np.square(of_rows))))
