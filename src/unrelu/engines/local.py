"""This process: blocks one after the other, each one's matrix products on all cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from unrelu.contracts import Question, R, Samples, Step, Watch, unwatched
from unrelu.errors import InvalidDataError

T = TypeVar("T")
U = TypeVar("U")


class LocalEngine:
    """Reads blocks in order; ``watch`` hears of the rows read, as steps of ``stage``."""

    def __init__(self, watch: Watch = unwatched, stage: str = "Reading rows") -> None:
        self._watch, self._stage = watch, stage

    def collect(self, samples: Samples, question: Question[R]) -> R:
        merged: R | None = None
        self._watch(Step(self._stage, 0, samples.n_rows))
        for block in samples.blocks():
            record = question(block)
            merged = record if merged is None else merged.merge(record)
            done = block.first_row + len(block.values)
            self._watch(Step(self._stage, done, samples.n_rows, f"{done:,} rows"))
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
    if min(available_cores(), len(items)) <= 1 or getattr(_worker, "busy", False):
        return [task(item) for item in items]
    return list(_pool(os.getpid()).map(task, items))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products on one thread each: for many small ones, or where :func:`map_in_threads` shares them out.

    The limit is the process's. Whoever enters first sets it and whoever leaves last lifts it, in whatever thread.
    """
    with _limit.lock:
        _limit.users += 1
        if _limit.users == 1:
            _take_control()
            _limit.limiter = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _limit.lock:
            _limit.users -= 1
            if _limit.users == 0:
                _take_control()
                _limit.limiter.restore_original_limits()
                _take_control()


def _take_control() -> None:
    """Let this thread set OpenBLAS's limit: from 3.8 on threadpoolctl obeys only the thread that did so first."""
    for library in _controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


class _Limit:
    lock = threading.Lock()
    users = 0
    limiter: Any = None


_limit = _Limit()


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes longer than many a fit."""
    return ThreadpoolController()


_worker = threading.local()


@contextmanager
def in_this_thread() -> Iterator[None]:
    """What :func:`map_in_threads` is given runs in the caller's thread: others have been given the other cores."""
    before = getattr(_worker, "busy", False)
    _worker.busy = True
    try:
        yield
    finally:
        _worker.busy = before


@cache
def _pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a forked process inherits no threads, so needs its own
    """Threads that stay: starting them anew would cost more than many a task."""
    return ThreadPoolExecutor(available_cores(), "unrelu", initializer=lambda: setattr(_worker, "busy", True))
