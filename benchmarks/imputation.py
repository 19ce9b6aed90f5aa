"""Imputers on real tables: what is hidden of them, filled by SSHIBAImputer and its peers.

    SSHIBA_DATA=... python benchmarks/imputation.py [--quick] [--python NAME=PATH ...] [--only NAME ...] [--show]

`--python miceforest=/path/to/python` names the interpreter of an imputer that is not installed here: gcimpute 0.0.4,
miceforest (with lightgbm < 4.6) and hyperimpute (with pandas < 3) each go into an environment of their own; without one
they are left out. Each result is stored as soon as it is there, under out/imputation, so the program can be stopped and
run again. `--show` prints the tables of what is stored, keeps it in benchmarks/results and draws the picture of the
documents.

Cells are hidden in three ways. At random: all alike. At random given other columns: a third of the columns is complete,
and the others lack cells the sooner, the larger a sum of these is. Not at random: the sooner, the larger they are
themselves. Tables of more than 1,000 rows are cut to 1,000 that are drawn.

RMSE: over hidden numbers, in standard deviations of their columns. SMAE: of each column of numbers or levels the
absolute error over that of the median, averaged. Accuracy is of yes/no, labels and levels, log loss of the first two in
tables without levels, coverage of intervals of 90 % of numbers. The error of a table is the RMSE of its numbers and the
share of wrong codes, each over that of mean / mode, averaged with the numbers of their hidden cells as weights.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from imputation_tables import TABLES, Table, hide
from rich.console import Console

from sshiba.paper.experiment_cells import Cell, Result, Store

HERE, MOST_SECONDS = Path(__file__).parent, 300.0
RESULTS = HERE / "results" / "imputation.json"
FAST = ("mean / mode", "KNN", "BayesianRidge", "SSHIBA", "gcimpute")  # on all problems
SLOW = ("ExtraTrees",)  # 30 % hidden
SLOWER = ("miceforest",)  # 30 % hidden at random
SLOWEST, SUBSET = "hyperimpute", ("iris", "wine", "diabetes", "heart")  # the same, on these tables
WAYS = ("at random", "given others", "not at random")
FIGURES = ["error", "rmse", "smae", "accuracy", "log_loss", "coverage", "off", "seconds", "megabytes"]
KEYS = ["table", "way", "share"]
BUILT_IN = ("mean / mode", "KNN", "BayesianRidge", "ExtraTrees", "SSHIBA")


def grid(quick: bool) -> Iterator[tuple[str, float, tuple[str, ...], tuple[str, ...]]]:
    """Way, share, imputers and tables: what matters most comes first."""
    if quick:
        yield WAYS[0], 0.3, FAST, ("iris", "diabetes", "heart")
        return
    yield WAYS[0], 0.3, FAST + SLOW + SLOWER, tuple(TABLES)
    for way, share in ((WAYS[1], 0.3), (WAYS[2], 0.3), (WAYS[0], 0.1), (WAYS[0], 0.5)):
        yield way, share, FAST, tuple(TABLES)
    yield WAYS[0], 0.3, (SLOWEST,), SUBSET
    for way in WAYS[1:]:
        yield way, 0.3, SLOW, tuple(TABLES)
    for way in WAYS[1:]:
        for share in (0.1, 0.5):
            yield way, share, FAST, tuple(TABLES)


def cell_of(table: str, imputer: str, way: str, share: float) -> Cell:
    options = {"table": table, "imputer": imputer, "way": way, "share": share}
    return Cell("imputation", options, is_baseline=imputer != "SSHIBA")


# ---------------------------------------------------------------------------------------------------------- scoring


def judge(table: Table, shown: np.ndarray, answer: dict[str, np.ndarray]) -> dict[str, float]:
    """All figures of one answer; those that do not apply are left out."""
    x, hidden, filled = table.values, np.isnan(shown) & ~np.isnan(table.values), answer["filled"]
    deviation, median = np.nanstd(shown, axis=0), np.nanmedian(shown, axis=0)
    found: dict[str, float] = {}
    squares, inside, widths, smae, right, losses = [], [], [], [], [], []
    for j, kind in enumerate(table.kinds):
        rows = hidden[:, j]
        truth, guess = x[rows, j], filled[rows, j]
        if not rows.any():
            continue
        usual = np.abs(truth - median[j]).sum()
        if kind in ("number", "level") and usual > 0:
            smae.append(np.abs(guess - truth).sum() / usual)
        if kind == "number":
            squares.append(((guess - truth) / deviation[j]) ** 2)
            if "lower" in answer:
                low, high = answer["lower"][rows, j], answer["upper"][rows, j]
                inside.append((low <= truth) & (truth <= high))
                widths.append((high - low) / deviation[j])
            continue
        right.append(guess == truth)
        if f"p{j}" in answer:
            codes, p = truth.astype(int), answer[f"p{j}"][rows]
            known = codes < p.shape[1]
            chance = np.where(known, p[np.arange(len(p)), np.where(known, codes, 0)], 0)
            losses.append(-np.log(np.clip(chance, 1e-3, 1)))
    for name, parts in (
        ("smae", [smae]),
        ("coverage", inside),
        ("width", widths),
        ("accuracy", right),
        ("log_loss", losses),
    ):
        if any(len(part) for part in parts):
            found[name] = float(np.concatenate(parts).mean())
    if squares:
        found["rmse"] = float(np.sqrt(np.concatenate(squares).mean()))
    return found | {"n_numbers": float(sum(map(len, squares))), "n_codes": float(sum(map(len, right)))}


# ---------------------------------------------------------------------------------------------------------- running


def run_group(imputer: str, python: str, cells: list[Cell], store: Store) -> None:
    """All problems of one imputer in one interpreter."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, problems = Path(scratch), {}
        for number, cell in enumerate(cells):
            table, own = TABLES[cell.options["table"]](), cell.options
            shown = hide(table, own["way"], own["share"])
            path = folder / f"{number:04d}.problem.npz"
            np.savez(path, shown=shown, kinds=np.array(table.kinds))
            problems[path] = (cell, table, shown)
        command = [python, str(HERE / "imputers.py"), imputer, str(folder), str(MOST_SECONDS)]
        subprocess.run(command, check=True, env=os.environ)
        for path, (cell, table, shown) in problems.items():
            took = json.loads(path.with_suffix(".json").read_text())
            if "failure" in took:
                print(f"{imputer}, {cell.options}: {took['failure']}", file=sys.stderr)
                store.put(cell, Result(took))
                continue
            with np.load(path.with_suffix(".answer.npz")) as file:
                store.put(cell, Result(took | judge(table, shown, dict(file))))


