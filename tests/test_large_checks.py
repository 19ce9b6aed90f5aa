"""Checks of data that are not in memory: as of those that are, or of some rows, which is said."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from large_cases import N, arrays, done, everything_is_large, options, refused, save, table

from sshiba import SSHIBA, tune
from sshiba.data.sampling import Sample, draw_sample
from sshiba.evaluate import holdout, stability
from sshiba.files import opening
from sshiba.plots import overview_data
from sshiba.report.content import content

__all__ = ["everything_is_large"]  # a fixture for all tests here

SOME = "100 of the 240 rows, drawn at random"


@pytest.fixture(autouse=True)
def nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "COPIES", 10**9)


def write(folder: Path, ending: str) -> tuple[list[object], object]:
    """Files of this kind with the words that name them, and the same in memory."""
    if ending in (".csv", ".parquet"):
        pytest.importorskip("pyarrow")
        path, frame = folder / f"t{ending}", table()[["a", "b", "c", "sex"]]
        frame.to_csv(path) if ending == ".csv" else frame.to_parquet(path, row_group_size=70)
        return [path, "--index", "patient"], frame
    given = arrays()
    return [save(array, folder / f"{name}{ending}") for name, array in given.items()], given


@pytest.mark.parametrize("ending", [".npy", ".h5", ".zarr", ".csv", ".parquet"])
def test_all_rows_are_evaluated_as_in_memory_and_some_are_said(
    ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words, given = write(tmp_path, ending)
    short = ["--components", 2]
    done("evaluate", *words, *short, "-o", tmp_path / "all.csv")
    assert "drawn at random" not in caplog.text
    wanted = holdout(SSHIBA(2, random_state=0), given)
    found = pd.read_csv(tmp_path / "all.csv", index_col=0)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, rtol=1e-6)
    done("evaluate", *words, *short, "--rows", 100, "-o", tmp_path / "some.csv")
    assert SOME in caplog.text
    some = pd.read_csv(tmp_path / "some.csv", index_col=0)
    assert 0 < some["hidden"].iloc[0] < 0.6 * found["hidden"].iloc[0]


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_stability_and_report(ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words, _ = write(tmp_path, ending)
    made, page = tmp_path / "m.sshiba", tmp_path / "r.html"
    done("fit", *words, *options(), "-o", made)
    again = ["stability", made, *words, "-n", 1]
    done(*again, "--rows", 100)
    assert SOME in caplog.text
    files, rest = (words, []) if ending == ".npy" else (words[:1], words[1:])
    data = [word for path in files for word in ("--data", path)]
    done("report", made, *data, *rest, "-o", page)
    assert '"overview":' in page.read_text(encoding="utf-8")
    if ending == ".npy":
        np.save(tmp_path / "x.npy", arrays()["x"][:200])
        np.save(tmp_path / "y.npy", arrays()["y"][:200])
        assert "not the data of the fit: they have 200 rows, the fit 240" in refused(*again)


def test_rows_of_files_in_different_orders_are_drawn_together(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    first, second = table()[["a", "b"]], table()[["c", "sex"]].sample(frac=0.8, random_state=0)
    first.to_parquet(tmp_path / "a.parquet", row_group_size=50)
    second.to_parquet(tmp_path / "b.parquet", row_group_size=50)
    sample = draw_sample({"a": str(tmp_path / "a.parquet"), "b": str(tmp_path / "b.parquet")}, 100)
    assert sample.in_words == SOME
    assert sample.index is not None
    pd.testing.assert_frame_equal(sample.views["a"], first.loc[sample.index])
    pd.testing.assert_frame_equal(sample.views["b"], second.loc[[i for i in sample.index if i in second.index]])
    assert draw_sample({"a": first}, 100).views["a"] is first  # in memory: as it is
    with pytest.raises(ValueError, match="max_rows must be a whole number"):
        draw_sample({"a": first}, 0)


def test_points_of_a_report_have_the_colours_of_their_rows(tmp_path: Path) -> None:
    x = arrays()["x"]
    np.save(tmp_path / "x.npy", x)
    model = SSHIBA(2, random_state=0).fit({"x": x})
    sample = draw_sample({"x": str(tmp_path / "x.npy")}, 100)
    parts = content(model.fitted_, sample, None, 0.0)
    assert parts["overview"]["words"].startswith(f"Looked at: {SOME}. ")
    rows = [int(row) for row in parts["factors"]["rows"]]
    assert rows == list(sample.index)
    colour = parts["factors"]["colours"][0]
    column = x[rows, int(colour["name"].removeprefix("x: "))]
    np.testing.assert_allclose([np.nan if v is None else v for v in colour["values"]], column, rtol=1e-4)
    assert "Looked" not in content(model.fitted_, Sample({"x": x}), None, 0.0)["overview"]["words"]
    pd.testing.assert_frame_equal(overview_data(model, {"x": str(tmp_path / "x.npy")}), overview_data(model, {"x": x}))


def test_tuning_and_stability_of_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    drawn = draw_sample({"x": save(arrays()["x"], tmp_path / "x.npy")}, 50).places
    rare = np.setdiff1d(np.arange(N), drawn)[0]
    given = arrays() | {"c": np.where(np.arange(N) == rare, "q", "p")}
    paths = {name: str(tmp_path / f"{name}.npy") for name in given}
    for name, array in given.items():
        np.save(paths[name], array)
    model, grid = SSHIBA(2, random_state=0, max_iter=20), {"n_components": [1, 2]}
    found, wanted = (tune(model, {name: v[name] for name in "xy"}, grid, "y", n_folds=2) for v in (paths, given))
    pd.testing.assert_frame_equal(found.table, wanted.table)
    tune(model, {"x": paths["x"], "y": paths["y"]}, grid, "y", n_folds=2, max_rows=100)
    assert SOME in caplog.text
    fitted = SSHIBA(2, random_state=0, max_iter=20).fit(given)
    with pytest.raises(ValueError, match="have 1 of the 2 classes of view 'c': draw more"):
        stability(fitted, paths, 1, max_rows=50)
