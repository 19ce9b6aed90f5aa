"""What is said of a messy table that is read all the same: outliers, copies, labels with an order."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import sshiba
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from sshiba import SSHIBA, Ordinal, Real, load
from sshiba.data.advice import DataWarning
from sshiba.data.far_off import far_off
from sshiba.data.ordered_words import in_order

N = 80


def clean() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.standard_normal(N)
    frame = pd.DataFrame({"hb": 12 + z + 0.3 * rng.standard_normal(N), "crp": np.exp(z + 0.3 * rng.standard_normal(N))})
    frame["sex"] = rng.choice(["m", "f", "d"], N)
    frame["Blutdruck syst."] = np.round(120 + 10 * z + 5 * rng.standard_normal(N))
    return frame


def said_of(frame: pd.DataFrame, caplog: pytest.LogCaptureFixture, types: object = None) -> str:
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        SSHIBA(2, types, max_iter=2, search=None).fit(frame)
    hints = [str(one.message) for one in caught if isinstance(one.message, DataWarning)]
    hints += [message for message in caplog.messages if "n_components" not in message]
    caplog.clear()
    return "\n".join(hints)


def with_outliers(frame: pd.DataFrame) -> None:
    frame.loc[[3, 9], "hb"], frame.loc[5, "crp"] = 99, 81200


def with_copies(frame: pd.DataFrame) -> None:
    frame["RR"], frame["Geschlecht"] = frame["Blutdruck syst."].astype(int), frame["sex"]


def with_words(frame: pd.DataFrame) -> None:
    frame["Schmerz"] = np.array(["Leicht", "mittel", "schwer"])[np.digitize(frame["hb"], [11.5, 12.5])]


WORDS = "Leicht,mittel,schwer"
CASES = {
    "outliers": (
        with_outliers,
        ["'hb': 99 (2 cells) is far", "81200 (1 cell)", "margin='auto'"],
        ["--missing hb=99", "if its unit is wrong"],
    ),
    "copies": (
        with_copies,
        ["'RR' repeats 'Blutdruck syst.' in every row", "'Geschlecht' repeats 'sex'"],
        ["--drop RR;", "--drop Geschlecht"],
    ),
    "words": (with_words, ["Ordinal(levels=['Leicht', 'mittel', 'schwer'])"], [f"--levels Schmerz={WORDS}"]),
}


@pytest.mark.parametrize("case", CASES)
def test_hints_are_given_in_python_and_in_a_shell(case: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    change: Callable[[pd.DataFrame], None]
    change, pieces, options = CASES[case]
    frame = clean()
    assert said_of(frame, caplog) == ""
    change(frame)
    said = said_of(frame, caplog)
    for piece in pieces:
        assert piece in said
    frame.to_csv(tmp_path / "t.csv", index=False)
    shown = sshiba("impute", "t.csv", "-o", "o.csv", "--components", 2, cwd=tmp_path).stderr
    for option in options:
        assert option in shown
    assert "Ordinal(" not in shown


def test_checks_advise_once_what_a_fit_advises(tmp_path: Path) -> None:
    frame = clean()
    with_outliers(frame)
    frame["ward"] = np.resize(["north", "south", "?"], N)
    frame.to_csv(tmp_path / "t.csv", index=False)
    few = ("--components", 2)
    fitted = sshiba("fit", "t.csv", "-o", "m.sshiba", *few, cwd=tmp_path)
    checks = [("evaluate", "t.csv", *few), ("report", "m.sshiba", "--data", "t.csv", "-o", "r.html")]
    for said in (fitted, *(sshiba(*words, cwd=tmp_path) for words in checks)):
        assert said.returncode == 0
        for hint in ("--missing hb=99", "--missing crp=81200", "--missing 'ward=?'"):
            assert said.stderr.count(hint) == 1


def test_advice_that_is_taken_is_not_given_again(caplog: pytest.LogCaptureFixture) -> None:
    frame = clean()
    with_words(frame)
    with_outliers(frame)
    levels = Ordinal(levels=WORDS.split(","))
    frame = frame.replace({"hb": {99: np.nan}, "crp": {81200: np.nan}})
    assert said_of(frame, caplog, {"Schmerz": levels}) == ""


def test_few_columns_of_real_tables_have_cells_that_are_far_off() -> None:
    for fetch in (load_breast_cancer, load_diabetes, load_iris, load_wine):
        assert len(far_off(fetch().data)) <= (fetch is load_breast_cancer)


def test_far_off_cells_are_few_on_the_scale_that_suits_their_column() -> None:
    rng = np.random.default_rng(0)
    column = np.exp(1.5 * rng.standard_normal(400))
    assert far_off(column[:, None]) == {}
    sizes = np.repeat([0.0, 1.0, 15.0], [390, 9, 1])  # nearly all are one value
    assert far_off(sizes[:, None]) == {}
    column[7] = -40 * column.max()
    column[8] = np.nan
    found = far_off(np.column_stack([column, sizes]))
    assert list(found) == [0]
    assert found[0].values == (column[7],)
    assert found[0].nearest == np.nanmin(np.delete(column, 7))


@pytest.mark.parametrize("odd", [[], ["?"]])
def test_the_end_of_a_scale_does_not_look_like_missing(odd: list[str], caplog: pytest.LogCaptureFixture) -> None:
    frame = clean()
    frame["pain"] = np.array(["none", "mild", "severe"])[np.digitize(frame["hb"], [11.5, 12.5])]
    frame.loc[frame.index[: len(odd)], "pain"] = odd
    frame["state"] = np.array(["none", "north", "south"])[np.digitize(frame["hb"], [11.5, 12.5])]
    said = said_of(frame, caplog)
    assert ("'pain': '?'" in said) == bool(odd)
    assert "'state': 'none'" in said
    assert "'pain': 'none'" not in said
    assert "'?', 'none'" not in said
    assert ("'pain' looks ordered" in said) == (not odd)


@pytest.mark.parametrize("margin", [None, "log", "auto", {"crp": "log"}])
def test_each_column_is_looked_at_on_its_own_scale(margin: object, caplog: pytest.LogCaptureFixture) -> None:
    """What is far off on one scale may be usual on another; a margin of one column says nothing about the others."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"hb": 13 + rng.standard_normal(N), "crp": np.exp(2 * rng.standard_normal(N))})
    frame["low"] = np.exp(rng.standard_normal(N))
    frame.loc[3, "hb"], frame.loc[4, "low"] = 124, 1e-6
    said = said_of(frame, caplog, {"numeric": Real(margin=margin)})
    assert "'hb': 124 (1 cell) is far from all others" in said
    assert margin == "auto" or ("'low': 1e-06 (1 cell)" in said) == (margin == "log")
    assert "crp" not in said
    assert ("margin='auto'" in said) == (margin is None or isinstance(margin, dict))


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["severe", "mild", "moderate"], ["mild", "moderate", "severe"]),
        (["III", "I", "IV", "II"], ["I", "II", "III", "IV"]),
        (["immer", "nie", "oft"], ["nie", "oft", "immer"]),
        (["mild", "severe"], None),
        (["mild", "severe", "other"], None),
        (["Mild", "mild", "moderate", "severe"], None),
    ],
)
def test_words_in_order(labels: list[str], order: list[str] | None) -> None:
    assert in_order(labels) == order


