"""q(x) of counts compiled with numba: the tested twin of `Poisson.infer_x`, one pass over memory and all threads."""

from __future__ import annotations

from math import exp, lgamma, log, log1p, pi

import numba
import numpy as np

from ..threads import in_threads, n_threads

MIN_CHUNK = 20_000  # cells that are worth a thread: a millisecond of work
MOST_STEPS = 30
CLOSE = 1e-7  # a Newton step below this is followed by one of no account
CONSTANT = 0.5 * (log(2 * pi) + 1)
LOW, HIGH = -2.0, 3.0  # below and above, w + log w = s is solved by e^s and by s, nearly
NEAR = 0.06
# log t! and log (t + ½)
TABLES = np.array([[lgamma(t + 1) for t in range(256)], [log(t + 0.5) for t in range(256)]])


def update(
    cells: np.ndarray, log_size: np.ndarray, log_mean: np.ndarray, y: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[x], E[x²] and the bound of each cell; `tau` is (D,), (1, D) or (n, D)."""
    n, width = y.shape
    tau = np.ascontiguousarray(np.broadcast_to(tau, (n if np.ndim(tau) == 2 and len(tau) > 1 else 1, width)))
    log_tau = np.log(tau)
    found = np.empty((3, n, width))
    parts = max(1, min(n_threads(), n * width // MIN_CHUNK))
    edges = np.linspace(0, n, parts + 1).astype(int).tolist()

    def one(a: int, b: int) -> None:
        own = slice(None) if len(tau) == 1 else slice(a, b)
        _update(cells[a:b], log_size[a:b, 0], log_mean[0], y[a:b], tau[own], log_tau[own], found[:, a:b], TABLES)

    for _ in in_threads(one, edges[:-1], edges[1:]):
        pass
    return found[0], found[1], found[2]


@numba.njit(inline="always", fastmath={"contract"})
def _exp_small(x: float) -> float:
    """e^x of |x| < NEAR, to the last digit but one: its Taylor series."""
    series = 1 / 720 + x * (1 / 5040 + x * (1 / 40320))
    return 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * series)))))


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _update(
    cells: np.ndarray,
    log_size: np.ndarray,
    log_mean: np.ndarray,
    y: np.ndarray,
    tau: np.ndarray,
    log_taus: np.ndarray,
    found: np.ndarray,
    tables: np.ndarray,
) -> None:
    shared = len(tau) == 1
    for i in range(y.shape[0]):
        for d in range(y.shape[1]):
            own = 0 if shared else i
            precision, log_tau = tau[own, d], log_taus[own, d]
            t, offset = float(cells[i, d]), log_size[i] + log_mean[d]
            e, inverse = y[i, d] + offset, 1 / precision
            if t < tables.shape[1]:
                log_factorial, log_count = tables[0, int(t)], tables[1, int(t)]
            else:
                log_factorial, log_count = lgamma(t + 1), log(t + 0.5)
            s = e + (t + 0.5) * inverse - log_tau
            if s < LOW:
                u = s
            elif s > HIGH:
                u = log(s)
            else:
                u = log(log1p(exp(s)))
            highest = max(e, log_count)
            u = min(u + log_tau, highest)
            rate = exp(u)
            for _ in range(MOST_STEPS):
                v = 1 / (precision + rate)
                step = (u - e - (t - rate) * inverse - 0.5 * v) / (1 + rate * inverse + 0.5 * rate * v * v)
                step = max(step, u - highest)
                u -= step
                rate = rate * _exp_small(-step) if abs(step) < NEAR else exp(u)
                if abs(step) < CLOSE:
                    break
            total = precision + rate
            v = 1 / total
            mean = u - offset - 0.5 * v
            found[0, i, d] = mean
            found[1, i, d] = mean * mean + v
            found[2, i, d] = t * (mean + offset) - rate - log_factorial + CONSTANT - 0.5 * log(total)
