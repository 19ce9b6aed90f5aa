"""Count views from the user's side: what comes back, what is refused, every engine, and scores of hidden cells."""

import logging
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import sshiba
from scipy import sparse

from sshiba import SSHIBA, Count, Real, evaluate, load, plots, tune
from sshiba.core import machine
from sshiba.core.likelihoods.poisson_predictive import below, log_probability
from sshiba.data.advice import DataError
from sshiba.plots import calibration_data, imputation_data

N = 120


def counts(n: int = N, d: int = 6, holes: float = 0.1, seed: int = 0) -> np.ndarray:
    """Columns of very different means that share two factors, in rows of different size."""
    rng = np.random.default_rng(seed)
    shape = np.random.default_rng(9)
    log_rate = rng.standard_normal((n, 2)) @ (0.8 * shape.standard_normal((2, d))) + 1.5 * shape.standard_normal(d)
    size = 0.5 * rng.standard_normal((n, 1))
    values = rng.poisson(np.exp(1 + log_rate + size + 0.2 * rng.standard_normal((n, d)))).astype(float)
    values[rng.random((n, d)) < holes] = np.nan
    return values


def fit(views: dict, types: dict | None = None, **options: object) -> SSHIBA:
    options = {"random_state": 0, "max_iter": 40, "tol": 1e-3, "search": None} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*max_iter")
        return SSHIBA(4, types, **options).fit(views)


GIVEN = {
    "floats": counts(),
    "whole numbers": counts(holes=0).astype("int32"),
    "a frame of whole numbers": pd.DataFrame(counts(), columns=list("abcdef")).astype("Int64"),
    "a frame": pd.DataFrame(counts(), columns=list("abcdef")),
    "a sparse matrix": sparse.csr_array(counts(holes=0)),
    "one column": pd.Series(counts(holes=0)[:, 1], name="n"),
}


@pytest.mark.parametrize("case", GIVEN)
def test_counts_come_back_as_they_came(case: str, tmp_path: Path) -> None:
    """Means are never negative, draws are whole, holes of whole numbers are filled by whole ones; so from a file."""
    given, x = GIVEN[case], np.nan_to_num(counts(d=3)[:, :3]) + 0.1
    model = fit({"words": given, "x": x}, {"words": Count()})
    mean, std = model.predict({"x": x}, "words", return_std=True)
    assert (np.asarray(mean) > 0).all()
    assert (np.asarray(std) >= np.sqrt(np.asarray(mean))).all()  # at least that of a Poisson
    drawn = model.sample(50, random_state=0)["words"]
    values = np.asarray(drawn, dtype=float)
    assert (values == np.floor(values)).all()
    assert (values >= 0).all()
    if case != "a sparse matrix":
        assert type(drawn) is type(given)
        filled = model.impute({"words": given, "x": x})["words"]
        assert type(filled) is type(given)
        assert list(pd.DataFrame(filled).dtypes) == list(pd.DataFrame(given).dtypes)
        seen = ~pd.isna(pd.DataFrame(given)).to_numpy()
        assert (pd.DataFrame(filled).to_numpy()[seen] == pd.DataFrame(given).to_numpy()[seen]).all()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.views_ == model.views_
    np.testing.assert_array_equal(np.asarray(again.predict({"x": x}, "words")), np.asarray(mean))
    assert again.score({"words": given, "x": x}) == model.score({"words": given, "x": x})
    before = again.elbo_
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*still rose")
        again.set_params(max_iter=2).resume({"words": given, "x": x})
    assert again.elbo_ >= before
    with pytest.raises(ValueError, match=r"is count and has no probabilities: use predict\(.*return_std=True\)"):
        model.predict_proba({"x": x}, "words")


