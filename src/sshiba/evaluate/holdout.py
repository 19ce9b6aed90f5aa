"""How well a model predicts cells that it was not shown."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.base import clone

from ..core.coded import CodedView
from ..core.likelihoods import Likelihood
from ..core.random import seed_sequence
from ..data.advice import DataWarning, Problem, Remedy
from ..data.containers import read_table
from ..data.covariates import known_inputs
from ..data.reading import read_in_memory, training_views
from ..data.sampling import MOST_ROWS, draw_sample
from ..data.spellings import zero_one
from ..data.tensors import on_host
from ..data.wording import first_few, percent
from ..fitted.fitted import fitted_of
from .hiding import features_of, hide_cells, keep_cells, of_all_columns, quiet_fit, tellable_cells
from .level_scores import level_log_likelihood, level_numbers, level_probabilities
from .metrics import (
    auc_mc,
    binary_log_likelihood,
    class_codes,
    class_log_likelihood,
)
from .number_scores import OnMargins, on_margins

logger = logging.getLogger("sshiba")

LEVEL = 0.9  # of the intervals whose coverage is told
LEAST_RULED = 20  # hidden cells, among which it is told if
FEW, MOST = 0.01, 0.5  # so few of them make most of the squared error
COLUMNS = ["type", "hidden", "rmse", "r2", "coverage", "accuracy", "auc", "mae", "smae", "log_likelihood"]


@dataclass(frozen=True, repr=False)
class Check:
    """The hidden cells of one view beside what was predicted for them.

    A categorical view has a column for each class: 1 for the true one, and its probability. Levels of an ordinal view
    are counted 0, 1, 2 ...; one that training never saw is -1, and counts for the log-likelihood alone.
    """

    kind: str  # the name of its view type
    names: tuple  # of the columns: features, or classes
    hidden: np.ndarray  # (n, L) bool
    truth: np.ndarray  # (n, L): NaN where not hidden
    found: np.ndarray  # (n, L): means, or probabilities
    std: np.ndarray | None = None  # (n, L): of a view whose cells are predicted as numbers
    centre: np.ndarray | None = None  # (L,): what a number or a level is predicted to be without any model
    scale: np.ndarray | None = None  # (L,): its standard deviation
    one_label: bool = False  # is each row one label, its columns the classes?
    on_margins: OnMargins | None = None  # of a real view with margins: errors and densities on their scales
    levels: tuple[np.ndarray, ...] = ()  # of an ordinal view: (n, levels) probabilities of each column
    likelihood: Likelihood | None = None  # of numbers: what their means and deviations stand for

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in self.scores().items())
        return f"Check({self.kind}, {self.n_hidden:,} hidden cells{': ' + scores if scores else ''})"

    @property
    def n_hidden(self) -> int:
        return int(self.hidden[:, 0].sum() if self.one_label else self.hidden.sum())

    def standardised(self, part: str) -> np.ndarray:
        """`truth` or `found` of numbers in standard deviations of each feature, (n, L)."""
        return (getattr(self, part) - self.centre) / self.scale

    def scores(self) -> dict[str, float]:
        """The measures that the view's type has."""
        if not self.hidden.any():
            return {}
        if self.std is not None:
            return self._number_scores()
        if self.levels:
            return self._level_scores()
        if not self.one_label:
            right = (self.found > 0.5) == (self.truth == 1)
            scores = {"accuracy": float(right[self.hidden].mean()), "auc": auc_mc(self.truth, self.found).value}
            return scores | {"log_likelihood": binary_log_likelihood(self.truth, self.found)}
        rows = self.hidden[:, 0]
        truth, proba = self.truth[rows], self.found[rows]
        codes = np.where(truth.any(axis=1), truth.argmax(axis=1), -1)  # -1: a class that was hidden altogether
        return {
            "accuracy": float(np.mean(proba.argmax(axis=1) == codes)),
            "auc": auc_mc(codes, proba).value,
            "log_likelihood": class_log_likelihood(codes, proba),
        }

    def _number_scores(self) -> dict[str, float]:
        assert self.likelihood is not None
        assert self.centre is not None
        assert self.scale is not None
        truth, found, std = self._numbers()
        centre, scale = (np.broadcast_to(part, self.hidden.shape)[self.hidden] for part in (self.centre, self.scale))
        lost, usual = (float(self.likelihood.deviance(truth, guess, scale).mean()) for guess in (found, centre))
        if self.on_margins is None:
            log_density = self.likelihood.log_density(truth, found, std)
        else:
            log_density = self.on_margins.log_density[self.hidden]
            log_density = log_density[~np.isnan(log_density)]
        return {
            "rmse": float(np.sqrt(np.mean(((truth - found) / scale) ** 2))),
            "r2": 1 - lost / usual if usual > 0 else float("nan"),
            "coverage": float(np.mean(np.abs(self.ranks() - 0.5) <= LEVEL / 2)),
            "log_likelihood": float(np.mean(log_density)) if log_density.size else float("nan"),
        }

    def ruled_by(self) -> Problem | None:
        """Which columns hold the few numbers that make most of the squared error, where that is so."""
        if self.std is None or self.n_hidden < LEAST_RULED:
            return None
        squares = np.where(self.hidden, (self.standardised("truth") - self.standardised("found")) ** 2, 0.0)
        largest = np.argsort(-squares, axis=None)[: max(1, int(FEW * self.n_hidden))]
        shares = np.cumsum(squares.flat[largest]) / max(squares.sum(), np.finfo(float).tiny)
        if shares[-1] <= MOST:
            return None
        n = int(np.argmax(shares > MOST)) + 1
        columns = first_few(dict.fromkeys(self.names[place % len(self.names)] for place in largest[:n]))
        left = np.sqrt((1 - shares[n - 1]) * squares.sum() / (self.n_hidden - n))
        what = f"{n} of {self.n_hidden:,} hidden cells ({columns}) {'makes' if n == 1 else 'make'} "
        what += f"{percent(shares[n - 1])} of the squared error, and the RMSE without is {left:.3f}"
        return Problem(what, (Remedy.UNITS,))

    def _numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of hidden cells: what they are, their means and their deviations."""
        assert self.std is not None
        return self.truth[self.hidden], self.found[self.hidden], self.std[self.hidden]

    def ranks(self) -> np.ndarray:
        """Where hidden numbers lie in their distributions, between 0 and 1; uniform where these are right."""
        if self.on_margins is not None:  # on the scale of its margin a number is normal
            return norm.cdf(self.on_margins.error[self.hidden])
        assert self.likelihood is not None
        truth, found, std = self._numbers()
        return self.likelihood.rank(truth, found, std, np.random.default_rng(0).random(len(truth)))

    def _level_scores(self) -> dict[str, float]:
        known = self.truth >= 0
        error, usual = (np.abs(self.truth - guess)[known] for guess in (self.found, self.centre))
        total = float(usual.sum())
        return {
            "accuracy": float(np.mean(error == 0)),
            "mae": float(np.mean(error)),
            "smae": float(error.sum()) / total if total > 0 else float("nan"),
            "log_likelihood": level_log_likelihood(self.truth, self.levels),
        }

    def events(self) -> tuple[np.ndarray, np.ndarray]:
        """What could happen to hidden labels: whether it did, and its probability. Each class and level is one."""
        if not self.levels:
            return self.truth[self.hidden], self.found[self.hidden]
        happened, predicted = [], []
        for d, p in enumerate(self.levels):
            rows = self.hidden[:, d]
            happened.append(np.ravel(self.truth[rows, d][:, None] == np.arange(p.shape[1])))
            predicted.append(np.ravel(p[rows]))
        return np.concatenate(happened).astype(float), np.concatenate(predicted)

    def columns(self) -> Iterator[tuple[Any, Check]]:
        """Each feature on its own; a categorical view is one."""
        if self.one_label:
            yield "", self
            return
        for d, name in enumerate(self.names):
            parts = {field: getattr(self, field)[:, [d]] for field in ("hidden", "truth", "found")}
            if self.levels and self.centre is not None:
                parts |= {"levels": self.levels[d : d + 1], "centre": self.centre[[d]]}
            if self.std is not None and self.centre is not None and self.scale is not None:
                parts |= {"std": self.std[:, [d]], "centre": self.centre[[d]], "scale": self.scale[[d]]}
            if self.on_margins is not None:
                parts |= {"on_margins": OnMargins(*(part[:, [d]] for part in self.on_margins))}
            yield name, replace(self, names=(name,), **parts)


def check(
    model: Any, views: Any, fraction: float = 0.1, random_state: int | None = 0, max_rows: int = MOST_ROWS
) -> dict[str, Check]:
    """Hide some observed cells and labels of every view, fit the others, and predict the hidden ones.

    Sparse views are not checked, nor are values at a limit, whose truth is unknown.

    Parameters
    ----------
    model : SSHIBA
        Its options are used; it is not fitted itself.
    views : dict, or one DataFrame, MuData or AnnData
        As for `fit`.
    fraction : float
        Share of the observed cells of each view that is hidden.
    random_state : int, optional
        Which cells.
    max_rows : int
        Of data that are not in memory (files), the most rows that are looked at, drawn at random; fewer where the
        model's `max_memory` asks for it. A warning is logged where they are not all.

    Returns
    -------
    dict
        View -> Check.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must be between 0 and 1, not {fraction!r}.")
    sample = draw_sample(views, max_rows, model.max_memory, random_state).views
    split = training_views(sample, model.views, known_inputs(model.covariates, model.sample_groups))
    views = split.views
    schema, data, index = read_in_memory(views, split.types, model.dtype, model.covariates, model.sample_groups)
    for name, rows in data.items():
        if not rows.is_sparse:
            advice = schema.types[name].advise(read_table(on_host(views[name]), name).frame, name)
            if advice is not None:
                logger.warning(advice)
    # A stream of its own: the user may have made holes with the same seed.
    rng = np.random.default_rng(seed_sequence(random_state).spawn(1)[0])
    hidden, shown = {}, dict(views)
    for name, rows in data.items():
        if rows.is_sparse:
            continue
        coding, seen = schema.codings[name], rows.seen_cells
        chosen = tellable_cells(rows, schema.types[name], coding) & (rng.random(seen.shape) < fraction)
        hidden[name] = keep_one_of_each(rows, seen, chosen)
        shown[name] = hide_cells(views[name], index, of_all_columns(hidden[name], views[name], coding))
    if not any(mask.any() for mask in hidden.values()):
        if all(rows.is_sparse for rows in data.values()):
            raise ValueError("all views are sparse, and their cells cannot be hidden. Give some as dense arrays.")
        raise ValueError(f"no cell was hidden: the data are few, or the fraction ({fraction:g}) is.")
    fitted = quiet_fit(clone(model).set_params(views=schema.types), shown)
    with warnings.catch_warnings():  # predictions are told of, with what to do, where the user asks for them
        warnings.simplefilter("ignore", DataWarning)
        found = {name: _check(fitted, shown, name, views[name], index, mask) for name, mask in hidden.items()}
    for name, one in found.items():
        few = one.ruled_by()
        if few is not None:
            logger.warning(few.of(f"view {name!r}:"))
    return found


