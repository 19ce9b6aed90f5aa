"""The row kernels on arrays of another library: the same numbers as on NumPy's.

Each check takes `convert`, which makes such arrays of NumPy's; `converted` carries it through nested values.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from array_api_compat import is_array_api_obj
from cases import Problem, make_problem

from sshiba.core.arrays import to_numpy
from sshiba.core.blocks import Block
from sshiba.core.devices import HOST
from sshiba.core.global_step import global_step
from sshiba.core.latent_step import start_x
from sshiba.core.local_step import Settled, local_step, prepare_z, settle, update_z
from sshiba.core.messages import Messages, make_messages
from sshiba.core.predictive import predictive_x
from sshiba.core.state import ColumnGroups, Posterior, Stats
from sshiba.data.types import Binary, Categorical, Count, Ordinal, Real, View
from sshiba.engines.gram import gram_step, take_cross, take_gram

VIEWS: dict[str, list[View]] = {
    "real": [Real(select_features=True), Real(noise="view", weight=0.5)],
    "binary": [Binary(weight=2.0), Binary(noise="learned"), Binary(link="logit")],
    "categorical": [Categorical(weight=0.5), Categorical()],
    "limits": [Real(), Real(limits=(-0.5, 0.4)), Real(limits={1: (None, 0.0)}, noise="view")],
    "ordinal": [Real(), Ordinal(weight=2.0), Ordinal(noise="view")],
    "count": [Count(), Count(noise="feature", weight=2.0), Real()],
    "all": [Real(select_features=True), Real(noise="view"), Binary(weight=2.0), Categorical()],
}
WIDTHS = {
    "real": [5, 4],
    "limits": [3, 4, 5],
    "binary": [5, 4, 4],
    "categorical": [5, 2],
    "ordinal": [3, 5, 4],
    "count": [5, 4, 3],
    "all": [5, 4, 4, 3],
}
STEPS = 3
FEW_ROWS = 1500  # bytes of two to five rows
every_kind = pytest.mark.parametrize("kind", VIEWS)
every_hole = pytest.mark.parametrize("holes", ["none", "rows", "cells"])
both_ways = pytest.mark.parametrize("missing", ["exact", "mean-field"])

Convert = Callable[[Any], Any]


def make(kind: str, holes: str, missing: str, space: str = "memory") -> Problem:
    all_holes = [holes] * len(VIEWS[kind])
    sizes = {"n": 40, "n_groups": 2 * (kind == "all")}
    return make_problem(VIEWS[kind], WIDTHS[kind], all_holes, missing=missing, block_rows=22, space=space, **sizes)


def converted(value: Any, convert: Callable[[np.ndarray], Any]) -> Any:
    """Every array in nested dataclasses and tuples; what says how columns are laid out stays NumPy's."""
    if isinstance(value, np.ndarray):
        return convert(value.copy())
    if isinstance(value, tuple | list):
        return type(value)(converted(part, convert) for part in value)
    if is_dataclass(value) and not isinstance(value, ColumnGroups):
        return replace(value, **{f.name: converted(getattr(value, f.name), convert) for f in fields(value)})
    return value


