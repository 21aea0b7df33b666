"""``python -m benchmarks.graphs [STUDY ...]``."""

import sys

from benchmarks.graphs import STUDIES, run
from benchmarks.studies import command

sys.exit(command("graphs", STUDIES, run))
