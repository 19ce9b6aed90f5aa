"""Ugly files: tables in text that were cut off, spoilt, written in odd encodings or under a wrong ending."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import numpy as np
import pandas as pd

from .ugly_views import Rng, pick

ODD_HEADERS = [
    *(
        "",
        " ",
        "a",
        "name",
        "name",
        'quo"te',
        "it's",
        "two\nlines",
        "🐕",
        "=1+1",
        "@x",
        "</script>",
        "[red]",
        "a,b",
        "a;b",
    ),
    *("id", "x" * 500, "1", "2.5", "nan", "\ufeffbom", "..", "%s{0}", "имя", "c0", "c1", "c2"),
]
ODD_CELLS = [
    *(
        "",
        " ",
        "NA",
        "?",
        "-",
        "1,5",
        "1.234,5",
        "$3",
        "5%",
        "1e400",
        "-1e-400",
        "inf",
        "nan",
        "0x1F",
        "1_000",
        "９",
        "½",
    ),
    *(
        "2020-01-01",
        "31/12/2020",
        "yes",
        "no",
        "TRUE",
        "lo",
        "hi",
        "=1+1",
        "<b>",
        "🐕",
        'a"b',
        "x" * 3000,
        "1e300",
        "7" * 40,
    ),
]
WRONG_ENDINGS = (
    ".csv",
    ".tsv",
    ".txt",
    ".parquet",
    ".xlsx",
    ".npy",
    ".npz",
    ".h5",
    ".h5mu",
    ".h5ad",
    ".feather",
    ".csv.gz",
)


def clean_table(rng: Rng, n: int) -> pd.DataFrame:
    z = rng.standard_normal(n)
    frame = pd.DataFrame({f"c{j}": z + 0.4 * rng.standard_normal(n) for j in range(3)})
    frame["who"] = np.where(z > 0, "hi", "lo")
    frame.insert(0, "id", [f"r{i}" for i in range(n)])
    return frame


def text_table(rng: Rng) -> str:
    """A table as text, more or less as it should be."""
    n = int(pick(rng, [0, 1, 2, 5, 12, 12, 30, 30, 30]))
    known = rng.random() < 0.5  # the data of the model that the commands are given
    n = 40 if known else n
    frame = clean_table(np.random.default_rng(0) if known else rng, n).astype(object)
    if rng.random() < 0.2:
        frame.columns = [pick(rng, ODD_HEADERS) if rng.random() < 0.3 else name for name in frame.columns]
    for _ in range(int(pick(rng, [0, 0, 1, 1, 2, 6])) if n else 0):
        frame.iloc[rng.integers(n), rng.integers(frame.shape[1])] = pick(rng, ODD_CELLS)
    if rng.random() < 0.03:
        wide = pd.DataFrame(rng.standard_normal((max(n, 1), 3000)).round(2))
        frame = wide.rename(columns="w{}".format)
    out = io.StringIO()
    ends = pick(rng, ["\n", "\n", "\n", "\r\n", "\r"])
    frame.to_csv(out, index=False, sep=pick(rng, [",", ",", ",", ";", "\t", "|"]), lineterminator=ends)
    return out.getvalue()


def spoilt(rng: Rng, text: str) -> bytes:
    """The bytes of the text, with something wrong, or nothing."""
    encoding = pick(
        rng, [*["utf-8"] * 30, "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32", "cp037", "shift-jis"]
    )
    raw = text.encode(encoding, errors="replace")
    what = pick(
        rng, [*["none"] * 12, "cut", "flip", "insert", "nul", "ragged", "quote", "empty", "noise", "line", "gzip"]
    )
    if what == "cut":
        return raw[: rng.integers(len(raw) + 1)]
    if what == "flip" and raw:
        changed = bytearray(raw)
        for _ in range(int(rng.integers(1, 10))):
            changed[rng.integers(len(raw))] = rng.integers(256)
        return bytes(changed)
    if what == "insert":
        place = int(rng.integers(len(raw) + 1))
        return raw[:place] + rng.bytes(int(rng.integers(1, 60))) + raw[place:]
    if what == "nul":
        return raw.replace(b"1", b"\x00")
    if what == "ragged":
        lines = raw.splitlines(keepends=True)
        return b"".join(line if rng.random() < 0.7 else b"1,2," + line for line in lines)
    if what == "quote":
        return raw.replace(b"r1", b'"r1', 1)
    if what == "empty":
        return pick(
            rng, [b"", b"\n", b"\n\n\n", b" ", b"\xff\xfe", b"\xef\xbb\xbf", b"a", b"a,b,c", b"a,b,c\n", b"\x00" * 50]
        )
    if what == "noise":
        return rng.bytes(int(rng.integers(1, 3000)))
    if what == "line":
        return b"c0,c1,c2\n" + b"1" * int(rng.integers(10, 2_000_000))
    if what == "gzip":
        return gzip.compress(raw)[: int(pick(rng, [10**9, 30]))]
    return raw


def binary_table(rng: Rng, path: Path) -> bytes | None:
    """A file of another format, whole, before it is spoilt."""
    frame = clean_table(rng, int(pick(rng, [0, 1, 12])))
    ending = "".join(path.suffixes[-1:])
    made = path.with_name("whole" + ending)
    if ending == ".parquet":
        frame.to_parquet(made)
    elif ending == ".feather":
        frame.to_feather(made)
    elif ending == ".xlsx":
        frame.to_excel(made, index=False)
    elif ending == ".npy":
        np.save(
            made, pick(rng, [frame[["c0", "c1"]].to_numpy(), np.array([{"a": 1}], dtype=object), np.zeros((2, 2, 2))])
        )
    elif ending == ".npz":
        np.savez(made, a=frame[["c0", "c1"]].to_numpy(), b=np.array([None, 1], dtype=object))
    else:
        return None
    raw = made.read_bytes()
    made.unlink()
    return raw


def write_ugly(rng: Rng, folder: Path, stem: str = "data") -> str:
    """One ugly file; its name."""
    choice = rng.random()
    if choice < 0.02:
        (folder / "folder.csv").mkdir(exist_ok=True)
        return "folder.csv"
    if choice < 0.04:
        return pick(
            rng,
            [
                "none.csv",
                "",
                ".",
                "/",
                "none",
                "a\x00b".replace("\x00", ""),
                "x" * 300 + ".csv",
                "http://localhost/x.csv",
            ],
        )
    if choice < 0.05:
        if not (folder / "loop.csv").is_symlink():
            os.symlink(folder / "loop.csv", folder / "loop.csv")
        return "loop.csv"
    ending = ".csv" if choice < 0.7 else pick(rng, WRONG_ENDINGS)
    path = folder / f"{stem}{ending}"
    raw = binary_table(rng, path) if rng.random() < 0.7 else None
    if raw is None:
        raw = spoilt(rng, text_table(rng))
    elif rng.random() < 0.7:
        changed = bytearray(raw[: int(rng.integers(1, len(raw) + 1))] if rng.random() < 0.4 else raw)
        for _ in range(int(rng.integers(0, 12))):
            changed[rng.integers(len(changed))] = rng.integers(256)
        raw = bytes(changed)
    path.write_bytes(raw)
    return path.name
