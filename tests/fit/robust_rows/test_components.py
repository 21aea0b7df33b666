"""Kinds of rows: densities that integrate to one and share the table's units, and fits that find what was put in."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.references import row_density as reference
from unrelu import RectifiedGaussian, RectifiedGaussianLearner
from unrelu.contracts import Assumptions, Block
from unrelu.fit.robust_rows.mixture import (
    GaussianComponent,
    IndependentComponent,
    NoiseComponent,
    RepeatedRowComponent,
    Setting,
    column_edges,
    gaussian_from,
)
from unrelu.fit.robust_rows.table import prior_record
from unrelu.fit.shrinkage import Target, error_share, shrunken

MODEL = RectifiedGaussian([0.3, -0.5, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 0.8]])


def setting_for(values, floor=(0.0, 0.0, 0.0)):
    assumptions = Assumptions(tuple(floor))
    return Setting(assumptions, prior_record(values, assumptions, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def table():
    return MODEL.sample(4000, random_state=0)


@pytest.fixture(scope="module")
def setting(table):
    return setting_for(table)


class TestIndependentColumns:
    edges = (np.array([0.5, 1.0, 1.5, 4.0]), np.array([-1.0, 3.0]))
    counts = np.array([10.0, 5.0, 0.0, 2.0, 3.0, 1.0, 1.0, 8.0])

    @pytest.mark.parametrize("column", [0, 1])
    def test_integrates_to_one(self, column):
        """Probability at the floor, Gauss-Legendre in each bin, and in e/x beyond the last edge e."""
        component = IndependentComponent.flat(self.edges).refitted(self.counts)
        edge = self.edges[column]
        nodes, weights = np.polynomial.legendre.leggauss(8)

        def density(x):
            values = np.full((len(x), 2), np.nan)  # the other column is missing: no factor of it
            values[:, column] = x
            return np.exp(component.log_density(values))

        total = density(np.array([edge[0]]))[0]
        for low, high in pairwise(edge):
            half = (high - low) / 2.0
            total += half * weights @ density(low + half * (nodes + 1.0))
        v = (nodes + 1.0) / 2.0
        reach = edge[-1] - edge[0]
        total += (weights / 2.0) @ (density(edge[0] + reach / v) * reach / v**2)
        assert total == pytest.approx(1.0, abs=1e-12)

    def test_the_mass_of_a_bin_is_its_share_of_the_rows(self):
        many = 1e9 * self.counts  # the half row of the prior is nothing
        component = IndependentComponent.flat(self.edges).refitted(many)
        x = np.array([[0.5, np.nan], [0.7, np.nan], [2.0, np.nan], [8.5, np.nan], [np.nan, 0.0]])
        # At the floor; 5/20 over .5; 2/20 over 2.5; beyond: 3/20 * 3.5 / 8^2; 1/10 over 4.
        expected = [0.5, 0.25 / 0.5, 0.1 / 2.5, 0.15 * 3.5 / 64.0, 0.1 / 4.0]
        np.testing.assert_allclose(np.exp(component.log_density(x)), expected, rtol=1e-8)

    def test_columns_multiply(self):
        component = IndependentComponent.flat(self.edges).refitted(self.counts)
        both = component.log_density(np.array([[0.7, 9.0]]))
        alone = component.log_density(np.array([[0.7, np.nan], [np.nan, 9.0]]))
        assert both[0] == pytest.approx(alone.sum())

    def test_bins(self):
        component = IndependentComponent(self.edges[:1], (np.zeros(len(self.edges[0]) + 1),))
        x = np.array([[0.2, 0.5, 0.51, 1.0, 1.2, 4.0, 4.1, 1e9, np.nan]]).T
        np.testing.assert_array_equal(component.record(Block(x)), [2, 2, 1, 1, 2])
        single = np.array([[0.1], [0.2]], dtype=np.float32)  # float32's 0.1 is at the floor
        at_a_tenth = IndependentComponent((np.array([0.1, 5.0]),), (np.zeros(3),))
        np.testing.assert_array_equal(at_a_tenth.record(Block(single)), [1, 1, 0])

    def test_counts_are_weights_in_bins_and_missing_cells_are_none(self):
        rng = np.random.default_rng(0)
        x = np.maximum(rng.standard_normal((500, 2)) + 0.5, (0.5, -1.0))
        x[rng.random(x.shape) < 0.2] = np.nan
        w = rng.gamma(2.0, size=500)
        component = IndependentComponent.flat(self.edges).refitted(self.counts)
        record = np.split(component.record(Block(x, 0, w)), [5])
        for j, edge in enumerate(self.edges):
            known = ~np.isnan(x[:, j])
            assert record[j][0] == pytest.approx(w[known & (x[:, j] <= edge[0])].sum())
            for k in range(1, len(edge)):
                inside = known & (x[:, j] > edge[k - 1]) & (x[:, j] <= edge[k])
                assert record[j][k] == pytest.approx(w[inside].sum())
            assert record[j].sum() == pytest.approx(w[known].sum())

    def test_records_merge(self):
        x = np.abs(np.random.default_rng(0).standard_normal((300, 2)))
        component = IndependentComponent.flat(self.edges).refitted(self.counts)
        parts = component.record(Block(x[:100])) + component.record(Block(x[100:], 100))
        np.testing.assert_array_equal(parts, component.record(Block(x)))

    def test_refitted_is_the_better_explanation(self, table):
        edges = column_edges(table, np.zeros(3))
        flat = IndependentComponent(edges, tuple(np.zeros(len(edge) + 1) for edge in edges))
        fitted = flat.refitted(flat.record(Block(table)))
        other = flat.refitted(flat.record(Block(table + 2.0)))
        assert fitted.log_density(table).mean() > other.log_density(table).mean() + 1.0
        assert fitted.n_parameters == sum(len(edge) for edge in edges)

    def test_edges_start_at_the_floor_and_rise(self):
        rng = np.random.default_rng(0)
        x = np.maximum(rng.standard_normal((1000, 4)), 0.3)
        x[:, 1] = 0.3  # never above
        x[:, 2] = np.where(x[:, 2] > 0.3, 1.0, 0.3)  # one value above
        x[rng.random(1000) < 0.5, 3] = np.nan
        for j, edge in enumerate(column_edges(x, np.full(4, 0.3))):
            assert edge[0] == 0.3
            assert len(edge) > 1, j
            assert (np.diff(edge) > 0.0).all()
        fine = column_edges(x, np.full(4, 0.3))[0]
        above = x[x[:, 0] > 0.3, 0]
        # Twelfths of the values, and finer above: every inner bin of the first eleven holds its twelfth.
        held = np.histogram(above, fine[:12])[0] / len(above)
        np.testing.assert_allclose(held, 1.0 / 12.0, atol=2.0 / len(above))


class TestAtom:
    atom = RepeatedRowComponent(np.array([0.0, 2.5]), np.array([0.0, 0.0]), 3.0)

    def test_matches_its_row_and_no_other(self):
        x = np.array([[0.0, 2.5], [0.1, 2.5], [0.0, 2.5000001], [np.nan, 2.5], [-0.05, 2.5], [0.0, np.nan]])
        expected = [True, False, False, False, True, False]  # -0.05 is floored, as a tolerance may allow
        density = self.atom.log_density(x)
        np.testing.assert_array_equal(density == 3.0, expected)
        assert (density[~np.array(expected)] < -1e290).all()

    def test_float32(self):
        atom = RepeatedRowComponent(np.array([np.float64(np.float32(0.1)), 0.7]), np.array([0.1, 0.0]), 0.0)
        assert atom.log_density(np.array([[0.1, 0.7]], dtype=np.float32)) == 0.0

    def test_has_nothing_to_learn(self):
        assert self.atom.n_parameters == 0


class TestNoise:
    def test_is_flat_per_unit_of_scale(self):
        noise = NoiseComponent(-7.0, np.log([2.0, 10.0]), np.zeros(2))
        x = np.array([[0.0, 0.0], [1.0, 0.0], [1e9, 5.0], [np.nan, 5.0]])
        np.testing.assert_allclose(
            noise.log_density(x), [-7.0, -7.0 - np.log(2.0), -7.0 - np.log(20.0), -7.0 - np.log(10.0)]
        )

    def test_compares_with_a_gaussian_in_any_units(self, table, setting):
        """Which of the two explains a row must not depend on the units of the table."""
        units = np.array([1e-3, 7.0, 1e4])
        gaussian = gaussian_from(setting.question(Block(table)), setting)
        noise = NoiseComponent(-9.0, gaussian.density.log_scale, np.zeros(3))
        scaled = replace(gaussian, mean=gaussian.mean * units, std=gaussian.std * units)
        rescaled = NoiseComponent(-9.0, scaled.density.log_scale, np.zeros(3))
        before = gaussian.log_density(table) - noise.log_density(table)
        after = scaled.log_density(table * units) - rescaled.log_density(table * units)
        np.testing.assert_allclose(after, before, atol=1e-9)

    def test_has_nothing_to_learn(self):
        assert NoiseComponent(-7.0, np.zeros(2), np.zeros(2)).n_parameters == 0


class TestGaussian:
    def test_density_is_per_unit_of_the_table(self, table, setting):
        component = GaussianComponent(setting, MODEL.mean, MODEL.std, MODEL.correlation)
        expected = [
            reference.matched_log_density(x, MODEL.mean, MODEL.std, MODEL.correlation, MODEL.floor)
            - np.log(MODEL.std[x > 0.0]).sum()
            for x in table[:40]
        ]
        np.testing.assert_allclose(component.log_density(table[:40]), expected, atol=1e-6)  # the ridge of 1e-8

    def test_recovers_the_parameters(self):
        x = MODEL.sample(20_000, random_state=1)
        setting = setting_for(x)
        component = gaussian_from(setting.question(Block(x)), setting)
        plain = RectifiedGaussianLearner("one_pass", margins="normal").fit(x)
        assert (np.abs(component.mean - MODEL.mean) < 5.0 * plain.mean_stderr_).all()
        assert (np.abs(component.std - MODEL.std) < 5.0 * plain.std_stderr_).all()
        # One row's worth of prior among n moves an estimate by about sqrt(1/n) of a standard error.
        assert (np.abs(component.mean - plain.mean_) < 0.05 * plain.mean_stderr_).all()
        # Shrinkage takes the share mean(se^2) / mean(r^2) of a correlation, so se / r of a standard error.
        off = ~np.eye(3, dtype=bool)
        error, r = plain.correlation_stderr_[off], plain.correlation_[off]
        moved = np.abs(component.correlation[off] - r)
        assert (moved < 0.05 * error + np.abs(r) * np.mean(error**2) / np.mean(r**2)).all()

    def test_the_models_assumptions_do_not_bind_components(self, table):
        """Outliers need not have the inlier rows' rank or signs."""
        assumptions = Assumptions((0.0,) * 3, nonnegative_mean=True, n_components=1)
        setting = Setting(assumptions, setting_for(table).prior)
        component = gaussian_from(setting.question(Block(table)), setting)
        assert component.mean[1] < -0.3
        assert np.linalg.eigvalsh(component.correlation)[1] > 0.1

    @pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
    def test_a_column_without_positives_is_no_obstacle(self, table, setting):
        half = table[:200].copy()
        half[:, 1] = 0.0
        component = gaussian_from(setting.question(Block(half)), setting)
        assert np.isfinite(component.log_density(table)).all()
        assert (component.std > 0.0).all()

    @pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
    def test_one_row_is_no_obstacle(self, table, setting):
        component = gaussian_from(setting.question(Block(table[:1])), setting)
        assert np.isfinite(component.log_density(table)).all()

    def test_widened(self, setting):
        component = GaussianComponent(setting, MODEL.mean, MODEL.std, MODEL.correlation)
        wide = component.widened(3.0)
        np.testing.assert_allclose(wide.std, 3.0 * component.std)
        np.testing.assert_allclose(wide.density.log_scale, component.density.log_scale + np.log(3.0))

    def test_number_of_parameters(self, setting):
        component = GaussianComponent(setting, MODEL.mean, MODEL.std, MODEL.correlation)
        assert component.n_parameters == 3 + 6


