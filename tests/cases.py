"""Small random problems of every kind, and the bridge between the library's state and the oracle's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import oracle
import pandas as pd

from sshiba.core import likelihoods
from sshiba.core.coded import CodedView
from sshiba.core.likelihoods import (
    Censored,
    Gaussian,
    Interval,
    Likelihood,
    Logistic,
    MultinomialProbit,
    Poisson,
    Threshold,
)
from sshiba.core.spec import ModelSpec, Priors, ViewSpec, known_view, view_spec
from sshiba.core.start import random_posterior
from sshiba.core.state import Fixed, Gamma, Posterior, ViewPosterior, WeightCovariance
from sshiba.data.coding import Coding, unit_coding
from sshiba.data.levels import Levels, first_places
from sshiba.data.types import Binary, Categorical, Count, Ordinal, Real, View
from sshiba.engines import Rows, make_rows


@dataclass(frozen=True)
class Problem:
    """Views with their data, and what a fit needs."""

    data: list[CodedView]
    spec: ModelSpec
    posterior: Posterior
    missing: str = "exact"
    block_rows: int | None = None
    space: str = "auto"
    rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        k = self.posterior.n_components
        rows = make_rows(self.data, self.spec, k, self.missing, self.space, self.block_rows, 4)
        object.__setattr__(self, "rows", rows)


def every_likelihood() -> set[type[Likelihood]]:
    """All that the library has."""
    found = (value for value in vars(likelihoods).values() if isinstance(value, type) and issubclass(value, Likelihood))
    return set(found) - {Likelihood}


def spec_of(
    name: str, view: View, n_observed: np.ndarray, variance: np.ndarray, priors: Priors | None = None
) -> ViewSpec:
    """A view as the kernels see it, from the options that a user sets."""
    coding = coding_of(view, len(n_observed))
    options = {"weight": view.weight, "select_features": view.select_features, "groups": view.groups}
    options["held"] = view.held_noise(coding)
    return view_spec(
        name, view.likelihood(coding), view.noise_model, n_observed, variance, priors or Priors(), **options
    )


def coding_of(view: View, d: int) -> Coding:
    """How data of `draw_view` are coded: ordinal columns have 2, 3, 4, 5, 2 ... levels, some of them rare; columns
    of counts have these means.
    """
    coding = unit_coding(tuple(range(d)), np.ones(d))
    if isinstance(view, Real) and view.limits is not None:
        return replace(coding, at_limits=(1,) * d, observed_per_feature=np.full(d, 2))
    if isinstance(view, Count):
        return replace(coding, centre=np.log(np.resize([0.5, 6.0, 30.0, 1.5], d)))
    if not isinstance(view, Ordinal):
        return coding
    counts = [(4, 1, 3, 2, 5)[: 2 + column % 4] for column in range(d)]
    return replace(coding, ordered=tuple(Levels(tuple(range(len(own))), own) for own in counts))


def draw_view(view: View, n: int, d: int, holes: str, rng: np.random.Generator) -> CodedView:
    """Data of a view type; `holes` is "none", "rows" or "cells". Every feature keeps an observed cell."""
    if isinstance(view, Real):
        target = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / np.sqrt(d)
        if view.limits is not None:
            coding = replace(coding_of(view, d), centre=np.zeros(d), scale=np.ones(d))
            target = view.encode(pd.DataFrame(target), "x", coding, "float64").target
    elif isinstance(view, Binary):
        target = (rng.random((n, d)) < rng.random(d)).astype(float)
    elif isinstance(view, Categorical):
        target, holes = rng.integers(0, d, n), "none" if holes == "none" else "rows"
    elif isinstance(view, Ordinal):
        ordered = coding_of(view, d).ordered
        chances = [np.array(own.counts) / sum(own.counts) for own in ordered]
        columns = [first + rng.choice(len(p), n, p=p) for first, p in zip(first_places(ordered), chances)]
        target = np.stack(columns, axis=1).astype(np.int32)
    elif isinstance(view, Count):
        spread = np.exp(0.7 * rng.standard_normal((n, d)))
        target = rng.poisson(spread * np.exp(coding_of(view, d).centre)).astype(float)
    else:
        raise TypeError(f"tell draw_view how to make data for {type(view).__name__}")
    if holes == "none":
        return CodedView(target, None)
    observed = rng.random((n, 1 if holes == "rows" else d)) < 0.7
    observed[rng.integers(0, n)] = True
    if target.ndim == 3:
        return CodedView(target, None).with_only(np.broadcast_to(observed, (n, d)))
    return CodedView(target * observed if target.ndim == 2 else target * observed[:, 0], observed)


def make_problem(
    views: list[View],
    widths: list[int],
    holes: list[str],
    n: int = 12,
    n_components: int = 3,
    missing: str = "exact",
    seed: int = 0,
    priors: Priors | None = None,
    block_rows: int | None = None,
    space: str = "auto",
    n_groups: int = 0,
    n_covariates: int = 0,
) -> Problem:
    """With `n_groups` groups of samples, some rows are in none of them."""
    rng = np.random.default_rng(seed)
    data = [draw_view(view, n, d, h, rng) for view, d, h in zip(views, widths, holes)]
    specs = []
    for i, (view, d, rows) in enumerate(zip(views, widths, data)):
        seen = np.full(d, n) if rows.observed is None else np.broadcast_to(rows.observed, (n, d)).sum(axis=0)
        specs.append(spec_of(f"v{i}", view, seen.astype(float), np.ones(d), priors))
    if n_covariates:
        specs.append(known_view("covariates", n_covariates))
        data.append(CodedView(rng.standard_normal((n, n_covariates)), None))
    spec = ModelSpec(tuple(specs), n_groups=n_groups)
    if n_groups:
        labels = np.random.default_rng(seed).permutation(np.arange(n) % (n_groups + 1)) - 1
        data.append(CodedView(np.maximum(labels, 0), labels[:, None] >= 0))
    posterior = random_posterior(spec, n_components, make_rows(data, spec, n_components, missing).groups, rng)
    return Problem(data, spec, posterior, missing, block_rows, space)


def covariances(cov: WeightCovariance) -> np.ndarray:
    """Σ_d written out, (D, K, K)."""
    basis = cov.basis[cov.groups.index]
    return (basis * cov.spread[:, None, :]) @ basis.transpose(0, 2, 1)


KINDS = {
    Gaussian: "real",
    Logistic: "logit",
    Threshold: "probit",
    MultinomialProbit: "categorical",
    Interval: "interval",
    Censored: "interval",
    Poisson: "count",
}


def interval_ends(likelihood: Interval | Censored, target: np.ndarray) -> np.ndarray:
    """Where the x of each cell lies, (N, D, 2)."""
    if isinstance(likelihood, Censored):
        return target
    ends = np.array([pair for cuts in likelihood.cuts for pair in zip((-np.inf, *cuts), (*cuts, np.inf))])
    return ends[target]


def with_offsets(likelihood: Poisson, target: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Counts, and what their columns and the seen cells of their rows make one expect, in logs: (N, D, 2)."""
    means, n = np.exp(likelihood.log_mean), len(target)
    offset = np.empty(target.shape)
    for i in range(n):
        seen = observed[i]
        size = (target[i, seen].sum() + 0.5) / (means[seen].sum() + 0.5) if likelihood.sizes else 1.0
        offset[i] = np.log(size * means)
    return np.stack([target, offset], axis=2)


