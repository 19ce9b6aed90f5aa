"""What factors explain and which features matter, from the posterior and the statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .local_step import z_covariance
from .messages import make_messages
from .spec import ModelSpec, ViewSpec
from .state import ColumnGroups, Gamma, Posterior, Stats, ViewPosterior
from .w_moments import weights_trace


def variance_explained(posterior: Posterior, stats: Stats) -> np.ndarray:
    """Share of each view's variance explained by each factor alone, and in a last row by all, (K + 1, M).

    With residuals taken about b: 1 − Σ(x − b − z w)²/Σ(x − b)² = Σ(2 w·q − w² <zz>)/Σ(x − b)², q = Σ(x − b)<z>.
    """
    columns = []
    for vs, view in zip(stats.views, posterior.views):
        index, w, b = vs.groups.index, view.w_mean, view.b_mean
        total = np.sum(vs.xx - 2 * b * vs.x_sum + vs.n[index] * b**2)
        cross = vs.xz - b[:, None] * vs.z_sum[index]
        own = np.sum(2 * w * cross - w**2 * np.diagonal(vs.zz, axis1=1, axis2=2)[index], axis=0)
        together = np.sum(2 * w * cross) - np.sum(weights_trace(w, vs.zz, vs.groups))
        explained = np.append(own, together)
        columns.append(np.clip(explained / max(float(total), np.finfo(float).tiny), 0.0, 1.0))
    return np.stack(columns, axis=1)


def largest_share(posterior: Posterior, stats: Stats) -> np.ndarray:
    """The largest share of a view's variance that each factor explains: mean over d of <w_dk>² · mean(z_k²), (K,)."""
    z_square = np.diagonal(stats.zz) / stats.n
    return np.max([np.mean(view.w_mean**2, axis=0) * z_square for view in posterior.views], axis=0)


def gained_nats(posterior: Posterior, stats: Stats, spec: ModelSpec) -> np.ndarray:
    """About how much each factor adds to the log-likelihood, (K,): ½ Σ_d tau_d <w_dk>² Σ_n z_nk², times the weights.

    At the optimum the squares that a factor takes from the residuals are those of what it says, z w.
    """
    z_square = np.diagonal(stats.zz) / stats.n
    total = np.zeros(posterior.n_components)
    for view, view_stats, view_spec in zip(posterior.views, stats.views, spec.views):
        cells = view_spec.weight * view_stats.n[view_stats.groups.index] * view.tau.mean  # (D,)
        total += 0.5 * (cells @ view.w_mean**2) * z_square
    return total


def order_factors(posterior: Posterior, stats: Stats) -> tuple[Posterior, np.ndarray]:
    """Factors by the variance they explain, the largest weight of each positive; and `variance_explained` of these."""
    shares = variance_explained(posterior, stats)
    order = np.argsort(-shares[:-1].sum(axis=1), kind="stable")
    weights = np.concatenate([view.w_mean for view in posterior.views])[:, order]
    largest = weights[np.argmax(np.abs(weights), axis=0), np.arange(len(order))]
    signs = np.where(largest < 0, -1.0, 1.0)
    return posterior.select_factors(order, signs), np.concatenate([shares[order], shares[-1:]])


def feature_relevance(view: ViewPosterior, spec: ViewSpec) -> np.ndarray:
    """1/E[gamma_d]; without selection the mean over factors of E[alpha_k] E[w_dk²], 0 without factors, (D,)."""
    if isinstance(view.gamma, Gamma):
        return 1 / view.gamma.mean[spec.relevance]
    return np.sum(view.w_second * view.alpha.mean, axis=1) / max(view.w_second.shape[1], 1)


def moves_of_target(
    posterior: Posterior, spec: ModelSpec, target: int, rows: list[int] | None = None, unseen: Sequence[int] = ()
) -> list[np.ndarray]:
    """How a unit of each feature moves the target's <x>, or some rows of it: (D, T) of each view.

    It is 0 for the target itself and for `unseen` views.

    With all other views observed <x_t> = <b_t> + <W_t> Σ_z Σ_m w_m Σ_d tau_d <w_d> (x_d − b_d): a unit of feature d
    moves it by the vector C_d = w_m tau_d <W_t> Σ_z <w_d>.
    """
    messages = make_messages(posterior, spec, [ColumnGroups.single(view.n_features) for view in spec.views])
    seen = np.array([float(m != target and m not in unseen) for m in range(len(spec.views))])
    cov = z_covariance(seen[None], messages).cov[0]
    moves = messages.views[target].w_mean[slice(None) if rows is None else rows] @ cov
    return [on * message.loading @ moves.T for on, message in zip(seen, messages.views)]
