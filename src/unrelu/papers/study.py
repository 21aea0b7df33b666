"""The parts of an experiment: settings, panels, curves, measures, claims; a study of them, and its results.

An experiment is data: settings to run, measures, a layout, and the claims of the paper. A claim is a sentence
of the paper with a test, which every curve (or pair of curves), measure and panel that it speaks of must pass. Tests
allow for chance by two standard errors of means over runs; where curves are compared, of differences run by run, as all
curves of a run learn from the same rows. The rule of a test is fixed in advance and printed beside its result: "not
held" is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from unrelu import __version__
from unrelu.contracts import FloatArray
from unrelu.methods import Method

Key = tuple[int, int, int]  # a trial, one run of one point: (panel, point, run), counted from 0
Outcomes = Mapping[str, Mapping[str, float]]  # curve name -> measure name -> value, of one trial


# --- what is run and measured -------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """One point of a figure: rows n, columns d, condition number of W W', share p of inlier rows."""

    rows: int
    columns: int
    condition_number: float = 1.0
    inlier: float = 1.0


@dataclass(frozen=True)
class Axis:
    """The quantity that varies along a panel. Axes differ by name."""

    name: str
    symbol: str
    label: str
    value: Callable[[Setting], float]
    logarithmic: bool = False

    def text(self, setting: Setting) -> str:
        """The setting as this axis sees it."""
        return f"{self.symbol} = {self.value(setting):,g}"


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: the points along an axis, what stays fixed, in words, and the runs of every point.

    A run has its own W, b and rows.
    """

    axis: Axis
    settings: tuple[Setting, ...]
    fixed: str
    runs: int


@dataclass(frozen=True)
class Curve:
    """A learner under test; an oracle learns from the inlier rows alone.

    ``in_block``: it sees the same rows with all outliers at the end, instead of anywhere.
    """

    name: str
    method: Method
    oracle: bool = False
    ours: bool = False
    in_block: bool = False


@dataclass(frozen=True)
class Measure:
    """A measure of a learned model; ``name`` is its column in the CSV."""

    name: str
    short: str
    label: str


ROWS = Axis("rows", "n", "number of rows n", lambda setting: setting.rows, logarithmic=True)
COLUMNS = Axis("columns", "d", "dimension d", lambda setting: setting.columns)
CONDITION = Axis("condition", "κ", "condition number κ of W W'", lambda setting: setting.condition_number)
INLIER = Axis("inlier", "p", "probability p of an inlier row", lambda setting: setting.inlier)
BIAS = Measure("bias", "bias", "error in bias  |b̂ − b| / |W|")
WEIGHTS = Measure("weights", "weights", "error in weights  |Ŝ − W W'| / |W|²")
KL = Measure("kl", "KL", "KL divergence")
TV = Measure("tv_bound", "sqrt(KL/2)", "sqrt(KL / 2), at most 1, which bounds the total variation distance")
SECONDS = Measure("seconds", "seconds", "seconds of computing")
ERRORS = (BIAS, WEIGHTS)


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper: settings to run, measures, a layout, and the claims of the paper.

    ``layout`` has a row of panels for every group of measures, which share their panels. A table is instead of the
    first measure at the only setting there is: ``columns`` are its heads, and a row of ``table`` has a name, its
    curves, and what the paper printed of them (None: not in the paper).

    ``readings``: ways to understand what the paper leaves open, each with the same claims; one where nothing is open.
    ``notes`` say where our run departs from the paper's, or had to choose what the paper leaves open. ``repeats`` is
    how often a fit is repeated for its time, of which the shortest counts: other work on the machine only adds to it.
    """

    name: str
    title: str
    paper: str
    full: tuple[Panel, ...]
    quick: tuple[Panel, ...]
    curves: tuple[Curve, ...]
    measures: tuple[Measure, ...]
    readings: tuple[Reading, ...]
    layout: tuple[tuple[Measure, ...], ...] = ()
    columns: tuple[str, ...] = ()
    table: tuple[tuple[str, tuple[Curve | None, ...], tuple[float | None, ...]], ...] = ()
    notes: tuple[str, ...] = ()
    repeats: int = 1


@dataclass(frozen=True)
class Study:
    """An experiment to be run, in full or in brief, from a seed."""

    experiment: Experiment
    quick: bool = False
    seed: int = 0

    @property
    def panels(self) -> tuple[Panel, ...]:
        return self.experiment.quick if self.quick else self.experiment.full

    @property
    def stem(self) -> str:
        """How its files begin; a quick run never overwrites a full one."""
        return f"{self.experiment.name}-quick" if self.quick else self.experiment.name

    @property
    def runs(self) -> int:
        """Runs of every point, but for panels with more."""
        return min(panel.runs for panel in self.panels)

    @property
    def runs_in_words(self) -> str:
        more = [f" ({panel.runs} along {panel.axis.symbol})" for panel in self.panels if panel.runs != self.runs]
        return str(self.runs) + "".join(more)

    def trials(self) -> Iterator[Key]:
        """Every run of every point, point after point."""
        for place, panel in enumerate(self.panels):
            for point, run in np.ndindex(len(panel.settings), panel.runs):
                yield place, point, run

    def settings(self) -> dict[str, Any]:
        """All that the numbers depend on, as JSON holds it: results of other settings are not mixed with these."""
        experiment = self.experiment
        return {
            "experiment": experiment.name,
            "quick": self.quick,
            "seed": self.seed,
            "version": __version__,
            "runs": self.runs_in_words,
            "panels": {panel.axis.name: [asdict(setting) for setting in panel.settings] for panel in self.panels},
            "curves": {curve.name: repr(curve.method) for curve in experiment.curves},
            "in_block": [curve.name for curve in experiment.curves if curve.in_block],
            "repeats": experiment.repeats,
            "measures": [measure.name for measure in experiment.measures],
        }


