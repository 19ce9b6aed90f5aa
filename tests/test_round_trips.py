"""What the user gives comes back as it came: container, dtype, labels and order; only holes are filled."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import BITS, LABELS, NAN, NUMBERS, ROWS, N, frame, same

from sshiba import SSHIBA, load
from sshiba.data.giving_back import fill, std_to_user, to_user
from sshiba.data.reading import read_new, read_training
from sshiba.data.types import VIEW_TYPES, Binary, Categorical, Count, Ordinal, Real

ROUND_TRIPS: dict[str, tuple[Any, Any]] = {
    "float64": (NUMBERS, Real()),
    "float32": (NUMBERS.astype("float32"), Real(scale=False)),
    "float vector": (NUMBERS[:, 0], Real()),
    "float frame": (frame(), Real()),
    "float32 frame": (frame().astype("float32"), Real()),
    "mixed float frame": (frame().astype({"a": "float32"}), Real()),
    "float series": (frame()["a"], Real()),
    "tuple names": (
        frame().set_axis(pd.MultiIndex.from_tuples([("p", 1), ("p", 2), ("q", 1)]), axis=1),
        Real(),
    ),
    "bool": (BITS.astype(bool), Binary()),
    "int8": (BITS.astype("int8"), Binary()),
    "binary floats": (BITS.astype(float), Binary()),
    "bool frame": (frame(BITS, "pq").astype(bool), Binary()),
    "mixed binary frame": (frame(BITS, "pq").astype({"p": "boolean", "q": "Int8"}), Binary()),
    "Int64 frame": (frame(BITS, "pq").astype("Int64"), Binary()),
    "bool series": (pd.Series(BITS[:, 0], dtype=bool, name="b"), Binary()),
    "text vector": (LABELS, Categorical()),
    "text column": (LABELS[:, None], Categorical()),
    "object vector": (LABELS.astype(object), Categorical()),
    "int8 labels": (np.array([3, 1, 2] * 4, dtype="int8"), Categorical()),
    "bool labels": (np.array([True, False] * 6), Categorical()),
    "float labels": (np.array([0.5, 2.0] * 6, dtype="float32"), Categorical()),
    "mixed labels": (np.array(["a", 1, 2.5] * 4, dtype=object), Categorical()),
    "Int64 labels": (pd.Series([3, 1, 2] * 4, dtype="Int64", name="who"), Categorical()),
    "string series": (pd.Series(LABELS, dtype="string", name="who"), Categorical()),
    "text frame": (pd.DataFrame({"who": LABELS}, index=ROWS), Categorical()),
    "category": (
        pd.Series(pd.Categorical(LABELS, categories=["lo", "mid", "hi"], ordered=True), name="who"),
        Categorical(),
    ),
    "counts": (np.array([[3.0, 1.0], [0.0, 2.0], [1.0, 1e6]] * 4), Count()),
    "float32 counts": (pd.DataFrame({"a": [3, 0, 2] * 4, "b": [1, 0, 0] * 4}, dtype="float32"), Count()),
    "levels": (np.array([[3, 1], [2, 2], [1, 5]] * 4, dtype="int8"), Ordinal()),
    "float levels": (np.array([[0.5], [2.0]] * 6), Ordinal()),
    "levels of several kinds": (
        pd.DataFrame({"a": [3, 1, 2] * 4, "b": [0.5, 2.0] * 6, "c": pd.array([True, False] * 6, dtype="boolean")}),
        Ordinal(),
    ),
    "text levels": (pd.DataFrame({"who": LABELS, "whom": LABELS[::-1]}), Ordinal(levels=["lo", "mid", "hi"])),
    "ordered categories": (
        pd.DataFrame({c: pd.Categorical(LABELS, ["lo", "mid", "never", "hi"], ordered=True) for c in "ab"}),
        Ordinal(),
    ),
    "category frame": (
        pd.DataFrame({"who": pd.Categorical(LABELS, categories=["mid", "hi", "lo"])}),
        Categorical(),
    ),
}


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_round_trip(case):
    given, view = ROUND_TRIPS[case]
    schema, data, index = read_training({"v": given}, {"v": view})
    back = to_user(schema, "v", data["v"].target, index)
    if view.latent:
        assert same(given, back)
    elif isinstance(given, np.ndarray):
        assert (back.dtype, back.shape) == (given.dtype, given.shape)
        np.testing.assert_allclose(back, given, rtol=1e-6 if given.dtype == "float32" else 1e-12)
    else:
        (pd.testing.assert_frame_equal if given.ndim == 2 else pd.testing.assert_series_equal)(back, given, rtol=1e-6)


def test_means_of_integers_are_floats():
    schema, data, index = read_training({"v": frame(np.arange(36).reshape(N, 3))})
    back = to_user(schema, "v", data["v"].target + 0.01, index)
    assert (back.dtypes == "float64").all()


def test_new_rows_come_back_in_the_container_of_training(schema):
    data, index = read_new(schema, {"x": NUMBERS[:2]})
    back = to_user(schema, "x", data["x"].target, index)
    pd.testing.assert_frame_equal(back, frame().iloc[:2].reset_index(drop=True))


def test_standard_deviations_have_the_users_scale(schema):
    index = pd.RangeIndex(2)
    std = std_to_user(schema, "x", np.ones((2, 3)), index)
    np.testing.assert_allclose(std, [NUMBERS.std(axis=0)] * 2)
    assert list(std.columns) == list("abc")
    assert std_to_user(schema, "bits", np.ones((2, 2)), index).shape == (2, 2)
    assert std_to_user(schema, "who", np.ones((2, 3)), index).shape == (2, 3)
    assert std_to_user(schema, "who", np.ones((2, 1)), index).shape == (2,)


def test_class_probabilities_carry_the_classes():
    schema, _, index = read_training({"v": pd.Series(LABELS, name="who")})
    assert list(std_to_user(schema, "v", np.ones((N, 3)), index).columns) == ["hi", "lo", "mid"]
    assert std_to_user(schema, "v", np.ones((N, 1)), index).name == "who"


def punch(given: Any) -> Any:
    """The same with a hole in the first row, in a dtype that can have one."""
    if isinstance(given, np.ndarray) and given.dtype.kind != "f":
        mask = np.zeros(given.shape, bool)
        mask[0] = True
        return np.ma.array(given, mask=mask)
    given = given.copy()
    if isinstance(given, np.ndarray):
        given[0] = NAN
    elif isinstance(given, pd.Series):
        given = (given.astype("boolean") if given.dtype.kind == "b" else given).mask(np.arange(N) == 0)
    else:
        wider = given.astype({c: "boolean" for c in given if given[c].dtype.kind == "b"})
        given = wider.apply(lambda column: column.mask(np.arange(N) == 0))
    return given


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_fill_touches_holes_only(case):
    given, view = ROUND_TRIPS[case]
    schema, data, index = read_training({"v": given}, {"v": view})
    holes = punch(given)
    before = copy.deepcopy(holes)
    filled = fill(schema, "v", holes, data["v"].target, index)
    assert same(before, holes)
    assert type(filled) is type(given)
    if isinstance(given, np.ndarray):
        assert filled.dtype == given.dtype
        assert same(filled[1:], given[1:])
        first, expected = filled[:1], given[:1]
    else:
        assert same(filled.iloc[1:], holes.iloc[1:])
        first, expected = filled.iloc[:1].to_numpy(), given.iloc[:1].to_numpy()
    if view.latent:
        assert (first == expected).all()
    else:
        np.testing.assert_allclose(first, expected, rtol=1e-5)
    untouched = fill(schema, "v", given, data["v"].target * 0, index)
    assert same(untouched, given)


def test_means_that_fill_integers_are_rounded():
    whole = frame(np.arange(36).reshape(N, 3)).astype("Int64")
    schema, data, index = read_training({"v": whole})
    holes = whole.copy()
    holes.loc["r1", "b"] = pd.NA
    pd.testing.assert_frame_equal(fill(schema, "v", holes, data["v"].target + 0.01, index), whole)
    short = whole.astype("uint8").drop(index="r0")
    filled = fill(schema, "v", short, data["v"].target - 0.2, index)
    pd.testing.assert_frame_equal(filled.drop(index="r0"), short)
    assert filled.loc["r0"].tolist() == [0, 0, 0]  # -2.1, -1.1, -0.1: below what the dtype holds


def test_draws_of_integers_are_whole_numbers_of_their_dtype():
    mixed = frame(np.arange(36).reshape(N, 3)).astype({"a": "Int64", "b": "int32", "c": "float32"})
    for given in (mixed, mixed[["a"]], mixed[["b"]], mixed["b"].to_numpy().reshape(-1, 1)):
        schema, data, index = read_training({"v": given}, {"v": Real()})
        back = to_user(schema, "v", data["v"].target + 0.01, index, whole=True)
        if isinstance(given, np.ndarray):
            assert same(back, given)
        else:
            pd.testing.assert_frame_equal(
                back[given.columns.drop("c", errors="ignore")], given.drop(columns="c", errors="ignore")
            )
            assert back.dtypes.equals(given.dtypes)


def test_fill_adds_rows_that_the_view_lacked_and_keeps_other_columns():
    views = {"x": frame(), "who": pd.DataFrame({"who": LABELS, "n": range(N)}, index=ROWS)[["who"]]}
    schema, data, index = read_training(views)
    given = pd.DataFrame({"note": ["k", "l"], "who": ["lo", None]}, index=["r3", "r0"])
    filled = fill(schema, "who", given, data["who"].target, index)
    assert list(filled.columns) == ["note", "who"]
    assert list(filled.index) == ROWS
    assert list(filled["who"]) == ["lo" if row == "r3" else label for row, label in zip(ROWS, LABELS)]
    assert filled.loc["r3", "note"] == "k"
    bits = frame(BITS, "pq").astype("int8")
    schema, data, index = read_training({"x": frame(), "b": bits})
    assert same(fill(schema, "b", bits.iloc[::-2], data["b"].target, index), bits)
    assert same(fill(schema, "b", bits.iloc[:0], data["b"].target, index), bits)


def test_fill_knows_categories_that_the_new_data_do_not_list():
    schema, data, index = read_training({"v": pd.Series(pd.Categorical(LABELS))})
    given = pd.Series(pd.Categorical(["lo", None, None] * 4, categories=["lo"]))
    filled = fill(schema, "v", given, data["v"].target, index)
    assert list(filled) == list(LABELS)


def test_fill_makes_longer_text_fit():
    schema, data, index = read_training({"v": LABELS})
    given = np.ma.array(np.array(["lo", "", ""] * 4), mask=[False, True, True] * 4)
    np.testing.assert_array_equal(fill(schema, "v", given, data["v"].target, index), LABELS)


def test_lists_come_back_as_arrays():
    schema, data, index = read_training({"v": [[1.5, 2], [2.5, None], [4, 5.0]], "w": ["a", "b", None]})
    filled = fill(schema, "v", [[1.5, 2], [2.5, None], [4, 5.0]], data["v"].target, index)
    np.testing.assert_allclose(filled, [[1.5, 2], [2.5, 3.5], [4, 5]])
    assert list(fill(schema, "w", ["a", "b", None], data["w"].target, index)) == ["a", "b", "a"]


def test_every_view_type_is_tried_here():
    tried = {type(view) for _, view in ROUND_TRIPS.values()}
    assert tried == set(VIEW_TYPES.values())


def test_names_of_column_levels_and_unseen_categories_come_back(tmp_path):
    columns = pd.MultiIndex.from_product([["a", "b"], ["x", "y"]], names=["gene", "probe"])
    rng = np.random.default_rng(0)
    genes = pd.DataFrame(rng.standard_normal((40, 4)), columns=columns)
    stage = pd.Series(pd.Categorical(["I", "III"] * 20, categories=["I", "II", "III"], ordered=True))
    model = SSHIBA(2, random_state=0, max_iter=5).fit({"genes": genes, "stage": stage})
    model.save(tmp_path / "m.sshiba")
    for one in (model, load(tmp_path / "m.sshiba")):
        assert one.weights_["genes"].index.names == columns.names
        pd.testing.assert_index_equal(one.predict({"stage": stage}, "genes").columns, columns)
        assert one.predict({"genes": genes}, "stage").dtype == stage.dtype
        assert one.sample(3)["stage"].dtype == stage.dtype
