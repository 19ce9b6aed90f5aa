"""The estimators for one table among scikit-learn's tools: searches, ensembles, routing, containers, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from sshiba import SSHIBA
from sshiba.sklearn import SSHIBAClassifier, SSHIBAImputer, SSHIBARegressor, SSHIBATransformer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # short fits will do
ESTIMATORS = [SSHIBAClassifier(), SSHIBARegressor(), SSHIBAImputer(), SSHIBATransformer()]
METHODS = ("fit", "predict", "predict_proba", "score", "transform", "inverse_transform")


@pytest.fixture(scope="module")
def flowers() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    return np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X), y


class TestAmongOthers:
    """Each tool of scikit-learn tried once, with gaps in X; short fits."""

    @pytest.mark.parametrize(
        "around",
        [
            BaggingClassifier(n_estimators=3, max_features=3, random_state=0),
            CalibratedClassifierCV(cv=2),
            CalibratedClassifierCV(cv=2, method="isotonic", ensemble=False),
            GridSearchCV(None, {"keep": ["fewest", "all"], "views": [None, {"leaves": [0, 1]}]}, cv=2),
            OneVsRestClassifier(None),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_classifiers_around_it(self, around: Any, flowers: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = flowers
        around = clone(around).set_params(estimator=SSHIBAClassifier(random_state=0, max_iter=50))
        assert around.fit(X, y).score(X, y) > 0.85

    def test_permuted_columns_matter(self, flowers: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = flowers
        noise = np.random.default_rng(0).standard_normal((len(X), 1))
        model = SSHIBAClassifier(random_state=0, max_iter=50).fit(np.hstack([X, noise]), y)
        found = permutation_importance(model, np.hstack([X, noise]), y, n_repeats=3, random_state=0)
        assert found.importances_mean[:4].max() > 0.1 > abs(found.importances_mean[4])

    def test_processes_of_joblib_find_the_same(self, flowers: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = flowers
        one = cross_val_score(SSHIBAClassifier(random_state=0, max_iter=50), X, y, cv=2)
        both = cross_val_score(SSHIBAClassifier(random_state=0, max_iter=50), X, y, cv=2, n_jobs=2)
        np.testing.assert_array_equal(one, both)

    def test_columns_of_a_table_each_their_own_way(self, patients: pd.DataFrame) -> None:
        columns = make_column_transformer(
            (SSHIBAImputer(search=None, max_iter=50), ["age", "weight", "ward"]),
            (SSHIBATransformer(search=None, max_iter=50), ["visits", "weight", "age"]),
        )
        found = columns.set_output(transform="pandas").fit_transform(patients)
        assert list(found)[:3] == [f"sshibaimputer__{name}" for name in ("age", "weight", "ward")]
        assert set(list(found)[3:]) <= {f"sshibatransformer__sshibatransformer{i}" for i in range(3)}
        assert found.index.equals(patients.index)
        assert not found.isna().any(axis=None)


class TestSetOutput:
    @pytest.mark.parametrize("kind", ["pandas", "polars"])
    @pytest.mark.parametrize("given", ["array", "pandas", "polars", "arrow"])
    @pytest.mark.parametrize("make", [SSHIBAImputer, SSHIBATransformer])
    def test_whatever_comes_in(self, make: Any, given: str, kind: str, patients: pd.DataFrame) -> None:
        library = {"pandas": pd, "polars": pytest.importorskip("polars")}[kind]
        frame = patients[["age", "weight"]].assign(visits=patients["visits"].astype(float))
        X = as_given(frame, given)
        model = make(search=None, max_iter=30).set_output(transform=kind)
        found = model.fit_transform(X)
        assert isinstance(found, library.DataFrame)
        assert list(found.columns) == list(model.get_feature_names_out())
        assert len(found) == len(frame)
        if make is SSHIBAImputer:
            plain = make(search=None, max_iter=30).fit_transform(X)
            assert type(plain) is type(X)

    def test_labels_stay_labels_in_polars(self, patients: pd.DataFrame) -> None:
        pl = pytest.importorskip("polars")
        X = patients[["age", "ward"]].reset_index(drop=True)
        found = SSHIBAImputer(search=None, max_iter=30).set_output(transform="polars").fit_transform(X)
        assert found.schema["ward"] == pl.String
        assert set(found["ward"]) == {"north", "south", "west"}


def as_given(frame: pd.DataFrame, kind: str) -> Any:
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(frame.reset_index(drop=True))
    if kind == "arrow":
        return pytest.importorskip("pyarrow").Table.from_pandas(frame.reset_index(drop=True))
    return frame if kind == "pandas" else frame.to_numpy()


class TestTags:
    @pytest.mark.parametrize("one", ESTIMATORS, ids=lambda one: type(one).__name__)
    def test_gaps_and_sparse_matrices(self, one: Any) -> None:
        tags = get_tags(one)
        assert tags.input_tags.allow_nan
        assert tags.input_tags.sparse == (not isinstance(one, SSHIBAImputer))

    def test_targets(self) -> None:
        assert get_tags(SSHIBAClassifier()).classifier_tags.multi_label
        assert not get_tags(SSHIBAClassifier()).target_tags.multi_output
        assert get_tags(SSHIBARegressor()).target_tags.multi_output

    def test_sshiba_itself(self) -> None:
        tags = get_tags(SSHIBA())
        assert tags.input_tags.allow_nan
        assert tags.input_tags.sparse
        assert tags.input_tags.dict
        assert not tags.target_tags.required


class TestRouting:
    """Metadata goes where it is asked for; the data themselves are none."""

    @pytest.fixture(autouse=True)
    def _enabled(self) -> Any:
        with config_context(enable_metadata_routing=True):
            yield

    def test_data_are_not_metadata(self) -> None:
        for one in (SSHIBA(), *ESTIMATORS):
            asked = one.get_metadata_routing()
            names = {name for method in METHODS for name in getattr(asked, method).requests}
            assert not names & {"views", "X", "y", "Z"}

    def test_deviations_asked_of_the_last_step(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 3))
        model = SSHIBARegressor(random_state=0, max_iter=30).set_predict_request(return_std=True)
        line = make_pipeline(StandardScaler(), model).fit(X, X @ [1.0, 2.0, 3.0])
        mean, std = line.predict(X, return_std=True)
        assert mean.shape == std.shape == (40,)

    def test_weights_of_the_score_and_groups_of_the_folds(self) -> None:
        X, y = load_iris(return_X_y=True)
        X, y, folds = X[::3], y[::3], np.arange(50) % 2
        model = SSHIBAClassifier(random_state=0, max_iter=30).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"keep": ["all"]}, cv=GroupKFold(2))
        weights = (y == 2).astype(float)
        found = search.fit(X, y, groups=folds, sample_weight=weights)
        own = []
        for fold in (0, 1):
            fit = clone(model).fit(X[folds != fold], y[folds != fold])
            rows = (folds == fold) & (y == 2)
            own.append(fit.score(X[rows], y[rows]))
        assert found.best_score_ == pytest.approx(np.mean(own))

    def test_weights_of_rows_are_refused(self) -> None:
        X, y = load_iris(return_X_y=True)
        with pytest.raises(TypeError, match="sample_weight"):
            make_pipeline(SSHIBAClassifier()).fit(X, y, sample_weight=np.ones(len(y)))


@pytest.mark.parametrize("kind", ["polars", "arrow", "pandas"])
def test_sshiba_itself_takes_one_frame_of_any_library(kind: str) -> None:
    X = pd.DataFrame(load_iris().data[::3], columns=list("abcd"))
    X.iloc[3, 1] = np.nan
    frame = as_given(X, kind)
    model = SSHIBA(2, search=None, random_state=0, max_iter=30).fit(frame)
    assert list(model.views_) == ["numeric"]
    filled = model.impute(frame)
    assert type(filled) is type(frame)
    same = SSHIBA(2, search=None, random_state=0, max_iter=30).fit(X.to_numpy()).impute(X.to_numpy())
    np.testing.assert_allclose(np.column_stack([np.asarray(filled[name]) for name in "abcd"]), same)


BAD_INPUT = {
    "infinite": (lambda X, y: SSHIBAClassifier().fit(np.where(X > 6, np.inf, X), y), ValueError, "infinity"),
    "infinite, in a frame": (
        lambda X, y: SSHIBAClassifier().fit(pd.DataFrame(np.where(X > 6, np.inf, X)), y),
        ValueError,
        "infinite",
    ),
    "text": (lambda X, y: SSHIBAClassifier().fit(np.full(X.shape, "a"), y), ValueError, "could not convert"),
    "one column": (lambda X, y: SSHIBAClassifier().fit(X[:, 0], y), ValueError, "Expected 2D array"),
    "lengths": (lambda X, y: SSHIBAClassifier().fit(X, y[1:]), ValueError, "inconsistent numbers of samples"),
    "no rows": (lambda X, y: SSHIBARegressor().fit(X[:0], y[:0]), ValueError, "0 sample"),
    "sparse y": (lambda X, y: SSHIBAClassifier().fit(X, sparse.csr_matrix(y)), TypeError, "Sparse data was passed"),
    "sparse gaps": (lambda X, y: SSHIBAImputer().fit(sparse.csr_matrix(X)), TypeError, "Sparse data was passed"),
    "not fitted": (lambda X, y: SSHIBATransformer().transform(X), NotFittedError, "not fitted"),
    "columns": (
        lambda X, y: SSHIBARegressor(max_iter=2).fit(X, y).predict(X[:, :2]),
        ValueError,
        "expecting 4 features",
    ),
    "factors": (
        lambda X, y: SSHIBATransformer(search=None, max_iter=2).fit(X).inverse_transform(np.ones((2, 9))),
        ValueError,
        "9 factors",
    ),
    "setting": (lambda X, y: SSHIBAClassifier(n_components=-1).fit(X, y), ValueError, "n_components"),
}


@pytest.mark.parametrize("what", BAD_INPUT)
def test_bad_input_gets_scikit_learns_kind_of_error(what: str) -> None:
    do, kind, words = BAD_INPUT[what]
    with pytest.raises(kind, match=words):
        do(*load_iris(return_X_y=True))
