"""Real tables: their usual faults, simulated so that the truth is known, and two files where they are present.

cases.py    every way in which a user's table gave a wrong answer without a warning: before, after, and diagnostics
alarms.py   tables that fit: how often there is a diagnostic; skewed columns: how often they are named
costs.py    time of the pass with the sums that diagnostics need, over that of the pass without
files.py    the two files of real data: rows flagged by the table's own model
hidden.py   values hidden in both files and in a network's units, recovered; a picture (by itself)
margins.py  margins of both files, and synthetic tables (by itself)
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.table import Claim


def run() -> list[Claim]:
    parts = ("cases", "alarms", "costs", "files")
    return [claim for part in parts for claim in import_module(f"benchmarks.real.{part}").run()]
