"""Every picture: it draws what its twin says, on the Axes it was given, and no text lies on other text."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

from sshiba import SSHIBA, Binary, Categorical, Real, plots
from sshiba.evaluate import Check, check

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

ON_A_MODEL = ("elbo", "variance_explained", "factor_relevance", "factors", "factor_correlation")
ON_A_VIEW = ("weights", "feature_relevance")


@pytest.fixture(scope="module")
def views() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((80, 3))
    few = z @ rng.standard_normal((3, 5)) + 0.5 * rng.standard_normal((80, 5))
    few[rng.random(few.shape) < 0.2] = np.nan
    many = z @ rng.standard_normal((3, 5000)) + rng.standard_normal((80, 5000))
    long = pd.DataFrame(many).rename(columns=lambda d: f"a gene with a name that is far too long, number {d}")
    labels = (z @ rng.standard_normal((3, 4)) > 0).astype(int)
    kind = np.array(["first", "second", "third"])[np.argmax(z, axis=1)]
    return {"few": few, "many": long, "labels": labels, "kind": kind}


@pytest.fixture(scope="module")
def model(views: dict) -> SSHIBA:
    types = {"few": Real(select_features=True), "many": Real(), "labels": Binary(), "kind": Categorical()}
    return SSHIBA(8, types, n_init=2, max_iter=60, random_state=0).fit(views)


@pytest.fixture(scope="module")
def checks(model: SSHIBA, views: dict) -> dict[str, Check]:
    return check(SSHIBA(4, model.views_, max_iter=40, random_state=0), views)


@pytest.fixture(autouse=True)
def close() -> None:
    plt.close("all")


def assert_readable(ax: Axes) -> None:
    """No two tick labels of an axis overlap, and none is cut off by the figure."""
    ax.figure.canvas.draw()
    whole = ax.figure.bbox
    for axis, low, high in ((ax.xaxis, "x0", "x1"), (ax.yaxis, "y0", "y1")):
        boxes = [
            label.get_window_extent() for label in axis.get_ticklabels() if label.get_text() and label.get_visible()
        ]
        boxes.sort(key=lambda box: getattr(box, low))
        for a, b in pairwise(boxes):
            assert getattr(a, high) <= getattr(b, low) + 1, (axis, a, b)
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        box = text.get_window_extent()
        assert box.width == 0 or (box.x0 >= whole.x0 - 1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1), text


@pytest.mark.parametrize("name", ON_A_MODEL)
def test_pictures_of_a_model(name: str, model: SSHIBA) -> None:
    assert_readable(getattr(plots, name)(model))
    ax = plt.figure().subplots()
    assert getattr(plots, name)(model, ax=ax) is ax
    assert len(getattr(plots, f"{name}_data")(model)) > 0


@pytest.mark.parametrize("name", ON_A_VIEW)
@pytest.mark.parametrize("view", ["few", "many", "labels", "kind"])
def test_pictures_of_a_view(name: str, view: str, model: SSHIBA) -> None:
    ax = getattr(plots, name)(model, view)
    assert_readable(ax)
    assert 3 <= len(ax.get_yticks()) <= 30


@pytest.mark.parametrize("view", ["few", "many", "labels", "kind"])
def test_hidden_cells(view: str, checks: dict[str, Check]) -> None:
    assert_readable(plots.imputation(checks, view))
    table = plots.imputation_data(checks, view)
    assert len(table) == checks[view].hidden.sum()
    assert table["truth"].notna().all()
    assert ("std" in table) == (view in ("few", "many"))
    told = plots.calibration_data(checks, view)
    assert told[["predicted", "observed"]].to_numpy().min() >= 0
    assert told[["predicted", "observed"]].to_numpy().max() <= 1


def test_calibration_has_a_square_for_each_view(checks: dict[str, Check]) -> None:
    ax = plots.calibration(checks)
    assert_readable(ax)
    panels = ax.child_axes
    assert [panel.get_title().split("\n")[0] for panel in panels] == ["few", "many", "labels", "kind"]
    for panel, name in zip(panels, checks):
        assert_readable(panel)
        assert panel.get_aspect() == 1
        table = plots.calibration_data(checks, name)
        assert (table["n"] >= 10).all()
        np.testing.assert_allclose(panel.lines[1].get_xydata(), table[["predicted", "observed"]])
    band = panels[0].collections[0].get_paths()[0].vertices[:, 1]
    few = plots.calibration_data(checks, "few")
    assert (band.min(), band.max()) == (few["low"].min(), few["high"].max())
    nothing = {"few": replace(checks["few"], hidden=np.zeros_like(checks["few"].hidden))}
    assert "fewer than 10" in plots.calibration(nothing).texts[0].get_text()


def test_overview(model: SSHIBA, views: dict) -> None:
    assert_readable(plots.overview(model, views))
    shares = plots.overview_data(model, {"few": views["few"], "kind": views["kind"]})
    np.testing.assert_allclose(shares["few"], 1 - np.isnan(views["few"]).mean(axis=1))
    assert shares["kind"].tolist() == [1.0] * 80
    assert shares["many"].tolist() == [0.0] * 80


def test_the_numbers_are_those_of_the_model(model: SSHIBA) -> None:
    np.testing.assert_allclose(plots.variance_explained_data(model), model.r2_.drop(index="all"))
    image = plots.variance_explained(model).images[0].get_array()
    np.testing.assert_allclose(image, 100 * model.r2_.drop(index="all"))
    paths = plots.elbo_data(model)
    assert paths["restart"].nunique() == 2
    legend = [text.get_text() for text in plots.elbo(model).get_legend().get_texts()]
    assert legend == [f"best: start {model.fitted_.best_restart + 1}", "1 other start"]
    assert paths[paths["best"]]["elbo"].iloc[-1] == model.elbo_
    weights = plots.weights_data(model, "few", 1)
    assert weights["weight"].abs().is_monotonic_decreasing
    bars = plots.weights(model, "few", 1).patches
    np.testing.assert_allclose([bar.get_width() for bar in bars][::-1], weights["weight"])
    relevance = plots.feature_relevance_data(model, "few").set_index("place")["relevance"].sort_index()
    np.testing.assert_allclose(relevance, model.feature_relevance_["few"])
    correlation = plots.factor_correlation_data(model).to_numpy()
    np.testing.assert_allclose(correlation, np.corrcoef(model.factors_.T), atol=1e-12)
    assert len(plots.weights_data(model, "many")) == 5000 * model.n_components_


def test_factors_are_counted_and_named_as_everywhere(model: SSHIBA) -> None:
    names = [f"factor {k}" for k in range(1, model.n_components_ + 1)]
    assert names == list(model.factors_.columns) == list(model.r2_.index[:-1])
    for table in (plots.variance_explained_data(model), plots.factor_relevance_data(model)):
        assert list(table.index) == names
    correlation = plots.factor_correlation_data(model)
    assert list(correlation.index) == list(correlation.columns) == names
    assert list(plots.weights_data(model, "few")["factor"].unique()) == names
    second = plots.weights_data(model, "few", 2).set_index("feature").sort_index()
    assert set(second["factor"]) == {"factor 2"}
    np.testing.assert_array_equal(second["weight"], model.fitted_.posterior.views[0].w_mean[:, 1])
    rows = plots.factors_data(model, 2, 1)
    np.testing.assert_array_equal(rows[["x", "y"]], model.factors_[["factor 2", "factor 1"]])
    assert plots.weights(model, "few", 2).get_title() == "few, factor 2"
    ax = plots.factors(model)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("factor 1", "factor 2")


@pytest.mark.parametrize("picture", ["variance_explained", "factor_relevance", "factor_correlation"])
def test_heat_maps_count_factors_from_1(picture: str, model: SSHIBA) -> None:
    ax = getattr(plots, picture)(model)
    ax.figure.canvas.draw()
    low, high = sorted(ax.get_ylim())
    shown = [label.get_text() for label in ax.get_yticklabels() if low < label.get_position()[1] < high]
    assert shown == [str(k) for k in range(1, model.n_components_ + 1)]
    assert (low, high) == (0.5, model.n_components_ + 0.5)
    if picture != "factor_correlation":
        values = np.asarray(ax.images[0].get_array())
        by_place = {(text.get_position()[1], text.get_position()[0]): float(text.get_text()) for text in ax.texts}
        assert by_place[2, 1] == pytest.approx(values[1, 1], abs=0.06)


def test_relevance_as_an_image(model: SSHIBA) -> None:
    ax = plots.feature_relevance(model, "many", shape=(50, 100))
    np.testing.assert_allclose(ax.images[0].get_array(), model.feature_relevance_["many"].to_numpy().reshape(50, 100))
    with pytest.raises(ValueError, match="5000 features"):
        plots.feature_relevance(model, "many", shape=(8, 8))


@pytest.mark.parametrize(
    "color",
    [
        np.arange(80.0),
        pd.Series(["a", None] * 40, name="group"),
        np.array([f"label {i}" for i in range(80)]),
        np.tile([True, False], 40),
        pd.Series(np.where(np.arange(80) % 3, 1.5, np.nan), name="mostly"),
    ],
)
def test_factors_coloured_by_anything(model: SSHIBA, color: object) -> None:
    ax = plots.factors(model, 1, 2, color)
    assert_readable(ax)
    assert sum(len(part.get_offsets()) for part in ax.collections) == 80
    if ax.get_legend() is not None:
        assert len(ax.get_legend().get_texts()) <= 17


def test_ordered_categories_keep_their_order(model: SSHIBA) -> None:
    levels = ["never", "rarely", "often", "daily"]
    color = pd.Categorical.from_codes(np.arange(80) % 3 + 1, levels, ordered=True)
    ax = plots.factors(model, color=color)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == levels[1:]
    reds = [part.get_facecolor()[0][0] for part in ax.collections]
    assert reds == sorted(reds)


def test_dates_make_a_scale(model: SSHIBA) -> None:
    ax = plots.factors(model, color=pd.date_range("2020-01-01", periods=80))
    assert_readable(ax)
    assert ax.get_legend() is None


def test_one_factor_and_names_that_look_like_mathematics(tmp_path) -> None:
    rng = np.random.default_rng(0)
    name = "\\bad$\\foo$ and\nmore"
    x = np.outer(rng.standard_normal(60), rng.standard_normal(5)) + 0.3 * rng.standard_normal((60, 5))
    one = SSHIBA(1, random_state=0).fit({name: x})
    drawn = [getattr(plots, picture)(one) for picture in ON_A_MODEL]
    drawn += [getattr(plots, picture)(one, name) for picture in ON_A_VIEW]
    drawn += [plots.overview(one, {name: x}), plots.imputation(check(SSHIBA(1), {name: x}), name)]
    for ax in drawn:
        ax.figure.savefig(tmp_path / "picture.png")
    assert drawn[3].get_ylabel() == "rows"


def test_clear_errors(model: SSHIBA, checks: dict[str, Check]) -> None:
    with pytest.raises(ValueError, match="unknown view 'nothing'"):
        plots.weights(model, "nothing")
    last = model.n_components_
    for strange in (99, last + 1, 0, -1, 1.5, True, "factor 1"):
        with pytest.raises(ValueError, match=f"no factor {strange!r}; the model has {last}, counted from 1"):
            plots.factors(model, strange)
        with pytest.raises(ValueError, match="counted from 1"):
            plots.weights(model, "few", strange)
    assert len(plots.weights_data(model, "few", np.int64(last))) == 5
    with pytest.raises(ValueError, match="3 values, and the model 80 rows"):
        plots.factors(model, color=[1, 2, 3])
    with pytest.raises(ValueError, match="unknown view"):
        plots.imputation(checks, "nothing")
    with pytest.raises(TypeError, match="a value for each of the 80 rows"):
        plots.factors(model, color=5)
    with pytest.raises(ValueError, match="no row of the model"):
        plots.factors(model, color=pd.Series(range(80), index=[f"q{i}" for i in range(80)]))
    with pytest.raises(ValueError, match="not fitted"):
        plots.elbo(SSHIBA())


def test_each_picture_has_its_twin_and_is_in_the_gallery() -> None:
    pictures = {name for name in plots.__all__ if not name.endswith("_data")}
    gallery = (Path(__file__).parents[1] / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert {name for name in pictures if f"plots.{name}(" not in gallery} == set()
    assert {f"{name}_data" for name in pictures} == set(plots.__all__) - pictures
