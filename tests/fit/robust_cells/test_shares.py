"""Shares of bad cells and outlier rows, while the densities stand: near the truth, and none where there are none."""

from dataclasses import replace

import numpy as np
import pytest

import unrelu
from unrelu.fit.robust_cells.cell_model import CellModel, update_shares


@pytest.fixture(scope="module")
def setting():
    model = unrelu.RectifiedGaussian(np.full(4, 4.0), np.full((4, 4), 0.5) + 0.5 * np.eye(4))
    distribution = replace(CellModel.of_model(model), row_share=0.02)
    n_bins = distribution.background.n_bins
    return model, distribution, np.ones(n_bins, dtype=bool)


def test_shares_of_bad_cells_and_rows_are_found(setting):
    model, distribution, bins = setting
    rng = np.random.default_rng(0)
    x = model.sample(3000, random_state=1)
    bad = rng.random(x.shape) < [0.0, 0.02, 0.05, 0.1]
    x = np.where(bad, x + 7.0, x)
    x[:150] = rng.uniform(0.0, 30.0, (150, 4))
    for _ in range(5):
        distribution = update_shares(distribution, distribution.densities(x), x, np.ones(3000), bins)
    np.testing.assert_allclose(distribution.bad_by_column, [0.0, 0.02, 0.05, 0.1], atol=0.01)
    assert distribution.row_share == pytest.approx(0.05, abs=0.01)


def test_a_clean_table_has_none(setting):
    model, distribution, bins = setting
    x = model.sample(3000, random_state=2)
    found = update_shares(distribution, distribution.densities(x), x, np.ones(3000), bins)
    assert found.bad_by_column.max() < 1e-4
    assert found.row_share == 0.0


def test_bins_that_are_not_allowed_stay_empty(setting):
    model, distribution, bins = setting
    x = model.sample(1000, random_state=3)
    x[:100, 0] += 6.0
    closed = distribution.background.columns != 0
    found = update_shares(distribution, distribution.densities(x), x, np.ones(1000), closed, rows=False)
    assert found.bad_by_column[0] < 1e-4
    assert update_shares(distribution, distribution.densities(x), x, np.ones(1000), bins).bad_by_column[0] > 0.08
