"""Model files: the same predictions to the last bit, clear errors, nothing that runs."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from test_estimator import fit, make_views, with_holes

from sshiba import SSHIBA, Binary, Categorical, ModelFileError, Priors, Real, load


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[SSHIBA, Path]:
    types = {"X": Real(select_features=True, groups=("a", "b") * 4), "T": Binary(weight=2.0), "y": Categorical()}
    model = fit(with_holes(make_views()), views=types, priors=Priors(noise_floor=1e-2), n_init=2)
    path = tmp_path_factory.mktemp("models") / "m.sshiba"
    model.save(path)
    return model, path


def test_round_trip_is_exact(saved: tuple[SSHIBA, Path]) -> None:
    model, path = saved
    again, views = load(path), with_holes(make_views(seed=5))
    for a, b in zip(model.transform(views, return_std=True), again.transform(views, return_std=True)):
        np.testing.assert_array_equal(a, b)
    for given in ("X", "T", "y"):
        a, b = model.predict({given: views[given]}), again.predict({given: views[given]})
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
    np.testing.assert_array_equal(model.predict_proba(views, "y"), again.predict_proba(views, "y"))
    assert model.score(views) == again.score(views)
    for a, b in zip(model.impute(views, return_std=True), again.impute(views, return_std=True)):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_attributes_come_back(saved: tuple[SSHIBA, Path]) -> None:
    model, path = saved
    again = load(path)
    for name in ("factors_", "factors_std_", "elbo_path_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(again, name))
    for name in (
        "weights_",
        "weights_std_",
        "bias_",
        "noise_std_",
        "factor_relevance_",
        "feature_relevance_",
        "classes_",
    ):
        for view, value in getattr(model, name).items():
            np.testing.assert_array_equal(value, getattr(again, name)[view])
    pd.testing.assert_frame_equal(model.r2_, again.r2_)
    pd.testing.assert_frame_equal(model.inits_, again.inits_)
    for name in ("elbo_", "n_iter_", "converged_", "n_components_", "feature_names_in_", "views_"):
        assert str(getattr(model, name)) == str(getattr(again, name))
    params, expected = again.get_params(), model.get_params()
    assert {k: v for k, v in params.items() if k != "views"} == {k: v for k, v in expected.items() if k != "views"}


def test_names_levels_and_dtypes_survive(tmp_path: Path) -> None:
    views = make_views()
    X = pd.DataFrame(views["X"], columns=pd.MultiIndex.from_product([["u", "v"], range(4)]))
    X.index = [f"patient {i}" for i in range(120)]
    y = pd.Series(pd.Categorical(views["y"], categories=["c", "a", "b"], ordered=True), index=X.index, name="kind")
    model = fit({"X": X, "y": y})
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    pd.testing.assert_series_equal(model.predict({"X": X}, "y"), again.predict({"X": X}, "y"))
    pd.testing.assert_frame_equal(model.predict({"y": y}, "X"), again.predict({"y": y}, "X"))
    assert list(again.index_) == list(X.index)


def rewritten(path: Path, target: Path, header: dict | None = None, arrays: bytes | None = None) -> Path:
    """A copy of a model file with one part changed."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        kept = json.loads(source.read("model.json"))
        copy.writestr("model.json", json.dumps({**kept, **(header or {})}))
        copy.writestr("arrays.safetensors", source.read("arrays.safetensors") if arrays is None else arrays)
    return target


def test_bad_files_are_refused(saved: tuple[SSHIBA, Path], tmp_path: Path) -> None:
    _, path = saved
    content = path.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        cut = tmp_path / "cut.sshiba"
        cut.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ModelFileError, match="cut"):
            load(cut)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    (tmp_path / "flipped.sshiba").write_bytes(flipped)
    with pytest.raises(ModelFileError):
        load(tmp_path / "flipped.sshiba")
    with pytest.raises(ModelFileError, match="newer version"):
        load(rewritten(path, tmp_path / "newer.sshiba", {"version": 99}))
    with pytest.raises(ModelFileError, match="not a SSHIBA model"):
        load(rewritten(path, tmp_path / "other.sshiba", {"format": "other"}))
    with pytest.raises(ModelFileError):
        load(rewritten(path, tmp_path / "arrays.sshiba", arrays=b"\x00" * 64))
    with pytest.raises(ModelFileError):
        load(rewritten(path, tmp_path / "views.sshiba", {"views": []}))
    with pytest.raises(ModelFileError, match="not among those of its table"):
        load(rewritten(path, tmp_path / "columns.sshiba", {"one_table": True, "columns": ["other"]}))
    (tmp_path / "text.sshiba").write_text("hello")
    with pytest.raises(ModelFileError, match="not a SSHIBA model"):
        load(tmp_path / "text.sshiba")
    with pytest.raises(FileNotFoundError, match="no file"):
        load(tmp_path / "nothing.sshiba")


