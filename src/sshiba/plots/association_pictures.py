"""What factors have to do with what else is known of the rows: correlations and AUCs, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from ..evaluate.confidence import auc_interval, rank_correlation_interval
from ..fitted.fitted import Fitted, FittedModel, fitted_of
from .canvas import DIVERGING, MANY, PALETTE, heat, make_axes, name_bars, say_instead, short, without_box
from .coloring import label_order
from .lookup import factor_place, row_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ["covariate", "label", "factor", "measure", "value", "low", "high", "n", "strength", "at_least"]
LEAST_ROWS = 5  # that a correlation is told of
LEAST_LABEL = 3  # rows with a label, and without it, that an AUC is told of
YES = ("1", "1.0", "True")  # of two labels: the name of the column says which is meant


def association_table(fit: Fitted, columns: Sequence[pd.Series]) -> pd.DataFrame:
    """Every column with every factor, the surest first; see `associations_data`."""
    parts = [part for column in columns for part in _of_column(fit, column)]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)
    keys = (-table["strength"].abs().to_numpy(dtype=float), -table["at_least"].to_numpy(dtype=float))
    return table.iloc[np.lexsort(keys)].reset_index(drop=True)


def _of_column(fit: Fitted, column: pd.Series) -> list[pd.DataFrame]:
    """One table for numbers and levels, and for two labels; for more labels one for each against the others."""
    seen = column.notna().to_numpy()
    known, factors = column[seen], fit.factors[seen]
    name = "" if column.name is None else str(column.name)
    if isinstance(known.dtype, pd.CategoricalDtype) and known.cat.ordered and known.nunique() > 2:
        return _correlated(fit, name, known.cat.codes.to_numpy(float), factors)
    if pd.api.types.is_datetime64_any_dtype(known):
        return _correlated(fit, name, known.astype("int64").to_numpy(float), factors)
    is_number = pd.api.types.is_numeric_dtype(known) and not pd.api.types.is_bool_dtype(known)
    if is_number and known.nunique() > 2:
        return _correlated(fit, name, known.to_numpy(float), factors)
    labels = label_order(known)
    told = labels[1:] if len(labels) == 2 else labels if len(labels) > 2 else []
    return [part for label in told for part in _told_apart(fit, name, label, (known == label).to_numpy(bool), factors)]


def _correlated(fit: Fitted, name: str, values: np.ndarray, factors: np.ndarray) -> list[pd.DataFrame]:
    """Spearman's: the correlation of the ranks."""
    if len(values) < LEAST_ROWS or np.ptp(values) == 0:
        return []
    x, z = rankdata(values), rankdata(factors, axis=0)
    x, z = x - x.mean(), z - z.mean(axis=0)
    size = np.sqrt((x @ x) * np.sum(z**2, axis=0))
    r = np.divide(x @ z, size, out=np.zeros(z.shape[1]), where=size > 0)
    return [_part(fit, name, "", "correlation", r, rank_correlation_interval(r, len(x)), len(x), r)]


def _told_apart(fit: Fitted, name: str, label: Any, is_so: np.ndarray, factors: np.ndarray) -> list[pd.DataFrame]:
    """Mann and Whitney's: how often a row with the label has a larger factor than one without it."""
    n_yes, n_no = int(is_so.sum()), int((~is_so).sum())
    if min(n_yes, n_no) < LEAST_LABEL:
        return []
    area = (rankdata(factors, axis=0)[is_so].sum(axis=0) - n_yes * (n_yes + 1) / 2) / (n_yes * n_no)
    ends = auc_interval(area, n_yes, n_no)
    return [_part(fit, name, short(label), "AUC", area, ends, len(is_so), 2 * area - 1)]


def _part(fit: Fitted, *cells: Any) -> pd.DataFrame:
    name, label, measure, value, (low, high), n, strength = cells
    ends = (2 * low - 1, 2 * high - 1) if measure == "AUC" else (low, high)
    sure = np.where(ends[0] * ends[1] > 0, np.minimum(*np.abs(ends)), 0.0)
    own = (name, label, fit.factor_names, measure, value, low, high, n, strength, sure)
    return pd.DataFrame(dict(zip(COLUMNS, own)))


def in_words(row: Any) -> str:
    """One association with its interval; below 0.5 the AUC of a label that goes with low values of the factor."""
    return f"{'AUC' if row['measure'] == 'AUC' else 'r'} {row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def associations_data(model: FittedModel, by: Any, views: Any = None, factor: int | None = None) -> pd.DataFrame:
    """Associations of factors with columns, the surest first: covariate, label, factor, measure, value, low, high, n,
    strength, at_least.

    Numbers, dates and ordered levels: Spearman's correlation. Labels: the AUC of the factor, of the second of two
    labels, or of each of several against the others. `low` and `high` are 95 % intervals, not corrected for multiple
    comparisons. `strength` is the correlation, or 2 AUC − 1, both between -1 and 1; `at_least` its size at the end of
    the interval that is nearer to 0, by which the table is sorted, so that rare labels do not come first. Columns with
    fewer than 5 known rows, and labels of fewer than 3, are left out.

    Parameters
    ----------
    model : SSHIBA
    by : a frame, a Series or array, a dict of these; or the name of a view or column, or a list of names
    views : the data, where `by` is a name
    factor : int, optional
        Only this one, counted from 1.
    """
    fit = fitted_of(model)
    table = association_table(fit, row_columns(fit, by, views))
    if factor is None:
        return table
    return table[table["factor"] == fit.factor_names[factor_place(fit, factor)]].reset_index(drop=True)


