"""Views with a kernel: what is predicted of new rows, beside kernel ridge regression and support vectors.

A third of the rows is for the test, three splits. The peers choose width and penalty by cross-validation on the
training rows; ours is `Real(kernel="rbf")` and nothing else. R² of numbers, the share of right classes of labels.

    python benchmarks/kernel_views.py [--quick] [--device=cuda] [NAME ...]      one split; on a GPU; some tables
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, report
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sshiba import SSHIBA, Categorical, Real

WIDTHS = np.array([0.03, 0.1, 0.3, 1.0, 3.0])  # times 1/D: the gamma of peers
FEW_ROWS = 100


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs and target: columns of numbers, or classes. The last two have few rows, or several targets."""
    with np.load(Path(os.environ["SSHIBA_DATA"], "uci_tables.npz")) as file:
        airfoil, compression, voices = (file[f"{name}_X"] for name in ("airfoil", "compression", "parkinsons"))
    found = {"airfoil": (airfoil[:, :-1], airfoil[:, -1:]), "compression": (compression[:, :-1], compression[:, -1:])}
    data = load_diabetes()
    found["diabetes"] = (data.data, data.target[:, None])
    for name, data in (("digits", load_digits()), ("cancer", load_breast_cancer()), ("wine", load_wine())):
        found[name] = (data.data, data.target)
    some = np.random.default_rng(0).permutation(len(compression))[: FEW_ROWS * 3 // 2]
    found["compression, few rows"] = (compression[some, :-1], compression[some, -1:])
    found["voices, five targets"] = (voices[:, :16], voices[:, 18:])
    return found


def peer(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    if y.ndim == 1:
        grid = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": WIDTHS / x.shape[1]}
        return GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3).fit(x, y).predict(new)
    scaler = StandardScaler().fit(y)
    grid = {"kernelridge__alpha": 10.0 ** np.arange(-4, 2), "kernelridge__gamma": WIDTHS / x.shape[1]}
    ridge = GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3)
    return scaler.inverse_transform(ridge.fit(x, scaler.transform(y)).predict(new).reshape(len(new), -1))


def ours(x: np.ndarray, y: np.ndarray, new: np.ndarray, kernel: str | None, device: str | None) -> np.ndarray:
    types: dict[str, Any] = {"x": Real(kernel=kernel), "y": Categorical() if y.ndim == 1 else Real()}
    model = SSHIBA(views=types, device=device, random_state=0).fit({"x": x, "y": y})
    return np.asarray(model.predict({"x": new}, "y"))


def main(quick: bool = False, only: list[str] | None = None, device: str | None = None) -> list[Row]:
    """A row for each table, the peer's time beside ours; none without the data."""
    if "SSHIBA_DATA" not in os.environ:
        return []
    rows = []
    for name, (x, y) in tables().items():
        if only and name not in only:
            continue
        figures = []
        for seed in range(1 if quick else 3):
            parts = train_test_split(x, y, test_size=1 / 3, random_state=seed)
            x_train, x_test, y_train, truth = parts
            right = (lambda a, b: float(np.mean(a == b))) if y.ndim == 1 else r2_score
            found = []
            for predict in (peer, lambda *a: ours(*a, None, device), lambda *a: ours(*a, "rbf", device)):
                began = time.perf_counter()
                found += [right(truth, predict(x_train, y_train, x_test)), time.perf_counter() - began]
            figures.append(found)
        theirs, their_time, linear, _, bent, our_time = np.mean(figures, axis=0)
        note = f"{bent:.3f}, linear {linear:.3f}, peer {theirs:.3f}"
        extra = {"kernel": bent, "linear": linear, "peer": theirs}
        which = "SVC" if y.ndim == 1 else "kernel ridge"
        rows.append(Row("kernel views", name, which, their_time, our_time, note=note, extra=extra))
        print(name, note, f"{their_time:.1f} s, {our_time:.1f} s", flush=True)
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    options = dict(text.removeprefix("--").partition("=")[::2] for text in sys.argv[1:] if text.startswith("--"))
    names = [text for text in sys.argv[1:] if not text.startswith("--")]
    report(main("quick" in options, names, options.get("device")), "kernel_views")
