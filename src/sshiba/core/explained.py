"""What factors explain and which features matter, from the posterior and the statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, polygamma

from .local_step import z_covariance
from .messages import make_messages
from .spec import ModelSpec, ViewSpec
from .state import EFFECT_PRECISION, ColumnGroups, Gamma, Posterior, Stats, ViewPosterior
from .w_moments import feature_gamma, weights_trace

TIE = 1e-6  # share by which weights differ that count as equally large
N_NODES = 5  # of Gauss and Hermite's rule over log alpha, which log B is nearly a parabola of


def variance_explained(posterior: Posterior, stats: Stats, spec: ModelSpec) -> np.ndarray:
    """Share of each view's variance explained by each factor alone, and in a last row by all, (K + 1, M).

    Covariates, where there are any, have a row together, the last but one: (K + 2, M). They are no view here.
    With residuals taken about b: 1 − Σ(x − b − z w)²/Σ(x − b)² = Σ(2 w·q − w² <zz>)/Σ(x − b)², q = Σ(x − b)<z>.
    """
    columns, k = [], posterior.n_components
    for vs, view in ((stats.views[m], posterior.views[m]) for m in spec.learned):
        index, w, b = vs.groups.index, view.w_mean, view.b_mean
        total = np.sum(vs.xx - 2 * b * vs.x_sum + vs.n[index] * b**2)
        cross = vs.xz - b[:, None] * vs.z_sum[index]
        own = np.sum(2 * w * cross - w**2 * np.diagonal(vs.zz, axis1=1, axis2=2)[index], axis=0)
        explained = list(own[:k])
        for some in ([slice(k, None)] if posterior.n_known else []) + [slice(None)]:  # by covariates, by all
            w_some, zz = w[:, some], vs.zz[:, some, some]
            explained.append(np.sum(2 * w_some * cross[:, some]) - np.sum(weights_trace(w_some, zz, vs.groups)))
        columns.append(np.clip(np.array(explained) / max(float(total), np.finfo(float).tiny), 0.0, 1.0))
    return np.stack(columns, axis=1)


def share_beside_covariates(posterior: Posterior, stats: Stats, spec: ModelSpec) -> np.ndarray:
    """Of the variance that the covariates leave in each view, the share that each factor explains, and all, (K + 1, M).

    With r = x − b − c a, a the effects: Σ r² − (r − z w)² = Σ 2 w·(r z) − w² <zz>, and Σ r z = Σ (x − b) z − <z c> a.
    """
    columns, k = [], posterior.n_components
    for vs, view in ((stats.views[m], posterior.views[m]) for m in spec.learned):
        index, w, a, b = vs.groups.index, view.w_mean[:, :k], view.w_mean[:, k:], view.b_mean
        cross = vs.xz - b[:, None] * vs.z_sum[index]
        total = np.sum(vs.xx - 2 * b * vs.x_sum + vs.n[index] * b**2)
        total += np.sum(weights_trace(a, vs.zz[:, k:, k:], vs.groups)) - np.sum(2 * a * cross[:, k:])
        left = cross[:, :k] - (vs.zz[:, :k, k:][index] @ a[:, :, None])[:, :, 0]
        own = np.sum(2 * w * left - w**2 * np.diagonal(vs.zz, axis1=1, axis2=2)[index, :k], axis=0)
        together = np.sum(2 * w * left) - np.sum(weights_trace(w, vs.zz[:, :k, :k], vs.groups))
        columns.append(np.clip(np.append(own, together) / max(float(total), np.finfo(float).tiny), 0.0, 1.0))
    return np.stack(columns, axis=1)


def largest_share(posterior: Posterior, stats: Stats) -> np.ndarray:
    """The largest share of a view's variance, in all rows or a group of samples, that each learned factor explains.

    It is the mean over d of <w_dk>² times that of z_k², (K,).
    """
    k, groups = posterior.n_components, stats.groups
    in_groups = groups.squares(k) / np.maximum(groups.n, 1)[:, None]
    z_square = np.max([np.diagonal(stats.zz)[:k] / stats.n, *in_groups], axis=0)
    return np.max([np.mean(view.w_mean[:, :k] ** 2, axis=0) * z_square for view in posterior.views], axis=0)


def gained_nats(posterior: Posterior, stats: Stats, spec: ModelSpec) -> np.ndarray:
    """About how much each factor adds to the log-likelihood, (K,): ½ Σ_d tau_d <w_dk>² Σ_n z_nk², times the weights.

    At the optimum the squares that a factor takes from the residuals are those of what it says, z w.
    """
    k = posterior.n_components
    z_square = np.diagonal(stats.zz)[:k] / stats.n
    total = np.zeros(k)
    for view, view_stats, view_spec in zip(posterior.views, stats.views, spec.views):
        cells = view_spec.weight * view_stats.n[view_stats.groups.index] * view.tau.mean  # (D,)
        total += 0.5 * (cells @ view.w_mean[:, :k] ** 2) * z_square
    return total


def activity_nats(posterior: Posterior, spec: ModelSpec) -> np.ndarray:
    """The log Bayes factor of each factor in each view: its weights are not 0 there against all are 0, (K, M).

    Given z, the weight w of a feature has the likelihood exp(s w − ½ n w²), with n + gamma alpha = 1/Var w and
    s = <w>/Var w of q(w). So the ratio of the evidences is, for one alpha,

        log B(alpha) = ½ Σ_d log(gamma alpha / (gamma alpha + n)) + s²/(gamma alpha + n).

    Alpha is not known. For any distribution r of u = log alpha, Jensen's inequality gives

        log ∫ p(u) B(u) du ≥ E_r[log B(u) + log p(u)] + H[r];

    here r is normal, with the mean and variance that log alpha has under q. So this is a lower bound. Of weights that
    are 0 the mean of a Bayes factor is 1: one of c or more has at most the probability 1/c (Markov's inequality).
    """
    nodes, shares = np.polynomial.hermite_e.hermegauss(N_NODES)
    shares = shares / shares.sum()
    columns, k = [], posterior.n_components
    for view, view_spec in ((posterior.views[m], spec.views[m]) for m in spec.learned):
        gamma, mean = feature_gamma(view, view_spec)[:, None], view.w_mean[:, :k]
        precision = 1 / np.maximum(view.w_second[:, :k] - mean**2, np.finfo(float).tiny)
        n, s_square = np.maximum(precision - gamma * view.alpha.mean, 0.0), (mean * precision) ** 2
        centre, variance = view.alpha.log_mean, polygamma(1, view.alpha.shape)
        shape, rate = view_spec.alpha_prior.shape, view_spec.alpha_prior.rate
        nats = shape * np.log(rate) - gammaln(shape) + shape * centre - rate * np.exp(centre + variance / 2)
        nats += 0.5 * (1 + np.log(2 * np.pi * variance))
        for node, share in zip(nodes, shares):
            prior = gamma * np.exp(centre + node * np.sqrt(variance))
            nats += share * 0.5 * np.sum(s_square / (prior + n) - np.log1p(n / prior), axis=0)
        columns.append(nats)
    return np.stack(columns, axis=1)


def order_factors(posterior: Posterior, stats: Stats, spec: ModelSpec) -> tuple[Posterior, np.ndarray, np.ndarray]:
    """Factors by the variance they explain, the largest weight of each positive; which ones they were; and
    `variance_explained` of these.

    Where groups of samples leave the scale of z free, its mean square over all rows becomes 1: then the average row is
    as N(0, I) has it, the prior of a row in no group.
    """
    shares, k = variance_explained(posterior, stats, spec), posterior.n_components
    if spec.n_groups:
        posterior = posterior.in_units(np.sqrt(np.diagonal(stats.zz)[:k] / stats.n))
    order = np.argsort(-shares[:k].sum(axis=1), kind="stable")
    weights = np.concatenate([view.w_mean for view in posterior.views])[:, order]
    size = np.abs(weights)
    first = np.argmax(size >= (1 - TIE) * size.max(axis=0, initial=0.0), axis=0)  # two classes have weights of one size
    largest = weights[first, np.arange(len(order))]
    signs = np.where(largest < 0, -1.0, 1.0)
    return posterior.select_factors(order, signs), order, np.concatenate([shares[order], shares[k:]])


def feature_relevance(view: ViewPosterior, spec: ViewSpec) -> np.ndarray:
    """1/E[gamma_d]; without selection the mean over factors of E[alpha_k] E[w_dk²], 0 without factors, (D,)."""
    if isinstance(view.gamma, Gamma):
        return 1 / view.gamma.mean[spec.relevance]
    k = len(view.alpha.rate)
    return np.sum(view.w_second[:, :k] * view.alpha.mean, axis=1) / max(k, 1)


def effect_variances(posterior: Posterior, spec: ModelSpec, products: np.ndarray) -> list[np.ndarray]:
    """Of what covariates do to the features of each view, (D, C); `products` is Σ c cᵀ of the training rows.

    q(w_d, a_d) knows a_d given the factors. These are not known apart from it: z − E c with a_d + Eᵀw_d fits as well,
    and only the prior of z holds E (`rotation.without_covariates`), row k of it with the precision Σ c cᵀ + κ G_kk. So
    Var a_d = Σ_d + Σ_k <w_dk²> Var E_k: for one covariate about (1/tau_d + |w_d|²)/Σ c², as in a regression on it.
    """
    k = posterior.n_components
    of_shear = np.diagonal(shear_covariances(posterior, spec, products), axis1=1, axis2=2)  # (K, C)
    views = (posterior.views[m] for m in spec.learned)
    return [(v.w_second - v.w_mean**2)[:, k:] + v.w_second[:, :k] @ of_shear for v in views]


def shear_covariances(posterior: Posterior, spec: ModelSpec, products: np.ndarray) -> np.ndarray:
    """Cov E_k = (Σ c cᵀ + κ G_kk)⁻¹ of z − E c, a + Eᵀw, (K, C, C)."""
    k = posterior.n_components
    held = np.zeros(k)
    for m in spec.learned:
        view, view_spec = posterior.views[m], spec.views[m]
        held += view_spec.weight * EFFECT_PRECISION * (feature_gamma(view, view_spec) @ view.w_second[:, :k])
    return np.linalg.inv(products + held[:, None, None] * np.eye(len(products)))


def moves_of_target(
    posterior: Posterior, spec: ModelSpec, target: int, rows: list[int] | None = None, unseen: Sequence[int] = ()
) -> list[np.ndarray]:
    """How a unit of each feature moves the target's <x>, or some rows of it: (D, T) of each view.

    It is 0 for the target itself and for `unseen` views.

    With all other views observed <x_t> = <b_t> + <W_t> Σ_z Σ_m w_m Σ_d tau_d <w_d> (x_d − b_d): a unit of feature d
    moves it by the vector C_d = w_m tau_d <W_t> Σ_z <w_d>.
    """
    messages = make_messages(posterior, spec, [ColumnGroups.single(view.n_features) for view in spec.views])
    seen = np.array([float(m != target and m not in unseen) for m in range(len(spec.views))])  # covariates always are
    in_no_group = np.zeros(spec.n_groups)
    cov = z_covariance(np.concatenate([seen, in_no_group])[None], messages).cov[0]
    moves = messages.views[target].w_mean[slice(None) if rows is None else rows] @ cov
    return [on * message.loading @ moves.T for on, message in zip(seen, messages.views)]
