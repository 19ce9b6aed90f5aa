"""Rows that are read when they are needed: the same fit as in memory, in little memory, with clear errors."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anndata
import dask.array
import dask.dataframe
import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sshiba import SSHIBA, row_parts
from sshiba.core import machine, scratch, sparse_rows
from sshiba.core.coded import CodedView, shrink_mask
from sshiba.core.holes import Holes, HoleSums
from sshiba.core.machine import memory_limit
from sshiba.core.scratch import Scratch, ScratchError, in_scratch
from sshiba.core.streamed import StreamedView, class_codes
from sshiba.data import sparse_files
from sshiba.data.reading import read_training
from sshiba.data.rows_at import RowsAt
from sshiba.data.sources import ArraySource, SourceError
from sshiba.engines import factory

N, D = 300, 12
BLOCKS_IN_MEMORY = factory.BLOCKS_IN_MEMORY
LITTLE = 40_000  # bytes: less than two copies of the rows


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of some kilobytes are allowed, and make blocks of some ten rows, not of one."""
    monkeypatch.setattr(machine, "LEAST", 1000)
    monkeypatch.setattr(factory, "BLOCKS_IN_MEMORY", 4)


def draw(seed: int = 0) -> dict[str, Any]:
    """Numbers, the same with holes, yes / no with holes, and classes, from three factors."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((N, 3))
    x = z @ rng.standard_normal((3, D)) + 0.5 * rng.standard_normal((N, D))
    holes = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    bits = (z @ rng.standard_normal((3, 4)) > 0).astype(float)
    bits[rng.random(bits.shape) < 0.1] = np.nan
    classes = np.array(list("abcd"))[(z @ rng.standard_normal((3, 4))).argmax(axis=1)]
    return {"x": x, "holes": holes, "bits": bits, "classes": classes}


DATA = draw()


def fit(views: Any, limit: Any = None, **options: Any) -> SSHIBA:
    options = {"max_iter": 12, "tol": 1e-5} | options
    return SSHIBA(5, random_state=0, search=None, max_memory=limit, **options).fit(views)


def assert_same_fit(ours: SSHIBA, theirs: SSHIBA, atol: float = 1e-7) -> None:
    assert ours.elbo_ == pytest.approx(theirs.elbo_, rel=1e-9)
    assert ours.n_components_ == theirs.n_components_
    np.testing.assert_allclose(np.asarray(ours.factors_), np.asarray(theirs.factors_), rtol=0, atol=atol)
    for name, weights in theirs.weights_.items():
        np.testing.assert_allclose(np.asarray(ours.weights_[name]), np.asarray(weights), rtol=0, atol=1e-8)


# ------------------------------------------------------------------------------------------------ the same fit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def npy(folder: Path, values: np.ndarray) -> Any:
    np.save(folder / "x.npy", values)
    return np.load(folder / "x.npy", mmap_mode="r")


def npy_part(folder: Path, values: np.ndarray) -> Any:
    """A slice of a larger map, from row 7 on."""
    np.save(folder / "x.npy", np.vstack([np.full((7, values.shape[1]), 1e6), values]))
    return np.load(folder / "x.npy", mmap_mode="r")[7:]


def raw_map(folder: Path, values: np.ndarray) -> Any:
    """Bytes behind a header of an odd length."""
    (folder / "x.raw").write_bytes(b"#" * 5003 + values.tobytes())
    return np.memmap(folder / "x.raw", values.dtype, "r", 5003, values.shape)


def fortran(folder: Path, values: np.ndarray) -> Any:
    return npy(folder, np.asfortranarray(values))


def path_of_npy(folder: Path, values: np.ndarray) -> Any:
    np.save(folder / "x.npy", values)
    return str(folder / "x.npy")


def hdf5(folder: Path, values: np.ndarray) -> Any:
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("a/b", data=values, chunks=(50, D), compression="gzip")
    return h5py.File(folder / "x.h5")["a/b"]


def path_of_hdf5(folder: Path, values: np.ndarray) -> Any:
    hdf5(folder, values)
    return folder / "x.h5"


def zarr_array(folder: Path, values: np.ndarray) -> Any:
    zarr = pytest.importorskip("zarr")
    array = zarr.open_array(str(folder / "x.zarr"), mode="w", shape=values.shape, chunks=(64, 5), dtype=values.dtype)
    array[:] = values
    return folder / "x.zarr"


def dask_array(folder: Path, values: np.ndarray) -> Any:
    return dask.array.from_array(values, chunks=(70, 5))


def dask_of_unknown_lengths(folder: Path, values: np.ndarray) -> Any:
    return dask.dataframe.from_pandas(pd.DataFrame(values), npartitions=4).to_dask_array()


def function(folder: Path, values: np.ndarray) -> Any:
    return lambda: (values[start : start + 37] for start in range(0, N, 37))


ARRAYS = [
    npy,
    npy_part,
    raw_map,
    fortran,
    path_of_npy,
    hdf5,
    path_of_hdf5,
    zarr_array,
    dask_array,
    dask_of_unknown_lengths,
    function,
]


@pytest.mark.parametrize("store", ARRAYS, ids=lambda store: store.__name__)
def test_an_array_elsewhere_is_fitted_as_in_memory(store: Callable, tmp_path: Path) -> None:
    ours = fit({"x": store(tmp_path, DATA["holes"])}, LITTLE)
    assert_same_fit(ours, fit({"x": DATA["holes"]}))
    assert isinstance(ours.factors_, np.ndarray)


@pytest.mark.parametrize("engine", ["memory", "gram"])
def test_complete_numbers(engine: str, tmp_path: Path) -> None:
    assert_same_fit(fit({"x": npy(tmp_path, DATA["x"])}, LITTLE, engine=engine), fit({"x": DATA["x"]}, engine=engine))


@pytest.mark.parametrize(("numbers", "missing"), [("x", "exact"), ("holes", "exact"), ("holes", "mean-field")])
def test_labels_beside_numbers_with_q_x_in_a_scratch_file(numbers: str, missing: str, tmp_path: Path) -> None:
    views = {name: DATA[name] for name in (numbers, "bits", "classes")}
    np.save(tmp_path / "bits.npy", DATA["bits"])
    files = {**views, numbers: npy(tmp_path, DATA[numbers]), "bits": np.load(tmp_path / "bits.npy", mmap_mode="r")}
    options = {"missing": missing, "max_iter": 5}
    assert_same_fit(fit(files, LITTLE, **options), fit(views, **options), atol=1e-6)


def test_arrays_in_memory_are_not_copied_where_there_is_no_room() -> None:
    views = {"x": DATA["x"], "bits": DATA["bits"]}
    assert_same_fit(fit(views, LITTLE), fit(views), atol=1e-6)


def test_single_precision(tmp_path: Path) -> None:
    stored = npy(tmp_path, DATA["holes"].astype(np.float32))
    ours, theirs = fit({"x": stored}, LITTLE, dtype="float32"), fit({"x": np.array(stored)}, dtype="float32")
    assert ours.elbo_ == pytest.approx(theirs.elbo_, rel=1e-6)


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables of named rows in different orders; some rows are in one of them only."""
    rng = np.random.default_rng(1)
    names = np.array([f"row {i}" for i in range(N)])
    first, second = rng.permutation(N)[: N - 20], rng.permutation(N)[: N - 30]
    left = pd.DataFrame(DATA["holes"][first], names[first], [f"a{j}" for j in range(D)])
    right = pd.DataFrame(DATA["x"][second, :6], names[second], [f"b{j}" for j in range(6)])
    return left, right


