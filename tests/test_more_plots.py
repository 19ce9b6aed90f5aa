"""Pictures of rows, features and columns: each draws the numbers of its twin, also where there is little to draw."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, spearmanr
from sklearn.metrics import roc_auc_score

from sshiba import SSHIBA, Binary, Categorical, Ordinal, Real, plots
from sshiba.evaluate import check
from sshiba.evaluate.confidence import auc_interval, binomial_interval, rank_correlation_interval
from sshiba.plots.canvas import short

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.text import Text

ODD = "\\bad$\\foo$ and\nmore, with a name that is far too long to be shown"


def make_views(n: int = 90) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    z = rng.standard_normal((n, 2))
    rows = pd.Index([f"row {i}" for i in range(n)])
    x = pd.DataFrame(z @ rng.standard_normal((2, 6)) + 0.4 * rng.standard_normal((n, 6)), rows)
    x.columns = ["a", "b", "c", "d", "e", ODD]
    signs = pd.DataFrame((z @ rng.standard_normal((2, 3)) * 3 > 0).astype(float), rows, ["fever", "cough", "rash"])
    signs.iloc[:12, 0] = np.nan
    kind = pd.Series(np.where(z[:, 0] > 0.5, "viral", np.where(z[:, 1] > 0, "fungal", "none")), rows, name="kind")
    levels = pd.CategoricalDtype(["mild", "middle", "bad"], ordered=True)
    pain = pd.DataFrame({"pain": pd.Categorical.from_codes(np.digitize(z[:, 0], [-0.5, 0.7]), dtype=levels)}, rows)
    return {"blood": x.mask(rng.random(x.shape) < 0.1), "signs": signs, "kind": kind, "pain": pain}


@pytest.fixture(scope="module")
def views() -> dict[str, Any]:
    return make_views()


@pytest.fixture(scope="module")
def model(views: dict) -> SSHIBA:
    types = {"blood": Real(), "signs": Binary(), "kind": Categorical(), "pain": Ordinal()}
    return SSHIBA(5, types, max_iter=100, random_state=0, search=None).fit(views)


@pytest.fixture(scope="module")
def one_factor() -> tuple[SSHIBA, dict[str, Any]]:
    views = {"blood": make_views()["blood"].iloc[:, :3]}
    return SSHIBA(1, random_state=0, search=None, max_iter=50).fit(views), views


@pytest.fixture(scope="module")
def no_factors() -> tuple[SSHIBA, dict[str, Any]]:
    noise = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 5)), columns=list("abcde"))
    model = SSHIBA(5, random_state=0).fit({"noise": noise})
    assert model.n_components_ == 0
    return model, {"noise": noise}


@pytest.fixture(autouse=True)
def close() -> None:
    plt.close("all")


def points(ax: Any) -> np.ndarray:
    """Where the points of all scatters are."""
    return np.concatenate([part.get_offsets() for part in ax.collections if isinstance(part, PathCollection)])


# ------------------------------------------------------------------------------------------------------- intervals


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Monte Carlo: an AUC of 0.8, 12 against 30 normal scores; ranks of 25 pairs that correlate."""
    rng = np.random.default_rng(0)
    truth, n = 0.8, 1500
    yes, no = rng.standard_normal((n, 12)) + np.sqrt(2) * norm.ppf(truth), rng.standard_normal((n, 30))
    area = np.mean(yes[:, :, None] > no[:, None, :], axis=(1, 2))
    low, high = auc_interval(area, 12, 30)
    assert 0.93 < np.mean((low <= truth) & (truth <= high)) < 0.98
    z = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], (n, 25))
    expected = 6 / np.pi * np.arcsin(0.3)  # Spearman's of normal pairs
    r = np.array([spearmanr(pair).statistic for pair in z])
    low, high = rank_correlation_interval(r, 25)
    assert 0.93 < np.mean((low <= expected) & (expected <= high)) < 0.98
    counts = rng.binomial(40, 0.1, 4000)
    low, high = binomial_interval(counts, 40)
    assert 0.95 <= np.mean((low <= 0.1) & (high >= 0.1)) < 0.99


