"""polars and Arrow: what comes in one library goes back in it, types kept; inside all is pandas."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sshiba import SSHIBA, Categorical, Real, load, tune
from sshiba.data.border import as_views
from sshiba.evaluate import holdout

pl = pytest.importorskip("polars", reason="needs polars")
pa = pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")

N = 90
TYPES = {
    "age": pl.Int64,
    "weight": pl.Float32,
    "visits": pl.Int16,
    "smokes": pl.Boolean,
    "treated": pl.UInt8,
    "ward": pl.String,
    "stage": pl.Enum(["I", "II", "III"]),
    "city": pl.Categorical,
}


def patients(holes: bool = True) -> Any:
    """Two causes, columns of many types; a few holes in each."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, 2))
    columns = {
        "age": np.round(50 + 10 * z[:, 0] + rng.standard_normal(N)).astype(int),
        "weight": 70 + 8 * z[:, 1] + rng.standard_normal(N),
        "visits": np.round(20 + 5 * z[:, 1]).astype(int),
        "smokes": z[:, 0] + rng.logistic(0, 0.3, N) > 0,
        "treated": (z[:, 1] > 0).astype(int),
        "ward": np.array(["north", "south", "west"])[np.argmax(np.c_[z, 0 * z[:, 0]], axis=1)],
        "stage": np.where(z[:, 0] > 0.5, "II", "I"),
        "city": np.where(z[:, 1] > -0.5, "Paris", "Rome"),
    }
    made = []
    for place, (name, values) in enumerate(columns.items()):
        cells = values.tolist()
        if holes:
            cells[place] = cells[20 + place] = None
        made.append(pl.Series(name, cells, dtype=TYPES[name]))
    return pl.DataFrame(made)


@pytest.fixture(scope="module")
def frame() -> Any:
    return patients()


@pytest.fixture(scope="module")
def model(frame: Any) -> SSHIBA:
    return SSHIBA(4, random_state=0, tol=1e-5).fit(frame)


def in_pandas(frame: Any) -> pd.DataFrame:
    return as_views(frame)


# --------------------------------------------------------------------------------------------- polars


def test_the_fit_is_that_of_the_same_pandas_frame(model: SSHIBA, frame: Any) -> None:
    same = SSHIBA(4, random_state=0, tol=1e-5).fit(in_pandas(frame))
    np.testing.assert_array_equal(model.factors_, same.factors_)
    assert model.views_ == same.views_
    assert model.score(frame) == same.score(in_pandas(frame))


def test_types_are_read_as_what_they_are(frame: Any) -> None:
    dtypes = {name: str(dtype) for name, dtype in in_pandas(frame).dtypes.items()}
    assert dtypes == {
        "age": "Int64",
        "weight": "float32",
        "visits": "Int16",
        "smokes": "boolean",
        "treated": "UInt8",
        "ward": str(pd.Series(["a"]).dtype),  # object before pandas 3
        "stage": "category",
        "city": "category",
    }
    assert list(in_pandas(frame)["stage"].cat.categories) == ["I", "II", "III"]
    assert str(in_pandas(patients(holes=False))["age"].dtype) == "int64"


def test_a_polars_table_is_imputed_as_one(model: SSHIBA, frame: Any) -> None:
    noted = frame.with_columns(
        note=pl.Series([[i] for i in range(N)]), day=pl.Series([None, *range(N - 1)]).cast(pl.Date)
    )
    filled, std = model.impute(noted, return_std=True)
    assert isinstance(filled, pl.DataFrame)
    assert filled.columns == noted.columns
    assert filled.schema == noted.schema
    assert filled["note"].equals(noted["note"])
    assert filled["day"].equals(noted["day"], null_equal=True)
    assert sum(filled.drop("day").null_count().row(0)) == 0
    for name in frame.columns:
        seen = frame[name].is_not_null()
        assert (filled[name].filter(seen) == frame[name].filter(seen)).all()
    expected = model.impute(in_pandas(frame))
    assert filled["ward"].to_list() == expected["ward"].tolist()
    assert filled["age"].to_list() == expected["age"].tolist()
    assert isinstance(std, pl.DataFrame)
    assert std["age"][0] > 0
    assert std["age"][1] == 0


def test_what_is_complete_comes_back_to_the_last_type(model: SSHIBA) -> None:
    whole = patients(holes=False)
    assert model.impute(whole).equals(whole)
    assert model.impute(whole).schema == whole.schema


