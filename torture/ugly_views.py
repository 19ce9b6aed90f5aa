"""Ugly data: values of every type and scale, holes, names and labels of every kind, in every container."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

Rng = np.random.Generator
KINDS = (*("real", "binary", "categorical", "ordinal", "count") * 4, "constant", "empty", "nonsense")
ODD_NAMES = [
    *(
        "",
        " ",
        "a",
        "a ",
        "A",
        "naïve",
        "имя",
        "🐕",
        'quote"d',
        "it's",
        "two\nlines",
        "tab\t",
        "</script>",
        "=1+1",
        "x" * 300,
    ),
    *(
        "nan",
        "None",
        "[bold]",
        "a:b",
        "a,b",
        "a=b",
        "../up",
        "\x00null",
        0,
        1,
        -1,
        2.5,
        True,
        ("a", 1),
        None,
        float("nan"),
    ),
    pd.Timestamp("2020-01-01"),
]
ODD_LABELS = [
    *(
        "lo",
        "mid",
        "hi",
        "",
        " ",
        "Lo",
        "n/a",
        "NA",
        "None",
        "nan",
        "yes",
        "no",
        "🐕",
        "</b>",
        "1",
        "1.0",
        "2020-01-01",
    ),
    *("=cmd()", "a" * 200, 0, 1, 2, 2.5, -1, True, False, None, float("nan"), float("inf"), pd.NA, pd.NaT),
    *(b"bytes", dt.date(2020, 1, 1), ("a", "b"), frozenset([1]), 10**30, 1 + 2j),
]
ODD_NUMBERS = [np.inf, -np.inf, 1e300, -1e300, 1.7e308, 1e-300, 5e-324, -0.0, 999.0, -999.0, 2.0**53, 1e18]


def pick(rng: Rng, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


# ------------------------------------------------------------------------------------------------------- values


def values(rng: Rng, kind: str, n: int, d: int) -> np.ndarray:
    """(n, d): floats with NaN where cells are missing, or objects."""
    z = rng.standard_normal((n, 2))
    x = z @ rng.standard_normal((2, d)) + 0.3 * rng.standard_normal((n, d))
    if kind == "real":
        return with_holes(rng, scaled(rng, x))
    if kind == "binary":
        return with_holes(rng, (x > rng.normal()).astype(float))
    if kind == "ordinal":
        return with_holes(rng, np.clip(np.round(x * 1.5), -2, 2))
    if kind == "count":
        rates = np.exp(np.minimum(x + rng.normal(0, 2), 15))
        return with_holes(rng, rng.poisson(rates).astype(float))
    if kind == "constant":
        return with_holes(rng, np.full((n, d), float(pick(rng, [0.0, 1.0, 7.0, -1e300, 1e-300, 0.1]))))
    if kind == "empty":
        return np.full((n, d), np.nan)
    labels = ["lo", "mid", "hi"] if rng.random() < 0.8 else [pick(rng, ODD_LABELS) for _ in range(rng.integers(1, 6))]
    cells = np.empty((n, d), dtype=object)
    for place in np.ndindex(n, d):
        cells[place] = pick(rng, labels) if kind == "categorical" else pick(rng, [*ODD_LABELS, 3.5, 2.25, 1e300])
    return cells


def scaled(rng: Rng, x: np.ndarray) -> np.ndarray:
    """In the units of one column, or of each, from 1e-300 to 1e300; sometimes far from 0, sometimes with odd cells."""
    n, d = x.shape
    choice = rng.random()
    with np.errstate(all="ignore"):
        if choice < 0.2:
            x = x * 10.0 ** rng.uniform(-300, 300, size=d if rng.random() < 0.5 else 1)
        elif choice < 0.3:
            x = x + 10.0 ** rng.uniform(0, 20)
        elif choice < 0.4:
            x = np.sign(x) * np.exp(np.abs(x) * rng.uniform(1, 200))
        if rng.random() < 0.15 and x.size:
            x = x.copy()
            for _ in range(rng.integers(1, 3)):
                x[rng.integers(n), rng.integers(d)] = pick(rng, ODD_NUMBERS)
    return x


def with_holes(rng: Rng, x: np.ndarray) -> np.ndarray:
    x, (n, d) = x.copy(), x.shape
    pattern = pick(rng, [*["none", "random", "rows", "first"] * 3, "checks", "columns", "nearly all"])
    if not x.size or pattern == "none":
        return x
    if pattern == "random":
        x[rng.random((n, d)) < pick(rng, [0.05, 0.2, 0.6])] = np.nan
    elif pattern == "rows":
        x[rng.random(n) < 0.4] = np.nan
    elif pattern == "columns":
        x[:, rng.integers(d)] = np.nan
    elif pattern == "first":
        x[0] = np.nan
    elif pattern == "checks":
        x[(np.arange(n)[:, None] + np.arange(d)) % 2 == 0] = np.nan
    else:
        seen = x[rng.integers(n), :].copy()
        x[:] = np.nan
        x[rng.integers(n)] = seen
    return x


# -------------------------------------------------------------------------------------------------- names, indices


def names(rng: Rng, d: int) -> list[Any]:
    if rng.random() < 0.75:
        return [f"c{j}" for j in range(d)]
    return [pick(rng, ODD_NAMES) for _ in range(d)]  # some of them twice


def index(rng: Rng, n: int) -> pd.Index:
    kind = pick(rng, [*["range"] * 8, "text", "shuffled", "odd", "twice", "two levels", "dates", "floats", "nan"])
    if kind == "text":
        return pd.Index([f"r{i}" for i in range(n)])
    if kind == "shuffled":
        return pd.Index(rng.permutation(n) + 5, name=pick(rng, [None, "id", "", 0]))
    if kind == "odd":
        return pd.Index([(ODD_NAMES[i % len(ODD_NAMES)], f"r{i}")[i >= len(ODD_NAMES)] for i in range(n)], dtype=object)
    if kind == "twice":
        return pd.Index([f"r{i // 2}" for i in range(n)])
    if kind == "two levels":
        return pd.MultiIndex.from_arrays([np.arange(n) // 2, np.arange(n) % 2], names=["site", None])
    if kind == "dates":
        return pd.date_range("2020-01-01", periods=n, tz=pick(rng, [None, "UTC"]))
    if kind == "floats":
        return pd.Index(np.arange(n) / 3)
    if kind == "nan":
        return pd.Index([np.nan, *range(1, n)])
    return pd.RangeIndex(n)


# ---------------------------------------------------------------------------------------------------- containers


def contained(rng: Rng, x: np.ndarray, rows: pd.Index) -> Any:
    """The values in some container; numbers have more of them than objects."""
    makers: list[Callable[[], Any]] = [
        lambda: pd.DataFrame(x, index=rows, columns=pd.Index(names(rng, x.shape[1]), dtype=object)),
        lambda: dtyped(rng, pd.DataFrame(x, index=rows, columns=pd.Index(names(rng, x.shape[1]), dtype=object))),
        lambda: x,
        lambda: x.tolist(),
        lambda: np.asfortranarray(x),
        lambda: np.repeat(x, 2, axis=0)[::2],
        lambda: read_only(x),
        lambda: pd.Series(x[:, 0] if x.shape[1] else x.sum(axis=1), index=rows, name=pick(rng, ODD_NAMES[:-3])),
        lambda: x[:, 0] if x.shape[1] else x,
        lambda: x.astype(object),
        lambda: polars_frame(x),
        lambda: arrow_table(x),
        lambda: annotated(x, rows),
        lambda: dask_array(x),
    ]
    if rng.random() < 0.04:
        return strange(rng, x)
    if x.dtype.kind == "f":
        makers += [
            lambda: np.ma.masked_invalid(x),
            lambda: np.ma.masked_array(np.nan_to_num(x), mask=rng.random(x.shape) < 0.2),
            lambda: sparse_matrix(rng, x),
            lambda: quietly(lambda: x.astype(pick(rng, ["f4", "f2", ">f8", "longdouble"]))),
            lambda: quietly(lambda: np.nan_to_num(x).astype(pick(rng, ["i8", "i4", "u1", "bool", ">i2"]))),
            lambda: pd.DataFrame(x, index=rows).astype("Sparse[float]"),
            lambda: np.asmatrix(x),
        ]
    try:
        return pick(rng, makers)()
    except Exception:  # the other library refuses: then it is no input
        return pd.DataFrame(x, index=rows, columns=[f"c{j}" for j in range(x.shape[1])])


def quietly(make: Callable[[], Any]) -> Any:
    with np.errstate(all="ignore"):
        return make()


def read_only(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    y.flags.writeable = False
    return y


def dtyped(rng: Rng, frame: pd.DataFrame) -> pd.DataFrame:
    """Each column, or all, in a dtype of pandas' own, of Arrow or of text."""
    kinds = ["Float64", "Float32", "category", "string", "object", "double[pyarrow]", "string[pyarrow]", "str"]
    kinds += ["Int64", "boolean", "int64[pyarrow]", "bool[pyarrow]", "datetime64[ns]", "timedelta64[ns]", "period[D]"]
    out, kind = frame.copy(), pick(rng, kinds)
    columns = []
    for j in range(out.shape[1]):
        column = out.iloc[:, j]
        try:
            columns.append(column.astype(kind if rng.random() < 0.6 else pick(rng, kinds)))
        except Exception:  # a cell that this dtype cannot hold
            columns.append(column)
    if not columns:
        return out
    typed = pd.concat(columns, axis=1)
    typed.columns = frame.columns
    if rng.random() < 0.1:
        typed.columns = pd.MultiIndex.from_tuples([("level", j) for j in range(typed.shape[1])])
    return typed


