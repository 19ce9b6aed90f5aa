"""One imputer at work, in an interpreter of its own: python benchmarks/imputers.py NAME FOLDER.

`benchmarks/imputation.py` writes problems into the folder, NAME-1.npz and so on, and reads the answers from beside
them. Nothing but NumPy, pandas and the imputer is needed here. Each problem is solved in a process of its own, so that
its peak of memory is its own; seconds are of the processor, of the filled table alone, after a small table was filled.

A table is an array of numbers with NaN where a cell is missing, and the kind of each column: "number", "yes/no",
"label" (coded 0, 1, ...; no order) and "level" (coded, ordered). An answer has the filled table, where the imputer says
so the ends of intervals of 90 % of numbers, and of coded columns the probability of each code.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

INSIDE = 0.9
Z = 1.6449  # of the normal distribution: INSIDE within ±Z
N_DRAWS, N_TABLES = 10, 5  # of cheap imputers, and of a dear one
STUDENT = {10: 1.8331, 5: 2.1318}  # the same of Student's t with one degree less than there are draws


@dataclass
class Answer:
    """The filled table; `lower` and `upper` of numbers, and probabilities by the place of a column."""

    filled: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    probabilities: dict[int, np.ndarray] = field(default_factory=dict)


Say = Callable[[], Answer]  # fills again with intervals and probabilities, which is not timed
Solved = tuple[np.ndarray, Say]


# ------------------------------------------------------------------------------------------- a table of numbers only


class Dummies:
    """Columns of numbers, standardised; labels as a column for each code, or each but the last; levels as numbers.

    Of chained regressions the last must be left out: all columns of a missing label would else stay at their means,
    since each is told by the others.
    """

    def __init__(self, shown: np.ndarray, kinds: list[str], last: bool = True) -> None:
        self.kinds, self.shown, self.last = kinds, shown, last
        self.centre, self.scale = np.nanmean(shown, axis=0), np.nanstd(shown, axis=0)
        self.scale[self.scale == 0] = 1
        self.codes = {
            j: np.unique(shown[~np.isnan(shown[:, j]), j]) for j, kind in enumerate(kinds) if kind != "number"
        }

    def encode(self) -> np.ndarray:
        parts = []
        for j, kind in enumerate(self.kinds):
            x = self.shown[:, j : j + 1]
            if kind == "label":
                codes = self.codes[j] if self.last else self.codes[j][:-1]
                parts.append(np.where(np.isnan(x), np.nan, (x == codes).astype(float)))
            else:
                parts.append((x - self.centre[j]) / self.scale[j])
        return np.hstack(parts)

    def decode(self, filled: np.ndarray) -> np.ndarray:
        """Labels are the code of the largest column, levels and yes/no the nearest code."""
        out = np.empty_like(self.shown)
        for j, part in self._parts(filled):
            if self.kinds[j] == "label":
                out[:, j] = self.codes[j][part.argmax(axis=1)]
                continue
            value = part[:, 0] * self.scale[j] + self.centre[j]
            if self.kinds[j] != "number":
                value = self.codes[j][np.abs(value[:, None] - self.codes[j]).argmin(axis=1)]
            out[:, j] = value
        return np.where(np.isnan(self.shown), out, self.shown)

    def probabilities(self, filled: np.ndarray) -> dict[int, np.ndarray]:
        """Of labels and yes/no: the columns of codes, cut to [0.01, 0.99]."""
        found = {}
        for j, part in self._parts(filled):
            if self.kinds[j] == "label":
                p = np.clip(part, 0.01, 0.99)
            elif self.kinds[j] == "yes/no":
                yes = np.clip(part[:, 0] * self.scale[j] + self.centre[j], 0.01, 0.99)
                p = np.column_stack([1 - yes, yes])
            else:
                continue
            found[j] = spread(p / p.sum(axis=1, keepdims=True), self.codes[j] if self.kinds[j] == "label" else [0, 1])
        return found

    def _parts(self, filled: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """The columns that a column has become; of labels those of all codes."""
        sizes = [len(self.codes[j]) - (not self.last) if kind == "label" else 1 for j, kind in enumerate(self.kinds)]
        found = []
        for j, (size, end) in enumerate(zip(sizes, np.cumsum(sizes))):
            part = filled[:, end - size : end]
            if self.kinds[j] == "label" and not self.last:
                part = np.column_stack([part, 1 - part.sum(axis=1)])
            found.append((j, part))
        return found

    def answer(self, filled: np.ndarray, draws: list[np.ndarray] | None = None) -> Answer:
        answer = Answer(self.decode(filled), probabilities=self.probabilities(filled))
        if draws:
            answer.lower, answer.upper = interval([self.numbers(draw) for draw in draws])
        return answer

    def numbers(self, filled: np.ndarray) -> np.ndarray:
        """In the units of the table; of labels it means nothing."""
        return np.column_stack([part[:, 0] for _, part in self._parts(filled)]) * self.scale + self.centre


def spread(p: np.ndarray, codes: Any) -> np.ndarray:
    """Probabilities with a column for each number up to the largest code."""
    out = np.zeros((len(p), int(max(codes)) + 1))
    out[:, np.asarray(codes, dtype=int)] = p
    return out


def interval(draws: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The interval that holds one more draw of a normal distribution with probability INSIDE."""
    stack = np.stack(draws)
    half = STUDENT[len(draws)] * stack.std(axis=0, ddof=1) * np.sqrt(1 + 1 / len(draws))
    return stack.mean(axis=0) - half, stack.mean(axis=0) + half


