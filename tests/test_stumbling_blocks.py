"""What new users once met: things silently wrong, work lost, crashes."""

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import sshiba
from samples import fit, make_views, with_holes

from sshiba import SSHIBA, Categorical, Count, Priors, Progress, Real, load, tune
from sshiba.data.advice import DataWarning
from sshiba.evaluate import holdout


def interrupting(sweep: int):
    def callback(progress: Progress) -> None:
        if progress.sweep == sweep:
            raise KeyboardInterrupt

    return callback


# ------------------------------------------------------------------------------------------------ silently wrong


def test_masked_arrays_keep_their_mask_in_holdout_and_tune() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 6)) + 0.2 * rng.standard_normal((150, 6))
    mask = rng.random(x.shape) < 0.2
    masked = np.ma.masked_array(np.where(mask, 1e6, x), mask)
    plain = np.where(mask, np.nan, x)
    model = SSHIBA(3, random_state=0)
    pd.testing.assert_frame_equal(holdout(model, {"x": masked}), holdout(model, {"x": plain}))
    tables = [tune(model, {"x": v}, {"n_components": [2]}, "x", "cells", 2).table for v in (masked, plain)]
    pd.testing.assert_frame_equal(*tables)


def test_other_data_of_the_same_shape_cannot_go_on() -> None:
    views = make_views()
    stopped = SSHIBA(4, random_state=0, callback=interrupting(30)).fit(views)
    with pytest.raises(ValueError, match="not the data of the interrupted fit"):
        stopped.resume({**views, "X": views["X"] + 1e-6})
    frame = pd.DataFrame(views["X"])
    stopped = SSHIBA(4, random_state=0, callback=interrupting(30)).fit({"X": frame})
    with pytest.raises(ValueError, match="their rows differ"):
        stopped.resume({"X": frame.set_axis(frame.index + 1)})
    stopped.set_params(callback=None).resume({"X": frame})


def test_groups_of_a_number_and_its_text_are_two() -> None:
    x = make_views()["X"]
    types = {"X": Real(select_features=True, groups=[1, "1", 1, "1", 2, 2, 2, 2])}
    model = fit({"X": x}, views=types, max_iter=30)
    assert len(model.fitted_.posterior.views[0].gamma.mean) == 3


def test_samples_are_as_sharp_as_predictions() -> None:
    """Classes of drawn rows, predicted from the other view of the same draw, come as often as they are promised."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 3))
    x = z @ rng.standard_normal((3, 12)) + 0.3 * rng.standard_normal((300, 12))
    kind = np.array(list("abc"))[np.argmax(z, axis=1)]
    model = SSHIBA(5, random_state=0).fit({"x": x, "kind": kind})
    assert model.sharpness_["kind"] > 1.2
    drawn = model.sample(4000, random_state=0)
    proba = model.predict_proba({"x": drawn["x"]}, "kind")
    right = np.mean(model.classes_["kind"][proba.argmax(axis=1)] == drawn["kind"])
    assert right == pytest.approx(proba.max(axis=1).mean(), abs=0.02)


def test_factors_are_those_of_transform_under_mean_field() -> None:
    views = with_holes(make_views(), share=0.4)
    model = fit(views, missing="mean-field")
    mean, std = model.transform(views, return_std=True)
    np.testing.assert_allclose(model.factors_, mean, atol=1e-6)
    np.testing.assert_allclose(model.factors_std_, std, atol=1e-6)


def test_views_with_few_rows_in_common_are_told_of() -> None:
    rng = np.random.default_rng(0)
    a, b = (pd.DataFrame(rng.standard_normal((100, 3)), index=[f"r{i + s}" for i in range(100)]) for s in (0, 50))
    with pytest.warns(UserWarning, match=r"of 150 rows 50 are in all views \('a' has 100, 'b' has 100\)"):
        SSHIBA(2, max_iter=5).fit({"a": a, "b": b})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*in all views")
        SSHIBA(2, max_iter=5).fit({"a": a, "b": a.iloc[:80]})


def test_as_many_rows_under_other_labels_are_told_of() -> None:
    """One view was numbered anew after a split: most of its labels are those of other rows."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.standard_normal((100, 3))).loc[rng.permutation(100)[:80]]
    words = r"of \d+ rows \d+ are in all views \('a' has 80, 'b' has 80\).*same index, or give arrays"
    with pytest.warns(UserWarning, match=words):
        SSHIBA(2, max_iter=5).fit({"a": x, "b": x.reset_index(drop=True)})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*in all views")
        SSHIBA(2, max_iter=5).fit({"a": x, "b": x.iloc[::-1]})


