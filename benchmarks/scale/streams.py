"""Scores, imputed tables and samples, from file to file: the memory is that of blocks, whatever the number of rows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.scale.files import WRITTEN, D, write
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

N = 4_000_000
_BYTES_A_ROW = 8 * D  # of the table in double precision, which must not be held


def run(most: int = 10**9) -> list[Claim]:
    long = N if most > 1 else N // 10
    sizes, claims, rows = {"short": long // 4, "long": long}, [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, n in sizes.items():
            write(Path(folder, f"{name}.parquet"), n, **WRITTEN["plain"])
        unrelu(folder, "fit", "short.parquet", "-o", "model.unrelu")
        for command in ("score", "impute", "sample"):
            seen = {name: run_command(folder, command, name, n) for name, n in sizes.items()}
            rows += [[command, f"{n:,}", *(f"{value:.1f}" for value in seen[name])] for name, n in sizes.items()]
            more = 1e6 * (seen["long"][1] - seen["short"][1]) / (sizes["long"] - sizes["short"])
            note = "17 of them are scores, p-values and flags" if command == "score" else ""
            what = f"{command}: bytes held for each further row / those of the row"
            claims.append(Claim(what, more / _BYTES_A_ROW, most=0.5, note=note))
    show(f"from parquet to parquet, {D} columns", ["", "rows", "seconds", "peak MB"], rows)
    return print_claims(*claims)


def run_command(folder: str, command: str, name: str, n: int) -> tuple[float, float]:
    """Seconds and the most memory of one command on a table of ``n`` rows."""
    given = ["model.unrelu", "-n", str(n)] if command == "sample" else [f"{name}.parquet", "--model", "model.unrelu"]
    return unrelu(folder, command, *given, "-o", f"{command}_{name}.parquet")


def unrelu(folder: str, *words: str) -> tuple[float, float]:
    """One run of the command line in a process of its own: seconds, and the most MB that it held."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "unrelu", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"unrelu {' '.join(words)} ended with status {status}.")
    return time.perf_counter() - start, 1024 * used.ru_maxrss / 1e6
