"""What users name, found: factors by number, views, features, and values for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..data.containers import match_columns, read_table
from ..data.row_parts import holds_sources
from ..data.spellings import zero_one
from ..data.tensors import on_host
from ..data.wording import did_you_mean, first_few
from ..fitted.answers import Answers
from ..fitted.fitted import Fitted


def factor_place(fit: Fitted, number: int) -> int:
    """The place of a factor in arrays, from its number as users count, 1 .. K."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not whole or not 1 <= number <= fit.n_components:
        raise ValueError(f"there is no factor {number!r}; the model has {fit.n_components}, counted from 1.")
    return int(number) - 1


def latent_names(fit: Fitted, view: str) -> list:
    """The names of a view's features or classes."""
    if view not in fit.schema.types:
        raise ValueError(f"unknown view {view!r}; the model has the views {list(fit.schema.types)}.")
    return list(fit.schema.codings[view].latent_names)


def feature_place(fit: Fitted, view: str, feature: Any) -> int:
    names = latent_names(fit, view)
    if feature not in names:
        raise ValueError(f"view {view!r} has no feature {feature!r}; it has {first_few(names)}.")
    return names.index(feature)


# --------------------------------------------------------------------------------------------- values for each row


def view_frame(fit: Fitted, views: Any, view: str, places: Any = None, index: pd.Index | None = None) -> pd.DataFrame:
    """Columns of a view as the user gave them, at the rows of the fit; NaN where a row lacks the view.

    Cells such as <0.5 of a column with limits are that limit. `index` names the rows of containers that do not name
    them; those of the fit if not given.
    """
    latent_names(fit, view)
    given = Answers(fit).given(views)
    if holds_sources(given):
        raise ValueError("rows that are not in memory cannot be drawn: give some of them.")
    if view not in given:
        raise ValueError(f"views= has no view {view!r}; it has {list(given)}.")
    coding = fit.schema.codings[view]
    table = read_table(on_host(given[view]), view, meanings=fit.schema.types[view].meanings(coding))
    columns = np.arange(len(coding.features)) if places is None else np.asarray(places, dtype=int)
    if table.sparse is not None:
        stored = table.sparse
        kept = stored.columns.get_indexer(pd.Index(list(coding.features))[columns]) if stored.has_names else columns
        frame, named = stored.frame(np.arange(len(stored)), kept), stored.has_names
    else:
        read = fit.schema.types[view].features_of(match_columns(table, coding, view, beside=True), view)
        frame, named = read.iloc[:, columns], table.has_index
    if not named:
        rows = fit.index if index is None else index
        if len(frame) != len(rows):
            raise ValueError(f"view {view!r} has {len(frame)} rows, and the model {len(rows)}.")
        frame = frame.set_axis(rows)
    frame = frame if frame.index.equals(fit.index) else frame.reindex(fit.index)
    return frame.set_axis([coding.features[d] for d in columns], axis=1)


def view_column(fit: Fitted, views: Any, view: str, place: int, index: pd.Index | None = None) -> pd.Series:
    """One column of a view, named as in the report; levels with their order, classes without, also where numbers."""
    coding = fit.schema.codings[view]
    column = view_frame(fit, views, view, [place], index).iloc[:, 0]
    if coding.ordered:
        column = pd.Series(pd.Categorical(column, list(coding.ordered[place].values), ordered=True), column.index)
    elif coding.levels is not None:
        column = pd.Series(pd.Categorical(column, list(coding.levels)), column.index)
    alone = coding.has_classes or (len(coding.features) == 1 and str(coding.features[0]) == str(view))
    return column.rename(str(view) if alone else f"{view}: {coding.features[place]}")


def feature_numbers(fit: Fitted, views: Any, view: str, feature: Any) -> pd.Series:
    """A feature of each training row as a number: yes / no and a class as 0 and 1, levels as 0, 1, 2 ..."""
    coding, place = fit.schema.codings[view], feature_place(fit, view, feature)
    column = view_column(fit, views, view, 0 if coding.has_classes else place)
    if coding.has_classes:
        return (column == feature).astype(float).where(column.notna())
    if coding.ordered:
        return column.cat.codes.astype(float).where(column.notna())
    if fit.schema.types[view].has_probabilities:
        return pd.Series(zero_one(column.to_numpy()), column.index)
    return column.astype(float)


