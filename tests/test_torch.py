"""The kernels on PyTorch tensors: the same numbers as on NumPy arrays, on their device and in their precision."""

import os
from typing import Any

import numpy as np
import pytest
from cases import make_problem
from kernels import (
    VIEWS,
    arrays,
    assert_same,
    both_ways,
    check_gram_space,
    check_local_step,
    check_predictions,
    check_settling,
    converted,
    every_hole,
    every_kind,
    make,
    rounds,
)

from sshiba.core.arrays import log_ndtr
from sshiba.core.latent_step import start_x
from sshiba.core.latent_view import LatentView
from sshiba.core.local_step import local_step
from sshiba.core.messages import make_messages
from sshiba.core.predictive import predictive_x
from sshiba.data.types import VIEW_TYPES, Binary, Categorical, Real

if os.environ.get("NEEDS_TORCH"):  # where it was promised, its absence is a failure
    import torch
else:
    torch = pytest.importorskip("torch", reason="needs PyTorch: make test-torch")


def test_no_view_type_escapes_the_list() -> None:
    assert {type(view) for views in VIEWS.values() for view in views} == set(VIEW_TYPES.values())


def to_torch(value: Any, **options: Any) -> Any:
    def tensor(array: np.ndarray) -> Any:
        found = torch.as_tensor(array)
        return found.to(**options) if found.is_floating_point() else found.to(device=options.get("device"))

    return converted(value, tensor)


@every_kind
@every_hole
@both_ways
def test_local_step(kind: str, holes: str, missing: str) -> None:
    check_local_step(make(kind, holes, missing), to_torch)


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
    monkeypatch.setattr(LatentView, "one_by_one", (0,))
    monkeypatch.setattr("sshiba.core.local_step.features_one_by_one", lambda message, cov: (0,))
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
    check_predictions(make(kind, holes, "exact"), to_torch)


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
    check_gram_space(make(kind, holes, missing, space="gram"), to_torch)


# ----------------------------------------------------------------------------------------------------- settling


@every_kind
@every_hole
def test_settling(kind: str, holes: str) -> None:
    check_settling(make(kind, holes, "exact"), to_torch)


def test_log_ndtr_far_out() -> None:
    x = np.linspace(-200, 40, 2001)
    np.testing.assert_allclose(log_ndtr(torch.as_tensor(x)).numpy(), log_ndtr(x), rtol=1e-12, atol=1e-300)
