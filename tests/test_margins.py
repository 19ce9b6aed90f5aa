"""Margins of real columns: the scale on which they are nearly normal, and the way back."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import sshiba
from scipy import sparse, stats
from scipy.integrate import quad
from scipy.special import ndtri

from sshiba import SSHIBA, Real, evaluate, load, plots, tune
from sshiba.cli.column_options import with_numbers
from sshiba.core import machine
from sshiba.data.advice import DataError
from sshiba.data.margin_choice import MOST_VALUES, Ranks, choose_margins
from sshiba.data.margins import Margin, rank_margin
from sshiba.data.sources import function_source
from sshiba.evaluate.tuning import score_target
from sshiba.plots import calibration_data

N = 150


def latent(n: int = N, d: int = 5, seed: int = 0) -> np.ndarray:
    """Columns that share two factors."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(9).standard_normal((2, d))
    return 0.6 * (rng.standard_normal((n, 2)) @ weights + 0.5 * rng.standard_normal((n, d)))


def bent(n: int = N, seed: int = 0) -> np.ndarray:
    """Skewed, a share, a square, as it is, and rounded."""
    u = latent(n, seed=seed)
    return np.column_stack(
        [np.exp(u[:, 0]), 1 / (1 + np.exp(-2 * u[:, 1])), (5 + u[:, 2]) ** 2, u[:, 3], np.round(u[:, 4])]
    )


def fit(views: Any, types: Any, **options: object) -> SSHIBA:
    options = {"random_state": 0, "max_iter": 40, "tol": 1e-4, "search": None} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(max_iter|still rose)")
        return SSHIBA(4, types, **options).fit(views)


# ------------------------------------------------------------------------------------------------- transforms

RANKS = rank_margin(np.array([1.0, 2.0, 4.0, 8.0, 9.0]), np.array([1, 3, 1, 1, 2]), 4.0, 3.0)
SMOOTH = [Margin("log"), Margin("logit"), Margin("box-cox", 0.0), Margin("box-cox", 0.3), Margin("box-cox", 1.7)]


@pytest.mark.parametrize("margin", [Margin(), *SMOOTH], ids=str)
def test_there_and_back_and_the_slope(margin: Margin) -> None:
    """g⁻¹(g(x)) = x, and log dg/dx by finite differences."""
    x = np.linspace(0.05, 0.95, 19)
    u = margin.forward(x)
    np.testing.assert_allclose(margin.backward(u), x, rtol=1e-12)
    step = 1e-6
    numeric = (margin.forward(x + step) - margin.forward(x - step)) / (2 * step)
    np.testing.assert_allclose(margin.log_slope(u), np.log(numeric), atol=1e-8)


@pytest.mark.parametrize("margin", [*SMOOTH, RANKS], ids=str)
@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.2), (1.5, 0.5)])
def test_moments_of_predictions_by_quadrature(margin: Margin, mean: float, std: float) -> None:
    first, second = (
        quad(
            lambda u, k=k: float(margin.backward(np.array(u))) ** k * stats.norm.pdf(u, mean, std),
            *(mean - 9 * std, mean + 9 * std),
            limit=500,
            points=[p for _, p in margin.knots] or None,
        )[0]
        for k in (1, 2)
    )
    found = margin.moments(np.array([mean]), np.array([std]))
    rough = margin.kind == "normal"  # whose steps no rule of 40 nodes sees exactly
    assert found[0][0] == pytest.approx(first, rel=0.02 if rough else 1e-6)
    assert found[1][0] == pytest.approx(np.sqrt(second - first**2), rel=0.05 if rough else 1e-5)
    assert margin.median(np.array([mean]))[0] == pytest.approx(margin.backward(np.array(mean)))


@pytest.mark.parametrize("margin", [Margin("log"), Margin("box-cox", 0.5)], ids=str)
@pytest.mark.parametrize("edge", [0.3, 0.9, 1.7])
def test_moments_beyond_a_limit(margin: Margin, edge: float) -> None:
    """Of a normal cut at an edge, below or above it, by quadrature."""
    for ends in ((-8, (edge - 1) / 0.4), ((edge - 1) / 0.4, 8)):
        cut = stats.truncnorm(*ends, loc=1.0, scale=0.4)
        first, second = (cut.expect(lambda u, k=k: margin.backward(u) ** k) for k in (1, 2))
        found = margin.moments_beyond(np.array([cut.mean()]), np.array([cut.std()]), np.array([edge]))
        assert found[0][0] == pytest.approx(first, rel=1e-3)
        assert found[1][0] == pytest.approx(np.sqrt(second - first**2), rel=1e-2)
        middle = margin.median_beyond(np.array([cut.mean()]), np.array([cut.std()]), np.array([edge]))
        assert middle[0] == pytest.approx(margin.backward(np.array(cut.median())), rel=1e-3)


