"""The model's updates written naively: an independent witness for the library's fast kernels.

Everything here is a plain loop over rows n and features d with small K x K inverses, derived anew from
the paper ("Table 2" etc. are its tables) with what the library adds to it: a noise precision per feature,
a relevance shared by a group of features, missing cells that are left out, and a weight on all terms of a
view in the bound.

Covariates are a view of their own, whose weights and b are known, on factors that come last; their weights in the
other views have a fixed precision (`n_known`, `EFFECT`).

The model: z_n ~ N(0, I); w_dk ~ N(0, 1 / (gamma_g(d) alpha_k)); b_d ~ N(0, 1); alpha, gamma, tau ~ Gamma;
x_nd ~ N(z_n w_d + b_d, 1 / tau_d). Gammas are (shape, rate). `y` is always the mean of x given the rest,
<z_n><w_d> + <b_d>.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, expit, gammaln, log_expit, log_ndtr, logsumexp, roots_legendre
from scipy.stats import truncnorm

LOG_2PI = np.log(2 * np.pi)
NODES, NODE_WEIGHTS = roots_legendre(160)
EFFECT = 0.01  # precision of what a covariate does to a feature
BY_CELL = ("logit", "probit", "interval", "count")


@dataclass
class OracleView:
    """One view: data, options, and every q that belongs to it (N rows, D features or classes, K factors)."""

    kind: str  # "real", "logit", "probit", "interval", "count" or "categorical"
    # real, binary: (N, D), holes 0; interval: (N, D, 2), its ends, or x twice; count: (N, D, 2), with its offset;
    # categorical: (N,)
    target: np.ndarray
    observed: np.ndarray  # (N, D) bool; categorical: D classes, each row all True or all False
    weight: float
    noise: str  # "feature", "view" or "fixed"
    select: bool
    relevance_group: np.ndarray  # (D,) features with the same number share one gamma
    alpha_prior: tuple[float, float]  # (shape, rate), as all Gammas here
    gamma_prior: tuple[float, float]
    tau_prior_shape: np.ndarray  # (D,) for "feature", (1,) for "view", unused when fixed
    tau_prior_rate: np.ndarray

    w_mean: np.ndarray  # (D, K)
    w_cov: np.ndarray  # (D, K, K)
    b_mean: np.ndarray  # (D,)
    b_var: np.ndarray  # (D,)
    alpha_shape: np.ndarray  # (K,)
    alpha_rate: np.ndarray  # (K,)
    gamma_shape: np.ndarray  # (number of relevance groups,), unused without selection
    gamma_rate: np.ndarray
    tau_shape: np.ndarray  # as the prior; fixed: tau = shape / rate exactly, (1,) or (D,)
    tau_rate: np.ndarray
    x_mean: np.ndarray  # (N, D) E[x]; a cell that takes no part holds 0
    x_second: np.ndarray  # (N, D) E[x^2]; a cell that takes no part holds 0
    xi: np.ndarray  # (N, D) logit only
    x_bound: np.ndarray  # (N,) E[log p(t | x)] + H[q(x)] of the row
    known: bool = False  # are these the covariates themselves?
    n_known: int = 0  # factors, the last ones, that are covariates: shape / rate of their alpha is exact


@dataclass
class Z:
    """q(z_n | x_n) = N(mean_n + sum_d gain_nd (x_nd - <x_nd>), cov_n); without gains q(z_n) = N(mean_n, cov_n).

    So Cov(x_nd, z_n) = Var(x_nd) gain_nd, and Var z_n is cov_n + sum_d Var(x_nd) gain_nd gain_nd^T.
    """

    mean: np.ndarray  # (N, K)
    cov: np.ndarray  # (N, K, K): given x
    spread: np.ndarray  # (N, K, K): what x adds to it
    with_x: list[np.ndarray]  # (N, D, K) for each view: Cov(x_nd, z_n)


@dataclass
class Groups:
    """The groups of samples, each with a precision a_gk of its own of every factor: z_nk ~ N(0, 1 / a_gk)."""

    labels: np.ndarray  # (N,) the group of each row; -1: none, z_n ~ N(0, I)
    prior: tuple[float, float]
    shape: np.ndarray  # (number of groups, K)
    rate: np.ndarray

    def precision(self, n: int, n_factors: int) -> np.ndarray:
        """E[a] of a row, (K,); 1 of covariates, which come last."""
        label, out = self.labels[n], np.ones(n_factors)
        if label >= 0:
            out[: self.shape.shape[1]] = self.shape[label] / self.rate[label]
        return out

    def log_precision(self, n: int) -> float:
        """The sum of E[log a] of a row."""
        label = self.labels[n]
        return float(np.sum(digamma(self.shape[label]) - np.log(self.rate[label]))) if label >= 0 else 0.0


def no_groups(views: list[OracleView]) -> Groups:
    none = np.empty((0, views[0].w_mean.shape[1] - views[0].n_known))
    return Groups(np.full(len(views[0].observed), -1), (1.0, 1.0), none, none)


def update_groups(groups: Groups, z: Z) -> Groups:
    """Half a Gaussian for each row of a group: shape = a0 + n_g / 2, rate = b0 + sum <z_nk^2> / 2."""
    shape, rate = np.full(groups.shape.shape, float(groups.prior[0])), np.full(groups.rate.shape, groups.prior[1])
    for n, label in enumerate(groups.labels):
        if label >= 0:
            shape[label] += 0.5
            rate[label] += 0.5 * (z.mean[n] ** 2 + np.diag(z.cov[n] + z.spread[n]))[: rate.shape[1]]
    return replace(groups, shape=shape, rate=rate)


# --------------------------------------------------------------------------------------------------
# Expectations


def tau_mean(view: OracleView) -> np.ndarray:
    """E[tau_d], (D,)."""
    return np.broadcast_to(view.tau_shape / view.tau_rate, view.observed.shape[1:])


def tau_log(view: OracleView) -> np.ndarray:
    """E[log tau_d], (D,); for a fixed tau its logarithm."""
    if view.noise == "fixed":
        return np.log(tau_mean(view))
    return np.broadcast_to(digamma(view.tau_shape) - np.log(view.tau_rate), view.observed.shape[1:])


def gamma_mean(view: OracleView) -> np.ndarray:
    """E[gamma of feature d], (D,); 1 without selection."""
    if not view.select:
        return np.ones(view.observed.shape[1])
    return (view.gamma_shape / view.gamma_rate)[view.relevance_group]


def gamma_log(view: OracleView) -> np.ndarray:
    """E[log gamma of feature d], (D,); 0 without selection."""
    if not view.select:
        return np.zeros(view.observed.shape[1])
    return (digamma(view.gamma_shape) - np.log(view.gamma_rate))[view.relevance_group]


def alpha_log(view: OracleView) -> np.ndarray:
    """E[log alpha_k], (K,)."""
    learned = np.arange(len(view.alpha_shape)) < len(view.alpha_shape) - view.n_known
    return np.where(learned, digamma(view.alpha_shape), np.log(view.alpha_shape)) - np.log(view.alpha_rate)


def second_moment(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """E[a a^T] of a Gaussian vector, (K, K)."""
    return np.outer(mean, mean) + cov


def expected_mean(view: OracleView, z: Z) -> np.ndarray:
    """y_nd = <z_n><w_d> + <b_d>, (N, D)."""
    return z.mean @ view.w_mean.T + view.b_mean


def expected_square(view: OracleView, z: Z, n: int, d: int, with_x: np.ndarray) -> float:
    """E (x - z w - b)^2 of one cell = Var x + (<x> - y)^2 + Var(z w) + Var b - 2 Cov(x, z) <w>.

    Var(z w) = tr(<z z^T><w w^T>) - (<z><w>)^2 = w' Sz w + z' Sw z + tr(Sz Sw).
    """
    z_mean, z_cov, w_mean, w_cov = z.mean[n], z.cov[n] + z.spread[n], view.w_mean[d], view.w_cov[d]
    var_zw = w_mean @ z_cov @ w_mean + z_mean @ w_cov @ z_mean + np.trace(z_cov @ w_cov)
    var_x = view.x_second[n, d] - view.x_mean[n, d] ** 2
    square = var_x + (view.x_mean[n, d] - z_mean @ w_mean - view.b_mean[d]) ** 2 + var_zw + view.b_var[d]
    return square - 2 * with_x[n, d] @ w_mean


def counted_cells(view: OracleView, missing: str) -> np.ndarray:
    """Which cells have an x at all, (N, D): the observed ones, or every one when holes are free variables."""
    return np.ones_like(view.observed) if missing == "mean-field" else view.observed


# --------------------------------------------------------------------------------------------------
# q(z) and q(x)


def update_z(views: list[OracleView], missing: str, groups: Groups) -> Z:
    """Table 2, row z, over the cells that exist, each view with its weight omega_m:

    Sigma_n^-1 = I, or diag(a) of the row's group, + sum_m omega_m sum_d tau_d <w_d w_d^T>,
    mean_n = Sigma_n sum_m omega_m sum_d tau_d (<x_nd> - <b_d>) <w_d>.
    """
    n_rows, n_factors = len(views[0].observed), views[0].w_mean.shape[1]
    mean, cov = np.empty((n_rows, n_factors)), np.empty((n_rows, n_factors, n_factors))
    for n in range(n_rows):
        precision, linear = np.diag(groups.precision(n, n_factors)), np.zeros(n_factors)
        for view in views:
            tau = tau_mean(view)
            for d in np.flatnonzero(counted_cells(view, missing)[n]):
                precision += view.weight * tau[d] * second_moment(view.w_mean[d], view.w_cov[d])
                linear += view.weight * tau[d] * (view.x_mean[n, d] - view.b_mean[d]) * view.w_mean[d]
        cov[n] = np.linalg.inv(precision)
        mean[n] = np.linalg.solve(precision, linear)
    nothing = [np.zeros((*view.observed.shape, n_factors)) for view in views]
    return Z(mean, cov, np.zeros_like(cov), nothing)


def update_x_then_z(views: list[OracleView], missing: str, groups: Groups) -> tuple[list[OracleView], Z]:
    """q(z | x) prod q(x): each cell, and each row of classes, given all other cells of its row; then z.

    With z integrated out, a row has log p = -x' P x / 2 + ..., P_de = omega tau_d [d = e] - l_d' Sigma l_e with l_d
    = omega tau_d <w_d>, and the gradient at the present means is omega tau_d (y_d - <x_d>). A view of weight omega
    > 1 is c = omega copies of its cells (else c = 1), so that one of them has the precision tau_d - l_d' Sigma l_d
    / (omega c) alone. Cells with at least half of tau_d go first, all at once; then the others, one at a time; then
    the views of classes. Both take their turns by omega tau_d <w_d>'<w_d>, that of classes added up, the largest first.
    """
    z = update_z(views, missing, groups)
    old, new, waiting = views, list(views), []
    covs: dict[tuple[int, int], np.ndarray] = {}  # Cov(x_n) of each view and row
    for i, view in enumerate(old):
        if view.kind == "real":
            continue
        new[i] = replace(view, x_mean=view.x_mean.copy(), x_second=np.zeros_like(view.x_second), xi=view.xi.copy())
        new[i].x_bound = np.zeros(len(view.observed))
        for n in range(len(view.observed)):
            covs[i, n] = np.zeros((view.observed.shape[1],) * 2)
        for n, d in np.argwhere(view.observed) if view.kind in BY_CELL else ():
            if own_precision(view, z, n)[d, d] >= 0.5 * tau_mean(view)[d]:
                update_cell(new[i], n, d, expected_mean(view, z)[n, d], own_precision(view, z, n)[d, d], covs[i, n])
            else:
                waiting.append((i, n, d))
    strength = [view.weight * tau_mean(view) * np.sum(view.w_mean**2, axis=1) for view in old]
    for i, n, d in sorted(waiting, key=lambda cell: -strength[cell[0]][cell[2]]):
        y = expected_mean(new[i], update_z(new, missing, groups))
        update_cell(new[i], n, d, y[n, d], own_precision(old[i], z, n)[d, d], covs[i, n])
    for i in sorted(range(len(new)), key=lambda i: -strength[i].sum()):
        view = new[i]
        if view.kind == "categorical":
            y = expected_mean(view, update_z(new, missing, groups))
            for n in np.flatnonzero(view.observed.all(axis=1)):
                update_classes(view, n, y[n], own_precision(old[i], z, n), covs[i, n])
    z = update_z(new, missing, groups)
    for (i, n), cov in covs.items():
        view, seen = new[i], new[i].observed[n]
        view.x_second[n] = np.where(seen, view.x_mean[n] ** 2 + np.diag(cov), 0.0)
        gain = view.weight * (tau_mean(view)[:, None] * view.w_mean) @ z.cov[n]
        z.with_x[i][n] = cov @ gain / max(1.0, view.weight)
        z.spread[n] += gain.T @ z.with_x[i][n]
    return new, z


def own_precision(view: OracleView, z: Z, n: int) -> np.ndarray:
    """Of one copy of the cells of a row, (D, D)."""
    tau = tau_mean(view)
    loading = view.weight * tau[:, None] * view.w_mean
    return np.diag(tau) - loading @ z.cov[n] @ loading.T / (view.weight * max(1.0, view.weight))


def update_cell(view: OracleView, n: int, d: int, y: float, own: float, cov: np.ndarray) -> None:
    """q(x) of one cell whose neighbours say x ~ N(<x> + tau (y - <x>) / own, 1 / own)."""
    predictor = view.x_mean[n, d] + tau_mean(view)[d] * (y - view.x_mean[n, d]) / own
    cell = cell_x(view.kind, view.target[n, d], predictor, own, view.xi[n, d])
    view.x_mean[n, d], cov[d, d], view.xi[n, d] = cell.mean, cell.var, cell.xi
    view.x_bound[n] += cell.bound


def update_classes(view: OracleView, n: int, y: np.ndarray, P: np.ndarray, cov: np.ndarray) -> None:
    """q(x) of a row of classes whose neighbours say log p = -x' P x / 2 + ..., with gradient y - <x> at <x>.

    In coordinates x = U v + c 1, U an orthonormal basis of what is orthogonal to 1: c given v is normal, with precision
    1'P1 and a mean that moves by -1'P U / 1'P1; the quadratic form of v alone is the Schur complement. Its matrix is
    replaced by p I around the present mean of v; then U v is N(m, I/p) in the cone of the label.
    """
    C, one = len(y), np.ones(len(y))
    J = np.eye(C) - 1 / C
    m, p, p_c, slope, x = class_form(view.x_mean[n], y, P)
    mean, _, _ = categorical_x(int(view.target[n]), np.sqrt(p) * m)
    log_xi, spread = cone_covariance(int(view.target[n]), np.sqrt(p) * m)
    inner, V = J @ mean / np.sqrt(p), J @ spread @ J / p
    view.x_mean[n] = inner + one * (x.mean() + slope @ (inner - J @ x))
    lift = J + np.outer(one, slope)
    cov[:] = lift @ V @ lift.T + np.outer(one, one) / p_c
    inside = log_xi + 0.5 * (C - 1) * np.log(2 * np.pi / p) + 0.5 * p * (np.trace(V) + np.sum((inner - m) ** 2))
    view.x_bound[n] = inside + 0.5 * (np.log(2 * np.pi / p_c) + 1) + 0.5 * np.log(C)  # dx = sqrt(C) dv dc


def class_form(x: np.ndarray, y: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, float, float, np.ndarray, np.ndarray]:
    """m and p of q(U v); the precision of c, how it moves with U v; and the present means with c at its best."""
    C, one = len(y), np.ones(len(y))
    U = np.linalg.svd(np.eye(C) - 1 / C)[0][:, : C - 1]
    p_c = one @ P @ one
    schur = U.T @ P @ U - np.outer(U.T @ P @ one, one @ P @ U) / p_c
    gradient = y - x
    shift = one @ gradient / p_c  # after it the gradient along 1 is zero
    x, gradient = x + shift, gradient - shift * P @ one
    p = max(np.trace(schur) / (C - 1), min(1.0, np.abs(U @ schur @ U.T).sum(axis=1).max()) / 2)
    return U @ (U.T @ x + U.T @ gradient / p), p, p_c, -U @ U.T @ P @ one / p_c, x


def cone_covariance(label: int, y: np.ndarray) -> tuple[float, np.ndarray]:
    """log xi of N(y, I) and the cone of a label, and the covariance of x in it, I + d^2 log xi / dy^2.

    With M_j = E rho_j and Q_jk = E rho_j rho_k, rho_j = (phi / Phi)(u + delta_j): d^2 log xi / d delta_j d delta_k is
    Q_jk - M_j M_k, and for j = k it is -E[(u + delta_j) rho_j] - M_j^2. That u-derivatives integrate to zero gives
    2 E[u rho_j] = sum_k Q_jk - delta_j M_j.
    """
    delta = y[label] - y
    others = [j for j in range(len(y)) if j != label]
    log_xi = log_gauss_integral([0.0], delta[others])

    def expected(*chosen: int) -> float:
        rest = [k for k in others if k not in chosen]
        return np.exp(log_gauss_integral([0.0, *delta[list(chosen)]], delta[rest]) - log_xi)

    M = {j: expected(j) for j in others}
    Q = {(j, k): expected(j, k) for j in others for k in others if j < k}
    Q |= {(k, j): value for (j, k), value in Q.items()}
    hessian = np.zeros((len(y), len(y)))
    for j in others:
        for k in others:
            if j != k:
                hessian[j, k] = Q[j, k] - M[j] * M[k]
        along = 0.5 * (sum(Q[j, k] for k in others if k != j) - delta[j] * M[j])
        hessian[j, j] = -(along + delta[j] * M[j]) - M[j] ** 2
    hessian[label], hessian[:, label] = -hessian.sum(axis=0), -hessian.sum(axis=1)
    hessian[label, label] = hessian[np.ix_(others, others)].sum()
    return log_xi, np.eye(len(y)) + hessian


def update_x(view: OracleView, y: np.ndarray, missing: str) -> OracleView:
    """q(x) of every cell, given y, and its part of the bound. An observed real x is the datum itself.

    A hole takes no part, or (mean-field, Appendix C) has a free q(x) = N(y, 1/tau) and its entropy.
    """
    tau = tau_mean(view)
    mean, second, xi = np.zeros_like(y), np.zeros_like(y), np.array(view.xi, dtype=float)
    bound = np.zeros(len(y))
    for n in range(len(y)):
        if view.kind == "categorical" and view.observed[n].all():
            mean[n], second[n], bound[n] = categorical_x(int(view.target[n]), y[n])
            continue
        for d in range(y.shape[1]):
            if view.observed[n, d] and view.kind == "real":
                mean[n, d], second[n, d] = view.target[n, d], view.target[n, d] ** 2
            elif view.observed[n, d]:
                cell = cell_x(view.kind, view.target[n, d], y[n, d], tau[d], xi[n, d])
                mean[n, d], second[n, d], xi[n, d] = cell.mean, cell.mean**2 + cell.var, cell.xi
                bound[n] += cell.bound
            elif missing == "mean-field":
                mean[n, d], second[n, d] = y[n, d], y[n, d] ** 2 + 1 / tau[d]
                bound[n] += 0.5 * (LOG_2PI + 1 - np.log(tau[d]))
    return replace(view, x_mean=mean, x_second=second, xi=xi, x_bound=bound)


def start_x(view: OracleView, missing: str) -> OracleView:
    """The initial q(x): the update at xi = 1 and a y that tells the target, 2.5 (2t - 1) or 2.5 ([d = t] - 1/D); of an
    interval the mean of a standard normal cut to it; of a count log (t + 0.1) less log (expected + 0.1).
    """
    n_rows, width = view.observed.shape
    y = np.zeros((n_rows, width))
    for n in range(n_rows):
        for d in range(width):
            if view.observed[n, d] and view.kind == "interval":
                lo, hi = view.target[n, d]
                y[n, d] = truncnorm(lo, hi).mean() if lo < hi else lo
            elif view.observed[n, d] and view.kind == "count":
                t, offset = view.target[n, d]
                y[n, d] = np.log(t + 0.1) - np.log(np.exp(offset) + 0.1)
            elif view.observed[n, d] and view.kind in BY_CELL:
                y[n, d] = 2.5 * (2 * view.target[n, d] - 1)
            elif view.observed[n, d] and view.kind == "categorical":
                y[n, d] = 2.5 * (float(view.target[n] == d) - 1 / width)
    return update_x(replace(view, xi=np.ones_like(y)), y, missing)


class Cell(NamedTuple):
    """q(x) of one cell, its part of the bound, and the best xi for it (logit only)."""

    mean: float
    var: float
    bound: float
    xi: float


def cell_x(kind: str, t: Any, y: float, tau: float, xi: float) -> Cell:
    if kind == "probit":
        return cut_x((0.0, np.inf) if t else (-np.inf, 0.0), y, tau)
    if kind == "interval":
        return cut_x(t, y, tau) if t[0] < t[1] else Cell(t[0], 0.0, 0.0, 1.0)
    if kind == "count":
        return count_x(*t, y, tau)
    mean, var, xi = binary_x(t, y, tau, xi)
    return Cell(mean, var, binary_bound(t, mean, var, xi), xi)


def cut_x(ends: tuple[float, float], y: float, tau: float) -> Cell:
    """N(y, 1/tau) cut to an interval, where log p(t | x) = 0; the bound is its entropy, -E log q."""
    scale = 1 / np.sqrt(tau)
    low, high = ((end - y) / scale for end in ends)
    mean, var = map(float, truncnorm.stats(low, high, loc=y, scale=scale, moments="mv"))
    low, high = (-high, -low) if low > 0 else (low, high)
    log_inside = log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))
    return Cell(mean, var, log_inside + 0.5 * np.log(2 * np.pi / tau) + 0.5 * tau * (var + (mean - y) ** 2), 1.0)


def count_x(t: float, offset: float, y: float, tau: float) -> Cell:
    """The normal q(x) = N(m, v) with the highest E log Poisson(t | e^(x + offset)) + H[q] + E log N(x | y, 1/tau).

    Given v it is best where its derivative by m, t - e^(m + offset + v/2) - tau (m - y), is 0, and given m where that
    by v is, 1/v - tau - e^(m + offset + v/2): the rate e^(...) is sought between where it is too low and too high.
    """

    def excess(log_rate: float) -> float:
        rate = np.exp(log_rate)
        return log_rate - (y + (t - rate) / tau) - offset - 0.5 / (tau + rate)

    log_rate = brentq(excess, -300.0, 60.0, xtol=1e-14, rtol=1e-15, maxiter=500)
    rate = np.exp(log_rate)
    var = 1 / (tau + rate)
    mean = log_rate - offset - var / 2  # y + (t - rate) / tau, but for rounding
    return Cell(mean, var, t * (mean + offset) - rate - gammaln(t + 1) + 0.5 * (LOG_2PI + 1 + np.log(var)), 1.0)


def jaakkola_lambda(xi: float) -> float:
    """lambda(xi) = (sigma(xi) - 1/2) / (2 xi), defined below the paper's bound on p(t | x); 1/8 at 0."""
    return (expit(xi) - 0.5) / (2 * xi) if xi else 0.125


