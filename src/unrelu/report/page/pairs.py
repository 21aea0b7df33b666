"""Latent correlations beside the naive ones, in an order that puts alike columns together; rows for scatter plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.fit.nearest import largest_eigenpairs
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells
from unrelu.report.model import labels, strongest_pairs
from unrelu.report.model_picture import column_order
from unrelu.report.page.columns import Looked, scale_points
from unrelu.report.page.writing import packed_correlations, rounded
from unrelu.report.pictures import Numbers

MOST_LINES, _GROUPS = 500, 200  # of the heat map: with more columns it has 200, and a cell stands for several pairs
_ORDERED = 300  # columns up to which leaves are turned so that neighbours are alike
_SCATTER_CELLS, _FEWEST_POINTS, _MOST_POINTS = 60_000, 40, 600
_STRONGEST = 12
_SHARES, _COMPONENTS, _LOADINGS = 15, 4, 8  # of components: shares, those told, columns of each


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """Correlations, d x d. ``order``: the columns as a clustering has them; ``naive`` and ``stderr`` may be unknown."""

    names: tuple[str, ...]
    latent: FloatArray
    naive: FloatArray | None
    stderr: FloatArray | None
    order: Numbers

    @classmethod
    def of(cls, model: RectifiedGaussian, looked: Looked | None, stderr: FloatArray | None) -> PairMatrix:
        """From the model, and, where there are rows, from them."""
        naive = None if looked is None else pairwise_correlation(looked.cells.given)
        return cls(labels(model), model.correlation, naive, stderr, column_order(model.correlation, _ORDERED))

    def facts(self) -> dict[str, Any]:
        """For the heat map: upper triangles of lines x lines, row by row, the diagonal left out where it says nothing.

        With more columns than lines, a cell stands for several pairs and shows the one of the largest latent
        correlation; ``first`` and ``second`` are its columns.
        """
        first, second, lines = self.shown_pairs()
        shown = {"latent": self.latent, "naive": self.naive, "stderr": self.stderr}
        packed = {
            name: packed_correlations(np.clip(values[first, second], -2.0, 2.0))
            for name, values in shown.items()
            if values is not None
        }
        grouped = {} if lines == len(self.names) else {"first": first.tolist(), "second": second.tolist()}
        return {"lines": lines, "order": self.order.tolist(), **packed, **grouped, "strongest": self.strongest()}

    def shown_pairs(self) -> tuple[Numbers, Numbers, int]:
        """(first columns, second columns, lines): one pair for every cell above the heat map's diagonal, or on it."""
        d = len(self.names)
        if d <= MOST_LINES:
            at = np.triu_indices(d, 1)
            return self.order[at[0]], self.order[at[1]], d
        groups = np.array_split(self.order, _GROUPS)
        strongest = [
            _strongest(self.latent, groups[i], groups[j]) for i in range(len(groups)) for j in range(i, len(groups))
        ]
        first, second = np.array(strongest, dtype=np.intp).T
        return first, second, len(groups)

    def strongest(self, most: int = _STRONGEST) -> list[dict[str, Any]]:
        """The pairs with the largest latent correlations in size, by column numbers."""
        return [{"first": i, "second": j, **self.pair(i, j)} for i, j in strongest_pairs(self.latent, most)]

    def pair(self, i: int, j: int) -> dict[str, float | None]:
        """What is known of one pair."""
        known = {"latent": self.latent, "stderr": self.stderr, "naive": self.naive}
        return {name: None if values is None else rounded([values[i, j]])[0] for name, values in known.items()}


