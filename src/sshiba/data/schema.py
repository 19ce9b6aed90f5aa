"""What training fixed about the views: their types and codings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.coded import CodedView
from ..core.spec import ModelSpec, Priors, view_spec
from .coding import Coding
from .types import View

ROUNDING = 1e-10  # of a feature's scale: sums in another order differ by less


@dataclass(frozen=True, eq=False)
class Schema:
    """What training fixed about the views, in the order of the user's dict."""

    types: dict[str, View]
    codings: dict[str, Coding]
    inferred: dict[str, str] = field(default_factory=dict)  # name -> why the view got its type
    columns: tuple = ()  # of the one table that the views were made of, in its order; of several views none

    @property
    def one_table(self) -> bool:
        """Were the views made of the columns of one table?"""
        return len(self.columns) > 0

    @property
    def n_observed(self) -> int:
        """Observed cells of all views; each label counts once for each class."""
        return int(sum(coding.observed_per_feature.sum() for coding in self.codings.values()))

    @property
    def n_dimensions(self) -> int:
        """Directions in which the data can vary: a column each; of classes one less, since only differences count."""
        return sum(coding.width - coding.has_classes for coding in self.codings.values())

    @property
    def view_options(self) -> dict[str, Any]:
        """What `views` of the estimator must be to make these views again: types, of one table with their columns."""
        if not self.one_table:
            return dict(self.types)
        return {name: (list(self.codings[name].read_columns), view) for name, view in self.types.items()}

    def codes_alike(self, other: Schema) -> bool:
        """Were both learned from the same values? Then all that was learned is the same, but for rounding."""
        if list(self.codings) != list(other.codings):
            return False
        return all(
            a.features == b.features
            and a.levels == b.levels
            and a.ordered == b.ordered
            and a.at_limits == b.at_limits
            and list(map(str, a.margins)) == list(map(str, b.margins))
            and a.beside == b.beside
            and np.array_equal(a.observed_per_feature, b.observed_per_feature)
            and bool(np.all(np.abs(a.centre - b.centre) <= ROUNDING * a.scale))
            and bool(np.all(np.abs(a.scale - b.scale) <= ROUNDING * a.scale))
            for a, b in zip(self.codings.values(), other.codings.values())
        )

    @property
    def labels_by_column(self) -> dict[Any, tuple | None]:
        """Of one table: column -> its labels, None where it has none."""
        if not self.one_table:
            return {}
        return {
            feature: coding.texts_of(place)
            for coding in self.codings.values()
            for place, feature in enumerate(coding.features)
        }

    @property
    def ranges_by_column(self) -> dict[Any, tuple[float, float]]:
        """Of one table: column of numbers -> their mean and their standard deviation."""
        if not self.one_table:
            return {}
        return {
            feature: (float(centre), float(deviation))
            for name, coding in self.codings.items()
            if not self.types[name].latent
            for feature, centre, deviation in zip(
                coding.features, coding.usual[0], coding.usual[1] * np.sqrt(coding.variance)
            )
        }

    def with_unseen(self, unseen: str) -> Schema:
        """The same, with labels that training never saw "missing" or an "error"."""
        return replace(self, types={name: view.with_unseen(unseen) for name, view in self.types.items()})

    def place(self, name: str) -> int:
        """The place of a view among all."""
        return list(self.types).index(name)

    def model_spec(self, n_rows: int, priors: Priors, missing: str) -> ModelSpec:
        """The model of data that were read: under missing="mean-field" every cell counts, seen or not."""
        views = []
        for name, view in self.types.items():
            coding = self.codings[name]
            n = coding.observed_per_feature if missing == "exact" else np.full(coding.width, float(n_rows))
            one = view_spec(
                *(name, view.likelihood(coding), view.noise_model, n, coding.variance, priors),
                weight=view.weight,
                select_features=view.select_features,
                groups=view.groups,
                held=view.held_noise(coding),
            )
            views.append(one)
        return ModelSpec(tuple(views), mean_field=missing == "mean-field")

    def log_jacobian(self, data: Mapping[str, CodedView]) -> np.ndarray:
        """log p(user's units) = log p(model's units) − this, of each row, (n,)."""
        return np.sum([self.types[n].log_jacobian(view, self.codings[n]) for n, view in data.items()], axis=0)