def shares(draws: list[np.ndarray], shown: np.ndarray, kinds: list[str]) -> dict[int, np.ndarray]:
    """Of coded columns: how often each code was drawn, with one more draw shared out by their frequencies."""
    found = {}
    for j, kind in enumerate(kinds):
        if kind == "number":
            continue
        seen = shown[~np.isnan(shown[:, j]), j].astype(int)
        frequency = np.bincount(seen) / len(seen)
        drawn = np.stack([draw[:, j] for draw in draws])
        counts = (drawn[:, :, None] == np.arange(len(frequency))).sum(axis=0)
        found[j] = (counts + frequency) / (len(draws) + 1)
    return found


# ----------------------------------------------------------------------------------------------------- the imputers


def mean_and_mode(shown: np.ndarray, kinds: list[str]) -> Solved:
    guess = np.nanmean(shown, axis=0)
    probabilities = {}
    for j, kind in enumerate(kinds):
        if kind == "number":
            continue
        seen = shown[~np.isnan(shown[:, j]), j].astype(int)
        frequency = np.bincount(seen) / len(seen)
        guess[j] = np.median(seen) // 1 if kind == "level" else frequency.argmax()
        probabilities[j] = np.tile(frequency, (len(shown), 1))
    filled = np.where(np.isnan(shown), guess, shown)
    half = Z * np.nanstd(shown, axis=0)
    ends = (np.broadcast_to(guess - half, shown.shape), np.broadcast_to(guess + half, shown.shape))
    return filled, lambda: Answer(filled, *ends, probabilities)


def knn(shown: np.ndarray, kinds: list[str]) -> Solved:
    """With the number of neighbours that fills a tenth of the cells best: the default, five, is often too few."""
    from sklearn.impute import KNNImputer

    table = Dummies(shown, kinds)
    x = table.encode()
    again = ~np.isnan(x) & (np.random.default_rng(0).random(x.shape) < 0.1)
    fewer = np.where(again, np.nan, x)

    def fill(x: np.ndarray, n: int) -> np.ndarray:
        return KNNImputer(n_neighbors=n, weights="distance", keep_empty_features=True).fit_transform(x)

    best = min((5, 10, 20, 40), key=lambda n: float(((fill(fewer, n) - x)[again] ** 2).mean()))
    filled = fill(x, best)
    return table.decode(filled), lambda: table.answer(filled)


def iterative(shown: np.ndarray, kinds: list[str]) -> Solved:
    """BayesianRidge in turns; intervals from draws of its posterior."""
    table = Dummies(shown, kinds, last=False)
    x = table.encode()
    filled = chained(x).fit_transform(x)

    def say() -> Answer:
        drawing = chained(x, sample_posterior=True).fit(x)
        return table.answer(filled, [drawing.transform(x) for _ in range(N_DRAWS)])

    return table.decode(filled), say


def extra_trees(shown: np.ndarray, kinds: list[str]) -> Solved:
    """The way of missForest, with ExtraTrees: 30 trees a column, up to 5 rounds."""
    from sklearn.ensemble import ExtraTreesRegressor

    table = Dummies(shown, kinds, last=False)
    trees = ExtraTreesRegressor(n_estimators=30, min_samples_leaf=2, max_features=0.5, random_state=0)
    x = table.encode()
    filled = chained(x, estimator=trees, max_iter=5, tol=1e-2).fit_transform(x)
    return table.decode(filled), lambda: table.answer(filled)


