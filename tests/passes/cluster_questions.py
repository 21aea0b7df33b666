"""Questions that the tests of clusters ask, and what the answers must be: workers import them."""

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


# --- answers --------------------------------------------------------------------------------------


def same(one, other):
    """The same sums about the columns' means: every way to merge has an origin of its own."""
    assert one.n_rows == other.n_rows
    (count, mean, spread), others = one.positive_moments(), other.positive_moments()
    for mine, theirs in zip((count, mean, spread), others, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)
    np.testing.assert_array_equal(one.count, other.count)
    for sums in (central, masked):
        np.testing.assert_allclose(sums(one, mean), sums(other, mean), rtol=1e-10, atol=1e-7)


def central(record, mean):
    """Sum of (x_i - m_i)(x_j - m_j) over rows above both floors."""
    shift, a = mean - record.origin, record.masked_sum
    return record.cross - shift[:, None] * a.T - shift * a + np.outer(shift, shift) * record.count


def masked(record, mean):
    """Sum of (x_i - m_i)^2 over the same rows."""
    shift = (mean - record.origin)[:, None]
    return record.masked_square - 2.0 * shift * record.masked_sum + shift**2 * record.count


def same_models(one, other):
    np.testing.assert_allclose(one.mean_, other.mean_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(one.covariance_, other.covariance_, rtol=1e-10, atol=1e-10)
    assert one.report_.n_rows == other.report_.n_rows


def in_order(table, found: Rows) -> None:
    """All rows of the table were read once, in their order."""
    assert [row for row, _ in found.parts] == list(range(len(table)))
    np.testing.assert_allclose([total for _, total in found.parts], table.sum(axis=1))
