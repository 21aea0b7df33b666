"""Evidence: questions asked of the data, each answered by one pass and remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from unrelu.contracts import Block, Engine, Evidence, Question, R, Record, Samples
from unrelu.passes.engine import LocalEngine


class SampleEvidence:
    """Answers from rows: one pass through the engine per new question.

    >>> import numpy as np
    >>> from unrelu.passes.engine import LocalEngine
    >>> from unrelu.tables import ArraySamples
    >>> from unrelu.passes.pair_moments import PairMomentsQuestion
    >>> evidence = SampleEvidence(ArraySamples(np.array([[0.0], [2.0], [1.0]])), LocalEngine())
    >>> evidence.collect(PairMomentsQuestion((0.0,), (0.0,))).count
    array([[2.]])
    """

    def __init__(self, samples: Samples, engine: Engine) -> None:
        self.samples = samples
        self.engine = engine
        self._answers: dict[Any, Record] = {}

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self.samples.feature_names

    @property
    def place(self) -> Any:
        return self.samples.source.place

    def collect(self, question: Question[R], remember: bool = True) -> R:
        """The record of all rows. Raises what the question raises; nothing is remembered then."""
        if question in self._answers:
            known: Any = self._answers[question]
            found: R = known
            return found
        record = self.engine.collect(self.samples, question)
        if remember:
            self._answers[question] = record
        return record

    def ask(self, *questions: Question[Any]) -> None:
        """Answer several questions in one pass, where this process reads the rows; else each when it is asked."""
        new = [question for question in questions if question not in self._answers]
        if type(self.engine) is LocalEngine and len(new) > 1:
            self._answers.update(zip(new, self.engine.collect(self.samples, _Several(tuple(new))).answers, strict=True))


@dataclass(frozen=True, eq=False)
class _Answers:
    """Of several questions."""

    answers: tuple[Any, ...]

    def merge(self, other: Self) -> Self:
        return type(self)(tuple(mine.merge(its) for mine, its in zip(self.answers, other.answers, strict=True)))


@dataclass(frozen=True)
class _Several:
    """Several questions as one."""

    questions: tuple[Question[Any], ...]

    def __call__(self, block: Block) -> _Answers:
        return _Answers(tuple(question(block) for question in self.questions))


def ask_at_once(evidence: Evidence, *questions: Question[Any]) -> None:
    """Have rows read once for several questions, which are then asked one by one; a record has nothing to read."""
    if isinstance(evidence, SampleEvidence):
        evidence.ask(*questions)


class RecordedEvidence:
    """A saved record stands in for the data: it answers its own question and no other."""

    def __init__(
        self, question: Question[R], record: R, feature_names: tuple[str, ...] | None = None, place: Any = None
    ) -> None:
        self._question: Any = question
        self._record: Any = record
        self.feature_names = feature_names
        self.place = place

    def collect(self, question: Question[R], remember: bool = True) -> R:  # noqa: ARG002 - the protocol's
        if question != self._question:
            raise LookupError(f"Only the answer to {self._question} was kept; {question} needs the rows again.")
        found: R = self._record
        return found