def test_the_ends_of_intervals() -> None:
    assert binomial_interval([0, 10], 10)[0].tolist() == [0.0, pytest.approx(0.025 ** (1 / 10))]
    assert binomial_interval([0, 10], 10)[1].tolist() == [pytest.approx(1 - 0.025 ** (1 / 10)), 1.0]
    low, high = auc_interval([0.0, 0.5, 1.0], 10, 20)
    assert high[2] == 1.0
    assert low[0] == 0.0
    assert 0.7 < low[2] < 1
    np.testing.assert_allclose(low, 1 - high[::-1], atol=1e-9)  # which label comes first does not matter
    theta = low[1]  # the equation that it solves, written again
    v = theta * (1 - theta) / 200 * (1 + 14 * ((1 - theta) / (2 - theta) + theta / (1 + theta)))
    assert 0.5 - theta == pytest.approx(1.959964 * np.sqrt(v), rel=1e-5)


# ---------------------------------------------------------------------------------------------------- associations


def test_associations_are_correlations_and_areas(model: SSHIBA, views: dict) -> None:
    age = pd.Series(np.arange(90.0), views["kind"].index, name="age")
    age.iloc[:5] = np.nan
    table = plots.associations_data(model, {"age": age, "fever": "fever", "kind": "kind", "pain": "pain"}, views)
    assert table["at_least"].is_monotonic_decreasing
    second = model.factors_["factor 2"]
    own = table[table["factor"] == "factor 2"].set_index(["covariate", "label"])
    assert own.loc[("age", ""), "value"] == pytest.approx(spearmanr(age[5:], second[5:]).statistic)
    assert own.loc[("age", ""), "n"] == 85
    fever = views["signs"]["fever"].dropna()
    assert own.loc[("fever", "1"), "value"] == pytest.approx(roc_auc_score(fever, second[fever.index]))
    assert own.loc[("kind", "viral"), "value"] == pytest.approx(roc_auc_score(views["kind"] == "viral", second))
    codes = views["pain"]["pain"].cat.codes
    assert own.loc[("pain", ""), "value"] == pytest.approx(spearmanr(codes, second).statistic)
    assert set(own.loc["kind"].index) == {"fungal", "none", "viral"}
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()
    assert plots.associations_data(model, "kind", views, factor=2)["factor"].unique().tolist() == ["factor 2"]


def test_numbers_that_are_labels_to_the_model_are_labels_in_pictures() -> None:
    """Of classes 0, 1, 2 each is told apart; they are neither ranked nor on a scale, also where holes made floats."""
    rng = np.random.default_rng(0)
    digit = pd.Series(rng.integers(0, 3, 120), name="digit").astype(float).mask(rng.random(120) < 0.1)
    x = np.stack([digit == 1, digit == 2, digit == 0]).T * 3.0 + rng.standard_normal((120, 3))
    data = {"x": x, "digit": digit}
    model = SSHIBA(2, {"digit": Categorical()}, random_state=0, search=None, max_iter=30).fit(data)
    table = plots.associations_data(model, "digit", data)
    assert set(table["label"]) == {"0", "1", "2"}
    assert set(table["measure"]) == {"AUC"}
    legend = plots.factors(model, color="digit", views=data).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["unknown", "0", "1", "2"]


def test_of_two_labels_it_is_said_which_one_is_meant(model: SSHIBA) -> None:
    """The AUC is that of the label: below 0.5 where it goes with low values; of 0 and 1 the name alone says it."""
    first = model.factors_["factor 1"].to_numpy()
    low = pd.Series(np.where(first < np.median(first), "malignant", "benign"), model.factors_.index, name="mass")
    by = {"mass": low, "yes": (low == "malignant").astype(int)}
    names = [label.get_text() for label in plots.associations(model, by, factor=1).get_yticklabels()]
    assert sorted(names) == ["mass = malignant", "yes"]
    assert list(plots.association_map_data(model, by)) == ["mass = malignant", "yes"]
    assert (plots.associations_data(model, by, factor=1)["value"] == 0).all()
    assert "mass = malignant: AUC 0.00 (" in plots.beeswarm(model, low, 1).get_title()


def test_a_label_of_three_rows_is_not_told_apart_for_sure(model: SSHIBA) -> None:
    order = model.factors_["factor 1"].to_numpy().argsort()
    rare, common = np.zeros(90), np.zeros(90)
    rare[order[-3:]] = 1  # complete, but three rows only
    common[order[-40:]] = 1
    common[order[-20]] = 0
    table = plots.associations_data(model, {"rare": rare, "common": common}, factor=1)
    assert table["covariate"].tolist() == ["common", "rare"]
    assert table["strength"].tolist()[1] == pytest.approx(1.0)
    few = np.full(90, np.nan)
    few[:4] = [0, 1, 0, 1]
    assert plots.associations_data(model, few).empty
    assert "too few" in plots.associations(model, few).texts[0].get_text()


