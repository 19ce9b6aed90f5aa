"""What a fitted posterior says about rows, seen in the fit or new: factors, predictions, scores. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from .elbo import x_term, z_term
from .engines import Local, MemoryEngine
from .likelihoods import PredictiveX
from .model import Model, ViewModel
from .moments import w_second, w_trace
from .special import array_namespace
from .state import Array, ColumnGroups, Fixed, Gamma, Posterior, Stats, ViewPosterior
from .updates import (
    Block,
    LocalX,
    Message,
    ZPrior,
    collect,
    messages,
    prepare_z,
    start_x,
    update_x,
    update_z,
    z_covariance,
)

MAX_ROUNDS = 1000  # of q(z) and q(x) for new rows
Z_TOL = 1e-7  # largest change of a factor at which they stop
CHUNK_BYTES = 2**26


@dataclass(frozen=True)
class RowPosterior:
    """q(z) and q(x) of a block of rows; `rows` are their places among the rows that were given."""

    rows: np.ndarray
    z_mean: Array  # (n, K)
    z_prior: ZPrior
    block: Block
    x: LocalX

    @property
    def z_cov(self) -> Array:  # (n or 1, K, K)
        return self.z_prior.cov


def infer_rows(engine: MemoryEngine, posterior: Posterior, local: Local | None = None) -> Iterator[RowPosterior]:
    """q(z) and q(x) with the globals fixed, iterated to convergence where a view is binary or categorical."""
    told = messages(posterior, engine.model, engine.groups)
    for i, (block, part) in enumerate(zip(engine.blocks, engine.slices)):
        prior = prepare_z(block, told)
        x = start_x(block, told) if local is None else local.x[i]
        z, x = _settle(block, x, prior, told)
        yield RowPosterior(engine.order[part], z, prior, block, x)


def _settle(block: Block, x: LocalX, prior: ZPrior, told: Sequence[Message]) -> tuple[Array, LocalX]:
    xp = array_namespace(prior.evidence)
    z = update_z(block, x, prior, told)
    for _ in range(MAX_ROUNDS if any(latent is not None for latent in x) else 0):
        x = update_x(block, x, z, told)
        old, z = z, update_z(block, x, prior, told)
        if float(xp.max(xp.abs(z - old))) < Z_TOL:
            break
    return z, x


def factors(engine: MemoryEngine, posterior: Posterior, local: Local | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of z, (N, K), in the order of the rows that were given."""
    mean = np.empty((engine.n_rows, posterior.n_components))
    std = np.empty_like(mean)
    for part in infer_rows(engine, posterior, local):
        xp = array_namespace(part.z_mean)
        mean[part.rows] = np.asarray(part.z_mean)
        std[part.rows] = np.asarray(xp.sqrt(xp.linalg.diagonal(part.z_cov)))
    return mean, std


