"""The real data sets as arrays; None where they cannot be had, so that their rows are left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sshiba import datasets
from sshiba.datasets import Dataset, DatasetError


def arrays(load: Callable[[], Dataset]) -> dict[str, np.ndarray] | None:
    """All views; of an official split the training rows."""
    try:
        data = load()
    except DatasetError:
        return None
    rows = slice(None) if data.is_train is None else data.is_train
    return {name: view.to_numpy()[rows] for name, view in data.views.items()}


def yeast() -> dict[str, np.ndarray] | None:
    return arrays(datasets.load_yeast)


def cll() -> dict[str, np.ndarray] | None:
    found = arrays(datasets.load_cll)
    return found and {name: view.astype(float) for name, view in found.items()}
