"""The kernels on arrays that can do what the array API standard says and nothing else: the same numbers as NumPy's."""

from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest
from kernels import (
    VIEWS,
    both_ways,
    check_gram_space,
    check_local_step,
    check_predictions,
    check_settling,
    converted,
    every_hole,
    every_kind,
    make,
)

from sshiba.core.arrays import erfcx, log_ndtr, place_rows, to_numpy

HOLES, WAYS = ["none", "rows", "cells"], ["exact", "mean-field"]
# Every two of kind, holes and way meet: each kind with each kind of holes, by one way and the other in turn.
every_two = pytest.mark.parametrize(
    ("kind", "holes", "missing"),
    [(kind, hole, WAYS[(i + j) % 2]) for i, kind in enumerate(VIEWS) for j, hole in enumerate(HOLES)],
)


def to_strict(value: Any) -> Any:
    return converted(value, array_api_strict.asarray)


@every_two
def test_local_step(kind: str, holes: str, missing: str) -> None:
    check_local_step(make(kind, holes, missing), to_strict)


@every_kind
@every_hole
def test_predictions(kind: str, holes: str) -> None:
    check_predictions(make(kind, holes, "exact"), to_strict)


@pytest.mark.parametrize("kind", ["real", "all"])
@pytest.mark.parametrize("holes", ["none", "rows"])
@both_ways
def test_gram_space(kind: str, holes: str, missing: str) -> None:
    check_gram_space(make(kind, holes, missing, space="gram"), to_strict)


@every_kind
@every_hole
def test_settling(kind: str, holes: str) -> None:
    check_settling(make(kind, holes, "exact"), to_strict)


@pytest.mark.parametrize("places", [[0], [4], [1, 2], [0, 3, 4], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("shape", [(), (3,), (3, 3)])
def test_rows_are_placed(places: list[int], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal((len(places), *shape))
    expected = np.zeros((5, *shape))
    expected[places] = values
    for convert in (np.asarray, array_api_strict.asarray):
        found = place_rows(convert(values), convert(np.array(places)), 5)
        np.testing.assert_array_equal(to_numpy(found), expected)


@pytest.mark.parametrize("function", [log_ndtr, erfcx])
def test_special_functions(function: Callable[[Any], Any]) -> None:
    x = np.linspace(-20, 40, 601)
    np.testing.assert_array_equal(to_numpy(function(array_api_strict.asarray(x))), function(x))
