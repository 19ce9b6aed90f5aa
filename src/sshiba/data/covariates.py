"""Covariates: known inputs such as a batch or an age, with effects in every view, so that no factor is spent on them.

They are columns of the one table, or stand beside the views: as an entry of the dict that is named, or as columns of
its entry "covariates". Numbers are standardised; of labels each but the first is a dummy, standardised, too. What is
missing is 0 then: the mean of numbers, the frequencies of labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..core.coded import CodedView
from .advice import DataError, DataWarning, Problem, Remedy
from .cells import column_kind
from .coding import Coding
from .containers import Table, read_table
from .refusing import refusal
from .telling import tell
from .tensors import on_host
from .types import Categorical, Real
from .types.categorical import order_levels
from .types.labelled import factorise
from .wording import counted, did_you_mean, first_few, quoted

GROUPS = "groups of samples"  # what their labels are called among the rows
ENTRY = "covariates"  # of a dict of views: where covariates that are named by their columns stand
REAL, CATEGORICAL = "real", "categorical"
MOST_CODES = 10  # whole numbers of at most so many values may be labels
CHUNK_BYTES = 2**26

Named = dict[Any, str | None]  # what the user names -> how it is taken, None: as its values say


def known_inputs(covariates: Any, sample_groups: Any = None) -> Named:
    """All that stands beside the views: the covariates, and the groups of samples, which have an intercept each."""
    named = plain_covariates(covariates)
    return named if sample_groups is None else {**named, sample_groups: CATEGORICAL}


def plain_covariates(option: Any) -> Named:
    """The setting `covariates`: a name, a list of them, or a mapping of name to "real" or "categorical"."""
    if option is None:
        return {}
    if isinstance(option, str | int):
        return {option: None}
    if isinstance(option, Mapping):
        return {name: _plain_kind(kind, name) for name, kind in option.items()}
    if isinstance(option, Sequence | pd.Index | np.ndarray) and not isinstance(option, pd.DataFrame):
        return dict.fromkeys(option)
    raise TypeError(
        f"covariates must be names of columns, or of entries beside the views, not {type(option).__name__}: "
        "covariates=['batch', 'age']. A frame of them is given to fit, as one more entry of the dict of views."
    )


def _plain_kind(kind: Any, name: Any) -> str | None:
    for known, view in ((REAL, Real), (CATEGORICAL, Categorical)):
        if kind == known or kind is view or type(kind) is view:
            return known
    if kind is None:
        return None
    raise ValueError(f"covariate {quoted(name)} must be {REAL!r} or {CATEGORICAL!r}, not {kind!r}.")


def columns_named(frame: pd.DataFrame, named: Iterable[Any]) -> list:
    """The covariates among the columns of the one table, all of which it must have."""
    unknown = [name for name in named if name not in frame]
    if unknown:
        has = f"there are {first_few(frame, 10)}.{did_you_mean(unknown, frame)}"
        raise ValueError(f"covariates: there is no column {first_few(unknown)}; {has}")
    return list(named)


def parts_named(views: Mapping[str, Any], named: Iterable[Any]) -> dict[str, list | None]:
    """The entries of a dict that are covariates, and which of their columns, None for all."""
    parts: dict[str, list | None] = {}
    beside = columns_of(views[ENTRY]) if ENTRY in views else []
    for name in named:
        if isinstance(name, str) and name in views:
            parts[name] = None
        elif name in beside:
            own = parts.setdefault(ENTRY, [])
            if own is not None:
                own.append(name)
        else:
            known = f"the entries are {first_few(views, 10)}"
            known += f", the columns of {ENTRY!r} {first_few(beside, 10)}" if beside else ""
            raise ValueError(f"covariates: there is no {quoted(name)}; {known}.")
    return parts


def refuse_name(views: Iterable[str]) -> None:
    """A view of that name would be taken for the covariates."""
    if ENTRY in views:
        raise ValueError(f"a view cannot be called {ENTRY!r} where there are covariates. Give it another name.")


def columns_of(value: Any) -> list:
    return list(read_table(on_host(value), ENTRY, allow_no_rows=True).frame.columns)


@dataclass(frozen=True)
class Covariate:
    """One column: of which entry, how it is called, and its labels, None where it is a number."""

    entry: str
    column: Any
    name: Any
    levels: tuple | None = None

    @property
    def terms(self) -> tuple:
        """What has an effect of its own: the number, or each label but the first."""
        return (self.name,) if self.levels is None else tuple(f"{self.name}={level}" for level in self.levels[1:])

    def numbers(self, column: pd.Series) -> np.ndarray:
        """Its terms as numbers, (n, terms), NaN where it is missing or a label that training never saw."""
        if self.levels is None:
            if column_kind(column) != "number":
                what = f"covariate {quoted(self.name)} was a number in training and is {column_kind(column)} now"
                raise DataError(Problem(what))
            return column.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
        codes, labels = factorise(column, f"covariate {quoted(self.name)}")
        unseen = [label for label in labels if label not in self.levels]
        if unseen:
            n = int(np.isin(codes, [labels.index(label) for label in unseen]).sum())
            what = f"covariate {quoted(self.name)}: {first_few(unseen)} unseen in training, {counted(n, 'row')}"
            tell(f"{what} taken at the average.")
        places = self.places(column)
        dummies = (places[:, None] == np.arange(1, len(self.levels))).astype(np.float64)
        dummies[places < 0] = np.nan
        return dummies

    def places(self, column: pd.Series) -> np.ndarray:
        """The place of each row's label among `levels`, (n,), -1 where it is missing or training never saw it."""
        codes, labels = factorise(column, f"covariate {quoted(self.name)}")
        place_of = {level: place for place, level in enumerate(self.levels or ())}
        return np.array([place_of.get(label, -1) for label in labels] + [-1])[codes]

    def labels(self, frames: Mapping[str, pd.DataFrame], n_rows: int) -> CodedView:
        """The places of n rows, as the model has groups of samples: missing where a row is in none of them."""
        places = np.full(n_rows, -1)
        if self.entry in frames and self.column in frames[self.entry]:
            places = self.places(frames[self.entry][self.column])
        seen = places[:, None] >= 0
        return CodedView(np.maximum(places, 0).astype(np.int32), None if seen.all() else seen)