def arrays(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays in nested dataclasses and tuples, with their names."""
    if isinstance(value, tuple | list):
        for i, part in enumerate(value):
            yield from arrays(part, f"{name}[{i}]")
    elif is_dataclass(value):
        for f in fields(value):
            yield from arrays(getattr(value, f.name), f"{name}.{f.name}")
    elif is_array_api_obj(value):
        yield name, value


def assert_same(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    """Arrays that are not NumPy's, of the same shapes and numbers, to `rtol` of the largest."""
    ours, theirs = dict(arrays(found)), dict(arrays(expected))
    layout = {name for name in theirs if name.endswith(".groups.index")}
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - layout:
        assert not isinstance(ours[name], np.ndarray | np.generic), name
        assert tuple(ours[name].shape) == theirs[name].shape, name
        scale = np.max(np.abs(theirs[name]), initial=1e-3)
        np.testing.assert_allclose(to_numpy(ours[name]), theirs[name], rtol=0, atol=rtol * scale, err_msg=name)


def add_up(parts: list[Stats]) -> Stats:
    return sum(parts[1:], start=parts[0])


def rounds(problem: Problem) -> Iterator[tuple[Posterior, Messages, list, list[Stats]]]:
    """Sweeps on NumPy: the globals of each, their messages, and what `local_step` makes of each block."""
    posterior, groups = problem.posterior, problem.rows.groups
    messages = make_messages(posterior, problem.spec, groups)
    x = [start_x(block, messages) for block in problem.rows.blocks]
    for _ in range(STEPS):
        messages = make_messages(posterior, problem.spec, groups)
        steps = [local_step(block, q, messages) for block, q in zip(problem.rows.blocks, x)]
        x, parts = [q for q, _ in steps], [stats for _, stats in steps]
        yield posterior, messages, x, parts
        posterior, _ = global_step(add_up(parts), posterior, problem.spec)


def check_local_step(problem: Problem, convert: Convert) -> None:
    """q(x) at the start, then q(x) and all statistics of every block, several steps in a row.

    Also with q(x) held, and with few rows at a time.
    """
    blocks = convert(list(problem.rows.blocks))
    first = make_messages(problem.posterior, problem.spec, problem.rows.groups)
    x = [start_x(block, convert(first)) for block in blocks]
    assert_same(x, [start_x(block, first) for block in problem.rows.blocks])
    for _, messages, expected, parts in rounds(problem):
        told = convert(messages)
        steps = [local_step(block, q, told) for block, q in zip(blocks, x)]
        assert_same(steps, list(zip(expected, parts)))
        x = [q for q, _ in steps]
    for part_bytes, hold_x in ((HOST.part_bytes, True), (FEW_ROWS, False)):
        pairs = zip((replace(block, part_bytes=part_bytes) for block in problem.rows.blocks), expected)
        ours = zip((replace(block, part_bytes=part_bytes) for block in blocks), x)
        steps = [local_step(block, q, told, hold_x) for block, q in ours]
        assert_same(steps, [local_step(block, q, messages, hold_x) for block, q in pairs])


def check_predictions(problem: Problem, convert: Convert) -> None:
    """The predictive x from z, and what each likelihood says of it; rows share one covariance, or not."""
    *_, (posterior, messages, x, _) = rounds(problem)
    for i in {0, len(x) - 1}:
        block = problem.rows.blocks[i]
        known = prepare_z(block, messages)
        z = update_z(block, x[i], known, messages)
        for view, spec in zip(posterior.views, problem.spec.views):
            expected = predictive_x(view, z, known.cov)
            found = predictive_x(view, convert(z), convert(known.cov))
            assert_same(found, expected)
            sharp = found.sharpened(1.7), expected.sharpened(1.7)
            assert_same(*sharp)
            assert_same(*map(spec.likelihood.predict, sharp))


def check_gram_space(problem: Problem, convert: Convert) -> None:
    """The Gram matrix, the products with the latent x, and whole steps, of each part that is in Gram space."""
    parts = [part for part in problem.rows.parts if part.gram is not None]
    complete = all(view.observed is None for view, _ in zip(problem.data, problem.spec.views))
    assert bool(parts) == (problem.missing == "exact" or complete)
    for part in parts:
        blocks = problem.rows.blocks[part.blocks]
        our_blocks, whole = convert(list(blocks)), convert(part.summary)
        gram = reduce(add, map(take_gram, our_blocks))
        assert_same(gram, part.gram)
        messages = make_messages(problem.posterior, problem.spec, problem.rows.groups)
        x = [start_x(block, messages) for block in blocks]
        ours = [start_x(block, convert(messages)) for block in our_blocks]
        cross = our_cross = None
        if any(view.likelihood.latent for view in problem.spec.views):
            cross, our_cross = take_cross(blocks, x), take_cross(our_blocks, ours)
            assert_same(our_cross, cross)
        for posterior, *_ in rounds(problem):
            messages = make_messages(posterior, problem.spec, problem.rows.groups)
            told = convert(messages)
            held = gram_step(gram, whole, our_blocks, ours, our_cross, told, hold_x=True)
            assert_same(held, gram_step(part.gram, part.summary, blocks, x, cross, messages, hold_x=True))
            x, cross, stats = gram_step(part.gram, part.summary, blocks, x, cross, messages, hold_x=False)
            ours, our_cross, our_stats = gram_step(gram, whole, our_blocks, ours, our_cross, told, hold_x=False)
            assert_same((ours, our_cross, our_stats), (x, cross, stats))


def check_settling(problem: Problem, convert: Convert) -> None:
    """q(z) and q(x) in turns come to rest after the same number of rounds, at the same place."""
    *_, (_, messages, _, _) = rounds(problem)
    told = convert(messages)

    def settled(block: Block, messages: Messages, max_rounds: int) -> Settled:
        return settle(block, start_x(block, messages), messages, max_rounds, 1e-7)

    for block in problem.rows.blocks:
        for max_rounds in (1, 1000):
            ours, expected = settled(convert(block), told, max_rounds), settled(block, messages, max_rounds)
            assert_same((ours.z, ours.cov(), ours.x), (expected.z, expected.cov(), expected.x))
            assert ours.converged == expected.converged
        assert ours.converged
