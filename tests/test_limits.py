"""Real views with limits: values at a limit are known only to lie beyond it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import sshiba
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import norm
from sklearn.datasets import load_wine

from sshiba import SSHIBA, Binary, Real, evaluate, load, tune
from sshiba.cli.terminal import OPTIONS
from sshiba.core import machine
from sshiba.core.likelihoods import Censored, PredictiveX
from sshiba.data.advice import DataError, Remedy
from sshiba.data.refusing import refusal
from sshiba.files import long_tables
from sshiba.files.reading_options import Reading

N = 150


def numbers(n: int = N, d: int = 5, seed: int = 0) -> np.ndarray:
    """Columns that share two factors."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(9).standard_normal((2, d))
    return 3 + rng.standard_normal((n, 2)) @ weights + 0.5 * rng.standard_normal((n, d))


def cut(values: np.ndarray, share: float = 0.3) -> tuple[np.ndarray, dict[int, tuple]]:
    """The lowest cells of the first column at its limit, and the highest of the second."""
    low, high = np.quantile(values[:, 0], share), np.quantile(values[:, 1], 1 - share)
    found = values.copy()
    found[:, 0], found[:, 1] = np.maximum(values[:, 0], low), np.minimum(values[:, 1], high)
    return found, {0: (low, None), 1: (None, high)}


def fit(views: Any, types: Any, **options: object) -> SSHIBA:
    options = {"random_state": 0, "max_iter": 60, "tol": 1e-4, "search": None} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(max_iter|still rose)")
        return SSHIBA(4, types, **options).fit(views)


# ------------------------------------------------------------------------------------------------- the likelihood


@pytest.mark.parametrize("tau", [0.3, 1.0, 50.0])
def test_moments_and_bound_of_cells(tau: float) -> None:
    """E log N(x|y) + the bound is the log density of a value, the log mass beyond a limit; moments by quadrature."""
    ends = np.array([[0.4, 0.4], [-np.inf, -0.7], [1.1, np.inf], [-0.2, 0.3]])
    rng = np.random.default_rng(0)
    y = 2 * rng.standard_normal((30, 4))
    target = np.broadcast_to(ends, (30, 4, 2))
    x = Censored().infer_x(target, y, np.full(4, tau), None)
    log_p = np.stack([norm.logpdf(0.4, y[:, 0], tau**-0.5), *(_log_mass(y[:, d], ends[d], tau) for d in (1, 2, 3))], 1)
    gaussian = 0.5 * (np.log(tau / (2 * np.pi)) - tau * (x.second - 2 * x.mean * y + y * y))
    np.testing.assert_allclose(x.bound + gaussian, log_p, rtol=1e-9, atol=1e-9)
    assert (x.mean[:, 0] == 0.4).all()
    np.testing.assert_allclose(x.second[:, 0], 0.16)
    for d in (1, 2, 3):
        low, high = np.clip(ends[d], y[0, d] - 12 * tau**-0.5, y[0, d] + 12 * tau**-0.5)
        for k, found in ((1, x.mean), (2, x.second)):
            density = lambda u, d=d: np.exp(norm.logpdf(u, y[0, d], tau**-0.5) - log_p[0, d])  # noqa: E731
            exact = quad(lambda u, k=k, p=density: u**k * p(u), low, high, limit=300)[0]
            assert found[0, d] == pytest.approx(exact, rel=1e-6)


def _log_mass(y: np.ndarray, ends: np.ndarray, tau: float) -> np.ndarray:
    low, high = ((end - y) * tau**0.5 for end in ends)
    low, high = np.where(low + high > 0, -high, low), np.where(low + high > 0, -low, high)
    return log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))


def test_losses_and_predictions_are_those_of_numbers() -> None:
    likelihood = Censored()
    target = np.array([[[1.0, 1.0], [-np.inf, 0.0], [2.0, np.inf]]])
    np.testing.assert_allclose(
        likelihood.losses(target, np.array([[3.0, 1.5, 2.5]]), np.ones((1, 3))), [[4.0, 2.25, 0.0]]
    )
    x = PredictiveX(np.ones((1, 3)), np.zeros((1, 3, 1)), np.zeros((1, 3)), np.full(3, 4.0))
    np.testing.assert_allclose(likelihood.predict(x), [np.ones((1, 3)), np.full((1, 3), 2.0)])


