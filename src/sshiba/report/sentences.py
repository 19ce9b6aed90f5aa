"""One sentence or two for each part of the report, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..data.wording import counted, percent
from ..fitted.describe import inits_table
from ..fitted.fitted import Fitted
from ..fitted.search import Search

SHARED = 0.01  # of a view's variance: from here on a factor counts as part of it
NOTHING = 1e-6  # of a view's variance: what is below it is no factor
ACTIVE = 0.1  # of the variance of a factor in its most active group: from here on it counts as active in another
MOST_NAMES = 6  # in a sentence
NO_CHECK = "No held-out check was made (fraction=0): how well hidden cells are predicted is not known."
CLOSE = 1e-4  # of the bound's size: restarts this near to the best found the same


def listed(parts: Sequence[Any]) -> str:
    words = [str(part) for part in parts]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def views(fit: Fitted, table: pd.DataFrame) -> str:
    """What went in; neither the classes of a column nor kernel features are columns."""
    widths = np.array([len(coding.features) for coding in fit.schema.codings.values()])
    table, n_rows, n_columns = table.head(len(widths)), len(fit.factors), int(widths.sum())
    missing = float((table["missing"] * widths).sum() / n_columns)
    words = f"{counted(n_rows, 'row')} in {counted(len(table), 'view')}, {counted(n_columns, 'column')} in all. "
    if missing == 0:
        return words + "Nothing is missing."
    worst = table.iloc[int(table["missing"].argmax())]
    few = "Less than 1 %" if missing < 0.01 else percent(missing)
    most = f", most in {worst['view']} ({percent(worst['missing'])})" if len(table) > 1 else ""
    return f"{words}{few} of the cells are missing{most}."


def looked_at(rows: str) -> str:
    """Before what is said of some rows only."""
    return f"Looked at: {rows}. " if rows else ""


def overview(shares: pd.DataFrame) -> str:
    complete = int((shares == 1).all(axis=1).sum())
    absent = {name: int((shares[name] == 0).sum()) for name in shares}
    gone = [f"{name} of {counted(n, 'row')}" for name, n in absent.items() if n]
    words = f"{counted(complete, 'row')} of {len(shares):,} {'is' if complete == 1 else 'are'} complete in all views"
    return words + (f"; missing altogether: {listed(gone)}." if gone else "; no row lacks a whole view.")


def convergence(fit: Fitted) -> str:
    inits, bound = inits_table(fit.restarts), f"{fit.elbo:,.1f} nats"
    if fit.log_evidence is not None:
        bound += f" (log evidence about {fit.log_evidence:,.1f})"
    if fit.converged:
        words = f"The bound stopped rising at {bound} after {counted(fit.n_iter, 'sweep')}."
    else:
        words = f"The bound was still rising at {bound} after {counted(fit.n_iter, 'sweep')}: the fit is not finished."
    if fit.search is not None:
        words += f" {search(fit.search)}"
    if len(inits) == 1:
        return words + " One start was made; with several (n_init) the report shows how far the result depends on it."
    values = inits["elbo"] if inits["log_evidence"].isna().any() else inits["log_evidence"]
    close = int((values >= values.max() - CLOSE * abs(values.max())).sum())
    low, high = int(inits["n_components"].min()), int(inits["n_components"].max())
    found = counted(low, "factor") if low == high else f"{low} to {high} factors"
    agree = f"Of {len(inits)} starts {close} ended within {percent(CLOSE, 2)} of the best (itself counted)"
    return f"{words} {agree}; they found {found}."


def search(found: Search) -> str:
    """What the search chose, and by how much."""
    other = max((mean, i) for i, mean in enumerate(found.means) if i != found.chosen)[0]
    gap = found.means[found.chosen] - other
    words = f"Settings were chosen by short fits, judged on held-out rows: {found.choice.in_words()}"
    if abs(gap) < 0.0005:
        return f"{words}, about as good as the next best."
    than = "better than the next best" if gap >= 0 else "short of the best, which has more factors"
    return f"{words}, {abs(gap):.3f} nats a cell {than}."


def variance(fit: Fitted) -> str:
    names, r2, k = [str(name) for name in fit.schema.names], fit.r2, fit.n_components
    if r2[:k].max(initial=0.0) < NOTHING:
        return "No factor was found: the columns are unrelated."
    order = np.argsort(-r2[-1], kind="stable")[:MOST_NAMES]
    parts = [f"{percent(r2[-1, m])} of {names[m]}" for m in (order if len(names) > MOST_NAMES else range(len(names)))]
    alone, totals = r2[:k], listed(parts + (["less of the others"] if len(names) > MOST_NAMES else []))
    factor, view = divmod(int(np.argmax(alone)), len(names))
    what = counted(k, "factor") + (" and the covariates" if fit.schema.covariates is not None else "")
    if what == "1 factor":
        return f"One factor was found. It explains {totals} (variance)."
    words = f"Together {what} explain {totals} (variance). "
    first, share = fit.factor_names[factor].capitalize(), f"{percent(alone[factor, view])} of {names[view]}"
    words += f"{first} explains most in one view: {share}."
    if len(names) == 1:
        return words
    n_views = (alone >= SHARED).sum(axis=1)
    shared, own = int((n_views > 1).sum()), int((n_views == 1).sum())
    reach = "reaches" if shared == 1 else "reach"
    return (
        f"{words} {counted(shared, 'factor')} {reach} {percent(SHARED)} in two views or more, {own:,} in one view only."
    )


def groups(fit: Fitted) -> str:
    """In which groups of samples the factors are active: with a tenth of their variance in the most active one."""
    names, activity = fit.schema.group_names, 1 / fit.posterior.activity.mean
    active = activity >= ACTIVE * activity.max(axis=0, initial=0.0)
    words = f"{counted(len(names), 'group')} of samples, by {fit.schema.groups.name if fit.schema.groups else ''}. "
    everywhere = active.all(axis=0)
    words += f"{counted(int(everywhere.sum()), 'factor')} of {fit.n_components} "
    words += f"{'is' if everywhere.sum() == 1 else 'are'} active in all of them"
    own = [
        f"{fit.factor_names[k]} in {listed([names[s] for s in np.flatnonzero(active[:, k])])}"
        for k in np.flatnonzero(~everywhere)[:MOST_NAMES]
    ]
    more = " and others" if (~everywhere).sum() > MOST_NAMES else ""
    return words + (f"; only in some: {'; '.join(own)}{more}." if own else ".")


def effects(fit: Fitted, table: pd.DataFrame) -> str:
    """Of covariates: what they explain, and the largest effect."""
    known = fit.schema.covariates
    assert known is not None
    shares = fit.r2[-2]
    first = [f"{percent(share)} of {name}" for name, share in zip(fit.schema.types, shares)][:MOST_NAMES]
    clear = int(((table["low"] > 0) | (table["high"] < 0)).sum())
    words = f"Known inputs, not factors: {known.in_words}. Alone they explain {listed(first)} (variance). "
    words += f"{clear:,} of {len(table):,} effects have a 95 % interval that excludes 0. "
    return words + "Labels are compared with the first label of their column."


def factors(correlation: pd.DataFrame, n_shown: int, n_rows: int) -> str:
    which = f"one of {n_shown:,} rows drawn at random" if n_shown < n_rows else f"one of the {n_rows:,} rows"
    r = correlation.to_numpy()
    if len(r) == 0:
        return "There are no factors."
    if len(r) < 2:
        return f"Each point is {which}. There is only one factor; points are spread out to be seen."
    words = f"Each point is {which}, on two factors."
    a, b = divmod(int(np.abs(np.triu(r, 1)).argmax()), len(r))
    how = "Factors are nearly uncorrelated" if abs(r[a, b]) < 0.2 else "Some factors are correlated"
    pair = listed([correlation.index[a], correlation.index[b]])
    return f"{words} {how}: most of all {pair}, r = {r[a, b]:.2f}."


def relevance(name: str, table: pd.DataFrame, size: str) -> str:
    """Of a view of `size`: 12 features, or 3 classes."""
    values = table["relevance"].to_numpy()
    if not values.any():
        return f"No factor describes {name}."
    half = int(np.searchsorted(np.cumsum(values), values.sum() / 2)) + 1
    if len(table) == 1:
        return f"{name} has one feature, {table['feature'].iloc[0]}."
    first = f"{table['feature'].iloc[0]} is the most relevant of {size} of {name}"
    part = "one alone holds" if half == 1 else f"{half:,} of them hold"
    above = f"{int((values > 1).sum()):,} of {len(values):,} are above 1, the value before the fit"
    return f"{first}; {part} half of all relevance (1/E[gamma]). {above}."


def held_out(scores: pd.DataFrame, fraction: float) -> str:
    words = [f"{percent(fraction)} of the observed cells were hidden from a separate fit, then predicted."]
    for name, row in scores.iterrows():
        if not np.isnan(row["r2"]):
            words.append(
                f"{name}: R² {row['r2']:.2f}, and {percent(row['coverage'])} of the cells lie in their 90 % intervals."
            )
        elif row["hidden"] == 0:
            words.append(f"{name}: too few cells to hide any.")
        elif not np.isnan(row["mae"]):
            share = "" if np.isnan(row["smae"]) else f", {percent(row['smae'])} of the error of the median level"
            right = f"{percent(row['accuracy'])} of the levels right"
            words.append(f"{name}: {right}, mean absolute error {row['mae']:.2f} levels{share}.")
        elif not np.isnan(row["accuracy"]):
            area = "" if np.isnan(row["auc"]) else f", AUC {row['auc']:.2f}"
            words.append(f"{name}: {percent(row['accuracy'])} right{area}.")
    return " ".join(words)


def provenance(fit: Fitted) -> str:
    made, chosen = fit.provenance, fit.settings["random_state"]
    seed = "no fixed seed" if chosen is None else f"seed {chosen}"
    when, versions = made.get("fitted", "an unknown day"), [f"{k} {v}" for k, v in made.items() if k != "fitted"]
    return f"Fitted on {when.replace('T', ' at ').replace('+00:00', ' UTC')} with {seed}; {listed(versions)}."
