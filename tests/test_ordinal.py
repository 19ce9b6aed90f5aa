"""Ordinal views from the user's side: what levels may be, what comes back, and where they are recognised."""

import logging
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import sshiba

from sshiba import SSHIBA, Categorical, Ordinal, Real, evaluate, load, plots, tune
from sshiba.core import machine
from sshiba.data.advice import DataError, DataTypeError, DataWarning
from sshiba.files.writing import write
from sshiba.plots import calibration_data, imputation_data

N = 150
WORDS = ["never", "once", "often", "daily"]
RARE = pd.CategoricalDtype(["never", "once", "yearly", "often", "daily"], ordered=True)  # nobody says yearly


def numbers(n: int = N, d: int = 4, seed: int = 0, holes: float = 0.1) -> np.ndarray:
    """Levels 1 to 4 of columns that share two factors."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2)) @ (2 * np.random.default_rng(9).standard_normal((2, d)))
    levels = 1.0 + np.digitize(x + rng.standard_normal((n, d)), [-2.0, -0.5, 1.5])
    levels[rng.random((n, d)) < holes] = np.nan
    return levels


def words(values: np.ndarray, dtype: object = object) -> pd.DataFrame:
    texts = np.array([*WORDS, None], dtype=object)[np.where(np.isnan(values), 5, values).astype(int) - 1]
    return pd.DataFrame(texts, columns=[f"q{d}" for d in range(values.shape[1])]).astype(dtype)


def fit(views: dict, types: dict, **options: object) -> SSHIBA:
    options = {"random_state": 0, "max_iter": 40, "tol": 1e-3, "search": None} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*max_iter")
        return SSHIBA(4, types, **options).fit(views)


LEVELS = {
    "floats": (numbers(), Ordinal()),
    "whole numbers": (numbers(holes=0).astype("int8"), Ordinal()),
    "a frame of whole numbers": (pd.DataFrame(numbers()).astype("Int64"), Ordinal()),
    "text": (words(numbers()), Ordinal(levels=WORDS)),
    "text, each column": (words(numbers()), Ordinal(levels={f"q{d}": WORDS for d in range(4)})),
    "an array of text": (words(numbers(holes=0)).to_numpy(), Ordinal(levels=tuple(WORDS))),
    "ordered categories": (words(numbers(), RARE), Ordinal()),
    "categories given an order": (words(numbers(), "category"), Ordinal(levels=WORDS)),
    "kinds side by side": (pd.concat([words(numbers(), RARE), pd.DataFrame(numbers(seed=1))], axis=1), Ordinal()),
    "one column": (words(numbers(), RARE)["q1"], Ordinal()),
    "a vector": (numbers(holes=0)[:, 0].astype(int), Ordinal()),
}


@pytest.mark.parametrize("case", LEVELS)
def test_levels_come_back_as_they_came(case: str, tmp_path: Path) -> None:
    """Holes filled with levels that were seen, in the same container and dtype; so do predictions, draws and a file."""
    given, view = LEVELS[case]
    beside = numbers(d=3, seed=0)[:, :3] + 0.1
    views = {"use": given, "x": np.nan_to_num(beside, nan=2.0)}
    model = fit(views, {"use": view, "x": Real()})
    filled = model.impute(views)["use"]
    drawn, predicted = model.sample(5, random_state=0)["use"], model.predict({"x": views["x"]}, "use")
    for found in (filled, drawn, predicted):
        assert type(found) is type(given)
        assert np.shape(found)[1:] == np.shape(given)[1:]
        columns = pd.DataFrame(found)
        assert list(columns.dtypes) == list(pd.DataFrame(given).dtypes)
        for name, column in columns.items():
            assert set(column) <= set(pd.DataFrame(given)[name].dropna())
    seen = ~pd.isna(pd.DataFrame(given)).to_numpy()
    assert (pd.DataFrame(filled).to_numpy()[seen] == pd.DataFrame(given).to_numpy()[seen]).all()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.views_ == model.views_
    pd.testing.assert_frame_equal(pd.DataFrame(again.impute(views)["use"]), pd.DataFrame(filled))
    before = again.elbo_
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*still rose")
        again.set_params(max_iter=2).resume(views)
    assert again.elbo_ >= before


def test_probabilities_by_column_and_level() -> None:
    x = np.random.default_rng(0).standard_normal((N, 2))
    arrays = fit({"use": numbers(), "x": x}, {"use": Ordinal()})
    found = arrays.predict_proba({"x": x}, "use")
    assert list(found) == [0, 1, 2, 3]
    assert all(p.shape == (N, 4) for p in found.values())
    np.testing.assert_allclose([p.sum(axis=1) for p in found.values()], 1)
    frame = words(numbers(), RARE)
    model = fit({"use": frame, "x": x}, {})
    assert isinstance(model.views_["use"], Ordinal)
    by_name = model.predict_proba({"x": x}, "use")
    assert list(by_name.columns) == [(f"q{d}", word) for d in range(4) for word in WORDS]  # nobody says yearly
    np.testing.assert_allclose(by_name.to_numpy(), np.hstack(list(found.values())), atol=1e-12)
    single = fit({"use": frame["q0"], "x": x}, {})
    assert list(single.predict_proba({"x": x}, "use").columns) == WORDS
    assert {name: list(own) for name, own in model.levels_["use"].items()} == {f"q{d}": WORDS for d in range(4)}


def test_the_median_and_the_mode() -> None:
    """The guess is the median level of the probabilities, or the likeliest; deviations are in levels."""
    levels = numbers(n=300)
    guesses = {}
    for guess in ("median", "mode"):
        model = fit({"use": levels}, {"use": Ordinal(guess=guess)})
        proba = np.stack(list(model.predict_proba({"use": levels}, "use", use_target=True).values()), axis=1)
        filled, std = model.impute({"use": levels}, return_std=True)
        holes = np.isnan(levels)
        median, mode = 1 + (proba.cumsum(axis=2) < 0.5).sum(axis=2), 1 + proba.argmax(axis=2)
        np.testing.assert_array_equal(filled["use"][holes], {"median": median, "mode": mode}[guess][holes])
        mean = proba @ np.arange(4)
        spread = np.sqrt(proba @ np.arange(4) ** 2 - mean**2)
        np.testing.assert_allclose(std["use"], np.where(holes, spread, 0), atol=1e-9)
        guesses[guess] = filled["use"]
    assert (guesses["median"] != guesses["mode"]).any()


def test_noise_is_learned_but_for_two_levels() -> None:
    """A tight scale, a loose one, and a column of two levels, whose x has no scale but its noise."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((600, 1))
    x = z + rng.standard_normal((600, 6)) * [0.3, 0.3, 0.3, 2.0, 0.3, 0.3]
    levels = np.digitize(x, [-1.0, 0.0, 1.0]).astype(float)
    levels[:, 4] = x[:, 4] > 0
    model = fit({"use": levels}, {"use": Ordinal()}, max_iter=200)
    noise = model.noise_std_["use"]
    assert noise[4] == pytest.approx(1, abs=1e-3)
    assert max(noise[:3]) < 0.5 < 0.8 < noise[3]
    one = fit({"use": levels}, {"use": Ordinal(noise="view")}).noise_std_["use"]
    assert np.ptp(one) == 0
    both = fit({"use": levels[:, [4, 4]]}, {"use": Ordinal(noise="view")}).noise_std_["use"]
    np.testing.assert_allclose(both, 1, atol=1e-3)


