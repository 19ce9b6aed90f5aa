"""What the user gives: read, refused in one sentence, aligned and coded."""

from __future__ import annotations

import copy
import logging
import warnings
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import BITS, LABELS, NAN, NUMBERS, ROWS, N, frame, same
from scipy import sparse

from sshiba.likelihoods import Binary, Categorical, Real
from sshiba.tables import read_table
from sshiba.views import fill, read_new, read_training, to_user


def with_cell(values: np.ndarray, row: int, column: int, value: Any) -> np.ndarray:
    changed = values.copy()
    changed[row, column] = value
    return changed


# Errors -------------------------------------------------------------------------------------------------

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
        ["'v'", "1 column: 1"],
    ),
    "binary value": (
        {"v": frame(with_cell(BITS, 3, 1, 2), "pq")},
        {"v": Binary()},
        ["'v'", "first 2 in", "'r3'", "'q'"],
    ),
    "binary text": ({"v": ["yes", "no"] * 6}, {"v": "binary"}, ["'v'", "'yes'", "0 / 1"]),
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
    "duplicate index": ({"v": frame(index=["x", "x", *ROWS[2:]])}, None, ["'v'", "duplicate index", "'x'"]),
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
        ["'v'", "'q'", "'x', 'y'", "Categorical"],
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
    "sparse": ({"v": sparse.csr_matrix(NUMBERS)}, None, ["'v'", ".toarray()"]),
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
def test_bad_training_data_get_one_clear_error(case):
    views, types, pieces = BAD_TRAINING[case]
    before = copy.deepcopy(views)
    with pytest.raises((ValueError, TypeError)) as caught:
        read_training(views, types)
    for piece in pieces:
        assert piece in str(caught.value)
    assert same(before, views)


BAD_NEW: dict[str, tuple[Any, list[str]]] = {
    "unseen class": (
        {"who": ["lo", "none", "huge"]},
        ["'who'", "'none', 'huge'", "row 1", "'hi', 'lo', 'mid'"],
    ),
    "too few columns": ({"x": NUMBERS[:, :2]}, ["'x'", "2 columns", "3"]),
    "one row": ({"x": NUMBERS[0]}, ["'x'", "reshape(1, -1)"]),
    "columns lacking": ({"x": frame()[["c", "a"]]}, ["'x'", "'b'"]),
    "unknown view": ({"xx": NUMBERS}, ["'xx'", "'x', 'bits', 'who'", "Did you mean 'x'?"]),
    "no views": ({}, ["no views"]),
    "infinite": ({"x": frame(with_cell(NUMBERS, 0, 0, np.inf))}, ["'x'", "'r0'", "'a'"]),
    "binary value": ({"bits": BITS + 1}, ["'bits'", "non-binary"]),
    "text": ({"x": np.full((2, 3), "1.0")}, ["'x'", "stored as text"]),
    "row counts": ({"x": NUMBERS, "bits": BITS[:3]}, ["'x' has 12", "'bits' has 3"]),
    "duplicate index": ({"x": frame(index=["q"] * N)}, ["'x'", "duplicate index"]),
    "no columns": ({"x": NUMBERS[:, :0]}, ["'x'", "0 columns"]),
}


@pytest.mark.parametrize("case", BAD_NEW)
def test_bad_new_data_get_one_clear_error(case, schema):
    views, pieces = BAD_NEW[case]
    before = copy.deepcopy(views)
    with pytest.raises((ValueError, TypeError)) as caught:
        read_new(schema, views)
    for piece in pieces:
        assert piece in str(caught.value)
    assert same(before, views)


# Coding -------------------------------------------------------------------------------------------------


def test_a_float_array_is_read_without_a_copy():
    assert np.shares_memory(read_table(NUMBERS, "v").frame.to_numpy(), NUMBERS)


def test_real_view_is_centred_and_scaled_over_observed_cells():
    X = with_cell(NUMBERS * [1, 10, 100] + 5, 2, 1, NAN)
    before = X.copy()
    schema, data, index = read_training({"v": X})
    target, observed = data["v"].target, data["v"].observed
    np.testing.assert_array_equal(X, before)
    np.testing.assert_allclose(schema.codings["v"].centre, np.nanmean(X, axis=0))
    np.testing.assert_allclose(schema.codings["v"].scale, np.nanstd(X, axis=0))
    np.testing.assert_array_equal(observed, ~np.isnan(X))
    assert target[2, 1] == 0
    np.testing.assert_allclose(target[observed[:, 0]].mean(axis=0)[0], 0, atol=1e-12)
    np.testing.assert_array_equal(schema.codings["v"].observed_per_feature, [N, N - 1, N])
    assert len(index) == N


