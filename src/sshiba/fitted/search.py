"""Which priors, and how many factors, predict best: short fits without a tenth of the rows, whose cells are predicted.

The bound prefers few factors: q(W) q(z) pays for each of them, so on small tables it drops factors that would help to
predict. Here candidates are judged by what they predict. Each is fitted to nine tenths of the rows, which costs as much
as any fit of such data (hidden cells among complete rows would cost more). Of the other rows a third of the columns of
real views is hidden at a time, then each view of labels, and predicted from the rest. The score of a view is in nats a
cell, see `Likelihood.score`; all views count the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.coded import CodedView, shrink_mask
from ..core.spec import ModelSpec, Priors
from ..core.start import posterior_along
from ..core.state import Posterior
from ..engines import make_rows
from ..fitting.budget import FitOptions
from ..fitting.loop import Progress, StartingPoint, run
from .inference import predict_views

FEWEST, ALL = "fewest", "all"
KEEP = {FEWEST: "as few factors as the bound asks for", ALL: "all factors that explain anything"}
ALL_PRIORS = Priors(alpha=(1.0, 0.1), noise_floor=1e-4)  # under which idle factors shrink, but need not go
TEST_SHARE, FEW_TEST_ROWS, MOST_TEST_ROWS = 0.1, 20, 1000  # of the rows; in small tables so many, or a quarter
N_GROUPS = 3  # of real columns, hidden in turn
LEAST_HIDDEN = 15  # cells of a view: fewer tell nothing
MARGIN = 0.005  # nats a cell by which a candidate with more factors must be better
TIE = 0.001  # the same of others
SHORT = 100  # sweeps
ROUGH = 10.0  # times the tolerance of the fit
ROUGH_Z = 1e-3  # change of a factor at which the inference of rows ends
MOST_OPERATIONS = 1e9  # of a sweep, roughly a tenth of a second: beyond it there is no search unless it is asked for


@dataclass(frozen=True)
class Candidate:
    """Settings that a search can choose.

    Parameters
    ----------
    priors : Priors
    keep : "fewest" or "all"
        Which factors stay: as few as the bound asks for, or all that explain anything.
    label_weight : float
        Weight of the views of labels (all that are not real) whose weight is 1. With many factors the posterior can be
        too sure of what labels say; a weight below 1 tempers it.
    """

    priors: Priors = field(default_factory=Priors)
    keep: str = FEWEST
    label_weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.priors, Priors):
            raise TypeError(f"priors must be a Priors(...), not {self.priors!r}.")
        if self.keep not in KEEP:
            raise ValueError(f"keep must be one of {tuple(KEEP)}, not {self.keep!r}.")
        if not 0 < self.label_weight <= 1:
            raise ValueError(f"label_weight must be in (0, 1], not {self.label_weight!r}.")

    def spec(self, make_spec: Callable[[Priors], ModelSpec]) -> ModelSpec:
        """The model with these settings; `make_spec` is that of the data, given priors."""
        views = make_spec(self.priors).views
        own = [self.label_weight if view.likelihood.latent and view.weight == 1 else view.weight for view in views]
        return ModelSpec(tuple(replace(view, weight=weight) for view, weight in zip(views, own)))

    def in_words(self) -> str:
        return KEEP[self.keep] + ("" if self.label_weight == 1 else f", labels with weight {self.label_weight:g}")


@dataclass(frozen=True)
class Search:
    """What a search found: of each candidate its score on each view that was judged, and its number of factors."""

    candidates: tuple[Candidate, ...]
    scores: tuple[dict[str, float], ...]
    n_components: tuple[int, ...]

    @property
    def means(self) -> list[float]:
        return [float(np.mean(list(score.values()))) for score in self.scores]

    @property
    def chosen(self) -> int:
        """The best on average over views; of two that are nearly as good the earlier, if it has no more factors."""
        best, means = 0, self.means
        for i, mean in enumerate(means):
            margin = MARGIN if self.n_components[i] > self.n_components[best] else TIE
            if mean > means[best] + margin:
                best = i
        return best

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


def candidates_for(search: Any, priors: Priors | None, keep: str | None) -> tuple[Candidate, ...]:
    """Those that a search is to compare, given what the user has decided; the first is what is taken without one."""
    if search is not None and not isinstance(search, str):
        return tuple(search)
    few, many = Candidate(priors or Priors(), FEWEST), Candidate(priors or ALL_PRIORS, ALL)
    auto = [candidate for candidate in (few, many, replace(many, label_weight=0.5)) if keep in (None, candidate.keep)]
    return tuple(auto) if search == "auto" else (auto[0],)


def without_doubles(candidates: Sequence[Candidate], make_spec: Callable[[Priors], ModelSpec]) -> tuple[Candidate, ...]:
    """Those that make different models of these data: without labels their weight changes nothing."""
    kept: dict[Any, Candidate] = {}
    for candidate in candidates:
        weights = tuple(view.weight for view in candidate.spec(make_spec).views)
        kept.setdefault((candidate.keep, candidate.priors, weights), candidate)
    return tuple(kept.values())


def n_operations(data: Sequence[CodedView], spec: ModelSpec, n_components: int) -> float:
    """Multiplications of a sweep, roughly: products with the data, and covariances of z where rows have their own."""
    n = len(data[0].target)
    cells = n * sum(view.n_features for view in spec.views)
    has_holes = any(view.observed is not None and view.observed.shape[1] > 1 for view in data)
    return 4.0 * cells * n_components + (n if has_holes else 1) * float(n_components) ** 3


def run_search(
    candidates: Sequence[Candidate],
    data: Sequence[CodedView],
    make_spec: Callable[[Priors], ModelSpec],
    n_components: int,
    options: FitOptions,
    seed: np.random.SeedSequence,
    callback: Callable[[Progress], object] | None = None,
    stop_requests: Sequence[int] = (),
) -> Search | None:
    """A short fit of each candidate to the same rows; None where too few are left to judge it. A stop request raises
    KeyboardInterrupt: there is nothing yet to be kept.
    """
    rng = np.random.default_rng(seed)
    n_rows = len(data[0].target)
    n_test = int(np.clip(TEST_SHARE * n_rows, min(FEW_TEST_ROWS, n_rows // 4), MOST_TEST_ROWS))
    order = rng.permutation(n_rows)
    test, training = ([view.take(np.sort(some)) for view in data] for some in (order[:n_test], order[n_test:]))
    questions = hide_in_turn(test, make_spec(Priors()), rng)
    if not questions or any(not view.observed_rows.any() for view in training):
        return None
    n_components = min(n_components, n_rows - n_test)
    scores, sizes = [], []
    for number, candidate in enumerate(candidates):
        rows = make_rows(training, candidate.spec(make_spec), n_components)
        first = posterior_along(rows.spec, rows.groups, rows.directions(n_components), np.random.default_rng(seed))
        short = replace(
            options,
            max_iter=min(SHORT, options.max_iter),
            tol=ROUGH * options.tol,
            trials=candidate.keep == FEWEST,
            max_time=None if options.max_time is None else options.max_time / (2 * len(candidates)),
        )

        def watch(progress: Progress, number: int = number) -> None:
            if callback is not None:
                callback(replace(progress, restart=number))

        posterior = run(
            rows, StartingPoint(first, n_components), short, watch, stop_requests=stop_requests
        ).state.posterior
        if stop_requests:
            raise KeyboardInterrupt
        scores.append(judge(posterior, rows.spec, test, questions))
        sizes.append(posterior.n_components)
    return Search(tuple(candidates), tuple(scores), tuple(sizes))


@dataclass(frozen=True)
class Question:
    """Test rows with some cells hidden: `shown` are their views, `hidden` the cells of some views, (n, D) bool."""

    shown: list[CodedView]
    hidden: dict[int, np.ndarray]


def hide_in_turn(test: Sequence[CodedView], spec: ModelSpec, rng: np.random.Generator) -> list[Question]:
    """Each cell of the views that have enough of them is asked for once."""
    questions = []
    latent = [view.likelihood.latent for view in spec.views]
    groups = [rng.permutation(view.n_features) % N_GROUPS for view in spec.views]
    for group in range(N_GROUPS):
        asked = {i: groups[i] == group for i in range(len(test)) if not latent[i]}
        questions.append(ask(test, asked))
    questions += [ask(test, {i: np.ones(1, dtype=bool)}) for i in range(len(test)) if latent[i]]
    n_cells = [sum(int(q.hidden[i].sum()) for q in questions if i in q.hidden) for i in range(len(test))]
    judged = {i for i, n in enumerate(n_cells) if n >= LEAST_HIDDEN}
    kept = [replace(q, hidden={i: cells for i, cells in q.hidden.items() if i in judged}) for q in questions]
    return [question for question in kept if question.hidden]


def ask(test: Sequence[CodedView], columns: Mapping[int, np.ndarray]) -> Question:
    """Hide these columns of some views."""
    shown, hidden = list(test), {}
    for i, asked in columns.items():
        width = 1 if test[i].target.ndim == 1 else test[i].target.shape[1]
        observed = test[i].observed
        seen = np.ones((len(test[i].target), width), dtype=bool) if observed is None else observed
        hidden[i] = seen & asked
        kept = seen & ~asked
        target = test[i].target if width == 1 else np.where(kept, test[i].target, 0)
        shown[i] = CodedView(target, shrink_mask(kept))
    return Question(shown, hidden)


def judge(
    posterior: Posterior, spec: ModelSpec, test: Sequence[CodedView], questions: Sequence[Question]
) -> dict[str, float]:
    """The score of each view that is asked for, in nats a cell."""
    answers: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    for question in questions:
        rows = make_rows(question.shown, spec, posterior.n_components, engine="memory")
        predicted = predict_views(rows, posterior, list(question.hidden), (1.0,) * len(test), ROUGH_Z)
        for i, hidden in question.hidden.items():
            where = hidden[:, 0] if spec.views[i].likelihood.whole_rows else hidden
            answers.setdefault(i, []).append((test[i].target[where], predicted[i][0][where]))
    return {
        spec.views[i].name: spec.views[i].likelihood.score(*map(np.concatenate, zip(*answers[i])))
        for i in sorted(answers)
    }