# ------------------------------------------------------------------------------------------------- fits


def test_the_truth_is_found_behind_the_limits() -> None:
    """Mean, noise and values that were cut off; the bound never falls; by default values come back as they came."""
    whole = numbers(n=400)
    given, limits = cut(whole)
    plain, model = (fit({"x": given}, {"x": Real(limits=own)}) for own in (None, limits))
    assert np.diff(model.elbo_path_).min() >= 0
    truth = whole.mean(axis=0)[:2]
    assert (np.abs(model.bias_["x"][:2] - truth) < 0.15 * np.abs(plain.bias_["x"][:2] - truth)).all()
    assert model.impute({"x": given})["x"] is not given
    np.testing.assert_array_equal(model.impute({"x": given})["x"], given)
    filled, std = (part["x"] for part in model.impute({"x": given}, return_std=True, beyond_limits=True))
    at_limit = np.zeros(given.shape, dtype=bool)
    at_limit[:, 0], at_limit[:, 1] = given[:, 0] == limits[0][0], given[:, 1] == limits[1][1]
    np.testing.assert_array_equal(filled[~at_limit], given[~at_limit])
    assert (filled[at_limit[:, 0], 0] < limits[0][0]).all()
    assert (filled[at_limit[:, 1], 1] > limits[1][1]).all()
    assert ((std > 0) == at_limit).all()
    error, usual = (np.sqrt(np.mean((found - whole)[at_limit] ** 2)) for found in (filled, given))
    assert error < 0.65 * usual
    assert 0.8 < np.sqrt(np.mean(((filled - whole)[at_limit] / std[at_limit]) ** 2)) < 1.2
    predicted = model.predict({"x": np.where(np.arange(5) < 2, np.nan, whole)}, "x", use_target=True)
    assert (predicted[:, 0] < limits[0][0]).mean() > 0.2  # of the quantity itself, not of what can be measured


def test_without_values_at_a_limit_the_fit_is_that_of_real() -> None:
    given = numbers()
    plain, limited = (fit({"x": given}, {"x": Real(limits=own)}) for own in (None, (-100, None)))
    assert limited.elbo_ == plain.elbo_
    assert limited.log_evidence_ == plain.log_evidence_
    assert limited.score({"x": given}) == plain.score({"x": given})
    np.testing.assert_array_equal(limited.impute({"x": given}, beyond_limits=True)["x"], given)


@pytest.mark.parametrize("margin", [None, "log"])
def test_new_values_beyond_a_limit_that_training_did_not_meet(margin: str | None) -> None:
    """They count as that limit, also on a device."""
    rows = np.exp(numbers())
    model = fit({"x": rows}, {"x": Real(limits={1: (1e-3, None)}, margin=margin)}, max_iter=5)
    below, at_limit = rows[:3].copy(), rows[:3].copy()
    below[:, 1], at_limit[:, 1] = 0, 1e-3
    expected = model.transform({"x": at_limit})
    np.testing.assert_array_equal(model.transform({"x": below}), expected)
    np.testing.assert_array_equal(model.impute({"x": below})["x"], below)
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(model.transform({"x": torch.asarray(below)}), expected, rtol=1e-6)


def test_score_is_a_density_inside_and_a_mass_at_the_limit() -> None:
    """Without factors rows are independent normals, by hand; only densities have a Jacobian."""
    given, limits = cut(numbers(d=2))
    model = fit({"x": given}, {"x": Real(limits=limits)}, max_iter=30)
    model.fitted_ = _without_factors(model.fitted_)
    view = model.fitted_.posterior.views[0]
    coding = model.fitted_.schema.codings["x"]
    total = 0.0
    for d, (low, high) in limits.items():
        # E log p of the noise and bias at their posterior, as the bound of rows has it
        mean, tau = coding.centre[d] + coding.scale[d] * view.b_mean[d], view.tau.mean[d] / coding.scale[d] ** 2
        shift = 0.5 * (view.tau.log_mean[d] - np.log(view.tau.mean[d])) - 0.5 * view.tau.mean[d] * view.b_var[d]
        log_p = norm.logpdf(given[:, d], mean, tau**-0.5)
        edge, sign = (low, 1) if high is None else (high, -1)
        at_limit = given[:, d] == edge
        log_p[at_limit] = log_ndtr(sign * (edge - mean) * tau**0.5)
        total += log_p.sum() + len(given) * shift
    assert model.score({"x": given}) == pytest.approx(total / len(given), rel=1e-9)


