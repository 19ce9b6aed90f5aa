"""Shared by all tests: the real data sets, where they are."""

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, named by SSHIBA_DATA."""
    folder = os.environ.get("SSHIBA_DATA")
    if not folder or not (Path(folder) / "yeast.npz").is_file():
        pytest.skip("set SSHIBA_DATA to the folder that holds yeast.npz to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def yeast(data_folder: Path) -> dict[str, np.ndarray]:
    with np.load(data_folder / "yeast.npz") as file:
        train = file["is_train"].astype(bool)
        X, Y = file["X"].astype(float), file["Y"].astype(float)
    return {"X": X[train], "Y": Y[train], "X_test": X[~train], "Y_test": Y[~train]}
