"""What is known of the rows beside their factors: columns to colour them by, and what factors have to do with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .. import plots
from ..data.sampling import Sample
from ..data.wording import percent
from ..fitted.answers import Answers
from ..fitted.fitted import Fitted
from ..plots.association_pictures import association_table, in_words, names_of
from ..plots.coloring import is_scale
from ..plots.lookup import row_columns, view_column

MOST_COLUMNS = 15  # of each view, the most relevant ones
MOST_TOLD = 3  # associations of a factor on its card
TOP_VIEWS, TOP_FEATURES = 3, 3  # on its card
SHARED = 0.01  # of a view's variance: from here on a factor counts as part of it


def known_columns(fit: Fitted, sample: Sample, metadata: Any = None) -> list[pd.Series]:
    """At the rows of the fit: metadata and columns of labels first, then numbers, each the surest associated first."""
    columns = [] if metadata is None else row_columns(fit, metadata, role="metadata")
    n_given = len(columns)
    columns += _of_views(fit, sample)
    columns = [column for column in columns if column.notna().any()]
    strength = association_table(fit, columns).groupby("covariate")["at_least"].max()
    first = [place < n_given or not is_scale(column) for place, column in enumerate(columns)]
    order = sorted(
        range(len(columns)), key=lambda place: (not first[place], -float(strength.get(columns[place].name, 0.0)))
    )
    return [columns[place] for place in order]


def _of_views(fit: Fitted, sample: Sample) -> list[pd.Series]:
    """The most relevant columns of each view."""
    if sample.views is None:
        return []
    out = []
    for name in (name for name in Answers(fit).given(sample.views) if name in fit.schema.codings):
        places = [0]
        if not fit.schema.codings[name].has_classes:
            places = plots.feature_relevance_data(fit, name)["place"].tolist()[:MOST_COLUMNS]
        out += [view_column(fit, sample.views, name, place, sample.index) for place in places]
    return out


def colour(column: pd.Series, rows: np.ndarray) -> dict[str, Any]:
    """A column of some rows as the page draws it: labels, levels in their order, or numbers."""
    name, own = str(column.name), column.iloc[rows]
    if pd.api.types.is_datetime64_any_dtype(own):
        own = pd.Series(own.dt.strftime("%Y-%m-%d"), own.index) if own.nunique() < 20 else own.dt.year
    if is_scale(own):
        return {"name": name, "values": [None if pd.isna(x) else float(f"{float(x):.5g}") for x in own]}
    levels = None
    if isinstance(own.dtype, pd.CategoricalDtype) and own.cat.ordered:
        levels = [label_text(level) for level in own.cat.categories]
    return {"name": name, "labels": [None if pd.isna(x) else label_text(x) for x in own], "levels": levels}


def label_text(label: Any) -> str:
    """A label as it is shown: whole numbers without a decimal point."""
    whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label)) if whole else str(label)


def cards(fit: Fitted, columns: list[pd.Series]) -> list[dict[str, Any]]:
    """For each factor what it explains, its largest weights in those views, and its surest associations."""
    found = association_table(fit, columns)
    found["name"] = names_of(found)
    shares = plots.variance_explained_data(fit)
    out = []
    for number, name in enumerate(fit.factor_names, start=1):
        own = sorted(zip(shares, shares.loc[name]), key=lambda pair: -pair[1])
        most = [(view, share) for view, share in own if share >= SHARED][:TOP_VIEWS]
        told = found[(found["factor"] == name) & (found["at_least"] > 0)].drop_duplicates("covariate").head(MOST_TOLD)
        out.append(
            {
                "name": name,
                "explains": [[str(view), percent(share, 1)] for view, share in most],
                "features": [
                    [str(row["feature"]), str(view), f"{row['weight']:+.2f}"]
                    for view, _ in most
                    if view in fit.schema.types
                    for _, row in plots.weights_data(fit, str(view), number).head(TOP_FEATURES).iterrows()
                ],
                "associations": [[row["name"], in_words(row)] for _, row in told.iterrows()],
            }
        )
    return out
