"""Ugly inputs: every public method ends in a finite result or in a documented error, and leaves its input as it was."""

from __future__ import annotations

import copy
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import sshiba
from sshiba import SSHIBA, Binary, BoundError, Candidate, Categorical, Count, Ordinal, Priors, Real
from sshiba.data.advice import DataWarning

from .runner import BrokenPromiseError, Suite, demand, main
from .ugly_views import KINDS, ODD_NAMES, Rng, contained, index, names, pick, values

ALLOWED_WARNINGS = (DataWarning, ConvergenceWarning)
LIBRARY = str(Path(sshiba.__file__).parent)
HERE = Path(__file__).parent  # a warning may name the line of its caller
LABELS = ("lo", "mid", "hi")  # of other texts some mean missing
LONGEST = 1500  # characters of a message: one or two sentences, with names from the data


class RefusedError(Exception):
    """A documented error: the end of a case."""


# ------------------------------------------------------------------------------------------------------- promises


def watched(what: str, call: Callable[[], Any]) -> Any:
    """The result; no warnings but ours, and no errors but documented ones that the library itself raises."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
            check_error(what, error)
            raise RefusedError(str(error)) from error
        except BoundError as error:
            raise BrokenPromiseError(f"{what}: {error}") from error
    for one in caught:
        ours = one.category is UserWarning and one.filename.startswith((LIBRARY, str(HERE)))
        kept = ours or issubclass(one.category, ALLOWED_WARNINGS)
        demand(kept, f"{what}: {one.category.__name__}: {one.message} ({Path(one.filename).name}:{one.lineno})")
    return found


def check_error(what: str, error: Exception) -> None:
    words = str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__}: {words[:300]} ({Path(frame.filename).name}:{frame.lineno})"
    if not frame.filename.startswith(LIBRARY):
        raise BrokenPromiseError(f"{what}: an error of another library: {place}") from error
    if not words or len(words) > LONGEST or not words.rstrip().endswith((".", "?", ")", "'")):
        raise BrokenPromiseError(f"{what}: no sentence of an error: {place}") from error


def check_finite(what: str, found: Any) -> None:
    """No NaN and no infinity, wherever they are."""
    if isinstance(found, dict):
        for key, value in found.items():
            check_finite(f"{what}[{key!r}]", value)
    elif isinstance(found, tuple | list):
        for value in found:
            check_finite(what, value)
    elif isinstance(found, pd.DataFrame):
        for j in range(found.shape[1]):
            check_finite(f"{what}, column {found.columns[j]!r}", found.iloc[:, j])
    elif isinstance(found, pd.Series):
        missing = found.isna().any()
        infinite = found.dtype.kind == "f" and np.isinf(found.to_numpy(dtype=float, na_value=0.0)).any()
        demand(not missing and not infinite, f"{what}: not finite")
    elif isinstance(found, np.ndarray | np.generic | float):
        array = np.asarray(found)
        demand(array.dtype.kind not in "fc" or bool(np.isfinite(array).all()), f"{what}: not finite")
        demand(array.dtype.kind != "O" or not pd.isna(array).any(), f"{what}: missing")
    elif hasattr(found, "to_pandas"):
        check_finite(what, found.to_pandas())


def same(a: Any, b: Any) -> bool:
    """Is the input as it was? What cannot be changed is not compared."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(map(repr, a)) == list(map(repr, b)) and all(same(x, y) for x, y in zip(a.values(), b.values()))
    if isinstance(a, np.ma.MaskedArray):
        return same(np.asarray(a.data), np.asarray(b.data)) and np.array_equal(a.mask, b.mask)
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return repr(a.tolist()) == repr(b.tolist()) if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    if sparse.issparse(a):
        return a.format == b.format and same(a.toarray(), b.toarray())
    if isinstance(a, pd.DataFrame):
        alike = list(a.dtypes) == list(b.dtypes) and repr(a.columns.tolist()) == repr(b.columns.tolist())
        return (
            alike
            and repr(a.index.tolist()) == repr(b.index.tolist())
            and a.index.names == b.index.names
            and a.equals(b)
        )
    if isinstance(a, pd.Series):
        return same(a.to_frame(), b.to_frame())
    if isinstance(a, list):
        return repr(a) == repr(b)
    return True


def snapshot(data: Any) -> Any:
    try:
        return copy.deepcopy(data)
    except TypeError:  # generators
        return None


# ------------------------------------------------------------------------------------------------------ one case


