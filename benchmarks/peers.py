"""Against scikit-learn's FactorAnalysis: seconds to the same held-out log-likelihood, same data, same factors."""

from __future__ import annotations

import logging
import sys
import time
import warnings

import numpy as np
from common import Row, report
from sklearn.datasets import load_digits
from sklearn.decomposition import FactorAnalysis

from sshiba import SSHIBA, Priors, Real


def made_up(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + rng.uniform(0.5, 2, d) * rng.standard_normal(
        (n, d)
    )


def compare(name: str, X: np.ndarray, k: int) -> Row:
    rng = np.random.default_rng(1)
    X = X[:, X.std(axis=0) > 0]
    order = rng.permutation(len(X))
    test, train = X[order[: len(X) // 4]], X[order[len(X) // 4 :]]
    centre, scale = train.mean(axis=0), train.std(axis=0)
    usable = scale > 0
    train, test = ((part[:, usable] - centre[usable]) / scale[usable] for part in (train, test))
    best: tuple[float, float] = (np.inf, 0.0)
    for method in ("lapack", "randomized"):
        began = time.perf_counter()
        peer = FactorAnalysis(k, svd_method=method, random_state=0).fit(train)
        best = min(best, (time.perf_counter() - began, float(peer.score(test))))
    theirs, target = best
    priors = Priors(noise_floor=0.0)  # FactorAnalysis has none
    for n_sweeps in (25, 35, 50, 75, 100, 200, 400, 2000):
        began = time.perf_counter()
        model = SSHIBA(k, {"x": Real()}, max_iter=n_sweeps, priors=priors, search=None, random_state=0)
        model.fit({"x": train})
        ours = time.perf_counter() - began
        score = point_score(model, test)
        if score >= target - 1e-4 * abs(target):
            break
    note = f"log-likelihood {score:.3f} (theirs {target:.3f}), {model.n_iter_} sweeps, {model.n_components_} factors"
    return Row("peers", f"{name}, {train.shape[0]} x {train.shape[1]}, K={k}", "FactorAnalysis", theirs, ours, 1, note)


def point_score(model: SSHIBA, X: np.ndarray) -> float:
    """The log-likelihood at the posterior means, as FactorAnalysis.score gives it."""
    W, b, noise = model.weights_["x"], model.bias_["x"], model.noise_std_["x"]
    cov = W @ W.T + np.diag(noise**2)
    residual = X - b
    quad = np.sum(np.linalg.solve(cov, residual.T).T * residual, axis=1)
    return float(-0.5 * np.mean(quad + X.shape[1] * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1]))


def main(quick: bool = False) -> list[Row]:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [compare("made up", made_up(4000, 100, 10), 10), compare("digits", load_digits().data, 20)]
        if not quick:
            rows.append(compare("made up", made_up(20_000, 300, 20), 20))
    return rows


if __name__ == "__main__":
    report(main("--quick" in sys.argv), "peers")
