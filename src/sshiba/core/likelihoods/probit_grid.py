"""Where the integrals of the multinomial probit are evaluated: shared by their array and compiled forms."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

N_NEWTON = 4  # steps to the mode; it only places the nodes
N_EDGE = 2  # steps to the right end
REACH = 7.2  # standard deviations from the mode at which the integrand is cut, exp(−26) below it
FARTHEST = 1e6  # a gap between classes beyond which rounding eats the integrand; larger ones count as this
N_ARGMAX = 41  # nodes over where the largest x can lie
WIDEST = 6  # standard deviations
LEAST_PRECISION = 1e-8  # of x given what the others say: less than that is rounding


def n_nodes(n_classes: int) -> int:
    """For log ξ to 1e-10 and its gradient to 1e-9: with more classes the integrand is less like a Gaussian."""
    return 28 if n_classes <= 8 else 30 if n_classes <= 32 else 34


@lru_cache(maxsize=8)
def grid(n: int) -> np.ndarray:
    """Nodes t, softplus(t) − log 2 and σ(t), (3, n)."""
    t = np.linspace(-REACH, REACH, n)
    return np.stack([t, np.log((1 + np.exp(t)) / 2), 1 / (1 + np.exp(-t))])
