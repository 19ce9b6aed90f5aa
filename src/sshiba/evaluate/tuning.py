"""Options by cross-validation: hide part of a target, refit, see how well it is predicted.

Bounds of differently weighted models, or of other noise, cannot be compared; what they predict of unseen cells can.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from rich.progress import track
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from ..core.coded import CodedView
from ..core.random import seed_sequence
from ..data.coding import Coding
from ..data.covariates import known_inputs
from ..data.one_table import same_name
from ..data.reading import read_in_memory, training_views
from ..data.sampling import MOST_ROWS, draw_sample
from ..data.schema import Schema
from ..data.spellings import zero_one
from ..data.types import View
from ..data.wording import did_you_mean, first_few
from ..fitted.fitted import fitted_of
from .hiding import features_of, hide_cells, keep_cells, of_all_columns, quiet_fit, take_rows, tellable_cells
from .holdout import likelihood_of
from .level_scores import level_log_likelihood, level_numbers, level_probabilities
from .metrics import auc_mc, binary_log_likelihood, class_codes, class_log_likelihood
from .number_scores import on_margins

SCORES = ("log-likelihood", "auc")
HIDDEN = ("rows", "cells")


M = TypeVar("M", bound=Any)  # an estimator such as SSHIBA


@dataclass(frozen=True, repr=False)
class Tuned(Generic[M]):
    """The best options found: an unfitted model that has them, and the scores of all that were tried."""

    model: M
    options: dict[str, Any]
    table: pd.DataFrame  # one row a candidate: its options, the mean and standard error of its score

    def __repr__(self) -> str:
        best, chosen = self.table["score"].max(), ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        error = self.table["se"][self.table["score"].argmax()]
        spread = "" if np.isnan(error) else f" ± {error:.3f}"
        return f"Tuned({chosen}: score {best:.3f}{spread}, best of {len(self.table)})"


def tune(
    model: M,
    views: Any,
    grid: Mapping[str, Sequence[Any]],
    target: str,
    hide: str = "rows",
    n_folds: int = 5,
    scoring: str = "log-likelihood",
    random_state: int | None = 0,
    verbose: int = 0,
    max_rows: int = MOST_ROWS,
) -> Tuned[M]:
    """Choose options of a model, or of its views, by cross-validation.

    Parameters
    ----------
    model : SSHIBA
        The options that are not tried.
    views : dict, or one DataFrame
        The training data, as for `fit`.
    grid : mapping
        What to try: "n_components" or any other option of the model, "view.option" for one of a view:
        `{"labels.noise": [1, 10, 100], "labels.weight": [1, 3]}`. All combinations are tried.
    target : str
        The view that is to be predicted well; of one table also a column, which stands for its view.
    hide : "rows" or "cells"
        Predict the target of whole rows that were not in the fit, or of single cells hidden from it.
    n_folds : int
        Each observed row or cell of the target is hidden once. Values at a limit, be it that of the model or of one
        candidate, are not scored.
    scoring : "log-likelihood" or "auc"
        The mean log probability of what was hidden, or (binary and categorical views) the weighted AUC.
    random_state : int, optional
        For the folds. All candidates see the same ones.
    verbose : int
        1 shows a progress bar.
    max_rows : int
        Of data that are not in memory, the most rows that are looked at, as for `check`.

    Returns
    -------
    Tuned
    """
    _check_words(hide, scoring)
    _check_options(model, grid)
    sample = draw_sample(views, max_rows, model.max_memory, random_state).views
    split = training_views(sample, model.views, known_inputs(model.covariates, model.sample_groups))
    views = split.views
    target = view_of(target, views) if split.columns else target
    if target not in views:
        raise ValueError(f"unknown target {target!r}; the views are {list(views)}.")
    schema, data, index = read_in_memory(views, split.types, model.dtype, model.covariates, model.sample_groups)
    _check_can_be_hidden(schema, data, target, hide, scoring)
    combinations = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    candidates = [configured(model, schema.types, options) for options in combinations]
    coding = schema.codings[target]
    seen = tellable_cells(data[target], schema.types[target], coding)
    for candidate in candidates:
        seen = seen & _tellable_by(candidate, model, views, schema, target, seen)
    folds = list(_folds(seen, data[target].target, hide, n_folds, random_state))
    others = {name: value for name, value in views.items() if name != target}
    tried = [with_margins(candidate, others) for candidate in candidates] if hide == "rows" else candidates
    scores = np.empty((len(candidates), len(folds)))
    jobs: Iterable[tuple[int, int]] = list(np.ndindex(*scores.shape))
    for c, f in track(jobs, "tuning", disable=not verbose):
        scores[c, f] = _score(tried[c], views, index, target, folds[f], hide, scoring, coding)
    table = _table_of(combinations, scores)
    best = int(np.argmax(table["score"]))
    return Tuned(candidates[best], combinations[best], table)


def _table_of(combinations: Sequence[Mapping[str, Any]], scores: np.ndarray) -> pd.DataFrame:
    """A row for each combination of options: these, and the mean and standard error of its scores, (n, folds)."""
    n_folds = scores.shape[1]
    error = scores.std(axis=1, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else np.nan
    return pd.DataFrame(combinations).assign(score=scores.mean(axis=1), se=error)


def _check_words(hide: str, scoring: str) -> None:
    if hide not in HIDDEN:
        raise ValueError(f"hide must be one of {HIDDEN}, not {hide!r}.")
    if scoring not in SCORES:
        raise ValueError(f"scoring must be one of {SCORES}, not {scoring!r}.")


def _check_can_be_hidden(schema: Schema, data: Mapping[str, CodedView], target: str, hide: str, scoring: str) -> None:
    if scoring == "auc" and (not schema.types[target].has_probabilities or schema.codings[target].ordered):
        kind = type(schema.types[target]).__name__
        raise ValueError(f"view {target!r} is {kind} and has no AUC; use scoring='log-likelihood'.")
    if data[target].is_sparse:
        raise ValueError(f"view {target!r} is sparse, and its cells cannot be hidden. Give it as a dense array.")
    if hide == "rows" and len(schema.types) == 1:
        raise ValueError(f"nothing is left to predict {target!r} from, the only view. Give hide='cells'.")


def _check_options(model: Any, grid: Mapping[str, Any]) -> None:
    """Refuse other estimators, and options that the model does not have."""
    if not hasattr(model, "sample_groups"):
        what = f"tune takes a model of views, SSHIBA(), not {type(model).__name__}"
        raise TypeError(f"{what}. For estimators of one table X and y use GridSearchCV of scikit-learn.")
    known = list(model.get_params(deep=False))
    unknown = [option for option in grid if "." not in option and option not in known]
    if unknown:
        hint = did_you_mean(unknown, known)
        raise ValueError(f"unknown option {first_few(unknown)}: the model has {first_few(known, len(known))}.{hint}")


def _tellable_by(
    candidate: Any, model: Any, views: Mapping[str, Any], schema: Schema, target: str, seen: np.ndarray
) -> np.ndarray:
    """The cells of the target that a candidate can be scored by: where it has limits of its own, not those beyond."""
    types = {**schema.types, target: candidate.views[target]}
    if same_limits(types[target], schema.types[target]):
        return seen
    own, rows, _ = read_in_memory(views, types, model.dtype, model.covariates, model.sample_groups)
    refuse_other_features(schema.codings[target], own.codings[target], target)
    return tellable_cells(rows[target], types[target], own.codings[target])


def view_of(target: Any, views: Mapping[str, Any]) -> Any:
    """The view that holds a column; the target itself where it is no column."""
    for name, part in views.items():
        columns = [part.name] if isinstance(part, pd.Series) else list(part)
        if any(same_name(column, target) for column in columns):
            return name
    return target


def same_limits(view: View, other: View) -> bool:
    """Do two types of one view take the same cells to be at a limit?"""
    return bool(getattr(view, "limits", None) == getattr(other, "limits", None))


def refuse_other_features(coding: Coding, other: Coding, target: str) -> None:
    """Scores of candidates that predict other columns cannot be compared."""
    if other.features != coding.features:
        raise ValueError(
            f"view {target!r}: a column that has the limits of rows is no feature, and other limits make it one. Name "
            "the same such columns in the limits of the model and in all that are tried."
        )


def configured(model: M, types: Mapping[str, View], options: Mapping[str, Any]) -> M:
    """An unfitted copy of a model with other options, some of them "view.option"."""
    types = dict(types)
    for key, value in options.items():
        name, dot, option = key.rpartition(".")
        if not dot:
            continue
        if name not in types:
            raise ValueError(f"unknown option {key!r}: give 'view.option', with a view of {list(types)}.")
        known = [field.name for field in fields(types[name])]
        if option not in known:
            kind = type(types[name]).__name__
            raise ValueError(f"unknown option {option!r} of view {name!r}, which is {kind}: it has {known}.")
        types[name] = replace(types[name], **{option: value})
    own = {key: value for key, value in options.items() if "." not in key}
    return clone(model).set_params(views=types, **own)


def with_margins(model: M, views: Mapping[str, Any]) -> M:
    """A copy whose views have the margins that "auto" chooses on all rows: those of a fold might refuse held-out rows.

    It is for the views that predict; nothing is learned of the target.
    """
    types = dict(model.views)
    unsure = {name: views[name] for name in views if name in types and chooses_margins(types[name])}
    if not unsure:
        return model
    schema, _, _ = read_in_memory(unsure, {name: types[name] for name in unsure}, model.dtype)
    for name, coding in schema.codings.items():
        kinds = [None if margin.kind == "none" else margin.kind for margin in coding.margins]
        types[name] = replace(types[name], margin=dict(zip(coding.features, kinds)) or None)
    return clone(model).set_params(views=types)


def chooses_margins(view: View) -> bool:
    """Does a view leave the margin of a column to its values?"""
    margin = getattr(view, "margin", None)
    return "auto" in (margin.values() if isinstance(margin, dict) else [margin])


def _folds(seen: np.ndarray, target: np.ndarray, hide: str, n_folds: int, seed: int | None) -> Iterator[np.ndarray]:
    """Masks (n, D) of what is hidden; every observed row or cell is in one of them."""
    state = int(seed_sequence(seed).generate_state(1)[0])
    pool = np.flatnonzero(seen.any(axis=1) if hide == "rows" else seen)
    classes = target[pool] if target.ndim == 1 else None
    if classes is not None and np.bincount(classes).max() >= n_folds:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            splits = list(StratifiedKFold(n_folds, shuffle=True, random_state=state).split(pool, classes))
    else:
        splits = list(KFold(n_folds, shuffle=True, random_state=state).split(pool))
    for _, part in splits:
        hidden = np.zeros(seen.shape, dtype=bool)
        if hide == "rows":
            hidden[pool[part]] = True
        else:
            hidden.flat[pool[part]] = True
        yield hidden & seen


def _score(
    model: Any,
    views: Mapping[str, Any],
    index: pd.Index,
    target: str,
    hidden: np.ndarray,
    hide: str,
    scoring: str,
    coding: Coding,
) -> float:
    rows = np.asarray(hidden.any(axis=1))
    cells = hidden if hide == "cells" else np.repeat(rows[:, None], hidden.shape[1], axis=1)
    shown = {**views, target: hide_cells(views[target], index, of_all_columns(cells, views[target], coding))}
    fitting = shown if hide == "cells" else {name: take_rows(value, index, ~rows) for name, value in views.items()}
    given = {name: take_rows(value, index, rows) for name, value in shown.items()}  # the target, too, for its rows
    fitted = quiet_fit(clone(model), fitting)
    truth = keep_cells(take_rows(features_of(views[target], fitted.views_[target], target), index, rows), hidden[rows])
    return score_target(fitted, given, target, truth, scoring)


def score_target(fitted: Any, given: Mapping[str, Any], target: str, truth: np.ndarray, scoring: str) -> float:
    """How well a fitted model predicts the target; `truth` (n, D), missing where it does not count."""
    if not fitted.views_[target].has_probabilities:
        parts = fitted.predict(given, target, return_std=True, use_target=True)
        mean, std = (np.reshape(np.asarray(part, float), truth.shape) for part in parts)
        known, seen = truth.astype(float), ~pd.isna(truth)
        bent = on_margins(fitted, given, target, known)
        if bent is not None:
            ranked = np.isnan(bent.log_density[~np.isnan(bent.error)]).any()
            if ranked:
                raise ValueError("margin='normal' has ranks, and no density to score: tune another margin.")
            return float(np.nanmean(bent.log_density))
        return float(np.mean(likelihood_of(fitted, target).log_density(known[seen], mean[seen], std[seen])))
    coding = fitted_of(fitted).schema.codings[target]
    if coding.ordered:
        return level_log_likelihood(
            level_numbers(truth, coding, ~pd.isna(truth)), level_probabilities(fitted, given, target)
        )
    proba = np.asarray(fitted.predict_proba(given, target, use_target=True))
    if target not in fitted.classes_:
        known = zero_one(truth)
        return auc_mc(known, proba).value if scoring == "auc" else binary_log_likelihood(known, proba)
    codes = class_codes(fitted.classes_[target], truth[:, 0])
    return auc_mc(codes, proba).value if scoring == "auc" else class_log_likelihood(codes, proba)
