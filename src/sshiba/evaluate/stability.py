"""Which factors come back: factors of several fits matched by their weights, over other starts or other rows."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from ..core.coded import CodedView
from ..core.random import seed_sequence
from ..data.sampling import MOST_ROWS, draw_sample
from ..data.wording import counted
from ..fitted.answers import Answers
from ..fitted.fitted import Fitted, FittedModel, fitted_of
from .hiding import quiet_fit, take_drawn

logger = logging.getLogger("sshiba")

REFITS = {"restarts": "restarts", "bootstrap": "bootstraps"}  # kind -> what its refits are called
STABLE = 0.95  # from this congruence on two factors are taken to be the same (Lorenzo-Seva and ten Berge 2006)
LEVEL = 0.9  # of the interval over refits
MOST_DRAWS = 1000  # of rows, until no column and no class is lost


@dataclass(frozen=True, eq=False)
class Stability:
    """How well each factor of a model was found again by other fits."""

    kind: str  # "restarts" or "bootstrap"
    congruence: pd.DataFrame  # refits x factors: |cosine| of a factor and its match, 0 where it has none
    n_components: tuple[int, ...]  # factors of each refit
    elbos: tuple[float, ...]  # bounds of the refits; those of bootstraps are of other rows, and cannot be compared

    @property
    def table(self) -> pd.DataFrame:
        """Factors x (mean, low, high, stable).

        The mean over the refits, their central 90 %, and whether the mean is 0.95 or more.
        """
        low, high = np.quantile(self.congruence, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
        mean = self.congruence.mean()
        return pd.DataFrame({"mean": mean, "low": low, "high": high, "stable": mean >= STABLE}).rename_axis("factor")

    @property
    def refits(self) -> str:
        """How many there were, in words."""
        return f"{len(self.congruence)} {REFITS[self.kind]}"

    def __repr__(self) -> str:
        n_stable, sizes = int(self.table["stable"].sum()), self.n_components
        found = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        shown = self.table.assign(stable=self.table["stable"].map({True: "yes", False: "no"})).rename_axis(None)
        words = f"{n_stable} of {counted(len(self.table), 'factor')} stable (mean of {STABLE} or more)"
        table = "" if shown.empty else f"\n{shown.to_string(float_format='{:.2f}'.format)}"
        return f"{words} over {self.refits}, which found {found}{table}"


def match(models: Sequence[FittedModel]) -> pd.DataFrame:
    """The factors of several models of the same features, each matched with one of the first model's.

    Two factors are compared by the absolute cosine of their weights (Tucker's congruence), over all features of
    all views at once, in the units of each model: standard deviations of a feature unless `scale=False`, of binary
    and categorical views the noise of the latent x. Signs do not count. Weights are not centred as for a
    correlation: 0 means that a factor leaves a feature alone, and one that moves all features alike is a factor,
    too. Pairs are those of the largest sum (the Hungarian algorithm).

    Parameters
    ----------
    models : sequence of SSHIBA
        Two or more, fitted to the same views with the same features; their rows may differ.

    Returns
    -------
    DataFrame
        A row for each other model and factor of the first: `model` (its place among `models`), `factor`, `match`
        (None where the model has fewer factors), `sign` (-1 where the match points the other way) and `congruence`
        (0 without a match).
    """
    fits = [fitted_of(model) for model in models]
    if len(fits) < 2:
        raise ValueError(f"match needs two models or more, not {len(fits)}.")
    first = fits[0]
    return pd.concat([_matched(first, fit, place) for place, fit in enumerate(fits) if place], ignore_index=True)


def stability(
    model: Any,
    views: Any,
    n: int = 20,
    kind: str = "restarts",
    random_state: int | None = 0,
    verbose: int = 0,
    max_rows: int = MOST_ROWS,
) -> Stability:
    """How well each factor is found again when the same model is fitted `n` times more.

    Do not interpret a factor that another start or another sample of rows does not find. Factors are matched as in
    `match`; one that a refit does not have counts as 0 there. Refits choose their number of factors themselves.
    Ctrl-C ends it and keeps the refits that are done.

    Parameters
    ----------
    model : SSHIBA
        Fitted; the refits have the settings of its fit, `n_init` included: the best of several starts is stabler.
    views : dict, or one DataFrame, MuData or AnnData
        The data of the fit; the model does not keep them.
    n : int
        Refits.
    kind : "restarts" or "bootstrap"
        The same rows from random starts, or as many rows drawn with replacement (drawn again where a column would
        have no value, or a class no row). Rows drawn twice agree in all cells: with few rows, bootstraps may
        find more factors than there are.
    random_state : int, optional
        Of the starts and draws.
    verbose : int
        1 shows a progress bar.
    max_rows : int
        Of data that are not in memory (files), the most rows that the refits see, drawn at random once for all of them;
        fewer where the model's `max_memory` asks for it. Fewer rows may find fewer factors again.

    Returns
    -------
    Stability
        Its `table` has the mean, an interval and a verdict for each factor.
    """
    fit = fitted_of(model)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n must be a whole number of refits, at least 1, not {n!r}.")
    if kind not in REFITS:
        raise ValueError(f"kind must be one of {tuple(REFITS)}, not {kind!r}.")
    answers = Answers(fit)
    sample = draw_sample(views, max_rows, model.max_memory, random_state)
    answers.check_training_rows(sample.views, sample.all_rows)
    given, (data, index) = answers.given(sample.views), answers.read(sample.views)
    if sample.places is not None:
        _check_has_all(fit, data)
    found: list[tuple[np.ndarray, Fitted]] = []
    seeds = seed_sequence(random_state).spawn(int(n))
    try:
        for seed in track(seeds, "stability", disable=not verbose):
            rng = np.random.default_rng(seed)
            refitted = fitted_of(_refit(model, fit, _sample(given, data, index, kind, rng), kind, rng))
            found.append((_matched(fit, refitted, 1)["congruence"].to_numpy(), refitted))
    except KeyboardInterrupt:
        if not found:
            raise
        logger.warning("interrupted, %d of %d refits are kept", len(found), n)
    values = pd.DataFrame([values for values, _ in found], columns=fit.factor_names)
    refits = [refitted for _, refitted in found]
    return Stability(kind, values, tuple(f.n_components for f in refits), tuple(f.elbo for f in refits))


def _check_has_all(fit: Fitted, data: Mapping[str, CodedView]) -> None:
    """Refuse a sample of rows without some class or column: its weights could not be compared."""
    for name, coding in fit.schema.codings.items():
        coded = data[name]
        if coded.target.ndim == 1:
            n_seen = len(np.unique(coded.target[coded.observed_rows]))
        else:
            seen = np.True_ if coded.observed is None else coded.observed.any(axis=0)
            n_seen = int(np.broadcast_to(seen, coding.width).sum())
        if n_seen < coding.width:
            what = "classes" if coded.target.ndim == 1 else "columns"
            raise ValueError(
                f"the rows that were drawn have {n_seen} of the {coding.width} {what} of view {name!r}: draw more "
                f"(max_rows), or leave out {what} that hardly any row has."
            )


def _refit(model: Any, fit: Fitted, views: Mapping[str, Any], kind: str, rng: np.random.Generator) -> Any:
    """Another fit with the settings of the first; what its data look like was said then."""
    own = {"views": fit.schema.types, "random_state": int(rng.integers(2**31)), "callback": None, "verbose": 0}
    own |= {"search": [fit.choice], "keep": None, "priors": None}  # what was chosen then
    if kind == "restarts":
        own["start"] = "random"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quiet_fit(clone(model).set_params(**{**fit.settings, **own}), views)


def _sample(
    views: Mapping[str, Any], data: Mapping[str, CodedView], index: pd.Index, kind: str, rng: np.random.Generator
) -> Mapping[str, Any]:
    """The views as they are, or as many rows of them, drawn with replacement."""
    if kind == "restarts":
        return views
    for rows in _draws(len(index), rng):
        if all(_keeps_all(coded, rows) for coded in data.values()):
            return {name: take_drawn(value, index, rows) for name, value in views.items()}
    raise ValueError(
        f"in each of {MOST_DRAWS:,} draws of rows some column had no value, or some class no row: leave out columns "
        "and classes that hardly any row has."
    )


def _draws(n_rows: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    return (rng.integers(0, n_rows, n_rows) for _ in range(MOST_DRAWS))


def _keeps_all(coded: CodedView, rows: np.ndarray) -> bool:
    """Has each column of a view a value in these rows, or each class a row?"""
    drawn = coded.take(rows)
    if coded.target.ndim == 1:
        before, after = (np.unique(view.target[view.observed_rows]) for view in (coded, drawn))
        return np.array_equal(before, after)
    return drawn.observed is None or bool(drawn.observed.any(axis=0).all())


def _matched(first: Fitted, other: Fitted, place: int) -> pd.DataFrame:
    """Each factor of the first with its match in the other."""
    cosine = _cosines(_weights(first, first), _weights(other, first))
    mine, theirs = linear_sum_assignment(np.abs(cosine), maximize=True)
    table = pd.DataFrame({"model": place, "factor": first.factor_names, "match": None, "sign": 1, "congruence": 0.0})
    table.loc[mine, "match"] = np.array(other.factor_names, dtype=object)[theirs]
    table.loc[mine, "sign"] = np.where(cosine[mine, theirs] < 0, -1, 1)
    table.loc[mine, "congruence"] = np.abs(cosine[mine, theirs])
    return table


def _weights(fit: Fitted, first: Fitted) -> np.ndarray:
    """The weights of all views, in the order of the first model's, one below the other: (ΣD, K)."""
    mine, theirs = fit.schema.codings, first.schema.codings
    if set(mine) != set(theirs):
        raise ValueError(f"the models have different views, {list(theirs)} and {list(mine)}, and cannot be matched.")
    for name, coding in theirs.items():
        if mine[name].latent_names != coding.latent_names:
            what = "classes" if coding.has_classes else "features"
            raise ValueError(f"view {name!r} has other {what} in the models, which cannot be matched.")
    return np.concatenate(
        [fit.posterior.views[fit.schema.place(name)].w_mean[:, : fit.n_components] for name in theirs]
    )


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of the columns of two matrices; 0 where one has no weight at all."""
    sizes = [np.linalg.norm(w, axis=0) for w in (a, b)]
    units = [w / np.where(size > 0, size, 1.0) for w, size in zip((a, b), sizes)]
    return np.clip(units[0].T @ units[1], -1.0, 1.0)
