"""Model files: a zip of `model.json` and `arrays.safetensors`. Nothing in them can run.

They do not hold the data, but parts of them: names of rows and their factors, labels, values of columns with
margin="normal", and training rows as landmarks of kernels.
"""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from ..core.coupling import Coupling
from ..core.spec import Priors
from ..core.state import ColumnGroups, Fixed, Gamma, Posterior, ViewPosterior, WeightCovariance
from ..data.coding import Coding
from ..data.covariates import Covariate, Covariates
from ..data.levels import Levels
from ..data.margins import Margin
from ..data.schema import Schema
from ..data.twins import Twin, check_kernel, kernel_name
from ..data.types import VIEW_TYPES, View
from ..data.wording import quoted
from ..fitted.candidates import Candidate
from ..fitted.fitted import Fitted
from ..fitted.residuals import SCORES
from ..fitted.search import Search
from ..fitting.restarts import Restart
from .atomic import replacing
from .stored_labels import plain, tagged, tagged_index, untagged, untagged_index

FORMAT = "sshiba-model"
VERSION = 1
JSON_NAME, ARRAYS_NAME = "model.json", "arrays.safetensors"


class ModelFileError(ValueError):
    """A file that is not a whole model of a known version."""


def save_model(fit: Fitted, path: str | Path) -> None:
    """Write beside the target, then rename: a killed process leaves the old file or the new one."""
    header, arrays = pack(fit)
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        archive.writestr(JSON_NAME, json.dumps(header, indent=1, allow_nan=True))
        archive.writestr(ARRAYS_NAME, save_arrays(arrays))


