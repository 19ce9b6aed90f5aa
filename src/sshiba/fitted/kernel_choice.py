"""How the kernel features of views are made: landmarks at random, width and precision by short fits and hidden cells.

A kernel ridge regression has two numbers that decide how well it predicts: the width of the kernel, and the penalty.
Here they are the width, a multiple of the median distance, and the precision of the twin. A few of each are compared
on some of the rows, from a middle pair on to whatever neighbour predicts the other views better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.coded import CodedView
from ..core.spec import ModelSpec, Priors
from ..core.streamed import AnyView
from ..data.schema import Schema
from ..data.twins import SAMPLE, TwinOptions, can_learn, has_features, has_width, learn_twin
from .candidates import Candidate
from .hidden_cells import LEAST_HIDDEN, TEST_SHARE, Fold, Losses, joined, judge, make_fold, score
from .short_fits import OutOfTimeError, ShortFits

MULTIPLES = (0.5, 1.0, 2.0)  # of the median distance between landmarks
PRECISIONS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)  # of kernel features with a mean variance of 1
FIRST = (1.0, 100.0)  # where the comparison begins
UNCOMPARED = (1.0, 1e3)  # where there is none
COMPARED_ROWS = 1500  # at most
ONE_FOLD_ROWS, FOLDS = 1000, 3  # from so many rows on one fold, else so many
KERNEL_SHARE = 1 / 3  # of the time of the fit
GAIN = 0.002  # nats a cell by which a neighbour must be better


def kernel_views(schema: Schema) -> dict[str, TwinOptions]:
    """The views with a kernel, and how their kernel features are to be made."""
    found = {name: view.twin_options for name, view in schema.types.items()}
    return {name: asked for name, asked in found.items() if asked is not None}


def with_learned_twins(
    schema: Schema, data: Mapping[str, AnyView], some: Mapping[str, CodedView], multiple: float, precision: float
) -> Schema:
    """The schema with the twins of views with a kernel, each learned from some of its rows, in random order."""
    twins = {}
    for name, asked in kernel_views(schema).items():
        own = some[name]
        share = has_features(own).sum() / max(own.observed_rows.sum(), 1)
        n_seen = round(share * data[name].observed_rows.sum())
        twin = learn_twin(*asked, own, n_seen, multiple, precision)
        if twin is None:
            raise ValueError(f"view {name!r}: a kernel needs rows of which most cells are seen. Leave out kernel here.")
        twins[name] = twin
    found = replace(schema, twins=twins)
    taken = [name for name in found.twin_names.values() if name in schema.types]
    if taken:
        raise ValueError(f"a view is called {taken[0]!r}, which is the name of kernel features here: rename it.")
    return found


@dataclass(frozen=True)
class KernelFits:
    """How the fits of the comparison are made."""

    candidate: Candidate
    n_components: Callable[[Schema, int], int]  # of rows
    short: ShortFits


def learn_twins(
    schema: Schema, data: Mapping[str, AnyView], seed: np.random.SeedSequence, fits: KernelFits | None
) -> Schema:
    """The twins, with the width and the precision that predict other views best; None: without a comparison.

    Each is learned from rows that have its view, and compared on rows that have the views of all.
    """
    rng = np.random.default_rng(seed)
    observed = {name: data[name].observed_rows for name in kernel_views(schema)}
    order = rng.permutation(len(next(iter(observed.values()))))
    some = {name: data[name].take(order[own[order]][:SAMPLE]).to_host() for name, own in observed.items()}
    common = order[np.all(list(observed.values()), axis=0)[order]][:COMPARED_ROWS]
    multiple, precision = UNCOMPARED
    if fits is not None and len(common):
        compared = {name: view.take(common).to_host() for name, view in data.items()}
        multiple, precision = best_pair(schema, compared, rng, fits)
    return with_learned_twins(schema, data, some, multiple, precision)


def best_pair(
    schema: Schema, rows: dict[str, CodedView], rng: np.random.Generator, fits: KernelFits
) -> tuple[float, float]:
    """Of a width and a precision: from the middle on to the best neighbour, as long as one is better."""
    kernels = kernel_views(schema)
    widths = MULTIPLES if any(has_width(asked.kernel, asked.params) for asked in kernels.values()) else (1.0,)
    folds = kernel_folds(schema, rows, rng)
    if folds is None:
        return UNCOMPARED
    fits = replace(fits, short=fits.short.within(KERNEL_SHARE))
    found: dict[tuple[int, int], float] = {}

    def value(pair: tuple[int, int]) -> float:
        if pair not in found:
            found[pair] = mean_score(schema, folds, fits, widths[pair[0]], PRECISIONS[pair[1]])
        return found[pair]

    here = (widths.index(FIRST[0]), PRECISIONS.index(FIRST[1]))
    try:
        while True:
            steps = [(here[0] + a, here[1] + b) for a, b in ((0, 1), (0, -1), (1, 0), (-1, 0))]
            near = [(i, j) for i, j in steps if 0 <= i < len(widths) and 0 <= j < len(PRECISIONS)]
            best = max(near, key=value)
            if value(best) <= value(here) + GAIN:
                break
            here = best
    except OutOfTimeError:
        here = max(found, key=lambda pair: found[pair], default=here)
    return widths[here[0]], PRECISIONS[here[1]]


def kernel_folds(schema: Schema, rows: dict[str, CodedView], rng: np.random.Generator) -> list[Fold] | None:
    """Rows that are fitted and rows that judge; None where there is too little to learn from, or to judge by."""
    data, n_rows = list(rows.values()), next(iter(rows.values())).n_rows
    places = [schema.place(name) for name in kernel_views(schema)]
    spec = schema.model_spec(n_rows, Candidate().priors, "exact")
    n_test = int(TEST_SHARE * n_rows)
    n_folds = 1 if n_rows >= ONE_FOLD_ROWS else FOLDS
    parts = [np.arange(i * n_test, (i + 1) * n_test) for i in range(n_folds)]  # the rows are in random order
    folds = [make_fold(data, part, spec, rng, places) for part in parts]
    enough = any(sum(fold.n_asked(i) for fold in folds) >= LEAST_HIDDEN for i in range(len(data)))
    seen = all(view.observed_rows.any() for fold in folds for view in fold.training)
    learned = all(can_learn(fold.training[place]) for fold in folds for place in places)
    return folds if enough and seen and learned else None


def mean_score(schema: Schema, folds: Sequence[Fold], fits: KernelFits, multiple: float, precision: float) -> float:
    """Nats a hidden cell, the mean over views: larger is better."""
    losses: Losses = {}
    for fold in folds:
        n_rows, training = fold.training[0].n_rows, dict(zip(schema.types, fold.training))
        own = with_learned_twins(schema, training, training, multiple, precision)

        def make_spec(priors: Priors, own: Schema = own, n_rows: int = n_rows) -> ModelSpec:
            return own.model_spec(n_rows, priors, fits.short.missing)

        spec = fits.candidate.spec(make_spec)
        end = fits.short.fit(own.add_twins(fold.training), spec, fits.n_components(own, n_rows), seed=0)
        losses = joined(losses, judge(end, spec, fold, fits.short, own.add_twins))
    spec = schema.model_spec(1, Candidate().priors, "exact")
    return float(np.mean([score(values, spec.views[i]) for i, values in losses.items()]))
