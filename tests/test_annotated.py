"""MuData and AnnData: filled copies; layers and columns of obs as views; factors, weights and R² written into them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import sshiba
from sshiba import SSHIBA, Categorical, Real

ad = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
md = pytest.importorskip("mudata", reason="needs the extra 'mudata'")

N = 60
CELLS = [f"cell {i}" for i in range(N)]
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:mudata")


def both(dtype: str = "float32") -> Any:
    """Two modalities of two causes with holes; the second lacks twenty cells and has another order."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, 2))
    rna = (z @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((N, 6))).astype(dtype)
    protein = (z @ rng.standard_normal((2, 3)) + 0.1 * rng.standard_normal((N, 3))).astype(dtype)
    rna[3, 2] = protein[30, 1] = np.nan
    obs = pd.DataFrame({"batch": pd.Categorical(["a", "b"] * (N // 2))}, index=CELLS)
    first = ad.AnnData(rna, obs=obs, var=pd.DataFrame({"length": range(6)}, index=[f"gene {d}" for d in range(6)]))
    first.layers["counts"] = np.where(np.isnan(rna), 0, rna) * 10 + 5
    first.obsm["place"] = z
    second = ad.AnnData(protein, obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=["p1", "p2", "p3"]))
    second = second[CELLS[:19:-1]].copy()
    data = md.MuData({"rna": first, "protein": second})
    data.obs["sex"] = pd.Categorical(np.where(z[:, 0] > 0, "f", "m"))
    data.obs["age"] = 50 + 10 * z[:, 1]
    data.uns["study"] = "ours"
    return data


@pytest.fixture(scope="module")
def model() -> SSHIBA:
    return SSHIBA(4, random_state=0).fit(both())


def test_mudata_is_imputed_as_mudata(model: SSHIBA, caplog: pytest.LogCaptureFixture) -> None:
    given = both()
    with caplog.at_level(logging.WARNING, logger="sshiba"):
        filled, std = model.impute(given, return_std=True)
    assert isinstance(filled, md.MuData)
    assert filled.uns["study"] == "ours"
    pd.testing.assert_frame_equal(filled.obs, given.obs)
    by_name = model.impute({name: part.to_df() for name, part in given.mod.items()})
    for name, part in given.mod.items():
        new = filled.mod[name]
        assert new.X.dtype == "float32"
        assert not np.isnan(new.X).any()
        assert np.isnan(part.X).sum() == 1  # what was given is as it was
        seen = ~np.isnan(part.X)
        np.testing.assert_array_equal(new.X[seen], part.X[seen])
        np.testing.assert_array_equal(new.X, by_name[name].loc[part.obs_names])
        pd.testing.assert_frame_equal(new.obs, part.obs)
        pd.testing.assert_frame_equal(new.var, part.var)
        assert ((std.mod[name].X > 0) == ~seen).all()
        assert list(std.mod[name].obs_names) == list(part.obs_names)
    np.testing.assert_array_equal(filled["rna"].layers["counts"], given["rna"].layers["counts"])
    np.testing.assert_array_equal(filled["rna"].obsm["place"], given["rna"].obsm["place"])
    assert "modality 'protein' lacks 20 of 60 observations, and they are not added" in caplog.text


def test_anndata_is_imputed_as_anndata() -> None:
    given = both()["rna"]
    model = SSHIBA(3, random_state=0).fit(given)
    filled, std = model.impute(given, return_std=True)
    assert isinstance(filled, ad.AnnData)
    assert not np.isnan(filled.X).any()
    assert list(filled.obs["batch"]) == list(given.obs["batch"])
    assert std.shape == given.shape
    assert (std.X > 0).sum() == 1
    assert isinstance(model.transform(given), pd.DataFrame)


def test_sparse_matrices_stay_so_where_nothing_is_filled() -> None:
    given = both()["rna"]
    whole = given.copy()
    whole.X = sparse.csr_matrix(np.nan_to_num(given.X).round())
    model = SSHIBA(3, random_state=0).fit(whole)
    same = model.impute(whole)
    assert sparse.issparse(same.X)
    assert (same.X != whole.X).nnz == 0
    given.X = sparse.csr_matrix(given.X)
    filled = model.impute(given)
    assert isinstance(filled.X, np.ndarray)
    assert not np.isnan(filled.X).any()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_what_lies_in_a_file_is_filled_in_memory(form: Any, tmp_path: Path) -> None:
    given = both()["rna"]
    expected = SSHIBA(3, random_state=0).fit(given).impute(given)
    given.X = form(given.X)
    given.write(tmp_path / "rna.h5ad")
    backed = ad.read_h5ad(tmp_path / "rna.h5ad", backed="r")
    filled = SSHIBA(3, random_state=0).fit(backed).impute(backed)
    assert not filled.isbacked
    np.testing.assert_allclose(filled.X, expected.X, rtol=1e-4)


def test_whole_numbers_stay_whole_where_nothing_is_filled() -> None:
    given = both()["rna"]
    given.X = given.layers["counts"].round().astype("int32")
    assert SSHIBA(2, random_state=0, tol=1e-3).fit(given).impute(given).X.dtype == "int32"


def test_an_anndata_may_be_one_view_of_a_dict() -> None:
    data = both()
    views = {"rna": data["rna"], "sex": data.obs["sex"]}
    model = SSHIBA(3, random_state=0).fit(views)
    filled = model.impute(views)
    assert isinstance(filled["rna"], ad.AnnData)
    assert not np.isnan(filled["rna"].X).any()
    assert isinstance(filled["sex"], pd.Series)


def test_layers_and_columns_of_obs_as_views() -> None:
    data = both()
    views = sshiba.annotated(data, layer={"rna": "counts"}, obs=("sex", "age"))
    assert list(views) == ["rna", "protein", "sex", "age"]
    np.testing.assert_array_equal(views["rna"], data["rna"].layers["counts"])
    np.testing.assert_array_equal(views["protein"], data["protein"].X)
    model = SSHIBA(4, random_state=0).fit(views)
    kinds = {name: type(view) for name, view in model.views_.items()}
    assert kinds == {"rna": Real, "protein": Real, "sex": Categorical, "age": Real}
    assert model.impute(views)["protein"].shape == (N, 3)  # a dict has all rows
    one = sshiba.annotated(data["rna"], layer="counts", obs=["batch"])
    assert list(one) == ["X", "batch"]
    assert list(sshiba.annotated(data)) == ["rna", "protein"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "counts"}, "modality 'protein' has no layer 'counts'; it has none"),
        ({"layer": {"rna": "log"}}, "modality 'rna' has no layer 'log'; it has 'counts'"),
        ({"layer": {"atac": "log"}}, "there is no modality 'atac'; there are 'rna', 'protein'"),
        ({"obs": ["height"]}, "obs has no column 'height'; it has .*'sex', 'age'"),
        ({"obs": "sex"}, "obs must be a list of columns"),
    ],
)
def test_wrong_choices_are_named(options: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        sshiba.annotated(both(), **options)


def test_columns_of_a_modality_are_pointed_to() -> None:
    data = both()
    data["rna"].obs["dose"] = 1.0
    words = r"obs has no column 'dose'.* Modality 'rna' has one: .*views\['dose'\] = data\['rna'\].obs\['dose'\]"
    with pytest.raises(ValueError, match=words):
        sshiba.annotated(data, obs=["dose"])


def test_what_is_not_annotated_is_named() -> None:
    with pytest.raises(TypeError, match="a MuData or an AnnData, not DataFrame"):
        sshiba.annotated(pd.DataFrame({"a": [1]}))
    data = both()
    data.obs["rna"] = data.obs["sex"]
    with pytest.raises(ValueError, match="'rna' is a modality and a column of obs"):
        sshiba.annotated(data, obs=["rna"])
    empty = ad.AnnData(obs=pd.DataFrame(index=CELLS))
    with pytest.raises(ValueError, match="modality 'X' has no X"):
        SSHIBA(2).fit(empty)
    twice = both()["rna"]
    twice.obs_names = ["same"] * N
    with pytest.raises(ValueError, match="obs_names_make_unique"):
        SSHIBA(2).fit(twice)


def test_a_frame_with_odd_column_names_is_no_anndata() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20, 2)), columns=["obs_names", "var_names"])
    assert SSHIBA(1, random_state=0, tol=1e-3).fit(frame).feature_names_in_["numeric"] == ["obs_names", "var_names"]


