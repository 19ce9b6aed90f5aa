"""Quantiles, intervals and sets of labels: their formulas, their coverage, and the form in which they come."""

from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import every_likelihood
from commands import sshiba
from samples import same
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm, poisson, truncnorm

from sshiba import SSHIBA, Binary, Categorical, Count, Ordinal, Priors, Real, load, row_parts
from sshiba.core.coded import CodedView
from sshiba.core.likelihoods import (
    Censored,
    Gaussian,
    Interval,
    Logistic,
    MultinomialProbit,
    Poisson,
    Threshold,
    ThresholdTogether,
)
from sshiba.core.likelihoods.censored import quantile_beyond
from sshiba.core.likelihoods.poisson_predictive import below, moments
from sshiba.core.predictive import predictive_x
from sshiba.core.state import Fixed, Gamma
from sshiba.engines.memory import MemoryRows
from sshiba.fitted.answers import Answers
from sshiba.fitted.residuals import SCORES, drawn_errors, find_residual_shapes, left_out, pulls_of, score_of, shape_of

LEVELS = (0.3, 0.8, 0.95)

# -------------------------------------------------------------------------------------------------------- formulas


def test_every_likelihood_has_intervals() -> None:
    ordered = {Censored, Gaussian, Interval, Logistic, Poisson, Threshold, ThresholdTogether}
    assert {likelihood for likelihood in every_likelihood() if likelihood.ordered} == ordered
    assert every_likelihood() - ordered == {MultinomialProbit}


@pytest.mark.parametrize("p", [0.02, 0.5, 0.9])
def test_quantiles_of_numbers(p: float) -> None:
    mean, std = np.array([[0.0, 3.0]]), np.array([[1.0, 2.0]])
    for likelihood in (Gaussian(), Censored()):
        np.testing.assert_allclose(likelihood.quantile(mean, std, p), norm.ppf(p, mean, std))
        moved = likelihood.quantile(mean, std, p, lambda share: np.array([share, -share]))
        np.testing.assert_allclose(moved, mean + std * [p, -p])


@pytest.mark.parametrize("edge", [-1.5, 0.3, 2.0])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
def test_quantiles_beyond_a_limit(edge: float, p: float) -> None:
    for ends in ((-np.inf, edge), (edge, np.inf)):
        cut = truncnorm(*((end - 0.4) / 1.3 for end in ends), loc=0.4, scale=1.3)
        found = quantile_beyond(np.array([cut.mean()]), np.array([cut.std()]), np.array([edge]), p)
        np.testing.assert_allclose(found, cut.ppf(p), atol=2e-4)


def count_chance(t: int, log_rate: float, var: float) -> float:
    """P(count ≤ t) by adaptive quadrature, split where the distribution function of the rate falls."""
    std, fall = np.sqrt(var), (np.log(t + 1) - log_rate) / np.sqrt(var)
    points = sorted({float(np.clip(fall + k / (std * np.sqrt(t + 1)), -9, 9)) for k in (-6, -2, 0, 2, 6)})
    ends = [-9.0, *points, 9.0]
    parts = [
        quad(lambda u: norm.pdf(u) * poisson.cdf(t, np.exp(log_rate + std * u)), a, b, epsabs=1e-12)[0]
        for a, b in pairwise(ends)
        if b > a
    ]
    return sum(parts)


@pytest.mark.parametrize("var", [1e-4, 0.05, 1.0, 4.0])
@pytest.mark.parametrize("log_rate", [-3.0, 1.0, 6.0])
def test_quantiles_of_counts(log_rate: float, var: float) -> None:
    mean, std = (np.array([value]) for value in moments(np.float64(log_rate), np.float64(var)))
    for t in {0, 3, round(float(mean[0])), round(float(mean[0] + std[0]))}:
        assert below(np.array([t]), mean, std)[0] == pytest.approx(count_chance(t, log_rate, var), abs=1e-7)
    for p in (0.05, 0.6, 0.95):
        found = Poisson((0.0,)).quantile(mean, std, p)[0]
        assert found == round(found)
        assert count_chance(int(found), log_rate, var) >= p - 1e-7
        assert found == 0 or count_chance(int(found) - 1, log_rate, var) < p + 1e-7


