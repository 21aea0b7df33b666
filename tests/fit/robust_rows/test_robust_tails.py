"""Tails that are heavier than a normal one's are named as such by the robust method; outlier rows are not."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_t

from tests.warned import lines_of, refuse
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, synthetic
from unrelu.contracts import Assumptions
from unrelu.fit.robust_rows import learn as tails
from unrelu.fit.robust_rows.mixture import GaussianComponent, Mixture, NoiseComponent, Setting


def table(kind, n, d, floored, seed):
    rng = np.random.default_rng(seed)
    r = synthetic.random_model(d, condition_number=10.0, random_state=seed).correlation
    y = rng.multivariate_normal(np.zeros(d), r, n)
    outliers = rng.random(n) < 0.1
    if kind in ("t3", "t5"):
        y *= np.sqrt(int(kind[1]) / rng.chisquare(int(kind[1]), (n, 1)))
    if kind == "a group":
        y[outliers] = rng.normal(3.0, 1.0, (np.count_nonzero(outliers), d))
    if kind == "wider rows":
        y[outliers] *= 5.0
    if floored == 0.0:
        return y, None
    floor = np.quantile(y, floored, axis=0)
    return np.maximum(y, floor), floor.tolist()


def told(kind, n, d, floored, seed):
    x, floor = table(kind, n, d, floored, seed)
    with warnings.catch_warnings(record=True) as got:
        warnings.simplefilter("always")
        learner = RectifiedGaussianLearner("robust", floor=floor, margins="normal").fit(x)
    return learner, lines_of(got, "tails-not-outliers")


# Those of t5 are the harder ones to tell from a normal distribution's: with every kind of table.
@pytest.mark.parametrize(
    ("kind", "n", "d", "floored"), [("t5", 500, 3, 0.0), ("t5", 500, 8, 0.2), ("t5", 1000, 4, 0.4), ("t3", 500, 3, 0.0)]
)
def test_they_are_named(kind, n, d, floored):
    assert told(kind, n, d, floored, 1)[1]


@pytest.mark.parametrize(("n", "d", "floored"), [(500, 3, 0.0), (500, 8, 0.2), (1000, 4, 0.4)])
@pytest.mark.parametrize("kind", ["normal", "a group", "wider rows"])
def test_clean_tables_and_outliers_are_not_taken_for_them(kind, n, d, floored):
    learner, said = told(kind, n, d, floored, 1)
    assert said == []
    assert (learner.report_.share_downweighted > 0.05) == (kind != "normal")


def test_the_warning_says_how_much_is_lost_and_what_keeps_it():
    """Of t5 rows the standard deviation is sqrt(5/3): within 6 % (.04 the sample's own error, .03 the rounding)."""
    learner, (said,) = told("t5", 2000, 4, 0.0, 3)
    x, _ = table("t5", 2000, 4, 0.0, 3)
    lost = 1.0 - np.median(learner.std_) / np.sqrt(5.0 / 3.0)
    assert "method='one_pass' was tried: it takes all rows" in said
    assert int(said.split("standard deviations are then about ")[1].split("%")[0]) == pytest.approx(
        100.0 * lost, abs=6.0
    )
    everything = RectifiedGaussianLearner("one_pass", floor=None, margins="normal").fit(x)
    assert abs(np.median(everything.std_) / np.sqrt(5.0 / 3.0) - 1.0) < 0.06


def test_densities_by_widths_are_those_of_a_t_distribution():
    """Without a floor against scipy's density, from the best fit of the grid: rows that lie exactly on it."""
    r = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.0]])
    distribution = multivariate_t(np.zeros(3), r, df=5, seed=np.random.default_rng(0))
    x = distribution.rvs(3000)
    setting = Setting(Assumptions((-np.inf,) * 3), None)
    main = GaussianComponent(setting, np.zeros(3), np.ones(3), r)
    unexplained = NoiseComponent(-20.0, np.zeros(3), setting.floor)
    degrees, spread = tails.heavy_tails(Mixture((main, unexplained), np.array([0.99, 0.01])), x, np.ones(3000))
    assert 4.0 <= degrees <= 6.0
    np.testing.assert_allclose(spread, np.sqrt(5.0 / 3.0), rtol=0.1)
    widths = tails._widths_of_t(5.0, 1.0)
    assert widths.sum() == pytest.approx(1.0)
    at = np.stack([main.widened(float(np.exp(w))).log_density(x[:50]) for w in tails._FINE], axis=1)
    np.testing.assert_allclose(np.log(np.exp(at) @ widths), distribution.logpdf(x[:50]), atol=5e-3)


def test_a_row_of_another_kind_is_no_tail():
    x = RectifiedGaussian(np.zeros(3), np.eye(3)).sample(600, random_state=0)
    x[:40] = 9.0 + np.random.default_rng(1).random((40, 3))
    with warnings.catch_warnings():
        refuse("tails-not-outliers")
        assert (RectifiedGaussianLearner("robust", margins="normal").fit(x).row_weights_[:40] < 1e-9).all()
