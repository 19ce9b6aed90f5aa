"""Rows that judge a fit to the others: some of their cells are hidden and predicted from the rest.

Of these rows a tenth of the columns of real, ordinal and count views is hidden at a time, then each view of labels.
(Were it a third, columns that are told by one or two others only would mostly lack these, too, as they seldom do in
data.) Where the data lack single cells of labels, a third of the cells of each row is hidden, too, and told from all
others.

The score of a view is in nats a cell: −½ log of the mean squared error of real cells (the log-likelihood of errors of
one size, up to a constant; under deviations of their own a few outliers would decide), the mean log probability of
labels. All views count the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.coded import CodedView
from ..core.spec import ModelSpec, ViewSpec
from ..core.state import Posterior
from ..core.work import n_operations
from ..engines import make_rows
from ..engines.protocol import Accuracy
from .candidates import misses_cells
from .inference import predict_views
from .short_fits import ShortFits

TEST_SHARE, MOST_TEST_ROWS = 0.25, 1000  # of the rows, in each fold
ENOUGH_TESTED, MOST_FOLDS = 150, 4  # folds until so many rows are tested, where a sweep takes milliseconds; else one
FEW_OPERATIONS = 5e7  # of such a sweep
N_GROUPS = 10  # of columns that are no labels, hidden in turn
N_LABEL_GROUPS = 3  # of views of labels, or of their cells, hidden in turn
LEAST_HIDDEN = 15  # cells of a view: fewer tell nothing
SMALLEST = 1e-12  # a mean squared error is taken to be at least this
JUDGED = Accuracy(z_tol=1e-3)  # of the inference of rows


# (the user's views, places of those whose holes are asked for) -> all views of the model
AddTwins = Callable[[Sequence[CodedView], Collection[int]], Sequence[CodedView]]


def no_twins(views: Sequence[CodedView], asked: Collection[int] = ()) -> Sequence[CodedView]:
    return views


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
    n_folds = min(-(-ENOUGH_TESTED // max(n_test, 1)), MOST_FOLDS) if cheap else 1
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
    asked = in_groups({i: spec.views[i].n_features for i in by_column}, rng)
    asked += [{i: np.ones(1, dtype=bool) for i in labels[group::N_LABEL_GROUPS]} for group in range(N_LABEL_GROUPS)]
    place_of = {i: rng.integers(N_LABEL_GROUPS, size=test[i].target.shape) for i in labels if i in some_missing}
    asked += [{i: place == group for i, place in place_of.items()} for group in range(N_LABEL_GROUPS)]
    return [ask(test, columns) for columns in asked if columns]


def in_groups(n_columns: Mapping[int, int], rng: np.random.Generator) -> list[dict[int, np.ndarray]]:
    """Columns of all views, dealt one after the other to groups; of each group which columns of each view are in it."""
    if not n_columns:
        return []
    n_groups = min(N_GROUPS, sum(n_columns.values()))
    places = {i: rng.permutation(n) for i, n in n_columns.items()}
    first = rng.integers(n_groups) + np.cumsum([0, *n_columns.values()])
    group_of = {i: (own + start) % n_groups for (i, own), start in zip(places.items(), first)}
    return [{i: own == group for i, own in group_of.items() if group in own} for group in range(n_groups)]


def ask(test: Sequence[CodedView], cells: Mapping[int, np.ndarray]) -> Question:
    """Hide these cells, or columns, of some views."""
    shown, hidden = list(test), {}
    for i, asked in cells.items():
        seen = test[i].seen_cells
        hidden[i] = seen & asked
        shown[i] = test[i].with_only(seen & ~asked)
    return Question(shown, hidden)


Losses = dict[int, np.ndarray]  # of each view that is judged, (n, D times ways to ask); NaN where no cell is asked for


def judge(posterior: Posterior, spec: ModelSpec, fold: Fold, fits: ShortFits, add_twins: AddTwins = no_twins) -> Losses:
    """How far the predictions of hidden cells are from what they were; it may end between two questions, as `fits`."""
    losses: dict[int, list[np.ndarray]] = {}
    sharpness = (1.0,) * len(spec.views)
    for question in fold.questions:
        shown, k = add_twins(question.shown, question.hidden), posterior.n_components
        rows = make_rows(shown, spec, k, engine="memory", max_memory=fits.max_memory)
        predicted = predict_views(rows, posterior, list(question.hidden), sharpness, JUDGED, True)
        fits.check()
        for i, hidden in question.hidden.items():
            found = spec.views[i].likelihood.losses(fold.test[i].target, *predicted[i])
            add_losses(losses.setdefault(i, []), np.where(hidden, np.reshape(found, hidden.shape), np.nan))
    return {i: np.concatenate(found, axis=1) for i, found in losses.items()}


def add_losses(parts: list[np.ndarray], more: np.ndarray) -> None:
    """To those of the last question, unless they are about the same cells: most questions are about others."""
    is_new = ~np.isnan(more)
    if parts and np.isnan(parts[-1][is_new]).all():
        parts[-1][is_new] = more[is_new]
    else:
        parts.append(more)


def score(losses: np.ndarray, view: ViewSpec) -> float:
    """Of a view, in nats a cell."""
    mean = float(np.nanmean(losses))
    return -0.5 * float(np.log(max(mean, SMALLEST))) if view.likelihood.numbers else -mean


def joined(before: Losses, more: Losses) -> Losses:
    """Losses of several folds, one below the other."""
    return {i: np.concatenate([before[i], own]) if i in before else own for i, own in more.items()}


def asked_for(losses: Losses) -> Losses:
    """Those of views of which some cell was asked for in these folds."""
    return {i: own for i, own in losses.items() if not np.isnan(own).all()}


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