def predict(
    engine: MemoryEngine, posterior: Posterior, targets: Sequence[int], sharpness: Sequence[float]
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Values and standard deviations of some views on the engine's rows, in the model's units."""
    out: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for i in targets:
        width = engine.model.views[i].n_features
        out[i] = (np.empty((engine.n_rows, width)), np.empty((engine.n_rows, width)))
    for part in infer_rows(engine, posterior):
        for i in targets:
            spec, view = engine.model.views[i], posterior.views[i]
            for rows in _chunks(len(part.rows), 8 * spec.n_features * posterior.n_components):
                x = predictive_x(view, part.z_mean[rows], part.z_cov if part.block.shared else part.z_cov[rows])
                value, std = spec.view.predict(x.sharpened(sharpness[i]))
                out[i][0][part.rows[rows]] = np.asarray(value)
                out[i][1][part.rows[rows]] = np.asarray(std)
    return out


def _chunks(n: int, bytes_per_row: int) -> Iterator[slice]:
    step = max(1, CHUNK_BYTES // bytes_per_row)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def predictive_x(view: ViewPosterior, z_mean: Array, z_cov: Array) -> PredictiveX:
    """x* with its four sources of variance: E[1/tau], wᵀΣ_z w, zᵀΣ_w z + tr(Σ_w Σ_z), Var b."""
    xp = array_namespace(z_mean)
    z_factor = view.w_mean[None] @ xp.linalg.cholesky(z_cov)
    own_var = expected_w_variance(view, z_mean, z_cov) + view.b_var
    return PredictiveX(z_mean @ view.w_mean.T + view.b_mean, z_factor, own_var, noise_variance(view))


def expected_w_variance(view: ViewPosterior, z_mean: Array, z_cov: Array) -> Array:
    """E[zᵀΣ_d z] = Σ_k s_dk E[(B_gᵀz)_k²], (n, D)."""
    xp = array_namespace(z_mean)
    cov = view.w_cov
    out = xp.empty((z_mean.shape[0], view.w_mean.shape[0]), dtype=z_mean.dtype)
    for g, d, alone in cov.groups.parts:
        bases = cov.basis[g] if alone else cov.basis[g][None]
        features = np.arange(view.w_mean.shape[0])[d]
        for basis, where in zip(bases, features[:, None] if alone else [d]):
            square = (z_mean @ basis) ** 2 + xp.sum(basis * (z_cov @ basis), axis=-2)
            out[:, where] = square @ cov.spread[where].T
    return out


def noise_variance(view: ViewPosterior) -> Array:
    """E[1/tau] = rate/(shape − 1), (D,); 1/E[tau] where that has no useful value, on three cells or fewer."""
    xp = array_namespace(view.b_mean)
    tau = view.tau
    if isinstance(tau, Fixed):
        return 1 / tau.value + xp.zeros_like(view.b_mean)
    return tau.rate / xp.where(tau.shape > 2.5, tau.shape - 1, tau.shape) + xp.zeros_like(view.b_mean)


def log_likelihood(engine: MemoryEngine, posterior: Posterior) -> float:
    """Σ_n of the bound on log p(row), in the model's units, the globals fixed at their posterior."""
    stats: Stats = reduce(add, (collect(p.block, p.x, p.z_mean, p.z_prior) for p in infer_rows(engine, posterior)))
    views = [replace(view, w_cov=replace(view.w_cov)) for view in posterior.views]  # what is remembered goes with them
    data = sum(float(x_term(vs, view) + vs.bound) for vs, view in zip(stats.views, views))
    return float(z_term(stats)) + data


def unweighted(model: Model) -> Model:
    """Every view counted once, as a likelihood needs it."""
    return Model(tuple(replace(spec, view=replace(spec.view, weight=1.0)) for spec in model.views))


def r2(posterior: Posterior, stats: Stats) -> np.ndarray:
    """Share of each view's variance explained by each factor alone, and in a last row by all, (K + 1, M).

    With residuals taken about b: 1 − Σ(x − b − z w)²/Σ(x − b)² = Σ(2 w·q − w² <zz>)/Σ(x − b)², q = Σ(x − b)<z>.
    """
    columns = []
    for vs, view in zip(stats.views, posterior.views):
        xp = array_namespace(view.w_mean)
        index, w, b = vs.groups.index, view.w_mean, view.b_mean
        total = xp.sum(vs.xx - 2 * b * vs.x_sum + vs.n[index] * b**2)
        cross = vs.xz - b[:, None] * vs.z_sum[index]
        own = xp.sum(2 * w * cross - w**2 * xp.linalg.diagonal(vs.zz)[index], axis=0)
        point = replace(view, w_cov=replace(view.w_cov, spread=xp.zeros_like(view.w_cov.spread)))
        together = xp.sum(2 * w * cross) - xp.sum(w_trace(point, vs.zz, vs.groups))
        explained = np.append(np.asarray(own), float(together))
        columns.append(np.clip(explained / max(float(total), np.finfo(float).tiny), 0.0, 1.0))
    return np.stack(columns, axis=1)


def feature_relevance(view: ViewPosterior, spec: ViewModel) -> np.ndarray:
    """1/E[gamma_d]; without selection the mean over factors of E[alpha_k] E[w_dk²], (D,)."""
    if isinstance(view.gamma, Gamma):
        return 1 / np.asarray(view.gamma.mean)[spec.relevance]
    return np.asarray(w_second(view) * view.alpha.mean).mean(axis=1)


def influence(posterior: Posterior, model: Model, target: int, rows: list[int] | None = None) -> list[np.ndarray]:
    """How far one standard deviation of each feature moves the target's <x> (or some rows of it), (D,); itself 0.

    With all other views observed <x_t> = <b_t> + <W_t> Σ_z Σ_m w_m Σ_d tau_d <w_d> (x_d − b_d): a unit of feature d
    moves it by the vector C_d = w_m tau_d <W_t> Σ_z <w_d>. This is |C_d| times the deviation of d in these units.
    """
    told = messages(posterior, model, [ColumnGroups(np.zeros(spec.n_features, dtype=int)) for spec in model.views])
    seen = [np.full((1, 1), float(m != target)) for m in range(len(told))]
    cov = z_covariance(seen, told).cov[0]
    moves = told[target].w_mean[slice(None) if rows is None else rows] @ cov
    return [
        on[0, 0] * np.linalg.norm(message.loading @ moves.T, axis=1) * np.sqrt(spec.variance)
        for on, message, spec in zip(seen, told, model.views)
    ]