def _strongest(latent: FloatArray, rows: Numbers, columns: Numbers) -> tuple[int, int]:
    """The pair of the largest size between two groups of columns."""
    size = np.abs(latent[np.ix_(rows, columns)])
    if rows is columns or rows[0] == columns[0]:
        size = np.where(np.eye(len(rows), dtype=bool), -1.0, size)
    at = int(np.argmax(size))
    return int(rows[at // len(columns)]), int(columns[at % len(columns)])


def pairwise_correlation(x: FloatArray) -> FloatArray:
    """Pearson's, every pair from the rows that have both; NaN where that is nothing, or a column does not vary.

    >>> x = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0], [np.nan, 7.0]])
    >>> pairwise_correlation(x).round(6)
    array([[1., 1.],
           [1., 1.]])
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        known = ~np.isnan(x)
        size = np.nanmax(np.where(known, np.abs(x), 0.0), axis=0, initial=0.0)
        x = x / np.where(size > 0.0, size, 1.0)  # squares of huge numbers would overflow
        centre = np.where(known.any(axis=0), np.where(known, x, 0.0).sum(axis=0) / known.sum(axis=0), 0.0)
        z = np.where(known, x - centre, 0.0)
        if known.all():
            cross, square = z.T @ z, np.sum(z * z, axis=0)
            cross = cross / np.sqrt(np.outer(square, square))
        else:
            k = known.astype(np.float64)
            n, total, square = k.T @ k, z.T @ k, (z * z).T @ k
            spread = square - total**2 / n
            cross = (z.T @ z - total * total.T / n) / np.sqrt(spread * spread.T)
    varies = np.array([len(np.unique(column[there])) > 1 for column, there in zip(x.T, known.T, strict=True)])
    found = np.where(np.outer(varies, varies), np.clip(cross, -1.0, 1.0), np.nan)
    np.fill_diagonal(found, 1.0)
    return found


def scatter_facts(model: RectifiedGaussian, looked: Looked) -> dict[str, Any]:
    """Rows for scatter plots, few enough for a page: values to four digits, and a letter for every cell.

    ``marks``: s seen, f at a floor, c at a ceiling, m missing.
    """
    most = int(np.clip(_SCATTER_CELLS // model.n_features, _FEWEST_POINTS, _MOST_POINTS))
    cells = looked.first(most)
    return {
        "rows": len(cells.given),
        "of": looked.n_rows,
        "values": [rounded(column) for column in cells.given.T],
        "marks": ["".join(_letters(cells, j)) for j in range(model.n_features)],
        "bias": rounded(model.bias, 5),
        "norm": rounded(model.row_norms, 5),
        "curve": [scale_points(model, j) for j in range(model.n_features)],
    }


def _letters(cells: Cells, j: int) -> Any:
    mark = cells.beyond[:, j]
    return np.where(np.isnan(cells.given[:, j]), "m", np.where(mark < 0, "f", np.where(mark > 0, "c", "s")))


# --- directions that the columns share ------------------------------------------------------------


def component_facts(latent: FloatArray, naive: FloatArray | None) -> dict[str, Any]:
    """Shares of the variance (columns standardized), naive ones beside them, and the first components' loadings.

    A loading is the correlation of a column with the component. Components are told as long as their share is above
    that of a single column.

    >>> facts = component_facts(np.array([[1.0, 0.5], [0.5, 1.0]]), None)
    >>> facts["shares"], [loading["loading"] for loading in facts["components"][0]["loadings"]]
    ([0.75, 0.25], [0.866, 0.866])
    """
    d = len(latent)
    values, vectors = _leading(latent, min(_SHARES, d))
    own = None if naive is None or np.isnan(naive).any() else _leading(naive, min(_SHARES, d))[0]
    told = max(1, min(_COMPONENTS, int(np.count_nonzero(values > 1.0))))
    return {
        "shares": rounded(values / d),
        "naive_shares": None if own is None else rounded(own / d),
        "components": [
            {"share": float(values[k] / d), "loadings": _loadings(vectors[:, k] * np.sqrt(values[k]))}
            for k in range(told)
        ],
    }


def _leading(matrix: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """The k largest eigenvalues, falling, at least 0, and their vectors."""
    values, vectors = largest_eigenpairs(matrix, k)
    order = np.argsort(-values, kind="stable")
    return np.maximum(values[order], 0.0), vectors[:, order]


def _loadings(loadings: FloatArray) -> list[dict[str, Any]]:
    """The largest of them, the largest of all positive."""
    loadings = loadings * (1.0 if loadings[np.argmax(np.abs(loadings))] >= 0.0 else -1.0)
    few = np.argsort(-np.abs(loadings), kind="stable")[:_LOADINGS]
    return [{"column": int(j), "loading": round(float(loadings[j]), 3)} for j in few]
