"""A fitted model's answers about rows that the user gives: read them, ask the posterior, answer in the user's units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .coding import ViewData
from .engines import MemoryEngine
from .layout import is_one_table, joined, without_columns
from .model import Model
from .options import seed_sequence
from .posterior import factors, influence, log_likelihood, predict, unweighted
from .sampling import sample_rows
from .state import Posterior
from .views import Schema, fill, log_jacobian, new_views, read_new, std_to_user, to_user


@dataclass(frozen=True)
class Answers:
    """What `SSHIBA` says of rows; its methods are documented there."""

    schema: Schema
    model: Model
    posterior: Posterior
    sharpness: tuple[float, ...]
    dtype: str

    def transform(self, views: Any, return_std: bool = False) -> Any:
        views = self.given(views)
        data, index = self.read(views)
        found: tuple[Any, ...] = factors(self._rows(data), self.posterior)
        if any(isinstance(given, pd.DataFrame | pd.Series) for given in views.values()):
            names = [f"factor {k}" for k in range(self.posterior.n_components)]
            found = tuple(pd.DataFrame(values, index=index, columns=names) for values in found)
        return found if return_std else found[0]

    def predict(self, views: Any, target: str | None = None, return_std: bool = False) -> Any:
        data, index = self.read(views)
        names, column = self._targets(views, data, target)
        found = predict(self._rows(data), self.posterior, [self._place(name) for name in names], self.sharpness)
        means, stds = {}, {}
        for name in names:
            values, std = found[self._place(name)]
            means[name] = to_user(self.schema, name, self.schema.types[name].decide(values), index)
            stds[name] = std_to_user(self.schema, name, std, index)
        results = []
        for parts in (means, stds):
            if column is not None:
                results.append(parts[names[0]][column])
            elif target is not None:
                results.append(parts[target])
            else:
                results.append(without_columns(parts, views) if is_one_table(views) else parts)
        return tuple(results) if return_std else results[0]

    def predict_proba(self, views: Any, target: str) -> Any:
        data, index = self.read(views)
        (name,), column = self._targets(views, data, target)
        view = self.schema.types[name]
        if not view.latent:
            raise ValueError(f"{target!r} is real and has no probabilities; use predict(..., return_std=True).")
        values, _ = predict(self._rows(data), self.posterior, [self._place(name)], self.sharpness)[self._place(name)]
        coding = self.schema.codings[name]
        if coding.container in ("array", "vector"):
            return values
        frame = pd.DataFrame(values, index=index, columns=list(coding.levels or coding.features))
        return frame if column is None else frame[column]

    def impute(self, views: Any, return_std: bool = False) -> Any:
        given = self.given(views)
        data, index = self.read(given)
        found = predict(self._rows(data), self.posterior, [self._place(name) for name in data], self.sharpness)
        filled, stds = {}, {}
        for name, coded in data.items():
            values, std = found[self._place(name)]
            view = self.schema.types[name]
            decided = view.decide(values)
            filled[name] = fill(self.schema, name, given[name], decided, index)
            if decided.ndim == 1:
                std = np.take_along_axis(std, decided[:, None], axis=1)
            seen = np.ones((1, 1), dtype=bool) if coded.observed is None else coded.observed
            stds[name] = std_to_user(self.schema, name, np.where(seen[:, : std.shape[1]], 0.0, std), index)
        if is_one_table(views):
            return (joined(views, filled), joined(views, stds, zero=True)) if return_std else joined(views, filled)
        return (filled, stds) if return_std else filled

    def influence(self, target: str) -> dict[str, pd.Series]:
        (name,), column = self._targets({}, {}, target)
        codings = self.schema.codings
        rows = None if column is None else [codings[name].features.index(column)]
        found = influence(self.posterior, self.model, self._place(name), rows)
        return {
            other: pd.Series(found[self._place(other)], index=pd.Index(codings[other].latent_names))
            for other in codings
            if other != name
        }

    def score(self, views: Any) -> float:
        data, index = self.read(views)
        if len(index) == 0:
            raise ValueError("score needs at least one row.")
        total = log_likelihood(self._rows(data, unweighted(self.model)), self.posterior)
        return (total - log_jacobian(self.schema, data, len(index))) / len(index)

    def sample(self, n: int = 1, random_state: int | None = None) -> Any:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n must be a whole number of rows, not {n!r}.")
        rng = np.random.default_rng(seed_sequence(random_state))
        drawn = sample_rows(self.posterior, self.model, int(n), rng)
        index = pd.RangeIndex(n)
        views = {name: to_user(self.schema, name, x, index) for name, x in zip(self.schema.types, drawn)}
        return without_columns(views, pd.DataFrame()) if self.schema.one_table else views

    def given(self, views: Any) -> Mapping[str, Any]:
        """What the user gives for new rows, as a dict of views."""
        return new_views(self.schema, views)

    def read(self, views: Any) -> tuple[dict[str, ViewData], pd.Index]:
        given = self.given(views)
        return read_new(self.schema, given, self.dtype)

    def _rows(self, data: dict[str, ViewData], model: Model | None = None) -> MemoryEngine:
        """An engine for some rows, in which the views that were not given are missing."""
        model = model or self.model
        n = len(next(iter(data.values())).target)
        absent = np.zeros((n, 1), dtype=bool)
        every = []
        for spec in model.views:
            every.append(data.get(spec.name) or ViewData(spec.view.empty_target(n, spec.n_features), absent))
        return MemoryEngine(every, model, "exact", self.posterior.n_components, engine="memory")

    def _place(self, name: str) -> int:
        return list(self.schema.types).index(name)

    def _targets(self, views: Any, data: dict[str, ViewData], target: str | None) -> tuple[list[str], Any]:
        """The views to predict and, where the target is a column of one of them, which."""
        codings = self.schema.codings
        if target is None:
            if is_one_table(views):
                names = [name for name, coding in codings.items() if not set(coding.features) <= set(views.columns)]
            else:
                names = [name for name in codings if name not in data]
            if not names:
                raise ValueError("Everything is given, so there is nothing to predict: leave some out, or use impute.")
            return names, None
        if isinstance(target, str) and target in codings:
            if target in data and data[target].observed is None and len(data[target].target):
                raise ValueError(f"{target!r} is the target but is given complete: leave it out.")
            return [target], None
        if self.schema.one_table:
            for name, coding in codings.items():
                if target in coding.features:
                    if is_one_table(views) and target in views and len(views) and views[target].notna().all():
                        raise ValueError(f"{target!r} is the target but is given complete: leave it out.")
                    return [name], target
        raise ValueError(f"unknown target {target!r}; the model has the views {list(codings)}.")
