"""``python -m benchmarks.shapes [STUDY ...]``."""

import sys

from benchmarks.shapes import STUDIES, run
from benchmarks.studies import command

sys.exit(command("shapes", STUDIES, run))
