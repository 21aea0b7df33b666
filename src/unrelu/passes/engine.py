"""Engines run one pass: they put a question to every block and merge the records in block order.

The one of this process takes blocks one after the other, each one's work on all cores, while the next is read.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

from unrelu.contracts import Block, Engine, Evidence, Progress, Question, R, Samples, Step, no_progress
from unrelu.errors import InvalidDataError

T = TypeVar("T")
U = TypeVar("U")
_WORTH_THREADS = 3000  # columns; below, a second thread gains a third on an idle machine and loses all on a busy one


def engine_for(samples: Samples, progress: Progress = no_progress, stage: str = "Reading rows") -> Engine:
    """What reads these rows: this process, unless they name another engine."""
    chosen = samples.source.engine
    return LocalEngine(progress, stage) if chosen is None else chosen(progress, stage)


class LocalEngine:
    """Reads blocks in order; ``progress`` gets the rows read, as steps of ``stage``."""

    def __init__(self, progress: Progress = no_progress, stage: str = "Reading rows") -> None:
        self._progress, self._stage = progress, stage

    def collect(self, samples: Samples, question: Question[R]) -> R:
        record, _ = deque(self.growing(samples, question), maxlen=1).pop()
        return record

    def growing(
        self, samples: Samples, question: Question[R], merged: R | None = None, first_row: int = 0
    ) -> Iterator[tuple[R, int]]:
        """After every block the record of all rows so far, and their number.

        ``merged`` is the record of those before ``first_row``, which the samples leave out.
        """
        total = samples.n_rows
        self._progress(Step(self._stage, first_row, total))
        began = monotonic()
        with closing(blocks_ahead(samples)) as blocks:
            for block in blocks:
                record = question(block)
                merged = record if merged is None else merged.merge(record)
                done = block.first_row + block.n_rows
                yield merged, done
                left = None if total is None else total - first_row
                words = pace(done - first_row, left, monotonic() - began)
                self._progress(Step(self._stage, done, total, words))
        if merged is None:
            raise InvalidDataError("There are no rows to learn from.")


def pace(done: int, total: int | None, seconds: float) -> str:
    """Words on how many rows were read, and after a second also how fast and for how long it will go on.

    >>> pace(30_000, None, 0.5), pace(30_000, 120_000, 2.0)
    ('30,000 rows', '30,000 rows, 15,000 rows/s, 6 s left')
    """
    words = f"{done:,} rows"
    if seconds < 1.0 or done == 0:
        return words
    left = "" if total is None else f", {seconds * max(total - done, 0) / done:,.0f} s left"
    return f"{words}, {done / seconds:,.0f} rows/s{left}"


def blocks_ahead(samples: Samples) -> Generator[Block, None, None]:
    """The blocks in order; while one is worked on, a thread reads the next, unless the samples say ``in_memory``.

    At most one block is waiting. What reading raises is raised here, after the blocks before it; a reader that is no
    longer wanted ends with the block it is reading.
    """
    blocks = iter(samples.blocks())
    first = next(blocks, None)
    if first is None:
        return
    yield first
    if samples.in_memory or samples.n_rows == first.n_rows:
        yield from blocks
        return
    with ThreadPoolExecutor(1, "unrelu-reader") as reader:
        context = copy_context()  # NumPy's error handling is the caller's

        def read() -> Block | None:
            return context.run(next, blocks, None)

        ahead = reader.submit(read)
        while (block := ahead.result()) is not None:
            ahead = reader.submit(read)
            yield block


@dataclass(frozen=True, eq=False)
class _Answers:
    """Of several questions."""

    answers: tuple[Any, ...]

    def merge(self, other: Self) -> Self:
        return type(self)(tuple(mine.merge(its) for mine, its in zip(self.answers, other.answers, strict=True)))


def ask_at_once(evidence: Evidence, *questions: Question[Any]) -> None:
    """Read rows once for several questions, whose answers are then at hand one by one.

    Only where this process reads the rows; a record has nothing to read.
    """
    new = [question for question in questions if question not in evidence.answers]
    if type(evidence.engine) is LocalEngine and len(new) > 1:

        def several(block: Block) -> _Answers:
            return _Answers(tuple(question(block) for question in new))

        found = evidence.engine.collect(evidence.samples, several)
        evidence.answers.update(zip(new, found.answers, strict=True))


# --- threads ------------------------------------------------------------------------------------------


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_threads(task: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """``[task(item) for item in items]`` on all cores, for tasks that release the interpreter lock."""
    if min(available_cores(), len(items)) <= 1 or getattr(_worker, "busy", False):
        return [task(item) for item in items]
    return list(_pool(os.getpid()).map(task, items))


def joined_in_threads(task: Callable[[T], U], items: Sequence[T], join: Callable[[U, U], None]) -> U:
    """The tasks' results joined into the first, in the order of the items; few of them are in memory at once."""
    if min(available_cores(), len(items)) <= 1 or getattr(_worker, "busy", False):
        whole = task(items[0])
        for item in items[1:]:
            join(whole, task(item))
        return whole
    running: deque[Future[U]] = deque()
    results: list[U] = []

    def take() -> None:
        result = running.popleft().result()
        join(results[0], result) if results else results.append(result)

    try:
        for item in items:
            running.append(_pool(os.getpid()).submit(task, item))
            if len(running) > available_cores():
                take()
        while running:
            take()
    finally:
        for left in running:
            left.cancel()
        wait(running)
    return results[0]


_limit_lock = threading.Lock()
_limits: list[Any] = []  # one for each caller inside one_blas_thread; the first is what was set


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products on one thread each: for many small ones, or where :func:`map_in_threads` shares them out.

    The limit is the process's: the first to enter sets it and the last to leave lifts it, in whatever thread.
    """
    with _limit_lock:
        if not _limits:
            _take_control()
        _limits.append(_limits[0] if _limits else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _limit_lock:
            limiter = _limits.pop()
            if not _limits:
                _take_control()
                limiter.restore_original_limits()
                _take_control()


def blas_threads_for(d: int) -> AbstractContextManager[None]:
    """All threads for d x d matrices that are worth it, else one: threads that wait for each other cost far more."""
    return nullcontext() if d > _WORTH_THREADS else one_blas_thread()


def _take_control() -> None:
    """Let this thread set OpenBLAS's limit: from 3.8 on threadpoolctl obeys only the thread that did so first."""
    for library in _controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


@cache
def _controller() -> ThreadpoolController:
    """Finding the libraries takes longer than many a fit."""
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