def test_predictions_and_factors_are_polars(model: SSHIBA, frame: Any) -> None:
    new = frame.select("smokes", "weight").head(7)
    found = model.predict(new)
    assert isinstance(found, pl.DataFrame)
    assert found.shape == (7, 6)
    assert found.schema["treated"] == pl.UInt8
    assert found.schema["ward"] == pl.String
    assert found.schema["city"] == pl.Categorical
    assert found.schema["stage"] == TYPES["stage"]
    age, std = model.predict(new, "age", return_std=True)
    assert isinstance(age, pl.Series)
    assert age.name == "age"
    assert (std > 0).all()
    proba = model.predict_proba(new, "ward")
    assert proba.columns == ["north", "south", "west"]
    assert isinstance(model.predict_proba(new, "treated"), pl.Series)
    factors = model.transform(new)
    assert isinstance(factors, pl.DataFrame)
    np.testing.assert_array_equal(factors.to_numpy(), model.transform(in_pandas(new)).to_numpy())
    assert isinstance(SSHIBA(2, random_state=0, tol=1e-3).fit_transform(frame), pl.DataFrame)


def test_views_in_a_dict(frame: Any) -> None:
    views = {"body": frame.select("age", "weight"), "ward": frame["ward"]}
    model = SSHIBA(3, random_state=0).fit(views)
    assert model.views_ == {"body": Real(), "ward": Categorical()}
    filled, std = model.impute(views, return_std=True)
    assert isinstance(filled["body"], pl.DataFrame)
    assert isinstance(filled["ward"], pl.Series)
    assert filled["ward"].name == "ward"
    assert filled["ward"].null_count() == 0
    assert isinstance(std["body"], pl.DataFrame)
    assert isinstance(model.predict({"body": views["body"]})["ward"], pl.Series)
    assert isinstance(model.predict({"body": views["body"]}, "ward"), pl.Series)


def test_every_other_way_in(model: SSHIBA, frame: Any, tmp_path: Path) -> None:
    small = frame.select("age", "weight", "ward")
    assert list(holdout(SSHIBA(2, random_state=0, tol=1e-3), small, 0.2).index) == ["numeric", "ward"]
    tuned = tune(SSHIBA(random_state=0, tol=1e-3), small, {"n_components": [1, 2]}, "ward", n_folds=2)
    assert len(tuned.table) == 2
    short = SSHIBA(2, random_state=0, max_iter=3)
    with pytest.warns(UserWarning, match="still rose"):
        short.fit(small)
    assert short.set_params(max_iter=2000, tol=1e-3).resume(small).converged_
    pytest.importorskip("plotly", reason="needs the extra 'report'")
    model.report(tmp_path / "r.html", frame, fraction=0)
    assert "Paris" in (tmp_path / "r.html").read_text(encoding="utf-8")
    model.save(tmp_path / "m.sshiba")
    assert load(tmp_path / "m.sshiba").impute(frame).equals(model.impute(frame))


def test_nan_and_null_are_both_missing() -> None:
    given = pl.Series("a", [1.0, None, float("nan"), 4.0], dtype=pl.Float32)
    assert in_pandas(given).isna().tolist() == [False, True, True, False]
    assert in_pandas(given).dtype == "float32"


def test_whole_numbers_that_numpy_cannot_hold() -> None:
    if not hasattr(pl, "Int128"):
        pytest.skip("this polars has none")
    read = in_pandas(pl.Series("a", [2**100, None], dtype=pl.Int128))
    assert read.tolist() == [2**100, None]


def test_decimals_are_numbers(frame: Any) -> None:
    price = pl.Series("price", [f"{100 + 3 * a}.25" if a else None for a in frame["age"]]).cast(pl.Decimal(12, 2))
    given = pl.DataFrame([frame["age"], price])
    filled = SSHIBA(1, random_state=0, tol=1e-3).fit({"v": given}).impute({"v": given})["v"]
    assert filled.schema["price"] == pl.Decimal(12, 2)
    assert filled["price"].null_count() == 0
    assert (filled["price"] == price).drop_nulls().all()


def test_an_enum_that_lacks_a_level_is_widened(model: SSHIBA, frame: Any) -> None:
    given = frame.with_columns(stage=pl.Series([None] * N, dtype=pl.Enum(["I"])))
    assert set(model.impute(given)["stage"].unique()) == {"I", "II"}
    assert isinstance(model.impute(given).schema["stage"], pl.Enum)


def test_frames_without_row_names_are_matched_row_by_row(frame: Any) -> None:
    body, ward = frame.select("age", "weight"), frame["ward"]
    with pytest.raises(ValueError, match="'body' has 90, 'ward' has 80"):
        SSHIBA(2).fit({"body": body, "ward": ward.head(80)})
    named = in_pandas(ward).set_axis([f"p{i}" for i in range(N)])
    model = SSHIBA(2, random_state=0, tol=1e-3).fit({"body": body, "ward": named})
    assert list(model.index_[:2]) == ["p0", "p1"]
    filled = model.impute({"body": body, "ward": named})
    assert isinstance(filled["body"], pl.DataFrame)
    assert isinstance(filled["ward"], pd.Series)
    assert isinstance(model.transform({"body": body, "ward": named}), pd.DataFrame)  # which has the rows' names
    with pytest.raises(ValueError, match="view 'body' has 90 rows without labels, view 'ward' has 80"):
        SSHIBA(2).fit({"body": body, "ward": named.head(80)})
    with pytest.raises(ValueError, match="views 'ward' and 'x' have different row labels"):
        SSHIBA(2).fit({"body": body, "ward": named, "x": named.set_axis(range(N))})
    with pytest.raises(ValueError, match="same row labels in different orders, so view 'body'"):
        SSHIBA(2).fit({"body": body, "ward": named, "x": named.iloc[::-1]})