def chained(x: np.ndarray, **options: Any) -> Any:
    """Kept inside what was seen: without that it at times runs away from round to round."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    ends = {"min_value": np.nanmin(x, axis=0), "max_value": np.nanmax(x, axis=0)}
    return IterativeImputer(**ends, random_state=0, keep_empty_features=True, **options)


def sshiba(shown: np.ndarray, kinds: list[str]) -> Solved:
    """With its defaults: a frame whose dtypes say what the columns are."""
    from sshiba.sklearn import SSHIBAImputer

    columns = {}
    for j, kind in enumerate(kinds):
        x = pd.Series(shown[:, j])
        if kind == "yes/no":
            x = x.astype("boolean")
        elif kind != "number":
            x = x.astype(pd.CategoricalDtype(np.unique(x.dropna()), ordered=kind == "level"))
        columns[str(j)] = x
    frame = pd.DataFrame(columns)
    imputer = SSHIBAImputer(random_state=0).fit(frame)
    filled = imputer.transform(frame).astype(float).to_numpy()

    def say() -> Answer:
        model, views = imputer.model_, imputer.columns_.split(frame)
        places, probabilities = imputer.columns_.places, {}
        _, deviations = model.impute(views, return_std=True)
        std = np.zeros_like(shown)
        for name, own in places.items():
            if all(kinds[j] == "number" for j in own):
                std[:, own] = np.asarray(deviations[name], dtype=float).reshape(len(shown), -1)
                continue
            p = model.predict_proba(views, name, use_target=True)
            for place, j in enumerate(own):
                if kinds[j] == "yes/no":
                    yes = np.asarray(p, dtype=float).reshape(len(shown), -1)[:, place]
                    probabilities[j] = np.column_stack([1 - yes, yes])
                else:
                    one = p[str(j)] if p.columns.nlevels == 2 else p
                    codes = np.unique(shown[~np.isnan(shown[:, j]), j])
                    probabilities[j] = spread(np.asarray(one, dtype=float), codes)
        return Answer(filled, filled - Z * std, filled + Z * std, probabilities)

    return filled, say


def gcimpute(shown: np.ndarray, kinds: list[str]) -> Solved:
    """A Gaussian copula with the types that it finds or, where it then fails, is told; labels by their codes.

    It knows no labels without an order, and a yes/no column for each code makes its correlations singular. Where
    there are more columns than rows it fails, and so does its low-rank form.
    """
    vars(np)["round_"] = np.round  # which it needs, and NumPy 2 no longer has
    from gcimpute.gaussian_copula import GaussianCopula

    model = GaussianCopula()
    try:
        filled = np.asarray(model.fit_transform(X=shown))
    except (ValueError, AssertionError):
        places: dict[str, list[int]] = {}
        for j, kind in enumerate(kinds):
            places.setdefault("continuous" if kind == "number" else "ordinal", []).append(j)
        model = GaussianCopula()
        filled = np.asarray(model.fit_transform(X=shown, **places))

    def say() -> Answer:
        ends = model.get_confidence_interval(alpha=INSIDE)
        draws = []
        if any(kind != "number" for kind in kinds):
            draws = list(np.moveaxis(model.sample_imputation(shown, num=N_DRAWS), 2, 0))
        return Answer(filled, ends["lower"], ends["upper"], shares(draws, shown, kinds) if draws else {})

    return filled, say


def miceforest(shown: np.ndarray, kinds: list[str]) -> Solved:
    """Five tables drawn by chained LightGBM, three rounds: their means, and the codes drawn most often.

    Codes are drawn by their probabilities ("fast"): matched by log odds, as is its default, rare ones make it fail.
    """
    import miceforest

    columns = {f"c{j}": pd.Series(shown[:, j]) for j in range(len(kinds))}
    coded = [j for j, kind in enumerate(kinds) if kind != "number"]
    columns |= {f"c{j}": columns[f"c{j}"].astype("category") for j in coded}
    ways = {name: "fast" if int(name[1:]) in coded else "normal" for name in columns}
    frame = pd.DataFrame(columns)
    kernel = miceforest.ImputationKernel(frame, num_datasets=N_TABLES, mean_match_strategy=ways, random_state=0)
    kernel.mice(3, num_threads=1, verbose=False)
    draws = [kernel.complete_data(i).astype(float).to_numpy() for i in range(N_TABLES)]
    probabilities = shares(draws, shown, kinds)
    filled = np.mean(draws, axis=0)
    for j, p in probabilities.items():
        filled[:, j] = np.where(np.isnan(shown[:, j]), p.argmax(axis=1), shown[:, j])
    return filled, lambda: Answer(filled, *interval(draws), probabilities)


def hyperimpute(shown: np.ndarray, kinds: list[str]) -> Solved:
    """Its own method, which chooses a model for each column."""
    from hyperimpute.plugins.imputers import Imputers

    table = Dummies(shown, kinds)
    x = pd.DataFrame(shown, columns=[f"c{j}" for j in range(len(kinds))])
    found = np.asarray(Imputers().get("hyperimpute", random_state=0).fit_transform(x.copy()), dtype=float)
    out = np.where(np.isnan(shown), found, shown)
    for j, codes in table.codes.items():
        out[:, j] = codes[np.abs(out[:, j : j + 1] - codes).argmin(axis=1)]
    return out, lambda: Answer(out)


IMPUTERS: dict[str, Callable[[np.ndarray, list[str]], Solved]] = {
    "mean / mode": mean_and_mode,
    "KNN": knn,
    "BayesianRidge": iterative,
    "ExtraTrees": extra_trees,
    "SSHIBA": sshiba,
    "gcimpute": gcimpute,
    "miceforest": miceforest,
    "hyperimpute": hyperimpute,
}

MODULES = {"SSHIBA": "sshiba.sklearn", "gcimpute": "scipy", "miceforest": "miceforest", "hyperimpute": "hyperimpute"}


# ------------------------------------------------------------------------------------------------------- at work


def warm_up(name: str) -> None:
    """Small tables of numbers, yes/no, labels and levels, and of numbers and yes/no alone, whose cells are inferred
    together, so that what is compiled or imported late is there.
    """
    rng = np.random.default_rng(0)
    z = rng.standard_normal(60)
    columns = [z, z + rng.standard_normal(60), z > 0, np.digitize(z, [-0.5, 0.5]), np.digitize(z, [-0.7, 0.3])]
    kinds = ["number", "number", "yes/no", "label", "level"]
    for own, own_kinds in ((columns, kinds), ([*columns[:3], z > 0.5], [*kinds[:3], "yes/no"])):
        table = np.column_stack(own).astype(float)
        IMPUTERS[name](np.where(rng.random(table.shape) < 0.1, np.nan, table), own_kinds)


def solve(name: str, problem: Path) -> None:
    """Write the answer beside the problem: NAME-1.answer.npz, and what it took, NAME-1.json, last."""
    warnings.simplefilter("ignore")
    warm_up(name)
    with np.load(problem) as file:
        shown, kinds = file["shown"], file["kinds"].tolist()
    before, began = peak(), time.process_time()
    filled, say = IMPUTERS[name](shown, kinds)
    seconds, memory = time.process_time() - began, peak() - before
    answer = say()
    arrays = {f"p{j}": p for j, p in answer.probabilities.items()}
    if answer.lower is not None and answer.upper is not None:
        arrays |= {"lower": answer.lower, "upper": answer.upper}
    np.savez(problem.with_suffix(".answer.npz"), filled=answer.filled, **arrays)
    problem.with_suffix(".json").write_text(json.dumps({"seconds": seconds, "megabytes": memory}))


def peak() -> float:
    """The most memory that this process had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(name: str, folder: Path, limit: float) -> None:
    """A process for each problem; one that takes longer than `limit` seconds on the clock is ended."""
    importlib.import_module(MODULES.get(name, "sklearn.impute"))  # once for all processes
    here = multiprocessing.get_context("fork")
    for problem in sorted(folder.glob("*.problem.npz"), key=os.path.getmtime):
        worker = here.Process(target=solve, args=(name, problem))
        worker.start()
        worker.join(limit)
        if worker.is_alive():
            worker.terminate()
            worker.join()
            problem.with_suffix(".json").write_text(json.dumps({"failure": f"more than {limit:g} s"}))
        elif worker.exitcode:
            problem.with_suffix(".json").write_text(json.dumps({"failure": f"exit code {worker.exitcode}"}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
