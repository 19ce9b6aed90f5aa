"""The border: data of other libraries become pandas here on their way in, and answers go back here in kind.

Inside there are dicts of arrays, pandas objects and sparse matrices (with names: `SparseTable`), or one DataFrame, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from .alignment import rows_to_follow
from .annotated import MATRIX, Annotated, filled_mudata, is_anndata, is_mudata, modalities, mudata_of_deviations
from .arrow_tables import Arrow
from .dask_answers import answer_lazily, in_partitions
from .frame_library import FrameLibrary
from .polars_frames import Polars
from .source_formats import find_source
from .sparse_tables import SparseTable
from .tensors import is_shared, read_shared

PANDAS = FrameLibrary()
LIBRARIES = (PANDAS, Polars(), Arrow(), Annotated())


def library_of(value: Any) -> FrameLibrary | None:
    """The library that holds a value; None for arrays, lists and what is no table."""
    return next((library for library in LIBRARIES if library.holds(value)), None)


# --------------------------------------------------------------------------------------------- the way in


def as_views(data: Any) -> Any:
    """MuData, AnnData and frames of polars and Arrow as pandas objects, tensors on the host as arrays; everything else
    as it is.
    """
    parts = _parts(data)
    if not isinstance(parts, Mapping):
        return _read(parts, "")
    views = {name: _read(part, name) for name, part in parts.items()}
    return _name_rows(views, [name for name, part in parts.items() if _lacks_row_names(part, views[name])])


def _parts(data: Any) -> Any:
    """MuData and AnnData as dicts of AnnData, an array or a sparse matrix as one view; everything else as it is."""
    if is_matrix(data):
        return {MATRIX: data}
    return modalities(data) if is_mudata(data) or is_anndata(data) else data


def is_matrix(data: Any) -> bool:
    """Is this one array of rows and columns?"""
    return (isinstance(data, np.ndarray) and data.ndim == 2) or sparse.issparse(data)


def _read(value: Any, name: str) -> Any:
    library = library_of(value)
    if library is not None:
        return library.to_pandas(value, name)
    source = find_source(value, name)
    if source is not None:
        return source
    if is_shared(value):
        return read_shared(value, name)
    if hasattr(value, "to_pandas") or type(value).__name__ == "LazyFrame":
        whose = f"view {name!r} is" if name else "the data are"
        package = type(value).__module__.split(".")[0]
        if hasattr(value, "to_pandas"):
            raise TypeError(f"{whose} a {package} frame. Give frame.to_pandas().")
        raise TypeError(f"{whose} a {package} LazyFrame. Give frame.collect().")
    return value


def has_row_names(view: Any) -> bool:
    """Has a view, as it is inside, labels by which its rows are matched?"""
    return view.has_names if isinstance(view, SparseTable) else PANDAS.holds(view)


def _lacks_row_names(given: Any, read: Any) -> bool:
    library = library_of(given)
    return library is not None and not library.has_row_names and isinstance(read.index, pd.RangeIndex)


def _name_rows(views: dict[str, Any], nameless: list[str]) -> dict[str, Any]:
    """Frames without row names are matched row by row: with one another, and with frames that have names."""
    if not nameless:
        return views
    lengths = {name: len(views[name]) for name in nameless}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        raise ValueError(
            f"views with different numbers of rows: {listed}. Frames without row names are matched row by row: "
            "fill absent rows with null, or give pandas frames, which are matched by index."
        )
    named = {name: view.index for name, view in views.items() if has_row_names(view) and name not in nameless}
    if not named:
        return views
    index = rows_to_follow(named, lengths)
    return {name: view.set_axis(index) if name in nameless else view for name, view in views.items()}


# -------------------------------------------------------------------------------------------- the way out


def answers_in_kind(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method about the rows of its first argument, answering in the library in which they came.

    Where they came in several, that is pandas, which has the rows' names. About a Dask collection it is one, too.
    """

    @wraps(method)
    def crossing(self: Any, views: Any, *args: Any, **options: Any) -> Any:
        partitions = in_partitions(views)
        if partitions is not None:
            return answer_lazily(self, method.__name__, views, partitions, args, options)
        return _each(method(self, as_views(views), *args, **options), _library(views).answer)

    return crossing


def fills_in_kind(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that fills the holes of its first argument, giving back what came.

    It returns several such data as a list; or the data filled, deviations, a dict of the same data filled otherwise,
    and a dict of tables about them, each of the last three empty where it was not asked for.
    """

    @wraps(method)
    def crossing(self: Any, views: Any, *args: Any, **options: Any) -> Any:
        partitions = in_partitions(views)
        if partitions is not None:
            return answer_lazily(self, method.__name__, views, partitions, args, options)
        read = as_views(views)
        found = method(self, read, *args, **options)
        if isinstance(found, tuple):
            filled, deviations, others, tables = found
            return (
                _filled(filled, views, read),
                deviations if isinstance(deviations, dict) and not deviations else _deviations(deviations, views),
                {key: _filled(part, views, read) for key, part in others.items()},
                _each(tables, _library(views).answer),
            )
        if isinstance(found, list):  # several times the same data
            return [_filled(one, views, read) for one in found]
        return _filled(found, views, read)

    return crossing


def _library(views: Any) -> FrameLibrary:
    """That of all of them, or pandas."""
    parts = _parts(views)
    found = [library_of(part) for part in (parts.values() if isinstance(parts, Mapping) else [parts])]
    libraries = {library for library in found if library is not None}
    return libraries.pop() if len(libraries) == 1 else PANDAS


def _filled(found: Any, given: Any, read: Any) -> Any:
    if is_mudata(given):
        return filled_mudata(given, found)
    if isinstance(given, Mapping):
        return {name: _filled(part, given[name], read[name]) for name, part in found.items()}
    if (is_anndata(given) or is_matrix(given)) and isinstance(found, dict):
        return _filled(found[MATRIX], given, read[MATRIX])
    library = library_of(given)
    return found if library is None else library.filled(found, given, read)


def _deviations(found: Any, given: Any) -> Any:
    if is_mudata(given):
        return mudata_of_deviations(given, found)
    if isinstance(given, Mapping):
        return {name: _deviations(part, given[name]) for name, part in found.items()}
    if (is_anndata(given) or is_matrix(given)) and isinstance(found, dict):
        return _deviations(found[MATRIX], given)
    library = library_of(given)
    if library is None or isinstance(found, np.ndarray):  # of a view that was an array in training
        return found
    return library.deviations(found, given)


def _each(found: Any, change: Callable[[Any], Any]) -> Any:
    """Every table in an answer, changed; arrays stay."""
    if isinstance(found, tuple | list):
        return type(found)(_each(part, change) for part in found)
    if isinstance(found, dict):
        return {name: _each(part, change) for name, part in found.items()}
    return change(found) if PANDAS.holds(found) else found
