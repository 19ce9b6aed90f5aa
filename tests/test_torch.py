"""The kernels on PyTorch tensors: the same numbers as on NumPy arrays, on their device and in their precision."""

import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from cases import Problem, make_problem

from sshiba.core.arrays import log_ndtr
from sshiba.core.blocks import Block
from sshiba.core.global_step import global_step
from sshiba.core.latent_step import LatentView, start_x
from sshiba.core.local_step import Settled, local_step, prepare_z, settle, update_z
from sshiba.core.messages import Messages, make_messages
from sshiba.core.predictive import predictive_x
from sshiba.core.state import ColumnGroups, Posterior, Stats
from sshiba.data.types import VIEW_TYPES, Binary, Categorical, Real, View
from sshiba.engines.gram import gram_step, take_cross, take_gram

if os.environ.get("NEEDS_TORCH"):  # where it was promised, its absence is a failure
    import torch
else:
    torch = pytest.importorskip("torch", reason="needs PyTorch: make test-torch")

VIEWS: dict[str, list[View]] = {
    "real": [Real(select_features=True), Real(noise="view", weight=0.5)],
    "binary": [Binary(weight=2.0), Binary(noise="learned")],
    "categorical": [Categorical(weight=0.5)],
    "all": [Real(select_features=True), Real(noise="view"), Binary(weight=2.0), Categorical()],
}
STEPS = 3
every_kind = pytest.mark.parametrize("kind", VIEWS)
every_hole = pytest.mark.parametrize("holes", ["none", "rows", "cells"])
both_ways = pytest.mark.parametrize("missing", ["exact", "mean-field"])


def test_no_view_type_escapes_the_list() -> None:
    assert {type(view) for views in VIEWS.values() for view in views} == set(VIEW_TYPES.values())


def make(kind: str, holes: str, missing: str, space: str = "memory") -> Problem:
    views = VIEWS[kind]
    widths, all_holes = [5, 4, 4, 3][: len(views)], [holes] * len(views)
    return make_problem(views, widths, all_holes, n=20, missing=missing, block_rows=11, space=space)


def to_torch(value: Any, **options: Any) -> Any:
    """Every array in nested dataclasses and tuples as a tensor; what says how columns are laid out stays NumPy's."""
    if isinstance(value, np.ndarray):
        tensor = torch.as_tensor(value.copy())
        return tensor.to(**options) if tensor.is_floating_point() else tensor.to(device=options.get("device"))
    if isinstance(value, tuple | list):
        return type(value)(to_torch(part, **options) for part in value)
    if is_dataclass(value) and not isinstance(value, ColumnGroups):
        return replace(value, **{f.name: to_torch(getattr(value, f.name), **options) for f in fields(value)})
    return value