@pytest.mark.parametrize("limit", [LITTLE, None])
def test_files_are_matched_by_the_names_of_rows(limit: int | None, tmp_path: Path) -> None:
    left, right = frames()
    left.to_parquet(tmp_path / "left.parquet", row_group_size=70)
    (tmp_path / "right").mkdir()
    for k, part in enumerate(np.array_split(np.arange(len(right)), 3)):
        right.iloc[part].to_parquet(tmp_path / "right" / f"part {k}.parquet")
    files = {"left": tmp_path / "left.parquet", "right": tmp_path / "right"}
    ours, theirs = fit(files, limit), fit({"left": left, "right": right})
    assert_same_fit(ours, theirs)
    assert list(ours.factors_.index) == list(theirs.factors_.index)
    pd.testing.assert_frame_equal(ours.transform(files), theirs.transform({"left": left, "right": right}))


def test_one_table_in_a_file(tmp_path: Path) -> None:
    table = pd.DataFrame(DATA["holes"], columns=[f"a{j}" for j in range(D)])
    table["who"] = pd.Series(DATA["classes"]).mask(np.arange(N) % 7 == 0)
    table["smokes"] = np.where(DATA["x"][:, 0] > 0, "yes", "no")
    table.to_parquet(tmp_path / "t.parquet", row_group_size=90)
    ours, theirs = fit(tmp_path / "t.parquet", LITTLE), fit(table)
    assert_same_fit(ours, theirs, atol=1e-6)
    assert list(ours.views_) == list(theirs.views_)
    filled, expected = ours.impute(tmp_path / "t.parquet"), theirs.impute(table)
    pd.testing.assert_frame_equal(filled, expected, rtol=1e-5)
    proba = ours.predict_proba(tmp_path / "t.parquet", "who")
    pd.testing.assert_frame_equal(proba, theirs.predict_proba(table, "who"), rtol=1e-5)


