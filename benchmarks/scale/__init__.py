"""From a laptop file to a cluster: passes that do not wait, and workers that may be lost.

wide.py       hundreds to thousands of columns: seconds by stage, peak memory, the robust method

    python -m benchmarks.scale [STUDY ...]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.scale import wide
from benchmarks.studies import run_each
from benchmarks.table import Claim

STUDIES: dict[str, Callable[[int], list[Claim]]] = {
    "wide": wide.run,
}


def run(chosen: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    return run_each("scale", STUDIES, chosen, most)