def binary_x(t: float, y: float, tau: float, xi: float) -> tuple[float, float, float]:
    """Table 3, with tau on b too: log q(x) = (t - 1/2) x - lambda(xi) x^2 - tau (x - y)^2 / 2 + const.

    Returns the mean and variance of q(x) and then the best xi for them, sqrt(E[x^2]) (Appendix B).
    """
    var = 1 / (tau + 2 * jaakkola_lambda(xi))
    mean = var * (t - 0.5 + tau * y)
    return mean, var, np.sqrt(mean**2 + var)


def binary_bound(t: float, mean: float, var: float, xi: float) -> float:
    """E[log h(x, xi)] + H[q(x)], with Jaakkola and Jordan's

    log h = log sigma(xi) + x t - (x + xi) / 2 - lambda(xi) (x^2 - xi^2)  <=  log p(t | x).
    """
    log_h = log_expit(xi) + mean * t - (mean + xi) / 2 - jaakkola_lambda(xi) * (mean**2 + var - xi**2)
    return log_h + 0.5 * (LOG_2PI + 1 + np.log(var))


def categorical_x(label: int, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Table 4: q(x) = N(x | y, I) / xi on the cone where x_label is the largest; returns E[x], E[x^2], H[q].

    With delta_j = y_label - y_j: xi = E_u prod_j Phi(u + delta_j), and for j != label
    <x_j> = y_j - E_u[phi(u + delta_j) prod_{k != label, j} Phi(u + delta_k)] / xi = y_j + d log xi / d y_j.
    log xi does not change when all y move together, so sum <x> = sum y, which gives <x_label>.

    Second moment: the cone is scale invariant, so the field x q(x) does not cross its faces and the
    divergence theorem gives 0 = int div(x q) = E[D - x.(x - y)], i.e. E|x|^2 = D + <x>.y. Only this sum over
    classes is ever needed (tau = 1); its parts 1 + <x_d> y_d are not the moments of the single classes.

    Entropy: H = log xi + D/2 log 2 pi + E|x - y|^2 / 2. Inside the cone log p(t | x) = 0.
    """
    delta = y[label] - y
    others = [j for j in range(len(y)) if j != label]
    log_xi = log_gauss_integral([0.0], delta[others])
    mean = np.array(y, dtype=float)
    for j in others:
        rest = [k for k in others if k != j]
        mean[j] -= np.exp(log_gauss_integral([0.0, delta[j]], delta[rest]) - log_xi)
    mean[label] += np.sum(y[others] - mean[others])
    second = 1 + mean * y
    expected_distance = np.sum(second) - 2 * mean @ y + y @ y
    return mean, second, log_xi + 0.5 * len(y) * LOG_2PI + 0.5 * expected_distance


def log_gauss_integral(densities: list[float], distributions: np.ndarray) -> float:
    """log int prod_a phi(u + a) prod_c Phi(u + c) du, over the shifts a in `densities`, c in `distributions`.

    The integrand is log-concave with curvature >= 1, so 9 units either side of its mode hold all but e^-40.
    """
    a, c = np.asarray(densities), np.asarray(distributions)

    def log_integrand(u: np.ndarray) -> np.ndarray:
        u = u[:, None]
        return np.sum(-0.5 * (u + a) ** 2 - 0.5 * LOG_2PI, axis=1) + np.sum(log_ndtr(u + c), axis=1)

    def slope(u: float) -> float:
        hazard = np.exp(-0.5 * (u + c) ** 2 - 0.5 * LOG_2PI - log_ndtr(u + c))  # phi / Phi
        return float(np.sum(-(u + a)) + np.sum(hazard))

    mode = decreasing_root(slope)
    return float(logsumexp(log_integrand(mode + 9 * NODES), b=9 * NODE_WEIGHTS))


def decreasing_root(function: Callable[[float], float]) -> float:
    """Where a decreasing function crosses zero."""
    reach = 1.0
    while function(-reach) < 0 or function(reach) > 0:
        reach *= 2
    return brentq(function, -reach, reach)


# --------------------------------------------------------------------------------------------------
# The globals of one view. Its weight multiplies all of its terms alike, so it falls out of each of these.


def update_w(view: OracleView, z: Z, counted: np.ndarray, with_x: np.ndarray) -> OracleView:
    """Table 2, row W, over the cells that exist: Sigma_d^-1 = gamma_d diag(alpha) + tau_d sum_n <z_n z_n^T>,

    mean_d = Sigma_d tau_d sum_n ((<x_nd> - <b_d>) <z_n> + Cov(x_nd, z_n)).
    """
    tau, gamma, alpha = tau_mean(view), gamma_mean(view), view.alpha_shape / view.alpha_rate
    mean, cov = np.empty_like(view.w_mean), np.empty_like(view.w_cov)
    for d in range(len(mean)):
        precision, linear = gamma[d] * np.diag(alpha), np.zeros(len(alpha))
        for n in np.flatnonzero(counted[:, d]):
            precision = precision + tau[d] * second_moment(z.mean[n], z.cov[n] + z.spread[n])
            linear = linear + tau[d] * ((view.x_mean[n, d] - view.b_mean[d]) * z.mean[n] + with_x[n, d])
        cov[d] = np.linalg.inv(precision)
        mean[d] = np.linalg.solve(precision, linear)
    return replace(view, w_mean=mean, w_cov=cov)


def update_b(view: OracleView, z: Z, counted: np.ndarray) -> OracleView:
    """Table 2, row b, with a prior of any covariance: of all b the precision P is that of the prior and n_d tau_d, the
    means solve P b = tau_d sum_n (<x_nd> - <z_n><w_d>), and 1 / Var b_d = P_dd.
    """
    tau = tau_mean(view)
    precision, linear = np.linalg.inv(b_prior_covariance(view)), np.zeros_like(view.b_mean)
    for d in range(len(linear)):
        for n in np.flatnonzero(counted[:, d]):
            precision[d, d] += tau[d]
            linear[d] += tau[d] * (view.x_mean[n, d] - z.mean[n] @ view.w_mean[d])
    return replace(view, b_mean=np.linalg.solve(precision, linear), b_var=1 / np.diagonal(precision))


def update_gamma(view: OracleView) -> OracleView:
    """Table 2, row gamma, summed over the features of a group:

    shape = a0 + K |group| / 2, rate = b0 + sum_{d in group} sum_k alpha_k <w_dk^2> / 2.
    """
    alpha = view.alpha_shape / view.alpha_rate
    shape = np.full(len(view.gamma_shape), float(view.gamma_prior[0]))
    rate = np.full(len(view.gamma_rate), float(view.gamma_prior[1]))
    for d, group in enumerate(view.relevance_group):
        for k in range(len(alpha)):
            shape[group] += 0.5
            rate[group] += 0.5 * alpha[k] * (view.w_mean[d, k] ** 2 + view.w_cov[d, k, k])
    return replace(view, gamma_shape=shape, gamma_rate=rate)


def update_alpha(view: OracleView) -> OracleView:
    """Table 2, row alpha: shape = a0 + D / 2, rate = b0 + sum_d gamma_d <w_dk^2> / 2."""
    gamma = gamma_mean(view)
    shape = np.full(len(view.alpha_shape), float(view.alpha_prior[0]))
    rate = np.full(len(view.alpha_rate), float(view.alpha_prior[1]))
    for k in range(len(shape)):
        for d in range(len(gamma)):
            shape[k] += 0.5
            rate[k] += 0.5 * gamma[d] * (view.w_mean[d, k] ** 2 + view.w_cov[d, k, k])
    for k in range(len(shape) - view.n_known, len(shape)):
        shape[k], rate[k] = EFFECT, 1.0
    return replace(view, alpha_shape=shape, alpha_rate=rate)


def update_tau(view: OracleView, z: Z, counted: np.ndarray, with_x: np.ndarray) -> OracleView:
    """Table 2, row tau: shape = a0 + cells / 2, rate = b0 + sum E(x - z w - b)^2 / 2 over existing cells."""
    shape, rate = np.array(view.tau_prior_shape, dtype=float), np.array(view.tau_prior_rate, dtype=float)
    for n, d in np.argwhere(counted):
        which = d if view.noise == "feature" else 0
        shape[which] += 0.5
        rate[which] += 0.5 * expected_square(view, z, n, d, with_x)
    return replace(view, tau_shape=shape, tau_rate=rate)


def sweep(views: list[OracleView], missing: str, groups: Groups) -> tuple[list[OracleView], Groups, Z]:
    """One round of coordinate ascent: z and every q(x), then view by view W, b, gamma, alpha, tau, and the groups.

    Where holes are variables of their own the posterior is q(z) q(x), else q(z | x) prod q(x).
    """
    if missing == "mean-field" or all(view.kind == "real" for view in views):
        z = update_z(views, missing, groups)
        views = [update_x(view, expected_mean(view, z), missing) for view in views]
    else:
        views, z = update_x_then_z(views, missing, groups)
    swept = []
    for view, with_x in zip(views, z.with_x):
        if view.known:
            swept.append(view)
            continue
        counted = counted_cells(view, missing)
        view = update_w(view, z, counted, with_x)
        view = update_b(view, z, counted)
        view = update_gamma(view) if view.select else view
        view = update_alpha(view)
        view = update_tau(view, z, counted, with_x) if view.noise != "fixed" else view
        swept.append(view)
    return swept, update_groups(groups, z), z


# --------------------------------------------------------------------------------------------------
# The bound


def b_prior_covariance(view: OracleView) -> np.ndarray:
    """Of p(b) = N(0, S / beta): a fixed noise sets the unit of x, and so that of b. Yes/no features of a probit have a
    level in common, b_d = c + a_d.
    """
    beta, n_features = float(tau_mean(view)[0]) if view.noise == "fixed" else 1.0, len(view.b_mean)
    level = 1.0 if view.kind == "probit" and n_features > 1 else 0.0
    return (np.eye(n_features) + level) / beta


def b_term(view: OracleView) -> float:
    """E log N(b | 0, S / beta) + H[q(b)]."""
    cov = b_prior_covariance(view)
    squares = np.outer(view.b_mean, view.b_mean) + np.diag(view.b_var)
    log_prior = -0.5 * np.linalg.slogdet(2 * np.pi * cov)[1] - 0.5 * np.trace(np.linalg.solve(cov, squares))
    return float(log_prior + np.sum(0.5 * np.log(2 * np.pi * np.e * view.b_var)))


def elbo(views: list[OracleView], groups: Groups, z: Z) -> dict[str, float]:
    """E_q[log p - log q], term by term, every constant included; the terms of a view times its weight."""
    terms = {"z": z_term(z, groups)}
    if len(groups.shape):
        terms["activity"] = gamma_term(groups.prior, groups.shape, groups.rate)
    for i, view in enumerate(views):
        if view.known:
            terms[f"x{i}"] = x_term(view, z, z.with_x[i]) - log_density(view)
            continue
        view_terms = {
            "x": x_term(view, z, z.with_x[i]),
            "local": float(np.sum(view.x_bound)),
            "w": w_term(view),
            "b": b_term(view),
            "alpha": alpha_term(view),
            "gamma": gamma_term(view.gamma_prior, view.gamma_shape, view.gamma_rate) if view.select else 0.0,
            "tau": tau_term(view),
        }
        terms |= {f"{name}{i}": view.weight * value for name, value in view_terms.items()}
    return terms


def alpha_term(view: OracleView) -> float:
    learned = len(view.alpha_shape) - view.n_known
    return gamma_term(view.alpha_prior, view.alpha_shape[:learned], view.alpha_rate[:learned])


def log_density(view: OracleView) -> float:
    """log p of the covariates: each is z plus noise."""
    variance = 1 + 1 / tau_mean(view)
    return float(np.sum(-0.5 * (LOG_2PI + np.log(variance) + view.target**2 / variance)))


def z_term(z: Z, groups: Groups) -> float:
    """E log N(z | 0, 1/a) + H[q(z | x)] = sum_n (K + log|cov| + sum_k <log a_k> - <a_k> (Var z_k + mean_k^2)) / 2."""
    total = 0.0
    for n, (mean, cov, spread) in enumerate(zip(z.mean, z.cov, z.spread)):
        total += 0.5 * (len(mean) + np.linalg.slogdet(cov)[1] + groups.log_precision(n))
        total -= 0.5 * groups.precision(n, len(mean)) @ (np.diag(cov + spread) + mean**2)
    return float(total)


def x_term(view: OracleView, z: Z, with_x: np.ndarray) -> float:
    """E log N(x | z w + b, 1/tau) over the observed cells and the holes that have a q(x): E[x^2] > 0."""
    tau, log_tau, total = tau_mean(view), tau_log(view), 0.0
    for n, d in np.argwhere(view.observed | (view.x_second > 0)):
        total += 0.5 * (log_tau[d] - LOG_2PI - tau[d] * expected_square(view, z, n, d, with_x))
    return float(total)


def w_term(view: OracleView) -> float:
    """E log N(w_dk | 0, 1 / (gamma_d alpha_k)) plus the entropies (K log 2 pi e + log|Sigma_d|) / 2."""
    gamma, log_gamma = gamma_mean(view), gamma_log(view)
    alpha, log_alpha = view.alpha_shape / view.alpha_rate, alpha_log(view)
    total = 0.0
    for d in range(len(gamma)):
        for k in range(len(alpha)):
            w_second = view.w_mean[d, k] ** 2 + view.w_cov[d, k, k]
            total += 0.5 * (log_gamma[d] + log_alpha[k] - LOG_2PI - gamma[d] * alpha[k] * w_second)
        total += 0.5 * (len(alpha) * (LOG_2PI + 1) + np.linalg.slogdet(view.w_cov[d])[1])
    return float(total)


def tau_term(view: OracleView) -> float:
    """E log p(tau) + H[q(tau)]; nothing for a fixed tau."""
    if view.noise == "fixed":
        return 0.0
    return gamma_term((view.tau_prior_shape, view.tau_prior_rate), view.tau_shape, view.tau_rate)


def gamma_term(prior: tuple[float | np.ndarray, float | np.ndarray], shape: np.ndarray, rate: np.ndarray) -> float:
    """E log Gamma(v | a0, b0) + H[Gamma(a, b)], summed, with <v> = a / b and <log v> = psi(a) - log b.

    log Gamma(v | a0, b0) = a0 log b0 - log Gamma(a0) + (a0 - 1) log v - b0 v;
    H = a - log b + log Gamma(a) + (1 - a) psi(a).
    """
    prior_shape, prior_rate = prior
    log_mean = digamma(shape) - np.log(rate)
    log_prior = prior_shape * np.log(prior_rate) - gammaln(prior_shape)
    log_prior = log_prior + (prior_shape - 1) * log_mean - prior_rate * shape / rate
    entropy = shape - np.log(rate) + gammaln(shape) + (1 - shape) * digamma(shape)
    return float(np.sum(log_prior + entropy))
