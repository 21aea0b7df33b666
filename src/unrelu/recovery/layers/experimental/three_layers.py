"""Three layers. T = A2 h + b2, h = ReLU(A1 g + b1), g = ReLU(A0 z + b0), q < p0 < p.

1. Some units of h, as planes (:mod:`unrelu.recovery.layers.planes`).
2. Their faces, flats of rows in which few units of g are on, and on each face units that are bent there; their
   values in other rows are implied, or open (:mod:`unrelu.recovery.layers.experimental.faces`).
3. A chart: g up to an affine map, in rows with more than p0 of the units found on. Such rows are a layer with few
inputs and
   no rectifier: g's own units and z as in :mod:`unrelu.recovery.layers.widening`.
4. z and g of other rows, from their neighbours; then all units of h in p0 + 1 dimensions. A unit counts if it is a
   rectified affine function of g in all rows that determine g, and no row at all lies below it.

Steps 2 to 4 are repeated until every unit is found or nothing new is found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from unrelu.contracts import BoolArray, FloatArray, Progress, Step
from unrelu.passes import one_blas_thread
from unrelu.recovery.layers.decoding import FoundLayer, LayerReport, Subspace, cloud_of
from unrelu.recovery.layers.experimental.faces import (
    closure,
    complete_units,
    find_chart,
    find_faces,
    join_unit,
    maps_on,
    not_alone,
    polish_chart,
    rank_of,
    units_on,
)
from unrelu.recovery.layers.facets import INTERRUPTED, Clock, Cloud, Facet
from unrelu.recovery.layers.inputs import InnerLayer, inputs_of, polish_inputs, standard_layer
from unrelu.recovery.layers.planes import PlaneSearch, add_ridge
from unrelu.recovery.layers.widening import Search, decode, decode_widening, layer_of
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.validation import listed, warn

SECONDS = 60.0  # unless max_seconds is given
ROWS_PER_UNIT = (25, 50)  # that undo the outer rectifier first: few are quicker where units have rectified inputs
RESIDUAL = 1e-9  # of undoing it, from where on faces do not stand out from rows near them

_TOGETHER = 12  # starts of one round
_STARTS, _IDLE = 10, 6  # a unit, and rounds in a row without a new plane, that end the search for planes
_IDLE_ROUNDS = 2  # rounds of faces in a row without anything new that end the search
_SAME = 1e-9  # of one less the cosine of two units that are one
_OFF = 6.0  # standard deviations of noise
_NEIGHBOURS = 20  # rows whose inputs are starts
_STEADY = 100.0  # amplification of rounding up to which g is exact
_ROUNDED = 1e-6  # of a unit's root mean square
_WORST = 1e4  # condition of a row's equations beyond which z is a guess
_FLAT = 1e-6  # of root mean squares
_MANY = 0.05  # share of the rows without units from where on the distribution of the inputs is a guess


def decode_deepening(
    T: FloatArray, space: Subspace, inner_width: int, n_inputs: int | str, rng: np.random.Generator, clock: Clock
) -> tuple[FoundLayer, InnerLayer | None, LayerReport | None]:
    """The layer T = A2 h + b2 with ``inner`` h = ReLU(A1 g + b1), then g = ReLU(A0 z + b0) and the report of g's units.

    Where units are missing both are None; planes are then doubtful units, as nothing was found behind them.
    """
    search = DeepSearch(cloud_of(T, space, True, False)[0], inner_width, n_inputs, rng, clock)
    return decode(T, space, "deepening", search, clock), search.below, search.report


class DeepSearch(Search):
    """A search for both layers: ``layer`` is then that of h, with g's units as its inputs, and ``below`` that of g."""

    def __init__(
        self, cloud: Cloud, inner_width: int, n_inputs: int | str, rng: np.random.Generator, progress: Progress
    ) -> None:
        super().__init__(cloud, n_inputs, rng, progress)
        self.inner_width = inner_width
        self.below: InnerLayer | None = None
        self.report: LayerReport | None = None
        self._stage = "no chart of them was found"
        self._H = cloud.white
        self._values = np.zeros((len(self._H), 0))

    @property
    def complete(self) -> bool:
        """Whether both layers were found."""
        return self.below is not None

    def run(self) -> None:
        """Find planes, then faces and units on them, until both layers are found."""
        self._find_planes()
        idle = 0
        with one_blas_thread():
            done = self._values.shape[1] >= self._width and self._find_behind()
            while not done and idle < _IDLE_ROUNDS:
                before = int(np.isfinite(self._values).sum())
                self._find_on_faces()
                idle = 0 if np.isfinite(self._values).sum() > before else idle + 1
                done = (idle == _IDLE_ROUNDS or self._values.shape[1] >= self._width) and self._find_behind()
        if not done:
            whole = self._whole()
            self.fault = (
                f"{whole} of {self._width} hidden units were found and {self._values.shape[1] - whole} in some rows"
                f" only, but not the {self.inner_width} units behind them: {self._stage}. Networks of three layers are"
                " found where most units are often on and often off; add rows, or check the widths and n_inputs."
            )

    def _whole(self) -> int:
        """The number of units whose values are determined in every row."""
        return int(np.isfinite(self._values).all(axis=0).sum())

    def _find_planes(self) -> None:
        search, idle = MixedPlaneSearch(self.cloud, self.rng), 0
        leaning: list[Facet] = []
        partly: list[Facet] = []
        while len(self.planes) < self._width and self.starts < _STARTS * self._width and idle < _IDLE:
            idle += 1
            found = search.all_planes([*self.planes, *leaning[: self._width - 3 - len(self.planes)]], _TOGETHER)
            on_one_row = [plane for plane in found if plane.doubtful]
            for plane in [plane for plane in found if not plane.doubtful]:
                column = self._column(plane)
                cosines = column @ self._values / np.linalg.norm(column) / np.linalg.norm(self._values, axis=0)
                if not (cosines > 1.0 - _SAME).any():
                    self.planes.append(plane)
                    self._values, idle = np.column_stack([self._values, column]), 0
            leaning = [*leaning, *on_one_row] if idle else []
            partly += on_one_row
            self.starts += _TOGETHER
            self._report("Finding planes")
        values = self._values
        for plane in partly:  # that few rows hold: a unit that is off wherever others are, and its values there
            column = self._column(plane)
            on = np.flatnonzero(column == 0.0)
            off = on[not_alone(self._H[on])]
            held = (values[off] == 0.0).all(axis=0)
            if len(off) < 0.01 * len(column) or rank_of(self._H[off]) + 1 + held.sum() != self._H.shape[1]:
                continue
            given = np.where((values[:, held] == 0.0).all(axis=1), column, np.nan)
            given[off] = 0.0
            whole = closure(self._H, given)
            if whole is not None:
                self._values = join_unit(self._H, self._values, whole)

    def _column(self, plane: Facet) -> FloatArray:
        heights = plane.height(self.cloud.points)
        column = np.where(heights > _OFF * plane.noise, heights, 0.0)
        return np.asarray(column / np.sqrt((column[column > 0.0] ** 2).mean()))

    def _report(self, name: str) -> None:
        found = self._values.shape[1]
        self.progress(Step(name, min(found, self._width), self._width, f"{found} of {self._width} units found"))

    def _find_on_faces(self) -> None:
        """Units that are bent on faces, or on the chart."""
        chart = find_chart(self._values, self.inner_width, self.rng)
        least = 2 if isinstance(self.n_inputs, str) else max(2, self.n_inputs - 2)
        faces = find_faces(self._values, least, self.inner_width, self.rng)
        for face in [*([] if chart is None else [chart]), *faces]:
            self._values = units_on(self._H, complete_units(self._H, self._values, face), face, self.rng)
            self._report("Finding units on faces")
            if self._whole() >= self._width:
                break

    def _find_behind(self) -> bool:
        """g, z and all units of h from the units of h found so far; whether all were found."""
        k, chart = self.inner_width, find_chart(self._values, self.inner_width, self.rng)
        if chart is None:
            return False
        chart = polish_chart(self._values, chart)
        space = Subspace(np.zeros(k), np.eye(k), 3e-9, np.ones(len(chart.rows), dtype=bool))  # rounding
        found = decode_widening(
            chart.z, space, True, self.n_inputs, self.rng, Clock(progress=self.progress), gaussian=False
        )
        if found.report.ended == INTERRUPTED:
            raise KeyboardInterrupt
        self._report("Finding units behind units")
        below, report = found.inner, found.report
        if below is None:
            planes, sure = report.units_found, report.units_found - len(report.doubtful_units)
            self._stage = (
                f"in {len(chart.rows):,} rows {planes} planes and {sure} units with {self.n_inputs} inputs were found"
            )
            return False
        maps = maps_on(self._values, chart, 1e-5)
        mapped = np.isfinite(maps[:, 0])
        A, b = maps[mapped, :-1] @ found.layer.weights, maps[mapped, -1] + maps[mapped, :-1] @ found.layer.bias
        g = inputs_near(self._values[:, mapped], A, b, below)[1]
        # A unit counts if it is a function of g in all rows that determine g.
        determined: BoolArray = np.isfinite(g[:, 0])
        whole = self._values[:, np.isfinite(self._values[determined]).all(axis=0)]
        if rank_of(self._H[determined]) < self._H.shape[1]:
            self._stage = "all were, but hidden units are hardly ever on in rows that determine them"
            return False
        units = self.units_of(g[determined], determined, np.column_stack([whole, np.maximum(g @ A.T + b, 0.0)]))
        units = [(facet, row) for facet, row in units if facet.below == 0]
        self.units = [facet for facet, _ in units]
        self._stage = f"all were, but only {len(units)} hidden units are rectified functions of them"
        if len(units) < self._width:
            return False
        self.layer, self.choice = layer_of(units), dict(below.choice)
        self.below, self.report = below, report
        return True


