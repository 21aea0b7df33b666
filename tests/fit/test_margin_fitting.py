"""Margins from margins: powers against a brute-force likelihood and simulation, free ones against empirical
distributions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr, ndtri

from unrelu.contracts import Block
from unrelu.errors import InvalidDataError
from unrelu.fit.margins import (
    Column,
    censored_fits,
    empirical_distribution,
    fit_exponents,
    fit_margins,
    unreached_floors,
)
from unrelu.limits import limits_of
from unrelu.margins import BoxCox, Log, Monotone, Normal, Seen
from unrelu.passes.columns import margins_of
from unrelu.tables.prepared import Columns

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws the same, whichever ran before it."""
    rng.bit_generator.state = np.random.default_rng(0).bit_generator.state


def columns_of(floor, ceiling, n_features, names):
    return Columns(*limits_of(floor, ceiling, n_features, names)[0], names, 0.0)


def fitted(request, x, floor=None, ceiling=None, weights=None, parts=1, names=None):
    """The margins of a table's columns, all asked for alike."""
    x = np.asarray(x)
    x = x[:, None] if x.ndim == 1 else x
    blocks = np.array_split(np.arange(len(x)), parts)
    records = [margins_of(Block(x[rows], 0, None if weights is None else weights[rows])) for rows in blocks]
    margins = records[0]
    for record in records[1:]:
        margins = margins.merge(record)
    requests = [request] * x.shape[1] if not isinstance(request, list) else request
    return fit_margins(requests, margins, columns_of(floor, ceiling, x.shape[1], names), names)


def exponents(x, floor=None, ceiling=None):
    margins = margins_of(Block(x, 0, None))
    limits = columns_of(floor, ceiling, x.shape[1], None)
    return fit_exponents([Column.of(margins, j, limits) for j in range(x.shape[1])])


# --- powers against the likelihood itself ---------------------------------------------------------


def negative_log_likelihood(parameters, x, margin, floor, ceiling):
    exponent, mean, log_scale = parameters
    power, scale = BoxCox(exponent, margin.origin, margin.unit), np.exp(log_scale)
    above = (x > floor) & (x < ceiling)
    level = (scipy.stats.norm.logpdf(power.to_latent(x[above]), mean, scale) + power.log_slope(x[above])).sum()
    if floor > -np.inf:
        level += (x <= floor).sum() * log_ndtr((float(power.to_latent(floor)) - mean) / scale)
    if ceiling < np.inf:
        level += (x >= ceiling).sum() * log_ndtr((mean - float(power.to_latent(ceiling))) / scale)
    return -level


def brute_force(x, margin, floor, ceiling):
    """(exponent, its standard error) where the likelihood of exponent, mean and scale is highest."""
    latent = margin.to_latent(x)
    start = [margin.exponent + 0.05, latent.mean(), np.log(latent.std())]
    args = (x, margin, floor, ceiling)
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
    "no floor": (np.abs(2.0 + 0.5 * rng.standard_normal(600)) ** 3, None, None),
    "both signs": (rng.standard_normal(600), None, None),
    "positive floor": (np.maximum((1.5 + 0.5 * rng.standard_normal(600)) ** 2, 0.8), 0.8, None),
    "floor of 0": (np.maximum(np.expm1(0.5 * rng.standard_normal(600)), 0.0), 0.0, None),
    "ceiling": (np.minimum((1.5 + 0.4 * rng.standard_normal(600)) ** 2, 2.8), None, 2.8),
    "tiny": (1e-8 * rng.gamma(2.0, size=600), None, None),
    "huge": (1e12 * rng.gamma(2.0, size=600), None, None),
}


