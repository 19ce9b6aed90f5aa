"""Hidden cells, predicted and scored."""

import numpy as np
import pandas as pd
import pytest

from sshiba import SSHIBA
from sshiba.evaluate import check, holdout


def make_views(n: int = 300) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 2))
    x = z @ rng.standard_normal((2, 8)) * 5 + 20 + rng.standard_normal((n, 8))
    labels = (z @ rng.standard_normal((2, 5)) * 3 + rng.logistic(size=(n, 5)) > 0).astype(int)
    kind = np.array(["a", "b", "c"])[np.argmax(np.c_[z, np.zeros(n)] * 3 + rng.standard_normal((n, 3)), axis=1)]
    return {"x": x, "labels": labels, "kind": kind}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return holdout(SSHIBA(6, random_state=0), make_views())


def test_what_can_be_known_is_known(table: pd.DataFrame) -> None:
    assert list(table.index) == ["x", "labels", "kind"]
    assert table["type"].tolist() == ["Real", "Binary", "Categorical"]
    assert table.loc["x", "r2"] > 0.85
    assert 0.85 < table.loc["x", "coverage"] < 0.95
    assert table.loc["labels", "auc"] > 0.88
    assert table.loc["labels", "accuracy"] > 0.75
    assert table.loc["kind", "auc"] > 0.9
    assert table.loc["kind", "accuracy"] > 0.75
    assert table.loc["kind", "log_likelihood"] > -0.6  # of which chance has log 3 = 1.1
    assert np.isnan(table.loc["x", "auc"])
    assert np.isnan(table.loc["labels", "rmse"])


def test_scores_follow_from_what_was_hidden(table: pd.DataFrame) -> None:
    """From the user's numbers: `rmse` in deviations of the cells shown, `r2` beside the error of their mean."""
    views = make_views()
    x, checks = views["x"], check(SSHIBA(6, random_state=0), views)
    one = checks["x"]
    shown = np.where(one.hidden, np.nan, x)
    std = np.nanstd(shown, axis=0)
    error, spread = (x - one.found) / std, (x - np.nanmean(shown, axis=0)) / std
    assert table.loc["x", "rmse"] == pytest.approx(np.sqrt(np.mean(error[one.hidden] ** 2)), rel=1e-9)
    expected = 1 - np.mean(error[one.hidden] ** 2) / np.mean(spread[one.hidden] ** 2)
    assert table.loc["x", "r2"] == pytest.approx(expected, rel=1e-9)
    labels, kind = checks["labels"], checks["kind"]
    right = (labels.found > 0.5) == views["labels"]
    assert table.loc["labels", "accuracy"] == pytest.approx(right[labels.hidden].mean(), rel=1e-12)
    right = np.array(kind.names)[kind.found.argmax(axis=1)] == views["kind"]
    assert table.loc["kind", "accuracy"] == pytest.approx(right[kind.hidden[:, 0]].mean(), rel=1e-12)


def test_noise_is_not_known() -> None:
    rng = np.random.default_rng(1)
    scores = holdout(SSHIBA(3, random_state=0), {"x": rng.standard_normal((200, 6))})
    assert scores.loc["x", "r2"] < 0.1
    assert scores.loc["x", "rmse"] > 0.9


def test_a_tenth_of_what_was_seen_is_hidden() -> None:
    views = make_views()
    holes = views["x"].copy()
    holes[:150] = np.nan
    scores = holdout(SSHIBA(4, random_state=0, max_iter=30), {**views, "x": holes}, fraction=0.2)
    assert scores.loc["x", "hidden"] == pytest.approx(0.2 * 150 * 8, rel=0.2)
    assert scores.loc["kind", "hidden"] == pytest.approx(0.2 * 300, rel=0.4)


def test_frames_and_one_table() -> None:
    views = make_views()
    frames = {"x": pd.DataFrame(views["x"]).iloc[::-1], "kind": pd.Series(views["kind"], name="kind").iloc[:250]}
    scores = holdout(SSHIBA(4, random_state=0), frames)
    assert scores.loc["x", "r2"] > 0.7
    table = pd.DataFrame(views["x"], columns=[f"x{d}" for d in range(8)]).assign(kind=views["kind"])
    scores = holdout(SSHIBA(4, random_state=0), table)
    assert list(scores.index) == ["numeric", "kind"]
    assert scores.loc["numeric", "r2"] > 0.7


@pytest.mark.parametrize("fraction", [0, 1, -0.1])
def test_a_fraction_is_between_0_and_1(fraction: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holdout(SSHIBA(2), make_views(), fraction)


def test_a_row_for_each_feature() -> None:
    views = make_views()
    views["x"][:, 7] = np.random.default_rng(3).standard_normal(300)
    scores = holdout(SSHIBA(6, random_state=0), views, per="feature")
    assert scores.index.tolist() == [*[("x", d) for d in range(8)], *[("labels", d) for d in range(5)], ("kind", "")]
    assert scores.loc[("x", 7), "r2"] < 0.2 < scores.loc[("x", 0), "r2"]
    assert scores.loc[("labels", 0), "accuracy"] > 0.7  # of half of them by chance
    with pytest.raises(ValueError, match="per must be"):
        holdout(SSHIBA(2), views, per="column")


def test_holes_made_with_the_same_seed_do_not_swallow_the_check() -> None:
    views = make_views()
    views["x"] = np.where(np.random.default_rng(0).random((300, 8)) < 0.2, np.nan, views["x"])
    scores = holdout(SSHIBA(4, random_state=0, max_iter=30), {"x": views["x"]}, random_state=0)
    assert scores.loc["x", "hidden"] == pytest.approx(0.1 * 0.8 * 300 * 8, rel=0.3)


def test_few_cells_that_make_most_of_the_error_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """One cell in grams among kilograms; without it the error is that of the others."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 1)) + 0.3 * rng.standard_normal((200, 4)), columns=list("abcd"))
    model = SSHIBA(2, random_state=0, search=None)
    hidden = check(model, {"x": table})["x"].hidden
    assert "squared error" not in caplog.text
    table.iloc[int(np.flatnonzero(hidden[:, 2])[0]), 2] = 500.0
    found = check(model, {"x": table})["x"]
    errors = (found.standardised("truth") - found.standardised("found"))[found.hidden]
    left = np.sqrt(np.mean(np.sort(errors**2)[:-1]))
    words = f"view 'x': 1 of {found.n_hidden} hidden cells ('c') makes 100 % of the squared error, and the RMSE without"
    assert f"{words} is {left:.3f}: check the units" in caplog.text


def test_too_few_cells() -> None:
    views = make_views()
    with pytest.raises(ValueError, match="no cell was hidden"):
        holdout(SSHIBA(2), views, fraction=1e-9)
    rare = np.array([None] * 300, dtype=object)
    rare[:3] = ["u", "v", "u"]
    scores = holdout(SSHIBA(2, random_state=0, max_iter=20), {"x": views["x"], "rare": rare})
    assert scores.loc["rare", "hidden"] == 0
    assert np.isnan(scores.loc["rare", "accuracy"])
