"""The paper's experiments: cells are stored and resumed, tables tell the truth, the command runs on small data."""

import io
import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import sshiba
from rich.console import Console

from sshiba import SSHIBA
from sshiba.datasets import Dataset, DatasetError
from sshiba.evaluate.metrics import auc_mc
from sshiba.paper import EXPERIMENTS, figures, missing, multiview, write
from sshiba.paper.experiment_cells import Cell, Result, Store, quiet, run_cells
from sshiba.paper.faces import ranked
from sshiba.paper.figures import Point, auc_by_share, scores
from sshiba.paper.labels import Problem, aviris, fewer
from sshiba.paper.methods import BASELINES, METHODS, Task, sshiba_default, sshiba_kernel
from sshiba.paper.missing import imputer, remove
from sshiba.paper.result_tables import Score, goal, goals_table, grid, markdown, score
from sshiba.paper.sections import several_views


def quiet_console() -> Console:
    return Console(file=io.StringIO(), width=200)


def cell(number: int, **more: object) -> Cell:
    return Cell("yeast", {"number": number}, **more)


def test_cells_are_stored_and_not_done_again(tmp_path: Path) -> None:
    store, calls = Store(tmp_path), []

    def compute(one: Cell, before: Result | None) -> Result:
        calls.append(one.options["number"])
        return Result({"auc": np.float64(0.5), "size": np.int64(3)}, {"a": np.arange(3)})

    cells = [cell(i, cost=float(i)) for i in range(3)]
    assert run_cells(cells, compute, store, 1, quiet_console()) == 0
    assert calls == [2, 1, 0]  # the dear ones first
    assert run_cells([*cells, cell(3)], compute, store, 1, quiet_console()) == 0
    assert calls == [2, 1, 0, 3]
    found = store.get(cells[1])
    assert found.numbers["auc"] == 0.5
    assert found.numbers["seconds"] >= 0
    np.testing.assert_array_equal(found.arrays["a"], [0, 1, 2])
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]  # no halves of files


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_cell_that_ctrl_c_cut_short_is_not_stored(tmp_path: Path, n_jobs: int) -> None:
    def compute(one: Cell, before: Result | None) -> Result:
        x = np.random.default_rng(0).standard_normal((30, 4))
        model = SSHIBA(
            2, callback=lambda progress: os.kill(os.getpid(), signal.SIGINT) if progress.sweep == 1 else None
        )
        return Result({"sweeps": model.fit({"x": x}).n_iter_})

    store, cells = Store(tmp_path), [cell(i) for i in range(2)]
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, compute, store, n_jobs, quiet_console())
    assert not [one for one in cells if one in store]


def test_a_cell_gets_the_result_it_needs(tmp_path: Path) -> None:
    first = cell(1, cost=0.0)

    def compute(one: Cell, before: Result | None) -> Result:
        return Result({"value": 1 if before is None else before.numbers["value"] + 1})

    store, second = Store(tmp_path), cell(2, cost=9.0, after=first)
    run_cells([second, first], compute, store, 1, quiet_console())
    assert store.get(second).numbers["value"] == 2


def test_a_failure_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    def compute(one: Cell, before: Result | None) -> Result:
        if one.options["number"] == 1:
            raise ValueError("no such thing")
        return Result({})

    console, store = quiet_console(), Store(tmp_path)
    cells = [cell(i) for i in range(3)]
    assert run_cells(cells, compute, store, 1, console) == 1
    assert "failed: ValueError: no such thing" in console.file.getvalue()
    assert [c in store for c in cells] == [True, False, True]


def test_names_of_cells_differ_and_are_file_names() -> None:
    for experiment in EXPERIMENTS.values():
        for quick in (False, True):
            names = [c.name for c in experiment.cells(quick)]
            assert len(set(names)) == len(names)
            assert all("/" not in name and len(name) < 120 for name in names)


def small_task(categorical: bool) -> tuple[Task, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200, 3))
    x = z @ rng.standard_normal((3, 10)) + 0.3 * rng.standard_normal((200, 10))
    labels = np.argmax(z, axis=1) if categorical else (z > 0.3).astype(int)
    return Task({"x": x[:120]}, {"x": x[120:]}, labels[:120], 3, 6), labels[120:]


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_predicts(method: str, categorical: bool) -> None:
    task, truth = small_task(categorical)
    with quiet():
        answer = METHODS[method](task, True)
    assert answer.scores.shape == (80, 3)
    assert auc_mc(truth, answer.scores).value > 0.8


