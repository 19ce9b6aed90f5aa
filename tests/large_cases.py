"""Commands on files for which memory is too small: data, and what counts as large made small."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from sshiba.cli.looking import app
from sshiba.core import machine
from sshiba.data import parquet_files
from sshiba.data.reading import read_training
from sshiba.engines import factory
from sshiba.files import long_tables, opening

N = 240
SMALL = "12KB"  # of memory: less than the data take


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LEAST", 0)
    monkeypatch.setattr(opening, "LONG", 1000)
    monkeypatch.setattr(opening, "PART", 4000)
    monkeypatch.setattr(long_tables, "PART_ROWS", 50)
    monkeypatch.setattr(parquet_files, "BATCH_BYTES", 4000)
    monkeypatch.setattr(factory, "BLOCKS_IN_MEMORY", 1)  # else each row is a block


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 2, (result.output, result.exception)
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


def codings_of(given: Any, views: Any = None) -> Any:
    """How a fit in memory reads the data."""
    return read_training(given, views)[0]


def options(*more: object) -> list[object]:
    """A short fit: that a long one ends as in memory is tested elsewhere."""
    return ["--components", 4, "--max-memory", SMALL, "--max-time", 0.01, *more]
