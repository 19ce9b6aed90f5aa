"""What does not change during a fit: the priors, and one ViewModel for each view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .likelihoods import View
from .state import Gamma

if TYPE_CHECKING:
    from .views import Schema


@dataclass(frozen=True)
class Priors:
    """Hyper-parameters; each pair is (shape, rate) of a Gamma distribution.

    Parameters
    ----------
    alpha : pair
        Precision of the weights of a factor in a view. Proper enough that a factor costs little in views where it is
        idle: with (1e-3, 1e-3) a view of a few features takes 6 to 8 nats for an idle factor, with this 2 to 3.
    tau : pair
        Noise precision.
    gamma : pair
        Precision of the weights of a feature, where features are selected.
    noise_floor : float
        Share of a feature's variance below which its noise does not fall.
    """

    alpha: tuple[float, float] = (0.1, 1e-3)
    tau: tuple[float, float] = (1e-3, 1e-3)
    gamma: tuple[float, float] = (2.0, 1.0)
    noise_floor: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("alpha", "tau", "gamma"):
            pair = getattr(self, name)
            if len(pair) != 2 or not all(np.isfinite(v) and v > 0 for v in pair):
                raise ValueError(f"Priors.{name} must be a pair (shape, rate) of positive numbers, not {pair!r}.")
        if not (np.isfinite(self.noise_floor) and 0 <= self.noise_floor < 1):
            raise ValueError(f"Priors.noise_floor must be in [0, 1), not {self.noise_floor!r}.")


@dataclass(frozen=True)
class ViewModel:
    """One view as the kernels see it.

    `variance` (D,) is that of each feature in the model's units. `relevance[d]` says which gamma feature d has.
    `tau_prior` has an entry for each noise precision that is learned, (D,) or (1,), and is None where tau is
    fixed to `tau_fixed`.
    """

    name: str
    view: View
    n_features: int
    variance: np.ndarray
    relevance: np.ndarray
    alpha_prior: Gamma
    gamma_prior: Gamma
    tau_prior: Gamma | None
    tau_fixed: float = 1.0

    @property
    def weight(self) -> float:
        return self.view.weight

    @property
    def b_precision(self) -> float:
        """Of the prior of b: 1, in units of the noise where that is fixed (there it sets the scale of x)."""
        return self.tau_fixed


@dataclass(frozen=True)
class Model:
    """The views in order."""

    views: tuple[ViewModel, ...]


def view_model(name: str, view: View, n_observed: np.ndarray, variance: np.ndarray, priors: Priors) -> ViewModel:
    """Turn a view's options and the size of its data into priors.

    Parameters
    ----------
    n_observed : (D,)
        Cells that count towards the noise of each feature.
    variance : (D,)
        Variance of each feature in the model's units.
    """
    n_features = len(n_observed)
    labels = range(n_features) if view.groups is None else view.groups
    relevance = np.unique(np.asarray([str(label) for label in labels]), return_inverse=True)[1]
    if view.groups is None:
        relevance = np.arange(n_features)
    tau_prior, tau_fixed = None, 1.0
    shape, rate = priors.tau
    # The floor is conjugate: with rate floor·var·n/2 more, E[tau] ≤ (n/2 + a0)/(floor·var·n/2).
    floor = priors.noise_floor * variance * n_observed / 2 if not view.latent else np.zeros(n_features)
    if view.noise_model == "feature":
        tau_prior = Gamma(np.full(n_features, shape), rate + floor)
    elif view.noise_model == "view":
        tau_prior = Gamma(np.full(1, shape), np.asarray([rate + floor.sum()]))
    else:
        tau_fixed = float(view.noise_model)
    return ViewModel(
        name,
        view,
        n_features,
        variance,
        relevance,
        Gamma(*map(np.float64, priors.alpha)),
        Gamma(*map(np.float64, priors.gamma)),
        tau_prior,
        tau_fixed,
    )


def build_model(schema: Schema, n_rows: int, priors: Priors, missing: str) -> Model:
    """The model of data that were read: under missing="mean-field" every cell counts, seen or not."""
    views = []
    for name, view in schema.types.items():
        coding = schema.codings[name]
        counted = coding.observed_per_feature if missing == "exact" else np.full(coding.width, float(n_rows))
        views.append(view_model(name, view, counted, coding.variance, priors))
    return Model(tuple(views))
