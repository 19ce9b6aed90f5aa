"""The report: what it says, its size, and the page in a real browser."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sshiba import SSHIBA, Binary, Categorical, Real
from sshiba.report import sentences

plotly = pytest.importorskip("plotly", reason="needs plotly: pip install 'sshiba[report]'")

UGLY = "</script><b>\"'&\\u003c{{data}}"


def make_views(n: int = 120) -> dict[str, pd.DataFrame | pd.Series]:
    rng = np.random.default_rng(7)
    z = rng.standard_normal((n, 2))
    rows = pd.Index([f"patient {i}" for i in range(n)])
    blood = pd.DataFrame(z @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((n, 6)), index=rows)
    blood.columns = ["hb", "wbc", "crp", "albumin", "sodium", UGLY]
    signs = pd.DataFrame(z @ rng.standard_normal((2, 3)) * 3 > 0, index=rows, columns=["fever", "cough", "rash"])
    kind = pd.Series(np.where(z[:, 0] > 0, "viral", "bacterial"), index=rows, name="kind")
    return {"blood": blood.mask(rng.random(blood.shape) < 0.1), "signs": signs.astype(int).iloc[:100], "kind": kind}


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


def content(path: Path) -> dict:
    text = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S
    )
    assert text is not None
    return json.loads(text[1])


def test_every_part_is_there_with_a_sentence(path: Path, model: SSHIBA) -> None:
    parts = content(path)
    for name in ("views", "overview", "variance", "factors", "convergence", "check", "provenance"):
        assert parts[name]["words"].endswith(".")
    assert "120 rows in 3 views" in parts["views"]["words"]
    assert "signs of 20 rows" in parts["overview"]["words"]
    assert f"{model.elbo_:,.1f}" in parts["convergence"]["words"]
    assert "Of 3 random starts" in parts["convergence"]["words"]
    assert "seed 0" in parts["provenance"]["words"]
    assert np.shape(parts["variance"]["shares"]) == (model.n_components_, 3)
    assert parts["factors"]["names"] == list(model.factors_.columns)
    assert parts["factors"]["colours"][0]["name"] == "kind"
    assert parts["weights"]["views"][0]["features"][-1] == UGLY
    assert len(parts["check"]["calibration"]) == 3


def test_without_data_there_is_less_to_say(model: SSHIBA, tmp_path: Path) -> None:
    model.report(tmp_path / "bare.html")
    parts = content(tmp_path / "bare.html")
    assert "check" not in parts
    assert "overview" not in parts
    assert parts["factors"]["colours"] == []


def test_ten_thousand_features_stay_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 40)) @ rng.standard_normal((40, 10_000)) + rng.standard_normal((60, 10_000))
    wide = SSHIBA(40, random_state=0, max_iter=3, prune_tol=0.0, search=None).fit({"x": x})
    wide.report(tmp_path / "wide.html", {"x": x}, fraction=0)
    assert (tmp_path / "wide.html").stat().st_size < 15e6
    parts = content(tmp_path / "wide.html")
    assert len(parts["weights"]["views"][0]["features"]) + parts["weights"]["views"][0]["left_out"] == 10_000


def test_sentences_fit_their_numbers(model: SSHIBA) -> None:
    one = pd.DataFrame({"view": ["a"], "size": [3], "missing": [0.0]})
    assert sentences.views(model.fitted_, one).endswith("Nothing is missing.")
    complete = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 0.0]})
    assert sentences.overview(complete) == "1 row of 2 is complete in all views; missing altogether: b of 1 row."
    table = pd.DataFrame({"feature": ["u", "v", "w"], "relevance": [8.0, 1.0, 1.0]})
    assert "one alone holds half" in sentences.relevance("a", table, selected=True)
    names = ["factor 1", "factor 2"]
    correlation = pd.DataFrame([[1.0, 0.5], [0.5, 1.0]], names, names)
    assert sentences.factors(correlation, 5, 5).endswith("is factor 1 and factor 2, r = 0.50.")
    place = int(model.r2_.iloc[:-1].max(axis=1).argmax())
    assert f"Factor {place + 1} has the largest part of its own" in sentences.variance(model.fitted_)


def test_a_missing_folder_is_said_at_once(model: SSHIBA, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        model.report(tmp_path / "nowhere" / "report.html")


def test_other_data_are_refused(model: SSHIBA, views: dict, tmp_path: Path) -> None:
    half = {name: view.iloc[:50] for name, view in views.items()}
    renamed = {name: view.rename(index=lambda row: f"x {row}") for name, view in views.items()}
    for wrong, said in ((half, "they have 50 rows, the fit 120"), (renamed, "0 names of rows are in both")):
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


# ------------------------------------------------------------------------------------------------- in a browser


def skip(reason: str) -> None:
    """Where a browser was promised, its absence is a failure."""
    if os.environ.get("NEEDS_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip("needs playwright: make test-browser")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        skip("needs chromium: make test-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, path: Path) -> Iterator:
    """The report, opened; at the end it must have said nothing on the console and asked the network for nothing."""
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url))
    page.goto(path.as_uri())
    yield page
    page.close()
    assert complaints == [path.as_uri()]


def test_the_heat_map_has_a_cell_for_each_factor_and_view(page, model: SSHIBA) -> None:
    z = page.evaluate("document.getElementById('variance-plot').data[0].z")
    np.testing.assert_allclose(np.asarray(z), 100 * model.r2_.iloc[:-1].to_numpy(), atol=1e-2)
    assert page.evaluate("document.getElementById('variance-plot').data[0].y") == list(model.factors_.columns)
    assert page.inner_text("#weights-words").startswith("In blood, factor 1 ")
    page.click("#variance summary")
    assert page.locator("#variance-table tbody tr").count() == model.n_components_ + 1
    assert page.locator("#variance-table thead th").count() == 4
    assert page.locator("#variance-table tbody td").first.inner_text() == "factor 1"
    assert page.title() == "Blood & signs"


def test_choosing_axes_and_colours_changes_the_scatter(page, model: SSHIBA) -> None:
    def points() -> tuple[str, int, float]:
        shown = "document.getElementById('factors-plot')"
        total = f"{shown}.data.reduce((sum, trace) => sum + trace.y.reduce((a, b) => a + b * b, 0), 0)"
        return page.evaluate(f"[{shown}.layout.yaxis.title.text, {shown}.data.length, {total}]")

    assert points()[:2] == ["factor 2", 2]
    assert points()[2] == pytest.approx((model.factors_["factor 2"] ** 2).sum(), rel=1e-4)
    page.select_option("#factor-y", "0")
    assert points()[0] == "factor 1"
    assert points()[2] == pytest.approx((model.factors_["factor 1"] ** 2).sum(), rel=1e-4)
    page.select_option("#factor-colour", "0")
    assert points()[1] == 1


def test_levels_are_shown_in_their_order(browser, tmp_path: Path) -> None:
    """Neither by the alphabet nor by their number, in colours of one scale."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((90, 1))
    x = z + 0.3 * rng.standard_normal((90, 3))
    kind = pd.CategoricalDtype(["never", "rarely", "often", "daily"], ordered=True)
    table = pd.DataFrame(
        {f"q{j}": pd.Categorical.from_codes(np.digitize(x[:, j], [-1, 0, 1]), dtype=kind) for j in range(3)}
    )
    path = tmp_path / "levels.html"
    SSHIBA(2, random_state=0, search=None, max_iter=30).fit(table).report(path, table)
    page = browser.new_page()
    page.goto(path.as_uri())
    shown = "document.getElementById('factors-plot').data"
    assert page.evaluate(f"{shown}.map(trace => trace.name)") == list(kind.categories)
    colours = page.evaluate(f"{shown}.map(trace => trace.marker.color)")
    assert colours[0] == "rgb(92,1,166)"
    assert colours[-1] == "rgb(253,180,47)"
    assert len(set(colours)) == 4
    page.close()


