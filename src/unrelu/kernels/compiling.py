"""How kernels are compiled: once, cached, free of the interpreter lock, and without entries that nobody uses.

``kernel`` is for functions that Python calls, ``helper`` for those that only kernels call; ``contracted_kernel`` and
``contracted_helper`` may join a product and a sum into one rounding.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from numba import njit

Function = TypeVar("Function")


class Compile(Protocol):
    """Turns a function into one that is compiled at its first call."""

    def __call__(self, function: Function, /) -> Function: ...


_njit: Any = njit
_SHARED: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}

kernel: Compile = _njit(**_SHARED)
helper: Compile = _njit(**_SHARED, no_cpython_wrapper=True)
contracted_kernel: Compile = _njit(**_SHARED, fastmath={"contract"})
contracted_helper: Compile = _njit(**_SHARED, fastmath={"contract"}, no_cpython_wrapper=True)
