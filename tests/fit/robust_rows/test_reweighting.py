"""The last look: no cut without an excess, and a cut that the model does not notice."""

from functools import partial

import numpy as np
import pytest

from unrelu import RectifiedGaussian, RectifiedGaussianLearner
from unrelu.contracts import Assumptions, Block, Evidence
from unrelu.fit.one_pass import learn_record
from unrelu.fit.robust_rows.learn import Refit, RowScores, excess_cut, join_simulated, reweighted_moments, row_scores_of
from unrelu.fit.robust_rows.mixture import GaussianComponent, Mixture, Setting, gaussian_from
from unrelu.fit.robust_rows.table import prior_record
from unrelu.passes.engine import LocalEngine
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.posterior.density import Density, ScoreTail
from unrelu.tables import ArraySamples

MODEL = RectifiedGaussian([0.3, -0.5, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 0.8]])
ASSUMPTIONS = Assumptions((0.0,) * 3)
ASK = PairMomentsQuestion.under(ASSUMPTIONS)
ALL = np.arange(3)


def evidence(x, weights=None, block_rows=None):
    return Evidence(ArraySamples(x, weights=weights, block_rows=block_rows or len(x)), LocalEngine())


def scores_of(model):
    return Density(model.mean, model.std, model.correlation, model.floor)


def refit(rows, mixture, x):
    """A refit whose simulated rows have the holes of x."""
    return Refit(rows, mixture, ASSUMPTIONS, ALL, np.random.default_rng(0), np.isnan(x))


def one_component(x):
    setting = Setting(ASSUMPTIONS, prior_record(x, ASSUMPTIONS, np.random.default_rng(0)))
    return Mixture((gaussian_from(setting.question(Block(x)), setting),), np.ones(1))


class TestExcessCut:
    def clean(self, seed, n, simulated=20_000):
        """Scores and a tail of the same distribution, that of three seen columns."""
        rng = np.random.default_rng(seed)
        return -rng.gamma(1.5, size=n), ScoreTail.of(-rng.gamma(1.5, size=simulated))

    def test_no_cut_where_the_model_explains_the_scores(self):
        """2,000 rows, of which 100 may begin a cut: 1e-4 each is at most .01 in all, 2 of 200 tables."""
        found = sum(
            excess_cut(scores, np.ones(2000), tail) > -np.inf
            for scores, tail in (self.clean(seed, 2000) for seed in range(200))
        )
        assert found <= 2 + 5 * np.sqrt(2)

    def test_no_cut_on_long_tables_either(self):
        """A test at 1e-4 that finds something on 5 of 20 clean tables is none, however many levels it looks at."""
        n = 200_000
        found = sum(
            excess_cut(scores, np.ones(n), tail) > -np.inf
            for scores, tail in (self.clean(seed, n) for seed in range(20))
        )
        assert found < 5

    @pytest.mark.parametrize("planted", [10, 60, 300])
    def test_planted_rows_are_cut_off(self, planted):
        scores, tail = self.clean(1, 3000)
        low = tail.quantile(1e-6) - np.random.default_rng(0).gamma(2.0, size=planted)
        cut = excess_cut(np.r_[scores, low], np.ones(3000 + planted), tail)
        assert low.max() <= cut
        # Genuine rows are cut off only as far as their counts exceed what was expected by chance: below the level
        # where 1 % is expected an excess of 5 standard deviations is 5 sqrt(30).
        assert np.mean(scores <= cut) < 0.05

    def test_a_moderate_excess(self):
        """Rows a little too outlying each, but too many: 150 where 30 are expected."""
        scores, tail = self.clean(2, 3000)
        rng = np.random.default_rng(0)
        strange = tail.quantile(0.01) - rng.exponential(1.0, 120)
        cut = excess_cut(np.r_[scores, strange], np.ones(3120), tail)
        assert np.mean(strange <= cut) > 0.9

    def test_rows_that_are_not_inlier_anyway_are_no_excess(self):
        scores, tail = self.clean(3, 3000)
        low = np.full(300, tail.quantile(1e-9))
        weights = np.r_[np.ones(3000), np.full(300, 1e-6)]
        assert excess_cut(np.r_[scores, low], weights, tail) == -np.inf

    def test_one_impossible_row_is_enough(self):
        scores, tail = self.clean(4, 3000)
        cut = excess_cut(np.r_[scores, -1e9], np.ones(3001), tail)
        assert -1e9 <= cut < scores.min()


