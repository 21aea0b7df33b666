"""Real tables: what goes wrong on them, simulated so that the truth is known, and two files where they are present.

cases.py    every way in which a user's table was silently wrong: before, after, and what is said
alarms.py   tables that fit: how often something is said; skewed columns: how often they are named
costs.py    the pass with what it sees beside its sums, over the pass without
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
