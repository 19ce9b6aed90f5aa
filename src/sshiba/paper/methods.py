"""The methods of the tables, all with one face: training and test rows in, label scores and a size out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .. import SSHIBA, Binary, Categorical, Priors, Real, tune
from ..evaluate import auc_mc
from .experiment_cells import SEED

View = Real | Binary | Categorical
PAPER, DEFAULTS, TUNED = "paper's settings", "defaults", "tuned"
MANY_ROWS = 5000  # above it two restarts instead of three, and five folds instead of ten
PENALTIES = np.logspace(-3, 2, 6)  # the C of logistic regression
RIDGES = np.logspace(-3, 6, 19)
MLP_GRID = {"hidden_layer_sizes": [(50,), (100,), (300,)], "alpha": [1e-3, 1.0]}
MLP_FOLDS = 3
# Tried by cross-validation on the training rows, at most so many of them, with at most so many sweeps each:
WEIGHTS = (1.0, 3.0)  # of classes
EXTRA_WEIGHTS = (1.0, 100.0)  # of an extra view: one value beside thousands of inputs
ALPHAS = (Priors().alpha, (0.1, 0.1))
PRIORS = tuple(Priors(alpha=alpha, noise_floor=floor) for alpha in ALPHAS for floor in (1e-3, 1e-5))
TUNING_ROWS, TUNING_SWEEPS = 2000, 300
LANDMARKS, QUICK_LANDMARKS = 1000, 200  # of the kernel view
KERNEL_PRIORS = Priors(alpha=(0.1, 0.1), noise_floor=1e-5)


@dataclass(frozen=True)
class Task:
    """Predict labels from one or more views of the same rows."""

    train: dict[str, np.ndarray]  # view -> (n, D), real
    test: dict[str, np.ndarray]
    labels: np.ndarray  # of the training rows: (n, L) of 0 / 1, or (n,) class numbers
    n_labels: int
    n_components: int  # upper bound for the factor models
    extra: dict[str, np.ndarray] = field(default_factory=dict)  # categorical views of the training rows
    extra_test: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def categorical(self) -> bool:
        return self.labels.ndim == 1

    def as_indicators(self) -> np.ndarray:
        return np.eye(self.n_labels)[self.labels] if self.categorical else self.labels.astype(float)

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        """All inputs side by side, the extra views as indicators: what a method without views can take."""
        train, test = [*self.train.values()], [*self.test.values()]
        for name, values in self.extra.items():
            levels = np.unique(values)
            train.append((values[:, None] == levels).astype(float))
            test.append((self.extra_test[name][:, None] == levels).astype(float))
        return np.concatenate(train, axis=1), np.concatenate(test, axis=1)


@dataclass(frozen=True)
class Answer:
    """Scores of the test rows, (n, L), and what the tables show beside them."""

    scores: np.ndarray
    size: int | None = None  # factors, components or hidden units
    chosen: dict[str, Any] = field(default_factory=dict)
    model: SSHIBA | None = None
    task: Task | None = None  # as the model saw it
    paths: list[np.ndarray] = field(default_factory=list)  # the bound of each restart


Method = Callable[[Task, bool], Answer]

# ------------------------------------------------------------------------------------------- factor models


def view_types(settings: str, categorical: bool, **inputs: Any) -> tuple[View, View]:
    """Of the inputs and of the labels: the paper has one noise for a view, and learns that of binary ones."""
    if settings == PAPER:
        return Real(noise="view", **inputs), Categorical() if categorical else Binary(link="logit", noise="learned")
    return Real(**inputs), Categorical() if categorical else Binary()


def model_options(settings: str) -> dict[str, Any]:
    """The paper has random starts, q(z) q(x) without a covariance of labels and factors, and no search."""
    return {"missing": "mean-field", "start": "random", "search": None} if settings == PAPER else {}


def sshiba(task: Task, quick: bool, inputs: View, labels: View, **options: Any) -> Answer:
    """Fit on the training rows, predict the labels of new ones."""
    return fit_and_predict(factor_model(task, quick, inputs, labels, **options), task)


def factor_model(task: Task, quick: bool, inputs: View, labels: View, **options: Any) -> SSHIBA:
    types = {**dict.fromkeys(task.train, inputs), **dict.fromkeys(task.extra, Categorical()), "labels": labels}
    n_init = 1 if quick else 2 if len(task.labels) > MANY_ROWS else 3
    settings = {"n_init": n_init, "random_state": SEED, **options}
    return SSHIBA(task.n_components, types, **settings)


def fit_and_predict(model: SSHIBA, task: Task, chosen: Mapping[str, Any] | None = None) -> Answer:
    paths: list[list[float]] = [[] for _ in range(model.n_init)]
    model.set_params(callback=lambda progress: paths[progress.restart].append(progress.elbo))
    model.fit(training_views(task))
    bounds = [np.array(path) for path in paths]
    return Answer(label_scores(model, task), model.n_components_, dict(chosen or {}), model, task, bounds)


def label_scores(model: SSHIBA, task: Task) -> np.ndarray:
    """What a fitted model says of the test rows' labels, (n, L)."""
    given = {**task.test, **task.extra_test}
    if not model.views_["labels"].latent:
        return np.asarray(model.predict(given, "labels"), dtype=float)
    scores = np.asarray(model.predict_proba(given, "labels"))
    return of_all_classes(scores, model.classes_["labels"], task.n_labels) if task.categorical else scores