def oracle_target(likelihood: Likelihood, target: np.ndarray, observed: np.ndarray) -> np.ndarray:
    if isinstance(likelihood, Interval):
        return interval_ends(likelihood, target)
    return with_offsets(likelihood, target, observed) if isinstance(likelihood, Poisson) else target


def to_oracle(problem: Problem) -> list[oracle.OracleView]:
    """The library's first state as the oracle sees it."""
    out = []
    n = problem.rows.n_rows
    for rows, view, spec in zip(problem.data, problem.posterior.views, problem.spec.views):
        d = spec.n_features
        observed = np.ones((n, d), bool) if rows.observed is None else np.broadcast_to(rows.observed, (n, d))
        kind = KINDS[type(spec.likelihood)]
        tau = view.tau if isinstance(view.tau, Gamma) else Gamma(view.tau.value, np.ones(1))
        gamma = view.gamma if isinstance(view.gamma, Gamma) else Gamma(view.gamma.value, np.ones_like(view.gamma.value))
        noise = "fixed" if spec.tau_prior is None else "feature" if len(tau.rate) > 1 or d == 1 else "view"
        prior = spec.tau_prior or Gamma(np.ones(1), np.ones(1))
        ov = oracle.OracleView(
            kind=kind,
            target=oracle_target(spec.likelihood, rows.target, observed),
            observed=observed.copy(),
            weight=spec.weight,
            noise=noise,
            select=spec.select_features,
            relevance_group=spec.relevance,
            alpha_prior=(float(spec.alpha_prior.shape), float(spec.alpha_prior.rate)),
            gamma_prior=(float(spec.gamma_prior.shape), float(spec.gamma_prior.rate)),
            tau_prior_shape=prior.shape,
            tau_prior_rate=prior.rate,
            w_mean=view.w_mean,
            w_cov=covariances(view.w_cov),
            b_mean=view.b_mean,
            b_var=view.b_var,
            alpha_shape=np.append(view.alpha.shape, np.full(view.n_known, oracle.EFFECT)),
            alpha_rate=np.append(view.alpha.rate, np.ones(view.n_known)),
            gamma_shape=gamma.shape,
            gamma_rate=gamma.rate,
            tau_shape=tau.shape,
            tau_rate=tau.rate,
            x_mean=np.zeros((n, d)),
            x_second=np.zeros((n, d)),
            xi=np.ones((n, d)),
            x_bound=np.zeros(n),
            known=spec.known,
            n_known=view.n_known,
        )
        out.append(oracle.start_x(ov, problem.missing))
    return out


