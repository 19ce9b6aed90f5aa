"""Exact holes at random: the library's local step against the obvious einsum version of the same sums."""

from __future__ import annotations

import numpy as np
from common import Row, interleaved, report

from sshiba.core.coded import CodedView
from sshiba.core.global_step import global_step
from sshiba.core.likelihoods import Gaussian
from sshiba.core.spec import ModelSpec, Priors, view_spec
from sshiba.core.start import random_posterior
from sshiba.engines import make_rows


def einsum_step(x: np.ndarray, seen: np.ndarray, w: np.ndarray, cov: np.ndarray, b: np.ndarray, tau: np.ndarray):
    """q(z) of all rows and the statistics for W, as one would write them down."""
    ww = tau[:, None, None] * (cov + np.einsum("dk,dl->dkl", w, w))
    precision = np.eye(w.shape[1]) + np.einsum("nd,dkl->nkl", seen, ww)
    z_cov = np.linalg.inv(precision)
    z = np.einsum("nkl,nl->nk", z_cov, np.einsum("nd,nd,dk->nk", seen, x - b, tau[:, None] * w))
    zz = np.einsum("nd,nkl->dkl", seen, z_cov + np.einsum("nk,nl->nkl", z, z))
    return zz, np.einsum("nd,nd,nk->dk", seen, x, z)


def main(quick: bool = False) -> list[Row]:
    n, d, k = 1500, 103, 50
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 10)) @ rng.standard_normal((10, d)) + rng.standard_normal((n, d))
    seen = rng.random((n, d)) < 0.5
    x = np.where(seen, (x - x.mean(axis=0)) / x.std(axis=0), 0.0)
    spec = ModelSpec((view_spec("x", Gaussian(), "feature", seen.sum(axis=0).astype(float), np.ones(d), Priors()),))
    rows = make_rows([CodedView(x, seen)], spec, k)
    posterior = random_posterior(rows.spec, k, rows.groups, rng)
    local = rows.start(posterior)
    for _ in range(2):
        local, stats = rows.step(posterior, local)
        posterior, _ = global_step(stats, posterior, spec)
    view = posterior.views[0]
    basis = view.w_cov.basis[view.w_cov.groups.index]
    cov = (basis * view.w_cov.spread[:, None, :]) @ basis.transpose(0, 2, 1)
    masks = seen.astype(float)
    ours, obvious = (
        lambda: rows.step(posterior, local)[1].views[0],
        lambda: einsum_step(x, masks, view.w_mean, cov, view.b_mean, view.tau.mean),
    )
    found, expected = ours(), obvious()
    np.testing.assert_allclose(found.zz[found.groups.index], expected[0], rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(found.xz, expected[1], rtol=1e-8, atol=1e-6)
    seconds, theirs = interleaved([ours, obvious], repeats=3 if quick else 7)
    return [Row("holes", f"exact holes, N={n}, D={d}, K={k}, half missing", "einsum", theirs, seconds, goal=3)]


if __name__ == "__main__":
    report(main())