def test_ranks() -> None:
    """Normal scores of the middle ranks; ties between first and last rank; nothing beyond what was seen."""
    low, high = RANKS.ends(np.array([1.0, 2.0, 3.0, 8.0, 9.0, 50.0, np.nan]))
    np.testing.assert_allclose(low[[0, 1, 3, 4]], [ndtri(0.5 / 8), ndtri(1 / 8), ndtri(5.5 / 8), ndtri(6 / 8)])
    np.testing.assert_allclose(high[[0, 1, 3]], [ndtri(0.5 / 8), ndtri(4 / 8), ndtri(5.5 / 8)])
    assert high[4] == np.inf
    assert low[2] == high[2] == pytest.approx((RANKS.forward(np.array(2.0)) + ndtri(4.5 / 8)) / 2)
    assert np.isnan([low[6], high[6]]).all()
    np.testing.assert_allclose(RANKS.backward(np.array([-9.0, ndtri(0.3), 9.0])), [1.0, 2.0, 9.0])
    many = np.random.default_rng(0).standard_normal(3 * MOST_VALUES)
    whole = np.concatenate([many, np.zeros(2000)])
    short = Ranks.of(whole[:30_000]) + Ranks.of(whole[30_000:])
    assert len(short.values) <= MOST_VALUES
    assert short.counts.sum() == len(whole)
    margin = rank_margin(short.values, short.counts, 0.0, 1.0)
    assert len(margin.knots) < 600
    x = np.array([-2.0, -0.5, 1.0, 2.5])
    ranks = [(np.sum(whole < v) + np.sum(whole <= v)) / 2 / len(whole) for v in x]
    np.testing.assert_allclose(margin.forward(x), ndtri(ranks), atol=0.02)
    assert np.diff(margin.ends(np.zeros(1)), axis=0)[0, 0] > 0.05


# ------------------------------------------------------------------------------------------------- fits


@pytest.mark.parametrize("kind", ["log", "logit", "box-cox"])
def test_the_fit_is_that_of_transformed_columns(kind: str) -> None:
    """And the score is theirs with the Jacobian, whatever the units of the model; holes are holes."""
    x = np.exp(latent()) if kind != "logit" else 1 / (1 + np.exp(-latent()))
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    model = fit({"x": x}, {"x": Real(margin=kind)})
    margins = model.fitted_.schema.codings["x"].margins
    u = np.column_stack([margin.forward(column) for margin, column in zip(margins, x.T)])
    plain = fit({"x": u}, {"x": Real()})
    assert model.elbo_ == pytest.approx(plain.elbo_, rel=1e-9)
    slopes = sum(np.nansum(margin.log_slope(column)) for margin, column in zip(margins, u.T))
    assert model.score({"x": x}) == pytest.approx(plain.score({"x": u}) + slopes / len(x), rel=1e-9)
    mean, std = plain.impute({"x": u}, return_std=True)
    for guess in ("mean", "median"):
        model.fitted_.schema.types["x"] = Real(margin=kind, guess=guess)
        filled, spread = model.impute({"x": x}, return_std=True)
        for d, margin in enumerate(margins):
            holes = np.isnan(x[:, d])
            expected = margin.moments(mean["x"][holes, d], std["x"][holes, d])
            middle = expected[0] if guess == "mean" else margin.median(mean["x"][holes, d])
            np.testing.assert_allclose(filled["x"][holes, d], middle, rtol=1e-6)
            np.testing.assert_allclose(spread["x"][holes, d], expected[1], rtol=1e-5)
            assert (spread["x"][~holes, d] == 0).all()
    drawn = model.sample(50, random_state=0)["x"]
    assert (drawn > 0).all()
    assert kind != "logit" or (drawn < 1).all()


