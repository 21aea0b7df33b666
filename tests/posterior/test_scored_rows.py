"""One pass that gives every row its number, and the learner's log densities that come from it."""

from functools import partial

import numpy as np
import pytest

from tests.references.mixture import log_density
from tests.references.row_density import exact_log_density
from tests.warned import warns
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, RectifiedGaussianMixture
from unrelu.contracts import Assumptions, Block
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_rows.mixture import GaussianComponent, Mixture, Setting
from unrelu.posterior.density import block_scores, scored_rows
from unrelu.tables import ArraySamples

SCALE = np.array([1.0, 4.0, 0.5])
FLOORS = Assumptions((0.0,) * 3)
MODEL = RectifiedGaussian([0.4, 2.0, 0.2], np.outer(SCALE, SCALE) * (0.4 + 0.6 * np.eye(3)))


@pytest.fixture(scope="module")
def table():
    return MODEL.sample(3000, random_state=0)


@pytest.fixture(scope="module")
def learner(table):
    return RectifiedGaussianLearner().fit(table)


# --- the pass -------------------------------------------------------------------------------------


def test_numbers_come_in_table_order_whatever_the_blocks(table):
    expected = table.sum(axis=1)
    for rows in (1, 999, 3000):
        samples = ArraySamples(table, block_rows=rows)
        np.testing.assert_array_equal(scored_rows(samples, lambda x: x.sum(axis=1), FLOORS), expected)
    question = partial(block_scores, lambda x: x[:, :2], (0.0,) * 3, ())
    parts = [question(Block(table[a:b], a)) for a, b in ((0, 5), (5, 9))]
    np.testing.assert_array_equal(parts[1].merge(parts[0]).scores, table[:9, :2])


def test_cells_out_of_place_are_named_and_nothing_is_computed_from_them(table):
    bad = table[:20].copy()
    bad[13, 1] = -1.0

    def score(values):
        assert values.min() >= 0.0
        return values.sum(axis=1)

    with pytest.raises(InvalidDataError, match=r"column 1 \('Pb'\) \(1, first in row 13 \(the first is 0\)\)"):
        scored_rows(ArraySamples(bad, feature_names=["As", "Pb", "Cd"], block_rows=7), score, FLOORS)


def test_rows_of_weight_zero_are_as_good_as_absent(table):
    bad, weights = table[:5].copy(), np.array([1.0, 0.0, 2.0, 1.0, 1.0])
    bad[1] = [np.inf, -3.0, 1.0]
    found = scored_rows(ArraySamples(bad, weights), lambda x: np.isnan(x).sum(axis=1), FLOORS)
    np.testing.assert_array_equal(found, [0, 3, 0, 0, 0])


# --- the learner's densities ----------------------------------------------------------------------


def test_the_learners_densities_are_those_of_the_dense_reference(learner, table):
    """With at most one cell at the floor the kernel is exact; a ridge of 1e-8 is all it adds."""
    rows = table[np.count_nonzero(table == 0.0, axis=1) < 2][:200]
    expected = log_density(rows, learner.mean_, learner.covariance_)
    np.testing.assert_allclose(learner.score_samples(rows), expected, atol=1e-6)
    assert learner.score(rows) == pytest.approx(expected.mean(), abs=1e-6)


def test_missing_cells_are_integrated_over(learner, table):
    holes = table[:60].copy()
    holes[::2, 0], holes[::3, 2] = np.nan, np.nan
    holes = holes[np.count_nonzero(holes == 0.0, axis=1) < 2]
    model = learner.distribution_
    # The reference is per unit of scale: in the units of the table every seen cell has 1 / scale.
    expected = [
        exact_log_density(row, model.mean, model.std, model.correlation, model.floor)
        - np.log(model.std)[row > 0.0].sum()
        for row in holes
    ]
    np.testing.assert_allclose(learner.score_samples(holes), expected, atol=1e-6)
    assert learner.score_samples(np.full((1, 3), np.nan))[0] == pytest.approx(0.0, abs=1e-12)


def test_the_density_is_that_of_a_mixture_of_one(learner, table):
    setting = Setting(Assumptions((0.0,) * 3), None)
    one = GaussianComponent(setting, learner.mean_, learner.std_, learner.correlation_)
    density = Mixture((one,), np.ones(1)).posterior(table)[1]
    floored, scores = np.count_nonzero(table <= 0.0, axis=1), learner.score_samples(table)
    np.testing.assert_allclose(scores[floored <= 1], density[floored <= 1], rtol=1e-12)
    # The mixture takes floored cells one after the other, which is good to .005 a cell here.
    assert (np.abs(scores - density) <= 0.005 * floored + 1e-9).all()
    mixture = RectifiedGaussianMixture(1).fit(table)
    # Its correlations are shrunken by their sampling error, and a prior is worth one row of 3,000.
    assert mixture.score(table) == pytest.approx(learner.score(table), abs=1e-3)


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_tolerance_and_floor_reach_the_density(table, shift):
    x = np.where(table > 0.1, table, np.random.default_rng(0).uniform(-0.1, 0.1, table.shape)) + shift
    learner = RectifiedGaussianLearner(floor=shift, floor_tolerance=0.1).fit(x)
    rows = np.where(table > 0.1, table, 0.0) + shift
    np.testing.assert_array_equal(learner.score_samples(x), learner.score_samples(rows))
    few = rows[np.count_nonzero(rows == shift, axis=1) == 1][:50]
    lifted = np.maximum(few, shift + 0.1)  # a floored cell says that y is below floor + tolerance
    expected = log_density(lifted, learner.mean_, learner.covariance_, shift + 0.1)
    np.testing.assert_allclose(learner.score_samples(few), expected, atol=1e-6)
    with pytest.raises(InvalidDataError, match="below the floor"):
        learner.score(rows - 0.2)


def test_constant_columns_have_a_probability_and_no_density(learner, table):
    with warns("constant-column"):
        wide = RectifiedGaussianLearner().fit(np.c_[table, np.full(len(table), 7.0)])
    rows = np.c_[table[:4], [7.0, 7.0, np.nan, 6.0]]
    gap = wide.score_samples(rows) - learner.score_samples(table[:4])
    np.testing.assert_allclose(gap, [0.0, 0.0, 0.0, -1e4], atol=1e-6)


def test_rows_in_blocks_and_other_types(learner, table):
    whole = learner.score_samples(table)
    np.testing.assert_allclose(learner.score_samples(ArraySamples(table, block_rows=17)), whole, rtol=1e-12)
    np.testing.assert_allclose(learner.score_samples(table.astype(np.float32)), whole, atol=1e-4)
    with pytest.raises(ValueError, match="2 features"):
        learner.score(table[:, :2])
