"""SSHIBA: Bayesian factor analysis for several views of the same samples, of different types, with holes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .core.spec import Priors
    from .data.annotated import annotated
    from .data.dates import date_features
    from .data.row_parts import row_parts
    from .data.spellings import normalise_labels
    from .data.types import Binary, Categorical, Count, Ordinal, Real
    from .estimator import SSHIBA, load
    from .evaluate import Tuned, tune
    from .files.model_file import ModelFileError
    from .fitted.candidates import Candidate
    from .fitting.loop import Progress
    from .fitting.sweep import BoundError

# Public names and where they are. They are imported when first used, so that a room can be imported without the others.
_PLACES = {
    "SSHIBA": "estimator",
    "Binary": "data.types",
    "BoundError": "fitting.sweep",
    "Candidate": "fitted.candidates",
    "Categorical": "data.types",
    "Count": "data.types",
    "ModelFileError": "files.model_file",
    "Ordinal": "data.types",
    "Priors": "core.spec",
    "Progress": "fitting.loop",
    "Real": "data.types",
    "Tuned": "evaluate",
    "annotated": "data.annotated",
    "date_features": "data.dates",
    "load": "estimator",
    "normalise_labels": "data.spellings",
    "row_parts": "data.row_parts",
    "tune": "evaluate",
}

__all__ = [
    "SSHIBA",
    "Binary",
    "BoundError",
    "Candidate",
    "Categorical",
    "Count",
    "ModelFileError",
    "Ordinal",
    "Priors",
    "Progress",
    "Real",
    "Tuned",
    "__version__",
    "annotated",
    "date_features",
    "load",
    "normalise_labels",
    "row_parts",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sshiba' has no attribute {name!r}")
    return getattr(import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