def test_parts_of_a_dask_frame() -> None:
    left, _ = frames()
    left = left.sort_index()
    parts = dask.dataframe.from_pandas(left, npartitions=4)
    ours, theirs = fit({"left": parts}, LITTLE), fit({"left": left})
    assert_same_fit(ours, theirs)
    assert list(ours.factors_.index) == list(left.index)
    np.testing.assert_allclose(ours.transform({"left": parts}), theirs.transform({"left": left}), atol=1e-10)


def test_an_annotated_matrix_that_lies_in_a_file(tmp_path: Path) -> None:
    left, _ = frames()
    whole = anndata.AnnData(left.to_numpy(), pd.DataFrame(index=left.index), pd.DataFrame(index=left.columns))
    whole.write(tmp_path / "left.h5ad")
    backed = anndata.read_h5ad(tmp_path / "left.h5ad", backed="r")
    ours, theirs = fit(backed, LITTLE), fit(whole)
    assert_same_fit(ours, theirs)
    np.testing.assert_allclose(ours.impute(backed).X, theirs.impute(whole).X, atol=1e-10)
    assert list(ours.weights_["X"].index) == list(left.columns)


def test_an_annotated_matrix_that_comes_in_chunks() -> None:
    """Without a cluster. Its columns get names; the chunks keep theirs."""
    left, _ = frames()
    obs, var = pd.DataFrame(index=left.index), pd.DataFrame(index=left.columns)
    chunks = anndata.AnnData(dask.array.from_array(left.to_numpy(), chunks=(70, D)), obs, var)
    ours, theirs = fit(chunks, LITTLE), fit(anndata.AnnData(left.to_numpy(), obs, var))
    assert_same_fit(ours, theirs)
    assert list(ours.weights_["X"].index) == list(left.columns)


@pytest.mark.parametrize("layout", ["csr", "csc", "zarr"])
def test_a_sparse_matrix_that_lies_in_a_file(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_files, "SMALL", 0)
    monkeypatch.setattr(sparse_files, "CHUNK", 50)
    monkeypatch.setattr(sparse_rows, "CHUNK", 50)
    rng = np.random.default_rng(0)
    dense = np.exp(rng.normal(size=(90, 3)) @ rng.normal(size=(3, 12)) / 2) * (rng.random((90, 12)) < 0.3)
    dense[:, 4] = 1e6 + rng.random(90)  # a column that is stored throughout
    stored = sparse.csc_array(dense) if layout == "csc" else sparse.csr_array(dense)
    names = [f"c{i}" for i in range(90)]
    whole = anndata.AnnData(stored, pd.DataFrame(index=names))
    if layout == "zarr":
        zarr = pytest.importorskip("zarr")
        whole.write_zarr(tmp_path / "cells.zarr")
        X: Any = anndata.io.sparse_dataset(zarr.open_group(tmp_path / "cells.zarr", mode="r")["X"])
        ours, theirs = fit({"X": X}), fit({"X": stored})
        np.testing.assert_allclose(ours.transform({"X": X}), theirs.transform({"X": stored}), atol=1e-9)
    else:
        whole.write(tmp_path / "cells.h5ad")
        backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
        other = pd.DataFrame(dense[::-1, :2] + rng.normal(size=(90, 2)), names[::-1])  # the order of the first counts
        ours, theirs = (fit({"other": other, "X": data}) for data in (backed, whole))
        np.testing.assert_allclose(ours.transform({"X": backed}), theirs.transform({"X": whole}), atol=1e-9)
    assert_same_fit(ours, theirs, atol=1e-9)
    _, data, _ = read_training({"X": X if layout == "zarr" else backed})
    target: Any = data["X"].read(slice(0, 90)).target
    assert in_scratch(target.matrix.data)
    np.testing.assert_allclose(target @ np.eye(12), (dense - dense.mean(axis=0)) / dense.std(axis=0), atol=1e-6)
    some, turned = data["X"].read(slice(5, 9)).target, data["X"].take(np.arange(90)[::-1]).target
    assert all(in_scratch(own) for rows in (some, turned) for own in (rows.matrix.data, rows.matrix.indices))