def test_the_picture_of_associations(model: SSHIBA, views: dict) -> None:
    ax = plots.associations(model, ["signs", "blood"], views, n=6)
    table = plots.associations_data(model, ["signs", "blood"], views).head(6).iloc[::-1]
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [short(f"{c}, {f}", 40) for c, f in zip(table["covariate"], table["factor"])]
    drawn = {round(y): x for bars in ax.containers for x, y in bars.lines[0].get_xydata()}
    np.testing.assert_allclose([drawn[i] for i in range(6)], table["strength"].astype(float))
    segments = {round(s[0][1]): s[:, 0] for bars in ax.containers for s in bars.lines[2][0].get_segments()}
    area = (table["measure"] == "AUC").to_numpy()
    np.testing.assert_allclose([segments[i][0] for i in range(6)], np.where(area, 2 * table["low"] - 1, table["low"]))
    heat = plots.association_map(model, "signs", views)
    np.testing.assert_allclose(heat.images[0].get_array(), plots.association_map_data(model, "signs", views))
    assert [label.get_text() for label in heat.get_xticklabels()] == ["fever", "cough", "rash"]


# ------------------------------------------------------------------------------------------------- rows and labels


def test_a_swarm_by_label(model: SSHIBA, views: dict) -> None:
    ax = plots.beeswarm(model, "fever", 1, views=views)
    table = plots.beeswarm_data(model, "fever", 1, views=views)
    np.testing.assert_array_equal(table["value"], model.factors_["factor 1"])
    assert [text.get_text() for text in ax.get_xticklabels()][2] == "unknown\n12"
    xy = points(ax)
    np.testing.assert_allclose(np.sort(xy[:, 1]), np.sort(table["value"]))
    assert np.abs(table["offset"]).max() <= 0.42
    assert len(np.unique(xy.round(9), axis=0)) == 90  # no point lies on another
    first = next(part for part in ax.collections if isinstance(part, PathCollection))
    assert to_hex(first.get_facecolor()[0]) == "#d0d0d0"  # what is unknown lies below
    fever = views["signs"]["fever"].dropna()
    area = roc_auc_score(fever, model.factors_["factor 1"][fever.index])
    assert f"AUC {area:.2f} (" in ax.get_title()
    bodies = len(ax.collections) - len(plots.beeswarm(model, "fever", views=views, violin=False).collections)
    assert bodies == 2
    assert len(points(plots.beeswarm(model, "fever", color="a", views=views))) == 90
    assert len(points(plots.beeswarm(model))) == 90
    with pytest.raises(ValueError, match="by must be labels"):
        plots.beeswarm(model, "a", views=views)


def test_color_by_name_is_color_by_value(model: SSHIBA, views: dict) -> None:
    named = plots.factors_data(model, color="fever", views=views)["color"]
    np.testing.assert_array_equal(named, views["signs"]["fever"])
    for name in ("signs: fever", ("signs", "fever")):
        np.testing.assert_array_equal(plots.factors_data(model, color=name, views=views)["color"], named)
    assert plots.factors_data(model, color="kind", views=views)["color"].tolist() == views["kind"].tolist()
    np.testing.assert_array_equal(plots.factors_data(model, color="factor 2")["color"], model.factors_["factor 2"])
    ax = plots.factors(model, color="fever", views=views)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["unknown", "0", "1"]
    assert ax.get_legend().get_title().get_text() == "signs: fever"
    other_order = {name: view.iloc[::-1] for name, view in views.items()}
    np.testing.assert_array_equal(plots.factors_data(model, color="fever", views=other_order)["color"], named)


def test_names_that_are_not_clear(model: SSHIBA, views: dict) -> None:
    with pytest.raises(ValueError, match="give the data, too"):
        plots.factors(model, color="fever")
    with pytest.raises(ValueError, match="neither a factor nor a view nor a column"):
        plots.factors(model, color="nothing", views=views)
    with pytest.raises(ValueError, match="view 'signs' has 3 columns: name one of them, as 'signs: fever'"):
        plots.factors(model, color="signs", views=views)
    with pytest.raises(ValueError, match="has no view 'signs'"):
        plots.factors(model, color="fever", views={"blood": views["blood"]})
    with pytest.raises(ValueError, match="has no feature 'q'"):
        plots.feature_fit(model, views, "blood", "q")


