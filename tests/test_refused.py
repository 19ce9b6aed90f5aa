"""What the public API refuses, by name and with nothing lost."""

import copy
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import BITS, LABELS, NAN, NUMBERS, ROWS, N, fit, frame, make_views, same, with_cell
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sshiba import SSHIBA, Binary, Categorical, Priors, Real
from sshiba.cli.terminal import OPTIONS
from sshiba.data.advice import DataTypeError
from sshiba.data.refusing import refusal


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"n_components": 2.5}, TypeError, "n_components"),
        ({"n_init": 0}, ValueError, "n_init"),
        ({"tol": -1}, ValueError, "tol"),
        ({"missing": "drop"}, ValueError, "missing"),
        ({"acceleration": "warp"}, ValueError, "acceleration"),
        ({"device": "gpu"}, ValueError, "device"),
        ({"engine": "spark"}, ValueError, "engine"),
        ({"engine": "dask"}, ValueError, "needs a Dask client"),
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


def test_unscaled_features_may_not_differ_too_much() -> None:
    views = make_views()
    views["X"] = views["X"] * 10.0 ** np.linspace(-150, 150, 8)
    with pytest.raises(ValueError, match=r"'X'.*scale=True"):
        fit(views, views={"X": Real(scale=False)})
    assert np.isfinite(fit(views).factors_).all()


