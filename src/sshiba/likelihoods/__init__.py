"""View types, one file each. A new one is added to VIEW_TYPES."""

from .base import PredictiveX, View
from .bernoulli import Binary
from .categorical import Categorical
from .gaussian import Real

# The more special the later: a type not given is the last one that recognises the data.
VIEW_TYPES: dict[str, type[View]] = {"real": Real, "binary": Binary, "categorical": Categorical}

__all__ = ["VIEW_TYPES", "Binary", "Categorical", "PredictiveX", "Real", "View"]
