"""q(x) of counts compiled with numba: the tested twin of `Poisson.infer_x`, on all threads.

Each step of Newton's method is a loop over the cells of a row without branches and calls, of which the compiler makes
vector instructions; e^x is a polynomial times a power of 2, whose bits are written down.
"""

from __future__ import annotations

from math import lgamma, log, pi

import numba
import numpy as np

from ..threads import in_threads, n_threads

MIN_CHUNK = 20_000  # cells that are worth a thread: a millisecond of work
IN_CACHE = 2**14  # cells at a time
N_STEPS = 6
CONSTANT = 0.5 * (log(2 * pi) + 1)
LOG_FACTORIALS = np.array([lgamma(t + 1) for t in range(256)])
LOG2, HIGH_BITS, LOW_BITS = log(2), 0.693147180369123816490, 1.90821492927058770002e-10  # log 2, and in two parts
FLAGS = {"contract", "reassoc", "arcp"}


def update(
    cells: np.ndarray, log_size: np.ndarray, log_mean: np.ndarray, y: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[x], E[x²] and the bound of each cell; `tau` is (D,), (1, D) or (n, D)."""
    n, width = y.shape
    tau = np.ascontiguousarray(np.broadcast_to(tau, (n if np.ndim(tau) == 2 and len(tau) > 1 else 1, width)))
    log_tau = np.log(tau)
    found = np.empty((3, n, width))
    parts = max(1, min(n_threads(), n * width // MIN_CHUNK))
    step = max(1, IN_CACHE // max(width, 1))

    def one(first: int, last: int) -> None:
        for a in range(first, last, step):
            some = slice(a, min(a + step, last))
            own = slice(None) if len(tau) == 1 else some
            offset = log_size[some] + log_mean
            highest = np.log(cells[some] + 0.5)
            total = _update(
                cells[some], offset, highest, y[some], tau[own], log_tau[own], found[:, some], LOG_FACTORIALS
            )
            found[2, some] -= 0.5 * np.log(total, out=total)

    edges = np.linspace(0, n, parts + 1).astype(int).tolist()
    for _ in in_threads(one, edges[:-1], edges[1:]):
        pass
    return found[0], found[1], found[2]


@numba.njit(inline="always", fastmath=FLAGS)
def _exp_all(x: np.ndarray, out: np.ndarray, power: np.ndarray, bits: np.ndarray) -> None:
    """e^x to 1e-15, for x from -700 to 700; `bits` is `power` as whole numbers."""
    for d in range(len(x)):
        k = np.floor(x[d] * (1 / LOG2) + 0.5)
        bits[d] = (np.int64(np.int32(k)) + 1023) << 52
        r = (x[d] - k * HIGH_BITS) - k * LOW_BITS
        p = 1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600 + r * (1 / 6227020800)))
        p = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * p))
        p = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * p))
        out[d] = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * p)))
    for d in range(len(x)):
        out[d] *= power[d]


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=FLAGS)
def _update(
    cells: np.ndarray,
    offset: np.ndarray,
    highest: np.ndarray,
    y: np.ndarray,
    tau: np.ndarray,
    log_tau: np.ndarray,
    found: np.ndarray,
    log_factorials: np.ndarray,
) -> np.ndarray:
    """All but −½ log (tau + rate) of the bound; returns tau + rate."""
    n, width = y.shape
    totals = np.empty((n, width))
    e, u, s, rate, power = np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    bits, bits_of_s = power.view(np.int64), s.view(np.int64)
    for i in range(n):
        own = 0 if len(tau) == 1 else i
        for d in range(width):
            e[d] = y[i, d] + offset[i, d]
            s[d] = e[d] + (cells[i, d] + 0.5) / tau[own, d] - log_tau[own, d]
            u[d] = min(max(s[d], -700.0), 1.0)
        _exp_all(u, rate, power, bits)
        for d in range(width):
            low = s[d] - rate[d] / (1 + rate[d])  # a Newton step from w = e^s
            s[d] = max(s[d], 1.0)
            # log s to 0.04, from above: its exponent and its digits, read as a number
            high = LOG2 * (bits_of_s[d] * (1 / 2**52) - 1022.91)
            first = log_tau[own, d] + (high if s[d] > 1 else low)
            highest[i, d] = max(e[d], highest[i, d])
            u[d] = max(min(first, highest[i, d]), -700.0)
        for _ in range(N_STEPS):
            _exp_all(u, rate, power, bits)
            for d in range(width):
                precision = tau[own, d]
                v = 1 / (precision + rate[d])
                f = precision * (u[d] - e[d] - 0.5 * v) - cells[i, d] + rate[d]
                step = f / (precision + rate[d] + 0.5 * precision * rate[d] * v * v)
                u[d] = max(min(u[d] - step, highest[i, d]), -700.0)
        _exp_all(u, rate, power, bits)
        for d in range(width):
            total = tau[own, d] + rate[d]
            mean = u[d] - offset[i, d] - 0.5 / total
            totals[i, d] = total
            found[0, i, d] = mean
            found[1, i, d] = mean * mean + 1 / total
            found[2, i, d] = cells[i, d] * (mean + offset[i, d]) - rate[d] + CONSTANT
        for d in range(width):
            t = float(cells[i, d])
            if t > 1:
                found[2, i, d] -= log_factorials[int(t)] if t < len(log_factorials) else lgamma(t + 1)
    return totals