@pytest.mark.parametrize("name", ["no floor", "both signs", "positive floor", "floor of 0", "ceiling", "tiny"])
def test_the_exponent_is_the_likeliest(name):
    x, floor, ceiling = CASES[name]
    (margin,) = exponents(x[:, None], floor, ceiling)
    low, high = -np.inf if floor is None else floor, np.inf if ceiling is None else ceiling
    unit = margin.unit  # the optimizer's steps are for numbers near 1
    scaled = BoxCox(margin.exponent, margin.origin / unit, 1.0)
    exponent, stderr = brute_force(x / unit, scaled, low / unit, high / unit)
    assert abs(margin.exponent - exponent) < 2e-5
    assert_allclose(margin.exponent_stderr, stderr, rtol=0.03)


def test_without_a_floor_it_is_box_and_cox():
    x = CASES["no floor"][0]
    (margin,) = fitted("boxcox", x)
    expected = scipy.optimize.minimize_scalar(lambda e: -scipy.stats.boxcox_llf(e, x), bracket=(-0.5, 0.5), tol=1e-9)
    assert abs(margin.exponent - expected.x) < 2e-5


def test_exponents_scatter_as_their_errors_say():
    y = 0.5 * rng.standard_normal((2000, 100)) + 2.0
    x = np.maximum(BoxCox(0.8).from_latent(y), float(BoxCox(0.8).from_latent(1.8)))
    z = [(margin.exponent - 0.8) / margin.exponent_stderr for margin in exponents(x, floor=x.min())]
    assert 0.6 < np.mean(np.square(z)) < 1.5  # 1 +- 0.14
    assert abs(np.mean(z)) < 0.35


def test_the_last_exponents_are_kept_to():
    (high,) = fitted("boxcox", 100.0 - np.exp(rng.standard_normal(500)))
    assert high.exponent == 2.0
    (low,) = fitted("boxcox", 1.0 / rng.uniform(0.001, 1.0, 500) ** 2)
    assert low.exponent == 0.0  # below 0 there would be no mean


# --- the record alone decides ---------------------------------------------------------------------


@pytest.mark.parametrize("request_", ["boxcox", "monotone", "auto", "log"])
def test_splits_orders_and_weights_give_the_same_margins(request_):
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
        if request_ == "boxcox":
            assert one.unit == other.unit
            assert abs(one.exponent - other.exponent) < 1e-8
        at = np.linspace(0.4, 3.0, 7)
        assert_allclose(one.to_latent(at), other.to_latent(at), rtol=1e-6, atol=1e-6)


def test_equal_weights_do_not_choose_the_unit_by_rounding():
    x = np.exp(rng.standard_normal(1000))
    (plain,) = fitted("boxcox", x)
    for weight in (0.1, 0.3, 1e-3, 7.7):
        (weighted,) = fitted("boxcox", x, weights=np.full(1000, weight), parts=7)
        assert weighted.unit == plain.unit
        assert abs(weighted.exponent - plain.exponent) < 1e-10


# --- free -----------------------------------------------------------------------------------------


