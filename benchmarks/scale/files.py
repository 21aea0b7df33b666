"""A long parquet file: peak memory, time linear in rows, and the rate beside an array in memory.

Every fit is in a process of its own, and compiling is not counted. ``--seeds 1`` takes a tenth of the rows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies import show, told
from benchmarks.table import Claim

N, D, PART = 50_000_000, 20, 2**18


def run(most: int = 10**9) -> list[Claim]:
    n = N if most > 1 else N // 10
    with tempfile.TemporaryDirectory() as folder:
        n = min(n, int(0.5 * shutil.disk_usage(folder).free / (6 * D)))
        long, short = Path(folder, "long.parquet"), Path(folder, "short.parquet")
        write(long, n)
        write(short, n // 4)
        seen = {name: measured(name, path) for name, path in (("long", long), ("short", short))}
        memory = measured("array", short)
    rows = [[name, f"{each['rows']:,}", f"{each['seconds']:.2f}", f"{each['rows'] / each['seconds'] / 1e6:.2f}",
             f"{each['peak']:.0f}"] for name, each in {**seen, "array": memory}.items()]  # fmt: skip
    show(f"passes over {D} columns of float32", ["", "rows", "seconds", "million rows/s", "peak MB"], rows)
    rate = [each["rows"] / each["seconds"] for each in (seen["long"], memory)]
    growth = seen["long"]["seconds"] / seen["short"]["seconds"] / (seen["long"]["rows"] / seen["short"]["rows"])
    return told(
        Claim(f"parquet file of {n:,} x {D}: peak memory, MB", seen["long"]["peak"], most=600.0),
        Claim("  seconds a row / those of a quarter of the rows", growth, most=1.25),
        Claim("  rate / that of an array in memory", rate[0] / rate[1], least=0.7, note="the rest is decoding"),
    )


def write(path: Path, n: int) -> None:
    """Three factors and noise, half of the cells floored, a row group at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, names = np.random.default_rng(0), [f"x{j}" for j in range(D)]
    loadings = rng.standard_normal((3, D), dtype=np.float32)
    schema = pa.schema([(name, pa.float32()) for name in names])
    with parquet.ParquetWriter(path, schema, use_dictionary=False, compression="lz4") as writer:
        for start in range(0, n, PART):
            rows = min(PART, n - start)
            y = rng.standard_normal((rows, 3), dtype=np.float32) @ loadings
            y += rng.standard_normal((rows, D), dtype=np.float32)
            columns = [np.maximum(column, 0.0) for column in y.T]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=PART)


def measured(kind: str, path: Path) -> dict[str, Any]:
    code = f"from benchmarks.scale.files import measure; print(measure({kind!r}, {str(path)!r}))"
    environment = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(json.loads(done.stdout))


def measure(kind: str, path: str) -> str:
    """Rows, seconds and the most memory of one pass over a file, or over its rows in memory."""
    from unrelu.engines.local import LocalEngine
    from unrelu.samples import ArraySamples, open_samples
    from unrelu.statistics.pair_moments import PairMomentsQuestion

    rows: Any = open_samples(path)
    question, first = PairMomentsQuestion((0.0,) * D, (0.0,) * D), next(iter(rows.blocks()))
    question(first)  # compiled or loaded from the cache
    if kind == "array":
        values = np.concatenate([block.values for block in rows.blocks()])
        rows = ArraySamples(values, block_rows=len(values))
    start = time.perf_counter()
    record = LocalEngine().collect(rows, question)
    seconds = time.perf_counter() - start
    return json.dumps({"rows": record.n_rows, "seconds": seconds, "peak": peak()})


def peak() -> float:
    """The most memory that this process ever held, in MB."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6
