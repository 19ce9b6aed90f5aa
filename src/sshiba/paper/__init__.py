"""The paper's experiments on the real data: `sshiba reproduce`."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import sklearn
from joblib import cpu_count
from rich.console import Console

from .. import __version__
from ..datasets import Dataset, load_aviris, load_face_attributes, load_faces, load_scene, load_yeast
from ..version import how_to_install
from . import faces, labels, missing, multiview
from .experiment_cells import SEED, Cell, Compute, Result, Store, run_cells
from .result_tables import Goal, goals_table
from .results_page import write_markdown, write_page
from .sections import SECTIONS, Section

__all__ = ["EXPERIMENTS", "Experiment", "reproduce"]

QUICK = ", quick form (one restart, the baselines' regularisation fixed, a part of the rows: not to be cited)"


@dataclass(frozen=True)
class Experiment:
    """The cells of an experiment (quick or not), how to compute one, and the data they need."""

    cells: Callable[[bool], Iterator[Cell]]
    compute: Compute
    needs: tuple[Callable[[], Dataset], ...]


EXPERIMENTS = {
    "yeast": Experiment(labels.yeast_cells, labels.compute, (load_yeast,)),
    "aviris": Experiment(labels.aviris_cells, labels.compute, (load_aviris,)),
    "missing": Experiment(missing.cells, missing.compute, (load_yeast, load_aviris, load_scene)),
    "faces": Experiment(faces.cells, faces.compute, (load_faces, load_face_attributes)),
    "multiview": Experiment(multiview.cells, multiview.compute, (multiview.load,)),
}


def reproduce(names: Sequence[str], quick: bool, n_jobs: int, out: Path, console: Console | None = None) -> int:
    """Compute the cells of some experiments that are not stored yet, then write all tables, pictures and the page.

    Parameters
    ----------
    names : of EXPERIMENTS
    quick : one restart, fixed regularisation of the baselines, fewer pixels and faces
    n_jobs : cells at a time
    out : folder; finished cells are kept in its "cells" and not computed again

    Returns
    -------
    How many cells failed; the page is OUT/index.html
    """
    console = console or Console()
    for module in ("matplotlib", "iterstrat"):
        if importlib.util.find_spec(module) is None:
            raise ImportError(f"sshiba reproduce needs the extra 'paper': {how_to_install('paper')}.")
    for load in {load: None for name in names for load in EXPERIMENTS[name].needs}:
        load()  # raises a DatasetError before any work is done
    store = Store(out / "cells")
    cells = [cell for name in names for cell in EXPERIMENTS[name].cells(quick)]
    try:
        return run_cells(cells, _compute, store, n_jobs, console)
    finally:
        page = write(out, store, quick)
        console.print(f"Tables, pictures and goals: {page}")


def _compute(cell: Cell, before: Result | None) -> Result:
    return EXPERIMENTS[cell.experiment].compute(cell, before)


def write(out: Path, store: Store, quick: bool) -> Path:
    """Tables, pictures and the page, from whatever is stored."""
    sections: list[Section] = []
    goals: list[Goal] = []
    seconds, n_done, n_cells = 0.0, 0, 0
    for name, experiment in EXPERIMENTS.items():
        cells = list(experiment.cells(quick))
        found = {cell.name: (cell, store.get(cell)) for cell in cells if cell in store}
        if not found:
            continue
        n_done, n_cells = n_done + len(found), n_cells + len(cells)
        seconds += sum(result.numbers["seconds"] for _, result in found.values())
        section = SECTIONS[name](found, out / "figures")
        sections.append(section)
        goals += section.goals
        for table in section.tables:
            table.write(out / "tables")
    summary = goals_table(goals)
    if goals:
        summary.write(out / "tables")
    words = about(seconds, n_done, n_cells, quick)
    page = write_page(out, sections, summary, words)
    write_markdown(out, sections, summary, words)
    return page


def about(seconds: float, n_done: int, n_cells: int, quick: bool) -> str:
    done = "" if n_done == n_cells else f"{n_done} of {n_cells} cells are done, and means and goals are of these; "
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    versions += f", scikit-learn {sklearn.__version__}"
    return (
        f"SSHIBA {__version__}{QUICK if quick else ''}; seed {SEED}; {done}the cells took {seconds / 60:.0f} minutes, "
        f"one after the other; drawn on {cpu_count()} cores ({platform.machine()}) with {versions}."
    )