def test_factors_and_weights_are_written_by_name(model: SSHIBA, tmp_path: Path) -> None:
    shuffled = both()
    order = np.random.default_rng(1).permutation(6)
    rna = shuffled["rna"][::-1, order].copy()
    more = ad.concat([rna, rna[:1].copy()])
    more.obs_names = [*rna.obs_names, "cell new"]
    data = md.MuData({"rna": more, "protein": shuffled["protein"]})
    assert model.write_to(data) is None
    factors = pd.DataFrame(model.factors_, index=model.index_)
    np.testing.assert_array_equal(data.obsm["X_sshiba"], factors.reindex(data.obs_names))
    assert np.isnan(data.obsm["X_sshiba"][list(data.obs_names).index("cell new")]).all()
    for part in data.mod.values():
        np.testing.assert_array_equal(part.obsm["X_sshiba"], factors.reindex(part.obs_names))
    np.testing.assert_array_equal(data["rna"].varm["sshiba"], np.asarray(model.weights_["rna"])[order])
    np.testing.assert_array_equal(data["protein"].varm["sshiba"], model.weights_["protein"])
    explained = data.uns["sshiba"]["variance_explained"]
    np.testing.assert_array_equal(explained, model.r2_)
    assert list(explained.columns) == ["rna", "protein"]
    data.write(tmp_path / "all.h5mu")
    again = md.read_h5mu(tmp_path / "all.h5mu")
    np.testing.assert_array_equal(again.obsm["X_sshiba"], data.obsm["X_sshiba"])
    np.testing.assert_array_equal(again.uns["sshiba"]["variance_explained"], explained)


def test_factors_are_written_to_an_anndata(tmp_path: Path) -> None:
    data = both()["rna"]
    model = SSHIBA(3, random_state=0, tol=1e-4).fit(sshiba.annotated(data, layer="counts", obs=["batch"]))
    model.write_to(data)
    np.testing.assert_array_equal(data.obsm["X_sshiba"], model.factors_)
    np.testing.assert_array_equal(data.varm["sshiba"], model.weights_["X"])
    assert list(data.uns["sshiba"]["variance_explained"].columns) == ["X", "batch"]
    data.write(tmp_path / "one.h5ad")
    assert ad.read_h5ad(tmp_path / "one.h5ad").varm["sshiba"].shape == (6, model.n_components_)


def test_writing_to_what_does_not_fit_is_refused(model: SSHIBA) -> None:
    with pytest.raises(TypeError, match="a MuData or an AnnData, not dict"):
        model.write_to({})
    with pytest.raises(ValueError, match=r"none of the modalities \('X'\) is a view of the model \('rna', 'protein'\)"):
        model.write_to(both()["rna"])
    other = both()
    for part in other.mod.values():
        part.obs_names = [f"other {i}" for i in range(part.n_obs)]
    with pytest.raises(ValueError, match="no row of the fit is among the obs_names"):
        model.write_to(md.MuData(dict(other.mod)))
    assert "X_sshiba" not in other["rna"].obsm
