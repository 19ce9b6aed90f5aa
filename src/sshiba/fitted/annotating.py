"""Factors, weights and variance explained, written into a MuData or AnnData where scverse's tools look for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..data.annotated import modalities
from ..data.wording import first_few
from .describe import attributes, r2_table
from .fitted import Fitted

FACTORS, KEY = "X_sshiba", "sshiba"


def write_to(fit: Fitted, data: Any) -> None:
    """Factors to `obsm`, weights to `varm`, variance explained to `uns`; by name, NaN where the fit knows none."""
    parts = modalities(data)
    known = {name: part for name, part in parts.items() if name in fit.schema.types}
    if not known:
        views = first_few(fit.schema.types, 10)
        raise ValueError(f"none of the modalities ({first_few(parts, 10)}) is a view of the model ({views}).")
    factors = pd.DataFrame(fit.factors, index=fit.index)
    if not factors.index.isin(data.obs_names).any():
        raise ValueError(
            f"no row of the fit is among the obs_names: the fit has {first_few(fit.index)}, the data "
            f"{first_few(data.obs_names)}. Fit data whose rows have these names."
        )
    for part in [data, *(part for part in known.values() if part is not data)]:
        part.obsm[FACTORS] = factors.reindex(part.obs_names).to_numpy()
    weights = attributes(fit)["weights_"]
    for name, part in known.items():
        coding = fit.schema.codings[name]
        if not coding.has_classes:  # whose weights belong to classes
            table = pd.DataFrame(np.asarray(weights[name]), index=pd.Index(list(coding.features)))
            part.varm[KEY] = table.reindex(part.var_names).to_numpy()
    explained = r2_table(fit)
    data.uns[KEY] = {"variance_explained": explained.set_axis(explained.index.map(str))}
