"""A column predicted from the others: one line per row, and how near the predictions come to what the table has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray, Samples
from unrelu.estimators import FloorImputer
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells
from unrelu.posterior.marginals import Prediction, predicted
from unrelu.report.tables import level_name
from unrelu.validation import counted


def predicted_lines(
    imputer: FloorImputer,
    table: Samples,
    law: RectifiedGaussian,
    nearness: Nearness,
    ids: Mapping[str, Sequence[str]],
    *,
    uncut: bool,
) -> Iterator[dict[str, Any]]:
    """One line per row, block by block, of what the table shows, or of the ``uncut`` value."""
    j, levels, first = nearness.column, nearness.levels, 0
    own_limits, lacks = bool(getattr(table, "limits_by_cell", ())), law.n_features > imputer.n_features_in_
    for given in imputer.cells(table):
        cells = given.widened(j) if lacks else given
        rest = cells.without(j)
        found = predicted(law, rest, j, levels)
        nearness.add(rest if own_limits else cells, found)  # what a cell's own limit would show is not predicted
        if uncut:
            found = predicted(law, rest, j, levels, hidden=True)
        rows = slice(first, first + len(found.mean))
        first = rows.stop
        yield {
            "row": np.arange(rows.start, rows.stop) + 1,
            **{name: list(texts[rows]) for name, texts in ids.items()},
            "mean": found.mean,
            "std": found.std,
            **{level_name(level): found.quantiles[:, k] for k, level in enumerate(found.levels)},
            "probability_floored": found.probability_floored,
        }


class Nearness:
    """How near predictions of what a table shows come to its values, added up while rows are predicted."""

    def __init__(self, law: RectifiedGaussian, j: int, levels: tuple[float, ...]) -> None:
        self.rows = self.values = 0
        self.column, self.levels = j, levels
        self._limits = float(law.floor[j]), float(law.ceiling[j])
        self._origin = 0.0  # about which squares are summed: near the mean, for their digits
        self._sums = np.zeros(7)

    def add(self, cells: Cells, found: Prediction) -> None:
        """Some rows; a cell at its limit shows that limit."""
        x, at_limit = cells.given[:, self.column], cells.beyond[:, self.column] != 0
        known = ~np.isnan(x)
        self.rows += len(x)
        if not known.any():
            return
        if not self.values:
            self._origin = float(x[known].mean())
        self.values += int(known.sum())
        parts = (
            x - self._origin,
            (x - self._origin) ** 2,
            (x - found.mean) ** 2,
            (found.quantiles[:, 0] <= x) & (x <= found.quantiles[:, -1]),
            self._expected(found),
            at_limit,
            found.probability_floored,
        )
        self._sums += [float(np.sum(part[known])) for part in parts]

    @property
    def _ends(self) -> tuple[float, float]:
        return self.levels[0], self.levels[-1]

    def _expected(self, found: Prediction) -> FloatArray:
        """The model's own probability of the closed interval: where an end is a limit, all that is cut off is in it."""
        low, high, first, last = *self._ends, found.quantiles[:, 0], found.quantiles[:, -1]
        at_floor, at_ceiling = first <= self._limits[0], last >= self._limits[1]
        one = np.where(at_floor, high, np.where(at_ceiling, 1.0 - low, high - low))
        whole = (last <= self._limits[0]) | (first >= self._limits[1])
        return np.asarray(np.where(whole, found.probability_floored, one))

    def facts(self) -> dict[str, Any]:
        """For JSON; nothing where the table does not have the column."""
        if not self.values:
            return {"rows": self.rows, "values": 0}
        total, square, error, within, expected, floored, predicted = self._sums / self.values
        variance = square - total**2
        return {
            "rows": self.rows,
            "values": self.values,
            "share_explained": 1.0 - error / variance if variance > 0.0 else None,
            "root_mean_square_error": float(np.sqrt(error)),
            "share_within": within,
            "expected_share_within": expected,
            "share_floored": floored,
            "predicted_share_floored": predicted,
        }

    def shown(self) -> list[str]:
        """For the terminal."""
        facts, (low, high) = self.facts(), self._ends
        if not self.values:
            return []
        explained = facts["share_explained"]
        share = "nothing" if explained is None or explained <= 0.0 else f"{explained:.1%}"
        lines = [
            f"Explained: {share} of the variance of the {counted(self.values, 'value')} that the table has of it; root"
            f" mean square error {facts['root_mean_square_error']:.4g}.",
        ]
        if low < high:
            lines.append(
                f"Between the {100.0 * low:g} and the {100.0 * high:g} % quantile: {facts['share_within']:.1%} of them;"
                f" the model expects {facts['expected_share_within']:.1%}."
            )
        if facts["share_floored"] or facts["predicted_share_floored"] > 0.0005:
            lines.append(
                f"At the limit: {facts['share_floored']:.1%}; predicted {facts['predicted_share_floored']:.1%}."
            )
        return lines