def training_views(task: Task) -> dict[str, np.ndarray]:
    return {**task.train, **task.extra, "labels": task.labels}


def of_all_classes(scores: np.ndarray, classes: np.ndarray, n_labels: int) -> np.ndarray:
    """Scores with a column for each class; one that training never saw has probability 0."""
    every = np.zeros((len(scores), n_labels))
    every[:, np.asarray(classes, dtype=int)] = scores
    return every


def sshiba_paper(task: Task, quick: bool) -> Answer:
    return sshiba(task, quick, *view_types(PAPER, task.categorical), **model_options(PAPER))


def sshiba_default(task: Task, quick: bool) -> Answer:
    return sshiba(task, quick, *view_types(DEFAULTS, task.categorical))


def sshiba_tuned(task: Task, quick: bool) -> Answer:
    model = factor_model(task, quick, *view_types(DEFAULTS, task.categorical))
    model, chosen = tuned(model, training_views(task), quick)
    return fit_and_predict(model, task, chosen)


def tuned(model: SSHIBA, views: Mapping[str, np.ndarray], quick: bool) -> tuple[SSHIBA, dict[str, Any]]:
    """The model with priors, the factors to keep and weights of classes chosen on the training rows; and these."""
    grid: dict[str, Any] = {"priors": PRIORS[::3] if quick else PRIORS, "keep": ("fewest", "all")}
    for name, values in views.items():
        if values.ndim == 1:
            grid[f"{name}.weight"] = WEIGHTS if name == "labels" else EXTRA_WEIGHTS
    trial = clone(model).set_params(n_init=1, max_iter=TUNING_SWEEPS, search=None)
    rows = np.sort(np.random.default_rng(SEED).permutation(len(views["labels"]))[:TUNING_ROWS])
    some = {name: values[rows] for name, values in views.items()}
    found = tune(trial, some, grid, "labels", n_folds=3, scoring="auc")
    chosen = {key: value for key, value in found.options.items() if key != "priors"}
    chosen |= {"alpha": found.options["priors"].alpha, "noise_floor": found.options["priors"].noise_floor}
    return found.model.set_params(n_init=model.n_init, max_iter=model.max_iter), chosen


def sshiba_kernel(task: Task, quick: bool) -> Answer:
    """With a further view of the same inputs: linear in features of a kernel, it is not linear in them."""
    task = with_kernel_views(task, QUICK_LANDMARKS if quick else LANDMARKS)
    return sshiba(task, quick, *view_types(DEFAULTS, task.categorical), priors=KERNEL_PRIORS)


def with_kernel_views(task: Task, n_landmarks: int) -> Task:
    """Beside each view its Nyström features for the kernel exp(−|x − y|² / D), x and y in standard deviations."""
    train, test = dict(task.train), dict(task.test)
    for name, values in task.train.items():
        features = Nystroem(n_components=min(n_landmarks, len(values)), random_state=SEED)
        kernel = make_pipeline(StandardScaler(), features).fit(values)
        train[f"{name}, kernel"], test[f"{name}, kernel"] = kernel.transform(values), kernel.transform(task.test[name])
    return replace(task, train=train, test=test)


def bibfa(task: Task, quick: bool) -> Answer:
    """Klami's inter-battery factor analysis: labels as real numbers, one noise for a view."""
    real = Task(task.train, task.test, task.as_indicators(), task.n_labels, task.n_components)
    return sshiba(real, quick, Real(noise="view"), Real(noise="view"))


# ----------------------------------------------------------------------------------------------- baselines


def n_folds(task: Task, quick: bool) -> int:
    """Ten, as in the paper; five where there are so many rows that their estimates hardly differ."""
    return 3 if quick else 5 if len(task.labels) > MANY_ROWS else 10


def folds(task: Task, n: int) -> Any:
    kind = StratifiedKFold if task.categorical else KFold
    return kind(n, shuffle=True, random_state=SEED)


def logistic(task: Task, quick: bool) -> Answer:
    """With more inputs than rows they are turned into the rows' own space first, which changes nothing but the time."""
    train, test = _standardised(task)
    if train.shape[1] > len(train):
        axes = np.linalg.svd(train, full_matrices=False)[2]
        train, test = train @ axes.T, test @ axes.T
    return _logistic(train, test, task, quick)


