"""The tables of benchmarks/imputation.py, and the ways to hide cells of them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import sklearn.datasets

MOST_ROWS, LEAST_SHOWN = 1000, 5
STEEP = 1.5  # how fast the chance to be hidden rises, in standard deviations


@dataclass(frozen=True)
class Table:
    """Numbers and codes, NaN where the data themselves lack a cell, and the kind of each column."""

    name: str
    values: np.ndarray
    kinds: tuple[str, ...]


def _table(name: str, values: np.ndarray, kinds: dict[int, str] | None = None) -> Table:
    """`kinds` of columns that are no numbers; negative places count from the last. Codes become 0, 1, ..."""
    values = np.array(values, dtype=float)
    own = ["number"] * values.shape[1]
    for place, kind in (kinds or {}).items():
        own[place] = kind
        seen = ~np.isnan(values[:, place])
        values[seen, place] = np.unique(values[seen, place], return_inverse=True)[1]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if len(values) > MOST_ROWS:
        values = values[np.sort(rng.permutation(len(values))[:MOST_ROWS])]
    varies = np.nanstd(values, axis=0) > 0
    return Table(name, values[:, varies], tuple(kind for kind, kept in zip(own, varies) if kept))


def _bundled(name: str) -> Table:
    x, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    kinds = {"diabetes": {1: "yes/no"}, "breast_cancer": {-1: "yes/no"}}  # of diabetes it is the sex
    return _table(name, np.column_stack([x, y]), kinds.get(name, {-1: "label"}))


def _uci(name: str) -> Table:
    kinds = {"wine": {-1: "level"}, "libras": {-1: "label"}, "ionosphere": {-1: "yes/no", 0: "yes/no"}}
    with np.load(_folder() / "uci_tables.npz") as file:
        title = "wine quality" if name == "wine" else name
        return _table(title, file[f"{name}_X"], kinds.get(name))


def _ordinal(name: str) -> Table:
    with np.load(_folder() / "uci_ordinal.npz") as file:
        values, names = file[f"{name}_X"], file[f"{name}_names"].tolist()
    if name == "drug":
        return _table(name, values, dict.fromkeys(range(12, values.shape[1]), "level"))
    kinds = {"CAEC": "level", "CALC": "level", "NObeyesdad": "label", "MTRANS": "label"}
    yes_no = {j: "yes/no" for j in range(values.shape[1]) if len(np.unique(values[:, j])) == 2}
    return _table(name, values, yes_no | {names.index(column): kind for column, kind in kinds.items()})


def _heart() -> Table:
    with np.load(_folder() / "tab_heart_cleveland.npz") as file:
        labels, y = np.where(file["X_cat"] < 0, np.nan, file["X_cat"]), file["y"].astype(float)
        values = np.column_stack([file["X_num"], labels, y])
    first = values.shape[1] - labels.shape[1] - 1
    kinds = {first + j: "yes/no" if len(np.unique(c[~np.isnan(c)])) == 2 else "label" for j, c in enumerate(labels.T)}
    return _table("heart", values, kinds | {values.shape[1] - 1: "yes/no"})


def _nutrimouse() -> Table:
    with np.load(_folder() / "nutrimouse.npz") as file:
        values = np.column_stack([file["gene"], file["lipid"], file["diet"], file["genotype"]])
    return _table("nutrimouse", values, {-2: "label", -1: "yes/no"})


def _folder() -> Path:
    return Path(os.environ["SSHIBA_DATA"])


TABLES: dict[str, Callable[[], Table]] = {
    **{name: cache(partial(_bundled, name)) for name in ("iris", "wine", "diabetes", "breast_cancer")},
    **{name: cache(partial(_uci, name)) for name in ("airfoil", "compression", "parkinsons", "ionosphere", "libras")},
    "wine quality": cache(partial(_uci, "wine")),
    "heart": cache(_heart),
    "obesity": cache(partial(_ordinal, "obesity")),
    "drug": cache(partial(_ordinal, "drug")),
    "nutrimouse": cache(_nutrimouse),
}


# ----------------------------------------------------------------------------------------------------------- hiding


def hide(table: Table, way: str, share: float) -> np.ndarray:
    """The table with cells missing; a column keeps at least five values, two of them different."""
    x = table.values
    rng = np.random.default_rng([zlib.crc32(f"{table.name}, {way}".encode()), round(100 * share)])
    z = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)
    z = np.where(np.isnan(z), 0, z)
    free = np.ones(x.shape[1], dtype=bool)
    if way == "at random":
        push = np.zeros_like(z)
    elif way == "given others":
        free[rng.permutation(len(free))[: max(1, len(free) // 3)]] = False
        sums = z[:, ~free] @ rng.standard_normal(((~free).sum(), len(free)))
        push = sums / np.maximum(sums.std(axis=0), 1e-12)
    else:
        push = z
    hidden = (rng.random(x.shape) < chances(STEEP * push, share)) & ~np.isnan(x) & free
    shown = np.where(hidden, np.nan, x)
    poor = ((~np.isnan(shown)).sum(axis=0) < LEAST_SHOWN) | ~(np.nanmax(shown, axis=0) > np.nanmin(shown, axis=0))
    return np.where(poor, x, shown)


def chances(push: np.ndarray, share: float) -> np.ndarray:
    """1 / (1 + exp(−a − push)), with a for each column such that their mean is `share`, by bisection."""
    low, high = np.full(push.shape[1], -50.0), np.full(push.shape[1], 50.0)
    for _ in range(60):
        middle = (low + high) / 2
        more = (1 / (1 + np.exp(-middle - push))).mean(axis=0) < share
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return 1 / (1 + np.exp(-low - push))
