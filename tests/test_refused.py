"""What the public API refuses, by name and with nothing lost."""

import numpy as np
import pandas as pd
import pytest
from samples import fit, make_views
from sklearn.exceptions import NotFittedError

from sshiba import SSHIBA, Binary, Categorical, Priors, Real


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"n_components": 2.5}, TypeError, "n_components"),
        ({"n_init": 0}, ValueError, "n_init"),
        ({"tol": -1}, ValueError, "tol"),
        ({"missing": "drop"}, ValueError, "missing"),
        ({"acceleration": "warp"}, ValueError, "acceleration"),
        ({"device": "cuda"}, ValueError, "device"),
        ({"engine": "dask"}, ValueError, "engine"),
        ({"dtype": "float16"}, ValueError, "dtype"),
        ({"views": {"Z": Real()}}, ValueError, "'Z'"),
        ({"priors": 3}, TypeError, "priors"),
        ({"tol": "a"}, TypeError, "tol"),
        ({"max_time": -1}, ValueError, "max_time"),
        ({"prune_tol": 2.0}, ValueError, "prune_tol"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"callback": 3}, TypeError, "callback"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"views": {"X": Real(select_features=True, groups=3)}}, TypeError, "'X'"),
        ({"views": {"X": Real(select_features=True, groups=[1, 2])}}, ValueError, "'X'"),
    ],
)
def test_bad_options(options: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        fit(make_views(), **options)


def test_bad_priors() -> None:
    with pytest.raises(ValueError, match="alpha"):
        Priors(alpha=(0.0, 1.0))
    with pytest.raises(ValueError, match="noise_floor"):
        Priors(noise_floor=2.0)


@pytest.mark.parametrize("method", ["transform", "predict", "impute", "score"])
def test_before_fitting(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(SSHIBA(), method)(make_views())
    with pytest.raises(NotFittedError):
        SSHIBA().save("nowhere.sshiba")


def bad(kind: str) -> dict:
    views = make_views()
    X = views["X"]
    if kind == "infinite":
        X[5, 2] = np.inf
    elif kind == "no observed value":
        X[:, 3] = np.nan
    elif kind == "rows":
        views["T"] = views["T"][:50]
    elif kind == "binary":
        views["T"][4, 1] = 7
    elif kind == "one class":
        views["y"][:] = "a"
    elif kind == "text":
        views["X"] = X.astype(object)
        views["X"][0, 0] = "high"
    elif kind == "dates":
        views["X"] = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=120), "x": X[:, 0]})
    elif kind == "large integers":
        views["X"] = np.full((120, 2), 2**60) + np.arange(240).reshape(120, 2)
    elif kind == "empty":
        views["X"] = np.empty((120, 0))
    elif kind == "duplicate index":
        views["X"] = pd.DataFrame(X, index=[0] * 120)
    elif kind == "no rows in common":
        views = {"X": pd.DataFrame(X), "y": pd.Series(views["y"], index=range(1000, 1120))}
    return views


@pytest.mark.parametrize(
    "kind",
    [
        "infinite",
        "no observed value",
        "rows",
        "binary",
        "one class",
        "text",
        "dates",
        "large integers",
        "empty",
        "duplicate index",
        "no rows in common",
    ],
)
def test_bad_input_is_refused_by_name(kind: str) -> None:
    views = bad(kind)
    kept = {name: v.copy() for name, v in views.items()}
    types = {"X": Real(), "y": Categorical()} | ({"T": Binary()} if "T" in views else {})
    with pytest.raises((ValueError, TypeError), match=r"'[XTy]'"):
        fit(views, views=types)
    for name, before in kept.items():
        pd.testing.assert_frame_equal(pd.DataFrame(views[name]), pd.DataFrame(before))


def test_new_rows_are_checked_too(model: SSHIBA) -> None:
    views = make_views()
    with pytest.raises(ValueError, match=r"'y'.*'zebra'"):
        model.predict({"y": np.array(["a", "zebra"])})
    with pytest.raises(ValueError, match="'X'"):
        model.predict({"X": views["X"][:, :5]})
    with pytest.raises(ValueError, match="unknown view 'W'"):
        model.predict({"W": views["X"]})


def test_unscaled_features_may_not_differ_too_much() -> None:
    views = make_views()
    views["X"] = views["X"] * 10.0 ** np.linspace(-150, 150, 8)
    with pytest.raises(ValueError, match=r"'X'.*scale=True"):
        fit(views, views={"X": Real(scale=False)})
    assert np.isfinite(fit(views).factors_).all()
