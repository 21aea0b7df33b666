"""Evidence: questions asked of the data, each answered by one pass and remembered."""

from __future__ import annotations

from typing import Any

from unrelu.contracts import Engine, Question, R, Record, Samples


class SampleEvidence:
    """Answers from rows: one pass through the engine per new question.

    >>> import numpy as np
    >>> from unrelu.engines.local import LocalEngine
    >>> from unrelu.samples import ArraySamples
    >>> from unrelu.statistics.pair_moments import PairMomentsQuestion
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

    def collect(self, question: Question[R], remember: bool = True) -> R:
        """The record of all rows. Raises what the question raises; nothing is remembered then."""
        if question in self._answers:
            return self._answers[question]  # type: ignore[return-value]
        record = self.engine.collect(self.samples, question)
        if remember:
            self._answers[question] = record
        return record


class RecordedEvidence:
    """A saved record stands in for the data: it answers its own question and no other."""

    def __init__(self, question: Question[R], record: R, feature_names: tuple[str, ...] | None = None) -> None:
        self._question = question
        self._record = record
        self.feature_names = feature_names

    def collect(self, question: Question[R], remember: bool = True) -> R:  # noqa: ARG002 - the protocol's
        if question != self._question:
            raise LookupError(f"Only the answer to {self._question} was kept; {question} needs the rows again.")
        return self._record  # type: ignore[return-value]
