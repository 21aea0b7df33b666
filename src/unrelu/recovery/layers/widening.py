"""A layer with fewer inputs than units, step by step: T = A2 h (+ b2), h = ReLU(A1 z + b1), z of q < p dimensions.

1. Some units, as planes that rows lie on and none lies below (:mod:`unrelu.recovery.layers.planes`).
2. Their inputs: they are a table of rank q behind a rectifier (:mod:`unrelu.recovery.layers.inputs`).
3. All other units in q + 1 dimensions (the same module); every unit, also those of step 1, must be
   a rectified affine function of the inputs in all rows. That certifies a unit: mixtures of units are not.
4. The inputs of all rows from all units.

Steps 1 to 3 are taken again with more planes until every unit is found or starts run out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Progress, Step, no_progress
from unrelu.passes import one_blas_thread
from unrelu.recovery.layers.decoding import FoundLayer, Subspace, cloud_of, nearest_one
from unrelu.recovery.layers.facets import MISFIT, Clock, Cloud, Facet, count_points, heights_above, misfit
from unrelu.recovery.layers.inputs import UNEXPLAINED, InnerLayer, InputFit, fit_inputs, inputs_of, refit, without_worst
from unrelu.recovery.layers.planes import Kinked, KinkSearch, PlaneSearch

_TOGETHER = 12  # starts of one round
_STARTS = 20  # a unit, before the search for planes gives up
_OFF = 6.0  # standard deviations of noise: one cell that is on by mistake spoils the inputs of its row
_SAME = 1e-5  # sine between two units that are one
_ALIKE = 5.0  # times their noise: the same with noise
_EXACT, _NOISY = 1e-7, 6.0  # relative residual of a unit: rounding, and times its noise
_BOTH_SIDES = 2  # rows beyond the unknowns of a unit that must be on, and off
_PATIENCE = 25  # starts in a row without a new unit that end the search for kinks
_IDLE = 6  # rounds in a row without a new plane that end the search
_OTHER_NUMBER, _FAILURES = 3, 8  # rounds without inputs: then another number is tried, then the search ends
_ROWS_PER_UNIT = 60  # rows with determined inputs that are used, if there are so many
_LEAST_ROWS = 2  # rows an unknown that units need
_STRAY, _CHANCE = 2, 1e-3  # rows that may lie below a unit: a number, and a share
_REFITS = 4  # rounds of inputs from units and units from inputs
_POLISHING, _DEPENDENT = 5, 1e6  # rounds, and the condition of units that are none
_NEARLY, _FARTHER = 0.1, 0.3  # relative residual that wrong planes may leave: for q to be found, and for q given
_CERTIFIED = 2000  # rows whose inputs must give their units
_DROPPED = 3  # planes that may be left out until the others have inputs


def decode_widening(
    T: FloatArray,
    space: Subspace,
    lifted: bool,
    n_inputs: int | str,
    rng: np.random.Generator,
    clock: Clock,
    clear: BoolArray | None = None,
    gaussian: bool = True,
) -> FoundLayer:
    """The layer T = A2 h (+ b2) whose units have ``n_inputs`` inputs ("auto": to be found), and the layer below it.

    Units are searched for in the ``clear`` rows, all where None; ``gaussian`` says that they are rectified Gaussians
    there, so that planes which do not look so are none. Where units are missing there is no inner layer; planes whose
    inputs were not found are doubtful units.
    """
    searched = space if clear is None else replace(space, inlier=space.inlier & clear)
    cloud, _ = cloud_of(T, searched, lifted, gaussian)
    return decode(T, space, "widening", Search(cloud, n_inputs, rng, clock), clock)


def decode(T: FloatArray, space: Subspace, method: str, search: Search, clock: Clock) -> FoundLayer:
    """The layer of the units that a search finds, else of its planes; with the inner layer if every unit was found."""
    if len(search.cloud.points) <= space.basis.shape[1]:
        return nearest_one(T, space, [], method, MISFIT, True, 0)[0]
    ended = clock.run(search.run)
    # One plane fewer than units: without inputs there are no weights, however many planes were found.
    facets = search.units or [replace(plane, misfit=np.inf) for plane in search.planes[: space.basis.shape[1] - 1]]
    found, order = nearest_one(T, space, facets, method, MISFIT, True, search.starts)
    found = replace(found, choice=tuple(sorted(search.choice.items())))
    if not search.complete:
        return replace(found, report=replace(found.report, ended=ended), fault=search.fault)
    inner = replace(search.layer.of(order), choice=found.choice)
    return replace(found, inner=inner.rescale(found.layer.noise / space.noise))  # as A2's columns, to length 1


class Search:
    """A search for a cloud's units; :meth:`run` goes on until all are found, and may be ended any time."""

    def __init__(
        self, cloud: Cloud, n_inputs: int | str, rng: np.random.Generator, progress: Progress = no_progress
    ) -> None:
        self.cloud, self.n_inputs, self.rng, self.progress = cloud, n_inputs, rng, progress
        self.planes: list[Facet] = []
        self.units: list[Facet] = []
        self.layer = InnerLayer(np.zeros((0, 0)), np.zeros(0))  # of these units
        self.choice: dict[int, float] = {}
        self.starts = 0
        self.fault: str | None = None  # what is wrong with the number of inputs
        self.failures = 0  # rounds that found no inputs although there were rows enough
        self._width: int = cloud.points.shape[1]

    @property
    def complete(self) -> bool:
        """Whether every unit was found."""
        return len(self.units) == self._width

    def run(self) -> None:
        """Find units until there are all, or starts run out."""
        search, idle = PlaneSearch(self.cloud, self.rng), 0
        while not self.complete and self.starts < _STARTS * self._width:
            if self.fault is not None or self.failures >= _FAILURES or idle >= _IDLE:
                break
            before = len(self.planes)
            for plane in search.planes(self.planes, _TOGETHER):
                height = self._heights([plane])[:, 0]
                if not _is_one_of(height, self._heights(self.planes), plane.noise):
                    self.planes.append(plane)
            self.starts += _TOGETHER
            self.progress(Step("Finding planes", len(self.planes), self._width, f"{len(self.planes)} planes found"))
            idle = 0 if len(self.planes) > before else idle + 1
            if not idle:
                with one_blas_thread():
                    self._find_units()
        q = self.n_inputs
        if not self.units and not isinstance(q, str) and q not in self.choice:
            # No rows have enough units on for so many inputs: do fewer inputs explain the units?
            with one_blas_thread():
                heights = self._heights(self.planes)
                heights = heights[:, self._look_rectified(heights)]
                self._check_fewer(q, heights, range(1, q))

    def _heights(self, found: list[Facet], points: FloatArray | None = None) -> FloatArray:
        """Units of rows, 0 where they are off."""
        heights = heights_above(found, self.cloud.points if points is None else points)
        off = _OFF * np.array([facet.noise for facet in found])
        return np.where(heights > off, heights, 0.0)

    # --- inputs -----------------------------------------------------------------------------------

    def _find_units(self) -> None:
        """The inputs of the planes, and with them all units."""
        heights = self._heights(self.planes)
        rectified = self._look_rectified(heights)
        fit = self._inputs(heights[:, rectified])
        if fit is None:
            return
        units, layer = np.flatnonzero(rectified)[fit.units], fit.layer
        for _ in range(0 if fit.exact else _REFITS):  # with noise from all rows
            layer = refit(layer, heights[:, units])
        found: list[tuple[Facet, FloatArray]] = []
        planes = self.planes
        for _ in range(3):
            z, amplified = inputs_of(heights[:, units], layer.weights, layer.bias)
            sure = self._sure(amplified, fit.exact)
            if np.count_nonzero(sure) < _LEAST_ROWS * (self._width + layer.n_inputs):
                break
            before, found = len(found), self._drop_unexplained(self.units_of(z[sure], sure, heights, planes), fit.exact)
            if len(found) <= before or len(found) <= layer.n_inputs:
                break
            layer = layer_of(found)
            self.units, self.layer = [facet for facet, _ in found], layer
            if self.complete:
                if not fit.exact:
                    self._polish()
                break
            planes, heights, units = self.units, self._heights(self.units), np.arange(len(found))

    def _sure(self, amplified: FloatArray, exact: bool) -> BoolArray:
        """Rows that determine their inputs; with noise those that do so best: half, or as many as units need."""
        determined: BoolArray = np.isfinite(amplified)
        if exact:
            return determined
        wanted = min(max(len(determined) // 2, _ROWS_PER_UNIT * self._width), int(determined.sum()))
        sure: BoolArray = amplified <= np.sort(amplified)[max(wanted - 1, 0)]
        return sure & determined

    def _polish(self) -> None:
        """With noise: points by least squares on the units that their inputs give, again and again.

        Facets are fitted to the rows on them alone; this uses all rows, and units without most of their noise.
        """
        layer = self.layer
        for _ in range(_POLISHING):
            heights = self._heights(self.units)
            for _ in range(2):
                layer = refit(layer, heights)
            z, amplified = inputs_of(heights, layer.weights, layer.bias)
            sure = self._sure(amplified, exact=False)
            units = layer.units(z[sure])
            design = np.column_stack([units, np.ones(len(units))]) if self.cloud.lifted else units
            solution = np.linalg.lstsq(design, self.cloud.points[sure])[0]
            if np.linalg.cond(solution[: self._width]) > _DEPENDENT:
                return
            normals = np.linalg.inv(solution[: self._width]).T
            offsets = -normals @ solution[-1] if self.cloud.lifted else np.zeros(self._width)
            lengths = np.linalg.norm(normals, axis=1)
            moved = [
                replace(unit, normal=normal / length, offset=float(offset / length))
                for unit, normal, offset, length in zip(self.units, normals, offsets, lengths, strict=True)
            ]
            if sum(map(self._below, moved)) > sum(map(self._below, self.units)) + _STRAY:
                return
            layer = layer.rescale(1.0 / lengths)
            self.units, self.layer = moved, layer

    def _look_rectified(self, heights: FloatArray) -> BoolArray:
        """Columns that look like rectified Gaussians, where units do."""
        looks = [not self.cloud.gaussian or misfit(column, 0.0, self.cloud.off) <= MISFIT for column in heights.T]
        return np.array(looks, dtype=bool)

    def _inputs(self, heights: FloatArray) -> InputFit | None:
        """The fit of fewest inputs, or of ``n_inputs``, that explains the units; None without one."""
        q = self.n_inputs
        if isinstance(q, str):
            return self._fewest(heights, range(1, self._width))
        fit = self._fewest(heights, (q,))
        if fit is None and q in self.choice:
            self.failures += 1
            more = self._fewest(heights, range(q + 1, self._width)) if self.failures == _OTHER_NUMBER else None
            if more is not None:
                self.fault = (
                    f"n_inputs={q} leaves a relative residual of {self.choice[q]:.1g} of {heights.shape[1]}"
                    f" units, {more.layer.n_inputs} inputs explain them: raise n_inputs."
                )
        elif fit is not None and q > 1 and q - 1 not in self.choice:
            self._check_fewer(q, heights, (q - 1,))
        return fit if self.fault is None else None

    def _check_fewer(self, q: int, heights: FloatArray, numbers: Sequence[int]) -> None:
        """Set ``fault`` if one of the smaller ``numbers`` of inputs explains the units."""
        fewer = self._fewest(heights, numbers)
        if fewer is not None:
            self.fault = (
                f"n_inputs={q} is too large: {fewer.layer.n_inputs} inputs explain {heights.shape[1]} units up to a"
                f" relative residual of {fewer.residual:.1g}. Lower n_inputs, or let 'auto' find it."
            )

    def _fewest(self, heights: FloatArray, numbers: Sequence[int]) -> InputFit | None:
        """The first of some numbers of inputs that explains the units, or all but a few of them."""
        noise = np.full(heights.shape[1], self.cloud.noise)
        for q in numbers:
            kept = heights.copy()
            first = fit = fit_inputs(kept, noise, q, self.rng)
            for _ in range(_DROPPED):
                if fit is None or fit.explains or fit.residual > (_NEARLY if q != self.n_inputs else _FARTHER):
                    break
                kept[:, without_worst(fit, kept)] = 0.0
                fit = fit_inputs(kept, noise, q, self.rng)
            fit = fit if fit is not None and fit.explains else first
            if fit is None:
                return None
            self.choice[q] = fit.residual
            if fit.explains:
                return fit
        return None

    # --- units ------------------------------------------------------------------------------------

    def units_of(
        self, z: FloatArray, sure: BoolArray, heights: FloatArray, planes: Sequence[Facet] = ()
    ) -> list[tuple[Facet, FloatArray]]:
        """Every unit that is a rectified affine function of the inputs: those of ``heights``, then the ends of starts.

        Each comes with its row of [A1 b1], in the scale of its facet. ``planes`` with these heights hold many rows, of
        which none need be among the rows with determined inputs.
        """
        search = KinkSearch(z, self.cloud.white[sure], self.rng)
        found: list[tuple[Facet, FloatArray]] = []
        columns = np.zeros((len(z), 0))
        for number, column in enumerate(heights[sure].T):
            w = self.cloud.direction(planes[number]) if planes else None
            columns = self._admit(search.of_heights(column, w), found, columns, sure, 0 if planes else 1)
        since = 0
        while len(found) < self._width and since < _PATIENCE:
            before = len(found)
            columns = self._admit(search.unit(columns), found, columns, sure, z.shape[1] + 1 + _BOTH_SIDES)
            since = 0 if len(found) > before else since + 1
            self.progress(Step("Finding units", len(found), self._width, f"{len(found)} of {self._width} units found"))
        missing = self._width - columns.shape[1]
        if missing:  # units that are never off, if there are just as many as are missing: they are doubtful
            bound = _NOISY * self.cloud.noise / float(np.sqrt((self.cloud.points**2).mean()))
            lines = search.linear(columns, bound, self.cloud.white)
            found += [self._place(line, np.inf) for line in lines] if len(lines) == missing else []
        return found

    def _admit(
        self, unit: Kinked, found: list[tuple[Facet, FloatArray]], columns: FloatArray, sure: BoolArray, off: int
    ) -> FloatArray:
        """Add a unit, if it is one and new; heights of all units found. Rows must be on, and ``off`` of them off."""
        # The residual that it may have, relative to its size: rounding, or its noise.
        noise = self.cloud.noise * self.cloud.slope(unit.functional)
        allowed = max(_EXACT, _NOISY * noise / max(unit.size, 1e-300))
        sides = unit.on >= len(unit.direction) + _BOTH_SIDES and unit.off >= off
        if not sides or unit.residual > allowed * unit.size:
            return columns
        facet, row = self._place(unit, 0.0)
        if self._below(facet) > max(_STRAY, _CHANCE * len(self.cloud.points)):
            return columns
        height = self._heights([facet], self.cloud.points[sure])[:, 0]
        if _is_one_of(height, columns, facet.noise):
            return columns
        found.append((facet, row))
        return np.column_stack([columns, height])

    def _drop_unexplained(self, found: list[tuple[Facet, FloatArray]], exact: bool) -> list[tuple[Facet, FloatArray]]:
        """Units without those that are a function of the inputs in rows used so far, but not in all rows.

        No unit where they are not a few: the inputs are wrong. With noise the whole network is checked at the end.
        """
        if not exact or not found:
            return found
        rows = np.linspace(0, len(self.cloud.points) - 1, min(_CERTIFIED, len(self.cloud.points))).astype(int)
        for _ in range(_DROPPED + 1):
            layer = layer_of(found)
            heights = self._heights([facet for facet, _ in found])[rows]
            if layer.left_of(heights)[0] <= UNEXPLAINED:
                return found
            others = [np.delete(np.arange(len(found)), unit) for unit in range(len(found))]
            left = [layer.of(k).left_of(heights[:, k])[0] for k in others]
            found = [found[unit] for unit in others[int(np.argmin(left))]]
        return []

    def _below(self, facet: Facet) -> int:
        """Rows that lie below a unit by more than noise explains."""
        return int(np.count_nonzero(facet.height(self.cloud.points) < -_OFF * facet.noise))

    def _place(self, unit: Kinked, misfit: float) -> tuple[Facet, FloatArray]:
        facet = replace(count_points(self.cloud.facet(unit.functional), self.cloud.points), misfit=misfit)
        return facet, unit.direction / self.cloud.slope(unit.functional)


def layer_of(found: list[tuple[Facet, FloatArray]]) -> InnerLayer:
    """A1 and b1 of units, in the scale of their facets."""
    stacked = np.stack([row for _, row in found])
    return InnerLayer(stacked[:, :-1], stacked[:, -1])


def _is_one_of(height: FloatArray, columns: FloatArray, noise: float) -> bool:
    """Whether heights are one of the columns, up to noise; heights that are 0 everywhere are no new unit's."""
    length = float(np.linalg.norm(height))
    if length == 0.0:
        return True
    cosines = (height @ columns) / length / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    return bool((1.0 - cosines**2 < _SAME**2 + _ALIKE**2 * len(height) * (noise / length) ** 2).any())
