"""Time for a search: ended by a clock or by an interrupt, it keeps what it has found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from unrelu.contracts import Step, Watch, unwatched

TIME_WAS_UP, INTERRUPTED = "The time was up", "The search was interrupted"  # how a search ended early


class TimeIsUp(Exception):
    """The seconds of a :class:`Clock` are over."""


def as_stage(stage: str, watch: Watch) -> Watch:
    """Tells ``watch`` of another conductor's steps as steps of ``stage``; its states mean nothing outside."""
    if watch is unwatched:
        return unwatched

    def hear(step: Step) -> None:
        watch(replace(step, stage=stage, state=None))

    return hear


@dataclass(frozen=True)
class Clock:
    """Tells ``watch`` of every step, and raises :class:`TimeIsUp` at the first one after ``seconds``."""

    seconds: float | None = None
    watch: Watch = unwatched
    started: float = field(default_factory=time.monotonic)

    def __call__(self, step: Step) -> None:
        self.watch(step)
        if self.is_up:
            raise TimeIsUp(step.stage)

    def staged(self, stage: str) -> Clock:
        """The same clock for the steps of ``stage``."""
        return replace(self, watch=as_stage(stage, self.watch))

    @property
    def is_up(self) -> bool:
        """Whether the seconds are over."""
        return self.seconds is not None and time.monotonic() - self.started > self.seconds

    def run(self, search: Callable[[], None]) -> str | None:
        """Search until the end, until time is up or until an interrupt; the last two are said.

        >>> Clock(0.0).run(lambda: Clock(0.0)(Step("Looking")))
        'The time was up'
        """
        try:
            search()
        except TimeIsUp:
            return TIME_WAS_UP
        except KeyboardInterrupt:
            return INTERRUPTED
        return None
