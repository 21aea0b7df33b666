"""Quantiles of the worst columns: those of the table and of the fitted normal, in the table's units."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from unrelu import RectifiedGaussianLearner
from unrelu.report.check import worst_columns
from unrelu.tables import ArraySamples, joined


def columns_of(X: np.ndarray, most: int = 5, **parameters: object) -> tuple[RectifiedGaussianLearner, list]:
    learner = RectifiedGaussianLearner(**{"margins": "normal", **parameters}).fit(X)
    return learner, worst_columns(learner, ArraySamples(X), most)


@pytest.mark.filterwarnings("ignore::unrelu.errors.AssumptionWarning", "ignore:Constant")
def test_the_skewed_columns_come_first():
    rng = np.random.default_rng(0)
    X = rng.normal(0.3, 1.0, (1000, 6))
    X[:, 4] = np.exp(X[:, 4]) - 1.0
    X[:, 1] = 2.0 - np.exp(0.5 * X[:, 1])
    X[:, 2] = 7.0  # constant: nothing to draw
    _, worst = columns_of(np.maximum(X, 0.0))
    assert {column["name"] for column in worst[:2]} == {"x4", "x1"}
    assert "x2" not in {column["name"] for column in worst}
    assert len(worst) == 5
    assert {column["name"]: np.sign(column["z"]) for column in worst[:2]} == {"x4": 1.0, "x1": -1.0}


def test_points_against_a_plain_computation():
    rng = np.random.default_rng(1)
    x = np.maximum(rng.normal(0.0, 1.0, 400), 0.2)
    x[:7] = np.nan
    learner, (column,) = columns_of(x[:, None], floor=0.2)
    ordered = np.sort(x[7:])
    assert column["floor"] == 0.2
    assert column["seen"][-1] == ordered[-1]
    assert (column["seen"] > 0.2).all()
    rank = np.searchsorted(ordered, column["seen"])
    fitted = norm.ppf((rank + 0.5) / 393, learner.mean_[0], learner.std_[0])
    np.testing.assert_allclose(column["fitted"], np.maximum(fitted, 0.2), rtol=1e-12)
    # The band by simulation: of the largest of 393 values, the 0.5 % and 99.5 % quantiles.
    largest = norm.ppf(rng.beta(393, 1, 200_000), learner.mean_[0], learner.std_[0])
    np.testing.assert_allclose([column["low"][-1], column["high"][-1]], np.quantile(largest, [0.005, 0.995]), rtol=0.02)


def test_a_ceiling_is_a_floor_negated():
    x = np.maximum(np.random.default_rng(2).normal(0.0, 1.0, (500, 1)), -0.3)
    _, (low,) = columns_of(x, floor=-0.3)
    _, (high,) = columns_of(-x, ceiling=0.3)
    assert (high["floor"], high["ceiling"]) == (None, 0.3)
    for name, other in (("seen", "seen"), ("fitted", "fitted"), ("low", "high"), ("high", "low")):
        np.testing.assert_allclose(high[name], -low[other][::-1], rtol=1e-9)
    assert high["z"] == pytest.approx(-low["z"])


def test_rows_that_a_robust_fit_left_out_are_not_drawn():
    rng = np.random.default_rng(3)
    X = np.maximum(rng.normal(0.5, 1.0, (300, 2)), 0.0)
    X[:30] += 20.0
    _, worst = columns_of(X, method="robust")
    assert max(column["seen"][-1] for column in worst) < 10.0


def test_floors_match_up_to_the_rounding_of_the_table():
    x = np.maximum(np.random.default_rng(4).normal(0.3, 1.0, (300, 1)), 0.1).astype(np.float32)
    _, (column,) = columns_of(x, floor=0.1)
    assert column["seen"][0] > np.float32(0.1)


def test_columns_with_margins_are_in_the_tables_units():
    """A log margin gives the quantiles of a fit to logarithms, taken back."""
    x = np.maximum(np.random.default_rng(5).normal(0.0, 1.0, (400, 2)), [-0.3, -0.5])
    _, plain = columns_of(x, floor=[-0.3, -0.5])
    _, with_margins = columns_of(np.exp(x), floor=np.exp([-0.3, -0.5]), margins="log")
    assert [column["margin"] for column in with_margins] == ["log", "log"]
    for one, other in zip(plain, with_margins, strict=True):
        for name in ("seen", "fitted", "low", "high"):
            np.testing.assert_allclose(other[name], np.exp(one[name]), rtol=1e-9)
        assert other["floor"] == pytest.approx(np.exp(one["floor"]))
        assert other["z"] == pytest.approx(one["z"], abs=1e-9)


def test_a_margin_under_a_ceiling():
    x = np.minimum(np.exp(np.random.default_rng(6).normal(0.0, 1.0, (400, 1))), 2.0)
    _, (column,) = columns_of(x, ceiling=2.0, margins="log")
    assert (column["floor"], column["ceiling"]) == (None, 2.0)
    assert column["seen"][0] == pytest.approx(x.min())
    assert column["seen"][-1] < 2.0
    np.testing.assert_array_less(column["low"], column["high"])


def test_columns_whose_cells_have_limits_are_left_out():
    """They have no order statistics."""
    X = np.maximum(np.random.default_rng(4).normal(0.3, 1.0, (300, 2)), 0.0)
    learner = RectifiedGaussianLearner().fit(X)
    samples = joined([X], floor=[np.where([[True, False]], X, np.nan)])
    assert [column["name"] for column in worst_columns(learner, samples)] == ["x1"]
