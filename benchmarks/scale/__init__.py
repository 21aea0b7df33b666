"""From a laptop file to a cluster: passes beside other work, and workers that may be lost.

passes.py     a fit beside other work on the machine, against np.cov, and in single precision
sparse.py     a table of which 95 % are zeros, sparse and dense
wide.py       hundreds to thousands of columns: seconds by stage, peak memory, the robust method
files.py      a parquet file of 50 million rows: peak memory, time linear in rows, rate beside an array in memory
streams.py    scores, imputed tables and samples from file to file: peak memory at two numbers of rows
constants.py  the constants of docs/scale.md: rows a second, bytes of a record, pairs a second, at two sizes each
cluster.py    one worker and two of a Dask cluster on this machine: seconds, equality, a worker killed in mid-fit

    python -m benchmarks.scale [STUDY ...]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.scale import cluster, constants, files, passes, sparse, streams, wide
from benchmarks.studies import run_each
from benchmarks.table import Claim

STUDIES: dict[str, Callable[[int], list[Claim]]] = {
    "passes": passes.run,
    "sparse": sparse.run,
    "wide": wide.run,
    "files": files.run,
    "streams": streams.run,
    "constants": constants.run,
    "cluster": cluster.run,
}


def run(chosen: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    return run_each("scale", STUDIES, chosen, most)
