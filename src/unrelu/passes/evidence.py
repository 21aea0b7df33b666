"""Evidence: questions asked of the data, each answered by one pass and remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, cast

from unrelu.contracts import Block, Engine, Evidence, Question, R, Record, Samples
from unrelu.passes.engine import LocalEngine


class SampleEvidence:
    """Answers from rows: one pass through the engine per new question."""

    def __init__(self, samples: Samples, engine: Engine) -> None:
        self.samples, self.engine = samples, engine
        self.answers: dict[Any, Record] = {}

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self.samples.feature_names

    @property
    def place(self) -> Any:
        return self.samples.source.place

    def collect(self, question: Question[R], remember: bool = True) -> R:
        """The record of all rows. Raises what the question raises; nothing is remembered then."""
        if question in self.answers:
            known: Any = self.answers[question]
            return cast(R, known)
        record = self.engine.collect(self.samples, question)
        if remember:
            self.answers[question] = record
        return record


@dataclass(frozen=True, eq=False)
class _Answers:
    """Of several questions."""

    answers: tuple[Any, ...]

    def merge(self, other: Self) -> Self:
        return type(self)(tuple(mine.merge(its) for mine, its in zip(self.answers, other.answers, strict=True)))


def ask_at_once(evidence: Evidence, *questions: Question[Any]) -> None:
    """Have rows read once for several questions, which are then asked one by one.

    Only where this process reads the rows; a record has nothing to read.
    """
    if not isinstance(evidence, SampleEvidence) or type(evidence.engine) is not LocalEngine:
        return
    new = [question for question in questions if question not in evidence.answers]
    if len(new) > 1:

        def several(block: Block) -> _Answers:
            return _Answers(tuple(question(block) for question in new))

        found = evidence.engine.collect(evidence.samples, several)
        evidence.answers.update(zip(new, found.answers, strict=True))


class RecordedEvidence:
    """A saved record stands in for the data: it answers its own question and no other."""

    def __init__(
        self, question: Question[R], record: R, feature_names: tuple[str, ...] | None = None, place: Any = None
    ) -> None:
        self._question: Any = question
        self._record: Any = record
        self.feature_names, self.place = feature_names, place

    def collect(self, question: Question[R], remember: bool = True) -> R:  # noqa: ARG002 - the protocol's
        if question != self._question:
            raise LookupError(f"Only the answer to {self._question} was kept; {question} needs the rows again.")
        return cast(R, self._record)
