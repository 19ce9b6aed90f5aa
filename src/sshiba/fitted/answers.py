"""A fitted model's answers about rows that the user gives: read them, ask the posterior, answer in the user's units."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..core.arrays import to_numpy
from ..core.coded import CodedView
from ..core.devices import device_or_host
from ..core.predictive import PredictiveView
from ..core.random import seed_sequence
from ..core.streamed import class_codes
from ..data.advice import DataError, Problem, Remedy
from ..data.border import answers_in_kind, as_views, fills_in_kind, has_row_names
from ..data.coding import labelled_frame
from ..data.covariates import ENTRY, GROUPS
from ..data.dask_answers import add_up_parts, in_partitions
from ..data.giving_back import bounds_to_user, fill, probabilities_to_user, std_to_user, to_user
from ..data.levels import first_places
from ..data.one_table import columns_absent_from, is_one_table, merge_columns, same_name, whole_table
from ..data.row_parts import by_parts, holds_sources, row_parts
from ..data.sparse_tables import is_sparse_view, no_deviations, with_dense_columns
from ..data.wording import did_you_mean, first_few, quoted
from .draws import draw_cells, draw_rows
from .inference import infer_factors, log_likelihood, log_likelihoods, unweighted
from .influences import influence
from .intervals import Asked
from .reader import RowReader

logger = logging.getLogger("sshiba")

NOTHING_ELSE = Asked()


@dataclass(frozen=True)
class Answers(RowReader):
    """What `SSHIBA` says of rows; its methods are documented there."""

    @answers_in_kind
    @by_parts
    def transform(self, views: Any, return_std: bool = False, covariates: str | None = None) -> Any:
        views = self.given(views)
        data, index = self.read(views, covariates)
        found: tuple[Any, ...] = infer_factors(self._rows(data), self.fit.posterior)
        if return_std:
            self.fit.coupling.widen(*found)
        if any(has_row_names(given) for given in views.values()):
            found = tuple(labelled_frame(values, self.fit.factor_names, index) for values in found)
        return found if return_std else found[0]

    @answers_in_kind
    @by_parts
    def predict(
        self,
        views: Any,
        target: Any = None,
        asked: Asked = NOTHING_ELSE,
        use_target: bool = False,
        covariates: str | None = None,
    ) -> Any:
        given, schema = self.given(views), self.fit.schema
        names, column = self._targets(views, given, target)
        self._check_quantiles(asked, names if target is not None else [])
        if target is not None and not use_target:
            given = self._with_target_unread(given, names[0], column)
        data, index = self.read(given, covariates)
        if target is not None and not use_target:
            data = self._without_target(data, names[0], column)
        means, stds, labels = {}, {}, {}
        bounds: dict[Any, dict[str, Any]] = {}
        for name, (values, std) in self._predicted(data, names).items():
            likelihood = self._likelihood(name)
            mean, spread = self._in_users_units(name, likelihood.decide(values), std)
            means[name] = to_user(schema, name, mean, index, asked=column, decoded=True)
            stds[name] = std_to_user(schema, name, spread, index, decoded=True)
            for key, bound in asked.bounds(likelihood, values, std, self._score_of(name, std)).items():
                bounds.setdefault(key, {})[name] = bounds_to_user(schema, name, bound, index)
            if asked.interval is not None and not likelihood.ordered:
                inside = likelihood.label_set(values, asked.interval)
                labels[self._label_name(name)] = probabilities_to_user(schema, name, inside, index, None)

        def of_targets(parts: dict[str, Any]) -> Any:
            if target is not None:
                return _column(parts[names[0]], column)
            return columns_absent_from(parts, views) if is_one_table(views) else parts

        found = {key: of_targets(parts) for key, parts in bounds.items()}
        sets = (labels or None) if target is None else next(iter(labels.values()), None)
        return asked.arranged(of_targets(means), of_targets(stds), found, sets)

    def _check_quantiles(self, asked: Asked, targets: Sequence[str]) -> None:
        for name in targets:
            if asked.quantiles and not self._likelihood(name).ordered:
                raise ValueError(f"{name!r} has labels without an order, and so no quantiles; use interval=0.9.")

    def _label_name(self, name: str) -> Any:
        """What the user calls a view of classes: in one table by its column."""
        return self.fit.schema.codings[name].features[0] if self.fit.schema.one_table else name

    @answers_in_kind
    @by_parts
    def predict_proba(self, views: Any, target: Any, use_target: bool = False, covariates: str | None = None) -> Any:
        given = self.given(views)
        (name,), column = self._targets(views, given, target)
        view = self.fit.schema.types[name]
        if not view.has_probabilities:
            kind = type(view).__name__.lower()
            raise DataError(Problem(f"{quoted(target)} is {kind} and has no probabilities", (Remedy.DEVIATIONS,)))
        if not use_target:
            given = self._with_target_unread(given, name, column)
        data, index = self.read(given, covariates)
        if not use_target:
            data = self._without_target(data, name, column)
        values, _ = self._predicted(data, [name])[name]
        return probabilities_to_user(self.fit.schema, name, values, index, column)

    def draws(self, views: Any, n_draws: int, random_state: Any = None, covariates: str | None = None) -> list[Any]:
        """Rows that are not in memory would need draws of their own for each part: the user says which."""
        if in_partitions(views) is not None or holds_sources(as_views(views)):
            raise ValueError("draws need rows in memory: give them in parts, e.g. those of sshiba.row_parts.")
        return self._draws(views, n_draws, random_state, covariates)

    @fills_in_kind
    def _draws(self, views: Any, n_draws: int, random_state: Any = None, covariates: str | None = None) -> list[Any]:
        """The same data several times, with what is missing drawn anew each time."""
        self.tell_of(views)
        given = self.given(views)
        drawn, index = self._drawn(given, n_draws, random_state, covariates)
        found = []
        for cells in drawn:
            filled = {name: self._filled(given[name], name, cells[name], index) for name in cells if name in given}
            found.append(merge_columns(views, filled, views) if is_one_table(views) else filled)
        return found

    @answers_in_kind
    def conditional_sample(
        self, views: Any, n: int, random_state: Any = None, covariates: str | None = None
    ) -> list[Any]:
        """All views of the given rows several times, what is not given drawn anew each time."""
        given, schema = self.given(views), self.fit.schema
        drawn, index = self._drawn(given, n, random_state, covariates)
        found: list[Any] = []
        for cells in drawn:
            parts = {
                name: self._filled(given[name], name, own, index)
                if name in given
                else to_user(schema, name, own, index, whole=True)
                for name, own in cells.items()
            }
            found.append(whole_table(parts, schema.columns) if schema.one_table else parts)
        return found

    def _drawn(
        self, given: Mapping[str, Any], n_draws: int, random_state: Any, covariates: str | None
    ) -> tuple[Iterator[dict[str, np.ndarray]], pd.Index]:
        """Every cell of all views of given rows, several times, in the model's units; and the names of the rows."""
        if isinstance(n_draws, bool) or not isinstance(n_draws, int | np.integer) or n_draws < 1:
            raise ValueError(f"the number of draws must be a whole number of 1 or more, not {n_draws!r}.")
        if holds_sources(given):
            raise ValueError("draws are made of rows in memory: give some of the rows at a time (row_parts).")
        data, index = self.read(given, covariates)
        rows, schema = self._rows(data, asked=list(data)), self.fit.schema

        rngs = [np.random.default_rng(seed) for seed in seed_sequence(random_state).spawn(int(n_draws))]
        drawn = draw_cells(rows, self.fit.posterior, rngs, self.fit.sharpness)
        return ({name: x[schema.place(name)] for name in schema.types} for x in drawn), index

    def _filled(self, given: Any, name: str, cells: np.ndarray, index: pd.Index) -> Any:
        return given if is_sparse_view(given) else fill(self.fit.schema, name, given, cells, index)

    def impute(
        self, views: Any, asked: Asked = NOTHING_ELSE, beyond_limits: bool = False, covariates: str | None = None
    ) -> Any:
        filled, stds, bounds, labels = self.filling(views, asked, beyond_limits, covariates)
        return asked.arranged(filled, stds, bounds, labels or None)

    @fills_in_kind
    @by_parts
    def filling(
        self, views: Any, asked: Asked, beyond_limits: bool, covariates: str | None
    ) -> tuple[Any, Any, dict[Any, Any], dict[Any, Any]]:
        """Data with their holes filled by what is expected, its deviations, by quantiles, and the sets of labels; what
        is not asked for is empty.
        """
        given = self.given(views)
        data, index = self.read(given, covariates)
        data, whole = self._views_of(data), data
        filled, stds, labels = {}, {}, {}
        bounds: dict[Any, dict[str, Any]] = {}
        beyond = self._at_limits(data) if beyond_limits else {}
        predicted = self._predicted(whole, [name for name in data if not is_sparse_view(given[name])], beyond)
        for name, coded in data.items():
            if is_sparse_view(given[name]):  # all of its cells are seen
                self._tell_rows_left_out(name, coded)
                filled[name], stds[name] = given[name], no_deviations(given[name])
                continue
            values, std = predicted[name]
            likelihood, schema, cells = self._likelihood(name), self.fit.schema, beyond.get(name)
            ends = None if cells is None else to_numpy(coded.target)
            cut = None if cells is None or ends is None else (cells, ends)
            for key, bound in asked.bounds(likelihood, values, std, self._score_of(name, std), cut).items():
                bounds.setdefault(key, {})[name] = fill(schema, name, given[name], bound, index, cells, told=False)
            seen = np.ones((1, 1), dtype=bool) if coded.observed is None else coded.observed
            seen = seen if cells is None else seen & ~cells
            decided = likelihood.decide(values)
            if decided.ndim == 1:
                std = np.take_along_axis(std, decided[:, None], axis=1)
            else:
                decided = np.where(seen, 0, decided)  # only holes are filled
            if asked.interval is not None and not likelihood.ordered:
                known = coded.target[:, None] == np.arange(values.shape[1])
                inside = np.where(seen, known, likelihood.label_set(values, asked.interval))
                labels[self._label_name(name)] = probabilities_to_user(schema, name, inside, index, None)
            std = np.where(seen[:, : std.shape[1]], 0.0, std)
            mean, spread = self._in_users_units(name, decided, std, ends)
            filled[name] = fill(schema, name, given[name], mean, index, cells, decoded=True)
            stds[name] = std_to_user(schema, name, spread, index, decoded=True)
        if not is_one_table(views):
            return filled, stds if asked.std else {}, bounds, labels
        unknown = pd.DataFrame(np.nan, index=views.index, columns=views.columns)
        tables = {key: merge_columns(views, parts, views) for key, parts in bounds.items()}
        deviations: Any = merge_columns(views, stds, unknown) if asked.std else {}
        return merge_columns(views, filled, views), deviations, tables, labels

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

    def normal_predictions(self, views: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of a view of numbers in the model's units, from all that is given."""
        data, _ = self.read(views)
        return self._predicted(data, [name])[name]

    def for_new_rows(self) -> Answers:
        """The same without what is known of the training rows, to be sent to other machines."""
        fit = self.fit
        few = replace(fit, index=fit.index[:0], factors=fit.factors[:0], factors_std=fit.factors_std[:0])
        return replace(self, fit=few)

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

    @answers_in_kind
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

    def from_factors(self, z: Any) -> dict[str, Any]:
        """What rows with these factors, (n, K), are expected to hold: of each view means, or the most probable."""
        fit, found = self.fit, {}
        try:
            z = np.asarray(z, dtype=np.float64)
        except (ValueError, TypeError):
            z = np.array(np.nan)
        if z.ndim != 2 or z.shape[1] != fit.n_components or not np.isfinite(z).all():
            raise ValueError(f"factors must be finite numbers, rows by the {fit.n_components} factors of the model.")
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
        """New rows."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n must be a whole number of rows, not {n!r}.")
        rng = np.random.default_rng(seed_sequence(random_state))
        device = device_or_host(self.fit.settings["device"])
        schema, known, labels = self.fit.schema, None, None
        index: pd.Index = pd.RangeIndex(n)
        if covariates is not None:
            data, index = self.read(covariates)
            known = data[ENTRY].target if ENTRY in data else None
            labels = class_codes(data[GROUPS]) if GROUPS in data else None
            if (known is None and labels is None) or len(index) != n:
                raise ValueError(f"covariates must be those of the model, of {n} rows.")
        drawn = draw_rows(self.fit.posterior, self.fit.spec, int(n), rng, self.fit.sharpness, device, known, labels)
        views = {name: to_user(schema, name, x, index, whole=True) for name, x in zip(schema.types, drawn)}
        return whole_table(views, schema.columns) if schema.one_table else views

    def check_training_rows(self, views: Any, index: pd.Index | None = None) -> None:
        """Refuse data that are not those of the fit; `index`: the labels of all rows, where these are some of them."""
        given = self.given(views)
        index = self.read(views)[1] if index is None else index
        absent = [name for name in self.fit.schema.types if name not in given]
        if absent:
            raise ValueError(f"these are not the data of the fit: they lack view {absent[0]!r}.")
        known = int(self.fit.index.isin(index).sum())
        if known < len(self.fit.index) or len(index) != len(self.fit.index):
            what = (
                f"these are not the data of the fit: they have {len(index)} rows, the fit {len(self.fit.index)}, "
                f"and {known} names of rows are in both"
            )
            raise DataError(Problem(what, (Remedy.SAME_NAMES,)))

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
        columns = [f for c in codings.values() for f in c.features] if self.fit.schema.one_table else []
        known = f"the model has the views {first_few(codings, 10)}"
        known += f" and the columns {first_few(columns, 10)}" if columns else ""
        raise ValueError(f"unknown target {target!r}; {known}.{did_you_mean([target], [*codings, *columns])}")


def _column(part: Any, place: int | None) -> Any:
    """One column of what was predicted for a view; all of it where no column is asked for."""
    return part.iloc[:, place] if place is not None and isinstance(part, pd.DataFrame) else part
