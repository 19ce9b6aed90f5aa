"""From finished cells to tables: the paper's figures beside ours, and the goals with a tick or a cross."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .experiment_cells import Cell, Result, write_whole
from .methods import DEFAULTS
from .paper import Reported

Found = Mapping[str, tuple[Cell, Result]]  # cell name -> cell and result
WITHIN = 0.01
EMPTY = "·"
CUT = " †"  # stopped at the limit of sweeps
ALONE = "defaults alone"


@dataclass(frozen=True)
class Score:
    """The mean over cells (five of them in a 20 % column), its spread, the mean size; did every fit converge?"""

    auc: float
    std: float | None = None
    size: float | None = None
    left_out: int = 0
    converged: bool = True

    def __str__(self) -> str:
        text = f"{self.auc:.3f}"
        text += "" if self.std is None else f" ± {self.std:.3f}"
        text += "" if self.size is None else f" ({self.size:.0f})"
        return text if self.converged else text + CUT


@dataclass(frozen=True)
class Goal:
    """One figure to reach: ours against the paper's and against the best baseline of the same run.

    `defaults` is what SSHIBA() reaches, without a choice of options.
    """

    what: str
    ours: float
    our_row: str
    defaults: float | None
    paper: float | None
    baseline: float | None
    baseline_row: str = ""
    converged: bool = True

    def reaches_paper(self, auc: float) -> bool | None:
        return None if self.paper is None else auc >= self.paper

    def reaches_baseline(self, auc: float) -> bool | None:
        return None if self.baseline is None else auc >= self.baseline - WITHIN

    def cells(self) -> dict[str, str]:
        ours, alone = f"{self.ours:.3f} ({self.our_row})" + ("" if self.converged else CUT), ""
        if self.defaults is not None:
            both = (self.reaches_paper(self.defaults), self.reaches_baseline(self.defaults))
            alone = f"{self.defaults:.3f} {mark(False not in both)}"
        paper, baseline = self.reaches_paper(self.ours), self.reaches_baseline(self.ours)
        return {
            "figure": self.what,
            "SSHIBA": ours,
            ALONE: alone,
            "paper": "" if paper is None else f"{self.paper:.2f} {mark(paper)}",
            "best baseline": "" if baseline is None else f"{self.baseline:.3f} ({self.baseline_row}) {mark(baseline)}",
        }


def mark(reached: bool) -> str:
    return "✓" if reached else "✗"


@dataclass(frozen=True)
class Table:
    """A table as people read it, and the same as records."""

    name: str  # of its files
    title: str
    frame: pd.DataFrame  # text
    records: list[dict[str, Any]] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        records = self.records or self.frame.to_dict("records")
        texts = {
            "md": f"**{self.title}**\n\n{markdown(self.frame)}\n",
            "csv": pd.DataFrame(records).to_csv(index=False),
            "json": json.dumps(records, indent=1, ensure_ascii=False),
        }
        for ending, text in texts.items():
            write_whole(folder / f"{self.name}.{ending}", text.encode())


def markdown(frame: pd.DataFrame) -> str:
    lines = ["| " + " | ".join(map(str, frame.columns)) + " |", "|" + "---|" * frame.shape[1]]
    lines += ["| " + " | ".join(str(value) for value in row) + " |" for row in frame.itertuples(index=False)]
    return "\n".join(lines)


def score(results: Iterable[Result]) -> Score | None:
    """Together, the results of the cells of one place in a table; None where there are none yet."""
    found = [result.numbers for result in results]
    if not found:
        return None
    aucs = [numbers["auc"] for numbers in found]
    sizes = [numbers["size"] for numbers in found if numbers["size"] is not None]
    return Score(
        float(np.mean(aucs)),
        float(np.std(aucs, ddof=1)) if len(aucs) > 1 else None,
        float(np.mean(sizes)) if sizes else None,
        max(numbers["left_out"] for numbers in found),
        all(numbers.get("converged", True) for numbers in found),
    )


def pick(found: Found, **wanted: Any) -> list[Result]:
    """Results of the cells whose options are these; a function as a value is a test."""

    def fits(options: dict[str, Any]) -> bool:
        return all(test(options[k]) if callable(test) else options[k] == test for k, test in wanted.items())

    return [result for cell, result in found.values() if fits(cell.options)]


def grid(
    name: str,
    title: str,
    rows: Iterable[str],
    columns: Iterable[str],
    place: Callable[[str, str], Score | None],
    reported: Callable[[str, str], Reported | None],
) -> Table:
    """Methods by columns, the paper's figure beside each of ours."""
    lines, records = [], []
    for row in rows:
        line: dict[str, str] = {"": row}
        for column in columns:
            score, paper = place(row, column), reported(row, column)
            line[column] = EMPTY if score is None else str(score)
            line[f"{column}: paper"] = "" if paper is None else str(paper)
            if score is not None:
                record = {"table": name, "row": row, "column": column, "auc": score.auc, "std": score.std}
                record |= {"size": score.size, "labels_left_out": score.left_out, "converged": score.converged}
                records.append(record | {"paper": None if paper is None else paper.auc})
        lines.append(line)
    frame = pd.DataFrame(lines)
    return Table(name, title, frame.loc[:, [c for c in frame if c == "" or (frame[c] != "").any()]], records)


def goal(
    what: str, ours: Mapping[str, Score | None], others: Mapping[str, Score | None], paper: float | None
) -> list[Goal]:
    """The best of our rows against the best of the others; nothing where there is no row of ours yet."""
    mine = {row: score for row, score in ours.items() if score is not None}
    theirs = {row: score.auc for row, score in others.items() if score is not None}
    if not mine:
        return []
    best = max(mine, key=lambda row: mine[row].auc)
    defaults = max((score.auc for row, score in mine.items() if DEFAULTS in row), default=None)
    top = max(theirs, key=theirs.__getitem__) if theirs else ""
    return [Goal(what, mine[best].auc, best, defaults, paper, theirs.get(top), top, mine[best].converged)]


def goals_table(goals: Iterable[Goal]) -> Table:
    goals = list(goals)
    reached = [
        {"paper_reached": g.reaches_paper(g.ours), "baseline_reached": g.reaches_baseline(g.ours)} for g in goals
    ]
    records = [vars(g) | ticks for g, ticks in zip(goals, reached)]
    title = (
        f"Goals. A tick under 'paper': the best of our rows is at or above the paper's figure; under 'best baseline': "
        f"within {WITHIN} of it, or above; under '{ALONE}': the defaults are both"
    )
    return Table("goals", title, pd.DataFrame([g.cells() for g in goals]), records)
