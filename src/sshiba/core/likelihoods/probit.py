"""Categorical views: t = argmax_d x_d with unit noise, the multinomial probit (the paper's table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np

from ..arrays import arange, array_namespace, eye, zeros
from ..state import Array
from .likelihood import CONFIDENT, SMALLEST, Likelihood, PredictiveX, RowCells, RowUpdate, XUpdate
from .probit_integrals import class_probabilities, compiled, few_class_probabilities, log_xi_and_step
from .probit_rows import update_rows


@dataclass(frozen=True)
class MultinomialProbit(Likelihood):
    """One of several classes for each row; each class is one latent feature."""

    latent = True
    whole_rows = True
    joint = True
    exact = False
    needs_sharpness = True
    ordered = False

    def infer_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """q(x) is N(y, I) cut to the cone where x_t is largest; tau is 1.

        The cone is closed under scaling, so ∫ ∇·(x p(x)) dx = 0 over it, hence E|x|² = D + <x>·y: the
        second moment below is right in its sum over classes, which is all that tau = 1 asks for.
        """
        xp = array_namespace(y)
        log_xi, step = log_xi_and_step(y, target)
        mean = y + step
        second = 1 + mean * y
        # E[log p(t|x)] = 0 on the cone; H[q] = log ξ + D/2 log 2π + ½ E|x − y|².
        quad = xp.sum(second - 2 * mean * y + y * y, axis=1)
        bound = log_xi + 0.5 * (y.shape[1] * log(2 * pi) + quad)
        return XUpdate(mean, second, bound[:, None])

    def infer_rows(self, cells: RowCells, each: bool) -> RowUpdate:
        """log p of what all other cells say is quadratic in x, with the gradient y − x at the present means. x = x⊥ + c
        1 with c their mean. The label says nothing about c, which stays normal given x⊥; q(x⊥) is N(m, I/p) cut to the
        cone, with one precision p for all directions.

        P = I − `leverage` (of one of several copies) is the precision, J = I − 11ᵀ/C, p_c = 1ᵀP1 the precision of c.
        Given x⊥, c moves by k·x⊥, k = −JP1/p_c. Without c the precision of x⊥ is P⊥ = JPJ − JP11ᵀPJ/p_c, of which p is
        the mean eigenvalue, and at least half of the largest (bounded by row sums, and by 1), so that the step in m
        does not go too far.
        """
        precision = eye(cells.y.shape[1], cells.y) - cells.leverage / max(1.0, cells.weight)
        return RowUpdate(*update_rows(cells.target, cells.x, cells.y, precision, each))

    def infer_own_rows(
        self, target: np.ndarray, x: np.ndarray, y: np.ndarray, gain: np.ndarray, w: np.ndarray, seen: np.ndarray | None
    ) -> RowUpdate | None:
        fast = compiled()
        if fast is None:
            return None
        places = np.arange(len(y)) if seen is None else seen
        return RowUpdate(*fast.update_own_rows(target, x, y, gain, w, places))

    def start_y(self, target: Array, zeros: Array) -> Array:
        xp, n_classes = array_namespace(zeros), zeros.shape[1]
        is_true = arange(n_classes, zeros)[None, :] == target[:, None]
        return CONFIDENT * (xp.astype(is_true, zeros.dtype) - 1 / n_classes)

    def start_x(self, target: Array, y: Array, tau: Array, xi: Array | None) -> XUpdate:
        """All rows of a class start alike: it is enough to infer one of each."""
        n, n_classes = y.shape
        if n <= n_classes:
            return self.infer_x(target, y, tau, xi)
        xp, classes = array_namespace(y), arange(n_classes, y)
        alike = self.infer_x(classes, self.start_y(classes, zeros((n_classes, n_classes), y)), tau, xi)
        return XUpdate(*(xp.take(v, target, axis=0) for v in (alike.mean, alike.second, alike.bound)))

    def predict(self, x: PredictiveX) -> tuple[Array, Array]:
        """Class probabilities and the standard deviations of their indicators."""
        p = few_class_probabilities(x) if x.mean.shape[1] <= 3 else self._many_classes(x)
        return p, array_namespace(p).sqrt(p * (1 - p))

    def _many_classes(self, x: PredictiveX) -> Array:
        """Classes are correlated through z. Of that covariance S, what is common to all classes does not matter, and as
        much as can be is moved to the part that is independent between classes, S = A Aᵀ + floor·I, which is
        integrated in one dimension; A u is averaged over points, its largest directions first.

        With F the centred factor S = F Fᵀ has no more directions than z has. Where these are fewer than the classes
        can have, C − 1, the floor is 0, and A = F V with FᵀF = V Λ Vᵀ: S F V = F V Λ, and VᵀFᵀF V = Λ. So nothing of
        the size C x C is needed.
        """
        xp, n_classes = array_namespace(x.mean), x.mean.shape[1]
        factor = x.z_factor - xp.mean(x.z_factor, axis=1, keepdims=True)
        own_var = x.own_var + x.noise_var
        if factor.shape[2] < n_classes - 1:
            A = xp.flip(factor @ xp.linalg.eigh(xp.matrix_transpose(factor) @ factor)[1], axis=-1)
        else:
            values, vectors = xp.linalg.eigh(factor @ xp.matrix_transpose(factor))
            floor = xp.where(values[:, 1:2] > 0, values[:, 1:2], 0.0)  # values[:, 0] is the common direction's zero
            spread = xp.where(values > floor, values - floor, 0.0)
            A = xp.flip(vectors * xp.sqrt(spread)[:, None, :], axis=-1)[:, :, : n_classes - 2]
            own_var = own_var + floor
        # The points are not symmetric, and eigenvectors come with either sign: here the largest entry is positive.
        mirrored = xp.max(A, axis=1, keepdims=True) < -xp.min(A, axis=1, keepdims=True)
        return class_probabilities(x.mean, xp.where(mirrored, -A, A), xp.sqrt(own_var))

    def losses(self, target: np.ndarray, values: np.ndarray, std: np.ndarray) -> np.ndarray:
        return -np.log(np.maximum(values[np.arange(len(target)), target], SMALLEST))

    def decide(self, values: np.ndarray) -> np.ndarray:
        return np.argmax(values, axis=1)

    def label_set(self, values: np.ndarray, level: float) -> np.ndarray:
        """The likeliest labels, one after the other, until there is enough."""
        order = np.argsort(-values, axis=1, kind="stable")
        sorted_values = np.take_along_axis(values, order, axis=1)
        before = np.cumsum(sorted_values, axis=1) - sorted_values
        inside = np.empty(values.shape, dtype=bool)
        np.put_along_axis(inside, order, before < level, axis=1)
        return inside

    def draw(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.argmax(x, axis=1)

    def empty_target(self, n: int, width: int) -> np.ndarray:
        return np.zeros(n, dtype=np.int64)
