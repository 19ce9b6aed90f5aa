"""The report: what it says, its size, what it refuses; the page itself is in test_report_page.py."""

import html
import re
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reports import UGLY, content, make_views

from sshiba import SSHIBA, Binary, Categorical, Real, plots
from sshiba.fitted.candidates import Candidate
from sshiba.fitted.describe import views_table
from sshiba.fitted.search import Search
from sshiba.report import sentences

plotly = pytest.importorskip("plotly", reason="needs plotly: pip install '.[report]'")


@pytest.fixture(scope="module")
def views() -> dict[str, pd.DataFrame | pd.Series]:
    return make_views()


@pytest.fixture(scope="module")
def model(views: dict) -> SSHIBA:
    types = {"blood": Real(), "signs": Binary(), "kind": Categorical()}
    return SSHIBA(6, types, n_init=3, max_iter=200, random_state=0).fit(views)


@pytest.fixture(scope="module")
def path(model: SSHIBA, views: dict, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    model.report(path, views, title="Blood & signs")
    return path


def test_every_part_is_there_with_a_sentence(path: Path, model: SSHIBA) -> None:
    parts = content(path)
    for name in ("views", "overview", "variance", "factors", "convergence", "check", "provenance"):
        assert parts[name]["words"].endswith(".")
    assert "120 rows in 3 views" in parts["views"]["words"]
    assert "signs of 20 rows" in parts["overview"]["words"]
    assert f"{model.elbo_:,.1f}" in parts["convergence"]["words"]
    assert "Of 3 starts" in parts["convergence"]["words"]
    assert "seed 0" in parts["provenance"]["words"]
    assert np.shape(parts["variance"]["shares"]) == (model.n_components_, 3)
    assert parts["factors"]["names"] == list(model.factors_.columns)
    assert len(parts["cards"]) == model.n_components_
    assert parts["relevance"] == []  # no features were selected
    assert parts["convergence"]["paths"][model.fitted_.best_restart][-1][0] == model.n_iter_
    assert f"after {model.n_iter_} sweeps" in parts["convergence"]["words"]
    assert parts["weights"]["views"][0]["features"][-1] == UGLY
    assert len(parts["check"]["calibration"]) == 3


def test_without_data_there_is_less_to_say(model: SSHIBA, tmp_path: Path) -> None:
    model.report(tmp_path / "bare.html")
    parts = content(tmp_path / "bare.html")
    assert "check" not in parts
    assert "overview" not in parts
    assert parts["factors"]["colours"] == []


def test_the_first_colour_is_the_surest_association(model: SSHIBA, views: dict, path: Path) -> None:
    """Labels before numbers; 0 / 1 are labels; cards say the same numbers as the picture."""
    parts = content(path)
    colours = parts["factors"]["colours"]
    found = plots.associations_data(model, ["kind", "signs"], views)
    assert colours[0]["name"].removeprefix("signs: ") == found["covariate"][0]
    by_name = {colour["name"]: colour for colour in colours}
    assert set(by_name["signs: fever"]["labels"]) == {"0", "1", None}
    assert [c for c in colours if "labels" in c] == colours[:4]
    assert by_name["blood: hb"]["values"][0] == pytest.approx(views["blood"]["hb"].iloc[0], rel=1e-4)
    best = found[found["factor"] == found["factor"][0]].iloc[0]
    card = parts["cards"][int(best["factor"].split()[1]) - 1]
    assert card["associations"][0][0].split(" = ")[0] == colours[0]["name"]
    assert card["associations"][0][1].startswith(f"AUC {best['value']:.2f} (")
    share = model.r2_.loc[card["name"]].max()
    assert card["explains"][0][1] == f"{100 * share:.1f} %"


def test_metadata_are_more_to_colour_by(model: SSHIBA, tmp_path: Path) -> None:
    age = model.factors_["factor 2"].rank()
    metadata = pd.DataFrame({"age": age, UGLY: ["x", "y"] * 60, "all missing": np.nan}).iloc[::-1]
    report = model.report(None, metadata=metadata)
    assert repr(report).startswith("Report(not saved, ")
    report.save(tmp_path / "more.html")
    parts = content(tmp_path / "more.html")
    assert [colour["name"] for colour in parts["factors"]["colours"]] == ["age", UGLY]
    np.testing.assert_allclose(parts["factors"]["colours"][0]["values"], age)
    assert ["age", "r 1.00 (1.00 to 1.00)"] in parts["cards"][1]["associations"]
    with pytest.raises(ValueError, match="no row of the model is in metadata's index"):
        model.report(None, metadata=metadata.reset_index(drop=True))


def test_a_notebook_shows_the_page_in_a_frame(model: SSHIBA) -> None:
    report = model.report()
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads"')
    inside = re.search(r'srcdoc="([^"]*)"', shown)
    assert inside is not None
    assert html.unescape(inside[1]) == report.html


def test_without_a_check_it_says_so(model: SSHIBA, views: dict, capfd: pytest.CaptureFixture) -> None:
    assert "No held-out check was made (fraction=0)" in model.report(None, views, fraction=0).html
    slow = copy(model)
    best = [replace(restart, seconds=118.0) for restart in model.fitted_.restarts]
    slow.fitted_ = replace(model.fitted_, restarts=tuple(best))
    slow.report(None, views)
    assert "Held-out check: another fit, about 2 min; fraction=0 leaves it out." in capfd.readouterr().err


def test_relevance_is_shown_where_features_were_selected(views: dict, tmp_path: Path) -> None:
    selected = SSHIBA(3, {"blood": Real(select_features=True)}, max_iter=30, random_state=0)
    selected.fit({"blood": views["blood"], "kind": views["kind"]}).report(tmp_path / "selected.html")
    assert [view["view"] for view in content(tmp_path / "selected.html")["relevance"]] == ["blood"]


def test_ten_thousand_features_stay_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 40)) @ rng.standard_normal((40, 10_000)) + rng.standard_normal((60, 10_000))
    wide = SSHIBA(40, random_state=0, max_iter=3, prune_tol=0.0, search=None).fit({"x": x})
    wide.report(tmp_path / "wide.html", {"x": x}, fraction=0)
    assert (tmp_path / "wide.html").stat().st_size < 15e6
    parts = content(tmp_path / "wide.html")
    assert len(parts["weights"]["views"][0]["features"]) + parts["weights"]["views"][0]["left_out"] == 10_000


