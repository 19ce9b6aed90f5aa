"""The estimators for one table: scikit-learn's own checks, and what they promise beyond them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sshiba import SSHIBA, Categorical, Count, Real
from sshiba.sklearn import SSHIBAClassifier, SSHIBAImputer, SSHIBARegressor, SSHIBATransformer

try:
    from sklearn.utils.estimator_checks import parametrize_with_checks
except RuntimeError:  # scikit-learn 1.6 beside array-api-compat, which we need
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SCIPY_ARRAY_API", "1")
        from sklearn.utils.estimator_checks import parametrize_with_checks

# Without the search, which is not what is checked here and takes most of the time.
ESTIMATORS = [
    SSHIBAClassifier(),
    SSHIBARegressor(),
    SSHIBAImputer(search=None),
    SSHIBATransformer(search=None),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_check_of_array_api_input_runs_too() -> None:
    """It is skipped unless SciPy is told so before it is imported."""
    code = (
        "import inspect, warnings; warnings.simplefilter('ignore')\n"
        "from sklearn.utils.estimator_checks import check_array_api_input as check\n"
        "from sshiba.sklearn import *\n"
        "wanted = {'expect_only_array_outputs': False}  # which scikit-learn 1.6 has not got\n"
        "options = {name: wanted[name] for name in inspect.signature(check).parameters if name in wanted}\n"
        "for kind in (SSHIBAClassifier, SSHIBARegressor, SSHIBAImputer, SSHIBATransformer):\n"
        "    one = kind(search=None, max_iter=5)\n"
        "    check(kind.__name__, one, array_namespace='numpy', **options)\n"
        "print('all ran')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "all ran", ran.stderr


@pytest.fixture(scope="module")
def imputer(patients: pd.DataFrame) -> SSHIBAImputer:
    return SSHIBAImputer(search=None, random_state=0).fit(patients)


class TestImputer:
    def test_a_frame_comes_back_filled_with_its_types(self, patients: pd.DataFrame, imputer: SSHIBAImputer) -> None:
        before = patients.copy()
        filled = imputer.transform(patients)
        pd.testing.assert_frame_equal(patients, before)
        assert not filled.isna().any(axis=None)
        assert filled.index.equals(patients.index)
        assert filled.dtypes.equals(patients.dtypes)
        seen = patients.notna()
        assert filled.where(seen).astype(object).fillna("-").equals(patients.astype(object).fillna("-"))
        assert list(imputer.get_feature_names_out()) == list(patients)

    def test_draws_differ_and_means_do_not(self, patients: pd.DataFrame, imputer: SSHIBAImputer) -> None:
        means = [imputer.transform(patients)["age"].iloc[0] for _ in range(2)]
        assert means[0] == means[1]
        drawing = SSHIBAImputer(search=None, random_state=0, sample_posterior=True).fit(patients)
        again = clone(drawing).fit(patients)
        first = drawing.transform(patients)
        pd.testing.assert_frame_equal(first, again.transform(patients))
        assert abs(first["age"].iloc[0] - means[0]) > 1e-6
        assert set(first["ward"]) <= {"north", "south", "west"}
        other = again.set_params(random_state=1).transform(patients)
        assert other["age"].iloc[0] != first["age"].iloc[0]

    def test_indicators_and_empty_columns(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 1)) @ rng.standard_normal((1, 4)) + 0.1 * rng.standard_normal((40, 4))
        X[3, 1] = X[:, 2] = np.nan
        out = SSHIBAImputer(search=None, add_indicator=True).fit_transform(X)
        assert out.shape == (40, 3 + 2)
        assert out[3, 3] == 1
        assert out[:, 4].all()
        kept = SSHIBAImputer(search=None, keep_empty_features=True).fit(X)
        assert (kept.transform(X)[:, 2] == 0).all()
        named = SSHIBAImputer(search=None, add_indicator=True).fit(pd.DataFrame(X, columns=list("abcd")))
        found = named.set_output(transform="pandas").transform(pd.DataFrame(X, columns=list("abcd")))
        assert list(found) == ["a", "b", "d", "missingindicator_b", "missingindicator_c"]

    def test_polars_come_back_as_such(self, patients: pd.DataFrame) -> None:
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame({"age": patients["age"].to_list(), "weight": patients["weight"].to_list()})
        out = SSHIBAImputer(search=None).fit_transform(frame)
        assert isinstance(out, pl.DataFrame)
        assert sum(out.null_count().row(0)) == 0


class TestClassifier:
    def test_rows_without_a_label_help(self) -> None:
        """Three labelled rows of each kind are told apart better with the others beside them."""
        X, y = load_iris(return_X_y=True)
        rng = np.random.default_rng(1)
        some = np.concatenate([rng.choice(np.flatnonzero(y == c), 3, replace=False) for c in range(3)])
        rest = np.setdiff1d(np.arange(len(y)), some)
        unlabelled = y.copy()
        unlabelled[rest] = -1
        alone = SSHIBAClassifier(random_state=0).fit(X[some], y[some]).score(X[rest], y[rest])
        helped = SSHIBAClassifier(random_state=0, unlabelled=-1).fit(X, unlabelled).score(X[rest], y[rest])
        assert helped > alone
        texts = np.where(unlabelled < 0, None, np.array(["a", "b", "c"], dtype=object)[y])
        same = SSHIBAClassifier(random_state=0).fit(X, texts)
        assert (same.predict(X[rest]) == np.array(["a", "b", "c"])[y[rest]]).mean() == pytest.approx(helped)

    def test_gaps_views_and_searches(self) -> None:
        X, y = load_wine(return_X_y=True)
        X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
        views = {"acids": slice(0, 5), "colour": ([9, 10], Real(weight=0.5))}
        model = make_pipeline(StandardScaler(), SSHIBAClassifier(random_state=0, views=views))
        assert cross_val_score(model, X, y, cv=2).min() > 0.85
        found = GridSearchCV(SSHIBAClassifier(random_state=0), {"n_components": [1, 5]}, cv=2).fit(X, y)
        assert found.best_params_ == {"n_components": 5}
        assert list(found.best_estimator_.model_.views_) == ["X", "y (target)"]

    def test_several_labels(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((100, 4))
        Y = np.c_[X[:, 0] > 0, X[:, 1] > 0.3].astype(float)
        Y[5, 0] = np.nan
        model = SSHIBAClassifier(random_state=0).fit(X, Y)
        assert model.predict_proba(X).shape == (100, 2)
        assert (model.predict(X)[~np.isnan(Y[:, 0])] == Y[~np.isnan(Y[:, 0])]).mean() > 0.85

    def test_frames_with_labels_inside(self, patients: pd.DataFrame) -> None:
        y = patients["smokes"].to_numpy(dtype=object, na_value=None)
        X = patients.drop(columns="smokes")
        views = {"numbers": make_column_selector(dtype_include="number"), "ward": ("ward", Categorical())}
        model = SSHIBAClassifier(random_state=0, views=views).fit(X, y)
        assert set(model.model_.views_) == {"numbers", "ward", "ordinal", "y (target)"}
        assert (model.predict(X) == y)[pd.notna(y)].mean() > 0.9
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X[list(X)[::-1]])

    def test_what_is_refused(self) -> None:
        X = np.random.default_rng(0).standard_normal((10, 2))
        for y, words in ((np.full(10, np.nan), "no label"), (np.zeros(10), "1 class"), (X, "label type|continuous")):
            with pytest.raises(ValueError, match=words):
                SSHIBAClassifier().fit(X, y)
        with pytest.raises(ValueError, match="no column 'b'"):
            SSHIBAClassifier(views={"v": ["b"]}).fit(pd.DataFrame(X, columns=["a", "c"]), np.arange(10) % 2)
        with pytest.raises(ValueError, match="no column with any value"):
            SSHIBAClassifier().fit(np.full((10, 2), np.nan), np.arange(10) % 2)


def test_missing_cells_of_pandas_in_arrays_of_objects() -> None:
    X, y = load_iris(return_X_y=True)
    X = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    for absent in (pd.NA, None):
        objects = np.where(np.isnan(X), absent, X.astype(object))
        np.testing.assert_array_equal(SSHIBAImputer().fit_transform(objects), SSHIBAImputer().fit_transform(X))
        classifier = SSHIBAClassifier(max_iter=20).fit(objects, y)
        np.testing.assert_array_equal(classifier.predict(objects), classifier.predict(X))
        some = np.where(y == 1, absent, y.astype(object))
        assert np.isfinite(SSHIBARegressor(max_iter=20).fit(objects, some).predict(X)).all()


def test_a_regressor_says_how_sure_it_is_and_takes_several_targets() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    Y = X @ rng.standard_normal((5, 2)) + 0.5 * rng.standard_normal((200, 2))
    Y[:50, 1] = np.nan
    model = SSHIBARegressor(random_state=0).fit(X[:150], Y[:150])
    mean, std = model.predict(X[150:], return_std=True)
    assert mean.shape == std.shape == (50, 2)
    inside = np.abs(Y[150:] - mean) < 1.96 * std
    assert 0.85 < inside.mean() <= 1
    one = SSHIBARegressor(random_state=0).fit(X[:150], Y[:150, 0])
    truth = LinearRegression().fit(X[:150], Y[:150, 0])
    assert one.score(X[150:], Y[150:, 0]) > truth.score(X[150:], Y[150:, 0]) - 0.02


def test_a_transformer_goes_there_and_back_and_scores_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((100, 6))
    model = SSHIBATransformer(search=None, random_state=0).fit(X)
    Z = model.transform(X)
    assert Z.shape == (100, model.n_components_) == (100, 2)
    assert np.mean((model.inverse_transform(Z) - X) ** 2) < 0.02
    assert model.score(X) == pytest.approx(model.model_.score({"X": X}), rel=1e-9)
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    rows = [model.model_.score({"X": holes[[i]]}) for i in range(5)]
    np.testing.assert_allclose(model.score_samples(holes)[:5], rows, rtol=1e-8)
    named = model.set_output(transform="pandas").transform(X)
    assert list(named) == ["sshibatransformer0", "sshibatransformer1"]
    parts = ColumnTransformer([("a", SSHIBATransformer(search=None), slice(0, 6))]).fit_transform(X)
    np.testing.assert_allclose(np.abs(parts), np.abs(Z), atol=1e-6)
    assert (pickle.loads(pickle.dumps(model)).score_samples(X) == model.score_samples(X)).all()


def fitted_views(X: Any, views: dict[str, Any]) -> dict[str, Any]:
    return SSHIBATransformer(search=None, max_iter=5, views=views).fit(X).model_.views_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_type_alone_is_that_of_the_columns_that_are_not_named() -> None:
    X = np.random.default_rng(0).poisson(3.0, (30, 4)).astype(float)
    noisy = Real(noise="view")
    assert fitted_views(X, {"X": noisy}) == {"X": noisy}
    assert fitted_views(X, {"X": "count"}) == {"X": Count()}
    assert fitted_views(X, {"first": [0], "X": Count}) == {"first": Real(), "X": Count()}
    assert fitted_views(pd.DataFrame(X, columns=list("abcd")), {"numeric": noisy}) == {"numeric": noisy}
    for views in ({"measured": noisy}, {"first": [0, 1, 2, 3], "X": "count"}):
        with pytest.raises(ValueError, match="has a type and no columns"):
            fitted_views(X, views)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_named_columns_do_not_give_way_to_the_rest() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    model = SSHIBATransformer(search=None, max_iter=5, views={"X": [0, 1]}).fit(X)
    assert model.columns_.places == {"X": [0, 1], "X (2)": [2, 3]}


def test_row_scores_of_labels_are_those_of_the_rows_alone(model: SSHIBA) -> None:
    from samples import make_views, with_holes

    views = {name: values[:6] for name, values in with_holes(make_views()).items()}
    assert model.score_samples(views).mean() == pytest.approx(model.score(views), rel=1e-7)


def test_a_sparse_matrix_is_an_x_too() -> None:
    X, y = load_wine(return_X_y=True)
    dense, thin = np.where(X > 2, X, 0), sparse.csr_matrix(np.where(X > 2, X, 0))
    a, b = (SSHIBAClassifier(random_state=0, n_components=5).fit(x, y).predict_proba(x) for x in (dense, thin))
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_sshiba_itself_takes_one_array_behind_a_scaler() -> None:
    X = load_wine(return_X_y=True)[0]
    X[3, 4] = np.nan
    line = make_pipeline(StandardScaler(), SSHIBA(5, random_state=0, search=None)).fit(X)
    model = line[-1]
    assert list(model.views_) == ["X"]
    assert line.transform(X).shape == (len(X), model.n_components_)
    scaled = line[0].transform(X)
    filled, std = model.impute(scaled, return_std=True)
    assert isinstance(filled, np.ndarray)
    assert np.isfinite(filled).all()
    assert std[3, 4] > 0 == std[3, 3]
    assert model.score(scaled) == pytest.approx(model.score({"X": scaled}))
    thin = sparse.csr_matrix(np.nan_to_num(scaled))
    assert SSHIBA(2, random_state=0).fit(thin).transform(thin).shape == (len(X), 2)
