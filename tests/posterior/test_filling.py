"""Which cells are filled in, and with what below a floor: against simulation and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from unrelu import FloorImputer, RectifiedGaussian
from unrelu.errors import InvalidParameterError
from unrelu.margins import Log, Monotone, Seen
from unrelu.posterior.marginals import CutNormals

NAN = np.nan
RAIN = RectifiedGaussian([-0.5, 0.3, 0.5], [[1.0, 0.6, 0.5], [0.6, 2.0, 0.4], [0.5, 0.4, 1.0]], [0.0, 0.0, -np.inf])


def holes():
    X = RAIN.sample(60, random_state=0)
    X[::5, 0] = NAN
    X[1::7, 1] = NAN
    return X


@pytest.mark.parametrize(("centre", "width"), [(0.0, 1.0), (-3.0, 0.7), (4.0, 2.0), (-30.0, 1.0), (0.4, 1e-9)])
@pytest.mark.parametrize(("floor", "ceiling"), [(0.4, np.inf), (-np.inf, 1.5), (0.4, 2.0), (0.0, np.inf)])
@pytest.mark.parametrize("f", [np.positive, np.exp])
def test_moments_of_what_is_shown_are_integrals(centre, width, floor, ceiling, f):
    low, high = (floor, ceiling) if f is np.positive else np.log(np.maximum([floor, ceiling], 1e-300))
    one = CutNormals(np.array([centre]), np.array([width]), np.zeros(1), np.zeros(1, dtype=np.int8))
    mean, std = one.shown_moments(f, (floor, ceiling, float(low), float(high)))

    def expected(power, about):
        def integrand(z):
            return (np.clip(f(centre + width * z), floor, ceiling) - about) ** power * norm.pdf(z)

        edges = [(edge - centre) / width for edge in (low, high) if abs(edge - centre) < 30.0 * width]
        return quad(integrand, -12.0, 12.0, points=edges or None, limit=400, epsabs=1e-13)[0]

    first = expected(1, 0.0)
    assert mean[0] == pytest.approx(first, rel=1e-6, abs=1e-9)
    assert std[0] == pytest.approx(np.sqrt(expected(2, first)), rel=1e-4, abs=1e-7)


def test_moments_of_values_that_overflow_are_numbers():
    wide = CutNormals(np.zeros(2), np.array([300.0, 1.0]), np.zeros(2), np.zeros(2, dtype=np.int8))
    for mean, std in (wide.moments(np.exp), wide.shown_moments(np.exp, (1.0, np.inf, 0.0, np.inf))):
        assert np.isfinite([mean, std]).all()
        assert mean[1] < 10.0


def test_a_normal_cut_off_has_the_moments_of_the_book():
    one = CutNormals(np.zeros(1), np.ones(1), np.zeros(1), np.array([-1], dtype=np.int8))
    assert one.moments(np.positive)[0] == pytest.approx(-np.sqrt(2.0 / np.pi), abs=1e-12)
    assert one.moments(np.exp)[0] == pytest.approx(2.0 * np.sqrt(np.e) * norm.cdf(-1.0), abs=1e-12)
    whole = CutNormals.whole(np.zeros(1), np.ones(1))
    assert whole.shown_moments(np.positive, (0.0, np.inf, 0.0, np.inf))[0] == pytest.approx(1 / np.sqrt(2 * np.pi))
    assert whole.quantile(0.975) == pytest.approx(norm.ppf(0.975))


def test_filled_at_the_floor_is_what_the_table_would_show():
    """The mean of max(y, 0) is computed, and is not the maximum of the mean and 0; against draws."""
    X = holes()
    missing = np.isnan(X)
    filled, std = RAIN.impute(X, return_std=True, below="floor")
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    assert (filled[missing] > 0.0).all()
    assert (std[~missing] == 0.0).all()
    draws = RAIN.sample_latent(X, 4000, random_state=1, below="floor")
    np.testing.assert_array_equal(draws[:, ~missing], np.broadcast_to(X[~missing], draws[:, ~missing].shape))
    np.testing.assert_array_equal(draws, np.maximum(RAIN.sample_latent(X, 4000, random_state=1), RAIN.floor))
    mean, spread = draws.mean(axis=0), draws.std(axis=0)
    # Draws are exact; means by expectation propagation are within 1.4 % of a standard deviation.
    assert (np.abs(filled - mean)[missing] < (5.0 / np.sqrt(4000) + 0.02) * spread[missing]).all()
    np.testing.assert_allclose(std[missing], spread[missing], rtol=0.1, atol=0.02)
    low = RAIN.impute(X, quantile=0.05, below="floor")
    np.testing.assert_array_equal(low, np.maximum(RAIN.impute(X, quantile=0.05), RAIN.floor))
    only = RAIN.predict(X[:5], 0)  # of column 0 missing in row 0
    assert filled[0, 0] == pytest.approx(only.mean[0])
    assert std[0, 0] == pytest.approx(only.std[0])


@pytest.mark.parametrize("fill", ["both", "hidden", "missing"])
def test_other_cells_stay(fill):
    X = holes()
    missing, floored = np.isnan(X), RAIN.floor >= X
    chosen = {"both": missing | floored, "hidden": floored, "missing": missing}[fill]
    imputer = FloorImputer.from_model(RAIN, fill=fill)
    np.testing.assert_array_equal(imputer.mask(X), chosen)
    every = RAIN.impute(X)
    for found, full in (
        (RAIN.impute(X, fill=fill), every),
        (imputer.transform(X), every),
        (imputer.quantile(X, 0.3), RAIN.impute(X, quantile=0.3)),
        (imputer.draw(X, 1, 5)[0], RAIN.sample_latent(X, 1, 5)[0]),
    ):
        np.testing.assert_array_equal(found, np.where(chosen, full, X))
    np.testing.assert_array_equal(imputer.std(X) > 0.0, chosen)


def test_ceilings_are_negated():
    X = holes()
    negated = RAIN.negated([True, True, True])
    other = FloorImputer.from_model(negated, below="floor").transform(-X)
    np.testing.assert_allclose(other, -RAIN.impute(X, below="floor"), atol=1e-12)
    np.testing.assert_array_equal(negated.impute(-X, fill="missing")[X == 0.0], 0.0)


def test_cells_within_the_tolerance_show_the_floor():
    X = RAIN.sample(200, random_state=2)
    X[X == 0.0] = 0.01
    X[3, 0] = NAN
    imputer = FloorImputer.from_model(RAIN, below="floor", floor_tolerance=0.02)
    filled = imputer.transform(X)
    near = X[:, :2] <= 0.02
    np.testing.assert_allclose(filled[:, :2][near], 0.0, atol=1e-15)
    assert filled[3, 0] > 0.0


def test_a_monotone_margin_is_not_evaluated_below_its_floor():
    margin = Monotone(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 2.0]), Seen(1.0, 4.0))
    model = RectifiedGaussian([0.0, 0.0], np.eye(2), [1.0, -np.inf], margins=[margin, Log()])
    X = np.array([[1.0, 1.0], [NAN, 2.0]])
    for filled in (model.impute(X, below="floor"), model.impute(X, fill="missing")):
        assert filled[0, 0] == 1.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"fill": "hiden"}, "Did you mean 'hidden'"),
        ({"below": "flor"}, "Did you mean 'floor'"),
        ({"fill": "hidden", "below": "floor"}, "leave every cell as it is"),
    ],
)
def test_bad_choices(options, match):
    X = holes()
    for ask in (lambda: RAIN.impute(X, **options), lambda: RAIN.sample_latent(X, **options)):
        with pytest.raises(InvalidParameterError, match=match):
            ask()
    with pytest.raises(InvalidParameterError, match=match):
        FloorImputer.from_model(RAIN, **options).transform(X)
