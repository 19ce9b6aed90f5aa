"""SSHIBA: Bayesian factor analysis for several views of the same samples, of different types, with holes."""

__version__ = "0.1.0"

from .estimator import SSHIBA
from .fit import Progress
from .io import ModelFileError, load
from .likelihoods import Binary, Categorical, Real
from .model import Priors
from .sweep import BoundError
from .tuning import Tuned, tune

__all__ = [
    "SSHIBA",
    "Binary",
    "BoundError",
    "Categorical",
    "ModelFileError",
    "Priors",
    "Progress",
    "Real",
    "Tuned",
    "load",
    "tune",
]
