"""Commands on files that are too large for memory: the same answers as in memory, written whole or not at all.

What counts as large, and what is read at a time, is made small here.
"""

import errno
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from large_cases import SMALL, N, arrays, codings_of, done, everything_is_large, options, refused, run, save, table

from sshiba import SSHIBA, load
from sshiba.cli import steps
from sshiba.cli.terminal import Expectation
from sshiba.files import long_tables, opening
from sshiba.files.long_tables import LongTable
from sshiba.files.reading_options import Reading

__all__ = ["everything_is_large"]  # a fixture for all tests here


# ------------------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("ending", [".npy", ".h5", ".zarr"])
def test_arrays_through_all_commands(ending: str, tmp_path: Path) -> None:
    given = arrays()
    x, y = (save(array, tmp_path / f"{name}{ending}") for name, array in given.items())
    made = tmp_path / "m.sshiba"
    done("fit", x, y, *options(), "-o", made)
    model = load(made)
    assert list(model.views_) == ["x", "y"]
    assert model.fitted_.schema.codes_alike(codings_of(given))
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
    assert "holds the arrays 'raw/x', 'y'. Give one" in refused("fit", both, "-o", made)
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


TABLES = [
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("t.tsv.gz", "nameless.parquet")),
    "t.csv",
    "t.parquet",
    "many",
]


