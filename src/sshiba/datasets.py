"""Real data sets: from the folder named by SSHIBA_DATA, or their public originals through scikit-learn's fetchers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

FOLDER = "SSHIBA_DATA"
FACE_SHAPE = (60, 40)
N_YEAST_TRAIN, N_SCENE_TRAIN = 1500, 1211  # the official splits: these rows come first


class DatasetError(RuntimeError):
    """A data set is neither in the folder nor to be fetched; says what to do."""


@dataclass(frozen=True, repr=False)
class Dataset:
    """Views of the same rows, ready for `SSHIBA.fit`."""

    views: dict[str, Any]  # DataFrames and Series with one index
    is_train: np.ndarray | None = None  # the official split, where there is one
    image_shape: tuple[int, int] | None = None  # of the views that are pictures
    source: str = ""

    def __repr__(self) -> str:
        shapes = [f"{name} {' x '.join(f'{n:,}' for n in view.shape)}" for name, view in self.views.items()]
        return f"Dataset({', '.join(shapes)}; {self.source or 'no source'})"


def load_yeast() -> Dataset:
    """2,417 genes: 103 real features and 14 functional classes (Elisseeff and Weston; Mulan's split 1,500 / 917)."""
    return _load("yeast", _multilabel, lambda: _fetch_multilabel(40597, N_YEAST_TRAIN))


def load_scene() -> Dataset:
    """2,407 pictures: 294 real features and 6 kinds of scene (Boutell et al.; Mulan's split 1,211 / 1,196)."""
    return _load("scene", _multilabel, lambda: _fetch_multilabel(40595, N_SCENE_TRAIN))


def load_aviris() -> Dataset:
    """Indian Pines: 145 x 145 pixels, 200 bands, the crop on each pixel or "background" (Baumgardner et al.)."""
    return _load("indian_pines_200", _aviris)


def load_faces() -> Dataset:
    """Labeled Faces in the Wild, the 7 people with most pictures: 60 x 40 pixels, person, 73 attributes.

    Fetched, they come without attributes.
    """
    return _load("lfw7_60x40", _seven_people, _fetch_faces)


def load_face_attributes() -> Dataset:
    """All 13,143 faces that have attributes: 60 x 40 pixels, person, 73 attributes (Kumar et al.)."""
    return _load("lfw_deepfunneled_60x40", _all_faces)


def load_cll() -> Dataset:
    """200 patients with chronic lymphocytic leukaemia: mRNA, methylation, drugs, mutations (Dietrich et al.)."""
    return _load("cll", _cll)


def load_nutrimouse() -> Dataset:
    """40 mice: 120 genes, 21 lipids, diet and genotype (Martin et al.)."""
    return _load("nutrimouse", _nutrimouse)


def load_heart() -> Dataset:
    """303 patients of the Cleveland heart study: numbers, categories, the diagnosis (Detrano et al.)."""
    return _load("tab_heart_cleveland", _heart)


def load_news() -> Dataset:
    """395 news stories by Reuters: how often each of 4,258 words occurs; rows are the titles."""
    return _load("reuters", _news)


def load_patients() -> pd.DataFrame:
    """569 patients with a breast mass: ten measurements of cell nuclei, and the diagnosis; one table, with gaps.

    The Wisconsin data that come with scikit-learn. A tenth of the measurements and a third of the diagnoses are removed
    at random, always the same ones. `examples/patients.csv` holds the same table.
    """
    from sklearn.datasets import load_breast_cancer

    data, rng = load_breast_cancer(as_frame=True), np.random.default_rng(0)
    table = data.data.filter(like="mean ").rename(columns=lambda name: name.removeprefix("mean "))
    table = table.mask(rng.random(table.shape) < 0.1)
    table["diagnosis"] = data.target.map(dict(enumerate(data.target_names))).mask(rng.random(len(table)) < 1 / 3)
    table.index = pd.Index([f"p{i:03d}" for i in range(1, len(table) + 1)], name="patient")
    return table


# ------------------------------------------------------------------------------------------------------- finding


def _load(
    name: str, parse: Callable[[dict[str, np.ndarray]], Dataset], fetch: Callable[[], Dataset] | None = None
) -> Dataset:
    folder = os.environ.get(FOLDER)
    path = Path(folder or ".") / f"{name}.npz"
    if folder and path.is_file():
        try:
            with np.load(path, allow_pickle=False) as file:
                return parse({key: file[key] for key in file.files})
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise DatasetError(f"{path} is not the data set it is named after ({error}); replace it.") from error
    where = f"put {name}.npz into a folder and set {FOLDER} to it"
    missing = f"{path} does not exist" if folder else f"{FOLDER} is not set"
    if fetch is None:
        raise DatasetError(f"{missing}, and this data set cannot be fetched: {where}.")
    try:
        return fetch()
    except (OSError, ValueError) as error:
        raise DatasetError(f"{missing}, and fetching the original failed ({error}): {where}.") from error


# ------------------------------------------------------------------------------------------------------- parsing


def _multilabel(data: dict[str, np.ndarray]) -> Dataset:
    features = pd.DataFrame(data["X"], columns=[f"feature {d}" for d in range(data["X"].shape[1])])
    labels = pd.DataFrame(data["Y"], columns=data["label_names"])
    return Dataset({"features": features, "labels": labels}, data["is_train"].astype(bool), source="Mulan")


def _aviris(data: dict[str, np.ndarray]) -> Dataset:
    bands = pd.DataFrame(data["X"], columns=[f"band {b}" for b in data["band"]])
    crop = pd.Series(pd.Categorical.from_codes(data["y"], data["class_names"].tolist()), name="crop")
    height, width = (int(n) for n in data["shape"])
    return Dataset({"bands": bands, "crop": crop}, image_shape=(height, width), source="Purdue University")


def _seven_people(data: dict[str, np.ndarray]) -> Dataset:
    person = pd.Series(pd.Categorical.from_codes(data["y"], data["class_names"].tolist()), name="person")
    attributes = pd.DataFrame(data["attr"], columns=data["attr_names"])
    views = {"pixels": _pixels(data["X"]), "person": person, "attributes": attributes}
    return Dataset(views, image_shape=FACE_SHAPE, source="LFW, deep-funneled; attributes of Kumar et al.")


def _all_faces(data: dict[str, np.ndarray]) -> Dataset:
    kept = data["has_attr"].astype(bool)
    person = pd.Series(data["person_names"][data["person"][kept]], name="person")
    attributes = pd.DataFrame(data["attr"][kept], columns=data["attr_names"])
    views = {"pixels": _pixels(data["images"][kept]), "person": person, "attributes": attributes}
    return Dataset(views, image_shape=FACE_SHAPE, source="LFW, deep-funneled; attributes of Kumar et al.")


def _pixels(images: np.ndarray) -> pd.DataFrame:
    names = [f"row {d // FACE_SHAPE[1]}, column {d % FACE_SHAPE[1]}" for d in range(FACE_SHAPE[0] * FACE_SHAPE[1])]
    return pd.DataFrame(images.reshape(len(images), -1), columns=names)


def _cll(data: dict[str, np.ndarray]) -> Dataset:
    views = {}
    for name in ("mRNA", "Methylation", "Drugs", "Mutations"):
        frame = pd.DataFrame(data[name].astype(np.float32), index=data["patient"], columns=data[f"{name}_features"])
        views[name] = frame.mask(frame < 0) if name == "Mutations" else frame
    return Dataset(views, source="Dietrich et al. 2018")


def _nutrimouse(data: dict[str, np.ndarray]) -> Dataset:
    views: dict[str, Any] = {n: pd.DataFrame(data[n], columns=data[f"{n}_features"]) for n in ("gene", "lipid")}
    for name in ("diet", "genotype"):
        views[name] = pd.Series(pd.Categorical.from_codes(data[name], data[f"{name}_names"].tolist()), name=name)
    return Dataset(views, source="Martin et al. 2007")


def _heart(data: dict[str, np.ndarray]) -> Dataset:
    views: dict[str, Any] = {"measured": pd.DataFrame(data["X_num"], columns=data["num_names"])}
    for column, name in enumerate(data["cat_names"].tolist()):
        codes = pd.Series(data["X_cat"][:, column], name=name)
        views[name] = codes.where(codes >= 0).astype("Int64").astype("category")
    views["disease"] = pd.DataFrame({"disease": data["y"].astype(bool)})
    return Dataset(views, source="UCI, Cleveland")


def _news(data: dict[str, np.ndarray]) -> Dataset:
    from scipy.sparse import csr_array

    counts = csr_array((data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"])).toarray()
    return Dataset({"words": pd.DataFrame(counts, index=data["titles"], columns=data["words"])}, source="Reuters")


# ------------------------------------------------------------------------------------------------------ fetching


def _fetch_multilabel(data_id: int, n_train: int, data_home: str | None = None) -> Dataset:
    """A Mulan set from OpenML: numbers, then columns of TRUE / FALSE."""
    from sklearn.datasets import fetch_openml

    found = fetch_openml(data_id=data_id, as_frame=True, parser="liac-arff", data_home=data_home)
    target = found.target.to_frame() if isinstance(found.target, pd.Series) else found.target
    labels = target.astype(str).apply(lambda column: column.str.upper().isin(["TRUE", "1"])).astype(np.uint8)
    features = found.data.astype(np.float32)
    features.columns = [f"feature {d}" for d in range(features.shape[1])]
    is_train = np.arange(len(labels)) < n_train
    return Dataset({"features": features, "labels": labels}, is_train, source="OpenML")


def _fetch_faces(data_home: str | None = None, min_faces: int = 70, download: bool = True) -> Dataset:
    """Seven people from scikit-learn's copy (funneled): the middle of each picture, shrunk to 60 x 40."""
    from sklearn.datasets import fetch_lfw_people

    middle = (slice(65, 185), slice(85, 165))  # 120 x 80 of 250 x 250 pixels
    found = fetch_lfw_people(
        min_faces_per_person=min_faces, resize=0.5, slice_=middle, data_home=data_home, download_if_missing=download
    )
    person = pd.Series(pd.Categorical.from_codes(found.target, found.target_names.tolist()), name="person")
    images = found.images * (255 if found.images.max() <= 1 else 1)
    return Dataset({"pixels": _pixels(images), "person": person}, image_shape=FACE_SHAPE, source="LFW, funneled")
