"""Counts: words of news stories, a tenth of the cells hidden, and single-cell-like sparse counts to convergence.

The log-likelihood of a hidden cell beside simple models and, where they are installed, mofapy2's Poisson and
MOFA-FLEX's negative binomial on the same masks:

    pip install mofapy2 torch mofaflex
    SSHIBA_DATA=... python benchmarks/counts.py [--quick] [--sparse]

mofapy2's rate is log(1 + e^(z w)) and has no noise beside Poisson's; its log-likelihood is that of its rates. Every
model but the rank-one ones is given 20 factors.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from common import Row, report
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.stats import nbinom, poisson
from sklearn.decomposition import LatentDirichletAllocation

from sshiba import SSHIBA, Count
from sshiba.core.likelihoods.poisson_predictive import log_probability
from sshiba.datasets import load_news

N_WORDS, SHARE, N_FACTORS = 300, 0.1, 20
Scores = tuple[float, float, str]  # log-likelihood of a hidden cell, seconds, a note


def stories() -> np.ndarray:
    """Counts of the commonest words."""
    whole = load_news().views["words"].to_numpy(dtype=float)
    return whole[:, np.argsort(-whole.sum(axis=0), kind="stable")[:N_WORDS]]


def rank_one(shown: np.ndarray) -> np.ndarray:
    """Row totals times column means, of the seen cells."""
    seen, mean = ~np.isnan(shown), np.nanmean(shown, axis=0)
    return np.nansum(shown, axis=1, keepdims=True) / (seen @ mean)[:, None] * mean


def simple_poisson(whole: np.ndarray, hidden: np.ndarray) -> Scores:
    began = time.perf_counter()
    rate = rank_one(np.where(hidden, np.nan, whole))
    return float(poisson.logpmf(whole, rate)[hidden].mean()), time.perf_counter() - began, ""


def simple_negative_binomial(whole: np.ndarray, hidden: np.ndarray) -> Scores:
    """One dispersion for all cells, from the seen ones."""
    began = time.perf_counter()
    rate = rank_one(np.where(hidden, np.nan, whole))

    def log_p(log_shape: float, cells: np.ndarray) -> float:
        shape = np.exp(log_shape)
        return float(nbinom.logpmf(whole[cells], shape, shape / (shape + rate[cells])).mean())

    best = minimize_scalar(lambda s: -log_p(s, ~hidden), bounds=(-4, 6), method="bounded").x
    return log_p(best, hidden), time.perf_counter() - began, ""


def topics(whole: np.ndarray, hidden: np.ndarray) -> Scores:
    """Latent Dirichlet allocation, hidden cells at what a rank-one model expects."""
    began = time.perf_counter()
    shown = np.where(hidden, np.nan, whole)
    filled = np.where(hidden, rank_one(shown), whole)
    model = LatentDirichletAllocation(N_FACTORS, random_state=0, max_iter=50).fit(filled)
    words = model.components_ / model.components_.sum(axis=1, keepdims=True)
    share = model.transform(filled) @ words
    size = np.nansum(shown, axis=1) / np.where(hidden, 0, share).sum(axis=1)
    rate = np.maximum(size[:, None] * share, 1e-10)
    return float(poisson.logpmf(whole, rate)[hidden].mean()), time.perf_counter() - began, ""


def ours(whole: np.ndarray, hidden: np.ndarray) -> Scores:
    began = time.perf_counter()
    views = {"words": np.where(hidden, np.nan, whole)}
    model = SSHIBA(N_FACTORS, {"words": Count()}, random_state=0).fit(views)
    mean, std = model.predict(views, "words", return_std=True, use_target=True)
    took = time.perf_counter() - began
    found = log_probability(whole[hidden], mean[hidden], std[hidden]).mean()
    return float(found), took, f"{model.n_components_} factors, found by the search"


def mofa(whole: np.ndarray, hidden: np.ndarray) -> Scores:
    """mofapy2's Poisson; cells that it does not see are NaN."""
    from mofapy2.run.entry_point import entry_point

    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        run = entry_point()
        run.set_data_options(scale_views=False, center_groups=False)
        run.set_data_matrix([[np.where(hidden, np.nan, whole)]], likelihoods=["poisson"])
        run.set_model_options(factors=N_FACTORS)
        run.set_train_options(iter=500, convergence_mode="fast", seed=0, verbose=False, quiet=True)
        run.build()
        run.run()
    took = time.perf_counter() - began
    nodes = run.model.getExpectations(only_first_moments=True)
    z, w = nodes["Z"], nodes["W"][0]
    rate = np.maximum(np.logaddexp(0, np.asarray(z) @ np.asarray(w).T), 1e-10)
    found = float(poisson.logpmf(whole, rate)[hidden].mean())
    return found, took, f"{np.asarray(z).shape[1]} factors"


