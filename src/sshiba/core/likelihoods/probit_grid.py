"""Where the integrals of the multinomial probit are evaluated: shared by their array and compiled forms."""

from __future__ import annotations

import numpy as np

N_NODES = 32
N_NEWTON = 4  # steps to the mode; it only places the nodes
N_EDGE = 2  # steps to the right end
REACH = 7.35  # standard deviations from the mode at which the integrand is cut, exp(−27) below it
FARTHEST = 1e6  # a gap between classes beyond which rounding eats the integrand; larger ones count as this
N_ARGMAX = 41  # nodes over where the largest x can lie
WIDEST = 6  # standard deviations


def nodes(n_nodes: int = N_NODES) -> list[float]:
    return [float(t) for t in np.linspace(-REACH, REACH, n_nodes)]
