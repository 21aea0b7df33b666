"""The picture of a completed table: every row counted, filled cells distinguished, readable whatever the values."""

from __future__ import annotations

import numpy as np
import pytest

import unrelu
from unrelu.margins import Log
from unrelu.posterior.cells import Cells
from unrelu.report.imputation import bin_edges, filled_columns, imputation_picture
from unrelu.report.pictures import rendered


def columns_of(d: int = 3, n: int = 400, **parts):
    mean = np.linspace(-0.5, 1.0, d)
    model = unrelu.RectifiedGaussian(mean, 0.5 + 0.5 * np.eye(d), **parts)
    cells = Cells.of(model, model.sample(n, random_state=1))
    return model, cells, filled_columns(model, cells, model.impute(cells.given))


def test_the_columns_with_most_hidden_cells_come_first():
    _, _, columns = columns_of(9)
    shares = [filled.mean() for _, _, filled, *_ in columns]
    assert len(columns) == 6
    assert shares == sorted(shares, reverse=True)
    name, _, _, limits, _ = columns[0]
    assert name == "x0"
    assert limits.tolist() == [0.0]


@pytest.mark.parametrize("d", [1, 2, 4, 6])
def test_every_row_is_counted(d):
    _, _, columns = columns_of(d)
    figure = imputation_picture(columns, 400, "means")
    for axes, (_, _, filled, *_) in zip(figure.axes, columns, strict=False):
        both, seen, distribution = (patch.get_data() for patch in axes.patches)
        assert both.values.sum() == 400
        assert (both.values - seen.values).sum() == filled.sum()
        assert seen.values[seen.edges[1:] <= 0.0].sum() == 0  # a bin starts at the floor
        assert 0.0 < distribution.values.sum() <= 400.0
    assert rendered(figure).startswith(b"\x89PNG")


def test_the_distribution_is_that_of_the_uncut_column():
    model = unrelu.RectifiedGaussian([0.0], [[1.0]], 0.5, margins=(Log(),))
    cells = Cells.of(model, model.sample(300, random_state=1))
    ((*_, below),) = filled_columns(model, cells, model.impute(cells.given))
    np.testing.assert_allclose(below(np.array([np.exp(-1.0), 1.0])), [0.158655, 0.5], atol=1e-6)


def test_wide_positive_values_have_a_logarithmic_axis():
    model = unrelu.RectifiedGaussian([0.0, 0.0], [[4.0, 1.0], [1.0, 4.0]], 0.5, margins=(Log(), Log()))
    cells = Cells.of(model, model.sample(500, random_state=1))
    figure = imputation_picture(filled_columns(model, cells, model.impute(cells.given)), 500, "means")
    assert figure.axes[0].get_xscale() == "log"
    edges = figure.axes[0].patches[0].get_data().edges
    assert np.min(np.abs(edges - 0.5)) < 1e-9


def test_extreme_columns_are_drawn():
    assert len(bin_edges(np.array([2.0, 2.0]), np.empty(0))) == 2
    assert "nothing was filled in" in imputation_picture([], 10, "means").get_suptitle()
    model = unrelu.RectifiedGaussian([1.0, 2.0], [[1.0, 0.0], [0.0, 0.0]])
    cells = Cells.of(model, [[0.0, np.nan], [np.nan, 2.0], [np.nan, np.nan]])
    columns = filled_columns(model, cells, model.impute(cells.given))
    assert rendered(imputation_picture(columns, 3, "means"))