class TestShrinkage:
    def test_is_a_share(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            r = np.tanh(rng.standard_normal((4, 4)))
            r = np.triu(r, 1) + np.triu(r, 1).T + np.eye(4)
            assert 0.0 <= error_share(r, np.full((4, 4), rng.gamma(0.3))) <= 1.0

    def test_of_exact_correlations_is_nothing(self):
        r = np.array([[1.0, 0.5], [0.5, 1.0]])
        assert error_share(r, np.full((2, 2), 1e-6)) < 1e-11
        assert error_share(np.eye(3), np.zeros((3, 3))) == 0.0

    def test_of_pure_sampling_error_is_everything(self):
        """Independent columns: the squares of the estimated correlations are their standard errors', on average."""
        x = np.abs(np.random.default_rng(0).standard_normal((500, 12)))
        learner = RectifiedGaussianLearner().fit(x)
        pairs = 12 * 11 / 2
        got = error_share(learner.correlation_, learner.correlation_stderr_)
        assert got > 1.0 / (1.0 + 5.0 * np.sqrt(2.0 / pairs))  # sum r^2 / sum se^2 is chi-square(66)/66

    def test_few_rows_are_shrunken_more(self, table, setting):
        few, many = table[:40], table
        off = ~np.eye(3, dtype=bool)
        keep = []
        for rows in (few, many):
            component = gaussian_from(setting.question(Block(rows)), setting)
            plain = RectifiedGaussianLearner().fit(rows)
            keep.append(np.mean(np.abs(component.correlation[off])) / np.mean(np.abs(plain.correlation_[off])))
            np.testing.assert_allclose(component.correlation.diagonal(), 1.0, rtol=1e-12)
        assert 0.0 < keep[0] < keep[1] < 1.0
        # Squared errors of about 1.5/n a pair, against correlations of about .1 in the square.
        assert keep[1] > 1.0 - 3.0 * 1.5 / 4000 / 0.1

    def test_pairs_that_do_not_fit_together_are_shrunken_until_they_do(self):
        """Three columns cannot all be correlated by -.9."""
        impossible = np.full((3, 3), -0.9) + 1.9 * np.eye(3)
        got = shrunken(impossible, 1.0)
        assert np.linalg.eigvalsh(got)[0] > -1e-8
        # Semidefinite from a factor .5/.9 on; factors fall by a twentieth at a time.
        assert 0.95 * 0.5 / 0.9 < got[0, 1] / impossible[0, 1] <= 0.5 / 0.9 + 1e-8
        possible = np.array([[1.0, 0.5], [0.5, 1.0]])
        np.testing.assert_allclose(shrunken(possible, 0.8), [[1.0, 0.4], [0.4, 1.0]])


class TestFactors:
    """A component in factors is the one-pass fit, but for correlations, which are those of factors and noise."""

    loadings = np.random.default_rng(4).uniform(0.4, 0.8, (9, 1))
    truth = RectifiedGaussian(np.linspace(-0.5, 1.0, 9), Target(loadings).matrix)

    @pytest.fixture
    def fits(self):
        x = self.truth.sample(4000, random_state=1)
        setting = setting_for(x, (0.0,) * 9)
        record = setting.question(Block(x))
        return x, gaussian_from(record, setting), gaussian_from(record, replace(setting, factors=1))

    def test_learns_them(self, fits):
        _, plain, few = fits
        np.testing.assert_array_equal(few.mean, plain.mean)
        np.testing.assert_array_equal(few.std, plain.std)
        np.testing.assert_allclose(few.correlation, Target(few.loadings).matrix)
        misses = [np.abs(each.correlation - self.truth.correlation).max() for each in (few, plain)]
        assert misses[0] < misses[1] < 0.1

    def test_density_of_its_own_correlations(self, fits):
        x, _, few = fits
        for each in (few, few.widened(2.0)):
            dense = replace(each, loadings=None)
            np.testing.assert_allclose(each.log_density(x[:200]), dense.log_density(x[:200]), rtol=1e-9)
            converged = (distribution.log_density(x[:200], converged=True) for distribution in (each, dense))
            np.testing.assert_allclose(*converged, atol=2e-3)  # pairs of floored cells are exact in the one