def _without_factors(fitted: Any) -> Any:
    return replace(fitted, posterior=fitted.posterior.select_factors(np.arange(0)))


def test_units_change_nothing() -> None:
    given, limits = cut(numbers())
    other = {d: tuple(None if edge is None else 1000 * edge for edge in pair) for d, pair in limits.items()}
    small, large = fit({"x": given}, {"x": Real(limits=limits)}), fit({"x": 1000 * given}, {"x": Real(limits=other)})
    assert large.elbo_ == pytest.approx(small.elbo_, rel=1e-9)
    n_inside = 5 - np.mean((given[:, 0] == limits[0][0]).astype(int) + (given[:, 1] == limits[1][1]))
    assert large.score({"x": 1000 * given}) == pytest.approx(
        small.score({"x": given}) - n_inside * np.log(1000), rel=1e-6
    )


def test_values_beyond_and_single_precision_count_as_at_the_limit() -> None:
    given, limits = cut(numbers())
    halved = given.copy()
    halved[given[:, 0] == limits[0][0], 0] = limits[0][0] / 2
    expected = fit({"x": given}, {"x": Real(limits=limits)})
    assert fit({"x": halved}, {"x": Real(limits=limits)}).elbo_ == pytest.approx(expected.elbo_, rel=1e-12)
    single = fit({"x": given.astype("float32")}, {"x": Real(limits=limits)})
    assert single.fitted_.schema.codings["x"].at_limits == expected.fitted_.schema.codings["x"].at_limits


@pytest.mark.filterwarnings("ignore:view")
def test_a_column_that_is_all_at_its_limit() -> None:
    """Nothing tells its scale: the noise is held, and the fit ends."""
    given = numbers()
    given[:, 2] = 7.0
    model = fit({"x": given, "y": given[:, :2] > 3}, {"x": Real(limits={2: (7, None)}), "y": Binary()})
    assert np.isfinite(model.elbo_)
    assert (model.impute({"x": given}, beyond_limits=True)["x"][:, 2] < 7).all()


@pytest.mark.parametrize(("margin", "chosen"), [("auto", "none"), ("log", "log"), ("box-cox", "box-cox")])
def test_a_margin_of_a_column_that_is_all_at_limits_of_rows(margin: str, chosen: str) -> None:
    """Nothing tells its scale, so "auto" leaves it as it is; one that is asked for is taken."""
    rows = pd.DataFrame(numbers(80, 3), columns=list("bcd"))
    rows["a"] = rows["limit"] = np.where(np.arange(80) % 2, 0.1, 0.2)
    view = Real(limits={"a": ("limit", None)}, margin={"a": margin})
    model = fit({"x": rows}, {"x": view}, max_iter=5)
    assert model.margins_.get("x", {}).get("a", "none").startswith(chosen)
    assert (model.impute({"x": rows}, beyond_limits=True)["x"]["a"] < rows["a"]).all()
    with pytest.raises(DataError, match="cannot have the margin 'log'"):
        fit({"x": rows.assign(limit=-rows["limit"], a=-rows["a"])}, {"x": replace(view, margin={"a": "log"})})


# ------------------------------------------------------------------------------------------------- data


