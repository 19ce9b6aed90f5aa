"""Loaders: small files of the same formats as the real ones, read by the real code; nothing is downloaded."""

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sshiba import datasets
from sshiba.datasets import DatasetError, _fetch_faces, _fetch_multilabel

ARFF = """@relation tiny
@attribute Att1 numeric
@attribute Att2 numeric
@attribute Class1 {TRUE,FALSE}
@attribute Class2 {TRUE,FALSE}
@data
0.5,-1.25,TRUE,FALSE
0.25,2.0,FALSE,FALSE
1.0,0.0,TRUE,TRUE
-3.5,0.125,FALSE,TRUE
"""


def cached(folder: Path, path: str, content: bytes) -> None:
    """Put a file of OpenML where fetch_openml looks before it goes to the network."""
    file = folder / "openml" / "openml.org" / f"{path}.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(content))


def test_openml_files_are_parsed(tmp_path: Path) -> None:
    """ARFF with numbers and TRUE / FALSE targets, as the Mulan sets have there."""
    data_file = "data/v1/download/1"
    targets = {"Class1", "Class2"}
    names = ["Att1", "Att2", "Class1", "Class2"]
    features = [
        {
            "index": str(i),
            "name": name,
            "data_type": "nominal" if name in targets else "numeric",
            "nominal_value": ["TRUE", "FALSE"] if name in targets else [],
            "is_target": str(name in targets).lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for i, name in enumerate(names)
    ]
    description = {
        "id": "1",
        "name": "tiny",
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "file_id": "1",
        "description": "x",
    }
    description |= {"url": f"https://openml.org/{data_file}", "md5_checksum": hashlib.md5(ARFF.encode()).hexdigest()}
    description |= {"default_target_attribute": "Class1,Class2"}
    answers = {
        "data/1": {"data_set_description": description},
        "data/features/1": {"data_features": {"feature": features}},
        "data/qualities/1": {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "4"}]}},
    }
    for question, answer in answers.items():
        cached(tmp_path, f"api/v1/json/{question}", json.dumps(answer).encode())
    cached(tmp_path, data_file, ARFF.encode())
    found = _fetch_multilabel(1, n_train=3, data_home=str(tmp_path))
    np.testing.assert_allclose(found.views["features"], [[0.5, -1.25], [0.25, 2.0], [1.0, 0.0], [-3.5, 0.125]])
    np.testing.assert_array_equal(found.views["labels"], [[1, 0], [0, 0], [1, 1], [0, 1]])
    assert list(found.views["labels"]) == ["Class1", "Class2"]
    assert found.is_train.tolist() == [True, True, True, False]


def test_pictures_of_faces_are_read_and_cut(tmp_path: Path) -> None:
    """A folder of JPEGs per person, as the original archive unpacks."""
    from PIL import Image

    home = tmp_path / "lfw_home"
    shades = {"Ada_Lovelace": 40, "Alan_Turing": 200}
    for person, shade in shades.items():
        folder = home / "lfw_funneled" / person
        folder.mkdir(parents=True)
        for number in (1, 2, 3):
            Image.new("RGB", (250, 250), (shade,) * 3).save(folder / f"{person}_{number:04d}.jpg")
    for name in ("pairsDevTrain.txt", "pairsDevTest.txt", "pairs.txt"):
        (home / name).write_text("0\n")
    found = _fetch_faces(data_home=str(tmp_path), min_faces=3, download=False)
    assert found.views["pixels"].shape == (6, 2400)
    assert sorted(found.views["person"].unique()) == ["Ada Lovelace", "Alan Turing"]
    means = found.views["pixels"].mean(axis=1).groupby(found.views["person"], observed=True).mean()
    assert means["Ada Lovelace"] == pytest.approx(40, abs=3)
    assert means["Alan Turing"] == pytest.approx(200, abs=3)


def save(folder: Path, name: str, **arrays: np.ndarray) -> None:
    np.savez(folder / f"{name}.npz", **arrays)