def test_answers_about_rows_elsewhere(tmp_path: Path) -> None:
    model = fit({"x": DATA["holes"], "classes": DATA["classes"]})
    file = {"x": npy(tmp_path, DATA["holes"])}
    whole = {"x": DATA["holes"]}
    np.testing.assert_allclose(model.transform(file), model.transform(whole), atol=1e-10)
    np.testing.assert_allclose(model.impute(file)["x"], model.impute(whole)["x"], atol=1e-10)
    assert list(model.predict(file)["classes"]) == list(model.predict(whole)["classes"])
    assert model.score(file) == pytest.approx(model.score(whole), rel=1e-9)
    parts = list(row_parts(file, max_bytes=3000))
    assert len(parts) > 5
    np.testing.assert_array_equal(np.vstack([part["x"] for part in parts]), DATA["holes"])


def test_a_fit_that_was_stopped_goes_on(tmp_path: Path) -> None:
    stored = {"x": npy(tmp_path, DATA["holes"])}
    stopped = SSHIBA(5, random_state=0, search=None, max_iter=8, tol=1e-5, max_memory=LITTLE).fit(stored)
    gone_on = stopped.set_params(max_iter=12).resume(stored)
    assert gone_on.elbo_ == pytest.approx(fit({"x": DATA["holes"]}).elbo_, rel=1e-4)


# -------------------------------------------------------------------------------------------------- little memory


@pytest.mark.parametrize(
    ("n_holes", "labels"), [(0, False), (20, False), pytest.param(0, True, marks=pytest.mark.slow)]
)
def test_rows_are_never_all_in_memory(
    n_holes: int, labels: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single cells that are missing here and there put rows from all over the file into one block."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30_000, 3)) @ rng.standard_normal((3, 100)) + rng.standard_normal((30_000, 100))
    x[rng.choice(len(x), n_holes, replace=False), rng.integers(100, size=n_holes)] = np.nan
    stored = {"x": npy(tmp_path, x)} | ({"kind": npy_classes(tmp_path, x)} if labels else {})
    size = x.nbytes
    del x
    fit({"x": DATA["x"], "classes": DATA["classes"]}, LITTLE)  # imports and compiles
    monkeypatch.setattr("sshiba.engines.memory.keep_freed_memory", lambda _: None)  # takes memory and never touches it
    monkeypatch.setattr(factory, "BLOCKS_IN_MEMORY", BLOCKS_IN_MEMORY)
    tracemalloc.start()
    SSHIBA(5, random_state=0, search=None, max_iter=2, max_memory=size // 4).fit(stored)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * size


def npy_classes(folder: Path, x: np.ndarray) -> Any:
    np.save(folder / "kind.npy", (x[:, :3]).argmax(axis=1))
    return np.load(folder / "kind.npy", mmap_mode="r")


def test_scratch_files_have_no_name_and_hold_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    room = Scratch()
    arrays = [np.arange(n, dtype=float).reshape(-1, 2) for n in (10, 200, 0)]
    kept = [room.keep(array) for array in arrays]
    assert list(tmp_path.iterdir()) == []
    for one, other in zip(kept, arrays):
        np.testing.assert_array_equal(one, other)


def test_a_full_scratch_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(ScratchError, match=r"no room for a scratch file.*No space left.*TMPDIR"):
        Scratch().empty((10,), float)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("4GB", 4e9),
        ("500 MiB", 500 * 2**20),
        (3e9, 3e9),
        ("1.5gb", 1.5e9),
        ("20000", 20000),
        (np.int64(4e9), 4e9),
        (np.float32(3e9), 3e9),
        (".5 GB", 5e8),
        ("2.GB", 2e9),
    ],
)
def test_sizes_of_memory(given: Any, expected: float) -> None:
    assert memory_limit(given) == expected


