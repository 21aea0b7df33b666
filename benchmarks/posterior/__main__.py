"""``python -m benchmarks.posterior [STUDY ...]``."""

import sys

from benchmarks.posterior import STUDIES, run
from benchmarks.studies import command

sys.exit(command("posterior", STUDIES, run))
