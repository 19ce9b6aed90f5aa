"""q(x) of counts compiled with numba: the tested twin of `Poisson.follow_y`, on all threads.

Steps go on until the cells of a row move by less than `CLOSE`, in root sum of squares. Each step of Newton's method is
a loop over the cells of a row without branches and calls, of which the compiler makes vector instructions; e^x is a
polynomial times a power of 2, whose bits are written down, and log x is found likewise. From a guess of <x> two or
three steps are enough, else six for most cells.
"""

from __future__ import annotations

from math import lgamma, log, pi

import numba
import numpy as np

from ..arrays import for_numba
from ..threads import in_chunks
from .poisson import CLOSE, MOST_STEPS

MIN_CHUNK = 20_000  # cells that are worth a thread: a millisecond of work
IN_CACHE = 2**14  # cells at a time
MOST_NEAR = 5  # steps from a guess; then the row starts from nowhere
CONSTANT = 0.5 * (log(2 * pi) + 1)
LOG_FACTORIALS = np.array([lgamma(t + 1) for t in range(256)])
LOG2, HIGH_BITS, LOW_BITS = log(2), 0.693147180369123816490, 1.90821492927058770002e-10  # log 2, and in two parts
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
FLAGS = {"contract", "reassoc", "arcp"}


def update(
    cells: np.ndarray,
    log_size: np.ndarray,
    log_mean: np.ndarray,
    y: np.ndarray,
    tau: np.ndarray,
    free: np.ndarray,
    near: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """E[x], E[x²], bound, slope and drift of each cell; `tau` and `free` are (D,), (1, D) or (n, D), `near` (n, D)."""
    n, width = y.shape
    tau, free = (np.atleast_2d(v) for v in (tau, free))
    rows = max(len(tau), len(free))
    tau, spread = (for_numba(np.broadcast_to(v, (rows, width))) for v in (tau, tau * free))
    log_tau, spare = np.log(tau), 0.5 * tau / spread
    found = np.empty((5, n, width))
    step = max(1, IN_CACHE // max(width, 1))

    def job(chunk: slice) -> None:
        for a in range(chunk.start, chunk.stop, step):
            some = slice(a, min(a + step, chunk.stop))
            own = slice(None) if len(tau) == 1 else some
            known = tau[own], spread[own], log_tau[own], spare[own]
            guess = y[:0] if near is None else near[some]
            offset = log_size[some] + log_mean
            given = for_numba(cells[some]), offset, for_numba(y[some]), *known, for_numba(guess)
            _update(*given, found[:, some], LOG_FACTORIALS)

    in_chunks(job, n, n * width, MIN_CHUNK)
    return tuple(found)


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


@numba.njit(inline="always", fastmath=FLAGS)
def _log_all(x: np.ndarray, out: np.ndarray, part: np.ndarray, bits: np.ndarray) -> None:
    """log x to 1e-15 of positive numbers; `bits` is `part` as whole numbers.

    x = 2^k (1 + f) with 1 + f from √½ to √2, and log (1 + f) = 2 artanh s, s = f/(2 + f): a series in s², s² < 0.03.
    """
    for d in range(len(x)):
        part[d] = x[d]
    for d in range(len(x)):
        raised = bits[d] + ((1023 << 52) - SQRT_HALF_BITS)
        out[d] = np.float64(np.int32(raised >> 52) - 1023)
        bits[d] = (raised & ((1 << 52) - 1)) + SQRT_HALF_BITS
    for d in range(len(x)):
        f = part[d] - 1
        s = f / (2 + f)
        z = s * s
        p = 1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19)))
        p = 1 / 7 + z * (1 / 9 + z * (1 / 11 + z * p))
        out[d] = out[d] * LOG2 + 2 * s * (1 + z * (1 / 3 + z * (1 / 5 + z * p)))


@numba.njit(inline="always", fastmath=FLAGS)
def _newton(
    u: np.ndarray,
    rate: np.ndarray,
    e: np.ndarray,
    t: np.ndarray,
    tau: np.ndarray,
    spread: np.ndarray,
    highest: np.ndarray,
    power: np.ndarray,
    bits: np.ndarray,
) -> float:
    """One step of all cells of a row; returns the sum of their squares."""
    _exp_all(u, rate, power, bits)
    total = 0.0
    for d in range(len(u)):
        v = 1 / (spread[d] + rate[d])
        f = tau[d] * (u[d] - e[d] - 0.5 * v) - t[d] + rate[d]
        step = f / (tau[d] + rate[d] + 0.5 * tau[d] * rate[d] * v * v)
        u[d] = max(min(u[d] - step, highest[d]), -700.0)
        total += step * step
    return total


