"""One table in, one table out: columns split by type or by the user, and given back as they came."""

import json
import logging
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from sshiba import SSHIBA, Binary, Categorical, Ordinal, Real, load, tune
from sshiba.data.one_table import by_type
from sshiba.data.refusing import refusal
from sshiba.datasets import Dataset


@pytest.fixture(scope="module")
def patients() -> pd.DataFrame:
    """120 patients with two causes: numbers of several dtypes, yes / no, labels of several kinds."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((120, 2))
    ward = np.array(["north", "south", "west"])[
        np.argmax(np.c_[z, np.zeros(120)] + rng.normal(0, 0.3, (120, 3)), axis=1)
    ]
    frame = pd.DataFrame(
        {
            "age": np.round(50 + 10 * z[:, 0] + rng.standard_normal(120)).astype(int),
            "weight": (70 + 8 * z[:, 1] + rng.standard_normal(120)).astype(np.float32),
            "dose": pd.array(np.round(5 + z[:, 0] + z[:, 1]), dtype="Float64"),
            "smokes": z[:, 0] + rng.logistic(0, 0.3, 120) > 0,
            "treated": (z[:, 1] > 0).astype(int),
            "ward": ward,
            "stage": pd.Categorical(np.where(z[:, 0] > 0.5, "II", "I"), categories=["I", "II", "III"], ordered=True),
        },
        index=[f"patient {i}" for i in range(120)],
    )
    return frame


@pytest.fixture(scope="module")
def model(patients: pd.DataFrame) -> SSHIBA:
    return SSHIBA(6, random_state=0).fit(patients)


def test_columns_are_split_by_type(model: SSHIBA) -> None:
    kinds = {name: type(view) for name, view in model.views_.items()}
    assert kinds == {"numeric": Real, "binary": Binary, "ward": Categorical, "ordinal": Ordinal}
    assert model.feature_names_in_["numeric"] == ["age", "weight", "dose"]
    assert model.feature_names_in_["binary"] == ["smokes", "treated"]


def test_a_table_comes_back_as_it_came(model: SSHIBA, patients: pd.DataFrame) -> None:
    holes = patients.assign(note="kept")
    holes.loc["patient 3", "weight"] = np.nan
    holes.loc["patient 4", ["ward", "stage", "dose"]] = None
    filled, std = model.impute(holes, return_std=True)
    assert list(filled.columns) == list(holes.columns)
    assert filled.index.equals(holes.index)
    assert filled.dtypes.equals(holes.dtypes)
    assert not filled.isna().any().any()
    assert filled.loc["patient 4", "ward"] in ("north", "south", "west")
    assert (filled["note"] == "kept").all()
    for column in holes:
        seen = holes[column].notna()
        assert (filled[column][seen] == holes[column][seen]).all()
    assert std.shape == holes.shape
    assert (std.loc["patient 4", ["ward", "stage", "dose"]] > 0).all()
    assert std.loc["patient 0"].sum() == 0
    pd.testing.assert_frame_equal(model.impute(patients), patients)


def test_columns_that_a_new_table_lacks_are_predicted(model: SSHIBA, patients: pd.DataFrame) -> None:
    new = patients[["smokes", "ward", "age"]].head(10)
    found = model.predict(new)
    assert set(found) == {"weight", "dose", "treated", "stage"}
    assert found.index.equals(new.index)
    weight, std = model.predict(new, "weight", return_std=True)
    pd.testing.assert_series_equal(weight, found["weight"])
    assert (std > 0).all()
    everyone = model.predict(patients[new.columns])
    for column, least in (("weight", 0.6), ("dose", 0.75)):
        assert np.corrcoef(everyone[column].astype(float), patients[column].astype(float))[0, 1] > least
    for column, least in (("treated", 0.75), ("stage", 0.9)):  # by chance 0.53 and 0.74
        assert (everyone[column].astype(str) == patients[column].astype(str)).mean() > least
    assert list(model.predict_proba(new, "stage").columns) == ["I", "II"]
    assert model.predict_proba(new, "treated").between(0, 1).all()
    assert model.transform(new).shape == (10, model.n_components_)
    assert np.isfinite(model.score(new))


def test_the_users_own_views(patients: pd.DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    views = {"body": ["age", "weight"], "ward": Categorical(weight=2.0), "drug": (["dose"], Real(noise="view"))}
    with caplog.at_level(logging.INFO, logger="sshiba"):
        model = SSHIBA(4, views=views, random_state=0).fit(patients)
    assert list(model.views_) == ["body", "drug", "binary", "ward", "ordinal"]
    assert model.views_["ward"].weight == 2.0
    assert model.views_["drug"].noise == "view"
    assert "view 'binary': 2 columns, 'smokes', 'treated'" in caplog.text
    single = SSHIBA(4, views={"age": Categorical(), "numeric": Real(noise="view")}, random_state=0)
    single.fit(patients.assign(age=patients["age"] // 30))
    assert isinstance(single.views_["age"], Categorical)
    assert single.views_["numeric"].noise == "view"


def test_a_saved_model_still_takes_tables(model: SSHIBA, patients: pd.DataFrame, tmp_path) -> None:
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    new = patients.drop(columns=["ward"]).head(5)
    pd.testing.assert_frame_equal(again.predict(new), model.predict(new))


REFUSED = {
    "dates": (pd.Series(pd.date_range("2020", periods=30)), "holds dates or times"),
    "dates as text": (pd.Series([f"2020-01-{d:02d}" for d in range(1, 31)]), "holds dates such as '2020-01-01'"),
    "row numbers": (pd.Series(range(100, 130)), "numbers the rows"),
    "identifiers": (pd.Series([f"NHS{i}x" for i in range(30)]), "as identifiers do"),
    "identifiers that repeat": (
        pd.Series([f"P{max(i, 4)}x" for i in range(200)]),
        "has 196 different texts in 200 rows, as identifiers do of which some repeat: leave it out, or make it the",
    ),
    "free text": (pd.Series([f"came in with {i} complaints" for i in range(25)] * 2), "is free text"),
    "numbers and text": (pd.Series([1.5, "<5", 2.5] * 10, dtype=object), "'<5' in 10 of 30 cells is not a number"),
    "several markers": (
        pd.Series([1.5, "-", 2.5, 3.5, "k.A.", "-", 4.5, 5.5, 6.5, 7.5], dtype=object),
        "'-' in 2 and 'k.A.' in 1 of 10 cells are not numbers",
    ),
    "many markers": (
        pd.Series([i / 7 for i in range(30)] + ["a", "a", "b", "c", "d", "e"], dtype=object),
        "'a' in 2, 'b' in 1, 'c' in 1 and 2 other texts in 2 of 36 cells are not numbers",
    ),
    "numbers as text": (pd.Series(["1.5", "2.5", "3.5"] * 10), "numbers written as text"),
    "decimal commas": (pd.Series(["3,2", "4,1", "5,0"] * 10), "numbers with a comma such as '3,2'"),
    "lists": (pd.Series([[1], [2]] * 10), "holds lists or other objects"),
    "nothing": (pd.Series([None] * 5, dtype=object), "has no values"),
}


def test_what_is_no_dict_of_views_is_told_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"not str: read a table first, e.g. with pd.read_csv"):
        SSHIBA().fit("blood.csv")
    with pytest.raises(TypeError, match=r"a DataFrame, or a dict of name to data, not Dataset: give its \.views"):
        SSHIBA().fit(Dataset({"a": pd.DataFrame({"x": [1.0, 2.0]})}))
    with pytest.raises(TypeError, match=r"not int: \{'measured': X\}"):
        SSHIBA().fit(3)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_measurement_is_refused(case: str) -> None:
    column, words = REFUSED[case]
    assert words in str(refusal(column))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 5, 3] * 10),
        pd.Series(np.arange(30) / 7),
        pd.Series(["yes", "no"] * 3),
        pd.Series(["a", "b", None] * 10),
        pd.Series(pd.Categorical([f"level {i}" for i in range(30)])),
        pd.Series([True, None] * 5, dtype="boolean"),
        pd.Series([3, 1, 2]),
    ],
)
def test_what_is_one_is_not(column: pd.Series) -> None:
    assert refusal(column) is None


def test_all_refused_columns_are_named_at_once(patients: pd.DataFrame) -> None:
    bad = patients.assign(born=pd.Timestamp("1970-01-01"), code=[f"c{i}" for i in range(120)])
    with pytest.raises(ValueError, match=r"(?s)column 'born' holds dates.*column 'code' has a different text"):
        SSHIBA(3).fit(bad)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ({"body": ["age", "height"]}, "there is no column 'height'"),
        ({"body": []}, "has no columns"),
        ({"a": ["age"], "b": ["age", "dose"]}, "'age' are in more than one view"),
        ({"body": Real()}, "unknown view 'body'"),
    ],
)
def test_wrong_views_are_named(patients: pd.DataFrame, views: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SSHIBA(3, views=views).fit(patients)


def test_wrong_tables_are_named(model: SSHIBA, patients: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="none of the model's columns, 'age'"):
        model.transform(pd.DataFrame({"height": [1.0]}))
    with pytest.raises(ValueError, match="several columns of the name 'age'"):
        model.transform(pd.concat([patients, patients[["age"]]], axis=1))
    with pytest.raises(ValueError, match="nothing to predict"):
        model.predict(patients)
    with pytest.raises(ValueError, match="unknown target 'height'"):
        model.predict(patients, "height")
    several = SSHIBA(2, random_state=0).fit({"a": patients[["age", "dose"]]})
    with pytest.raises(TypeError, match="fitted to several views"):
        several.transform(patients)


def test_a_target_is_not_looked_at(model: SSHIBA, patients: pd.DataFrame) -> None:
    """Given whole, with holes, or not at all: the same prediction; other columns of its view are used."""
    holed = patients.assign(age=patients["age"].where(np.arange(len(patients)) % 3 > 0))
    wrong = patients.assign(age=1e6)
    for target in ("age", "ward", "smokes"):
        expected = model.predict(patients.drop(columns=target), target)
        for table in (patients, holed if target == "age" else patients, wrong if target == "age" else patients):
            pd.testing.assert_series_equal(model.predict(table, target), expected)
    without_view = model.predict(patients[["ward", "stage", "smokes", "treated"]], "age")
    assert not np.allclose(model.predict(patients, "age"), without_view)
    seen = model.predict(patients, "age", use_target=True)
    assert np.abs(seen - patients["age"]).mean() < np.abs(model.predict(patients, "age") - patients["age"]).mean()
    proba = model.predict_proba(patients, "ward")
    pd.testing.assert_frame_equal(proba, model.predict_proba(patients.drop(columns="ward"), "ward"))
    with pytest.raises(ValueError, match="nothing but the target"):
        model.predict(patients[["ward"]], "ward")


def test_columns_are_found_by_their_own_names() -> None:
    """Numbers, text of the same digits, tuples, and the names of the views made by type."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((80, 2))
    numbers = z @ rng.standard_normal((2, 4)) + 0.3 * rng.standard_normal((80, 4))
    labels = np.where(z[:, 0] > 0, "u", "v").astype(object)
    frame = pd.DataFrame({3: numbers[:, 0], "3": numbers[:, 1], 2.5: numbers[:, 2]})
    frame["binary"], frame["numeric"], frame[1], frame["1"] = numbers[:, 3], labels, labels, labels[::-1]
    model = SSHIBA(3, random_state=0).fit(frame)
    for column in frame:
        found = model.predict(frame, column)
        assert found.name == column
        expected = model.predict(frame.drop(columns=[column]), column)
        pd.testing.assert_series_equal(found, expected)
        assert set(model.influence(column))
    named = SSHIBA(3, {"sex": (["numeric"], Categorical())}, random_state=0).fit(frame)
    assert named.predict(frame, "numeric").isin(["u", "v"]).all()
    assert list(named.predict_proba(frame, "numeric")) == ["u", "v"]
    whole, column = named.influence("sex"), named.influence("numeric")
    assert all(whole[name].equals(column[name]) for name in whole)
    assert isinstance(SSHIBA(2, {3: Real(scale=False)}, random_state=0).fit(frame[[3, "3"]]).views_["3"], Real)