def table(n: int = N) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table with a limit in each row, and what could not be measured."""
    whole = pd.DataFrame(numbers(n), columns=list("abcde"))
    given = whole.copy()
    given["a limit"] = np.where(np.arange(n) % 3 == 0, np.nan, np.where(np.arange(n) % 3 == 1, 2.5, 3.0))
    given["a"] = np.where(whole["a"] < given["a limit"], given["a limit"], whole["a"])
    given["kind"] = np.where(whole["b"] > 3, "x", "y")
    return given, whole


def test_limits_of_rows(tmp_path: Path) -> None:
    """Columns of limits are no features: not predicted, kept as they are, told apart in files and new rows."""
    given, whole = table()
    model = fit(given, {"numeric": Real(limits={"a": ("a limit", None)})})
    assert model.feature_names_in_["numeric"] == list("abcde")
    filled = model.impute(given, beyond_limits=True)
    at_limit = (given["a"] == given["a limit"]).to_numpy()
    assert at_limit.sum() > 20
    assert (filled["a"] < given["a"])[at_limit].all()
    pd.testing.assert_frame_equal(filled.drop(columns="a"), given.drop(columns="a"))
    np.testing.assert_array_equal(filled["a"][~at_limit], given["a"][~at_limit])
    error, usual = ((part["a"] - whole["a"])[at_limit].abs().mean() for part in (filled, given))
    assert error < 0.8 * usual
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.views_ == model.views_
    pd.testing.assert_frame_equal(again.impute(given, beyond_limits=True), filled)
    assert again.score(given) == model.score(given)
    scores = evaluate.holdout(model, given, fraction=0.2, per="feature")
    assert scores.loc["numeric"].index.tolist() == list("abcde")
    hidden = evaluate.check(model, given, fraction=0.9)["numeric"].hidden[:, 0]
    assert not (hidden & at_limit).any()
    before = again.elbo_
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*still rose")
        again.set_params(max_iter=2).resume(given)
    assert again.elbo_ >= before
    views = {"x": given.drop(columns="kind"), "kind": given["kind"]}
    named = fit(views, {"x": Real(limits={"a": ("a limit", None)})}, max_iter=15)
    assert named.predict({"kind": given["kind"]}, "x").columns.tolist() == list("abcde")
    tuned = tune(named, views, {"x.noise": ["feature", "view"]}, "x", hide="cells", n_folds=2)
    assert np.isfinite(tuned.table["score"]).all()


def test_new_rows_without_their_limits() -> None:
    """Values whose limits are not given are refused; where there are no such values no limits are needed."""
    given, _ = table()
    model = fit(given, {"numeric": Real(limits={"a": ("a limit", None)})}, max_iter=5)
    without = given.drop(columns="a limit")
    with pytest.raises(ValueError, match="column 'a limit', which has the limits of 'a', is missing"):
        model.transform(without)
    expected = model.transform(given.assign(a=np.nan))
    np.testing.assert_array_equal(model.transform(without.assign(a=np.nan)), expected)
    np.testing.assert_array_equal(model.transform(without.drop(columns="a")), expected)
    numeric = given.drop(columns="kind")
    model = fit({"x": numeric}, {"x": Real(limits={"a": ("a limit", None)})}, max_iter=5)
    with pytest.raises(ValueError, match="which are found by name"):
        model.transform({"x": numeric.to_numpy()})


def test_rows_that_are_not_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LEAST", 1000)
    given = numbers(n=200, d=6)
    np.save(tmp_path / "x.npy", given)
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    view = Real(limits={0: (2.5, None), 1: (None, 4.0)})
    ours = fit({"x": stored}, {"x": view}, max_memory=20_000, max_iter=5)
    expected = fit({"x": given}, {"x": view}, max_iter=5)
    assert ours.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)
    filled = [model.impute({"x": given}, beyond_limits=True)["x"] for model in (ours, expected)]
    np.testing.assert_allclose(*filled, atol=1e-6)


def test_on_a_device() -> None:
    """The fit, and what lies beyond, are those of NumPy; also of ranks that are tied."""
    pytest.importorskip("torch")
    given, limits = cut(numbers())
    given[:, 4] = np.round(given[:, 4])
    view = Real(limits=limits, margin={4: "normal"})
    host, there = (fit({"x": given}, {"x": view}, device=device, max_iter=15) for device in (None, "cpu"))
    assert there.elbo_ == pytest.approx(host.elbo_, rel=1e-9)
    filled = [model.impute({"x": given}, beyond_limits=True)["x"] for model in (host, there)]
    np.testing.assert_allclose(*filled, rtol=1e-6)


def test_other_libraries() -> None:
    """What lies beyond comes back in kind, also where there is no hole."""
    polars, anndata = pytest.importorskip("polars"), pytest.importorskip("anndata")
    given, limits = cut(numbers())
    frame = pd.DataFrame(given, columns=list("abcde"), index=[f"r{i}" for i in range(N)])
    named = {"abcde"[d]: pair for d, pair in limits.items()}
    model = fit({"X": frame}, {"X": Real(limits=named)}, max_iter=10)
    expected = model.impute({"X": frame}, beyond_limits=True)["X"].to_numpy()
    assert (expected != given).any()
    found = model.impute({"X": polars.DataFrame(frame)}, beyond_limits=True)["X"]
    np.testing.assert_array_equal(found.to_numpy(), expected)
    data = anndata.AnnData(frame)
    np.testing.assert_array_equal(model.impute(data, beyond_limits=True).X, expected)
    np.testing.assert_array_equal(model.impute(data).X, given)


REFUSED = {
    "one number": ((3,), "limits must be a pair"),
    "text alone": ("low", "limits must be a pair"),
    "infinite": ((np.inf, None), "limits must be a pair"),
    "turned round": ((3, 2), "the lower limit 3 is not below the upper one, 2"),
    "no column": ({"z": (0, None)}, "limits are given for 'z', which is no column"),
    "no column of limits": ({"a": ("lod", None)}, "'lod' should have limits, and is no column"),
    "rows turned round": ({"a": ("a limit", 2.6)}, "the lower limit 3 is not below the upper one, 2.6, in row"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    limits, message = REFUSED[case]
    given = table()[0].drop(columns="kind")
    with pytest.raises((ValueError, DataError), match=message):
        fit({"x": given}, {"x": Real(limits=limits)})


def test_command(tmp_path: Path) -> None:
    given, _ = table()
    data, model, out = tmp_path / "data.csv", tmp_path / "model", tmp_path / "out.csv"
    given["b"] = given["b"].clip(upper=3.4)
    given.loc[3, "c"] = np.nan
    given.to_csv(data, index=False)
    options = ["--limits", "a=a limit,", "--limits=b=,3.4", "--components=3"]
    done = sshiba("fit", data, "--out", model, *options)
    assert done.returncode == 0, done.stderr
    assert load(model).views_["numeric"] == Real(limits={"a": ("a limit", None), "b": (None, 3.4)})
    assert sshiba("impute", data, "--model", model, "--out", out, "--beyond-limits").returncode == 0
    filled = pd.read_csv(out, float_precision="round_trip")
    assert (filled["b"] > 3.4).sum() == (given["b"] == 3.4).sum() > 10
    assert (filled["a"] < given["a"]).sum() == (given["a"] == given["a limit"]).sum()
    assert filled["c"].notna().all()
    assert sshiba("impute", data, "--model", model, "--out", out, "--force").returncode == 0
    np.testing.assert_array_equal(pd.read_csv(out, float_precision="round_trip")["b"], given["b"])
    for option, message in (
        ("a=3", "write COLUMN=lower,upper"),
        ("z=1,", "no column 'z'"),
        ("a=x,", "'x' is neither a number nor a column"),
    ):
        done = sshiba("fit", data, "--out", tmp_path / "m", f"--limits={option}")
        assert done.returncode == 2
        assert message in done.stderr


def test_what_limits_do_is_said(tmp_path: Path) -> None:
    """A decimal comma makes two limits of one: cells beyond the upper one, and none at the lower."""
    given, data = pd.DataFrame(numbers(d=2), columns=["a", "b"]).abs().clip(lower=0.5), tmp_path / "data.csv"
    given.to_csv(data, index=False)
    n_low, n_high = int((given["a"] == 0.5).sum()), int((given["a"] > 5).sum())
    said = [
        sshiba(
            "impute", data, "--out", tmp_path / "out.csv", "--force", "--components=2", f"--limits=a={limits}"
        ).stderr
        for limits in ("0.5,", "0,5")
    ]
    assert f"'a': {n_low} cells at or below 0.5\n" in said[0]
    assert "beyond it" not in said[0]
    assert "'a': no cell is at or below its limit 0: --limits takes COLUMN=lower,upper, numbers with a dec" in said[1]
    assert f"'a': {n_high} cells are above the limit 5, and known only to lie beyond it" in said[1]
    with pytest.warns(UserWarning, match=r"no cell is at or above its limit 99: limits are pairs, \(lower, upper\)"):
        fit({"x": given}, {"x": Real(limits={"b": (0.5, 99)})}, max_iter=5)


def test_limits_with_decimal_commas_are_refused_where_they_may_mean_two_things(tmp_path: Path) -> None:
    """0,5 is a number of the file, and two limits; our own advice is never refused."""
    given = pd.DataFrame(numbers(d=2), columns=["a", "b"]).abs().clip(lower=0.5)
    given.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    words = ("fit", "t.csv", "--components=2", "--force", "-o", "m")
    said = sshiba(*words, "--limits=a=0,5", cwd=tmp_path).stderr
    assert "Error: --limits 'a=0,5': the file has decimal commas; write a=0.5, for a lower limit of 0.5," in said
    assert "a=,0.5 for an upper one, or a=0.0,5.0 for limits of 0 and 5." in said
    assert sshiba("evaluate", "t.csv", "--limits=a=0,5", cwd=tmp_path).returncode == 2
    assert sshiba("impute", "t.csv", "-o", "o.csv", "--limits=a=0,5", cwd=tmp_path).returncode == 2
    for limits, meant in (("0.5,", (0.5, None)), ("0.0,5.0", (0.0, 5.0)), (",3", (None, 3.0))):
        assert sshiba(*words, f"--limits=a={limits}", cwd=tmp_path).returncode == 0
        assert load(tmp_path / "m").views_["numeric"].limits == {"a": meant}
    advised = refusal(pd.Series(["<1", "2.5", "1.5", ">9", "4.5"], name="crp"))
    assert advised is not None
    assert "--limits crp=1.0,9.0, or" in advised.said(OPTIONS)


# ------------------------------------------------------------------------------------------------- the point of it


def test_bias_of_means_and_slopes() -> None:
    """Flavanoids of wines, the lowest quarter at a limit: a tenth of the bias that the limit itself brings."""
    whole = load_wine(as_frame=True).data
    column, other = "flavanoids", "total_phenols"
    low = whole[column].quantile(0.25)
    given = whole.assign(**{column: whole[column].clip(lower=low)})
    filled = fit({"x": given}, {"x": Real(limits={column: (low, None)})}).impute({"x": given}, beyond_limits=True)["x"]

    def bias(found: pd.DataFrame) -> np.ndarray:
        def figures(part: pd.DataFrame) -> np.ndarray:
            return np.array([part[column].mean(), np.polyfit(part[other], part[column], 1)[0]])

        return np.abs(figures(found) - figures(whole))

    assert (bias(filled) < 0.1 * bias(given)).all()


# ------------------------------------------------------------------------------------------------- cells such as <0.5


def laboratory() -> pd.DataFrame:
    """A column whose values below 0.5 are not known, as its cells say."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(N)
    troponin, others = np.round(np.exp(z + 0.1 * rng.standard_normal(N)), 2), z[:, None] + rng.standard_normal((N, 2))
    frame = pd.DataFrame(np.round(10 + others, 2), columns=["hb", "crp"])
    frame["Troponin"] = ["<0.5" if value <= 0.5 else value for value in troponin]
    frame.loc[::9, "Troponin"] = None
    return frame