def groups_to_oracle(problem: Problem, naive: list[oracle.OracleView]) -> oracle.Groups:
    """The groups of samples, at the activity of the first state."""
    if problem.spec.n_groups == 0:
        return oracle.no_groups(naive)
    labels, prior, q = problem.data[-1], problem.spec.activity_prior, problem.posterior.activity
    codes = np.where(labels.seen_cells[:, 0], labels.target, -1)
    return oracle.Groups(codes, (float(prior.shape), float(prior.rate)), q.shape, q.rate)


def differences(view: ViewPosterior, ov: oracle.OracleView) -> dict[str, float]:
    """Largest difference of each variable, relative to its size."""
    k = len(view.alpha.rate)
    pairs = {
        "w_mean": (view.w_mean, ov.w_mean),
        "w_cov": (covariances(view.w_cov), ov.w_cov),
        "logdet": (view.w_cov.logdet, np.linalg.slogdet(ov.w_cov)[1]),
        "b_mean": (view.b_mean, ov.b_mean),
        "b_var": (view.b_var, ov.b_var),
        "alpha": (view.alpha.rate, ov.alpha_rate[:k]),
        "alpha_shape": (view.alpha.shape, ov.alpha_shape[:k]),
    }
    if not isinstance(view.gamma, Fixed):
        pairs["gamma"] = (view.gamma.rate, ov.gamma_rate)
        pairs["gamma_shape"] = (view.gamma.shape, ov.gamma_shape)
    if not isinstance(view.tau, Fixed):
        pairs["tau"] = (view.tau.rate, ov.tau_rate)
        pairs["tau_shape"] = (view.tau.shape, ov.tau_shape)
    size = {name: (np.max(np.abs(a - b), initial=0), np.max(np.abs(b), initial=0)) for name, (a, b) in pairs.items()}
    return {name: float(apart / (1 + largest)) for name, (apart, largest) in size.items()}
