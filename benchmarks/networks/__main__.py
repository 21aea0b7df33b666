"""``python -m benchmarks.networks [STUDY ...]``."""

import sys

from benchmarks.networks import STUDIES, run
from benchmarks.studies import command

sys.exit(command("networks", STUDIES, run))
