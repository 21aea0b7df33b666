"""Shapes from margins: powers against a brute-force likelihood and simulation, free ones against empirical laws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr, ndtri

from unrelu.contracts import Block
from unrelu.errors import InvalidDataError
from unrelu.limits import limits_of
from unrelu.marginals.shape_fitting import Column, fit_powers, fit_shapes
from unrelu.shapes import Free, Log, Normal, Power, Seen
from unrelu.statistics.margins import MarginsQuestion

rng = np.random.default_rng(0)


def fitted(request, x, floor=None, ceiling=None, weights=None, parts=1, names=None):
    """The shapes of a table's columns, all asked for alike."""
    x = np.asarray(x)
    x = x[:, None] if x.ndim == 1 else x
    blocks = np.array_split(np.arange(len(x)), parts)
    records = [MarginsQuestion()(Block(x[rows], 0, None if weights is None else weights[rows])) for rows in blocks]
    margins = records[0]
    for record in records[1:]:
        margins = margins.merge(record)
    requests = [request] * x.shape[1] if not isinstance(request, list) else request
    return fit_shapes(requests, margins, limits_of(floor, ceiling, x.shape[1], names), names)


def powers(x, floor=None, ceiling=None):
    margins = MarginsQuestion()(Block(x, 0, None))
    low, high = -np.inf if floor is None else floor, np.inf if ceiling is None else ceiling
    return fit_powers(
        [Column.of(m, low, high, float(n), "float64") for m, n in zip(margins.columns, margins.rows, strict=True)]
    )


# --- powers against the likelihood itself ---------------------------------------------------------


def negative_log_likelihood(parameters, x, shape, floor, ceiling):
    exponent, bias, log_scale = parameters
    power, scale = Power(exponent, shape.origin, shape.unit), np.exp(log_scale)
    above = (x > floor) & (x < ceiling)
    level = (scipy.stats.norm.logpdf(power.to_latent(x[above]), bias, scale) + power.log_slope(x[above])).sum()
    if floor > -np.inf:
        level += (x <= floor).sum() * log_ndtr((float(power.to_latent(floor)) - bias) / scale)
    if ceiling < np.inf:
        level += (x >= ceiling).sum() * log_ndtr((bias - float(power.to_latent(ceiling))) / scale)
    return -level


def brute_force(x, shape, floor, ceiling):
    """(exponent, its standard error) where the likelihood of exponent, bias and scale is highest."""
    latent = shape.to_latent(x)
    start = [shape.exponent + 0.05, latent.mean(), np.log(latent.std())]
    args = (x, shape, floor, ceiling)
    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 4000, "maxfev": 4000}
    best = scipy.optimize.minimize(negative_log_likelihood, start, args, method="Nelder-Mead", options=options).x
    steps = np.diag([1e-3, 1e-3 * np.exp(best[2]), 1e-3])
    hessian = np.empty((3, 3))
    for i, one in enumerate(steps):
        for j, other in enumerate(steps):
            corners = [
                a * b * negative_log_likelihood(best + a * one + b * other, *args) for a in (1, -1) for b in (1, -1)
            ]
            hessian[i, j] = sum(corners) / (4.0 * one[i] * other[j])
    return best[0], np.sqrt(np.linalg.inv(hessian)[0, 0])


CASES = {
    "no floor": (np.exp(0.6 * rng.standard_normal(600)), None, None),
    "both signs": (np.expm1(0.5 * rng.standard_normal(600)), None, None),
    "positive floor": (np.maximum(np.exp(0.7 * rng.standard_normal(600)), 0.8), 0.8, None),
    "floor of 0": (np.maximum(np.expm1(0.5 * rng.standard_normal(600)), 0.0), 0.0, None),
    "ceiling": (np.minimum(np.exp(0.5 * rng.standard_normal(600)), 1.2), None, 1.2),
    "near 300": (300.0 + rng.standard_normal(600) ** 2, None, None),
    "tiny": (1e-8 * rng.gamma(2.0, size=600), None, None),
    "huge": (1e12 * rng.gamma(2.0, size=600), None, None),
    "left tail": (np.maximum(10.0 - np.exp(0.8 * rng.standard_normal(600)), 8.0), 8.0, None),
}


@pytest.mark.parametrize("name", ["no floor", "both signs", "positive floor", "floor of 0", "ceiling", "tiny"])
def test_the_exponent_is_the_likeliest(name):
    x, floor, ceiling = CASES[name]
    (fit,) = powers(x[:, None], floor, ceiling)
    low, high = -np.inf if floor is None else floor, np.inf if ceiling is None else ceiling
    unit = fit.shape.unit  # the optimizer's steps are for numbers near 1
    scaled = Power(fit.shape.exponent, fit.shape.origin / unit, 1.0)
    exponent, stderr = brute_force(x / unit, scaled, low / unit, high / unit)
    assert abs(fit.shape.exponent - exponent) < 2e-5
    assert_allclose(fit.shape.exponent_stderr, stderr, rtol=0.03)


