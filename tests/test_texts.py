"""Texts in tables: what means missing, what is the same label, what says yes or no, what is a date."""

import datetime as dt
import logging
import re
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sshiba import SSHIBA, Binary, Categorical, date_features, load, normalise_labels, tune
from sshiba.data.advice import DataError, DataTypeError, DataWarning
from sshiba.data.one_table import by_type
from sshiba.evaluate import holdout


def smokers() -> pd.DataFrame:
    frame = table(smokes=["no", "yes"])
    return frame.assign(smokes=np.where(frame["a"] > 0, "yes", "no"))


def table(**columns: Any) -> pd.DataFrame:
    """60 rows with two numbers that belong together, and more columns, each repeated to 60 rows."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(60)
    numbers = {"a": z + 0.1 * rng.standard_normal(60), "b": z + 0.1 * rng.standard_normal(60)}
    more = {name: pd.Series((list(cells) * 60)[:60], dtype=object) for name, cells in columns.items()}
    return pd.DataFrame({**numbers, **more})


def fit(frame: Any, **options: Any) -> SSHIBA:
    return SSHIBA(2, random_state=0, **options).fit(frame)


@pytest.mark.parametrize("marker", ["n/a", "None", "", "  ", "NULL", "<NA>", " NA "])
def test_pandas_markers_are_missing_in_frames(marker: str, caplog: pytest.LogCaptureFixture) -> None:
    frame = table(ward=["north", "south", "west", marker])
    with caplog.at_level(logging.INFO, logger="sshiba"):
        model = fit(frame)
    assert list(model.classes_["ward"]) == ["north", "south", "west"]
    assert "taken for missing: 15 cells of 1 column, 'ward'" in caplog.text
    filled = model.impute(frame)["ward"]
    assert set(filled) == {"north", "south", "west"}
    views = {"numbers": frame[["a", "b"]], "ward": frame["ward"].tolist()}
    assert list(fit(views).classes_["ward"]) == ["north", "south", "west"]


def test_markers_in_numbers_and_declared_categories() -> None:
    frame = table(dose=[1.5, "n/a", 2.5, 3.25])
    assert fit(frame).feature_names_in_["numeric"] == ["a", "b", "dose"]
    declared = table(symptoms=["None", "mild", "severe"]).astype({"symptoms": "category"})
    assert list(fit(declared).classes_["symptoms"]) == ["None", "mild", "severe"]


def test_words_that_may_be_labels_are_told_in_one_warning() -> None:
    frame = table(symptoms=["None", "mild", "severe"], ward=["NA", "north", "", "south", "nan"], dose=[1.5, "n/a", 2.5])
    views = {"numbers": frame[["a", "b"]], "symptoms": frame["symptoms"], "ward": frame["ward"].tolist()}
    for given in (frame, views):
        with pytest.warns(DataWarning) as caught:
            fit(given)
        assert len(caught) == 1
        words = str(caught[0].message)
        assert "'None', 'NA' are taken for missing in 32 cells of 'symptoms', 'ward'" in words
        assert ".astype('category')" in words


def test_suspicious_labels_are_told_in_one_warning() -> None:
    frame = table(ward=["north", "south", "?", "unknown"], size=["big", "Big", " big", "small"])
    with pytest.warns(DataWarning) as caught:
        fit(frame)
    assert len(caught) == 1
    words = str(caught[0].message)
    assert "30 labels that look like missing ('ward': '?', 'unknown')" in words
    assert "2 labels spelled in several ways ('size': 'big', 'Big', ' big')" in words
    assert "sshiba.normalise_labels" in words
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        fit(normalise_labels(frame.drop(columns="ward")))


@pytest.mark.parametrize("word", ["n.b.", "n. B.", "k. A.", "k.A", "ND", "nicht bestimmt", "entfällt", "non fait"])
def test_abbreviations_of_clinics_look_like_missing(word: str) -> None:
    with pytest.warns(DataWarning, match=re.escape(f"20 labels that look like missing ('ward': {word!r})")):
        fit(table(ward=["north", "south", word]))


def test_words_that_are_no_numbers_are_named_where_they_are_labels() -> None:
    frame = table(dose=[1.5, "verloren", 2.5, 3.25], ward=["north", "south", "verloren"], size=["big", "small", "tall"])
    with pytest.raises(DataError) as refused:
        fit(frame)
    said = str(refused.value)
    assert "'dose' mixes numbers and text: 'verloren' in 15 of 60 cells" in said
    assert "column 'ward' has 'verloren' as a label, in 20 cells: set it to NaN or None if it means missing" in said
    assert "size" not in said


def test_spellings_of_categories_become_one_label_without_outer_blanks() -> None:
    levels = ["low ", "Low", "low", "high ", "never seen"]
    cells = pd.Categorical(["low ", "Low", "low", "high ", None, "low "], categories=levels, ordered=True)
    found = normalise_labels(pd.DataFrame({"x": cells, "y": pd.Series(cells).astype(object)}))
    assert found["x"].tolist()[:4] == ["low", "low", "low", "high"]
    assert found["y"].dropna().tolist() == ["low", "low", "low", "high", "low"]
    assert found["x"].dtype == pd.CategoricalDtype(["low", "high", "never seen"], ordered=True)
    assert found["x"].isna().tolist() == [False, False, False, False, True, False]


def test_spellings_become_one_label() -> None:
    frame = pd.DataFrame({"x": ["Big  one", "big one", "big one", None, 3], "n": range(5)})
    assert normalise_labels(frame)["x"].tolist() == ["big one"] * 3 + [None, 3]
    assert normalise_labels(frame, {"x": ["BIG ONE"]})["x"].tolist() == ["BIG ONE"] * 3 + [None, 3]
    assert frame["x"].iloc[0] == "Big  one"


@pytest.mark.parametrize("words", [("no", "yes"), ("FALSE", "TRUE"), ("nein", "ja"), ("N", "J"), ("-", "+")])
def test_words_for_yes_and_no_are_binary_and_come_back(words: tuple[str, str], tmp_path: Path) -> None:
    frame = table(smokes=words)
    frame["smokes"] = np.where(frame["a"] > 0, words[1], words[0])
    frame["old"] = (frame["b"] > 0).astype(int)
    high, low = frame["a"].idxmax(), frame["a"].idxmin()
    frame.loc[[high, low], "smokes"] = None
    model = fit(frame)
    assert model.feature_names_in_["binary"] == ["smokes", "old"]
    model.save(tmp_path / "m.sshiba")
    for one in (model, load(tmp_path / "m.sshiba")):
        filled = one.impute(frame)
        assert (filled["smokes"][low], filled["smokes"][high]) == words
        assert filled["old"].dtype == frame["old"].dtype
        found = one.predict(frame[["a", "b"]])
        assert set(found["smokes"]) == set(words)
        assert (found["smokes"] == filled["smokes"]).mean() > 0.85
        proba = one.predict_proba(frame[["a", "b"]], "smokes")
        assert ((proba > 0.5) == (found["smokes"] == words[1])).all()
    assert set(model.sample(5)["smokes"]) <= set(words)


def test_spellings_of_yes_and_no_and_what_is_neither() -> None:
    frame = table(smokes=["Yes", "yes", "YES", " yes", "no", "No"], sex=["f", "m"])
    assert by_type(frame)[0] == {"numeric": ["a", "b"], "binary": ["smokes"], "sex": ["sex"]}
    views = {"x": ["yes", "no"] * 6, "y": pd.Categorical(["yes", "no"] * 6), "z": ["yes", "no", "maybe"] * 4}
    kinds = {name: type(view) for name, view in SSHIBA(1).fit(views).views_.items()}
    assert kinds == {"x": Binary, "y": Categorical, "z": Categorical}


def test_words_are_scored_like_numbers() -> None:
    frame = table(smokes=["no"])
    frame["smokes"] = np.where(frame["a"] > 0, "yes", "no")
    assert holdout(SSHIBA(2, random_state=0), frame, 0.2).loc["binary", "accuracy"] > 0.7
    tuned = tune(SSHIBA(random_state=0), frame, {"n_components": [1, 2]}, "smokes", n_folds=2, scoring="auc")
    assert tuned.table["score"].min() > 0.7


def test_columns_of_one_label_are_left_aside_at_once() -> None:
    frame = table(country=["DE"], site=["A", None], ward=["north", "south"])
    with pytest.warns(DataWarning, match=r"one label only in 2 columns \('country', 'site'\), left aside"):
        model = fit(frame)
    assert list(model.views_) == ["numeric", "ward"]
    assert (model.impute(frame)["country"] == "DE").all()


def test_row_labels_may_repeat_where_nothing_is_matched() -> None:
    frame = table(ward=["north", "south", None]).set_axis([f"p{i // 2}" for i in range(60)])
    model = fit(frame)
    filled = model.impute(frame)
    assert filled.index.equals(frame.index)
    assert (filled["a"] == frame["a"]).all()
    assert not filled["ward"].isna().any()
    assert len(model.predict(frame[["a"]], "b")) == 60
    assert fit({"x": frame[["a"]], "y": frame[["b"]]}).index_.equals(frame.index)
    with pytest.raises(DataError, match="duplicate index labels 'p0'"):
        fit({"x": frame[["a"]], "y": frame[["b"]].iloc[::-1]})


ODD = {
    "dates": ([dt.date(2020, 1, 1), dt.date(2021, 2, 3)], "holds dates or times"),
    "times": ([dt.time(1, 2), dt.time(3, 4)], "holds dates or times"),
    "bytes": ([b"a", b"b"], "holds values of type bytes"),
    "identifiers": ([uuid.UUID(int=1), uuid.UUID(int=2)], "holds values of type UUID"),
    "complex": ([1j, 2.0], "holds complex numbers"),
    "lists": ([[1], [2]], "holds lists"),
}


@pytest.mark.parametrize("case", ODD)
def test_columns_of_other_kinds_are_refused_in_a_sentence(case: str) -> None:
    cells, words = ODD[case]
    with pytest.raises(DataError, match=f"column 'odd' {words}.*leave it out"):
        fit(table(odd=cells))


@pytest.mark.parametrize(
    "when",
    [
        ["2020-01-31", "2021-02-01", None],
        [dt.date(2020, 1, 31), dt.date(2021, 2, 1), None],
        ["31.1.2020", "1.2.2021", None],
    ],
)
def test_dates_become_features_on_request(when: list) -> None:
    found = date_features(table(when=when))
    assert list(found.columns[2:]) == ["when year", "when month", "when weekday", "when days since 1970"]
    assert found.iloc[0, 2:].tolist() == [2020, 1, "Friday", 18292]
    assert found.iloc[1, 2:5].tolist() == [2021, 2, "Monday"]
    assert found.iloc[2, 2:].isna().all()
    assert "when weekday" in fit(found).views_


IN_BERLIN = pd.Series(pd.to_datetime(["2020-01-01 00:00", "2020-07-01 00:30"]).tz_localize("Europe/Berlin"))


@pytest.mark.parametrize(
    "when",
    [
        IN_BERLIN,
        IN_BERLIN.astype(object),
        IN_BERLIN.astype(pd.ArrowDtype(pa.timestamp("us", "Europe/Berlin"))),
        pd.Series(["2020-01-01T00:00:00.000+01:00", "2020-07-01 00:30+0200"]),
        pd.Series(["1.1.2020 12:00 AM +01", "1.7.2020 0:30 +02:00"]),
        pd.Series(["2020-01-01 00:00Z", "2020-07-01T0030+02"]),
    ],
)
def test_dates_keep_the_day_and_the_time_of_their_zone(when: pd.Series) -> None:
    found = date_features(pd.DataFrame({"when": when}), ["when"], day_first=True)
    assert found.iloc[0].tolist() == [2020, 1, "Wednesday", 18262]
    assert found.iloc[1].tolist() == [2020, 7, "Wednesday", pytest.approx(18444 + 0.5 / 24, abs=1e-6)]


def test_a_frame_of_several_types_in_a_dict_is_told_how_it_is_split() -> None:
    """That first; of text in new rows of a column of numbers only that it may mean missing."""
    frame = smokers()
    with pytest.raises(DataTypeError, match=r"'smokes' holds text \('.*'\): give it an entry of its own in the dict"):
        fit({"clinic": frame, "others": frame[["b"]].rename(columns={"b": "c"})})
    model = fit({"clinic": frame[["a", "b"]], "smokes": frame["smokes"]})
    with pytest.raises(
        DataTypeError, match=r"holds text .*: set it to NaN or None if it means missing, or leave it out"
    ):
        model.transform({"clinic": frame[["a", "b"]].assign(a="many")})


UNITS = {
    "holds numbers with a unit such as '0 cm': take off the unit and": [f"{n} cm" for n in range(30)],
    "holds numbers in several units: 'kg' in 40, 'g' in 20 of 60": [
        f"{n}.5 {u}" for n in range(20) for u in ("kg", "kg", "g")
    ],
    "mixes numbers and text: 'unknown' in 1 of 60": [*(f"{n} µg/dl" for n in range(59)), "unknown"],
}


@pytest.mark.parametrize("words", UNITS)
def test_numbers_with_units_are_no_labels(words: str) -> None:
    with pytest.raises(DataError, match=words):
        by_type(table(x=UNITS[words]).set_axis(["p"] * 60))


@pytest.mark.parametrize(
    "cells", [["5 mg", "10 mg", "20 mg"], ["1a", "1b", "2a", "3", "unknown"], ["12A", "12B", "13A"]]
)
def test_a_few_labels_may_look_like_numbers_with_units(cells: list[str]) -> None:
    assert by_type(table(x=cells))[0]["x"] == ["x"]


def test_words_never_seen_in_a_binary_column_are_missing_and_counted(tmp_path: Path) -> None:
    frame = smokers()
    new = frame.head(6).assign(smokes=["Yes", " NO ", "former", None, "former", "never"])
    known = frame.head(6).assign(smokes=["yes", "no", None, None, None, None])
    model = fit(frame)
    words = r"column 'smokes': class 'former', 'never' unseen in training, first in row 2: 3 labels treated as missing"
    with pytest.warns(UserWarning, match=words):
        found = model.transform(new)
    pd.testing.assert_frame_equal(found, model.transform(known))
    pd.testing.assert_frame_equal(found, model.transform(known.astype({"smokes": "category"})))
    strict = fit(frame, views={"binary": Binary(unseen="error")})
    strict.save(tmp_path / "m.sshiba")
    with pytest.raises(ValueError, match=r"'former', 'never' unseen in training.*known are 'no', 'yes'"):
        load(tmp_path / "m.sshiba").transform(new)


@pytest.mark.parametrize("when", ["3 Jan 2020", "03-Jan-2020", "January 3, 2020", "3 jan 2020 10:30", "2020/01/03"])
def test_dates_with_the_names_of_months_are_dates(when: str) -> None:
    found = date_features(table(when=[when]))
    assert found.iloc[0, 2:5].tolist() == [2020, 1, "Friday"]


def test_a_column_of_dates_has_one_order() -> None:
    """Also in cells that fit both; where nothing tells, it is asked."""
    days = date_features(table(when=["03/04/2020", "25/04/2020"]))
    assert days["when month"].tolist()[:2] == [4, 4]
    months = date_features(table(when=["03/04/2020", "03/25/2020"]))
    assert months["when month"].tolist()[:2] == [3, 3]
    unclear = table(when=["03/04/2020", "05/04/2020"])
    with pytest.raises(DataError, match=r"column 'when': is '03/04/2020' a day and a month.*day_first=True"):
        date_features(unclear)
    assert date_features(unclear, day_first=True)["when month"][0] == 4
    assert date_features(unclear, day_first=False)["when month"][0] == 3
    other = date_features(table(when=["03/04/2020", "05/04/2020"], birth=["25/12/1990", "01/02/1991"]))
    assert other["when month"][0] == 4  # the other column tells
    with pytest.raises(DataError, match="dates in two orders, '25/04/2020' and '04/25/2020'"):
        date_features(table(when=["25/04/2020", "04/25/2020"]))
    with pytest.raises(DataError, match="'soon' in 1 of 60 cells is no date"):
        date_features(table(when=[*["2020-01-31"] * 59, "soon"]))