@pytest.mark.parametrize("guess", ["mean", "median"])
def test_the_guess_of_a_value_beyond_a_limit(guess: str) -> None:
    """Half of what may lie beyond is smaller than the median, as the rest of a cut normal has it."""
    x = np.maximum(np.exp(latent()), 1.0)
    view = Real(margin="log", limits=(1.0, None), guess=guess)
    coding = fit({"x": x}, {"x": view}).fitted_.schema.codings["x"]
    u = np.random.default_rng(0).standard_normal(1_000_000)
    below = u[u < 0]
    mean, edge = ((u - coding.centre) / coding.scale for u in (below.mean(), 0.0))
    ends = np.stack([np.full_like(edge, -np.inf), edge], axis=-1)
    found, _ = view.decode_predicted(mean[None], below.std() / coding.scale[None], coding, ends[None])
    truth = {"mean": np.mean, "median": np.median}[guess](np.exp(below))
    np.testing.assert_allclose(found[0], np.full(x.shape[1], truth), rtol=3e-3)


def test_power_by_maximum_likelihood() -> None:
    for seed, power in ((0, 0.3), (1, 1.4)):
        u = np.random.default_rng(seed).standard_normal(3000)
        x = (1 + power * (3 + 0.8 * u)) ** (1 / power)
        learned = Real(margin="box-cox").learn(pd.DataFrame({"x": x}), "x")
        (margin,) = choose_margins(learned)[0]
        assert margin.power == pytest.approx(np.clip(stats.boxcox(x)[1], 0, 2), abs=0.051)
        halves = [Real(margin="box-cox").learn(pd.DataFrame({"x": part}), "x") for part in (x[:1000], x[1000:])]
        assert choose_margins(halves[0] + halves[1])[0][0].power == margin.power


def test_auto_takes_what_is_likeliest(tmp_path: Path) -> None:
    given = pd.DataFrame(bent(600), columns=["skewed", "share", "square", "plain", "rounded"])
    given.loc[::7, "skewed"] = np.nan
    model = fit(given, {"numeric": Real(margin="auto")})
    assert model.margins_["numeric"] == {
        "skewed": "log",
        "share": "logit",
        "square": model.margins_["numeric"]["square"],
        "plain": "none",
        "rounded": "none",
    }
    np.testing.assert_array_equal(given["square"], model.impute(given)["square"])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.views_ == model.views_
    assert again.margins_ == model.margins_
    pd.testing.assert_frame_equal(again.impute(given), model.impute(given))
    assert again.score(given) == model.score(given)
    before = again.elbo_
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*still rose")
        again.set_params(max_iter=2).resume(given)
    assert again.elbo_ >= before
    normal = latent(600)
    plain, auto = (fit({"x": normal}, {"x": Real(margin=kind)}) for kind in (None, "auto"))
    assert auto.margins_ == {}
    assert auto.elbo_ == plain.elbo_


def test_skewed_columns_are_predicted_better() -> None:
    x = np.exp(1.5 * latent(500))
    hidden = np.random.default_rng(1).random(x.shape) < 0.2
    shown = np.where(hidden, np.nan, x)
    errors = {}
    for kind in (None, "auto", "normal"):
        filled = fit({"x": shown}, {"x": Real(margin=kind)}).impute({"x": shown})["x"]
        errors[kind] = np.mean(np.abs(filled - x)[hidden])
        if kind == "normal":
            assert (filled >= np.nanmin(shown, axis=0)).all()
            assert (filled <= np.nanmax(shown, axis=0)).all()
    assert errors["auto"] < 0.8 * errors[None]
    assert errors["normal"] < 0.85 * errors[None]


def test_normal_scores_with_ties(tmp_path: Path) -> None:
    """Few values in a column: intervals, as of levels; the bound never falls; no score; a file says the same."""
    given = bent(300)
    model = fit({"x": given}, {"x": Real(margin="normal")})
    assert np.diff(model.elbo_path_).min() >= 0
    assert model.fitted_.spec.views[0].likelihood.limited == (False, False, False, False, True)
    with pytest.raises(ValueError, match=r"margin='normal' .* no density, so there is no score"):
        model.score({"x": given})
    np.testing.assert_array_equal(model.impute({"x": given}, beyond_limits=True)["x"], given)
    model.save(tmp_path / "model")
    new = np.where(np.arange(5) == 4, np.nan, given)
    np.testing.assert_array_equal(load(tmp_path / "model").impute({"x": new})["x"], model.impute({"x": new})["x"])
    two = fit({"x": np.column_stack([given[:, :3], given[:, 4] > 0.0])}, {"x": Real(margin="normal")}, max_iter=15)
    coding = two.fitted_.schema.codings["x"]
    assert two.noise_std_["x"][3] == pytest.approx(coding.scale[3], rel=1e-2)  # of two ranks it is held
    drawn = model.sample(200, random_state=0)["x"][:, 4]
    assert drawn.min() >= given[:, 4].min()
    assert drawn.max() <= given[:, 4].max()
    checks = evaluate.check(SSHIBA(4, {"x": Real(margin="normal")}, random_state=0, max_iter=20), {"x": given}, 0.2)
    assert np.isnan(evaluate.scores_table(checks)["log_likelihood"]["x"])
    assert checks["x"].hidden[:, 4].sum() > 20  # tied, but known


