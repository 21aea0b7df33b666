"""What the pass pays for what it sees beside its sums."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.table import Claim
from unrelu.contracts import Block
from unrelu.passes import pair_moments
from unrelu.passes.engine import one_blas_thread

REPEATS = 25


class Nothing:
    """In place of :class:`unrelu.passes.columns.ShapeSums`: looks at nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def add(self, _: Block) -> None:
        pass

    def record(self) -> None:
        return None


def ratio(n: int, d: int) -> Claim:
    x = np.maximum(np.random.default_rng(0).standard_normal((n, d)), 0.0)
    question, block = pair_moments.PairMomentsQuestion((0.0,) * d, (0.0,) * d), Block(x)
    ours = pair_moments.ShapeSums
    times: dict[type, list[float]] = {ours: [], Nothing: []}
    try:
        with one_blas_thread():
            for _ in range(REPEATS):
                for kind, seconds in times.items():
                    pair_moments.ShapeSums = kind  # type: ignore[misc, assignment]
                    start = time.process_time()
                    question(block)
                    seconds.append(time.process_time() - start)
    finally:
        pair_moments.ShapeSums = ours  # type: ignore[misc]
    with_it, without = (float(np.median(seconds)) for seconds in times.values())
    most = 1.05 if n >= 100_000 else None
    return Claim(
        f"pass with the new sums / without, n={n:,}, d={d}",
        with_it / without,
        most,
        note=f"{1e3 * without:.1f} ms without",
    )


def run() -> list[Claim]:
    return [ratio(200_000, 50), ratio(200_000, 10), ratio(20_000, 20)]