@numba.njit(inline="always", fastmath=FLAGS)
def _from_nowhere(
    u: np.ndarray,
    rate: np.ndarray,
    e: np.ndarray,
    s: np.ndarray,
    bits_of_s: np.ndarray,
    log_tau: np.ndarray,
    highest: np.ndarray,
    power: np.ndarray,
    bits: np.ndarray,
) -> None:
    """The start of `solve_u`, above the root; `s` is used up."""
    for d in range(len(u)):
        u[d] = min(max(s[d], -700.0), 1.0)
    _exp_all(u, rate, power, bits)
    for d in range(len(u)):
        low = s[d] - rate[d] / (1 + rate[d])  # a Newton step from w = e^s
        s[d] = max(s[d], 1.0)
        high = _log_above(bits_of_s[d])
        first = log_tau[d] + (high if s[d] > 1 else low)
        u[d] = max(min(first, highest[d]), -700.0)


@numba.njit(inline="always", fastmath=FLAGS)
def _log_above(bits: int) -> float:
    """log s to 0.06, from above: the exponent of s and its digits, read as a number."""
    return LOG2 * (bits * (1 / 2**52) - 1022.91)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=FLAGS)
def _update(
    cells: np.ndarray,
    offset: np.ndarray,
    y: np.ndarray,
    taus: np.ndarray,
    spreads: np.ndarray,
    log_taus: np.ndarray,
    spares: np.ndarray,
    near: np.ndarray,
    found: np.ndarray,
    log_factorials: np.ndarray,
) -> None:
    """Of each cell `spreads` is tau·free, and `spares` ½/free; without a guess `near` has no rows."""
    n, width = y.shape
    e, u, s, rate, power = np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    t, highest = np.empty(width), np.empty(width)
    bits, bits_of_s = power.view(np.int64), s.view(np.int64)
    for i in range(n):
        own = 0 if len(taus) == 1 else i
        tau, spread, log_tau = taus[own], spreads[own], log_taus[own]
        for d in range(width):
            t[d] = cells[i, d]
            e[d] = y[i, d] + offset[i, d]
            s[d] = t[d] + spares[own, d]
        for d in range(width):
            highest[d] = max(e[d], _log_above(bits_of_s[d]))
        moved = 1.0
        if len(near) > 0:
            for d in range(width):
                u[d] = max(min(near[i, d] + offset[i, d], highest[d]), -700.0)
            _exp_all(u, rate, power, bits)
            for d in range(width):
                u[d] = max(min(u[d] + 0.5 / (spread[d] + rate[d]), highest[d]), -700.0)
            for _ in range(MOST_NEAR):
                moved = _newton(u, rate, e, t, tau, spread, highest, power, bits)
                if moved < CLOSE * CLOSE:
                    break
        if not moved < CLOSE * CLOSE:
            for d in range(width):
                s[d] = e[d] + (t[d] + spares[own, d]) / tau[d] - log_tau[d]
            _from_nowhere(u, rate, e, s, bits_of_s, log_tau, highest, power, bits)
            for _ in range(MOST_STEPS):
                if _newton(u, rate, e, t, tau, spread, highest, power, bits) < CLOSE * CLOSE:
                    break
        _exp_all(u, rate, power, bits)
        for d in range(width):
            total = spread[d] + rate[d]
            v = 1 / total
            mean = u[d] - offset[i, d] - 0.5 * v
            off, curved = mean - y[i, d], tau[d] / (tau[d] + rate[d] + 0.5 * tau[d] * rate[d] * v * v)
            slower = rate[d] * curved * (off + 0.5 * spread[d] * v * v)  # −d rate / d log tau
            s[d] = total
            found[0, i, d] = mean
            found[1, i, d] = mean * mean + v
            found[2, i, d] = t[d] * (mean + offset[i, d]) - rate[d] + CONSTANT
            found[3, i, d] = 1 - rate[d] / tau[d] * curved
            found[4, i, d] = -2 * off * (off - slower / tau[d]) - spread[d] / tau[d] * v * v * (spread[d] - slower)
        _log_all(s, rate, power, bits)
        for d in range(width):
            found[2, i, d] -= 0.5 * rate[d]
            if t[d] > 1:
                found[2, i, d] -= log_factorials[int(t[d])] if t[d] < len(log_factorials) else lgamma(t[d] + 1)
