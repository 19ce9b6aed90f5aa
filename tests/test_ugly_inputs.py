"""What the suites of torture/ found, each with the smallest data that show it."""

import base64
import gc
import hashlib
import json
import os
import re
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import sshiba
from large_cases import run
from safetensors.numpy import save as save_arrays
from samples import BITS, LABELS, NUMBERS, N, frame

from sshiba import SSHIBA, ModelFileError, Real, load
from sshiba.cli.terminal import Expectation
from sshiba.core.likelihoods.poisson_predictive import moments
from sshiba.core.rigid import with_angle
from sshiba.data.advice import DataError, DataTypeError
from sshiba.data.arrow_tables import Arrow
from sshiba.engines.protocol import FULL, Accuracy
from sshiba.files import tables
from sshiba.files.formats import FileError
from sshiba.files.reading_options import Reading
from sshiba.files.writing import write
from sshiba.fitted import fitted, kernel_choice, search, short_fits, training
from sshiba.fitted.candidates import Candidate
from sshiba.fitting import restarts
from sshiba.paper.experiment_cells import write_whole
from torture.strangers import ARRAYS, JSON, packed, whole

FEW = {"max_iter": 5, "search": None, "random_state": 0}


def fit(views: Any, /, **options: Any) -> SSHIBA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        return SSHIBA(2, **{**FEW, **options}).fit(views)


def test_columns_called_true_are_refused() -> None:
    """pandas takes [True] for a mask of rows, and True for 1."""
    for given in (frame().set_axis([True, "b", "c"], axis=1), {"x": frame().set_axis(["a", False, "c"], axis=1)}):
        with pytest.raises(TypeError, match="column names must be text or numbers"):
            fit(given)


@pytest.mark.parametrize("order", [">f8", ">i4"])
def test_numbers_of_another_byte_order_are_numbers(order: str) -> None:
    given = np.round(NUMBERS * 100).astype(order)
    expected = fit({"x": given.astype(float), "y": LABELS})
    for foreign in (given, pd.DataFrame(given)):
        found = fit({"x": foreign, "y": LABELS})
        np.testing.assert_allclose(found.factors_, expected.factors_)
        np.testing.assert_array_equal(np.asarray(found.impute({"x": foreign})["x"]), given)


def test_labels_of_rows_of_one_and_two_levels_do_not_match() -> None:
    two = pd.MultiIndex.from_arrays([range(N), range(N)])
    with pytest.raises(ValueError, match="different numbers of levels"):
        fit({"x": frame(), "y": frame().set_index(two), "z": BITS})


def test_factors_of_another_shape_are_refused() -> None:
    model = fit({"x": NUMBERS})
    k = model.n_components_
    for z in (None, "x", 1.0, np.ones((1, k + 1)), np.full((2, k), np.nan)):
        with pytest.raises(ValueError, match="rows by the"):
            model.from_factors(z)


def test_dask_beside_memory_is_scored_row_by_row() -> None:
    da = pytest.importorskip("dask.array")
    views = {"x": NUMBERS, "y": frame(NUMBERS[:, :2], "ab", range(N))}
    model = fit(views)
    lazy = {**views, "x": da.from_array(NUMBERS, chunks=(5, 3))}
    np.testing.assert_allclose(model.score_samples(lazy), model.score_samples(views))
    arrays = {"x": lazy["x"], "y": NUMBERS[:, :2]}
    np.testing.assert_allclose(np.asarray(model.score_samples(arrays)), model.score_samples(views))
    with pytest.raises(ValueError, match="draws need rows in memory"):
        model.impute(arrays, n_draws=2)
    with pytest.raises(ValueError, match="different numbers of rows"):
        model.predict({"x": lazy["x"], "y": NUMBERS[:5, :2]})


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_margins_are_chosen_in_any_unit(unit: float) -> None:
    skewed = np.exp(np.random.default_rng(0).normal(size=(60, 2)))
    model = fit({"x": skewed * unit}, views={"x": Real(margin="auto")})
    assert set(model.margins_["x"].values()) == {"log"}


def test_deviations_of_frames_where_training_had_arrays() -> None:
    pl = pytest.importorskip("polars")
    model = fit({"x": NUMBERS})
    given = pl.DataFrame({name: NUMBERS[:, j] for j, name in enumerate("abc")})
    filled, std = model.impute({"x": given}, return_std=True)
    assert filled["x"].shape == std["x"].shape == NUMBERS.shape