# --- results ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Series:
    """One curve along one axis: ``values`` is points x runs."""

    settings: tuple[Setting, ...]
    x: FloatArray
    values: FloatArray

    @property
    def mean(self) -> FloatArray:
        return np.asarray(self.values.mean(axis=1))

    @property
    def std(self) -> FloatArray:
        """Spread over the runs; 0 where there is only one run, or a value is not finite."""
        if self.values.shape[1] < 2:
            return np.zeros(len(self.values))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(self.values.std(axis=1, ddof=1)))

    @property
    def stderr(self) -> FloatArray:
        """The standard error of the mean over the runs."""
        return np.asarray(self.std / np.sqrt(self.values.shape[1]))

    def minus(self, other: Series) -> Series:
        """Run by run: both have learned from the same rows."""
        with np.errstate(invalid="ignore"):
            return replace(self, values=self.values - other.values)

    def where(self, wanted: Callable[[Setting], bool]) -> Series:
        """The points of some settings."""
        kept = [i for i, setting in enumerate(self.settings) if wanted(setting)]
        return Series(tuple(self.settings[i] for i in kept), self.x[kept], self.values[kept])


SeriesOf = Callable[[Axis, Curve, Measure], Series]
"""The results of a study: the series of a curve, as a measure has it, in the panel along an axis."""


def series_of(
    panels: Sequence[Panel], outcomes: Mapping[Key, Outcomes], axis: Axis, curve: Curve, measure: Measure
) -> Series:
    """A curve of the panel along that axis, from the outcomes of every trial of some panels."""
    place = [panel.axis for panel in panels].index(axis)
    panel = panels[place]
    shape = len(panel.settings), panel.runs
    values = [outcomes[place, *trial][curve.name][measure.name] for trial in np.ndindex(shape)]
    x = np.array([axis.value(setting) for setting in panel.settings], dtype=np.float64)
    return Series(panel.settings, x, np.array(values, dtype=np.float64).reshape(shape))


# --- claims -------------------------------------------------------------------------------------

# A rule in words; whether a curve, or a first one beside a second, keeps it; the settings that it speaks of.
Test = tuple[str, Callable[..., bool], Callable[[Setting], bool]]


@dataclass(frozen=True)
class Claim:
    """What a paper says of its figure, in our words, where it says so, and what is tested.

    The ``test`` is of all ``curves`` (alone, or in pairs) and measures, in the panels along the axes. ``some_measure``:
    every curve must pass in one of the measures; what denies a regularity needs one that lacks it. ``otherwise``: where
    the claim does not hold, the reason, in one sentence. ``parts`` are the comparisons once it is evaluated, held or
    not, and in numbers.
    """

    says: str
    where: str
    test: Test
    curves: tuple[Curve | tuple[Curve, Curve], ...]
    axes: tuple[Axis, ...]
    measures: tuple[Measure, ...] = ERRORS
    some_measure: bool = False
    otherwise: str = ""
    parts: tuple[tuple[bool, str], ...] = ()

    @property
    def rule(self) -> str:
        return f"in one of the errors: {self.test[0]}" if self.some_measure else self.test[0]

    @property
    def held(self) -> bool:
        return all(held for held, _ in self.parts)

    @property
    def word(self) -> str:
        return "held" if self.held else "not held"

    def evaluate(self, results: SeriesOf) -> Claim:
        """The claim with its parts, computed from the results."""
        parts: list[tuple[bool, str]] = []
        for axis, curves in product(self.axes, self.curves):
            together = curves if isinstance(curves, tuple) else (curves,)
            compared = [self._compare(results, axis, together, measure) for measure in self.measures]
            if self.some_measure:
                compared = [(any(held for held, _ in compared), "; ".join(text for _, text in compared))]
            parts += compared
        return replace(self, parts=tuple(parts))

    def _compare(self, results: SeriesOf, axis: Axis, curves: tuple[Curve, ...], measure: Measure) -> tuple[bool, str]:
        _, holds, about = self.test
        series = [results(axis, curve, measure) for curve in curves]
        points = zip(*(one.where(about).mean for one in series), strict=True)
        means = ", ".join("/".join(f"{mean:.3g}" for mean in point) for point in points)
        names = " / ".join(curve.name for curve in curves)
        return holds(*series), f"{names}, {measure.short} along {axis.symbol}: {means}"