@pytest.mark.parametrize("given", ["four", "4XB", True, [4], "-4GB", 12, "1.2.3GB", ".GB", "GB", np.nan, np.True_, 4j])
def test_sizes_that_are_none(given: Any) -> None:
    with pytest.raises(ValueError, match="max_memory must be"):
        memory_limit(given)


def test_by_default_a_share_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_memory", lambda: 10**9)
    assert memory_limit(None) == machine.SHARE * 10**9
    monkeypatch.setattr(machine, "free_memory", lambda: 0)
    assert memory_limit(None) == machine.LEAST


V1, V2 = machine.CONTAINER_FILES[1], machine.CONTAINER_FILES[0]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({V2[0]: "4000000", V2[1]: "3000000", V2[2]: "anon 1900000\ninactive_file 600000\n"}, 1_600_000),
        ({V1[0]: "4000000", V1[1]: "3000000", V1[2]: "inactive_file 9\ntotal_inactive_file 600000\n"}, 1_600_000),
        ({V2[0]: "4000000", V2[1]: "3000000"}, 1_000_000),
        ({V2[0]: "4000000"}, 4_000_000),
        ({V2[0]: "4000000", V2[1]: "5000000"}, 0),
        ({V2[0]: "max", V2[1]: "3000000"}, 8_192_000),
        ({V1[0]: "9223372036854771712", V1[1]: "3000000"}, 8_192_000),
        ({}, 8_192_000),
    ],
)
def test_free_memory_is_what_is_left_of_a_container(files: dict[str, str], expected: int, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "meminfo").write_text("MemTotal:       16384 kB\nMemAvailable:    8000 kB\nHugePages_Total: 0\n")
    assert machine.free_memory(tmp_path / "meminfo", tmp_path) == expected


def test_free_memory_of_a_system_that_says_less(tmp_path: Path) -> None:
    """Where there are no such files, it is all of the memory, or a guess; here the real ones are."""
    assert machine.free_memory(tmp_path / "none", tmp_path) >= machine.free_memory() > 10**7


# ---------------------------------------------------------------------------------------------------- lost rows


