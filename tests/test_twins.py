"""Views with a kernel: their twins, which show nothing that is hidden, and which nobody meets unless they ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem

from sshiba import SSHIBA, Real, load
from sshiba.cli.arguments import Fitting
from sshiba.core.coded import CodedView
from sshiba.core.streamed import StreamedView
from sshiba.data import reading
from sshiba.data.twins import Twin, learn_twin, twin_of
from sshiba.fitted import kernel_choice, short_fits
from sshiba.fitted.answers import Answers
from sshiba.fitted.candidates import Candidate
from sshiba.fitted.describe import views_table
from sshiba.fitted.hidden_cells import ask, hide_in_turn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2, X[:, 2]], axis=1) + 0.1 * RNG.normal(size=(60, 2))


def learned(kernel: Any = "rbf", **params: float) -> Twin:
    twin = learn_twin(kernel, params or None, 20, CodedView(X, None), len(X), 1.0, 100.0)
    assert twin is not None
    return twin


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def fitted(x: Any = X, kernel: Any = "rbf", **options: Any) -> SSHIBA:
    types = {"x": Real(kernel=kernel, landmarks=20), "y": Real()}
    settings = {"search": None, "max_iter": 30, "random_state": 0, **options}
    return SSHIBA(views=types, **settings).fit({"x": x, "y": Y})


@pytest.fixture(scope="module")
def model() -> SSHIBA:
    with pytest.warns(ConvergenceWarning):
        return fitted()


def test_the_features_are_those_of_nystroem() -> None:
    twin = learned(gamma=0.5)
    theirs = Nystroem(gamma=0.5, n_components=20, random_state=0).fit(twin.landmarks)
    order = [int(np.argmin(np.abs(twin.landmarks - own).sum(axis=1))) for own in theirs.components_]
    expected = theirs.transform(X) - theirs.transform(X).mean(axis=0)
    expected /= np.sqrt(expected.var(axis=0).mean())
    np.testing.assert_allclose(twin.features(X)[:, order], expected, atol=1e-6)
    np.testing.assert_allclose(twin.variance, twin.features(X).var(axis=0), rtol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", lambda a, b: float(np.tanh(a @ b))])
def test_a_column_moves_the_features_by_their_slope(kernel: Any) -> None:
    twin, moves = learned(kernel), RNG.normal(size=(20, 2))
    found = twin.slopes(X[:4], moves)
    for d in range(3):
        step = np.zeros(3)
        step[d] = 1e-5
        expected = (twin.features(X[:4] + step) - twin.features(X[:4] - step)) @ moves / 2e-5
        np.testing.assert_allclose(found[:, d], expected, rtol=1e-3, atol=1e-6)


def test_what_is_hidden_in_a_view_is_hidden_in_its_twin(model: SSHIBA) -> None:
    shown = {"x": CodedView(X, None), "y": CodedView(Y, None)}
    schema, other = model.fitted_.schema, X.copy()
    other[:, 1] += 3
    for x in (X, other):  # a third of each row is hidden: too much to be filled
        hidden = schema.with_twins({**shown, "x": CodedView(x, None).without_column(1)})["x (rbf)"]
        assert not hidden.observed_rows.any()
        assert not np.any(hidden.target)
    twin = schema.twins["x"]
    few = twin.of(CodedView(X, np.arange(3) != 1 + np.zeros((60, 1))), least_seen=0.5)
    assert few.is_complete
    assert schema.with_twins(shown)["x (rbf)"].is_complete


def test_few_holes_are_filled_by_the_mean_unless_they_are_asked_for(model: SSHIBA) -> None:
    wide = RNG.normal(size=(30, 5))
    twin = learn_twin("rbf", None, 10, CodedView(wide, None), 30, 1.0, 100.0)
    assert twin is not None
    hidden = CodedView(wide, None).without_column(2)
    filled = wide.copy()
    filled[:, 2] = 0
    np.testing.assert_array_equal(twin.of(hidden).target, twin.features(filled))
    assert not twin.of(hidden, least_seen=1.0).observed_rows.any()


def test_a_target_column_of_the_view_does_not_speak_through_the_twin(model: SSHIBA) -> None:
    answers, other = Answers(model.fitted_), X.copy()
    other[:, 1] += 3
    names, column = ["x"], 1
    found = [
        answers._predicted(answers._without_target(answers.read({"x": x})[0], "x", column), names)["x"][0][:, column]
        for x in (X, other)
    ]
    np.testing.assert_array_equal(*found)


def test_the_search_asks_for_other_views_and_hides_twins_with_their_views(model: SSHIBA) -> None:
    test, spec = [CodedView(X, None), CodedView(Y, None)], model.fitted_.spec
    questions = hide_in_turn(test, spec, np.random.default_rng(0), kernels=[0])
    assert [list(question.hidden) for question in questions] == [[1]]
    question = ask(test, {0: np.array([True, False, False])})
    views = model.fitted_.schema.with_twins(dict(zip(["x", "y"], question.shown)))
    assert not views["x (rbf)"].observed_rows.any()


def test_chunks_make_the_same_twin_as_all_rows() -> None:
    twin, view = learned(), CodedView(X, None)
    late = twin_of(twin, view, limit=1.0)
    assert isinstance(late, StreamedView)
    np.testing.assert_allclose(late.gathered().target, twin.of(view).target, atol=1e-12)
    np.testing.assert_allclose(late.take(np.array([7, 3])).target, twin.of(view).target[[7, 3]], atol=1e-12)
    holes = CodedView(np.hstack([X, X]), None).without_column(0)  # a sixth of each row
    wide = learn_twin("rbf", None, 10, CodedView(np.hstack([X, X]), None), 60, 1.0, 100.0)
    assert wide is not None
    for least_seen, seen in ((0.75, True), (1.0, False)):
        found = twin_of(wide, holes, limit=1.0, least_seen=least_seen).take(np.arange(60)).observed_rows
        assert (found == seen).all()


def without_rows(x: np.ndarray, absent: slice) -> np.ndarray:
    found = x.copy()
    found[absent] = np.nan
    return found


def test_rows_without_the_view_have_no_kernel_features(model: SSHIBA) -> None:
    """They were counted, in the number of cells, and so in `tol`, and in the table of views."""
    with pytest.warns(ConvergenceWarning):
        half = fitted(without_rows(X, slice(30)))
    schema, twin = half.fitted_.schema, half.fitted_.schema.twins["x"]
    assert twin.n_seen == 30
    assert schema.n_observed == 30 * 3 + 60 * 2 + 30 * twin.width
    shares = views_table(half.fitted_).set_index("view")["missing"]
    assert shares["x (rbf)"] == shares["x"] == 0.5
    assert model.fitted_.schema.twins["x"].n_seen == 60


@pytest.mark.parametrize("search", [None, "auto"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_views_with_a_kernel_may_be_seen_on_other_rows(search: str | None) -> None:
    """Each has rows to learn from; no row has both, so that nothing can be compared."""
    views = {"x": without_rows(X, slice(30)), "z": without_rows(X[:, :2], slice(30, 60)), "y": Y}
    kernel = Real(kernel="rbf", landmarks=10)
    model = SSHIBA(views={"x": kernel, "z": kernel}, search=search, max_iter=3, random_state=0).fit(views)
    assert [twin.n_seen for twin in model.fitted_.schema.twins.values()] == [30, 30]
    assert {twin.precision for twin in model.fitted_.schema.twins.values()} == {kernel_choice.UNCOMPARED[1]}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_kernel_that_some_fold_could_not_learn_is_not_compared() -> None:
    """It was refused, where search=None took it."""
    few = np.hstack([X, X])
    few[2:, :3] = np.nan  # two rows are complete, and others half
    model = fitted(few, search="auto", max_iter=3)
    assert model.fitted_.schema.twins["x"].precision == kernel_choice.UNCOMPARED[1]
    with pytest.raises(ValueError, match="a kernel needs rows of which most cells are seen"):
        fitted(np.where(np.arange(60)[:, None] == 0, np.nan, few), search="auto")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_short_fits_for_kernels_end_by_the_rows_they_are_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows a few are compared: the bound of these ended by the tolerance of all."""
    asked: list[tuple[int, float]] = []
    own = short_fits.run

    def noted(rows: Any, start: Any, options: Any, *more: Any, **named: Any) -> Any:
        asked.append((rows.n_rows, options.tol))
        return own(rows, start, options, *more, **named)

    monkeypatch.setattr(short_fits, "run", noted)
    monkeypatch.setattr(short_fits, "SHORT", 2)
    monkeypatch.setattr(kernel_choice, "COMPARED_ROWS", 40)
    fitted(search=[Candidate(keep="all")], max_iter=2)
    assert {n for n, _ in asked} == {30}
    np.testing.assert_allclose([tol for _, tol in asked], short_fits.SHORT_TOL * 30 * 5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_in_a_file_are_fitted_as_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "kept_in_memory", lambda *_: set())
    np.save(tmp_path / "x.npy", X)
    there = fitted(str(tmp_path / "x.npy"), engine="memory")
    here = fitted(engine="memory")
    np.testing.assert_allclose(there.elbo_path_, here.elbo_path_, rtol=1e-9)
    np.testing.assert_allclose(there.predict({"x": X[:5]}, "y"), here.predict({"x": X[:5]}, "y"), rtol=1e-9)