@pytest.mark.parametrize("kind", [object, str, "string", "commas"])
def test_cells_such_as_less_than_a_limit_are_at_this_limit(kind: Any) -> None:
    frame, limits = laboratory(), Real(limits={"Troponin": (0.5, None)})
    plain = frame.replace({"Troponin": {"<0.5": 0.5}}).astype({"Troponin": float})
    texts = frame["Troponin"].astype(str).str.replace(".", ",", regex=False) if kind == "commas" else frame["Troponin"]
    texts = texts if kind in (object, "commas") else texts.astype(kind)
    given = frame.assign(Troponin=texts.where(frame["Troponin"].notna(), None))
    models = [fit(table, {"numeric": limits}) for table in (given, plain)]
    assert sum(models[0].fitted_.schema.codings["numeric"].at_limits) == (frame["Troponin"] == "<0.5").sum()
    np.testing.assert_array_equal(models[0].transform(given), models[1].transform(plain))
    filled, expected = (model.impute(table) for model, table in zip(models, (given, plain)))
    seen, beyond = frame["Troponin"].notna(), frame["Troponin"] == "<0.5"
    assert (filled["Troponin"][beyond] == given["Troponin"][beyond]).all()
    assert filled["Troponin"][seen & ~beyond].tolist() == frame["Troponin"][seen & ~beyond].tolist()
    assert models[0].impute(given, beyond_limits=True)["Troponin"].dtype == float
    assert kind is object or models[0].impute(given[~beyond])["Troponin"].dtype == float
    np.testing.assert_allclose(filled["Troponin"][~seen].astype(float), expected["Troponin"][~seen])
    odd = given.assign(Troponin=given["Troponin"].replace({"<0.5": "<0.3", "<0,5": "<0.3"}))
    with pytest.raises(DataError, match=r"has '<0\.3' in 28 cells, but its lower limit is 0\.5"):
        models[0].transform(odd)


