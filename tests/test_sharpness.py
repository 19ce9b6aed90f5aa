"""Class probabilities keep their promise."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris

from sshiba import SSHIBA, Categorical, Real, load


def promise_and_truth(model: SSHIBA, x: np.ndarray, labels: np.ndarray) -> tuple[float, float, float]:
    """Mean of the largest probability, share of right guesses, mean log-likelihood."""
    proba = model.predict_proba({"x": x}, "kind")
    codes = np.searchsorted(model.classes_["kind"], labels)
    likelihood = np.log(proba[np.arange(len(codes)), codes]).mean()
    return proba.max(axis=1).mean(), float(np.mean(proba.argmax(axis=1) == codes)), float(likelihood)


def unsharpened(model: SSHIBA) -> SSHIBA:
    """The same fit, its class probabilities as the bound leaves them."""
    plain = clone(model)
    plain.fitted_ = replace(model.fitted_, sharpness=(1.0, 1.0))
    plain.classes_ = model.classes_
    return plain


@pytest.mark.parametrize(("load_data", "n"), [(load_digits, 900), (load_iris, 100)])
def test_what_is_promised_happens(load_data, n: int) -> None:
    x, y = load_data(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    train, test = rows[:n], rows[n:]
    model = SSHIBA(20, {"x": Real(scale=False), "kind": Categorical()}, max_iter=200, random_state=0)
    model.fit({"x": x[train].astype(float), "kind": y[train].astype(str)})
    promised, right, likelihood = promise_and_truth(model, x[test].astype(float), y[test].astype(str))
    assert promised == pytest.approx(right, abs=0.1)
    assert model.sharpness_["x"] == 1
    assert model.sharpness_["kind"] > 1.4
    model = unsharpened(model)
    timid, still_right, lower = promise_and_truth(model, x[test].astype(float), y[test].astype(str))
    assert timid < promised - 0.05
    assert lower < likelihood
    assert still_right == pytest.approx(right, abs=0.02)


def test_it_is_kept_in_the_file(tmp_path) -> None:
    x, y = load_iris(return_X_y=True)
    model = SSHIBA(4, random_state=0).fit({"x": x, "kind": y.astype(str)})
    model.save(tmp_path / "m.sshiba")
    assert load(tmp_path / "m.sshiba").sharpness_ == model.sharpness_


def test_without_another_view_there_is_nothing_to_learn_from() -> None:
    labels = np.array(["a", "b", "c"] * 20)
    assert SSHIBA(2, random_state=0, max_iter=20).fit({"kind": labels}).sharpness_ == {"kind": 1.0}
    nothing = np.full((60, 3), np.nan)
    nothing[:4] = np.random.default_rng(0).standard_normal((4, 3))
    model = SSHIBA(2, random_state=0, max_iter=20).fit({"x": nothing, "kind": labels})
    assert model.sharpness_ == {"x": 1.0, "kind": 1.0}


@pytest.mark.parametrize("n", [60, 400])
def test_labels_that_mean_nothing_are_not_sharpened(n: int) -> None:
    """A row is not judged by weights that have seen its own label; without that, noise looks like knowledge."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((n + 1000, 3))
    x = z @ rng.standard_normal((3, 10)) + rng.standard_normal((n + 1000, 10))
    y = np.array(list("abcd"))[rng.integers(0, 4, n + 1000)]
    model = SSHIBA(6, {"x": Real(), "kind": Categorical()}, random_state=0).fit({"x": x[:n], "kind": y[:n]})
    assert model.sharpness_["kind"] <= 1.7
    found = promise_and_truth(model, x[n:], y[n:])[2]
    model = unsharpened(model)
    assert found > promise_and_truth(model, x[n:], y[n:])[2] - 0.01