def arrays(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays in nested dataclasses and tuples, with their names."""
    if isinstance(value, tuple | list):
        for i, part in enumerate(value):
            yield from arrays(part, f"{name}[{i}]")
    elif is_dataclass(value):
        for f in fields(value):
            yield from arrays(getattr(value, f.name), f"{name}.{f.name}")
    elif isinstance(value, np.ndarray | np.generic | torch.Tensor):
        yield name, value


def assert_same(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    """Tensors of the same shapes and numbers, to `rtol` of the largest; what is no array, equal."""
    ours, theirs = dict(arrays(found)), dict(arrays(expected))
    layout = {name for name in theirs if name.endswith(".groups.index")}
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - layout:
        assert isinstance(ours[name], torch.Tensor), name
        assert tuple(ours[name].shape) == theirs[name].shape, name
        scale = np.max(np.abs(theirs[name]), initial=1e-3)
        np.testing.assert_allclose(ours[name].numpy(), theirs[name], rtol=0, atol=rtol * scale, err_msg=name)


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


@every_kind
@every_hole
@both_ways
def test_local_step(kind: str, holes: str, missing: str) -> None:
    """q(x) at the start, then q(x) and all statistics of every block, several steps in a row; also with q(x) held."""
    problem = make(kind, holes, missing)
    blocks = to_torch(list(problem.rows.blocks))
    first = make_messages(problem.posterior, problem.spec, problem.rows.groups)
    x = [start_x(block, to_torch(first)) for block in blocks]
    assert_same(x, [start_x(block, first) for block in problem.rows.blocks])
    for _, messages, expected, parts in rounds(problem):
        tensors = to_torch(messages)
        steps = [local_step(block, q, tensors) for block, q in zip(blocks, x)]
        assert_same(steps, list(zip(expected, parts)))
        x = [q for q, _ in steps]
    held = [local_step(block, q, tensors, hold_x=True) for block, q in zip(blocks, x)]
    assert_same(held, [local_step(block, q, messages, True) for block, q in zip(problem.rows.blocks, expected)])


@every_hole
def test_every_kind_of_block_is_among_them(holes: str) -> None:
    """What the kernels tell apart: views that are absent, holes that are variables, rows with a covariance each."""
    blocks = [block for missing in ("exact", "mean-field") for block in make("all", holes, missing).rows.blocks]
    views = [view for block in blocks for view in block.views]
    assert any(not view.present for view in views) == (holes == "rows")
    assert any(view.holes is not None for view in views) == (holes != "none")
    assert any(not block.shared for block in blocks) == (holes != "none")


@every_hole
@both_ways
def test_single_precision(holes: str, missing: str) -> None:
    """Single precision in, single precision out, and the same numbers as far as it goes."""
    problem = make("all", holes, missing)
    *_, (_, messages, _, _) = rounds(problem)
    tensors, blocks = (to_torch(value, dtype=torch.float32) for value in (messages, list(problem.rows.blocks)))
    steps = [local_step(block, start_x(block, tensors), tensors) for block in blocks]
    for name, array in arrays(steps):
        assert name.endswith(".groups.index") or array.dtype == torch.float32, name
    assert_same(steps, [local_step(b, start_x(b, messages), messages) for b in problem.rows.blocks], rtol=2e-4)


@pytest.mark.parametrize(("holes", "missing"), [("rows", "exact"), ("cells", "exact"), ("cells", "mean-field")])
def test_everything_stays_where_the_rows_are(holes: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors without data on a device of their own: to mix them with those of another is an error.

    The only thing that is read back is which features are to be updated one by one.
    """
    monkeypatch.setattr(LatentView, "one_by_one", np.array([0]))
    problem = make("all", holes, missing)
    messages = make_messages(problem.posterior, problem.spec, problem.rows.groups)
    messages, block = (to_torch(value, device="meta") for value in (messages, problem.rows.blocks[-1]))
    step = local_step(block, start_x(block, messages), messages)
    for name, array in arrays(step):
        assert name.endswith(".groups.index") or array.device.type == "meta", name


# --------------------------------------------------------------------------------------------------- prediction


@every_kind
@every_hole
def test_predictions(kind: str, holes: str) -> None:
    """The predictive x from tensors of z, and what each likelihood says of it; rows share one covariance, or not."""
    problem = make(kind, holes, "exact")
    *_, (posterior, messages, x, _) = rounds(problem)
    for i in {0, len(x) - 1}:
        block = problem.rows.blocks[i]
        known = prepare_z(block, messages)
        z = update_z(block, x[i], known, messages)
        for view, spec in zip(posterior.views, problem.spec.views):
            expected = predictive_x(view, z, known.cov)
            found = predictive_x(view, to_torch(z), to_torch(known.cov))
            assert_same(found, expected)
            sharp = found.sharpened(1.7), expected.sharpened(1.7)
            assert_same(*sharp)
            assert_same(*map(spec.likelihood.predict, sharp))


def test_predictions_where_z_is_in_its_precision() -> None:
    problem = make_problem([Real(), Binary(), Categorical()], [5, 4, 2], ["cells"] * 3)
    k = problem.posterior.n_components
    z, cov = np.linspace(-1, 1, 6 * k).reshape(6, k), np.stack([np.eye(k) / n for n in range(1, 7)])
    for view, spec in zip(problem.posterior.views, problem.spec.views):
        x = predictive_x(view, z, cov)
        expected = x, spec.likelihood.predict(x)
        x = predictive_x(view, *to_torch((z, cov), dtype=torch.float32))
        found = x, spec.likelihood.predict(x)
        assert {array.dtype for _, array in arrays(found)} == {torch.float32}
        assert_same(found, expected, rtol=1e-5)
        x = predictive_x(view, *to_torch((z, cov), device="meta"))
        found = x, spec.likelihood.predict(x)
        assert {array.device.type for _, array in arrays(found)} == {"meta"}


# --------------------------------------------------------------------------------------------------- Gram space


@pytest.mark.parametrize("kind", ["real", "all"])
@pytest.mark.parametrize("holes", ["none", "rows"])
@both_ways
def test_gram_space(kind: str, holes: str, missing: str) -> None:
    """The Gram matrix, the products with the latent x, and whole steps, of each part that is in Gram space."""
    problem = make(kind, holes, missing, space="gram")
    parts = [part for part in problem.rows.parts if part.gram is not None]
    assert bool(parts) == (missing == "exact" or holes == "none")
    for part in parts:
        blocks = problem.rows.blocks[part.blocks]
        tensors, whole = to_torch(list(blocks)), to_torch(part.summary)
        gram = take_gram(tensors)
        assert_same(gram, part.gram)
        messages = make_messages(problem.posterior, problem.spec, problem.rows.groups)
        x = [start_x(block, messages) for block in blocks]
        ours = [start_x(block, to_torch(messages)) for block in tensors]
        cross = our_cross = None
        if kind == "all":
            cross, our_cross = take_cross(blocks, x), take_cross(tensors, ours)
            assert_same(our_cross, cross)
        for posterior, *_ in rounds(problem):
            messages = make_messages(posterior, problem.spec, problem.rows.groups)
            held = gram_step(gram, whole, tensors, ours, our_cross, to_torch(messages), hold_x=True)
            assert_same(held, gram_step(part.gram, part.summary, blocks, x, cross, messages, hold_x=True))
            x, cross, stats = gram_step(part.gram, part.summary, blocks, x, cross, messages, hold_x=False)
            ours, our_cross, our_stats = gram_step(
                gram, whole, tensors, ours, our_cross, to_torch(messages), hold_x=False
            )
            assert_same((ours, our_cross, our_stats), (x, cross, stats))


# ----------------------------------------------------------------------------------------------------- settling


@every_kind
@every_hole
def test_settling(kind: str, holes: str) -> None:
    """q(z) and q(x) in turns come to rest after the same number of rounds, at the same place."""
    problem = make(kind, holes, "exact")
    *_, (_, messages, _, _) = rounds(problem)
    tensors = to_torch(messages)

    def settled(block: Block, told: Messages, max_rounds: int) -> Settled:
        return settle(block, start_x(block, told), told, max_rounds, 1e-7)

    for block in problem.rows.blocks:
        for max_rounds in (1, 1000):
            ours, expected = settled(to_torch(block), tensors, max_rounds), settled(block, messages, max_rounds)
            assert_same((ours.z, ours.cov(), ours.x), (expected.z, expected.cov(), expected.x))
            assert ours.converged == expected.converged
        assert ours.converged


def test_log_ndtr_far_out() -> None:
    x = np.linspace(-200, 40, 2001)
    np.testing.assert_allclose(log_ndtr(torch.as_tensor(x)).numpy(), log_ndtr(x), rtol=1e-12, atol=1e-300)