def test_limits_on_a_margin() -> None:
    """The fit of logarithms with logarithms as limits; what lies beyond comes back beyond, in the units of the data."""
    whole = np.exp(latent(300))
    low = np.quantile(whole[:, 0], 0.3)
    given = np.where(np.arange(5) == 0, np.maximum(whole, low), whole)
    given[given[:, 0] == low, 0] = 0  # as some laboratories write it
    model = fit({"x": given}, {"x": Real(margin="log", limits={0: (low, None)})})
    logs = fit({"x": np.log(np.maximum(given, 1e-9))}, {"x": Real(limits={0: (np.log(low), None)})})
    assert model.elbo_ == pytest.approx(logs.elbo_, rel=1e-9)
    inside = given.copy()
    inside[given[:, 0] == 0, 0] = 1.0
    assert model.score({"x": given}) == pytest.approx(
        logs.score({"x": np.log(np.maximum(given, 1e-9))}) - np.log(inside).sum() / len(given), rel=1e-9
    )
    filled = model.impute({"x": given}, beyond_limits=True)["x"]
    cut = given[:, 0] == 0
    assert (filled[cut, 0] < low).all()
    assert (filled[cut, 0] > 0).all()
    assert abs(filled[:, 0].mean() - whole[:, 0].mean()) < 0.02 * whole[:, 0].mean()
    assert fit({"x": given}, {"x": Real(margin="auto", limits={0: (low, None)})}).margins_["x"][0] == "log"


# ------------------------------------------------------------------------------------------------- data


@pytest.mark.parametrize("kind", ["auto", "normal"])
def test_rows_that_are_not_in_memory(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LEAST", 1000)
    given = np.exp(latent(200, d=6))
    np.save(tmp_path / "x.npy", given)
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    ours = fit({"x": stored}, {"x": Real(margin=kind)}, max_memory=20_000, max_iter=5)
    expected = fit({"x": given}, {"x": Real(margin=kind)}, max_iter=5)
    assert ours.margins_ == expected.margins_
    assert ours.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)


def test_sparse_and_tensors() -> None:
    torch = pytest.importorskip("torch")
    given = np.round(np.exp(latent()), 1) + 0.1
    view = Real(margin="log", limits=(0.5, None))
    model, dense = (fit({"x": data}, {"x": view}, max_iter=5) for data in (sparse.csr_array(given), given))
    assert model.elbo_ == pytest.approx(dense.elbo_, rel=1e-12)
    coding, frame = dense.fitted_.schema.codings["x"], pd.DataFrame(given)
    there = view.encode_tensor(torch.tensor(given), "x", coding, "float64")
    np.testing.assert_array_equal(there.target.numpy(), view.encode(frame, "x", coding, "float64").target)


