"""Likelihoods, one file each: q(x) of a cell or row given its target, predictions and draws. No user options."""

from .censored import Censored
from .gaussian import Gaussian
from .interval import Interval
from .likelihood import Likelihood, PredictiveX, RowCells, RowUpdate, Score, XUpdate
from .logistic import Logistic
from .poisson import Poisson
from .probit import MultinomialProbit
from .threshold import Threshold, ThresholdTogether

__all__ = [
    "Censored",
    "Gaussian",
    "Interval",
    "Likelihood",
    "Logistic",
    "MultinomialProbit",
    "Poisson",
    "PredictiveX",
    "RowCells",
    "RowUpdate",
    "Score",
    "Threshold",
    "ThresholdTogether",
    "XUpdate",
]
