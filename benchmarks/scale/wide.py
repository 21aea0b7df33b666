"""Wide tables: seconds of a fit by stage and its peak memory, each fit in a process of its own.

Beside each fit np.cov and np.linalg.eigh of the same table, on all threads. Compiling is not counted.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

_CASES = {  # name: rows, columns, method
    "50 x 500": (50, 500, "one_pass"),
    "1,000 x 1,000": (1000, 1000, "one_pass"),
    "500 x 2,000": (500, 2000, "one_pass"),
    "robust, 10,000 x 300": (10_000, 300, "robust"),
    "50,000 x 5,000": (50_000, 5000, "one_pass"),
}
_STAGES = ("pairs", "nearest", "scoring")


def run(most: int = 10**9) -> list[Claim]:
    """Every case; with --seeds 4 all but the largest."""
    seen = {name: _in_its_own_process(*case) for name, case in list(_CASES.items())[:most]}
    header = ["table", *_STAGES, "whole fit", "of CPU", "cov + eigh", "peak GB", "rounds"]
    rows = [
        [
            name,
            *(f"{each.get(stage, np.nan):.2f}" for stage in (*_STAGES, "fit", "cpu", "yardstick", "peak")),
            each["rounds"],
        ]
        for name, each in seen.items()
    ]
    show("Wide tables, seconds", header, rows)
    bounds = [
        ("50 x 500", "nearest", "seconds", 3.0),
        ("1,000 x 1,000", "fit", "seconds", 6.0),
        ("500 x 2,000", "fit", "seconds", 15.0),
        ("robust, 10,000 x 300", "fit", "seconds", 90.0),
        ("50,000 x 5,000", "peak", "GB", 6.0),
    ]
    return print_claims(
        *(
            Claim(f"{name}: {what}, {unit}", seen[name][what], bound)
            for name, what, unit, bound in bounds
            if name in seen
        )
    )


def _in_its_own_process(n: int, d: int, method: str) -> dict[str, Any]:
    code = f"import json; from benchmarks.scale.wide import measure; print(json.dumps(measure({n}, {d}, {method!r})))"
    environment = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(json.loads(done.stdout))


def table(n: int, d: int, seed: int = 0) -> Any:
    """Five factors and noise, 30 to 80 % of a column in common, 16 to 69 % floored; single precision when large."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((d, 5))
    loadings *= np.sqrt(rng.uniform(0.3, 0.8, (d, 1))) / np.linalg.norm(loadings, axis=1, keepdims=True)
    noise = np.sqrt(1.0 - np.sum(loadings**2, axis=1))
    x = rng.standard_normal((n, d), dtype=np.float32)
    x *= noise.astype(np.float32)
    for rows in np.array_split(np.arange(n), max(n // 1000, 1)):
        x[rows] += rng.standard_normal((len(rows), 5), dtype=np.float32) @ loadings.T.astype(np.float32)
    x += rng.uniform(-0.5, 1.0, d).astype(np.float32)
    np.maximum(x, 0.0, out=x)
    return x if n * d > 5e7 else x.astype(np.float64)


def measure(n: int, d: int, method: str) -> dict[str, Any]:
    """Seconds of one fit by stage, and the most memory that the process ever held until then."""
    from unrelu import RectifiedGaussianLearner
    from unrelu.fit import one_pass

    warnings.simplefilter("ignore")
    for small in (table(400, 20), table(100, 250)):
        RectifiedGaussianLearner("one_pass", margins="normal").fit(small)
    RectifiedGaussianLearner(method, margins="normal").fit(table(400, 60))
    seconds: dict[str, Any] = {}

    def time_calls(owner: Any, name: str, stage: str) -> None:
        plain = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            result = plain(*given, **named)
            seconds[stage] = time.perf_counter() - start
            return result

        setattr(owner, name, call)

    time_calls(one_pass, "fit_pairs", "pairs")
    time_calls(one_pass, "nearest_covariance", "nearest")
    time_calls(one_pass, "scoring_correlation", "scoring")
    x = table(n, d)
    learner = RectifiedGaussianLearner(method, margins="normal")
    time_calls(learner, "fit", "fit")
    start = time.process_time()  # a figure that other work on the machine does not change
    nearest = learner.fit(x).report_.nearest
    seconds["cpu"] = time.process_time() - start
    seconds["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    seconds["rounds"] = f"{nearest.rounds}{'' if nearest.converged else ' (stopped)'}"
    start = time.perf_counter()
    np.linalg.eigh(np.cov(x, rowvar=False))
    seconds["yardstick"] = time.perf_counter() - start
    return seconds
