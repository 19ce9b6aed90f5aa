"""The real data sets, from the folder named by SSHIBA_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def load(name: str) -> dict[str, np.ndarray] | None:
    """One .npz, or None where it is not there."""
    path = Path(os.environ.get("SSHIBA_DATA", "")) / f"{name}.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def yeast() -> dict[str, np.ndarray] | None:
    """The training rows: expression and labels."""
    data = load("yeast")
    if data is None:
        return None
    train = data["is_train"].astype(bool)
    return {"expression": data["X"][train].astype(float), "labels": data["Y"][train].astype(float)}


def cll() -> dict[str, np.ndarray] | None:
    """Four views with NaN for what is missing."""
    data = load("cll")
    if data is None:
        return None
    views = {name: data[name].astype(float) for name in ("mRNA", "Methylation", "Drugs", "Mutations")}
    views["Mutations"][views["Mutations"] < 0] = np.nan
    return views
