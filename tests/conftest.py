"""What holds for every test: workers that run beside each other share the cores, so each gets one BLAS thread.

Tests, too, are kept from work that shows nothing: the modules that all of them import are not searched for garbage.
"""

from __future__ import annotations

import gc
import os

from threadpoolctl import threadpool_limits

if "PYTEST_XDIST_WORKER" in os.environ:
    # For libraries that are loaded from now on, and for programs that tests start.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # For those that a plugin of pytest has loaded before.
    threadpool_limits(1, user_api="blas")


def pytest_collection_finish() -> None:
    """What is there by now stays to the end: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