def test_a_class_that_training_never_saw_has_no_probability() -> None:
    task, _ = small_task(True)
    more = Task(task.train, task.test, task.labels, 5, 6)
    scores = sshiba_default(more, True).scores
    assert scores.shape == (80, 5)
    assert (scores[:, 3:] == 0).all()


def test_extra_views_are_inputs_to_methods_without_views() -> None:
    task, _ = small_task(False)
    kind = np.array([0, 1] * 60)
    extended = Task(task.train, task.test, task.labels, 3, 6, {"kind": kind}, {"kind": kind[:80]})
    train, test = extended.inputs()
    assert train.shape[1] == test.shape[1] == 12
    np.testing.assert_array_equal(train[:, 10:], np.eye(2)[kind])
    assert sshiba_default(extended, True).scores.shape == (80, 3)


def test_fifths_are_disjoint_and_hold_rare_labels() -> None:
    rng = np.random.default_rng(0)
    labels = np.zeros((300, 3), dtype=int)
    labels[:150, 0], labels[::3, 1] = 1, 1
    labels[rng.choice(200, 10, replace=False), 2] = 1
    problem = Problem(rng.random((300, 2)), labels, np.arange(300) < 200, 3, 2, labels)
    parts = problem.fifths(np.arange(200))
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    assert [int(labels[part, 2].sum()) for part in parts] == [2] * 5
    assert len(problem.task("20 %, 3").labels) == len(parts[3])


def test_both_codings_of_the_crops_train_on_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Background is a class under one coding and the absence of labels under the other."""
    rng = np.random.default_rng(0)
    crop, names = np.repeat(np.arange(17), 40), np.array([f"crop {i}" for i in range(17)])
    bands = {"X": rng.random((680, 3)), "band": np.arange(3)}
    np.savez(tmp_path / "indian_pines_200.npz", **bands, y=crop, class_names=names, shape=np.array([20, 34]))
    monkeypatch.setenv("SSHIBA_DATA", str(tmp_path))
    several, one = (aviris("all", coding, False) for coding in ("multilabel", "categorical"))
    assert (several.n_labels, one.n_labels) == (16, 17)
    rows = np.flatnonzero(one.is_train)
    for a, b in zip(several.fifths(rows), one.fifths(rows)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(several.labels.argmax(axis=1)[crop > 0], one.labels[crop > 0] - 1)


def test_a_kernel_view_tells_what_no_line_can() -> None:
    """Label 1 where the point is far from the middle."""
    x = np.random.default_rng(0).standard_normal((400, 2))
    far = (np.sum(x**2, axis=1) > 1.4).astype(int)
    task = Task({"x": x[:300]}, {"x": x[300:]}, far[:300], 2, 20)
    value = {f: auc_mc(far[300:], f(task, True).scores).value for f in (sshiba_default, sshiba_kernel)}
    assert value[sshiba_default] < 0.7
    assert value[sshiba_kernel] > 0.95


def test_random_pixels_are_the_same_at_every_share() -> None:
    whole = Result({}, {"relevance": np.array([0.1, 0.3, 0.2]), "influence": np.array([3.0, 1.0, 2.0])})
    assert ranked("relevance", whole).tolist() == [1, 2, 0]
    assert ranked("influence", whole).tolist() == [0, 2, 1]
    assert sorted(ranked("random", whole)) == [0, 1, 2]
    assert ranked("random", whole).tolist() == ranked("random", whole).tolist()


def test_fewer_rows_keep_every_class() -> None:
    classes = np.repeat([0, 1, 2], [900, 90, 12])
    kept = fewer(classes, 100)
    assert np.bincount(classes[kept]).tolist() == [90, 10, 10]


def test_holes_are_in_training_rows_only_and_imputers_fill_them() -> None:
    rng = np.random.default_rng(0)
    x, is_train = rng.random((60, 5)), np.arange(60) < 40
    holes = remove(x, is_train)
    assert 0.35 < np.isnan(holes[:40]).mean() < 0.65
    assert not np.isnan(holes[40:]).any()
    for row in ("mean", "median", "most frequent", "IterativeImputer", "KNNImputer"):
        assert not np.isnan(imputer(row, True).fit_transform(holes[:40])).any()


def test_options_for_data_with_holes_are_chosen_on_training_rows(
    small_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSHIBA_DATA", str(small_folder))
    options = {"data": "yeast", "row": "SSHIBA's own, exact", "settings": "tuned", "quick": True}
    seen: list[int] = []
    choose = missing.tuned
    monkeypatch.setattr(missing, "tuned", lambda m, views, q: seen.append(len(views["labels"])) or choose(m, views, q))
    numbers = missing.compute(Cell("missing", options)).numbers
    assert seen == [100]
    assert set(numbers["chosen"]) == {"alpha", "noise_floor", "keep"}
    assert numbers["auc"] > 0.8
    assert numbers["rmse"] < 0.9


def test_identity_of_new_faces_is_told_to_a_model_that_is_fitted_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pixels are noise and the attributes follow from the person: known, they are predicted; unknown, they are not."""
    rng = np.random.default_rng(0)
    person = np.arange(120) % 3
    faces = {"X": rng.integers(0, 255, (120, 2400)), "y": person, "class_names": np.array(["A", "B", "C"])}
    attributes = (person[:, None] == np.arange(12) % 3).astype(np.uint8)
    np.savez(tmp_path / "lfw7_60x40.npz", **faces, attr=attributes, attr_names=np.array(list("abcdefghijkl")))
    monkeypatch.setenv("SSHIBA_DATA", str(tmp_path))
    cells = [c for c in multiview.cells(True) if c.options["method"] == "SSHIBA, defaults"]
    store = Store(tmp_path / "cells")
    assert run_cells(cells, multiview.compute, store, 1, quiet_console()) == 0
    auc = {c.options["views"]: store.get(c).numbers["auc"] for c in cells}
    assert auc[multiview.KNOWN] > 0.9
    assert auc[multiview.UNKNOWN] < 0.8
    sizes = {store.get(c).numbers["size"] for c in cells if c.options["views"] != multiview.TWO}
    assert len(sizes) == 1


