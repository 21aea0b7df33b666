"""A fit on one machine: idle, with a core kept busy by other work, against np.cov, and in single precision.

Compared tasks are measured in turns in one run, and their medians are compared. With a core kept busy, a fit whose
threads share the work as it comes can use what is left of the machine: of two cores, two thirds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.speed import floored, seconds
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner
from unrelu.passes.engine import available_cores

SIZES, ROUNDS = ((500_000, 25), (200_000, 200)), 7


def run(most: int = 10**9) -> list[Claim]:
    rows, claims = [], []
    for n, d in SIZES:
        found = measure(n, d, min(ROUNDS, max(most, 1)))
        rows.append([f"{n:,} x {d}", *(f"{value:.3f}" for value in found.values())])
        name = f"fit of {n:,} x {d}"
        claims += [
            Claim(f"{name}, a core kept busy / idle", found["busy"] / found["idle"], most=2.2),
            Claim(f"{name} / np.cov, all threads", found["idle"] / found["cov"], most=3.5),
            Claim(f"{name} / np.cov, one thread", found["idle, one core"] / found["cov, one core"], most=5.5),
            Claim(f"{name}, float32 / float64", found["float32"] / found["idle"], most=0.65),
        ]
    show("seconds (medians)", ["", *found], rows)
    print(f"  load of the machine by others before: {os.getloadavg()[2]:.1f} (15 minutes)")
    return print_claims(*claims)


def measure(n: int, d: int, rounds: int) -> dict[str, float]:
    """Median seconds of every task."""
    x = floored(n, d)
    short = x.astype(np.float32)
    for table in (x, short):
        RectifiedGaussianLearner("one_pass", margins="normal").fit(table[:20_000])  # compiled or loaded from the cache
    tasks: dict[str, Callable[[], object]] = {
        "idle": lambda: RectifiedGaussianLearner("one_pass", margins="normal").fit(x),
        "float32": lambda: RectifiedGaussianLearner("one_pass", margins="normal").fit(short),
        "cov": lambda: np.cov(x, rowvar=False),
    }
    with threadpool_limits(available_cores(), user_api="blas"):
        found = medians(tasks, rounds)
        with busy_core():
            found |= medians({"busy": tasks["idle"]}, rounds)
    with one_core(), threadpool_limits(1, user_api="blas"):
        found |= medians({"idle, one core": tasks["idle"], "cov, one core": tasks["cov"]}, rounds)
    return found


def medians(tasks: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    times = [[seconds(task) for task in tasks.values()] for _ in range(rounds)]
    return dict(zip(tasks, np.median(times, axis=0).tolist(), strict=True))


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process that is always busy, of the same priority."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


@contextmanager
def one_core() -> Iterator[None]:
    """This thread on one core, so that other cores do not help."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
