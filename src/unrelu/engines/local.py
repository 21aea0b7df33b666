"""This process: blocks one after the other, each one's matrix products on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from unrelu.contracts import Block, Progress, Question, R
from unrelu.errors import InvalidDataError

T = TypeVar("T")
U = TypeVar("U")


class LocalEngine:
    """Reads blocks in order; ``progress`` hears of the rows read."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress

    def collect(self, blocks: Iterable[Block], question: Question[R]) -> R:
        merged: R | None = None
        for block in blocks:
            record = question(block)
            merged = record if merged is None else merged.merge(record)
            if self._progress is not None:
                self._progress(len(block.values))
        if merged is None:
            raise InvalidDataError("There are no rows to learn from.")
        return merged


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_threads(task: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """``[task(item) for item in items]`` on all cores, for tasks that release the interpreter lock.

    >>> map_in_threads(abs, [-1, 2])
    [1, 2]
    """
    workers = min(available_cores(), len(items))
    if workers <= 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(task, items))