def test_copies_of_mudata_do_not_warn() -> None:
    mudata, anndata = pytest.importorskip("mudata"), pytest.importorskip("anndata")
    with warnings.catch_warnings(action="ignore"):
        given = mudata.MuData({"x": anndata.AnnData(NUMBERS.copy()), "y": anndata.AnnData(NUMBERS[:, :2] + 1)})
    model = fit(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        model.impute(given, return_std=True)


def test_models_with_a_kernel_are_described(tmp_path: Path) -> None:
    frame().assign(y=NUMBERS[:, 0] ** 2).to_csv(tmp_path / "t.csv", index_label="id")
    views = ["--view", "x=a,b,c:real", "--view", "y=y:real", "--kernel", "x=rbf"]
    done = sshiba("fit", "t.csv", "--index", "id", *views, "--max-time", 1, "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kernel features" in sshiba("info", "m.sshiba", cwd=tmp_path).stdout
    assert load(tmp_path / "m.sshiba").views_


def test_long_texts_and_names_are_cut_in_messages(tmp_path: Path) -> None:
    table = frame().astype(object)
    table.iloc[3, 1] = "x" * 3000
    table.to_csv(tmp_path / "t.csv", index_label="id")
    done = sshiba("fit", "t.csv", "--index", "id", "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr) < 500, done.stderr
    done = sshiba("fit", "y" * 300 + ".csv", "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 2
    assert "Errno" not in done.stderr
    assert len(done.stderr) < 500, done.stderr


def test_formulas_are_escaped_for_spreadsheets(tmp_path: Path) -> None:
    table = pd.DataFrame(NUMBERS, columns=["=a", "b", "c"]).assign(who=np.where(NUMBERS[:, 0] > 0, "=1+1", "@lo"))
    table.index = pd.Index([f"+r{i}" for i in range(N)], name="-id")
    table.loc["+r3", ["b", "who"]] = None
    table.to_csv(tmp_path / "t.csv")
    words = ["impute", "t.csv", "--index=-id", "--max-time", 1, "-o"]
    assert sshiba(*words, "plain.csv", cwd=tmp_path).returncode == 0
    assert sshiba(*words, "safe.csv", "--spreadsheet-safe", cwd=tmp_path).returncode == 0
    plain, safe = (pd.read_csv(tmp_path / name, dtype=str) for name in ("plain.csv", "safe.csv"))
    assert set(plain["who"]) == {"=1+1", "@lo"}
    assert list(safe.columns) == ["'-id", "'=a", "b", "c", "who"]
    assert set(safe["who"]) == {"'=1+1", "'@lo"}
    assert safe["'-id"].tolist() == [f"'+r{i}" for i in range(N)]
    assert safe["c"].tolist() == plain["c"].tolist()  # negative numbers stay numbers


def test_scripts_of_the_report_are_named_by_their_hashes(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    model = fit(frame().rename(columns={"a": "</script><script>alert(1)</script>"}))
    model.report(tmp_path / "r.html", title="<img src=x onerror=alert(1)>")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == 2
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert "alert(1)</script>" not in page
    assert "<img" not in page


def forged(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Path:
    path.write_bytes(packed([(JSON, json.dumps(header).encode()), (ARRAYS, save_arrays(arrays))]))
    return path


def test_forged_models_are_refused(tmp_path: Path) -> None:
    """Each was read, or ended in an error of another kind."""
    _, raw, header, arrays, _ = whole()
    path = tmp_path / "m.sshiba"
    assert load(forged(path, header, arrays)).n_components_ > 0
    for name, value in (
        ("0.w_mean", np.nan),
        ("factors", np.inf),
        ("0.scale", 0.0),
        ("0.b_var", -1.0),
        ("3.tau.rate", -1),
    ):
        spoilt = {**arrays, name: arrays[name].copy()}
        spoilt[name].reshape(-1)[0] = value
        with pytest.raises(ModelFileError, match="numbers that cannot be"):
            load(forged(path, header, spoilt))
    kernel = [{**twin, "kernel": "odd"} for twin in header["twins"]]
    for changed in ({"n_rows": float("inf")}, {"version": 0}, {"version": [0] * 5000}, {"twins": kernel}):
        with pytest.raises(ModelFileError) as caught:
            load(forged(path, {**header, **changed}, arrays))
        assert len(str(caught.value)) < 1000
    encrypted = bytearray(raw)
    encrypted[6] |= 1
    encrypted[raw.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(ModelFileError):
        load(path)


def test_a_loaded_model_answers_to_the_last_bit(tmp_path: Path) -> None:
    """Weights lay in another order in memory than in a file, and products differed in the last digit."""
    model, raw, _, _, views = whole()
    (tmp_path / "m.sshiba").write_bytes(raw)
    given = {name: views[name] for name in ("x", "k", "batch")}
    np.testing.assert_array_equal(load(tmp_path / "m.sshiba").transform(given), model.transform(given))


# ----------------------------------------------------------------------------------- killed, limited, side by side


def test_rights_of_files_need_no_change_of_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of all threads: two that asked for it at a time left the process without any."""
    mask = os.umask(0o027)
    try:
        with monkeypatch.context() as patched:
            patched.delattr(os, "umask")
            write(frame(), str(tmp_path / "out.csv"))
        assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(mask)
    assert os.listdir(tmp_path) == ["out.csv"]


def test_sigterm_ends_a_fit_as_ctrl_c_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_csv(tmp_path / "x.csv", index_label="id")
    ends = [lambda: os.kill(os.getpid(), signal.SIGTERM)]
    monkeypatch.setattr(Expectation, "__call__", lambda *_: ends.pop()() if ends else None)
    words = ["fit", tmp_path / "x.csv", "--index", "id", "--components", 2, "--keep", "all"]
    result = run(*words, "-o", tmp_path / "m.sshiba")
    assert result.exit_code == 1, result.output
    assert "--resume" in result.output
    assert load(tmp_path / "m.sshiba").inits_["interrupted"].all()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_workbook_on_a_full_disk_is_an_error_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zip was closed again when it was let go, which said so on standard error."""
    again: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", again.append)
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(frame(), str(tmp_path / "out.xlsx"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    gc.collect()
    assert again == []
    assert os.listdir(tmp_path) == []


def test_what_reproduce_writes_leaves_no_half(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "index.html", b"page")
    assert os.listdir(tmp_path) == ["index.html"]


def test_short_fits_and_kernels_are_part_of_max_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them had the time of all, and the choice of kernels was not counted, or not limited, at all."""
    calls: dict[str, list[tuple[float, float]]] = {"short": [], "full": []}  # when, and until when
    search_began: list[float] = []
    began = time.perf_counter()

    def seconds() -> float:
        return time.perf_counter() - began

    for name, module in (("short", short_fits), ("full", restarts)):

        def timed(
            rows: Any, start: Any, options: Any, *more: Any, own: Any = module.run, to: Any = calls[name], **named
        ):
            to.append((seconds(), seconds() + options.max_time))
            return own(rows, start, options, *more, **named)

        monkeypatch.setattr(module, "run", timed)
    own_search = training.run_search
    monkeypatch.setattr(training, "run_search", lambda *given: search_began.append(seconds()) or own_search(*given))
    monkeypatch.setattr(short_fits, "SHORT", 20)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3))
    views = {"x": x, "y": x @ rng.standard_normal((3, 3)) + rng.standard_normal((50, 3))}
    several = [Candidate(), Candidate(keep="all")]
    fit(views, views={"x": Real(kernel="rbf", landmarks=5)}, max_time=6000.0, search=several)
    when, until = np.transpose(calls["short"])
    is_kernel = when < search_began[0]
    for own, share in ((is_kernel, kernel_choice.KERNEL_SHARE), (~is_kernel, search.SEARCH_SHARE)):
        assert own.sum() > 1
        assert np.ptp(until[own]) < 0.5 * np.ptp(when[own])
        assert (until[own] - when[own] <= share * 6000).all()
    for started, end in calls["full"]:
        assert end - 6000 < 0.5 * started


def test_factors_are_inferred_roughly_once_max_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """To settle them all took longer than the sweeps."""
    found: list[Accuracy] = []
    own = fitted.infer_factors
    monkeypatch.setattr(fitted, "infer_factors", lambda *given: found.append(given[-1]) or own(*given))
    views = {"x": NUMBERS, "bits": BITS}
    fit(views)
    short = fit(views, max_time=0.0)
    assert found[0] == FULL
    assert found[1].z_tol > 1e4 * FULL.z_tol
    assert found[1].max_rounds == 1  # a tenth of its sweeps
    assert np.isfinite(short.factors_).all()


@pytest.mark.parametrize("dtype", ["float64", "Int64", "boolean", "object", "string"])
def test_a_column_of_labels_without_any_value_is_filled(dtype: str) -> None:
    """pandas reads an empty column as numbers, whatever the model knows it to be."""
    numbers = frame()
    labels = pd.DataFrame({"k": np.where(NUMBERS[:, 0] > 0, "hi", "lo")}, index=numbers.index)
    model = fit({"x": numbers, "k": labels})
    empty = pd.DataFrame({"k": pd.Series([None] * len(numbers), numbers.index).astype(dtype)})
    filled = model.impute({"x": numbers, "k": empty})["k"]["k"]
    assert set(filled) <= {"hi", "lo"}
    assert list(filled) == list(model.predict({"x": numbers}, "k")["k"])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_far_beyond_single_precision_are_refused_in_one_sentence() -> None:
    model = fit({"x": NUMBERS}, dtype="float32")
    with pytest.raises(ValueError, match="far-off"):
        model.transform({"x": NUMBERS * 1e300})


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_counts_beyond_all_bounds_have_finite_moments() -> None:
    mean, std = moments(np.array([900.0, 300.0, 0.0]), np.array([1.0, 600.0, 900.0]))
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_view_of_few_rows_may_be_missing_in_a_fold(with_search: None) -> None:
    """Five rows of sixty: some of the four folds have none of them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    for seed in range(8):
        rare = np.full((60, 4), np.nan)
        rows = rng.permutation(60)[:5]
        rare[rows] = x[rows] + rng.standard_normal((5, 4))
        SSHIBA(2, random_state=seed).fit({"x": x, "rare": rare})


def test_a_workbook_whose_parts_cannot_be_unpacked_is_refused(tmp_path: Path) -> None:
    """The zip itself is whole: what is packed in it is not."""
    frame().to_excel(tmp_path / "t.xlsx")
    content = bytearray((tmp_path / "t.xlsx").read_bytes())
    sheet = content.index(b"xl/worksheets/sheet1.xml") + len(b"xl/worksheets/sheet1.xml")
    content[sheet : sheet + 40] = bytes([0b110] * 40)  # a kind of block that deflate does not have
    (tmp_path / "t.xlsx").write_bytes(content)
    done = sshiba("fit", "t.xlsx", "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 2
    assert "is no .xlsx file, or is damaged" in done.stderr.replace("\n", " ")


def test_a_word_in_a_column_of_numbers_of_an_arrow_table_stays() -> None:
    """Filled with numbers the column has two kinds of cells, which Arrow cannot hold."""
    pyarrow = pytest.importorskip("pyarrow")
    read = pd.DataFrame({"a": ["lo", None, "0.5"], "b": [0.1, 0.2, 0.3]})
    filled = pd.DataFrame({"a": ["lo", 0.25, "0.5"], "b": [0.1, 0.2, 0.3]})
    table = Arrow().filled(filled, pyarrow.table({name: read[name] for name in read}), read)
    assert table.to_pydict() == {"a": ["lo", "0.25", "0.5"], "b": [0.1, 0.2, 0.3]}


@pytest.mark.parametrize("header", ["{'descr': '<f8', \x1a'fortran_order': False, 'shape': (3,), }", "{'descr': ("])
def test_a_damaged_header_of_an_array_is_refused(header: str, tmp_path: Path) -> None:
    """On newer Pythons NumPy's reader ends in an error of its own."""
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(24))
    with pytest.raises(ValueError, match="damaged"):
        fit({"x": str(path)})


def test_a_table_that_asks_for_more_memory_than_there_is_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forged(*given: Any, **named: Any) -> None:
        raise MemoryError("malloc of size 1880844493789993536 failed")

    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", forged)
    with pytest.raises(FileError, match="damaged, or needs more memory"):
        tables.read(str(path), Reading())


def test_a_feather_file_with_forged_sizes_is_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    offsets = np.array([0, 1, 2**30, 2**30 + 1], dtype=np.int32)
    with arrow.OSFile(str(tmp_path / "t.feather"), "wb") as sink:
        table = arrow.table({"a": arrow.array(["x", "yy", "z"])})
        with arrow.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
    content = (tmp_path / "t.feather").read_bytes()
    whole = np.array([0, 1, 3, 4], dtype=np.int32).tobytes()
    assert whole in content
    (tmp_path / "t.feather").write_bytes(content.replace(whole, offsets.tobytes()))
    with pytest.raises(FileError, match="damaged"):
        tables.read(str(tmp_path / "t.feather"), Reading())


@pytest.mark.parametrize("cell", [b"bytes", frozenset([1])])
def test_what_is_no_number_beside_cells_beyond_a_limit_is_refused(cell: object) -> None:
    """Cells such as <0.5 are read as the limit; the others must be numbers."""
    frame = pd.DataFrame({"a": ["<0.5", cell, *np.arange(1.0, 9.0)], "b": np.arange(10.0)}, dtype=object)
    with pytest.raises((DataError, DataTypeError), match="'a'"):
        SSHIBA(views={"x": Real(limits={"a": (0.5, None)})}).fit({"x": frame})


def test_copies_are_looked_for_whatever_rows_are_called() -> None:
    x = np.repeat(np.random.default_rng(0).standard_normal(30), 2).reshape(30, 2)
    names = pd.Index([(1, 2), frozenset([3]), b"x", *range(27)], dtype=object, tupleize_cols=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert SSHIBA(1, max_iter=3, search=None).fit(pd.DataFrame(x, names, ["a", "b"])).factors_.shape == (30, 1)


def test_the_variance_of_an_angle_does_not_overflow() -> None:
    huge = np.array([1e200])
    h1, h2, h12 = with_angle(huge, huge, 0.5 * huge, lambda variance: variance)
    np.testing.assert_allclose([h1, h2, h12], [huge, huge, 0.5 * huge])