@pytest.mark.parametrize("likelihood", [Threshold(), Logistic()])
def test_intervals_of_yes_and_no(likelihood: Threshold | Logistic) -> None:
    p_yes = np.array([[0.02, 0.3, 0.5, 0.85, 0.97]])
    std = np.sqrt(p_yes * (1 - p_yes))
    for level in LEVELS:
        low, high = likelihood.interval(p_yes, std, level)
        has = np.where(low == 0, 1 - p_yes, 0) + np.where(high == 1, p_yes, 0)
        assert (has >= level).all()
        assert ((low == high) == (np.maximum(p_yes, 1 - p_yes) >= level)).all()
    np.testing.assert_array_equal(likelihood.quantile(p_yes, std, 0.4), [[0, 0, 0, 1, 1]])


def test_intervals_of_levels_are_the_shortest() -> None:
    rng = np.random.default_rng(0)
    likelihood = Interval(((-0.5, 0.5, 1.0), (0.0,)))
    p = np.concatenate([rng.dirichlet(np.full(4, 0.5), 50), rng.dirichlet(np.ones(2), 50)], axis=1)
    for level in LEVELS:
        low, high = likelihood.interval(p, np.zeros((50, 2)), level)
        for d, (first, n) in enumerate(((0, 4), (4, 2))):
            for row in range(50):
                runs = [
                    (b - a, -p[row, first + a : first + b].sum(), a, b)
                    for a, b in combinations(range(n + 1), 2)
                    if p[row, first + a : first + b].sum() >= level
                ]
                _, _, a, b = min(runs)
                assert (low[row, d], high[row, d]) == (first + a, first + b - 1)
    upto = np.cumsum(p[:, :4], axis=1)
    found = likelihood.quantile(p, np.zeros((50, 2)), 0.7)[:, 0]
    np.testing.assert_array_equal(found, np.argmax(upto >= 0.7, axis=1))


def test_sets_of_classes_are_the_smallest() -> None:
    p = np.random.default_rng(0).dirichlet(np.full(4, 0.4), 60)
    for level in LEVELS:
        inside = MultinomialProbit().label_set(p, level)
        for row, chosen in zip(p, inside):
            enough = [s for n in range(1, 5) for s in combinations(range(4), n) if row[list(s)].sum() >= level]
            best = max((s for s in enough if len(s) == len(enough[0])), key=lambda s: row[list(s)].sum())
            np.testing.assert_array_equal(np.flatnonzero(chosen), best)


# ------------------------------------------------------------------------------------------------ errors left out


