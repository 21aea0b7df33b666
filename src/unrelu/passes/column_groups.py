"""Groups of columns that have every two columns together in one: what is asked of pairs is asked group by group.

The columns are cut into p x p blocks (x, y), p prime. The groups are the lines of the plane of integers modulo p,

    y = m x + c      and      x = c,

of which any two points have exactly one in common: p (p + 1) groups of d/p columns each. Together they have 1 + 1/p
times the pairs of all columns, and every column is in p + 1 of them; pairs of blocks of half the size would have twice
the pairs, and every column in 2p of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Question, R

Columns = NDArray[np.intp]


@runtime_checkable
class PairQuestion(Question[R], Protocol):
    """A question about all pairs of columns, whose record grows with their square: it can be asked of some of them."""

    def of_columns(self, columns: Columns) -> Question[R]: ...

    def put_together(self, groups: Iterable[tuple[Columns, R]]) -> R:
        """The record of all columns, from those of groups of them that have every two columns together in one."""
        ...

    def bytes_held(self, n_features: int) -> int:
        """Memory that asking and merging take at most, of a table with that many columns."""
        ...


def column_groups(n_features: int, fits: Callable[[int], bool]) -> list[Columns]:
    """The fewest groups that ``fits`` says yes to, told a number of columns; all columns at once where they fit.

    Where nothing fits, groups are as small as they get.

    >>> [group.tolist() for group in column_groups(4, lambda columns: columns <= 2)]
    [[0, 1], [2, 3], [0, 2], [1, 3], [0, 3], [1, 2]]
    >>> len(column_groups(4, lambda columns: True))
    1
    """
    if fits(n_features):
        return [np.arange(n_features)]
    orders = [p for p in range(2, n_features) if p * p <= n_features and all(p % q for q in range(2, p))]
    if not orders:
        return [np.arange(n_features)]
    p = next((p for p in orders if fits(p * -(-n_features // (p * p)))), orders[-1])
    ends = np.arange(p * p + 1) * n_features // (p * p)

    def group(points: list[tuple[int, int]]) -> Columns:
        blocks = (p * x + y for x, y in points)
        return np.sort(np.concatenate([np.arange(ends[k], ends[k + 1]) for k in blocks]))

    upright = [group([(c, y) for y in range(p)]) for c in range(p)]
    slanted = [group([(x, (m * x + c) % p) for x in range(p)]) for m in range(p) for c in range(p)]
    return upright + slanted
