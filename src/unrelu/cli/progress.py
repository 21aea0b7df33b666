"""Progress on the terminal (standard error), silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from unrelu.contracts import Step


class Meter:
    """A watch that shows every step on one line of the terminal: the stage, how far it is, and words on it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("Starting (the first run also compiles)", total=None, words="")
        self._stage = ""

    def __call__(self, step: Step) -> None:
        if step.stage != self._stage:
            self._stage = step.stage
            self._progress.reset(self._task, description=step.stage, words="")
        # A stage without a known end has a bar that only moves.
        self._progress.update(self._task, completed=step.done, total=step.total, words=step.words)


@contextmanager
def meter(*, hidden: bool = False) -> Iterator[Meter]:
    """A meter that is drawn only on a terminal, and cleared at the end."""
    drawn = not hidden and sys.stderr.isatty()
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not drawn,
    )
    with progress if drawn else nullcontext():  # older versions of rich end a disabled one with an empty line
        yield Meter(progress)
