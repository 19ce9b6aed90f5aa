"""A fitted model's answers about rows that the user gives: read them, ask the posterior, answer in the user's units."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..core.arrays import to_numpy
from ..core.coded import CodedView
from ..core.devices import device_or_host
from ..core.likelihoods import Likelihood
from ..core.predictive import PredictiveView
from ..core.random import seed_sequence
from ..core.sparse_rows import CentredSparse
from ..core.spec import ModelSpec, ViewSpec
from ..data.border import answers_in_kind, as_views, fills_in_kind, has_row_names
from ..data.coding import labelled_frame
from ..data.covariates import ENTRY, GROUPS
from ..data.dask_answers import add_up_parts, in_partitions
from ..data.giving_back import fill, probabilities_to_user, std_to_user, to_user
from ..data.levels import first_places
from ..data.one_table import columns_absent_from, is_one_table, merge_columns, same_name, whole_table
from ..data.reading import new_views, read_new
from ..data.row_parts import by_parts, holds_sources, row_parts
from ..data.sparse_tables import is_sparse_view, no_deviations, with_dense_columns
from ..data.wording import first_few
from ..engines import Rows, make_rows
from .draws import draw_cells, draw_rows
from .fitted import Fitted
from .inference import infer_factors, log_likelihood, log_likelihoods, predict_views, unweighted
from .influences import influence
from .sample_groups import labels_of

logger = logging.getLogger("sshiba")


@dataclass(frozen=True)
class Answers:
    """What `SSHIBA` says of rows; its methods are documented there."""

    fit: Fitted

    @answers_in_kind
    @by_parts
    def transform(self, views: Any, return_std: bool = False, covariates: str | None = None) -> Any:
        views = self.given(views)
        data, index = self.read(views, covariates)
        found: tuple[Any, ...] = infer_factors(self._rows(data), self.fit.posterior)
        if any(has_row_names(given) for given in views.values()):
            found = tuple(labelled_frame(values, self.fit.factor_names, index) for values in found)
        return found if return_std else found[0]

    @answers_in_kind
    @by_parts
    def predict(
        self,
        views: Any,
        target: Any = None,
        return_std: bool = False,
        use_target: bool = False,
        covariates: str | None = None,
    ) -> Any:
        given = self.given(views)
        names, column = self._targets(views, given, target)
        if target is not None and not use_target:
            given = self._with_target_unread(given, names[0], column)
        data, index = self.read(given, covariates)
        if target is not None and not use_target:
            data = self._without_target(data, names[0], column)
        means, stds = {}, {}
        for name, (values, std) in self._predicted(data, names).items():
            mean, spread = self._in_users_units(name, self._likelihood(name).decide(values), std)
            means[name] = to_user(self.fit.schema, name, mean, index, asked=column, decoded=True)
            stds[name] = std_to_user(self.fit.schema, name, spread, index, decoded=True)
        results = []
        for parts in (means, stds):
            if target is not None:
                results.append(_column(parts[names[0]], column))
            else:
                results.append(columns_absent_from(parts, views) if is_one_table(views) else parts)
        return tuple(results) if return_std else results[0]

    @answers_in_kind
    @by_parts
    def predict_proba(self, views: Any, target: Any, use_target: bool = False, covariates: str | None = None) -> Any:
        given = self.given(views)
        (name,), column = self._targets(views, given, target)
        view = self.fit.schema.types[name]
        if not view.has_probabilities:
            kind = type(view).__name__.lower()
            raise ValueError(f"{target!r} is {kind} and has no probabilities; use predict(..., return_std=True).")
        if not use_target:
            given = self._with_target_unread(given, name, column)
        data, index = self.read(given, covariates)
        if not use_target:
            data = self._without_target(data, name, column)
        values, _ = self._predicted(data, [name])[name]
        return probabilities_to_user(self.fit.schema, name, values, index, column)

    @fills_in_kind
    def draws(self, views: Any, n_draws: int, random_state: Any = None, covariates: str | None = None) -> list[Any]:
        """The same data several times, with what is missing drawn anew each time."""
        if isinstance(n_draws, bool) or not isinstance(n_draws, int | np.integer) or n_draws < 1:
            raise ValueError(f"n_draws must be a whole number of 1 or more, not {n_draws!r}.")
        if holds_sources(views):
            raise ValueError("draws are made of rows in memory: give some of the rows at a time (row_parts).")
        given = self.given(views)
        data, index = self.read(given, covariates)
        rows, schema, drawn = self._rows(data, asked=list(data)), self.fit.schema, []
        data = self._views_of(data)
        for seed in seed_sequence(random_state).spawn(int(n_draws)):
            x = draw_cells(rows, self.fit.posterior, np.random.default_rng(seed), self.fit.sharpness)
            cells = {name: x[schema.place(name)] for name in data}
            filled = {
                name: part if is_sparse_view(part) else fill(schema, name, part, cells[name], index)
                for name, part in ((name, given[name]) for name in data)
            }
            drawn.append(merge_columns(views, filled, views) if is_one_table(views) else filled)
        return drawn

    @fills_in_kind
    @by_parts
    def impute(
        self, views: Any, return_std: bool = False, beyond_limits: bool = False, covariates: str | None = None
    ) -> Any:
        given = self.given(views)
        data, index = self.read(given, covariates)
        data, whole = self._views_of(data), data
        filled, stds = {}, {}
        beyond = self._at_limits(data) if beyond_limits else {}
        predicted = self._predicted(whole, [name for name in data if not is_sparse_view(given[name])], beyond)
        for name, coded in data.items():
            if is_sparse_view(given[name]):  # all of its cells are seen
                self._tell_rows_left_out(name, coded)
                filled[name], stds[name] = given[name], no_deviations(given[name])
                continue
            values, std = predicted[name]
            decided = self._likelihood(name).decide(values)
            seen = np.ones((1, 1), dtype=bool) if coded.observed is None else coded.observed
            seen = seen & ~beyond[name] if name in beyond else seen
            if decided.ndim == 1:
                std = np.take_along_axis(std, decided[:, None], axis=1)
            else:
                decided = np.where(seen, 0, decided)  # only holes are filled
            std = np.where(seen[:, : std.shape[1]], 0.0, std)
            ends = to_numpy(coded.target) if name in beyond else None
            mean, spread = self._in_users_units(name, decided, std, ends)
            filled[name] = fill(self.fit.schema, name, given[name], mean, index, beyond.get(name), decoded=True)
            stds[name] = std_to_user(self.fit.schema, name, spread, index, decoded=True)
        if is_one_table(views):
            table = merge_columns(views, filled, views)
            unknown = pd.DataFrame(np.nan, index=views.index, columns=views.columns)
            return (table, merge_columns(views, stds, unknown)) if return_std else table
        return (filled, stds) if return_std else filled

    @staticmethod
    def _tell_rows_left_out(name: str, coded: CodedView) -> None:
        n_absent = int((~coded.observed_rows).sum())
        if n_absent:
            logger.warning("view %r is sparse and lacks %d rows, which are not added", name, n_absent)

    def influence(self, target: Any) -> dict[str, pd.Series]:
        (name,), column = self._targets({}, {}, target)
        codings = self.fit.schema.codings
        rows = None if column is None else [column]
        found = influence(self.fit, name, rows)
        return {other: pd.Series(found[other], index=codings[other].latent_index) for other in codings if other != name}

    def _views_of(self, data: dict[str, CodedView]) -> dict[str, CodedView]:
        """Rows without their covariates."""
        return {name: coded for name, coded in data.items() if name in self.fit.schema.types}

    def normal_predictions(self, views: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of a view of numbers in the model's units, from all that is given."""
        data, _ = self.read(views)
        return self._predicted(data, [name])[name]

    def for_new_rows(self) -> Answers:
        """The same without what is known of the training rows, to be sent to other machines."""
        fit = self.fit
        return Answers(replace(fit, index=fit.index[:0], factors=fit.factors[:0], factors_std=fit.factors_std[:0]))

    def score(self, views: Any, covariates: str | None = None) -> float:
        partitions, ask = in_partitions(views), partial(self._score, covariates=covariates)
        if partitions is not None:
            found = add_up_parts(partial(self.for_new_rows()._score, covariates=covariates), views, partitions)
        else:
            parts = row_parts(views) if holds_sources(as_views(views)) else [views]
            found = [ask(part) for part in parts]
        n_rows = sum(n for n, _ in found)
        if n_rows == 0:
            raise ValueError("score needs at least one row.")
        return sum(n * score for n, score in found) / n_rows

    def _score(self, views: Any, covariates: str | None = None) -> tuple[int, float]:
        """How many rows there are, and the mean of theirs."""
        data, index = self.read(views, covariates)
        if len(index) == 0:
            return 0, 0.0
        rows = self._rows(data, unweighted(self.fit.spec), twins=False)  # derived features have no density of their own
        total = log_likelihood(rows, self.fit.posterior)
        return len(index), (total - float(np.sum(self.fit.schema.log_jacobian(data)))) / len(index)

    @by_parts
    def score_samples(self, views: Any, covariates: str | None = None) -> np.ndarray:
        """The bound on log p of each row, (n,): of numbers alone all at once, else one by one."""
        data, index = self.read(views, covariates)
        spec, posterior, own = unweighted(self.fit.spec), self.fit.posterior, self._views_of(data)
        numbers = all(not self._likelihood(name).latent and not coded.is_sparse for name, coded in own.items())
        if numbers and not spec.n_known and not spec.n_groups:
            rows = self._rows(data, spec, twins=False)
            total = log_likelihoods(rows, posterior, self._every_view(data, spec, sparse=False))
        else:
            each = ({name: coded.take(np.array([row])) for name, coded in data.items()} for row in range(len(index)))
            total = np.array([log_likelihood(self._rows(row, spec, twins=False), posterior) for row in each])
        return total - self.fit.schema.log_jacobian(data)

    def from_factors(self, z: np.ndarray) -> dict[str, Any]:
        """What rows with these factors, (n, K), are expected to hold: of each view means, or the most probable."""
        fit, found = self.fit, {}
        for name in fit.schema.types:
            values, std = self._expected(name, z)
            mean, _ = self._in_users_units(name, self._likelihood(name).decide(values), std)
            found[name] = to_user(fit.schema, name, mean, pd.RangeIndex(len(z)), whole=True, decoded=True)
        return found

    def expected_feature(self, name: str, place: int, z: np.ndarray) -> np.ndarray:
        """What one feature is expected to be at these factors, (n,), in the user's units.

        Of yes / no and of classes it is a probability, of levels the mean of their numbers 0, 1, 2 ...
        """
        coding = self.fit.schema.codings[name]
        values, std = self._expected(name, z)
        if coding.ordered:
            first, n_levels = first_places(coding.ordered)[place], len(coding.ordered[place].values)
            return values[:, first : first + n_levels] @ np.arange(n_levels)
        if self.fit.schema.types[name].has_probabilities:
            return values[:, place]
        return self._in_users_units(name, self._likelihood(name).decide(values), std)[0][:, place]

    def _expected(self, name: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values of a view and their standard deviations in the model's units, covariates at their mean."""
        fit, place = self.fit, self.fit.schema.place(name)
        z = np.pad(z, ((0, 0), (0, fit.spec.n_known)))
        x = PredictiveView(fit.posterior.views[place]).given_z(z).sharpened(fit.sharpness[place])
        return self._likelihood(name).predict(x)

    def sample(self, n: int = 1, random_state: int | None = None, covariates: Any = None) -> Any:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n must be a whole number of rows, not {n!r}.")
        rng = np.random.default_rng(seed_sequence(random_state))
        device = device_or_host(self.fit.settings["device"])
        schema, known, labels = self.fit.schema, None, None
        index: pd.Index = pd.RangeIndex(n)
        if covariates is not None:
            data, index = self.read(covariates)
            known = data[ENTRY].target if ENTRY in data else None
            labels = labels_of([data[GROUPS]]) if GROUPS in data else None
            if (known is None and labels is None) or len(index) != n:
                raise ValueError(f"covariates must be those of the model, of {n} rows.")
        drawn = draw_rows(self.fit.posterior, self.fit.spec, int(n), rng, self.fit.sharpness, device, known, labels)
        views = {name: to_user(schema, name, x, index, whole=True) for name, x in zip(schema.types, drawn)}
        return whole_table(views, schema.columns) if schema.one_table else views

    def given(self, views: Any) -> Mapping[str, Any]:
        """What the user gives for new rows, as a dict of views."""
        return new_views(self.fit.schema, views)

    def read(self, views: Any, covariates: str | None = None) -> tuple[dict[str, CodedView], pd.Index]:
        """Rows, coded, with their covariates as the last; covariates="mean": those not given at their mean."""
        if covariates not in (None, "mean"):
            raise ValueError(f"covariates must be None (they are given) or 'mean', not {covariates!r}.")
        given = self.given(views)
        return read_new(self.fit.schema, given, self.fit.dtype, covariates == "mean")

    def check_training_rows(self, views: Any, index: pd.Index | None = None) -> None:
        """Refuse data that are not those of the fit; `index`: the labels of all rows, where these are some of them."""
        given = self.given(views)
        index = self.read(views)[1] if index is None else index
        absent = [name for name in self.fit.schema.types if name not in given]
        if absent:
            raise ValueError(f"these are not the data of the fit: they lack view {absent[0]!r}.")
        known = int(self.fit.index.isin(index).sum())
        if known < len(self.fit.index) or len(index) != len(self.fit.index):
            raise ValueError(
                f"these are not the data of the fit: they have {len(index)} rows, the fit {len(self.fit.index)}, "
                f"and {known} names of rows are in both. Name the rows as in the fit (--index)."
            )

    def _rows(
        self,
        data: dict[str, CodedView],
        spec: ModelSpec | None = None,
        twins: bool = True,
        asked: Collection[str] = (),
    ) -> Rows:
        """Some rows, in which the views that were not given are missing, and twins where they are not wanted; `asked`
        are views whose holes are to be predicted.
        """
        spec = spec or self.fit.spec
        device = device_or_host(self.fit.settings["device"], data.values())
        shown = self.fit.schema.with_twins(data, asked=asked) if twins else data
        every = self._every_view(shown, spec, device.is_host)
        return make_rows(every, spec, self.fit.n_components, engine="memory", device=device)

    @staticmethod
    def _every_view(data: Mapping[str, Any], spec: ModelSpec, sparse: bool) -> list[CodedView]:
        """All views of the model: those that were not given have nothing observed, `sparse` where they are numbers."""
        n = len(next(iter(data.values())).target)

        def absent(view: ViewSpec) -> CodedView:
            nothing = CentredSparse.nothing if sparse and not view.likelihood.latent else view.likelihood.empty_target
            return CodedView(nothing(n, view.n_features), np.zeros((n, 1), dtype=bool))

        every = [data.get(view.name) or absent(view) for view in spec.views]
        return [*every, data[GROUPS]] if spec.n_groups else every

    def _predicted(
        self, data: dict[str, CodedView], names: Sequence[str], unknown: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Values and standard deviations of some views, in the model's units; of `unknown` cells those of x itself."""
        with_kernel = [name for name in names if name in self.fit.schema.twins]
        out: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for asked in ([name for name in names if name not in with_kernel], with_kernel):
            if asked:
                places = {name: self.fit.schema.place(name) for name in asked}
                cells = {places[name]: own for name, own in (unknown or {}).items() if name in places}
                rows = self._rows(data, asked=with_kernel if asked is with_kernel else ())
                found = predict_views(
                    rows, self.fit.posterior, list(places.values()), self.fit.sharpness, unknown=cells
                )
                out |= {name: found[place] for name, place in places.items()}
        return out

    def _at_limits(self, data: dict[str, CodedView]) -> dict[str, np.ndarray]:
        """The cells of each view of which only a limit is known, (n, D)."""
        schema = self.fit.schema
        found = {name: schema.types[name].at_limits(coded, schema.codings[name]) for name, coded in data.items()}
        return {name: cells for name, cells in found.items() if cells is not None}

    def _in_users_units(
        self, name: str, values: np.ndarray, std: np.ndarray, ends: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decided values and standard deviations; `ends` is as in `View.decode_predicted`."""
        schema = self.fit.schema
        return schema.types[name].decode_predicted(np.asarray(values), std, schema.codings[name], ends)

    def _likelihood(self, name: str) -> Likelihood:
        return self.fit.spec.views[self.fit.schema.place(name)].likelihood

    def _with_target_unread(self, given: Mapping[str, Any], name: str, column: int | None) -> Mapping[str, Any]:
        """The views of one table with nothing in the target, so that what it holds need not make sense."""
        if not self.fit.schema.one_table or name not in given:
            return given
        part = given[name]
        if isinstance(part, pd.Series):
            return {**given, name: pd.Series(None, part.index, object, part.name)}
        part = part.copy() if column is None else with_dense_columns(part, name)
        for place in range(part.shape[1]) if column is None else [column]:
            part.isetitem(place, np.nan)
        return {**given, name: part}

    def _without_target(self, data: dict[str, CodedView], name: str, column: int | None) -> dict[str, CodedView]:
        """The data with the target hidden: a whole view, or one column of it; other columns of its view stay."""
        if name not in data:
            return data
        coded = data[name]
        if column is None or len(self.fit.schema.codings[name].features) == 1:
            if len(data) == 1:
                raise ValueError(f"nothing but the target {name!r} is given: give something to predict it from.")
            return {**data, name: coded.hidden()}
        return {**data, name: coded.without_column(column)}

    def _targets(self, views: Any, data: Mapping[str, Any], target: Any) -> tuple[list[str], int | None]:
        """The views to predict and, where the target is one of several columns of a view, its place there."""
        codings = self.fit.schema.codings
        if target is None:
            if is_one_table(views):
                names = [name for name, coding in codings.items() if not set(coding.features) <= set(views.columns)]
            else:
                names = [name for name in codings if name not in data]
            if not names:
                raise ValueError("Everything is given, so there is nothing to predict: leave some out, or use impute.")
            return names, None
        if self.fit.schema.one_table:
            for name, coding in codings.items():
                for place, feature in enumerate(coding.features):
                    if same_name(feature, target):
                        return [name], None if coding.has_classes else place
        if isinstance(target, str) and target in codings:
            return [target], None
        known = f"the model has the views {first_few(codings, 10)}"
        if self.fit.schema.one_table:
            known += f" and the columns {first_few([f for c in codings.values() for f in c.features], 10)}"
        raise ValueError(f"unknown target {target!r}; {known}.")


def _column(part: Any, place: int | None) -> Any:
    """One column of what was predicted for a view; all of it where no column is asked for."""
    return part.iloc[:, place] if place is not None and isinstance(part, pd.DataFrame) else part
