"""Kernels for CUDA beside the array forms whose twins they are; they run where there is such a device."""

import numpy as np
import pytest

from sshiba.core.arrays import cuda_kernels, inverse_positive
from sshiba.core.likelihoods import Threshold
from sshiba.core.likelihoods.probit_grid import n_nodes
from sshiba.core.likelihoods.probit_integrals import array_integrals, class_integrals, probit_curvature

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def there(values: np.ndarray) -> "torch.Tensor":
    return torch.as_tensor(values, device="cuda")


def test_they_are_used() -> None:
    assert cuda_kernels(there(np.zeros(3))) is not None
    assert cuda_kernels(there(np.zeros(3, dtype=np.float32))) is None
    assert cuda_kernels(torch.zeros(3)) is None


@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 33, 64, 100, 128, 150])
def test_inverses(k: int) -> None:
    rng = np.random.default_rng(k)
    w = rng.standard_normal((40, k, 2 * k)) * np.exp(rng.standard_normal((40, k, 1)))
    matrices = w @ np.swapaxes(w, 1, 2) + np.eye(k)
    found, logdet = inverse_positive(there(matrices))
    expected, expected_logdet = inverse_positive(matrices)
    np.testing.assert_allclose(found.cpu(), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(logdet.cpu(), expected_logdet, rtol=1e-12)


@pytest.mark.parametrize("k", [30, 100, 250])
def test_inverses_of_ill_conditioned_matrices(k: int) -> None:
    """Precisions of 1 along some axes and of 1e8 along others: many factors, and a view of little noise."""
    w = np.random.default_rng(k).standard_normal((40, 2 * k // 3, k))
    matrices = 1e8 / k * np.swapaxes(w, 1, 2) @ w + np.eye(k)
    found, _ = inverse_positive(there(matrices))
    np.testing.assert_allclose(matrices @ found.cpu().numpy(), np.broadcast_to(np.eye(k), matrices.shape), atol=1e-5)


@pytest.mark.parametrize("rows_of_tau", [None, 1, 400])
def test_cut_normal(rows_of_tau: int | None) -> None:
    rng = np.random.default_rng(0)
    y, target = rng.standard_normal((400, 7)) * np.logspace(-2, 4, 7), (rng.random((400, 7)) < 0.5).astype(float)
    tau = np.exp(rng.standard_normal(7 if rows_of_tau is None else (rows_of_tau, 7)))
    found = Threshold().infer_x(there(target), there(y), there(tau), None)
    expected = Threshold().infer_x(target, y, tau, None)
    for name in ("mean", "second", "bound"):
        np.testing.assert_allclose(getattr(found, name).cpu(), getattr(expected, name), rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("n_classes", [3, 5, 16, 29, 40, 200])
@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("each", [None, True, False])
def test_integrals_of_classes(n_classes: int, spread: float, each: bool | None) -> None:
    rng = np.random.default_rng(n_classes)
    y, target = spread * rng.standard_normal((77, n_classes)), rng.integers(0, n_classes, 77)
    expected = array_integrals(y, target, each, n_nodes(n_classes))
    found = class_integrals(there(y), there(target), each)
    for name in ("log_xi", "mills", "own") if each is None else found._fields:
        ours, theirs = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(ours.cpu(), theirs, rtol=1e-9, atol=1e-9 * len(y), err_msg=name)
    if each is not None:
        for ours, theirs in zip(probit_curvature(there(y), there(target), each), probit_curvature(y, target, each)):
            np.testing.assert_allclose(ours.cpu(), theirs, rtol=1e-9, atol=1e-9 * len(y))


def test_rows_of_classes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y, target = there(rng.standard_normal((77, 5))), there(rng.integers(0, 5, 77))
    whole = [class_integrals(y, target, each) for each in (True, False)]
    monkeypatch.setattr("sshiba.core.likelihoods.probit_integrals.DEVICE_BYTES", 10_000)
    for expected, each in zip(whole, (True, False)):
        for ours, theirs in zip(class_integrals(y, target, each), expected):
            np.testing.assert_allclose(ours.cpu(), theirs.cpu(), rtol=1e-12, atol=1e-12)
