"""Files from strangers: forged and damaged model files are refused in one sentence, or are the same model."""

from __future__ import annotations

import io
import json
import re
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from sshiba import SSHIBA, Categorical, ModelFileError, Ordinal, Real, load

from .runner import Suite, demand, main
from .ugly_views import Rng, pick

JSON, ARRAYS = "model.json", "arrays.safetensors"
MEMORY = 2 * 2**30  # bytes that reading a file may take
ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 10**400, 2**63, 1.5, float("nan"), float("inf"), -1e308, "", "x", "a" * 10_000),
    *([], [None], [[]], {}, {"a": 1}, [0] * 1000, "../../etc/passwd", "__import__('os')", "real", "odd"),
]


@cache
def whole() -> tuple[SSHIBA, bytes, dict[str, Any], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A model with many parts, its file, what is in it, and rows to ask it about."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((30, 2))
    views = {
        "x": z @ rng.standard_normal((2, 3)) + 0.2 * rng.standard_normal((30, 3)),
        "y": np.array(["a", "b", "c"])[np.argmax(np.c_[z, -z[:, :1]], axis=1)],
        "g": np.clip(np.round(z[:, :1]), -1, 1),
        "k": rng.standard_normal((30, 2)),
    }
    types = {"x": Real(margin="auto", limits=(-2.0, None)), "y": Categorical(), "g": Ordinal(), "k": Real(kernel="rbf")}
    views["batch"] = np.resize(["u", "v"], 30)
    with warnings.catch_warnings(action="ignore"):
        model = SSHIBA(2, types, max_iter=8, search=None, random_state=0, covariates={"batch": "categorical"}).fit(
            views
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.sshiba")
        model.save(path)
        raw = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        header, arrays = json.loads(archive.read(JSON)), load_arrays(archive.read(ARRAYS))
    header["provenance"] = dict.fromkeys(header["provenance"], "")
    for restart in header["result"]["inits"]:
        restart |= {key: 0.0 for key in restart if "seconds" in key}
    raw = packed([(JSON, json.dumps(header).encode()), (ARRAYS, save_arrays(arrays))])
    return model, raw, header, arrays, views


def packed(entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "w", method) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)  # without the time of day: a seed is one file
            info.compress_type = method
            archive.writestr(info, content)
    return out.getvalue()


# ---------------------------------------------------------------------------------------------------- forgeries


def flipped(rng: Rng, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(int(pick(rng, [1, 1, 2, 8, 64]))):
        changed[rng.integers(len(raw))] = rng.integers(256)
    return bytes(changed)


def cut(rng: Rng, raw: bytes) -> bytes:
    a, b = sorted(rng.integers(len(raw) + 1, size=2).tolist())
    return pick(rng, [raw[:a], raw[a:], raw[:a] + raw[b:], raw + rng.bytes(50), raw[:a] + rng.bytes(40) + raw[a:]])


def forged_json(rng: Rng) -> bytes:
    """One value of the header is another."""
    _, _, header, arrays, _ = whole()
    header = json.loads(json.dumps(header))
    for _ in range(int(rng.integers(1, 3))):
        place: Any = header
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = pick(rng, keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:
                place = place[key]
                continue
            choice = rng.random()
            if choice < 0.2:
                del place[key]
            elif choice < 0.3 and isinstance(place, list):
                place.append(place[key])
            elif choice < 0.5 and isinstance(place[key], int | float) and not isinstance(place[key], bool):
                place[key] = pick(
                    rng, [place[key] + 1, place[key] - 1, -place[key], float(place[key]), place[key] * 10**9]
                )
            else:
                place[key] = pick(rng, ODD_VALUES)
            break
        if not header:
            break
    return packed([(JSON, json.dumps(header).encode()), (ARRAYS, save_arrays(arrays))])


def forged_arrays(rng: Rng) -> bytes:
    """An array of another size, type or content, or none."""
    _, _, header, arrays, _ = whole()
    arrays = dict(arrays)
    name = pick(rng, list(arrays))
    x = arrays[name]
    choice = pick(rng, ["drop", "shape", "longer", "dtype", "nan", "huge", "negative", "zero", "swap", "flat"])
    if choice == "drop":
        del arrays[name]
    elif choice == "shape":
        arrays[name] = np.ascontiguousarray(x[..., None])
    elif choice == "longer":
        arrays[name] = np.ascontiguousarray(np.concatenate([np.atleast_1d(x)] * 2))
    elif choice == "dtype":
        arrays[name] = x.astype(pick(rng, ["f4", "i8", "u1", "bool", "f2"]))
    elif choice == "flat":
        arrays[name] = np.ascontiguousarray(x.ravel()[: int(rng.integers(x.size + 1))])
    elif choice == "swap":
        other = pick(rng, list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif x.size:
        value = {"nan": np.nan, "huge": 1e300, "negative": -1.0, "zero": 0.0}[choice]
        y = x.astype(float) if x.dtype.kind == "f" else x.copy()
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            y.reshape(-1)[rng.integers(y.size)] = value if y.dtype.kind == "f" else pick(rng, [-1, 10**6, 3])
        arrays[name] = y
    return packed([(JSON, json.dumps(header).encode()), (ARRAYS, save_arrays(arrays))])


def forged_tensors(rng: Rng) -> bytes:
    """safetensors whose header lies: offsets, shapes, types, lengths."""
    _, _, header, arrays, _ = whole()
    raw = save_arrays(arrays)
    n = int.from_bytes(raw[:8], "little")
    listed, body = json.loads(raw[8 : 8 + n]), raw[8 + n :]
    own = listed[pick(rng, [name for name in listed if name != "__metadata__"])]
    choice = pick(rng, ["offset", "shape", "dtype", "length", "deep", "key"])
    if choice == "offset":
        own["data_offsets"] = pick(
            rng, [[0, 2**62], [-8, 0], [8, 0], [len(body), len(body) + 800], [0, 3], ["a", "b"], []]
        )
    elif choice == "shape":
        own["shape"] = pick(rng, [[2**31, 2**31], [-1], [0], [], [1.5], "x", [2**63], [1] * 70])
    elif choice == "dtype":
        own["dtype"] = pick(rng, ["F64", "F16", "I64", "BF16", "U8", "BOOL", "X9", 3, None])
    elif choice == "deep":
        listed["__metadata__"] = json.loads("[" * 500 + "]" * 500)
    elif choice == "key":
        listed = pick(rng, [[], {}, {"a": 3}, {"a": None}, {**listed, "w": {}}])
    text = json.dumps(listed).encode()
    size = int(pick(rng, [0, 1, 2**40, 2**63, len(text) - 3])) if choice == "length" else len(text)
    forged = (size % 2**64).to_bytes(8, "little") + text + body
    return packed([(JSON, json.dumps(header).encode()), (ARRAYS, forged)])


def forged_zip(rng: Rng) -> bytes:
    """Bombs, paths that lead elsewhere, links, names twice, JSON without an end, a version to come."""
    _, _, header, arrays, _ = whole()
    text, tensors = json.dumps(header).encode(), save_arrays(arrays)
    both = [(JSON, text), (ARRAYS, tensors)]
    link = zipfile.ZipInfo(JSON)
    link.external_attr = 0o120777 << 16
    choice = pick(
        rng,
        ["bomb", "tensors", "path", "twice", "link", "deep", "nan", "version", "more", "number", "encoding", "crypt"],
    )
    if choice == "bomb":
        return packed([(JSON, b" " * 60_000_000), (ARRAYS, tensors)], zipfile.ZIP_DEFLATED)
    if choice == "tensors":
        return packed([(JSON, text), (ARRAYS, b"\0" * 60_000_000)], zipfile.ZIP_DEFLATED)
    if choice == "path":
        return packed([*both, (pick(rng, ["../../evil", "/tmp/evil", "a/../../b", "C:\\evil"]), b"x")])
    if choice == "twice":
        return packed([*both, (JSON, json.dumps({**header, "version": 1, "n_rows": 5}).encode())])
    if choice == "link":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(link, b"/etc/passwd")
            archive.writestr(ARRAYS, tensors)
        return out.getvalue()
    if choice == "crypt":
        raw = bytearray(packed(both))
        raw[6] |= 1  # says that it is encrypted
        raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
        return bytes(raw)
    forged = {
        "deep": b'{"format": "sshiba-model", "version": 1, "views": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        "nan": re.sub(
            rb'"elbo": [-0-9.e+]+', pick(rng, [b'"elbo": NaN', b'"elbo": -Infinity', b'"elbo": 1e999']), text
        ),
        "version": json.dumps({**header, "version": pick(rng, [2, 10**30, -1, 0, 1.0, "1", None, True])}).encode(),
        "more": json.dumps({**header, "code": "print(1)"}).encode(),
        "number": re.sub(rb'"n_rows": \d+', b'"n_rows": ' + pick(rng, [b"9" * 5000, b"1e400", b"-1", b"31"]), text),
        "encoding": text.decode().encode(pick(rng, ["utf-16", "utf-32", "utf-8-sig"])),
    }[choice]
    return packed([(JSON, forged), (ARRAYS, tensors)])


# ------------------------------------------------------------------------------------------------------ one case


def case(seed: int) -> str:
    rng = np.random.default_rng([3, seed])
    makers = [lambda: flipped(rng, whole()[1]), lambda: cut(rng, whole()[1])]
    makers += [lambda own=own: own(rng) for own in (forged_json, forged_arrays, forged_tensors, forged_zip)]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "m.sshiba")
        path.write_bytes(pick(rng, makers)())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = load(path)
        except ModelFileError as error:
            demand(0 < len(str(error)) < 1500, f"no sentence: {str(error)[:300]}")
            return "refused"
        demand(sorted(path.parent.iterdir()) == [path], "something else was written")
    return asked(found)


def asked(found: SSHIBA) -> str:
    """A file that was read is a model: it answers, or says in one sentence why not."""
    model, _, _, _, views = whole()
    given = {name: views[name] for name in ("x", "k", "batch")}
    expected = np.asarray(model.transform(given))
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            answer = np.asarray(found.transform(given))
            repr(found), found.get_params()
    except (ValueError, TypeError):
        return "another model"
    demand(bool(np.isfinite(answer).all()), "a model that was read answers NaN")
    return "equal" if np.array_equal(answer, expected) else "another model"


SUITE = Suite("strangers", case, 2_000, whole, memory=MEMORY)

if __name__ == "__main__":
    main(SUITE)
