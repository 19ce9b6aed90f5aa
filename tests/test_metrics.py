"""Scores, against scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sshiba.evaluate.metrics import auc_mc, binary_log_likelihood, coverage, normal_log_likelihood, reliability, rmse


def some_labels(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = (rng.random((200, 4)) < [0.1, 0.3, 0.5, 0.7]).astype(int)
    return truth, np.round(truth + rng.normal(0, 1, truth.shape), 1)  # rounded: with ties


def test_auc_is_weighted_by_positives() -> None:
    truth, scores = some_labels()
    found = auc_mc(truth, scores)
    assert found.value == pytest.approx(roc_auc_score(truth, scores, average="weighted"), abs=1e-12)
    np.testing.assert_allclose(found.per_label, roc_auc_score(truth, scores, average=None), atol=1e-12)
    assert found.n_left_out == 0


def test_labels_of_one_outcome_are_left_out_and_counted() -> None:
    truth, scores = some_labels()
    truth[:, 1], truth[:, 2] = 0, 1
    found = auc_mc(truth, scores)
    assert found.n_left_out == 2
    assert np.isnan(found.per_label[1:3]).all()
    expected = roc_auc_score(truth[:, [0, 3]], scores[:, [0, 3]], average="weighted")
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert np.isnan(auc_mc(np.ones((5, 2)), np.ones((5, 2))).value)


def test_class_numbers_are_each_against_the_rest() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 100)
    scores = rng.random((100, 3)) + np.eye(3)[truth]
    assert auc_mc(truth, scores).value == pytest.approx(auc_mc(np.eye(3)[truth], scores).value)


def test_unknown_labels_do_not_count() -> None:
    truth, scores = some_labels()
    holes = truth.astype(float)
    holes[:50, 0] = np.nan
    assert auc_mc(holes, scores).per_label[0] == pytest.approx(roc_auc_score(truth[50:, 0], scores[50:, 0]))


def test_what_cannot_be_ranked_is_refused() -> None:
    scores = np.array([[0.1, 0.9], [np.nan, 0.3], [0.2, 0.4]])
    with pytest.raises(ValueError, match="scores have NaN"):
        auc_mc(np.array([0, 1, 1]), scores)
    assert auc_mc(np.array([[1, 0], [np.nan, 1], [0, 1]]), scores).per_label.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="truth has NaN"):
        auc_mc(np.array([0, 1, np.nan]), np.ones((3, 2)))


def test_reliability_is_what_happened_in_each_bin() -> None:
    table = reliability(np.array([[0, 1], [1, 1]]), np.array([[0.02, 0.06], [1.0, 0.92]]))
    assert table["predicted"].tolist() == pytest.approx([0.04, 0.96])
    assert table["observed"].tolist() == [0.5, 1.0]
    assert table["n"].tolist() == [2, 2]


def test_small_bins_are_joined() -> None:
    truth, p = np.array([0, 0, 1, 0, 1, 1, 1.0]), np.array([0.05, 0.06, 0.25, 0.26, 0.27, 0.95, 0.96])
    table = reliability(truth, p, least=3)
    assert table["n"].tolist() == [7]  # 2 + 3, and the last two with the ones before
    assert table["observed"].tolist() == pytest.approx([4 / 7])
    assert reliability(truth, p, least=2)["n"].tolist() == [2, 3, 2]
    assert reliability(truth, p, least=8).empty


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="one shape"):
        auc_mc(np.zeros((3, 2)), np.zeros((3, 4)))


def test_likelihoods_and_errors_of_known_cells() -> None:
    truth = np.array([[1.0, 0.0], [np.nan, 1.0]])
    proba = np.array([[0.8, 0.4], [0.1, 1.0]])
    assert binary_log_likelihood(truth, proba) == pytest.approx((np.log(0.8) + np.log(0.6) + 0.0) / 3)
    assert np.isfinite(binary_log_likelihood(np.array([0.0]), np.array([1.0])))
    assert rmse(truth, np.zeros((2, 2))) == pytest.approx(np.sqrt(2 / 3))
    x = np.array([0.0, 2.0, np.nan])
    expected = -0.5 * np.log(2 * np.pi) - np.log(2.0) - 0.25  # mean of 0 and (2/2)²/2
    assert normal_log_likelihood(x, np.zeros(3), np.full(3, 2.0)) == pytest.approx(expected)
    draws = np.random.default_rng(0).standard_normal(20000)
    assert coverage(draws, np.zeros(20000), np.ones(20000)) == pytest.approx(0.9, abs=0.01)
