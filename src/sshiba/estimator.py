"""SSHIBA, the scikit-learn shell around the model."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from . import io
from .answers import Answers
from .coding import ViewData
from .engines import MemoryEngine
from .fit import Begun, Fit, Options, Progress
from .likelihoods import View
from .model import Model, Priors, build_model
from .mofa import write_hdf5
from .moments import w_second
from .options import check_options, seed_sequence
from .posterior import (
    factors,
    feature_relevance,
    noise_variance,
)
from .progress import FitBar
from .restarts import run_restarts
from .result import Restart, class_array, inits_table, ordered, provenance, r2_table
from .sharpness import find_sharpness
from .views import (
    Schema,
    observed_cells,
    read_training,
    warn_empty_rows,
)

logger = logging.getLogger("sshiba")


class SSHIBA(BaseEstimator):
    """Bayesian factor analysis of several views of the same samples, of different types, with holes.

    Parameters
    ----------
    n_components : int
        The most factors; how many are kept, `n_components_`, is found by the fit.
    views : mapping, optional
        View name -> `Real()`, `Binary()` or `Categorical()`. Views that are not named are inferred, and logged.
        For one DataFrame also -> columns, or (columns, type).
    n_init : int
        Random starts; the one with the highest bound is kept.
    max_iter, tol : int, float
        Stop after this many sweeps, or when the bound rises by less than `tol` nats per observed cell and sweep.
    prune_tol : float
        A factor goes when it explains less than this share of every view.
    missing : "exact" or "mean-field"
        Leave holes out (default), or treat each as a variable of its own, as the paper does.
    acceleration : "rotation" or None
        Rotate the latent space between sweeps, which finds the right number of factors, and far sooner.
    priors : Priors, optional
        Hyper-parameters.
    device : None or "cpu"
    engine : "auto", "memory" or "gram"
        How rows are processed: directly, or in Gram space where real views are complete; "auto" takes the cheaper way.
    dtype : "float64" or "float32"
        Precision in which real views are stored; sums are always double.
    random_state : int or NumPy generator, optional
    n_jobs : int, optional
        Restarts at a time; changes nothing but the time.
    callback : callable, optional
        Called with a `Progress` after each sweep; where restarts run in parallel, after each restart.
    max_time : float, optional
        Seconds for the whole fit.
    verbose : int
        1 shows a progress bar.
    """

    def __init__(
        self,
        n_components: int = 50,
        views: Mapping[str, View] | None = None,
        n_init: int = 1,
        max_iter: int = 2000,
        tol: float = 1e-7,
        prune_tol: float = 1e-6,
        missing: str = "exact",
        acceleration: str | None = "rotation",
        priors: Priors | None = None,
        device: str | None = None,
        engine: str = "auto",
        dtype: str = "float64",
        random_state: int | None = None,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
        max_time: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.views = views
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.prune_tol = prune_tol
        self.missing = missing
        self.acceleration = acceleration
        self.priors = priors
        self.device = device
        self.engine = engine
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.max_time = max_time
        self.verbose = verbose

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
        views : dict of arrays, DataFrames or Series; or one DataFrame, MuData or AnnData
            NaN, None and NA are missing. DataFrames align by index. One DataFrame is split by type: numbers, 0 / 1, and
            each column of labels a view of its own; or as `views` says, {"blood": ["hb", "wbc"], "sex": Categorical()}.
        y : ignored
        checkpoint : path, optional
            Save the best state so far in this file every `checkpoint_minutes`; restarts then run one after another.

        Ctrl-C ends the fit and keeps the best state so far; `resume` goes on from it.

        Returns
        -------
        self
        """
        check_options(self)
        schema, data, index = read_training(views, self.views, self.dtype)
        warn_empty_rows(data, index)
        self._run(schema, data, index, None, [], checkpoint, checkpoint_minutes)
        if self.n_components_ == self.n_components:
            logger.warning("all %d factors are in use: more may fit better (n_components)", self.n_components)
        return self

    def resume(self, views: Any, *, checkpoint: str | Path | None = None, checkpoint_minutes: float = 10.0) -> SSHIBA:
        """Go on with a fit that was interrupted, on the same data, and with the restarts that were left.

        It ends where an undisturbed fit would have ended. What can go on is a fit that Ctrl-C, `max_time` or `max_iter`
        ended (raise these first: `set_params(max_iter=...)`), or a file that `checkpoint` wrote.
        """
        check_is_fitted(self, "n_components_")
        check_options(self)
        other = "these are not the data of the interrupted fit: "
        try:
            given = self._answers.given(views)
            schema, data, index = read_training(given, self._schema.types, self.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{other}{error}") from error
        schema = replace(schema, one_table=self._schema.one_table)
        same = len(schema.codings) == len(self._schema.codings) and all(
            mine.features == its.features and np.array_equal(mine.observed_per_feature, its.observed_per_feature)
            for mine, its in zip(self._schema.codings.values(), schema.codings.values())
        )
        if not same or len(index) != len(self.factors_):
            raise ValueError(f"{other}their rows, columns or holes differ.")
        stopped = self.inits_["interrupted"].to_numpy(bool)
        if not stopped.any() and not self.converged_:  # at the limit of sweeps or time: the best goes on
            stopped = self.inits_["best"].to_numpy(bool)
        begun, done = None, [restart for restart, on in zip(self._restarts, stopped) if not on]
        if stopped[int(self.inits_["best"].argmax())]:
            n_components = self._n_components(schema, len(index))
            begun = Begun(self._posterior, n_components, tuple(self.elbo_path_.tolist()), self.n_iter_)
        if len(done) < self.n_init:
            self._run(schema, data, index, begun, done, checkpoint, checkpoint_minutes)
        return self

    def _n_components(self, schema: Schema, n_rows: int) -> int:
        """As many as asked for, but no more than rows or features."""
        n_components = min(self.n_components, n_rows, sum(coding.width for coding in schema.codings.values()))
        if n_components < self.n_components:
            logger.info("n_components=%d clipped to %d (rows, total width)", self.n_components, n_components)
        return n_components

    def _run(
        self,
        schema: Schema,
        data: dict[str, ViewData],
        index: pd.Index,
        begun: Begun | None,
        before: list[Restart],
        checkpoint: str | Path | None,
        minutes: float,
    ) -> None:
        """The restarts that `before` does not tell of, the first of them from `begun`."""
        first = len(before)
        model = build_model(schema, len(index), self.priors or Priors(), self.missing)
        n_components = self._n_components(schema, len(index))
        engine = MemoryEngine(list(data.values()), model, self.missing, n_components, engine=self.engine)
        at_a_time = 1 if self.n_init == 1 else max(1, min(self.n_init, effective_n_jobs(self.n_jobs)))
        options = Options(
            self.max_iter,
            self.tol * observed_cells(schema),
            self.prune_tol,
            self.acceleration == "rotation",
            None if self.max_time is None else self.max_time / -(-self.n_init // at_a_time),
            60 * minutes,
        )
        seeds = seed_sequence(self.random_state).spawn(self.n_init)[first:]

        def keep(fits: list[Fit]) -> None:
            self._keep(schema, model, engine, fits, index, before)

        def save(fits: list[Fit]) -> None:
            keep(fits)
            self.save(checkpoint)  # type: ignore[arg-type]

        watched = self.callback
        with FitBar(self.n_init, self.max_iter) if self.verbose else nullcontext() as bar:
            if bar is not None:

                def watched(progress: Progress) -> None:
                    bar(replace(progress, restart=first + progress.restart))
                    if self.callback is not None:
                        self.callback(progress)

            on_pause = save if checkpoint is not None else None
            fits = run_restarts(engine, n_components, options, seeds, self.n_jobs, watched, on_pause, begun)
        keep(fits)
        self.sharpness_ = dict(zip(self.views_, find_sharpness(list(data.values()), model, self._posterior)))
        if fits[-1].interrupted:
            logger.warning("interrupted: the best state so far is kept; resume(views) goes on from it")
        elif not self.converged_:
            warnings.warn(
                f"The bound still rose after {self.n_iter_} sweeps; raise max_iter or max_time, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _keep(
        self,
        schema: Schema,
        model: Model,
        engine: MemoryEngine,
        fits: list[Fit],
        index: pd.Index,
        before: list[Restart],
    ) -> None:
        """Store what was found, if it is better than what there is: factors by variance explained, signs fixed."""
        self._restarts = [*before, *map(Restart.of, fits)]
        self.inits_, self.elbo_paths_ = inits_table(self._restarts), [restart.path for restart in self._restarts]
        best = int(self.inits_["best"].argmax())
        if best < len(before):
            return
        fit = fits[best - len(before)]
        assert fit.state.stats is not None  # a run ends with a whole sweep
        posterior, shares = ordered(fit.state.posterior, fit.state.stats)
        self._schema, self._model, self._posterior = schema, model, posterior
        self.index_ = index
        self.factors_, self.factors_std_ = factors(engine, posterior, fit.state.local)
        self.r2_ = r2_table(shares, list(schema.types))
        self.elbo_, self.elbo_path_ = fit.state.bound, np.asarray(fit.path)
        self.n_iter_, self.converged_ = fit.n_sweeps, fit.converged
        self.sharpness_ = dict.fromkeys(schema.types, 1.0)  # until the fit is over
        self.provenance_ = provenance()
        self._describe()

    def _describe(self) -> None:
        """Fitted attributes that follow from the posterior, in the user's units."""
        posterior, codings = self._posterior, self._schema.codings
        self.n_components_ = posterior.n_components
        self.views_ = dict(self._schema.types)
        self.feature_names_in_ = {name: list(c.features) for name, c in codings.items()}
        self.classes_ = {name: class_array(c.levels) for name, c in codings.items() if c.levels is not None}
        self.weights_, self.weights_std_, self.bias_, self.noise_std_ = {}, {}, {}, {}
        self.factor_relevance_, self.feature_relevance_ = {}, {}
        for (name, coding), view, spec in zip(codings.items(), posterior.views, self._model.views):
            scale = coding.scale[:, None]
            self.weights_[name] = view.w_mean * scale
            self.weights_std_[name] = np.sqrt(np.maximum(w_second(view) - view.w_mean**2, 0.0)) * scale
            self.bias_[name] = coding.centre + coding.scale * view.b_mean
            self.noise_std_[name] = coding.scale * np.sqrt(noise_variance(view))
            self.factor_relevance_[name] = 1 / view.alpha.mean
            self.feature_relevance_[name] = feature_relevance(view, spec)

    # ------------------------------------------------------------------------------------------- new rows

    def transform(self, views: Any, return_std: bool = False) -> Any:
        """E[z] of rows, (n, K), from any subset of views with holes; `return_std` adds its deviation.

        A DataFrame labelled by the rows where pandas objects are given, else an array.
        """
        return self._answers.transform(views, return_std)

    def fit_transform(self, views: Any, y: None = None) -> Any:
        """Fit, and return the factors of the training rows as `transform` does."""
        return self.fit(views).transform(views)

    def predict(self, views: Any, target: str | None = None, return_std: bool = False) -> Any:
        """Means, 0 / 1 or labels of the views that are not given, or of one target.

        Parameters
        ----------
        views : dict, or one DataFrame where the model was fitted to one
            Any subset of the views or columns, with holes.
        target : str, optional
            One view, or one column of the table; it may be given too where it has holes, and is then predicted from its
            own seen cells as well.
        return_std : bool
            Also return the predictive standard deviations.

        Returns
        -------
        A dict view -> prediction (a DataFrame of the columns the table lacks), or with a target just the prediction;
        with `return_std` a pair of those.
        """
        return self._answers.predict(views, target, return_std)

    def predict_proba(self, views: Any, target: str) -> Any:
        """Binary: p(t = 1), (n, D). Categorical: probabilities over `classes_[target]`, (n, C)."""
        return self._answers.predict_proba(views, target)

    def impute(self, views: Any, return_std: bool = False) -> Any:
        """The same dict or table, observed cells untouched and holes filled; with `return_std` also the deviations.

        The standard deviation of an observed cell is 0; that of a filled label is that of "the label is right".
        DataFrames align by index: all come back with all rows, in the order of the first, then of the others' own.
        """
        return self._answers.impute(views, return_std)

    def influence(self, target: str) -> dict[str, pd.Series]:
        """How much each feature of the other views moves the prediction of a target: view -> Series, larger = more.

        One standard deviation of a real feature moves the target's latent x (a real target: its standard deviations)
        by a vector of this length. Where `feature_relevance_` says which features the factors describe, this says
        which of them matter for the target.
        """
        return self._answers.influence(target)

    def score(self, views: Any, y: None = None) -> float:
        """Average over rows of a lower bound of log p(row), in nats and the user's units."""
        return self._answers.score(views)

    def sample(self, n: int = 1, random_state: int | None = None) -> Any:
        """New rows from the posterior predictive: a dict of views, or a DataFrame where one was fitted."""
        return self._answers.sample(n, random_state)

    # ---------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file: JSON and arrays, nothing that can run."""
        check_is_fitted(self, "n_components_")
        io.save(self, path)

    def to_mofa_hdf5(self, path: str | Path) -> None:
        """Write the factors, weights and variance explained as a MOFA2 file, for its R package and mofax."""
        check_is_fitted(self, "n_components_")
        write_hdf5(self, path)

    def report(self, path: str | Path, views: Any = None, fraction: float = 0.1, title: str = "") -> None:
        """Write a report of the fit: one HTML file that needs no network (extra `report`).

        Parameters
        ----------
        path : path
        views : optional
            The data of the fit: adds which rows have what, columns to colour rows by, and a held-out check.
        fraction : float
            Share of the seen cells that the check hides from another fit; 0 leaves it out.
        title : str
        """
        from .report import write_report

        check_is_fitted(self, "n_components_")
        write_report(self, path, views, fraction, title)

    @property
    def _answers(self) -> Answers:
        check_is_fitted(self, "n_components_")
        sharpness = tuple(self.sharpness_.values())
        return Answers(self._schema, self._model, self._posterior, sharpness, self.dtype)