def run(pythons: dict[str, str], only: list[str], quick: bool, store: Store, minutes: float) -> None:
    """What is not stored yet; nothing more is begun after some minutes."""
    began = time.perf_counter()
    for way, share, imputers, tables in grid(quick):
        for imputer in imputers:
            if imputer not in pythons or (only and imputer not in only):
                continue
            cells = [cell_of(table, imputer, way, share) for table in tables]
            todo = [cell for cell in cells if cell not in store]
            if todo and time.perf_counter() - began < 60 * minutes:
                print(f"{way}, {100 * share:.0f} %: {imputer}, {len(todo)} tables", flush=True)
                run_group(imputer, pythons[imputer], todo, store)


# ---------------------------------------------------------------------------------------------------------- showing


def collect(quick: bool, store: Store) -> pd.DataFrame:
    """All stored results, a row each, with the error relative to that of mean / mode."""
    rows: list[dict[str, Any]] = []
    for way, share, imputers, tables in grid(quick):
        cells = [cell_of(table, imputer, way, share) for imputer in imputers for table in tables]
        rows += [cell.options | store.get(cell).numbers for cell in cells if cell in store]
    found = pd.DataFrame(rows)
    usual = found[found["imputer"] == "mean / mode"].set_index(KEYS)[["rmse", "accuracy"]]
    found = found.join(usual, on=KEYS, rsuffix="_usual")
    # Most imputers give no probabilities of levels, so a table with levels would not be the same cells for all.
    leveled = found["table"].isin([name for name, load in TABLES.items() if "level" in load().kinds])
    found.loc[leveled, "log_loss"] = np.nan
    # Where the mode is always right, as of a rare code that was never hidden, a share of its errors says nothing.
    numbers, codes = found["n_numbers"], found["n_codes"].where(found["accuracy_usual"] < 1, 0.0)
    ratio = (found["rmse"] / found["rmse_usual"]).fillna(0) * numbers
    wrong = ((1 - found["accuracy"]) / (1 - found["accuracy_usual"]).where(codes > 0)).fillna(0) * codes
    return found.assign(error=(ratio + wrong) / (numbers + codes))


