"""Peak memory of a fit beside the array itself, read from the operating system in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.table import Claim

PEAK = """
import json, sys
import numpy as np
from unrelu import RectifiedGaussianLearner

def status(key):
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))

n, d, order = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
x = np.asarray(np.random.default_rng(0).standard_normal((n, d)), order=order)
np.maximum(x, 0.0, out=x)
learner = RectifiedGaussianLearner("one_pass", margins="normal")
learner.fit(np.ascontiguousarray(x[:2000]))  # code and BLAS buffers are loaded before
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # peak := now
RectifiedGaussianLearner("one_pass", margins="normal").fit(x)
print(json.dumps(status("VmHWM") - before))
"""


def run() -> list[Claim]:
    return [
        peak(200_000, 200, "C", "float64 array"),
        peak(200_000, 200, "F", "the same in Fortran order"),
        peak(20_000, 1000, "C", "many columns"),
    ]


def peak(n: int, d: int, order: str, what: str) -> Claim:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PEAK, str(n), str(d), order], check=True, capture_output=True, text=True
    )
    extra = json.loads(done.stdout)
    array, square = 8 * n * d, 8 * d * d
    return Claim(
        f"peak memory / (25 % of the array + 8 d x d), n={n:,}, d={d}, {what}",
        extra / (0.25 * array + 8 * square),
        most=1.0,
        note=f"{extra / 2**20:.0f} MiB beside an array of {array / 2**20:.0f} MiB",
    )