def test_faces_without_attributes_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they come when they are fetched."""
    monkeypatch.setattr(multiview.datasets, "load_faces", lambda: Dataset({"pixels": pd.DataFrame()}))
    with pytest.raises(DatasetError, match=r"lfw7_60x40\.npz"):
        EXPERIMENTS["multiview"].needs[0]()


def test_without_the_identity_other_methods_have_the_pixels_alone(tmp_path: Path) -> None:
    numbers = {"size": None, "left_out": 0}
    cells = [
        Cell("multiview", {"method": "ridge", "views": v, "quick": True}) for v in (multiview.TWO, multiview.KNOWN)
    ]
    found = {c.name: (c, Result({**numbers, "auc": auc})) for c, auc in zip(cells, (0.7, 0.8))}
    table = several_views(found, tmp_path).tables[0].frame.set_index("")
    assert table.loc["ridge", list(multiview.VIEWS)].tolist() == ["0.700", "0.700", "0.800"]


def test_a_curve_may_lack_a_share_that_another_has(tmp_path: Path) -> None:
    whole = Point(1.0, 0.9, 5, None)
    curves = {
        "relevance": [Point(0.1, 0.6, 2, np.array([0])), whole],
        "influence": [Point(0.1, 0.7, 2, np.array([1])), Point(0.5, 0.8, 2, np.arange(3)), whole],
        "random": [Point(0.2, 0.895, 2, np.array([2])), whole],
    }
    figure = auc_by_share(tmp_path, "curves", "defaults", curves, (2, 3), "")
    assert "100 % by relevance, 100 % by influence, 20 % random" in figure.caption
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_the_figure_of_variance_counts_factors_from_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(figures, "_save", lambda figure, *_: drawn.append(figure))
    figures.variance_explained(tmp_path, "variance", "Ours", np.full((5, 2), 0.1), ["inputs", "labels"])
    (ax, _) = drawn[0].axes
    assert sorted(ax.get_ylim()) == [0.5, 4.5]
    drawn[0].canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels() if 0.5 < label.get_position()[1] < 4.5] == list("1234")


def test_captions_say_what_is_left_out(tmp_path: Path) -> None:
    """Of the variance factors after the 40th, of the bound what is below the picture."""
    for n, words in ((40, "that each factor explains"), (50, "that each of the first 40 of 50 factors explains")):
        drawn = figures.variance_explained(tmp_path, "v", "Ours", np.full((n + 1, 2), 0.1), ["inputs", "labels"])
        assert words in drawn.caption
        assert f"{n} factors explain over 0.5 %" in drawn.caption
    drawn = figures.bounds(tmp_path, "b", "Ours", [np.arange(30.0), np.arange(30.0) - 5])
    assert "from its lowest value after the 10th sweep upwards." in drawn.caption


def test_an_alpha_is_written_as_people_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(figures, "_save", lambda figure, *_: drawn.append(figure))
    figures.latent_faces(tmp_path, "faces", "tuned", np.eye(4)[:, :2], np.array([113.0, 0.0123]), (2, 2), "")
    assert [ax.get_title() for ax in drawn[0].axes] == ["α 110", "α 0.012"]


def test_fits_that_were_cut_short_are_marked(tmp_path: Path) -> None:
    numbers = {"auc": 0.5, "size": 3, "left_out": 0}
    found = [Result({**numbers, "converged": True}), Result({**numbers, "converged": False})]
    assert str(score(found[:1])) == "0.500 (3)"
    assert str(score(found)) == "0.500 ± 0.000 (3) †"
    table = grid("t", "A table", ["a"], ["one"], lambda r, c: score(found), lambda r, c: None)
    assert table.records[0]["converged"] is False
    assert scores(tmp_path, table, lambda row: True).path.with_suffix(".png").stat().st_size > 1000


def test_goals_tick_within_a_hundredth_of_a_baseline_and_at_or_above_the_paper() -> None:
    for ours, ticks in {0.66: ("✓", "✓"), 0.655: ("✗", "✓"), 0.649: ("✗", "✗")}.items():
        row = goals_table(goal("x", {"A": Score(ours)}, {"D": Score(0.66)}, 0.66)).frame.iloc[0]
        assert (row["paper"], row["best baseline"]) == (f"0.66 {ticks[0]}", f"0.660 (D) {ticks[1]}")
    found = goal("x", {"A": Score(0.7), "B": Score(0.8), "C": None}, {"D": Score(0.81), "E": Score(0.5)}, 0.85)
    row = goals_table(found).frame.iloc[0]
    assert row["SSHIBA"] == "0.800 (B)"
    assert row["paper"] == "0.85 ✗"
    assert row["best baseline"] == "0.810 (D) ✓"
    assert goal("x", {"A": None}, {}, 0.5) == []


def test_goals_tell_what_is_reached_without_a_choice_of_options() -> None:
    ours = {"SSHIBA, defaults": Score(0.7), "SSHIBA, paper's settings": Score(0.76)}
    found = goal("x", {**ours, "SSHIBA, tuned": Score(0.8, converged=False)}, {"D": Score(0.75)}, 0.65)
    row = goals_table(found).frame.iloc[0]
    assert row["SSHIBA"] == "0.800 (SSHIBA, tuned) †"
    assert row["defaults alone"] == "0.700 ✗"
    assert goals_table(goal("x", ours, {}, 0.65)).frame.iloc[0]["defaults alone"] == "0.700 ✓"


def test_tables_say_the_same_in_all_forms(tmp_path: Path) -> None:
    scores = {("a", "one"): Score(0.5, 0.01, 3.0), ("b", "one"): None}
    table = grid("t", "A table", ["a", "b"], ["one"], lambda r, c: scores[r, c], lambda r, c: None)
    table.write(tmp_path)
    assert "| a | 0.500 ± 0.010 (3) |" in (tmp_path / "t.md").read_text()
    assert pd.read_csv(tmp_path / "t.csv")["auc"].tolist() == [0.5]
    assert json.loads((tmp_path / "t.json").read_text())[0]["size"] == 3.0
    assert markdown(table.frame).count("\n") == 3


def made_up(cell: Cell) -> Result:
    """What a cell could have found, without finding it."""
    rng = np.random.default_rng(len(cell.name))
    numbers = {"auc": rng.uniform(0.5, 1), "size": 5, "left_out": 1, "label_accuracy": 0.8, "seconds": 1.0}
    numbers |= {"rmse": 0.7, "coverage": 0.9, "n_pixels": 24, "converged": bool(rng.random() < 0.9)}
    arrays = {"r2": rng.uniform(0, 0.2, (2, 5)), "elbo_0": -np.geomspace(9, 1, 20), "kept": np.arange(24)}
    arrays |= {"truth": rng.integers(0, 2, (50, 3)), "scores": rng.random((50, 3))}
    arrays |= {"relevance": rng.random(2400), "influence": rng.random(2400)}
    return Result(numbers, arrays | {"latent_faces": rng.standard_normal((2400, 5)), "alpha": rng.random(5)})


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_page_shows_whatever_is_stored(share: float, tmp_path: Path) -> None:
    """All of it, or a part: the command may be stopped at any time."""
    rng, store = np.random.default_rng(0), Store(tmp_path / "cells")
    for experiment in EXPERIMENTS.values():
        for one in experiment.cells(True):
            if rng.random() < share:
                store.put(one, made_up(one))
    page = write(tmp_path, store, True).read_text()
    assert ("cells are done, and means and goals are of these" in page) == (share < 1)
    for title in ("Table A.", "Table B1.", "Table B2.", "Table C.", "The removed cells", "Identity:", "Table D."):
        assert title in page
    pictures = re.findall(r"src='(figures/[^']+)'", page)
    assert len(pictures) == len(set(pictures)) > 10
    assert all((tmp_path / picture).stat().st_size > 1000 for picture in pictures)
    table = pd.read_csv(tmp_path / "tables" / "aviris-all.csv").set_index(["row", "column"])["auc"]
    for one in EXPERIMENTS["aviris"].cells(True):
        method, coding, part = (one.options[key] for key in ("method", "coding", "part"))
        if one in store and (one.options["pixels"], part) == ("all", "complete"):
            row = method if method in ("BIBFA", *BASELINES) and method != "MLP" else f"{method}, {coding}"
            assert table[row, part] == pytest.approx(made_up(one).numbers["auc"])


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with 150 rows in the place of yeast."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    z = rng.standard_normal((150, 3))
    x = (z @ rng.standard_normal((3, 8)) + 0.3 * rng.standard_normal((150, 8))).astype(np.float32)
    labels = (z + 0.5 * rng.standard_normal((150, 3)) > 0).astype(np.uint8)
    names = np.array(["one", "two", "three"])
    np.savez(folder / "yeast.npz", X=x, Y=labels, is_train=np.arange(150) < 100, label_names=names)
    return folder


def test_the_command_writes_a_page_and_goes_on_where_it_was(small_folder: Path, tmp_path: Path) -> None:
    done = sshiba("reproduce", "yeast", "--quick", "--jobs", "2", "--out", str(tmp_path), data=small_folder)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "index.html").read_text()
    assert "Table A. Yeast" in page
    assert "SSHIBA, tuned" in page
    assert "![yeast bounds](figures/yeast-bounds.png)" in (tmp_path / "results.md").read_text()
    for source in (
        "figures/yeast-scores.png",
        "figures/yeast-bounds.png",
        "figures/yeast-variance.svg",
        "figures/yeast-calibration.png",
    ):
        assert source in page
        assert (tmp_path / source).stat().st_size > 1000
    for ending in ("md", "csv", "json"):
        assert (tmp_path / "tables" / f"yeast.{ending}").is_file()
    cells = sorted((tmp_path / "cells" / "yeast").glob("ridge*.json"))
    cells[0].unlink()
    again = sshiba("reproduce", "yeast", "--quick", "--out", str(tmp_path), data=small_folder)
    assert "32 of 33 cells are stored already" in again.stdout
    assert cells[0].is_file()


def test_without_data_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = sshiba("reproduce", "aviris", "--quick", "--out", str(tmp_path / "out"), data=tmp_path)
    assert done.returncode == 2
    assert "put indian_pines_200.npz into a folder" in done.stderr
    assert "Traceback" not in done.stderr
    assert sshiba("reproduce", "nothing", data=tmp_path).returncode == 2
    assert "reproduce" in sshiba("--help", data=tmp_path).stdout
    assert sshiba("--version", data=tmp_path).stdout.strip()