def test_a_frame_of_several_dtypes_is_read_in_its_own_order():
    mixed = frame(np.round(NUMBERS * 100)).astype({"a": "Int64", "b": "int32"})
    mixed = pd.concat([mixed, mixed.astype({"c": object}).add_suffix("2")], axis=1)
    _, data, _ = read_training({"v": mixed})
    _, expected, _ = read_training({"v": mixed.astype(float)})
    np.testing.assert_allclose(data["v"].target, expected["v"].target, atol=1e-12)


def test_unscaled_view_is_divided_by_one_number():
    X = NUMBERS * [1, 10, 100]
    schema, data, _ = read_training({"v": X}, {"v": Real(scale=False)})
    coding = schema.codings["v"]
    rms = np.sqrt(np.mean(X.var(axis=0)))
    np.testing.assert_allclose(coding.scale, rms)
    np.testing.assert_allclose(coding.variance, X.var(axis=0) / rms**2)
    np.testing.assert_allclose(data["v"].target, (X - X.mean(axis=0)) / rms)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_any_scale_gives_the_same_target(unit, dtype):
    _, plain, _ = read_training({"v": NUMBERS}, dtype=dtype)
    schema, data, index = read_training({"v": NUMBERS * unit}, dtype=dtype)
    assert data["v"].target.dtype == dtype
    np.testing.assert_allclose(data["v"].target, plain["v"].target, rtol=1e-5 if dtype == "float32" else 1e-9)
    back = to_user(schema, "v", data["v"].target, index)
    np.testing.assert_allclose(back / unit, NUMBERS, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_far_mean_does_not_swallow_the_spread(dtype):
    X = np.tile([[-1.0], [1.0]], (5000, 2)) + 1e9
    schema, data, _ = read_training({"v": X}, dtype=dtype)
    np.testing.assert_allclose(schema.codings["v"].scale, 1, rtol=1e-12)
    np.testing.assert_allclose(data["v"].target, X - 1e9, rtol=1e-12)


def test_constant_features_are_kept_with_one_warning():
    X = np.column_stack([NUMBERS, np.full(N, 0.1), np.full(N, -7.0)])
    with pytest.warns(UserWarning, match=r"'v': 2 constant columns \(3, 4\)") as caught:
        schema, data, _ = read_training({"v": X})
    assert len(caught) == 1
    coding = schema.codings["v"]
    np.testing.assert_allclose(coding.scale[3:], np.median(NUMBERS.std(axis=0)))
    np.testing.assert_allclose(coding.variance, 1)
    np.testing.assert_allclose(data["v"].target[:, 3:], 0, atol=1e-12)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(("value", "expected"), [(0.0, 1.0), (-7.0, 7.0)])
def test_a_view_of_constants_has_the_scale_of_its_mean(value, expected, scale):
    with pytest.warns(UserWarning, match="constant"):
        schema, data, _ = read_training({"v": np.full((N, 2), value)}, {"v": Real(scale=scale)})
    np.testing.assert_array_equal(schema.codings["v"].scale, expected)
    np.testing.assert_array_equal(data["v"].target, 0)


def test_constant_binary_column_warns():
    with pytest.warns(UserWarning, match="'v': 1 constant column"):
        read_training({"v": with_cell(BITS, slice(None), 0, 1)})


@pytest.mark.parametrize(
    ("holes", "shape"), [((), None), ((3,), (N, 1)), ((3, 1), (N, 3))], ids=["none", "row", "cell"]
)
def test_mask_has_its_smallest_form(holes, shape):
    X = NUMBERS.copy()
    if holes:
        X[holes] = NAN
    observed = read_training({"v": X})[1]["v"].observed
    assert observed is None if shape is None else observed.shape == shape


MISSING = {
    "float": np.array([1.5, NAN, 2.5, 3.5]),
    "None": [1.5, None, 2.5, 3.5],
    "NA": pd.array([1.5, pd.NA, 2.5, 3.5], dtype="Float64"),
    "objects": np.array([1.5, pd.NA, 2.5, 3.5], dtype=object),
    "NaT": np.array([1.5, pd.NaT, 2.5, 3.5], dtype=object),
    "masked": np.ma.array([1.5, 9e9, 2.5, 3.5], mask=[0, 1, 0, 0]),
    "masked integers": np.ma.array([3, 9, 5, 7], mask=[0, 1, 0, 0]),
    "nullable integers": pd.Series([3, None, 5, 7], dtype="Int64"),
    "category of numbers": pd.Series(pd.Categorical([3, None, 5, 7])),
}


@pytest.mark.parametrize("values", MISSING.values(), ids=MISSING)
def test_every_kind_of_hole_is_a_hole(values):
    _, data, _ = read_training({"v": values}, {"v": Real()})
    np.testing.assert_array_equal(data["v"].observed[:, 0], [True, False, True, True])
    np.testing.assert_allclose(data["v"].target[:, 0] / np.sqrt(1.5), [-1, 0, 0, 1], atol=1e-12)


def test_nothing_looks_at_what_a_mask_hides():
    hidden = np.ma.array(with_cell(NUMBERS, 2, 1, np.inf), mask=np.zeros((N, 3)))
    hidden.mask[2, 1] = True
    before = copy.deepcopy(hidden)
    _, data, _ = read_training({"v": hidden})
    assert not data["v"].observed[2, 1]
    assert same(before, hidden)


# Types --------------------------------------------------------------------------------------------------

INFERRED = {
    "floats": (NUMBERS, Real),
    "float vector": (NUMBERS[:, 0], Real),
    "whole floats": (np.array([1.0, 2.0, 3.0] * 4), Categorical),
    "integers of many values": (np.arange(N), Real),
    "integers of two dimensions": (np.arange(36).reshape(N, 3) % 5, Real),
    "numbers with holes": ([1.5, None, 2.5] * 4, Real),
    "bool": (BITS.astype(bool), Binary),
    "zero and one": (BITS, Binary),
    "zero and one as floats with holes": (with_cell(BITS * 1.0, 1, 1, NAN), Binary),
    "zero and one in a vector": ([0, 1] * 6, Binary),
    "bool with holes": ([True, False, None] * 4, Binary),
    "nullable bool": (pd.Series([True, False, None] * 4, dtype="boolean"), Binary),
    "text": (LABELS, Categorical),
    "text with holes": (["a", None, "b"] * 4, Categorical),
    "string": (pd.Series(LABELS, dtype="string"), Categorical),
    "digits as text": (["0", "1", "2"] * 4, Categorical),
    "category": (pd.Series(LABELS, dtype="category"), Categorical),
    "category of zero and one": (pd.Series([0, 1] * 6, dtype="category"), Categorical),
    "mixed": (["a", 1, 2.5] * 4, Categorical),
    "integers of few values": ([3, 1, 2] * 4, Categorical),
    "nullable integers of few values": (pd.Series([3, None, 2] * 4, dtype="Int64"), Categorical),
    "whole floats with holes": (np.array([1.0, 2.0, NAN] * 4), Categorical),
    "one column of integers": (np.array([[3], [1], [2]] * 4), Categorical),
}


@pytest.mark.parametrize("case", INFERRED)
def test_types_are_inferred_and_logged(case, caplog):
    values, expected = INFERRED[case]
    with caplog.at_level(logging.INFO, logger="sshiba"):
        schema, _, _ = read_training({"v": values})
    assert type(schema.types["v"]) is expected
    assert schema.inferred["v"] in caplog.text
    assert "'v'" in caplog.text


@pytest.mark.parametrize("given", [Real(), Real, "real"])
def test_a_given_type_is_taken_in_any_form(given):
    schema, _, _ = read_training({"v": BITS, "w": BITS}, {"v": given})
    assert schema.types == {"v": Real(), "w": Binary()}
    assert list(schema.inferred) == ["w"]


# Classes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        (["b", "a", None], ("a", "b")),
        ([2, 10, 1], (1, 2, 10)),
        ([True, False], (False, True)),
        ([2.5, NAN, 1.0], (1.0, 2.5)),
        (["b", 2, 1.5, "a"], (1.5, 2, "a", "b")),
        (pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"]), ("b", "a")),
        (np.array(["b", "a"]), ("a", "b")),
        (np.array([2, 1], dtype="int8"), (1, 2)),
    ],
)
def test_classes_are_plain_values_in_order(labels, levels):
    schema, data, _ = read_training({"v": labels}, {"v": Categorical()})
    coding = schema.codings["v"]
    assert coding.levels == levels
    assert [type(level) for level in coding.levels] == [type(level) for level in levels]
    assert coding.width == len(levels)
    observed = ~pd.isna(np.asarray(labels, dtype=object))
    np.testing.assert_array_equal(coding.observed_per_feature, observed.sum())
    expected = [levels.index(label) if seen else 0 for label, seen in zip(labels, observed)]
    np.testing.assert_array_equal(data["v"].target, expected)