@pytest.mark.parametrize(
    "views", [{"numeric": Real(limits={"Troponin": (0.5, None)})}, {"Troponin": Real(limits=(0.5, None))}]
)
def test_texts_of_a_column_with_a_limit_are_read_wherever_cells_are(views: dict[str, Real], tmp_path: Path) -> None:
    """In checks, the report, pictures of columns, and what is tuned."""
    pytest.importorskip("plotly", reason="needs the extra 'report'")
    pytest.importorskip("matplotlib", reason="needs the extra 'plot'")
    from sshiba import plots

    frame, name = laboratory(), next(iter(views))
    texts = frame["Troponin"].astype(str).str.replace(".", ",", regex=False)
    given = frame.assign(Troponin=texts.where(frame["Troponin"].notna(), None))
    views = views if name == "numeric" else {**views, "numeric": Real()}
    plain = frame.replace({"Troponin": {"<0.5": 0.5}}).astype({"Troponin": float})
    model, other = fit(given, views), fit(plain, views)
    for per in ("view", "feature"):
        pd.testing.assert_frame_equal(evaluate.holdout(model, given, per=per), evaluate.holdout(other, plain, per=per))
    model.report(tmp_path / "r.html", given)
    shown, wanted = (plots.feature_fit_data(m, t, name, "Troponin") for m, t in ((model, given), (other, plain)))
    pd.testing.assert_series_equal(shown["value"], wanted["value"])
    grid = {"n_components": [1]}
    found, wanted = (tune(m, t, grid, name, "cells", 2).table for m, t in ((model, given), (other, plain)))
    pd.testing.assert_frame_equal(found, wanted)
    pl = pytest.importorskip("polars")
    filled = fit(pl.from_pandas(given), views).impute(pl.from_pandas(given))["Troponin"].to_list()
    assert filled[1:3] == [texts[1].replace(",", "."), texts[2].replace(",", ".")]