def test_answers_keep_to_the_memory_they_are_given(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    room = opening.room_for_answers
    monkeypatch.setattr(steps, "room_for_answers", lambda limit=None: asked.append(limit) or room(limit))
    given = [folder / "m.sshiba", folder / "t.csv", *index("t.csv"), "--max-memory", "1GB"]
    done("transform", *given, "-o", tmp_path / "z.csv")
    done("predict", *given, "--target", "ill", "-o", tmp_path / "ill.csv")
    assert asked == ["1GB", "1GB"]


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
        as_text = key.startswith("filled") or key.endswith((".csv", ".tsv"))
        rtol = 1e-5 if as_text else 1e-7  # texts of filled cells have six digits
        pd.testing.assert_frame_equal(numbers_of(in_parts[key]), numbers_of(frame), rtol=rtol, atol=1e-8)
    if not name.endswith(("parquet", "many")):
        texts = [(tmp_path / where / "filled.csv").read_text().splitlines() for where in ("parts", "whole")]
        assert len(texts[0]) == len(texts[1])
        assert sum(ours != theirs for ours, theirs in zip(*texts)) <= 1  # a last digit that rounding decides


def numbers_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts of numbers as numbers."""
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)))


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
    assert list(model.views_) == ["letters", "numeric", "sex", "binary"]
    assert model.fitted_.schema.codes_alike(codings_of(frame, {"letters": (list("abcd"), "real")}))
    assert list(model.index_) == list(frame.index)
    assert len(model.factors_) == N


@pytest.mark.parametrize("arrow", [True, False])
def test_columns_are_read_alike_in_all_parts(arrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes that look like numbers in some parts, whole numbers that are not, and a column that begins empty."""
    if not arrow:
        monkeypatch.setattr(long_tables, "find_spec", lambda name: None)
    frame = table().reset_index(drop=True)[list("abcd")]
    frame["code"] = [*(["10", "20"] * 60), *(["01", "02"] * 60)]
    frame["dose"] = [*map(str, range(60)), *(f"{i}.25" for i in range(N - 60))]
    frame.loc[20, "dose"] = None
    frame["late"] = pd.array([*[None] * 100, *range(N - 100)], dtype="Int64")
    frame.to_csv(tmp_path / "t.csv", index=False)
    done("fit", tmp_path / "t.csv", *options("--view", "code=code:categorical"), "-o", tmp_path / "m.sshiba")
    model = load(tmp_path / "m.sshiba")
    assert list(model.views_) == ["code", "numeric"]
    assert set(model.classes_["code"]) == {"10", "20", "01", "02"}
    done("impute", tmp_path / "t.csv", "--model", tmp_path / "m.sshiba", "-o", tmp_path / "f.csv")
    filled = pd.read_csv(tmp_path / "f.csv")
    assert not filled.isna().any().any()
    assert filled["dose"][20] % 1 != 0
    assert (filled["late"] % 1 == 0).all()


def test_rows_without_names_are_numbered_through(folder: Path) -> None:
    parts = list(LongTable(str(folder / "nameless.parquet"), Reading()).parts())
    assert len(parts) > 4
    assert [row for part in parts for row in part.values.index] == list(range(N))


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


# ----------------------------------------------------------------------------------------------------- annotated


def annotated(path: Path) -> Path:
    """A .h5ad or .h5mu file; of the second modality rows are lacking, and others are in another order."""
    anndata = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
    mudata = pytest.importorskip("mudata")
    parts, rows = {}, pd.Index([f"cell {i}" for i in range(N)])
    for name, values in arrays().items():
        part = anndata.AnnData(values.astype("float32"), obs=pd.DataFrame(index=rows))
        part.var_names = [f"{name} {j}" for j in range(values.shape[1])]
        parts[name] = part
    if path.suffix == ".h5ad":
        parts["x"].write(path)
    else:
        order = np.random.default_rng(0).permutation(N)[:200]
        mudata.MuData({"x": parts["x"], "y": parts["y"][order].copy()}).write(path)
    return path


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("ending", [".h5ad", ".h5mu"])
def test_annotated_data_stay_in_their_file(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, made = annotated(tmp_path / f"data{ending}"), tmp_path / "m.sshiba"
    done("fit", path, *options(), "-o", made)
    read = {".h5ad": "anndata.read_h5ad", ".h5mu": "mudata.read_h5mu"}[ending].split(".")
    load_file = getattr(__import__(read[0]), read[1])
    assert load(made).fitted_.schema.codes_alike(codings_of(load_file(path)))

    def outputs(into: Path) -> list[Any]:
        into.mkdir()
        out, std = into / f"filled{ending}", into / f"std{ending}"
        done("impute", path, "--model", made, "-o", out, "--std", std)
        done("transform", made, path, "-o", into / "z.csv")
        return [load_file(out), load_file(std), pd.read_csv(into / "z.csv", index_col=0)]

    *found, factors = outputs(tmp_path / "parts")
    monkeypatch.setattr(opening, "LONG", 10**9)
    *wanted, usual = outputs(tmp_path / "whole")
    pd.testing.assert_frame_equal(factors, usual)
    for one, other in zip(found, wanted):
        pairs = [(one, other)] if ending == ".h5ad" else [(one[name], other[name]) for name in other.mod]
        for mine, whole in pairs:
            assert list(mine.obs_names) == list(whole.obs_names)
            assert mine.X.dtype == whole.X.dtype
            np.testing.assert_allclose(mine.X, whole.X, rtol=1e-5, atol=1e-6)


# --------------------------------------------------------------------------------------------- what goes wrong


def after(n_calls: int, act: Callable[[], object], method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that acts before one of its calls."""
    calls = iter(range(n_calls + 1))

    def called(*args: Any, **options: Any) -> Any:
        if next(calls, None) == n_calls:
            act()
        return method(*args, **options)

    return called


def shrink(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


HARM: dict[str, Callable[[Path], object]] = {"shrank": shrink, "grew": lambda p: p.write_bytes(p.read_bytes() + b"1")}
HARM["No such file"] = lambda path: path.unlink()


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("name", ["x.npy", "x.h5", "t.csv", "t.parquet"])
def test_a_file_that_changes_ends_the_command_and_leaves_no_half(
    name: str, harm: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, made = tmp_path / name, tmp_path / "m.sshiba"
    if name.startswith("x"):
        save(arrays()["x"], given)
        done("fit", given, *options(), "-o", made)
    else:
        shutil.copyfile(folder / name, given)
        shutil.copyfile(folder / "m.sshiba", made)
    before = sorted(os.listdir(tmp_path))
    (tmp_path / "out").mkdir()
    harmful = after(2, lambda: HARM[harm](given), SSHIBA.transform)
    monkeypatch.setattr(SSHIBA, "transform", harmful)
    words = refused("transform", made, given, *index(name), "-o", tmp_path / "out" / "z.csv")
    assert harm in words
    assert str(given) in words
    assert os.listdir(tmp_path / "out") == []
    assert set(os.listdir(tmp_path)) <= {*before, "out"}


@pytest.mark.parametrize("name", ["x.npy", "t.parquet"])
def test_a_fit_whose_rows_are_lost_is_saved_and_goes_on(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, made = tmp_path / name, tmp_path / "m.sshiba"
    if name.startswith("x"):
        save(arrays()["x"], given)
    else:
        shutil.copyfile(folder / name, given)
    content, stamp = given.read_bytes(), given.stat()
    with monkeypatch.context() as patched:
        patched.setattr(Expectation, "__call__", after(2, lambda: shrink(given), lambda *_: None))
        words = ["fit", given, *index(name), "--components", 3, "--max-memory", SMALL]
        result = run(*words, "-o", made)
    assert result.exit_code == 2
    assert result.output.count("Error: ") == 1
    assert "shrank while it was being read" in result.output
    assert f"--resume {made}" in result.output
    kept = load(made)
    assert 2 <= kept.n_iter_ <= 4
    given.write_bytes(content)
    os.utime(given, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    again = ["fit", given, *index(name), "--max-memory", SMALL, "--max-time", 1, "--resume", made]
    done(*again)
    assert load(made).n_iter_ > kept.n_iter_


def test_a_full_scratch_disk_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = (arrays()["x"] > 0).astype(float)
    path = save(x, tmp_path / "x.npy")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    words = refused("fit", path, *options("--view", "x=binary"), "-o", tmp_path / "m.sshiba")
    assert "no room for a scratch file" in words
    assert "TMPDIR" in words


def test_text_is_parsed_once_into_a_scratch_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "t.csv"
    shutil.copyfile(folder / "t.csv", given)
    fit = ["fit", given, "--index", "patient", *options("--max-time", 4)]  # at least a sweep, on a busy machine, too
    with monkeypatch.context() as patched:  # the file is no longer needed
        patched.setattr(Expectation, "__call__", after(0, given.unlink, lambda *_: None))
        done(*fit, "-o", tmp_path / "m.sshiba")
    assert not given.exists()
    assert not np.isnan(np.asarray(load(tmp_path / "m.sshiba").factors_)).any()
    shutil.copyfile(folder / "t.csv", given)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert "no room for a scratch file" in refused(*fit, "-o", tmp_path / "n.sshiba")


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: save(array, tmp_path / f"{name}.npy") for name, array in arrays().items()}
    done("fit", *given.values(), *options(), "-o", tmp_path / "m.sshiba")
    before = sorted(os.listdir(tmp_path))

    def stop() -> None:
        raise KeyboardInterrupt

    for ending in (".npz", ".h5"):
        words = ["impute", *given.values(), "--model", tmp_path / "m.sshiba", "-o", tmp_path / f"filled{ending}"]
        with monkeypatch.context() as patched:
            patched.setattr(SSHIBA, "impute", after(2, stop, SSHIBA.impute))
            result = run(*words)
        assert result.exit_code == 1
        assert "nothing was written" in result.output
        assert sorted(os.listdir(tmp_path)) == before


def test_what_cannot_be_done_is_said(folder: Path, tmp_path: Path) -> None:
    x, made = save(arrays()["x"], tmp_path / "x.npy"), folder / "m.sshiba"
    new = tmp_path / "new.sshiba"
    assert "go with arrays only" in refused("fit", x, folder / "t.csv", "-o", new)
    assert "in more than one file" in refused("fit", folder / "t.csv", folder / "many", *options(), "-o", new)
    assert "there is no file" in refused("fit", tmp_path / "none.npy", "-o", new)
    (tmp_path / "bad.npy").write_bytes(b"no array")
    assert "is damaged" in refused("fit", tmp_path / "bad.npy", "-o", new)
    (tmp_path / "bad.parquet").write_bytes(b"no table")
    assert "is damaged" in refused("fit", tmp_path / "bad.parquet", "-o", new)
    assert "must be a size" in refused("fit", x, "--max-memory", "much", "-o", new)
    predict = ["predict", made, folder / "t.parquet", "--target", "sex"]
    assert "cannot be written as .npy" in refused(*predict, "-o", tmp_path / "sex.npy")
    assert "the ending says the format" in refused(*predict, "-o", tmp_path / "sex.xlsx")
    assert not new.exists()
    assert sorted(os.listdir(tmp_path)) == ["bad.npy", "bad.parquet", "x.npy"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_named_levels_are_levels_though_they_often_mean_missing(ending: str, tmp_path: Path) -> None:
    """Also where only some of the parts have them."""
    data, made, out = tmp_path / f"t{ending}", tmp_path / "m.sshiba", tmp_path / f"out{ending}"
    frame = table()
    order = ["None", "Mild", "NULL"]
    frame["pain"] = np.array(order, dtype=object)[np.digitize(np.nan_to_num(frame["a"]), [-0.5, 0.5])]
    frame.loc[frame.index[:60], "pain"] = "Mild"
    frame.loc[["p7", "p130"], "pain"] = None
    (frame.to_csv if ending == ".csv" else frame.to_parquet)(data)
    levels = f"--levels=pain={','.join(order)}"
    done("fit", data, "--index", "patient", levels, *options(), "-o", made)
    for said in ([levels, *options()], ["--model", made]):
        done("impute", data, "--index", "patient", *said, "-o", out, "--force")
        filled = pd.read_csv(out, keep_default_na=False) if ending == ".csv" else pd.read_parquet(out)
        seen = frame["pain"].notna().to_numpy()
        assert filled["pain"].to_numpy()[seen].tolist() == frame["pain"][seen].tolist()
        assert set(filled["pain"]) == set(order)


def test_labels_that_only_some_parts_have_are_kept(tmp_path: Path) -> None:
    frame = table()
    frame["pain"] = np.where(frame["a"] > 0, "None", "Mild")
    frame.loc[frame.index[:60], "pain"] = "Mild"
    frame["town"] = "Rome"
    frame.loc[frame.index[::2], "town"] = "None"
    frame.to_csv(tmp_path / "t.csv")
    words = ["--index", "patient", "--not-missing", "pain=None", *options()]
    said = done("fit", tmp_path / "t.csv", *words, "-o", tmp_path / "m").output
    assert "one label only in 1 column ('town')" in said
    assert load(tmp_path / "m").classes_["pain"].tolist() == ["Mild", "None"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_what_means_missing_in_one_column_of_a_large_file(
    ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is in some parts only is in the table; a model reads other files alike, and several are read as one."""
    data, made, out = tmp_path / f"t{ending}", tmp_path / "m.sshiba", tmp_path / f"out{ending}"
    frame = table()
    frame["dose"] = np.nan_to_num(frame["count"], nan=99.0)
    frame.loc[["p3", "p200"], ["dose", "count"]] = 99.0
    frame.loc["p231", "a"] = 77.5
    (frame.to_csv if ending == ".csv" else frame.to_parquet)(data)
    missing = ["--missing", "dose=99", "--missing", "a=77.5", "--missing", "b=12", "--index", "patient"]
    done("fit", data, *missing, *options(), "-o", made)
    said = "missing by --missing: 1 cell of 'a', 4 cells of 'dose'"
    assert [message for message in caplog.messages if "--missing" in message] == [
        said,
        "--missing: no cell of 'b' is '12'.",
    ]
    assert int(load(made).fitted_.schema.codings["numeric"].observed_per_feature[-1]) == N - 4
    caplog.clear()
    done("impute", data, "--model", made, "-o", out)
    filled = pd.read_csv(out) if ending == ".csv" else pd.read_parquet(out)
    assert (filled["count"] == 99).sum() == 2
    assert (filled["dose"] == 99).sum() == 0
    assert said in caplog.messages
    caplog.clear()
    parts = [tmp_path / f"one{ending}", tmp_path / f"two{ending}"]
    for part, path in zip((frame.iloc[:, :6], frame.iloc[:, 6:]), parts):
        (part.to_csv if ending == ".csv" else part.to_parquet)(path)
    done("fit", *parts, *missing, *options(), "-o", made, "--force")
    assert [message for message in caplog.messages if "--missing" in message] == [
        said,
        "--missing: no cell of 'b' is '12'.",
    ]