def normal_fit(seen, cut, floor):
    """Mean and spread of the normal under which what is seen, and so many values below the floor, are likeliest."""

    def level(parameters):
        b, s = parameters[0], np.exp(parameters[1])
        return -scipy.stats.norm.logpdf(seen, b, s).sum() - cut * log_ndtr((floor - b) / s)

    options = {"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000}
    found = scipy.optimize.minimize(level, [seen.mean(), np.log(seen.std())], method="Nelder-Mead", options=options)
    return found.x[0], np.exp(found.x[1])


def test_monotone_scores_are_those_of_the_empirical_distribution():
    x = rng.gamma(2.0, size=300)
    (margin,) = fitted("monotone", x)
    scores, logs = ndtri((scipy.stats.rankdata(x) - 0.5) / 300), np.log(x)
    assert_allclose(margin.to_latent(x), logs.mean() + logs.std() * scores, atol=1e-12)


def test_monotone_scores_begin_at_the_share_floored():
    x = np.maximum(rng.gamma(2.0, size=4000) - 1.0, 0.0)
    (margin,) = fitted("monotone", x, floor=0.0)
    at, seen = np.sort(x), x[x > 0.0]
    b, s = normal_fit(seen, np.count_nonzero(x == 0.0), 0.0)
    assert_allclose(float(margin.to_latent(0.0)), b + s * ndtri((x == 0.0).mean()), rtol=1e-4)
    level = np.searchsorted(at, seen, side="right") / len(x)
    assert np.abs(scipy.stats.norm.cdf((margin.to_latent(seen) - b) / s) - level).max() < 2e-3


def test_monotone_scores_end_at_the_share_above_the_ceiling():
    x = np.minimum(rng.gamma(2.0, size=3000), 2.5)
    (margin,) = fitted("monotone", x, ceiling=2.5)
    b, s = normal_fit(-np.log(x[x < 2.5]), np.count_nonzero(x == 2.5), -np.log(2.5))
    share = (x < 2.5).mean()
    row = s / (len(x) * scipy.stats.norm.pdf(ndtri(share)))  # what one row more or fewer below the ceiling would change
    assert_allclose(float(margin.to_latent(2.5)), -b + s * ndtri(share), rtol=1e-5, atol=row)
    assert margin.values[-1] == 2.5
    assert_allclose(np.log(margin.from_latent(margin.to_latent(2.5) + 0.7)), np.log(2.5) + 0.7, rtol=1e-9)
    assert margin.from_latent(1e6) <= 25.0  # ten times the largest value seen


def test_monotone_follows_many_values_closely():
    x = np.exp(rng.standard_normal(50_000))
    (margin,) = fitted("monotone", x)
    assert len(margin.values) <= 520
    level = scipy.stats.rankdata(x) / 50_000
    assert np.abs(scipy.stats.norm.cdf(margin.to_latent(x)) - level).max() < 3e-3
    assert (margin.seen.low, margin.seen.high) == (x.min(), x.max())
    assert margin.values[-1] == x.max()


def test_monotone_with_weights_that_leave_little():
    weights = np.array([1e6, 1.0, 1.0, 1.0, 1e-6])
    (margin,) = fitted("monotone", np.array([0.0, 1.0, 2.0, 3.0, 4.0]), floor=0.0, weights=weights)
    assert_array_equal(margin.values, [0.0, 1.0, 2.0, 3.0, 4.0])


# --- auto -----------------------------------------------------------------------------------------


def normal_columns(d):
    x = rng.standard_normal((500, d)) + rng.uniform(-0.5, 2.0, d)
    x[:, : d // 2] = np.maximum(x[:, : d // 2], 0.0)
    return x, [0.0] * (d // 2) + [None] * (d - d // 2)


def leavers(d):
    x, floor = normal_columns(d)
    return sum(margin.kind != "normal" for margin in fitted("auto", x, floor=floor))


def test_auto_leaves_normal_columns_alone():
    assert leavers(150) <= 1


@pytest.mark.slow
def test_auto_leaves_a_thousand_normal_columns_alone():
    assert leavers(1000) <= 3


@pytest.mark.parametrize("n", [30, 60, 200])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.8])
def test_auto_keeps_lognormal_columns(n, share):
    x = np.exp(rng.standard_normal((n, 150)))
    floor = np.quantile(x, share, axis=0)
    kinds = [margin.kind for margin in fitted("auto", np.maximum(x, floor), floor=floor)]
    assert sum(kind != "log" for kind in kinds) <= 2  # one in a thousand is meant


@pytest.mark.parametrize("n", [60, 200, 2000])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("distribution", ["gamma", "normal", "t", "bimodal", "uniform", "heavy"])
def test_what_auto_takes_of_a_positive_column_stays_positive_and_finite(distribution, n, share):
    z = rng.standard_normal((n, 20))
    x = {
        "gamma": rng.gamma(2.0, size=z.shape),
        "normal": np.abs(3.0 + z),
        "t": np.abs(5.0 + rng.standard_t(5, z.shape)),
        "bimodal": np.exp(0.3 * z + 2.0 * (rng.random(z.shape) < 0.5)),
        "uniform": 1.0 + rng.random(z.shape),
        "heavy": np.exp(rng.standard_t(4, z.shape)),
    }[distribution]
    floor = np.quantile(x, share, axis=0) if share else None
    seen = x if floor is None else np.maximum(x, floor)
    for j, margin in enumerate(fitted("auto", seen, floor=floor)):
        assert margin.kind in ("log", "boxcox", "monotone")
        drawn = margin.from_latent(
            np.linspace(-40.0, 40.0, 401) + (0.0 if margin.kind == "monotone" else margin.to_latent(x[:, j]).mean())
        )
        assert (drawn > 0.0).all()
        assert drawn.max() <= 10.0 * seen[:, j].max() * (1 + 1e-12)
        assert (np.diff(drawn) >= 0.0).all()


def test_auto_takes_what_fits():
    y = rng.standard_normal((2000, 5))
    columns = [
        np.exp(y[:, 0]),
        y[:, 1],
        scipy.stats.norm.cdf(1.5 * y[:, 2]),
        np.sinh(y[:, 3] * 1.5),
        (3.0 + y[:, 4]) ** 2,
    ]
    kinds = [margin.kind for margin in fitted("auto", np.column_stack(columns))]
    assert kinds == ["log", "normal", "monotone", "monotone", "boxcox"]


def test_auto_does_not_take_what_cannot_be_learned():
    x = np.column_stack([rng.integers(0, 3, 300), np.full(300, 2.0), np.where(np.arange(300) < 5, 1.0, 0.0)])
    assert [margin.kind for margin in fitted("auto", x, floor=0.0)] == ["normal"] * 3


def test_a_skewed_column_above_a_floor_of_0_is_monotone_and_has_nothing_below():
    x = np.maximum(np.expm1(1.5 * rng.standard_normal(2000)), 0.0)
    (margin,) = fitted("auto", x, floor=0.0)
    assert margin.kind == "monotone"
    assert_array_equal(margin.from_latent(margin.to_latent(0.0) - [0.0, 3.0, 9.0]), [0.0, 0.0, 0.0])


def test_a_floor_that_no_value_reaches_is_no_floor():
    x = np.exp(rng.standard_normal(300)) + 0.5
    for request_ in ("boxcox", "auto"):
        assert fitted(request_, x, floor=0.0) == fitted(request_, x)
    margins, limits = margins_of(Block(x[:, None])), columns_of(0.0, None, 1, None)
    assert unreached_floors(margins, limits).tolist() == [True]
    assert unreached_floors(margins, columns_of(0.4, None, 1, None)).tolist() == [False]  # a limit that was named


def test_choices_are_those_of_half_the_rows():
    """What clearly rejects the simplest distribution does so with every other row as well, in nine of ten columns."""
    y = rng.standard_normal((1000, 60))
    x = np.hstack([np.exp(y[:, :20]), (2.5 + y[:, 20:40] / 2) ** 2, np.exp(0.3 * y[:, 40:] + 3.0 * (y[:, 40:] > 0.0))])
    whole, half = ([margin.kind for margin in fitted("auto", each)] for each in (x, x[::2]))
    assert sum(a == b for a, b in zip(whole, half, strict=True)) >= 54


# --- below the floor ------------------------------------------------------------------------------


def test_a_monotone_margin_goes_on_below_its_floor_as_the_columns_censored_fit_says():
    x = np.maximum(np.exp(0.7 * rng.standard_normal(4000)), 1.0)
    (margin,) = fitted("monotone", x, floor=1.0)
    logs, cut = np.log(x[x > 1.0]), np.count_nonzero(x <= 1.0)
    b, s = normal_fit(logs, cut, 0.0)
    start = float(margin.to_latent(1.0))
    assert_allclose(start, b + s * ndtri(cut / 4000), atol=1e-5)
    assert_allclose(np.log(margin.from_latent(start - 2.0)), -2.0, rtol=1e-9)
    assert_allclose(
        margin.to_latent(margin.from_latent([start - 2.0, start + 0.3])), [start - 2.0, start + 0.3], rtol=1e-9
    )


def test_below_a_negative_floor_a_monotone_margin_falls_as_a_normal_one():
    x = np.maximum(rng.standard_normal(4000) - 1.0, -1.5)
    (margin,) = fitted("monotone", x, floor=-1.5)
    start = float(margin.to_latent(-1.5))
    assert abs(start + 1.5) < 4.0 * 0.02  # latent values are in the column's units; about the errors of mean and spread
    assert_allclose(margin.from_latent(start - 1.0), -2.5, rtol=1e-9)


def test_below_a_floor_of_0_a_monotone_margin_falls_unless_zeros_are_those_of_rain():
    y = rng.standard_normal(4000)
    (margin,) = fitted("monotone", np.maximum(y + 0.3 * (y**2 - 1.0), 0.0), floor=0.0)
    assert_allclose(margin.from_latent(margin.to_latent(0.0) - 1.0), -1.0, rtol=1e-9)
    spend = np.where(y > 0.0, np.exp(2.0 * y), 0.0)[:150]
    for rain in (np.where(y > 0.0, rng.gamma(0.7, size=4000), 0.0), np.floor(np.exp(1.2 * y)), spend, 1e-100 * spend):
        (margin,) = fitted("monotone", rain, floor=0.0)
        assert float(margin.from_latent(margin.to_latent(0.0) - 1.0)) == 0.0


# --- cells with limits of their own ---------------------------------------------------------------


def own_limits(n, seed=0, share=0.5):
    """(values, marks, truth): half of the cells are only known to be at most, or at least, a limit of their own."""
    draw = np.random.default_rng(seed)
    truth = np.exp(draw.standard_normal(n))
    limit = np.exp(draw.normal(0.0, 0.7, n))
    side = np.where(draw.random(n) < 0.8, -1, 1) * (draw.random(n) < 2 * share)
    marks = np.where((side < 0) & (truth < limit), -1, np.where((side > 0) & (truth > limit), 1, 0)).astype(np.int8)
    return np.where(marks == 0, truth, limit)[:, None], marks[:, None], truth


def fitted_with_limits(request_, x, marks):
    margins = margins_of(Block(x, 0, censoring=marks))
    return fit_margins([request_], margins, columns_of(None, None, 1, None), None)[0], margins


def test_the_empirical_distribution_of_cells_with_limits_is_the_most_likely_one():
    x, marks, _ = own_limits(60)
    _, margins = fitted_with_limits("log", x, marks)
    column = Column.of(margins, 0, columns_of(None, None, 1, None))
    before, mass = empirical_distribution(column)

    def level(p):
        """The log-likelihood of masses below, at and above the values seen."""
        at = column.x
        total = np.log(p[1:-1][np.searchsorted(at, x[marks == 0])]).sum()
        total += sum(np.log(p[: np.searchsorted(at, limit, side="right") + 1].sum()) for limit in x[marks < 0])
        return total + sum(np.log(p[np.searchsorted(at, limit) + 1 :].sum()) for limit in x[marks > 0])

    found = np.concatenate([before[:1], mass, [1.0 - before[-1] - mass[-1]]])
    assert_allclose(found.sum(), 1.0, atol=1e-6)
    best = level(np.maximum(found, 1e-12))
    for _ in range(200):
        moved = np.maximum(found, 1e-12) * np.exp(0.05 * rng.standard_normal(len(found)))
        assert level(moved / moved.sum()) <= best + 1e-6


def test_turnbull_of_left_limits_is_kaplan_and_meiers_negated():
    x, marks, _ = own_limits(300)
    marks = np.where(marks > 0, 0, marks).astype(np.int8)
    _, margins = fitted_with_limits("log", x, marks)
    column = Column.of(margins, 0, columns_of(None, None, 1, None))
    before, _ = empirical_distribution(column)
    values, below = x[:, 0], marks[:, 0] < 0
    expected, level = [], 1.0
    for value in column.x[::-1]:  # from the largest down: at risk are the values and limits up to here
        level *= 1.0 - 1.0 / np.count_nonzero(values <= value)
        expected.append(level)
    assert below.any()
    assert_allclose(before, expected[::-1], atol=1e-5)


def test_margins_of_cells_with_limits():
    x, marks, truth = own_limits(2000)
    margin, _ = fitted_with_limits("auto", x, marks)
    assert margin.kind == "log"
    free, _ = fitted_with_limits("monotone", x, marks)
    at = np.quantile(truth, [0.2, 0.5, 0.8])
    assert np.abs(free.to_latent(at) - ndtri([0.2, 0.5, 0.8])).max() < 0.15  # three standard errors, about
    lumpy, _ = fitted_with_limits("auto", np.where(x > 1.0, 5.0 * x, x), marks)
    assert lumpy.kind == "monotone"


def test_the_fit_of_any_number_of_limits_is_the_most_likely_one():
    x, marks, _ = own_limits(400)
    _, margins = fitted_with_limits("log", x, marks)
    column = Column.of(margins, 0, columns_of(None, None, 1, None))
    mean, scale, level = censored_fits([column], [np.log(column.x)], [np.log])

    def negative(parameters):
        b, s = parameters[0], np.exp(parameters[1])
        y, m = np.log(x[:, 0]), marks[:, 0]
        seen = scipy.stats.norm.logpdf(y[m == 0], b, s).sum()
        return -seen - log_ndtr((y[m < 0] - b) / s).sum() - log_ndtr((b - y[m > 0]) / s).sum()

    best = scipy.optimize.minimize(negative, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-10})
    assert_allclose([mean[0], np.log(scale[0])], best.x, atol=1e-6)
    constant = 0.5 * np.log(2.0 * np.pi) * np.count_nonzero(marks == 0)
    assert_allclose(level[0] - constant, -best.fun, rtol=1e-9)


