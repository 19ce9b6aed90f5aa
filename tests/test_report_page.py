"""The page of the report in a real browser: every interaction, narrow and wide, dark and on paper."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reports import UGLY, make_views

from sshiba import SSHIBA, Binary, Categorical, Real

plotly = pytest.importorskip("plotly", reason="needs plotly: pip install '.[report]'")


def skip(reason: str) -> None:
    """Where a browser was promised, its absence is a failure."""
    if os.environ.get("NEEDS_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


def until(page, expression: str) -> None:
    """Wait until it is true. Playwright's own way evaluates text in the page, which its security policy forbids."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


@pytest.fixture(scope="module")
def model() -> SSHIBA:
    types = {"blood": Real(select_features=True), "signs": Binary(), "kind": Categorical()}
    return SSHIBA(6, types, max_iter=200, random_state=0, search=None).fit(make_views())


@pytest.fixture(scope="module")
def path(model: SSHIBA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    metadata = pd.DataFrame({"ward": ["north", "south", None] * 40}, index=model.index_)
    model.report(path, make_views(), title="Blood & signs", metadata=metadata)
    return path


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
    asked = [address for address in complaints if not address.startswith(("blob:", "data:"))]  # downloads
    assert asked == [path.as_uri()]


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

    assert points()[0] == "factor 2"
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


PLOT = "document.getElementById('{}')"


def colours_of(page, plot: str = "factors-plot") -> list:
    return page.evaluate(f"{PLOT.format(plot)}.data.map(trace => [trace.name, trace.marker.color, trace.x.length])")


def test_two_values_are_two_colours_and_unknown_is_grey_and_below(page) -> None:
    page.select_option("#factor-colour", label="signs: fever")
    names, shades, sizes = zip(*colours_of(page))
    assert names == ("unknown", "0", "1")
    assert shades == ("#c4c9d0", "#0072B2", "#E69F00")
    assert sizes[0] == 20
    assert page.evaluate(f"{PLOT.format('factors-plot')}.data.every(trace => !trace.marker.colorbar)")
    page.select_option("#factor-colour", label="blood: hb")
    names, shades, _ = zip(*colours_of(page))
    assert names[0] == "unknown"
    assert isinstance(shades[-1], list)
    page.select_option("#factor-colour", label="ward")
    assert [name for name, _, _ in colours_of(page)] == ["unknown", "north", "south"]


def test_a_click_on_the_heat_map_sets_what_is_below(page, model: SSHIBA) -> None:
    cells = page.locator("#variance-plot .nsewdrag")
    cells.scroll_into_view_if_needed()
    box = cells.bounding_box()
    place = {"x": box["width"] * 2.5 / 3, "y": box["height"] * 1.5 / model.n_components_}
    cells.hover(position=place)
    cells.click(position=place)
    until(page, "document.getElementById('chosen').textContent")
    assert page.inner_text("#chosen") == "Below, factors and weights show factor 2 in kind."
    assert page.inner_text("#weights-words").startswith("In kind, factor 2 ")
    assert page.evaluate(f"{PLOT.format('factors-plot')}.layout.xaxis.title.text") == "factor 2"
    assert page.evaluate(f"{PLOT.format('factors-plot')}.layout.yaxis.title.text") == "factor 1"


def test_weak_factors_are_seen(page) -> None:
    """The colour of a quarter of the largest share is the one half-way."""
    scale = dict(page.evaluate(f"{PLOT.format('variance-plot')}.data[0].colorscale"))
    assert scale[0.25] == "rgb(107,174,214)"


def test_cards_of_factors(page, model: SSHIBA) -> None:
    assert page.locator(".card").count() == model.n_components_
    first = page.locator(".card").nth(1)
    assert first.locator("h3").inner_text() == "factor 2"
    assert "explains" in first.inner_text()
    first.locator("button").click()
    assert page.evaluate(f"{PLOT.format('factors-plot')}.layout.xaxis.title.text") == "factor 2"
    assert ", factor 2 " in page.inner_text("#weights-words")


def test_no_picture_offers_to_be_uploaded(page) -> None:
    """Recent versions of plotly have a button that sends a chart to a server."""
    titles = set(page.evaluate("[...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title)"))
    assert titles == {"Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"}
    assert page.evaluate("[...document.querySelectorAll('.plot')].every(plot => !plot._context?.plotlyServerURL)")


def test_buttons_of_pictures_stand_above_them(page) -> None:
    page.locator("#weights-plot .nsewdrag").hover()
    buttons = page.locator("#weights-plot .modebar").bounding_box()
    area = page.locator("#weights-plot .nsewdrag").bounding_box()
    assert buttons["y"] + buttons["height"] <= area["y"] + 1
    shade = page.evaluate("getComputedStyle(document.querySelector('#weights-plot .modebar-group')).backgroundColor")
    assert shade == "rgba(0, 0, 0, 0)"


def test_searching_a_row_marks_it(page, model: SSHIBA) -> None:
    page.fill("#row-search", "patient 11")
    assert page.locator("#row-matches li").count() == 11  # 11, and 110 to 119
    assert page.inner_text("#row-words").startswith("patient 11: factor 1 ")
    marked = page.evaluate(f"{PLOT.format('factors-plot')}.data.at(-1)")
    assert marked["text"] == ["patient 11"]
    named = page.evaluate(f"{PLOT.format('factors-plot')}.layout.annotations[0]")
    assert named["text"] == "patient 11"
    assert named["bgcolor"] == "#ffffff"  # to be read over points
    assert marked["x"][0] == pytest.approx(model.factors_.loc["patient 11", "factor 1"], rel=1e-5)
    page.locator("#row-matches button").nth(1).click()
    assert page.inner_text("#row-words").startswith("patient 110: ")
    page.fill("#row-search", "nobody")
    assert page.inner_text("#row-words") == "No row is called nobody."


def test_downloads(page, model: SSHIBA) -> None:
    with page.expect_download() as waiting:
        page.click("#variance .tools >> text=CSV")
    assert waiting.value.suggested_filename == "variance-explained.csv"
    table = pd.read_csv(waiting.value.path(), index_col="factor")
    np.testing.assert_allclose(table.loc["factor 1"], model.r2_.loc["factor 1"], atol=1e-7)
    with page.expect_download() as waiting:
        page.click("#weights .tools >> text=CSV")
    assert pd.read_csv(waiting.value.path())["feature"].tolist()[-1] == UGLY  # quotes and all
    with page.expect_download() as waiting:
        page.click("#factors .tools >> text=CSV")
    rows = pd.read_csv(waiting.value.path(), index_col="row")
    np.testing.assert_allclose(rows[list(model.factors_)], model.factors_.loc[rows.index], rtol=1e-5)
    with page.expect_download() as waiting:
        page.click("#factors .tools >> text=PNG")
    assert Path(waiting.value.path()).read_bytes().startswith(b"\x89PNG")


def test_relevance_has_bars_of_16_pixels_and_1_marked(page) -> None:
    assert page.evaluate(f"{PLOT.format('relevance-plot')}.clientHeight") == 90 + 16 * 6
    line = page.evaluate(f"{PLOT.format('relevance-plot')}.layout.shapes[0]")
    assert (line["x0"], line["x1"]) == (1, 1)
    assert page.locator("#relevance-view option").all_inner_texts() == ["blood"]


def test_navigation_stays_in_sight(page) -> None:
    page.click("nav >> text=Convergence")
    until(page, "document.querySelector('nav').getBoundingClientRect().top === 0")
    page.wait_for_selector("nav a[aria-current] >> text=Convergence", timeout=5000)


def test_legends_are_below_on_phones(browser, path: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    shown = f"{PLOT.format('factors-plot')}.layout.legend.y"
    assert page.evaluate(shown) < 0
    assert page.evaluate(f"{PLOT.format('variance-plot')}.data[0].colorbar.orientation") == "h"
    page.set_viewport_size({"width": 1000, "height": 800})
    until(page, f"{shown} > 1")
    page.close()


def test_one_factor_is_a_strip(browser, tmp_path: Path) -> None:
    views = {"blood": make_views()["blood"].iloc[:, :3], "kind": make_views()["kind"]}
    model = SSHIBA(1, random_state=0, search=None, max_iter=50).fit(views)
    model.report(tmp_path / "one.html", views, fraction=0)
    page = browser.new_page()
    page.goto((tmp_path / "one.html").as_uri())
    assert page.locator("#factor-y").is_hidden()
    assert page.inner_text("#variance .words").startswith("One factor was found. It explains ")
    traces = page.evaluate(f"{PLOT.format('factors-plot')}.data.map(trace => [trace.name, trace.y])")
    assert [name for name, _ in traces] == ["bacterial", "viral"]
    for lane, (_, y) in enumerate(traces):
        assert np.abs(np.array(y) - lane).max() <= 0.35
        assert len(set(y)) == len(y)
    assert page.inner_text("#check .words").startswith("No held-out check was made (fraction=0)")
    page.close()


def test_calibration_is_a_square_for_each_view(page) -> None:
    layout = page.evaluate(f"{PLOT.format('check-plot')}.layout")
    titles = [note["text"] for note in layout["annotations"]]
    assert titles[0] == "blood"
    names = [name for name in page.evaluate(f"{PLOT.format('check-plot')}.data.map(trace => trace.name)") if name]
    assert names == titles
    assert layout["xaxis"]["range"] == [0, 1]
    sizes = page.evaluate(
        "[...document.querySelectorAll('#check-plot .nsewdrag')]"
        ".map(box => [Number(box.getAttribute('width')), Number(box.getAttribute('height'))])"
    )
    assert len(sizes) == len(titles)
    for width, height in sizes:
        assert width == pytest.approx(height, abs=2)
        assert width == pytest.approx(sizes[0][0], abs=2)
        assert width > 120


def test_calibration_on_phones_has_room_between_its_squares(browser, path: Path) -> None:
    """The title of a square stands below the words of the one above it."""
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    below = page.evaluate("document.querySelector('#check-plot .xtitle').getBoundingClientRect().bottom")
    tops = page.evaluate(
        "[...document.querySelectorAll('#check-plot .annotation-text')].map(text => text.getBoundingClientRect().top)"
    )
    assert len(tops) == 3  # two squares beside each other, one below
    assert tops[2] > below
    assert page.evaluate("document.querySelector('#check .tools').getBoundingClientRect().top") > tops[2] + 100
    page.close()


def test_shares_keep_a_blank_before_the_sign(page) -> None:
    """In hovers too: 90 %."""
    for plot in ("overview-plot", "variance-plot", "check-plot"):
        templates = page.evaluate(f"{PLOT.format(plot)}.data.map(trace => trace.hovertemplate || '')")
        said = "".join(templates).replace("%{", "{")
        assert " %" in said
        assert not any(said[i - 1] != " " for i, sign in enumerate(said) if sign == "%")


def test_large_counts_are_grouped_in_the_table_and_plain_in_the_file(browser, path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    first = text.index('"rows"', text.index('"check"'))
    hidden = re.compile(r'("blood", ?"Real", ?")\d+"')
    (tmp_path / "many.html").write_text(
        text[:first] + hidden.sub(r'\g<1>67732"', text[first:], count=1), encoding="utf-8"
    )
    page = browser.new_page()
    page.goto((tmp_path / "many.html").as_uri())
    assert page.locator("#check tbody td").nth(2).inner_text() == "67,732"
    with page.expect_download() as waiting:
        page.click("#check .tools >> text=CSV")
    assert pd.read_csv(waiting.value.path())["hidden"][0] == 67732
    page.close()


def test_a_table_that_is_cut_off_shows_it(browser, path: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    box = "document.querySelector('#check .scroll')"
    assert page.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
    assert page.evaluate(f"getComputedStyle({box}).backgroundAttachment") == "local, scroll"
    page.close()


def test_on_paper_a_heading_stays_with_its_cards(page) -> None:
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('#cards h2')).breakAfter") == "avoid"
    words = page.evaluate(
        "[getComputedStyle(document.querySelector('#cards .words'))].map(s => [s.breakAfter, s.breakInside])[0]"
    )
    assert words == ["avoid", "avoid"]


def test_it_runs_in_the_frame_of_a_notebook(browser, model: SSHIBA, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><body>{model.report()._repr_html_()}</body>", encoding="utf-8")
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(notebook.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("#weights-words", has_text="In blood, factor 1 ").wait_for()  # the frame loads after the page
    page.close()
    assert complaints == []
