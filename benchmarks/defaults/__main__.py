"""``python -m benchmarks.defaults [STUDY ...] [--quick]``."""

import sys

from benchmarks.defaults import STUDIES, run
from benchmarks.defaults.matrix import QUICK
from benchmarks.studies import command
from benchmarks.table import render

if __name__ == "__main__":
    sys.exit(command("defaults", STUDIES, run, quick=QUICK, summary=render))
