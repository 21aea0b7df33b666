"""A long parquet file: peak memory, time linear in rows, and the rate beside an array and beside decoding alone.

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

from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

N, D, PART = 50_000_000, 20, 2**18
WRITTEN: dict[str, dict[str, Any]] = {  # ways to write the shorter files
    "lz4, no dictionaries": {"use_dictionary": False, "compression": "lz4"},
    "plain": {"use_dictionary": False, "compression": "none"},
    "pyarrow's defaults": {},
}


def run(most: int = 10**9) -> list[Claim]:
    n = N if most > 1 else N // 10
    first, *others = WRITTEN
    with tempfile.TemporaryDirectory() as folder:
        n = min(n, int(0.5 * shutil.disk_usage(folder).free / (6 * D)))
        long, short = Path(folder, "long.parquet"), Path(folder, "short.parquet")
        write(long, n, **WRITTEN[first])
        seen = {"long": measure_apart("file", long)}
        decoded = {}
        for way, options in WRITTEN.items():
            write(short, n // 4, **options)
            seen[way], decoded[way] = measure_apart("file", short), measure_apart("decoding", short)
        memory = measure_apart("array", short)
    named = {**seen, **{f"decoding alone, {way}": each for way, each in decoded.items()}, "array": memory}
    rows = [
        [name, f"{each['rows']:,}", *(f"{value:.2f}" for value in (each["seconds"], 1e-6 / _pace(each))),
         *(f"{value:.0f}" for value in (1e9 * _pace(each, "cpu"), each["peak"]))] for name, each in named.items()
    ]  # fmt: skip
    show(f"passes over {D} columns of float32", ["", "rows", "s", "million rows/s", "core ns a row", "peak MB"], rows)
    growth = _pace(seen["long"]) / _pace(seen[first])
    return print_claims(
        Claim(f"parquet file of {n:,} x {D}: peak memory, MB", seen["long"]["peak"], most=600.0),
        Claim("  seconds a row / those of a quarter of the rows", growth, most=1.25),
        _rate("  rate", seen["long"], memory, decoded[first]),
        *(_rate(f"  rate of a quarter, {way}", seen[way], memory, decoded[way]) for way in others),
    )


def _pace(seen: dict[str, Any], clock: str = "seconds") -> float:
    return float(seen[clock] / seen["rows"])


def _rate(name: str, file: dict[str, Any], memory: dict[str, Any], decoded: dict[str, Any]) -> Claim:
    """Both cores are busy: the pass cannot use the time that decoding takes."""
    left = 1.0 / (1.0 + _pace(decoded, "cpu") / _pace(memory, "cpu"))
    note = f"{left:.2f} would be left if pyarrow's decoding were all that is added"
    return Claim(f"{name} / that of an array in memory", _pace(memory) / _pace(file), least=0.7, note=note)


def write(path: Path, n: int, **options: Any) -> None:
    """Three factors and noise, half of the cells floored, a row group at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, names = np.random.default_rng(0), [f"x{j}" for j in range(D)]
    loadings = rng.standard_normal((3, D), dtype=np.float32)
    schema = pa.schema([(name, pa.float32()) for name in names])
    with parquet.ParquetWriter(path, schema, **options) as writer:
        for start in range(0, n, PART):
            rows = min(PART, n - start)
            y = rng.standard_normal((rows, 3), dtype=np.float32) @ loadings
            y += rng.standard_normal((rows, D), dtype=np.float32)
            columns = [np.maximum(column, 0.0) for column in y.T]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=PART)


def measure_apart(kind: str, path: Path) -> dict[str, Any]:
    code = f"from benchmarks.scale.files import measure; print(measure({kind!r}, {str(path)!r}))"
    environment = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(json.loads(done.stdout))


def measure(kind: str, path: str) -> str:
    """Rows, seconds, seconds of all cores and the most memory of one pass over a file, or over its rows in memory."""
    from unrelu.passes.engine import LocalEngine
    from unrelu.passes.pair_moments import PairMomentsQuestion
    from unrelu.tables import ArraySamples, open_samples

    rows: Any = open_samples(path)
    question, first = PairMomentsQuestion((0.0,) * D, (0.0,) * D), next(iter(rows.blocks()))
    question(first)  # compiled or loaded from the cache
    if kind == "array":
        values = np.concatenate([block.values for block in rows.blocks()])
        rows = ArraySamples(values, block_rows=len(values))
    n, start, cpu = rows.n_rows, time.perf_counter(), time.process_time()
    if kind == "decoding":
        decode(path)
    else:
        assert LocalEngine().collect(rows, question).n_rows == n
    took = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    return json.dumps({"rows": n, **took, "peak": peak()})


def decode(path: str) -> None:
    """Decode all columns by pyarrow, and keep nothing."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as opened:
        for group in range(opened.metadata.num_row_groups):
            for _ in opened.iter_batches(batch_size=PART, row_groups=[group]):
                pass


def peak() -> float:
    """The most memory that this process ever held, in MB."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6
