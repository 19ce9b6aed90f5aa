"""Sparse matrices as real views: the fit is that of the same numbers in a dense array, and nothing is made dense."""

import logging
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import sshiba as sshiba_command
from scipy import sparse

import sshiba
from sshiba import SSHIBA, Binary, Candidate, Categorical, Count, Real, load, tune
from sshiba.core import sparse_rows
from sshiba.core.coded import CodedView
from sshiba.core.sparse_rows import CentredSparse
from sshiba.data import sparse_tables
from sshiba.data.sparse_tables import DENSE_BYTES, read_sparse, standardise_stored, summarise
from sshiba.data.types.real import Real as RealView
from sshiba.evaluate import holdout, stability
from sshiba.evaluate.hiding import take_drawn, take_rows

N, D = 160, 30
ROWS = [f"cell {i}" for i in range(N)]
GENES = [f"gene {d}" for d in range(D)]
FORMS = {
    "csr array": sparse.csr_array,
    "csr matrix": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_matrix,
    "lil": sparse.lil_array,
}


def expressed(n: int = N, d: int = D, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Factors, and numbers of which three quarters are 0; one column is never 0, and far from it."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    X = np.maximum(z @ rng.standard_normal((3, d)) + 0.5 * rng.standard_normal((n, d)) - 1.0, 0)
    X[:, 1] = 1000 + z[:, 0] + 0.3 * rng.standard_normal(n)
    return z, X


@pytest.fixture
def z() -> np.ndarray:
    return expressed()[0]


@pytest.fixture(name="X")
def numbers() -> np.ndarray:
    return expressed()[1]


def fitted(data: Any, **options: Any) -> SSHIBA:
    return SSHIBA(**{"n_components": 6, "random_state": 0, "search": None, **options}).fit(data)


def assert_same_fit(a: SSHIBA, b: SSHIBA, tol: float = 1e-8) -> None:
    one, other = a.fitted_, b.fitted_
    assert one.n_components == other.n_components > 0
    assert one.elbo == pytest.approx(other.elbo, rel=tol)
    for mine, theirs in zip(one.posterior.views, other.posterior.views):
        np.testing.assert_allclose(mine.w_mean, theirs.w_mean, atol=tol)
        np.testing.assert_allclose(mine.tau.mean, theirs.tau.mean, rtol=tol)
    np.testing.assert_allclose(one.factors, other.factors, atol=tol)
    np.testing.assert_allclose(one.factors_std, other.factors_std, atol=tol)
    np.testing.assert_allclose(a.r2_.to_numpy(), b.r2_.to_numpy(), atol=tol)


# ------------------------------------------------------------------------------------------ the same as dense


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("engine", ["memory", "gram"])
def test_the_fit_is_that_of_the_dense_array(X: np.ndarray, form: str, engine: str) -> None:
    assert_same_fit(fitted({"x": FORMS[form](X)}, engine=engine), fitted({"x": X}, engine=engine))


def test_without_numba_it_is_the_same(X: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_rows, "compiled", lambda: None)
    assert_same_fit(fitted({"x": sparse.csr_array(X)}, engine="memory"), fitted({"x": X}))


def test_in_single_precision(X: np.ndarray) -> None:
    dense = fitted({"x": X}, dtype="float32", tol=1e-5)
    assert_same_fit(fitted({"x": sparse.csr_array(X)}, dtype="float32", tol=1e-5), dense, 1e-4)
    table = read_sparse(sparse.csr_array(X.astype("float32")), "x")
    coded = RealView().encode_sparse(
        table, "x", RealView().make_coding(summarise(table, tuple(range(D))), "x"), "float32"
    )
    assert coded.target.matrix.dtype == "float32"
    assert (coded.target @ np.ones((D, 2))).dtype == "float64"


def beside(z: np.ndarray) -> dict[str, Any]:
    """A dense view with holes, yes and no, and labels."""
    rng = np.random.default_rng(1)
    Y = z @ rng.standard_normal((3, 6)) + 0.3 * rng.standard_normal((N, 6))
    Y[rng.random(Y.shape) < 0.1] = np.nan
    labels = np.array(["a", "b", "c"])[np.argmax(z + 0.3 * rng.standard_normal(z.shape), axis=1)]
    return {"y": Y, "yes": (z[:, :2] > 0).astype(float), "who": labels}


@pytest.mark.parametrize("others", [["y"], ["yes", "who"], ["y", "yes", "who"]])
@pytest.mark.parametrize("engine", ["auto", "gram"])
def test_beside_other_views(X: np.ndarray, z: np.ndarray, others: list[str], engine: str) -> None:
    rest = {name: beside(z)[name] for name in others}
    options = {"engine": engine, "tol": 1e-6}
    one = fitted({"x": sparse.csr_array(X), **rest}, **options)
    assert_same_fit(one, fitted({"x": X, **rest}, **options), 1e-7)
    if "who" in others:
        np.testing.assert_allclose(one.sharpness_["who"], fitted({"x": X, **rest}, **options).sharpness_["who"])


def test_two_sparse_views(X: np.ndarray) -> None:
    a, b = X[:, :20], X[:, 20:]
    one = fitted({"a": sparse.csr_array(a), "b": sparse.csc_array(b)}, engine="gram")
    assert_same_fit(one, fitted({"a": a, "b": b}))


@pytest.mark.parametrize("options", [{"scale": False}, {"noise": "view"}, {"select_features": True}, {"weight": 0.5}])
def test_all_options_of_real_views(X: np.ndarray, options: dict) -> None:
    X = X[:, 2:]
    views = {"x": Real(**options)}
    assert_same_fit(fitted({"x": sparse.csr_array(X)}, views=views), fitted({"x": X}, views=views))


@pytest.mark.parametrize("block_rows", [1, 7, 64, N])
@pytest.mark.parametrize("absent", [0, 40])
def test_blocks_of_all_sizes(X: np.ndarray, z: np.ndarray, block_rows: int, absent: int) -> None:
    """The statistics of one sweep, whatever the blocks, rows that share a pattern or have a covariance each."""
    from sshiba.core.spec import Priors
    from sshiba.core.start import random_posterior
    from sshiba.data.reading import read_training
    from sshiba.engines import make_rows

    found = []
    for form in (np.asarray, sparse.csr_array):
        schema, data, index = read_training({"x": form(X), "y": beside(z)["y"]})
        rows = np.arange(N)
        rows[:absent] = -1
        coded = [data["x"].take(rows), data["y"]]
        spec = schema.model_spec(N, Priors(), "exact")
        engine = make_rows(coded, spec, 4, block_rows=block_rows)
        posterior = random_posterior(spec, 4, engine.groups, np.random.default_rng(0))
        found.append(engine.step(posterior, engine.start(posterior))[1])
    for one, other in zip(found[0].views, found[1].views):
        for name in ("n", "z_sum", "zz", "x_sum", "xz", "xx"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=1e-9, err_msg=name)


# ----------------------------------------------------------------------------------------------- rows it lacks


def test_a_row_that_is_absent_says_nothing() -> None:
    rng = np.random.default_rng(0)
    S = sparse.csr_array(sparse.random(5, 4, density=0.5, random_state=rng))
    whole = CodedView(CentredSparse(S, np.array([1.0, 2.0, 0.5, 0.0])), None)
    some = whole.take(np.array([3, -1, 0, -1]))
    dense = S.toarray() - whole.target.shift
    W, Z = rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
    expected = np.array([dense[3], np.zeros(4), dense[0], np.zeros(4)])
    np.testing.assert_array_equal(some.observed[:, 0], [True, False, True, False])
    assert ((some.target @ W)[[1, 3]] == 0).all()
    np.testing.assert_allclose(some.target @ W, expected @ W)
    np.testing.assert_allclose(Z.T @ some.target, Z.T @ expected)
    np.testing.assert_allclose(some.target.column_sums(), [expected.sum(axis=0), (expected**2).sum(axis=0)])
    np.testing.assert_allclose(some.target.gram(), expected.T @ expected, atol=1e-12)
    again = some.take(np.array([1, 2, -1]))
    np.testing.assert_allclose(again.target @ np.eye(4), [np.zeros(4), dense[0], np.zeros(4)])
    np.testing.assert_allclose(some.target[1:3] @ np.eye(4), expected[1:3])
    np.testing.assert_allclose(some.target[::2] @ np.eye(4), expected[::2])
    assert not (whole.hidden().target @ W).any()
    assert np.shares_memory(whole.target[1:3].matrix.data, S.data)


def annotated_of(X: Any, rows: Any = ROWS) -> Any:
    anndata = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
    return anndata.AnnData(X, obs=pd.DataFrame(index=list(rows)), var=pd.DataFrame(index=GENES))


@pytest.mark.parametrize("n_absent", [3, 60])
@pytest.mark.parametrize("engine", ["memory", "gram"])
def test_rows_absent_in_the_sparse_view(X: np.ndarray, z: np.ndarray, n_absent: int, engine: str) -> None:
    kept = np.random.default_rng(3).permutation(N)[n_absent:]
    Y = pd.DataFrame(beside(z)["y"], index=ROWS)
    names = [ROWS[i] for i in kept]
    one = fitted({"x": annotated_of(sparse.csr_matrix(X[kept]), names), "y": Y}, engine=engine)
    other = fitted({"x": pd.DataFrame(X[kept], names, GENES), "y": Y}, engine=engine)
    assert list(one.fitted_.index) == list(other.fitted_.index)
    assert_same_fit(one, other)


def test_absent_rows_cannot_be_variables(X: np.ndarray, z: np.ndarray) -> None:
    assert_same_fit(
        fitted({"x": sparse.csr_array(X)}, missing="mean-field"), fitted({"x": X}, missing="mean-field"), 1e-7
    )
    views = {"x": annotated_of(sparse.csr_matrix(X[:100]), ROWS[:100]), "y": pd.DataFrame(beside(z)["y"], index=ROWS)}
    with pytest.raises(ValueError, match=r"view 'x' is sparse and lacks some rows.*missing='exact'"):
        fitted(views, missing="mean-field")


# ------------------------------------------------------------------------------------------------- new rows


def test_what_is_said_of_rows(X: np.ndarray, z: np.ndarray) -> None:
    Y = beside(z)["y"]
    one, other = fitted({"x": sparse.csr_array(X), "y": Y}), fitted({"x": X, "y": Y})
    new = X[:7] + (X[:7] > 0) * 0.1
    close = {"atol": 1e-7}
    for given in (sparse.csr_matrix(new), sparse.csc_array(new), new):
        np.testing.assert_allclose(one.transform({"x": given}), other.transform({"x": new}), **close)
        np.testing.assert_allclose(one.predict({"x": given}, "y"), other.predict({"x": new}, "y"), **close)
        assert one.score({"x": given}) == pytest.approx(other.score({"x": new}), rel=1e-9)
    np.testing.assert_allclose(other.transform({"x": sparse.csr_array(new)}), other.transform({"x": new}), **close)
    np.testing.assert_allclose(one.predict({"y": Y}, "x"), other.predict({"y": Y}, "x"), atol=1e-6)
    np.testing.assert_allclose(
        one.predict({"x": sparse.csr_array(X), "y": Y}, "x"), other.predict({"x": X, "y": Y}, "x"), atol=1e-6
    )
    factors = SSHIBA(6, random_state=0, search=None).fit_transform({"x": sparse.csr_array(X), "y": Y})
    np.testing.assert_allclose(factors, other.fit_transform({"x": X, "y": Y}), **close)
    assert one.sample(3, random_state=0)["x"].shape == (3, D)


def test_a_sparse_view_is_imputed_as_it_is(X: np.ndarray, z: np.ndarray) -> None:
    Y = beside(z)["y"]
    given = {"x": sparse.csc_matrix(X), "y": Y}
    one, other = fitted(given), fitted({"x": X, "y": Y})
    filled, std = one.impute(given, return_std=True)
    assert filled["x"] is given["x"]
    assert isinstance(std["x"], sparse.csc_matrix)
    assert std["x"].shape == (N, D)
    assert std["x"].nnz == 0
    np.testing.assert_allclose(filled["y"], other.impute({"x": X, "y": Y})["y"], atol=1e-7)


def test_a_model_file(X: np.ndarray, tmp_path: Path) -> None:
    views = {"x": sparse.csr_array(X)}
    model = fitted(views, tol=1e-3)
    model.save(tmp_path / "model.sshiba")
    again = load(tmp_path / "model.sshiba")
    np.testing.assert_allclose(again.transform(views), model.transform(views), atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = fitted(views, max_iter=5)
    assert_same_fit(short.set_params(max_iter=2000).resume(views), fitted({"x": X}), 1e-3)


def test_a_report(X: np.ndarray, z: np.ndarray, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="needs the extra 'report'")
    views = {"x": sparse.csr_array(X), "who": beside(z)["who"]}
    fitted(views, tol=1e-3).report(tmp_path / "report.html", views)
    assert "x: 1" in (tmp_path / "report.html").read_text(encoding="utf-8")


# ----------------------------------------------------------------------------------------------- other libraries


def test_anndata_with_a_sparse_matrix(X: np.ndarray) -> None:
    given = annotated_of(sparse.csr_matrix(X))
    model = fitted(given)
    assert_same_fit(model, fitted(annotated_of(X)))
    factors = model.transform(given)
    assert list(factors.index) == ROWS
    mixed = given[::-1, ::-1].copy()  # columns are matched by name
    np.testing.assert_allclose(model.transform(mixed).loc[ROWS], factors, atol=1e-8)
    filled, std = model.impute(given, return_std=True)
    assert (filled.X != given.X).nnz == 0
    assert std.X.nnz == 0
    model.write_to(given)
    assert given.varm["sshiba"].shape == (D, model.n_components_)


def test_layers_of_an_anndata_stay_sparse(X: np.ndarray) -> None:
    given = annotated_of(X)
    given.layers["log"] = sparse.csc_matrix(np.log1p(X))
    views = sshiba.annotated(given, layer="log")
    assert sparse.issparse(views["X"].X)
    assert_same_fit(fitted(views), fitted({"X": pd.DataFrame(np.log1p(X), ROWS, GENES)}))


def test_mudata_with_a_sparse_modality(X: np.ndarray, z: np.ndarray) -> None:
    mudata = pytest.importorskip("mudata", reason="needs the extra 'mudata'")
    anndata = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        protein = anndata.AnnData(beside(z)["y"], obs=pd.DataFrame(index=ROWS))
        data = mudata.MuData({"rna": annotated_of(sparse.csr_matrix(X[:90]), ROWS[:90]), "protein": protein})
        model = fitted(data, tol=1e-5)
        filled = model.impute(data)
    assert sparse.issparse(filled["rna"].X)
    assert not np.isnan(filled["protein"].X).any()


def test_a_frame_of_sparse_columns(X: np.ndarray) -> None:
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(X), ROWS, GENES)
    model = fitted({"x": frame})
    assert_same_fit(model, fitted({"x": X}))
    assert list(model.transform({"x": frame}).index) == ROWS
    assert model.impute({"x": frame})["x"] is frame


@pytest.mark.filterwarnings("ignore:.*(still rose|whole numbers)")
@pytest.mark.parametrize("kind", [Count(), Real()], ids=["count", "real"])
def test_a_column_of_a_sparse_view_is_predicted(kind: Any, z: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = pd.DataFrame(np.random.default_rng(0).poisson(np.exp(z)), columns=list("klm"))
    dense = pd.concat([pd.DataFrame(z[:, :2], columns=list("ab")), counts], axis=1)
    given = pd.concat([dense[["a", "b"]], counts.astype(pd.SparseDtype(int, 0))], axis=1)
    model = fitted(given, n_components=2, max_iter=10, views={"n": (list("klm"), kind)})
    expected = model.predict(dense, "k")
    np.testing.assert_allclose(model.predict(given, "k"), expected)
    np.testing.assert_allclose(model.predict(given.drop(columns="k"), "k"), expected)
    monkeypatch.setattr(sparse_tables, "DENSE_BYTES", 100)
    with pytest.raises(ValueError, match="480 cells are too many to be dense: predict the view, 'n', or give fewer"):
        model.predict(given, "k")
    assert model.predict(given, "n").shape == (N, 3)


# ------------------------------------------------------------------------------------------------ never dense


def test_nothing_is_made_dense() -> None:
    """20,000 x 20,000 cells would take 3.2 GB."""
    rng = np.random.default_rng(0)
    n, per_row = 20_000, 10
    columns = np.sort(rng.integers(0, n, (n, per_row)), axis=1).ravel()
    X = sparse.csr_matrix((1 + rng.random(n * per_row), columns, np.arange(0, n * per_row + 1, per_row)), shape=(n, n))
    X.sum_duplicates()
    views = {"x": X, "y": rng.standard_normal((n, 2))}
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SSHIBA(3, random_state=0, max_iter=3, priors=None).fit(views)
    model.transform(views)
    model.score(views)
    model.impute(views)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6


def test_memory_is_that_of_the_stored_cells() -> None:
    """What is read shares the places of the cells with the user's CSR matrix, and has values of its own."""
    X = sparse.csr_array(sparse.random(3000, 2000, density=0.2, random_state=0))
    tracemalloc.start()
    table = read_sparse(X, "x")
    coding = RealView().make_coding(RealView().learn_sparse(table, "x"), "x")
    coded = RealView().encode_sparse(table, "x", coding, "float64")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.shares_memory(coded.target.matrix.indices, X.indices)
    assert peak < 8 * X.nnz + 8 * 2**20 * 8


# -------------------------------------------------------------------------------------------- what is learned


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array])
def test_means_and_deviations_are_exact(form: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6)) * (rng.random((500, 6)) < 0.3)
    X[:, 0] = 1e9 + rng.standard_normal(500)  # no zero at all
    X[:, 1] *= 1e-200
    X[:, 2] = 0
    X[:, 3] = np.where(X[:, 3] != 0, 1e9, 0)
    X[:, 4] = np.round(np.abs(X[:, 4]) * 3)
    found, dense = summarise(read_sparse(form(X), "x"), tuple(range(6))), RealView().learn(pd.DataFrame(X), "x")
    np.testing.assert_allclose(found.mean, dense.mean, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(found.std, dense.std, rtol=1e-12)
    for name in ("least", "largest", "whole"):
        np.testing.assert_array_equal(getattr(found, name), getattr(dense, name))
    np.testing.assert_array_equal(found.n, dense.n)
    coding = RealView().make_coding(dense, "x")
    target, _ = standardise_stored(read_sparse(form(X), "x"), coding, "float64")
    np.testing.assert_allclose(target @ np.eye(6), (X - coding.centre) / coding.scale, atol=1e-12)


def test_cells_stored_twice_are_added(X: np.ndarray) -> None:
    once = sparse.csr_array(X)
    twice = sparse.csr_array(
        (np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), once.indptr * 2), shape=once.shape
    )
    before = twice.nnz
    assert_same_fit(fitted({"x": twice}), fitted({"x": X}))
    assert twice.nnz == before  # what was given is as it was


