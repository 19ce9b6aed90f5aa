"""Which features matter: of views with a kernel also by what they do to its features."""

from __future__ import annotations

import numpy as np

from ..core.explained import feature_relevance, moves_of_target
from .fitted import Fitted


def influence(fit: Fitted, target: str, rows: list[int] | None = None) -> dict[str, np.ndarray]:
    """How far one standard deviation of each feature moves the target's <x>, or some rows of it: view -> (D,).

    A column of a view with a kernel moves the kernel features, too: by another vector at each row. The length of the
    sum is averaged over the landmarks.
    """
    schema, place = fit.schema, fit.schema.place(target)
    twins = [schema.names.index(twin) for name, twin in schema.twin_names.items() if name == target]  # shows the target
    moves = dict(zip(schema.names, moves_of_target(fit.posterior, fit.spec, place, rows, unseen=twins)))
    found = {}
    for name, view in zip(schema.types, fit.spec.views):
        own = moves[name][None]
        if name in schema.twins and name != target:
            twin = schema.twins[name]
            own = own + twin.slopes(twin.landmarks, moves[schema.twin_names[name]])
        found[name] = np.linalg.norm(own, axis=2).mean(axis=0) * np.sqrt(view.variance)
    return found


def relevance(fit: Fitted, name: str) -> np.ndarray:
    """How relevant each feature of a view is, (D,).

    With a kernel, also through its features: the sum over these of their relevance, times the mean square of how much a
    unit of the column moves them at the landmarks.
    """
    place = fit.schema.place(name)
    own = feature_relevance(fit.posterior.views[place], fit.spec.views[place])
    if name not in fit.schema.twins:
        return own
    twin = fit.schema.twins[name]
    place = fit.schema.names.index(fit.schema.twin_names[name])
    roots = np.sqrt(feature_relevance(fit.posterior.views[place], fit.spec.views[place]))
    return own + sum(
        np.mean(twin.slopes(twin.landmarks, some) ** 2, axis=0).sum(axis=1)
        for some in np.array_split(np.diag(roots), max(1, twin.width // 20), axis=1)
    )