def row_values(fit: Fitted, what: Any, views: Any = None, role: str = "color") -> pd.Series:
    """One value for each training row, at the index of the fit.

    `what` has a value for each row, or is a name: of a factor, a column, a view of one column, "view: column", or
    (view, column). Names of columns need the data, `views`.
    """
    if isinstance(what, str) and what in fit.factor_names:
        return pd.Series(fit.factors[:, fit.factor_names.index(what)], fit.index, name=what)
    if isinstance(what, str) or (isinstance(what, tuple) and len(what) == 2 and what[0] in fit.schema.types):
        if views is None:
            raise ValueError(f"{role}={what!r} is a name: give the data, too (views=).")
        return view_column(fit, views, *_column_named(fit, what, role))
    return _given_values(fit, what, role)


def row_columns(fit: Fitted, what: Any, views: Any = None, role: str = "by") -> list[pd.Series]:
    """Several of them: a frame, a dict, the name of a view (all of its columns), a list of names, or one of a kind."""
    if isinstance(what, pd.DataFrame):
        return [row_values(fit, what.iloc[:, j].rename(str(what.columns[j])), role=role) for j in range(what.shape[1])]
    if isinstance(what, Mapping):
        return [row_values(fit, values, views, role).rename(str(name)) for name, values in what.items()]
    if isinstance(what, str) and what in fit.schema.types:
        if views is None:
            raise ValueError(f"{role}={what!r} is a name: give the data, too (views=).")
        coding = fit.schema.codings[what]
        columns = [view_column(fit, views, what, d) for d in range(len(coding.features))]
        return columns if coding.has_classes else [c.rename(str(f)) for c, f in zip(columns, coding.features)]
    names = isinstance(what, list) and bool(what) and all(isinstance(name, str | tuple) for name in what)
    if names and len(what) != len(fit.factors):  # else they are labels, one for each row
        return [column for name in what for column in row_columns(fit, name, views, role)]
    return [row_values(fit, what, views, role)]


def _column_named(fit: Fitted, name: Any, role: str) -> tuple[str, int]:
    """The view and the place of a column."""
    codings = fit.schema.codings
    if isinstance(name, tuple):
        return name[0], list(codings[name[0]].features).index(_known(name[1], codings[name[0]].features, name, role))
    if name in codings:
        if len(codings[name].features) == 1:
            return name, 0
        first = f"{name}: {codings[name].features[0]}"
        raise ValueError(f"view {name!r} has {len(codings[name].features)} columns: name one of them, as {first!r}.")
    found = [
        (view, d)
        for view, coding in codings.items()
        for d, feature in enumerate(coding.features)
        if name in (str(feature), f"{view}: {feature}")
    ]
    if len(found) > 1:
        raise ValueError(f"several views have a column {name!r}: say which, as '{found[0][0]}: {name}'.")
    if not found:
        known = [*codings, *(feature for coding in codings.values() for feature in coding.features)]
        hint = did_you_mean([name], known)
        raise ValueError(f"{role}={name!r} is neither a factor nor a view nor a column of one.{hint}")
    return found[0]


def _known(feature: Any, features: tuple, name: Any, role: str) -> Any:
    if feature not in features:
        raise ValueError(f"{role}={name!r}: view {name[0]!r} has no column {feature!r}.")
    return feature


def _given_values(fit: Fitted, what: Any, role: str) -> pd.Series:
    n_rows = len(fit.factors)
    if isinstance(what, bytes) or not hasattr(what, "__len__"):
        raise TypeError(f"{role} must have a value for each of the {n_rows} rows, or be a name, not {what!r}.")
    if isinstance(what, pd.Series):
        if not what.index.is_unique:
            raise ValueError(f"{role} has several rows of one name.")
        if not fit.index.isin(what.index).any():
            raise ValueError(f"no row of the model is in {role}'s index; give {role}.to_numpy() to go by order.")
        return what.reindex(fit.index)
    if np.ndim(what) != 1 or len(what) != n_rows:
        shape = " x ".join(str(n) for n in np.shape(what))
        raise ValueError(f"{role} has {shape} values, and the model {n_rows} rows.")
    return pd.Series(pd.Series(what).array, fit.index, name=getattr(what, "name", None))