def load_model(path: str | Path) -> Fitted:
    """Read what `save_model` wrote; it predicts the same to the last bit."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        with zipfile.ZipFile(path) as archive:
            if sorted(archive.namelist()) != sorted([JSON_NAME, ARRAYS_NAME]):
                raise ModelFileError(f"{str(path)!r} is not a SSHIBA model.")
            if sum(info.file_size for info in archive.infolist()) > 2 * Path(path).stat().st_size + 2**20:
                raise ModelFileError(f"{str(path)!r} unpacks to far more than its size; it is not a SSHIBA model.")
            header = json.loads(archive.read(JSON_NAME))
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise ModelFileError(f"{str(path)!r} is not a SSHIBA model.")
            version = header.get("version")
            if not isinstance(version, int) or version < 1:
                raise ModelFileError(f"{str(path)!r} has no version of its format; it is not a SSHIBA model.")
            if version > VERSION:
                raise ModelFileError(
                    f"{str(path)!r} was written by a newer version of SSHIBA "
                    f"(file version {quoted(version)}, this one reads up to {VERSION}): upgrade to read it."
                )
            arrays = load_arrays(archive.read(ARRAYS_NAME))
        check_values(arrays)
        return unpack(header, arrays)
    except ModelFileError as error:
        if str(path) in str(error):
            raise
        raise ModelFileError(f"{str(path)!r} is not a consistent SSHIBA model: {error}.") from error
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"{str(path)!r} is not a SSHIBA model, or is cut off.") from error
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError, EOFError, OSError, RecursionError) as error:
        raise ModelFileError(f"{str(path)!r} is damaged: {error}.") from error
    except (RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError) as error:  # encrypted, or packed otherwise
        raise ModelFileError(f"{str(path)!r} cannot be unpacked; it is not a SSHIBA model.") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        raise ModelFileError(f"{str(path)!r} is not a consistent SSHIBA model: {error!r}.") from error


# ------------------------------------------------------------------------------------------------- pack, unpack


def pack(fit: Fitted) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    schema = fit.schema
    header = {
        "format": FORMAT,
        "version": VERSION,
        "provenance": fit.provenance,
        "settings": pack_settings(fit.settings),
        "choice": asdict(fit.choice),
        "search": None if fit.search is None else asdict(fit.search),
        "n_rows": len(fit.factors),
        "reading": fit.reading,
        "one_table": schema.one_table,
        "columns": [tagged(name) for name in schema.columns],
        "views": [
            {
                "name": name,
                "inferred": schema.inferred.get(name),
                **pack_view(schema.types[name]),
                **pack_coding(coding),
            }
            for name, coding in schema.codings.items()
        ],
        "covariates": None if schema.covariates is None else pack_covariates(schema.covariates),
        "sample_groups": None if schema.groups is None else pack_covariate(schema.groups),
        "twins": [pack_twin(name, twin) for name, twin in schema.twins.items()],
        "index": tagged_index(fit.index),
        "result": {
            "elbo": fit.elbo,
            "log_evidence": fit.log_evidence,
            "n_iter": fit.n_iter,
            "converged": fit.converged,
            "sharpness": list(fit.sharpness),
            "inits": [{k: plain(x) for k, x in asdict(r).items() if k != "path"} for r in fit.restarts],
        },
    }
    arrays = {"factors": fit.factors, "factors_std": fit.factors_std, "r2": fit.r2, "elbo_path": fit.elbo_path}
    arrays |= {f"coupling.{f.name}": getattr(fit.coupling, f.name) for f in fields(Coupling)}
    arrays |= {f"path.{i}": restart.path for i, restart in enumerate(fit.restarts)}
    for i, view in enumerate(fit.posterior.views):
        arrays |= {f"{i}.{name}": array for name, array in pack_posterior(view).items()}
    arrays |= {f"{i}.residuals": shape for i, shape in enumerate(fit.residuals) if shape is not None}
    for i, coding in enumerate(schema.codings.values()):
        arrays |= {f"{i}.{name}": np.asarray(getattr(coding, name), dtype=np.float64) for name in CODING_ARRAYS}
    for i, twin in enumerate(schema.twins.values(), start=len(schema.types)):
        arrays |= {f"{i}.{name}": getattr(twin, name) for name in TWIN_ARRAYS}
    if schema.covariates is not None:
        last, known = len(fit.posterior.views) - 1, schema.covariates
        arrays |= {f"{last}.{n}": np.asarray(getattr(known.coding, n), dtype=np.float64) for n in CODING_ARRAYS}
        arrays["covariates"] = known.products
    if schema.groups is not None:
        found = {"groups": fit.groups, "r2_by_group": fit.r2_by_group}
        found |= {f"activity.{f.name}": getattr(fit.posterior.activity, f.name) for f in fields(Gamma)}
        arrays |= {name: array for name, array in found.items() if array is not None}
    return header, {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def unpack(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Fitted:
    types, codings, twins, views = {}, {}, {}, []
    for i, entry in enumerate([*header["views"], *header.get("twins", ())]):
        name = entry["name"]
        own = {key.split(".", 1)[1]: array for key, array in arrays.items() if key.startswith(f"{i}.")}
        if i < len(header["views"]):
            types[name], codings[name] = unpack_view(entry), unpack_coding(entry, own)
        else:
            twins[name] = unpack_twin(entry, own, codings[name].width)
        views.append(unpack_posterior(own, (twins if name in twins else codings)[name].width))
    known = None
    if header.get("covariates") is not None:  # the arrays behind those of the views
        own = {key.split(".", 1)[1]: a for key, a in arrays.items() if key.startswith(f"{len(views)}.")}
        known = unpack_covariates(header["covariates"], own, arrays["covariates"])
        views.append(unpack_posterior(own, known.width))
    inferred = {entry["name"]: entry["inferred"] for entry in header["views"] if entry["inferred"] is not None}
    groups = None if header.get("sample_groups") is None else unpack_covariate(header["sample_groups"])
    schema = Schema(types, codings, inferred, unpack_columns(header, codings), known, groups, twins)
    activity = {} if groups is None else {"activity": Gamma(arrays["activity.shape"], arrays["activity.rate"])}
    posterior = Posterior(tuple(views), **activity)
    choice, search = unpack_candidate(header["choice"]), header["search"]
    settings, result = unpack_settings(header["settings"]), header["result"]
    n_rows = header["n_rows"]
    fit = Fitted(
        schema=schema,
        spec=choice.spec(lambda priors: schema.model_spec(n_rows, priors, settings["missing"])),
        posterior=posterior,
        sharpness=tuple(float(c) for c in result["sharpness"]),
        residuals=tuple(arrays.get(f"{i}.residuals") for i in range(len(views))),
        index=untagged_index(header["index"], n_rows),
        factors=arrays["factors"],
        factors_std=arrays["factors_std"],
        coupling=Coupling(**{f.name: arrays[f"coupling.{f.name}"] for f in fields(Coupling)}),
        r2=arrays["r2"],
        groups=arrays.get("groups"),
        r2_by_group=arrays.get("r2_by_group"),
        elbo=result["elbo"],
        log_evidence=result.get("log_evidence"),
        elbo_path=arrays["elbo_path"],
        n_iter=result["n_iter"],
        converged=result["converged"],
        restarts=tuple(Restart(**row, path=arrays[f"path.{i}"]) for i, row in enumerate(result["inits"])),
        provenance={str(key): str(value) for key, value in header["provenance"].items()},
        settings=settings,
        choice=choice,
        search=None if search is None else unpack_search(search),
        reading=header.get("reading"),
    )
    check_sizes(fit, n_rows)
    return fit


ANY_VALUES = ("r2", "r2_by_group", "elbo_path", "path")  # arrays that nothing is computed from
MAY_BE_UNKNOWN = ("factors", "factors_std")  # NaN where rows were lost during the fit
POSITIVE = ("scale", *(f"{name}.{part}" for name in ("alpha", "gamma", "tau") for part in ("shape", "rate", "value")))
NOT_NEGATIVE = (
    *("variance", "b_var", "spread", "factors_std", "observed_per_feature", "group"),
    *(f"coupling.{f.name}" for f in fields(Coupling)),
)


def check_values(arrays: Mapping[str, np.ndarray]) -> None:
    """Finite numbers, and positive ones where they must be: others would come back as NaN in answers."""
    for name, array in arrays.items():
        place, _, rest = name.partition(".")
        own = rest if place.isdigit() else name
        if own in ANY_VALUES or place in ANY_VALUES:
            continue
        if own in MAY_BE_UNKNOWN:
            array = array[~np.isnan(array)]
        if array.size == 0:
            continue
        least, numbers = array.min(), array.dtype.kind in "fi" and bool(np.isfinite(array).all())
        if not numbers or (own in POSITIVE and least <= 0) or (own in NOT_NEGATIVE and least < 0):
            raise ModelFileError(f"its array {name!r} holds numbers that cannot be")


def check_sizes(fit: Fitted, n_rows: int) -> None:
    """Every array has the size that its use expects: one of another size might be spread over features in silence."""
    n_views, n_components = len(fit.schema.names), fit.posterior.n_components
    n_known = 0 if fit.schema.covariates is None else fit.schema.covariates.width
    sizes = [
        ((len(fit.index),), (n_rows,)),
        (fit.factors.shape, (n_rows, n_components)),
        (fit.factors_std.shape, (n_rows, n_components)),
        (fit.coupling.move.shape, (n_components, n_components)),
        (fit.r2.shape, (len(fit.r2_names), n_views)),
        ((len(fit.sharpness),), (n_views,)),
    ]
    of_factors = (getattr(fit.coupling, f.name) for f in fields(Coupling) if f.name != "move")
    sizes += [(array.shape, (n_components,)) for array in of_factors]
    n_groups, activity = len(fit.schema.group_names), fit.posterior.activity
    sizes += [(array.shape, (n_groups, n_components)) for array in (activity.shape, activity.rate)]
    if fit.groups is not None:
        sizes.append((fit.groups.shape, (n_rows,)))
    if fit.r2_by_group is not None:
        sizes.append((fit.r2_by_group.shape, (n_groups, n_components + 1, n_views)))
    for coding in fit.schema.all_codings.values():
        sizes += [(getattr(coding, name).shape, (coding.width,)) for name in CODING_ARRAYS]
    for view, spec, shape in zip(fit.posterior.views, fit.spec.views, fit.residuals):
        n_features, n_gammas = spec.n_features, int(spec.relevance.max()) + 1
        n_noises = 1 if spec.tau_prior is None else spec.tau_prior.shape.size
        per_feature = [view.b_mean, view.b_var, view.w_cov.logdet]
        sizes += [(array.shape, (n_features,)) for array in per_feature]
        sizes.append((view.w_mean.shape, (n_features, n_components + n_known)))
        sizes += [] if shape is None else [(shape.shape, (n_features, len(SCORES) + 1))]
        for q, n in ((view.alpha, n_components), (view.gamma, n_gammas), (view.tau, n_noises)):
            sizes += [(getattr(q, f.name).shape, (n,)) for f in fields(q)]
    if any(found != expected for found, expected in sizes):
        raise ModelFileError("the sizes of its arrays do not fit together")


def unpack_columns(header: Mapping[str, Any], codings: Mapping[str, Coding]) -> tuple:
    """The columns of one table in its order, which the first files did not keep: then that of the views."""
    if not header["one_table"]:
        return ()
    of_views = tuple(feature for coding in codings.values() for feature in coding.features)
    columns = tuple(untagged(name) for name in header["columns"]) if "columns" in header else of_views
    if not set(of_views) <= set(columns):
        raise ModelFileError("some columns of its views are not among those of its table")
    return columns


def pack_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the estimator; priors and candidates as dicts."""
    apart = ("priors", "search", "covariates", "sample_groups")
    packed = {name: plain(value) for name, value in settings.items() if name not in apart}
    packed["sample_groups"] = tagged(settings["sample_groups"])
    priors, search, covariates = settings["priors"], settings["search"], settings["covariates"]
    packed["covariates"] = covariates and [[tagged(name), kind] for name, kind in covariates.items()]
    packed["priors"] = None if priors is None else asdict(priors)
    packed["search"] = search if search is None or isinstance(search, str) else [asdict(c) for c in search]
    return packed


