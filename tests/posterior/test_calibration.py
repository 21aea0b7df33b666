"""p-values of scores by simulation: uniform under the model, continued where simulation ends, and simulated rows."""

import numpy as np
import pytest
from scipy.stats import gamma

from unrelu import RectifiedGaussian
from unrelu.posterior.density import Density, ScoreTail, rows_from_normals

MODEL = RectifiedGaussian([0.3, -0.5, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 0.8]])


def simulate(n, seed):
    normals = np.random.default_rng(seed).standard_normal((n, 3))
    return rows_from_normals(normals, MODEL.mean, MODEL.std, MODEL.correlation, MODEL.floor)


def test_p_values_of_the_models_own_rows_are_uniform():
    scores = Density(MODEL.mean, MODEL.std, MODEL.correlation, MODEL.floor)
    n, m = 50_000, 20_000
    tail = ScoreTail.of(scores.log_density(simulate(n, 0)))
    # The rows to be judged come from the model's own sampler, which is other code. Rows that are floored everywhere
    # share one score, and "as low" counts them all: compare at levels between the ties.
    p = np.sort(tail.p_value(scores.log_density(MODEL.sample(m, random_state=1))))
    levels = np.unique(p)
    reached = np.searchsorted(p, levels, side="right") / m
    # Kolmogorov and Smirnov for two samples: exceeded with probability 1e-4.
    bound = np.sqrt(-0.5 * np.log(0.5e-4)) * np.sqrt(1.0 / n + 1.0 / m)
    assert np.abs(reached - levels).max() < bound


def test_rows_of_another_model_have_small_p_values():
    scores = Density(MODEL.mean, MODEL.std, MODEL.correlation, MODEL.floor)
    tail = ScoreTail.of(scores.log_density(simulate(20_000, 0)))
    p = tail.p_value(scores.log_density(simulate(200, 1) + 8.0))
    # Eight standard deviations in each of three columns: beyond chi-square(3) of 60, of probability 1e-12.
    assert (p < 1e-8).all()
    assert (p > 0.0).all()


@pytest.mark.parametrize("depth", [1.0, 5.0, 10.0, 20.0])
def test_the_tail_goes_on_as_an_exponential(depth):
    """Scores log U have the p-value U, exactly. The tail's 10,000 lowest scores fix its start and its slope."""
    n = 1_000_000
    tail = ScoreTail.of(np.log(np.random.default_rng(0).random(n)))
    score = np.log(0.01) - depth
    p = float(tail.p_value(np.array([score]))[0])
    standard_error = (1.0 + depth) / np.sqrt(0.01 * n)  # of log p: that of the start, and depth times the slope's
    assert np.log(p) == pytest.approx(score, abs=5.0 * standard_error)


def test_the_tail_of_gaussian_rows_errs_on_the_careful_side():
    """With four columns the score is a constant less a Gamma(2): its mean excess over x is (x + 2) / (x + 1)."""
    n = 400_000
    tail = ScoreTail.of(-np.random.default_rng(0).gamma(2.0, size=n))
    start = float(gamma.isf(0.01, 2.0))
    excess = (start + 2.0) / (start + 1.0)
    for exact in (1e-4, 1e-6, 1e-9):
        depth = float(gamma.isf(exact, 2.0)) - start
        expected = np.log(0.01) - depth / excess
        got = np.log(tail.p_value(np.array([-start - depth]))[0])
        assert got == pytest.approx(expected, abs=5.0 * (1.0 + depth) / np.sqrt(0.01 * n))
        assert got > np.log(exact) - 0.1  # an outlier is never surer than it should be, but for the error at 1e-4


