"""``python -m benchmarks.cells [STUDY ...]``."""

import sys

from benchmarks.cells import STUDIES, run
from benchmarks.studies import command

if __name__ == "__main__":
    sys.exit(command("cells", STUDIES, run))