@dataclass(frozen=True)
class Covariates:
    """All covariates of a fit, and how their terms are standardised."""

    columns: tuple[Covariate, ...]
    coding: Coding
    products: np.ndarray  # (C, C): Σ c cᵀ of the training rows, standardised

    @property
    def terms(self) -> tuple:
        return self.coding.features

    @property
    def width(self) -> int:
        return self.coding.width

    @property
    def in_words(self) -> str:
        """batch (3 labels), age."""
        how = ("" if own.levels is None else f" ({counted(len(own.levels), 'label')})" for own in self.columns)
        return ", ".join(f"{own.name}{labels}" for own, labels in zip(self.columns, how))

    @property
    def units(self) -> np.ndarray:
        """A change of each term, standardised: of a number its deviation, of a label from the first to it, (C,)."""
        of_label = [own.levels is not None for own in self.columns for _ in own.terms]
        return np.where(of_label, 1 / self.coding.scale, 1.0)

    def encode(
        self,
        frames: Mapping[str, pd.DataFrame],
        n_rows: int,
        at_mean: bool = False,
        groups: Covariate | None = None,
    ) -> CodedView:
        """Rows that are aligned, complete; `at_mean`: a column that is not given is taken at its mean, as that of the
        groups of samples always is.
        """
        absent = [own.name for own in self.columns if own.entry not in frames or own.column not in frames[own.entry]]
        needed = [name for name in absent if groups is None or name != groups.name]
        if needed and not at_mean:
            what = f"covariates {first_few(needed)} are missing, and the model needs them for new rows: give them"
            raise DataError(Problem(f"{what}, or", (Remedy.AT_MEAN,)))
        parts = []
        for own in self.columns:
            found = np.full((n_rows, len(own.terms)), np.nan)
            if own.name not in absent:
                found = own.numbers(frames[own.entry][own.column])
                _warn_missing(own, frames[own.entry][own.column])
            parts.append(found)
        values = pd.DataFrame(np.concatenate(parts, axis=1), columns=list(range(self.width)))
        plain = replace(self.coding, features=tuple(range(self.width)))
        return CodedView(Real().encode(values, ENTRY, plain, "float64").target, None)

    def at_label(self, own: Covariate) -> np.ndarray:
        """The terms of each label of one covariate, all others at their mean: (labels, C), standardised."""
        at_mean = np.zeros((len(own.levels or ()), self.width))
        places = [i for i, term in enumerate(self.terms) if term in own.terms]
        if places:
            dummies = np.eye(len(at_mean))[:, 1:]
            at_mean[:, places] = (dummies - self.coding.centre[places]) / self.coding.scale[places]
        return at_mean


