"""Are predictions of every type as often right as they say? Data of the model: hidden cells, whole views of new rows.

python -m calibration.predictions --seed 3
"""

from __future__ import annotations

import json

import numpy as np

from sshiba import Binary, Categorical, Ordinal
from torture.runner import Suite

from .cells import count_cells
from .fitting import fit, quiet, show
from .simulated import SIZES, TYPES, TypedData, Views, typed_data

HIDDEN = 0.2  # of the cells of the rows that are fitted
N_SETS = 180


def case(seed: int) -> str:
    """A default fit; counts by type and by what is asked for: cells "hidden", of "new" rows, "beyond" a limit."""
    rng = np.random.default_rng([23, 3, seed])
    kind, n_fit = TYPES[seed % len(TYPES)], SIZES[seed // len(TYPES) % len(SIZES)]
    data = typed_data(rng, kind, n_fit)
    gone = {name: rng.random((n_fit, x.shape[1])) < HIDDEN for name, x in data.views.items()}
    shown = {name: np.where(gone[name], np.nan, x[:n_fit]) for name, x in data.views.items()}
    model = fit(shown, data.types, random_state=seed)

    truth = {name: x[:n_fit] for name, x in data.truth.items()}
    asked = {"hidden": {name: cells & seen_before(data, shown, truth, name) for name, cells in gone.items()}}
    if kind == "limits":
        asked["beyond"] = {"own": shown["own"] > truth["own"]}
    counted = {what: count_cells(model, truth, shown, cells, rng) for what, cells in asked.items()}

    later = {name: x[n_fit:] for name, x in data.truth.items()}
    unseen = {name: x if name == "x" else np.full_like(x, np.nan) for name, x in later.items()}
    new = {name: seen_before(data, shown, later, name) for name in later if name != "x"}
    counted["new"] = count_cells(model, later, unseen, new, rng)
    return json.dumps(
        [
            ["numbers" if name == "x" else kind, what, own]
            for what, views in counted.items()
            for name, own in views.items()
        ]
    )


def seen_before(data: TypedData, shown: Views, truth: Views, name: str) -> np.ndarray:
    """Cells whose label or level is among those of the fit; no model knows another one."""
    if not isinstance(data.types[name], Binary | Categorical | Ordinal):
        return np.ones(truth[name].shape, dtype=bool)
    return np.stack([np.isin(own, fitted) for own, fitted in zip(truth[name].T, shown[name].T)], axis=1)


SUITE = Suite("predictions", case, N_SETS, quiet, seconds=300)

if __name__ == "__main__":
    show(SUITE)