def test_without_a_floor_it_is_box_and_cox():
    x = CASES["no floor"][0]
    (shape,) = fitted("power", x)
    expected = scipy.optimize.minimize_scalar(lambda e: -scipy.stats.boxcox_llf(e, x), bracket=(-0.5, 0.5), tol=1e-9)
    assert abs(shape.exponent - expected.x) < 2e-5


@pytest.mark.parametrize("name", CASES)
def test_powers_gain_over_the_normal(name):
    x, floor, ceiling = CASES[name]
    (fit,) = powers(x[:, None], floor, ceiling)
    assert fit.gain > 10.0
    assert fit.shape.exponent_stderr > 0.0
    assert fit.distance < fit.normal_distance


def test_exponents_scatter_as_their_errors_say():
    y = 0.5 * rng.standard_normal((2000, 100)) + 2.0
    x = np.maximum(Power(0.4).from_latent(y), float(Power(0.4).from_latent(1.8)))
    fits = powers(x, floor=x.min())
    z = [(fit.shape.exponent - 0.4) / fit.shape.exponent_stderr for fit in fits]
    assert 0.6 < np.mean(np.square(z)) < 1.5  # 1 +- 0.14
    assert abs(np.mean(z)) < 0.35


def test_the_last_exponents_are_kept_to():
    (high,) = fitted("power", 100.0 - np.exp(rng.standard_normal(500)))
    assert -1.0 <= high.exponent <= 3.0
    (low,) = fitted("power", 1.0 / rng.uniform(0.001, 1.0, 500) ** 2)
    assert -1.0 <= low.exponent <= 3.0


# --- the record alone decides ---------------------------------------------------------------------


@pytest.mark.parametrize("request_", ["power", "free", "auto", "log"])
def test_splits_orders_and_weights_give_the_same_shapes(request_):
    x = np.maximum(np.exp(rng.standard_normal((9000, 3))), 0.3)
    x[:, 2] = np.round(x[:, 2], 1) + 0.3
    whole = fitted(request_, x, floor=0.3)
    assert fitted(request_, x, floor=0.3, parts=13) == whole
    assert fitted(request_, x[rng.permutation(9000)], floor=0.3, parts=3) == whole
    weights = rng.integers(0, 3, 9000)
    few = fitted(request_, x, floor=0.3, weights=0.1 * weights, parts=3)
    repeated = fitted(request_, np.repeat(x, weights, axis=0), floor=0.3)
    for one, other in zip(few, repeated, strict=True):
        assert one.seen == other.seen
        if request_ == "power":
            assert one.unit == other.unit
            assert abs(one.exponent - other.exponent) < 1e-8
        at = np.linspace(0.4, 3.0, 7)
        assert_allclose(one.to_latent(at), other.to_latent(at), rtol=1e-6, atol=1e-6)


def test_equal_weights_do_not_choose_the_unit_by_rounding():
    x = np.exp(rng.standard_normal(1000))
    (plain,) = fitted("power", x)
    for weight in (0.1, 0.3, 1e-3, 7.7):
        (weighted,) = fitted("power", x, weights=np.full(1000, weight), parts=7)
        assert weighted.unit == plain.unit
        assert abs(weighted.exponent - plain.exponent) < 1e-10


# --- free -----------------------------------------------------------------------------------------


def test_free_scores_are_those_of_the_empirical_law():
    x = rng.gamma(2.0, size=300)
    (shape,) = fitted("free", x)
    rank = scipy.stats.rankdata(x)
    assert_allclose(shape.to_latent(x), ndtri((rank - 0.5) / 300), atol=1e-12)


def test_free_scores_begin_at_the_share_floored():
    x = np.maximum(rng.gamma(2.0, size=4000) - 1.0, 0.0)
    (shape,) = fitted("free", x, floor=0.0)
    share = (x == 0.0).mean()
    assert_allclose(float(shape.to_latent(0.0)), ndtri(share), atol=1e-12)
    seen = x[x > 0.0]
    level = np.searchsorted(np.sort(x), seen, side="right") / len(x)
    assert np.abs(scipy.stats.norm.cdf(shape.to_latent(seen)) - level).max() < 2e-3


def test_free_scores_end_at_the_share_above_the_ceiling():
    x = np.minimum(rng.gamma(2.0, size=3000), 2.5)
    (shape,) = fitted("free", x, ceiling=2.5)
    assert_allclose(float(shape.to_latent(2.5)), ndtri((x < 2.5).mean()), atol=1e-12)
    assert shape.values[-1] == 2.5


def test_free_follows_many_values_closely():
    x = np.exp(rng.standard_normal(50_000))
    (shape,) = fitted("free", x)
    assert len(shape.values) <= 520
    level = scipy.stats.rankdata(x) / 50_000
    assert np.abs(scipy.stats.norm.cdf(shape.to_latent(x)) - level).max() < 3e-3
    assert (shape.seen.low, shape.seen.high) == (x.min(), x.max())
    assert shape.values[-1] == x.max()


