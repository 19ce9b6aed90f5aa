"""Rows that the user gives, as a fitted model reads them, and what it predicts for them in its own units."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Self

import numpy as np
import pandas as pd

from ..core.coded import CodedView
from ..core.devices import device_or_host
from ..core.likelihoods import Likelihood, Score
from ..core.machine import memory_limit
from ..core.sparse_rows import CentredSparse
from ..core.spec import ModelSpec, ViewSpec
from ..data.covariates import GROUPS
from ..data.one_table import is_one_table, tell_strange
from ..data.reading import new_views, read_new
from ..data.sources import RowSource
from ..engines import Rows, make_rows
from .fitted import Fitted, FittedModel, fitted_of
from .inference import predict_views
from .residuals import score_of


@dataclass(frozen=True)
class RowReader:
    """A fitted model, and the rows that it is asked about."""

    fit: Fitted
    max_memory: float = inf  # bytes to work with

    @classmethod
    def of(cls, model: FittedModel) -> Self:
        """Of an estimator within its `max_memory`; without one in any, so that answers are the same everywhere."""
        given = getattr(model, "max_memory", None)
        return cls(fitted_of(model), inf if given is None else memory_limit(given))

    def given(self, views: Any) -> Mapping[str, Any]:
        """What the user gives for new rows, as a dict of views."""
        return new_views(self.fit.schema, views)

    def tell_of(self, views: Any) -> None:
        """What is to be said about rows once, though they come in parts."""
        outline = views.outline if isinstance(views, RowSource) else views
        if self.fit.schema.one_table and is_one_table(outline):
            tell_strange(outline.columns, set(self.fit.schema.columns))

    def read(self, views: Any, covariates: str | None = None) -> tuple[dict[str, CodedView], pd.Index]:
        """Rows, coded, with their covariates as the last; covariates="mean": those not given at their mean."""
        if covariates not in (None, "mean"):
            raise ValueError(f"covariates must be None (they are given) or 'mean', not {covariates!r}.")
        given = self.given(views)
        return read_new(self.fit.schema, given, self.fit.dtype, covariates == "mean")

    def _views_of(self, data: dict[str, CodedView]) -> dict[str, CodedView]:
        """Rows without their covariates."""
        return {name: coded for name, coded in data.items() if name in self.fit.schema.types}

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
        return make_rows(every, spec, self.fit.n_components, engine="memory", device=device, max_memory=self.max_memory)

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

    def _score_of(self, name: str, std: np.ndarray) -> Score:
        """The quantiles of the errors of a view of numbers, in their standard deviations."""
        return score_of(self.fit.residuals[self.fit.schema.place(name)], std)