def test_one_point_zero_is_the_class_one():
    schema, _, _ = read_training({"v": [1, 2, 3] * 4})
    data, _ = read_new(schema, {"v": np.array([3.0, NAN, 1.0])})
    np.testing.assert_array_equal(data["v"].target, [2, 0, 0])
    np.testing.assert_array_equal(data["v"].observed, [[True], [False], [True]])


def test_large_labels_survive_absent_rows():
    identifiers = [2**60 + 1, 2**60 + 2, 2**60 + 1]
    views = {"v": frame(), "w": pd.Series(identifiers, index=ROWS[:3])}
    schema, data, index = read_training(views, {"w": Categorical()})
    assert list(fill(schema, "w", views["w"], data["w"].target, index))[:3] == identifiers


# Rows ---------------------------------------------------------------------------------------------------


def test_frames_align_by_label_and_absent_rows_are_missing():
    views = {
        "v": frame(NUMBERS[:4], index=["d", "a", "b", "c"]),
        "w": pd.Series(["x", "y", "x"], index=["e", "a", "d"]),
        "u": frame(BITS[:2], "pq", index=["f", "a"]),
    }
    before = copy.deepcopy(views)
    schema, data, index = read_training(views, {"u": Binary()})
    assert list(index) == ["d", "a", "b", "c", "e", "f"]
    np.testing.assert_array_equal(data["v"].observed[:, 0], [1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(data["w"].observed[:, 0], [1, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(data["w"].target, [0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(data["u"].target[[1, 5]], BITS[[1, 0]])
    assert data["u"].target[[0, 2, 3, 4]].sum() == 0
    np.testing.assert_array_equal(schema.codings["w"].observed_per_feature, [3, 3])
    assert same(before, views)


def test_arrays_follow_the_first_frame():
    turned = frame().iloc[::-1]
    _, data, index = read_training({"bits": BITS, "v": frame(), "u": turned})
    assert list(index) == ROWS
    np.testing.assert_array_equal(data["bits"].target, BITS)
    np.testing.assert_allclose(data["u"].target, data["v"].target, atol=1e-12)


def test_rows_labelled_by_several_levels_align():
    index = pd.MultiIndex.from_product([["a", "b"], range(6)])
    _, data, rows = read_training({"v": frame(index=index), "w": frame(index=index).iloc[2:5]})
    assert rows.equals(index)
    assert data["w"].observed.sum() == 3
    with pytest.raises(ValueError, match="no rows in common"):
        read_training({"v": frame(index=index), "w": frame()})


def test_new_rows_may_be_few_and_empty(schema):
    data, index = read_new(schema, {"x": np.full((1, 3), NAN), "who": [None]})
    assert not data["x"].observed.any()
    assert not data["who"].observed.any()
    assert len(index) == 1
    data, index = read_new(schema, {"who": np.array([], dtype=str), "x": NUMBERS[:0]})
    assert list(data) == ["x", "who"]
    assert data["x"].target.shape == (0, 3)
    assert data["who"].target.shape == (0,)
    data, index = read_new(schema, {"x": frame(index=ROWS).iloc[:0], "bits": frame(BITS, "pq")})
    assert data["x"].target.shape == (N, 3)
    assert data["x"].observed.shape == (N, 1)


def test_new_rows_need_no_rows_in_common(schema):
    new = {"x": frame(index=range(N)), "bits": frame(BITS, "pq")}
    data, index = read_new(schema, new)
    assert len(index) == 2 * N
    assert data["x"].observed[:N].all()


def test_new_columns_are_found_by_name(schema):
    expected, _ = read_new(schema, {"x": frame()})
    mixed = frame()[["c", "a", "b"]].assign(other="text")
    data, _ = read_new(schema, {"x": mixed})
    np.testing.assert_array_equal(data["x"].target, expected["x"].target)
    data, _ = read_new(schema, {"x": NUMBERS})
    np.testing.assert_array_equal(data["x"].target, expected["x"].target)


def test_good_data_pass_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_training({"x": frame(), "bits": BITS, "who": LABELS})