def test_a_single_column_of_few_whole_numbers_is_a_number() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"children": rng.integers(0, 4, 60), "ward": rng.choice(["a", "b"], 60)})
    model = SSHIBA(2, random_state=0).fit(frame)
    assert isinstance(model.views_["numeric"], Real)
    assert model.predict(frame, "children").name == "children"
    assert list(model.impute(frame.mask(rng.random(frame.shape) < 0.2))) == ["children", "ward"]


def test_views_hold_all_columns(patients: pd.DataFrame) -> None:
    assert sorted(column for columns in by_type(patients)[0].values() for column in columns) == sorted(patients.columns)


def test_mudata_and_anndata(patients: pd.DataFrame) -> None:
    """Names are kept, observations aligned; those a modality lacks are a missing view."""
    anndata = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
    mudata = pytest.importorskip("mudata", reason="needs the extra 'mudata'")
    rng = np.random.default_rng(0)
    z = rng.standard_normal((60, 2))
    rna = anndata.AnnData(z @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((60, 6)))
    rna.obs_names, rna.var_names = [f"s{i}" for i in range(60)], [f"gene{d}" for d in range(6)]
    protein = anndata.AnnData((z @ rng.standard_normal((2, 3)) + 0.1 * rng.standard_normal((60, 3)))[20:])
    protein.obs_names, protein.var_names = [f"s{i}" for i in range(20, 60)], ["p1", "p2", "p3"]
    both = mudata.MuData({"rna": rna, "protein": protein})
    model = SSHIBA(4, random_state=0).fit(both)
    assert model.feature_names_in_["protein"] == ["p1", "p2", "p3"]
    assert list(model.index_[:2]) == ["s0", "s1"]
    assert model.impute({"rna": rna, "protein": protein.to_df()})["protein"].shape == (60, 3)
    assert list(model.predict(mudata.MuData({"rna": rna[:5]}))["protein"].index) == [f"s{i}" for i in range(5)]
    assert SSHIBA(2, random_state=0).fit(rna).views_["X"] == Real()


