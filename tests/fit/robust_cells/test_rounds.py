"""One pass: the same record and verdicts however the rows are cut."""

from functools import partial, reduce

import numpy as np
import pytest

import unrelu
from unrelu.contracts import Block
from unrelu.fit.robust_cells.cell_model import CellModel
from unrelu.fit.robust_cells.learn import MOST_LISTED, sum_cells
from unrelu.passes.pair_moments import PairMomentsQuestion


@pytest.fixture(scope="module")
def case():
    model = unrelu.synthetic.random_model(4, condition_number=10.0, random_state=0)
    x = model.sample(900, random_state=1)
    x[::40, 2] += 9.0
    x[5, 1] = np.nan
    return x, partial(sum_cells, CellModel.of_model(model), PairMomentsQuestion((0.0,) * 4, (0.0,) * 4), True)


def test_parts_merge_to_the_whole(case):
    x, question = case
    whole = question(Block(x))
    parts = [question(Block(x[start : start + 130], start)) for start in range(0, 900, 130)]
    joined = reduce(lambda one, other: one.merge(other), parts)
    for mine, others in zip(whole.tables, joined.tables, strict=True):
        np.testing.assert_array_equal(mine, others)
    assert whole.most_outlying == joined.most_outlying
    np.testing.assert_array_equal(whole.n_bad, joined.n_bad)
    bad = whole.tables[0] < 0.5
    np.testing.assert_array_equal(whole.n_bad, [bad.sum(axis=0), (bad & (x > 0.0)).sum(axis=0)])
    assert len(whole.most_outlying) == MOST_LISTED
    one, other = whole.record._about(np.ones(4)), joined.record._about(np.ones(4))
    np.testing.assert_allclose(one.cross, other.cross, rtol=1e-12)
    assert one.n_rows == other.n_rows == 900


def test_missing_cells_weigh_nothing_and_are_inliers(case):
    x, question = case
    answer = question(Block(x))
    assert answer.tables[0][5, 1] == 1.0
    assert answer.record.observed.count[1, 1] < 899.0