def polars_frame(x: np.ndarray) -> Any:
    import polars as pl

    return pl.DataFrame({f"c{j}": x[:, j].tolist() for j in range(x.shape[1])}, strict=False, nan_to_null=True)


def arrow_table(x: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.table({f"c{j}": x[:, j].tolist() for j in range(x.shape[1])})


def annotated(x: np.ndarray, rows: pd.Index) -> Any:
    from anndata import AnnData

    return AnnData(x.astype(float), obs=pd.DataFrame(index=rows.map(str)))


def dask_array(x: np.ndarray) -> Any:
    import dask.array as da

    return da.from_array(x, chunks=(max(1, len(x) // 2), -1))


def sparse_matrix(rng: Rng, x: np.ndarray) -> Any:
    cells = np.where(np.isnan(x) | (rng.random(x.shape) < 0.5), 0.0, x)
    made = pick(rng, [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.lil_matrix, sparse.bsr_array])(
        cells
    )
    if rng.random() < 0.2:
        made = made.astype(pick(rng, ["f4", "i8", "bool"]))
    return made


def strange(rng: Rng, x: np.ndarray) -> Any:
    """What is no table at all."""
    return pick(
        rng,
        [
            *(None, 3, "text", "no-such-file.npy", b"", {}, [], [[]], (), {1}, {"a": 1}, object(), iter([1, 2])),
            *([[1, 2], [3]], [1, [2, 3]], x[None], x[:, :, None], np.float64(2.0), x[:0], x[:, :0], np.zeros((0, 0))),
            np.zeros(len(x), dtype=[("a", "f8"), ("b", "i4")]),
            np.zeros(x.shape, dtype="datetime64[s]"),
            np.zeros(x.shape, dtype="S3"),
            np.full(x.shape, "1.5"),
            np.zeros(x.shape, dtype=complex),
            (row for row in x),
            lambda: iter([x]),
            lambda: [1, 2],
            pd.DataFrame(),
            pd.DataFrame(index=range(len(x))),
            range(len(x)),
        ],
    )