def view_type(rng: Rng, kind: str) -> Any:
    """Options, as they should be or not."""
    odd = rng.random() < 0.15
    common: dict[str, Any] = {}
    if rng.random() < 0.2:
        common["select_features"] = True
    if rng.random() < 0.2:
        common["weight"] = (
            pick(rng, [0, -1, np.nan, np.inf, 1e-300, 1e300, "1", None]) if odd else pick(rng, [0.5, 1, 3.0])
        )
    if odd and rng.random() < 0.3:
        common["groups"] = pick(rng, [[1], ["a", "a"], "ab", 3, [None, None], []])
    makers: dict[str, Callable[[], Any]] = {
        "real": lambda: Real(
            **common,
            scale=bool(rng.random() < 0.7),
            noise=pick(rng, ["feature", "view"]),
            margin=pick(
                rng, [None, None, None, "log", "logit", "box-cox", "auto", "normal", *(["odd", 3] if odd else [])]
            ),
            limits=pick(
                rng, [None, None, None, (0.0, None), (None, 1.0), *([(1, 0), (np.nan, 1), "no", (0,)] if odd else [])]
            ),
            guess=pick(rng, ["mean", "median"]),
        ),
        "binary": lambda: Binary(**common, link=pick(rng, ["probit", "logit"])),
        "categorical": lambda: Categorical(**common, unseen=pick(rng, ["missing", "error"])),
        "ordinal": lambda: Ordinal(**common, guess=pick(rng, ["median", "mode"]), noise=pick(rng, ["feature", "view"])),
        "count": lambda: Count(**common, size=bool(rng.random() < 0.5), noise=pick(rng, ["feature", "view"])),
    }
    if rng.random() < 0.1:
        kind = pick(rng, list(makers))
    return makers.get(kind, makers["real"])()


def settings(rng: Rng) -> dict[str, Any]:
    chosen = {
        "n_components": pick(rng, [1, 2, 3, 5, None]),
        "n_init": pick(rng, [1, 1, 1, 2]),
        "max_iter": pick(rng, [1, 2, 5, 20]),
        "missing": pick(rng, ["exact", "exact", "exact", "mean-field"]),
        "acceleration": pick(rng, ["auto", "rotation", None]),
        "keep": pick(rng, ["fewest", "all", None]),
        "engine": pick(rng, ["auto", "memory", "gram"]),
        "dtype": pick(rng, ["float64", "float64", "float32"]),
        "start": pick(rng, ["principal", "random"]),
        "search": pick(rng, [None, None, None, None, None, "auto"]),
        "random_state": int(rng.integers(10)),
    }
    if rng.random() < 0.15:
        chosen["priors"] = Priors(
            alpha=(10.0 ** rng.uniform(-6, 3), 10.0 ** rng.uniform(-6, 3)), noise_floor=rng.random()
        )
    if rng.random() < 0.15:
        odd: dict[str, list[Any]] = {
            "n_components": [0, -1, 2.5, "3", True, 10**6, np.int64(2), np.nan],
            "n_init": [0, None, 1.0],
            "max_iter": [0, -1, np.inf, 10.0],
            "tol": [-1, np.nan, np.inf, "0", None, 1e300],
            "prune_tol": [1.0, -1, np.nan, None, 0.999],
            "missing": ["no", None, 1],
            "priors": [(1, 1), "none", {}],
            "search": ["yes", [], 3, [Candidate()], [Candidate(), Candidate(keep="all")]],
            "covariates": ["c0", ["c0"], ["none"], {"c0": "real"}, {"c0": "odd"}, 3, [["c0"]], {"v0": "categorical"}],
            "sample_groups": ["c0", "v0", "none", 3, ["c0"], ("a", 1)],
            "device": ["cpu", "cuda:9", "abacus", 3],
            "engine": ["no", None, "dask"],
            "dtype": ["int8", float, np.float32, None],
            "random_state": [-1, "x", 2**40, np.random.default_rng(0), 1.5],
            "n_jobs": [0, "two", -1, 2],
            "max_time": [0, 1e-9, -1, np.nan, "1", 1e300],
            "max_memory": ["4 apples", 0, -1, "1B", "1GB", np.nan, 1e300, "1e400GB", None],
            "callback": [3, lambda progress: 1 / 1],
            "views": [{"v0": "real"}, {"none": Real()}, 3, [Real()], {"v0": Real}, {}, {"v0": None}],
        }
        name = pick(rng, list(odd))
        chosen[name] = pick(rng, odd[name])
    return chosen


