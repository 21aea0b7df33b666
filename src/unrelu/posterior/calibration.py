"""How unusual a row's score is under the model itself, by simulation.

Scores of simulated rows give p-values down to about 1 in their number; beyond, the tail is continued by the
exponential that fits its last part, as the tails of log densities of Gaussian rows fall (a chi-square's, halved).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from unrelu.contracts import FloatArray

_TAIL_SHARE = 0.01
_FEWEST = 20  # scores that make a tail


@dataclass(frozen=True, eq=False)
class ScoreTail:
    """The scores of rows simulated from a model, sorted; low scores are the unusual ones."""

    scores: FloatArray

    @classmethod
    def of(cls, scores: FloatArray) -> Self:
        return cls(np.sort(scores))

    def quantile(self, share: float) -> float:
        """The score below which a share of the model's rows lies."""
        start, excess, beyond = self._tail()
        if share < beyond:
            return start + excess * float(np.log(share / beyond))
        return float(np.quantile(self.scores, share))

    def p_value(self, scores: FloatArray) -> FloatArray:
        """The share of the model's rows with a score as low.

        >>> tail = ScoreTail.of(np.log(np.arange(1, 1001) / 1000.0))
        >>> tail.p_value(np.log([0.5, 0.2])).round(2)
        array([0.5, 0.2])
        >>> bool(0.0 < tail.p_value(np.log([1e-6]))[0] < 1e-5)
        True
        """
        start, excess, beyond = self._tail()
        within = np.searchsorted(self.scores, scores, side="right") / len(self.scores)
        continued = beyond * np.exp(np.minimum(scores - start, 0.0) / excess)
        return np.where(scores < start, continued, np.maximum(within, beyond))

    def highest_p_value(self, scores: FloatArray, errors: float = 3.0) -> FloatArray:
        """The p-values as large as they may be, so many standard errors of the simulation above.

        The share beyond the start of the tail, and its mean excess, are known to 1 / sqrt(number of scores beyond).
        """
        start, excess, beyond = self._tail()
        p = self.p_value(scores)
        slack = 1.0 + errors / np.sqrt(beyond * len(self.scores))
        within = p + errors * np.sqrt(p * (1.0 - p) / len(self.scores))
        continued = beyond * slack * np.exp(np.minimum(scores - start, 0.0) / (excess * slack))
        return np.where(scores < start, continued, within)

    def _tail(self) -> tuple[float, float, float]:
        """(where the continued tail starts, its mean excess, the share beyond its start)."""
        count = min(max(_FEWEST, round(_TAIL_SHARE * len(self.scores))), len(self.scores) - 1)
        start = float(self.scores[count])
        excess = float(np.mean(start - self.scores[:count]))
        return start, max(excess, 1e-12), count / len(self.scores)


def rows_from_normals(
    normals: FloatArray, bias: FloatArray, scale: FloatArray, correlation: FloatArray, floor: FloatArray
) -> FloatArray:
    """Rows of max(y, floor), y ~ N(bias, covariance), from rows of independent normals.

    By the symmetric root of the correlations: the same normals give nearby rows for nearby models, singular or not.

    >>> rows_from_normals(np.array([[1.0], [-1.0]]), np.array([1.0]), np.array([2.0]), np.eye(1), np.zeros(1))
    array([[3.],
           [0.]])
    """
    values, vectors = np.linalg.eigh(correlation)
    y = normals @ ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    y *= scale
    y += bias
    return np.asarray(np.maximum(y, floor, out=y))
