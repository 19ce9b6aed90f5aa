"""How often intervals hold what they should: hidden cells of real tables, and of data drawn from the model.

    SSHIBA_DATA=... python benchmarks/interval_coverage.py [masks] [--model | --views]

A fifth of the cells of each table is hidden at random, a model with the default options is fitted to the rest, and
intervals of 50, 80, 90 and 95 % are compared with what was hidden. Tables of numbers: scikit-learn's, UCI's,
nutrimouse, heart and CLL (300 columns of each view); with labels: heart, nutrimouse; with levels: drug use and obesity.
Beside it the same with the normal distribution in the place of the errors of training cells ("normal"). Of levels and
labels an interval may hold more than it must: "said" is the probability that the model gives to it.

With --model the data are drawn from the model itself; with --views a whole view of new rows is predicted from another.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from common import OUT, machine
from rich.console import Console
from rich.table import Table
from tables import named_tables, numbers

from sshiba import SSHIBA, Binary, Categorical, Count, Ordinal, Real, datasets
from sshiba.core.likelihoods.poisson_predictive import below

LEVELS = (0.5, 0.8, 0.9, 0.95)
HIDDEN = 0.2
Views = dict[str, np.ndarray]


def real_data() -> Iterator[tuple[str, Views, dict[str, Any]]]:
    for name, frame in named_tables():
        x = numbers(frame, True)
        if name not in ("nutrimouse", "heart"):
            yield name, {"x": x}, {"x": Real()}
    if "SSHIBA_DATA" not in os.environ:
        return
    heart = datasets.load_heart().views
    labels = [name for name in heart if name not in ("measured", "disease")]
    codes = {name: heart[name].cat.codes.to_numpy().astype(float) for name in labels}
    codes = {name: np.where(own < 0, np.nan, own)[:, None] for name, own in codes.items()}
    measured = {"measured": heart["measured"].to_numpy(float), "disease": heart["disease"].to_numpy(float)}
    yield "heart", {**measured, **codes}, {"disease": Binary()} | {name: Categorical() for name in labels}
    mice = datasets.load_nutrimouse().views
    kinds = {name: mice[name].cat.codes.to_numpy().astype(float)[:, None] for name in ("diet", "genotype")}
    yield (
        "nutrimouse",
        {"gene": mice["gene"].to_numpy(float), "lipid": mice["lipid"].to_numpy(float), **kinds},
        {"diet": Categorical(), "genotype": Categorical()},
    )
    cll = datasets.load_cll().views
    parts = {name: view.to_numpy(float)[:, :300] for name, view in cll.items()}
    parts["Mutations"] = parts["Mutations"][:, np.nanmean(parts["Mutations"], axis=0) > 0.05]
    yield "CLL, 300 of each", parts, {"Mutations": Binary()}
    with np.load(Path(os.environ["SSHIBA_DATA"]) / "uci_ordinal.npz") as file:
        drugs, obesity = file["drug_X"].astype(float), file["obesity_X"].astype(float)
        names = [str(name) for name in file["obesity_names"]]
    yield "drug use", {"person": drugs[:, 1:12], "use": drugs[:, 12:]}, {"person": Real(), "use": Ordinal()}
    ordered = [names.index(name) for name in ("CAEC", "CALC", "NObeyesdad")]
    yes_no = [j for j in range(obesity.shape[1]) if j not in ordered and len(np.unique(obesity[:, j])) == 2]
    kind = names.index("MTRANS")
    rest = [j for j in range(obesity.shape[1]) if j not in [*ordered, *yes_no, kind]]
    yield (
        "obesity",
        {"x": obesity[:, rest], "levels": obesity[:, ordered], "yes": obesity[:, yes_no], "way": obesity[:, [kind]]},
        {"x": Real(), "levels": Ordinal(), "yes": Binary(), "way": Categorical()},
    )


def numbers_of(z: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    noise = rng.uniform(0.5, 1.5, d) * rng.standard_normal((len(z), d))
    return z @ rng.standard_normal((z.shape[1], d)) + rng.standard_normal(d) + noise


def model_data(n_sets: int = 12) -> Iterator[tuple[str, Views, dict[str, Any]]]:
    """Weights, biases and precisions at random, rows and cells as the model has them."""
    for seed in range(n_sets):
        rng = np.random.default_rng([9, seed])
        n, k = (100, 300, 1000)[seed % 3], 3
        z = rng.standard_normal((n, k))
        plain = {"x": numbers_of(z, 15, rng)}
        yield f"numbers {n}", plain, {"x": Real()}
        unit = z @ rng.standard_normal((k, 7)) + rng.standard_normal((n, 7))
        mixed = {
            "x": numbers_of(z, 10, rng),
            "levels": np.stack([np.digitize(u, np.quantile(u, [0.2, 0.5, 0.8])) for u in unit[:, :4].T], axis=1),
            "yes": unit[:, 4:] > 0,
            "counts": rng.poisson(np.exp(1 + 0.4 * numbers_of(z, 5, rng))),
            "kind": np.argmax(2 * z + rng.standard_normal((n, k)), axis=1)[:, None],
        }
        types = {
            "levels": Ordinal(),
            "yes": Binary(),
            "counts": Count(noise="feature", size=False),
            "kind": Categorical(),
        }
        yield f"mixed {n}", {name: view.astype(float) for name, view in mixed.items()}, {"x": Real(), **types}


def hide(views: Views, rng: np.random.Generator) -> tuple[Views, dict[str, np.ndarray]]:
    """Cells missing, and which; columns keep at least five cells, and every value that is seen once stays seen."""
    shown, hidden = {}, {}
    for name, x in views.items():
        gone = ~np.isnan(x) & (rng.random(x.shape) < HIDDEN)
        for j in range(x.shape[1]):
            kept = x[~gone[:, j] & ~np.isnan(x[:, j]), j]
            if len(kept) < 5 or np.ptp(kept) == 0:
                gone[:, j] = False
            elif len(np.unique(x[~np.isnan(x[:, j]), j])) < 20:
                gone[:, j] &= np.isin(x[:, j], kept)
        shown[name], hidden[name] = np.where(gone, np.nan, x), gone
    return shown, hidden


def normal_only(model: SSHIBA) -> SSHIBA:
    """The same model without what it learned of errors."""
    plain = SSHIBA(**model.get_params())
    plain._keep(replace(model.fitted_, residuals=(None,) * len(model.fitted_.residuals)))
    return plain


def inside(model: SSHIBA, views: Views, shown: Views, hidden: dict[str, np.ndarray], level: float) -> dict[str, tuple]:
    """Of each view: which hidden cells are in their intervals, and the probability that these are said to have."""
    _, interval = model.impute(shown, interval=level)
    found: dict[str, tuple] = {}
    for name, x in views.items():
        gone = hidden[name]
        if not gone.any():
            continue
        kind = type(model.views_[name]).__name__
        if kind == "Categorical":
            sets, p = np.asarray(interval["labels"][name]), model.predict_proba(shown, name, use_target=True)
            codes = np.searchsorted(np.asarray(model.classes_[name], dtype=float), x[gone[:, 0], 0])
            rows = np.flatnonzero(gone[:, 0])
            found[name] = kind, sets[rows, codes], (sets * p).sum(axis=1)[rows]
            continue
        low, high = (np.asarray(interval[end][name], dtype=float) for end in ("lower", "upper"))
        said = np.full(x.shape, level)
        if kind == "Binary":
            p = np.asarray(model.predict_proba(shown, name, use_target=True))
            said = np.where(low == 0, 1 - p, 0) + np.where(high == 1, p, 0)
        elif kind == "Ordinal":
            proba = model.predict_proba(shown, name, use_target=True)
            for j, levels in enumerate(model.levels_[name].values()):
                own = proba[j] if isinstance(proba, dict) else proba
                values = np.asarray(list(levels), dtype=float)
                held = (values >= low[:, [j]]) & (values <= high[:, [j]])
                said[:, j] = (held * own).sum(axis=1)
        elif kind == "Count":
            mean, std = model.predict(shown, name, return_std=True, use_target=True)
            said = below(high, mean, std) - below(low - 1, mean, std)
        found[name] = kind, ((low <= x) & (x <= high))[gone], said[gone]
    return found


def whole_views(n_splits: int) -> None:
    """Columns of new rows, 30 % of all, predicted from others of them."""
    cancer = sklearn.datasets.load_breast_cancer().data
    diabetes, wine = sklearn.datasets.load_diabetes().data, sklearn.datasets.load_wine().data
    pairs = {
        "breast cancer": (cancer[:, :10], cancer[:, 20:]),
        "diabetes": (diabetes[:, :4], diabetes[:, 4:]),
        "wine": (wine[:, :6], wine[:, 6:]),
    }
    for name, (a, b) in pairs.items():
        held = np.zeros((n_splits, 2, len(LEVELS)))
        for split in range(n_splits):
            rows = np.random.default_rng(split).permutation(len(a))
            train, new = np.split(rows, [int(0.7 * len(a))])
            model = SSHIBA(views={"a": Real(), "b": Real()}, random_state=0).fit({"a": a[train], "b": b[train]})
            for way, used in enumerate((model, normal_only(model))):
                for place, level in enumerate(LEVELS):
                    _, interval = used.predict({"a": a[new]}, "b", interval=level)
                    inside = (interval["lower"] <= b[new]) & (b[new] <= interval["upper"])
                    held[split, way, place] = 100 * inside.mean()
        print(f"{name:15s}", *held.mean(axis=0).round(1).tolist(), flush=True)


def main(n_masks: int, of_model: bool) -> None:
    cells: dict[tuple[str, str], dict[tuple[str, float], list]] = {}
    for name, views, types in model_data() if of_model else real_data():
        for mask in range(1 if of_model else n_masks):
            shown, hidden = hide(views, np.random.default_rng([mask, len(name)]))
            model = SSHIBA(views=types, random_state=0).fit(shown)
            for way, used in (("ours", model), ("normal", normal_only(model))):
                for level in LEVELS:
                    for kind, held, said in inside(used, views, shown, hidden, level).values():
                        own = cells.setdefault((name, kind), {})
                        own.setdefault((way, level), []).append(held)
                        if way == "ours":
                            own.setdefault(("said", level), []).append(said)
        for (table, kind), own in cells.items():
            if table == name:
                print(f"{name:20s} {kind:12s}", *(f"{100 * mean(own['ours', p]):.1f}" for p in LEVELS), flush=True)
    show(cells, "the model" if of_model else f"{n_masks} masks")


def mean(parts: list[np.ndarray]) -> float:
    return float(np.concatenate(parts).mean())


def show(cells: dict[tuple[str, str], dict[tuple[str, float], list]], title: str) -> None:
    """A row for each table and type, and the cells of a type, or all numbers, pooled."""
    table = Table("data", "type", "cells", "50 / 80 / 90 / 95 %", "normal", "said", title=f"coverage, {title}")
    rows = []
    kinds = dict.fromkeys(kind for _, kind in cells)
    pooled = {
        ("pooled", kind): {
            key: [part for (_, other), own in cells.items() if other == kind for part in own[key]]
            for key in next(own for (_, other), own in cells.items() if other == kind)
        }
        for kind in kinds
    }
    for (name, kind), own in (*cells.items(), *pooled.items()):
        shares = {way: [round(100 * mean(own[way, p]), 1) for p in LEVELS] for way in ("ours", "normal", "said")}
        n = sum(map(len, own["ours", LEVELS[0]]))
        rows.append({"data": name, "type": kind, "cells": n, **shares})
        ours, normal, said = (" / ".join(f"{share:.1f}" for share in shares[way]) for way in shares)
        table.add_row(name, kind, f"{n:,}", ours, normal if kind == "Real" else "", said if kind != "Real" else "")
    Console(width=120).print(table)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"coverage, {title}.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    words = sys.argv[1:]
    times = next((int(word) for word in words if word.isdigit()), 2)
    if "--views" in words:
        whole_views(times)
    else:
        main(times, "--model" in words)
