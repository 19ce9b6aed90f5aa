"""What factors explain within each group of samples, from rows that a fit has just seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.coded import CodedView
from ..core.explained import share_beside_covariates
from ..core.state import Posterior
from ..core.streamed import AnyView
from ..engines import Rows


def labels_of(data: Sequence[AnyView]) -> np.ndarray:
    """The number of each row's group, (N,), -1 where it is in none, from the labels that come after the views."""
    labels = data[-1].read(slice(0, data[-1].n_rows))
    return np.where(labels.seen_cells[:, 0], labels.target, -1)


def explained_by_group(
    data: Sequence[AnyView],
    posterior: Posterior,
    make_rows: Callable[[Sequence[AnyView]], Rows],
    out_of_time: Callable[[], bool] = lambda: False,
) -> np.ndarray | None:
    """Share of each view's variance within each group, beside its intercept, by each factor and by all, (S, K + 1, M).

    The rows of one group at a time are gone through once more, with the globals as they are; 0 where it has no rows.
    `out_of_time` is asked before each group; once it says so, nothing is known.
    """
    labels, n_groups = labels_of(data), len(posterior.activity.rate)
    shares = []
    for group in range(n_groups):
        if out_of_time():
            return None
        places = np.flatnonzero(labels == group)
        if len(places) == 0:
            shares.append(np.zeros((posterior.n_components + 1, len(posterior.views) - bool(posterior.n_known))))
            continue
        own = [view.take(places) if isinstance(view, CodedView) else view.at(places) for view in data]
        rows = make_rows(own)
        local, _ = rows.settle(posterior, rows.start(posterior))
        _, stats = rows.step(posterior, local)
        shares.append(share_beside_covariates(posterior, stats, rows.spec))
    return np.stack(shares)
