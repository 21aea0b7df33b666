"""The test for skewed columns: its variance and tail by simulation, its power, and what it says of the mean."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtri

from unrelu.checks.findings import skewness_of, truncated_moments
from unrelu.checks.misfit import normalized
from unrelu.contracts import Assumptions, Block
from unrelu.fit.columns import fit_columns
from unrelu.passes.pair_moments import PairMomentsQuestion


def examined(x):
    """Every column of x by itself, with floor 0."""
    floor = (0.0,) * x.shape[1]
    question = PairMomentsQuestion(floor, floor)
    record = question(Block(x))
    rows = fit_columns(record, Assumptions(floor))
    return skewness_of(record.margins, rows), rows


@pytest.mark.parametrize("a", [-3.0, -0.5, 0.0, 1.2, 6.0])
def test_moments_are_the_integrals(a):
    found = truncated_moments(np.array([a]), 9)[:, 0]
    expected = [integrate.quad(lambda u, k=k: u**k * stats.norm.pdf(u), -a, 40.0, epsabs=1e-12)[0] for k in range(10)]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("floored", [0.0, 0.2, 0.5, 0.8])
def test_columns_that_fit_give_a_standard_normal(floored):
    """Of 2,000 columns: mean (but for 1/sqrt(n), second order), spread, and tail within 4 standard errors."""
    y = np.random.default_rng(0).normal(size=(300, 2000))
    x = np.maximum(y - ndtri(floored), 0.0) if floored else y + 30.0
    z = examined(x)[0].z
    assert abs(z.mean()) < 4.0 / np.sqrt(2000) + 2.5 / np.sqrt(300)
    assert abs(z.std() - 1.0) < 4.0 / np.sqrt(4000)
    assert (np.abs(z) > 2.5758).mean() < 0.01 + 4.0 * np.sqrt(0.01 / 2000)


@pytest.mark.parametrize("floored", [0.2, 0.5])
def test_lognormal_columns_are_found(floored):
    y = np.exp(0.5 * np.random.default_rng(1).normal(size=(1000, 200)))
    test, rows = examined(np.maximum(y - np.exp(0.5 * ndtri(floored)), 0.0))
    assert (test.z > 3.5).mean() > 0.95
    assert (test.skewness > 0.5).all()
    truth = np.exp(0.125) - np.exp(0.5 * ndtri(floored))
    off = (rows.mean - truth) / rows.std  # the latent mean comes out too low, and that is said
    assert off.mean() < -0.05
    assert (test.shift < 0.0).all()


def test_a_small_skewness_is_measured():
    """A gamma of shape 100 has skewness .2; its first-order shift of the mean is that of a large fit."""
    y = (np.random.default_rng(2).gamma(100.0, size=(4000, 400)) - 100.0) / 10.0
    test, rows = examined(np.maximum(y, 0.0))
    spread = test.skewness.std() / np.sqrt(400)
    assert abs(test.skewness.mean() - 0.2) < 4.0 * spread + 0.03  # second order: .2^2
    assert test.shift.mean() == pytest.approx((rows.mean / rows.std).mean(), abs=4.0 * 0.02 / np.sqrt(400) + 0.005)


def test_nothing_is_said_where_nothing_can_be():
    x = np.zeros((50, 2))
    x[:7, 0], x[:, 1] = np.arange(1.0, 8.0), 3.0
    with pytest.warns(match="Constant"):
        test, _ = examined(x)
    np.testing.assert_array_equal(test.z, [0.0, 0.0])


def test_a_skewed_statistic_is_made_normal():
    """A centred gamma, skewness .4: its upper and lower tails come out alike."""
    margin = 25.0
    z = (np.random.default_rng(3).gamma(margin, size=200_000) - margin) / np.sqrt(margin)
    moved = normalized(z, np.full_like(z, 2.0 / np.sqrt(margin)))
    for level in (2.0, 3.0):
        expected = stats.norm.sf(level)
        error = 4.0 * np.sqrt(expected / len(z))
        assert (moved > level).mean() == pytest.approx(expected, abs=error + 0.2 * expected)
        assert (moved < -level).mean() == pytest.approx(expected, abs=error + 0.2 * expected)
    np.testing.assert_allclose(normalized(-z[:9], np.full(9, -0.4)), -moved[:9])
