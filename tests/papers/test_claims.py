"""Claims: each test holds on made-up results that show it, and does not on those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unrelu.methods import OnePass
from unrelu.papers import study as claims
from unrelu.papers.experiments import EXPERIMENTS
from unrelu.papers.study import BIAS, INLIER, KL, ROWS, WEIGHTS, Claim, Curve, Reading, Setting

FIRST, SECOND = (Curve(name, lambda seed: OnePass()) for name in ("first", "second"))
SETTINGS = tuple(Setting(n, 2) for n in (100, 200, 400))
NOISE = np.array([-1.0, 0.0, 1.0, 0.0])  # four runs: a standard error of 0.41 times the spread


def around(means: list[float], spread: float = 0.01) -> np.ndarray:
    return np.array(means)[:, None] + spread * NOISE


def claim(test, measures=(BIAS,), curves=(FIRST,), axis=ROWS, **options):
    return Claim("says", "where", test, curves, (axis,), measures, **options)


def holds_for(made_up, test, means, spread=0.01):
    results = made_up(ROWS, SETTINGS, {(FIRST, BIAS): around(means, spread)})
    return claim(test).evaluate(results).held


@pytest.mark.parametrize(
    ("test", "holds", "fails"),
    [
        (claims.FALLS, [3.0, 2.0, 1.0], [3.0, 3.5, 1.0]),
        (claims.FALLS, [3.0, 1.0, 1.001], [3.0, 2.0, 3.0]),
        (claims.FALLS, [np.inf, 2.0, 1.0], [1.0, 2.0, np.inf]),
        (claims.FALLS, [np.inf, 2.0, 1.0], [np.inf, np.inf, 1.0]),
        (claims.GROWS, [1.0, 2.0, 3.0], [1.0, 3.5, 3.0]),
        (claims.GROWS, [1.0, 2.0, np.inf], [3.0, 2.0, 3.0]),
        (claims.FLAT, [1.0, 1.4, 1.2], [1.0, 1.6, 1.2]),
        (claims.FLAT, [1.0, 1.0, 1.0], [1.0, 1.0, np.inf]),
        (claims.GROWS_SLOWLY, [1.0, 2.0, 3.9], [1.0, 2.0, 4.1]),
        (claims.GROWS_SLOWLY, [1.0, 0.5, 1.2], [1.0, 1.0, 1.0]),
        (claims.RISES_SOMEWHERE, [3.0, 1.0, 1.5], [3.0, 2.0, 1.0]),
    ],
)
def test_of_one_curve(made_up, test, holds, fails):
    assert holds_for(made_up, test, holds)
    assert not holds_for(made_up, test, fails)


@pytest.mark.parametrize(("test", "means"), [(claims.FALLS, [3.0, 3.2, 1.0]), (claims.FLAT, [1.0, 1.6, 1.2])])
def test_chance_is_allowed_for(made_up, test, means):
    assert not holds_for(made_up, test, means, spread=0.01)
    assert holds_for(made_up, test, means, spread=0.5)


def compared(made_up, test, first, second, shares=(0.8, 0.9, 1.0)):
    settings = tuple(Setting(100, 2, inlier=p) for p in shares)
    results = made_up(INLIER, settings, {(FIRST, BIAS): first, (SECOND, BIAS): second})
    return claim(test, curves=((FIRST, SECOND),), axis=INLIER).evaluate(results).held


@pytest.mark.parametrize(
    ("test", "first", "second", "expected"),
    [
        (claims.BELOW, [1.0, 1.0, 1.0], [2.0, 1.5, 1.1], True),
        (claims.BELOW, [1.0, 1.0, 1.2], [2.0, 1.5, 1.1], False),
        (claims.BELOW, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], False),
        (claims.BELOW_WITH_OUTLIERS, [1.0, 1.0, 1.2], [2.0, 1.5, 1.1], True),
        (claims.BELOW_WITH_OUTLIERS, [1.0, 1.6, 1.0], [2.0, 1.5, 1.1], False),
        (claims.NO_WORSE, [1.0, 1.04, 0.5], [1.0, 1.0, 1.0], True),
        (claims.NO_WORSE, [1.0, 1.06, 0.5], [1.0, 1.0, 1.0], False),
        (claims.CLEARLY_ABOVE, [1.3, 1.3, 1.3], [1.0, 1.0, 1.0], True),
        (claims.CLEARLY_ABOVE, [1.3, 1.1, 1.3], [1.0, 1.0, 1.0], False),
        (claims.MEETS, [2.0, 1.5, 0.19], [0.1, 0.1, 0.1], True),
        (claims.MEETS, [2.0, 1.5, 0.21], [0.1, 0.1, 0.1], False),
        (claims.MEETS, [2.0, 1.5, 0.0], [0.2, 0.2, 0.2], False),
    ],
)
def test_of_two_curves(made_up, test, first, second, expected):
    assert compared(made_up, test, around(first), around(second)) is expected


def test_curves_are_compared_run_by_run(made_up):
    """Spread that both share does not hide a difference; spread of their own does."""
    first, second = around([1.0, 1.0, 1.0], spread=1.0), around([1.1, 1.1, 1.1], spread=1.0)
    assert compared(made_up, claims.BELOW, first, second)
    assert not compared(made_up, claims.BELOW, first, second[:, ::-1])


def test_a_claim_holds_where_all_its_parts_hold(made_up):
    values = {
        (FIRST, BIAS): around([3.0, 2.0, 1.0]),
        (FIRST, WEIGHTS): around([3.0, 2.0, 1.0]),
        (FIRST, KL): around([1.0, 2.0, 3.0]),
    }
    results = made_up(ROWS, SETTINGS, values)
    two = claim(claims.FALLS, (BIAS, WEIGHTS)).evaluate(results)
    three = claim(claims.FALLS, (BIAS, WEIGHTS, KL)).evaluate(results)
    assert (two.word, three.word) == ("held", "not held")
    assert [text for held, text in three.parts if not held] == ["first, KL along n: 1, 2, 3"]


def test_no_run_can_hold_every_claim_by_default(made_up):
    """Results that show nothing (all values equal) do not pass claims of a change."""
    for experiment in EXPERIMENTS.values():
        for made in (made for reading in experiment.readings for made in reading.claims):
            curves = {curve for together in made.curves for curve in np.atleast_1d(np.array(together, dtype=object))}
            for axis in made.axes:
                (settings,) = (panel.settings for panel in experiment.quick if panel.axis == axis)
                values = {(c, m): np.ones((len(settings), 3)) for c in curves for m in made.measures}
                narrowed = replace(made, axes=(axis,))
                still = made.test in (claims.FLAT, claims.NO_WORSE, claims.MEETS)
                assert narrowed.evaluate(made_up(axis, settings, values)).held is still, made.says


def test_what_denies_a_regularity_needs_one_measure_that_lacks_it(made_up):
    """ "Not monotone" needs one error of every curve that rises somewhere."""
    falls, rises = around([3.0, 2.0, 1.0]), around([1.0, 2.0, 1.0])
    values = {(FIRST, BIAS): falls, (FIRST, WEIGHTS): rises, (SECOND, BIAS): falls, (SECOND, WEIGHTS): falls}
    results = made_up(ROWS, SETTINGS, values)
    one = claim(claims.RISES_SOMEWHERE, (BIAS, WEIGHTS), some_measure=True)
    assert one.evaluate(results).held
    assert one.rule.startswith("in one of the errors: ")
    assert not claim(claims.RISES_SOMEWHERE, (BIAS, WEIGHTS)).evaluate(results).held
    both = replace(one, curves=(FIRST, SECOND)).evaluate(results)
    assert [held for held, _ in both.parts] == [True, False]


def test_a_reading_judges_all_its_claims(made_up):
    results = made_up(ROWS, SETTINGS, {(FIRST, BIAS): around([3.0, 2.0, 1.0])})
    reading = Reading("a", "b", (claim(claims.FALLS), claim(claims.GROWS))).evaluate(results)
    assert [each.held for each in reading.claims] == [True, False]
    assert reading.summary == "a: 1 of 2 held"


def test_every_reading_has_the_same_claims():
    for experiment in EXPERIMENTS.values():
        says = [[claim.says for claim in reading.claims] for reading in experiment.readings]
        assert all(other == says[0] for other in says)


def test_a_setting_has_a_text_on_its_axis():
    assert ROWS.text(Setting(20_000, 5)) == "n = 20,000"
    assert INLIER.text(Setting(1, 1, inlier=0.95)) == "p = 0.95"