def test_the_bound_never_falls_and_factors_are_found() -> None:
    values = counts(n=400, d=20, holes=0.1)
    model = fit({"words": values}, {"words": Count()}, max_iter=200, tol=1e-5)
    assert np.diff(model.elbo_path_).min() > -1e-6
    assert 2 <= model.n_components_ <= 3  # two, and what sizes told by composition leave over
    assert np.corrcoef(model.bias_["words"], np.log(np.nanmean(values, axis=0)))[0, 1] > 0.8
    assert np.ptp(model.noise_std_["words"]) == 0
    each = fit({"words": values}, {"words": Count(noise="feature")})
    assert np.ptp(each.noise_std_["words"]) > 0


def test_sizes_take_what_rows_have_in_common() -> None:
    """Rows that differ in nothing but their size need no factor; without sizes it is a factor. Predictions follow."""
    rng = np.random.default_rng(0)
    size, means = np.exp(rng.standard_normal((200, 1))), np.exp(rng.standard_normal(15) + 1)
    values = rng.poisson(size * means).astype(float)
    by_size = fit({"words": values}, {"words": Count()}, max_iter=100)
    assert by_size.n_components_ == 0
    assert fit({"words": values}, {"words": Count(size=False)}, max_iter=100).n_components_ >= 1
    shown = np.where(np.arange(15) < 10, values, np.nan)
    predicted = by_size.predict({"words": shown}, "words", use_target=True)
    shares, seen = values.sum(axis=0) / values.sum(), shown[:, :10].sum(axis=1)
    expected = seen[:, None] / shares[:10].sum() * shares
    told = seen >= 50  # of a row of few counts the prior of sizes says something, too
    assert told.sum() > 50
    np.testing.assert_allclose(predicted[told, 10:], expected[told, 10:], rtol=0.03)
    np.testing.assert_allclose(predicted[:, 10:].mean(axis=0), expected[:, 10:].mean(axis=0), rtol=0.02)
    alone = by_size.predict({"words": np.full((2, 15), np.nan)}, "words", use_target=True)
    np.testing.assert_allclose(alone, [values.mean(axis=0)] * 2, rtol=0.02)


def test_a_hidden_column_does_not_tell_the_size() -> None:
    """Predicted without itself, a column of one table does not change with what it held."""
    table = pd.DataFrame(counts(holes=0), columns=list("abcdef"))
    model = fit(table, {"words": (list("abcdef"), Count())})
    other = table.assign(b=1000.0)
    np.testing.assert_allclose(model.predict(table, "b"), model.predict(other, "b"))
    assert not np.allclose(model.transform(table), model.transform(other))


