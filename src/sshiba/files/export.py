"""What a fitted model found as CSV files: factors, weights, variance explained, noise."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from ..data.coding import labelled_frame
from ..fitted.describe import attributes, r2_table
from ..fitted.fitted import Fitted
from .formats import FileError
from .writing import check_target, write


def export_model(fit: Fitted, folder: Path, force: bool = False) -> list[Path]:
    """Write the tables of a model into a folder, and say which files there are.

    factors.csv and factors_std.csv (rows x factors), weights_VIEW.csv (features x factors), r2.csv (factors x views),
    noise.csv (a row for each feature: bias and standard deviation of the noise), covariate_effects.csv where there are
    covariates; all in the user's units.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{str(folder)!r} is a file; name a folder.")
    tables = {folder / f"{name}.csv": table for name, table in model_tables(fit).items()}
    if folder.exists():
        for path in tables:
            check_target(str(path), force)
    folder.mkdir(parents=True, exist_ok=True)
    for path, table in tables.items():
        write(table, str(path))
    return list(tables)


def model_tables(fit: Fitted) -> dict[str, pd.DataFrame]:
    """Name -> table; factors are named from 1 to K."""
    found = attributes(fit)
    index = fit.index if fit.index.nlevels > 1 else fit.index.rename(fit.index.name or "row")
    tables = {
        "factors": labelled_frame(fit.factors, fit.factor_names, index),
        "factors_std": labelled_frame(fit.factors_std, fit.factor_names, index),
    }
    noise = []
    for name, coding in fit.schema.codings.items():
        features = pd.Index([str(feature) for feature in coding.latent_names], name="feature")
        key = "weights_" + re.sub(r"[^\w.-]+", "_", name)
        while key in tables:
            key += "_"
        tables[key] = labelled_frame(np.asarray(found["weights_"][name]), fit.factor_names, features)
        bias, noise_std = (np.asarray(found[what][name]) for what in ("bias_", "noise_std_"))
        parts = {"view": name, "bias": bias, "noise std": noise_std}
        noise.append(pd.DataFrame(parts, index=features).reset_index().set_index("view"))
    tables["r2"] = r2_table(fit).rename_axis("factor")
    tables["noise"] = pd.concat(noise)
    if fit.schema.covariates is not None:
        tables["covariate_effects"] = found["covariate_effects_"].reset_index().set_index("view")
    return tables
