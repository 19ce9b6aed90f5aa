"""Data that are awkward but allowed: numbers come out, and the same ones whatever the units."""

import warnings
from functools import cache

import numpy as np
import pytest
from samples import fit, make_views

from sshiba import SSHIBA, Binary, Real


@pytest.mark.parametrize("missing", ["exact", "mean-field"])
@pytest.mark.parametrize(
    "kind", ["constant", "constant binary", "duplicated", "few rows", "many components", "summed", "one feature"]
)
def test_awkward_data_never_gives_nan(kind: str, missing: str) -> None:
    views = make_views()
    options = {"missing": missing, "views": {"T": Binary()}}
    if kind == "constant":
        views["X"][:, 0] = 1e9
    elif kind == "constant binary":
        views["T"][:, 0] = 1
    elif kind == "duplicated":
        views["X"] = np.concatenate([views["X"]] * 4, axis=1)
    elif kind == "few rows":
        views = {name: v[:7] for name, v in views.items()}
    elif kind == "many components":
        options["n_components"] = 500
    elif kind == "summed":
        views["X"] = np.column_stack([views["X"], views["X"].sum(axis=1)])
    elif kind == "one feature":
        views["X"] = views["X"][:, :1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = fit(views, **options)
    assert model.n_components_ <= min(len(views["X"]), sum(len(w) for w in model.weights_.values()))
    for values in (model.factors_, *model.weights_.values(), *model.noise_std_.values(), model.elbo_path_):
        assert np.isfinite(values).all()
    mean, std = model.predict({"T": views["T"]}, "X", return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@cache
def fit_moved(scaled: bool, scale: float = 1.0, shift: float = 0.0) -> SSHIBA:
    views = make_views()
    return fit({**views, "X": shift + scale * views["X"]}, views={"X": Real(scale=scaled), "T": Binary()}, tol=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("scale", "shift"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e9), (1e-3, -1e6)])
def test_scale_and_shift_change_nothing(scale: float, shift: float, scaled: bool) -> None:
    views = make_views()
    plain, moved = fit_moved(scaled), fit_moved(scaled, scale, shift)
    assert moved.n_components_ == plain.n_components_
    digits = 1e-9 if shift == 0 else 1e-6  # a shift takes seven of sixteen digits away
    np.testing.assert_allclose(moved.factors_, plain.factors_, atol=digits)
    hidden = {"T": views["T"], "y": views["y"]}
    np.testing.assert_allclose((moved.predict(hidden, "X") - shift) / scale, plain.predict(hidden, "X"), atol=digits)


@pytest.mark.parametrize("factor", [1e4, 1e8, 1e25])
def test_new_rows_far_from_training_give_numbers(model: SSHIBA, factor: float) -> None:
    given = {"X": make_views()["X"] * factor}
    for target in ("T", "y"):
        p = np.asarray(model.predict_proba(given, target))
        assert np.isfinite(p).all()
        assert ((p >= 0) & (p <= 1)).all()
    assert np.isfinite(model.score({**given, "y": make_views()["y"]}))
    with pytest.raises(ValueError, match=r"'X'.*units"):
        model.predict({"X": make_views()["X"] * 1e200}, "T")


def test_null_models_converge() -> None:
    """Nothing to find: no factor, soon."""
    X = np.random.default_rng(0).standard_normal((60, 1))
    model = fit({"X": X})
    assert model.converged_
    assert model.n_components_ == 0
    assert model.n_iter_ < 200
    noise = fit({"X": np.random.default_rng(0).standard_normal((200, 10))})
    assert noise.n_components_ == 0
    assert noise.r2_.loc["all", "X"] == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_binary_views_alone_do_not_collapse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    B = (rng.standard_normal((500, 2)) @ rng.standard_normal((10, 2)).T > 0).astype(int)
    model = fit({"B": B})
    assert model.r2_.loc["all", "B"] > 0.5