def test_an_array_of_another_size_is_refused(saved: tuple[SSHIBA, Path], tmp_path: Path) -> None:
    """Longer by one, or cut to one entry, which NumPy would spread over all features."""
    with zipfile.ZipFile(saved[1]) as archive:
        arrays = load_arrays(archive.read("arrays.safetensors"))
    for name, array in arrays.items():
        if "path" in name:  # as long as the fit was
            continue
        for other in (np.concatenate([array, array[:1]]), array[:1]):
            if other.shape == array.shape or (name.endswith("basis") and len(other) > len(array)):
                continue
            forged = save_arrays({**arrays, name: np.ascontiguousarray(other)})
            with pytest.raises(ModelFileError):
                load(rewritten(saved[1], tmp_path / "forged.sshiba", arrays=forged))


def test_loading_runs_no_code(saved: tuple[SSHIBA, Path], tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return (Path(tmp_path / "sprung").touch, ())

    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    for payload in (pickle.dumps(Trap()), buffer.getvalue()):
        (tmp_path / "trap.sshiba").write_bytes(payload)
        with pytest.raises(ModelFileError):
            load(tmp_path / "trap.sshiba")
        with pytest.raises(ModelFileError):
            load(rewritten(saved[1], tmp_path / "trap2.sshiba", arrays=payload))
    assert not (tmp_path / "sprung").exists()
    sources = [p.read_text() for p in Path(__file__).parents[1].joinpath("src").rglob("*.py")]
    assert not any("import pickle" in s or "allow_pickle=True" in s or "joblib.load" in s for s in sources)


def test_a_failed_save_leaves_the_old_file(saved: tuple[SSHIBA, Path], tmp_path: Path, monkeypatch) -> None:
    model, _ = saved
    path = tmp_path / "m.sshiba"
    path.write_bytes(b"old")
    monkeypatch.setattr(
        "sshiba.files.model_file.save_arrays", lambda arrays: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_nested_without_end_is_refused(tmp_path) -> None:
    path = tmp_path / "deep.sshiba"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", "[" * 200_000)
        archive.writestr("arrays.safetensors", b"")
    with pytest.raises(ModelFileError):
        load(path)


def test_mofax_opens_the_mofa_file(tmp_path) -> None:
    """The field's own reader finds factors, weights, names and variance explained."""
    import mofax

    rng = np.random.default_rng(0)
    z = rng.standard_normal((40, 2))
    genes = pd.DataFrame(z @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((40, 6)))
    genes.columns, genes.index = [f"gene{d}" for d in range(6)], [f"s{i}" for i in range(40)]
    ill = pd.DataFrame((z[:, :1] > 0).astype(int), index=genes.index, columns=["ill"])
    kind = pd.Series(np.where(z[:, 1] > 0, "up", "down"), index=genes.index, name="kind")
    model = SSHIBA(4, random_state=0).fit({"genes": genes, "ill": ill, "kind": kind})
    model.to_mofa_hdf5(tmp_path / "model.hdf5")
    found = mofax.mofa_model(str(tmp_path / "model.hdf5"))
    assert found.views == ["genes", "ill", "kind"]
    assert found.shape == (40, 9)
    assert found.nfactors == model.n_components_
    assert list(found.samples["group1"][:2]) == ["s0", "s1"]
    np.testing.assert_allclose(found.get_factors(), model.factors_)
    numbers = range(1, model.n_components_ + 1)  # MOFA's readers name factors themselves, and count them as we do
    assert list(found.get_factors(df=True).columns) == [f"Factor{k}" for k in numbers]
    assert list(model.factors_.columns) == [f"factor {k}" for k in numbers]
    weights = found.get_weights(views="genes", df=True)
    assert list(weights.index) == [f"gene{d}" for d in range(6)]
    np.testing.assert_allclose(weights.to_numpy() * genes.std(ddof=0).to_numpy()[:, None], model.weights_["genes"])
    shares = found.get_variance_explained().pivot(index="Factor", columns="View", values="R2")
    np.testing.assert_allclose(shares[["genes", "ill", "kind"]], 100 * model.r2_.to_numpy()[:-1])
    assert found.likelihoods == ["gaussian", "bernoulli", "gaussian"]
    found.close()
