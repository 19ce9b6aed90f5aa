"""SSHIBA, the scikit-learn shell around the model."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED

from .core.coded import CodedView
from .core.devices import Device, device_for
from .core.machine import memory_limit
from .core.random import seed_sequence
from .core.spec import ModelSpec, Priors
from .core.start import posterior_like
from .core.state import Posterior
from .core.streamed import AnyView, ReadCount
from .data.advice import Problem, Remedy
from .data.covariates import plain_covariates
from .data.reading import read_training, warn_empty_rows
from .data.schema import Schema
from .data.types import View
from .engines import Rows, make_rows
from .engines.protocol import Z_TOL
from .files.atomic import check_place
from .files.model_file import ModelFileError, load_model, save_model
from .files.mofa import write_mofa
from .files.stored_labels import same_labels
from .fitted.annotating import write_to
from .fitted.answers import Answers
from .fitted.describe import attributes, views_html
from .fitted.fitted import Fitted, fitted_of, make_fitted
from .fitted.intervals import Asked
from .fitted.kernel_choice import ShortFits, kernel_views, learn_twins
from .fitted.residuals import find_residual_shapes
from .fitted.sample_groups import explained_by_group, labels_of
from .fitted.search import (
    ALL,
    FEWEST,
    MOST_OPERATIONS,
    SHORT,
    Candidate,
    Search,
    candidates_for,
    n_operations,
    run_search,
    without_doubles,
    without_search,
    worth_a_try,
)
from .fitted.sharpness import find_sharpness
from .fitting.budget import FitOptions
from .fitting.loop import Progress, StartingPoint
from .fitting.progress_bar import FitBar, ReadingBar
from .fitting.restarts import Restart, Restarts, best_place, ctrl_c, run_restarts
from .report import Report, write_report
from .settings import check_settings

logger = logging.getLogger("sshiba")

MOST_COMPONENTS = 50  # where nothing else is said
DATA = {"views": UNUSED}  # the data of a method, not metadata that a pipeline hands on
ROUGH = 1e-2  # change of a factor at which the inference of the training rows ends, once `max_time` is over
SHARPNESS_SHARE = 0.1  # of the time of a fit: the most that finding the sharpness may take where time is limited


class SSHIBA(BaseEstimator):
    """Bayesian factor analysis of several views of the same samples, of different types, with holes.

    Parameters
    ----------
    n_components : int, optional
        The most factors; how many are kept, `n_components_`, is found by the fit. None: 50, and one more for each
        feature of a kernel (`Real(kernel=...)`).
    views : mapping, optional
        View name -> `Real()`, `Binary()`, `Categorical()`, `Ordinal()` or `Count()`. Views that are not named are
        inferred, and logged. For one DataFrame also -> a column or a list of them, or (columns, type).
    n_init : int
        Starts; the one with the highest log evidence is kept, or with the highest bound where that is not known.
    start : "principal" or "random"
        The first start: along the principal components, or random as all others are.
    max_iter, tol : int, float
        Stop after this many sweeps, or when the bound rises by less than `tol` nats per observed cell and sweep.
    prune_tol : float
        A factor goes when it explains less than this share of every view.
    missing : "exact" or "mean-field"
        Leave holes out (default), or treat each as a variable of its own, as the paper does.
    acceleration : "auto", "rotation" or None
        Rotate the latent space between sweeps, which finds the right number of factors, and far sooner; "auto" also
        starts each sweep a little ahead of where the last one ended (momentum). The bound still never falls.
    priors : Priors, optional
        Hyper-parameters; None leaves them to `search`.
    keep : "fewest", "all" or None
        Which factors stay: as few as the evidence asks for, which are easier to read, or all that explain anything,
        which often predict better. None leaves it to `search`.
    search : "auto", None or list of Candidate
        Choose `priors` and `keep`, where they are None, and whether labels count half, by short fits without a quarter
        of the rows and how well they predict these. The fewest factors are kept where they are nearly as good. "auto"
        does so where a sweep takes less than about 50 milliseconds, no view selects features and none is sparse; None
        takes the fewest.
        A list is compared whatever the data. `search_` tells what was found.
    covariates : list of names, or mapping of name to "real" or "categorical", optional
        Known inputs such as a batch or an age, which have effects in every view and so take no factor: columns of the
        one DataFrame, or entries beside the views (all their columns), or columns of the entry "covariates". Their
        effects are N(0, 100) in standard deviations; labels are dummies, against the first of them. New rows need them
        again. `covariate_effects_` says what they do.
    sample_groups : name, optional
        A column of labels of the one DataFrame, or an entry of labels beside the views, such as a cohort: factors are
        shared, but each has an activity of its own in every group, `activity_`, and each group has its intercepts
        (a covariate of that name). New rows of an unseen group, or without one, are taken as the average row.
    device : None, "cuda", "cuda:1", ... or "cpu"
        Where rows are processed: None with NumPy, or where the first tensor among the views is; else with PyTorch on
        one of its devices (extra `torch`). Fitted attributes are NumPy's. Restarts run one after another there. Where a
        loaded model finds no such device it answers with NumPy.
    engine : "auto", "memory", "gram" or "dask"
        How rows are processed: directly, or in Gram space where real views are complete; "auto" takes the cheaper way.
        "dask": in blocks on the workers of a Dask cluster whose `distributed.Client` is in use (extra `dask`); `device`
        is then one of each worker, and `max_memory` counts only here.
    dtype : "float64" or "float32"
        Precision in which real views are stored; sums are always double.
    random_state : int or NumPy generator, optional
    n_jobs : int, optional
        Restarts at a time; changes nothing but the time.
    callback : callable, optional
        Called with a `Progress` after each sweep; where restarts run in parallel, after each restart.
    max_time : float, optional
        Seconds for the whole fit. Where they end it, `factors_` are inferred roughly; `transform` is as exact as ever.
    max_memory : str or float, optional
        What the fit may take of memory, beyond what the process has already: "4GB", "500MiB" or 4e9; by default 60 %
        of what the machine has free. Views that do not fit are read again in each sweep, and q(x) of labels goes to a
        scratch file.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    elbo_ : float
        The bound at the end of the fit, in nats.
    log_evidence_ : float or None
        The bound corrected for most of what it loses: an estimate, to compare models of the same data by. None with
        labels, covariates or groups of samples, and under missing="mean-field".

    All others are in the documentation, docs/api.md.
    """

    fitted_: Fitted
    elbo_: float
    log_evidence_: float | None
    n_components_: int
    n_iter_: int
    converged_: bool
    views_: dict[str, View]

    __metadata_request__fit = DATA
    __metadata_request__transform = DATA
    __metadata_request__predict = DATA
    __metadata_request__predict_proba = DATA
    __metadata_request__score = DATA

    def __init__(
        self,
        n_components: int | None = None,
        views: Mapping[str, View] | None = None,
        n_init: int = 1,
        start: str = "principal",
        max_iter: int = 2000,
        tol: float = 1e-7,
        prune_tol: float = 1e-6,
        missing: str = "exact",
        acceleration: str | None = "auto",
        priors: Priors | None = None,
        keep: str | None = None,
        search: str | Sequence[Candidate] | None = "auto",
        covariates: Any = None,
        sample_groups: Any = None,
        device: str | None = None,
        engine: str = "auto",
        dtype: str = "float64",
        random_state: int | None = None,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
        max_time: float | None = None,
        max_memory: str | float | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.views = views
        self.n_init = n_init
        self.start = start
        self.max_iter = max_iter
        self.tol = tol
        self.prune_tol = prune_tol
        self.missing = missing
        self.acceleration = acceleration
        self.priors = priors
        self.keep = keep
        self.search = search
        self.covariates = covariates
        self.sample_groups = sample_groups
        self.device = device
        self.engine = engine
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.max_time = max_time
        self.max_memory = max_memory
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = tags.input_tags.dict = True
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    # ------------------------------------------------------------------------------------------------ fit

    def fit(
        self,
        views: Any,
        y: None = None,
        *,
        checkpoint: str | Path | None = None,
        checkpoint_minutes: float = 10.0,
    ) -> SSHIBA:
        """Fit the model.

        Parameters
        ----------
        views : dict of arrays, DataFrames or Series; or one DataFrame, array, MuData or AnnData
            Frames of pandas (aligned by index), polars or Arrow (row by row). NaN, None, NA and null are missing. One
            DataFrame is split by type: numbers, 0 / 1, and each column of labels a view of its own; or as `views` says,
            {"blood": ["hb", "wbc"], "sex": Categorical()}. One array alone is the view "X". An array may be a tensor of
            PyTorch or CuPy, or a sparse matrix of SciPy: real numbers, 0 where nothing is stored, and never made dense.
            Rows that are not in memory are read when they are needed: a memory-mapped array, one of HDF5 or Zarr, a
            Dask array or DataFrame, the path of a .npy, .parquet, .zarr or .h5 file or of a folder of Parquet files, or
            a function that yields chunks of rows each time that it is called.
        y : ignored
        checkpoint : path, optional
            Save the best state so far in this file every `checkpoint_minutes`; restarts then run one after another.

        Ctrl-C ends the fit and keeps the best state so far; `resume` goes on from it. Restarts that run at a time
        (`n_jobs`) keep those that are done; before the first of them is, and in the search, there is nothing to keep.

        Returns
        -------
        self
        """
        check_settings(self)
        began = time.perf_counter()
        schema, data, index = self._read(views)
        warn_empty_rows({name: data[name] for name in schema.types}, index)
        schema = self._with_twins(schema, data, began)
        self._run(schema, data, index, began, None, (), None, checkpoint, checkpoint_minutes)
        most = self._most_components(schema)
        if self.n_components_ == most and self.fitted_.choice.keep == FEWEST:
            what = f"all {most} factors are in use, and more may fit better"
            logger.warning(Problem(what, (Remedy.MORE_FACTORS,)))
        return self

    def resume(self, views: Any, *, checkpoint: str | Path | None = None, checkpoint_minutes: float = 10.0) -> SSHIBA:
        """Go on with a fit that was interrupted, on the same data and with the same model.

        What Ctrl-C ended, or a file that `checkpoint` wrote, goes on with the restart that was under way if it is the
        best so far (else it begins anew), then with those that were left, to where an undisturbed fit would have ended.
        Of a fit that `max_iter` or `max_time` ended (raise these first: `set_params(max_iter=...)`) the best restart
        goes on, and the others stay as they are.
        """
        fit = fitted_of(self)
        check_settings(self)
        self._check_same_settings(fit)
        began = time.perf_counter()
        schema, data, index = self._read_again(fit, views)
        stopped = [restart.interrupted for restart in fit.restarts]
        best = fit.best_restart
        if not any(stopped) and not fit.converged:  # at the limit of sweeps or time: the best goes on
            stopped[best] = True
        done = tuple(restart for restart, goes_on in zip(fit.restarts, stopped) if not goes_on)
        start = None
        if stopped[best]:
            n_components = self._n_components(schema, len(index))
            start = StartingPoint(fit.posterior, n_components, tuple(fit.elbo_path.tolist()), fit.n_iter)
        if len(done) < self.n_init:
            self._run(schema, data, index, began, start, done, fit, checkpoint, checkpoint_minutes)
        return self

    def _settings(self) -> dict[str, Any]:
        """What is kept with a fit; a random generator is not, for it moves on."""
        settings = {name: getattr(self, name) for name in STORED_SETTINGS}
        settings["covariates"] = plain_covariates(self.covariates) or None
        if not isinstance(self.random_state, int | np.integer):
            settings["random_state"] = None
        return settings

    def _check_same_settings(self, fit: Fitted) -> None:
        """A fit goes on with the model that it began with."""
        now = self._settings()
        for name in SAME_MODEL:
            if now[name] != fit.settings[name]:
                raise ValueError(_changed(name, fit.settings[name], now[name]))

    def _read(self, views: Any) -> tuple[Schema, dict[str, AnyView], pd.Index]:
        """The training rows; a progress bar where they are read from elsewhere."""
        self._reads = ReadCount()
        with ReadingBar(self._reads) if self.verbose else nullcontext():
            beside = (self.covariates, self.sample_groups)
            return read_training(views, self.views, self.dtype, self.max_memory, self._reads, *beside)

    def _read_again(self, fit: Fitted, views: Any) -> tuple[Schema, dict[str, AnyView], pd.Index]:
        """The data of an interrupted fit, and no others, as the same views."""
        other = "these are not the data of the interrupted fit: "
        try:
            schema, data, index = self._read(views)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{other}{error}") from error
        for name, view in schema.types.items():
            if name in fit.schema.types and not view.is_like(fit.schema.types[name]):
                raise ValueError(_changed(f"view {name!r}", fit.schema.types[name], view))
        if not schema.codes_alike(fit.schema):
            raise ValueError(f"{other}their columns, holes or values differ.")
        if not same_labels(index, fit.index):
            raise ValueError(f"{other}their rows differ.")
        return replace(schema, inferred=fit.schema.inferred, twins=fit.schema.twins), data, index

    def _n_components(self, schema: Schema, n_rows: int) -> int:
        """As many as asked for, but no more than rows or dimensions of the data."""
        most, n_components = self._most_components(schema), self._n_components_of(schema, n_rows)
        if n_components < most:
            logger.info("n_components=%d clipped to %d (rows, dimensions of the data)", most, n_components)
        return n_components

    def _n_components_of(self, schema: Schema, n_rows: int) -> int:
        return min(self._most_components(schema), n_rows, schema.n_dimensions)

    def _most_components(self, schema: Schema) -> int:
        return MOST_COMPONENTS + schema.n_kernel_features if self.n_components is None else self.n_components

    def _with_twins(self, schema: Schema, data: Mapping[str, AnyView], began: float) -> Schema:
        """The schema with what was learned of the kernels of its views."""
        kernels = kernel_views(schema)
        if not kernels:
            return schema
        root = seed_sequence(self.random_state)
        seed = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 2**31 + 1))
        if self.search is None:
            return learn_twins(schema, data, seed, None)
        candidates = self._candidates(schema)
        many = next((own for own in candidates if own.keep == ALL), candidates[0])
        options = self._fit_options(schema, began)
        here = "auto" if self.engine == "dask" else self.engine
        with FitBar(1, SHORT, "kernel") if self.verbose else nullcontext() as bar, ctrl_c() as stops:
            device = self._device_for([data[name] for name in kernels])
            model = (self._n_components_of, options, self.missing, here, device, bar, stops)
            found = learn_twins(schema, data, seed, ShortFits(many, *model))
        for name, twin in found.twins.items():
            width = f", gamma {twin.params['gamma']:.3g}" if "gamma" in twin.params else ""
            logger.info("view %r: %d landmarks%s, precision %g", name, twin.width, width, twin.precision)
        return found

    def _run(
        self,
        schema: Schema,
        data: dict[str, AnyView],
        index: pd.Index,
        began: float,
        start: StartingPoint | None,
        before: Sequence[Restart],
        earlier: Fitted | None,
        checkpoint: str | Path | None,
        minutes: float,
    ) -> None:
        """The restarts that are not among `before`, the first of them from `start`; then what follows from the best."""
        if checkpoint is not None:
            check_place(checkpoint)
        n_components = self._n_components(schema, len(index))
        limit = memory_limit(self.max_memory)
        coded = list(schema.with_twins(data, limit).values())
        root = seed_sequence(self.random_state)
        seeds = root.spawn(self.n_init)[len(before) :]
        if earlier is None:
            search, end = self._search(schema, list(data.values()), n_components, root, began) or (None, None)
            choice = search.choice if search is not None else self._without_search(schema, coded, len(index))
        else:
            search, choice = earlier.search, earlier.choice
        spec = choice.spec(lambda priors: schema.model_spec(len(index), priors, self.missing))

        def rows_of(missing: str, data: Sequence[AnyView] = coded) -> Rows:
            device = self._device_for(data)
            return make_rows(data, spec, n_components, missing, self.engine, device=device, max_memory=limit)

        rows = rows_of(self.missing)
        logger.info("engine: %s", rows.describe())
        if earlier is None and end is not None and end.n_components and choice.keep == ALL and self.start != "random":
            # How many factors there are is decided: the fit goes on from that to some of the rows.
            near = posterior_like(end, spec, rows.groups, np.random.default_rng(seeds[0]))
            start = StartingPoint(near, n_components, is_near=True)

        as_transform = self.missing == "exact" or all(view.is_complete for view in coded)
        exact_rows = None
        if not as_transform:
            exact_rows = rows_of("exact")

        def keep(restarts: Restarts) -> None:
            late = self.max_time is not None and time.perf_counter() - began > self.max_time
            found = (schema, rows, restarts, index, self._settings(), choice, search, earlier, exact_rows)
            self._keep(make_fitted(*found, z_tol=ROUGH if late else Z_TOL))

        def save(restarts: Restarts) -> None:
            keep(restarts)
            self.save(checkpoint)  # type: ignore[arg-type]

        def sweeps() -> Restarts:
            with FitBar(self.n_init, self.max_iter, reads=self._reads) if self.verbose else nullcontext() as bar:
                watchers = [watcher for watcher in (bar, self.callback) if watcher is not None]

                def watch(progress: Progress) -> None:
                    for watcher in watchers:
                        watcher(progress)

                on_pause = save if checkpoint is not None else None
                options = replace(self._fit_options(schema, began), trials=choice.keep == FEWEST, pause=60 * minutes)
                watched = watch if watchers else None
                found = run_restarts(rows, n_components, options, seeds, self.n_jobs, watched, on_pause, start, before)
                if bar is not None:
                    best = found.all[best_place(found.all)]
                    bar.finish(best.n_iter, best.elbo, best.n_components)
                return found

        with ctrl_c():  # from the last sweep on it is noted: what was found is kept
            restarts = sweeps()
            with ctrl_c(anew=True) as stop_requests:
                keep(restarts)
                if restarts.lost is not None:
                    if checkpoint is not None:
                        self.save(checkpoint)
                    raise type(restarts.lost)(f"{restarts.lost} The best state so far is kept: resume goes on from it.")
                end_time = self._sharpness_limit(time.perf_counter() - began)

                def out_of_time() -> bool:
                    return bool(stop_requests) or time.perf_counter() - began > end_time

                sharpness = find_sharpness(coded, spec, self.fitted_.posterior, out_of_time)
                numbers = [schema.place(name) for name in schema.types if name not in schema.twins]
                residuals = find_residual_shapes(coded, spec, self.fitted_.posterior, numbers, out_of_time, limit)
                self._keep(replace(self.fitted_, sharpness=sharpness, residuals=residuals))
                if spec.n_groups:
                    shares = explained_by_group(coded, self.fitted_.posterior, partial(rows_of, self.missing))
                    self._keep(replace(self.fitted_, groups=labels_of(coded), r2_by_group=shares))
        if restarts.interrupted:
            logger.warning(Problem("interrupted, the best state so far is kept", (Remedy.RESUME,)))
        elif not self.converged_:
            warnings.warn(
                f"The bound still rose after {self.n_iter_} sweeps; raise max_iter or max_time, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _device_for(self, data: Sequence[AnyView]) -> Device:
        """That of this machine or, on a cluster, the one of each worker, which need not be here."""
        return Device(self.device) if self.engine == "dask" else device_for(self.device, data)

    def _sharpness_limit(self, seconds: float) -> float:
        """Seconds since the fit began by which the sharpness is to be found, where the sweeps took so many."""
        return np.inf if self.max_time is None else max(self.max_time, (1 + SHARPNESS_SHARE) * seconds)

    def _candidates(self, schema: Schema) -> tuple[Candidate, ...]:
        return candidates_for(self.search, self.priors, self.keep, bool(kernel_views(schema)))

    def _models(self, schema: Schema, n_rows: int) -> tuple[Candidate, ...]:
        """The candidates that make different models of these data."""
        return without_doubles(self._candidates(schema), lambda priors: schema.model_spec(n_rows, priors, self.missing))

    def _without_search(self, schema: Schema, data: Sequence[AnyView], n_rows: int) -> Candidate:
        return without_search(self._models(schema, n_rows), data, schema.model_spec(n_rows, Priors(), self.missing))

    def _search(
        self, schema: Schema, data: Sequence[AnyView], n_components: int, root: np.random.SeedSequence, began: float
    ) -> tuple[Search, Posterior] | None:
        """Which of the candidates to fit, and the end of its fit to some of the rows; None where there is no choice, or
        none is wanted for such data.
        """
        seed = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 2**31))  # the same whatever n_init
        n_rows = data[0].n_rows

        def make_spec(priors: Priors) -> ModelSpec:
            return schema.model_spec(n_rows, priors, self.missing)

        candidates = self._models(schema, n_rows)
        spec = make_spec(Priors())
        if self.search == "auto":
            candidates = worth_a_try(candidates, data, spec)
        selects = any(view.select_features for view in schema.types.values())  # to be read: few factors are easier
        in_memory = [view for view in data if isinstance(view, CodedView)]
        is_sparse = any(view.is_sparse for view in data)  # no cell of such a view could be hidden, and predicted
        if len(candidates) == 1 or (self.search == "auto" and (selects or is_sparse or self.missing != "exact")):
            return None
        if len(in_memory) < len(data):
            if self.search == "auto":
                return None
            raise ValueError("search needs all rows in memory, where they do not fit. Set search=None.")
        if self.search == "auto" and n_operations(in_memory, spec, n_components) > MOST_OPERATIONS:
            return None
        options = self._fit_options(schema, began)
        with FitBar(len(candidates), SHORT, "candidate") if self.verbose else nullcontext() as bar, ctrl_c() as stops:
            here = "auto" if self.engine == "dask" else self.engine  # short fits to few rows
            model = (n_components, options, seed, self.missing, here, self._device_for(data))
            kernels = [schema.place(name) for name in schema.twins]
            found = run_search(candidates, in_memory, make_spec, *model, bar, stops, schema.add_twins, kernels)
        if found is not None:
            logger.info(found[0].in_words())
        return found

    def _fit_options(self, schema: Schema, began: float) -> FitOptions:
        """`tol` is for the whole bound, `max_time` for each of the runs that follow one another."""
        at_a_time = 1 if self.n_init == 1 else max(1, min(self.n_init, effective_n_jobs(self.n_jobs)))
        left = None if self.max_time is None else max(self.max_time - (time.perf_counter() - began), 0.0)
        return FitOptions(
            max_iter=self.max_iter,
            tol=self.tol * schema.n_observed,
            prune_tol=self.prune_tol,
            rotate=self.acceleration is not None,
            momentum=self.acceleration == "auto",
            max_time=None if left is None else left / -(-self.n_init // at_a_time),
            random_start=self.start == "random",
        )

    def _keep(self, fit: Fitted) -> None:
        """All fitted attributes follow from this one value."""
        self.fitted_ = fit
        for name, value in attributes(fit).items():
            setattr(self, name, value)

    # ------------------------------------------------------------------------------------------- new rows

    def transform(self, views: Any, return_std: bool = False, covariates: str | None = None) -> Any:
        """E[z] of rows, (n, K), from any subset of views with holes; `return_std` adds its deviation.

        A DataFrame labelled by the rows where frames are given (polars or Arrow as they are), else an array.
        Covariates, where the model has any, are given as in `fit`; with covariates="mean", here and in all answers,
        those that are not given are taken at their mean.
        """
        return Answers(fitted_of(self)).transform(views, return_std, covariates)

    def fit_transform(self, views: Any, y: None = None) -> Any:
        """Fit, and return the factors of the training rows as `transform` does."""
        return self.fit(views).transform(views)

    def predict(
        self,
        views: Any,
        target: Any = None,
        return_std: bool = False,
        use_target: bool = False,
        covariates: str | None = None,
        quantiles: Any = None,
        interval: float | None = None,
    ) -> Any:
        """Means, 0 / 1 or labels of the views that are not given, or of one target.

        Parameters
        ----------
        views : dict, or one DataFrame where the model was fitted to one
            Any subset of the views or columns, with holes.
        target : optional
            One view, or one column of the table by its own name. Its values are not looked at, given or not; other
            columns of its view are. To fill the gaps of what is given, use `impute`.
        return_std : bool
            Also return the predictive standard deviations.
        use_target : bool
            Use what is given of the target as well: its seen cells help to predict its missing ones.
        covariates : None or "mean"
            As in `transform`.
        quantiles : float or sequence of them, optional
            Also return these quantiles, as (0.05, 0.95), of what will be observed: a dict of probability -> values in
            the form of the prediction. Those of counts are whole numbers, those of levels levels. Labels without an
            order have none: they are left out, and refused as a target.
        interval : float, optional
            Also return what has at least this probability, as 0.9: a dict with "lower" and "upper", each in the form of
            the prediction. Of numbers and counts as much is left out below as above; of levels it is the shortest run,
            and of 0 / 1 both where neither is so probable. Of classes it is the smallest set, and the dict has
            "labels": a boolean for each class, in the form of `predict_proba`; by view, or column, where there is no
            target. Intervals of numbers are calibrated by the training rows.

        Returns
        -------
        A dict view -> prediction (a DataFrame of the columns the table lacks), or with a target just the prediction;
        a tuple of that, standard deviations, quantiles and interval, as far as they are asked for.
        """
        asked = Asked.of(return_std, quantiles, interval)
        return Answers(fitted_of(self)).predict(views, target, asked, use_target, covariates)

    def predict_proba(self, views: Any, target: Any, use_target: bool = False, covariates: str | None = None) -> Any:
        """Binary: p(t = 1), (n, D). Categorical: probabilities over `classes_[target]`, (n, C).

        Ordinal: of one column the probabilities of its levels, (n, L); of several a DataFrame with two levels of column
        names, (column, level), or, of a view that was an array, a dict of column -> (n, L).

        `target`, `use_target` and `covariates` are as in `predict`.
        """
        return Answers(fitted_of(self)).predict_proba(views, target, use_target, covariates)

    def impute(
        self,
        views: Any,
        return_std: bool = False,
        beyond_limits: bool = False,
        covariates: str | None = None,
        n_draws: int | None = None,
        random_state: Any = None,
        quantiles: Any = None,
        interval: float | None = None,
    ) -> Any:
        """The same dict or table, observed cells untouched and holes filled; with `return_std` also the deviations.

        `quantiles` and `interval` are as in `predict`: the same data with their holes filled by these. Columns of
        classes, which have none, stay as they are; which classes are in the set is in `interval["labels"]`.

        `beyond_limits`: values at a limit (`Real(limits=...)`) are replaced, too, by their means beyond it. Covariates
        are not filled; `covariates` is as in `transform`.

        `n_draws`: a list of so many completed data sets in the place of one, for multiple imputation. What is missing
        is drawn from its predictive distribution given all that was seen: factors, weights and noise, then labels,
        levels and counts as such.

        The standard deviation of an observed cell is 0; that of a filled label is that of "the label is right"; that
        of a level is in levels, counted 0, 1, 2 ...; in
        columns that the model does not know or left aside it is NaN. Means that fill holes of an integer dtype (Int64)
        are rounded.
        DataFrames align by index: all come back with all rows, in the order of the first, then of the others' own.
        polars and Arrow come back as such; MuData and AnnData as copies in which the holes of X are filled, and rows
        that a modality lacks are not added.
        """
        answers, asked = Answers(fitted_of(self)), Asked.of(return_std, quantiles, interval)
        if n_draws is None:
            return answers.impute(views, asked, beyond_limits, covariates)
        if asked != Asked() or beyond_limits:
            raise ValueError(
                "draws have no standard deviations, quantiles or intervals, and none are made beyond limits: leave "
                "these out."
            )
        return answers.draws(views, n_draws, random_state, covariates)

    def influence(self, target: Any) -> dict[str, pd.Series]:
        """How much each feature of the other views moves the prediction of a target: view -> Series, larger = more.

        One standard deviation of a real feature moves the target's latent x (a real target: its standard deviations)
        by a vector of this length. Where `feature_relevance_` says which features the factors describe, this says
        which of them matter for the target.
        """
        return Answers(fitted_of(self)).influence(target)

    def score(self, views: Any, y: None = None, covariates: str | None = None) -> float:
        """Average over rows of a lower bound of log p(row), given its covariates, in nats and the user's units."""
        return Answers(fitted_of(self)).score(views, covariates)

    def score_samples(self, views: Any, covariates: str | None = None) -> np.ndarray:
        """The same of each row, (n,)."""
        return Answers(fitted_of(self)).score_samples(views, covariates)

    def from_factors(self, z: Any) -> dict[str, Any]:
        """What rows with these factors, (n, K), are expected to hold: of each view means, or the most probable label.

        The way back from `transform`; covariates are at their mean.
        """
        return Answers(fitted_of(self)).from_factors(z)

    def sample(self, n: int = 1, random_state: int | None = None, covariates: Any = None, *, views: Any = None) -> Any:
        """New rows from the posterior predictive: a dict of views; of one table a DataFrame, columns in its order.

        Columns of an integer dtype are rounded. `covariates` of n rows are given as in `fit`, without the views; else
        they are at their mean.

        `views`: rows of which something is known. Then it is a list of n data sets with all views of these rows: seen
        cells as they are, missing ones and views that are not given drawn together from their distribution given
        all that is. Their covariates are among the views, and `covariates` is as in `transform`.
        """
        answers = Answers(fitted_of(self))
        if views is None:
            return answers.sample(n, random_state, covariates)
        return answers.conditional_sample(views, n, random_state, covariates)

    # ---------------------------------------------------------------------------------------------- files

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._views_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What a notebook shows: scikit-learn's diagram, and after a fit the views, rows, factors and R²."""
        shown = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:
            shown["text/html"] += self._views_html()
        return shown

    def _views_html(self) -> str:
        return views_html(self.fitted_) if hasattr(self, "fitted_") else ""

    def save(self, path: str | Path) -> None:
        """Write the fitted model, with the settings of its fit, to one file: JSON and arrays, nothing that can run."""
        save_model(fitted_of(self), path)

    def to_mofa_hdf5(self, path: str | Path) -> None:
        """Write the factors, weights and variance explained as a MOFA2 file, for its R package and mofax."""
        write_mofa(fitted_of(self), path)

    def write_to(self, data: Any) -> None:
        """Write the fit into a MuData or AnnData, in place as scanpy's tools do; nothing is returned.

        Factors go to `obsm["X_sshiba"]`, of the whole and of each modality; weights, in the units of the data, to
        `varm["sshiba"]` of each modality that is a view (an AnnData alone is the view "X"); the variance explained to
        `uns["sshiba"]`. Rows and columns are found by name; those that the fit did not see are NaN.
        """
        write_to(fitted_of(self), data)

    def report(
        self,
        path: str | Path | None = None,
        views: Any = None,
        fraction: float = 0.1,
        title: str = "",
        metadata: Any = None,
    ) -> Report:
        """A report of the fit: one HTML file that needs no network (extra `report`).

        Parameters
        ----------
        path : path, optional
            Where it is written. In a notebook it is also shown.
        views : optional
            The data of the fit: adds which rows have what, columns to colour rows by, and a held-out check.
        fraction : float
            Share of the seen cells that the check hides from another fit; 0 leaves it out. The fit shows how far it is.
        title : str
        metadata : DataFrame, Series or dict, optional
            More that is known of the rows, by their names: columns to colour them by, and to compare factors with.

        Returns
        -------
        Report
            `save` writes it to another place.
        """
        return write_report(self, path, views, fraction, title, metadata)


SAME_MODEL = (
    "n_components",
    "covariates",
    "sample_groups",
    "missing",
    "priors",
    "keep",
    "search",
)  # settings that a fit must go on with
STORED_SETTINGS = (
    "n_components",
    "covariates",
    "sample_groups",
    "n_init",
    "start",
    "max_iter",
    "tol",
    "prune_tol",
    "missing",
    "acceleration",
    "priors",
    "keep",
    "search",
    "device",
    "engine",
    "dtype",
    "random_state",
    "n_jobs",
    "max_time",
    "verbose",
)


def _changed(what: str, before: Any, now: Any) -> str:
    return f"{what} was {before!r} in the interrupted fit and is {now!r} now: set it back to resume, or fit anew."


def load(path: str | Path) -> SSHIBA:
    """Read a model that `SSHIBA.save` wrote; it predicts the same to the last bit."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            fit = load_model(path)
            model = SSHIBA(views=fit.schema.view_options, **fit.settings)
            model._keep(fit)
    except ModelFileError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelFileError(f"{str(path)!r} is not a consistent SSHIBA model: {error!r}.") from error
    return model
