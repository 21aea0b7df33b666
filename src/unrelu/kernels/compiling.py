"""How kernels are compiled: once, cached, free of the interpreter lock, and without entries that nobody uses.

``kernel`` is for functions that Python calls, ``helper`` for those that only kernels call; ``contracted_kernel`` and
``contracted_helper`` may join a product and a sum into one rounding. While numba compiles, Python's search for cycles
rests: the compiler makes millions of objects that stay, and a tenth of its time went into looking through them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core import event

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


class _NoSearchForCycles(event.Listener):
    """Of kernels that are compiled within each other, the first to begin is the last to end: one thread at a time."""

    compiling, was_on = 0, False

    def on_start(self, _: Any) -> None:
        if self.compiling == 0:
            self.was_on = gc.isenabled()
            gc.disable()
        self.compiling += 1

    def on_end(self, _: Any) -> None:
        self.compiling -= 1
        if self.compiling == 0 and self.was_on:
            gc.enable()


event.register("numba:compile", _NoSearchForCycles())  # type: ignore[no-untyped-call]