def test_arrays_are_named_by_place() -> None:
    rng = np.random.default_rng(0)
    x = np.outer(rng.standard_normal(50), rng.standard_normal(4)) + 0.3 * rng.standard_normal((50, 4))
    model = SSHIBA(2, random_state=0, search=None, max_iter=30).fit({"x": x})
    np.testing.assert_array_equal(plots.factors_data(model, color=("x", 2), views={"x": x})["color"], x[:, 2])
    np.testing.assert_array_equal(plots.factors_data(model, color="x: 2", views={"x": x})["color"], x[:, 2])
    with pytest.raises(ValueError, match="40 rows, and the model 50"):
        plots.factors(model, color=("x", 2), views={"x": x[:40]})


def test_pairs_of_factors(model: SSHIBA, views: dict) -> None:
    ax = plots.factor_pairs(model, [2, 1], color="kind", views=views)
    panels = ax.child_axes
    assert len(panels) == 4
    np.testing.assert_allclose(np.sort(points(panels[1])[:, 0]), np.sort(model.factors_["factor 1"]))
    assert panels[2].get_xlabel() == "factor 2"
    assert panels[2].get_ylabel() == "factor 1"
    assert sum(bar.get_height() for bar in panels[0].patches) == 90
    assert panels[1].get_legend().get_title().get_text() == "kind"
    assert list(plots.factor_pairs_data(model)) == list(model.factors_)[:5]
    scaled = plots.factor_pairs(model, [2, 1], color="a", views=views)
    assert scaled.child_axes[1].get_legend() is None  # what is unknown is explained below the colour bar
    assert [ax.get_legend().get_texts()[0].get_text() for ax in scaled.figure.axes if ax.get_legend()] == ["unknown"]


# ------------------------------------------------------------------------------------------------ features and data


@pytest.mark.parametrize(
    ("view", "feature"), [("blood", "b"), ("blood", ODD), ("signs", "fever"), ("kind", "viral"), ("pain", "pain")]
)
def test_a_feature_and_its_fit(model: SSHIBA, views: dict, view: str, feature: str) -> None:
    table = plots.feature_fit_data(model, views, view, feature, 2)
    z = np.tile(model.factors_.mean(), (90, 1))
    z[:, 1] = model.factors_["factor 2"]
    if view == "blood":
        np.testing.assert_allclose(table["fitted"], model.from_factors(z)["blood"][feature], rtol=1e-9)
        np.testing.assert_array_equal(table["value"], views["blood"][feature])
    else:
        assert table["value"].dropna().isin([0, 1, 2]).all()
        slope = np.sign(spearmanr(table["factor"], table["fitted"]).statistic)
        weight = plots.weights_data(model, view, 2).set_index("feature")["weight"][feature]
        assert view == "kind" or slope == np.sign(weight)
    ax = plots.feature_fit(model, views, view, feature, 2, color="kind")
    line = ax.lines[0].get_xydata()
    np.testing.assert_allclose(line, table.sort_values("factor")[["factor", "fitted"]])
    assert len(points(ax)) == table["value"].notna().sum()
    ax.figure.canvas.draw()


def test_the_data_behind_a_factor(model: SSHIBA, views: dict) -> None:
    table = plots.data_heatmap_data(model, views, "blood", 1, n=4)
    order = model.factors_["factor 1"].sort_values(kind="stable").index
    assert list(table.index) == list(order)
    weights = plots.weights_data(model, "blood", 1).head(4).set_index("feature")["weight"]
    assert list(table) == list(weights.sort_values(ascending=False).index)
    np.testing.assert_array_equal(table, views["blood"].loc[order, table.columns])
    ax = plots.data_heatmap(model, views, "blood", 1, n=4)
    image = ax.images[0].get_array()
    assert image.mask.sum() == table.isna().to_numpy().sum()
    np.testing.assert_allclose(image.mean(axis=1), 0, atol=1e-12)
    assert list(plots.data_heatmap_data(model, views, "blood", 1, features=["c", ODD])) in (["c", ODD], [ODD, "c"])
    for view in ("signs", "kind", "pain"):
        assert plots.data_heatmap(model, views, view, 1).images[0].get_array().shape[1] == 90


def test_ranked_weights(model: SSHIBA) -> None:
    table = plots.ranked_weights_data(model, "blood", 1)
    assert table["weight"].is_monotonic_increasing
    ax = plots.ranked_weights(model, "blood", 1, n=3)
    np.testing.assert_allclose(ax.lines[1].get_xydata(), table[["rank", "weight"]])
    largest = plots.weights_data(model, "blood", 1)["feature"].head(3)
    assert {text.get_text() for text in ax.texts} == {short(name) for name in largest}