def unpack_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    priors, search, covariates = stored["priors"], stored["search"], stored.get("covariates")
    return {
        **stored,
        "covariates": covariates and {untagged(name): kind for name, kind in covariates},
        "sample_groups": untagged(stored["sample_groups"]) if "sample_groups" in stored else None,
        "priors": None if priors is None else unpack_priors(priors),
        "search": [unpack_candidate(c) for c in search] if isinstance(search, list) else search,
    }


def unpack_candidate(stored: Mapping[str, Any]) -> Candidate:
    return Candidate(**{**stored, "priors": unpack_priors(stored["priors"])})


def unpack_search(stored: Mapping[str, Any]) -> Search:
    candidates = tuple(unpack_candidate(c) for c in stored["candidates"])
    return Search(candidates, tuple(stored["scores"]), tuple(stored["n_components"]), stored["chosen"])


def unpack_priors(stored: Mapping[str, Any]) -> Priors:
    names = [name for name in ("alpha", "tau", "gamma", "activity") if name in stored]  # the last is a later one
    pairs = {name: (float(stored[name][0]), float(stored[name][1])) for name in names}
    return Priors(**pairs, noise_floor=float(stored["noise_floor"]))


def pack_view(view: View) -> dict[str, Any]:
    kind, cls = next((name, cls) for name, cls in VIEW_TYPES.items() if isinstance(view, cls))
    options = {f.name: plain(getattr(view, f.name)) for f in fields(cls)}  # of a subclass, those that can be read back
    if options["groups"] is not None:
        options["groups"] = [tagged(label) for label in options["groups"]]
    if options.get("kernel_params") is not None:
        options["kernel_params"] = {key: plain(value) for key, value in options["kernel_params"].items()}
    for name in BY_COLUMN:
        if options.get(name) is not None:
            options[name] = pack_by_column(options[name])
    if isinstance(options.get("margin"), Mapping):
        options["margin"] = [[tagged(column), kind] for column, kind in options["margin"].items()]
    return {"type": kind, "options": options}


