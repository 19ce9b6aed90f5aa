"""Kernel features of a real view: its twin, one more view of the same rows in which bent effects are straight.

With landmarks L among the rows and K = k(L, L), the features of a row x are k(x, L) K^-½ (Nyström): their products are
the kernel between rows, as far as the landmarks tell. They are centred, and divided by one number, so that directions
in which the kernel varies little stay small. They have no noise of their own: the precision of the twin is given, and
says how small a direction may be and still be a factor, as the penalty of kernel ridge regression does.

A twin is made of what is shown of its view, at the last moment: a cell that is hidden there is hidden here. A row
with few holes has features, the holes filled by the mean. That would say of the holes that they are near the mean:
where they are asked for, rows with holes have no features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    euclidean_distances,
    manhattan_distances,
    pairwise_kernels,
)

from ..core.arrays import array_namespace, like, to_numpy
from ..core.coded import CodedView
from ..core.parted import PartedView
from ..core.streamed import AnyView, StreamedView

SAMPLE = 2000  # rows of which a twin is learned
LANDMARKS = 200  # at most
LEAST_SEEN = 0.75  # of the cells of a row, without which it has no features
SMALLEST = 1e-10  # of the largest eigenvalue of k(L, L): smaller ones are rounding
CHUNK_CELLS = 2**22  # of k(x, L) at a time
MEMORY_SHARE = 0.25  # of what may be used: larger twins are made anew whenever their rows are needed
STEP = 1e-4  # standard deviations, for slopes of a kernel whose derivative is not known
KERNELS = tuple(sorted(PAIRWISE_KERNEL_FUNCTIONS))  # by their names
DISTANCES = {"rbf": euclidean_distances, "laplacian": manhattan_distances}  # of kernels that have a width


def check_kernel(kernel: Any, params: Any, name: str) -> None:
    """Raise an error that names the view where the kernel, or what it is given, makes no sense."""
    if kernel is None:
        if params is not None:
            raise ValueError(f"view {name!r}: kernel_params need a kernel.")
        return
    if not callable(kernel) and kernel not in KERNELS:
        known = ", ".join(KERNELS)
        raise ValueError(
            f"view {name!r}: there is no kernel {kernel!r}; give a function of two rows, or one of {known}."
        )
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(f"view {name!r}: kernel_params must be a dict such as {{'gamma': 0.1}}, not {params!r}.")


def kernel_name(kernel: Any) -> str:
    return kernel if isinstance(kernel, str) else getattr(kernel, "__name__", type(kernel).__name__)


def twin_name(name: str, kernel: Any) -> str:
    return f"{name} ({kernel_name(kernel)})"


def has_width(kernel: Any, params: Mapping[str, Any] | None) -> bool:
    """Is the width of the kernel to be found?"""
    return isinstance(kernel, str) and kernel in DISTANCES and "gamma" not in (params or {})


class TwinOptions(NamedTuple):
    """What the user says of the kernel features of a view."""

    kernel: str | Callable
    params: Mapping[str, Any] | None
    landmarks: int  # at most


@dataclass(frozen=True, eq=False)
class Twin:
    """What was learned to make the kernel features of a view, m of them."""

    kernel: str | Callable
    params: dict[str, Any]
    landmarks: np.ndarray  # (m, D), in the view's units in the model
    whitening: np.ndarray  # (m, m): K^-½, divided by the common scale
    centre: np.ndarray  # (m,)
    variance: np.ndarray  # (m,): of each feature
    n_seen: int  # training rows that have features
    precision: float  # of what noise is left beside the factors

    @property
    def width(self) -> int:
        return len(self.centre)

    def of(self, view: CodedView, least_seen: float = LEAST_SEEN) -> CodedView:
        """The features of some rows, missing where less of the row is seen."""
        seen, values, n = has_features(view, least_seen), row_values(view), view.n_rows
        step = max(1, CHUNK_CELLS // max(len(self.landmarks), 1))
        parts = [self.features(values[start : start + step]) for start in range(0, max(n, 1), step)]
        xp = array_namespace(parts[0])
        target = xp.astype(parts[0] if len(parts) == 1 else xp.concat(parts), getattr(xp, view.dtype))
        if seen.all():
            return CodedView(target, None)
        target[np.flatnonzero(~seen)] = 0
        return CodedView(target, seen[:, None])

    def features(self, values: Any) -> Any:
        """Those of rows (n, D) without holes, (n, m)."""
        kernel = self.similarities(values)
        return kernel @ like(self.whitening, kernel) - like(self.centre, kernel)

    def similarities(self, values: Any) -> Any:
        """k(x, L), (n, m), where the rows are if the kernel is a Gaussian one."""
        if self.kernel == "rbf":
            return gaussian(values, like(self.landmarks, values), self.params["gamma"])
        found = pairwise_kernels(to_numpy(values), self.landmarks, metric=self.kernel, **self.params)
        return like(found, values)

    def slopes(self, rows: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Of what the features move by `moves` (m, T) each: by how much each column moves it at each row, (n, D, T)."""
        along = self.whitening @ moves
        if self.kernel == "rbf":
            # d k(x, l)/dx = −2 gamma (x − l) k(x, l)
            kernel = self.similarities(rows)
            pulled = np.einsum("il,ld,lt->idt", kernel, self.landmarks, along, optimize=True)
            return -2 * self.params["gamma"] * (rows[:, :, None] * (kernel @ along)[:, None, :] - pulled)
        found = np.empty((*rows.shape, moves.shape[1]))
        for d in range(rows.shape[1]):
            step = np.zeros(rows.shape[1])
            step[d] = STEP
            ahead, behind = self.similarities(rows + step), self.similarities(rows - step)
            found[:, d] = (ahead - behind) @ along / (2 * STEP)
        return found