class TestCompleted:
    def test_adds_the_simulated_rows_at_their_weight_and_no_certainty(self):
        x, simulated = MODEL.sample(800, random_state=0), MODEL.sample(300, random_state=1)
        weights = np.random.default_rng(0).gamma(2.0, size=800)
        data = ASK(Block(x, 0, weights))
        both = join_simulated(data, ASK(Block(simulated)), 60.0)
        direct = ASK(Block(np.vstack([x, simulated]), 0, np.r_[weights, np.full(300, 60.0 / 300)]))
        for name in ("count", "cross", "masked_sum", "masked_square"):
            got, expected = (getattr(record._about(np.zeros(3)), name) for record in (both, direct))
            np.testing.assert_allclose(got, expected, rtol=1e-10)
        assert both.weight == pytest.approx(weights.sum() + 60.0)
        assert both.effective_rows == pytest.approx(data.effective_rows)
        assert both.n_rows == 800

    @pytest.mark.parametrize("missing", [0.0, 0.2])
    def test_standard_errors_stay_those_of_the_data(self, missing):
        """Completing a record by a tenth of its own kind must leave every standard error where it was."""
        x = MODEL.sample(3000, random_state=0)
        x[np.random.default_rng(0).random(x.shape) < missing] = np.nan
        data = ASK(Block(x))
        both = join_simulated(data, ASK(Block(MODEL.sample(50_000, random_state=1))), 300.0)
        before, after = (learn_record(record, ASSUMPTIONS) for record in (data, both))
        # The estimates move a little with the new rows, and their errors with them: by about 1/sqrt(3000).
        np.testing.assert_allclose(after.rows.mean_stderr, before.rows.mean_stderr, rtol=0.03)
        np.testing.assert_allclose(after.rows.std_stderr, before.rows.std_stderr, rtol=0.03)


def shifts_by_a_cut(missing, repeats=24):
    """repeats x 2 x 6: means and standard deviations, in standard errors from the untrimmed fit, after trimming by
    a cut that 3 % of the model's rows fall below, and after completing the record."""
    scores = scores_of(MODEL)
    cut = ScoreTail.of(scores.score(MODEL.sample(100_000, random_state=99))).quantile(0.03)
    shifts = []
    for seed in range(repeats):
        x = MODEL.sample(4000, random_state=seed)
        x[np.random.default_rng(seed).random(x.shape) < missing] = np.nan
        setting = Setting(ASSUMPTIONS, None)
        truth = GaussianComponent(setting, MODEL.mean, MODEL.std, MODEL.correlation)
        fit = refit(evidence(x), Mixture((truth,), np.ones(1)), x)
        whole = RectifiedGaussianLearner().fit(x)
        data = fit.evidence.collect(partial(reweighted_moments, ASK, (scores.score(x) > cut).astype(float)))
        normals = np.random.default_rng(1000 + seed).standard_normal((20_000, 3))
        record, _ = fit.complete(data, normals, cut)
        for stages in (learn_record(data, ASSUMPTIONS), learn_record(record, ASSUMPTIONS)):
            mean = (stages.rows.mean - whole.mean_) / whole.mean_stderr_
            norm = (stages.rows.std - whole.std_) / whole.std_stderr_
            shifts.append(np.r_[mean, norm])
    return np.array(shifts).reshape(repeats, 2, 6)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.slow
def test_completing_removes_the_bias_of_trimming(missing):
    shifts = shifts_by_a_cut(missing)
    trimmed, filled = shifts.mean(axis=0)
    error = shifts.std(axis=0, ddof=1) / np.sqrt(len(shifts))
    assert (np.abs(filled) < 5.0 * error[1]).all()
    # Norms lose their tails when trimmed: more than a standard error of 4,000 rows, and beyond diagnostic.
    assert (trimmed[3:] < -1.0).all()
    assert (trimmed[3:] < -5.0 * error[0][3:]).all()
    assert np.abs(filled).max() < 0.2 * np.abs(trimmed).max()


