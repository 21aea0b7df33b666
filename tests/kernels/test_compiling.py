"""Python's search for cycles rests while a kernel is compiled, and only then."""

import gc

import numba
import pytest
from numba.core import event

from unrelu.kernels import compiling  # noqa: F401 - it says so to numba


class Seen(event.Listener):
    def __init__(self):
        self.searches = []

    def on_start(self, _):
        self.searches.append(gc.isenabled())

    def on_end(self, _):
        pass


@pytest.mark.parametrize("on", [True, False])
def test_no_search_while_compiling_and_as_before_afterwards(on):
    inner = numba.njit(lambda x: x + 1.0)
    outer = numba.njit(lambda x: inner(x) * 2.0)
    seen = Seen()
    try:
        if not on:
            gc.disable()
        with event.install_listener("numba:compile", seen):
            assert outer(1.0) == 4.0
        assert gc.isenabled() == on
    finally:
        gc.enable()
    assert seen.searches == [False, False]


def test_a_kernel_that_does_not_compile_does_not_stop_the_search():
    with pytest.raises(numba.TypingError):
        numba.njit(lambda x: x.nothing)(1.0)
    assert gc.isenabled()