def test_nobody_meets_the_twin_but_in_r2(model: SSHIBA) -> None:
    assert list(model.r2_) == ["x", "y", "x (rbf)"]
    for found in (model.weights_, model.views_, model.influence("y") | {"y": 0}, model.sample(2), model.bias_):
        assert set(found) == {"x", "y"}
    assert set(model.predict({"x": X[:2]})) == {"y"}
    assert (np.diff(model.elbo_path_) >= -1e-6).all()


def test_bent_effects_are_found(model: SSHIBA) -> None:
    def r2(found: np.ndarray) -> float:
        return 1 - float(np.sum((found - Y[:, 0]) ** 2) / np.sum((Y[:, 0] - Y[:, 0].mean()) ** 2))

    with pytest.warns(ConvergenceWarning):
        linear = fitted(kernel=None)
    assert r2(linear.predict({"x": X}, "y")[:, 0]) < 0.4 < 0.8 < r2(model.predict({"x": X}, "y")[:, 0])


def test_score_counts_the_twin_as_missing(model: SSHIBA) -> None:
    answers, data = Answers(model.fitted_), {"x": CodedView(np.zeros((1, 3)), None)}
    rows = answers._rows(data, twins=False)
    assert rows.data[2].observed is not None
    assert not rows.data[2].observed.any()
    assert model.score({"x": X, "y": Y}) < 0