@dataclass(frozen=True)
class Reading:
    """A way to understand what a paper leaves open, and its claims about the curves that are so understood."""

    name: str
    says: str
    claims: tuple[Claim, ...]

    def with_reasons(self, why: Mapping[int, str]) -> Reading:
        """The reading, with a sentence on each claim that does not hold, by its number, counted from 1."""
        claims = (replace(claim, otherwise=why.get(number, "")) for number, claim in enumerate(self.claims, 1))
        return replace(self, claims=tuple(claims))

    def evaluate(self, results: SeriesOf) -> Reading:
        return replace(self, claims=tuple(claim.evaluate(results) for claim in self.claims))

    @property
    def held(self) -> int:
        """The number of claims that hold, once they are evaluated."""
        return sum(claim.held for claim in self.claims)

    @property
    def summary(self) -> str:
        return f"{self.name}: {self.held} of {len(self.claims)} held"


# --- tests of one curve -------------------------------------------------------------------------


def _everywhere(_: Setting) -> bool:
    return True


def _has_outliers(setting: Setting) -> bool:
    return setting.inlier < 1.0


def _is_clean(setting: Setting) -> bool:
    return setting.inlier == 1.0


def _test(rule: str, about: Callable[[Setting], bool] = _everywhere) -> Callable[[Callable[..., bool]], Test]:
    """A function that keeps the rule, made into a test."""
    return lambda holds: (rule, holds, about)


def _changes(series: Series, later: slice | int, earlier: slice | int) -> tuple[FloatArray, FloatArray]:
    """Later means minus earlier ones, and two standard errors of each.

    An infinite mean is larger than any number, and its error counts as 0; between two infinite ones nothing holds.
    """
    with np.errstate(invalid="ignore"):
        change = np.asarray(series.mean[later] - series.mean[earlier])
    return change, 2.0 * np.hypot(series.stderr[later], series.stderr[earlier])


_STEPS = slice(1, None), slice(None, -1)  # from point to point
_ENDS = -1, 0  # from the first point to the last


def _moves(series: Series, sign: float) -> bool:
    steps, noise = _changes(series, *_STEPS)
    rise, error = _changes(series, *_ENDS)
    return bool((sign * steps >= -noise).all() and sign * rise > error)


@_test("no step up by more than 2 standard errors; the last point below the first by more than 2")
def FALLS(series: Series) -> bool:
    return _moves(series, -1.0)


@_test("no step down by more than 2 standard errors; the last point above the first by more than 2")
def GROWS(series: Series) -> bool:
    return _moves(series, 1.0)


@_test("the largest mean at most 1.5 times the smallest, each allowed 2 standard errors")
def FLAT(series: Series) -> bool:
    mean, error = series.mean, 2.0 * series.stderr
    high, low = int(mean.argmax()), int(mean.argmin())
    return bool(mean[high] - error[high] <= 1.5 * (mean[low] + error[low]))


@_test("the last point above the first by more than 2 standard errors, but by no larger factor than the axis grows")
def GROWS_SLOWLY(series: Series) -> bool:
    rise, error = _changes(series, *_ENDS)
    return bool(error < rise and series.mean[-1] * series.x[0] <= series.mean[0] * series.x[-1])


@_test("at least one step up by more than 2 standard errors")
def RISES_SOMEWHERE(series: Series) -> bool:
    steps, noise = _changes(series, *_STEPS)
    return bool((steps > noise).any())


# --- tests of two curves ------------------------------------------------------------------------

_BELOW = "nowhere above by more than 2 standard errors, and below by more than 2 on average over the points"


def _below(first: Series, second: Series) -> bool:
    difference = first.minus(second)
    everywhere = bool((difference.mean <= 2.0 * difference.stderr).all())
    overall = float(difference.mean.mean())
    error = float(np.linalg.norm(difference.stderr)) / len(difference.x)
    return everywhere and overall < -2.0 * error


BELOW: Test = _test(_BELOW)(_below)


@_test(f"where p < 1: {_BELOW}", _has_outliers)
def BELOW_WITH_OUTLIERS(first: Series, second: Series) -> bool:
    return _below(first.where(_has_outliers), second.where(_has_outliers))


@_test("nowhere above by more than both 2 standard errors and 5 %")
def NO_WORSE(first: Series, second: Series) -> bool:
    difference = first.minus(second)
    allowed = np.maximum(2.0 * difference.stderr, 0.05 * second.mean)
    return bool((difference.mean <= allowed).all())


@_test("at least 1.2 times as much, and by more than 2 standard errors")
def CLEARLY_ABOVE(first: Series, second: Series) -> bool:
    return bool((first.mean >= 1.2 * second.mean).all()) and _below(second, first)


@_test(
    "at p = 1 the same within 2 standard errors, or within 5 % of the curve's own largest error in the panel", _is_clean
)
def MEETS(first: Series, second: Series) -> bool:
    difference = first.where(_is_clean).minus(second.where(_is_clean))
    allowed = np.maximum(2.0 * difference.stderr, 0.05 * first.mean.max())
    return bool((np.abs(difference.mean) <= allowed).all())
