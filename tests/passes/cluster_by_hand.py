"""A scheduler and workers started by hand, on the loopback address, as docs/scale.md has it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class ByHand:
    address: str
    scheduler: subprocess.Popen
    workers: list[subprocess.Popen] = field(default_factory=list)

    def wait_for_work(self, seconds: float = 60.0) -> None:
        """Until the scheduler has been given tasks."""
        from distributed import Client

        deadline = time.monotonic() + seconds
        with Client(self.address, set_as_default=False) as client:
            while not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
                assert time.monotonic() < deadline
                time.sleep(0.05)


@contextmanager
def by_hand(folder: Path, workers: int) -> Iterator[ByHand]:
    """Whatever is left of it in the end is ended."""
    file = folder / "scheduler.json"
    with ExitStack() as stack:

        def started(*words: str) -> subprocess.Popen:
            command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard"]
            process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
            stack.callback(process.wait, 20)
            stack.callback(process.kill)
            return process

        scheduler = started("scheduler", "--port", "0", "--scheduler-file", str(file))
        deadline = time.monotonic() + 30.0
        while not file.exists() or not file.read_text().endswith("}"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        cluster = ByHand(json.loads(file.read_text())["address"], scheduler)
        for _ in range(workers):
            cluster.workers.append(started("worker", cluster.address, "--nthreads", "1", "--no-nanny"))
        yield cluster
