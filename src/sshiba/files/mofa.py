"""A fitted model as a MOFA2 file (HDF5), for the tools of that world: MOFA2's R package and mofax."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..fitted.fitted import Fitted
from .atomic import replacing

GROUP = "group1"  # MOFA's samples come in groups; ours in one


def write_mofa(fit: Fitted, path: str | Path) -> None:
    """Factors, weights, names, variance explained and the bound, laid out as mofapy2 does.

    Weights are in the model's units (standardised features; latent x of all others, the features of a categorical view
    being its classes), as MOFA's are. A model file holds no data: theirs is written as missing.
    """
    try:
        import h5py
    except ImportError:
        raise ImportError("MOFA files need the extra 'mofa': pip install 'sshiba[mofa]'.") from None
    names = list(fit.schema.types)
    text = h5py.string_dtype()
    with replacing(str(path)) as temporary, h5py.File(temporary, "w") as file:
        file["views/views"] = np.array(names, dtype=text)
        file["groups/groups"] = np.array([GROUP], dtype=text)
        file[f"samples/{GROUP}"] = np.array([str(label) for label in fit.index], dtype=text)
        file[f"expectations/Z/{GROUP}"] = fit.factors.T
        shares = 100 * fit.r2[:, : len(names)]
        file[f"variance_explained/r2_per_factor/{GROUP}"] = shares[:-1].T
        file[f"variance_explained/r2_total/{GROUP}"] = shares[-1]
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
            file[f"expectations/W/{key}"] = view.w_mean.T
            file[f"intercepts/{key}/{GROUP}"] = view.b_mean
            unknown = (len(fit.factors), coding.width)
            file.create_dataset(f"data/{key}/{GROUP}", unknown, "f4", fillvalue=np.nan, compression="gzip", chunks=True)
