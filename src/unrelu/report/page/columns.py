"""Columns in the user's units: what the table shows of them, what the model says, and a small picture of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells, SampledCells
from unrelu.report.model import labels, shape_words
from unrelu.report.page.writing import rounded

_MOST_ROWS, _MOST_CELLS, _FEWEST_ROWS = 20_000, 10_000_000, 2_000  # of the sample
_WIDTH, _HEIGHT = 160.0, 44.0  # of a picture
_BARS, _FAR = 28, 3.3  # bars of a histogram; how far a curve goes, in standard deviations
_MANY, _POINTS, _FEW_POINTS = 300, 56, 28  # from so many columns on curves have fewer points: pages must stay small
_SCALE_POINTS, _SCALE_END = 65, 4.0  # of a column's curve f, for axes in the user's units


# --- one pass over the rows -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Looked:
    """A sample of the rows with their numbers in the table (from 0), and counts over all rows, per column."""

    sample: SampledCells
    floored: NDArray[np.int64]
    at_ceiling: NDArray[np.int64]
    missing: NDArray[np.int64]

    @classmethod
    def at(cls, blocks: Iterable[Cells], n_features: int, seed: int) -> Looked:
        """All rows, block by block."""
        counts = np.zeros((3, n_features), dtype=np.int64)

        def counted(block: Cells) -> Cells:
            missing = np.isnan(block.given)
            for count, which in zip(counts, (block.beyond < 0, block.beyond > 0, missing), strict=True):
                count += np.count_nonzero(which, axis=0)
            return block

        most = int(np.clip(_MOST_CELLS // n_features, _FEWEST_ROWS, _MOST_ROWS))
        sample = SampledCells.of(map(counted, blocks), most, seed)
        return cls(sample, *counts)

    @property
    def n_rows(self) -> int:
        return self.sample.n_rows

    @property
    def cells(self) -> Cells:
        return self.sample.cells

    @property
    def known(self) -> NDArray[np.int64]:
        """Rows that say something of a column."""
        return np.asarray(self.n_rows - self.missing)

    def facts(self) -> dict[str, Any]:
        """Counts over the whole table."""
        cells = self.n_rows * len(self.missing)
        hidden = {"floored": self.floored, "at_ceiling": self.at_ceiling, "missing": self.missing}
        return {
            "n_rows": self.n_rows,
            "n_columns": len(self.missing),
            **{f"share_{name}": float(count.sum()) / cells for name, count in hidden.items()},
            "n_looked_at": len(self.cells.given),
        }

    def first(self, rows: int) -> Cells:
        """So many rows of the sample: they are in the order of the table, so they are taken evenly."""
        n = len(self.cells.given)
        return self.cells if n <= rows else self.cells.of_rows(np.linspace(0, n - 1, rows).round().astype(np.intp))


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Numbers per column. Naive: of the table as it stands, cells at a limit taken for their limit.

    ``mean``, ``median``, ``std`` are those of the uncut column, in the user's units; ``shift`` is how far the learned
    mean is from the naive one, in learned standard deviations.
    """

    names: tuple[str, ...]
    shape: list[str]
    floor: FloatArray
    ceiling: FloatArray
    mean: FloatArray
    median: FloatArray
    std: FloatArray
    mean_stderr: FloatArray
    naive_mean: FloatArray
    naive_median: FloatArray
    share_floored: FloatArray
    share_missing: FloatArray

    @classmethod
    def of(cls, model: RectifiedGaussian, looked: Looked | None, bias_stderr: FloatArray | None) -> ColumnFacts:
        """From the model, and, where there are rows, from them."""
        d = model.n_features
        uncut_columns = model.column_summary(below="latent")
        mean, median, std = (np.array([c[key] for c in uncut_columns]) for key in ("mean", "median", "std"))
        unknown = np.full(d, np.nan)
        normal = np.array([model.shapes is None or model.shapes[j].kind == "normal" for j in range(d)])
        errors = unknown if bias_stderr is None else np.where(normal, bias_stderr, np.nan)
        naive = np.full((2, d), np.nan)
        floored = missing = unknown
        if looked is not None:
            naive = np.array([_naive(column[~np.isnan(column)]) for column in looked.cells.given.T]).T
            with np.errstate(invalid="ignore", divide="ignore"):
                floored = (looked.floored + looked.at_ceiling) / looked.known
            missing = looked.missing / looked.n_rows
        else:
            floored = ndtr((model.latent.floor - model.bias) / np.maximum(model.row_norms, 1e-300))
        shapes = ["normal"] * d if model.shapes is None else [shape_words(shape) for shape in model.shapes]
        floor, ceiling = (np.where(np.isfinite(limit), limit, np.nan) for limit in (model.floor, model.ceiling))
        limits_and_law = (floor, ceiling, mean, median, std, errors)
        return cls(labels(model), shapes, *limits_and_law, naive[0], naive[1], floored, missing)

    @property
    def shift(self) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.std > 0.0, (self.mean - self.naive_mean) / self.std, np.nan)

    def facts(self) -> dict[str, Any]:
        """Lists with one item per column, for JSON and csv."""
        limits, moments = ("floor", "ceiling", "share_floored", "share_missing"), ("mean", "mean_stderr", "naive_mean")
        numbers = (*limits, *moments, "median", "naive_median", "std", "shift")
        return {
            "name": list(self.names),
            "shape": self.shape,
            **{name: rounded(getattr(self, name), 6) for name in numbers},
        }