REFUSED = {
    "negative": (np.array([[1.0, 2.0], [3.0, -1.0]]), Count(), r"1 negative value, first -1\.0 in row 1, column 1"),
    "fractional": (np.array([[1.0, 2.5], [3.5, 1.0]]), Count(), r"2 fractional values, first 2\.5 in row 0, column 1"),
    "infinite": (np.array([[1.0, np.inf], [3.0, 1.0]]), Count(), "1 infinite value"),
    "too large": (np.array([[1.0, 2e9], [3.0, 1.0]]), Count(), "too large"),
    "nothing seen": (np.array([[1.0, np.nan], [3.0, np.nan]]), Count(), "no observed value in 1 column"),
    "text": (pd.DataFrame({"a": ["x", "y"]}), Count(), "holds text"),
    "noise": (counts(), Count(noise=1.0), "noise must be 'feature' or 'view'"),
    "size": (counts(), Count(size="total"), "size must be True or False"),
    "negative, sparse": (sparse.csr_array([[1.0, 0.0], [0.0, -2.0]]), Count(), r"negative value, first -2\.0 in row 1"),
    "fractional, sparse": (sparse.csc_array([[1.0, 0.5], [0.0, 2.0]]), Count(), r"fractional value, first 0\.5 in"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    given, view, words = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=words):
        fit({"words": given}, {"words": view})


def test_new_rows_are_checked() -> None:
    model = fit({"words": counts()}, {"words": Count()})
    with pytest.raises(DataError, match="negative"):
        model.transform({"words": -counts()})


def test_zeros_and_millions() -> None:
    """A column of zeros is pointed out and predicted to be nearly that; counts of millions are as good as any."""
    values = counts(holes=0)
    values[:, 0], values[:, 1], values[3] = 0, 200_000 * values[:, 1], 0
    with pytest.warns(UserWarning, match="1 constant column"):
        model = fit({"words": values, "x": values[:, 2:4] + 0.5}, {"words": Count()}, max_iter=100)
    mean = model.predict({"x": values[:, 2:4] + 0.5}, "words")
    assert (mean[:, 0] < 0.1).all()
    assert 0.2 < np.median(mean[:, 1]) / np.median(values[:, 1]) < 5
    assert np.isfinite(model.score({"words": values}))


def test_sparse_counts_are_those_of_an_array() -> None:
    """The same fit, of CSR and CSC; some rows may lack the view."""
    values = counts(holes=0)
    x = pd.DataFrame(np.nan_to_num(counts(d=2)[:, :2]) + 0.1)
    dense = fit({"words": values, "x": x}, {"words": Count()})
    for make in (sparse.csr_array, sparse.csc_array):
        model = fit({"words": make(values), "x": x}, {"words": Count()})
        assert model.elbo_ == pytest.approx(dense.elbo_, rel=1e-10)
        np.testing.assert_allclose(model.factors_, dense.factors_, atol=1e-7)
    frame = pd.DataFrame(values).iloc[20:]
    part = frame.astype(pd.SparseDtype("float64", 0.0))
    lacking = [fit({"words": words, "x": x}, {"words": Count()}) for words in (frame, part)]
    assert lacking[0].elbo_ == pytest.approx(lacking[1].elbo_, rel=1e-10)


def test_counts_in_a_file_that_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit of the same counts in memory; q(x) lies in a scratch file."""
    monkeypatch.setattr(machine, "LEAST", 1000)
    values = counts(n=60, d=8)
    np.save(tmp_path / "counts.npy", values)
    stored = np.load(tmp_path / "counts.npy", mmap_mode="r")
    ours = fit({"words": stored}, {"words": Count()}, max_memory=20_000, max_iter=8)
    expected = fit({"words": values}, {"words": Count()}, max_iter=8)
    assert ours.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)
    np.testing.assert_allclose(ours.impute({"words": stored})["words"], expected.impute({"words": values})["words"])


def test_one_table(caplog: pytest.LogCaptureFixture) -> None:
    """Whole numbers stay numbers, and those that look like counts are pointed out."""
    table = pd.DataFrame(counts(holes=0), columns=list("abcdef"))
    table["code"], table["height"] = np.arange(N) % 40 + 100, np.linspace(0, 9, N)
    table["words"] = np.random.default_rng(0).negative_binomial(0.7, 0.05, N)
    with caplog.at_level(logging.INFO, "sshiba"):
        model = fit(table)
    assert isinstance(model.views_["numeric"], Real)
    (said,) = [message for message in caplog.messages if "Count suits" in message]
    assert "'words'" in said
    assert "code" not in said
    assert "height" not in said
    with caplog.at_level(logging.INFO, "sshiba"):
        named = fit(table, {"n": (["words", "a", "b"], Count())})
    assert "Count(size=False) leaves sizes to the factors" in caplog.text
    assert isinstance(named.views_["n"], Count)
    assert (named.sample(4, random_state=0)["words"] >= 0).all()


def run(*arguments: object) -> str:
    done = sshiba(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_command(tmp_path: Path) -> None:
    data, model, out = tmp_path / "data.csv", tmp_path / "model", tmp_path / "out.csv"
    table = pd.DataFrame(counts(), columns=list("abcdef")).assign(x=np.linspace(0, 1, N))
    table.to_csv(data, index=False)
    run("fit", data, "--out", model, "--view", "words=a,b,c,d,e,f:count", "--seed", "0", "--components", "3")
    assert load(model).views_["words"] == Count()
    run("impute", data, "--model", model, "--out", out)
    assert (pd.read_csv(out)[list("abcdef")] >= 0).all(axis=None)
    run("predict", model, data, "--target", "b", "--std", "--out", out, "--force")
    assert (pd.read_csv(out)["b"] > 0).all()
    refused = sshiba("predict", model, data, "--target", "b", "--proba", "--out", out, "--force")
    assert "'b' is count and has no probabilities: use --std for its deviations.\n" in refused.stderr


def test_hidden_counts() -> None:
    """Scores of hidden cells by hand; intervals that hold what they promise; a picture of each."""
    values = counts(n=400, d=8)
    model = SSHIBA(4, {"words": Count(size=False)}, random_state=0, max_iter=60, search=None)
    checks = evaluate.check(model, {"words": values}, 0.2)
    one, scores = checks["words"], evaluate.scores_table(checks).loc["words"]
    truth, mean, std = values[one.hidden], one.found[one.hidden], one.std[one.hidden]
    assert scores["log_likelihood"] == pytest.approx(log_probability(truth, mean, std).mean())
    seen = np.where(one.hidden, np.nan, values)
    usual = np.broadcast_to(np.nanmean(seen, axis=0), values.shape)[one.hidden]
    scale = np.broadcast_to(np.nanstd(seen, axis=0), values.shape)[one.hidden]

    def deviance(guess: np.ndarray) -> float:
        return float(np.sum(np.where(truth > 0, truth * np.log(np.maximum(truth, 1) / guess), 0) - truth + guess))

    assert scores["r2"] == pytest.approx(1 - deviance(mean) / deviance(usual))
    assert scores["r2"] > 0.2
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean(((truth - mean) / scale) ** 2)))
    low, high = below(truth - 1, mean, std), below(truth, mean, std)
    inside = [np.mean(np.abs(low + u * (high - low) - 0.5) <= 0.45) for u in (0.25, 0.5, 0.75)]
    assert scores["coverage"] == pytest.approx(np.mean(inside), abs=0.05)
    assert scores["coverage"] == pytest.approx(0.9, abs=0.05)
    table = calibration_data(checks, "words")
    assert np.abs(table["predicted"] - table["observed"]).max() < 0.12
    assert len(imputation_data(checks, "words")) == one.n_hidden
    assert plots.imputation(checks, "words").get_title().startswith("words: R² 0.")
    plots.calibration(checks)
    assert len(evaluate.scores_table(checks, per="feature")) == 8


def test_reported_and_exported(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("plotly")
    views = {"words": pd.DataFrame(counts()).rename(columns="w{}".format)}
    model = fit(views, {"words": Count()}, max_iter=15)
    model.report(tmp_path / "page.html", views, fraction=0.1)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Count" in page
    assert "lie in their 90 % intervals" in page
    model.to_mofa_hdf5(tmp_path / "model.hdf5")
    with h5py.File(tmp_path / "model.hdf5") as file:
        assert file["model_options/likelihoods"].asstr()[0] == "poisson"


@pytest.mark.usefixtures("with_search")
def test_tuned_and_searched_by_counts() -> None:
    """Columns of hidden rows are asked for, and judged by the log-likelihood of the counts."""
    views = {"words": counts(n=200, d=9, holes=0.0)}
    model = SSHIBA(3, {"words": Count()}, random_state=0, max_iter=20, tol=1e-2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*still rose")
        found = model.fit(views)
    assert set(found.search_["label_weight"]) == {1.0}
    assert found.search_["score words"].between(-4, -1).all()
    tuned = tune(model.set_params(search=None), views, {"words.size": [True, False]}, "words", hide="cells", n_folds=2)
    assert (tuned.table["score"] < 0).all()
    with pytest.raises(ValueError, match="is Count and has no AUC"):
        tune(model, views, {"words.weight": [1.0]}, "words", scoring="auc")