REFUSED = {
    "unknown": (Real(margin="cube"), "margin must be one of 'log', 'logit', 'box-cox', 'normal', 'auto' or None"),
    "no column": (Real(margin={"z": "log"}), "a margin is given for 'z', which is no column"),
    "log of a negative": (Real(margin={"b": "log"}), "'b' cannot have the margin 'log', which is of numbers above 0"),
    "odds beyond 1": (Real(margin={"a": "logit"}), "'a' cannot have the margin 'logit', which is of shares between"),
    "limits of ranks": (Real(margin="normal", limits={"a": (1.0, None)}), "'a' has limits, and margin='normal' never"),
    "guess": (Real(guess="mode"), "guess must be 'mean' or 'median'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    view, message = REFUSED[case]
    given = pd.DataFrame({"a": np.exp(latent()[:, 0]), "b": latent()[:, 1]})
    with pytest.raises((ValueError, DataError), match=message):
        fit({"x": given}, {"x": view})


def test_new_rows_with_impossible_values() -> None:
    given = pd.DataFrame(np.exp(latent()), columns=list("abcde"))
    model = fit({"x": given}, {"x": Real(margin="log")}, max_iter=5)
    odd = given.copy()
    odd.loc[3, "b"] = 0
    message = r"1 impossible \(margin 'log' is of numbers above 0\) value, first 0\.0 in row 3, column 'b'"
    with pytest.raises(DataError, match=message):
        model.transform({"x": odd})


def test_what_is_left_aside_is_said_once(tmp_path: Path) -> None:
    pd.DataFrame(np.exp(latent())[:, :3], columns=list("abc")).assign(place="here").to_csv(tmp_path / "t.csv")
    done = sshiba("fit", tmp_path / "t.csv", "--out", tmp_path / "m", "--margin=auto", "--components=2")
    assert done.stderr.count("left aside") == 1
    done = sshiba("evaluate", tmp_path / "t.csv", "--limits=a=-5,", "--components=2")
    assert done.stderr.count("no cell is at or below its limit") == 1


def test_command(tmp_path: Path) -> None:
    given = pd.DataFrame(np.exp(latent()), columns=list("abcde")).assign(kind=np.where(latent()[:, 1] > 0, "x", "y"))
    given.loc[::9, "a"] = np.nan
    data, model, out = tmp_path / "data.csv", tmp_path / "model", tmp_path / "out.csv"
    given.to_csv(data, index=False)
    done = sshiba(
        "fit", data, "--out", model, "--margin=a=log", "--margin=b=normal", "--limits=c=0.4,", "--view=e=e:real"
    )
    assert done.returncode == 0, done.stderr
    assert "numeric: margins: log 1, normal 1; 'c': 24 cells at or below 0.4" in done.stderr
    view = load(model).views_["numeric"]
    assert view == Real(margin={"a": "log", "b": "normal"}, limits={"c": (0.4, None)})
    assert sshiba("impute", data, "--model", model, "--out", out).returncode == 0
    assert (pd.read_csv(out)["a"] > 0).all()
    done = sshiba("evaluate", data, "--margin", "auto", "--components=3")
    assert done.returncode == 0, done.stderr
    assert "another scale" not in done.stderr
    done = sshiba("evaluate", data, "--components=3")
    assert "nearer to normal on another scale: --margin auto may give better predictions" in done.stderr
    for option, message in (("cube", "write KIND or COLUMN=KIND"), ("z=log", "no column 'z'")):
        done = sshiba("fit", data, "--out", tmp_path / "m", f"--margin={option}")
        assert done.returncode == 2
        assert message in done.stderr


def test_a_margin_for_all_numbers_needs_no_types() -> None:
    bent, kind = Real(margin="log"), np.where(latent()[:, 1] > 0, "x", "y")
    several = {"x": np.exp(latent()), "y": np.exp(latent()), "kind": kind}
    assert with_numbers({"y": "count"}, [], ["log"], several) == {"x": bent, "y": "count"}
    one = pd.DataFrame(np.exp(latent()), columns=["numeric", *"bcde"]).assign(kind=kind)
    views = {"m": ["numeric", "b"], "kinds": ["kind"]}
    expected = {"m": (["numeric", "b"], bent), "kinds": ["kind"], "numeric columns": bent}
    assert with_numbers(views, [], ["log"], one) == expected
    for given in ({"kind": kind}, one[["kind"]]):
        with pytest.raises(ValueError, match="--margin log: no view is of numbers; say which one is, --view NAME"):
            with_numbers({}, [], ["log"], given)


def test_a_margin_of_one_column_counts_more_than_that_of_all() -> None:
    given = pd.DataFrame(np.exp(latent()), columns=list("abcde")).assign(kind=np.where(latent()[:, 1] > 0, "x", "y"))
    every = {"numeric": Real(margin=dict.fromkeys("abcde", "auto") | {"b": "log"})}
    assert with_numbers({}, [], ["auto", "b=log"], given) == with_numbers({}, [], ["b=log", "auto"], given) == every
    named = Real(margin={"a": "auto", "b": "log"})
    rest = Real(margin={"c": "auto", "d": "logit"}, limits={"c": ("e", None)})
    found = with_numbers({"m": ["a", "b"]}, ["c=e,"], ["auto", "b=log", "d=logit"], given)
    assert found == {"m": (["a", "b"], named), "numeric": rest}


def test_a_margin_for_all_numbers_of_a_table_read_in_parts() -> None:
    given = pd.DataFrame(np.exp(latent()), columns=list("abcde")).assign(kind=np.where(latent()[:, 1] > 0, "x", "y"))
    source = function_source(lambda: [given[:80], given[80:]], "x")
    bent = Real(margin="log")
    assert with_numbers({"m": ["a", "b"]}, [], ["log"], source) == {"m": (["a", "b"], bent), "numeric": bent}


# ------------------------------------------------------------------------------------------------- evaluation


def test_hidden_numbers_are_scored_on_their_scale(caplog: pytest.LogCaptureFixture) -> None:
    given = np.exp(1.5 * latent(400))
    model = SSHIBA(4, {"x": Real(margin="log")}, random_state=0, max_iter=40, tol=1e-3, search=None)
    checks = evaluate.check(model, {"x": given}, fraction=0.2)
    one, hidden = checks["x"], checks["x"].hidden
    logs = evaluate.check(model.set_params(views={"x": Real()}), {"x": np.log(given)}, fraction=0.2)["x"]
    np.testing.assert_array_equal(hidden, logs.hidden)
    scores, plain = (evaluate.scores_table({"x": own}).loc["x"] for own in (one, logs))
    assert scores["coverage"] == plain["coverage"]
    assert scores["log_likelihood"] == pytest.approx(plain["log_likelihood"] - np.log(given[hidden]).mean(), rel=1e-6)
    table = calibration_data(checks, "x")
    assert np.abs(table["predicted"] - table["observed"]).max() < 0.1
    plots.imputation(checks, "x")
    plots.calibration(checks)
    assert len(evaluate.scores_table(checks, per="feature")) == 5
    assert "another scale" not in caplog.text
    with caplog.at_level(logging.WARNING, "sshiba"):
        evaluate.check(model, {"x": given}, fraction=0.2)
    assert "5 columns (0, 1, 2, 3, 4) are nearer to normal on another scale: Real(margin='auto')" in caplog.text
    views = {"x": given[:100], "y": latent(100)[:, :2]}
    found = tune(model.set_params(views=None), views, {"x.margin": [None, "log"]}, "x", hide="cells", n_folds=2)
    assert found.table["score"][1] > found.table["score"][0] + 0.1


def test_a_hidden_number_that_its_margin_cannot_have_counts_as_very_bad() -> None:
    """A 0 where the others chose the logarithm: outside of every interval, and next to impossible."""
    given = np.exp(1.5 * latent(120))
    model = SSHIBA(3, {"x": Real(margin="auto")}, random_state=0, max_iter=20, search=None)
    usual = evaluate.check(model, {"x": given}, fraction=0.2)["x"]
    row, column = np.argwhere(usual.hidden)[0]
    given[row, column] = 0.0
    one = evaluate.check(model, {"x": given}, fraction=0.2)["x"]
    np.testing.assert_array_equal(one.hidden, usual.hidden)
    assert one.on_margins is not None
    assert one.on_margins.error[row, column] == -np.inf
    assert np.isfinite(one.on_margins.log_density[one.hidden]).all()
    assert one.scores()["log_likelihood"] < usual.scores()["log_likelihood"] - 10 / usual.n_hidden
    assert one.ranks().min() == 0.0
    fitted = fit({"x": given + 0.1}, {"x": Real(margin="log")})
    truth = np.full(given.shape, np.nan)
    truth[0] = 1.0
    shown = {"x": np.where(np.isnan(truth), given + 0.1, np.nan)}
    possible = score_target(fitted, shown, "x", truth, "log-likelihood")
    truth[0, 0] = 0.0
    assert score_target(fitted, shown, "x", truth, "log-likelihood") < possible - 2


def test_reported_and_exported(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    given = pd.DataFrame(np.exp(latent()), columns=list("abcde"))
    model = fit({"x": given}, {"x": Real(margin="log")}, max_iter=10)
    model.report(tmp_path / "page.html", {"x": given}, fraction=0.1)
    assert "Real; margins: log 5" in (tmp_path / "page.html").read_text(encoding="utf-8")
    h5py = pytest.importorskip("h5py")
    model.to_mofa_hdf5(tmp_path / "model.hdf5")
    with h5py.File(tmp_path / "model.hdf5") as file:
        assert file["expectations/W/x"].shape == (model.n_components_, 5)
