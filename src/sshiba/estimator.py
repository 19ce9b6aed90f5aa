"""SSHIBA, the scikit-learn shell around the model."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED

from .core.spec import Priors
from .core.streamed import AnyView, ReadCount
from .data.advice import Problem, Remedy
from .data.covariates import plain_covariates
from .data.reading import read_training, warn_empty_rows
from .data.schema import Schema
from .data.telling import tell
from .data.types import View
from .files.atomic import check_place
from .files.model_file import ModelFileError, load_model, save_model
from .files.mofa import write_mofa
from .files.stored_labels import same_labels
from .fitted.annotating import write_to
from .fitted.answers import Answers
from .fitted.candidates import FEWEST, Candidate
from .fitted.describe import attributes, views_html
from .fitted.fitted import Fitted, fitted_of
from .fitted.intervals import Asked
from .fitted.training import GoingOn, Saving, Training, learn_kernels, most_components, n_components_of
from .fitting.loop import Progress, StartingPoint
from .fitting.progress_bar import ReadingBar
from .report import Report, write_report
from .settings import check_settings

logger = logging.getLogger("sshiba")

DATA = {"views": UNUSED}  # the data of a method, not metadata that a pipeline hands on


class SSHIBA(BaseEstimator):
    """Bayesian factor analysis of several views of the same samples, of different types, with gaps.

    Fitted attributes that are not listed here are in the documentation, docs/api.md.

    Parameters
    ----------
    n_components : int, optional
        Upper limit of factors; the fit finds how many it keeps, `n_components_`. None: 50, and one more for each
        feature of a kernel (`Real(kernel=...)`).
    views : mapping, optional
        View name -> `Real()`, `Binary()`, `Categorical()`, `Ordinal()` or `Count()`. Views that are not named are
        inferred, and logged. For one DataFrame also -> a column or a list of them, or (columns, type).
    n_init : int
        Number of starts. The fit keeps the one with the highest log evidence, or bound where that is not known.
    start : "principal" or "random"
        The first start: along the principal components, or random as all others are.
    max_iter, tol : int, float
        Stop after this many sweeps, or when the bound rises by less than `tol` nats per observed cell and sweep.
    prune_tol : float
        A factor is removed when it explains less than this share of every view.
    missing : "exact" or "mean-field"
        Integrate missing cells out (default), or treat each as a variable of its own, as the paper does.
    acceleration : "auto", "rotation" or None
        Rotate the latent space between sweeps: a fit then takes far fewer of them. "auto" also starts each sweep a
        little ahead of where the last one ended (momentum). In either case a sweep never lowers the bound.
    priors : Priors, optional
        Hyper-parameters; None leaves them to `search`.
    keep : "fewest", "all" or None
        Which factors stay: as few as the evidence asks for, which are easier to read, or all that explain anything,
        which often predict better. None leaves it to `search`.
    search : "auto", None or list of Candidate
        Choose `priors` and `keep`, where they are None, and whether labels count half, by short fits without a quarter
        of the rows and how well they predict these. The fewest factors are kept where they are nearly as good. "auto"
        does so where a sweep takes less than about 60 milliseconds, no view selects features and none is sparse; where
        gaps make sweeps longer, with a part of the rows (600 or more) and up to 40 factors. None takes the fewest. A
        list is compared whatever the data. `search_` tells what was found.
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
        Restarts that run in parallel; the result is the same.
    callback : callable, optional
        Called with a `Progress` after each sweep; where restarts run in parallel, after each restart.
    max_time : float, optional
        Seconds for the whole fit. Where they end it, `factors_` are inferred roughly; `transform` is as exact as ever.
    max_memory : str or float, optional
        What the fit may take of memory, beyond what the process has already: "4GB", "500MiB" or 4e9; by default 60 %
        of what the machine has free. Views that do not fit are read again in each sweep, and q(x) of labels goes to a
        scratch file. Where it is given, answers work within it, too. It is not saved with a model, which may be asked
        on another machine: `load(path).set_params(max_memory="4GB")`.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    elbo_ : float
        The bound at the end of the fit, in nats.
    log_evidence_ : float or None
        An estimate of the log evidence: the bound, corrected for most of its gap. It compares models of the same data.
        None with labels, levels, counts, limits, tied ranks or groups of samples, and under missing="mean-field".
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

        Ctrl-C ends the fit and keeps the best state so far; `resume` goes on from it. Restarts that run at a time
        (`n_jobs`) keep those that are done; before the first of them is, and in the search, there is nothing to keep.

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

        Returns
        -------
        self
        """
        check_settings(self)
        began = time.perf_counter()
        schema, data, index = self._read(views)
        warn_empty_rows({name: data[name] for name in schema.types}, index)
        schema = learn_kernels(self, schema, data, began)
        self._train(schema, data, index, began, None, checkpoint, checkpoint_minutes)
        most = most_components(self, schema)
        if self.n_components_ == most and self.fitted_.choice.keep == FEWEST:
            what = f"all {most} factors are in use, and more may fit better"
            logger.warning(Problem(what, (Remedy.MORE_FACTORS,)))
        return self

    def resume(self, views: Any, *, checkpoint: str | Path | None = None, checkpoint_minutes: float = 10.0) -> SSHIBA:
        """Continue an interrupted fit, on the same data and with the same model.

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
            n_components = n_components_of(self, schema, len(index))
            start = StartingPoint(fit.posterior, n_components, tuple(fit.elbo_path.tolist()), fit.n_iter)
        if len(done) < self.n_init:
            self._train(schema, data, index, began, GoingOn(fit, done, start), checkpoint, checkpoint_minutes)
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

    def _train(
        self,
        schema: Schema,
        data: dict[str, AnyView],
        index: pd.Index,
        began: float,
        going_on: GoingOn | None,
        checkpoint: str | Path | None,
        minutes: float,
    ) -> None:
        """The fit itself; its state is this model's whenever it is saved, and at the end."""
        saving = None
        if checkpoint is not None:
            check_place(checkpoint)
            saving = Saving(partial(self.save, checkpoint), minutes)
        interrupted = Training(self, schema, data, index, self._settings(), began, going_on).run(
            self._keep, saving, self._reads
        )
        if interrupted:
            logger.warning(Problem("interrupted, the best state so far is kept", (Remedy.RESUME,)))
        elif not self.converged_:
            tell(
                f"The bound still rose after {self.n_iter_} sweeps; raise max_iter or max_time, or tol.",
                ConvergenceWarning,
            )

    def _keep(self, fit: Fitted) -> None:
        """All fitted attributes follow from this one value."""
        self.fitted_ = fit
        for name, value in attributes(fit).items():
            setattr(self, name, value)

    # ------------------------------------------------------------------------------------------- new rows

    def transform(self, views: Any, return_std: bool = False, covariates: str | None = None) -> Any:
        """Factors of rows, their posterior means E[z], (n, K), from any subset of views, with gaps.

        `return_std` adds their standard deviations.

        A DataFrame labelled by the rows where frames are given (polars or Arrow as they are), else an array.
        Covariates, where the model has any, are given as in `fit`; with covariates="mean", here and in all answers,
        those that are not given are taken at their mean.
        """
        return Answers.of(self).transform(views, return_std, covariates)

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
            Any subset of the views or columns, with gaps.
        target : optional
            One view, or one column of the table by its own name. Its values are not looked at, given or not; other
            columns of its view are. To fill the gaps of what is given, use `impute`.
        return_std : bool
            Also return the predictive standard deviations.
        use_target : bool
            Also use the target's own observed cells to predict its missing ones.
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
        return Answers.of(self).predict(views, target, asked, use_target, covariates)

    def predict_proba(self, views: Any, target: Any, use_target: bool = False, covariates: str | None = None) -> Any:
        """Binary: p(t = 1), (n, D). Categorical: probabilities over `classes_[target]`, (n, C).

        Ordinal: of one column the probabilities of its levels, (n, L); of several a DataFrame with two levels of column
        names, (column, level), or, of a view that was an array, a dict of column -> (n, L).

        `target`, `use_target` and `covariates` are as in `predict`.
        """
        return Answers.of(self).predict_proba(views, target, use_target, covariates)

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
        """The same dict or table with its gaps filled; with `return_std` also the standard deviations.

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
        answers, asked = Answers.of(self), Asked.of(return_std, quantiles, interval)
        if n_draws is None:
            return answers.impute(views, asked, beyond_limits, covariates)
        if asked != Asked() or beyond_limits:
            raise ValueError(
                "draws have no standard deviations, quantiles or intervals, and none are made beyond limits: leave "
                "these out."
            )
        return answers.draws(views, n_draws, random_state, covariates)

    def influence(self, target: Any) -> dict[str, pd.Series]:
        """How far each feature of the other views moves the prediction of a target: view -> Series, larger = more.

        One standard deviation of a real feature moves the target's latent x (a real target: its standard deviations)
        by a vector of this length. `feature_relevance_` says which features the factors describe; this says
        which of them matter for the target.
        """
        return Answers.of(self).influence(target)

    def score(self, views: Any, y: None = None, covariates: str | None = None) -> float:
        """Average over rows of a lower bound of log p(row), given its covariates, in nats and the user's units."""
        return Answers.of(self).score(views, covariates)

    def score_samples(self, views: Any, covariates: str | None = None) -> np.ndarray:
        """The same of each row, (n,)."""
        return Answers.of(self).score_samples(views, covariates)

    def from_factors(self, z: Any) -> dict[str, Any]:
        """What rows with these factors, (n, K), are expected to hold: of each view means, or the most probable label.

        The inverse of `transform`; covariates are at their mean.
        """
        return Answers.of(self).from_factors(z)

    def sample(self, n: int = 1, random_state: int | None = None, covariates: Any = None, *, views: Any = None) -> Any:
        """New rows from the posterior predictive: a dict of views; of one table a DataFrame, columns in its order.

        Columns of an integer dtype are rounded. `covariates` of n rows are given as in `fit`, without the views; else
        they are at their mean.

        `views`: rows of which something is known. Then it is a list of n data sets with all views of these rows: seen
        cells as they are, missing ones and views that are not given drawn together from their distribution given
        all that is. Their covariates are among the views, and `covariates` is as in `transform`.
        """
        answers = Answers.of(self)
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
        """Write the fitted model, with the settings of its fit, to one file: JSON and arrays, nothing that can run.

        The file is not anonymous. It holds the names of the training rows, their factors and their groups of samples,
        all labels, and the least and the largest number of each column; with margin="normal" more values of the column,
        and with a kernel some training rows as landmarks.
        """
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
            Share of the observed cells that the check hides from another fit; 0 skips the check. The fit shows how far
            it is.
        title : str
        metadata : DataFrame, Series or dict, optional
            More columns about the rows, matched by row name: to colour points by, and to associate with factors.

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
NOT_STORED = ("views", "callback", "max_memory")  # which hold for this process or machine, or are kept with the codings
STORED_SETTINGS = tuple(name for name in signature(SSHIBA).parameters if name not in NOT_STORED)


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
