"""Commands on files that are too large for memory: the same answers as in memory, written whole or not at all.

What counts as large, and what is read at a time, is made small here.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from sshiba import SSHIBA, cli, load
from sshiba.core import machine
from sshiba.data import source_formats
from sshiba.files import long_tables, opening

N = 240
SMALL = "12KB"  # of memory: less than the data take


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LEAST", 0)
    monkeypatch.setattr(opening, "LONG", 1000)
    monkeypatch.setattr(opening, "PART", 4000)
    monkeypatch.setattr(long_tables, "PART_ROWS", 50)
    monkeypatch.setattr(source_formats, "BATCH_BYTES", 4000)


def run(*words: object) -> Result:
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def done(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 1, (result.output, result.exception)
    lines = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, result.output
    return lines[0]


def arrays() -> dict[str, np.ndarray]:
    """Two real views with holes in one of them."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, 3))
    x, y = (z @ rng.standard_normal((3, d)) + 0.3 * rng.standard_normal((N, d)) for d in (8, 4))
    return {"x": np.where(rng.random(x.shape) < 0.1, np.nan, x), "y": y}


def table() -> pd.DataFrame:
    """Numbers, whole numbers, labels and yes / no, with holes in all of them."""
    x = arrays()["x"]
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(x.round(3), columns=list("abcdefgh"))
    score = np.nan_to_num(x[:, 0])
    frame["count"] = np.round(10 * score + 50)
    frame["sex"] = np.where(score + 0.3 * rng.standard_normal(N) > 0, "f", "m")
    frame["ill"] = np.where(score > 0.2, 1, 0)
    frame.loc[3, "sex"], frame.loc[[5, 120], "count"] = None, np.nan
    return frame.set_axis(pd.Index([f"p{i}" for i in range(N)], name="patient"))


def save(array: np.ndarray, path: Path) -> str:
    """An array in the format that the ending says."""
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        zarr.create_array(str(path), data=array, chunks=(37, array.shape[1]))
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["data"] = array
    return str(path)


def options(*more: object) -> list[object]:
    return ["--components", 4, "--max-memory", SMALL, *more]


# ------------------------------------------------------------------------------------------------------- arrays


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> tuple[SSHIBA, dict[str, np.ndarray]]:
    given = arrays()
    return SSHIBA(4, random_state=0, search=None).fit(given), given


@pytest.mark.parametrize("ending", [".npy", ".h5", ".hdf5", ".zarr"])
def test_arrays_through_all_commands(ending: str, in_memory: tuple, tmp_path: Path) -> None:
    usual, given = in_memory
    x, y = (save(array, tmp_path / f"{name}{ending}") for name, array in given.items())
    made = tmp_path / "m.sshiba"
    done("fit", x, y, *options(), "-o", made)
    model = load(made)
    assert list(model.views_) == ["x", "y"]
    assert model.elbo_ == pytest.approx(usual.elbo_, rel=1e-3)
    done("transform", made, x, y, "-o", tmp_path / "z.npy")
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), model.transform(given), atol=1e-8)
    new = save(given["x"][:100], tmp_path / f"new{ending}")
    done("predict", made, new, "--target", "y", "--std", "-o", tmp_path / "y.csv")
    means, deviations = model.predict({"x": given["x"][:100]}, "y", return_std=True)
    found = pd.read_csv(tmp_path / "y.csv")
    np.testing.assert_allclose(found, np.c_[means, deviations], atol=1e-8)
    done("impute", x, y, "--model", made, "-o", tmp_path / "filled.npz", "--std", tmp_path / "std.npz")
    filled, stds = model.impute(given, return_std=True)
    for path, wanted in (("filled.npz", filled), ("std.npz", stds)):
        with np.load(tmp_path / path) as file:
            assert set(file.files) == {"x", "y"}
            for name in file.files:
                assert file[name].dtype == wanted[name].dtype
                np.testing.assert_allclose(file[name], wanted[name], atol=1e-8)
    for word in ("evaluate", "report", "stability"):  # of rows that do fit
        where = ("-o", tmp_path / f"{word}.html", "--data", x, "--data", y, "--fraction", 0) if word == "report" else ()
        before = () if word == "evaluate" else (made,)
        after = {"evaluate": (x, y, "--components", 2), "stability": (x, y, "-n", 1), "report": ()}[word]
        done(word, *before, *where, *after)


