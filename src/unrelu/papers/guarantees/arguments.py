"""Domains of the theorems' arguments, and a number of samples as an integer."""

from __future__ import annotations

import math
from typing import Any

from unrelu.errors import InvalidParameterError

_BELOW_0 = math.nextafter(0.0, -1.0)


def number(name: str, value: Any, domain: str, *, above: float, below: float = math.inf, closed: bool = False) -> float:
    """``value`` as a float if above < value < below (value <= below if ``closed``); ``domain`` says so in words."""
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise InvalidParameterError(f"{name} must be {domain}, got {value!r}.") from None
    if not (above < real < below or (closed and real == below)):
        raise InvalidParameterError(f"{name} must be {domain}, got {value!r}.")
    return real


def between_0_and_1(name: str, value: Any) -> float:
    return number(name, value, "above 0 and below 1", above=0.0, below=1.0)


def positive(name: str, value: Any) -> float:
    return number(name, value, "above 0 and finite", above=0.0)


def not_negative(name: str, value: Any, domain: str = "at least 0 and finite", below: float = math.inf) -> float:
    return number(name, value, domain, above=_BELOW_0, below=below, closed=math.isfinite(below))


def whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise InvalidParameterError(f"{name} must be an integer of {least} or more, got {value!r}.")
    return int(value)


def samples(count: float) -> int:
    """A number of samples, rounded up; rounding error alone must not add one."""
    if not math.isfinite(count):
        raise InvalidParameterError("The number of samples is beyond double precision (1.8e308): it cannot be had.")
    nearest = round(count)
    return max(nearest if abs(count - nearest) <= 1e-12 * count else math.ceil(count), 1)