def test_levels_that_training_never_saw() -> None:
    seen = numbers(holes=0)
    model = fit({"use": np.where(seen == 3, 4, seen), "x": seen}, {"use": Ordinal(), "x": Real()})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mine = model.transform({"use": seen})
    assert [f"column {d}: level 3.0 unseen in training" in str(w.message) for d, w in enumerate(caught)] == [True] * 4
    np.testing.assert_allclose(mine, model.transform({"use": np.where(seen == 3, np.nan, seen)}))
    strict = fit({"use": np.where(seen == 3, 4, seen)}, {"use": Ordinal(unseen="error")})
    with pytest.raises(DataError, match=r"level 3\.0 unseen in training, .* known are 1\.0, 2\.0, 4\.0"):
        strict.transform({"use": seen})


REFUSED = {
    "text without an order": (words(numbers()), Ordinal(), "no order: give its levels"),
    "categories without an order": (words(numbers(), "category"), Ordinal(), "no order: give its levels"),
    "not among the levels": (words(numbers()), Ordinal(levels=WORDS[:3]), "'daily' in row .* is not among its levels"),
    "levels twice": (numbers(), Ordinal(levels=[1, 2, 2]), "different levels"),
    "levels of no column": (words(numbers()), Ordinal(levels={"q9": WORDS}), "'q9', which is no column"),
    "levels in one text": (words(numbers()), Ordinal(levels="never"), "must be a list"),
    "dates": (pd.DataFrame({"d": pd.date_range("2020", periods=9)}), Ordinal(), "holds values of type date"),
    "nothing seen": (np.full((9, 2), [1.0, np.nan]), Ordinal(), "no observed value in 1 column"),
    "too many": (np.arange(300.0)[:, None] % 150, Ordinal(), "more than 100 levels in 1 column"),
    "infinite": (np.array([[1.0], [np.inf], [2.0]]), Ordinal(), "label inf"),
    "noise": (numbers(), Ordinal(noise=1.0), "noise must be 'feature' or 'view'"),
    "guess": (numbers(), Ordinal(guess="mean"), "guess must be 'median' or 'mode'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    given, view, words_of_error = REFUSED[case]
    with pytest.raises((ValueError, DataTypeError), match=words_of_error):
        fit({"use": given}, {"use": view})


def test_levels_in_a_file_that_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit of the same levels in memory."""
    monkeypatch.setattr(machine, "LEAST", 1000)
    levels = numbers(n=120, d=8)
    np.save(tmp_path / "levels.npy", levels)
    stored = np.load(tmp_path / "levels.npy", mmap_mode="r")
    ours = fit({"use": stored}, {"use": Ordinal()}, max_memory=12_000, max_iter=6)
    expected = fit({"use": levels}, {"use": Ordinal()}, max_iter=6)
    assert ours.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)
    np.testing.assert_array_equal(ours.impute({"use": levels})["use"], expected.impute({"use": levels})["use"])


def test_one_level_is_pointed_out() -> None:
    with pytest.warns(UserWarning, match="one level only in 1 column"):
        model = fit({"use": np.column_stack([numbers(), np.full(N, 7.0)])}, {"use": Ordinal()})
    assert (model.impute({"use": np.full((2, 5), np.nan)})["use"][:, 4] == 7).all()


# ------------------------------------------------------------------------------------------------- one table


def survey() -> pd.DataFrame:
    levels = numbers(d=5)
    table = words(levels[:, :3], RARE)
    table["grade"] = levels[:, 3]
    table["height"] = levels[:, 4] + 0.25
    table["code"] = np.where(np.isnan(levels[:, 0]), 70, 10 * levels[:, 0])
    table["town"] = np.where(levels[:, 1] > 2, "Rome", "Oslo")
    return table


def test_one_table(caplog: pytest.LogCaptureFixture) -> None:
    """Ordered categories are one view; whole numbers one after the other stay numbers, and are pointed out."""
    with caplog.at_level(logging.INFO, "sshiba"):
        model = fit(survey(), None)
    kinds = {name: type(view) for name, view in model.views_.items()}
    assert kinds == {"ordinal": Ordinal, "numeric": Real, "town": Categorical}
    assert model.feature_names_in_["ordinal"] == ["q0", "q1", "q2"]
    (said,) = [message for message in caplog.messages if "Ordinal" in message and "whole" in message]
    assert "1 column of few whole numbers" in said
    assert "'grade'" in said
    found = model.predict_proba(survey().drop(columns="q1"), "q1")
    assert list(found.columns) == WORDS
    assert model.predict(survey().drop(columns="q1"), "q1").dtype == RARE
    filled = model.impute(survey())
    assert (filled.dtypes == survey().dtypes).all()
    named = fit(survey(), {"grades": (["grade"], Ordinal())})
    assert isinstance(named.views_["grades"], Ordinal)
    assert named.sample(4, random_state=0)["grade"].isin([1, 2, 3, 4]).all()


def run(*arguments: object) -> None:
    done = sshiba(*arguments)
    assert done.returncode == 0, done.stderr


def test_command(tmp_path: Path) -> None:
    """Levels from a shell: numbers by their type, text by --levels."""
    table = words(numbers()).assign(grade=numbers(seed=0)[:, 0], x=np.nan_to_num(numbers()[:, 1]) + 0.5)
    data, model, out = tmp_path / "data.csv", tmp_path / "model", tmp_path / "out.csv"
    table.to_csv(data, index=False)
    order = [f"--levels=q{d}={','.join(WORDS)}" for d in range(4)]
    run("fit", data, "--out", model, "--view", "marks=grade:ordinal", *order, "--seed", "0", "--components", "3")
    fitted = load(model)
    assert {name: type(view) for name, view in fitted.views_.items()} == {
        "marks": Ordinal,
        "ordinal": Ordinal,
        "numeric": Real,
    }
    run("impute", data, "--model", model, "--out", out)
    filled = pd.read_csv(out)
    assert set(filled["q0"]) == set(WORDS)
    assert set(filled["grade"]) == {1, 2, 3, 4}
    run("predict", model, data, "--target", "q1", "--proba", "--out", out, "--force")
    assert list(pd.read_csv(out).columns) == WORDS
    run("predict", model, data, "--target", "ordinal", "--proba", "--out", out, "--force")
    assert list(pd.read_csv(out).columns)[:4] == [f"q0 {word}" for word in WORDS]


@pytest.mark.parametrize(
    ("option", "message"),
    [("--levels=q9=a,b", "no column 'q9'"), ("--levels=q0", "write COLUMN=lowest"), ("--levels=x=1,2", "is real")],
)
def test_command_refuses(option: str, message: str, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    words(numbers()).assign(x=1.5).to_csv(data, index=False)
    done = sshiba("fit", data, "--out", tmp_path / "m", "--view=numbers=x:real", option)
    assert done.returncode == 2
    assert message in done.stderr


# ------------------------------------------------------------------------------------------------- evaluation


def test_hidden_levels() -> None:
    """Scores of hidden cells by hand; levels that come true as often as was promised; a picture of each."""
    levels = numbers(n=600, d=6)
    model = SSHIBA(4, {"use": Ordinal()}, random_state=0, max_iter=60, tol=1e-3)
    checks = evaluate.check(model, {"use": levels}, fraction=0.2)
    one = checks["use"]
    scores = evaluate.scores_table(checks).loc["use"]
    truth = np.where(one.hidden, levels - 1, np.nan)
    np.testing.assert_array_equal(one.truth, truth)
    error = np.abs(truth - one.found)[one.hidden]
    usual = np.abs(truth - one.centre)[one.hidden]
    assert scores["mae"] == pytest.approx(error.mean())
    assert scores["smae"] == pytest.approx(error.sum() / usual.sum())
    assert scores["smae"] < 0.8
    assert scores["accuracy"] == pytest.approx((error == 0).mean())
    chances = [one.levels[d][n, int(truth[n, d])] for n, d in np.argwhere(one.hidden)]
    assert scores["log_likelihood"] == pytest.approx(np.log(chances).mean())
    table = calibration_data(checks, "use")
    assert table["n"].sum() == 4 * one.n_hidden
    assert np.average(np.abs(table["predicted"] - table["observed"]), weights=table["n"]) < 0.03
    assert len(imputation_data(checks, "use")) == one.n_hidden
    assert plots.imputation(checks, "use").get_title().startswith(f"use: {one.n_hidden} hidden cells\nerror 0.")
    plots.calibration(checks)
    by_feature = evaluate.scores_table(checks, per="feature")
    assert len(by_feature) == 6
    assert np.average(by_feature["mae"], weights=by_feature["hidden"]) == pytest.approx(scores["mae"])


def test_reported_and_exported(tmp_path: Path) -> None:
    """The page names the type and scores hidden levels; MOFA's file has the weights of the latent x."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("plotly")
    model = fit(survey(), None, max_iter=15)
    model.report(tmp_path / "page.html", survey(), fraction=0.1)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Ordinal (inferred: ordered categories)" in page
    assert "of the levels right" in page
    model.to_mofa_hdf5(tmp_path / "model.hdf5")
    with h5py.File(tmp_path / "model.hdf5") as file:
        assert file["expectations/W/ordinal"].shape == (model.n_components_, 3)
        assert file["model_options/likelihoods"].asstr()[list(model.views_).index("ordinal")] == "gaussian"


def test_tuned_by_levels() -> None:
    views = {"use": words(numbers(n=90, holes=0.0), RARE), "x": numbers(n=90, d=2, holes=0.0)}
    model = SSHIBA(3, random_state=0, max_iter=15, tol=1e-2, search=None)
    found = tune(model, views, {"use.noise": ["feature", "view"]}, "use", hide="cells", n_folds=2)
    assert (found.table["score"] < 0).all()
    with pytest.raises(ValueError, match="is Ordinal and has no AUC"):
        tune(model, views, {"use.weight": [1.0]}, "use", scoring="auc")


@pytest.mark.usefixtures("with_search")
def test_the_search_asks_for_columns_of_levels() -> None:
    """As of real views, a part of the columns at a time, and their weight is not that of labels."""
    rng = np.random.default_rng(0)
    views = {"use": numbers(n=200, d=6), "x": rng.standard_normal((200, 3))}
    model = SSHIBA(6, {"use": Ordinal()}, random_state=0, max_iter=30, tol=1e-3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*still rose")
        model.fit(views)
    assert model.search_ is not None
    assert set(model.search_["label_weight"]) == {1.0}
    assert model.search_["score use"].between(-1.39, -0.5).all()  # log ¼ is that of a model that knows nothing


# --------------------------------------------------------------------------------- levels that often mean missing

PAIN = ["None", "Mild", "n/a"]


def pains() -> pd.DataFrame:
    """Two texts that often mean missing are levels of pain; in another column one of them means what it always does."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(N)
    table = pd.DataFrame({"a": z + 0.2 * rng.standard_normal(N), "b": z + 0.2 * rng.standard_normal(N)})
    table["pain"] = np.array(PAIN, dtype=object)[np.digitize(z, [-0.5, 0.5])]
    table["town"] = rng.choice(["Rome", "Oslo", "None"], N).astype(object)
    table.loc[::7, "pain"] = None
    return table


def assert_pains(filled: pd.DataFrame) -> None:
    given = pains()["pain"]
    assert (filled["pain"] == given)[given.notna()].all()
    assert set(filled["pain"][given.isna()]) == set(PAIN)
    assert set(filled["town"]) == {"Rome", "Oslo"}


@pytest.mark.parametrize("how", ["a table", "views", "a file", "columns of a file"])
def test_named_levels_are_levels_though_they_often_mean_missing(how: str, tmp_path: Path) -> None:
    """In training and in new rows."""
    table, given, types = pains(), pains(), {"pain": Ordinal(levels=PAIN), "town": Categorical()}
    if how == "views":
        table = {"x": table[["a", "b"]], "pain": table["pain"], "town": table["town"]}
        given = table
    elif "file" in how:
        given = tmp_path / "t.parquet"
        table.to_parquet(given)
        if how == "columns of a file":
            types = {"marks": (["pain"], Ordinal(levels={"pain": PAIN}))}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        model = fit(given, types)
    said = [str(one.message) for one in caught if "taken for missing" in str(one.message)]
    assert all("'None' is taken for missing in" in words and "cells of 'town':" in words for words in said)
    assert len(said) == (0 if "file" in how else 1)  # rows that stay in a file are not gone through for it
    filled = model.impute(given)
    assert_pains(pd.concat([filled["x"], filled["pain"], filled["town"]], axis=1) if how == "views" else filled)
    shown = {"pain": table["pain"].iloc[:20]} if how == "views" else table[["pain"]].iloc[:20]
    factors, given = np.asarray(model.transform(shown)), pains()["pain"].iloc[:20]
    assert (np.abs(factors).max(axis=1) > 1e-9).tolist() == given.notna().tolist()


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_levels_from_a_shell_are_levels_though_they_often_mean_missing(ending: str, tmp_path: Path) -> None:
    """What is said of one column counts more than what is said of all; the model remembers it."""
    data, model, out = (tmp_path / f"{name}.{ending}" for name in ("t", "m", "o"))
    write(pains(), str(data))
    levels = f"--levels=pain={','.join(PAIN)}"
    run("fit", data, levels, "--missing", "Mild", "-o", model, "--components", 2, "--max-time", 1)
    assert load(model).fitted_.schema.codings["ordinal"].ordered[0].values == tuple(PAIN)
    for said in ([levels, "--components", 2], ["--model", model]):
        run("impute", data, *said, "-o", out, "--force")
        readers = {"csv": pd.read_csv, "xlsx": pd.read_excel}
        as_written = {"keep_default_na": False}
        assert_pains(pd.read_parquet(out) if ending == "parquet" else readers[ending](out, **as_written))