# what is given, types, and pieces of the one sentence that comes back
BAD_TRAINING: dict[str, tuple[Any, Any, list[str]]] = {
    "infinite": (
        {"v": frame(with_cell(NUMBERS, 4, 1, np.inf))},
        None,
        ["'v'", "1 infinite value", "'r4'", "'b'", "NaN"],
    ),
    "two infinite": (
        {"v": with_cell(with_cell(NUMBERS, 4, 1, -np.inf), 7, 0, np.inf)},
        None,
        ["2 infinite", "4"],
    ),
    "feature unobserved": ({"v": frame(with_cell(NUMBERS, slice(None), 2, NAN))}, None, ["'v'", "'c'"]),
    "binary unobserved": (
        {"v": with_cell(BITS * 1.0, slice(None), 1, NAN)},
        {"v": Binary()},
        ["'v'", "1 column (1)"],
    ),
    "binary value": (
        {"v": frame(with_cell(BITS, 3, 1, 2), "pq")},
        {"v": Binary()},
        ["'v'", "first 2 in", "'r3'", "'q'"],
    ),
    "binary text": ({"v": ["big", "small"] * 6}, {"v": "binary"}, ["'v'", "'big'", "0 / 1"]),
    "one class": ({"v": ["a"] * N}, None, ["'v'", "one class", "'a'"]),
    "no class": ({"v": [None] * N}, {"v": Categorical}, ["'v'", "no label"]),
    "categorical of two columns": (
        {"v": frame(BITS, "pq")},
        {"v": Categorical()},
        ["'v'", "2", "'p', 'q'", "one categorical view per column"],
    ),
    "text of two columns": (
        {"v": pd.DataFrame({"p": LABELS, "q": LABELS})},
        None,
        ["'v'", "one categorical view per column"],
    ),
    "labels of dates": ({"v": [date(2020, 1, 1), date(2020, 1, 2)] * 6}, {"v": Categorical}, ["'v'", "date"]),
    "labels of lists": (
        {"v": np.array([{"a": 1}, {"b": 1}] * 6, dtype=object)},
        {"v": Categorical},
        ["'v'", "text, finite numbers"],
    ),
    "labels infinite": ({"v": [1.0, np.inf] * 6}, {"v": Categorical}, ["'v'", "inf"]),
    "labels of bytes": ({"v": np.array([b"a", b"b"] * 6)}, {"v": Categorical}, ["'v'", "bytes"]),
    "row counts": ({"v": NUMBERS, "w": BITS[:5]}, None, ["'v' has 12", "'w' has 5"]),
    "row counts with a frame": ({"v": frame(), "w": BITS[:5]}, None, ["'w'", "5 rows", "'v'", "12"]),
    "rows of frames beside an array": (
        {"v": frame(), "u": frame(index=range(N)), "w": BITS},
        None,
        ["'u'", "'v'", "'w'", "different row labels"],
    ),
    "duplicate index": (
        {"v": frame(index=["x", "x", *ROWS[2:]]), "u": frame()},
        None,
        ["'v'", "duplicate index", "'x'"],
    ),
    "duplicate columns": ({"v": frame(columns="aba")}, None, ["'v'", "duplicate column", "'a'"]),
    "odd column names": (
        {"v": pd.DataFrame(NUMBERS, columns=pd.date_range("2020", periods=3))},
        None,
        ["'v'", "column names", "astype(str)"],
    ),
    "no rows in common": (
        {"v": frame(), "u": frame(), "w": frame(index=range(N))},
        None,
        ["'w'", "no rows in common", "0, 1, 2"],
    ),
    "no rows": ({"v": NUMBERS[:0]}, None, ["'v'", "0 rows"]),
    "no columns": ({"v": NUMBERS[:, :0]}, None, ["'v'", "0 columns"]),
    "no columns in a frame": ({"v": pd.DataFrame(index=ROWS)}, None, ["'v'", "0 columns"]),
    "empty list": ({"v": []}, None, ["'v'", "0 rows"]),
    "no views": ({}, None, ["no views"]),
    "not a mapping": ([NUMBERS], None, ["dict", "list"]),
    "types not a mapping": ({"v": NUMBERS}, ["real"], ["dict", "list"]),
    "view name": ({3: NUMBERS}, None, ["text", "3"]),
    "unknown view in types": ({"pixels": NUMBERS}, {"pixel": Real()}, ["'pixel'", "Did you mean 'pixels'?"]),
    "unknown type": ({"v": NUMBERS}, {"v": "reel"}, ["'v'", "'reel'", "'real'"]),
    "text in numbers": (
        {"v": pd.DataFrame({"p": [1.5] * N, "q": ["x", "y", 1.0] * 4})},
        {"v": Real()},
        ["'v'", "'q'", "'x' in 4 and 'y' in 4 of 12 cells are not numbers", "entry of its own"],
    ),
    "numbers as text": (
        {"v": [str(x) for x in NUMBERS[:, 0]]},
        None,
        ["'v'", "stored as text", "pd.to_numeric"],
    ),
    "dates": ({"v": pd.DataFrame({"p": pd.date_range("2020", periods=N)})}, None, ["'v'", "'p'", "dates"]),
    "dates as objects": ({"v": [date(2020, 1, 1)] * N}, None, ["'v'", "dates"]),
    "time differences": ({"v": np.arange(N).astype("m8[s]")}, None, ["'v'", "dates or times"]),
    "complex": ({"v": NUMBERS + 1j}, None, ["'v'", "complex"]),
    "large integers": (
        {"v": frame(with_cell(np.arange(36).reshape(N, 3), 2, 0, 2**53 + 1))},
        None,
        ["'v'", "9007199254740993", "'r2'", "'a'"],
    ),
    "large nullable integers": (
        {"v": pd.Series([2**60, None, *range(10)], dtype="Int64")},
        {"v": Real()},
        ["'v'", "2**53", "row 0"],
    ),
    "objects": ({"v": np.array([[1], {}] * 6, dtype=object)}, {"v": Real}, ["'v'", "type"]),
    "sparse": ({"v": sparse.csr_matrix(with_cell(NUMBERS, 1, 1, NAN))}, None, ["'v'", "row 1", "column 1", "dense"]),
    "sparse columns": ({"v": frame().astype("Sparse[float64]")}, None, ["'v'", "to_dense"]),
    "three dimensions": ({"v": np.zeros((2, 3, 4))}, None, ["'v'", "3 dimensions"]),
    "structured": ({"v": np.zeros(3, dtype=[("a", "f8")])}, None, ["'v'", "structured"]),
    "ragged": ({"v": [[1.0, 2.0], [3.0]]}, None, ["'v'", "lengths"]),
    "deep list": ({"v": [[[1.0], [2.0]]]}, None, ["'v'", "nested"]),
    "None": ({"v": NUMBERS, "w": None}, None, ["'w'", "None"]),
    "scalar": ({"v": 3}, None, ["'v'", "int"]),
    "text": ({"v": "abc"}, None, ["'v'", "str"]),
    "weight zero": ({"v": NUMBERS}, {"v": Real(weight=0)}, ["'v'", "weight"]),
    "weight nan": ({"v": BITS}, {"v": Binary(weight=NAN)}, ["'v'", "weight"]),
    "weight infinite": ({"v": LABELS}, {"v": Categorical(weight=np.inf)}, ["'v'", "weight"]),
    "weight above one": ({"v": NUMBERS}, {"v": Real(weight=2.0)}, ["'v'", "2 exact copies", "run away"]),
    "groups alone": ({"v": NUMBERS}, {"v": Real(groups=[0, 0, 1])}, ["'v'", "select_features=True"]),
    "groups of features": ({"v": NUMBERS}, {"v": Real(True, [0, 1])}, ["'v'", "3 labels", "not 2"]),
    "groups of classes": ({"v": LABELS}, {"v": Categorical(True, [0, 1])}, ["'v'", "3 labels", "not 2"]),
    "real noise": ({"v": NUMBERS}, {"v": Real(noise="cell")}, ["'v'", "'feature' or 'view'"]),
    "binary noise": ({"v": BITS}, {"v": Binary(noise=0.0)}, ["'v'", "'learned'"]),
    "binary noise text": ({"v": BITS}, {"v": Binary(noise="feature")}, ["'v'", "'learned'"]),
}