def test_errors_left_out_are_those_of_fits_without_the_cell() -> None:
    """One cell after another is hidden, and the model fitted again from the start."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 6)) + 0.6 * rng.standard_normal((40, 6))
    x[rng.random(x.shape) < 0.1] = np.nan
    settings = {"n_components": 2, "keep": "all", "priors": Priors(), "tol": 1e-9, "random_state": 0}
    model = SSHIBA(views={"x": Real()}, **settings).fit({"x": x})
    answers = Answers(model.fitted_)
    coding = model.fitted_.schema.codings["x"]
    view = model.fitted_.posterior.views[0]
    data, _ = answers.read({"x": x})
    z, cov = (np.empty((40, *shape)) for shape in ((2,), (2, 2)))
    for part in answers._rows(data).infer(model.fitted_.posterior):
        z[part.rows], cov[part.rows] = part.z_mean, part.z_cov
    found = predictive_x(view, z, cov)
    residual = (x - coding.centre) / coding.scale - found.mean
    errors, _ = left_out(residual, view.tau, *pulls_of(view.tau, np.sum(found.z_factor**2, axis=-1), found.own_var))
    plain = residual * np.sqrt(view.tau.mean)
    cells = [tuple(cell) for cell in rng.permutation(np.argwhere(~np.isnan(x)))[:25]]
    true = []
    for n, d in cells:
        without = x.copy()
        without[n, d] = np.nan
        again = SSHIBA(views={"x": Real()}, **settings).fit({"x": without})
        mean, std = (part["x"][n, d] for part in again.impute({"x": without}, return_std=True))
        true.append((x[n, d] - mean) / std)
    by_formula, as_they_are = (np.array([values[cell] for cell in cells]) for values in (errors, plain))
    assert np.corrcoef(true, by_formula)[0, 1] > 0.99
    assert np.sqrt(np.mean((by_formula - true) ** 2)) < 0.15 * np.sqrt(np.mean(np.square(true)))
    assert np.sqrt(np.mean((as_they_are - true) ** 2)) > 0.2 * np.sqrt(np.mean(np.square(true)))


def test_weights_and_known_noise_of_errors() -> None:
    """Of a view of weight ½, each z half as sure of the cell: solved as the two equations stand."""
    tau, z_var, own_var, weight, residual = 4.0, 0.2, 0.05, 0.5, 0.7
    pulls = np.array([weight * tau * z_var, tau * own_var])
    u, v = np.linalg.solve([[1, pulls[0]], [pulls[1], 1]], pulls)  # u = l_z (1 − v), v = l_w (1 − u)
    z_without, own_without = z_var / (1 - pulls[0]), own_var / (1 - pulls[1])
    expected = residual / (1 - u - v) / np.sqrt(1 / tau + z_without + own_without)
    residual, z_var, own_var = (np.array([value]) for value in (residual, z_var, own_var))
    fixed, learned = Fixed(np.array([tau])), Gamma(np.array([10.0]), np.array([10 / tau]))
    error, var = left_out(residual, fixed, *pulls_of(fixed, z_var, own_var, weight))
    np.testing.assert_allclose(error, expected)
    np.testing.assert_allclose(var, 1 / tau + z_without + own_without)
    studentised, _ = left_out(residual, learned, *pulls_of(learned, z_var, own_var, weight))
    np.testing.assert_allclose(studentised, expected * np.sqrt(19 / (20 - expected**2)))


def test_errors_of_cells_at_a_limit_are_drawn_from_what_is_predicted_without_them() -> None:
    """ŷ₋ and q(x), whose mean m pulls ŷ, agree with each other: m − ŷ₋ = (m − ŷ)(1 + o)."""
    y, pull, var, n = 0.3, 0.4, 0.5, 20_000
    std = np.sqrt(var)

    def gap(without: float) -> float:
        m = truncnorm.mean(-np.inf, (-0.2 - without) / std, loc=without, scale=std)
        return (m - without) - (m - y) * (1 + pull)

    end = (-0.2 - brentq(gap, y, 3.0)) / std
    ends = np.tile([-np.inf, -0.2], (n, 1))
    drawn = drawn_errors(ends, *(np.full(n, value) for value in (y, pull, var)), np.random.default_rng(0))
    assert drawn.max() <= end + 0.01
    np.testing.assert_allclose(np.quantile(drawn, [0.1, 0.5]), truncnorm.ppf([0.1, 0.5], -np.inf, end), atol=0.03)


def test_intervals_hold_where_much_of_a_column_is_at_a_limit() -> None:
    """Half of the cells are below the limit, and the errors of the others are those of large values only."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 1)) + 0.8 * rng.standard_normal((500, 8))
    gone = rng.random(x.shape) < 0.2
    shown = np.where(gone, np.nan, np.maximum(x, 0.0))
    model = SSHIBA(2, {"x": Real(limits=(0.0, None))}, search=None, random_state=0).fit({"x": shown})
    _, ends = model.impute({"x": shown}, interval=0.8)
    inside = (ends["lower"]["x"] <= x) & (x <= ends["upper"]["x"])
    assert 0.76 <= inside[gone].mean() <= 0.84


def test_shapes_of_errors() -> None:
    """Of no errors the normal; of many their own quantiles; one more is between a few others as it should be."""
    one = np.ones(1)
    np.testing.assert_allclose(shape_of(np.empty(0), np.empty(0))[:-1], SCORES, atol=0.03)
    rng = np.random.default_rng(0)
    errors = rng.exponential(size=20_000) - 1
    shape = shape_of(errors, 2 * one)[None, :]
    skewed = score_of(shape, np.full((1, 1), np.sqrt(2)))
    for p in (0.05, 0.2, 0.5, 0.9, 0.95):
        assert skewed(p)[0] == pytest.approx(np.quantile(errors, p), abs=0.05)
    assert skewed(0.999)[0] > skewed(0.99)[0]
    for std, share in ((0.5, 1.0), (2.0, 0.5), (1e6, 0.0)):  # of what is less known more is normal
        expected = norm.ppf(0.9) + share * (skewed(0.9)[0] - norm.ppf(0.9))
        assert score_of(shape, np.full((1, 1), std))(0.9)[0] == pytest.approx(expected)
    inside = []
    for _ in range(3000):
        seen, others = rng.standard_normal((2, 20))
        low, high = (score_of(shape_of(seen, one)[None, :], one[None, :])(p) for p in (0.1, 0.9))
        inside.append(np.mean((low < others) & (others < high)))
    assert np.mean(inside) == pytest.approx(0.8, abs=0.008)


