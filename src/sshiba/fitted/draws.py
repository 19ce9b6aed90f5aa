"""New rows from the posterior predictive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.arrays import array_namespace, like, to_numpy, zeros
from ..core.devices import HOST, Device
from ..core.predictive import PredictiveView
from ..core.spec import ModelSpec
from ..core.state import Fixed, Posterior


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
