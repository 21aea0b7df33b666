"""Shapes: f and its inverse, slopes, limits of what they are defined for, and what is asked of columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.shapes import (
    Free,
    Log,
    Normal,
    Power,
    Seen,
    cut_from_latent,
    is_shape,
    latent_limits,
    refuse_outside,
    same_shapes,
    seen_by_all,
    shape_requests,
    to_latent,
)

LEVELS = (np.arange(500) + 0.5) / 500
SCORES = scipy.stats.norm.ppf(LEVELS)
GAMMA = Free(scipy.stats.gamma.ppf(LEVELS, 3.0), SCORES)
FORMS = [
    Normal(),
    Log(),
    Power(0.5),
    Power(0.0, 1.0, 3.0),
    Power(-0.7, -2.0, 0.5),
    Power(2.5, 0.0, 40.0),
    Power(1e-12, 0.0, 2.0),
    GAMMA,
]
forms = pytest.mark.parametrize("shape", FORMS, ids=lambda shape: f"{shape.kind} {getattr(shape, 'exponent', '')}")


def inside(shape):
    """Values that the shape is defined for, in order."""
    if shape.kind == "free":
        return np.linspace(shape.values[0], shape.values[-1], 301)
    return getattr(shape, "origin", 0.0) + getattr(shape, "unit", 1.0) * np.geomspace(1e-2, 1e2, 301)


@forms
def test_there_and_back(shape):
    x = inside(shape)
    y = shape.to_latent(x)
    assert (np.diff(y) > 0.0).all()
    assert_allclose(shape.from_latent(y), x, rtol=1e-8)
    assert is_shape(shape)


@forms
def test_missing_cells_stay_missing(shape):
    cells = np.array([np.nan, inside(shape)[100]])
    for work in (shape.to_latent, shape.from_latent, shape.log_slope):
        assert_array_equal(np.isnan(work(cells)), [True, False])


@pytest.mark.parametrize("shape", FORMS[:-1], ids=repr)
def test_the_slope_is_the_derivative(shape):
    x = inside(shape)[20:-20]
    step = 1e-5 * (x - getattr(shape, "origin", 0.0))
    slope = (shape.to_latent(x + step) - shape.to_latent(x - step)) / (2.0 * step)
    assert_allclose(shape.log_slope(x), np.log(slope), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("law", [scipy.stats.gamma(3.0), scipy.stats.beta(2.0, 3.0), scipy.stats.t(4)])
def test_a_free_shape_has_a_density(law):
    shape = Free(law.ppf(LEVELS), SCORES)
    x = np.linspace(shape.values[0], shape.values[-1], 20_001)
    density = np.exp(scipy.stats.norm.logpdf(shape.to_latent(x)) + shape.log_slope(x))
    assert abs(np.trapezoid(density, x) - 1.0) < 0.02
    middle = np.abs(scipy.stats.norm.ppf(law.cdf(x))) < 1.5
    assert np.abs(np.log(density[middle] / law.pdf(x[middle]))).max() < 0.15


def test_a_power_of_one_is_the_identity():
    x = np.linspace(-5.0, 9.0, 30)
    shape = Power(1.0, -6.0, 2.0)
    assert_allclose(shape.to_latent(x), x, rtol=1e-14)
    assert_allclose(shape.from_latent(x), x, rtol=1e-14)
    assert_array_equal(shape.log_slope(x), np.zeros(30))


def test_a_power_is_that_of_box_and_cox():
    x, log_t = np.array([0.3, 2.0, 17.0]), np.log(np.array([0.3, 2.0, 17.0]) / 2.0)
    for exponent in (-0.5, 0.0, 0.4):
        expected = scipy.stats.boxcox(x / 2.0, exponent)
        assert_allclose(Power(exponent, 0.0, 2.0).to_latent(x), 2.0 * (1.0 + expected), rtol=1e-13)
        assert_allclose(Power(exponent, 0.0, 2.0).log_slope(x), (exponent - 1.0) * log_t, rtol=1e-13)


@pytest.mark.parametrize("exponent", [-1.0, -0.3, 0.0, 1e-3, 0.5, 3.0])
def test_far_latent_values_stay_finite(exponent):
    shape = Power(exponent, 1.0, 2.0)
    x = shape.from_latent([-1e6, -50.0, 1.0, 50.0, 600.0])
    assert np.isfinite(x).all()
    assert (np.diff(x) >= 0.0).all()
    assert x[0] >= 1.0  # its origin


def test_where_a_power_is_not_defined_there_is_no_density():
    for exponent in (0.3, 0.7, 2.0):
        assert (Power(exponent, 1.0, 2.0).log_slope([0.0, 1.0]) < -5000.0).all()
        assert np.isfinite(Power(exponent, 1.0, 2.0).to_latent([0.0, 1.0])).all()


def test_free_stays_at_its_ends():
    shape = Free(np.array([0.0, 1.0, 10.0]), np.array([-0.5, 0.0, 2.0]))
    assert_array_equal(shape.to_latent([-3.0, 99.0]), [-0.5, 2.0])
    assert_array_equal(shape.from_latent([-9.0, 9.0]), [0.0, 10.0])
    assert np.isfinite(shape.log_slope([-3.0, 0.0, 10.0, 99.0])).all()
    assert shape.n_parameters == 3


@forms
def test_shapes_are_compared_by_value(shape):
    again = pickle.loads(pickle.dumps(shape))
    assert again == shape
    assert hash(again) == hash(shape)
    assert shape != (Normal() if shape.kind == "log" else Log())


def test_what_differs_is_not_equal():
    assert Power(0.5) == Power(0.5, exponent_stderr=float("nan"))  # as a file gives it back
    assert Power(0.5) != Power(0.6)
    assert Power(0.5) != Power(0.5, seen=Seen(0.0, 1.0))
    values, scores = np.array([0.0, 1.0, 2.0]), np.array([-1.0, 0.0, 1.0])
    assert Free(values, scores) != Free(values, scores + 0.1)
    assert Free(values, scores) != Free(values, scores, Seen(0.0, 2.0))
    assert Free(values, scores) != 3


@pytest.mark.parametrize("wrong", [(np.inf,), (np.nan,), (0.5, np.nan), (0.5, 0.0, 0.0), (0.5, 0.0, -1.0)])
def test_bad_powers_are_refused(wrong):
    with pytest.raises(InvalidParameterError, match="finite exponent and origin and a positive unit, got exponent="):
        Power(*wrong)


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
        Free(np.array(values), np.array(scores))


# --- where values were seen -----------------------------------------------------------------------


def test_rounding_gives_the_numbers_that_were_seen():
    assert_array_equal(Seen(0.0, 9.0, 0.1).fitted(np.array([0.31, 0.72, 12.0])), [0.3, 0.7, 9.0])
    assert_array_equal(Seen(-2.0, 9.0, 1.0).fitted(np.array([-5.0, 0.4, 2.6])), [-2.0, 0.0, 3.0])
    assert_array_equal(Seen().fitted(np.array([-5.1, 0.4])), [-5.1, 0.4])


def test_learners_of_parts_have_seen_what_each_saw():
    first, second = (Log(Seen(1.0, 5.0, 1.0)),), (Log(Seen(0.5, 2.0, 0.1)),)
    assert same_shapes(first, second)
    assert seen_by_all([first, second]) == (Log(Seen(0.5, 5.0, 0.1)),)
    assert seen_by_all([None, None]) is None
    assert not same_shapes(first, None)
    assert not same_shapes(first, (Normal(),))
    assert not same_shapes((Power(0.5),), (Power(0.4),))


# --- what is asked --------------------------------------------------------------------------------


def test_requests_for_columns():
    names = ["As", "Pb", "Zn"]
    assert shape_requests("free", 3) == ["free"] * 3
    assert shape_requests({"Pb": "log", "*": "auto"}, 3, names) == ["auto", "log", "auto"]
    assert shape_requests(["log", "normal", Power(0.5)], 3, names) == ["log", "normal", Power(0.5)]
    assert shape_requests(GAMMA, 2) == [GAMMA, GAMMA]
    assert shape_requests({1: GAMMA}, 2) == ["auto", GAMMA]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lgo", r"shape of column 0 \('As'\): unknown shape 'lgo'.*'log'"),
        ({"Pb": "powr"}, r"shape of column 1 \('Pb'\): unknown shape 'powr'.*'power'"),
        ({"Bp": "log"}, r"shape: no column 'Bp'.*'?Pb'?"),
        (["log"], "2 columns, shape has shape"),
        (["log", 3.0], r"shape of column 1 \('Pb'\) must be one of normal, log, power, free, auto or an object"),
        (None, "must be one of"),
        (Log, "must be one of"),
    ],
)
def test_requests_that_make_no_sense(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        shape_requests(given, 2, ["As", "Pb"])


@pytest.mark.parametrize(
    ("shape", "limits", "smallest", "message"),
    [
        (Log(), (0.0, np.inf), 1.0, "shape='log' of As: its limit 0 has no logarithm"),
        (Log(), (-np.inf, -2.0), np.inf, "its limit -2 has no logarithm"),
        (Log(), (-np.inf, np.inf), -0.5, "a value of -0.5 has no logarithm.*shape='auto'"),
        (Power(0.0, 2.0), (2.0, np.inf), 3.0, "its limit 2 is not above the shape's origin 2"),
        (Power(0.5, 2.0), (1.0, np.inf), 3.0, "its limit 1 is not above"),
        (Power(0.5, 2.0), (-np.inf, np.inf), 1.5, "a value of 1.5 is not above the shape's origin 2"),
    ],
)
def test_what_a_shape_is_not_defined_for(shape, limits, smallest, message):
    with pytest.raises(InvalidDataError, match=message):
        refuse_outside(shape, limits, smallest, "As")


def test_what_a_shape_is_defined_for():
    refuse_outside(Log(), (0.5, np.inf), 0.6, "As")
    refuse_outside(Power(0.5, 0.0), (0.0, np.inf), 0.1, "As")  # the square root of 0 is 0
    refuse_outside(Power(0.0, -1.0), (-np.inf, np.inf), np.inf, "As")
    refuse_outside(GAMMA, (-5.0, 9.0), -4.0, "As")


def test_latent_limits_and_rows():
    shapes = (Log(), Normal(), Power(2.0))
    floor, ceiling = np.array([1.0, -np.inf, 1.0]), np.array([np.inf, 3.0, np.inf])
    low, high = latent_limits(shapes, floor, ceiling)
    assert_array_equal(low, [0.0, -np.inf, 1.0])
    assert_array_equal(high, [np.inf, 3.0, np.inf])
    rows = to_latent(shapes, np.array([[0.5, 9.0, 3.0], [np.e, np.nan, 0.5]]), floor, ceiling)
    assert_allclose(rows, [[0.0, 3.0, 5.0], [1.0, np.nan, 1.0]])


def test_a_step_that_the_floor_is_no_multiple_of_is_kept():
    shape = Normal(Seen(1.0, 9.0, 1.0))
    y = np.array([[0.5], [0.8], [1.2], [4.4]])
    x = cut_from_latent((shape,), y, np.array([0.5]), np.array([np.inf]), as_seen=True)
    np.testing.assert_array_equal(x[:, 0], [1.0, 1.0, 1.0, 4.0])  # the floor itself was never seen
