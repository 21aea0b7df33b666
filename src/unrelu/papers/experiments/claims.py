"""A paper's sentence about its figure as a function of results: held or not held, and why.

A claim is data: what it says in our words, where the paper says it, and a check. A check applies one test to every
curve (or pair of curves), measure and panel it speaks of, and holds where all of these hold. Tests allow for chance by
two standard errors of means over runs; where curves are compared, of differences run by run, as all curves of a run
learn from the same rows. The rule of a test is fixed in advance and printed beside its verdict: "not held" is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.papers.experiments.design import Axis, Curve, Measure, Results, Series, Setting


@dataclass(frozen=True)
class Part:
    """One comparison: what was compared, in numbers, and whether it came out as the claim says."""

    held: bool
    text: str


@dataclass(frozen=True)
class Verdict:
    """A claim judged, by all comparisons of its check."""

    claim: Claim
    parts: tuple[Part, ...]

    @property
    def held(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if not part.held)

    @property
    def word(self) -> str:
        return "held" if self.held else "not held"


@dataclass(frozen=True)
class Claim:
    """What a paper says of its figure, in our words, and the check of it.

    ``otherwise``: where we know it not to hold, why, in one sentence.
    """

    says: str
    where: str
    check: Check
    otherwise: str = ""

    def judge(self, results: Results) -> Verdict:
        """Held or not held, computed from the results."""
        return Verdict(self, tuple(self.check(results)))


@dataclass(frozen=True)
class Reading:
    """A way to understand what a paper leaves open, and its claims about the curves that are so understood."""

    name: str
    says: str
    claims: tuple[Claim, ...]

    def explained(self, why: Mapping[int, str]) -> Reading:
        """With a sentence on the claims of these numbers, counted from 1, that are known not to hold."""
        claims = (replace(claim, otherwise=why.get(number, "")) for number, claim in enumerate(self.claims, 1))
        return replace(self, claims=tuple(claims))

    def judge(self, results: Results) -> Judgement:
        """Every claim, held or not held."""
        return Judgement(self, tuple(claim.judge(results) for claim in self.claims))


@dataclass(frozen=True)
class Judgement:
    """The verdicts under a reading, in the order of its claims."""

    reading: Reading
    verdicts: tuple[Verdict, ...]

    @property
    def held(self) -> int:
        return sum(verdict.held for verdict in self.verdicts)

    @property
    def summary(self) -> str:
        return f"{self.reading.name}: {self.held} of {len(self.verdicts)} held"


@dataclass(frozen=True)
class Test:
    """A property of one curve along its axis, or a relation of a first curve to a second.

    It speaks of the settings that ``about`` picks.
    """

    rule: str
    holds: Callable[..., bool]
    about: Callable[[Setting], bool] = lambda setting: True  # noqa: ARG005 - all of them


@dataclass(frozen=True)
class Check:
    """A test of all ``curves`` (alone, or in pairs) and measures, in the panels along the axes.

    ``some_measure``: every curve must pass in one of the measures. What denies a regularity needs one that lacks it.
    """

    axes: tuple[Axis, ...]
    curves: tuple[tuple[Curve, ...], ...]
    measures: tuple[Measure, ...]
    test: Test
    some_measure: bool = False

    @property
    def rule(self) -> str:
        return f"in one of the errors: {self.test.rule}" if self.some_measure else self.test.rule

    def __call__(self, results: Results) -> Iterator[Part]:
        for axis, curves in product(self.axes, self.curves):
            parts = [self._part(results, axis, curves, measure) for measure in self.measures]
            if self.some_measure:
                yield Part(any(part.held for part in parts), "; ".join(part.text for part in parts))
            else:
                yield from parts

    def _part(self, results: Results, axis: Axis, curves: tuple[Curve, ...], measure: Measure) -> Part:
        series = [results.series(axis, curve, measure) for curve in curves]
        points = zip(*(one.where(self.test.about).mean for one in series), strict=True)
        means = ", ".join("/".join(f"{mean:.3g}" for mean in point) for point in points)
        names = " / ".join(curve.name for curve in curves)
        return Part(self.test.holds(*series), f"{names}, {measure.short} along {axis.symbol}: {means}")


def along(axes: tuple[Axis, ...], curves: tuple[Curve, ...], measures: tuple[Measure, ...], test: Test) -> Check:
    """A test of every curve by itself."""
    return Check(axes, tuple((curve,) for curve in curves), measures, test)


# --- tests of one curve -------------------------------------------------------------------------


def _changes(series: Series, later: slice | int, earlier: slice | int) -> tuple[FloatArray, FloatArray]:
    """Later means minus earlier ones, and two standard errors of each.

    An infinite mean is larger than any number, and its error counts as 0; between two infinite ones nothing holds.
    """
    with np.errstate(invalid="ignore"):
        change = np.asarray(series.mean[later] - series.mean[earlier])
    return change, 2.0 * np.hypot(series.stderr[later], series.stderr[earlier])


def _steps(series: Series) -> tuple[FloatArray, FloatArray]:
    """From point to point."""
    return _changes(series, slice(1, None), slice(None, -1))


def _rise(series: Series) -> tuple[float, float]:
    """From the first point to the last."""
    change, error = _changes(series, -1, 0)
    return float(change), float(error)


def _moves(series: Series, sign: float) -> bool:
    steps, noise = _steps(series)
    rise, error = _rise(series)
    return bool((sign * steps >= -noise).all()) and sign * rise > error


def _flat(series: Series) -> bool:
    mean, error = series.mean, 2.0 * series.stderr
    high, low = int(mean.argmax()), int(mean.argmin())
    return bool(mean[high] - error[high] <= 1.5 * (mean[low] + error[low]))


def _grows_slowly(series: Series) -> bool:
    rise, error = _rise(series)
    return error < rise and bool(series.mean[-1] * series.x[0] <= series.mean[0] * series.x[-1])


def _rises_somewhere(series: Series) -> bool:
    steps, noise = _steps(series)
    return bool((steps > noise).any())


FALLS = Test(
    "no step up by more than 2 standard errors; the last point below the first by more than 2",
    partial(_moves, sign=-1.0),
)
GROWS = Test(
    "no step down by more than 2 standard errors; the last point above the first by more than 2",
    partial(_moves, sign=1.0),
)
FLAT = Test("the largest mean at most 1.5 times the smallest, each allowed 2 standard errors", _flat)
GROWS_SLOWLY = Test(
    "the last point above the first by more than 2 standard errors, but by no larger factor than the axis grows",
    _grows_slowly,
)
RISES_SOMEWHERE = Test("at least one step up by more than 2 standard errors", _rises_somewhere)


# --- tests of two curves ------------------------------------------------------------------------


def _has_outliers(setting: Setting) -> bool:
    return setting.genuine < 1.0


def _is_clean(setting: Setting) -> bool:
    return setting.genuine == 1.0


def _below(first: Series, second: Series) -> bool:
    difference = first.minus(second)
    everywhere = bool((difference.mean <= 2.0 * difference.stderr).all())
    overall = float(difference.mean.mean())
    error = float(np.linalg.norm(difference.stderr)) / len(difference.x)
    return everywhere and overall < -2.0 * error


def _no_worse(first: Series, second: Series) -> bool:
    difference = first.minus(second)
    allowed = np.maximum(2.0 * difference.stderr, 0.05 * second.mean)
    return bool((difference.mean <= allowed).all())


def _clearly_above(first: Series, second: Series) -> bool:
    return bool((first.mean >= 1.2 * second.mean).all()) and _below(second, first)


def _meets(first: Series, second: Series) -> bool:
    difference = first.where(_is_clean).minus(second.where(_is_clean))
    allowed = np.maximum(2.0 * difference.stderr, 0.05 * first.mean.max())
    return bool((np.abs(difference.mean) <= allowed).all())


_BELOW_RULE = "nowhere above by more than 2 standard errors, and below by more than 2 on average over the points"
BELOW = Test(_BELOW_RULE, _below)
BELOW_WITH_OUTLIERS = Test(
    f"where p < 1: {_BELOW_RULE}",
    lambda first, second: _below(first.where(_has_outliers), second.where(_has_outliers)),
    _has_outliers,
)
NO_WORSE = Test("nowhere above by more than both 2 standard errors and 5 %", _no_worse)
CLEARLY_ABOVE = Test("at least 1.2 times as much, and by more than 2 standard errors", _clearly_above)
MEETS = Test(
    "at p = 1 the same within 2 standard errors, or within 5 % of the curve's own largest error in the panel",
    _meets,
    _is_clean,
)
