"""Random numbers: what a random_state may be."""

from __future__ import annotations

from typing import Any

import numpy as np


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """From None, a whole number, or a NumPy generator of either kind, which moves on."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    is_number = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if random_state is not None and not (is_number and random_state >= 0):
        raise ValueError(f"random_state must be None, a whole number or a NumPy generator, not {random_state!r}.")
    return np.random.SeedSequence(random_state)
