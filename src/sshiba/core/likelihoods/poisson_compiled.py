"""q(x) of counts compiled with numba: the tested twin of `Poisson.infer_x`, one pass over memory and all threads."""

from __future__ import annotations

from math import exp, lgamma, log, log1p, pi

import numba
import numpy as np

from ..threads import in_threads, n_threads

MIN_CHUNK = 20_000  # cells that are worth a thread: a millisecond of work
MOST_STEPS = 30
CLOSE = 1e-8  # a Newton step below this is followed by one of no account
CONSTANT = 0.5 * (log(2 * pi) + 1)
LOG_FACTORIALS = np.array([lgamma(t + 1) for t in range(256)])


def update(
    cells: np.ndarray, log_size: np.ndarray, log_mean: np.ndarray, y: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[x], E[x²] and the bound of each cell; `tau` is (D,), (1, D) or (n, D)."""
    n, width = y.shape
    tau = np.ascontiguousarray(np.broadcast_to(tau, (n if np.ndim(tau) == 2 and len(tau) > 1 else 1, width)))
    found = np.empty((3, n, width))
    parts = max(1, min(n_threads(), n * width // MIN_CHUNK))
    edges = np.linspace(0, n, parts + 1).astype(int).tolist()

    def one(a: int, b: int) -> None:
        own = tau if len(tau) == 1 else tau[a:b]
        _update(cells[a:b], log_size[a:b, 0], log_mean[0], y[a:b], own, found[:, a:b], LOG_FACTORIALS)

    for _ in in_threads(one, edges[:-1], edges[1:]):
        pass
    return found[0], found[1], found[2]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _update(
    cells: np.ndarray,
    log_size: np.ndarray,
    log_mean: np.ndarray,
    y: np.ndarray,
    tau: np.ndarray,
    found: np.ndarray,
    log_factorials: np.ndarray,
) -> None:
    shared = len(tau) == 1
    for i in range(y.shape[0]):
        for d in range(y.shape[1]):
            precision = tau[0, d] if shared else tau[i, d]
            t, offset = float(cells[i, d]), log_size[i] + log_mean[d]
            e, inverse = y[i, d] + offset, 1 / precision
            log_tau = log(precision)
            s = e + (t + 0.5) * inverse - log_tau
            if s < -30:
                u = s
            elif s > 30:
                u = log(s)
            else:
                u = log(log1p(exp(s)))
            highest = max(e, log(t + 0.5))
            u = min(u + log_tau, highest)
            rate = exp(u)
            for _ in range(MOST_STEPS):
                v = 1 / (precision + rate)
                f = u - e - (t - rate) * inverse - 0.5 * v
                step = f / (1 + rate * inverse + 0.5 * rate * v * v)
                u = min(u - step, highest)
                if abs(step) < CLOSE:
                    rate *= 1 - step  # e^−step, to 1e-16
                    break
                rate = exp(u)
            v = 1 / (precision + rate)
            mean = u - offset - 0.5 * v
            found[0, i, d] = mean
            found[1, i, d] = mean * mean + v
            own = log_factorials[int(t)] if t < len(log_factorials) else lgamma(t + 1)
            found[2, i, d] = t * (mean + offset) - rate - own + CONSTANT + 0.5 * log(v)