def show(found: pd.DataFrame, console: Console) -> None:
    """Tables in Markdown: all figures, the error by way and share, and that of each table."""
    third, first = found["share"] == 0.3, found["way"] == WAYS[0]
    for title, part, imputers in (
        ("30 % hidden at random", found[third & first], (*FAST, *SLOW, *SLOWER)),
        ("30 % hidden, in all ways", found[third], (*FAST, *SLOW)),
        ("all problems", found, FAST),
    ):
        part = part[part["imputer"].isin(imputers)]
        n_given = part.groupby(KEYS)["imputer"].transform("size")
        part = part[n_given == part["imputer"].nunique()]  # problems that all of them were given
        errors = part.pivot_table(index=KEYS, columns="imputer", values="error")
        common = errors.dropna().index  # where none failed: else the means would be of different tables
        own = part.assign(off=(part["coverage"] - 0.9).abs()).set_index(KEYS).loc[common].groupby("imputer")
        mean = own[FIGURES].mean().assign(slowest=own["seconds"].max())
        mean.insert(0, "rank", errors.rank(axis=1, na_option="bottom").mean())
        said = f"{title}: ranks over {len(errors)} problems, means over the {len(common)} where none failed"
        console.print(f"\n{said}\n\n{markdown(mean.sort_values('rank'))}")
    ways = found[found["imputer"] != SLOWEST].pivot_table(index="imputer", columns=["way", "share"], values="error")
    ways.columns = [f"{way}, {100 * share:.0f} %" for way, share in ways.columns]
    console.print(f"\nerror by way and share\n\n{markdown(ways)}")
    for way in WAYS:
        part = found[third & (found["way"] == way)]
        errors = part.pivot_table(index="table", columns="imputer", values="error")
        console.print(f"\n{way}, 30 %\n\n{markdown(errors)}")
    few = found[third & first & found["table"].isin(SUBSET)].groupby("imputer")[["error", "seconds"]].mean()
    console.print(f"\nthe tables that {SLOWEST} had\n\n{markdown(few)}")


def markdown(table: pd.DataFrame) -> str:
    lines = [["", *map(str, table.columns)], ["---"] * (table.shape[1] + 1)]
    lines += [
        [str(name), *("" if np.isnan(x) else f"{x:.3g}" for x in row)]
        for name, row in zip(table.index, table.to_numpy())
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing more after these")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    pythons = dict.fromkeys(BUILT_IN, sys.executable) | dict(text.split("=", 1) for text in options.python)
    store, console = Store(Path("out")), Console(width=250, soft_wrap=True)
    if not options.show:
        run(pythons, options.only, options.quick, store, options.minutes)
    found = collect(options.quick, store)
    show(found, console)
    if options.show:
        from imputation_picture import draw

        draw(found)
        kept = [row.dropna().to_dict() for _, row in found.drop(columns=["rmse_usual", "accuracy_usual"]).iterrows()]
        lines = ",\n".join(
            json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}) for row in kept
        )
        RESULTS.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
