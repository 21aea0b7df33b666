"""The set (29) of Mazumdar and Rawat 2018, column by column, and program (34) as it stands there, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.errors import InvalidParameterError
from unrelu.papers.likelihood.density import BiasDensity
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.factors import Factors
from unrelu.validation import column_label, label_columns

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Columns:
    """Per column: how many cells are positive and how many at the floor, and the ends of the positive ones."""

    positives: FloatArray
    zeros: FloatArray
    smallest: FloatArray  # inf where no cell is positive
    largest: FloatArray  # -inf there

    @classmethod
    def of(cls, cells: Cells) -> Columns:
        def part(rows: slice) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
            values = cells.rows(rows.start, rows.stop)
            positive = values > 0.0
            return (
                positive.sum(axis=0).astype(np.float64),
                (values <= 0.0).sum(axis=0).astype(np.float64),
                np.where(positive, values, np.inf).min(axis=0, initial=np.inf),
                np.where(positive, values, -np.inf).max(axis=0, initial=-np.inf),
            )

        positives, zeros, smallest, largest = zip(*map_in_threads(part, tiles(cells.shape)), strict=True)
        return cls(sum(positives), sum(zeros), np.min(smallest, axis=0), np.max(largest, axis=0))

    @property
    def seen(self) -> BoolArray:
        return self.positives > 0

    @property
    def never(self) -> BoolArray:
        """Observed, and never positive."""
        return np.asarray((self.positives == 0) & (self.zeros > 0))


@dataclass(frozen=True)
class FeasibleSet:
    """X_{Y, nu, gamma} of (29): |M|_inf <= gamma; X - M constant over a column's positive cells; its zeros nu below.

    The constant is b_j. With it, column j's positive cells are M_ij = X_ij - b_j, its cells at the floor lie in
    [-gamma, cap_j - b_j] with cap_j = min_P X_ij - nu, and b_j itself in [low_j, high_j]:

        low_j = max_P X_ij - gamma,    high_j = min_P X_ij + gamma - nu (without nu where no cell is at the floor).

    A column that is never positive has no such constant. There b_j stands for -max_i M_ij, the largest bias that keeps
    the column at its floor (28): cap_j = 0, and b_j is in [-gamma, gamma].

    (29) does not ask for (26), M_ij + b_j <= 0 at the floor: where nu < min_P X_ij it lets T reach cap_j there.
    """

    columns: Columns
    gamma: float
    nu: float

    @property
    def caps(self) -> FloatArray:
        return np.where(self.columns.seen, self.columns.smallest, self.nu) - self.nu

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        seen = self.columns.seen
        low = np.where(seen, self.columns.largest, 0.0) - self.gamma
        return low, np.where(self.columns.zeros > 0, self.caps, np.where(seen, self.columns.smallest, 0.0)) + self.gamma

    def check_gamma(self) -> None:
        """Raise where a column's positive cells span more than any M with |M|_inf <= gamma can."""
        low, high = self.bounds
        bad = self.columns.seen & (low > high + _ROUNDING * self.gamma)
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            span = float(self.columns.largest[j] - self.columns.smallest[j])
            margin = self.nu if self.columns.zeros[j] > 0 else 0.0
            raise InvalidParameterError(
                f"gamma={self.gamma:g} is too small for {label_columns(bad, None)}: the positive cells of"
                f" {column_label(j, None)} span {span:.6g}, and |M|_inf <= gamma leaves room for 2 gamma"
                f"{' - nu' if margin else ''} = {2.0 * self.gamma - margin:.6g}. Raise gamma to at least"
                f" {0.5 * (span + margin):.6g}{' or lower nu' if margin else ''}."
            )

    def check_support(self, density: BiasDensity) -> None:
        """Raise where no bias that p allows leaves room for the column."""
        low, high = self.bounds
        never = self.columns.never
        bad = np.where(never, high <= density.lowest, (low > density.highest) | (high < density.lowest))
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise InvalidParameterError(
                f"bias_density allows biases in [{density.lowest:g}, {density.highest:g}] only, and"
                f" gamma={self.gamma:g} asks for one in [{low[j]:.6g}, {high[j]:.6g}] in {column_label(j, None)}"
                f" ({int(bad.sum())} such columns). Raise gamma or give a density with a wider support."
            )


@dataclass(frozen=True)
class Split:
    """M and b of X = ReLU(M + 1 b'), M of any rank."""

    matrix: FloatArray
    bias: FloatArray

    def truncated(self, rank: int) -> Factors:
        """The top singular vectors of M, as section 3.2 takes them from (44), with this bias."""
        return factors_of(*np.linalg.svd(self.matrix, full_matrices=False), rank, self.bias)


def factors_of(u: FloatArray, singular: FloatArray, vt: FloatArray, rank: int, bias: FloatArray) -> Factors:
    """The leading ``rank`` terms of U S V', shared evenly between C and A; zeros where there are fewer."""
    root = np.sqrt(singular[:rank])
    missing = ((0, 0), (0, rank - len(root)))
    return Factors(np.pad(u[:, :rank] * root, missing), np.pad(vt[:rank].T * root, missing), bias)


def relative_residual(values: FloatArray, factors: Factors) -> float:
    """|R| / |X|: how far T is from X where X > 0, and above the floor where X = 0."""
    fitted = factors.matrix()
    residual = np.where(values > 0.0, values - fitted, np.where(values <= 0.0, np.maximum(fitted, 0.0), 0.0))
    return float(np.linalg.norm(residual)) / (float(np.sqrt(np.nansum(values * values))) or 1.0)


def literal_program(values: FloatArray, feasible: FeasibleSet, density: BiasDensity) -> Split:
    """Program (34) without a constraint on the rank: its columns have nothing in common.

    b_j is where p is largest on [low_j, high_j]. The cells at the floor do not appear in the likelihood: every value
    in [-gamma, cap_j - b_j] is a solution, and what is returned is the one next to 0 that also has M_ij + b_j <= 0,
    (26), wherever gamma lets it (for nu < min_P X_ij the set (29) alone allows more). A missing cell is 0. A column
    that is never positive is best at M_ij = -gamma, or at any value below the support of -B: again the one next to 0.

    >>> from unrelu.recovery.matrix.cells import DenseCells
    >>> from scipy.stats import norm
    >>> X = np.array([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    >>> split = literal_program(X, FeasibleSet(Columns.of(DenseCells(X)), 2.0, 0.5), BiasDensity.checked(norm(0, 1)))
    >>> split.bias.round(6), split.matrix.round(6)
    (array([1., 0.]), array([[ 2., -2.],
           [ 0., -2.],
           [-1., -2.]]))
    """
    never = feasible.columns.never
    low, high = feasible.bounds
    depth = max(-feasible.gamma, min(0.0, -density.highest))
    if never.any() and not np.isfinite(depth):
        raise InvalidParameterError(
            f"Program (34) has no maximum without gamma: {label_columns(never, None)} never rises above its floor, and"
            " every lower M makes that likelier. Give gamma, or drop such columns."
        )
    bias = density.argmax(np.where(never, -np.inf, low), np.where(never, -depth, high))
    ceiling = np.minimum(0.0, np.minimum(feasible.caps, 0.0) - bias)
    at_floor = np.where(never, depth, np.maximum(-feasible.gamma, ceiling))
    matrix = np.where(values > 0.0, values - bias, np.where(np.isnan(values), 0.0, at_floor))
    return Split(matrix, bias)
