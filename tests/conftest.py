"""Shared by all tests: the real data sets, where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from sshiba.datasets import load_yeast


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