def unpack_view(entry: dict[str, Any]) -> View:
    options = dict(entry["options"])
    if options["groups"] is not None:
        options["groups"] = tuple(untagged(label) for label in options["groups"])
    for name in BY_COLUMN:
        if options.get(name) is not None:
            options[name] = unpack_by_column(options[name])
    if isinstance(options.get("margin"), list):
        options["margin"] = {untagged(column): kind for column, kind in options["margin"]}
    return VIEW_TYPES[entry["type"]](**options)


BY_COLUMN = ("levels", "limits")  # options with values for all columns, or for each


def pack_by_column(values: tuple | Mapping[Any, tuple]) -> dict[str, Any]:
    """Those of all columns, or of each, as the user gave them; columns may have names that JSON has no keys for."""
    if not isinstance(values, Mapping):
        return {"all": [tagged(value) for value in values]}
    return {"columns": [[tagged(column), [tagged(value) for value in own]] for column, own in values.items()]}


def unpack_by_column(stored: Mapping[str, Any]) -> tuple | dict[Any, tuple]:
    if "all" in stored:
        return tuple(untagged(value) for value in stored["all"])
    return {untagged(column): tuple(untagged(value) for value in own) for column, own in stored["columns"]}


TWIN_ARRAYS = ("landmarks", "whitening", "centre", "variance")


