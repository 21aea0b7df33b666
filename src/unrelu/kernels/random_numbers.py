"""Random numbers for kernels: a stream of its own for every (seed, row), so that no row's draws depend on other rows.

The generator is xoshiro256++ (Blackman and Vigna 2021), four words of state filled by splitmix64 from seed and row.
NumPy's generators inside numba belong to a thread and would not do. Normals come from the polar method, normals below
a limit by rejection, which is exact however far out the limit lies.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.kernels.compiling import kernel

Stream = NDArray[np.uint64]  # four words

STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_10, _12, _17, _19, _23, _27, _30, _31, _41, _45 = (
    np.uint64(k) for k in (10, 12, 17, 19, 23, 27, 30, 31, 41, 45)
)  # shifts: numba makes a float of a signed and an unsigned integer
_UNIT = 2.0**-52
_FARTHEST = -1e150  # its square is a number
_TAIL = -0.5  # below it the tail's own rejection wastes less than that of all normals


@njit(cache=True, nogil=True, inline="always")
def mixed(word: np.uint64) -> np.uint64:
    """The finalizer of splitmix64."""
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    return word ^ (word >> _31)


@kernel
def seed_stream(seed: int, row: int, stream: Stream) -> None:
    """Set ``stream`` to the beginning of what belongs to this seed and row."""
    word = mixed(np.uint64(seed) + STEP)
    word = mixed(word ^ (np.uint64(row) * _MIX_2 + STEP))
    for k in range(4):
        word += STEP
        stream[k] = mixed(word)


@njit(cache=True, nogil=True, inline="always")
def uniform(stream: Stream) -> float:
    """The next number strictly between 0 and 1, a multiple of 2^-53."""
    a, b, c, d = stream[0], stream[1], stream[2], stream[3]
    total = a + d
    word = ((total << _23) | (total >> _41)) + a
    c ^= a
    d ^= b
    stream[1] = b ^ c
    stream[0] = a ^ d
    stream[2] = c ^ (b << _17)
    stream[3] = (d << _45) | (d >> _19)
    return (np.float64(word >> _12) + 0.5) * _UNIT


@njit(cache=True, nogil=True, inline="always")
def _pair(stream: Stream) -> tuple[float, float]:
    """Two standard normals: a point in the unit disc, stretched (Marsaglia's polar method)."""
    while True:
        x, y = 2.0 * uniform(stream) - 1.0, 2.0 * uniform(stream) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            stretch = math.sqrt(-2.0 * math.log(square) / square)
            return x * stretch, y * stretch


@kernel
def normal(stream: Stream) -> float:
    """The next standard normal."""
    return float(_pair(stream)[0])


@kernel
def normal_below(limit: float, stream: Stream) -> float:
    """A standard normal given that it lies below ``limit``.

    In the tail -sqrt(limit^2 + 2 e), e exponential, has density |x| exp(-x^2/2): kept with probability limit/x
    (Marsaglia 1964).
    """
    if limit > _TAIL:
        while True:
            x, y = _pair(stream)
            if x <= limit:
                return float(x)
            if y <= limit:
                return float(y)
    if not limit > _FARTHEST:  # NaN, too, of which no proposal would ever be kept
        return _FARTHEST
    while True:
        x = math.sqrt(limit * limit - 2.0 * math.log(uniform(stream)))
        if uniform(stream) * x <= -limit:
            return float(-x)