def cca(task: Task, quick: bool) -> Answer:
    model, _, test = _cca(task)
    varies = task.as_indicators().std(axis=0) > 0
    scores = np.zeros((len(test), task.n_labels))
    scores[:, varies] = model.predict(test)
    return Answer(scores, model.n_components)


def cca_logistic(task: Task, quick: bool) -> Answer:
    model, train, test = _cca(task)
    scaler = StandardScaler().fit(model.transform(train))
    train, test = (scaler.transform(model.transform(inputs)) for inputs in (train, test))
    found = _logistic(train, test, task, quick)
    return Answer(found.scores, model.n_components, found.chosen)


def pca_logistic(task: Task, quick: bool) -> Answer:
    """Components that hold 95 % of the variance."""
    train, test = _standardised(task)
    model = PCA(0.95, svd_solver="full").fit(train)
    found = _logistic(model.transform(train), model.transform(test), task, quick)
    return Answer(found.scores, int(model.n_components_), found.chosen)


def ridge(task: Task, quick: bool) -> Answer:
    train, test = _standardised(task)
    cv = None if quick else folds(task, n_folds(task, quick))
    if cv is not None and task.categorical:
        cv = list(cv.split(train, task.labels))
    model = RidgeCV([100.0] if quick else RIDGES, cv=cv).fit(train, task.as_indicators())
    return Answer(model.predict(test), None, {"alpha": float(model.alpha_)})


def mlp(task: Task, quick: bool) -> Answer:
    """One hidden layer, its width and penalty by cross-validation.

    Not stopped early: scikit-learn would stop on the share of rows with all labels right, which is near 0 for many.
    """
    train, test = _standardised(task)
    model = MLPClassifier(random_state=SEED, max_iter=100)
    grid = {"hidden_layer_sizes": [(100,)], "alpha": [1.0]} if quick else MLP_GRID
    search = _searched(model, grid, train, task, MLP_FOLDS)
    return Answer(_proba(search, test, task), int(search.best_params_["hidden_layer_sizes"][0]))


def _standardised(task: Task) -> tuple[np.ndarray, np.ndarray]:
    train, test = task.inputs()
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test)


def _cca(task: Task) -> tuple[CCA, np.ndarray, np.ndarray]:
    """As many components as the labels that vary have; indicators of classes sum to one, so they have one less."""
    train, test = _standardised(task)
    targets = task.as_indicators()
    targets = targets[:, targets.std(axis=0) > 0]
    rank = min(np.linalg.matrix_rank(targets - targets.mean(axis=0)), *train.shape)
    return CCA(int(rank), max_iter=1000).fit(train, targets), train, test


def _logistic(train: np.ndarray, test: np.ndarray, task: Task, quick: bool) -> Answer:
    """Multinomial for classes; for labels one model each, with one penalty for all."""
    model: BaseEstimator = LogisticRegression(max_iter=300)
    key = "C"
    if not task.categorical:
        model, key = OneVsRestClassifier(model), "estimator__C"
    penalties = [0.1] if quick else PENALTIES
    search = _searched(model, {key: penalties}, train, task, n_folds(task, quick))
    return Answer(_proba(search, test, task), None, {"C": float(search.best_params_[key])})


def _searched(model: Any, grid: dict[str, Any], train: np.ndarray, task: Task, n: int) -> GridSearchCV:
    scorer = _AucScorer(task.n_labels)
    only = all(len(values) == 1 for values in grid.values())
    cv = [(np.arange(len(train)), np.arange(min(50, len(train))))] if only else folds(task, n)
    return GridSearchCV(model, grid, scoring=scorer, cv=cv, error_score=0.0).fit(train, task.labels)


def _proba(search: GridSearchCV, test: np.ndarray, task: Task) -> np.ndarray:
    scores = search.predict_proba(test)
    return of_all_classes(scores, search.classes_, task.n_labels) if task.categorical else scores


@dataclass(frozen=True)
class _AucScorer:
    """The tables' own score, for the searches."""

    n_labels: int

    def __call__(self, model: Any, inputs: np.ndarray, labels: np.ndarray) -> float:
        proba = model.predict_proba(inputs)
        if labels.ndim == 1:
            labels = labels[:, None] == model.classes_
        return auc_mc(labels, proba).value


METHODS: dict[str, Method] = {
    f"SSHIBA, {PAPER}": sshiba_paper,
    f"SSHIBA, {DEFAULTS}": sshiba_default,
    f"SSHIBA, {TUNED}": sshiba_tuned,
    "SSHIBA, kernel view": sshiba_kernel,
    "BIBFA": bibfa,
    "CCA": cca,
    "CCA + logistic": cca_logistic,
    "PCA + logistic": pca_logistic,
    "MLP": mlp,
    "logistic": logistic,
    "ridge": ridge,
}
OURS = tuple(name for name in METHODS if name.startswith("SSHIBA"))
BASELINES = tuple(name for name in METHODS if name not in (*OURS, "BIBFA"))  # of other makers