def keep_one_of_each(rows: CodedView, seen: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """What is hidden, less one cell of each class or level, and of each column, that would be hidden altogether."""
    kept = hidden.copy()
    target = rows.target if rows.target.dtype.kind == "i" else np.zeros(hidden.shape)  # numbers have no classes
    for d in range(hidden.shape[1]):
        own = target if target.ndim == 1 else target[:, d]
        for group in np.unique(own[seen[:, d]]):
            cells = seen[:, d] & (own == group)
            if cells.any() and not (cells & ~hidden[:, d]).any():
                kept[np.flatnonzero(cells)[0], d] = False
    return kept


def _check(fitted: Any, shown: Any, name: str, view: Any, index: pd.Index, hidden: np.ndarray) -> Check:
    coding = fitted_of(fitted).schema.codings[name]
    view = features_of(view, fitted.views_[name], name)
    aligned = view.reindex(index) if isinstance(view, pd.DataFrame | pd.Series) else view
    truth = keep_cells(aligned, hidden)
    kind = type(fitted.views_[name]).__name__
    if not hidden.any():  # and a view that is complete cannot be predicted
        nothing = np.full((len(index), coding.width), np.nan)
        hidden = np.zeros(nothing.shape, dtype=bool)
        return Check(kind, coding.latent_names, hidden, nothing, nothing, one_label=coding.levels is not None)
    if not fitted.views_[name].has_probabilities:
        known = truth.astype(float)
        parts = fitted.predict(shown, name, return_std=True, use_target=True)
        mean, std = (np.reshape(np.asarray(part, float), known.shape) for part in parts)
        centre, scale = coding.usual
        if fitted.views_[name].latent:
            whole = keep_cells(aligned, np.ones_like(hidden))
            centre, scale = column_scale(np.where(hidden | pd.isna(whole), np.nan, whole).astype(float))
        bent, own = on_margins(fitted, shown, name, known), likelihood_of(fitted, name)
        numbers = (mean, std, centre, scale)
        return Check(kind, coding.features, hidden, known, *numbers, on_margins=bent, likelihood=own)
    if coding.ordered:
        return _check_levels(fitted, shown, name, hidden, truth)
    proba = np.asarray(fitted.predict_proba(shown, name, use_target=True))
    if name not in fitted.classes_:
        return Check(kind, coding.features, hidden, zero_one(truth), proba)
    rows = hidden[:, 0]
    known = np.full(proba.shape, np.nan)
    known[rows] = class_codes(fitted.classes_[name], truth[rows, 0])[:, None] == np.arange(proba.shape[1])
    return Check(kind, coding.latent_names, np.broadcast_to(hidden, proba.shape), known, proba, one_label=True)


def column_scale(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the standard deviation of the seen cells of each column; 1 where they do not vary."""
    std = np.nanstd(seen, axis=0)
    return np.nanmean(seen, axis=0), np.where(std > 0, std, 1.0)


def likelihood_of(fitted: Any, name: str) -> Likelihood:
    fit = fitted_of(fitted)
    return fit.spec.views[fit.schema.place(name)].likelihood


def _check_levels(fitted: Any, shown: Any, name: str, hidden: np.ndarray, truth: np.ndarray) -> Check:
    coding = fitted_of(fitted).schema.codings[name]
    found = keep_cells(fitted.predict(shown, name, use_target=True), np.ones_like(hidden))
    levels = level_probabilities(fitted, shown, name)
    known, guess = (level_numbers(values, coding, hidden) for values in (truth, found))
    centre = np.array([own.median for own in coding.ordered], dtype=float)
    kind = type(fitted.views_[name]).__name__
    return Check(kind, coding.features, hidden, known, guess, centre=centre, levels=levels)


def holdout(
    model: Any,
    views: Any,
    fraction: float = 0.1,
    random_state: int | None = 0,
    per: str = "view",
    max_rows: int = MOST_ROWS,
) -> pd.DataFrame:
    """Hide some observed cells and labels of every view, fit the others, and score the predictions of the hidden ones.

    Parameters
    ----------
    model, views, fraction, random_state, max_rows
        As for `check`.
    per : "view" or "feature"
        What a row of the table is about.

    Returns
    -------
    DataFrame
        Real views and counts: `rmse` in standard deviations of a feature over its seen cells; `r2`, the squared error
        (of counts the Poisson deviance) on the hidden cells against that of the feature's mean on the same cells;
        `coverage` of 90 % intervals. Others: `accuracy`; of yes
        / no and classes weighted `auc`; of levels `mae`, by how many levels the guess is wrong, and `smae`, the same as
        a share of what the median level of each feature has on the same cells. All: `log_likelihood` per cell (real: in
        the user's units).
    """
    if per not in ("view", "feature"):
        raise ValueError(f"per must be 'view' or 'feature', not {per!r}.")
    return scores_table(check(model, views, fraction, random_state, max_rows), per)


def scores_table(checks: dict[str, Check], per: str = "view") -> pd.DataFrame:
    """The scores of each view, or of each feature."""
    rows: dict[Any, dict[str, Any]] = {}
    for name, one in checks.items():
        for feature, part in one.columns() if per == "feature" else [("", one)]:
            place = name if per == "view" else (name, feature)
            rows[place] = {"type": part.kind, "hidden": part.n_hidden, **part.scores()}
    table = pd.DataFrame(list(rows.values()), columns=COLUMNS)
    names = ["view"] if per == "view" else ["view", "feature"]
    table.index = pd.Index(list(rows), name="view") if per == "view" else pd.MultiIndex.from_tuples(rows, names=names)
    return table