def test_searching_a_feature_shows_its_weights(page, model: SSHIBA) -> None:
    assert page.locator("#feature-plot").is_hidden()
    page.fill("#search", "ALBU")
    assert "albumin (blood)" in page.inner_text("#feature-words")
    shown = page.evaluate("document.getElementById('feature-plot').data[0].y")
    expected = model.weights_["blood"].loc["albumin"] / model.fitted_.schema.codings["blood"].scale[3]
    np.testing.assert_allclose(shown, expected, rtol=1e-5)
    page.fill("#search", UGLY)
    assert UGLY in page.inner_text("#feature-words")
    page.fill("#search", "nothing like it")
    assert "No feature is called" in page.inner_text("#feature-words")
    assert page.locator("#feature-plot").is_hidden()


def test_the_keyboard_is_enough(page) -> None:
    page.focus("#weights-factor")
    before = page.inner_text("#weights-words")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#weights-words") != before
    page.focus("#search")
    page.keyboard.type("crp")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "crp (blood)"
    page.keyboard.press("Enter")
    assert page.locator("#feature-plot").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_dark_light_and_on_paper(browser, path: Path, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme=scheme)
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.locator("#factor-x").is_hidden()
    assert len(page.pdf()) > 10_000
    page.close()


def test_without_factors_their_parts_are_left_out(browser, tmp_path: Path) -> None:
    noise = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 5)), columns=list("abcde"))
    SSHIBA(5, random_state=0).fit(noise).report(tmp_path / "noise.html", noise, fraction=0)
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "noise.html").as_uri())
    for part in ("factors", "weights", "relevance", "variance-plot"):
        assert page.locator(f"#{part}").is_hidden()
    assert page.inner_text("#variance .words").startswith("No factor was found")
    assert page.inner_text("#provenance .words").startswith("Fitted on")
    page.click("#theme")
    page.close()
    assert complaints == []
