"""What training fixed about the views: their types and codings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.coded import CodedView
from ..core.likelihoods import Gaussian
from ..core.spec import ModelSpec, Priors, known_view, view_spec
from ..core.state import Gamma
from ..core.streamed import AnyView
from .coding import Coding
from .covariates import ENTRY, Covariate, Covariates
from .twins import LEAST_SEEN, Twin, twin_name, twin_of
from .types import View

ROUNDING = 1e-10  # of a feature's scale: sums in another order differ by less


@dataclass(frozen=True, eq=False)
class Schema:
    """What training fixed about the views, in the order of the user's dict."""

    types: dict[str, View]
    codings: dict[str, Coding]
    inferred: dict[str, str] = field(default_factory=dict)  # name -> why the view got its type
    columns: tuple = ()  # of the one table that the views were made of, in its order; of several views none
    covariates: Covariates | None = None  # known inputs beside the views
    groups: Covariate | None = None  # that of them whose labels are the groups of samples
    twins: dict[str, Twin] = field(default_factory=dict)  # of views with a kernel: how their kernel features are made

    @property
    def known_columns(self) -> tuple[Covariate, ...]:
        """The columns beside the views; one of a single group has no effect, and is no covariate."""
        columns = () if self.covariates is None else self.covariates.columns
        alone = self.groups is not None and self.groups.name not in [own.name for own in columns]
        return (*columns, self.groups) if alone and self.groups is not None else columns

    @property
    def known_entries(self) -> list[str]:
        """Of a dict of views: those that are no views."""
        return list(dict.fromkeys(own.entry for own in self.known_columns))

    @property
    def group_names(self) -> tuple:
        """The labels of the groups of samples, in the model's order."""
        return () if self.groups is None or self.groups.levels is None else self.groups.levels

    @property
    def one_table(self) -> bool:
        """Were the views made of the columns of one table?"""
        return len(self.columns) > 0

    @property
    def n_observed(self) -> int:
        """Observed cells of all views; each label counts once for each class."""
        own = sum(coding.observed_per_feature.sum() for coding in self.codings.values())
        return int(own + sum(twin.n_seen * twin.width for twin in self.twins.values()))

    @property
    def n_kernel_features(self) -> int:
        return sum(twin.width for twin in self.twins.values())

    @property
    def n_dimensions(self) -> int:
        """Directions in which the data can vary: a column each; of classes one less, since only differences count."""
        return sum(coding.width - coding.has_classes for coding in self.codings.values()) + self.n_kernel_features

    @property
    def names(self) -> list[str]:
        """The views of the model in its order: the user's, then the twins of those that have a kernel."""
        return [*self.types, *self.twin_names.values()]

    @property
    def twin_names(self) -> dict[str, str]:
        """View with a kernel -> what its twin is called."""
        return {name: twin_name(name, twin.kernel) for name, twin in self.twins.items()}

    def with_twins(
        self, data: Mapping[str, AnyView], limit: float = np.inf, asked: Collection[str] = ()
    ) -> dict[str, AnyView]:
        """The views, and the twins of what is shown of them; where holes of a view are asked for, rows with holes have
        no twin of it.
        """
        least = {name: 1.0 if name in asked else LEAST_SEEN for name in self.twins if name in data}
        made = {self.twin_names[n]: twin_of(self.twins[n], data[n], limit, share) for n, share in least.items()}
        own = {name: view for name, view in data.items() if name in self.types}
        return {
            **own,
            **made,
            **{name: view for name, view in data.items() if name not in own},
        }  # as the model has them

    def add_twins(self, views: Sequence[CodedView], asked: Collection[int] = ()) -> list[CodedView]:
        """The same of views in memory, in order; what stands beside the views stays behind them."""
        names, n = list(self.types), len(self.types)
        found = self.with_twins(dict(zip(names, views)), asked=[names[i] for i in asked])
        return [*(view for view in found.values() if isinstance(view, CodedView)), *views[n:]]

    @property
    def view_options(self) -> dict[str, Any]:
        """What `views` of the estimator must be to make these views again: types, of one table with their columns."""
        if not self.one_table:
            return dict(self.types)
        return {name: (list(self.codings[name].read_columns), view) for name, view in self.types.items()}

    def scales_in_words(self, name: str) -> str:
        """Margins of a view: log 5, logit 1; and how many values are at which limit. Of most views empty."""
        coding = self.codings[name]
        limits = self.types[name].limits_of(coding.read_columns)
        return "; ".join([*coding.margins_in_words, *limits.in_words(coding.at_limits)])

    def codes_alike(self, other: Schema) -> bool:
        """Were both learned from the same values? Then all that was learned is the same, but for rounding."""
        mine, theirs = self.all_codings, other.all_codings
        return (
            list(mine) == list(theirs)
            and self.group_names == other.group_names
            and all(
                a.features == b.features
                and a.levels == b.levels
                and a.ordered == b.ordered
                and a.at_limits == b.at_limits
                and list(map(str, a.margins)) == list(map(str, b.margins))
                and a.beside == b.beside
                and np.array_equal(a.observed_per_feature, b.observed_per_feature)
                and bool(np.all(np.abs(a.centre - b.centre) <= ROUNDING * a.scale))
                and bool(np.all(np.abs(a.scale - b.scale) <= ROUNDING * a.scale))
                for a, b in zip(mine.values(), theirs.values())
            )
        )

    @property
    def all_codings(self) -> dict[str, Coding]:
        """Those of the views, and last that of the covariates: as the model's views are."""
        return self.codings if self.covariates is None else {**self.codings, ENTRY: self.covariates.coding}

    @property
    def labels_by_column(self) -> dict[Any, tuple | None]:
        """Of one table: column -> its labels, None where it has none."""
        if not self.one_table:
            return {}
        beside = () if self.covariates is None else self.covariates.columns
        return {
            feature: coding.texts_of(place)
            for coding in self.codings.values()
            for place, feature in enumerate(coding.features)
        } | {own.column: own.levels for own in beside}

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
        for name, twin in self.twins.items():
            n = np.full(twin.width, float(twin.n_seen if missing == "exact" else n_rows))
            own = (self.twin_names[name], Gaussian(), twin.precision, n, twin.variance, priors)
            views.append(replace(view_spec(*own, select_features=True), derived=True))
        if self.covariates is not None:
            views.append(known_view(ENTRY, self.covariates.width))
        activity = Gamma(*map(np.asarray, priors.activity))
        return ModelSpec(tuple(views), missing == "mean-field", len(self.group_names), activity)

    def log_jacobian(self, data: Mapping[str, CodedView]) -> np.ndarray:
        """log p(user's units) = log p(model's units) − this, of each row, (n,)."""
        own = [self.types[n].log_jacobian(view, self.codings[n]) for n, view in data.items() if n in self.types]
        return np.sum(own, axis=0)