def while_fitting(stored: Any, harm: Callable[[], None], after: int = 3) -> SSHIBA:
    """A fit whose file is harmed after some sweeps; the model that is left."""
    sweeps = iter(range(1, 1000))

    def each_sweep(progress: Any) -> None:
        if next(sweeps) == after:
            harm()

    model = SSHIBA(5, random_state=0, search=None, max_iter=20, max_memory=LITTLE, engine="memory", callback=each_sweep)
    with pytest.raises(SourceError, match="The best state so far is kept") as error:
        model.fit({"x": stored})
    model.error = str(error.value)
    return model


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def change(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(2000)
        file.write(b"12345678")
    os.utime(path, ns=(1, 1))


HARMS = {"shrank": shrink, "was written to": change, "can no longer be read": Path.unlink}


@pytest.mark.parametrize("how", HARMS)
def test_a_file_that_changes_ends_the_fit_with_its_best_state(how: str, tmp_path: Path) -> None:
    model = while_fitting(npy(tmp_path, DATA["x"]), lambda: HARMS[how](tmp_path / "x.npy"))
    assert how in model.error
    assert "x.npy" in model.error
    assert model.n_components_ > 0
    assert np.isfinite(model.elbo_)
    assert np.isnan(model.factors_).all()  # the rows are gone
    np.save(tmp_path / "x.npy", DATA["x"])
    model.set_params(callback=None, max_iter=40).resume({"x": np.load(tmp_path / "x.npy", mmap_mode="r")})
    assert np.isfinite(model.factors_).all()
    assert model.elbo_ == pytest.approx(fit({"x": DATA["x"]}, engine="memory", max_iter=40).elbo_, rel=1e-3)


def test_a_full_disk_in_the_middle_ends_the_fit_with_its_best_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = scratch.open_segment, iter(range(1000))

    def open_segment(n_bytes: int) -> Any:
        if next(calls) > 4:
            raise ScratchError("there is no room for a scratch file of 1 GB.")
        return real(n_bytes)

    monkeypatch.setattr(scratch, "open_segment", open_segment)
    model = SSHIBA(3, random_state=0, search=None, max_iter=20, max_memory=LITTLE)
    with pytest.raises(ScratchError, match="The best state so far is kept"):
        model.fit({"x": npy(tmp_path, DATA["x"]), "bits": DATA["bits"]})
    assert np.isfinite(model.elbo_)


def test_a_function_that_yields_less_the_second_time(tmp_path: Path) -> None:
    calls = iter(range(100))

    def chunks() -> Iterator[np.ndarray]:
        n = N if next(calls) < 3 else N // 2
        return (DATA["x"][start : start + 50] for start in range(0, n, 50))

    with pytest.raises(SourceError, match="fewer rows"):
        fit({"x": chunks}, LITTLE, engine="memory")


# ------------------------------------------------------------------------------------------------- what is refused


def cube(folder: Path) -> Any:
    np.save(folder / "x.npy", np.zeros((3, 3, 3)))
    return folder / "x.npy"


def two_arrays(folder: Path) -> Any:
    with h5py.File(folder / "x.h5", "w") as file:
        file["a"], file["b"] = DATA["x"], DATA["x"]
    return folder / "x.h5"


def other_columns(folder: Path) -> Any:
    pd.DataFrame({"a": [1.0]}).to_parquet(folder / "1.parquet")
    pd.DataFrame({"b": [1.0]}).to_parquet(folder / "2.parquet")
    return folder


def letters(folder: Path) -> Any:
    (folder / "x.doc").write_text("Dear reader")
    return folder / "x.doc"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (cube, "3 dimensions"),
        (two_arrays, "holds the arrays.*Give one"),
        (other_columns, "different columns"),
        (letters, r"is no \.npy"),
        (lambda folder: folder / "none.npy", "there is no file"),
        (lambda folder: lambda: iter(()), "yields no rows"),
        (lambda folder: lambda: 3, "must yield chunks"),
        (lambda folder: lambda: [np.zeros((2, 2, 2))], "1 or 2 dimensions"),
    ],
)
def test_what_is_no_view_is_refused_in_one_sentence(make: Callable, message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        fit({"x": make(tmp_path)}, LITTLE)


def test_cells_that_are_wrong_are_named_by_row(tmp_path: Path) -> None:
    x = DATA["x"].copy()
    x[251, 3] = np.inf
    with pytest.raises(ValueError, match=r"infinite.*251"):
        fit({"x": npy(tmp_path, x)}, LITTLE)


# ---------------------------------------------------------------------------------------------------- the parts


def test_holes_found_chunk_by_chunk_are_those_of_the_whole_mask() -> None:
    rng = np.random.default_rng(0)
    observed = rng.random((200, 9)) < 0.9
    observed[:, 4] = observed[:, 2]
    observed[50:60] = observed[7]
    whole = Holes.of(observed, 9)
    found = HoleSums.joined(
        [HoleSums.of(observed[a : a + 33], a, len(observed[a : a + 33]), 9) for a in range(0, 200, 33)]
    )
    np.testing.assert_array_equal(found.groups.index, whole.groups.index)
    assert same_partition(found.row_codes, whole.row_codes)


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    """Do two sets of codes make the same groups of rows?"""
    ours, theirs = (np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1) for codes in (a, b))
    return len(set(zip(ours, theirs))) == len(set(ours)) == len(set(theirs))