def mofaflex(whole: np.ndarray, hidden: np.ndarray) -> Scores:
    """MOFA-FLEX's negative binomial, with its defaults."""
    import pandas as pd
    from anndata import AnnData
    from mofaflex import MOFAFLEX, DataOptions, ModelOptions, TrainingOptions
    from mudata import MuData

    shown = np.where(hidden, np.nan, whole)
    names = [f"word {i}" for i in range(whole.shape[1])]
    rows = [str(i) for i in range(len(whole))]
    table = AnnData(shown, obs=pd.DataFrame(index=rows), var=pd.DataFrame(index=names))
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        model = MOFAFLEX(
            MuData({"words": table}),
            DataOptions(plot_data_overview=False, remove_constant_features=False),
            ModelOptions(n_factors=N_FACTORS, likelihoods={"words": "NegativeBinomial"}),
            TrainingOptions(device="cpu", seed=0, save_path=False),
        )
    took = time.perf_counter() - began
    rate, shape = flexible_rates(model, shown)
    found = float(nbinom.logpmf(whole, shape, shape / (shape + rate))[hidden].mean())
    return found, took, ""


def flexible_rates(model: object, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and shapes of its negative binomials: max(0, z w) times the mean of each row, at least a hundredth of what
    rank one expects, since a rate of 0 would forbid a count.
    """
    (z,) = model.get_factors("numpy").values()  # type: ignore[attr-defined]
    w = model.get_weights("numpy")["words"]  # type: ignore[attr-defined]
    dispersion = model.get_dispersion("numpy")["words"]  # type: ignore[attr-defined]
    product = z @ w if z.shape[1] == w.shape[0] else z.T @ w
    rate = np.maximum(product, 0) * np.nanmean(shown, axis=1, keepdims=True)
    return np.maximum(rate, 0.01 * rank_one(shown)), 1 / np.asarray(dispersion)


MODELS: dict[str, Callable[[np.ndarray, np.ndarray], Scores]] = {
    "rank-one Poisson": simple_poisson,
    "rank-one negative binomial": simple_negative_binomial,
    "LDA": topics,
    "mofapy2": mofa,
    "MOFA-FLEX": mofaflex,
}


def words(n_masks: int) -> list[Row]:
    whole, rows = stories(), []
    masks = [np.random.default_rng(seed).random(whole.shape) < SHARE for seed in range(n_masks)]
    mine = [ours(whole, hidden) for hidden in masks]
    score, took = np.mean([one[:2] for one in mine], axis=0)
    for peer, run in MODELS.items():
        try:
            found = [run(whole, hidden) for hidden in masks]
        except ImportError as error:
            print(f"{peer}: left out, {error}", file=sys.stderr)
            continue
        theirs, peer_took = np.mean([one[:2] for one in found], axis=0)
        note = f"{score:.3f} nats a hidden cell ({mine[0][2]}), {peer} {theirs:.3f} {found[0][2]}"
        extra = {"log_likelihood": score, "peer_log_likelihood": theirs, "masks": n_masks}
        rows.append(Row("counts", "words of 395 stories", peer, peer_took, took, None, note, extra))
    return rows


def made_up(n: int, d: int, k: int = 8) -> sparse.csr_array:
    """Sparse counts of n cells and d genes, about a sixth of them not 0."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((k, d)) * (rng.random((k, d)) < 0.2)
    base = 1.2 * rng.standard_normal(d) - 2.6
    parts = []
    for start in range(0, n, 2000):
        m = min(2000, n - start)
        log_rate = rng.standard_normal((m, k)) @ W + base + 0.4 * rng.standard_normal((m, 1))
        rate = np.exp(log_rate + 0.3 * rng.standard_normal((m, d)))
        parts.append(sparse.csr_array(rng.poisson(rate).astype(np.float32)))
    return sparse.csr_array(sparse.vstack(parts))


def large(n: int, d: int) -> Row:
    """Seconds to convergence, and the most memory, of sparse counts made with eight factors."""
    data = made_up(n, d)
    began = time.perf_counter()
    model = SSHIBA(N_FACTORS, {"reads": Count()}, random_state=0).fit({"reads": data})
    took, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    note = f"{model.n_iter_} sweeps, {model.n_components_} factors (of 8), {peak:.1f} GB at most"
    return Row("counts", f"{n:,} x {d:,} sparse, to convergence", "-", float("nan"), took, None, note)


def main(quick: bool = False) -> list[Row]:
    rows = [] if "SSHIBA_DATA" not in os.environ else words(1 if quick else 3)
    return rows + ([large(2000, 500)] if quick else [])


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [large(20_000, 2_000)] if "--sparse" in sys.argv else main("--quick" in sys.argv)
        report(found, "counts")
