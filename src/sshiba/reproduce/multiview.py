"""Table D: attributes of the seven people from their pictures, without and with their identity as a third view."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import train_test_split

from .. import datasets
from .cells import SEED, Cell, Result
from .labels import scored
from .methods import BASELINES, METHODS, OURS, Task

VIEWS = ("two views", "three views, identity unknown", "three views, identity known")
N_COMPONENTS, QUICK_FACTORS = 200, 40


def cells(quick: bool) -> Iterator[Cell]:
    """Methods without views take identity as inputs, so that they must know it of the test rows, too."""
    for views in VIEWS:
        for method in METHODS:
            if method == "BIBFA" or (method not in OURS and views.endswith("unknown")):
                continue
            options, cost = {"views": views, "method": method, "quick": quick}, 100 if method in OURS else 60
            yield Cell("multiview", options, cost, is_baseline=method in BASELINES)


def compute(cell: Cell, before: Result | None = None) -> Result:
    quick, views = cell.options["quick"], cell.options["views"]
    data = datasets.load_faces()
    pixels = data.views["pixels"].to_numpy(float)
    person = data.views["person"].cat.codes.to_numpy().astype(int)
    attributes = data.views["attributes"].to_numpy()
    if quick:
        pixels = pixels.reshape(-1, 20, 3, 20, 2).mean(axis=(2, 4)).reshape(len(pixels), -1)  # 20 x 20 pixels
    rows = np.arange(len(pixels))
    train, test = train_test_split(rows, train_size=0.7, stratify=person, random_state=SEED)
    task = Task(
        {"pixels": pixels[train]},
        {"pixels": pixels[test]},
        attributes[train],
        attributes.shape[1],
        QUICK_FACTORS if quick else N_COMPONENTS,
        {} if views == "two views" else {"person": person[train]},
        {"person": person[test]} if views.endswith("identity known") else {},
    )
    return scored(METHODS[cell.options["method"]](task, quick), attributes[test])
