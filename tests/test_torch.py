"""The same kernels on PyTorch tensors: one sweep equals NumPy's."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from cases import make_problem
from sshiba.model import Model
from sshiba.state import ColumnGroups, Posterior, Stats
from sshiba.updates import global_step, local_step, messages, start_x

from sshiba.core.bound import elbo
from sshiba.data.types import Binary, Categorical, Real

torch = pytest.importorskip(
    "torch", reason="install torch to run the kernels on its tensors: pip install 'sshiba[torch]'"
)


def to_torch(value):
    """Every array in nested dataclasses and tuples as a tensor; layouts stay NumPy's."""
    if isinstance(value, np.ndarray):
        return torch.as_tensor(value.copy())
    if isinstance(value, tuple):
        return tuple(to_torch(v) for v in value)
    if is_dataclass(value) and not isinstance(value, ColumnGroups):
        return replace(value, **{f.name: to_torch(getattr(value, f.name)) for f in fields(value)})
    return value


@pytest.mark.parametrize("holes", ["none", "cells"])
@pytest.mark.parametrize("missing", ["exact", "mean-field"])
def test_one_sweep_on_tensors(holes: str, missing: str) -> None:
    views = [Real(select_features=True), Real(noise="view"), Binary(weight=2.0), Categorical()]
    problem = make_problem(views, [5, 4, 4, 3], [holes] * 4, n=30, missing=missing, space="memory")
    groups = problem.rows.groups
    priors = [replace(spec, tau_prior=to_torch(spec.tau_prior)) for spec in problem.spec.views]

    def run(posterior: Posterior, blocks: list, model: Model) -> tuple[Posterior, Stats]:
        told = messages(posterior, model, groups)
        total = None
        for block in blocks:
            _, stats = local_step(block, start_x(block, told), told)
            total = stats if total is None else total + stats
        return global_step(total, posterior, model), total

    expected, expected_stats = run(problem.posterior, problem.rows.blocks, problem.spec)
    tensors = Model(tuple(priors))
    found, stats = run(to_torch(problem.posterior), [to_torch(block) for block in problem.rows.blocks], tensors)
    assert isinstance(found.views[0].w_mean, torch.Tensor)
    for a, b in zip(found.views, expected.views):
        np.testing.assert_allclose(a.w_mean.numpy(), b.w_mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(a.alpha.rate.numpy(), b.alpha.rate, rtol=1e-8)
        np.testing.assert_allclose(a.b_mean.numpy(), b.b_mean, rtol=1e-8, atol=1e-10)
    ours = sum(elbo(found, stats, tensors).values())
    assert ours == pytest.approx(sum(elbo(expected, expected_stats, problem.spec).values()), rel=1e-9)