def test_one_array_is_filled_as_it_came(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    x = arrays()["x"].astype("float32")
    path = save(x, tmp_path / "x.npy")
    done("impute", path, *options(), "-o", tmp_path / "filled.npy", "--std", tmp_path / "std.h5")
    filled = np.load(tmp_path / "filled.npy", mmap_mode="r")
    assert filled.dtype == np.float32
    assert filled.shape == x.shape
    assert not np.isnan(filled).any()
    np.testing.assert_array_equal(filled[~np.isnan(x)], x[~np.isnan(x)])
    import h5py

    with h5py.File(tmp_path / "std.h5") as file:
        np.testing.assert_array_equal(file["x"][:] > 0, np.isnan(x))


def test_names_of_views_and_arrays_inside_a_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    given = arrays()
    with h5py.File(tmp_path / "both.h5", "w") as file:
        file["raw/x"], file["y"] = given["x"], given["y"]
    made, both = tmp_path / "m.sshiba", tmp_path / "both.h5"
    assert "holds the arrays 'raw/x', 'y'. Name one" in refused("fit", both, "-o", made)
    assert "holds the arrays" in refused("fit", f"{both}:z", "-o", made)
    done("fit", f"{both}:raw/x", f"proteins={both}:y", *options("--view", "x=real"), "-o", made)
    assert list(load(made).views_) == ["x", "proteins"]
    path = save(given["x"], tmp_path / "other.npy")
    done("predict", made, path, "--target", "proteins", "-o", tmp_path / "p.npy")
    assert np.load(tmp_path / "p.npy").shape == (N, 4)
    assert "unknown view 'other'" in refused("transform", made, path, "-o", tmp_path / "z.npy")
    assert "two views are called 'x'" in refused("fit", f"{both}:raw/x", f"x={path}", "-o", tmp_path / "n.sshiba")


# ------------------------------------------------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table as text, as Parquet and as a folder of Parquet; a model of it, fitted in memory."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("tables")
    frame = table()
    frame.to_csv(folder / "t.csv")
    frame.to_csv(folder / "t.tsv.gz", sep="\t")
    frame.to_parquet(folder / "t.parquet", row_group_size=70)
    frame.reset_index(drop=True).to_parquet(folder / "nameless.parquet", row_group_size=70)
    (folder / "many").mkdir()
    for k, start in enumerate(range(0, N, 100)):
        frame.iloc[start : start + 100].to_parquet(folder / "many" / f"{k}.parquet")
    done("fit", folder / "t.csv", "--index", "patient", "--components", 4, "-o", folder / "m.sshiba")
    return folder


def index(name: str) -> list[object]:
    return ["--index", "patient"] if name.startswith("t.") else []


TABLES = ["t.csv", "t.tsv.gz", "t.parquet", "nameless.parquet", "many"]


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_answered_as_in_memory(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outputs(into: Path) -> dict[str, pd.DataFrame]:
        into.mkdir()
        given, model = [folder / name, *index(name)], folder / "m.sshiba"
        done("impute", *given, "--model", model, "-o", into / "filled.csv", "--std", into / "std.tsv")
        done("impute", *given, "--model", model, "-o", into / "filled.parquet")
        done("transform", model, *given, "-o", into / "z.csv")
        done("transform", model, *given, "-o", into / "z.parquet")
        done("transform", model, *given, "-o", into / "z.npy")
        done("predict", model, *given, "--target", "sex", "-o", into / "sex.parquet")
        done("predict", model, *given, "--target", "sex", "--proba", "-o", into / "proba.csv")
        done("predict", model, *given, "--target", "ill", "-o", into / "ill.npy")
        return {path.name: read(path) for path in sorted(into.iterdir())}

    in_parts = outputs(tmp_path / "parts")
    monkeypatch.setattr(opening, "LONG", 10**9)
    whole = outputs(tmp_path / "whole")
    assert list(in_parts) == list(whole)
    assert len(whole) == 9
    for key, frame in whole.items():
        pd.testing.assert_frame_equal(in_parts[key], frame, rtol=1e-7, atol=1e-8)
    if not name.endswith(("parquet", "many")):
        texts = [(tmp_path / where / "filled.csv").read_bytes() for where in ("parts", "whole")]
        assert texts[0] == texts[1]


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".npy":
        return pd.DataFrame(np.load(path))
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, sep=None, engine="python")


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_fitted_from_their_files(name: str, folder: Path, tmp_path: Path) -> None:
    made = tmp_path / "m.sshiba"
    done("fit", folder / name, *index(name), *options("--view", "letters=a,b,c,d:real"), "-o", made)
    model = load(made)
    frame = table() if name != "nameless.parquet" else table().reset_index(drop=True)
    views = {"letters": list("abcd")}
    usual = SSHIBA(4, {"letters": (views["letters"], "real")}, random_state=0, search=None).fit(frame)
    assert list(model.views_) == list(usual.views_)
    assert list(model.index_) == list(frame.index)
    assert model.elbo_ == pytest.approx(usual.elbo_, rel=1e-3)
    assert len(model.factors_) == N


def test_columns_are_read_alike_in_all_parts(tmp_path: Path) -> None:
    """Codes that are numbers in some parts, whole numbers that are not, and a column that begins empty."""
    frame = table().reset_index(drop=True)[list("abcd")]
    frame["code"] = [*(["1", "2"] * 60), *(["A", "B"] * 60)]
    frame["dose"] = [*np.arange(60.0), np.nan, *np.linspace(0.5, 9.5, N - 61)]
    frame["late"] = [*[np.nan] * 100, *np.arange(N - 100)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    done("fit", tmp_path / "t.csv", *options(), "-o", tmp_path / "m.sshiba")
    model = load(tmp_path / "m.sshiba")
    assert list(model.views_) == ["numeric", "code"]
    assert set(model.classes_["code"]) == {"1", "2", "A", "B"}
    done("impute", tmp_path / "t.csv", "--model", tmp_path / "m.sshiba", "-o", tmp_path / "f.csv")
    filled = pd.read_csv(tmp_path / "f.csv")
    assert not filled.isna().any().any()
    assert filled["dose"][60] % 1 != 0
    assert (filled["late"] % 1 == 0).all()


def test_long_text_is_filled_from_a_fit_of_some_rows(folder: Path, tmp_path: Path) -> None:
    out, std = tmp_path / "filled.csv", tmp_path / "std.tsv"
    given = ["impute", folder / "t.csv", "--index", "patient", "--components", 4]
    said = done(*given, "--fit-rows", 100, "-o", out, "--std", std)
    assert "A long table: fitting" in said.output
    before, after = (pd.read_csv(path, index_col="patient") for path in (folder / "t.csv", out))
    assert list(after.index) == list(before.index)
    assert not after.isna().any().any()
    assert ((pd.read_csv(std, sep="\t", index_col="patient") > 0) == before.isna()).all().all()
    assert "the ending says the format" in refused(*given, "-o", tmp_path / "filled.xlsx")
    assert sorted(os.listdir(tmp_path)) == ["filled.csv", "std.tsv"]
