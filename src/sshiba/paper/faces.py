"""Feature selection on faces: latent faces, relevance masks, and the AUC of models refitted on fewer pixels.

Pixels are ranked by relevance, 1 / E[gamma], as in the paper; by influence on the labels; and, for control, at random.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import train_test_split

from .. import SSHIBA, datasets
from ..evaluate import auc_mc
from .experiment_cells import SEED, Cell, Result
from .methods import DEFAULTS, PAPER, model_options, of_all_classes, view_types

TARGETS = ("identity", "attributes")
SETTINGS = {PAPER: "paper", DEFAULTS: "defaults"}  # and their names in files
MASKS = ("relevance", "influence")
RANKINGS = (*MASKS, "random")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75)
QUICK_SHARES = (0.02, 0.1, 0.4)
N_COMPONENTS = {"identity": 100, "attributes": 200}
QUICK_FACES, QUICK_FACTORS = 1000, 40
N_LATENT = 24  # latent faces that are kept for the picture


def cells(quick: bool) -> Iterator[Cell]:
    """The model of all pixels first; the others need its ranking."""
    for target, settings in itertools.product(TARGETS, SETTINGS):
        cost = 1000.0 if target == "attributes" else 100.0
        fixed = {"target": target, "settings": settings, "quick": quick}
        whole = Cell("faces", {**fixed, "ranking": "", "share": 1.0}, cost)
        yield whole
        for ranking in RANKINGS:
            for share in QUICK_SHARES if quick else SHARES:
                yield Cell("faces", {**fixed, "ranking": ranking, "share": share}, cost * share, after=whole)


def faces(target: str, quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels, labels, and which rows are for training: 70 %, of each person where identity is asked."""
    data = datasets.load_faces() if target == "identity" else datasets.load_face_attributes()
    pixels = data.views["pixels"].to_numpy(np.float32)
    if target == "identity":
        labels = data.views["person"].cat.codes.to_numpy().astype(int)
    else:
        labels = data.views["attributes"].to_numpy()
    groups = labels if target == "identity" else None
    rows = np.arange(len(pixels))
    if quick:
        rows, _ = train_test_split(rows, train_size=QUICK_FACES, stratify=groups, random_state=SEED)
    stratify = None if groups is None else groups[rows]
    train, _ = train_test_split(rows, train_size=0.7, stratify=stratify, random_state=SEED)
    is_train = np.isin(rows, train)
    return pixels[rows], labels[rows], is_train


def compute(cell: Cell, before: Result | None = None) -> Result:
    target, settings, quick = cell.options["target"], cell.options["settings"], cell.options["quick"]
    pixels, labels, is_train = faces(target, quick)
    kept = np.arange(pixels.shape[1])
    if before is not None:
        n = max(1, round(cell.options["share"] * pixels.shape[1]))
        kept = np.sort(ranked(cell.options["ranking"], before)[:n])
    n_init = 3 if target == "identity" and before is None and not quick else 1
    model, paths = fit(pixels[is_train][:, kept], labels[is_train], target, settings, quick, n_init)
    scores = np.asarray(model.predict_proba({"pixels": pixels[~is_train][:, kept]}, "labels"))
    if target == "identity":
        scores = of_all_classes(scores, model.classes_["labels"], int(labels.max()) + 1)
    auc = auc_mc(labels[~is_train], scores)
    numbers = {"auc": auc.value, "left_out": auc.n_left_out, "size": model.n_components_, "n_pixels": len(kept)}
    numbers |= {"sweeps": model.n_iter_, "converged": model.converged_}
    if before is not None:
        return Result(numbers, {"kept": kept})
    order = np.argsort(-model.factor_relevance_["pixels"])[:N_LATENT]
    arrays = {
        "relevance": model.feature_relevance_["pixels"],
        "influence": model.influence("labels")["pixels"].to_numpy(),
        "latent_faces": (model.weights_["pixels"][:, order] / pixels[is_train].std(axis=0)[:, None]).astype(np.float32),
        "alpha": 1 / model.factor_relevance_["pixels"][order],
        "r2": model.r2_.to_numpy(),
    }
    return Result(numbers, arrays | {f"elbo_{i}": np.array(path) for i, path in enumerate(paths)})


def ranked(ranking: str, whole: Result) -> np.ndarray:
    """All pixels, the best first."""
    if ranking == "random":
        return np.random.default_rng(SEED).permutation(len(whole.arrays["relevance"]))
    return np.argsort(-whole.arrays[ranking], kind="stable")


def fit(
    pixels: np.ndarray, labels: np.ndarray, target: str, settings: str, quick: bool, n_init: int
) -> tuple[SSHIBA, list[list[float]]]:
    paths: list[list[float]] = [[] for _ in range(n_init)]
    inputs, outputs = view_types(settings, target == "identity", select_features=True)
    model = SSHIBA(
        QUICK_FACTORS if quick else N_COMPONENTS[target],
        {"pixels": inputs, "labels": outputs},
        n_init=n_init,
        dtype="float32",
        random_state=SEED,
        callback=lambda progress: paths[progress.restart].append(progress.elbo),
        **model_options(settings),
    )
    return model.fit({"pixels": pixels, "labels": labels}), paths
