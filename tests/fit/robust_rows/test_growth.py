"""Growing a mixture: a component more where the table asks for one, and none where it does not."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from unrelu import RectifiedGaussian, synthetic
from unrelu.contracts import Assumptions, Block
from unrelu.fit.robust_rows import growth
from unrelu.fit.robust_rows.growth import (
    SampledRows,
    candidates,
    grow,
    noise_below,
    one_more,
    scattered_candidate,
    split_column,
    with_factors,
)
from unrelu.fit.robust_rows.mixture import IndependentComponent, Mixture, NoiseComponent, Setting, gaussian_from, run_em
from unrelu.fit.robust_rows.table import prior_record

D, N = 4, 2000
INLIER = synthetic.random_model(D, condition_number=4.0, mean="signed", random_state=3)


@pytest.fixture(autouse=True)
def small_matrices():
    """One BLAS thread, as the method itself has it: the matrices are small."""
    with threadpool_limits(1, user_api="blas"):
        yield


class Table:
    """Rows, a mixture of one Gaussian and the unexplained fitted to them, and where that settled."""

    def __init__(self, x):
        assumptions = Assumptions((0.0,) * D)
        self.x = x
        self.setting = Setting(assumptions, prior_record(x, assumptions, np.random.default_rng(0)))
        self.rows = SampledRows.of(x, np.ones(len(x)))
        one = gaussian_from(self.setting.question(Block(x)), self.setting)
        self.base = Mixture((one, NoiseComponent(-15.0, one.density.log_scale, np.zeros(D))), np.array([0.95, 0.05]))
        self.settled = run_em(self.rows.evidence, self.base, 40)

    def one_more(self):
        return one_more(self.rows, self.settled.mixture, self.setting, self.settled.bic)


def with_outliers(kind, fraction=0.2, seed=0):
    x = INLIER.sample(N, random_state=seed)
    rng = np.random.default_rng(seed + 100)
    outlier = rng.random(N) < fraction
    count = np.count_nonzero(outlier)
    if kind == "near":
        x[outlier] = np.maximum(rng.normal(2.0, 1.0, (count, D)), 0.0)
    elif kind == "one column":
        x[outlier, 2] += 6.0
    elif kind == "wide":
        x[outlier] = np.maximum(rng.normal(0.0, 3.0, (count, D)), 0.0)
    elif kind == "scattered":
        x[outlier] = rng.exponential(3.0, (count, D)) ** 1.5
    return x, outlier


@pytest.mark.parametrize("seed", range(4))
def test_clean_tables_are_left_alone(seed):
    table = Table(with_outliers("none", seed=seed)[0])
    assert table.one_more() is None
    settled = grow(table.rows, table.settled, table.base, table.setting, 4)
    assert settled is table.settled


@pytest.mark.parametrize("kind", ["near", "one column", "wide", "scattered"])
def test_a_contaminated_table_gets_a_component_more(kind):
    x, outlier = with_outliers(kind)
    table = Table(x)
    grown = table.one_more()
    assert grown is not None
    assert grown.bic < table.settled.bic
    assert len(grown.mixture.components) == len(table.settled.mixture.components) + 1
    # What was added explains outliers: inlier rows stay with the main component, most others do not.
    share, _ = grown.mixture.posterior(x)
    main = share[:, grown.mixture.main]
    assert main[~outlier].mean() > 0.9
    assert main[outlier].mean() < 0.4


def test_a_component_must_pay_for_itself():
    table = Table(with_outliers("near")[0])
    unbeatable = -1e12
    assert one_more(table.rows, table.settled.mixture, table.setting, unbeatable) is None


def test_a_background_for_scattered_rows_is_tried_once():
    table = Table(with_outliers("scattered")[0])
    grown = table.one_more()
    assert isinstance(grown.mixture.components[-1], IndependentComponent)
    assert scattered_candidate(table.rows, grown.mixture, table.setting) is None


def test_groups_that_are_tried():
    """Gaussians on rows of their own, one as wide again, and one of independent columns."""
    table = Table(with_outliers("near")[0])
    tried, main = (
        list(candidates(table.rows, table.settled.mixture, table.setting)),
        table.settled.mixture.main_component,
    )
    assert len(tried) == 4
    np.testing.assert_allclose(tried[1].std, 3.0 * main.std)
    np.testing.assert_array_equal(tried[2].correlation, np.eye(D))
    np.testing.assert_array_equal(tried[2].mean, main.mean)


def test_the_unexplained_lie_below_rows_of_the_models_floor_not_the_censoring():
    x = INLIER.sample(N, random_state=0)
    assumptions = Assumptions((0.0,) * D, floor_tolerance=0.2)
    setting = Setting(assumptions, prior_record(x, assumptions, np.random.default_rng(0)))
    one = gaussian_from(setting.question(Block(x)), setting)
    scores = one.density.score(INLIER.sample(20_000, random_state=1), converged=False)
    expected = 2.0 * np.quantile(scores, 0.01) - np.median(scores)
    found = noise_below(one, np.random.default_rng(2).standard_normal((20_000, D))).level
    assert found == pytest.approx(expected, abs=0.5)


def test_growth_stops_at_the_most_it_may_have():
    """Two groups of outliers and room for one."""
    x, outlier = with_outliers("one column", 0.15)
    x[np.flatnonzero(~outlier)[:300]] += 9.0
    table = Table(x)
    for most in (1, 2, 3):
        settled = grow(table.rows, table.settled, table.base, table.setting, most)
        learned = sum(component.n_parameters > 0 for component in settled.mixture.components)
        assert learned == most
    assert grow(table.rows, table.settled, table.base, table.setting, 1) is table.settled


class TestFactorsOfAWideTable:
    """What is wide is moved, for the sake of quick tests."""

    D = 12

    def asked(self, correlation, monkeypatch, wide):
        monkeypatch.setattr(growth, "_WIDE", wide)
        x = RectifiedGaussian(np.full(self.D, 0.4), correlation).sample(N, random_state=5)
        x[:200] += 9.0
        assumptions = Assumptions((0.0,) * self.D)
        setting = Setting(assumptions, prior_record(x, assumptions, np.random.default_rng(0)))
        one = gaussian_from(setting.question(Block(x[200:])), setting)
        noise = NoiseComponent(-40.0, one.density.log_cell_unit, np.zeros(self.D))
        mixture = Mixture((one, noise), np.array([0.95, 0.05]))
        return setting, with_factors(SampledRows.of(x, np.ones(N)), mixture, setting)

    def factors(self):
        loadings = np.linspace(0.4, 0.9, self.D)[:, None]
        return loadings @ loadings.T + np.diag(1.0 - loadings[:, 0] ** 2)

    def test_as_many_as_the_inlier_rows_have(self, monkeypatch):
        _, setting = self.asked(self.factors(), monkeypatch, 10)
        assert setting.factors == 1

    def test_none_where_they_do_not_suffice(self, monkeypatch):
        monkeypatch.setattr(growth, "_MOST_FACTORS", 2)
        near = 0.8 ** np.abs(np.subtract.outer(np.arange(self.D), np.arange(self.D)))
        _, setting = self.asked(near, monkeypatch, 10)
        assert setting.factors is None

    def test_narrow_tables_are_not_asked(self, monkeypatch):
        before, setting = self.asked(self.factors(), monkeypatch, self.D)
        assert setting is before


class TestSplitColumn:
    @pytest.mark.parametrize("column", range(D))
    @pytest.mark.parametrize("fraction", [0.1, 0.3, 0.45])
    def test_finds_the_planted_rows(self, column, fraction):
        x = INLIER.sample(N, random_state=1)
        planted = np.random.default_rng(2).random(N) < fraction
        x[planted, column] += 8.0  # eight standard deviations or more: the sides do not overlap
        np.testing.assert_array_equal(split_column(x, np.zeros(D)), planted)

    def test_the_rarer_side_even_where_it_is_the_lower_one(self):
        x = RectifiedGaussian(INLIER.mean + 20.0, INLIER.covariance).sample(N, random_state=1)
        planted = np.arange(N) < 300
        x[planted, 1] = 5.0 + np.random.default_rng(0).random(300)
        np.testing.assert_array_equal(split_column(x, np.zeros(D)), planted)

    def test_one_far_row_does_not_hide_a_group(self):
        x = INLIER.sample(N, random_state=1)
        planted = np.random.default_rng(2).random(N) < 0.2
        x[planted, 3] += 8.0
        x[0, 0] = 1e9
        x[0, 3] = 0.0
        planted[0] = False
        np.testing.assert_array_equal(split_column(x, np.zeros(D)), planted)

    def test_missing_cells(self):
        x = INLIER.sample(N, random_state=1)
        planted = np.random.default_rng(2).random(N) < 0.3
        x[planted, 0] += 8.0
        holes = np.random.default_rng(3).random(x.shape) < 0.1
        x[holes] = np.nan
        found = split_column(x, np.zeros(D))
        seen = ~holes[:, 0]
        np.testing.assert_array_equal(found[seen], planted[seen])

    def test_constant_columns_do_not_count(self):
        x = INLIER.sample(N, random_state=1)
        planted = np.random.default_rng(2).random(N) < 0.3
        x[planted, 0] += 8.0
        x[:, 1] = 3.0
        np.testing.assert_array_equal(split_column(x, np.zeros(D)), planted)
