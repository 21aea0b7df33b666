"""How kernels are compiled: once, cached, free of the interpreter lock, and without unused entries.

``kernel`` is for functions that Python calls, ``helper`` for those that only kernels call; ``contracted_kernel`` and
``contracted_helper`` may join a product and a sum into one rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function")


def _compiling(**more: Any) -> Callable[[Function], Function]:
    """What turns a function into one that is compiled at its first call."""
    wrap: Any = njit
    compiling: Callable[[Function], Function] = wrap(cache=True, nogil=True, no_cfunc_wrapper=True, **more)
    return compiling


kernel = _compiling()
helper = _compiling(no_cpython_wrapper=True)
contracted_kernel = _compiling(fastmath={"contract"})
contracted_helper = _compiling(fastmath={"contract"}, no_cpython_wrapper=True)