@pytest.mark.parametrize("case", BAD_TRAINING)
def test_bad_training_data_get_one_clear_error(case: str) -> None:
    views, types, pieces = BAD_TRAINING[case]
    before = copy.deepcopy(views)
    with pytest.raises((ValueError, TypeError)) as caught:
        SSHIBA(views=types).fit(views)
    for piece in pieces:
        assert piece in str(caught.value)
    assert same(before, views)


BAD_NEW: dict[str, tuple[Any, list[str]]] = {
    "too few columns": ({"x": NUMBERS[:, :2]}, ["'x'", "2 columns", "3"]),
    "one row": ({"x": NUMBERS[0]}, ["'x'", "reshape(1, -1)"]),
    "columns lacking": ({"x": frame()[["c", "a"]]}, ["'x'", "'b'"]),
    "unknown view": ({"xx": NUMBERS}, ["'xx'", "'x', 'bits', 'who'", "Did you mean 'x'?"]),
    "no views": ({}, ["no views"]),
    "infinite": ({"x": frame(with_cell(NUMBERS, 0, 0, np.inf))}, ["'x'", "'r0'", "'a'"]),
    "binary value": ({"bits": BITS + 1}, ["'bits'", "non-binary"]),
    "text": ({"x": np.full((2, 3), "1.0")}, ["'x'", "stored as text"]),
    "row counts": ({"x": NUMBERS, "bits": BITS[:3]}, ["'x' has 12", "'bits' has 3"]),
    "duplicate index": ({"x": frame(index=["q"] * N), "bits": frame(BITS, "pq")}, ["'x'", "duplicate index"]),
    "no columns": ({"x": NUMBERS[:, :0]}, ["'x'", "0 columns"]),
}


@pytest.fixture(scope="module")
def small() -> SSHIBA:
    return fit({"x": frame(), "bits": BITS, "who": LABELS})


@pytest.mark.parametrize("case", BAD_NEW)
def test_bad_new_data_get_one_clear_error(case: str, small: SSHIBA) -> None:
    views, pieces = BAD_NEW[case]
    before = copy.deepcopy(views)
    with pytest.raises((ValueError, TypeError)) as caught:
        small.transform(views)
    for piece in pieces:
        assert piece in str(caught.value)
    assert same(before, views)


def test_cells_beyond_a_limit_of_detection_are_not_called_missing() -> None:
    """'<0.5' says that the value is small: taken for missing it would be filled with any."""
    problem = refusal(pd.Series(["<0,5", "1.2", "3.1", "-", "0.7", "2.2", "1.9"], name="crp"))
    assert problem is not None
    assert "name the limit: Real(limits={'crp': (0.5, None)}), or set it to NaN" in str(problem)
    assert problem.said(OPTIONS).endswith(
        "--limits 'crp=0.5,', or name what means missing with --missing -, or leave it out with --drop"
    )
    only = refusal(pd.Series(["<0.5", "1.2", "3.1", ">9", "0.7"], name="crp"))
    assert only is not None
    assert "--limits crp=0.5,9, or leave" in only.said(OPTIONS)
    assert "missing" not in str(only)
    several = refusal(pd.Series(["<0.5", "<0.3", "1.2", "3.1", "0.7", "2.2", "1.9"], name="crp"))
    assert several is not None
    assert "a column that has the limit of each row" in str(several)


def test_text_among_numbers_of_new_rows_is_named() -> None:
    """As in training: the cells that are no numbers, not those that are."""
    model = SSHIBA(2, max_iter=5, search=None).fit(pd.DataFrame(make_views()["X"][:, :2], columns=["crp", "hb"]))
    new = pd.DataFrame({"crp": ["1,27", "<0,5", "4,85", "<0,5", None], "hb": 1.0})
    with pytest.raises(DataTypeError, match=r"'crp' mixes numbers and text: '<0,5' in 2 of 4 cells is not a number"):
        model.transform(new)


@pytest.mark.parametrize(("value", "n", "words"), [(None, 3, "no cell has a value: check how"), (1.0, 0, "no rows")])
def test_tables_without_anything(value: object, n: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SSHIBA().fit(pd.DataFrame({"a": [value] * n, "b": [value] * n}))
