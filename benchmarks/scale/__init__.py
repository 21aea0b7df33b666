"""From a laptop file to a cluster: passes that do not wait, and workers that may be lost.

cluster.py    one worker and two of a Dask cluster on this machine: seconds, equality, a worker killed in mid-fit

    python -m benchmarks.scale [STUDY ...]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.scale import cluster
from benchmarks.studies import run_each
from benchmarks.table import Claim

STUDIES: dict[str, Callable[[int], list[Claim]]] = {
    "cluster": cluster.run,
}


def run(chosen: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    return run_each("scale", STUDIES, chosen, most)