def test_cells_neither_seen_nor_filled_have_no_deviation() -> None:
    frame = pd.DataFrame(make_views()["X"], columns=list("abcdefgh"))
    frame["place"] = "here"  # one label only: left aside
    frame.loc[3, ["a", "place"]] = None
    with pytest.warns(UserWarning, match="left aside"):
        model = SSHIBA(3, random_state=0).fit(frame)
    _, std = model.impute(frame.assign(new="x"), return_std=True)
    assert std[["place", "new"]].isna().all(axis=None)
    assert std.loc[3, "a"] > 0
    assert (std.loc[3, list("bcdefgh")] == 0).all()


def test_one_column_may_be_named_without_a_list() -> None:
    frame = pd.DataFrame(make_views()["X"][:, :3], columns=list("abc")).assign(kind=make_views()["y"])
    views = {"p": "a", "q": ("b", Real(scale=False)), "l": ("kind", Categorical())}
    model = SSHIBA(2, views, random_state=0, max_iter=5).fit(frame)
    assert model.feature_names_in_ == {"p": ["a"], "q": ["b"], "l": ["kind"], "numeric": ["c"]}
    assert model.views_["q"] == Real(scale=False)
    with pytest.raises(ValueError, match="view 'p': 'aa' is no column and no view type; the columns are 'a', 'b'"):
        SSHIBA(2, {"p": "aa"}).fit(frame)


def test_a_misspelt_option_of_a_view_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"unknown option 'wight' of view 'y', which is Categorical: it has .*'weight'"
    ):
        tune(SSHIBA(2), make_views(), {"y.wight": [1, 3]}, "y")


# ------------------------------------------------------------------------------------------------------ lost work


def test_checkpoints_are_written_whatever_n_jobs(tmp_path) -> None:
    path = tmp_path / "c.sshiba"
    SSHIBA(3, n_init=2, n_jobs=2, random_state=0, max_iter=60).fit(make_views(), checkpoint=path, checkpoint_minutes=0)
    assert load(path).inits_["interrupted"].any()


def test_places_that_cannot_be_written_are_refused_before_the_first_sweep(tmp_path, monkeypatch) -> None:
    sweeps: list[Progress] = []
    model, views = SSHIBA(2, random_state=0, max_iter=5, callback=sweeps.append), make_views()
    for path, words in ((tmp_path / "no" / "m.sshiba", "there is no folder"), (tmp_path, "is a folder; name a file")):
        with pytest.raises(OSError, match=words):
            model.fit(views, checkpoint=path)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match="nothing may be written into the folder"):
        model.fit(views, checkpoint=tmp_path / "m.sshiba")
    assert not sweeps
    monkeypatch.undo()
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        model.fit(views).save(tmp_path)


@dataclass(frozen=True)
class Mine(Real):
    """A view type of the user's own."""


@pytest.mark.parametrize(
    "options",
    [
        {"tol": np.float64(1e-5)},
        {"random_state": np.random.default_rng(0)},
        {"views": {"y": Categorical(weight=np.float32(2))}},
        {"views": {"X": Mine()}},
        {"max_iter": np.int64(50), "n_components": np.int32(4)},
    ],
)
def test_odd_settings_can_be_saved(options: dict, tmp_path) -> None:
    model = SSHIBA(**{"n_components": 4, "max_iter": 50, "random_state": 0, **options}).fit(make_views())
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    rows = {"X": make_views()["X"]}
    np.testing.assert_allclose(again.transform(rows), model.transform(rows), rtol=1e-12, atol=1e-14)


def test_ctrl_c_ends_all_of_tune() -> None:
    views = make_views()
    n_fits = []
    model = SSHIBA(3, random_state=0, callback=lambda p: n_fits.append(1) if p.sweep == 1 else interrupting(15)(p))
    with pytest.raises(KeyboardInterrupt):
        tune(model, views, {"n_components": [2, 3]}, "y", n_folds=3)
    assert len(n_fits) == 1


