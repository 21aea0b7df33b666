"""``python -m benchmarks.generators [STUDY ...]``."""

import sys

from benchmarks.generators import STUDIES, run
from benchmarks.studies import command

sys.exit(command("generators", STUDIES, run))
