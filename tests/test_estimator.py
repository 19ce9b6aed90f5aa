"""The public API: what goes in and what comes out."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from samples import fit, make_views, with_holes
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sshiba import SSHIBA, Binary, Categorical, Priors, Progress, Real


@pytest.fixture(scope="module")
def complete() -> SSHIBA:
    return fit(make_views())


def test_fitted_attributes(model: SSHIBA) -> None:
    k = model.n_components_
    assert k == 3  # as many as there are in the data
    assert model.factors_.shape == model.factors_std_.shape == (120, k)
    for name, d in {"X": 8, "T": 4, "y": 3}.items():
        assert model.weights_[name].shape == model.weights_std_[name].shape == (d, k)
        assert model.bias_[name].shape == model.noise_std_[name].shape == model.feature_relevance_[name].shape == (d,)
        assert model.factor_relevance_[name].shape == (k,)
    assert list(model.r2_.columns) == ["X", "T", "y"]
    assert list(model.r2_.index) == ["factor 1", "factor 2", "factor 3", "all"]
    assert ((model.r2_ >= 0) & (model.r2_ <= 1)).all(axis=None)
    totals = model.r2_.iloc[:-1].sum(axis=1).to_numpy()
    assert (np.diff(totals) <= 1e-12).all()
    stacked = np.concatenate([model.fitted_.posterior.views[i].w_mean for i in range(3)])
    assert (stacked[np.abs(stacked).argmax(axis=0), np.arange(k)] > 0).all()
    assert list(model.classes_["y"]) == ["a", "b", "c"]
    assert model.converged_
    assert model.n_iter_ >= len(model.elbo_path_)
    assert model.elbo_ == model.elbo_path_[-1]
    assert isinstance(model.views_["T"], Binary)
    assert isinstance(model.views_["y"], Categorical)


def test_attributes_are_in_the_users_units() -> None:
    """x ≈ factors · weights + bias, with noise of the size that was put in, whatever the units."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((1000, 3)) @ rng.standard_normal((3, 20))
    X = 1000 + 50 * (signal + 0.5 * rng.standard_normal(signal.shape))
    model = fit({"X": X})
    assert model.n_components_ == 3
    np.testing.assert_allclose(model.noise_std_["X"], 25, rtol=0.15)
    rebuilt = model.factors_ @ model.weights_["X"].T + model.bias_["X"]
    np.testing.assert_allclose(rebuilt, 1000 + 50 * signal, atol=60)
    assert np.mean((rebuilt - 1000 - 50 * signal) ** 2) < 15**2
    explained = 1 - np.mean(((X - rebuilt) / X.std(axis=0)) ** 2)
    assert model.r2_.loc["all", "X"] == pytest.approx(explained, abs=0.02)


def test_factors_are_the_transform_of_the_training_rows(model: SSHIBA) -> None:
    mean, std = model.transform(with_holes(make_views()), return_std=True)
    np.testing.assert_allclose(mean, model.factors_, atol=1e-6)
    np.testing.assert_allclose(std, model.factors_std_, rtol=1e-6)


# What is given, and the share that the others must be right beyond chance: 0 for what knows nothing, 1 at best.
SUBSETS = {
    ("X",): {"T": 0.5, "y": 0.7},
    ("T",): {"X": 0.35, "y": 0.2},
    ("y",): {"X": 0.2, "T": 0.12},
    ("X", "y"): {"T": 0.5},
    ("T", "y"): {"X": 0.5},
}


@pytest.mark.parametrize("given", SUBSETS)
def test_predict_from_any_subset(model: SSHIBA, given: tuple[str, ...]) -> None:
    """The mean of each real column, and its most frequent value where it is a label, are what chance knows."""
    truth = make_views(seed=0)
    predictions = model.predict({name: truth[name] for name in given})
    assert set(predictions) == set(truth) - set(given)
    for name, guess in predictions.items():
        assert guess.shape == truth[name].shape
        if name == "X":
            wrong, by_chance = (guess - truth["X"]) ** 2, (truth["X"] - truth["X"].mean(axis=0)) ** 2
        else:
            table = pd.DataFrame(truth[name])
            wrong, by_chance = guess != truth[name], (table != table.mode().iloc[0]).to_numpy()
        assert 1 - wrong.mean() / by_chance.mean() > SUBSETS[given][name]


def test_target_forms(model: SSHIBA) -> None:
    views = make_views()
    given = {"X": views["X"]}
    mean, std = model.predict({"T": views["T"]}, "X", return_std=True)
    assert mean.shape == std.shape == (120, 8)
    assert (std > 0).all()
    p = model.predict_proba(given, "T")
    assert p.shape == (120, 4)
    np.testing.assert_array_equal(model.predict(given, "T"), (p > 0.5).astype(int))
    q = model.predict_proba(given, "y")
    np.testing.assert_allclose(q.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(given, "y"), model.classes_["y"][q.argmax(axis=1)])
    with pytest.raises(ValueError, match="real"):
        model.predict_proba({"T": views["T"]}, "X")