def test_a_loaded_model_of_one_table_can_be_fitted_again(tmp_path) -> None:
    views = make_views()
    frame = pd.DataFrame(views["X"], columns=list("abcdefgh")).assign(kind=views["y"])
    frame.index = pd.date_range("2020-01-01", periods=len(frame))
    types = {"first": ["a", "b", "c"], "kind of row": (["kind"], Categorical())}
    model = SSHIBA(4, types, random_state=0).fit(frame)
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    pd.testing.assert_index_equal(again.index_, frame.index, check_names=False, exact=False)
    assert list(again.fit(frame).views_) == list(model.views_)
    assert again.elbo_ == pytest.approx(model.elbo_, rel=1e-6)


def test_unseen_labels_are_missing_and_counted() -> None:
    views = make_views()
    new = {"X": views["X"][:6], "y": np.array(["a", "x", "b", "z", "x", "c"], dtype=object)}
    known = {"X": new["X"], "y": np.array(["a", None, "b", None, None, "c"], dtype=object)}
    model = fit(views)
    with pytest.warns(UserWarning, match="'x', 'z' unseen in training, first in row 1: 3 labels treated as missing"):
        found = model.transform(new)
    np.testing.assert_array_equal(found, model.transform(known))
    strict = fit(views, views={"y": Categorical(unseen="error")})
    with pytest.raises(ValueError, match=r"'x', 'z' unseen in training.*known are 'a', 'b', 'c'"):
        strict.transform(new)


# -------------------------------------------------------------------------------------------------------- crashes


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_marks_of_no_data_are_refused_as_far_off() -> None:
    x = make_views()["X"]
    x[3, 2] = -1.797e308
    with pytest.raises(ValueError, match=r"1 far-off .*value, first -1.797e\+308 in row 3, column 2: check the units"):
        SSHIBA(2).fit({"X": x})