def test_quantiles_and_p_values_undo_each_other():
    tail = ScoreTail.of(np.random.default_rng(0).normal(size=5000))
    for share in (1e-12, 1e-6, 1e-3, 0.0099):
        assert tail.p_value(np.array([tail.quantile(share)]))[0] == pytest.approx(share, rel=1e-9)
    for share in (0.011, 0.05, 0.3, 0.5, 0.99):  # between two of the simulated scores
        assert tail.p_value(np.array([tail.quantile(share)]))[0] == pytest.approx(share, abs=1.5 / 5000)


def test_p_values_rise_with_the_score():
    tail = ScoreTail.of(np.random.default_rng(0).normal(size=3000))
    p = tail.p_value(np.linspace(-30.0, 6.0, 20_000))
    assert (np.diff(p) >= 0.0).all()
    assert p[-1] == 1.0
    assert tail.p_value(np.array([-np.inf]))[0] == 0.0


def test_scores_need_not_come_sorted():
    scores = np.random.default_rng(0).normal(size=1000)
    at = np.array([-5.0, -2.0, 0.0])
    np.testing.assert_array_equal(ScoreTail.of(scores).p_value(at), ScoreTail.of(scores[::-1]).p_value(at))


@pytest.mark.parametrize("size", [2, 5, 25])
def test_few_scores_or_equal_ones_give_numbers(size):
    for scores in (np.arange(float(size)), np.zeros(size)):
        p = ScoreTail.of(scores).p_value(np.array([-1.0, 0.0, 100.0]))
        assert ((p >= 0.0) & (p <= 1.0)).all()
        assert np.isfinite(ScoreTail.of(scores).quantile(0.01))


class TestRowsFromNormals:
    def test_unit_vectors_give_the_root_of_the_covariance(self):
        """Rows e_i give the rows of the root, whose product is the covariance: no sampling, no tolerance."""
        low = np.full(3, -1e9)
        root = rows_from_normals(np.eye(3), MODEL.mean, MODEL.std, MODEL.correlation, low) - MODEL.mean
        np.testing.assert_allclose(root.T @ root, MODEL.covariance, rtol=1e-12)

    def test_floor_and_bias(self):
        rows = simulate(10_000, 0)
        assert rows.min() == 0.0
        floor = np.array([0.0, 0.4, -0.2])
        normals = np.random.default_rng(0).standard_normal((10_000, 3))
        other = rows_from_normals(normals, MODEL.mean, MODEL.std, MODEL.correlation, floor)
        np.testing.assert_array_equal(other.min(axis=0), floor)
        np.testing.assert_array_equal(np.maximum(other, 0.5), np.maximum(rows, 0.5))

    def test_the_normals_are_left_as_they_are(self):
        normals = np.random.default_rng(0).standard_normal((50, 3))
        before = normals.copy()
        rows_from_normals(normals, MODEL.mean, MODEL.std, MODEL.correlation, MODEL.floor)
        np.testing.assert_array_equal(normals, before)

    @pytest.mark.parametrize("r", [1.0, -1.0])
    def test_singular_correlations(self, r):
        correlation = np.array([[1.0, r], [r, 1.0]])
        normals = np.random.default_rng(0).standard_normal((100, 2))
        rows = rows_from_normals(normals, np.full(2, 9.0), np.ones(2), correlation, np.zeros(2))
        # 1e-7: an eigenvalue of 1e-16 in place of 0 has a root of 1e-8.
        np.testing.assert_allclose(rows[:, 1] - 9.0, r * (rows[:, 0] - 9.0), atol=1e-7)

    @pytest.mark.parametrize("r", [0.0, 0.6])
    def test_nearby_models_give_nearby_rows(self, r):
        """Also where two eigenvalues meet (r = 0), where eigenvectors jump."""
        normals = np.random.default_rng(0).standard_normal((1000, 2))
        near = [
            rows_from_normals(normals, np.zeros(2), np.ones(2), np.array([[1.0, c], [c, 1.0]]), np.zeros(2))
            for c in (r - 1e-6, r + 1e-6)
        ]
        assert np.abs(near[0] - near[1]).max() < 1e-5