def test_names_of_the_views_made_by_type_are_free(patients: pd.DataFrame) -> None:
    model = SSHIBA(3, random_state=0).fit(patients.rename(columns={"ward": "binary", "age": "numeric"}))
    assert {"binary", "binary columns", "numeric columns"} <= set(model.views_)
    assert list(model.sample(3)) == ["numeric", "weight", "dose", "smokes", "treated", "binary", "stage"]


def test_a_sample_has_the_columns_in_the_order_of_the_table(patients: pd.DataFrame, tmp_path: Path) -> None:
    """Whatever views they are in: also in a loaded model, and in one that went on."""
    mixed = patients[["stage", "weight", "treated", "ward", "age", "smokes", "dose"]]
    mixed.columns = ["stage", "weight", 3, "ward", ("age", "years"), "smokes", "dose"]
    model = SSHIBA(3, random_state=0, max_iter=5, views={"body": ["dose", "weight"]})
    with pytest.warns(ConvergenceWarning):
        model.fit(mixed)
    assert list(model.sample(2)) == list(mixed)
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    pd.testing.assert_frame_equal(again.sample(2, random_state=0), model.sample(2, random_state=0))
    again.set_params(max_iter=1000).resume(mixed)
    assert list(again.sample(2)) == list(mixed)
    with zipfile.ZipFile(tmp_path / "m.sshiba") as new, zipfile.ZipFile(tmp_path / "old.sshiba", "w") as old:
        header = json.loads(new.read("model.json"))
        del header["columns"]  # older files lack them
        old.writestr("model.json", json.dumps(header))
        old.writestr("arrays.safetensors", new.read("arrays.safetensors"))
    of_views = [column for columns in model.feature_names_in_.values() for column in columns]
    assert list(load(tmp_path / "old.sshiba").sample(2)) == of_views != list(mixed)


def test_influence_and_tune_take_columns(model: SSHIBA, patients: pd.DataFrame) -> None:
    found = model.influence("treated")
    assert list(found["numeric"].index) == ["age", "weight", "dose"]
    assert found["numeric"]["weight"] > found["numeric"]["age"]  # treated depends on the cause of weight
    tuned = tune(SSHIBA(random_state=0), patients, {"n_components": [1, 4]}, "treated", n_folds=2)
    assert len(tuned.table) == 2
