"""What factors explain within each group of samples, from rows that a fit has just seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.coded import CodedView
from ..core.explained import share_beside_covariates
from ..core.state import Posterior
from ..core.streamed import AnyView, class_codes
from ..engines import Rows


def explained_by_group(
    data: Sequence[AnyView],
    posterior: Posterior,
    make_rows: Callable[[Sequence[AnyView]], Rows],
    out_of_time: Callable[[], bool] = lambda: False,
) -> np.ndarray | None:
    """Share of each view's variance within each group, beside its intercept, by each factor and by all, (S, K + 1, M).

    The labels of rows come after the views. The rows of one group at a time are gone through once more, with the
    globals as they are; 0 where it has no rows. `out_of_time` is asked before each group; once it says so, nothing is
    known.
    """
    labels, n_groups = class_codes(data[-1]), len(posterior.activity.rate)
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
