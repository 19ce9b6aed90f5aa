"""A fit from coded views to a `Fitted`: kernels, the search, restarts, and what follows from the best of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ..core.coded import CodedView
from ..core.devices import Device, device_for, device_or_host
from ..core.machine import memory_limit
from ..core.random import seed_sequence
from ..core.scratch import RowsLostError
from ..core.spec import ModelSpec, Priors
from ..core.start import posterior_like
from ..core.state import Posterior
from ..core.streamed import AnyView, ReadCount, class_codes
from ..data.schema import Schema
from ..engines import Rows, make_rows
from ..engines.protocol import FULL, ROUGH
from ..fitting.budget import FitOptions
from ..fitting.loop import Progress, StartingPoint
from ..fitting.progress_bar import FitBar
from ..fitting.restarts import Restart, Restarts, best_place, ctrl_c, run_restarts
from .candidates import ALL, FEWEST, Candidate, candidates_for, without_doubles, without_search, worth_a_try
from .fitted import Fitted, make_fitted
from .kernel_choice import KernelFits, kernel_views, learn_twins
from .residuals import find_residual_shapes
from .sample_groups import explained_by_group
from .search import Search, affordable, run_search
from .sharpness import find_sharpness
from .short_fits import SHORT, SHORT_TOL, ShortFits

logger = logging.getLogger("sshiba")

MOST_COMPONENTS = 50  # where nothing else is said
MANY_ROWS = 1000  # numbers of so many rows: a short fit to three quarters finds the factors of all
AFTER_SHARE = 0.1  # of the time of a fit: the most that what follows the sweeps may take where time is limited


class Settings(Protocol):
    """What a fit is asked to do: the parameters of `SSHIBA`, which documents them."""

    n_components: int | None
    n_init: int
    start: str
    max_iter: int
    tol: float
    prune_tol: float
    missing: str
    acceleration: str | None
    priors: Priors | None
    keep: str | None
    search: str | Sequence[Candidate] | None
    device: str | None
    engine: str
    random_state: int | None
    n_jobs: int | None
    callback: Callable[[Progress], object] | None
    max_time: float | None
    max_memory: str | float | None
    verbose: int


@dataclass(frozen=True)
class GoingOn:
    """An interrupted fit, its restarts that are done, and where the next one starts; None: anew."""

    earlier: Fitted
    done: tuple[Restart, ...]
    start: StartingPoint | None


@dataclass(frozen=True)
class Saving:
    """What writes the model that was last kept, and after how many minutes it is due again."""

    save: Callable[[], None]
    minutes: float


def most_components(settings: Settings, schema: Schema) -> int:
    return MOST_COMPONENTS + schema.n_kernel_features if settings.n_components is None else settings.n_components


def n_components_of(settings: Settings, schema: Schema, n_rows: int) -> int:
    """As many as asked for, but no more than rows or dimensions of the data."""
    return min(most_components(settings, schema), n_rows, schema.n_dimensions)


def fit_options(settings: Settings, schema: Schema, began: float) -> FitOptions:
    """`tol` is for the whole bound, `max_time` what is left of that of the fit."""
    return FitOptions(
        max_iter=settings.max_iter,
        tol=settings.tol * schema.n_observed,
        prune_tol=settings.prune_tol,
        rotate=settings.acceleration is not None,
        momentum=settings.acceleration == "auto",
        max_time=None if settings.max_time is None else max(settings.max_time - (time.perf_counter() - began), 0.0),
        random_start=settings.start == "random",
    )


def candidates_of(settings: Settings, schema: Schema) -> tuple[Candidate, ...]:
    return candidates_for(settings.search, settings.priors, settings.keep, bool(kernel_views(schema)))


def device_of(settings: Settings, data: Sequence[AnyView]) -> Device:
    """That of this machine or, on a cluster, the one of each worker, which need not be here."""
    return Device(settings.device) if settings.engine == "dask" else device_for(settings.device, data)


def short_fits(
    settings: Settings,
    schema: Schema,
    data: Sequence[AnyView],
    began: float,
    watch: Callable[[Progress], object] | None,
    stop_requests: Sequence[int],
) -> ShortFits:
    """The short fits by which models are compared. They run here, even if the fit itself runs on a cluster."""
    options, tol = fit_options(settings, schema, began), max(settings.tol, SHORT_TOL)
    of_a_row = tol * schema.n_observed / data[0].n_rows
    engine, device = settings.engine, device_of(settings, data)
    if engine == "dask":
        engine, device = "auto", device_or_host(settings.device, data)  # that of the workers need not be here
    where = (engine, device, memory_limit(settings.max_memory))
    return ShortFits(options, of_a_row, settings.missing, *where, watch, stop_requests)


def apart(root: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """A seed beside those of the restarts, the same whatever their number."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 2**31 + number))


