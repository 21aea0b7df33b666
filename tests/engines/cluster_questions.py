"""Questions that the tests of clusters ask: workers import them, so that they stand by themselves."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Block


@dataclass(frozen=True)
class Rows:
    """The numbers and sums of rows, in the order in which they merge."""

    parts: tuple[tuple[int, float], ...]

    def merge(self, other):
        return Rows(self.parts + other.parts)


@dataclass(frozen=True)
class RowsQuestion:
    wait: float = 0.0

    def __call__(self, block: Block) -> Rows:
        time.sleep(self.wait)
        rows = enumerate(block.values.sum(axis=1).tolist(), block.first_row)
        return Rows(tuple(rows))


@dataclass(frozen=True)
class FailingOnce:
    """A part whose first reading fails: ``path`` remembers that it did."""

    path: str

    def __call__(self, block: Block) -> Rows:
        if block.first_row == 0 and not os.path.exists(self.path):
            with open(self.path, "w"):
                raise OSError("the disk was away")
        return RowsQuestion()(block)


@dataclass(frozen=True)
class Refusing:
    error: type

    def __call__(self, block: Block) -> Rows:
        raise self.error(f"Row {block.first_row} is refused.")


@dataclass(frozen=True)
class BesideQuestion:
    """Everything that blocks say of their rows."""

    def __call__(self, block: Block) -> Rows:
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        groups = ["" for _ in weights] if block.groups is None else np.array(block.groups.labels)[block.groups.index]
        facts = zip(block.values.tolist(), weights.tolist(), groups, strict=True)
        return Rows(tuple((block.first_row + k, repr(fact)) for k, fact in enumerate(facts)))