def test_counts_and_few_values():
    counts = rng.poisson(1.5, 500).astype(float)
    power, free = fitted(["boxcox", "monotone"], np.column_stack([counts, counts]), floor=0.0)
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
    assert fitted("monotone", x)[0].seen.step == 0.1
    assert fitted("monotone", rng.random(300).astype(np.float32))[0].seen.step == 0.0


# --- refusals -------------------------------------------------------------------------------------

POSITIVE = np.exp(rng.standard_normal(100))


@pytest.mark.parametrize(
    ("request_", "x", "floor", "message"),
    [
        ("log", np.maximum(POSITIVE - 1.0, 0.0), 0.0, r"'log' of column 0 \('As'\): its limit 0 has no logarithm"),
        ("log", POSITIVE - 0.5, None, r"'log' of column 0 \('As'\): a value of -.* has no logarithm.*margins='auto'"),
        (Log(), POSITIVE - 0.5, None, "has no logarithm"),
        (BoxCox(0.5, 1.0), POSITIVE, None, "'boxcox' of column 0.* is not above the margin's origin 1"),
        ("boxcox", POSITIVE[:19], None, r"19 different values in about 19 rows above the floor are too few.*'log'"),
        ("boxcox", rng.integers(0, 4, 200).astype(float), 0.0, "3 different values .* are too few"),
        ("boxcox", np.full(5, np.nan), None, "0 different values in about 0 rows"),
        (
            "monotone",
            np.where(POSITIVE > 1.0, 2.0, 0.0),
            0.0,
            r"'monotone' of column 0 \('As'\): 1 different values above its",
        ),
        ("monotone", np.full(5, np.nan), None, "0 different values"),
    ],
)
def test_margins_that_a_column_cannot_have(request_, x, floor, message):
    with pytest.raises(InvalidDataError, match=message):
        fitted(request_, x, floor=floor, names=["As"])


def test_given_margins_are_kept():
    given = [BoxCox(0.3, 0.0, 2.0), Monotone(np.array([0.0, 9.0]), np.array([-1.0, 1.0])), "log", "normal"]
    found = fitted(given, np.tile(POSITIVE[:, None], 4))
    assert found[:2] == tuple(given[:2])
    seen = Seen(POSITIVE.min(), POSITIVE.max(), 0.0)
    assert found[2:] == (Log(seen), Normal(seen))
