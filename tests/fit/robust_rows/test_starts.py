"""Starts: the best half of a contaminated table is genuine, and no column of zeros breaks the search for it."""

import numpy as np
import pytest
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from unrelu import RectifiedGaussian, synthetic
from unrelu.contracts import Assumptions
from unrelu.fit.robust_rows.mixture import Setting
from unrelu.fit.robust_rows.table import concentrated_starts, prior_record, standardized

D, N = 4, 1500
INLIER = synthetic.random_model(D, condition_number=4.0, mean="signed", random_state=3)


def starts_of(x, seed=0):
    assumptions = Assumptions((0.0,) * x.shape[1])
    rng = np.random.default_rng(seed)
    with threadpool_limits(1, user_api="blas"):  # as the method does: the matrices are small
        return concentrated_starts(x, Setting(assumptions, prior_record(x, assumptions, rng)), rng)


def contaminated(kind, fraction=0.3, seed=0):
    x = INLIER.sample(N, random_state=seed)
    rng = np.random.default_rng(seed)
    outlier = np.zeros(N, dtype=bool)
    outlier[rng.choice(N, round(fraction * N), replace=False)] = True
    count = np.count_nonzero(outlier)
    if kind == "one coordinate":
        x[outlier, 0] += 6.0
    elif kind == "normal":
        x[outlier] = np.maximum(rng.normal(5.0, 1.0, (count, D)), 0.0)
    elif kind == "cauchy":
        x[outlier] = np.abs(3.0 * rng.standard_cauchy((count, D)))
    return x, outlier


@pytest.mark.parametrize("kind", ["one coordinate", "normal", "cauchy"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_half_is_inlier(kind, seed):
    x, outlier = contaminated(kind, seed=seed)
    best = starts_of(x)[0]
    assert len(best.half) == N // 2
    # Of Cauchy rows about P(|3 t| < 2)^4 = .03 look genuine in all four columns: half of that share may be in the half.
    allowed = 0.02 if kind == "cauchy" else 0.002
    assert outlier[best.half].mean() <= allowed
    # The half misses the tails of the model, but its centre is the model's, not the table's.
    near = np.abs(best.component.mean - INLIER.mean) / INLIER.std
    assert near.max() < 0.5


def test_forty_percent_in_a_cluster():
    x, outlier = contaminated("normal", fraction=0.4)
    assert outlier[starts_of(x)[0].half].mean() < 0.002


def test_starts_are_in_order_distinct_and_halves():
    x, _ = contaminated("normal", fraction=0.45)
    starts = starts_of(x)
    objectives = [start.objective for start in starts]
    assert objectives == sorted(objectives, reverse=True)
    for i, start in enumerate(starts):
        assert len(np.unique(start.half)) == N // 2
        density = start.component.log_density(x)
        assert start.objective == pytest.approx(np.sort(density)[-(N // 2) :].mean(), rel=1e-9)
        for other in starts[:i]:
            assert start.overlap(other) < 0.98
            assert start.overlap(other) == other.overlap(start)
    assert starts[0].overlap(starts[0]) == 1.0


def test_the_same_generator_gives_the_same_starts():
    x, _ = contaminated("cauchy")
    first, again = starts_of(x, 5), starts_of(x, 5)
    assert len(first) == len(again)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.half, other.half)


def test_missing_cells_and_float32():
    x, outlier = contaminated("normal")
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    assert outlier[starts_of(x.astype(np.float32))[0].half].mean() < 0.01


@pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
def test_columns_that_are_mostly_floored():
    model = RectifiedGaussian([-2.0, -1.5, 0.5, 1.0], np.eye(4))  # 2 % and 7 % above the floor
    x = model.sample(N, random_state=0)
    x[:450] = np.random.default_rng(0).normal(5.0, 1.0, (450, 4))
    best = starts_of(x)[0]
    assert (best.half >= 450).all()
    assert np.isfinite(best.component.std).all()


@pytest.mark.parametrize("n", [8, 9, 25])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_few_rows(n):
    assert len(starts_of(INLIER.sample(n, random_state=1))) >= 1


@pytest.mark.parametrize("n", range(1, 11))
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_one_column_of_very_few_rows(n):
    """Half of three rows is one, which has no covariance."""
    found = starts_of(np.linspace(1.0, 2.0, n)[:, None])
    assert all(len(start.half) == max(n // 2, 1) for start in found)
    assert np.isfinite([start.objective for start in found]).all()


class TestStandardized:
    def column(self, floored, n=2000):
        """Unit normals of which the share ``floored`` is cut off at 0."""
        return np.maximum(np.random.default_rng(0).standard_normal(n) - norm.ppf(floored), 0.0)

    @pytest.mark.parametrize("floored", [0.01, 0.3, 0.34, 0.36, 0.45, 0.499, 0.5, 0.501, 0.64, 0.66, 0.9, 0.99])
    def test_spreads_do_not_collapse_however_much_is_floored(self, floored):
        n = 20_000
        x = self.column(floored, n)[:, None]
        z = standardized(x, np.zeros(1))
        spread = np.ptp(x) / np.ptp(z)
        if floored <= 0.5:
            # The latent deviation. The 15 % of rows between two quantiles are a count: relative error 2.4/sqrt(n).
            assert spread == pytest.approx(1.0, abs=5.0 * 2.4 / np.sqrt(n))
        else:
            # The median of what is seen, as if that were half of a normal; excesses are at least as short-tailed as
            # exponential ones, whose median has the relative error 1.44/sqrt(count).
            expected = (norm.isf((1.0 - floored) / 2.0) - norm.ppf(floored)) / norm.ppf(0.75)
            assert spread == pytest.approx(expected, rel=5.0 * 1.44 / np.sqrt((1.0 - floored) * n))

    def test_the_median_is_the_origin_and_missing_cells_lie_there(self):
        x = self.column(0.2)[:, None]
        x[::7] = np.nan
        z = standardized(x, np.zeros(1))
        assert np.median(z[~np.isnan(x)]) == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_array_equal(z[::7], 0.0)

    def test_thirty_percent_outliers_do_not_stretch_a_column(self):
        x = self.column(0.1)
        x[:600] = 1e6
        spread = 1.0 / np.diff(standardized(np.r_[x, 1.0, 2.0][:, None], np.zeros(1))[-2:, 0])[0]
        # Quantiles .35 and .65 of the table are .5 and .93 of the inlier rows. The latter has a standard error of .05.
        expected = (norm.ppf(0.65 / 0.7) - norm.ppf(0.35 / 0.7)) / (2.0 * norm.ppf(0.65))
        assert spread == pytest.approx(expected, abs=0.3)

    def test_units_and_floors_carry_through(self):
        x = self.column(0.3)[:, None]
        np.testing.assert_allclose(
            standardized(40.0 * x - 7.0, np.full(1, -7.0)), standardized(x, np.zeros(1)), atol=1e-9
        )

    def test_constant_and_empty_of_positives(self):
        x = np.zeros((100, 3))
        x[:, 1] = 4.0
        x[0, 2] = 3.0
        assert np.isfinite(standardized(x, np.zeros(3))).all()

    def test_values_at_any_distance_can_be_squared(self):
        z = standardized(np.array([1e-130, 2e-130, 3e-130, 4e-130, 1e139])[:, None], np.zeros(1))
        assert np.isfinite(z**4).all()
        assert z.argmax() == 4

    def test_values_below_the_floor_are_at_it(self):
        """Where a tolerance allows them."""
        z = standardized(np.array([[-0.1], [0.0], [0.05], [1.0], [2.0]]), np.array([0.1]))
        assert z[0] == z[1] == z[2]