class MixedPlaneSearch(PlaneSearch):
    """A search for planes where the inputs are rectified themselves.

    Most rows then lie in pieces of few dimensions, and the longest direction is always the same: half of the starts
    have the constraint v'w = 1 instead, v a random mixture of the columns of (I - P_K) S.
    """

    def _aims(self, left: FloatArray, starts: int) -> list[FloatArray]:
        lines = self._rng.standard_normal((starts // 2, len(left))) @ left
        return [*lines, *super()._aims(left, starts - len(lines))]

    def _size(self, w: FloatArray, aim: FloatArray) -> float:
        return super()._size(w, aim) if aim.ndim == 2 else float(((self._rows @ w) ** 2).mean())

    def _longest(self, aim: FloatArray, gram: FloatArray, before: FloatArray | None = None) -> FloatArray | None:
        if aim.ndim == 2:
            return super()._longest(aim, gram, before)
        try:
            return np.asarray(scipy.linalg.solve(add_ridge(gram), aim, assume_a="pos"), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None


_PeeledLayer: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, BoolArray, LayerReport, MatrixReport]

# --- both layers, and inputs of rows ----------------------------------------------------------------


def second_layer(
    h: FloatArray, outer: InnerLayer, below: InnerLayer, report: LayerReport, seed: int
) -> tuple[_PeeledLayer, InnerLayer, FloatArray, FloatArray]:
    """The parts of a peeled layer of rows h = ReLU(A g + b), the inputs as ``outer`` has them; g's layer, g and z.

    Columns of A get length 1; ``below`` is g's layer as found so far.
    """
    lengths = np.linalg.norm(outer.weights, axis=0)
    A, b, below = outer.weights / lengths, outer.bias, below.rescale(lengths)
    g = inputs_near(h, A, b, below)[1]
    below = standard_layer(below, g[np.isfinite(g[:, 0])], seed)
    z, g = inputs_near(h, A, b, below)
    sure = np.isfinite(g[:, 0])
    lifted = np.column_stack([g[sure], np.ones(np.count_nonzero(sure))])
    ranks = [np.linalg.matrix_rank(lifted[on], tol=_FLAT * np.sqrt(len(lifted))) for on in (h[sure] > 0.0).T]
    identified = np.array(ranks) == lifted.shape[1]
    left = float(np.linalg.norm(np.maximum(lifted[:, :-1] @ A.T + b, 0.0) - h[sure]) / np.linalg.norm(h[sure]))
    off = tuple(int(count) for count in (g[sure] == 0.0).sum(axis=0))
    n, (p, k), lost, weak = len(h), A.shape, int(np.count_nonzero(~sure)), tuple(np.flatnonzero(~identified).tolist())
    own_report = replace(report, n_rows=n, n_features=p, rows_off=off, residual=left, n_outlier_rows=0)
    matrix = MatrixReport("chart", "monotone", n, p, k, 0, left, True, float((h == 0.0).mean()), 0.0, weak, lost, None)
    if lost > _MANY * n:
        warn(
            f"{lost:,} of {n:,} rows have too few hidden units on to determine the units behind them, which are NaN"
            " there; the distribution of the inputs was learned without these rows, so that samples differ from the"
            " table.",
            "doubtful-inputs",
        )
    if weak:
        warn(
            f"Layer 2: hidden units {listed(map(str, weak))} of layer 1 are on in too few kinds of rows to determine"
            " their weights, which are right in every row of the table, perhaps not elsewhere (column_identifiable).",
            "doubtful-units",
        )
    return (A, b, np.zeros(p), identified, own_report, matrix), below, g, z


def inputs_near(
    rows: FloatArray, A: FloatArray, b: FloatArray, inner: InnerLayer, pool: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """z and g of rows h = ReLU(A g + b), g = ReLU(A0 z + b0), which may hold NaN; NaN where a row leaves them open.

    Rows with more units on than g has units give g by least squares. For the others steps begin from the z of their
    neighbours: other rows, or rows of the inputs in ``pool``. An end counts if it leaves nothing of the row, and the
    row determines it (:func:`determine`).
    """
    others = rows if pool is None else np.maximum(inner.units(pool) @ A.T + b, 0.0)
    size, seen = np.sqrt(np.nanmean(others**2, axis=0)), np.nan_to_num(rows)
    g, amplified = inputs_of(seen / size, A / size[:, None], b / size)
    off = _ROUNDED * np.quantile(np.abs(g if pool is None else inner.units(pool)), 0.9, axis=0)
    g[g < off] = 0.0
    spare = (np.count_nonzero(seen, axis=1) > A.shape[1]) & (amplified < _STEADY)
    g[~(spare & _leaves_nothing(g, rows, A, b, size))] = np.nan
    z = np.full((len(rows), inner.n_inputs), np.nan)
    determined = np.isfinite(g[:, 0])
    z[determined] = inner.inputs(g[determined])
    for turn in range(_NEIGHBOURS):
        sure, open_ = np.isfinite(z[:, 0]), np.flatnonzero(np.isnan(g[:, 0]))
        starts, others = (z[sure], seen[sure]) if pool is None else (pool, others)
        if len(starts) <= _NEIGHBOURS or not len(open_):
            break
        near = np.asarray(cKDTree(others / size).query(seen[open_] / size, [turn + 1])[1])[:, 0]
        tried = polish_inputs(starts[near], rows[open_], A, b, inner)
        units = inner.units(tried)
        units[units < off] = 0.0
        determined, whole = determine(units, rows[open_] > 0.0, A / size[:, None], inner)
        exact = determined & _leaves_nothing(units, rows[open_], A, b, size)
        g[open_[exact]], z[open_[exact & whole]] = units[exact], tried[exact & whole]
    return z, g


def _leaves_nothing(g: FloatArray, rows: FloatArray, A: FloatArray, b: FloatArray, size: FloatArray) -> BoolArray:
    left = np.abs(np.maximum(g @ A.T + b, 0.0) - rows) / size
    return np.asarray(np.nanmax(left, axis=1, initial=0.0) < _ROUNDED)


def determine(g: FloatArray, on: BoolArray, A: FloatArray, inner: InnerLayer) -> tuple[BoolArray, BoolArray]:
    """Whether rows with units h ``on`` determine their g, and their z: no other is near, and a unit is on to spare.

    A row needs more units on than g has on for that. Fewer than q units of g determine g, but not z.
    """

    def ranks(matrices: FloatArray) -> NDArray[np.int64]:
        values = np.linalg.svd(matrices, compute_uv=False)
        return np.asarray((values > np.maximum(values[:, :1], 1e-300) / _WORST).sum(axis=1))

    slope = (g > 0.0)[:, :, None] * inner.weights
    rank = ranks(on[:, :, None] * (A @ slope))
    determined: BoolArray = (rank == ranks(slope)) & (np.count_nonzero(on, axis=1) > rank)
    return determined, determined & (rank == inner.n_inputs)
