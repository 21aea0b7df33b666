"""One question in several passes, each over some of the columns, where a record of all pairs would be too large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from unrelu.contracts import Question, R, Samples, Step, Watch
from unrelu.passes.column_groups import Columns, PairQuestion, column_groups
from unrelu.passes.rows import SomeColumns


@dataclass(frozen=True, eq=False)
class Pass:
    """One pass of the ``of`` that a question takes, and who hears how far it is."""

    watch: Watch
    stage: str
    number: int = 0
    of: int = 1

    def tell(self, rows: int, total: int | None) -> None:
        """So many of all rows were read."""
        words, done = f"{rows:,} rows" if rows else "", rows
        if self.of > 1:
            words = f"columns in groups, {self.number + 1} of {self.of}: {rows:,} rows"
            done = rows if total is None else (self.number * total + rows) // self.of
        self.watch(Step(self.stage, done, total, words))


def in_passes(
    samples: Samples,
    question: Question[R],
    most_bytes: Callable[[], float],
    collected: Callable[[Samples, Question[Any], Pass], R],
    whole: Pass,
) -> R:
    """The record of all columns, in as few passes (``collected``) as let none take more memory than ``most_bytes``."""
    if not isinstance(question, PairQuestion):
        return collected(samples, question, whole)
    asked: PairQuestion[R] = question
    most = most_bytes()
    groups = column_groups(samples.n_features, lambda columns: asked.bytes_held(columns) <= most)
    if len(groups) == 1:
        return collected(samples, asked, whole)

    def records() -> Iterator[tuple[Columns, R]]:
        for number, columns in enumerate(groups):
            step = replace(whole, number=number, of=len(groups))
            yield columns, collected(SomeColumns(samples, columns), asked.of_columns(columns), step)

    return asked.put_together(records())