def _naive(values: FloatArray) -> tuple[float, float]:
    return (float(values.mean()), float(np.median(values))) if len(values) else (np.nan, np.nan)


def scale_points(model: RectifiedGaussian, j: int) -> list[float | None] | None:
    """Values of f(bias + norm z) at even steps of z from -4 to 4; None for a normal column, where they are a line."""
    if model.shapes is None or model.shapes[j].kind == "normal":
        return None
    z = np.linspace(-_SCALE_END, _SCALE_END, _SCALE_POINTS)
    with np.errstate(over="ignore"):
        return rounded(model.shapes[j].from_latent(model.bias[j] + model.row_norms[j] * z), 5)


# --- pictures -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """Paths of an SVG of 160 x 44: bars of what is seen, the curve, its part beyond a limit, and where the limit is."""

    bars: str
    curve: str
    hidden: str
    limit: float | None


def picture(model: RectifiedGaussian, j: int, looked: Looked | None) -> Picture | None:
    """Of one column, on a scale on which the uncut column is normal; None for one that is constant in the model."""
    latent, norm = model.latent, float(model.row_norms[j])
    if norm == 0.0:
        return None
    z = np.linspace(-_FAR, _FAR, _POINTS if model.n_features <= _MANY else _FEW_POINTS)
    cut = [float((limit[j] - latent.bias[j]) / norm) for limit in (latent.floor, latent.ceiling)]
    z = np.unique([*z, *(place for place in cut if -_FAR < place < _FAR)])
    seen, n_known = np.empty(0), 1
    if looked is not None:
        seen = (looked.cells.latent[~looked.cells.hidden[:, j], j] - latent.bias[j]) / norm
        n_known = max(int(np.count_nonzero(~np.isnan(looked.cells.given[:, j]))), 1)
    low, high = _range(seen)
    edges = _edges(low, high, cut)
    bars = np.histogram(np.clip(seen, low, high), edges)[0] / (n_known * (edges[1] - edges[0]))
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    frame = _Frame(low, high, max(float(density.max()), float(bars.max())))
    hidden = frame.area(z, density, z <= cut[0]) + frame.area(z, density, z >= cut[1])
    line = next((frame.x(place) for place in cut if low <= place <= high), None)
    return Picture(frame.bars(edges, bars), frame.line(z, density), hidden, line)


def _edges(low: float, high: float, cut: list[float]) -> FloatArray:
    """Of bars as wide as each other; a limit is an edge, so that no bar is half beyond it."""
    edges = np.linspace(low, high, _BARS + 1)
    width, inside = edges[1] - edges[0], [place for place in cut if low < place < high]
    if not inside:
        return edges
    start = inside[0] - np.ceil((inside[0] - low) / width) * width
    return np.asarray(start + width * np.arange(_BARS + 2))


def _range(seen: FloatArray) -> tuple[float, float]:
    """Where the curve and nearly all that is seen lie, in standard deviations."""
    lowest, highest = np.quantile(seen, [0.001, 0.999]) if len(seen) else (0.0, 0.0)
    return min(-_FAR, float(lowest)), max(_FAR, float(highest))


@dataclass(frozen=True)
class _Frame:
    """From values and densities to the picture."""

    low: float
    high: float
    top: float

    def x(self, value: float) -> float:
        return round(float(np.clip(_WIDTH * (value - self.low) / (self.high - self.low), 0.0, _WIDTH)), 1)

    def y(self, density: float) -> float:
        return round(_HEIGHT - 1.0 - (_HEIGHT - 4.0) * density / self.top, 1)

    def bars(self, edges: FloatArray, heights: FloatArray) -> str:
        """One outline over all bars."""
        steps = [f"V{self.y(y):g}H{self.x(x):g}" for x, y in zip(edges[1:].tolist(), heights.tolist(), strict=True)]
        return f"M{self.x(float(edges[0])):g} {_HEIGHT - 1:g}{''.join(steps)}V{_HEIGHT - 1:g}Z" if heights.any() else ""

    def line(self, at: FloatArray, density: FloatArray) -> str:
        points = [f"{self.x(x):g} {self.y(y):g}" for x, y in zip(at.tolist(), density.tolist(), strict=True)]
        return "M" + "L".join(points) if points else ""

    def area(self, at: FloatArray, density: FloatArray, which: Any) -> str:
        if not np.any(which):
            return ""
        base = f"{_HEIGHT - 1:g}"
        first, last = self.x(float(at[which][0])), self.x(float(at[which][-1]))
        return f"M{first:g} {base}L{self.line(at[which], density[which])[1:]}L{last:g} {base}Z"