def _warn_missing(own: Covariate, column: pd.Series) -> None:
    n = int(column.isna().sum())
    if n:
        how = "its mean" if own.levels is None else "the average of its labels"
        what = f"covariate {quoted(own.name)}: {counted(n, 'value')} missing, taken at {how}"
        tell(f"{what}.")


def learn_columns(
    frames: Mapping[str, pd.DataFrame], parts: Mapping[str, list | None], named: Named, labelled: Iterable[str]
) -> list[Covariate]:
    """The covariates of training rows, aligned frames by entry, and their labels.

    `parts` is `parts_named`, `labelled` are the entries whose columns have names.
    """
    labelled, columns = set(labelled), []
    for entry, wanted in parts.items():
        frame = frames[entry]
        for column in list(frame) if wanted is None else wanted:
            name = column if entry in labelled else entry if frame.shape[1] == 1 else f"{entry} {column}"
            columns.append(
                _learn_column(frame[column], Covariate(entry, column, name), named.get(name, named.get(entry)))
            )
    return columns


def groups_among(columns: Sequence[Covariate], name: Any) -> Covariate | None:
    """The column of the groups of samples; None where there are no groups."""
    if name is None:
        return None
    found = [own for own in columns if own.entry == name or (own.entry == ENTRY and own.column == name)]
    if len(found) != 1 or not found[0].levels:
        raise ValueError(f"sample_groups={name!r} must be one column of labels, not {counted(len(found), 'column')}.")
    return found[0]


def learn_covariates(frames: Mapping[str, pd.DataFrame], columns: Sequence[Covariate]) -> Covariates | None:
    """How they are coded; None where there are none, or all of them are constant labels."""
    if not columns:
        return None
    values = np.concatenate([own.numbers(frames[own.entry][own.column]) for own in columns], axis=1)
    terms = tuple(term for own in columns for term in own.terms)
    if not terms:
        return None
    real = Real()
    coding = real.make_coding(real.learn(pd.DataFrame(values), ENTRY), ENTRY)
    centred = np.nan_to_num((values - coding.centre) / coding.scale)
    return Covariates(tuple(columns), replace(coding, features=terms, container="frame"), centred.T @ centred)


def _learn_column(column: pd.Series, own: Covariate, kind: str | None) -> Covariate:
    found, whose = column_kind(column), f"covariate {quoted(own.name)}"
    if kind is None and found != "number":
        why_not = refusal(column)
        if why_not is not None:
            raise DataError(why_not.of(whose))
    if kind == REAL and found != "number":
        holds = found if found == "text" else f"{found} values"
        what = f"{whose} cannot be {REAL!r}: it holds {holds}, first {quoted(column.dropna().iloc[0])}"
        raise DataError(Problem(what, (Remedy.AS_LABELS,)))
    if (kind or (REAL if found == "number" else CATEGORICAL)) == REAL:
        if kind is None and _may_be_codes(column):
            what = f"{whose}: whole numbers of few values, taken as a number"
            tell(DataWarning(Problem(what, (Remedy.AS_LABELS,))))
        return own
    _, labels = factorise(column, whose)
    if len(labels) < 2:
        tell(f"{whose}: one label only, which has no effect.")
        return replace(own, levels=tuple(labels) or ("",))
    return replace(own, levels=order_levels(labels, column.dtype, own.name))


def _may_be_codes(column: pd.Series) -> bool:
    values = column.dropna().unique()
    return 2 < len(values) <= MOST_CODES and all(float(value).is_integer() for value in values)


def whole_frame(table: Table, rows: np.ndarray | None) -> pd.DataFrame:
    """All rows of covariates in memory, in the order of the other views; missing where they lack a row."""
    frame = table.frame if table.source is None else pd.concat(list(table.chunks(CHUNK_BYTES)))
    if table.tensor is not None or table.sparse is not None:
        raise TypeError("covariates must be a frame, a series or an array in memory, not a tensor or a sparse matrix.")
    if rows is None:
        return frame
    return frame.set_axis(pd.RangeIndex(len(frame))).reindex(rows)
