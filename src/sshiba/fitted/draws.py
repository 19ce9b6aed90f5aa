"""Draws from the posterior predictive: new rows, and what is not known of given ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..core.arrays import array_namespace, like, to_numpy, zeros
from ..core.devices import HOST, Device
from ..core.predictive import PredictiveView
from ..core.spec import ModelSpec
from ..core.state import Array, Features, Fixed, Posterior, ViewPosterior
from ..engines import Rows
from .inference import settled


def draw_rows(
    posterior: Posterior,
    spec: ModelSpec,
    n: int,
    rng: np.random.Generator,
    sharpness: Sequence[float] | None = None,
    device: Device = HOST,
    covariates: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> list[np.ndarray]:
    """n rows of each view, in the model's units, made on a device.

    z is drawn from its prior, that of the row's group of samples, (n,), or N(0, I) where it is in none (-1, or all);
    that of covariates is as given, (n, C), or 0, their mean; given z,
    x_d ~ N(z·<w_d> + <b_d>, zᵀΣ_d z + Var b_d + 1/tau_d), independent between features because q(W) q(b) q(tau) is,
    with tau drawn as well. W and b count `sharpness` times, as in predictions.
    """
    z = device.standard_normal((n, posterior.n_components), rng)
    if groups is not None:
        deviations = np.concatenate([posterior.activity.mean**-0.5, np.ones((1, posterior.n_components))])
        z = z * like(deviations[groups], z)
    if posterior.n_known:
        known = np.zeros((n, posterior.n_known)) if covariates is None else covariates
        z = array_namespace(z).concat([z, like(known, z)], axis=1)
    no_cov = zeros((1, z.shape[1], z.shape[1]), z)
    out = []
    for m, c in zip(spec.learned, sharpness or [1.0] * len(spec.learned)):
        view, view_spec = posterior.views[m], spec.views[m]
        size = (n, view_spec.n_features)
        tau = view.tau
        if isinstance(tau, Fixed):
            noise = like(1 / tau.value, z)
        else:
            noise = like(tau.rate, z) / device.standard_gamma(tau.shape, (n, len(tau.rate)), rng)
        var = c**2 * (PredictiveView(view).weight_variance(z, no_cov) + like(view.b_var, z)) + noise
        mean = c * (z @ like(view.w_mean, z).T + like(view.b_mean, z))
        x = mean + array_namespace(z).sqrt(var) * device.standard_normal(size, rng)
        out.append(view_spec.likelihood.draw(to_numpy(x), rng))
    return out


def draw_cells(
    rows: Rows, posterior: Posterior, rngs: Sequence[np.random.Generator], sharpness: Sequence[float]
) -> Iterator[list[np.ndarray]]:
    """Every cell of all views on given rows, at random given what is seen of the rows, in the model's units; once with
    each generator.

    In a draw W, b and tau are drawn once for all rows, z for each, then x and what is observed of it: cells of
    different rows vary together as their parameters do, which pooled analyses of several draws need. q(z) is found
    once, and z of all draws kept, (N, K) each; their cells, of which there are many more, come one draw at a time.
    """
    k, specs = posterior.views[0].w_mean.shape[1], rows.spec.views
    all_z = [rng.standard_normal((rows.n_rows, k)) for rng in rngs]  # first noise, whatever blocks the rows are in
    offsets = np.zeros((len(specs), rows.n_rows, 1))
    for part in settled(rows.infer(posterior)):
        places, mean, root = part.rows, to_numpy(part.z_mean), to_numpy(z_root(part.z_cov))
        for z in all_z:
            z[places] = mean + (root @ z[places][:, :, None])[:, :, 0]
        for own, offset in zip(offsets, part.offsets):
            own[places] = 0.0 if offset is None else to_numpy(offset)
    for z, rng in zip(all_z, rngs):
        each = zip(specs, posterior.views, sharpness, offsets)
        yield [own.likelihood.draw(draw_x(view, c, z, rng) + offset, rng) for own, view, c, offset in each]


def z_root(cov: Array) -> Array:
    """The Cholesky factors of covariances of z."""
    return array_namespace(cov).linalg.cholesky(cov)


def draw_x(view: ViewPosterior, sharpness: float, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x of a view on rows of given z, (N, D); W, b and tau are drawn once, and W and b count `sharpness` times."""
    w = sharpness * (view.w_mean + draw_deviations(view, rng))
    b = sharpness * (view.b_mean + np.sqrt(view.b_var) * rng.standard_normal(view.b_mean.shape))
    tau = view.tau.value if isinstance(view.tau, Fixed) else rng.standard_gamma(view.tau.shape) / view.tau.rate
    x = rng.standard_normal((len(z), len(b)))
    x /= np.sqrt(tau)
    x += z @ w.T + b
    return x


def draw_deviations(view: ViewPosterior, rng: np.random.Generator) -> np.ndarray:
    """W less its mean, (D, K): B_g diag(s_d)^½ u."""
    cov = view.w_cov
    half = np.sqrt(cov.spread) * rng.standard_normal(cov.spread.shape)
    out = np.empty_like(view.w_mean)

    def shared(g: int, d: Features) -> None:
        out[d] = half[d] @ cov.basis[g].T

    def alone(g: Features, d: Features) -> None:
        out[d] = (cov.basis[g] @ half[d][:, :, None])[:, :, 0]

    cov.groups.visit(shared, alone)
    return out
