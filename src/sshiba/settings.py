"""The estimator's settings: what is refused, in one sentence each."""

from __future__ import annotations

from typing import Any

import numpy as np

from .core.devices import find_device
from .core.machine import memory_limit
from .core.spec import Priors
from .data.covariates import plain_covariates
from .engines import ENGINES, check_engine
from .fitted.candidates import KEEP, Candidate


def check_settings(model: Any) -> None:
    """Refuse options that make no sense, in one sentence each."""
    for name in ("n_components", "n_init", "max_iter"):
        value = getattr(model, name)
        if value is None and name == "n_components":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be a whole number, not {value!r}.")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}.")
    for name, high in (("tol", np.inf), ("prune_tol", 1.0), ("max_time", np.inf)):
        value = getattr(model, name)
        if value is None and name == "max_time":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise TypeError(f"{name} must be a number, not {value!r}.")
        if not 0 <= value < high:
            raise ValueError(f"{name} must be in [0, {high:g}), not {value!r}.")
    if model.priors is not None and not isinstance(model.priors, Priors):
        raise TypeError(f"priors must be a Priors(...), not {model.priors!r}.")
    if model.callback is not None and not callable(model.callback):
        raise TypeError(f"callback must be a function of one Progress, not {model.callback!r}.")
    if model.n_jobs is not None and (not isinstance(model.n_jobs, int | np.integer) or model.n_jobs == 0):
        raise ValueError(f"n_jobs must be a whole number other than 0, or None, not {model.n_jobs!r}.")
    choices: dict[str, tuple] = {
        "keep": (*KEEP, None),
        "start": ("principal", "random"),
        "missing": ("exact", "mean-field"),
        "acceleration": ("auto", "rotation", None),
        "dtype": ("float64", "float32"),
    }
    for name, allowed in choices.items():
        if getattr(model, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, not {getattr(model, name)!r}.")
    given = model.search
    a_list = isinstance(given, list | tuple) and len(given) > 0 and all(isinstance(c, Candidate) for c in given)
    if given is not None and not (isinstance(given, str) and given == "auto") and not a_list:
        kind = ValueError if isinstance(given, str) else TypeError
        raise kind(f"search must be 'auto', None or a list of Candidate(...), not {given!r}.")
    if a_list and (model.priors is not None or model.keep is not None):
        raise ValueError("search is a list of candidates, which have their own priors and keep: leave these None.")
    named, groups = plain_covariates(model.covariates), model.sample_groups
    if groups is not None and not isinstance(groups, str | int):
        raise TypeError(
            f"sample_groups must be the name of a column, or of an entry beside the views, not {groups!r}: "
            "sample_groups='cohort'."
        )
    if named.get(groups) == "real":
        raise ValueError(f"sample_groups={groups!r} holds labels, and cannot be a 'real' covariate, too.")
    memory_limit(model.max_memory)
    if model.engine not in ENGINES:
        raise ValueError(f"engine must be one of {ENGINES}, not {model.engine!r}.")
    check_engine(model.engine)
    if model.engine != "dask":  # else it is one of each worker
        find_device(model.device)
