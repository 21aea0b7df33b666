"""The constants of docs/scale.md, each at two sizes: rows a second and core, bytes of a record, seconds a pair."""

from __future__ import annotations

import io
import time

import numpy as np

from benchmarks.scale.passes import one_core
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import Assumptions, Block
from unrelu.fit.one_pass import learn_record
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion

_ROWS, _COLUMNS = (50_000, 200_000), (50, 200)


def run(most: int = 10**9) -> list[Claim]:
    del most
    passes, others = [], []
    for d in _COLUMNS:
        question = PairMomentsQuestion((0.0,) * d, (0.0,) * d)
        x = np.maximum(np.random.default_rng(0).standard_normal((max(_ROWS), d), dtype=np.float32), 0.0)
        question(Block(x[:5000]))  # compiled or loaded from the cache
        with one_core():
            passes += [(n, d, _seconds(lambda n=n, x=x, q=question: q(Block(x[:n])))) for n in _ROWS]  # type: ignore[misc]
            record = question(Block(x[: _ROWS[0]]))
            learn_record(record, Assumptions((0.0,) * d), None)
            solved = _seconds(lambda r=record, d=d: learn_record(r, Assumptions((0.0,) * d), None))  # type: ignore[misc]
        others.append((d, _bytes(record), solved / (d * (d - 1) / 2)))
    show(
        "a pass on one core, float32",
        ["rows x columns", "seconds", "million rows/s", "ns a row and pair of columns"],
        [[f"{n:,} x {d}", f"{s:.2f}", f"{n / s / 1e6:.2f}", f"{1e9 * s / n / d**2:.2f}"] for n, d, s in passes],
    )
    show(
        "a record, and the fit to it on one core",
        ["columns", "bytes / d²", "microseconds a pair"],
        [[str(d), f"{size / d**2:.1f}", f"{1e6 * s:.1f}"] for d, size, s in others],
    )
    by_rows = [passes[k + 1][2] / passes[k][2] / (_ROWS[1] / _ROWS[0]) for k in (0, 2)]
    by_columns = (others[1][1] / others[0][1]) / (_COLUMNS[1] / _COLUMNS[0]) ** 2
    return print_claims(
        Claim("seconds a row, four times the rows", max(by_rows), most=1.3),
        Claim("bytes of a record / d², four times the columns", by_columns, most=1.1),
    )


def _seconds(task: object) -> float:
    assert callable(task)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def _bytes(record: PairMoments) -> int:
    arrays = {name: value for name, value in vars(record).items() if isinstance(value, np.ndarray)}
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.tell()