class TestVerdicts:
    def test_rows_come_back_in_the_order_of_the_table(self):
        x = MODEL.sample(500, random_state=0)
        ask = partial(row_scores_of, one_component(x), ALL)
        whole = ask(Block(x)).table
        parts = [ask(Block(x[a:b], a)) for a, b in ((300, 500), (0, 120), (120, 300))]
        np.testing.assert_allclose(parts[0].merge(parts[1]).merge(parts[2]).table, whole, rtol=1e-10)
        assert isinstance(parts[0], RowScores)

    def test_scores_are_those_of_the_model_and_weights_those_of_the_table(self):
        x = MODEL.sample(300, random_state=0)
        mixture = one_component(x)
        w = np.random.default_rng(0).gamma(2.0, size=300)
        inlier, scores, given = partial(row_scores_of, mixture, ALL)(Block(x, 0, w)).table.T
        np.testing.assert_allclose(inlier, 1.0)
        np.testing.assert_allclose(scores, mixture.main_component.density.score(x), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(given, w)

    def test_reweighted_rows_are_found_by_their_place_in_the_table(self):
        x = MODEL.sample(400, random_state=0)
        weights = np.random.default_rng(0).random(400)
        ask = partial(reweighted_moments, ASK, weights)
        merged = ask(Block(x[:150], 0)).merge(ask(Block(x[150:], 150)))
        direct = ASK(Block(x, 0, weights))
        np.testing.assert_allclose(merged._about(direct.origin).cross, direct.cross, rtol=1e-10)
        times = ask(Block(x, 0, np.full(400, 2.0)))
        assert times.weight == pytest.approx(2.0 * weights.sum())

    @pytest.mark.parametrize(("weights", "given"), [(0.0, 1.0), (1.0, 0.0)])
    def test_a_block_of_outliers_or_absent_rows_only(self, weights, given):
        x = np.vstack([MODEL.sample(200, random_state=0), np.full((5, 3), 1e9)])
        ask = partial(reweighted_moments, ASK, np.repeat([1.0, weights], [200, 5]))
        merged = ask(Block(x[:200], 0, np.ones(200))).merge(ask(Block(x[200:], 200, np.full(5, given))))
        direct = ASK(Block(x[:200]))
        np.testing.assert_allclose(merged._about(direct.origin).cross, direct.cross, rtol=1e-6)


class TestReweight:
    def test_a_clean_table_keeps_its_record(self):
        x = MODEL.sample(3000, random_state=0)
        record, weights, downweighted, _, rounds = refit(evidence(x), one_component(x), x).reweight()
        assert (downweighted, rounds) == (0.0, 0)
        np.testing.assert_allclose(weights, 1.0)
        whole = ASK(Block(x))
        np.testing.assert_allclose(record._about(whole.origin).cross, whole.cross, rtol=1e-9)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_rows_that_nobody_explains_lose_their_weight(self, weighted):
        x = MODEL.sample(3000, random_state=0)
        x[:40] = 8.0 + np.random.default_rng(0).random((40, 3)) * 30.0
        mixture = one_component(x[40:])
        given = np.random.default_rng(1).gamma(2.0, 0.5, 3000) if weighted else None
        record, weights, downweighted, p_value, _ = refit(evidence(x, given), mixture, x).reweight()
        np.testing.assert_array_equal(weights[:40], 0.0)
        assert downweighted == np.mean(weights < 0.5)
        assert 0.0 < p_value < 0.05
        assert weights[40:].mean() > 0.95
        stages = learn_record(record, ASSUMPTIONS)
        oracle = RectifiedGaussianLearner().fit(x[40:], sample_weight=None if given is None else given[40:])
        # The cut takes a few inlier rows, which are completed: a fraction of a standard error.
        assert (np.abs(stages.rows.mean - oracle.mean_) < 0.5 * oracle.mean_stderr_).all()
        assert (np.abs(stages.rows.std - oracle.std_) < 0.7 * oracle.std_stderr_).all()

    def test_blocks_do_not_matter(self):
        x = MODEL.sample(2000, random_state=0)
        x[:40] = 30.0
        mixture = one_component(x[40:])
        results = [refit(evidence(x, block_rows=rows), mixture, x).reweight() for rows in (2000, 333)]
        np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-10)
        np.testing.assert_allclose(results[1][0].weight, results[0][0].weight, rtol=1e-10)
