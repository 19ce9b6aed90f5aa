"""The paper's updates as printed, vectorised where the paper is, against a sweep of the library: faces of 7 people."""

from __future__ import annotations

import time
import warnings

import numpy as np
from common import Row, report
from data import arrays

from sshiba import SSHIBA, Categorical, Progress, Real, datasets
from sshiba.fitting.loop import HOLD_X


class Textbook:
    """Two views, images with feature selection and labels as categories; tables 2 and 4, one tau per view."""

    def __init__(self, X: np.ndarray, y: np.ndarray, n_components: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.X, self.y = rng, (X - X.mean(axis=0)) / X.std(axis=0), y
        self.n, self.k, self.c = len(X), n_components, int(y.max()) + 1
        self.T = np.eye(self.c)[y]
        widths = [X.shape[1], self.c]
        self.W = [rng.standard_normal((d, n_components)) * 0.1 for d in widths]
        self.WW = [w.T @ w for w in self.W]
        self.b = [np.zeros(d) for d in widths]
        self.alpha = [np.ones(n_components) for _ in widths]
        self.gamma, self.tau = np.ones(widths[0]), 1.0

    def sweep(self) -> None:
        taus, data = [self.tau, 1.0], [self.X, self.T]
        cov_z = np.linalg.inv(np.eye(self.k) + sum(t * ww for t, ww in zip(taus, self.WW)))
        Z = sum(t * (x - b) @ w for t, x, b, w in zip(taus, data, self.b, self.W)) @ cov_z
        ZZ = Z.T @ Z + self.n * cov_z
        second = np.empty_like(self.W[0])
        total = np.zeros((self.k, self.k))
        XZ = (self.X - self.b[0]).T @ Z
        log_det = 0.0
        for d in range(self.X.shape[1]):  # each feature has a covariance of its own, and its determinant in the bound
            precision = np.diag(self.alpha[0]) * self.gamma[d] + self.tau * ZZ
            cov = np.linalg.inv(precision)
            log_det -= np.linalg.slogdet(precision)[1]
            self.W[0][d] = self.tau * XZ[d] @ cov
            ww = cov + np.outer(self.W[0][d], self.W[0][d])
            second[d], total = np.diag(ww), total + ww
        self.WW[0] = total
        cov = np.linalg.inv(np.diag(self.alpha[1]) + ZZ)
        self.W[1] = (self.T - self.b[1]).T @ Z @ cov
        self.WW[1] = self.c * cov + self.W[1].T @ self.W[1]
        for m, x in enumerate(data):
            self.b[m] = taus[m] * (x - Z @ self.W[m].T).sum(axis=0) / (1 + self.n * taus[m])
        self.alpha[0] = (self.X.shape[1] / 2 + 1e-3) / (1e-3 + 0.5 * (self.gamma[:, None] * second).sum(axis=0))
        self.alpha[1] = (self.c / 2 + 1e-3) / (1e-3 + 0.5 * np.diag(self.WW[1]))
        self.gamma = (self.k / 2 + 2) / (1 + 0.5 * (self.alpha[0] * second).sum(axis=1))
        residual = ((self.X - self.b[0]) ** 2).sum() - 2 * np.sum(XZ * self.W[0]) + np.trace(self.WW[0] @ ZZ)
        self.tau = (self.X.size / 2 + 1e-3) / (1e-3 + 0.5 * residual)
        self.T = self.categorical_means(Z @ self.W[1].T + self.b[1])

    def categorical_means(self, y: np.ndarray, n_draws: int = 100) -> np.ndarray:
        """Table 4, its expectations by Monte Carlo as in the paper."""
        from scipy.stats import norm

        u = self.rng.standard_normal(n_draws)
        rows = np.arange(self.n)
        delta = y[rows, self.y][:, None] - y
        cdf = norm.cdf(u[None, :, None] + delta[:, None, :])
        cdf[rows, :, self.y] = 1.0
        product = cdf.prod(axis=2)
        xi = product.mean(axis=1)
        ratio = norm.pdf(u[None, :, None] + delta[:, None, :]) / np.maximum(cdf, 1e-300)
        step = (product[:, :, None] * ratio).mean(axis=1) / xi[:, None]
        step[rows, self.y] = 0.0
        x = y - step
        x[rows, self.y] = y[rows, self.y] + step.sum(axis=1)
        return x


def main(quick: bool = False) -> list[Row]:
    data = arrays(datasets.load_faces)
    if data is None:
        return []
    X, y = data["pixels"].astype(float), np.unique(data["person"], return_inverse=True)[1]
    k = 100
    book = Textbook(X, y, k)
    book.sweep()
    ours, theirs = [], []
    resumed = 0.0

    def note(progress: Progress) -> None:
        """After each sweep of ours that updates all there is, one of theirs: what else the machine does hits both."""
        nonlocal resumed
        now = time.perf_counter()
        if progress.sweep > HOLD_X + 1:
            ours.append(now - resumed)
            book.sweep()
            theirs.append(time.perf_counter() - now)
        resumed = time.perf_counter()

    types = {"image": Real(select_features=True, noise="view"), "who": Categorical()}
    n = HOLD_X + (3 if quick else 12)
    model = SSHIBA(k, types, max_iter=n, search=None, acceleration=None, prune_tol=0.0, callback=note, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit({"image": X, "who": y})
    what = f"7 faces, {X.shape[0]} x {X.shape[1]}, selection, K={k}: one sweep"
    return [
        Row(
            *("textbook", what, "the paper's updates", float(np.median(theirs)), float(np.median(ours)), 25),
            "ours with the bound, theirs with its determinants; medians of sweeps in turns",
        )
    ]


if __name__ == "__main__":
    report(main(), "textbook")
