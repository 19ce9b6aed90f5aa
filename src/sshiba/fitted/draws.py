"""New rows from the posterior predictive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.predictive import PredictiveView
from ..core.spec import ModelSpec
from ..core.state import Fixed, Posterior


def draw_rows(
    posterior: Posterior, spec: ModelSpec, n: int, rng: np.random.Generator, sharpness: Sequence[float] | None = None
) -> list[np.ndarray]:
    """n rows of each view, in the model's units.

    z is drawn from its prior; given z, x_d ~ N(z·<w_d> + <b_d>, zᵀΣ_d z + Var b_d + 1/tau_d), independent between
    features because q(W) q(b) q(tau) is, with tau drawn as well. W and b count `sharpness` times, as in predictions.
    """
    z = rng.standard_normal((n, posterior.n_components))
    no_cov = np.zeros((1, posterior.n_components, posterior.n_components))
    out = []
    for view, view_spec, c in zip(posterior.views, spec.views, sharpness or [1.0] * len(spec.views)):
        size = (n, view_spec.n_features)
        tau = view.tau
        if isinstance(tau, Fixed):
            noise = 1 / tau.value
        else:
            noise = tau.rate / rng.standard_gamma(tau.shape, size=(n, len(tau.rate)))
        var = c**2 * (PredictiveView(view).weight_variance(z, no_cov) + view.b_var) + noise
        x = c * (z @ view.w_mean.T + view.b_mean) + np.sqrt(var) * rng.standard_normal(size)
        out.append(view_spec.likelihood.draw(x, rng))
    return out