def pack_twin(name: str, twin: Twin) -> dict[str, Any]:
    if not isinstance(twin.kernel, str):
        what = f"view {name!r} has the kernel {kernel_name(twin.kernel)!r}, a function, which a model file cannot hold"
        raise ValueError(f"{what}. Fit with a kernel that has a name, such as 'rbf', to save the model.")
    params = {key: plain(value) for key, value in twin.params.items()}
    return {"name": name, "kernel": twin.kernel, "params": params, "n_seen": twin.n_seen, "precision": twin.precision}


def unpack_twin(entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray], width: int) -> Twin:
    landmarks, whitening, centre, variance = (arrays[name] for name in TWIN_ARRAYS)
    m = len(landmarks)
    if landmarks.shape != (m, width) or whitening.shape != (m, m) or centre.shape != (m,) or variance.shape != (m,):
        raise ModelFileError("the sizes of its kernel features do not fit together")
    known = (str(entry["kernel"]), dict(entry["params"]))
    check_kernel(*known, str(entry["name"]))
    return Twin(*known, landmarks, whitening, centre, variance, int(entry["n_seen"]), float(entry["precision"]))


CODING_ARRAYS = ("observed_per_feature", "centre", "scale", "variance")


def pack_coding(coding: Coding) -> dict[str, Any]:
    return {
        "features": [tagged(name) for name in coding.features],
        "levels": None if coding.levels is None else [tagged(level) for level in coding.levels],
        "categories": None if coding.categories is None else [tagged(label) for label in coding.categories],
        "column_names": [tagged(name) for name in coding.column_names],
        "container": coding.container,
        "dtypes": list(coding.dtypes),
        "above_zero": list(coding.above_zero),
        "ordered": [
            {
                "values": [tagged(level) for level in own.values],
                "counts": list(own.counts),
                "categories": None if own.categories is None else [tagged(label) for label in own.categories],
            }
            for own in coding.ordered
        ],
        "words": [None if pair is None else list(pair) for pair in coding.words],
        "at_limits": list(coding.at_limits),
        "margins": [asdict(margin) for margin in coding.margins],
        "beside": [tagged(name) for name in coding.beside],
        "ends": [list(pair) for pair in coding.ends],
    }


def unpack_coding(entry: dict[str, Any], arrays: dict[str, np.ndarray]) -> Coding:
    categories = entry.get("categories")
    by_column = [len(entry.get(name, ())) for name in ("at_limits", "margins", "above_zero", "ends")]
    if any(n not in (0, len(entry["features"])) for n in by_column):
        raise ModelFileError("its limits, margins or ends are not those of its columns")
    return Coding(
        features=tuple(untagged(name) for name in entry["features"]),
        levels=None if entry["levels"] is None else tuple(untagged(level) for level in entry["levels"]),
        categories=None if categories is None else tuple(untagged(label) for label in categories),
        column_names=tuple(untagged(name) for name in entry.get("column_names", [None])),
        container=entry["container"],
        dtypes=tuple(entry["dtypes"]),
        above_zero=tuple(entry.get("above_zero", ())),
        ordered=tuple(unpack_ordered(own) for own in entry.get("ordered", [])),
        words=tuple(None if pair is None else tuple(pair) for pair in entry.get("words", [])),
        at_limits=tuple(entry.get("at_limits", ())),
        margins=tuple(unpack_margin(own) for own in entry.get("margins", ())),
        beside=tuple(untagged(name) for name in entry.get("beside", ())),
        ends=tuple((float(least), float(largest)) for least, largest in entry.get("ends", ())),
        **{name: arrays[name] for name in CODING_ARRAYS},
    )