# -------------------------------------------------------------------------------------------------------- coverage


def test_intervals_cover_where_noise_is_skewed() -> None:
    """At the level that they have; those of a normal of the same variance hold too much in the middle."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 8)) + rng.exponential(size=(500, 8))
    hidden = rng.random(x.shape) < 0.3
    shown = {"x": np.where(hidden, np.nan, x)}
    model = SSHIBA(4, random_state=0).fit(shown)
    _, std, interval = model.impute(shown, return_std=True, interval=0.8)
    inside = (interval["lower"]["x"] <= x) & (x <= interval["upper"]["x"])
    assert inside[hidden].mean() == pytest.approx(0.8, abs=0.03)
    mean = model.impute(shown)["x"]
    assert (np.abs(x - mean) < norm.ppf(0.9) * std["x"])[hidden].mean() > 0.84


def test_margins_and_limits_have_quantiles_of_their_own() -> None:
    """Quantiles go through a transform; those of values beyond a limit are beyond it, and cover the truth."""
    rng = np.random.default_rng(1)
    u = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 5)) + 0.5 * rng.standard_normal((400, 5))
    edge = np.quantile(u[:, 0], 0.3)
    given = {"skewed": np.exp(u[:, 1:]), "limited": np.maximum(u[:, :1], edge)}
    types = {"skewed": Real(margin="log"), "limited": Real(limits=(float(edge), None))}
    model = SSHIBA(3, types, random_state=0).fit(given)
    logs = SSHIBA(3, {"limited": types["limited"]}, random_state=0).fit({**given, "skewed": u[:, 1:]})
    pair = [m.predict({"limited": given["limited"]}, "skewed", quantiles=0.9)[1][0.9] for m in (model, logs)]
    np.testing.assert_allclose(np.log(pair[0]), pair[1], rtol=1e-6)
    filled, interval = model.impute(given, beyond_limits=True, interval=0.8)
    cut = u[:, 0] < edge
    low, middle, high = (part["limited"][cut, 0] for part in (interval["lower"], filled, interval["upper"]))
    assert ((low < middle) & (middle < high) & (high <= edge)).all()
    assert np.mean((low <= u[cut, 0]) & (u[cut, 0] <= high)) == pytest.approx(0.8, abs=0.08)
    assert same(interval["lower"]["limited"][~cut], given["limited"][~cut])


# ------------------------------------------------------------------------------------------------------- in what form


def table(n: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 2))
    noise = rng.standard_normal((n, 3))
    return pd.DataFrame(
        {
            "age": 50 + 10 * z[:, 0] + 3 * noise[:, 0],
            "visits": rng.poisson(np.exp(1 + 0.5 * z[:, 1])),
            "grade": pd.Categorical(np.digitize(z[:, 0] + noise[:, 1], [-1, 0, 1]), ordered=True),
            "smokes": np.where(z[:, 1] + noise[:, 2] > 0, "yes", "no"),
            "ward": np.array(["north", "south", "west"])[np.argmax(np.c_[z, 0 * z[:, 0]], axis=1)],
        },
        index=[f"p{i}" for i in range(n)],
    )


@pytest.fixture(scope="module")
def model() -> SSHIBA:
    return SSHIBA(3, {"counts": (["visits"], Count())}, random_state=0, search=None).fit(table())


def test_one_table(model: SSHIBA) -> None:
    whole = table(30, 1)
    for column in ("age", "visits", "grade", "smokes"):
        found, std, quantiles, interval = model.predict(
            whole.drop(columns=column), column, return_std=True, quantiles=(0.1, 0.9), interval=0.8
        )
        assert list(quantiles) == [0.1, 0.9]
        assert list(interval) == ["lower", "upper"]
        for part in (*quantiles.values(), *interval.values()):
            assert part.name == column
            assert part.index.equals(whole.index)
            assert part.dtype == (whole[column].dtype if column == "visits" else found.dtype)
        if column in ("age", "visits"):
            assert same(quantiles[0.1], interval["lower"])
            assert (quantiles[0.1] <= quantiles[0.9]).all()
        assert same(std, model.predict(whole.drop(columns=column), column, return_std=True)[1])
    ward, interval = model.predict(whole.drop(columns="ward"), "ward", interval=0.8)
    proba = model.predict_proba(whole.drop(columns="ward"), "ward")
    inside = interval["labels"]
    assert list(interval) == ["labels"]
    assert inside.columns.tolist() == ["north", "south", "west"]
    assert set(map(str, inside.dtypes)) == {"bool"}
    assert ((proba * inside).sum(axis=1) >= 0.8 - 1e-9).all()
    assert all(inside.loc[row, label] for row, label in ward.items())
    with pytest.raises(ValueError, match="no quantiles"):
        model.predict(whole.drop(columns="ward"), "ward", quantiles=0.5)
    found, interval = model.predict(whole[["age"]], interval=0.8)
    assert interval["lower"].columns.tolist() == interval["upper"].columns.tolist()
    assert set(interval["lower"]) == set(found) - {"ward"}
    assert same(interval["labels"]["ward"].columns, inside.columns)


def test_filled_tables(model: SSHIBA) -> None:
    whole = table()
    gaps = whole.mask(np.random.default_rng(2).random(whole.shape) < 0.2)
    filled, quantiles, interval = model.impute(gaps, quantiles=(0.5,), interval=0.9)
    for part in (quantiles[0.5], interval["lower"], interval["upper"]):
        assert part.columns.equals(gaps.columns)
        assert part.index.equals(gaps.index)
        seen = gaps.notna()
        assert part.where(seen).astype(object).equals(gaps.where(seen).astype(object))
        assert part.drop(columns="ward").notna().all().all()
        assert part["ward"].isna().equals(gaps["ward"].isna())
    sets = interval["labels"]["ward"]
    assert (sets[gaps["ward"].notna()].sum(axis=1) == 1).all()
    assert all(sets.loc[row, label] for row, label in filled["ward"].items())
    numbers = gaps["age"].isna()
    assert (interval["lower"]["age"] < filled["age"])[numbers].all()
    with pytest.raises(ValueError, match="draws have no"):
        model.impute(gaps, n_draws=2, interval=0.9)


def test_arrays_and_several_views() -> None:
    rng = np.random.default_rng(3)
    z = rng.standard_normal((80, 2))
    views = {
        "x": z @ rng.standard_normal((2, 4)) + rng.standard_normal((80, 4)),
        "t": (z @ rng.standard_normal((2, 3)) > 0).astype(int),
        "y": np.array(["a", "b"])[(z[:, 0] > 0).astype(int)],
        "o": np.digitize(z[:, :1], [-1, 0, 1]),
    }
    types = {"t": Binary(), "y": Categorical(), "o": Ordinal()}
    model = SSHIBA(3, types, random_state=0, search=None).fit(views)
    found, interval = model.predict({"x": views["x"]}, interval=0.9)
    assert set(interval["lower"]) == {"t", "o"}
    for name in ("t", "o"):
        for end in ("lower", "upper"):
            assert interval[end][name].shape == found[name].shape
            assert interval[end][name].dtype == found[name].dtype
        assert (interval["lower"][name] <= interval["upper"][name]).all()
    assert interval["labels"]["y"].shape == (80, 2)
    _, interval = model.predict({"t": views["t"]}, "x", interval=0.5)
    assert interval["lower"].shape == (80, 4)
    for wrong in ({"interval": 1.0}, {"interval": "0.9"}, {"quantiles": (0.5, 1.5)}, {"quantiles": ()}):
        with pytest.raises(ValueError, match="between 0 and 1"):
            model.predict({"t": views["t"]}, "x", **wrong)


def test_rows_elsewhere_and_other_libraries(tmp_path: Path) -> None:
    """Parts of a file, a Dask array and a polars frame: as rows in memory are."""
    dask_array, polars = pytest.importorskip("dask.array"), pytest.importorskip("polars")
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5)) + 0.5 * rng.standard_normal((60, 5))
    gaps = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    model = SSHIBA(3, random_state=0).fit({"x": gaps})
    expected = model.impute({"x": gaps}, return_std=True, quantiles=(0.1,), interval=0.9)
    np.save(tmp_path / "x.npy", gaps)
    from_file = model.impute({"x": tmp_path / "x.npy"}, return_std=True, quantiles=(0.1,), interval=0.9)
    parts = [model.impute(part, interval=0.9)[1] for part in row_parts({"x": tmp_path / "x.npy"}, max_bytes=800)]
    collection = dask_array.from_array(gaps, chunks=(25, 5))
    lazy = model.impute({"x": collection}, return_std=True, quantiles=0.1, interval=0.9)
    np.testing.assert_allclose(np.concatenate([part["upper"]["x"] for part in parts]), expected[3]["upper"]["x"])
    for found in (from_file, lazy):
        np.testing.assert_allclose(np.asarray(found[1]["x"]), expected[1]["x"])
        np.testing.assert_allclose(np.asarray(found[2][0.1]["x"]), expected[2][0.1]["x"])
        np.testing.assert_allclose(np.asarray(found[3]["lower"]["x"]), expected[3]["lower"]["x"])
    frame = pd.DataFrame(gaps, columns=list("abcde"))
    named = SSHIBA(3, random_state=0).fit(frame)
    found, interval = named.impute(polars.from_pandas(frame), interval=0.9)
    assert all(isinstance(part, polars.DataFrame) for part in (found, *interval.values()))
    np.testing.assert_allclose(interval["upper"].to_numpy(), named.impute(frame, interval=0.9)[1]["upper"])


def test_saved_models_have_the_same_intervals(tmp_path: Path, model: SSHIBA) -> None:
    model.save(tmp_path / "m.sshiba")
    again, new = load(tmp_path / "m.sshiba"), table(20, 1).drop(columns="age")
    assert any(shape is not None for shape in model.fitted_.residuals)
    assert same(model.predict(new, "age", interval=0.9)[1], again.predict(new, "age", interval=0.9)[1])


def test_only_cells_that_were_seen_count() -> None:
    """Half of the rows lack all that tells of a column: its typical variance is that of its seen cells."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((200, 1)) @ np.ones((1, 4)) + 0.3 * rng.standard_normal((200, 4))
    x[:120, :2] = np.nan
    fit = SSHIBA(2, random_state=0, search=None).fit({"x": x}).fitted_
    whole = SSHIBA(2, random_state=0, search=None).fit({"x": x[120:]}).fitted_
    assert fit.residuals[0] is not None
    assert whole.residuals[0] is not None
    scale = fit.schema.codings["x"].scale / whole.schema.codings["x"].scale
    np.testing.assert_allclose(fit.residuals[0][:2, -1] * scale[:2] ** 2, whole.residuals[0][:2, -1], rtol=0.25)


