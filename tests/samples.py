"""Views that the tests fit, read and give back."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from sshiba import SSHIBA

N = 12
NAN = float("nan")
_rng = np.random.default_rng(0)
NUMBERS = _rng.normal(size=(N, 3))
BITS = _rng.integers(0, 2, size=(N, 2))
LABELS = np.array(["lo", "mid", "hi"] * 4)
ROWS = [f"r{i}" for i in range(N)]


def frame(values: Any = NUMBERS, columns: str = "abc", index: Any = ROWS) -> pd.DataFrame:
    return pd.DataFrame(np.array(values), columns=list(columns), index=index)


def with_cell(values: np.ndarray, row: int, column: int, value: Any) -> np.ndarray:
    changed = values.copy()
    changed[row, column] = value
    return changed


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit, dtype and label."""
    if isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    elif isinstance(a, pd.Series):
        pd.testing.assert_series_equal(a, b, check_exact=True)
    elif isinstance(a, np.ma.MaskedArray):
        return same(a.mask, b.mask) and same(a.data, b.data)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif sparse.issparse(a):
        return same(a.toarray(), b.toarray())
    elif isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    else:
        return repr(a) == repr(b)
    return True


def make_views(n: int = 120, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    X = z @ rng.standard_normal((3, 8)) + 0.5 * rng.standard_normal((n, 8))
    T = (z @ rng.standard_normal((3, 4)) + rng.standard_normal((n, 4)) > 0).astype(int)
    y = np.array(["a", "b", "c"])[np.argmax(z + 0.3 * rng.standard_normal((n, 3)), axis=1)]
    return {"X": X, "T": T, "y": y}


def with_holes(views: dict[str, np.ndarray], share: float = 0.15, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(views["X"].shape) < share, np.nan, views["X"])
    T = np.where(rng.random(views["T"].shape) < share, np.nan, views["T"])
    y = np.where(rng.random(len(views["y"])) < share, None, views["y"])
    return {"X": X, "T": T, "y": y}


def fit(data: dict, **options) -> SSHIBA:
    options = {"n_components": 6, "random_state": 0, "tol": 1e-6, **options}
    return SSHIBA(**options).fit(data)
