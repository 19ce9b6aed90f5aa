"""What does not change during a fit: the priors, and for each view its likelihood, size and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .likelihoods import Gaussian, Likelihood
from .state import Gamma

HELD_WEIGHT = 1e3  # times the cells of a feature: that of a prior which holds its tau at 1, to a thousandth
KNOWN_PRECISION = 1e6  # of a covariate: it is known to a thousandth of its deviation
LEAST_FLOOR = 1e-7  # of a feature's variance: residuals below it are rounding, and tau would follow that


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
    activity : pair
        Precision of a factor in a group of samples, where there are groups.
    noise_floor : float
        Share of a feature's variance below which its noise does not fall; at least LEAST_FLOOR counts.
    """

    alpha: tuple[float, float] = (0.1, 1e-3)
    tau: tuple[float, float] = (1e-3, 1e-3)
    gamma: tuple[float, float] = (2.0, 1.0)
    activity: tuple[float, float] = (0.1, 1e-3)
    noise_floor: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("alpha", "tau", "gamma", "activity"):
            pair = getattr(self, name)
            if len(pair) != 2 or not all(np.isfinite(v) and v > 0 for v in pair):
                raise ValueError(f"Priors.{name} must be a pair (shape, rate) of positive numbers, not {pair!r}.")
            object.__setattr__(self, name, tuple(map(float, pair)))
        if not (np.isfinite(self.noise_floor) and 0 <= self.noise_floor < 1):
            raise ValueError(f"Priors.noise_floor must be in [0, 1), not {self.noise_floor!r}.")


@dataclass(frozen=True)
class ViewSpec:
    """One view as the kernels see it.

    `variance` (D,) is that of each feature in the model's units. `relevance[d]` says which gamma feature d has.
    `tau_prior` has an entry for each noise precision that is learned, (D,) or (1,), and is None where tau is
    fixed to `tau_fixed`. `known`: these are the covariates, whose weights are given: see `known_view`.
    """

    name: str
    likelihood: Likelihood
    n_features: int
    variance: np.ndarray
    relevance: np.ndarray
    alpha_prior: Gamma
    gamma_prior: Gamma
    tau_prior: Gamma | None
    tau_fixed: float = 1.0
    weight: float = 1.0
    select_features: bool = False
    known: bool = False
    derived: bool = False  # are its features made of another view's?

    @property
    def b_precision(self) -> float:
        """Of the prior of b, 1 or in units of the noise where that is fixed (there it sets the scale of x): β (I − s
        11ᵀ), s = `b_in_common`.
        """
        return self.tau_fixed

    @property
    def b_in_common(self) -> float:
        """0, but 1/(D + 1) where b_d = c + a_d, and c and all a_d have the variance 1/β."""
        shared = self.likelihood.level_in_common and self.n_features > 1
        return 1 / (self.n_features + 1) if shared else 0.0


@dataclass(frozen=True)
class ModelSpec:
    """The views in order; `mean_field` is missing="mean-field": q(z) q(x), with holes as variables.

    Of rows in one of `n_groups` groups of samples z_k ~ N(0, 1/a_gk), with the prior `activity_prior` of a; of all
    others, and of all rows where there are no groups, z ~ N(0, I).
    """

    views: tuple[ViewSpec, ...]
    mean_field: bool = False
    n_groups: int = 0
    activity_prior: Gamma = field(default_factory=lambda: Gamma(*map(np.asarray, Priors.activity)))

    @property
    def n_known(self) -> int:
        """How many covariates there are: factors whose z is known, the last ones of all."""
        return sum(view.n_features for view in self.views if view.known)

    @property
    def learned(self) -> tuple[int, ...]:
        """The places of the views that are to be explained: all but the covariates."""
        return tuple(place for place, view in enumerate(self.views) if not view.known)

    @property
    def given(self) -> tuple[int, ...]:
        """The places of the views that hold data of their own, the first ones of all."""
        return tuple(place for place in self.learned if not self.views[place].derived)


def known_view(name: str, n_covariates: int) -> ViewSpec:
    """Covariates c as one more view, the last: c = z of the last factors + N(0, 1/KNOWN_PRECISION), complete.

    To the rows it is a view like any other, and tells them z of these factors; its weights, the identity on these
    factors, and its b = 0 are given. So every way to process rows knows covariates, and q(w_d) holds the weights of
    factors and the effects of covariates together.
    """
    zeros, ones, nothing = np.arange(n_covariates), np.ones(n_covariates), Gamma(np.ones(()), np.ones(()))
    return ViewSpec(name, Gaussian(), n_covariates, ones, zeros, nothing, nothing, None, KNOWN_PRECISION, known=True)


def view_spec(
    name: str,
    likelihood: Likelihood,
    noise: float | str,
    n_observed: np.ndarray,
    variance: np.ndarray,
    priors: Priors,
    *,
    weight: float = 1.0,
    select_features: bool = False,
    groups: Sequence[Any] | None = None,
    held: np.ndarray | None = None,
) -> ViewSpec:
    """Turn a view's options and the size of its data into priors.

    Parameters
    ----------
    noise : "feature", "view" or a number
        tau is learned for each feature or for the view, or is fixed to this.
    n_observed : (D,)
        Cells that count towards the noise of each feature.
    variance : (D,)
        Variance of each feature in the model's units.
    groups : one label per feature, optional
        Features of one label share one gamma.
    held : (D,) bool, optional
        Features whose tau is held at 1 though that of others is learned; that of the view where all are.
    """
    n_features = len(n_observed)
    relevance = np.arange(n_features)
    if groups is not None:
        number: dict[Any, int] = {}  # 1 and "1" are two labels
        relevance = np.array([number.setdefault(label, len(number)) for label in groups])
    tau_prior, tau_fixed = None, 1.0
    shape, rate = priors.tau
    # The floor is conjugate: with rate floor·var·n/2 more, E[tau] ≤ (n/2 + a0)/(floor·var·n/2).
    share = max(priors.noise_floor, LEAST_FLOOR) if likelihood.numbers else 0.0
    floor = share * variance * n_observed / 2
    held = np.zeros(n_features, dtype=bool) if held is None else held
    firm = HELD_WEIGHT * np.asarray(n_observed, dtype=np.float64)
    if noise == "feature":
        tau_prior = Gamma(np.where(held, firm, shape), np.where(held, firm, rate + floor))
    elif noise == "view" and held.all():
        tau_prior = Gamma(np.asarray([firm.sum()]), np.asarray([firm.sum()]))
    elif noise == "view":
        tau_prior = Gamma(np.full(1, shape), np.asarray([rate + floor.sum()]))
    else:
        tau_fixed = float(noise)
    return ViewSpec(
        name,
        likelihood,
        n_features,
        variance,
        relevance,
        Gamma(*map(np.asarray, priors.alpha)),
        Gamma(*map(np.asarray, priors.gamma)),
        tau_prior,
        tau_fixed,
        weight,
        select_features,
    )