def test_views_without_known_numbers_keep_the_normal() -> None:
    """Labels have no such errors, and nobody is asked where there are no numbers or no time."""
    labels = {"t": np.random.default_rng(0).integers(0, 2, (40, 3))}
    assert SSHIBA(2, random_state=0).fit(labels).fitted_.residuals == (None,)
    fit = SSHIBA(2, random_state=0).fit({"x": np.random.default_rng(0).standard_normal((30, 3))}).fitted_
    data = [CodedView(np.zeros((30, 3)), None)]
    assert find_residual_shapes(data, fit.spec, fit.posterior, [0], lambda: True) == (None,)
    assert score_of(None, np.ones((1, 1)))(0.9) == pytest.approx(norm.ppf(0.9))


# ------------------------------------------------------------------------------------------------------- draws


def test_draws_given_some_views() -> None:
    """Means, deviations and the correlation of what is drawn are those of its distribution given the rest."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal((300, 1))
    views = {name: z + 0.7 * rng.standard_normal((300, 2)) for name in "ab"}
    model = SSHIBA(2, {"a": Real(), "b": Real()}, random_state=0).fit(views)
    a = views["a"][:5].copy()
    a[0, 1] = np.nan
    drawn = model.sample(1500, random_state=0, views={"a": a})
    assert len(drawn) == 1500
    assert set(drawn[0]) == {"a", "b"}
    for one in drawn[:5]:
        np.testing.assert_array_equal(one["a"][~np.isnan(a)], a[~np.isnan(a)])
    b = np.stack([one["b"] for one in drawn])
    mean, std = model.predict({"a": a}, "b", return_std=True)
    np.testing.assert_allclose(b.mean(axis=0), mean, atol=0.1)
    np.testing.assert_allclose(b.std(axis=0), std, rtol=0.08)
    filled = np.array([one["a"][0, 1] for one in drawn])
    assert np.corrcoef(filled, b[:, 0, 0])[0, 1] > 0.1  # they share z
    assert same(model.sample(2, random_state=1, views={"a": a}), model.sample(2, random_state=1, views={"a": a}))


def test_draws_of_a_table_are_tables(model: SSHIBA) -> None:
    given = table(6, 1)[["ward", "age"]]
    drawn = model.sample(3, random_state=0, views=given)
    assert [list(one) for one in drawn] == [list(table())] * 3
    assert all(same(one["age"], given["age"]) and same(one["ward"], given["ward"]) for one in drawn)
    assert (drawn[0]["visits"] >= 0).all()
    with pytest.raises(ValueError, match="1 or more"):
        model.sample(0, views=given)


def test_factors_are_inferred_once_for_all_draws(model: SSHIBA, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a draw is the same whether others follow it or not."""
    gaps = table(8, 1).mask(np.random.default_rng(2).random((8, table().shape[1])) < 0.3)
    passes, infer = [], MemoryRows.infer

    def counted(rows: MemoryRows, *arguments: Any, **options: Any) -> Iterator[Any]:
        passes.append(rows.n_rows)
        return infer(rows, *arguments, **options)

    monkeypatch.setattr(MemoryRows, "infer", counted)
    few, many = (model.impute(gaps, n_draws=n, random_state=0) for n in (2, 5))
    assert passes == [8, 8]
    assert same(few, many[:2])


