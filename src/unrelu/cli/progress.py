"""Progress on the terminal (standard error), silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from unrelu.contracts import Block, Question, R
from unrelu.engines.local import LocalEngine


class Meter:
    """One line of the terminal: what is being done, and how many rows of how many."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, counted="")
        self._rows = 0

    def stage(self, description: str, total: int | None = None) -> None:
        """Start another stage; ``total`` is its number of rows, where known."""
        self._rows = 0
        self._progress.reset(self._task, total=total, description=description, counted="")

    def advance(self, rows: int) -> None:
        self._rows += rows
        self._progress.update(self._task, advance=rows, counted=f"{self._rows:,} rows")

    def tell(self, words: str) -> None:
        """How far a stage is that does not count rows."""
        self._progress.update(self._task, counted=words)


@contextmanager
def meter(*, hidden: bool = False) -> Iterator[Meter]:
    """A meter that is drawn only on a terminal, and cleared at the end."""
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=hidden or not sys.stderr.isatty(),
    )
    with progress:
        yield Meter(progress)


class MeteredEngine:
    """The local engine, with its passes over the rows shown on a meter."""

    def __init__(self, shown_on: Meter, n_rows: int | None) -> None:
        self._meter = shown_on
        self._n_rows = n_rows
        self._engine = LocalEngine(progress=shown_on.advance)

    def collect(self, blocks: Iterable[Block], question: Question[R]) -> R:
        self._meter.stage("Reading rows", self._n_rows)
        record = self._engine.collect(blocks, question)
        self._meter.stage("Learning (the first run also compiles)")
        return record