def learn_kernels(settings: Settings, schema: Schema, data: Mapping[str, AnyView], began: float) -> Schema:
    """The schema with what was learned of the kernels of its views."""
    kernels = kernel_views(schema)
    if not kernels:
        return schema
    seed = apart(seed_sequence(settings.random_state), 1)
    if settings.search is None:
        return learn_twins(schema, data, seed, None)
    candidates = candidates_of(settings, schema)
    many = next((own for own in candidates if own.keep == ALL), candidates[0])

    def size(schema: Schema, n_rows: int) -> int:
        return n_components_of(settings, schema, n_rows)

    with FitBar(1, SHORT, "kernel") if settings.verbose else nullcontext() as bar, ctrl_c() as stops:
        short = short_fits(settings, schema, [data[name] for name in kernels], began, bar, stops)
        found = learn_twins(schema, data, seed, KernelFits(many, size, short))
    for name, twin in found.twins.items():
        width = f", gamma {twin.params['gamma']:.3g}" if "gamma" in twin.params else ""
        logger.info("view %r: %d landmarks%s, precision %g", name, twin.width, width, twin.precision)
    return found


class Training:
    """One fit of coded views.

    Parameters
    ----------
    settings : what the fit is asked to do
    schema, data, index : the coded views, how they are coded, and the names of their rows
    stored : settings that are kept with the fit
    began : when it began, by `time.perf_counter`
    going_on : an interrupted fit of the same data and model, if it goes on
    """

    def __init__(
        self,
        settings: Settings,
        schema: Schema,
        data: Mapping[str, AnyView],
        index: pd.Index,
        stored: dict[str, Any],
        began: float,
        going_on: GoingOn | None = None,
    ) -> None:
        self.settings, self.schema, self.index, self.stored = settings, schema, index, stored
        self.began = began
        self.earlier = going_on.earlier if going_on is not None else None
        self.done = going_on.done if going_on is not None else ()
        self.n_components = n_components_of(settings, schema, len(index))
        most = most_components(settings, schema)
        if self.n_components < most:
            logger.info("n_components=%d clipped to %d (rows, dimensions of the data)", most, self.n_components)
        self.limit = memory_limit(settings.max_memory)
        self.coded = list(schema.with_twins(data, self.limit).values())
        root = seed_sequence(settings.random_state)
        self.seeds = root.spawn(settings.n_init)[len(self.done) :]
        self.search: Search | None = None
        end: Posterior | None = None
        if self.earlier is not None:
            self.search, self.choice = self.earlier.search, self.earlier.choice
        else:
            self.search, end = self._search(list(data.values()), root) or (None, None)
            self.choice = self.search.choice if self.search is not None else self._without_search()
        self.spec = self.choice.spec(self._model_spec)
        self.rows = self._make_rows(settings.missing)
        logger.info("engine: %s", self.rows.describe())
        self.start = going_on.start if going_on is not None else self._near(end)

    def run(self, keep: Callable[[Fitted], None], saving: Saving | None, reads: ReadCount) -> bool:
        """The restarts that are left, then what follows from the best; was it interrupted?

        `keep` is given the fit at the end, and before each time that it is saved.
        """
        limit = self.settings.max_time
        as_transform = self.settings.missing == "exact" or all(view.is_complete for view in self.coded)

        def fitted(restarts: Restarts) -> Fitted:
            late = limit is not None and time.perf_counter() - self.began > limit
            exact_rows = None if as_transform else self._make_rows("exact")
            given = (self.index, self.stored, self.choice, self.search, self.earlier, exact_rows)
            n_sweeps = restarts.best.n_sweeps if restarts.best is not None else 0
            # A round takes as long as a sweep.
            accuracy = ROUGH._replace(max_rounds=max(int(AFTER_SHARE * n_sweeps), 1)) if late else FULL
            return make_fitted(self.schema, self.rows, restarts, *given, accuracy=accuracy)

        def save(restarts: Restarts) -> None:
            assert saving is not None
            keep(fitted(restarts))
            saving.save()

        with ctrl_c():  # from the last sweep on it is noted: what was found is kept
            pause = 60 * saving.minutes if saving is not None else 0.0
            restarts = self._run_restarts(reads, save if saving is not None else None, pause)
            with ctrl_c(anew=True) as stop_requests:
                fit = fitted(restarts)
                keep(fit)
                if restarts.lost is not None:
                    if saving is not None:
                        saving.save()
                    raise type(restarts.lost)(f"{restarts.lost} The best state so far is kept: resume goes on from it.")
                keep(self._complete(fit, stop_requests))
        return restarts.interrupted

    def _run_restarts(self, reads: ReadCount, save: Callable[[Restarts], None] | None, pause: float) -> Restarts:
        settings = self.settings
        options = replace(
            fit_options(settings, self.schema, self.began), trials=self.choice.keep == FEWEST, pause=pause
        )
        with FitBar(settings.n_init, settings.max_iter, reads=reads) if settings.verbose else nullcontext() as bar:
            watchers = [watcher for watcher in (bar, settings.callback) if watcher is not None]

            def watch(progress: Progress) -> None:
                for watcher in watchers:
                    watcher(progress)

            how = (settings.n_jobs, watch if watchers else None, save, self.start, self.done)
            found = run_restarts(self.rows, self.n_components, options, self.seeds, *how)
            if bar is not None:
                best = found.all[best_place(found.all)]
                bar.finish(best.n_iter, best.elbo, best.n_components)
        return found

    def _complete(self, fit: Fitted, stop_requests: Sequence[int]) -> Fitted:
        """With how sharp class probabilities are, how errors of numbers are spread, and what groups of samples show."""
        limit = self.settings.max_time
        end = np.inf if limit is None else max(limit, (1 + AFTER_SHARE) * (time.perf_counter() - self.began))

        def out_of_time() -> bool:
            return bool(stop_requests) or time.perf_counter() - self.began > end

        def rows_of(data: Sequence[AnyView]) -> Rows:
            return self._make_rows(self.settings.missing, data)

        try:
            sharpness = find_sharpness(self.coded, self.spec, fit.posterior, out_of_time, self.limit)
            fit = replace(fit, sharpness=sharpness)
            numbers = [self.schema.place(name) for name in self.schema.types if name not in self.schema.twins]
            shapes = find_residual_shapes(self.coded, self.spec, fit.posterior, numbers, out_of_time, self.limit)
            fit = replace(fit, residuals=shapes)
            if self.spec.n_groups:
                shares = explained_by_group(self.coded, fit.posterior, rows_of, out_of_time)
                fit = replace(fit, groups=class_codes(self.coded[-1]), r2_by_group=shares)
        except RowsLostError as error:  # the model is there all the same
            logger.warning("the fit is kept, but not all that follows from it: %s", error)
        return fit

    def _make_rows(self, missing: str, data: Sequence[AnyView] | None = None) -> Rows:
        data = self.coded if data is None else data
        device, engine = device_of(self.settings, data), self.settings.engine
        return make_rows(data, self.spec, self.n_components, missing, engine, device=device, max_memory=self.limit)

    def _model_spec(self, priors: Priors) -> ModelSpec:
        return self.schema.model_spec(len(self.index), priors, self.settings.missing)

    def _near(self, end: Posterior | None) -> StartingPoint | None:
        """Where all factors stay, the fit goes on from the end of the one to some of the rows: labels take many sweeps.

        Numbers alone start anew, unless rows are many. It takes no longer, and some of few rows may miss a factor.
        """
        if end is None or not end.n_components or self.choice.keep != ALL or self.settings.start == "random":
            return None
        if len(self.index) < MANY_ROWS and not any(view.likelihood.latent for view in self.spec.views):
            return None
        near = posterior_like(end, self.spec, self.rows.groups, np.random.default_rng(self.seeds[0]))
        return StartingPoint(near, self.n_components, is_near=True)

    # --------------------------------------------------------------------------------------------- the search

    def _models(self) -> tuple[Candidate, ...]:
        """The candidates that make different models of these data."""
        return without_doubles(candidates_of(self.settings, self.schema), self._model_spec)

    def _without_search(self) -> Candidate:
        return without_search(self._models(), self.coded, self._model_spec(Priors()))

    def _search(self, data: Sequence[AnyView], root: np.random.SeedSequence) -> tuple[Search, Posterior | None] | None:
        """Which of the candidates to fit, and the end of its fit to some of the rows; None where there is no choice, or
        none is wanted for such data. `data` are without kernel features, which are learned again from those rows.
        """
        settings, schema = self.settings, self.schema
        candidates, spec, auto = self._models(), self._model_spec(Priors()), settings.search == "auto"
        if auto:
            candidates = worth_a_try(candidates, data, spec)
        selects = any(view.select_features for view in schema.types.values())  # to be read: few factors are easier
        in_memory = [view for view in data if isinstance(view, CodedView)]
        is_sparse = any(view.is_sparse for view in data)  # no cell of such a view could be hidden, and predicted
        if len(candidates) == 1 or (auto and (selects or is_sparse or settings.missing != "exact")):
            return None
        if len(in_memory) < len(data):
            if auto:
                return None
            raise ValueError("search needs all rows in memory, where they do not fit. Set search=None.")
        n_components = self.n_components
        if auto:
            part = affordable(in_memory, spec, n_components, apart(root, 2))
            if part is None:
                return None
            in_memory, n_components = part
        bars = FitBar(len(candidates), SHORT, "candidate") if settings.verbose else nullcontext()
        with bars as bar, ctrl_c() as stops:
            fits = short_fits(settings, schema, data, self.began, bar, stops)
            kernels = [schema.place(name) for name in schema.twins]
            model = (candidates, in_memory, self._model_spec, n_components)
            found = run_search(*model, fits, apart(root, 0), schema.add_twins, kernels)
        if found is None:
            logger.info("search: given up, as half of the time was not enough, or too few rows are left to judge by")
            return None
        search, end = found
        logger.info(search.in_words())
        return search, end if n_components == self.n_components else None  # None: the fit may have more factors