def has_features(view: CodedView, least_seen: float = LEAST_SEEN) -> np.ndarray:
    """Of which rows of a view enough is seen for kernel features, (n,) bool."""
    if view.observed is None:
        return np.ones(view.n_rows, dtype=bool)
    return np.asarray(view.observed.mean(axis=1) >= least_seen)


def can_learn(view: CodedView) -> bool:
    """Are there rows between which distances can be taken?"""
    return int(has_features(view).sum()) >= 2


def gaussian(values: Any, landmarks: Any, gamma: float) -> Any:
    """exp(−gamma |x − l|²), on whatever device the rows are."""
    xp = array_namespace(values)
    square = xp.sum(values**2, axis=1)[:, None] + xp.sum(landmarks**2, axis=1)[None, :] - 2 * values @ landmarks.T
    return xp.exp(-gamma * xp.clip(square, 0.0, None))


def row_values(view: CodedView) -> Any:
    """One number for each cell, (n, D), in double precision: of an interval its middle, or the end that is known."""
    target, xp = view.target, array_namespace(view.target)
    if target.ndim == 3:
        low, high = xp.astype(target[..., 0], xp.float64), xp.astype(target[..., 1], xp.float64)
        low, high = xp.where(xp.isinf(low), high, low), xp.where(xp.isinf(high), low, high)
        return (low + high) / 2
    return xp.astype(target, xp.float64)


# ------------------------------------------------------------------------------------------------------------- learning


def learn_twin(
    kernel: Any,
    params: Mapping[str, Any] | None,
    n_landmarks: int,
    rows: CodedView,
    n_seen: int,
    multiple: float,
    precision: float,
) -> Twin | None:
    """From rows in random order, the first of which become the landmarks; None where most of them are mostly holes.

    `multiple` is of the median distance between landmarks, where the kernel has a width that is not given.
    """
    if not can_learn(rows):
        return None
    values = row_values(rows)
    if rows.observed is not None:  # rows without holes are the first to be landmarks
        order = np.argsort(~rows.observed.all(axis=1), kind="stable")
        values = values[order][has_features(rows)[order]]
    landmarks = values[: min(n_landmarks, len(values))]
    known = dict(params or {})
    if has_width(kernel, params):
        known["gamma"] = width_to_gamma(kernel, landmarks, multiple)
    m = len(landmarks)
    rough = Twin(kernel, known, landmarks, np.eye(m), np.zeros(m), np.ones(m), n_seen, precision)
    own = rough.similarities(landmarks)
    roots, vectors = np.linalg.eigh((own + own.T) / 2)
    kept = roots > SMALLEST * roots[-1]
    whitening = (vectors[:, kept] / np.sqrt(roots[kept])) @ vectors[:, kept].T
    found = rough.similarities(values) @ whitening
    centre, variance = found.mean(axis=0), found.var(axis=0)
    scale = float(np.sqrt(variance.mean()))
    scale = scale if scale > 0 else 1.0
    variance = np.maximum(variance / scale**2, SMALLEST)
    return replace(rough, whitening=whitening / scale, centre=centre / scale, variance=variance)


def width_to_gamma(kernel: str, landmarks: np.ndarray, multiple: float) -> float:
    """The median heuristic: exp(−|x − y|²/2s²) or exp(−|x − y|/s), s a multiple of the median distance."""
    distances = DISTANCES[kernel](landmarks)[np.triu_indices(len(landmarks), 1)]
    positive = distances[distances > 0]
    width = multiple * float(np.median(positive)) if len(positive) else 1.0
    return 1 / (2 * width**2) if kernel == "rbf" else 1 / width


# ---------------------------------------------------------------------------------------------------------------- rows


def twin_of(twin: Twin, view: AnyView, limit: float = np.inf, least_seen: float = LEAST_SEEN) -> AnyView:
    """The features of all rows of a view: in memory, or, where that takes too much, made when they are needed."""
    n_bytes = view.n_rows * twin.width * np.dtype(view.dtype).itemsize
    if isinstance(view, CodedView) and (not view.on_host or n_bytes <= MEMORY_SHARE * limit):
        return twin.of(view, least_seen)

    def read_rows(start: int, stop: int) -> CodedView:
        return twin.of(view.read(slice(start, stop)), least_seen)

    empty = twin.of(view.read(slice(0, 0)) if isinstance(view, CodedView) else view.empty)
    chunk_bytes = 2**26 if isinstance(view, CodedView) else view.chunk_bytes
    form = CodedView(empty.target, None)
    whole = StreamedView.of(read_rows, view.n_rows, form, twin.width, view.is_complete, chunk_bytes, view.any_order)
    if not isinstance(view, PartedView):
        return whole
    parts: PartedView = view

    def there(start: int, stop: int) -> Any:
        import dask

        return dask.delayed(features_of)(parts.there(start, stop), twin, least_seen)

    def fetch(places: np.ndarray) -> CodedView:
        return twin.of(parts.fetch(places), least_seen)

    own = {f.name: getattr(whole, f.name) for f in fields(StreamedView)}
    return PartedView(**own, there=there, fetch=fetch, edges=parts.edges)


def features_of(view: CodedView, twin: Twin, least_seen: float) -> CodedView:
    return twin.of(view, least_seen)
