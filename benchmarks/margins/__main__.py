"""``python -m benchmarks.margins [STUDY ...]``."""

import sys

from benchmarks.margins import STUDIES, run
from benchmarks.studies import command

sys.exit(command("margins", STUDIES, run))
