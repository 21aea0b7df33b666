"""Margins: f and its inverse, slopes, limits of what they are defined for, and what is asked of columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.margins import (
    BoxCox,
    Log,
    Monotone,
    Normal,
    Seen,
    cut_from_latent,
    is_margin,
    latent_limits,
    margin_requests,
    refuse_outside,
    same_margins,
    seen_by_all,
    to_latent,
)

LEVELS = (np.arange(500) + 0.5) / 500
SCORES = scipy.stats.norm.ppf(LEVELS)
GAMMA = Monotone(scipy.stats.gamma.ppf(LEVELS, 3.0), SCORES)
FORMS = [
    Normal(),
    Log(),
    BoxCox(0.5),
    BoxCox(0.0, 1.0, 3.0),
    BoxCox(-0.7, -2.0, 0.5),
    BoxCox(2.5, 0.0, 40.0),
    BoxCox(1e-12, 0.0, 2.0),
    GAMMA,
]
forms = pytest.mark.parametrize("margin", FORMS, ids=lambda margin: f"{margin.kind} {getattr(margin, 'exponent', '')}")


def inside(margin):
    """Values that the margin is defined for, in order."""
    if margin.kind == "monotone":
        return np.linspace(margin.values[0], margin.values[-1], 301)
    return getattr(margin, "origin", 0.0) + getattr(margin, "unit", 1.0) * np.geomspace(1e-2, 1e2, 301)


@forms
def test_there_and_back(margin):
    x = inside(margin)
    y = margin.to_latent(x)
    assert (np.diff(y) > 0.0).all()
    assert_allclose(margin.from_latent(y), x, rtol=1e-8)
    assert is_margin(margin)


@forms
def test_missing_cells_stay_missing(margin):
    cells = np.array([np.nan, inside(margin)[100]])
    for work in (margin.to_latent, margin.from_latent, margin.log_slope):
        assert_array_equal(np.isnan(work(cells)), [True, False])


@pytest.mark.parametrize("margin", FORMS[:-1], ids=repr)
def test_the_slope_is_the_derivative(margin):
    x = inside(margin)[20:-20]
    step = 1e-5 * (x - getattr(margin, "origin", 0.0))
    slope = (margin.to_latent(x + step) - margin.to_latent(x - step)) / (2.0 * step)
    assert_allclose(margin.log_slope(x), np.log(slope), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("distribution", [scipy.stats.gamma(3.0), scipy.stats.beta(2.0, 3.0), scipy.stats.t(4)])
def test_a_monotone_margin_has_a_density(distribution):
    margin = Monotone(distribution.ppf(LEVELS), SCORES)
    x = np.linspace(margin.values[0], margin.values[-1], 20_001)
    density = np.exp(scipy.stats.norm.logpdf(margin.to_latent(x)) + margin.log_slope(x))
    assert abs(np.trapezoid(density, x) - 1.0) < 0.02
    middle = np.abs(scipy.stats.norm.ppf(distribution.cdf(x))) < 1.5
    assert np.abs(np.log(density[middle] / distribution.pdf(x[middle]))).max() < 0.15


def test_an_exponent_of_one_is_the_identity():
    x = np.linspace(-5.0, 9.0, 30)
    margin = BoxCox(1.0, -6.0, 2.0)
    assert_allclose(margin.to_latent(x), x, rtol=1e-14)
    assert_allclose(margin.from_latent(x), x, rtol=1e-14)
    assert_array_equal(margin.log_slope(x), np.zeros(30))


def test_boxcox_is_that_of_box_and_cox():
    x, log_t = np.array([0.3, 2.0, 17.0]), np.log(np.array([0.3, 2.0, 17.0]) / 2.0)
    for exponent in (-0.5, 0.0, 0.4):
        expected = scipy.stats.boxcox(x / 2.0, exponent)
        assert_allclose(BoxCox(exponent, 0.0, 2.0).to_latent(x), 2.0 * (1.0 + expected), rtol=1e-13)
        assert_allclose(BoxCox(exponent, 0.0, 2.0).log_slope(x), (exponent - 1.0) * log_t, rtol=1e-13)


@pytest.mark.parametrize("exponent", [-1.0, -0.3, 0.0, 1e-3, 0.5, 3.0])
def test_far_latent_values_stay_finite(exponent):
    margin = BoxCox(exponent, 1.0, 2.0)
    x = margin.from_latent([-1e6, -50.0, 1.0, 50.0, 600.0])
    assert np.isfinite(x).all()
    assert (np.diff(x) >= 0.0).all()
    assert x[0] >= 1.0  # its origin


def test_where_boxcox_is_not_defined_there_is_no_density():
    for exponent in (0.3, 0.7, 2.0):
        assert (BoxCox(exponent, 1.0, 2.0).log_slope([0.0, 1.0]) < -5000.0).all()
        assert np.isfinite(BoxCox(exponent, 1.0, 2.0).to_latent([0.0, 1.0])).all()


def test_monotone_stays_at_its_ends():
    margin = Monotone(np.array([0.0, 1.0, 10.0]), np.array([-0.5, 0.0, 2.0]))
    assert_array_equal(margin.to_latent([-3.0, 99.0]), [-0.5, 2.0])
    assert_array_equal(margin.from_latent([-9.0, 9.0]), [0.0, 10.0])
    assert np.isfinite(margin.log_slope([-3.0, 0.0, 10.0, 99.0])).all()
    assert margin.n_parameters == 3


@forms
def test_margins_are_compared_by_value(margin):
    again = pickle.loads(pickle.dumps(margin))
    assert again == margin
    assert hash(again) == hash(margin)
    assert margin != (Normal() if margin.kind == "log" else Log())


def test_what_differs_is_not_equal():
    assert BoxCox(0.5) == BoxCox(0.5, exponent_stderr=float("nan"))  # as a file gives it back
    assert BoxCox(0.5) != BoxCox(0.6)
    assert BoxCox(0.5) != BoxCox(0.5, seen=Seen(0.0, 1.0))
    values, scores = np.array([0.0, 1.0, 2.0]), np.array([-1.0, 0.0, 1.0])
    assert Monotone(values, scores) != Monotone(values, scores + 0.1)
    assert Monotone(values, scores) != Monotone(values, scores, Seen(0.0, 2.0))
    assert Monotone(values, scores) != 3


@pytest.mark.parametrize("wrong", [(np.inf,), (np.nan,), (0.5, np.nan), (0.5, 0.0, 0.0), (0.5, 0.0, -1.0)])
def test_bad_exponents_are_refused(wrong):
    with pytest.raises(InvalidParameterError, match="finite exponent and origin and a positive unit, got exponent="):
        BoxCox(*wrong)


@pytest.mark.parametrize(
    ("values", "scores"),
    [
        ([0.0, 0.0], [0.0, 1.0]),
        ([0.0, 1.0], [1.0, 0.0]),
        ([0.0], [0.0]),
        ([0.0, 1.0], [0.0, np.inf]),
        ([0.0, np.nan], [0.0, 1.0]),
        ([0.0, 1.0, 2.0], [0.0, 1.0]),
    ],
)
def test_bad_knots_are_refused(values, scores):
    with pytest.raises(InvalidDataError, match="at least two values and scores, finite and rising"):
        Monotone(np.array(values), np.array(scores))


# --- where values were seen -----------------------------------------------------------------------


def test_rounding_gives_the_numbers_that_were_seen():
    assert_array_equal(Seen(0.0, 9.0, 0.1).fitted(np.array([0.31, 0.72, 12.0])), [0.3, 0.7, 9.0])
    assert_array_equal(Seen(-2.0, 9.0, 1.0).fitted(np.array([-5.0, 0.4, 2.6])), [-2.0, 0.0, 3.0])
    assert_array_equal(Seen().fitted(np.array([-5.1, 0.4])), [-5.1, 0.4])


def test_learners_of_parts_have_seen_what_each_saw():
    first, second = (Log(Seen(1.0, 5.0, 1.0)),), (Log(Seen(0.5, 2.0, 0.1)),)
    assert same_margins(first, second)
    assert seen_by_all([first, second]) == (Log(Seen(0.5, 5.0, 0.1)),)
    assert seen_by_all([None, None]) is None
    assert not same_margins(first, None)
    assert not same_margins(first, (Normal(),))
    assert not same_margins((BoxCox(0.5),), (BoxCox(0.4),))


# --- what is asked --------------------------------------------------------------------------------


def test_requests_for_columns():
    names = ["As", "Pb", "Zn"]
    assert margin_requests("monotone", 3) == ["monotone"] * 3
    assert margin_requests({"Pb": "log", "*": "auto"}, 3, names) == ["auto", "log", "auto"]
    assert margin_requests(["log", "normal", BoxCox(0.5)], 3, names) == ["log", "normal", BoxCox(0.5)]
    assert margin_requests(GAMMA, 2) == [GAMMA, GAMMA]
    assert margin_requests({1: GAMMA}, 2) == ["auto", GAMMA]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lgo", r"margins of column 0 \('As'\): unknown margin 'lgo'.*'log'"),
        ({"Pb": "powr"}, r"margins of column 1 \('Pb'\): unknown margin 'powr'"),
        ({"Bp": "log"}, r"margins: no column 'Bp'.*'?Pb'?"),
        (["log"], "2 columns, margins has shape"),
        (["log", 3.0], r"margins of column 1 \('Pb'\) must be one of normal, log, boxcox, monotone, auto or an object"),
        (None, "must be one of"),
        (Log, "must be one of"),
    ],
)
def test_requests_that_make_no_sense(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        margin_requests(given, 2, ["As", "Pb"])


@pytest.mark.parametrize(
    ("margins", "limits", "smallest", "message"),
    [
        (Log(), (0.0, np.inf), 1.0, "margins='log' of As: its limit 0 has no logarithm"),
        (Log(), (-np.inf, -2.0), np.inf, "its limit -2 has no logarithm"),
        (Log(), (-np.inf, np.inf), -0.5, "a value of -0.5 has no logarithm.*margins='auto'"),
        (BoxCox(0.0, 2.0), (2.0, np.inf), 3.0, "its limit 2 is not above the margin's origin 2"),
        (BoxCox(0.5, 2.0), (1.0, np.inf), 3.0, "its limit 1 is not above"),
        (BoxCox(0.5, 2.0), (-np.inf, np.inf), 1.5, "a value of 1.5 is not above the margin's origin 2"),
    ],
)
def test_what_a_margin_is_not_defined_for(margins, limits, smallest, message):
    with pytest.raises(InvalidDataError, match=message):
        refuse_outside(margins, limits, smallest, "As")


def test_what_a_margin_is_defined_for():
    refuse_outside(Log(), (0.5, np.inf), 0.6, "As")
    refuse_outside(BoxCox(0.5, 0.0), (0.0, np.inf), 0.1, "As")  # the square root of 0 is 0
    refuse_outside(BoxCox(0.0, -1.0), (-np.inf, np.inf), np.inf, "As")
    refuse_outside(GAMMA, (-5.0, 9.0), -4.0, "As")


def test_latent_limits_and_rows():
    margins = (Log(), Normal(), BoxCox(2.0))
    floor, ceiling = np.array([1.0, -np.inf, 1.0]), np.array([np.inf, 3.0, np.inf])
    low, high = latent_limits(margins, floor, ceiling)
    assert_array_equal(low, [0.0, -np.inf, 1.0])
    assert_array_equal(high, [np.inf, 3.0, np.inf])
    rows = to_latent(margins, np.array([[0.5, 9.0, 3.0], [np.e, np.nan, 0.5]]), floor, ceiling)
    assert_allclose(rows, [[0.0, 3.0, 5.0], [1.0, np.nan, 1.0]])


def test_a_step_that_the_floor_is_no_multiple_of_is_kept():
    margin = Normal(Seen(1.0, 9.0, 1.0))
    y = np.array([[0.5], [0.8], [1.2], [4.4]])
    x = cut_from_latent((margin,), y, np.array([0.5]), np.array([np.inf]), as_seen=True)
    np.testing.assert_array_equal(x[:, 0], [1.0, 1.0, 1.0, 4.0])  # the floor itself was never seen