# ------------------------------------------------------------------------------------------------------ command


def test_command(tmp_path: Path, model: SSHIBA) -> None:
    whole = table(60, 1)
    gaps = whole.mask(np.random.default_rng(2).random(whole.shape) < 0.2)
    gaps.to_csv(tmp_path / "t.csv", index_label="patient")
    model.save(tmp_path / "m.sshiba")
    words = ("m.sshiba", "t.csv", "--index", "patient", "--interval", 0.8, "--target")
    for target, columns in (
        ("age", ["age", "age std", "age lower", "age upper"]),
        ("ward", ["ward", "north std", "south std", "west std", "north in set", "south in set", "west in set"]),
    ):
        done = sshiba("predict", *words, target, "--std", "-o", f"{target}.csv", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert pd.read_csv(tmp_path / f"{target}.csv", index_col="patient").columns.tolist() == columns
    age = pd.read_csv(tmp_path / "age.csv", index_col="patient")
    assert (age["age lower"] < age["age upper"]).all()
    files = ("--lower", "low.csv", "--upper", "high.csv")
    done = sshiba("impute", "t.csv", "-o", "f.csv", "--model", "m.sshiba", "--index", "patient", *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    low, filled, high = (pd.read_csv(tmp_path / f"{n}.csv", index_col="patient") for n in ("low", "f", "high"))
    hole = gaps["age"].isna()
    assert ((low["age"] < filled["age"]) & (filled["age"] < high["age"]))[hole].all()
    assert low["age"][~hole].equals(filled["age"][~hole])
    for options, said in (
        (("--interval", 0.9), "--lower"),
        (("--lower", "f2.csv"), "same file"),
        (("--lower", "l.csv", "--interval", 1.5), "between 0 and 1"),
    ):
        done = sshiba("impute", "t.csv", "-o", "f2.csv", "--model", "m.sshiba", *options, cwd=tmp_path)
        assert done.returncode != 0
        assert said in done.stderr