def make_data(rng: Rng) -> tuple[Any, dict[str, str]]:
    """Data in some form, and the kind of each view where they are a dict."""
    n = int(pick(rng, [1, 2, 3, 4, 6, 6, 10, 10, 20, 20, 40]))
    kinds = [pick(rng, KINDS) for _ in range(rng.integers(1, 4))]
    rows = index(rng, n)
    tables = [
        values(rng, kind, n, int(pick(rng, [1, 1, 2, 3, 5] * 8 + [0]) if kind != "categorical" else 1))
        for kind in kinds
    ]
    form = pick(rng, ["dict", "dict", "dict", "frame", "one", "mudata", "own rows"])
    if form == "frame":
        columns = [x[:, j] for x in tables for j in range(x.shape[1])]
        frame = pd.concat([pd.Series(c, index=rows) for c in columns], axis=1) if columns else pd.DataFrame(index=rows)
        frame.columns = pd.Index(names(rng, len(columns)), dtype=object)
        return pick(
            rng, [lambda: frame, lambda: frame.infer_objects(), lambda: contained(rng, frame.to_numpy(), rows)]
        )(), {}
    if form == "one":
        return contained(rng, tables[0], rows), {}
    called = [f"v{i}" for i in range(len(tables))]
    if rng.random() < 0.15:
        called = [pick(rng, ODD_NAMES) for _ in tables]
    if form == "mudata":
        made = mudata(rng, tables, rows)
        if made is not None:
            return made, {}
    own = form == "own rows"  # each view has rows of its own, in an order of its own
    views = {}
    for name, x in zip(called, tables):
        places = rng.permutation(n)[: max(1, n - int(rng.integers(3)))] if own and rows.is_unique else np.arange(n)
        if own and rows.is_unique:
            views[name] = pd.DataFrame(x[places], index=rows[places])
        else:
            views[name] = contained(rng, x, rows)
    return views, dict(zip(called, kinds))


def mudata(rng: Rng, tables: list[np.ndarray], rows: pd.Index) -> Any:
    try:
        from anndata import AnnData
        from mudata import MuData

        parts = {}
        for i, x in enumerate(tables):
            frame = pd.DataFrame(index=[f"r{j}" for j in range(len(x))])
            parts[f"v{i}"] = AnnData(
                x.astype(float), obs=frame, var=pd.DataFrame(index=[f"v{i}c{j}" for j in range(x.shape[1])])
            )
        with warnings.catch_warnings(action="ignore"):
            return MuData(parts)
    except Exception:  # values that AnnData cannot hold
        return None


def fit(rng: Rng) -> tuple[SSHIBA, Any]:
    data, kinds = make_data(rng)
    options = settings(rng)
    if kinds and rng.random() < 0.5:
        options.setdefault("views", {name: view_type(rng, kind) for name, kind in kinds.items() if rng.random() < 0.7})
    before = snapshot(data)
    try:
        model = watched("fit", lambda: SSHIBA(**options).fit(data))
    finally:
        demand(before is None or same(before, data), "fit changed its input")
    check_finite("factors_", model.factors_)
    check_finite("factors_std_", model.factors_std_)
    check_finite("elbo_", model.elbo_)
    check_finite("weights_", model.weights_)
    check_finite("noise_std_", model.noise_std_)
    check_finite("r2_", model.r2_)
    return model, data


def new_rows(rng: Rng, data: Any) -> Any:
    """The training rows, some of them, or others that were spoilt."""
    choice = rng.random()
    if isinstance(data, dict) and choice < 0.3 and len(data) > 1:
        return {name: value for name, value in data.items() if rng.random() < 0.6}
    if isinstance(data, dict) and choice < 0.5 and data:
        spoilt = dict(data)
        name = pick(rng, list(spoilt))
        x = values(rng, pick(rng, KINDS), int(rng.integers(1, 8)), int(rng.integers(0, 4)))
        spoilt[pick(rng, [name, name, "unknown"])] = contained(rng, x, index(rng, len(x)))
        return spoilt
    if isinstance(data, pd.DataFrame) and choice < 0.5:
        taken = data.iloc[rng.permutation(len(data))[: rng.integers(len(data) + 1)]]
        return taken.iloc[:, rng.permutation(taken.shape[1])[: rng.integers(taken.shape[1] + 1)]]
    if choice > 0.95:
        return make_data(rng)[0]
    return data


