"""Shared by all tests: the real data sets, where they are, and what is read or fitted once for a file of tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import BITS, LABELS, fit, frame, make_views, with_holes

from sshiba import SSHIBA
from sshiba.data.reading import read_training
from sshiba.data.schema import Schema
from sshiba.datasets import load_yeast
from sshiba.fitted import search
from sshiba.fitted.search import MOST_OPERATIONS


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """One thread for each process of tests: where processes fill the cores, threads wait for one another's turn."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, named by SSHIBA_DATA."""
    folder = os.environ.get("SSHIBA_DATA")
    if not folder or not (Path(folder) / "yeast.npz").is_file():
        pytest.skip("set SSHIBA_DATA to the folder that holds yeast.npz to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def yeast(data_folder: Path) -> dict[str, np.ndarray]:
    data = load_yeast()
    X, Y = data.views["features"].to_numpy(float), data.views["labels"].to_numpy(float)
    return {"X": X[data.is_train], "Y": Y[data.is_train], "X_test": X[~data.is_train], "Y_test": Y[~data.is_train]}


@pytest.fixture(scope="session")
def patients() -> pd.DataFrame:
    """Columns of all kinds from two causes, with gaps, and rows that are called something."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((80, 2))
    frame = pd.DataFrame(
        {
            "age": 50 + 10 * z[:, 0] + rng.standard_normal(80),
            "weight": 70 + 8 * z[:, 1] + rng.standard_normal(80),
            "visits": pd.array(np.round(20 + 5 * z[:, 1]).astype(int), dtype="Int64"),
            "smokes": pd.array(z[:, 0] > 0, dtype="boolean"),
            "ward": np.array(["north", "south", "west"], dtype=object)[np.argmax(np.c_[z, 0 * z[:, 0]], axis=1)],
            "stage": pd.Categorical(
                np.where(z[:, 0] > 0.5, "III", np.where(z[:, 0] < -0.5, "I", "II")), ["I", "II", "III"], ordered=True
            ),
        },
        index=[f"p{i}" for i in range(80)],
    )
    for place in range(frame.shape[1]):
        frame.iloc[[place, 30 + place], place] = None
    return frame


@pytest.fixture(autouse=True, scope="module")
def without_search() -> Iterator[None]:
    """All data count as large: the search is six fits before the one that is asked for, and few tests are about it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "MOST_OPERATIONS", 0.0)
        yield


@pytest.fixture
def with_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search as users have it. (Commands in a process of their own have it anyway.)"""
    monkeypatch.setattr(search, "MOST_OPERATIONS", MOST_OPERATIONS)


@pytest.fixture(scope="module")
def model() -> SSHIBA:
    return fit(with_holes(make_views()), search=None)


@pytest.fixture(scope="module")
def schema() -> Schema:
    return read_training({"x": frame(), "bits": BITS, "who": LABELS})[0]