# ------------------------------------------------------------------------------------------------- new rows


def test_numbers_of_new_rows_beyond_all_of_training_are_named() -> None:
    """In the user's units, also through a margin; rows of training never are, however far off one of them is."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((250, 2))
    frame = pd.DataFrame(z @ rng.standard_normal((2, 4)) + 0.5 * rng.standard_normal((250, 4)), columns=list("abcd"))
    frame["a"], frame["b"] = 130 + 20 * frame["a"], np.exp(frame["b"])
    frame.loc[7, "c"] = 1e4
    new = frame.iloc[:20].copy()
    new.loc[[1, 2], "a"] = -999.0, -900.0
    new.loc[4, "b"] = 1e9
    for margin in (None, "auto"):
        model = SSHIBA(2, {"numeric": Real(margin=margin)}, random_state=0, max_iter=20, search=None)
        with warnings.catch_warnings(action="ignore"):
            model.fit(frame)
        with pytest.warns(DataWarning) as found:
            model.transform(new)
        said = " ".join(str(warning.message) for warning in found)
        assert "'a': -999 is " in said
        assert "and 1 more cell as far off: check the units, or if it means missing, set it to NaN" in said
        assert "'b': 1e+09 is " in said
        with warnings.catch_warnings(action="error"):
            model.transform(frame)


@pytest.mark.parametrize("n", [150, 1500])
def test_new_rows_are_named_where_they_are_far_beyond_the_range_of_training(n: int, tmp_path: Path) -> None:
    """However many rows were seen, also by a model from its file; skewed columns have a few large cells anyway."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"hb": 13 + rng.standard_normal(n), "crp": np.minimum(rng.lognormal(0, 1, n), 12)})
    SSHIBA(1, random_state=0, max_iter=5, search=None).fit(frame).save(tmp_path / "m.sshiba")
    model = load(tmp_path / "m.sshiba")
    new = pd.DataFrame({"hb": [13.0, 26.0, 20.0], "crp": [35.0, 1.0, 20.0]})
    with pytest.warns(DataWarning) as found:
        model.transform(new)
    said = str(found[0].message)
    assert "'crp': 35 is " in said
    assert "'hb': 26 is " in said
    assert "more cell" not in said
    drawn = pd.DataFrame({"hb": 13 + rng.standard_t(3, 30), "crp": rng.lognormal(0, 1, 30)})
    with warnings.catch_warnings(action="error"):
        model.transform(drawn)


def test_limits_of_one_column_leave_all_others_checked() -> None:
    """A value that is known to lie beyond its limit is no farther than that limit."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((250, 1))
    frame = pd.DataFrame(z + 0.5 * rng.standard_normal((250, 3)), columns=list("abc")).clip(
        lower=pd.Series({"a": -0.5, "b": -np.inf, "c": -np.inf}), axis=1
    )
    model = SSHIBA(1, {"numeric": Real(limits={"a": (-0.5, None)})}, random_state=0, max_iter=20, search=None)
    model.fit(frame)
    new = frame.iloc[:20].copy()
    new.loc[1, "b"], new.loc[2, "a"], new.loc[3, "a"] = 900.0, 800.0, -700.0
    with pytest.warns(DataWarning) as found:
        model.transform(new)
    said = " ".join(str(warning.message) for warning in found)
    assert "'b': 900 is " in said
    assert "'a': 800 is " in said
    assert "-700" not in said
    with warnings.catch_warnings(action="error"):
        model.transform(frame)
