"""A fitted model as a MOFA2 file (HDF5), for the tools of that world: MOFA2's R package and mofax."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..fitted.describe import group_intercepts
from ..fitted.fitted import Fitted
from ..version import how_to_install
from .atomic import replacing

GROUP = "group1"  # MOFA's samples come in groups; where ours do not, in one
NO_GROUP = "no group"  # what rows are in whose group is not known


def write_mofa(fit: Fitted, path: str | Path) -> None:
    """Factors, weights, names, variance explained and the bound, laid out as mofapy2 does; samples by their groups.

    Weights are in the model's units (standardised features; latent x of all others, the features of a categorical view
    being its classes), as MOFA's are. A fitted model does not keep the data: they are written as missing.
    """
    try:
        import h5py
    except ImportError:
        raise ImportError(f"MOFA files need the extra 'mofa': {how_to_install('mofa')}.") from None
    names, groups = list(fit.schema.types), groups_of(fit)
    text = h5py.string_dtype()
    with replacing(str(path)) as temporary, h5py.File(temporary, "w") as file:
        file["views/views"] = np.array(names, dtype=text)
        file["groups/groups"] = np.array([group.name for group in groups], dtype=text)
        for group in groups:
            shares = 100 * group.r2[:, : len(names)]
            file[f"samples/{group.key}"] = np.array([str(label) for label in fit.index[group.rows]], dtype=text)
            file[f"expectations/Z/{group.key}"] = fit.factors[group.rows].T
            file[f"variance_explained/r2_per_factor/{group.key}"] = shares[: fit.n_components].T
            file[f"variance_explained/r2_total/{group.key}"] = shares[-1]
        file["training_stats/elbo"] = fit.elbo_path
        file["training_stats/number_factors"] = np.full(len(fit.elbo_path), fit.n_components)
        kinds = [view.mofa_likelihood for view in fit.schema.types.values()]
        file["model_options/likelihoods"] = np.array(kinds, dtype=text)
        file["model_options/spikeslab_factors"] = np.array([False])
        file["model_options/spikeslab_weights"] = np.array([False])
        for name, view in zip(names, fit.posterior.views):
            coding = fit.schema.codings[name]
            key = name.replace("/", "_")
            file[f"features/{key}"] = np.array([f"{feature}" for feature in coding.latent_names], dtype=text)
            file[f"expectations/W/{key}"] = view.w_mean[:, : fit.n_components].T
            intercepts = group_intercepts(fit, view)
            for group in groups:
                known = group.place is not None
                file[f"intercepts/{key}/{group.key}"] = intercepts[group.place] if known else view.b_mean
                unknown = (len(group.rows), coding.width)
                place = f"data/{key}/{group.key}"
                file.create_dataset(place, unknown, "f4", fillvalue=np.nan, compression="gzip", chunks=True)


class SampleGroup(NamedTuple):
    """A group of samples as MOFA has it: which rows, and what factors explain there."""

    name: str
    rows: np.ndarray
    r2: np.ndarray  # (K + 1, M) or more, by all last
    place: int | None = None  # among the model's groups

    @property
    def key(self) -> str:
        return self.name.replace("/", "_")


def groups_of(fit: Fitted) -> list[SampleGroup]:
    if fit.groups is None or fit.r2_by_group is None:
        return [SampleGroup(GROUP, np.arange(len(fit.factors)), fit.r2)]
    found = [
        SampleGroup(str(name), np.flatnonzero(fit.groups == place), fit.r2_by_group[place], place)
        for place, name in enumerate(fit.schema.group_names)
    ]
    rest = np.flatnonzero(fit.groups < 0)
    return found + ([SampleGroup(NO_GROUP, rest, fit.r2)] if len(rest) else [])