def test_a_target_is_not_looked_at(model: SSHIBA) -> None:
    holed, complete = with_holes(make_views()), make_views()
    others = {name: complete[name] for name in ("T", "y")}
    expected = model.predict(others, "X")
    for given in (complete, {**others, "X": holed["X"]}):
        np.testing.assert_array_equal(model.predict(given, "X"), expected)
    used = model.predict(complete, "X", use_target=True)
    assert np.abs(used - complete["X"]).mean() < 0.5 * np.abs(expected - complete["X"]).mean()
    with pytest.raises(ValueError, match="nothing to predict"):
        model.predict(complete)
    with pytest.raises(ValueError, match="unknown target 'Z'"):
        model.predict({"X": complete["X"]}, "Z")


def test_impute_keeps_what_is_there(model: SSHIBA) -> None:
    truth, holed = make_views(), with_holes(make_views())
    filled, std = model.impute(holed, return_std=True)
    for name, given in holed.items():
        hole = pd.isna(given)
        np.testing.assert_array_equal(filled[name][~hole], given[~hole])
        assert not pd.isna(filled[name]).any()
        assert (std[name][~hole] == 0).all()
        assert (std[name][hole] > 0).all()
    hole = np.isnan(holed["X"])
    spread = np.std(truth["X"], axis=0)
    errors = ((filled["X"] - truth["X"]) / spread)[hole]
    assert np.sqrt(np.mean(errors**2)) < 0.6


def test_frames_come_back_as_they_came() -> None:
    views = with_holes(make_views())
    index = [f"s{i}" for i in range(120)]
    X = pd.DataFrame(views["X"], index=index, columns=[f"g{d}" for d in range(8)])
    y = pd.Series(pd.Categorical(views["y"], categories=["c", "b", "a"]), index=index, name="kind")
    model = fit({"X": X, "y": y})
    assert model.feature_names_in_ == {"X": list(X.columns), "y": ["kind"]}
    assert list(model.classes_["y"]) == ["c", "b", "a"]
    filled = model.impute({"X": X, "y": y})
    assert list(filled["X"].index) == index
    assert list(filled["X"].columns) == list(X.columns)
    assert filled["y"].dtype == y.dtype
    proba = model.predict_proba({"X": X.iloc[:5]}, "y")
    assert list(proba.columns) == ["c", "b", "a"]
    assert list(proba.index) == index[:5]
    assert list(model.index_) == index


def test_attributes_of_labelled_data_are_labelled(complete: SSHIBA) -> None:
    """Of a view that came as a frame or series by name; of arrays they stay arrays."""
    views = make_views()
    index = [f"s{i}" for i in range(120)]
    X = pd.DataFrame(views["X"], index=index, columns=pd.MultiIndex.from_product([["u", "v"], range(4)]))
    y = pd.Series(views["y"], index=index, name="kind")
    model, plain = fit({"X": X, "T": views["T"], "y": y}), complete
    factors = ["factor 1", "factor 2", "factor 3"]
    for name in ("factors_", "factors_std_"):
        table = getattr(model, name)
        assert (list(table.index), list(table.columns)) == (index, factors)
        np.testing.assert_allclose(table, getattr(plain, name), atol=1e-12)  # sums may be in another order
    for name in ("weights_", "weights_std_", "bias_", "noise_std_", "factor_relevance_", "feature_relevance_"):
        tables, arrays = getattr(model, name), getattr(plain, name)
        assert isinstance(tables["T"], np.ndarray)
        for view, features in {"X": list(X.columns), "y": ["a", "b", "c"]}.items():
            assert list(tables[view].index) == (factors if name == "factor_relevance_" else features)
            assert tables[view].ndim == 1 or list(tables[view].columns) == factors
            assert isinstance(arrays[view], np.ndarray)
            np.testing.assert_allclose(tables[view], arrays[view], atol=1e-12)
    assert model.weights_["X"].columns.equals(model.transform({"X": X}).columns)
    assert model.weights_["X"].loc[("u", 2), "factor 1"] == pytest.approx(plain.weights_["X"][2, 0], abs=1e-12)
    assert isinstance(plain.factors_, np.ndarray)


def test_rows_align_by_index() -> None:
    views = make_views()
    X = pd.DataFrame(views["X"], index=range(120))
    y = pd.Series(views["y"], index=range(120)).sample(frac=0.8, random_state=0)  # shuffled, and rows without a label
    model = fit({"X": X, "y": y})
    expected = fit({"X": X, "y": y.reindex(range(120))})
    np.testing.assert_allclose(model.factors_, expected.factors_)