def test_free_with_weights_that_leave_little():
    weights = np.array([1e6, 1.0, 1.0, 1.0, 1e-6])
    (shape,) = fitted("free", np.array([0.0, 1.0, 2.0, 3.0, 4.0]), floor=0.0, weights=weights)
    assert_array_equal(shape.values, [0.0, 1.0, 2.0, 3.0, 4.0])


# --- auto -----------------------------------------------------------------------------------------


def normal_columns(d):
    x = rng.standard_normal((500, d)) + rng.uniform(-0.5, 2.0, d)
    x[:, : d // 2] = np.maximum(x[:, : d // 2], 0.0)
    return x, [0.0] * (d // 2) + [None] * (d - d // 2)


def leavers(d):
    x, floor = normal_columns(d)
    return sum(shape.kind != "normal" for shape in fitted("auto", x, floor=floor))


def test_auto_leaves_normal_columns_alone():
    assert leavers(150) <= 3


@pytest.mark.slow
def test_auto_leaves_a_thousand_normal_columns_alone():
    assert leavers(1000) <= 7  # one in a thousand is meant


def test_auto_takes_what_fits():
    y = rng.standard_normal((2000, 4))
    x = np.column_stack([np.exp(y[:, 0]), y[:, 1], scipy.stats.norm.cdf(1.5 * y[:, 2]), np.sinh(y[:, 3] * 1.5)])
    assert [shape.kind for shape in fitted("auto", x)] == ["power", "normal", "free", "free"]


def test_auto_does_not_take_what_cannot_be_learned():
    x = np.column_stack([rng.integers(0, 3, 300), np.full(300, 2.0), np.where(np.arange(300) < 5, 1.0, 0.0)])
    assert [shape.kind for shape in fitted("auto", x, floor=0.0)] == ["normal"] * 3


def test_counts_and_few_values():
    counts = rng.poisson(1.5, 500).astype(float)
    power, free = fitted(["power", "free"], np.column_stack([counts, counts]), floor=0.0)
    assert_array_equal(free.values, np.unique(counts))
    assert np.isfinite(power.exponent)
    assert power.seen == Seen(0.0, counts.max(), 1.0)


# --- what was seen --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "step"),
    [
        (np.arange(40.0), 1.0),
        (np.arange(40.0) / 10, 0.1),
        (np.round(rng.random(40), 3), 1e-3),
        (np.arange(40) / 10 + 0.05, 0.01),
        (rng.random(40), 0.0),
        (rng.random(40) * 1e-9, 0.0),
        (np.arange(40.0) * 1e-9, 1e-9),
        (rng.random(40) * 1e13, 0.0),
        (np.arange(9000.0), 1.0),
    ],
)
def test_steps(x, step):
    assert fitted("auto", x)[0].seen == Seen(x.min(), x.max(), step)


def test_steps_of_smaller_floats():
    x = (np.arange(300) / 10).astype(np.float32)
    assert fitted("free", x)[0].seen.step == 0.1
    assert fitted("free", rng.random(300).astype(np.float32))[0].seen.step == 0.0


# --- refusals -------------------------------------------------------------------------------------

POSITIVE = np.exp(rng.standard_normal(100))


@pytest.mark.parametrize(
    ("request_", "x", "floor", "message"),
    [
        ("log", np.maximum(POSITIVE - 1.0, 0.0), 0.0, r"'log' of column 0 \('As'\): its limit 0 has no logarithm"),
        (
            "log",
            POSITIVE - 0.5,
            None,
            r"'log' of column 0 \('As'\): a value of -.* has no logarithm.*'power' or 'free'",
        ),
        (Log(), POSITIVE - 0.5, None, "has no logarithm"),
        (Power(0.5, 1.0), POSITIVE, None, "'power' of column 0.* is not above the shape's origin 1"),
        ("power", POSITIVE[:19], None, r"19 different values in about 19 rows above the floor are too few.*'log'"),
        ("power", rng.integers(0, 4, 200).astype(float), 0.0, "3 different values .* are too few"),
        ("power", np.full(5, np.nan), None, "0 different values in about 0 rows"),
        ("free", np.where(POSITIVE > 1.0, 2.0, 0.0), 0.0, r"'free' of column 0 \('As'\): 1 different values above its"),
        ("free", np.full(5, np.nan), None, "0 different values"),
    ],
)
def test_shapes_that_a_column_cannot_have(request_, x, floor, message):
    with pytest.raises(InvalidDataError, match=message):
        fitted(request_, x, floor=floor, names=["As"])


def test_given_shapes_are_kept():
    given = [Power(0.3, 0.0, 2.0), Free(np.array([0.0, 9.0]), np.array([-1.0, 1.0])), "log", "normal"]
    found = fitted(given, np.tile(POSITIVE[:, None], 4))
    assert found[:2] == tuple(given[:2])
    seen = Seen(POSITIVE.min(), POSITIVE.max(), 0.0)
    assert found[2:] == (Log(seen), Normal(seen))