def test_it_is_taken_as_real_and_said(X: np.ndarray, caplog: pytest.LogCaptureFixture) -> None:
    bits = sparse.csr_array((X > 0).astype(int))
    with caplog.at_level(logging.INFO, logger="sshiba"):
        model = fitted({"x": bits}, tol=1e-3)
    assert isinstance(model.views_["x"], Real)
    assert "view 'x': taken as Real (a sparse matrix of numbers)" in caplog.text


# ------------------------------------------------------------------------------------------------ what is refused


def with_stored(value: Any, dtype: str = "float64") -> sparse.csr_array:
    X = sparse.csr_array(expressed()[1].astype(dtype))
    X.data[40] = value
    return X


LARGE = sparse.csr_array((DENSE_BYTES // 64, 100), dtype=np.int64)


@pytest.mark.parametrize(
    ("value", "view", "pieces"),
    [
        (with_stored(np.nan), None, ["'x'", "1 stored missing value", "row", "column", "dense"]),
        (with_stored(np.inf), None, ["'x'", "1 infinite value", "row", "column"]),
        (with_stored(-np.inf).tocsc(), None, ["'x'", "1 infinite value", "row", "column"]),
        (with_stored(1e305), None, ["'x'", "far-off"]),
        (with_stored(2**60, "int64"), None, ["'x'", "2**53"]),
        (with_stored(1.0).astype(complex), None, ["'x'", "complex"]),
        (with_stored(1.0), Categorical(), ["'x'", "Categorical", "Real"]),
        (with_stored(1.0), Binary(), ["'x'", "non-binary"]),
        (LARGE, Binary(), ["'x'", "Binary", "dense", "Real"]),
        (sparse.csr_array((0, 3)), None, ["'x'", "empty"]),
        (sparse.coo_array(np.array([1.0, 0.0])), None, ["'x'", "1 dimension"]),
    ],
)
def test_clear_errors(value: Any, view: Any, pieces: list[str]) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        fitted({"x": value}, views=None if view is None else {"x": view})
    for piece in pieces:
        assert piece in str(caught.value)


def test_where_a_bad_cell_is(X: np.ndarray) -> None:
    row, column = np.argwhere(X)[40]
    X[row, column] = np.inf
    for form in (sparse.csr_matrix, sparse.csc_matrix):
        with pytest.raises(ValueError, match=f"first inf in row 'cell {row}', column 'gene {column}'"):
            fitted(annotated_of(form(X)))


def test_small_yes_and_no_are_made_dense(X: np.ndarray) -> None:
    bits = (X[:, 2:] > 0).astype(float)
    views = {"x": Binary()}
    assert_same_fit(fitted({"x": sparse.csr_array(bits)}, views=views), fitted({"x": bits}, views=views))


def test_new_rows_are_checked(X: np.ndarray) -> None:
    model = fitted({"x": sparse.csr_array(X)}, tol=1e-3)
    for new, piece in ((with_stored(np.nan), "missing"), (sparse.csr_array(X[:, :3]), "3 columns"), (X * 1e200, "far")):
        with pytest.raises(ValueError, match=piece):
            model.transform({"x": sparse.csr_array(new)})


def test_devices_are_refused(X: np.ndarray) -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    with pytest.raises(ValueError, match="sparse matrices need the CPU"):
        fitted({"x": sparse.csr_array(X)}, device="cpu")


# --------------------------------------------------------------------------------- search, checks and choices


@pytest.mark.usefixtures("with_search")
def test_the_search_leaves_sparse_views_alone(X: np.ndarray, z: np.ndarray) -> None:
    Y = np.nan_to_num(beside(z)["y"])
    views = {"x": sparse.csr_array(X), "y": Y}
    assert SSHIBA(4, random_state=0, tol=1e-3).fit(views).search_ is None
    found = fitted(views, search=[Candidate(), Candidate(keep="all")], tol=1e-3).search_
    assert [name for name in found if name.startswith("score")] == ["score y"]
    alone = fitted({"x": sparse.csr_array(X)}, search=[Candidate(), Candidate(keep="all")], tol=1e-3)
    assert alone.search_ is None


def test_cells_of_other_views_are_hidden(X: np.ndarray, z: np.ndarray) -> None:
    views, model = {"x": sparse.csr_array(X), **beside(z)}, SSHIBA(4, random_state=0, search=None, tol=1e-3)
    assert list(holdout(model, views).index) == ["y", "yes", "who"]
    with pytest.raises(ValueError, match="all views are sparse"):
        holdout(model, {"x": sparse.csr_array(X)})
    for hide in ("rows", "cells"):
        found = tune(model, views, {"n_components": [2, 3]}, "who", hide=hide, n_folds=2)
        dense = tune(model, {**views, "x": X}, {"n_components": [2, 3]}, "who", hide=hide, n_folds=2)
        np.testing.assert_allclose(found.table["score"], dense.table["score"], atol=1e-3)
    with pytest.raises(ValueError, match="view 'x' is sparse"):
        tune(model, views, {"n_components": [2, 3]}, "x")


def test_rows_are_taken_and_drawn(X: np.ndarray) -> None:
    index, rows = pd.Index(ROWS), np.array([3, 3, 100, 7])
    from sshiba.data.border import as_views

    named = as_views(annotated_of(sparse.csr_matrix(X[:50]), ROWS[:50]))["X"]
    drawn = take_drawn(named, index, rows)
    np.testing.assert_array_equal(drawn.matrix.toarray(), X[[3, 3, 7]])
    assert list(drawn.index) == [0, 1, 3]
    np.testing.assert_array_equal(take_drawn(sparse.csr_array(X), index, rows).matrix.toarray(), X[rows])
    taken = take_rows(named, index, np.isin(np.arange(N), [2, 60]))
    np.testing.assert_array_equal(taken.matrix.toarray(), X[[2]])
    assert list(taken.index) == ["cell 2"]


@pytest.mark.parametrize("kind", ["restarts", "bootstrap"])
def test_stability(X: np.ndarray, kind: str) -> None:
    one, other = (
        stability(fitted({"x": form(X)}, n_components=3, tol=1e-3), {"x": form(X)}, n=2, kind=kind)
        for form in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(one.congruence, other.congruence, atol=1e-6)


# ------------------------------------------------------------------------------------------------- and besides


def test_restarts_at_a_time(X: np.ndarray) -> None:
    views = {"x": sparse.csr_array(X)}
    assert fitted(views, n_init=2, n_jobs=2).elbo_ == fitted(views, n_init=2).elbo_


def test_sparse_rows_for_a_model_of_dense_ones(X: np.ndarray) -> None:
    """Yes and no that were dense in training, and an AnnData beside them by name."""
    bits = (X > 0).astype(float)
    model = fitted({"x": bits}, tol=1e-3)
    given = sparse.csr_array(bits)
    assert isinstance(model.views_["x"], Binary)
    assert model.impute({"x": given})["x"] is given
    np.testing.assert_allclose(model.transform({"x": given}), model.transform({"x": bits}))


def test_a_view_that_is_not_given_takes_no_memory() -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(50, 20_000, density=0.01, random_state=rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SSHIBA(2, random_state=0, max_iter=3, search=None).fit({"x": X, "y": rng.standard_normal((50, 3))})
        new = rng.standard_normal((5000, 3))
        tracemalloc.start()
        model.transform({"y": new})  # 800 MB, were x dense
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50e6


def test_a_file_of_sparse_cells(X: np.ndarray, tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
    annotated_of(sparse.csr_matrix(X)).write(tmp_path / "cells.h5ad")
    done = sshiba_command("impute", "cells.h5ad", "-o", "filled.h5ad", "--std", "std.h5ad", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Filled 0 of 4,800 cells." in done.stdout + done.stderr
    assert (sparse.csr_matrix(X) != anndata.read_h5ad(tmp_path / "filled.h5ad").X).nnz == 0
    assert anndata.read_h5ad(tmp_path / "std.h5ad").X.nnz == 0
