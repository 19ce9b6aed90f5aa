"""What the user gives: read, aligned and coded."""

from __future__ import annotations

import copy
import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from samples import BITS, LABELS, NAN, NUMBERS, ROWS, N, frame, same, with_cell

from sshiba.data.containers import read_table
from sshiba.data.giving_back import fill, to_user
from sshiba.data.reading import read_new, read_training
from sshiba.data.types import Binary, Categorical, Real

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
    np.testing.assert_allclose(back / unit, NUMBERS, atol=1e-6 if dtype == "float32" else 1e-12)


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


@pytest.mark.parametrize(("n_values", "expected"), [(9, Categorical), (20, Categorical), (21, Real)])
def test_the_type_of_whole_numbers_does_not_depend_on_the_number_of_rows(n_values, expected, caplog):
    values = np.arange(600) % n_values
    with caplog.at_level(logging.INFO, logger="sshiba"):
        found = {type(read_training({"v": values[:n]})[0].types["v"]) for n in (30, 80, 120, 600)}
    assert found == {expected}
    reason = "one column of whole numbers, 9 values" if n_values == 9 else expected.__name__
    assert reason in caplog.text


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


def test_arrays_follow_the_frames():
    _, data, index = read_training({"bits": BITS, "v": frame(), "u": frame()})
    assert list(index) == ROWS
    np.testing.assert_array_equal(data["bits"].target, BITS)


def test_arrays_beside_frames_in_two_orders_are_refused():
    views = {"v": frame(), "u": frame().iloc[::-1], "bits": BITS}
    for order in (views, dict(reversed(views.items()))):
        with pytest.raises(
            ValueError, match=r"same row labels in different orders, so view 'bits'.*Give 'bits' an index"
        ):
            read_training(order)


def test_rows_labelled_by_several_levels_align():
    index = pd.MultiIndex.from_product([["a", "b"], range(6)])
    _, data, rows = read_training({"v": frame(index=index), "w": frame(index=index).iloc[2:5]})
    assert rows.equals(index)
    assert data["w"].observed.sum() == 3
    with pytest.raises(ValueError, match="different numbers of levels"):
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