def names_of(table: pd.DataFrame) -> pd.Series:
    """What a row of the table is about: the column, and its label but that of a plain yes."""
    several = table.groupby("covariate")["label"].transform("nunique") > 1
    plain = (table["label"] == "") | (table["label"].isin(YES) & ~several)
    return table["covariate"].where(plain, table["covariate"] + " = " + table["label"])


def associations(
    model: FittedModel, by: Any, views: Any = None, factor: int | None = None, n: int = 20, ax: Axes | None = None
) -> Axes:
    """The surest associations of factors with columns, with their 95 % intervals; labels and numbers on one scale.

    The scale is the rank correlation of numbers, and 2 AUC − 1 of labels: 0 is none, 1 and -1 are complete. Arguments
    as in `associations_data`.
    """
    title = "Associations" if factor is None else f"Associations of factor {factor}"
    if fitted_of(model).n_components == 0:
        return say_instead(ax, title)
    found = associations_data(model, by, views, factor)
    if found.empty:
        return say_instead(ax, title, "too few rows are known")
    table = found.assign(name=names_of(found)).head(n).iloc[::-1]
    ax = make_axes(ax, 6.5, 1.1 + 0.27 * len(table))
    is_area = (table["measure"] == "AUC").to_numpy()
    low, high = (np.where(is_area, 2 * table[end] - 1, table[end]) for end in ("low", "high"))
    middle, places = table["strength"].to_numpy(dtype=float), np.arange(len(table))
    for own, colour, marker, words in (
        (is_area, PALETTE[0], "o", "label: 2 AUC − 1"),
        (~is_area, PALETTE[3], "s", "number: r"),
    ):
        if own.any():
            reach = np.maximum(np.stack([middle - low, high - middle])[:, own], 0)
            ax.errorbar(middle[own], places[own], xerr=reach, fmt=marker, color=colour, ms=4, lw=1, label=words)
    ax.axvline(0, color="black", lw=0.8)
    name_bars(ax, table["name"] + ("" if factor is not None else ", " + table["factor"].astype(str)), 40)
    scale = "2 AUC − 1" if is_area.all() else "rank correlation" if not is_area.any() else "association"
    ax.set(xlim=(-1.05, 1.05), xlabel=f"{scale}, 95 % interval", title=title)
    if scale == "association":
        ax.legend(frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left", fontsize="small")
    return without_box(ax)


def association_map_data(model: FittedModel, by: Any, views: Any = None, n: int | None = None) -> pd.DataFrame:
    """The strength of each association, factors x columns, of several labels each; of all, or of the n surest.

    Columns stay in their order; those of which too few rows are known are left out.
    """
    fit = fitted_of(model)
    columns = row_columns(fit, by, views)
    table = association_table(fit, columns)
    table["name"] = names_of(table)
    kept = table["name"].drop_duplicates().head(n if n is not None else len(table))
    wide = table[table["name"].isin(kept)].pivot_table("strength", "factor", "name", sort=False)
    place = {column.name: number for number, column in enumerate(columns)}
    order = table.drop_duplicates("name").sort_values("covariate", key=lambda own: own.map(place), kind="stable")[
        "name"
    ]
    wide = wide.reindex(fit.factor_names, columns=[name for name in order if name in set(kept)])
    return wide.rename_axis("factor").rename_axis(None, axis=1)


def association_map(model: FittedModel, by: Any, views: Any = None, n: int = 40, ax: Axes | None = None) -> Axes:
    """Factors x columns: rank correlations of numbers, 2 AUC − 1 of labels; the n columns with the surest."""
    table = association_map_data(model, by, views, n)
    if table.empty:
        return say_instead(ax, "Associations", "no factors" if not len(table) else "too few rows are known")
    n_factors, n_columns = table.shape
    ax = make_axes(ax, 2.6 + 0.36 * n_columns, float(np.clip(1.9 + 0.28 * n_factors, 3.2, 9)))
    edges = (-0.5, n_columns - 0.5, n_factors + 0.5, 0.5)
    heat(ax, table.to_numpy(), DIVERGING, -1, 1, "r, or 2 AUC − 1", extent=edges)
    if table.size <= 4 * MANY:
        for (k, j), value in np.ndenumerate(table.to_numpy()):
            if abs(value) >= 0.3:
                colour = "white" if abs(value) > 0.65 else "black"
                ax.text(j, k + 1, f"{value:.1f}".replace("0.", "."), ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(n_columns), [short(name, 22) for name in table], rotation=90)
    ax.set_yticks(range(1, n_factors + 1), [str(number) for number in range(1, n_factors + 1)])
    ax.set(ylabel="factor", title="Associations")
    return ax