def test_duplicated_columns_without_a_noise_floor() -> None:
    """Tau of a column that is explained exactly must not follow rounding."""
    for seed, (n, d) in enumerate([(1000, 2), (200, 2), (1000, 10), (20, 2), (60, 10), (1000, 1)]):
        x = np.random.default_rng(seed).standard_normal((n, d))
        model = SSHIBA(5, priors=Priors(noise_floor=0.0, tau=(1e-14, 1e-14)), random_state=seed, max_iter=300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit({"x": np.concatenate([x, x], axis=1)})
        assert np.isfinite(model.elbo_)


def test_holdout_never_hides_a_whole_class() -> None:
    views = make_views()
    rare = np.where(np.arange(120) == 5, "only", views["y"]).astype(object)
    for seed in range(12):
        scores = holdout(SSHIBA(2, random_state=0, max_iter=5), {"X": views["X"], "y": rare}, 0.5, seed)
        assert scores.loc["y", "hidden"] > 20


def test_counts_that_are_predicted_below_zero_are_told_of() -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200)
    visits = rng.poisson(np.exp(2 * z)).astype(float)
    frame = pd.DataFrame({"visits": visits, "age": 40 + 5 * z, "dose": z + 0.1 * rng.standard_normal(200)})
    model = SSHIBA(2, random_state=0).fit(frame)
    with pytest.warns(UserWarning, match=r"'visits': predicted below 0.*say views=\{'visits': Count\(\)\}"):
        assert (model.predict(frame, "visits") < 0).any()
    holed = frame.assign(age=frame["age"].where(rng.random(200) < 0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.impute(holed)


MARGINS = {"crp": "auto", "il6": "auto", "dimer": "normal"}


def skewed() -> pd.DataFrame:
    """Columns that never are below 0, and one that is."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(300)
    frame = pd.DataFrame({name: np.exp(1.5 * z + 0.3 * rng.standard_normal(300)) for name in ("crp", "il6", "dimer")})
    frame["il6"] = frame["il6"].clip(lower=0.5)
    frame["dimer"] = (frame["dimer"] - 0.2).clip(lower=0.0)
    frame["visits"] = rng.poisson(np.exp(z)).astype(float)
    frame["score"] = z
    return frame.mask(rng.random(frame.shape) < 0.2)


def test_all_columns_that_fall_below_zero_are_named_once_with_what_keeps_them_above(tmp_path: Path) -> None:
    """In Python and in a shell, also with a lower limit, and from a model file; who takes the advice hears no more."""
    frame, limits = skewed(), {"il6": (0.5, None)}
    SSHIBA(2, {"numeric": Real(limits=limits)}, random_state=0, search=None).fit(frame).save(tmp_path / "m")
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(DataWarning) as caught:
        filled = load(tmp_path / "m").impute(frame)
    assert (filled[["crp", "il6", "dimer", "visits"]].min() < 0).all()
    assert [str(one.message) for one in caught] == [
        "'crp', 'il6', 'dimer', 'visits': predicted below 0, where none was in training: keep them above with "
        f"views={{'numeric': Real(margin={MARGINS})}}, or if they count something, say views={{'visits': Count()}}."
    ]
    types = {"numeric": Real(limits=limits, margin=MARGINS), "visits": Count()}
    with warnings.catch_warnings(action="error"):
        filled = SSHIBA(2, types, random_state=0, search=None).fit(frame).impute(frame)
    assert (filled[["crp", "il6", "dimer", "visits"]].min() >= 0).all()
    words = ["impute", "t.csv", "-o", "o.csv", "--force", "--components", 2, "--limits", "il6=0.5,"]
    advice = "--margin crp=auto --margin il6=auto --margin dimer=normal"
    said = sshiba(*words, cwd=tmp_path).stderr
    assert f"keep them above with {advice}, or if they count something, say --view visits=visits:count." in said
    said = sshiba(*words, *advice.split(), "--view", "visits=visits:count", cwd=tmp_path).stderr
    assert "predicted" not in said
    said = sshiba("predict", "m", "t.csv", "--target", "crp", "-o", "p.csv", cwd=tmp_path).stderr
    assert "fit anew with --margin crp=auto." in said
    said = sshiba("evaluate", "t.csv", "--components", 2, "--limits", "il6=0.5,", cwd=tmp_path).stderr
    assert "--margin auto may give better predictions" in said
    assert "predicted below 0" not in said  # one remedy: that of impute


def test_no_margin_is_advised_that_a_limit_forbids(tmp_path: Path) -> None:
    """The normal scores of ranks that keep a column of zeros above 0 are for that column, not for all."""
    rng = np.random.default_rng(0)
    x = np.exp(1.5 * rng.standard_normal((300, 1)) + 0.3 * rng.standard_normal((300, 8)))
    frame = pd.DataFrame(x, columns=list("abcdefgh")).assign(z=lambda own: np.log(own["a"]))
    frame["a"], frame["b"] = (frame["a"] - 0.2).clip(lower=0.0), frame["b"].clip(lower=0.5)
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    model = SSHIBA(1, {"numeric": Real(limits={"b": (0.5, None)})}, random_state=0, search=None).fit(frame)
    with pytest.warns(DataWarning) as caught:
        model.impute(frame)
    said = caught[0].message
    assert "more: predicted below 0" in str(said)
    margins = {column: "normal" if column == "a" else "auto" for column in "abcdefg"}
    assert f"views={{'numeric': Real(margin={margins})}}" in str(said)
    SSHIBA(1, {"numeric": Real(margin=margins, limits={"b": (0.5, None)})}, max_iter=2, search=None).fit(frame)


def test_of_many_columns_below_zero_a_few_are_named() -> None:
    rng = np.random.default_rng(0)
    x = np.exp(1.5 * rng.standard_normal((200, 1)) + 0.3 * rng.standard_normal((200, 9)))
    with pytest.warns(DataWarning) as caught:
        SSHIBA(1, random_state=0, search=None).fit({"x": x, "y": np.log(x)}).predict({"y": np.log(x)}, "x")
    assert str(caught[0].message) == (
        "view 'x', columns 0, 1, 2, 3, 4 and 4 more: predicted below 0, where none was in training: "
        "keep them above with views={'x': Real(margin='auto')}."
    )


def test_nothing_is_logged_twice(caplog) -> None:
    """A fit says what it took the columns for, once."""
    with caplog.at_level(logging.INFO, logger="sshiba"):
        SSHIBA(2, max_iter=3).fit(pd.DataFrame(make_views()["X"]))
    assert len([r for r in caplog.records if "'numeric'" in r.getMessage()]) == 1


def test_columns_are_called_unknown_once_and_never_those_of_training(tmp_path, caplog) -> None:
    frame = pd.DataFrame(make_views()["X"], columns=list("abcdefgh")).assign(place="here")
    with pytest.warns(UserWarning, match="left aside") as told:
        model = SSHIBA(2, max_iter=5, search=None, random_state=0).fit(frame)
    assert len([one for one in told if "left aside" in str(one.message)]) == 1
    caplog.clear()
    model.report(tmp_path / "report.html", frame, fraction=0.1)
    model.impute(frame)
    model.impute(frame.assign(new="x"), n_draws=2)
    told = [words for words in caplog.messages if "does not know" in words]
    assert told == ["columns the model does not know, left as they are: 'new'"]
