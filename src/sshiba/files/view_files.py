"""Files that hold several views: NumPy's .npz, and .h5mu and .h5ad of the single-cell world."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from ..data.sparse_tables import SparseTable
from ..data.wording import first_few
from .atomic import replacing
from .formats import FileError, ending_of, needing


def read_views(path: str, ending: str) -> Any:
    """A dict of arrays, a MuData or an AnnData."""
    return _read_npz(path) if ending == ".npz" else read_annotated(path, ending)


def _read_npz(path: str) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        views = {name: file[name] for name in file.files}
    wrong = [name for name, array in views.items() if array.ndim not in (1, 2)]
    if not views or wrong:
        raise FileError(
            f"{path!r} must hold arrays of rows by features" + (f", not {first_few(wrong)}." if wrong else ".")
        )
    return views


def read_annotated(path: str, ending: str, backed: str | None = None) -> Any:
    """A MuData or an AnnData; backed="r": its matrices stay in the file."""

    def load() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # mudata's own, which users cannot mend
            if ending == ".h5mu":
                import mudata

                return mudata.read_h5mu(path, backed=backed)
            import anndata

            return anndata.read_h5ad(path, backed=backed)

    if not Path(path).is_file():
        raise IsADirectoryError(path)
    return needing("mudata", load)


def write_views(given: Any, found: Mapping[str, Any], path: str) -> None:
    """Values of all views in the form in which the views were given; rows and names stay as they are."""
    if isinstance(given, Mapping):
        ending_of(path, (".npz",))
        with replacing(path) as temporary:
            write_arrays(temporary, ((name, np.asarray(values)) for name, values in found.items()))
        return
    ending_of(path, (".h5mu",) if hasattr(given, "mod") else (".h5ad",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mudata and anndata, about their own versions
        out = given.copy()
        for name, part in out.mod.items() if hasattr(out, "mod") else [("X", out)]:
            if isinstance(found[name], SparseTable):
                part.X = found[name].matrix
            else:
                part.X = found[name].loc[part.obs_names, part.var_names].to_numpy()
        with replacing(path) as temporary:
            out.write(temporary)


def write_arrays(path: Path, named: Iterable[tuple[str, np.ndarray]]) -> None:
    """A file of .npz; names are free, while `np.savez` takes those of its own arguments for these."""
    with ZipFile(path, "w", ZIP_STORED, allowZip64=True) as whole:
        for name, array in named:
            with whole.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array)
