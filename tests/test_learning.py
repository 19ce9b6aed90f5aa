"""Codings learned and applied chunk by chunk: the same as from all rows at once."""

from __future__ import annotations

import warnings
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sshiba.core.coded import CodedView
from sshiba.data.coding import Coding
from sshiba.data.types import VIEW_TYPES, Binary, Categorical, Count, Ordinal, Real, View

N = 60
CUTS: dict[str, list[int]] = {
    "one row a chunk": list(range(1, N)),
    "halves": [30],
    "one row, then all others": [1],
    "chunks of 7, the second missing, one empty": [7, 14, 14, 21, 28, 35, 42, 49, 56],
}
MISSING = slice(7, 14)  # rows of which nothing was observed: a chunk of its own, or a part of one


def numbers(unit: float = 1.0, mean: float = 0.0) -> pd.DataFrame:
    """Columns that differ from chunk to chunk, with holes."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((N, 3)) * [1, 0.2, 3] + np.linspace(-1, 1, N)[:, None]
    values[rng.random(values.shape) < 0.1] = np.nan
    values[MISSING] = np.nan
    return pd.DataFrame(mean + unit * values, columns=list("abc"))


def bits(dtype: str) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    values = np.where(rng.random((N, 2)) < 0.1, np.nan, rng.integers(0, 2, (N, 2)))
    values[MISSING] = np.nan
    return pd.DataFrame(values, columns=list("pq")).astype(dtype)


def labels(values: list, dtype: Any = None) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    column = pd.Series(rng.choice(np.array(values, dtype=object), N), dtype=dtype, name="who")
    column[rng.random(N) < 0.1] = None
    column[MISSING] = None
    return column.to_frame()


FRAMES: dict[str, tuple[View, pd.DataFrame]] = {
    "real": (Real(), numbers()),
    "real, unscaled": (Real(scale=False), numbers()),
    "real, far from zero": (Real(), numbers(mean=1e9)),
    "real, far from zero, unscaled": (Real(scale=False), numbers(mean=1e9)),
    "real, huge": (Real(), numbers(1e300)),
    "real, tiny": (Real(scale=False), numbers(1e-300)),
    "real, single precision": (Real(), numbers().astype("float32")),
    "real, of several dtypes": (Real(), numbers().astype({"b": "Float64", "c": object})),
    "real, constant": (Real(), numbers().assign(b=0.1, c=-1e9)),
    "binary": (Binary(), bits("float64")),
    "binary, nullable": (Binary(), bits("boolean")),
    "binary, constant": (Binary(), bits("float64").assign(q=1.0)),
    "labels": (Categorical(), labels(["b", "a", "c"])),
    "labels of one kind or another": (Categorical(), labels(["b", 2, 1.5])),
    "numbers as labels": (Categorical(), labels([3, 1, 2], "float64")),
    "levels": (Ordinal(), labels([3, 1, 2], "float64")),
    "counts": (Count(), np.floor(numbers().abs() * 3)),
    "counts, nullable": (Count(), labels([0, 1, 700_000], "Int64")),
    "levels that are text": (Ordinal(levels=["low", "middle", "high"]), labels(["middle", "low", "high"])),
    "ordered categories": (Ordinal(), labels(["x", "y"], pd.CategoricalDtype(["y", "never", "x"], ordered=True))),
    "categories": (Categorical(), labels(["x", "y", "z"], pd.CategoricalDtype(["z", "x", "never", "y"]))),
}
every_frame = pytest.mark.parametrize("case", FRAMES)
every_cut = pytest.mark.parametrize("cuts", CUTS)


def chunks(frame: pd.DataFrame, cuts: str) -> list[pd.DataFrame]:
    edges = [0, *CUTS[cuts], N]
    return [frame.iloc[a:b] for a, b in pairwise(edges)]


def coding_of(view: View, pieces: list[pd.DataFrame]) -> Coding:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "view 'v': .* constant")
        return view.make_coding(reduce(add, [view.learn(piece, "v") for piece in pieces]), "v")


def test_every_view_type_is_tried_here() -> None:
    assert {type(view) for view, _ in FRAMES.values()} == set(VIEW_TYPES.values())


@every_cut
@every_frame
def test_learned_in_chunks(case: str, cuts: str) -> None:
    """In the order of the rows, and in another."""
    view, frame = FRAMES[case]
    whole, pieces = coding_of(view, [frame]), chunks(frame, cuts)
    for found in (coding_of(view, pieces), coding_of(view, pieces[1:] + pieces[:1])):
        assert (found.features, found.levels, found.ordered) == (whole.features, whole.levels, whole.ordered)
        assert list(map(type, found.levels or ())) == list(map(type, whole.levels or ()))
        np.testing.assert_array_equal(found.observed_per_feature, whole.observed_per_feature)
        for name in ("centre", "scale", "variance"):
            np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-12, err_msg=name)
        # Of a mean far from zero twelve digits are too few: it is the same to the last but one.
        np.testing.assert_allclose(found.centre, whole.centre, rtol=3e-16, atol=1e-15 * whole.scale.min())


@every_cut
@every_frame
def test_applied_in_chunks(case: str, cuts: str) -> None:
    """To the last bit, in both precisions."""
    view, frame = FRAMES[case]
    coding = coding_of(view, [frame])
    for dtype in ("float64", "float32"):
        whole = view.encode(frame, "v", coding, dtype)
        parts = [view.encode(piece, "v", coding, dtype) for piece in chunks(frame, cuts)]
        np.testing.assert_array_equal(np.concatenate([part.target for part in parts]), whole.target)
        width = coding.width if whole.target.ndim == 2 else 1
        np.testing.assert_array_equal(np.concatenate([mask(part, width) for part in parts]), mask(whole, width))
        assert {part.target.dtype for part in parts} == {whole.target.dtype}


def mask(view: CodedView, width: int) -> np.ndarray:
    observed = True if view.observed is None else view.observed
    return np.broadcast_to(observed, (len(view.target), width))


def test_a_far_mean_is_learned_to_its_last_digit() -> None:
    """A spread of 1 about 1e9, of which a double holds seven digits, against exact sums."""
    frame = numbers(mean=1e9)
    coding = coding_of(Real(), chunks(frame, "one row a chunk"))
    for d, column in enumerate(frame):
        exact = frame[column].dropna().to_numpy().astype(np.longdouble) - np.longdouble(1e9)
        assert coding.centre[d] == float(exact.mean() + np.longdouble(1e9))
        assert coding.scale[d] == pytest.approx(float(exact.std()), rel=1e-14)
