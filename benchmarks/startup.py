"""Waiting times of a new user: imports, help, the first fit of a fresh install, and later processes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.table import Claim

ALONE = "import numpy, scipy.special, sklearn.base, numba"
FIRST_FIT = """
import numpy as np, unrelu
x = np.maximum(np.random.default_rng(0).standard_normal((1000, 5)), 0.0)
unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(x)
"""


def run() -> list[Claim]:
    return [*imports(), help_page(), *first_fits(), *command_line()]


def seconds(command: list[str], **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return time.perf_counter() - start


def imports() -> list[Claim]:
    bodies = {
        "alone": ALONE,
        "import unrelu": "import unrelu",
        "import unrelu and name the learner": "import unrelu; unrelu.RectifiedGaussianLearner",
    }
    times: dict[str, list[float]] = {name: [] for name in bodies}
    for _ in range(9):
        for name, body in bodies.items():
            times[name].append(seconds([sys.executable, "-c", body]))
    middle = {name: float(np.median(values)) for name, values in times.items()}
    return [
        Claim(
            f"{name} / its dependencies alone",
            middle[name] / middle["alone"],
            most=1.15,
            note=f"{middle[name]:.2f} s against {middle['alone']:.2f} s (medians of 9)",
        )
        for name in list(bodies)[1:]
    ]


def help_page() -> Claim:
    command = [str(Path(sys.executable).with_name("unrelu")), "--help"]
    return Claim("unrelu --help, s", float(np.median([seconds(command) for _ in range(9)])), most=0.5)


def first_fits() -> list[Claim]:
    with tempfile.TemporaryDirectory() as cache:
        first = seconds([sys.executable, "-c", FIRST_FIT], NUMBA_CACHE_DIR=cache)
        later = min(seconds([sys.executable, "-c", FIRST_FIT], NUMBA_CACHE_DIR=cache) for _ in range(3))
    return [
        Claim("first fit of a fresh install, compilation included, s", first, most=20.0),
        Claim("the same in a later process / the first", later / first, most=0.5, note=f"{later:.2f} s: cache reused"),
    ]


def command_line() -> list[Claim]:
    """CPU time of `unrelu fit` on a small csv, with nothing compiled yet and again; and of a bare import."""
    table = Path(__file__).parents[1] / "examples" / "samples.csv"
    with tempfile.TemporaryDirectory() as folder:
        fit = [sys.executable, "-m", "unrelu", "fit", str(table), "--id", "site", "-o", str(Path(folder) / "model.npz")]
        first = cpu_seconds(fit, NUMBA_CACHE_DIR=folder)
        later = min(cpu_seconds(fit, NUMBA_CACHE_DIR=folder) for _ in range(3))
    bare = min(cpu_seconds([sys.executable, "-c", "import unrelu"]) for _ in range(5))
    return [
        Claim("first `unrelu fit` of a small csv, compilation included, s of CPU", first, most=9.0),
        Claim("the same in a later process, s of CPU", later, most=2.5),
        Claim("import unrelu, s of CPU", bare, most=0.2),
    ]


def cpu_seconds(command: list[str], **environment: str) -> float:
    """User and system time of a command and of what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
