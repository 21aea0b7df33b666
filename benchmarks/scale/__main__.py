"""``python -m benchmarks.scale [STUDY ...]``."""

import sys

from benchmarks.scale import STUDIES, run
from benchmarks.studies import command

if __name__ == "__main__":  # workers of a cluster import this file
    sys.exit(command("scale", STUDIES, run))