def test_score_is_a_log_likelihood_in_the_users_units() -> None:
    """Scaling the data by c costs log c per cell; and the score is near the true density of the model."""
    views = make_views(n=400)
    X = views["X"]
    model = fit({"X": X})
    scaled = fit({"X": X * 100 + 7})
    assert scaled.score({"X": X * 100 + 7}) == pytest.approx(model.score({"X": X}) - 8 * np.log(100), abs=1e-9)
    W, b, noise = model.weights_["X"], model.bias_["X"], model.noise_std_["X"]
    cov = W @ W.T + np.diag(noise**2)
    residual = X - b
    quad = np.sum(residual @ np.linalg.inv(cov) * residual, axis=1).mean()
    density = -0.5 * (8 * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1] + quad)
    assert model.score({"X": X}) == pytest.approx(density, abs=0.3)
    assert model.score({"X": X[:, ::-1]}) < model.score({"X": X})


@pytest.mark.parametrize("fitted", ["complete", "with holes"])
def test_score_of_rows_with_other_holes_than_those_of_the_fit(fitted: str) -> None:
    """Each row near the density of what it shows, whatever the training rows showed."""
    X = make_views(n=400)["X"]
    training = X.copy()
    if fitted == "with holes":
        training[:5, 0] = training[7:12, 3] = np.nan
    model = fit({"X": training})
    W, b, noise = model.weights_["X"], model.bias_["X"], model.noise_std_["X"]
    cov = W @ W.T + np.diag(noise**2)
    for often_missing in (0.0, 0.9):
        new = np.where(np.random.default_rng(0).random((50, 8)) < often_missing * (np.arange(8) < 2), np.nan, X[:50])
        density = []
        for row in new:
            seen = ~np.isnan(row)
            density.append(multivariate_normal(b[seen], cov[np.ix_(seen, seen)]).logpdf(row[seen]))
        assert model.score({"X": new}) == pytest.approx(np.mean(density), abs=0.3)


def test_weight_pulls_the_factors_to_a_view() -> None:
    views = make_views()
    light = fit(views, views={"y": Categorical(weight=0.2), "T": Binary(), "X": Real()})
    heavy = fit(views, views={"y": Categorical(weight=10.0), "T": Binary(), "X": Real()})
    given = with_holes(views)
    accuracy = [np.mean(m.predict(given, "y", use_target=True) == views["y"]) for m in (light, heavy)]
    assert accuracy[1] > accuracy[0] + 0.05
    with pytest.raises(ValueError, match=r"'X'.*weight"):
        fit(views, views={"X": Real(weight=2.0)})


def test_sample(model: SSHIBA) -> None:
    drawn = model.sample(500, random_state=0)
    assert drawn["X"].shape == (500, 8)
    assert set(np.unique(drawn["T"])) <= {0, 1}
    assert set(drawn["y"]) <= {"a", "b", "c"}
    truth = make_views()
    np.testing.assert_allclose(drawn["X"].std(axis=0), truth["X"].std(axis=0), rtol=0.12)
    again = model.sample(500, random_state=0)
    np.testing.assert_array_equal(drawn["X"], again["X"])
    assert model.sample(0)["X"].shape == (0, 8)


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows_in_predict(model: SSHIBA, n: int) -> None:
    views = make_views()
    given = {"X": views["X"][:n]}
    assert model.transform(given).shape == (n, model.n_components_)
    assert model.predict(given, "T").shape == (n, 4)
    assert model.predict(given, "y").shape == (n,)
    assert model.predict_proba(given, "y").shape == (n, 3)
    assert model.impute({"y": views["y"][:n]})["y"].shape == (n,)


def test_rows_with_nothing_observed(model: SSHIBA) -> None:
    empty = {"X": np.full((2, 8), np.nan)}
    mean, std = model.transform(empty, return_std=True)
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    np.testing.assert_allclose(std, 1)
    views = make_views()
    X = views["X"].copy()
    X[3] = np.nan
    with pytest.warns(UserWarning, match="nothing observed"):
        fitted = fit({"X": X})
    assert np.isfinite(fitted.factors_).all()


def test_restarts_keep_the_best_whatever_n_jobs() -> None:
    views = with_holes(make_views())
    one = fit(views, n_init=3, n_jobs=1)
    two = fit(views, n_init=3, n_jobs=2)
    assert one.elbo_ == one.inits_["elbo"].max()
    assert one.inits_["best"].sum() == 1
    np.testing.assert_array_equal(one.factors_, two.factors_)
    pd.testing.assert_frame_equal(one.inits_.drop(columns="seconds"), two.inits_.drop(columns="seconds"))


def test_same_seed_same_result(model: SSHIBA) -> None:
    np.testing.assert_array_equal(fit(with_holes(make_views())).factors_, model.factors_)