@pytest.mark.filterwarnings("error")
def test_cells_beyond_a_limit_that_nobody_knows_are_told_with_what_to_do() -> None:
    """Also where these are all the cells that are text."""
    frame = laboratory()
    model = fit(frame, {"numeric": Real(limits={"Troponin": (0.5, None)})})
    words = "has '>200' in 2 cells, but it has no upper limit there: .*, or set it to NaN or None if it means missing"
    with pytest.raises(DataError, match=words) as told:
        model.transform(frame.assign(Troponin=[">200"] * 2 + [None] * (N - 2)))
    here = {Remedy.ROW_LIMITS: "", Remedy.MISSING: OPTIONS[Remedy.MISSING]}
    assert told.value.said(here).endswith("upper limit there: name what means missing with --missing '>200'.")


def test_cells_beyond_the_limit_of_their_row() -> None:
    frame = laboratory().assign(lod=0.5)
    limits = {"numeric": (["hb", "crp", "Troponin", "lod"], Real(limits={"Troponin": ("lod", None)}))}
    assert any(fit(frame, limits).fitted_.schema.codings["numeric"].at_limits)
    frame.loc[frame["Troponin"] == "<0.5", "lod"] = None
    with pytest.raises(DataError, match="it has no lower limit there"):
        fit(frame, limits)


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_cells_such_as_less_than_a_limit_in_files(tmp_path: Path, ending: str, decimal: str) -> None:
    """The advice is ready to copy, and cells that were seen stay as they are written."""
    frame = laboratory()
    texts = frame.map(lambda cell: None if cell is None else str(cell).replace(".", decimal))
    if ending == ".csv":
        texts.to_csv(tmp_path / "t.csv", index=False, sep=";")
    else:
        pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
        frame.assign(Troponin=texts["Troponin"]).to_excel(tmp_path / "t.xlsx", index=False)
    table, out = f"t{ending}", f"o{ending}"
    refused = sshiba("impute", table, "-o", out, "--components", 2, cwd=tmp_path)
    assert "name the limit with --limits 'Troponin=0.5,', or" in refused.stderr
    limits = ("--limits", "Troponin=0.5,")
    other = sshiba("impute", table, "-o", out, "--limits", "Troponin=0.4,", cwd=tmp_path)
    assert "has '<0.5' in 28 cells, but its lower limit is 0.4" in other.stderr.replace("0,5", "0.5")
    done = sshiba("impute", table, "-o", out, "--components", 2, *limits, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    read: Any = pd.read_excel if ending == ".xlsx" else lambda path: pd.read_csv(path, sep=";", dtype=str)
    before, after = (read(tmp_path / name)["Troponin"] for name in (table, out))
    seen = before.notna()
    assert (before[seen] == after[seen]).all()
    assert not after.isna().any()
    beyond = sshiba("impute", table, "-o", "b" + ending, "--beyond-limits", *limits, "--components", 2, cwd=tmp_path)
    assert beyond.returncode == 0, beyond.stderr
    assert not read(tmp_path / f"b{ending}")["Troponin"].astype(str).str.contains("<").any()


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_cells_beyond_a_limit_are_named_with_either_decimal_mark(tmp_path: Path, ending: str) -> None:
    """Messages say <1.0 of <1,0."""
    crp = [f"{1.5 + 0.1 * i:.1f}" for i in range(40)] + ["<1.0"] * 5 + ["<0.5"] * 5
    frame = pd.DataFrame({"crp": [cell.replace(".", ",") for cell in crp], "hb": np.arange(50) % 7 + 0.5})
    if ending == ".csv":
        frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    else:
        pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
        frame.to_excel(tmp_path / "t.xlsx", index=False)
    for texts in (("<1.0", "<0.5"), ("crp=<1,0", "crp=<0.5")):
        options = [word for text in texts for word in ("--missing", text)]
        done = sshiba("fit", f"t{ending}", "-o", "m", "--force", "--components", 1, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "missing by --missing: 10 cells of 'crp'" in done.stderr
        assert "no cell" not in done.stderr


def test_cells_such_as_less_than_a_limit_of_a_long_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the file without such cells are numbers."""
    monkeypatch.setattr(long_tables, "PART_ROWS", 6)
    laboratory().to_csv(tmp_path / "t.csv", index=False)
    source = long_tables.LongTable(str(tmp_path / "t.csv"), Reading()).source()
    found, whole = (fit(data, {"numeric": Real(limits={"Troponin": (0.5, None)})}) for data in (source, laboratory()))
    assert found.fitted_.elbo == pytest.approx(whole.fitted_.elbo)