def test_influence_goes_through_the_twin_to_the_columns(model: SSHIBA) -> None:
    """One landmark at a time, a column moved a little: what is predicted moves by the slope."""
    twin, coding = model.fitted_.schema.twins["x"], model.fitted_.schema.codings["x"]
    rows, step = coding.centre + coding.scale * twin.landmarks, 1e-4
    found = []
    for d in range(3):
        move = np.zeros(3)
        move[d] = step * coding.scale[d]
        ahead, behind = (model.predict({"x": rows + sign * move}, "y") for sign in (1, -1))
        by = (ahead - behind) / (2 * step) / model.fitted_.schema.codings["y"].scale
        found.append(np.linalg.norm(by, axis=1).mean())
    np.testing.assert_allclose(model.influence("y")["x"], found, rtol=1e-5)
    assert model.feature_relevance_["x"].shape == (3,)


def test_a_saved_model_predicts_the_same(model: SSHIBA, tmp_path: Path) -> None:
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    np.testing.assert_array_equal(again.predict({"x": X}, "y"), model.predict({"x": X}, "y"))
    assert again.r2_.equals(model.r2_)
    assert again.score({"x": X, "y": Y}) == pytest.approx(model.score({"x": X, "y": Y}), rel=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_function_as_kernel_works_but_is_not_saved(tmp_path: Path) -> None:
    def closeness(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-np.abs(a - b).sum()))

    model = fitted(kernel=closeness, max_iter=3)
    assert "x (closeness)" in model.r2_
    with pytest.raises(ValueError, match="a function, which a model file cannot hold"):
        model.save(tmp_path / "m.sshiba")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interrupted_fit_goes_on_with_the_same_twin(model: SSHIBA, tmp_path: Path) -> None:
    begun = fitted(max_iter=10)
    begun.save(tmp_path / "m.sshiba")
    on = load(tmp_path / "m.sshiba").set_params(max_iter=30)
    np.testing.assert_allclose(on.resume({"x": X, "y": Y}).elbo_, model.elbo_, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_on_a_device_are_fitted_as_on_the_host(model: SSHIBA) -> None:
    torch = pytest.importorskip("torch")
    there = fitted(torch.tensor(X))
    np.testing.assert_allclose(there.elbo_, model.elbo_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_precision_is_chosen_on_hidden_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1e-3 the twin says nothing, and what is bent is not found."""
    monkeypatch.setattr(kernel_choice, "MULTIPLES", (1.0,))
    monkeypatch.setattr(kernel_choice, "PRECISIONS", (1e-3, 30.0))
    monkeypatch.setattr(kernel_choice, "FIRST", (1.0, 1e-3))
    monkeypatch.setattr(kernel_choice, "FOLDS", 1)
    monkeypatch.setattr(short_fits, "SHORT", 15)
    found = fitted(search=[Candidate(keep="all")], max_iter=2)
    assert found.fitted_.schema.twins["x"].precision == 30
    assert found.search_ is None
    with pytest.raises(ValueError, match="there is no kernel 'rfb'"):
        fitted(kernel="rfb")


def test_the_command_names_the_view_and_its_kernel() -> None:
    table = pd.DataFrame(np.hstack([X, Y]), columns=list("abcde"))
    model = Fitting(view=["inputs=a,b,c:real"], kernel=["inputs=rbf"]).model(table, {})
    assert model.views == {"inputs": (["a", "b", "c"], Real(kernel="rbf"))}
    assert Fitting(kernel=["numeric=rbf"]).model(table, {}).views == {"numeric": Real(kernel="rbf")}
    assert Fitting(kernel=["x=rbf"], margin=["log"]).model({"x": X}, {}).views == {
        "x": Real(kernel="rbf", margin="log")
    }
    for text, said in (("rbf", "write VIEW=KERNEL"), ("inputs=rfb", "write VIEW=KERNEL"), ("z=rbf", "no view 'z'")):
        with pytest.raises(ValueError, match=said):
            Fitting(kernel=[text]).model(table, {})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_report_shows_the_twin(model: SSHIBA, tmp_path: Path) -> None:
    model.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("x (rbf)") >= 2
    assert "kernel features" in page
