"""A Dask cluster of processes on this machine: two workers against one, and one killed while a fit runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import unrelu
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner
from unrelu.contracts import Step, no_progress

N, D, PARTS, REPETITIONS = 400_000, 200, 40, 3
FASTER, EQUAL = 1.6, 1e-10
LOAD = "needs both cores: other work on the machine shows here, but not in CPU seconds"
Seconds = tuple[float, float, float]


def run(most: int = 10**9) -> list[Claim]:
    """Seconds are the best of some fits each, of rows that the workers hold."""
    repetitions, rows = min(REPETITIONS, most), []
    with cluster(1) as (client, table):
        one, alone = best_fit(client, table, repetitions)
        rows.append(["1 worker", *figures(alone)])
        here = RectifiedGaussianLearner("one_pass", margins="normal").fit(table.compute())
    with cluster(2) as (client, table):
        two, together = best_fit(client, table, repetitions)
        rows.append(["2 workers", *figures(together)])
        survived, seconds = fit_with_a_loss(client, table)
        rows.append(["2 workers, one killed", *figures(seconds)])
    show(
        f"{N:,} x {D} in {PARTS} parts: one-pass fits", ["", "s", "s of the pass", "CPU s of the busiest worker"], rows
    )
    return print_claims(
        Claim("2 workers / 1 worker, speed of the fit", alone[0] / together[0], least=FASTER, note=LOAD),
        Claim("  speed of the pass", alone[1] / together[1], least=FASTER, note=LOAD),
        Claim("  by CPU seconds of the busiest worker", alone[2] / together[2], least=FASTER),
        Claim("1 worker and this process: largest difference", difference(one, here), most=EQUAL),
        Claim("2 workers and this process: largest difference", difference(two, here), most=EQUAL),
        Claim("  one killed during the fit", difference(survived, here), most=EQUAL),
    )


def part(block_id: tuple[int, int]) -> np.ndarray:
    """Rows of the same model, others in every part."""
    model = unrelu.synthetic.random_model(D, random_state=0)
    return model.sample(N // PARTS, random_state=1 + block_id[0])


@contextmanager
def cluster(workers: int) -> Iterator[tuple[Any, Any]]:
    """A client that is active, and the rows, drawn by the workers and held there."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as machines,
        Client(machines) as client,
    ):
        chunks = ((N // PARTS,) * PARTS, (D,))
        table = da.map_blocks(part, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0))).persist()
        wait(table)
        yield client, table


def best_fit(client: Any, table: Any, repetitions: int) -> tuple[RectifiedGaussianLearner, Seconds]:
    """The model and the seconds of the fastest fit; the first fit, which compiles, is not timed."""
    timed = [timed_fit(client, table) for _ in range(1 + repetitions)][1:]
    return timed[0][0], min(seconds for _, seconds in timed)


def timed_fit(client: Any, table: Any, progress: Any = no_progress) -> tuple[RectifiedGaussianLearner, Seconds]:
    """The model; seconds of the fit, of its pass, and of the worker that computed most."""
    passed: list[float] = []

    def record(step: Step) -> None:
        if step.done == N:
            passed.append(time.perf_counter())
        progress(step)

    before, start = client.run(time.process_time), time.perf_counter()
    learner = RectifiedGaussianLearner("one_pass", margins="normal").with_progress(record).fit(table)
    seconds = time.perf_counter() - start
    after = client.run(time.process_time)
    return learner, (seconds, passed[0] - start, max(after[k] - before.get(k, 0.0) for k in after))


def fit_with_a_loss(client: Any, table: Any) -> tuple[RectifiedGaussianLearner, Seconds]:
    """A fit during which one worker's process, and the rows that it holds, are lost."""
    victim = next(iter(client.run(os.getpid).values()))
    begun = threading.Event()
    killer = threading.Thread(target=lambda: begun.wait() and os.kill(victim, signal.SIGKILL))
    killer.start()
    found = timed_fit(client, table, lambda step: begun.set() if step.done > N // 5 else None)
    begun.set()
    killer.join()
    assert victim not in client.run(os.getpid).values(), "the worker was killed"
    return found


def difference(one: RectifiedGaussianLearner, other: RectifiedGaussianLearner) -> float:
    """The largest difference of means and covariances."""
    pairs = ((one.mean_, other.mean_), (one.covariance_, other.covariance_))
    return max(float(np.abs(mine - theirs).max()) for mine, theirs in pairs)


def figures(seconds: Seconds) -> list[str]:
    return [f"{each:.2f}" for each in seconds]