def test_names_of_ranked_weights_leave_their_points_free(model: SSHIBA) -> None:
    ax = plots.ranked_weights(model, "blood", 1, n=6)
    ax.figure.canvas.draw()
    for text in ax.texts:
        point, box = ax.transData.transform(text.xy), Text.get_window_extent(text)
        assert not box.x0 - 2 < point[0] < box.x1 + 2


def test_a_title_of_levels_stays_beside_the_colour_bar() -> None:
    views = {"answers": make_views(200)["pain"].rename(columns={"pain": "sports"})}
    views["x"] = make_views(200)["blood"]
    checks = check(SSHIBA(2, random_state=0, search=None, max_iter=30), views, fraction=0.2)
    ax = plots.imputation(checks, "answers")
    ax.figure.canvas.draw()
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert ax.title.get_window_extent().x1 < bar.get_window_extent().x0


def test_r2_of_features_is_the_true_one() -> None:
    """Against the truth, of features that are explained well, partly and not at all; and as the sum over factors."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400, 2))
    w = np.array([[2.0, 0.0], [1.0, 1.0], [0.5, 0.0], [0.0, 0.0], [0.0, 3.0], [0.7, 0.7]])
    x = z @ w.T + rng.standard_normal((400, 6))
    model = SSHIBA(4, random_state=0, search=None).fit({"x": x})
    table = plots.feature_r2_data(model, "x")
    assert table["r2"].is_monotonic_decreasing
    true = (w**2).sum(axis=1) / ((w**2).sum(axis=1) + 1)
    np.testing.assert_allclose(table.set_index("feature")["r2"].sort_index(), true, atol=0.1)
    parts = sum(plots.feature_r2_data(model, "x", k).set_index("feature")["r2"] for k in (1, 2))
    np.testing.assert_allclose(parts.sort_index(), table.set_index("feature")["r2"].sort_index(), atol=0.05)
    bars = plots.feature_r2(model, "x", n=3).patches
    np.testing.assert_allclose([bar.get_width() for bar in bars][::-1], table["r2"].head(3))


def test_images_of_factors(model: SSHIBA) -> None:
    images = plots.factor_images_data(model, "blood", (2, 3), [2])
    np.testing.assert_array_equal(images[0].ravel(), model.fitted_.posterior.views[0].w_mean[:, 1])
    ax = plots.factor_images(model, "blood", (2, 3))
    assert len(ax.child_axes) == model.n_components_
    np.testing.assert_array_equal(ax.child_axes[1].images[0].get_array(), images[0])
    with pytest.raises(ValueError, match="4 cells, and view 'blood' 6 features"):
        plots.factor_images(model, "blood", (2, 2))


def test_missing_cells_of_columns(model: SSHIBA, views: dict) -> None:
    table = plots.missingness_data(model).set_index(["view", "feature"])["missing"]
    np.testing.assert_allclose(table["blood"].reindex(list(views["blood"])), views["blood"].isna().mean())
    assert table["signs"]["fever"] == pytest.approx(12 / 90)
    assert table["kind"].tolist() == [0.0]
    ax = plots.missingness(model, n=3)
    widths = sorted((bar.get_width() for bar in ax.patches), reverse=True)
    np.testing.assert_allclose(widths, 100 * table.head(3))


# -------------------------------------------------------------------------------------------- little to be drawn


def test_a_model_without_factors(no_factors: tuple) -> None:
    model, views = no_factors
    label = np.tile([0, 1], 50)
    drawn = [
        plots.beeswarm(model, label),
        plots.factor_pairs(model),
        plots.associations(model, label),
        plots.association_map(model, label),
        plots.feature_fit(model, views, "noise", "a"),
        plots.data_heatmap(model, views, "noise"),
        plots.ranked_weights(model, "noise"),
        plots.factor_images(model, "noise", (1, 5)),
    ]
    assert [ax.texts[0].get_text() for ax in drawn] == ["no factors"] * len(drawn)
    assert plots.missingness(model).texts[0].get_text() == "nothing is missing"
    assert (plots.feature_r2_data(model, "noise")["r2"] == 0).all()
    plots.feature_r2(model, "noise")


def test_a_model_with_one_factor(one_factor: tuple) -> None:
    model, views = one_factor
    assert len(plots.factor_pairs(model).child_axes) == 1
    assert len(points(plots.factors(model, color="a", views=views))) == 90
    assert len(plots.association_map_data(model, "blood", views)) == 1
    for ax in (plots.beeswarm(model), plots.data_heatmap(model, views, "blood"), plots.ranked_weights(model, "blood")):
        ax.figure.canvas.draw()
    assert plots.feature_r2_data(model, "blood")["r2"].between(0, 1).all()
