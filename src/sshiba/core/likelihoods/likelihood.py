"""What a likelihood is: all it knows is its target, the predictor y = <z>·<w> + <b>, and tau."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from ..arrays import array_namespace
from ..state import Array

Score = Callable[[float], Any]  # a probability -> quantiles of errors in standard deviations, of all cells or (n, D)

SMALLEST = 1e-12  # a probability is taken to be at least this
CONFIDENT = 2.5  # how far from 0 the latent x of a target lies at the start


@dataclass(frozen=True)
class PredictiveX:
    """The predictive distribution of x on n rows, its variance in parts.

    x = mean + z_factor u + own + noise, u ~ N(0, I): `z_factor` (n or 1, D, K) is what the uncertainty of z
    does to all features together; `own_var` (n, D) comes from W and b and is independent between features.
    """

    mean: Array  # (n, D)
    z_factor: Array  # (n or 1, D, K)
    own_var: Array  # (n, D)
    noise_var: Array  # (D,)

    @property
    def var(self) -> Array:
        xp = array_namespace(self.mean)
        return xp.sum(self.z_factor**2, axis=-1) + self.own_var + self.noise_var

    def shifted(self, offset: Array | None) -> PredictiveX:
        """With what is known of the rows added, (n, 1)."""
        return self if offset is None else replace(self, mean=self.mean + offset)

    def sharpened(self, c: float) -> PredictiveX:
        """With c·W and c·b."""
        if c == 1:
            return self
        return replace(self, mean=c * self.mean, z_factor=c * self.z_factor, own_var=c**2 * self.own_var)

    def with_independent_classes(self) -> PredictiveX:
        """What z does to the differences between classes, as if independent: probabilities need no draws then."""
        xp = array_namespace(self.mean)
        centred = self.z_factor - xp.mean(self.z_factor, axis=1, keepdims=True)
        own_var = self.own_var + xp.sum(centred**2, axis=-1)
        return replace(self, z_factor=self.z_factor[:1, :, :0], own_var=own_var)


@dataclass(frozen=True)
class XUpdate:
    """A new q(x), cell by cell, as if nothing were missing.

    `second` is E[x²]; `bound` holds E[log p(t|x)] + H[q(x)], per cell (n, D) or per row (n, 1);
    `xi` is whatever the likelihood wants back at its next update. Some say how x follows the globals of their view, so
    that these can leap (`momentum.py`). Of `follow_y` `slope` is d<x>/dy, and `drift` d((<x> − y)² + free Var(x)) /
    d log tau. Of `infer_x` they are those with y and tau as given there and free = 1, and `pull` is d<x>/d log tau.
    """

    mean: Array
    second: Array
    bound: Array
    xi: Array | None = None
    slope: Array | None = None
    drift: Array | None = None
    pull: Array | None = None


@dataclass(frozen=True)
class RowCells:
    """Rows whose cells are to be inferred together, at the present means of x."""

    target: Array  # (n,) of classes, else (n, D)
    x: Array  # (n, D): the present means
    y: Array  # (n, D): the predictor there
    xi: Array | None  # that of the last update, None at the start
    leverage: Array  # (1 or n, D, D): how far y moves with x, on the diagonal with the cell's own
    seen: Array | None  # (n, D) of bool: which cells there are; None: all
    tau: Array  # (D,) or (1,)
    weight: float  # of the view


@dataclass(frozen=True)
class RowUpdate:
    """A new q(x) of rows whose cells are inferred together, with the covariances between them, of one copy.

    `bound` holds E[log p(t|x)] + H[q(x)], or what takes its place where x is not told apart from z.
    """

    mean: Array  # (n, D)
    cov: Array  # (n, D, D), or (1, D, D): their sum
    bound: Array  # (n,)
    xi: Array | None = None


@dataclass(frozen=True)
class Likelihood(ABC):
    """p(t | x) of one view. Holes, weights, factors and other views are not its concern."""

    latent: ClassVar[bool]  # is x to be inferred, or is it the data?
    whole_rows: ClassVar[bool] = False  # is a row one observation, seen or missing as a whole?
    joint: ClassVar[bool] = False  # are the cells of a row inferred together, by `infer_rows`, or each for itself?
    exact: ClassVar[bool] = True  # is each update of q(x) the best of its kind, so that the bound cannot fall?
    labels: ClassVar[bool] = True  # are its cells labels, or measurements of whatever kind?
    numbers: ClassVar[bool] = False  # is x in the units of what is measured, so that its errors are squared ones?
    costly: ClassVar[bool] = False  # does q(x) of a cell take longer than its share of matrix products?
    found_with_z: ClassVar[bool] = False  # is q(x) found together with z of its row? Then it has `follow_y`
    keeps_few: ClassVar[bool] = False  # does the bound keep far fewer of its factors than predict best?
    needs_sharpness: ClassVar[bool] = False  # are its probabilities too cautious as the bound leaves them?
    level_in_common: ClassVar[bool] = False  # has b a level in common, as labels of a view are rare or frequent alike?
    ordered: ClassVar[bool] = True  # is there a lowest and a highest of what can be observed, and so quantiles?

    def row_target(self, target: Any, observed: np.ndarray | None) -> Any:
        """The target of some rows as all else here needs it; `observed` is their mask: None, (n, 1) or (n, D)."""
        return target

    def row_offset(self, target: Any) -> Array | None:
        """What is known of rows beside x, (n, 1), to be added to x in predictions; `target` is that of `row_target`."""
        return None

    def opened(self, target: Any) -> Any:
        """The same target as cells are read from it one column at a time, for as long as q(x) is updated."""
        return target

    @abstractmethod
    def infer_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """q(x) given the target, y = <zWᵀ + b> and <tau>; `xi` is that of the last update, None at the start."""

    def follow_y(self, target: Array, y: Array, tau: Array, free: Array, near: Array | None = None) -> XUpdate:
        """The best q(x) while z is held: <x> is drawn to y with the precision tau, and x to <x> with tau·free. `near`
        is a guess of <x>.
        """
        raise NotImplementedError

    def infer_rows(self, cells: RowCells, each: bool) -> RowUpdate:
        """q(x) of the cells of a row together. `each`: a covariance for each row, or their sum."""
        raise NotImplementedError

    def infer_own_rows(
        self, target: np.ndarray, x: np.ndarray, y: np.ndarray, gain: np.ndarray, w: np.ndarray, seen: np.ndarray | None
    ) -> RowUpdate | None:
        """The same, compiled, where each row has a gain of its own, (n, D, K), and so the precision I − gain wᵀ of its
        cells. `seen` are the places of the rows to infer, None: all; others become 0. None where it is not compiled.
        """
        return None

    def together(self) -> Likelihood | None:
        """The same with the cells of a row inferred together, where there is such a one."""
        return None

    @property
    def inferred(self) -> np.ndarray | None:
        """Of a latent view the features whose x may have to be inferred, (D,) bool; None: all."""
        return None

    def unknown(self, target: Array) -> Array | None:
        """Which observed cells do not tell a number of `numbers`, but where it lies; None: all tell it."""
        return None

    def start_y(self, target: Array, zeros: Array) -> Array:
        """The predictor of a model that already knows the target; `zeros` is of its shape, (n, D)."""
        return zeros

    def start_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """q(x) at the predictor of `start_y`, as `infer_x`."""
        return self.infer_x(target, y, tau, xi)

    @abstractmethod
    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """Values, (n, `n_values`): means or probabilities; and standard deviations, (n, D)."""

    def n_values(self, n_features: int) -> int:
        """How many numbers `predict` has for a row: one for each feature, or for each level of each feature."""
        return n_features

    @abstractmethod
    def losses(self, target: np.ndarray, values: np.ndarray, std: np.ndarray) -> np.ndarray:
        """How far what `predict` says is from targets that were hidden: of real cells the squared error, of others
        −log p; of whole rows (n,), else of the shape of the target.
        """

    def log_density(self, t: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        """log p of what is predicted as a number, given its mean and standard deviation; in the user's units."""
        raise NotImplementedError

    def rank(self, t: np.ndarray, mean: np.ndarray, std: np.ndarray, u: np.ndarray) -> np.ndarray:
        """The same number's place in its distribution, between 0 and 1, P(< t) + u P(t): with u uniform, so is it where
        the distribution is right.
        """
        raise NotImplementedError

    def deviance(self, t: np.ndarray, guess: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """How far it is from a guess: twice the log-likelihood that is lost, but for what all guesses share."""
        raise NotImplementedError

    @abstractmethod
    def decide(self, values: np.ndarray) -> np.ndarray:
        """From `predict`'s values to one value per cell: the mean, 0 / 1, the class code, the level's number."""

    def quantile(self, values: np.ndarray, std: np.ndarray, p: float, score: Score = ndtri) -> np.ndarray:
        """The lowest value up to which there is a probability of p, from what `predict` says, as `decide` returns it.

        `score`: of numbers the quantiles of their errors in standard deviations; those of a normal if not known.
        """
        raise NotImplementedError

    def interval(
        self, values: np.ndarray, std: np.ndarray, level: float, score: Score = ndtri
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest value of an interval with at least this probability: as much is left out on either side;
        of labels the fewest that have it.
        """
        low, high = (self.quantile(values, std, p, score) for p in ((1 - level) / 2, (1 + level) / 2))
        return low, high

    def label_set(self, values: np.ndarray, level: float) -> np.ndarray:
        """Of labels without an order: which are in the smallest set with at least this probability, (n, C) bool."""
        raise NotImplementedError

    @abstractmethod
    def draw(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """What is observed given x, at random, in the form that `decide` returns."""

    def empty_target(self, n: int, width: int) -> np.ndarray:
        """The target of n rows of which nothing was observed."""
        return np.zeros((n, width))
