"""Columns as seen and before the floor, against many rows."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.errors import InvalidParameterError
from unrelu.margins import Log, Normal
from unrelu.model import RectifiedGaussian


def test_the_summary_before_the_floor_is_that_of_uncut_rows():
    """Detection limits hide values, and a floor of 0 is one: the distribution is told, and is that of many rows."""
    covariance = np.diag([1.0, 4.0, 1.0, 0.25])
    model = RectifiedGaussian(
        [0.3, -1.0, 1.0, 0.0], covariance, [1.0, 0.0, -np.inf, -0.2], margins=[Log(), *[Normal()] * 3]
    )
    rows = np.random.default_rng(0).normal(model.mean, np.sqrt(np.diagonal(covariance)), (400_000, 4))
    rows[:, 0] = np.exp(rows[:, 0])
    assert [row["distribution"] for row in model.column_summary()] == [
        "before the floor",
        "as seen",
        *["before the floor"] * 2,
    ]
    for j, row in enumerate(model.column_summary()):
        x = np.maximum(rows[:, j], 0.0) if row["distribution"] == "as seen" else rows[:, j]
        error = x.std() / np.sqrt(len(x))
        assert abs(row["mean"] - x.mean()) < 4.0 * error + 1e-3 * (j == 1)  # that is from 10,000 points
        assert row["share_floored"] == pytest.approx(np.mean(rows[:, j] <= model.floor[j]), abs=0.004)
        found = [row["lower_quartile"], row["median"], row["upper_quartile"]]
        np.testing.assert_allclose(found, np.quantile(x, [0.25, 0.5, 0.75]), atol=8.0 * error)
    both = model.column_summary(below="latent")
    assert both[0] == model.column_summary()[0]
    assert (both[1]["mean"], both[1]["std"]) == (-1.0, 2.0)


def test_an_unknown_distribution_is_refused():
    with pytest.raises(InvalidParameterError, match="Did you mean 'floor'"):
        RectifiedGaussian([0.0], [[1.0]]).column_summary(below="flor")
