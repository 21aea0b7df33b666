"""Numba only: plain functions of arrays, compiled once and cached, free of the interpreter lock.

Nothing here allocates per call in a hot loop or depends on rows, files or models. Every kernel has a slow NumPy or
quadrature twin in ``tests/references`` that defines the truth.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from unrelu.contracts import Progress, Step, no_progress

F = TypeVar("F", bound=Callable[..., Any])
COMPILING = Step("Compiling", words="once after an installation, for about 15 s of one core")


@contextmanager
def report_compiling(progress: Progress) -> Iterator[None]:
    """While inside, ``progress`` gets a step when a kernel is compiled: not when numba finds it in its cache."""
    if progress is no_progress:
        yield
        return
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, _: Any) -> None:
            progress(COMPILING)

        def on_end(self, _: Any) -> None:
            """The next step says how the work goes on."""

    with event.install_listener("numba:compile", Listener()):
        yield


def reports_compiling(method: F) -> F:
    """A method of an estimator whose progress callback gets a step when kernels are compiled meanwhile."""

    @functools.wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        with report_compiling(self._progress):
            return method(self, *args, **options)

    return run  # type: ignore[return-value]