def test_lazy_frames_and_frames_of_strange_libraries_are_refused_by_name(frame: Any) -> None:
    with pytest.raises(TypeError, match=r"the data are a polars LazyFrame. Give frame.collect\(\)"):
        SSHIBA(2).fit(frame.lazy())

    class Strange:
        to_pandas = None

    Strange.__module__ = "modin.pandas"
    with pytest.raises(TypeError, match=r"view 'x' is a modin frame. Give frame.to_pandas\(\)"):
        SSHIBA(2).fit({"x": Strange()})


def test_polars_needs_no_arrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import polars as pl; from sshiba.data.border import as_views; from sshiba.data.polars_frames import Polars\n"
        "f = pl.DataFrame({'a': [1, None], 'b': [True, None], 'c': ['x', None], 'd': [1.5, None]})\n"
        "read = as_views(f)\n"
        "assert Polars().answer(read).equals(f), Polars().answer(read)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_neither_library_is_imported_for_others() -> None:
    code = (
        "import sys, numpy as np; from sshiba import SSHIBA\n"
        "SSHIBA(1).fit({'x': np.random.default_rng(0).normal(size=(20, 3))})\n"
        "assert not {'polars', 'anndata', 'mudata'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------------------------------- Arrow


def arrow(frame: Any) -> Any:
    """The same columns as Arrow has them."""
    columns = {name: pa.array(frame[name].to_list()) for name in frame.columns}
    columns["visits"] = columns["visits"].cast(pa.int16())
    columns["weight"] = columns["weight"].cast(pa.float32())
    columns["treated"] = columns["treated"].cast(pa.uint8())
    columns["ward"] = columns["ward"].cast(pa.large_string())
    columns["city"] = columns["city"].dictionary_encode()
    return pa.table(columns)


def test_an_arrow_table_comes_back_as_one(model: SSHIBA, frame: Any) -> None:
    given = arrow(frame).append_column("note", pa.array([[i] for i in range(N)]))
    given = given.replace_schema_metadata({"source": "ward book"})
    classes = {"stage": Categorical()}  # Arrow forgets that an Enum has an order
    mine, theirs = (SSHIBA(4, classes, random_state=0, tol=1e-3).fit(table) for table in (arrow(frame), frame))
    assert mine.elbo_ == pytest.approx(theirs.elbo_)
    filled, std = model.impute(given, return_std=True)
    assert isinstance(filled, pa.Table)
    assert {f.name: f.type for f in filled.schema} == {f.name: f.type for f in given.schema}
    assert filled.schema.metadata == given.schema.metadata
    assert all(column.null_count == 0 for column in filled.columns)
    assert filled["ward"].to_pylist() == model.impute(frame)["ward"].to_list()
    assert isinstance(std, pa.Table)
    whole = arrow(patients(holes=False))
    assert model.impute(whole).equals(whole)
    new = given.select(["smokes", "weight"])
    assert model.predict(new).column_names == ["age", "visits", "treated", "ward", "stage", "city"]
    assert isinstance(model.predict(new, "ward"), pa.ChunkedArray)
    assert model.predict_proba(new, "ward").column_names == ["north", "south", "west"]
    assert model.transform(new).num_rows == N


def test_row_names_that_pandas_left_in_an_arrow_table_are_row_names(frame: Any) -> None:
    table = in_pandas(frame.select("age", "weight")).set_axis([f"p{i}" for i in range(N)])
    ward = in_pandas(frame["ward"]).set_axis([f"p{i}" for i in range(N)]).iloc[::-1]
    views = {"body": pa.Table.from_pandas(table), "ward": ward}
    model = SSHIBA(2, random_state=0, tol=1e-3).fit(views)
    assert list(model.index_[:2]) == ["p0", "p1"]
    assert model.feature_names_in_["body"] == ["age", "weight"]
    pd.testing.assert_frame_equal(
        model.impute(views)["body"].to_pandas(), model.impute({"body": table, "ward": ward})["body"], check_dtype=False
    )


def test_arrow_columns_and_batches(frame: Any, caplog: pytest.LogCaptureFixture) -> None:
    given = arrow(frame)
    views = {"body": given.select(["age", "weight"]).to_batches()[0], "ward": given["ward"]}
    with caplog.at_level(logging.INFO, logger="sshiba"):
        model = SSHIBA(2, random_state=0, tol=1e-3).fit(views)
    assert "view 'ward': taken as Categorical" in caplog.text
    filled = model.impute(views)
    assert isinstance(filled["body"], pa.Table)
    assert filled["ward"].type == pa.large_string()
    assert filled["ward"].null_count == 0
