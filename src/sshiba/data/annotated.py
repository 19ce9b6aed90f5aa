"""MuData and AnnData: their matrices, layers and columns of `obs` as views, and filled copies of them."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from .frame_library import FrameLibrary, FrameOrSeries
from .source_formats import find_source
from .sources import NamedRows, RowSource
from .sparse_tables import SparseTable, as_dense, has_missing, is_small, is_sparse_view, named_table
from .wording import first_few

logger = logging.getLogger("sshiba")

MATRIX = "X"  # the view that an AnnData alone is


def annotated(data: Any, layer: str | Mapping[str, str] | None = None, obs: Sequence[str] = ()) -> dict[str, Any]:
    """The views of a MuData or AnnData: a matrix of each modality, and columns of `obs`.

    `fit`, `transform` and all others take a MuData or AnnData as it is, and then mean each `X`. This is for those who
    mean something else. It gives a plain dict, so that what a model is fitted to can be seen and changed before it is,
    and no method needs options of its own for it. Give new rows in the same way, or they are read from `X`.

    Parameters
    ----------
    data : MuData or AnnData
    layer : str or mapping of modality to str, optional
        The layer to take instead of `X`: of all modalities, or of those named. The modality of an AnnData is "X".
    obs : sequence of str
        Columns of `obs`, each a view of its own, of its own name.

    Returns
    -------
    dict
        Modality -> DataFrame, or AnnData where its matrix is sparse; column of `obs` -> Series. All are named.

    Examples
    --------
    >>> views = sshiba.annotated(mdata, layer={"rna": "log"}, obs=["sex", "age"])  # doctest: +SKIP
    >>> model = SSHIBA().fit(views)  # doctest: +SKIP
    """
    parts = modalities(data)
    layers = layer if isinstance(layer, Mapping) else dict.fromkeys(parts, layer)
    for name in layers:
        if name not in parts:
            raise ValueError(f"there is no modality {name!r}; there are {first_few(parts, 10)}.")
    if isinstance(obs, str):
        raise TypeError(f"obs must be a list of columns: [{obs!r}].")
    views: dict[str, Any] = {name: _shown(matrix(part, name, layers.get(name))) for name, part in parts.items()}
    for column in obs:
        if column not in data.obs:
            raise ValueError(
                f"obs has no column {column!r}; it has {first_few(data.obs, 10) or 'none'}.{_hint(column, parts)}"
            )
        if column in views:
            raise ValueError(f"{column!r} is a modality and a column of obs, or named twice. Rename the column.")
        views[column] = data.obs[column]
    return views


def _shown(table: pd.DataFrame | SparseTable | RowSource) -> Any:
    """A frame, or rows elsewhere, as it is; a sparse matrix as an AnnData, which has its names."""
    if not isinstance(table, SparseTable):
        return table
    import anndata

    return anndata.AnnData(table.matrix, obs=pd.DataFrame(index=table.index), var=pd.DataFrame(index=table.columns))


def _hint(column: str, parts: Mapping[str, Any]) -> str:
    """Where a column of `obs` is to be found, if a modality has it."""
    owners = [name for name, part in parts.items() if column in part.obs]
    if not owners:
        return ""
    where = f"data[{owners[0]!r}].obs[{column!r}]"
    return f" Modality {owners[0]!r} has one: add it to the dict, views[{column!r}] = {where}."


def is_mudata(value: Any) -> bool:
    mudata = sys.modules.get("mudata")
    return mudata is not None and isinstance(value, mudata.MuData)


def is_anndata(value: Any) -> bool:
    anndata = sys.modules.get("anndata")
    return anndata is not None and isinstance(value, anndata.AnnData)


def modalities(data: Any) -> dict[str, Any]:
    """Name -> AnnData."""
    if is_mudata(data):
        return {str(name): part for name, part in data.mod.items()}
    if is_anndata(data):
        return {MATRIX: data}
    raise TypeError(f"give a MuData or an AnnData, not {type(data).__name__}.")


def matrix(data: Any, name: str, layer: str | None = None) -> pd.DataFrame | SparseTable | RowSource:
    """The matrix of a modality, or a layer, with its row and column names; in a file where it lies in one.

    A sparse one stays so, in a scratch file where it lies in a file. Where some of its cells are missing it becomes a
    frame if it is small, and else is refused when it is read.
    """
    if layer is not None and layer not in data.layers:
        known = [key for key in data.layers if key is not None]  # newer versions count X among them, as None
        raise ValueError(f"modality {name!r} has no layer {layer!r}; it has {first_few(known, 10) or 'none'}.")
    values = data.X if layer is None else data.layers[layer]
    if values is None:
        raise ValueError(f"modality {name!r} has no X. Name a layer (sshiba.annotated), or leave the modality out.")
    for names, of in ((data.obs_names, "obs"), (data.var_names, "var")):
        if not names.is_unique:
            twice = first_few(names[names.duplicated()].unique())
            raise ValueError(f"modality {name!r}: {of}_names {twice} are not unique. Call {of}_names_make_unique().")
    index, columns = pd.Index(data.obs_names), pd.Index(data.var_names)
    source = None if is_sparse_view(values) else find_source(values, name)
    if source is not None:
        return NamedRows(source, index, columns)
    if not is_sparse_view(values):
        return pd.DataFrame(np.asarray(values), index=index, columns=columns, copy=False)
    table = named_table(values, index, columns, name)
    return as_dense(table) if has_missing(table.matrix) and is_small(table) else table


# ------------------------------------------------------------------------------------------- filled copies


class Annotated(FrameLibrary):
    """AnnData, of which X is read; what is not a filled copy of it comes as pandas has it."""

    def holds(self, value: Any) -> bool:
        return is_anndata(value)

    def to_pandas(self, value: Any, name: str) -> Any:
        return matrix(value, name)

    def filled(self, table: FrameOrSeries, given: Any, read: Any) -> Any:
        copy = _copy(given)
        _fill_matrix(copy, table)
        return copy

    def deviations(self, table: FrameOrSeries, given: Any) -> Any:
        import anndata

        values = table.matrix if isinstance(table, SparseTable) else table.loc[given.obs_names].to_numpy()
        return anndata.AnnData(values, obs=given.obs.copy(), var=given.var.copy())


def filled_mudata(given: Any, tables: Mapping[str, pd.DataFrame]) -> Any:
    """A copy of a MuData with the holes of each X filled; observations that a modality lacks are not added."""
    copy = _copy(given)
    for name, part in copy.mod.items():
        _fill_matrix(part, tables[name])
        lacking = len(tables[name]) - part.n_obs
        if lacking:
            logger.warning(
                "modality %r lacks %d of %d observations, and they are not added: impute(sshiba.annotated(data)) "
                "gives all rows of all modalities",
                *(name, lacking, len(tables[name])),
            )
    return copy


def mudata_of_deviations(given: Any, tables: Mapping[str, pd.DataFrame]) -> Any:
    """A MuData whose matrices are the standard deviations of what was filled in."""
    import mudata

    with unwarned():
        return mudata.MuData({name: Annotated().deviations(tables[name], part) for name, part in given.mod.items()})


def _copy(data: Any) -> Any:
    """In memory, also of what is read from a file as it is needed."""
    with unwarned():
        return data.to_memory() if data.isbacked else data.copy()


@contextmanager
def unwarned() -> Iterator[None]:
    """Without what mudata warns of when a MuData is made: changes to come, of its own and of pandas that it uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _fill_matrix(data: Any, table: pd.DataFrame | pd.Series) -> None:
    """Set X, unless nothing changed: then it stays as it is, sparse or not."""
    if hasattr(data.X, "toarray"):
        changed = bool(np.isnan(data.X.data).any())
    else:
        changed = not np.array_equal(np.asarray(data.X), table.loc[data.obs_names].to_numpy())
    if changed:
        data.X = table.loc[data.obs_names].to_numpy()