def test_sentences_fit_their_numbers(model: SSHIBA) -> None:
    full = views_table(model.fitted_).assign(missing=0.0)
    assert sentences.views(model.fitted_, full).endswith("Nothing is missing.")
    complete = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 0.0]})
    assert sentences.overview(complete) == "1 row of 2 is complete in all views; missing altogether: b of 1 row."
    table = pd.DataFrame({"feature": ["u", "v", "w"], "relevance": [8.0, 1.0, 1.0]})
    words = sentences.relevance("a", table, "3 classes")
    assert "u is the most relevant of 3 classes of a; one alone holds half" in words
    assert "1 of 3 are above 1" in sentences.relevance("a", table, "3 features")
    names = ["factor 1", "factor 2"]
    correlation = pd.DataFrame([[1.0, 0.5], [0.5, 1.0]], names, names)
    assert sentences.factors(correlation, 5, 5).endswith("most of all factor 1 and factor 2, r = 0.50.")
    place = int(model.r2_.iloc[:-1].max(axis=1).argmax())
    assert f"Factor {place + 1} explains most in one view" in sentences.variance(model.fitted_)


def test_a_column_of_classes_is_one_column_however_many_there_are() -> None:
    """Four cells of 30 are missing, not six of 50; kernel features are no columns either."""
    x = np.random.default_rng(0).standard_normal((10, 2))
    x[0] = np.nan
    kind = pd.Series([None, None, *"abcabcab"])
    kernels = {"x": Real(kernel="rbf", landmarks=4), "kind": Categorical()}
    for types in ({"kind": Categorical()}, kernels):
        fit = SSHIBA(1, types, random_state=0, search=None, max_iter=5).fit({"x": x, "kind": kind}).fitted_
        words = sentences.views(fit, views_table(fit))
        assert words == "10 rows in 2 views, 3 columns in all. 13 % of the cells are missing, most in kind (20 %)."


def test_what_the_search_gained_is_said_only_where_it_is_something() -> None:
    both = (Candidate(keep="fewest"), Candidate(keep="all"))
    close = Search(both, ({"a": -1.0}, {"a": -1.0001}), (2, 3), 0)
    assert sentences.search(close).endswith(", about as good as the next best.")
    clear = Search(both, ({"a": -1.0}, {"a": -1.2}), (2, 3), 0)
    assert sentences.search(clear).endswith(", 0.200 nats a cell better than the next best.")


def test_a_missing_folder_is_said_at_once(model: SSHIBA, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        model.report(tmp_path / "nowhere" / "report.html")


def test_other_data_are_refused(model: SSHIBA, views: dict, tmp_path: Path) -> None:
    half = {name: view.iloc[:50] for name, view in views.items()}
    renamed = {name: view.rename(index=lambda row: f"x {row}") for name, view in views.items()}
    for wrong, said in (
        (half, "they have 50 rows, the fit 120"),
        (renamed, "in both: name the rows .* by their index"),
    ):
        with pytest.raises(ValueError, match=said):
            model.report(tmp_path / "wrong.html", wrong)
    with pytest.raises(ValueError, match="they lack view 'kind'"):
        model.report(tmp_path / "wrong.html", {name: views[name] for name in ("blood", "signs")})
    with pytest.raises(ValueError, match="fraction must be"):
        model.report(tmp_path / "wrong.html", views, fraction=2)
    assert not (tmp_path / "wrong.html").exists()


def test_where_nothing_was_found_it_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.standard_normal(8), "b": rng.standard_normal(8), "c": list("xxyyxxyz")})
    SSHIBA(5, random_state=0).fit(table).report(tmp_path / "nothing.html", table, fraction=0)
    assert content(tmp_path / "nothing.html")["variance"]["words"].startswith("No factor was found")