def test_every_file_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSHIBA_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    mulan = {"X": rng.random((6, 3), dtype=np.float32), "Y": np.eye(6, 2, dtype=np.uint8)}
    mulan |= {"is_train": np.arange(6) < 4, "label_names": np.array(["one", "two"])}
    save(tmp_path, "yeast", **mulan)
    save(tmp_path, "scene", **mulan)
    bands = rng.integers(0, 9000, (4, 5)).astype(np.uint16)
    classes = np.array(["background", "Corn", "Oats"])
    aviris = {"X": bands, "y": np.array([0, 1, 2, 1], np.uint8), "shape": np.array([2, 2]), "band": np.arange(1, 6)}
    save(tmp_path, "indian_pines_200", **aviris, class_names=classes)
    images = rng.integers(0, 255, (3, 2400)).astype(np.uint8)
    attr = {"attr": np.eye(3, dtype=np.uint8), "attr_names": np.array(["Male", "Smiling", "Hat"])}
    save(tmp_path, "lfw7_60x40", X=images, y=np.array([0, 1, 1]), class_names=np.array(["A_B", "C_D"]), **attr)
    everyone = {"images": images.reshape(3, 60, 40), "person": np.array([1, 0, 1]), "has_attr": np.array([1, 0, 1])}
    save(tmp_path, "lfw_deepfunneled_60x40", **everyone, person_names=np.array(["X", "Y"]), **attr)
    cll = {"patient": np.array(["H1", "H2"])}
    for name in ("mRNA", "Methylation", "Drugs", "Mutations"):
        cll |= {name: np.array([[1, -1], [0, 1]]), f"{name}_features": np.array([f"{name}1", f"{name}2"])}
    save(tmp_path, "cll", **cll)
    mice = {"gene": rng.random((3, 2)), "gene_features": np.array(["g1", "g2"]), "lipid": rng.random((3, 1))}
    mice |= {"lipid_features": np.array(["l1"]), "diet": np.array([0, 1, 1]), "diet_names": np.array(["fish", "oil"])}
    save(tmp_path, "nutrimouse", **mice, genotype=np.array([0, 0, 1]), genotype_names=np.array(["wt", "ppar"]))
    heart = {"X_num": rng.random((3, 2)), "num_names": np.array(["age", "chol"]), "y": np.array([0, 1, 1])}
    save(tmp_path, "tab_heart_cleveland", **heart, X_cat=np.array([[0], [-1], [1]]), cat_names=np.array(["sex"]))
    news = {
        "data": np.array([3, 1]),
        "indices": np.array([1, 0]),
        "indptr": np.array([0, 1, 2]),
        "shape": np.array([2, 2]),
    }
    save(tmp_path, "reuters", **news, titles=np.array(["first", "second"]), words=np.array(["pope", "church"]))

    assert datasets.load_yeast().is_train.sum() == 4
    assert list(datasets.load_scene().views["labels"]) == ["one", "two"]
    pines = datasets.load_aviris()
    assert pines.views["crop"].tolist() == ["background", "Corn", "Oats", "Corn"]
    assert pines.image_shape == (2, 2)
    assert datasets.load_faces().views["person"].tolist() == ["A_B", "C_D", "C_D"]
    attributes = datasets.load_face_attributes()
    assert attributes.views["pixels"].shape == (2, 2400)
    assert attributes.views["person"].tolist() == ["Y", "Y"]
    patients = datasets.load_cll().views
    assert np.isnan(patients["Mutations"].loc["H1", "Mutations2"])
    assert patients["Drugs"].loc["H1", "Drugs2"] == -1
    assert datasets.load_nutrimouse().views["diet"].tolist() == ["fish", "oil", "oil"]
    assert datasets.load_heart().views["sex"].isna().tolist() == [False, True, False]
    assert datasets.load_news().views["words"].loc["first"].to_dict() == {"pope": 0, "church": 3}


def test_what_cannot_be_had_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSHIBA_DATA", raising=False)
    with pytest.raises(DatasetError, match=r"SSHIBA_DATA is not set.*put indian_pines_200.npz into a folder"):
        datasets.load_aviris()
    monkeypatch.setenv("SSHIBA_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match="does not exist, and this data set cannot be fetched"):
        datasets.load_cll()
    (tmp_path / "cll.npz").write_bytes(b"not a zip")
    with pytest.raises(DatasetError, match="is not the data set it is named after"):
        datasets.load_cll()
    np.savez(tmp_path / "yeast.npz", X=np.zeros((2, 2)))
    with pytest.raises(DatasetError, match="replace it"):
        datasets.load_yeast()


def test_real_files(data_folder: Path) -> None:
    sizes = {
        datasets.load_yeast: (2417, 103),
        datasets.load_scene: (2407, 294),
        datasets.load_aviris: (21025, 200),
        datasets.load_faces: (1277, 2400),
        datasets.load_cll: (200, 5000),
        datasets.load_nutrimouse: (40, 120),
        datasets.load_heart: (303, 6),
        datasets.load_news: (395, 4258),
    }
    for load, shape in sizes.items():
        data = load()
        assert next(iter(data.views.values())).shape == shape
        assert len({len(view) for view in data.views.values()}) == 1


def test_the_example_table_is_the_bundled_one() -> None:
    table = pd.read_csv(Path(__file__).parents[1] / "examples" / "patients.csv", index_col="patient")
    found = datasets.load_patients()
    pd.testing.assert_frame_equal(table.astype({"diagnosis": object}), found.astype({"diagnosis": object}))
    assert 0.05 < found.drop(columns="diagnosis").isna().to_numpy().mean() < 0.15
    assert set(found["diagnosis"].dropna()) == {"benign", "malignant"}
