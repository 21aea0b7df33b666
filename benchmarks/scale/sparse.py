"""A million rows of 500 columns, 95 % zeros: the same pass over sparse and over dense rows.

Dense rows are timed on a part of the table and taken times the rest, as a pass is linear in rows: the whole table would
be 4 GB. The fit of the pairs after the pass is the same for both, and has a line of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.speed import seconds
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner
from unrelu.passes.engine import LocalEngine
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables import ArraySamples, SparseSamples

N, D, DENSE_ROWS, ROUNDS = 1_000_000, 500, 50_000, 3
_FLOORED = 1.733  # standard deviations 1.054 of y below which 95 % lie


def run(most: int = 10**9) -> list[Claim]:
    rounds = min(ROUNDS, max(most, 1))
    x = table()
    part = x[:DENSE_ROWS].toarray()
    question, engine = PairMomentsQuestion((0.0,) * D, (0.0,) * D), LocalEngine()
    passes: list[Any] = [SparseSamples(x), ArraySamples(part, block_rows=len(part))]
    for samples in (SparseSamples(x[:20_000]), ArraySamples(part[:20_000])):
        engine.collect(samples, question)  # compiled or loaded from the cache
    times = [[seconds(lambda s=s: engine.collect(s, question)) for s in passes] for _ in range(rounds)]  # type: ignore[misc]
    sparse, dense = np.median(times, axis=0) * [1.0, N / DENSE_ROWS]
    fit = seconds(lambda: RectifiedGaussianLearner("one_pass", margins="normal").fit(x))
    header = ["zeros", "sparse pass, s", "dense pass, s", "sparse fit, s"]
    show(f"{N:,} x {D}", header, [[f"{1 - x.nnz / N / D:.1%}", f"{sparse:.2f}", f"{dense:.2f}", f"{fit:.2f}"]])
    note = f"dense: {DENSE_ROWS:,} rows, times {N // DENSE_ROWS}"
    whole = (dense + fit - sparse) / fit
    return print_claims(
        Claim("pass over dense rows / over sparse rows", dense / sparse, least=5.0, note=note),
        Claim("  the whole fit", whole, least=5.0, note="the pairs take as long in both"),
    )


def table() -> Any:
    """Rows of a model with three factors, made in parts."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((3, D), dtype=np.float32) / 9.0
    parts = []
    for _ in range(N // 10_000):
        y = rng.standard_normal((10_000, 3), dtype=np.float32) @ loadings
        y += rng.standard_normal((10_000, D), dtype=np.float32) - np.float32(_FLOORED)
        parts.append(scipy.sparse.csr_array(np.maximum(y, 0.0).astype(np.float64)))
    return scipy.sparse.vstack(parts, format="csr")
