"""What NumPy is slow at, against NumPy."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from sshiba.core import arrays, latent_step, sparse_rows
from sshiba.core.arrays import FEW, compiled_twin, inverse_lower, inverse_positive, inverse_root
from sshiba.core.likelihoods import interval, poisson, probit_integrals, threshold, threshold_rows

USERS = [latent_step, sparse_rows, interval, poisson, probit_integrals, threshold, threshold_rows]


@pytest.fixture
def nothing_imported() -> Iterator[None]:
    """Compiled twins are looked for anew, and once more after the test."""
    compiled_twin.cache_clear()
    yield
    compiled_twin.cache_clear()


@pytest.mark.usefixtures("nothing_imported")
def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert arrays._compiled_inverse() is None
    assert [module.compiled() for module in USERS] == [None] * len(USERS)


@pytest.mark.usefixtures("nothing_imported")
def test_compiled_twins_are_found_once() -> None:
    pytest.importorskip("numba")
    found = {module.compiled() for module in USERS} | {arrays._compiled_inverse()}
    assert len(found) == len(USERS) + 1
    assert compiled_twin.cache_info().misses == len(found)
    assert latent_step.compiled() in found
    assert compiled_twin.cache_info().misses == len(found)


@pytest.mark.usefixtures("nothing_imported")
def test_a_compiled_twin_that_cannot_be_imported_is_no_lack_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setitem(sys.modules, "sshiba.core.spread_compiled", None)
    with pytest.raises(ImportError, match="spread_compiled"):
        latent_step.compiled()


def use_compiled(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_compiled:
        monkeypatch.setattr(arrays, "_compiled_inverse", lambda: None)
    elif arrays._compiled_inverse() is None:
        pytest.skip("numba is not installed")


@pytest.mark.parametrize("n_matrices", [FEW - 1, FEW + 3])
@pytest.mark.parametrize("k", [0, 1, 2, 12, 13, 25, 64, 65])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_roots_of_inverses(k: int, n_matrices: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    use_compiled(is_compiled, monkeypatch)
    rng = np.random.default_rng(k)
    half = rng.standard_normal((n_matrices, k, k + 2))
    precision = half @ half.transpose(0, 2, 1) + np.eye(k)
    root, logdet = inverse_root(precision)
    np.testing.assert_allclose(root @ root.transpose(0, 2, 1), np.linalg.inv(precision), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(logdet, -np.linalg.slogdet(precision)[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.tril(root, -1), 0, atol=1e-12)
    one, log_one = inverse_root(precision[0])
    np.testing.assert_allclose(one, root[0], rtol=1e-9, atol=1e-12)
    assert log_one == pytest.approx(logdet[0])


@pytest.mark.parametrize("k", [0, 1, 2, 7, 31, 64, 65])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_inverses_of_many_positive_matrices(k: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of factors of very unequal size; four do not divide the number of matrices, and the largest are LAPACK's."""
    use_compiled(is_compiled, monkeypatch)
    rng = np.random.default_rng(k)
    half = 10.0 ** rng.uniform(-3, 3, (FEW + 3, k, 1)) * rng.standard_normal((FEW + 3, k, k + 2))
    precision = half @ half.transpose(0, 2, 1) + np.eye(k)
    expected, log_expected = np.linalg.inv(precision), -np.linalg.slogdet(precision)[1]
    found, logdet = inverse_positive(precision.copy())
    scale = np.sqrt(np.diagonal(expected, axis1=1, axis2=2))
    error = np.abs(found - expected) / (scale[:, :, None] * scale[:, None, :])
    assert error.size == 0 or error.max() < 1e-8
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1) if is_compiled else found)
    np.testing.assert_allclose(logdet, log_expected, rtol=1e-12, atol=1e-12)


def test_inverses_of_bad_triangles_are_as_good_as_those_of_numpy() -> None:
    """Scales over ten orders of magnitude, as factors have that come and go."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.uniform(-5, 5, (20, 40))
    half = rng.standard_normal((20, 40, 60))
    lower = np.linalg.cholesky(scale[:, :, None] * (half @ half.transpose(0, 2, 1)) * scale[:, None, :])

    def error(inverse: np.ndarray) -> float:
        """Of L⁻¹ L = I, each entry in units of the sizes that meet in it."""
        size = np.abs(inverse) @ np.abs(lower)
        return float(np.max(np.abs(inverse @ lower - np.eye(40)) / np.maximum(size, 1.0)))

    assert error(inverse_lower(lower)) < 2 * error(np.linalg.inv(lower)) + 1e-14
