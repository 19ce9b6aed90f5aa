"""Several files side by side, together too large for memory: as in memory."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from large_cases import N, codings_of, done, everything_is_large, options, refused, table

from sshiba import SSHIBA, load
from sshiba.data import rows_at
from sshiba.data.rows_at import RowsAt
from sshiba.data.source_formats import find_source
from sshiba.files import long_joined, opening

__all__ = ["everything_is_large"]  # a fixture for all tests here


def halves() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables of the same rows; the second in another order, without some of them, and with others."""
    whole = table()
    second = whole[["c", "d", "count", "sex", "ill"]].sample(frac=0.9, random_state=0)
    more = second.iloc[:5].set_axis([f"new {i}" for i in range(5)])
    return whole[["a", "b", "e"]], pd.concat([second, more]).rename_axis("patient")


def write(folder: Path, frames: tuple[pd.DataFrame, ...], ending: str) -> list[object]:
    paths = [folder / f"{name}{ending}" for name in "ab"]
    for path, frame in zip(paths, frames):
        frame.to_csv(path) if ending == ".csv" else frame.to_parquet(path, row_group_size=70)
    return [*paths, "--index", "patient"]


@pytest.mark.parametrize("ending", [pytest.param(".csv", marks=pytest.mark.slow), ".parquet"])
def test_files_side_by_side(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    words, made = write(tmp_path, halves(), ending), tmp_path / "m.sshiba"
    monkeypatch.setattr(long_joined, "PART", 4000)
    joined = pd.concat(halves(), axis=1)
    done("fit", *words, *options(), "-o", made)
    model = load(made)
    assert list(model.index_) == list(joined.index)
    parts = {"a columns": list("abe"), "b numeric": ["c", "d", "count"], "b binary": ["ill"]}
    assert {name: list(own) for name, own in model.feature_names_in_.items()} == parts | {"sex": ["sex"]}
    assert model.fitted_.schema.codes_alike(codings_of(joined, parts))
    done("transform", made, *words, "-o", tmp_path / "z.parquet")
    done("impute", *words, "--model", made, "-o", tmp_path / f"filled{ending}")
    done("predict", made, *words, "--target", "sex", "-o", tmp_path / "sex.csv")
    monkeypatch.setattr(opening, "LONG", 10**9)
    done("transform", made, *words, "-o", tmp_path / "z2.parquet")
    done("impute", *words, "--model", made, "-o", tmp_path / f"filled2{ending}")
    done("predict", made, *words, "--target", "sex", "-o", tmp_path / "sex2.csv")
    for name in ("z{}.parquet", f"filled{{}}{ending}", "sex{}.csv"):
        found, wanted = (read(tmp_path / name.format(n)) for n in ("", "2"))
        pd.testing.assert_frame_equal(found, wanted, check_dtype=False, rtol=1e-5, atol=1e-6)


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def test_what_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    first, second = halves()
    made = tmp_path / "m.sshiba"
    twice = pd.concat([second, second.iloc[:3]])
    assert "several rows are named" in refused("fit", *write(tmp_path, (first, twice), ".csv"), *options(), "-o", made)
    same = write(tmp_path, (first, second.rename(columns={"c": "a"})), ".csv")
    assert "column 'a' is in more than one file" in refused("fit", *same, *options(), "-o", made)
    nameless = write(tmp_path, tuple(f.reset_index(drop=True) for f in halves()), ".parquet")[:2]
    assert "different numbers of rows" in refused("fit", *nameless, *options(), "-o", made)


def test_rows_at_other_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(rows_at, "chunk_bytes", lambda limit: 2000)
    frame = table().assign(day=pd.date_range("2020-01-01", periods=N), flag=np.arange(N) % 3 == 0, code=range(N))
    frame["kind"] = pd.Categorical(np.where(frame["a"] > 0, "up", "down"))
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    source = find_source(str(tmp_path / "t.parquet"), "t")
    assert source is not None
    rng = np.random.default_rng(0)
    for places in (rng.permutation(N), np.r_[3, -1, 5, 9:200], np.r_[-1, rng.permutation(N)[:100], -1]):
        index = pd.Index([f"r{i}" for i in range(len(places))])
        rows = RowsAt(source, places, index)
        wanted = frame.reset_index(drop=True).reindex(places).set_axis(index)
        found = pd.concat([rows.read(start, min(start + 30, len(places))) for start in range(0, len(places), 30)])
        assert (found.isna() == wanted.isna()).all().all()
        for name in frame:
            assert list(found[name].dropna()) == list(wanted[name].dropna())


def test_answers_about_files_in_different_orders(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    first, second = (part[[name for name in part if name in "abcde"]] for part in halves())
    write(tmp_path, (first, second), ".parquet")
    model = SSHIBA(2, random_state=0, max_iter=10).fit({"a": first, "b": second})
    found = model.transform({name: str(tmp_path / f"{name}.parquet") for name in "ab"})
    pd.testing.assert_frame_equal(found, model.transform({"a": first, "b": second}), check_names=False)
