"""Two layers behind outputs, on one screen: T = A2 h + b2, h = ReLU(A1 g + b1), g = ReLU(A0 z + b0), q < p0 < p.

1. Some units of h, as planes (:mod:`unrelu.recovery.layers.planes`).
2. Their faces, flats of rows in which few units of g are on (:mod:`unrelu.recovery.layers.faces`), and on each face
   units that are bent there; what they are in other rows is implied, or open (:mod:`unrelu.recovery.layers.implied`).
3. A chart: g up to an affine map, in rows with more than p0 known units on. Such rows are a layer with few inputs and
   no rectifier: g's own units and z as in :mod:`unrelu.recovery.layers.widening`.
4. z and g of other rows, from their neighbours; then all units of h in p0 + 1 dimensions. A unit counts if it is a
   rectified affine function of g in all rows whose g is known, and no row at all lies below it.

Steps 2 to 4 are taken again until every unit is found or nothing new is. All of this needs exact outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Step
from unrelu.engines.local import one_blas_thread
from unrelu.recovery.layers.clock import Clock
from unrelu.recovery.layers.decoding import FoundLayer, LayerReport, assembled, cloud_of
from unrelu.recovery.layers.faces import find_chart, find_faces, maps_on, not_alone, polished
from unrelu.recovery.layers.facets import MISFIT, Candidate, Cloud, FoundFacets
from unrelu.recovery.layers.implied import closure, completed, joined, rank_of, units_on
from unrelu.recovery.layers.inputs import InnerLayer, inputs_near
from unrelu.recovery.layers.kinks import Kinked
from unrelu.recovery.layers.planes import PlaneSearch, Whitened
from unrelu.recovery.layers.subspace import Subspace
from unrelu.recovery.layers.widening import Search, decode_widening

_TOGETHER = 12  # starts between two looks at what was found
_STARTS, _IDLE = 10, 6  # a unit, and looks in a row without a new plane, that end the search for planes
_ROUNDS = 2  # rounds of faces in a row without anything new that end the search
_SAME = 1e-9  # of one less the cosine of two units that are one
_SHARE = 0.01  # of the rows that are off where a plane says so
_OFF = 6.0  # standard deviations of noise
_CHART_NOISE = 3e-9  # of coordinates of variance 1
_MAPPED = 1e-5  # relative error of a map that a unit begins from


def decode_deepening(
    T: FloatArray, space: Subspace, inner_width: int, n_inputs: int | str, rng: np.random.Generator, clock: Clock
) -> FoundLayer:
    """The layer T = A2 h + b2, as ``inner`` h = ReLU(A1 g + b1) and as ``below`` g = ReLU(A0 z + b0).

    Where units are missing there is neither; planes are then doubtful units, as nothing was found behind them.
    """
    cloud, _ = cloud_of(T, space, True, False)
    search = DeepSearch(cloud, inner_width, n_inputs, rng, clock)
    ended = clock.run(search.run)
    # One plane fewer than units: without inputs there are no weights, however many planes were found.
    planes = [replace(plane, misfit=np.inf) for plane in search.planes[: space.basis.shape[1] - 1]]
    certain = [unit for unit, _ in search.units] or planes
    found = FoundFacets(tuple(certain), np.ones(len(cloud.points), dtype=bool), search.starts)
    decoded, order = assembled(T, space, found, "deepening", MISFIT, True)
    if search.outer is None:
        return FoundLayer(decoded, ended=ended, verdict=search.verdict)
    lengths = decoded.layer.noise / space.noise  # of A2's columns before they are scaled to 1
    outer = InnerLayer(search.outer.weights[order], search.outer.bias[order]).scaled(lengths)
    return FoundLayer(decoded, outer, search.outer.choice, below=search.below, below_report=search.report)


@dataclass
class DeepSearch:
    """What is known so far; :meth:`run` goes on until all is known, and may be ended any time."""

    cloud: Cloud
    inner_width: int
    n_inputs: int | str
    rng: np.random.Generator
    clock: Clock
    planes: list[Candidate] = field(default_factory=list)
    units: list[tuple[Candidate, Kinked]] = field(default_factory=list)
    outer: InnerLayer | None = None
    below: InnerLayer | None = None
    report: LayerReport | None = None
    starts: int = 0
    stage: str = "no chart of them was found"

    def __post_init__(self) -> None:
        self._white = Whitened.of(self.cloud.points, True)
        self._H = self._white.rows
        self._width: int = self.cloud.points.shape[1]
        self._values = np.zeros((len(self._H), 0))
        self._partly: list[Candidate] = []

    @property
    def verdict(self) -> str:
        """Why not all was found."""
        whole = int(np.isfinite(self._values).all(axis=0).sum())
        part = self._values.shape[1] - whole
        return (
            f"{whole} of {self._width} hidden units were found and {part} in some rows only, but not the"
            f" {self.inner_width} units behind them: {self.stage}. Networks of three layers are found where most units"
            " are often on and often off; add rows, or check the widths and n_inputs."
        )

    def run(self) -> None:
        """Find planes, then faces and units on them, until both layers are known."""
        self._find_planes()
        idle = 0
        with one_blas_thread():
            done = self._values.shape[1] >= self._width and self._look_behind()
            while not done and idle < _ROUNDS:
                before = int(np.isfinite(self._values).sum())
                self._find_on_faces()
                idle = 0 if np.isfinite(self._values).sum() > before else idle + 1
                done = (idle == _ROUNDS or self._values.shape[1] >= self._width) and self._look_behind()

    def _find_planes(self) -> None:
        search, idle = PlaneSearch(self.cloud, self._white, self.rng, mixed=True), 0
        leaning: list[Candidate] = []
        while len(self.planes) < self._width and self.starts < _STARTS * self._width and idle < _IDLE:
            idle += 1
            for plane in search.planes([*self.planes, *leaning[: self._width - 3 - len(self.planes)]], _TOGETHER):
                column = self._column(plane)
                if not self._is_known(column):
                    self.planes.append(plane)
                    self._values, idle = np.column_stack([self._values, column]), 0
            leaning = [*leaning, *search.leaning] if idle else []
            self._partly += search.leaning
            self.starts += _TOGETHER
            self._tell("Finding planes")
        self._lean()

    def _column(self, plane: Candidate) -> FloatArray:
        heights = plane.facet.height(self.cloud.points)
        column = np.where(heights > _OFF * plane.facet.noise, heights, 0.0)
        scaled: FloatArray = column / np.sqrt((column[column > 0.0] ** 2).mean())
        return scaled

    def _is_known(self, column: FloatArray) -> bool:
        cosines = column @ self._values / np.linalg.norm(column) / np.linalg.norm(self._values, axis=0)
        return bool((cosines > 1.0 - _SAME).any())

    def _lean(self) -> None:
        """What planes that few rows hold say: a unit that is off wherever known ones are, and its values there."""
        values = self._values
        for plane in self._partly:
            column = self._column(plane)
            on = np.flatnonzero(column == 0.0)
            off = on[not_alone(self._H[on])]
            held = (values[off] == 0.0).all(axis=0)
            if len(off) < _SHARE * len(column) or rank_of(self._H[off]) + 1 + held.sum() != self._H.shape[1]:
                continue
            known = np.where((values[:, held] == 0.0).all(axis=1), column, np.nan)
            known[off] = 0.0
            whole = closure(self._H, known)
            if whole is not None:
                self._values = joined(self._H, self._values, whole)

    def _tell(self, name: str) -> None:
        found = self._values.shape[1]
        self.clock(Step(name, min(found, self._width), self._width, f"{found} of {self._width} units found"))

    def _find_on_faces(self) -> None:
        """Units that are bent on faces, or on the chart."""
        chart = find_chart(self._values, self.inner_width, self.rng)
        least = 2 if isinstance(self.n_inputs, str) else max(2, self.n_inputs - 2)
        faces = find_faces(self._values, least, self.inner_width, self.rng)
        for face in [*([] if chart is None else [chart]), *faces]:
            self._values = units_on(self._H, completed(self._H, self._values, face), face, self.rng)
            self._tell("Finding units on faces")
            if np.isfinite(self._values).all(axis=0).sum() >= self._width:
                break

    def _look_behind(self) -> bool:
        """g, z and all units of h from what is known of h; whether all were found."""
        chart = find_chart(self._values, self.inner_width, self.rng)
        if chart is None:
            return False
        chart = polished(self._values, chart)
        k = self.inner_width
        space = Subspace(np.zeros(k), np.eye(k), _CHART_NOISE, np.ones(len(chart.rows), dtype=bool))
        found = decode_widening(chart.z, space, True, self.n_inputs, self.rng, self.clock, gaussian=False)
        self._tell("Finding units behind units")
        report = found.decoded.report
        if found.inner is None:
            planes, sure = report.units_found, report.units_found - len(report.doubtful_units)
            self.stage = (
                f"in {len(chart.rows):,} rows {planes} planes and {sure} units with {self.n_inputs} inputs were found"
            )
            return False
        maps = maps_on(self._values, chart, _MAPPED)
        known = np.isfinite(maps[:, 0])
        layer = found.decoded.layer
        A, b = maps[known, :-1] @ layer.weights, maps[known, -1] + maps[known, :-1] @ layer.bias
        g = inputs_near(self._values[:, known], A, b, found.inner)[1]
        return self._judge(found.inner, report, g, np.maximum(g @ A.T + b, 0.0))

    def _judge(self, below: InnerLayer, report: LayerReport, g: FloatArray, mapped: FloatArray) -> bool:
        """Whether every unit is one of g, in all rows whose g is known; ``mapped`` are what maps make of g."""
        sure: BoolArray = np.isfinite(g[:, 0])
        heights = np.column_stack([self._values[:, np.isfinite(self._values[sure]).all(axis=0)], mapped])
        if rank_of(self._H[sure]) < self._H.shape[1]:
            self.stage = "all were, but hidden units are hardly ever on in rows that tell them"
            return False
        search = Search(self.cloud, self.inner_width, self.rng, self.clock)
        self.units = [pair for pair in search.units_of(g[sure], sure, heights) if pair[0].support.below == 0]
        self.stage = f"all were, but only {len(self.units)} hidden units are rectified functions of them"
        if len(self.units) < self._width:
            return False
        self.below, self.report = below, report
        self.outer = InnerLayer(*search.layer_of(self.units), below.choice)
        return True