def pack_covariates(known: Covariates) -> dict[str, Any]:
    return {"columns": [pack_covariate(own) for own in known.columns], **pack_coding(known.coding)}


def pack_covariate(own: Covariate) -> dict[str, Any]:
    return {
        "entry": own.entry,
        "column": tagged(own.column),
        "name": tagged(own.name),
        "levels": None if own.levels is None else [tagged(level) for level in own.levels],
    }


def unpack_covariate(own: dict[str, Any]) -> Covariate:
    levels = None if own["levels"] is None else tuple(untagged(level) for level in own["levels"])
    return Covariate(str(own["entry"]), untagged(own["column"]), untagged(own["name"]), levels)


def unpack_covariates(entry: dict[str, Any], arrays: dict[str, np.ndarray], products: np.ndarray) -> Covariates:
    columns = tuple(unpack_covariate(own) for own in entry["columns"])
    known = Covariates(columns, unpack_coding(entry, arrays), products)
    if products.shape != (known.width, known.width) or [term for own in columns for term in own.terms] != list(
        known.terms
    ):
        raise ModelFileError("its covariates and their effects do not fit together")
    return known


def unpack_margin(entry: Mapping[str, Any]) -> Margin:
    return Margin(**{**entry, "knots": tuple((float(x), float(u)) for x, u in entry["knots"])})


def unpack_ordered(entry: Mapping[str, Any]) -> Levels:
    values, counts, categories = entry["values"], entry["counts"], entry["categories"]
    if len(values) != len(counts) or not all(isinstance(n, int) and n > 0 for n in counts):
        raise ModelFileError("its levels and their numbers do not fit together")
    known = None if categories is None else tuple(untagged(label) for label in categories)
    return Levels(tuple(untagged(level) for level in values), tuple(counts), known)


def pack_posterior(view: ViewPosterior) -> dict[str, np.ndarray]:
    arrays = {"w_mean": view.w_mean, "b_mean": view.b_mean, "b_var": view.b_var}
    cov = view.w_cov
    arrays |= {"basis": cov.basis, "spread": cov.spread, "logdet": cov.logdet, "group": cov.groups.index}
    for name in ("alpha", "gamma", "tau"):
        q = getattr(view, name)
        arrays |= {f"{name}.{f.name}": np.asarray(getattr(q, f.name)) for f in fields(q)}
    return arrays


def unpack_posterior(arrays: dict[str, np.ndarray], width: int) -> ViewPosterior:
    def gamma_or_fixed(name: str) -> Any:
        if f"{name}.value" in arrays:
            return Fixed(arrays[f"{name}.value"])
        return Gamma(arrays[f"{name}.shape"], arrays[f"{name}.rate"])

    w_mean, basis, spread, group = (arrays[name] for name in ("w_mean", "basis", "spread", "group"))
    n_features, n_components = w_mean.shape
    whole = group.dtype.kind == "i" and group.shape == (n_features,) and group.min() >= 0 and group.max() < len(basis)
    if (
        n_features != width
        or not whole
        or basis.shape[1] != n_components
        or spread.shape != (n_features, basis.shape[2])
    ):
        raise ModelFileError("the sizes of its arrays do not fit together")
    cov = WeightCovariance(basis, spread, arrays["logdet"], ColumnGroups(group))
    named = {name: gamma_or_fixed(name) for name in ("alpha", "gamma", "tau")}
    second = cov.diagonal() + w_mean**2
    return ViewPosterior(w_mean, second, cov, arrays["b_mean"], arrays["b_var"], **named)