def ask(rng: Rng, model: SSHIBA, data: Any) -> str:
    """One question to a fitted model; its name."""
    given = new_rows(rng, data)
    known = list(model.views_) or ["X"]
    target = pick(rng, known) if rng.random() < 0.85 else pick(rng, ["none", None, 0, "c0", ("a",)])
    at_mean = pick(rng, [None, None, None, "mean", "odd"])
    n = pick(rng, [1, 1, 3, 0, -1, 2.5, None]) if rng.random() < 0.5 else 2
    with warnings.catch_warnings(action="ignore"):
        writable = copied(given)
    questions: dict[str, Callable[[], Any]] = {
        "transform": lambda: model.transform(given, pick(rng, [True, False]), at_mean),
        "predict": lambda: model.predict(given, covariates=at_mean),
        "predict target": lambda: model.predict(given, target, bool(rng.random() < 0.5), bool(rng.random() < 0.5)),
        "predict_proba": lambda: model.predict_proba(given, target, bool(rng.random() < 0.5)),
        "impute": lambda: model.impute(given),
        "impute std": lambda: model.impute(given, True, bool(rng.random() < 0.3)),
        "draws": lambda: model.impute(given, n_draws=n or 1, random_state=0),
        "score": lambda: model.score(given),
        "score_samples": lambda: model.score_samples(given),
        "sample": lambda: model.sample(n, 0),
        "influence": lambda: model.influence(target),
        "from_factors": lambda: model.from_factors(pick(rng, [model.factors_, model.factors_ * 1e6, [[1]], "x", None])),
        "resume": lambda: model.resume(given),
        "save": lambda: saved(model),
        "holdout": lambda: sshiba.evaluate.holdout(model, given, pick(rng, [0.1, 0.5, 0, 1, np.nan])),
        "write_to": lambda: model.write_to(writable),
        "notebook": lambda: model._repr_html_(),
    }
    weights = [4, 4, 4, 4, 6, 4, 3, 3, 2, 2, 1, 1, 1, 2, 0.5, 1, 0.3]
    name = str(rng.choice(list(questions), p=np.array(weights) / sum(weights)))
    before = snapshot(given)
    try:
        found = watched(name, questions[name])
    finally:
        demand(before is None or same(before, given), f"{name} changed its input")
    check_answer(name, found, given, model)
    return name


def copied(given: Any) -> Any:
    """AnnData's own copy where there is one; what cannot be copied may be written to."""
    try:
        return given.copy() if hasattr(given, "copy") else copy.deepcopy(given)
    except Exception:
        return given


def saved(model: SSHIBA) -> SSHIBA:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "m.sshiba"))
        return sshiba.load(Path(folder, "m.sshiba"))


def check_answer(name: str, found: Any, given: Any, model: SSHIBA) -> None:
    if name == "save":
        demand(np.array_equal(found.factors_, model.factors_), "a saved model is another")
        demand(found.elbo_ == model.elbo_, "a saved model has another bound")
    elif name in ("impute", "draws"):
        for filled in [found] if name == "impute" else found:
            check_filled(given, filled)
    elif name in (
        "transform",
        "predict",
        "predict target",
        "predict_proba",
        "score",
        "score_samples",
        "sample",
        "from_factors",
    ):
        check_finite(name, found)


def check_filled(given: Any, filled: Any) -> None:
    """Cells that were seen are as they were, and stand where they stood."""
    pairs = (
        [(given[name], filled[name]) for name in given if name in filled]
        if isinstance(given, dict)
        else [(given, filled)]
    )
    for before, after in pairs:
        if isinstance(before, pd.DataFrame) and isinstance(after, pd.DataFrame) and before.shape == after.shape:
            demand(list(map(repr, before.columns)) == list(map(repr, after.columns)), "impute: other columns")
            aligned = before.index.equals(after.index)
            if aligned:
                seen = before.notna().to_numpy()
                a, b = before.to_numpy(dtype=object)[seen], after.to_numpy(dtype=object)[seen]
                same_cells = all(x is y or (isinstance(x, str) and x not in LABELS) or x == y for x, y in zip(a, b))
                demand(same_cells, "impute: a cell that was seen has changed")
        elif type(before) is np.ndarray and type(after) is np.ndarray and before.dtype.kind == "f":
            seen = ~np.isnan(before)
            demand(np.array_equal(before[seen], after[seen]), "impute: a cell that was seen has changed")


def case(seed: int) -> str:
    rng = np.random.default_rng([1, seed])
    try:
        model, data = fit(rng)
    except RefusedError:
        return "refused"
    for _ in range(3):
        try:
            ask(rng, model, data)
        except RefusedError:
            continue
    return "fitted"


def prepare() -> None:
    import sshiba.evaluate  # noqa: F401


SUITE = Suite("inputs", case, 10_000, prepare)

if __name__ == "__main__":
    main(SUITE)
