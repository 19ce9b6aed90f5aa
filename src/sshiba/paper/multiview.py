"""Table D: attributes of the seven people from their pictures, without and with their identity as a third view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from sklearn.model_selection import train_test_split

from .. import datasets
from .experiment_cells import SEED, Cell, Result
from .labels import scored
from .methods import BASELINES, METHODS, OURS, Answer, Task, label_scores

TWO, UNKNOWN, KNOWN = VIEWS = ("two views", "three views, identity unknown", "three views, identity known")
N_COMPONENTS, QUICK_FACTORS = 200, 40


def cells(quick: bool) -> Iterator[Cell]:
    """One fit of ours to three views answers with and without the test rows' identity; others need it as inputs."""
    for method in METHODS:
        if method == "BIBFA":
            continue
        kept = {"method": method, "quick": quick}
        cost, is_baseline = 100 if method in OURS else 60, method in BASELINES
        yield Cell("multiview", {"views": TWO, **kept}, cost, is_baseline=is_baseline)
        fitted = None
        if method in OURS:
            fitted = Cell("multiview", {"views": UNKNOWN, **kept}, cost)
            yield fitted
        yield Cell("multiview", {"views": KNOWN, **kept}, cost if fitted is None else 1, fitted, is_baseline)


def load() -> datasets.Dataset:
    data = datasets.load_faces()
    if "attributes" not in data.views:
        raise datasets.DatasetError(
            f"the fetched faces have no attributes: put lfw7_60x40.npz into a folder and set {datasets.FOLDER} to it."
        )
    return data


def compute(cell: Cell, before: Result | None = None) -> Result:
    quick, views = cell.options["quick"], cell.options["views"]
    data = load()
    pixels = data.views["pixels"].to_numpy(float)
    person = data.views["person"].cat.codes.to_numpy().astype(int)
    attributes = data.views["attributes"].to_numpy()
    if quick:
        pixels = pixels.reshape(-1, 20, 3, 20, 2).mean(axis=(2, 4)).reshape(len(pixels), -1)  # 20 x 20 pixels
    rows = np.arange(len(pixels))
    train, test = train_test_split(rows, train_size=0.7, stratify=person, random_state=SEED)
    if before is not None:
        told = scored(Answer(before.arrays["known"]), attributes[test])
        return Result({**before.numbers, "auc": told.numbers["auc"]})
    task = Task(
        {"pixels": pixels[train]},
        {"pixels": pixels[test]},
        attributes[train],
        attributes.shape[1],
        QUICK_FACTORS if quick else N_COMPONENTS,
        {} if views == TWO else {"person": person[train]},
        {"person": person[test]} if views == KNOWN else {},
    )
    answer = METHODS[cell.options["method"]](task, quick)
    result = scored(answer, attributes[test])
    if views == UNKNOWN:
        assert answer.model is not None
        assert answer.task is not None
        result.arrays["known"] = label_scores(answer.model, replace(answer.task, extra_test={"person": person[test]}))
    return result