def test_mean_field_and_exact_agree_on_complete_real_data() -> None:
    """Of labels the two have different posteriors; with trials of factors one has a log evidence to go by."""
    views, options = make_views(), {"search": None, "keep": "all"}
    exact, mean_field = (fit({"X": views["X"]}, missing=m, **options) for m in ("exact", "mean-field"))
    np.testing.assert_allclose(exact.factors_, mean_field.factors_)
    holed = with_holes(views)
    assert np.isfinite(fit(holed, missing="mean-field").factors_).all()


def test_bibfa_is_a_special_case() -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200, 2))
    views = {name: z @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((200, 6)) for name in "ab"}
    one_noise = Real(noise="view", scale=False)  # scaled, the columns would differ in noise, and call for factors
    model = fit(views, views={"a": one_noise, "b": one_noise}, keep="fewest")
    assert model.n_components_ == 2
    assert np.ptp(model.fitted_.posterior.views[0].tau.mean) == 0


def test_float32_is_a_working_copy_only(complete: SSHIBA) -> None:
    views = make_views()
    views["X"] = views["X"].astype(np.float32)
    single, double = fit(views, dtype="float32"), complete
    np.testing.assert_allclose(single.elbo_, double.elbo_, rtol=1e-6)


def test_callback_verbose_and_max_time(capsys: pytest.CaptureFixture) -> None:
    seen: list[Progress] = []
    fit(make_views(), callback=seen.append, verbose=1)
    assert [p.sweep for p in seen] == sorted({p.sweep for p in seen})
    assert seen[-1].n_components <= 6
    with pytest.warns(ConvergenceWarning):
        slow = fit(make_views(), max_time=0.0)
    assert slow.n_iter_ <= 2
    assert slow.elbo_ == slow.elbo_path_[-1]
    assert not slow.converged_
    with pytest.warns(ConvergenceWarning):
        fit(make_views(), max_iter=3)


def test_clone_and_params() -> None:
    model = SSHIBA(n_components=7, views={"a": Real()}, priors=Priors(noise_floor=1e-2))
    assert clone(model).get_params() == model.get_params()


def test_generators_as_random_state() -> None:
    """A random start, since the principal components leave nothing to a seed."""
    views, options = make_views(), {"start": "random", "search": None, "tol": 1e-3}
    for make in (np.random.RandomState, np.random.default_rng):
        a, b, other = (fit(views, random_state=make(seed), **options).factors_ for seed in (3, 3, 4))
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, other)


def test_labelled_rows_give_labelled_factors() -> None:
    X = pd.DataFrame(make_views()["X"], index=[f"s{i}" for i in range(120)])
    found = fit({"X": X}).fit_transform({"X": X})
    assert list(found.index) == list(X.index)


def test_influence_is_that_of_all_other_views(complete: SSHIBA) -> None:
    assert set(complete.influence("X")) == {"T", "y"}
    with pytest.raises(ValueError, match="unknown target"):
        complete.influence("c")


@pytest.mark.parametrize("scale", [True, False])
def test_influence_is_how_far_a_feature_moves_a_prediction(scale: bool) -> None:
    """By finite differences: one standard deviation of a feature, the target's change in its own deviations."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200, 2))
    a = z @ rng.standard_normal((2, 5)) * [1, 10, 1, 100, 1] + rng.standard_normal((200, 5))
    b = z @ rng.standard_normal((2, 3)) * 7 + rng.standard_normal((200, 3))
    only_reals = SSHIBA(4, {"a": Real(scale=scale)}, random_state=0).fit({"a": a, "b": b})
    found = only_reals.influence("b")
    base = only_reals.predict({"a": a[:1]}, "b")
    for d in range(5):
        moved = a[:1].copy()
        moved[0, d] += a[:, d].std()
        change = (only_reals.predict({"a": moved}, "b") - base) / b.std(axis=0)
        assert np.linalg.norm(change) == pytest.approx(found["a"][d], rel=1e-6)


def test_a_notebook_shows_views_rows_and_factors(model: SSHIBA) -> None:
    assert 'class="dataframe"' not in SSHIBA()._repr_mimebundle_()["text/html"]
    shown = model._repr_mimebundle_()["text/html"]
    assert shown.endswith("</table>")
    assert f"{model.n_components_} factors</p>" in shown
    assert f"<td>{100 * model.r2_.loc['all'].iloc[0]:.1f} %</td>" in shown
    assert model._repr_html_().endswith(shown[shown.rindex("<p>") :])
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_names_are_escaped_in_a_notebook() -> None:
    x = np.random.default_rng(0).standard_normal((20, 3))
    assert "<b>odd" not in SSHIBA(2, random_state=0).fit({"<b>odd": x})._repr_html_()
