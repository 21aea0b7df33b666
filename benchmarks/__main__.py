"""``python -m benchmarks [NAME ...] [--csv]``: run the benchmarks and print one table; exit 1 if a claim was missed.

With --csv the figures are also written to docs/benchmarks, after each benchmark.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

from benchmarks.table import Claim, render, write

NAMES = (
    "accuracy",
    "calibration",
    "checks",
    "jackknife",
    "likelihood_errors",
    "speed",
    "memory",
    "startup",
    "methods",
    "papers",
    "planner",
    "robust",
    "robust_limits",
    "matrix",
    "latent",
    "layers",
    "real",
    "waits",
    "margins",
    "posterior",
    "rubin",
    "generators",
    "report",
    "graphs",
    "cells",
    "defaults",
    "limits",
)


def main(arguments: list[str]) -> int:
    names = [name for name in arguments if name != "--csv"]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"Unknown benchmark {', '.join(unknown)}. There are: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    claims: list[Claim] = []
    for name in names or NAMES:
        start = time.perf_counter()
        found = import_module(f"benchmarks.{name}").run()
        if "--csv" in arguments:
            write(name, found)
        claims += found
        print(f"[{name}: {time.perf_counter() - start:.0f} s]", file=sys.stderr, flush=True)
    print(render(claims))
    return 1 if any(claim.holds is False for claim in claims) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