@pytest.mark.parametrize("places", [[5, 3, 9, -1, 0], [0, 2, -1, 7], [-1, -1], None])
def test_rows_at_other_places(places: list[int] | None) -> None:
    rng = np.random.default_rng(0)
    observed = rng.random((10, 3)) < 0.7
    view = CodedView(np.where(observed, rng.standard_normal((10, 3)), 0.0), observed)

    def read(start: int, stop: int) -> CodedView:
        return CodedView(view.target[start:stop].copy(), shrink_mask(view.observed[start:stop].copy()))

    rows = None if places is None else np.array(places)
    empty = CodedView(view.target[:0], None)
    elsewhere = StreamedView.of(read, 10, empty, 3, complete=False, chunk_bytes=100.0).at(rows)
    ours, theirs = elsewhere.gathered(), view.take(rows)
    np.testing.assert_array_equal(ours.target, theirs.target)
    seen = [np.broadcast_to(v.observed, v.target.shape) for v in (ours, theirs)]
    np.testing.assert_array_equal(*seen)
    np.testing.assert_array_equal(elsewhere.observed_rows, seen[1].any(axis=1))


@pytest.mark.parametrize("rows", [[7, 2, 2, 9_999, 5_000], range(0, 10_000, 50), range(10_000), [3], []])
@pytest.mark.parametrize("complete", [True, False])
def test_rows_here_and_there_are_read_no_more_than_a_chunk_at_a_time(rows: Any, complete: bool) -> None:
    rng = np.random.default_rng(0)
    whole = CodedView(rng.standard_normal((10_000, 4)), None if complete else rng.random((10_000, 4)) < 0.9)
    n_read = []

    def read(start: int, stop: int) -> CodedView:
        n_read.append(stop - start)
        return whole.read(slice(start, stop))

    view = StreamedView.of(read, 10_000, CodedView(whole.target[:0], None), 4, complete, chunk_bytes=100 * 36)
    places = np.array(rows, dtype=int)
    with_gaps = np.unique(places).repeat(2)
    with_gaps[1::2] = -1
    n_read.clear()
    found = [view.read(places), view.take(places), view.at(with_gaps).read(slice(0, len(with_gaps)))]
    for ours, at in zip(found, (places, places, with_gaps)):
        theirs = whole.take(at)
        np.testing.assert_array_equal(ours.target, theirs.target)
        np.testing.assert_array_equal(ours.seen_cells, theirs.seen_cells)
    assert max(n_read, default=0) <= view.chunk_rows


def test_rows_close_together_are_read_at_once() -> None:
    n_read = []

    def read(start: int, stop: int) -> CodedView:
        n_read.append(stop - start)
        return CodedView(np.zeros((stop - start, 4)), None)

    view = StreamedView.of(read, 10_000, CodedView(np.zeros((0, 4)), None), 4, complete=True, chunk_bytes=1e9)
    view.take(np.arange(0, 1000, 50))
    view.take(np.array([0, 9_999]))
    assert n_read == [951, 1, 1]


def test_class_codes_are_those_of_rows_in_memory_or_elsewhere() -> None:
    view = CodedView(np.array([2, 0, 1, 0]), np.array([[True], [False], [True], [True]]))
    empty = CodedView(view.target[:0], None)
    elsewhere = StreamedView.of(lambda a, b: view.read(slice(a, b)), 4, empty, 1, complete=False, chunk_bytes=20.0)
    for own in (view, elsewhere):
        assert class_codes(own).tolist() == [2, -1, 1, 0]
    assert class_codes(CodedView(view.target, None)).tolist() == [2, 0, 1, 0]


@pytest.mark.parametrize("places", [range(0, N, 9), [0, -1, 3, 4, -1, N - 1], [-1], range(N)])
def test_rows_of_a_file_that_others_lack_are_not_all_read_at_once(places: Any, tmp_path: Path) -> None:
    """Rows that are matched by their names, before they are coded."""
    source, n_read = ArraySource(npy(tmp_path, DATA["x"]), "x"), []
    source.keep_to(20 * machine.CHUNKS_IN_MEMORY * source.row_bytes)
    read, at = source.read, np.array(places)

    def counted(start: int, stop: int) -> pd.DataFrame:
        n_read.append(stop - start)
        return read(start, stop)

    source.read = counted
    found = RowsAt(source, at, pd.RangeIndex(len(at))).read(0, len(at))
    np.testing.assert_array_equal(found, np.where(at[:, None] < 0, np.nan, DATA["x"][at]))
    assert max(n_read) <= 20
